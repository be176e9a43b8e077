"""Ready-made hard problems: their best weights and their risk are known exactly.

Lower bounds are proved on such problems, so they show what a solver can be expected to do, and
what would be too good to be private. Read `hard` (what a hard problem is), then `moments`
(gradients of which a moment is bounded, and nothing else).
"""

from .hard import HardProblem
from .moments import (
    linear_private,
    linear_statistical,
    quadratic_private,
    quadratic_statistical,
)

__all__ = [
    "HardProblem",
    "linear_private",
    "linear_statistical",
    "quadratic_private",
    "quadratic_statistical",
]
