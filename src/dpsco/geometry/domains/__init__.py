"""Domains of weights: whole space, balls, simplex, box, ellipsoid, polytope, intersection.

`base` says what a domain offers; each shape is a file. `extents` holds how large simple sets are
in a norm.
"""

from .balls import L1Ball, L2Ball, LInfBall, LpBall
from .base import MAX_VERTEX_ENTRIES, Domain
from .box import Box
from .ellipsoid import Ellipsoid
from .intersection import Intersection
from .polytope import Polytope
from .simplex import Simplex
from .whole import WholeSpace

__all__ = [
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
    "MAX_VERTEX_ENTRIES",
]
