"""Which mirror map belongs to a domain, and the step that it takes there, exactly.

| map     | domain                                     | Phi                                       |
|---------|--------------------------------------------|-------------------------------------------|
| p_norm  | R^d, the map's own ball, l1 ball; p 2: any | kappa/2 |w - c|_e^2                       |
| entropy | l1 ball, simplex                           | R sum u log u, of u+ and u-, or of w      |

Both are 1-strongly convex in l_p. A stepper keeps the ``place`` of a map: the weights themselves
(p_norm) or the dual vector, one number a weight (entropy): w_j = R sinh(t_j)/sum cosh(t) on the
l1 ball, where u+ and u- are never formed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ...errors import AssumptionError
from ...geometry.domains import Domain, LpBall, Simplex, WholeSpace
from ...geometry.mirror import Entropy, PNormMap, Regularity, total
from ...geometry.norms import Lp, conjugate
from ...task import Task
from ..base import Floats

MAPS = ("p_norm", "entropy")
_PART = 1 << 14  # numbers at a time: a few vectors of them stay in the cache


class Mirror(Protocol):
    """A map on a domain: where a run starts, its weights, its steps."""

    def place(self, start: Floats) -> Floats:
        """Return the place of the first weights, which are the domain's centre."""

    def weights(self, place: Floats) -> Floats:
        """Return the weights of a place."""

    def moved(self, place: Floats, gradient: Floats, step: float, pull: float) -> Floats:
        """Return the minimiser of <g, v> + D(v, w)/step + pull Phi(v), as a place."""

    def spread(self, distance: float) -> float:
        """Return the largest divergence of weights at most so far (in l_p) from the start."""


@dataclass(frozen=True)
class PNormMirror:
    """Steps of the squared l_e norm about the domain's centre; the place is the weights."""

    map: PNormMap
    domain: Domain
    d: int

    def place(self, start: Floats) -> Floats:
        """Return the weights themselves."""
        return start

    def weights(self, place: Floats) -> Floats:
        """Return the place itself."""
        return place

    def moved(self, place: Floats, gradient: Floats, step: float, pull: float) -> Floats:
        """Return the weights after an exact step."""
        centre = self.domain.centre(self.d)
        return self.map.step(place, gradient, step, domain=self.domain, extra=pull, centre=centre)

    def spread(self, distance: float) -> float:
        """Return kappa/2 distance^2: the l_e norm is at most the l_p norm."""
        return 0.5 * self.map.scale * distance * distance


@dataclass(frozen=True)
class SimplexMirror:
    """Multiplicative weights; the place is the dual vector, so that no weight is lost for good."""

    map: Entropy
    d: int

    def place(self, start: Floats) -> Floats:
        """Return zeros: equal weights."""
        return np.zeros(self.d)

    def weights(self, place: Floats) -> Floats:
        """Return the weights in proportion to exp(place / total)."""
        return self.map.inverse(place)

    def moved(self, place: Floats, gradient: Floats, step: float, pull: float) -> Floats:
        """Return the dual vector after a step."""
        return _dual_step(place, gradient, step, pull)

    def spread(self, distance: float) -> float:
        """Return total^2 log d, whatever the distance."""
        return self.map.scale * self.map.total * math.log(max(self.d, 2))


@dataclass(frozen=True)
class L1Mirror:
    """The same on an l1 ball: entropy of the positive and the negative parts together."""

    ball: LpBall
    radius: float
    d: int

    def place(self, start: Floats) -> Floats:
        """Return zeros: the centre."""
        return np.zeros(self.d)

    def weights(self, place: Floats) -> Floats:
        """Return centre + R sinh(t)/sum cosh(t), t = place / R; in place: d may be 1e6."""
        result = total(place / self.radius)
        np.abs(result, out=result)
        with np.errstate(under="ignore"):
            whole = _exponentials(result, float(np.max(result)))
        for start in range(0, self.d, _PART):
            part = result[start : start + _PART]
            part /= whole
            np.copysign(part, place[start : start + _PART], out=part)
            part *= self.radius
        result += 0.0 if self.ball.dimension is None else self.ball.centre(self.d)
        return result

    def moved(self, place: Floats, gradient: Floats, step: float, pull: float) -> Floats:
        """Return the dual vector after a step."""
        return _dual_step(place, gradient, step, pull)

    def spread(self, distance: float) -> float:
        """Return R^2 log 2d, whatever the distance."""
        return self.radius * self.radius * math.log(2.0 * self.d)


