"""A second computation of what a perturbed minimiser costs, from its record alone.

Nothing here comes from :mod:`.loss`: the loss is derived again, in another parametrisation,
and integrated on a grid of losses from below and from above.

**The loss.** Let w minimise ``F(w) + <b, w>``, F the sum of the rows' losses and the ridge, b ~
N(0, sigma^2 I). The map w -> b = -grad F(w) is one to one, its Jacobian is -H(w) with H the Hessian
of F, so w has the density ``(2 pi sigma^2)^(-d/2) exp(-|grad F(w)|^2/(2 sigma^2)) det H(w)``. For
tables that differ in k rows, F' = F + f with f what appears less what vanishes, and the loss is

    L = (|grad F'|^2 - |grad F|^2)/(2 sigma^2) + log det H - log det H'.

*Volume.* With A the Hessian of ridge and common rows, det H/det A = prod (1 + l_i), l_i >= 0 the
eigenvalues of A^-1/2 (what k rows add) A^-1/2: at most k rank of them, and at most the number of
weights; they sum to at most k rank curvature/floor. The product is largest if all are equal. The
same bounds det H'/det A, and both are at least 1: |log det H/det H'| <= c.

*Slope.* |grad F + g|^2 - |grad F|^2 = |g|^2 + 2 <grad F, g> with g = grad f, and -grad F/sigma = u
is standard normal. g is a sum of q = k (or 2k, replaced rows) vectors g_j no longer than ``bound``.
Put l = bound/sigma; then |g|/sigma <= q l =: m and

    L <= c + sup (|g|^2/2 + |<u, g>|) over such g, in units of sigma.

one row, along a line
    At |g| = m: m^2/2 + m |u|.
two rows, each along a line
    Convex in g, so largest at a corner +-g_1 +-g_2 of the parallelogram. Its diagonals are
    orthogonal, m cos t and m sin t long. The larger of two independent parts has the product of
    their distribution functions; the worst t counts.
in s dimensions together
    m^2/2 + m chi_s.
q rows, each in p dimensions
    m^2/2 + m x, x an average of q variables chi_p, dependent in any way. It is below chi_p in
    convex order, and of all laws that are, the worst for a given epsilon is the mean of a tail:
    P(chi_p > r) (1 - e^(epsilon - E[loss | chi_p > r])) for the worst r.
anywhere
    W = <u, g> is l(R)-Lipschitz for |u| <= R, l(R) = m + k R curvature/floor, and |E W| <= k rank
    curvature/floor (Stein's identity). Extended from the ball it exceeds its mean by z l(R) with
    probability e^(-z^2/2) at most, and u leaves the ball with P(chi_d > R).

**The numbers.** Given the minimiser the output is Gaussian, two minimisers at most 2 distance
apart: another loss mu^2/2 + mu v, independent. delta(epsilon) = E (1 - e^(epsilon - loss))_+ is
the integral of e^(epsilon - y) P(loss > y) over y > epsilon. On a grid of y the probability is
taken at the left end of each cell for an upper and at the right end for a lower bound; so is v.
Densities are integrated cell by cell with five Gauss nodes and divided by their total, which leaves
1e-12; no special function is called. What lies beyond the grid, less than 1e-6 delta, is added to
the upper one. The two ends enclose the epsilon of the law above; they come out within 0.1 % of
each other, 1 % where the law is that of W at small epsilon.

**zCDP.** The loss lies between -(c + m x) and c + m^2/2 + m x, and E e^-L = 1, as Q is a
probability. E e^(tL) is largest if L is at one of its ends for each x; which one is a fractional
knapsack, filled in the order of value for weight. K(t) is its logarithm on the grid, and rho the
largest K(t)/(t (t + 1)) over a list of t: a number within 0.5 % of the law's, not a bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ....kernels.pairwise import rounding_slack
from ...lattice import TILT_SHARE

if TYPE_CHECKING:
    from .release import ObjectivePerturbationRelease

Array = NDArray[np.float64]
Profile = Callable[[Array], Array]  # epsilons of any sign -> delta of the exact minimiser

_CELLS = 12_000
_ANGLES = 48
_RADII = 48
_OUTPUT_CELLS = (144, 1152)  # where the output's noise is little of the loss, and where it is not
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(5)
_LEAST = 1e-290
_STEEPEST = 20.0  # t m up to which K(t) is computed
_TIMES = 300
_ORDERS = 1.0 + np.geomspace(1e-4, 1e7, 4000)


@dataclass(frozen=True)
class Check:
    """One perturbed minimiser, how many rows of it change at once, and what is released beside it.

    Gaussian releases on the same rows, a distance ``beside`` in all, have independent noise, and
    their losses add up to one of the output's kind.
    """

    release: ObjectivePerturbationRelease
    replaced: bool
    rows: int = 1
    beside: float = 0.0

    def in_group(self, rows: int, beside: float) -> Check:
        """Return the check of ``rows`` rows at once, Gaussian releases beside it."""
        return replace(self, rows=rows, beside=beside)

    def epsilon(self, delta: float) -> tuple[float, float]:
        """Return what encloses the epsilon of the dominating law at ``delta``.

        Where zCDP gives less than the law of the loss, which has one side only, it counts.
        """
        lower, upper = (self._inverse(side, delta) for side in (False, True))
        tail = np.log(_ORDERS) + math.log(delta)
        orders = self.rho * _ORDERS + np.log1p(-1.0 / _ORDERS) - tail / (_ORDERS - 1.0)
        other = max(0.0, float(np.min(orders)))
        return min(lower, other), min(upper, other)

    @cached_property
    def rho(self) -> float:
        """The zCDP parameter: of all rows at once, or k^2 times that of one (group privacy)."""
        if self.rows == 1:
            return self._direct_rho
        single = Check(self.release, self.replaced, beside=self.beside / self.rows)
        return min(self._direct_rho, self.rows**2 * single.rho)

    @cached_property
    def _direct_rho(self) -> float:
        """The largest K(t)/(t (t + 1)), by a knapsack on the grid for each t."""
        general = self.release.directions == "general"
        s = (self.release.dimension or 1) if general else (self.release.span or 1)
        m, c = self._m, self._c
        law = _Chi(s, _STEEPEST + 14.0)
        x = 0.5 * (law.edges[:-1:4] + law.edges[4::4])
        masses = law.masses.reshape(-1, 4).sum(axis=1)
        x, masses = x[masses > _LEAST], masses[masses > _LEAST]
        times = np.geomspace(1e-3, max(_STEEPEST / m, 1.0), _TIMES)
        logs = np.array([_knapsack(t, c + 0.5 * m * m + m * x, c + m * x, masses) for t in times])
        mu = self._output
        return float(np.max(logs / (times * (times + 1.0)))) + 0.5 * mu * mu

    @property
    def _parts(self) -> int:
        return self.rows * (2 if self.replaced else 1)

    @property
    def _m(self) -> float:
        record = self.release
        return self._parts * record.bound * (1 + rounding_slack(record.row_count)) / record.sigma

    @property
    def _c(self) -> float:
        record = self.release
        total = self.rows * record.rank
        places = min(total, record.dimension or total)
        return places * math.log1p(total * record.curvature / (record.floor * places))

    @property
    def _output(self) -> float:
        # Half a step of the tilt's lattice on either side, and a step of the output's.
        apart = (2 + 3 * TILT_SHARE) * self.release.distance
        return math.hypot(apart / self.release.output_sigma, self.beside)

    def _inverse(self, upper: bool, delta: float) -> float:
        """Return the least epsilon with at most ``delta``, by bisection."""
        far = math.sqrt(2 * math.log(1 / delta)) + 4.0
        profiles = self._profiles(upper, far)
        v, masses = _normal_cells(far, _OUTPUT_CELLS[self._output > 0.05 * self._m])
        ends = v[1:] if upper else v[:-1]
        hidden = 2.0 * math.exp(-0.5 * far * far) if upper else 0.0

        def exceeds(epsilon: float) -> bool:
            less = epsilon - self._output * (0.5 * self._output + ends)
            least = np.min([profile(less) for profile in profiles], axis=0)
            return float(least @ masses) + hidden > delta

        low, high = 0.0, 1.0
        if not exceeds(low):
            return 0.0
        while exceeds(high):
            low, high = high, 2 * high
            if high > 1e6:
                return math.inf
        for _ in range(40):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if exceeds(middle) else (low, middle)
        return high if upper else low

    def _profiles(self, upper: bool, far: float) -> list[Profile]:
        """Return delta of the exact minimiser, by each law that holds."""
        record, m, c = self.release, self._m, self._c
        if record.directions == "general":
            d = record.dimension or 1
            return [_direct(m, c, d, upper, far), self._concentrated(d, upper, far)]
        span = record.span or 1
        if span == 1 and self._parts == 2:
            return [_two_lines(m, c, upper, far)]
        profiles = [_direct(m, c, span * self._parts, upper, far)]
        if self._parts > 1:
            profiles.append(_averaged(m, c, _Chi(span, far), upper))
        return profiles

    def _concentrated(self, d: int, upper: bool, far: float) -> Profile:
        """Return the profile of W, the best radius of the ball for each epsilon."""
        record, m = self.release, self._m
        ratio = self.rows * record.curvature / record.floor
        law, longer = _Chi(d, far), _Chi(d + 1, far)
        radii = math.sqrt(d) + np.linspace(0.5, far, _RADII)[:, None]
        slope = m + ratio * radii
        mean = float(law.masses @ (0.5 * (law.edges[1:] + law.edges[:-1])))
        # Extending W from the ball moves its mean by what it is outside.
        moved = (2 * m + ratio * radii) * mean * longer.survival(radii, upper)
        fixed = self._c + 0.5 * m * m + record.rank * ratio
        losses = np.linspace(0.0, fixed + far * float(slope[-1, 0]), 2 * _CELLS)
        z = np.maximum((losses - fixed - moved) / slope, 0.0)
        return _integrated(losses, law.survival(radii, upper) + np.exp(-0.5 * z * z), upper, np.min)


class _Chi:
    """The length of s standard normals on a grid: masses of cells, probabilities beyond edges."""

    def __init__(self, s: int, far: float) -> None:
        root = math.sqrt(s)
        self.edges = np.linspace(max(0.0, root - far), root + far, _CELLS + 1)
        half = 0.5 * (self.edges[1] - self.edges[0])
        points = self.edges[:-1, None] + half * (_NODES + 1.0)
        peak = math.sqrt(max(s - 1, 0))
        log_density = -0.5 * (points - peak) * (points + peak)
        if s > 1:
            log_density += (s - 1) * np.log(points / peak)
        masses = np.exp(log_density) @ _WEIGHTS
        self.masses = masses / masses.sum()
        self.beyond = np.append(np.cumsum(self.masses[::-1])[::-1], 0.0)

    def survival(self, points: Array, upper: bool) -> Array:
        """Return P(chi > point), the point moved to the grid: left for an upper bound."""
        at = np.searchsorted(self.edges, points, side="right") - (1 if upper else 0)
        values = self.beyond[np.clip(at, 0, len(self.beyond) - 1)]
        return np.asarray(np.where(points < self.edges[0], 1.0, values))


def _normal_cells(far: float, count: int) -> tuple[Array, Array]:
    """Return the edges and probabilities of cells of a standard normal."""
    edges = np.linspace(-far, far, count + 1)
    half = 0.5 * (edges[1] - edges[0])
    masses = np.exp(-0.5 * (edges[:-1, None] + half * (_NODES + 1.0)) ** 2) @ _WEIGHTS
    return edges, masses / masses.sum()


def _integrated(losses: Array, beyond: Array, upper: bool, choose: Callable[..., Array]) -> Profile:
    """Return the integral of e^(epsilon - y) P(loss > y), a row of ``beyond`` for each law.

    From the far end: D(y_j) = q D(y_j+1) + (1 - q) P, q = e^(-step), P at one end of the cell.
    ``choose`` is the largest where the laws are cases and the least where they are proofs of one.
    """
    step = float(losses[1] - losses[0])
    integral = np.minimum(beyond, 1.0)
    last = integral[:, -1:] if upper else np.zeros((len(integral), 1))  # all of it, infinitely far
    integral = -math.expm1(-step) * (integral[:, :-1] if upper else integral[:, 1:])
    integral, shift = np.concatenate([integral, last], axis=1), 1
    while shift < len(losses):  # sums of q^i times what is i cells farther, twice as many each time
        integral[:, :-shift] += math.exp(-step * shift) * integral[:, shift:]
        shift *= 2
    values, first = choose(integral, axis=0), float(losses[0])

    def profile(epsilons: Array) -> Array:
        at = np.searchsorted(losses, epsilons, side="right") - (1 if upper else 0)
        inside = values[np.clip(at, 0, len(values) - 1)]
        # No loss is smaller than the first, so that below it delta follows from its value there.
        below = 1.0 - np.exp(np.minimum(epsilons - first, 0.0)) * (1.0 - values[0])
        return np.asarray(np.where(epsilons < first, below, inside))

    return profile


def _direct(m: float, c: float, s: int, upper: bool, far: float) -> Profile:
    """Return the profile of c + m^2/2 + m chi_s."""
    law = _Chi(s, far)
    return _integrated(c + 0.5 * m * m + m * law.edges, law.beyond[None], upper, np.min)


def _two_lines(m: float, c: float, upper: bool, far: float) -> Profile:
    """Return the worst angle's profile; on a cell of angles each diagonal at its longer end."""
    law = _Chi(1, far)
    angles = 0.25 * math.pi * np.linspace(0.0, 1.0, _ANGLES + 1) ** 2
    longs = m * np.cos(angles[:-1] if upper else angles)[:, None]
    shorts = m * np.sin(angles[1:] if upper else angles)[:, None]
    losses = np.linspace(0.0, 0.5 * m * m + m * far, _CELLS)

    def beyond(size: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            points = np.where(size > 0.0, (losses - 0.5 * size**2) / size, np.inf)
        return law.survival(points, upper)

    one, two = beyond(longs), beyond(shorts)
    return _integrated(c + losses, one + two - one * two, upper, np.max)


def _averaged(m: float, c: float, law: _Chi, upper: bool) -> Profile:
    """Return the profile of an average: the worst mean of a tail, or the hinge that proves it."""
    losses = c + 0.5 * m * m + m * (law.edges[1:] if upper else law.edges[:-1])
    excess = np.cumsum((law.masses * (losses - losses[0]))[::-1])[::-1]
    some = np.flatnonzero(law.beyond[:-1] > _LEAST)[::8]
    beyond = law.beyond[some]
    tail_means = losses[0] + excess[some] / beyond

    def profile(epsilons: Array) -> Array:
        gains = beyond * -np.expm1(np.minimum(epsilons[:, None] - tail_means, 0.0))
        if not upper:
            return np.asarray(np.max(gains, axis=1))
        # The line that touches 1 - e^(epsilon - y) at the mean of the worst tail lies above it, and
        # what is above 0 of the line is convex: no average exceeds its expectation.
        u = np.maximum(tail_means[np.argmax(gains, axis=1)] - epsilons, 0.0)
        start = epsilons + u - np.expm1(np.minimum(u, 600.0))
        at = np.minimum(np.searchsorted(losses, start, side="right"), len(losses) - 1)
        above = excess[at] - law.beyond[at] * (start - losses[0])
        return np.asarray(np.minimum(np.exp(-u) * np.maximum(above, 0.0) + _LEAST, 1.0))

    return profile


def _knapsack(t: float, up: Array, down: Array, masses: Array) -> float:
    """Return the largest log E e^(tL), L = up or -down cell by cell, with E e^-L = 1.

    All cells start at the upper end, where E e^-L is too small; going down in a cell costs value
    and adds weight. The cheapest go down, the last of them in part.
    """
    scale = max(t * float(up[-1]) - 600.0, 0.0)  # 0 unless e^(tL) would overflow
    if scale == 0.0:  # K may be small, so e^(tL) - 1 is summed
        high, low = masses * np.expm1(t * up), masses * np.expm1(-t * down)
    else:
        high, low = masses * np.exp(t * up - scale), masses * np.exp(-t * down - scale)
    value = float(np.sum(high))
    if down[-1] < 600.0:  # beyond, what is gained is not worth a number
        gain = masses * (np.expm1(down) - np.expm1(-up))
        needed = -float(masses @ np.expm1(-up))
        order = np.argsort((high - low) / gain)
        filled = np.cumsum(gain[order])
        short = np.clip(needed - (filled - gain[order]), 0.0, gain[order])
        value -= float((short / gain[order]) @ (high - low)[order])
    return math.log1p(value) if scale == 0.0 else math.log(value) + scale


__all__ = ["Check"]
