"""The command line ``dpsco``: `main` runs a command, `parser` knows them all.

Each command is a file of its name that parses, calls the library and prints: `demo`, `schema`,
`plan`, `recommend`, `rounds`, `solvers`, `fit`, `predict`, `evaluate`, `verify`, `report`,
`ledger`. What several of them share, in the order of reading:

| module            | holds                                                                    |
|-------------------|--------------------------------------------------------------------------|
| entry             | `parser`; `main`: errors become one line and an exit code                |
| session           | what a command has begun, which `main` reports if the command fails      |
| arguments         | arguments that several commands share                                    |
| config            | a model, a budget and a plan from options; errors in the words of flags  |
| outputs, progress | files that appear all together or not at all; a bar on a terminal        |
| model_file        | model files and certificates as they come from others                    |
| number_rows       | rows of plain numbers, for models without a schema                       |
| schema_check      | what of a table lies outside its schema                                  |
| demo_fit          | the fit of ``demo`` on the messages in ``demo_data/``                    |

Importing it loads nothing heavy: what a command needs is imported when it runs.
"""

from .entry import main, parser

__all__ = ["main", "parser"]
