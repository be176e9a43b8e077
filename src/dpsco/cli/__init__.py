"""The command line ``dpsco``: `main` runs a command, `parser` knows them all.

Each command is a file of its name that parses, calls the library and prints: `demo`, `schema`,
`shuffle`, `plan`, `recommend`, `rounds`, `solvers`, `fit`, `predict`, `evaluate`, `verify`,
`report`, `odometer`, `federated` (with `federated_serve` and `federated_join`), `ui`, `completion`.
What several of them share, in the order of reading:

| module            | holds                                                                    |
|-------------------|--------------------------------------------------------------------------|
| entry             | `parser`; `main`: errors become one line and an exit code                |
| session           | what a command has begun, which `main` reports if the command fails      |
| terminal          | colours and tables for people, on a terminal alone                       |
| arguments         | arguments that several commands share                                    |
| config            | a model, a budget and a plan from options; errors in the words of flags  |
| outputs, progress | files that appear all together or not at all; a bar on a terminal        |
| model_file        | model files and certificates as they come from others                    |
| number_rows       | rows of plain numbers, for models without a schema                       |
| schema_check      | what of a table lies outside its schema                                  |
| tradeoff          | `plan` with several epsilons: accuracy and attacks by budget             |
| demo_fit          | the fit of ``demo`` on the messages in ``demo_data/``                    |
| demo_repeats      | the same for several budgets, repeated, with uncertainties               |

Importing it loads nothing heavy: what a command needs is imported when it runs.
"""

from .entry import main, parser

__all__ = ["main", "parser"]
