"""Geometry of the weights: norms, domains, mirror maps and Gaussian widths.

Everything here is public: it depends on the problem, never on private rows. Read `norms`, then
`domains/base` and one domain, then `mirror`; `width` holds constants of theorems.
"""

from .domains import (
    Box,
    Domain,
    Ellipsoid,
    Intersection,
    L1Ball,
    L2Ball,
    LInfBall,
    LpBall,
    Polytope,
    Simplex,
    WholeSpace,
)
from .mirror import Entropy, MirrorMap, PNormMap, Regularity
from .norms import L1, L2, LINF, GroupNorm, Lp, Norm, WeightedLp, equivalence, operator_norm
from .width import (
    Width,
    box_width,
    dual_norm_bound,
    l1_ball_width,
    l2_ball_width,
    lp_ball_width,
    monte_carlo_width,
    simplex_width,
)

__all__ = [
    # norms
    "Norm",
    "Lp",
    "WeightedLp",
    "GroupNorm",
    "L1",
    "L2",
    "LINF",
    "equivalence",
    "operator_norm",
    "Regularity",
    # domains
    "Domain",
    "WholeSpace",
    "LpBall",
    "L1Ball",
    "L2Ball",
    "LInfBall",
    "Simplex",
    "Box",
    "Ellipsoid",
    "Polytope",
    "Intersection",
    # mirror maps
    "MirrorMap",
    "PNormMap",
    "Entropy",
    # Gaussian widths
    "Width",
    "l1_ball_width",
    "l2_ball_width",
    "lp_ball_width",
    "box_width",
    "simplex_width",
    "dual_norm_bound",
    "monte_carlo_width",
]
