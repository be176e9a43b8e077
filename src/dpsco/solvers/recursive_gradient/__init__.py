"""Few-round solvers on recursive gradients: one noisy sum per batch, accelerated or not."""

from .schedule import SOLVERS as SOLVERS
