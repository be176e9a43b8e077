"""Linear models by name: what they minimise, how they predict, and the file that holds them.

| module | holds                                                                   |
|--------|-------------------------------------------------------------------------|
| kinds  | `KINDS`: the models by name, each with its loss and its settings        |
| setup  | `Setup`: everything public about a model, before any row is read        |
| linear | `LinearModel`: coefficients that predict                                |
| file   | `SavedModel`: a model with its certificate and schema, as a JSON file   |
"""

from .config import Setup, setup_for
from .file import SavedModel
from .linear import LinearModel
from .spec import KINDS, Kind

__all__ = ["KINDS", "Kind", "LinearModel", "SavedModel", "Setup", "setup_for"]
