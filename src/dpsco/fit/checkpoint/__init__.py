"""Runs that survive a crash, for every solver that the engine carries out.

Read `checkpoint` (`Checkpoint`: what is kept when, who pays, why no noise is used twice;
`NoCheckpoint`: the same run without a file), `file` (the SQLite file and what its cells hold),
`lock` (a file that one process holds).
"""
