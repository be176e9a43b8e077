"""The command line ``dpsco``: `main` runs a command, `parser` knows them all.

| module              | holds                                                                |
|---------------------|----------------------------------------------------------------------|
| entry, commands     | `main`: errors become one line and an exit code; `parser`            |
| arguments           | arguments that several commands share                                |
| planning            | ``plan``, ``recommend``, ``solvers``: before any data                |
| fitting             | ``fit``                                                              |
| using               | ``predict``, ``evaluate``                                            |
| checking            | ``verify``, ``report``, ``demo``                                     |
| schemas, ledgers    | ``schema draft|check``, ``ledger create|show``                       |
| request             | what was asked for, as a model's setup, a budget and a plan          |
| modelfile           | model files and certificates as they come from others                |
| tables, tally       | rows of files; how many entries lie outside a schema                 |
| metrics             | how well a model predicts, with or without noise                     |
| outputs, progress   | files that appear all together or not at all; a bar on a terminal    |

Importing it loads nothing heavy: what a command needs is imported when it runs.
"""

from .commands import parser
from .entry import main

__all__ = ["main", "parser"]
