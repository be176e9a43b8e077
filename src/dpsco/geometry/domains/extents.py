"""How large simple sets are in a norm: exact in the library's norms, an upper bound in others."""

from __future__ import annotations

import numpy as np

from ..norms import GroupNorm, Lp, Norm, WeightedLp, equivalence
from .base import Floats

_ABSOLUTE = (Lp, WeightedLp, GroupNorm)
"""Norms of the absolute values, which grow with each of them."""


def box_extent(half: Floats, norm: Norm) -> float:
    """Return the largest norm over {|w_j| <= half_j}.

    A norm of absolute values is largest at ``half``; any other is at most
    sum_j half_j norm(e_j), by the triangle inequality.
    """
    if isinstance(norm, _ABSOLUTE):
        return float(norm(half))
    return float(half @ unit_norms(len(half), norm))


def ball_extent(ball: Lp | WeightedLp, norm: Norm, d: int) -> float:
    """Return the largest norm over the unit ball of an l_p norm, perhaps weighted.

    For a norm that is not the library's: at most ||(norm(e_j) / weights_j)||_q, by the triangle
    inequality and Hölder's.
    """
    if isinstance(norm, _ABSOLUTE):
        return equivalence(ball, norm, d)
    return float(ball.dual(unit_norms(d, norm)))


def unit_norms(d: int, norm: Norm) -> Floats:
    """Return the norms of the unit vectors."""
    if isinstance(norm, Lp):
        return np.ones(d)
    return np.array([float(norm(unit(j, d))) for j in range(d)])


def unit(j: int, d: int) -> Floats:
    """Return the j-th unit vector."""
    vector = np.zeros(d)
    vector[j] = 1.0
    return vector
