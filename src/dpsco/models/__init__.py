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
| file           | `SavedModel`: a model with its certificate, plan and schema, as a JSON file |
| evaluate       | `measure`, `measure_privately`: how well a model predicts                   |
"""

from .config import ModelConfig, configure, configure_for
from .evaluate import Metrics, measure, measure_privately
from .file import SavedModel
from .linear import LinearModel
from .plan import ModelPlan, plan_model
from .spec import MODELS, ModelSpec

__all__ = [
    "MODELS",
    "LinearModel",
    "Metrics",
    "ModelConfig",
    "ModelPlan",
    "ModelSpec",
    "SavedModel",
    "configure",
    "configure_for",
    "measure",
    "measure_privately",
    "plan_model",
]
