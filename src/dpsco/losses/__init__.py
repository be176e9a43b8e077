"""Losses with their exact constants, Moreau smoothing, and penalties with their prox.

| module                                       | holds                                            |
|----------------------------------------------|--------------------------------------------------|
| base                                         | `MarginLoss`, what every loss of a margin offers |
| logistic, hinge                              | convex losses of a sign                          |
| squared, power, quantile, insensitive, huber | convex losses of a residual                      |
| poisson                                      | the convex loss of a count                       |
| nonconvex                                    | bounded and weakly convex losses                 |
| smoothing                                    | the Moreau envelope of a loss, as a loss         |
| custom, per_row, grid_checks, guarded        | a user's own losses, checked and contained       |
| vector, one_versus_rest                      | losses that are no function of one margin        |
| penalties, constraints                       | penalties on the weights, with or without a set  |
| prox, pieces                                 | the prox of any scalar loss; shared formulas     |
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
