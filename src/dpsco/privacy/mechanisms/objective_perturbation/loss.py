"""Privacy of objective perturbation: the minimiser of a sum of losses with a random linear term.

The minimiser w of ``sum_i f(w, z_i) + <b, w> + (floor/2) |w|^2``, b ~ N(0, sigma^2 I), has the
density N(b(w)) det H(w), so that with D = grad f(w, z') - grad f(w, z) the privacy loss is

    log det H/det H' + (|D|^2 - 2 <b, D>) / (2 sigma^2).

With A >= floor I the Hessian of the common rows, det(A + a)/det A lies in [1, (1 + curvature /
floor)^rank] for either row, so the first term is at most c = rank log(1 + curvature/floor), for
replacement as well as for removal. Writing m = |D|/sigma at its largest, the second term is

    zero-out, D along one direction   m^2/2 + m |u|,  u ~ N(0, 1)   (Redberg, Koskela, Wang 2023)
    D in a subspace of s dimensions   m^2/2 + m chi_s
    D a sum of several rows' parts    m^2/2 + m x, x an average, see :func:`delta_average`
    anything                          concentration of <b, D>, see :func:`delta_general`

Where k rows change at once, D is the sum of k parts (2k if rows are replaced), m is k times as
large, and each row in turn adds at most rank log(1 + curvature/floor) to the change of volume,
whatever the others have added before: c is k times as large. With N dimensions in all and
k rank > N, the k rank curvature/floor at most that the eigenvalues add up to are divided among N:
N log(1 + k rank curvature/(N floor)).

Softmax: a row x has the gradient x (x) (p - e_y) and the Hessian x x^T (x) (diag p - p p^T), with
an intercept as one more coordinate of x. Both p - e_y and the rows of diag p - p p^T sum to 0 over
the K classes, so gradients stay in x (x) 1^perp, K - 1 dimensions for all w, and the Hessian maps
into it: rank K - 1. The tilt b and the ridge fill the whole space, but the loss sees b through
<b, D> alone, D in these K - 1 dimensions (both rows' for replacement), where b is N(0, sigma^2 I)
again; and A >= floor I is all that the determinant asks of the rest. So s = K - 1, and the
direction that moves all classes alike costs nothing.

A convex domain is a limit of smooth penalties and changes nothing. All functions round up, and all
take any sign of epsilon; delta(epsilon) = E (1 - e^(epsilon - loss))_+.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaincc, log_ndtr, ndtr

from ...accounting import gaussian
from . import zcdp as perturbation_zcdp
from .chi_law import chi_law
from .zcdp import mean_chi

Array = NDArray[np.float64]

_ULP = 2.0**-52
_UP = 1 + 1e-9  # more than quadrature and special functions can round down
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)
_PANELS = np.array([0.0, 1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0])
# Angles between the two rows' directions, finer near 0, where the worst case lies.
_ANGLES = 0.25 * math.pi * np.linspace(0.0, 1.0, 25) ** 3
_DIAGONALS = np.concatenate([np.cos(_ANGLES[:-1]), np.sin(_ANGLES[1:])])  # long ones, short ones
_TAIL = 2.0  # deviations beyond which the plane's bound is not asked for
_RADII = np.linspace(0.1, 14.0, 140)  # beyond sqrt(d)
_FARTHEST = 1e4
# Upper ends of cells of a standard normal, their probabilities, and what lies beyond.
_FAR = [12.0, 16.0, 24.0, 37.0]
_FINE = np.concatenate([np.arange(-2.5, 10.1, 0.25), _FAR])
_FINER = np.concatenate([np.arange(-3.0, 10.1, 0.125), _FAR])
_FINEST = np.concatenate([np.arange(-4.0, 10.1, 0.02), _FAR])  # where it is much of the loss
_COARSE = np.concatenate([np.arange(-2.0, 10.1, 1.0), _FAR])  # where the noise is hardly a loss
_TOUCHED = 3.0 * np.linspace(0.0, 1.0, 25) ** 2  # tau of the tangents that are tried
_LITTLE = 5e-3  # spread of the output's loss over that of the minimiser's: sigma grows by 0.1 %
_SOME, _MUCH = 0.05, 0.2
_BEYOND = float(ndtr(-_FAR[-1])) * _UP


def log_determinant(
    curvature: float, floor: float, rank: int, *, rows: int = 1, dimension: int | None = None
) -> float:
    """Return c = rank log(1 + curvature/floor), what the change of volume can add to the loss.

    ``rows`` at once have as many times the rank, up to the ``dimension`` if it is known.
    """
    whole = rows * rank
    places = whole if dimension is None else min(whole, max(dimension, 1))
    return places * math.log1p(whole / places * curvature / floor) * (1 + 8 * _ULP)


def delta_glm(epsilon: ArrayLike, m: ArrayLike, c: float) -> Array:
    """Return delta of the loss c + m^2/2 + m |u|: one direction (Redberg, Koskela, Wang 2023).

    ``2 delta_Gauss(e; m)`` for e = epsilon - c >= m^2/2, else ``1 - 2 e^e Phi(-m)``. It increases
    with m, because the loss does for every u.
    """
    eps = np.asarray(epsilon, dtype=float)
    e = eps - c - 4 * _ULP * (np.abs(eps) + c)
    e, size = np.broadcast_arrays(e, np.asarray(m, dtype=float))
    far = e >= 0.5 * size * size
    if far.all():  # the usual case: nothing is picked out
        return np.asarray(np.clip(2.0 * gaussian.delta_grid(e, size), 0.0, 1.0))
    near, delta = ~far, np.empty(e.shape)
    with np.errstate(all="ignore"):  # each formula only where it holds: both are costly
        delta[far] = 2.0 * gaussian.delta_grid(e[far], size[far])
        bulk = 1.0 - 2.0 * np.exp(e[near] + log_ndtr(-size[near]))
        delta[near] = bulk + 1e-14
    return np.asarray(np.clip(delta, 0.0, 1.0))


def delta_pair(epsilon: ArrayLike, m: float, c: float) -> Array:
    """Return delta for two rows of a GLM that replace each other, m = 2 bound/sigma.

    D = g' x' - g x is largest at a vertex of the box of (g, g'), and the two diagonals of the box
    are orthogonal, so the loss is at most c + max over s of (m_s^2/2 + m_s |v_s|), m_s = m cos t
    and m sin t with t in [0, pi/4] up to names. Hence delta <= g(m cos t) + g(m sin t), g =
    :func:`delta_glm`, and as g increases, on a cell [t_i, t_i+1] it is at most
    g(m cos t_i) + g(m sin t_i+1). Diagonals span a plane, so ``delta_chi`` with s = 2 holds too.
    """
    eps = np.atleast_1d(np.asarray(epsilon, dtype=float))
    one = delta_glm(eps[..., None], m * _DIAGONALS, c)
    both = one[..., : len(_DIAGONALS) // 2] + one[..., len(_DIAGONALS) // 2 :]
    split = np.minimum(np.max(both, axis=-1) * (1 + 1e-12), 1.0)
    # In the tail the sum over both diagonals is the smaller bound, and the cheaper one.
    near = eps - c < m * (0.5 * m + _TAIL)
    if near.any():
        plane = delta_chi(eps[near], m, c, 2)
        split[near] = np.minimum(split[near], plane)
    return np.asarray(split.reshape(np.shape(epsilon)))


def delta_chi(epsilon: ArrayLike, m: float, c: float, s: int) -> Array:
    """Return delta of the loss c + m^2/2 + m chi_s: gradients in ``s`` dimensions.

    With a = (epsilon - c - m^2/2)/m this is the integral over r > a_+ of m e^(-m (r - a))
    P(chi_s > r), plus 1 - e^(m a) where a < 0. The integrand is positive and smooth. More than 10
    below sqrt(s) the probability counts as 1; panels follow from there, over 45/m at most; what
    lies beyond the last is bounded by its survival function.
    """
    eps = np.asarray(epsilon, dtype=float)
    e = eps - c - 4 * _ULP * (np.abs(eps) + c)
    a = np.minimum(e / m - m / 2, _FARTHEST)  # farther out delta is smaller still
    start = np.maximum(a, 0.0)
    first = np.maximum(start, math.sqrt(s) - 10.0)
    stop = np.minimum(np.maximum(first, math.sqrt(s)) + 10.0, first + 45.0 / m)
    edges = first[..., None] + (stop - first)[..., None] * _PANELS
    half = 0.5 * np.diff(edges)[..., None]
    points = edges[..., :-1, None] + half * (_NODES + 1.0)
    inner = m * np.exp(-m * (points - a[..., None, None])) * _survival(s, points)
    whole = np.sum(half * _WEIGHTS * inner, axis=(-2, -1))
    beyond = np.exp(-m * (stop - a)) * _survival(s, stop)
    certain = -np.expm1(m * np.minimum(a, 0.0))
    certain -= np.exp(-m * (start - a)) * np.expm1(-m * (first - start))
    slack = _UP * (1 + 8 * _ULP * (start + 1) * ((np.abs(eps) + c) / m + m))
    return np.asarray(np.minimum(1.0, (whole + beyond + certain) * slack + 1e-300))


def _survival(s: int, r: Array) -> Array:
    """Return P(chi_s > r) for r >= 0; an exponential for a plane."""
    half = 0.5 * r * r
    return np.asarray(np.exp(-half) if s == 2 else gammaincc(s / 2, half))


def delta_average(epsilon: ArrayLike, m: float, c: float, s: int) -> Array:
    """Return delta of the loss c + m^2/2 + m x, x an average of chi_s variables, dependent or not.

    D is a sum of parts, each at most m sigma/q long and in ``s`` dimensions of its own, so that
    <b, D> is at most m sigma^2 times the average of the q lengths of b there. For convex h, E h(x)
    <= E h(chi_s). With a as in :func:`delta_chi`, 1 - e^(-m (r - a)) is concave in r, so that its
    tangents lie above it, and what is above 0 of them is convex: touching at a + tau/m,

        delta <= m e^-tau E (chi_s - a + (e^tau - 1 - tau)/m)_+,    tau >= 0.

    For small m little is lost: the gain is nearly straight over the tail of chi_s.
    """
    eps = np.asarray(epsilon, dtype=float)[..., None]
    e = eps - c - 4 * _ULP * (np.abs(eps) + c)
    a = e / m - m / 2
    start = a - (np.expm1(_TOUCHED) - _TOUCHED) / m
    start -= 4 * _ULP * (np.abs(e) / m + m + np.abs(start))
    excess = m * np.exp(-_TOUCHED) * chi_law(s).mean_excess(start)
    return np.asarray(np.minimum(1.0, np.min(excess, axis=-1) * _UP))


def delta_general(
    epsilon: ArrayLike, m: float, ratio: float, *, rank: int, dimension: int, rows: int = 1
) -> Array:
    """Return delta for any convex smooth loss, ``ratio`` = curvature/floor, ``rows`` at once.

    W(u) = -<u, D(w(sigma u))>/sigma has |grad W| <= m + ratio |u| and |E W| <= rank ratio (Stein's
    identity). Inside a ball of radius R it is l-Lipschitz, l = m + ratio R; extend it, and Gaussian
    concentration gives, for every R > sqrt(d) with a = (epsilon - rank log(1 + ratio) - m^2/2 -
    rank ratio - t)/l > 0 and t = (2m + ratio R) E[chi_d] P(chi_d+1 > R),

        delta <= P(chi_d > R) + l sqrt(2 pi) e^(l a + l^2/2) Phi(-(a + l)).

    Several rows multiply the ratio, in which the Hessians of what changes are added up.
    """
    d = dimension
    volume = log_determinant(ratio, 1.0, rank, rows=rows, dimension=dimension)
    ratio *= rows
    radius = math.sqrt(d) + _RADII
    lip = m + ratio * radius
    outside = gammaincc(d / 2, 0.5 * radius**2)
    moved = (2 * m + ratio * radius) * mean_chi(d) * gammaincc((d + 1) / 2, 0.5 * radius**2)
    fixed = volume + 0.5 * m * m + rank * ratio
    a = (np.asarray(epsilon, dtype=float)[..., None] - (fixed + moved) * _UP) / lip
    with np.errstate(all="ignore"):
        log_tail = np.log(lip * math.sqrt(2 * math.pi)) + lip * a + 0.5 * lip**2
        bound = outside + np.exp(np.minimum(log_tail + log_ndtr(-(a + lip)), 1.0))
    best = np.min(np.where(a > 0, bound, 1.0), axis=-1)
    return np.asarray(np.minimum(1.0, best * _UP + 1e-300))


@dataclass(frozen=True)
class Loss:
    """What the privacy loss of a perturbed minimiser is bounded by, noise of the output included.

    ``m`` is the largest distance of two neighbours' gradients over sigma, ``output`` that of the
    inexact minimisers over the noise added to them.
    """

    m: float
    curvature: float
    floor: float
    rank: int
    directions: str  # "glm", "pair" (two rows of a GLM), "subspace" or "general"
    dimensions: int  # that the difference of two gradients can take
    output: float
    rows: int = 1  # that change at once
    span: int | None = None  # dimensions of each part, where the difference is a sum of such

    @property
    def c(self) -> float:
        """What the change of volume can add to the loss."""
        dimension = self.dimensions if self.directions == "general" else None
        return log_determinant(
            self.curvature, self.floor, self.rank, rows=self.rows, dimension=dimension
        )

    def exact_delta(self, epsilon: ArrayLike) -> Array:
        """Return delta of the exact minimiser: the least of the bounds that hold."""
        if self.directions == "glm":
            return delta_glm(epsilon, self.m, self.c)
        if self.directions == "pair":
            return delta_pair(epsilon, self.m, self.c)
        delta = delta_chi(epsilon, self.m, self.c, self.dimensions)
        if self.directions == "subspace":
            if self.span is None or self.span == self.dimensions:
                return delta
            other = delta_average(epsilon, self.m, self.c, self.span)
            return np.asarray(np.minimum(delta, other))
        ratio, d = self.curvature / self.floor, self.dimensions
        other = delta_general(epsilon, self.m, ratio, rank=self.rank, dimension=d, rows=self.rows)
        return np.asarray(np.minimum(delta, other))

    def delta(self, epsilon: float) -> float:
        """Return delta of the released vector.

        Given the exact minimiser the release is Gaussian with distance mu = ``output`` at most, so
        the losses add up to Y + mu^2/2 + mu v, v ~ N(0, 1) independent of Y, and delta is at most
        E delta_Y(epsilon - mu^2/2 - mu v). The integrand increases with v: each cell counts at its
        upper end, and delta_Y <= 1 beyond the last.
        """
        mu, share = self.output, self.output / self.m
        cells = _COARSE if share < _LITTLE else _FINE
        if share > _SOME:
            cells = _FINER if share < _MUCH else _FINEST
        masses = np.diff(np.append(ndtr(-cells)[::-1], 1.0))[::-1]
        less = epsilon - 0.5 * mu * mu - mu * cells
        inner = self.exact_delta(less - 4 * _ULP * (abs(epsilon) + mu * (mu + np.abs(cells))))
        return min(1.0, float(np.dot(inner, masses)) * _UP + _BEYOND)

    def rdp(self, orders: Array) -> Array:
        """Return the Renyi divergences, see :func:`rdp`, with those of the output's noise."""
        own = np.minimum(rdp(orders, self.m, self.c, self._chi), self._exact_rho * orders)
        return np.asarray(own + 0.5 * self.output**2 * orders * (1 + 8 * _ULP))

    @cached_property
    def rho(self) -> float:
        """The zCDP parameter: that of the exact minimiser, and of the output's noise."""
        return (self._exact_rho + 0.5 * self.output**2) * _UP

    @cached_property
    def _exact_rho(self) -> float:
        """Of two bounds the less: R(a) <= a R(1), as m^2/2 and the chi term bound the slope."""
        linear = self.c + 0.5 * self.m**2 + self.m * mean_chi(self._chi)
        return min(linear * _UP, perturbation_zcdp.rho(self.m, self.c, self._chi))

    @property
    def _chi(self) -> int:
        """The dimensions of the chi variables whose average the loss is a function of."""
        if self.directions in ("glm", "pair"):
            return 1
        return self.span or self.dimensions


def rdp(orders: Array, m: float, c: float, s: int = 1) -> Array:
    """Return the Renyi divergences of the exact minimiser at the ``orders`` a.

    s = 1 is a GLM, ``c + a m^2/2 + log(2 Phi((a-1) m))/(a-1)``: for replacement, and for several
    rows, the loss is at most c + m^2/2 + m x, x an average of |u|, u normal, and exp is convex. For
    a subspace, chi_s is a 1-Lipschitz function of a Gaussian, so its exponential moment is at most
    that of its mean: ``c + a m^2/2 + m E[chi_s]``.
    """
    if s > 1:
        extra = np.full_like(orders, m * mean_chi(s))
    else:
        t = (orders - 1) * m
        # log(2 Phi(t)) is concave, hence below t sqrt(2/pi), and for small t only that is accurate.
        growth = np.minimum(math.log(2.0) + log_ndtr(t) + 8 * _ULP, t * math.sqrt(2 / math.pi))
        extra = growth / (orders - 1)
    return np.asarray((c + 0.5 * m * m * orders + extra) * (1 + 1e-12))


__all__ = [
    "Loss",
    "delta_average",
    "delta_chi",
    "delta_general",
    "delta_glm",
    "delta_pair",
    "log_determinant",
    "rdp",
]
