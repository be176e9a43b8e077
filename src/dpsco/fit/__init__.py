"""The path of a fit, from a task to a result.

Read `run` (plan and run: the one path of every fit), `choose` (which solver ``"auto"`` takes, and
what is predicted of one), `outlook` (what to expect before anything is paid), `forecast` (what
fewer rounds of a single epoch cost), `checkpoint` (what brings a run over a crash), then `resample`
(empirical risk by a solver for population risk).
"""
