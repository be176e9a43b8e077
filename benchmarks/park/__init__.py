"""Untuned fits on a folder of tables, beside a peer tuned in hindsight: ``make bench-park``.

Read `tables` (files, splits, halves, scores), `reference` (what no privacy and a constant lose),
`peer` (full-batch noisy gradient descent, tuned for free), `judge` (one JSON line per fit), then
`summary` (what the lines say).
"""
