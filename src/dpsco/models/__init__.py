"""Linear models by name: what they minimise, how they predict, and the file that holds them.

| module | holds                                                                   |
|--------|-------------------------------------------------------------------------|
| kinds  | `MODELS`: the models by name, each with its loss and its settings        |
| setup  | `ModelConfig`: everything public about a model, before any row is read        |
| linear | `LinearModel`: coefficients that predict                                |
| file   | `SavedModel`: a model with its certificate and schema, as a JSON file   |
"""

from .config import ModelConfig, configure
from .file import SavedModel
from .linear import LinearModel
from .spec import MODELS, ModelSpec

__all__ = ["MODELS", "ModelSpec", "LinearModel", "SavedModel", "ModelConfig", "configure"]
