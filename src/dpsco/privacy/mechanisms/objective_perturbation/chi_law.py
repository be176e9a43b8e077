"""Expectations of convex functions of a chi variable, rounded up.

On a cell [r_i, r_i+1] a convex function lies below its chord, so its expectation is at most the sum
of its values at the edges, each weighted by the expectation of the edge's hat function. Weights are
Gauss-Legendre integrals of the density, smooth on every cell; they are computed once a dimension.
A function that is straight on each cell loses nothing: for (r - r_j)_+ the sum is exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

Array = NDArray[np.float64]

_UP = 1 + 1e-9  # more than quadrature and rounding can take away
_CELLS = 64  # a standard deviation; chords then cost at most 3e-5 of the second derivative
_FAR = 38.0  # beyond sqrt(s) + this the probability is less than the least float
_NEAR = 10.0  # E chi_s > sqrt(s) - 0.03 for s > 100: below sqrt(s) - this it is less than 3e-22
_NEARLY_NEVER = 4e-22
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)


@dataclass(frozen=True)
class ChiLaw:
    """The edges of the cells, the weight of each, and E (chi - edge)_+."""

    edges: Array
    weights: Array
    excesses: Array

    def mean_excess(self, start: Array) -> Array:
        """Return E (chi - start)_+, rounded up: convex in ``start``, hence below its chords."""
        inside = np.interp(start, self.edges, self.excesses)
        before = self.excesses[0] - np.minimum(start, 0.0)
        excess = np.where(start < 0.0, before, inside)
        return np.asarray(np.where(start > self.edges[-1], 0.0, excess) * _UP + 1e-300)


@lru_cache(maxsize=64)
def chi_law(s: int, cells: int = _CELLS) -> ChiLaw:
    """Return the law of the length of ``s`` independent standard normals, ``cells`` a deviation."""
    first = max(0.0, math.sqrt(s) - _NEAR)
    count = math.ceil((math.sqrt(s) + _FAR - first) * cells)
    edges = first + np.arange(count + 1) / cells
    half = 0.5 / cells
    points = edges[:-1, None] + half * (_NODES + 1.0)
    with np.errstate(divide="ignore"):
        log_density = (s - 1) * np.log(points) - 0.5 * points**2
    log_density -= (0.5 * s - 1) * math.log(2.0) + float(gammaln(0.5 * s))
    masses = half * _WEIGHTS * np.exp(log_density)
    masses /= min(1.0, float(masses.sum()))  # in many dimensions the logarithms lose some
    right = 0.5 * (_NODES + 1.0)
    weights = np.zeros(count + 1)
    weights[1:] += masses @ right
    weights[:-1] += masses @ (1.0 - right)
    if first > 0.0:  # one long cell, whose probability may lie at either end
        edges = np.concatenate([[0.0], edges])
        weights = np.concatenate([[_NEARLY_NEVER], weights])
        weights[1] += _NEARLY_NEVER
    weights *= _UP
    # E (chi - r_j)_+ = the sum over i > j of w_i (r_i - r_j), from the far end.
    above = np.cumsum(weights[::-1])[::-1]
    steps = np.diff(edges) * above[1:]
    excesses = np.append(np.cumsum(steps[::-1])[::-1], 0.0)
    return ChiLaw(edges, weights, excesses)
