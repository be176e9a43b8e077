"""Linear models by name: what they minimise, how they are planned, how they predict, and how well.

In the order of reading:

| module         | holds                                                                       |
|----------------|-----------------------------------------------------------------------------|
| spec           | `MODELS`: the models by name, each with its loss and its settings           |
| config         | `ModelConfig`: everything public about a model; it travels in the plan      |
| linear         | `LinearModel`: coefficients that predict                                    |
| plan           | `plan_model`: the plan of a model's fit, with a count of the rows or without |
| shared_budget  | `SharedPlan`: a fit and a small release before it, as the next three need   |
| columns        | columns that are chosen privately before a fit, out of the same budget      |
| row_counts     | the count of rows beside a fit, out of the same budget                      |
| unit_rules     | when units of rows are found, which ones, and for how much                  |
| units/         | units that are found: a part of the budget says how rows are measured       |
| rehearsal      | `rehearse`: fits on public or made-up rows, which cost nothing              |
| provenance     | `Provenance`: what a fit is for and who answers for it, as people have said |
| table_units    | coefficients in the units of a table                                        |
| file           | `SavedModel`: a model with its certificate, plan and schema, as a JSON file |
| weights        | weights by the names of their columns, with the noise that is in them       |
| tables         | plans of tables with a schema: the same facts make the same file              |
| evaluate       | `measure`, `measure_privately`: how well a model predicts                   |
| scoring        | the same of rows that workers of a cluster read, and their predictions      |
| diagnostics    | what figures of a model on public rows show, with their uncertainty         |
"""

from .config import ModelConfig, configure, configure_for
from .diagnostics import Diagnostics, diagnose
from .evaluate import Metrics, measure, measure_privately, measure_table
from .file import SavedModel
from .linear import LinearModel
from .plan import ModelPlan, plan_model
from .provenance import Provenance
from .rehearsal import rehearse
from .spec import MODELS, ModelSpec
from .table_units import TableCoefficients
from .weights import Weight, Weights, named_weights

__all__ = [
    "MODELS",
    "Diagnostics",
    "LinearModel",
    "Metrics",
    "ModelConfig",
    "ModelPlan",
    "ModelSpec",
    "Provenance",
    "SavedModel",
    "Weight",
    "Weights",
    "TableCoefficients",
    "configure",
    "configure_for",
    "diagnose",
    "measure",
    "measure_privately",
    "named_weights",
    "measure_table",
    "plan_model",
    "rehearse",
]
