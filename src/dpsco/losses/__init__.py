"""Losses of a generalized linear model with their exact constants, and penalties.

| module                                         | holds                                            |
|------------------------------------------------|--------------------------------------------------|
| base                                           | `MarginLoss`, what every scalar loss offers      |
| logistic, hinge                                | convex losses of a sign                          |
| squared, power, quantile, insensitive, huber   | convex losses of a residual                      |
| poisson                                        | the convex loss of a count                       |
| prox, pieces                                   | the prox of any scalar loss; shared formulas     |
"""

from .base import Constants, Hoelder, MarginLoss
from .hinge import Hinge, ModifiedHuber, QHinge, SquaredHinge
from .huber import Huber, PseudoHuber
from .insensitive import Insensitive
from .logistic import Logistic
from .poisson import Poisson
from .power import Absolute, QPower
from .prox import scalar_prox
from .quantile import Pinball
from .squared import Squared

__all__ = [
    # what a loss offers
    "MarginLoss",
    "Constants",
    "Hoelder",
    # of a sign
    "Logistic",
    "Hinge",
    "QHinge",
    "SquaredHinge",
    "ModifiedHuber",
    # of a residual
    "Squared",
    "Absolute",
    "QPower",
    "Pinball",
    "Insensitive",
    "Huber",
    "PseudoHuber",
    # of a count
    "Poisson",
    # tools
    "scalar_prox",
]
