"""Losses with their exact constants, Moreau smoothing, and penalties with their prox.

Read `base`, then one loss (`huber` is a good one); docs/add_loss.md shows how to add another.

| module                        | holds                                                          |
|-------------------------------|----------------------------------------------------------------|
| base                          | `MarginLoss`: what every loss of a margin offers               |
| logistic, hinge               | convex losses of a sign                                        |
| squared, power, quantile      | convex losses of a residual                                    |
| epsilon_insensitive, huber    | more of them                                                   |
| poisson                       | the convex loss of a count                                     |
| nonconvex                     | bounded and weakly convex losses                               |
| pieces                        | formulas that several losses share                             |
| prox                          | the prox of any scalar loss, numerically                       |
| smoothing                     | `Smoothed`: the Moreau envelope of a loss, as a loss           |
| vector, one_versus_rest       | losses that are no function of one margin                      |
| custom, per_row               | a user's own losses; claims are searched for violations        |
| guarded                       | what those share: frozen, errors contained                     |
| penalties, constraints        | penalties on the weights, with or without a set                |

Names are written out below, where editors and type checkers look for them; a test says if one is
missing.
"""

from .base import Constants, Hoelder, MarginLoss
from .constraints import AffineSet, HalfSpace, Within, WithinBall, WithinBox
from .custom import CustomLoss
from .epsilon_insensitive import EpsilonInsensitive
from .hinge import Hinge, ModifiedHuber, QHinge, SquaredHinge
from .huber import Huber, PseudoHuber
from .logistic import Logistic
from .nonconvex import GemanMcClure, PhaseRetrieval, Ramp, Sigmoid, Tukey, Welsch
from .one_versus_rest import OneVersusRest
from .penalties import (
    ElasticNet,
    GroupPenalty,
    Indicator,
    L1Penalty,
    L2Penalty,
    LInfPenalty,
    NoPenalty,
    Penalty,
    SparseGroup,
)
from .per_row import PerRowLoss
from .poisson import Poisson
from .power import Absolute, QPower
from .prox import scalar_prox
from .quantile import Pinball
from .smoothing import Smoothed
from .squared import Squared
from .vector import Softmax, SquaredDistance, VectorLoss

__all__ = [
    # what a loss offers
    "MarginLoss",
    "VectorLoss",
    "Constants",
    "Hoelder",
    # convex, of a sign
    "Logistic",
    "Hinge",
    "QHinge",
    "SquaredHinge",
    "ModifiedHuber",
    # convex, of a residual
    "Squared",
    "Absolute",
    "QPower",
    "Pinball",
    "EpsilonInsensitive",
    "Huber",
    "PseudoHuber",
    # convex, of a count
    "Poisson",
    # not convex
    "Sigmoid",
    "Ramp",
    "Tukey",
    "GemanMcClure",
    "Welsch",
    "PhaseRetrieval",
    # made from other losses, or by the user
    "Smoothed",
    "CustomLoss",
    "PerRowLoss",
    # of whole rows
    "SquaredDistance",
    "Softmax",
    "OneVersusRest",
    # penalties
    "Penalty",
    "NoPenalty",
    "L1Penalty",
    "L2Penalty",
    "ElasticNet",
    "GroupPenalty",
    "SparseGroup",
    "LInfPenalty",
    "Indicator",
    "WithinBall",
    "Within",
    "WithinBox",
    "HalfSpace",
    "AffineSet",
    # tools
    "scalar_prox",
]