def _exponentials(t: Floats, top: float) -> float:
    """Put exp(t - top) - exp(-t - top) in the place of t, and return the sum of all exponentials.

    In parts that stay in the cache; halves as NumPy halves a sum, whose bits it has.
    """
    if len(t) > _PART:
        half = len(t) // 2
        half -= half % 8
        return _exponentials(t[:half], top) + _exponentials(t[half:], top)
    minus = np.negative(t)
    for part in (t, minus):
        part -= top
        np.exp(part, out=part)
    both = float(np.sum(t + minus))
    t -= minus
    return both


def _dual_step(place: Floats, gradient: Floats, step: float, pull: float) -> Floats:
    """Return the dual vector of the minimiser, finite whatever the noise."""
    with np.errstate(over="ignore"):
        moved = total(step * gradient)
        np.subtract(place, moved, out=moved)
        moved /= 1.0 + step * pull
        return total(moved)


# -- which one -------------------------------------------------------------------------------------


def natural_p(task: Task) -> float:
    """Return the p in whose norm weights are measured: the domain's, else the dual of the rows'."""
    domain = task.problem.domain
    if isinstance(domain, Simplex):
        return 1.0
    if isinstance(domain, LpBall) and domain.p <= 2.0:
        return domain.p
    norm = task.problem.bounds.norm
    if isinstance(domain, WholeSpace) and isinstance(norm, Lp) and norm.p > 2.0:
        return conjugate(norm.p)
    return 2.0


def natural_map(domain: Domain) -> str:
    """Return the entropy where the domain has vertices on the axes, else the p-norm."""
    flat = isinstance(domain, Simplex) or (isinstance(domain, LpBall) and domain.p == 1.0)
    return "entropy" if flat else "p_norm"


def mirror(name: str, p: float, domain: Domain, d: int) -> Mirror:
    """Return a map on a domain.

    Raises:
        AssumptionError: its step has no closed form there.
    """
    if name == "entropy":
        if isinstance(domain, Simplex):
            return SimplexMirror(Entropy.regular(domain.total), d)
        if isinstance(domain, LpBall) and domain.p == 1.0:
            return L1Mirror(domain, domain.radius(d, Lp(1.0)), d)
        raise AssumptionError(
            f"entropic steps are for L1Ball(radius) and Simplex(total), and the domain is "
            f"{domain}. Take mirror='p_norm'."
        )
    exponent, kappa = exponent_of(p, domain, d)
    within = isinstance(domain, WholeSpace) or (
        isinstance(domain, LpBall) and domain.p in (1.0, exponent)
    )
    if exponent != 2.0 and not within:
        other = "mirror='entropy'" if isinstance(domain, Simplex) else "p=2.0, which projects"
        raise AssumptionError(
            f"a step in the l{exponent:.4g} norm is exact on R^d, an l1 ball and an "
            f"l{exponent:.4g} ball only, and the domain is {domain}. Take {other}."
        )
    return PNormMirror(PNormMap(exponent, kappa), domain, d)


def exponent_of(p: float, domain: Domain, d: int) -> tuple[float, float]:
    """Return the exponent e of the potential and kappa, which makes it 1-strongly convex in l_p.

    Near p = 1 the exponent is that of `Regularity`. A ball of another exponent so near 1 keeps its
    own, because steps onto it are exact only then.
    """
    regular = Regularity(p, d)
    if regular.capped and isinstance(domain, LpBall) and domain.p == p > 1.0:
        return p, 1.0 / (p - 1.0)
    return regular.pbar, regular.kappa
