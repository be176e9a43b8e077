"""Runs that survive a crash: a file from which a run of rounds continues with the same noise.

Read `checkpoint` (opening, committing a round, finishing), `file` (the tables of the file),
`values` (what its cells hold), `lock` (made for its owner alone, held by one process).
"""
