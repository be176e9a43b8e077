"""Mirror maps: squared p-norm potentials and the entropy, with exact gradients, inverses and steps.

A step from w with gradient g is the exact minimiser over the domain of

    <g, v> + D(v, w) / step + extra * Phi(v - centre),

where D is the Bregman divergence of the potential Phi, itself placed at the centre. Potential,
gradient and inverse follow the floats: NaN gives NaN. A step is total instead, as projections are:
a coordinate that is not a number counts as zero, infinity as the largest float.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._validate import integer, non_negative, positive, real
from ..errors import AssumptionError, ParameterError
from .norms import L1, Lp, Norm, equivalence

if TYPE_CHECKING:
    from .domains import Domain

Floats = NDArray[np.float64]

LARGEST = float(np.finfo(float).max)
_SMALLEST = float(np.finfo(float).tiny)
_NEAR = 0.25  # relative change up to which power series replace differences
_TERMS = np.arange(2.0, 29.0)  # exponents of those series: 0.25**29 < 4e-18
_ENTROPY_SERIES = (-1.0) ** _TERMS / (_TERMS * (_TERMS - 1.0))
_ROUNDING = float(np.finfo(float).eps)
_MOST_ITERATIONS = 200


class MirrorMap(ABC):
    """A strictly convex potential, whose gradient maps weights to dual vectors and back."""

    @property
    @abstractmethod
    def norm(self) -> Norm:
        """The norm in which the potential is naturally strongly convex."""

    @abstractmethod
    def potential(self, weights: ArrayLike) -> Floats:
        """Return Phi along the last axis."""

    @abstractmethod
    def gradient(self, weights: ArrayLike) -> Floats:
        """Return the gradient of Phi along the last axis."""

    @abstractmethod
    def inverse(self, dual: ArrayLike) -> Floats:
        """Return the weights that have this gradient (on the simplex: up to a constant)."""

    @abstractmethod
    def bregman(self, point: ArrayLike, weights: ArrayLike) -> float:
        """Return Phi(point) - Phi(weights) - <gradient(weights), point - weights> >= 0.

        Accurate also where the two nearly agree; NaN if an entry is not finite.
        """

    @abstractmethod
    def _own_modulus(self) -> float:
        """Return the strong convexity in `norm`."""

    def strong_convexity(self, norm: Norm | None = None, d: int | None = None) -> float:
        """Return m with D(v, w) >= m/2 ||v - w||^2.

        Args:
            norm: None for the map's own norm, where m is the best constant.
            d: the dimension, needed for another norm.
        """
        if norm is None or norm == self.norm:
            return self._own_modulus()
        if d is None:
            raise ParameterError("strong_convexity in another norm needs the dimension: pass d.")
        return self._own_modulus() / equivalence(self.norm, norm, d) ** 2


@dataclass(frozen=True)
class Regularity:
    """The exponents and the constant that make the geometry of l_p in R^d, 1 <= p <= 2, smooth.

    The square of the dual norm l_q is smooth only up to a factor that grows with q. Replacing q by
    ``r = max(2, min(q, 2 ln d))`` costs at most a factor e and keeps the constant logarithmic in d:

        ||x + y||_r^2 <= ||x||_r^2 + <gradient, y> + (r - 1) ||y||_r^2,
        (kappa / 2) ||w||_pbar^2 is 1-strongly convex in ||.||_p, kappa = (r - 1) d^(2 (1/r - 1/q)),

    with pbar = r / (r - 1). The second holds since half the squared l_pbar norm is (pbar - 1)-
    strongly convex in l_pbar and ``||w||_p <= d^(1/r - 1/q) ||w||_pbar``.

    >>> l1 = Regularity(1.0, 200)
    >>> round(l1.r, 4), round(l1.pbar, 4), round(l1.kappa, 4)
    (10.5966, 1.1042, 26.0864)
    """

    p: float
    d: int

    def __post_init__(self) -> None:
        p = real("p", self.p)
        if not 1.0 <= p <= 2.0:
            raise ParameterError(
                f"Regularity needs p from 1 to 2, got {p!r}. For p above 2 work in l_2: "
                "||w||_2 <= d^(1/2 - 1/p) ||w||_p."
            )
        object.__setattr__(self, "p", p)
        object.__setattr__(self, "d", integer("d", self.d))

    @property
    def q(self) -> float:
        """The dual exponent, p / (p - 1)."""
        return math.inf if self.p == 1.0 else self.p / (self.p - 1.0)

    @property
    def r(self) -> float:
        """The smoothing exponent, at most q: gradients are measured in l_r."""
        return max(2.0, min(self.q, 2.0 * math.log(self.d)))

    @property
    def capped(self) -> bool:
        """Whether r lies below q, so that pbar lies above p."""
        return self.r < self.q

    @property
    def pbar(self) -> float:
        """The conjugate of r: the exponent of the potential; p itself unless r was capped."""
        return self.r / (self.r - 1.0) if self.capped else self.p

    @property
    def stretch(self) -> float:
        """sup ||w||_p / ||w||_pbar = d^(1/r - 1/q), at most sqrt(e).

        The l_p ball of radius R lies in the l_pbar ball of radius R, which reaches to R * stretch.
        """
        return float(self.d ** (1.0 / self.r - 1.0 / self.q)) if self.capped else 1.0

    @property
    def kappa(self) -> float:
        """(r - 1) d^(2 (1/r - 1/q)): the factor of the potential."""
        return (self.r - 1.0) * self.stretch**2

    @property
    def norm(self) -> Lp:
        """The norm of the weights, l_p."""
        return Lp(self.p)

    @property
    def potential_norm(self) -> Lp:
        """The norm of the potential, l_pbar."""
        return Lp(self.pbar)

    @property
    def smooth_norm(self) -> Lp:
        """The norm of gradients whose square is 2 (r - 1)-smooth, l_r."""
        return Lp(self.r)


@dataclass(frozen=True)
class PNormMap(MirrorMap):
    """Phi(w) = scale / 2 * ||w||_exponent^2, 1 < exponent <= 2.

    >>> PNormMap(1.5, 2.0).gradient([1.0, -2.0, 0.0, 0.5]).round(6).tolist()
    [3.222236, -4.55693, 0.0, 2.278465]
    """

    exponent: float
    scale: float = 1.0

    def __post_init__(self) -> None:
        exponent = real("exponent", self.exponent)
        if not 1.0 < exponent <= 2.0:
            raise ParameterError(
                f"PNormMap needs an exponent above 1 and at most 2, got {exponent!r}. For p = 1 "
                "use PNormMap.regular(Regularity(1.0, d)); above 2 use exponent 2."
            )
        object.__setattr__(self, "exponent", exponent)
        object.__setattr__(self, "scale", positive("scale", self.scale))

    @classmethod
    def regular(cls, regularity: Regularity) -> PNormMap:
        """Return the map with exponent pbar and scale kappa: 1-strongly convex in l_p."""
        return cls(regularity.pbar, regularity.kappa)

    @property
    def norm(self) -> Lp:
        """The norm of the potential."""
        return Lp(self.exponent)

    def potential(self, weights: ArrayLike) -> Floats:
        """Return scale / 2 * ||w||^2 along the last axis."""
        size = self.norm(weights)
        with np.errstate(over="ignore", under="ignore"):
            return np.asarray(0.5 * self.scale * size * size)

    def gradient(self, weights: ArrayLike) -> Floats:
        """Return scale * ||w||^(2 - p) sign(w) |w|^(p - 1) along the last axis."""
        return duality(weights, self.exponent, self.scale)

    def inverse(self, dual: ArrayLike) -> Floats:
        """Return ||y||_r^(2 - r) sign(y) |y|^(r - 1) / scale, r the conjugate of the exponent."""
        return duality(dual, self._conjugate, 1.0 / self.scale)

    def bregman(self, point: ArrayLike, weights: ArrayLike) -> float:
        """Return the divergence; for exponent 2 it is scale / 2 * ||point - weights||^2."""
        v, w = vectors(point=point, weights=weights)
        if not (np.all(np.isfinite(v)) and np.all(np.isfinite(w))):
            return math.nan
        top = max(float(np.max(np.abs(v))), float(np.max(np.abs(w))))
        if top == 0.0:
            return 0.0
        unit = math.ldexp(1.0, math.frexp(top)[1] - 1)  # a power of two: differences stay exact
        with np.errstate(over="ignore", under="ignore"):
            result = half_square_bregman(v / unit, w / unit, self.exponent)
        return result * unit * unit * self.scale if result > 0.0 else 0.0

    def spread(self, domain: Domain, d: int) -> float:
        """Return sup Phi(w - centre) over the domain, an upper bound if its radius is one.

        With the potential at the domain's centre this is the divergence from a start there.
        """
        return 0.5 * self.scale * domain.radius(integer("d", d), self.norm) ** 2

    def step(
        self,
        weights: ArrayLike,
        gradient: ArrayLike,
        step: float,
        *,
        domain: Domain | None = None,
        extra: float = 0.0,
        centre: ArrayLike | None = None,
    ) -> Floats:
        """Return the minimiser over the domain that this module's text describes.

        Args:
            weights: where the step starts.
            gradient: the (noisy) gradient there.
            step: its weight against the divergence, positive.
            domain: None or WholeSpace for R^d, a ball of the map's norm or an l_1 ball about
                the centre; if the exponent is 2, any domain at all.
            extra: weight of the potential in the objective, as ridge or proximal term.
            centre: where the potential is least; None is the origin.

        Raises:
            AssumptionError: the step has no closed form on this domain.
        """
        w, g = vectors(weights=weights, gradient=gradient)
        c = np.zeros_like(w) if centre is None else vectors(centre=centre, weights=w)[0]
        step, extra = positive("step", step), non_negative("extra", extra)
        with np.errstate(over="ignore", under="ignore"):
            move = total(step * total(g))
            dual = total(self.gradient(total(w - c)) - move) / (1.0 + step * extra)
            if self.exponent == 2.0:
                free = total(c + dual / self.scale)
                return free if domain is None else np.asarray(domain.project(free))
            return np.asarray(c + self._constrained(dual, domain, c))

    def _constrained(self, dual: Floats, domain: Domain | None, centre: Floats) -> Floats:
        """Return the minimiser of Phi(u) - <dual, u> over centre + u in the domain."""
        from .domains import LpBall, WholeSpace

        if domain is None or isinstance(domain, WholeSpace):
            return self.inverse(dual)
        d = len(centre)
        if not isinstance(domain, LpBall) or domain.p not in (1.0, self.exponent):
            raise AssumptionError(
                f"a mirror step in the l_{self.exponent:.6g} norm is exact on R^d, an l_1 ball and "
                f"an l_{self.exponent:.6g} ball, got {domain}. An l_p ball with p below the "
                f"exponent lies in LpBall({self.exponent:.6g}, radius) of the same radius; on any "
                "domain PNormMap(2.0) steps by projection."
            )
        if not np.array_equal(domain.centre(d), centre):
            raise AssumptionError(
                "a mirror step on a ball needs the potential at the ball's centre. Pass "
                "centre=domain.centre(d)."
            )
        radius = domain.radius(d, Lp(domain.p))
        if domain.p == 1.0:
            return self._into_l1_ball(dual, radius)
        free = self.inverse(dual)
        if float(self.norm(free)) <= radius:
            return free
        along = duality(dual / np.max(np.abs(dual)), self._conjugate, 1.0)
        return np.asarray(radius * (along / self.norm(along)))

    def _into_l1_ball(self, dual: Floats, radius: float) -> Floats:
        """Return inverse(soft(dual, nu)) for the least nu >= 0 with l_1 norm at most ``radius``.

        In units of the largest |dual|, tau = 1 - nu is the largest entry after the threshold.
        With s = (1 - gap / tau)_+ the l_1 norm is tau * A^((2 - r) / r) B, A = sum s^r and
        B = sum s^(r - 1): increasing in tau, between tau and d^(2 / r) tau.
        """
        free = self.inverse(dual)
        if float(L1(free)) <= radius:
            return free
        size = np.abs(dual)
        top = float(np.max(size))
        gap = (top - size) / top
        tau = threshold(gap, self._conjugate, self.scale * (radius / top))
        share = np.maximum(0.0, 1.0 - gap / tau) ** (self._conjugate - 1.0)
        return np.asarray(np.copysign(radius * (share / np.sum(share)), dual))

    @property
    def _conjugate(self) -> float:
        """The exponent of the dual norm."""
        return 1.0 + 1.0 / (self.exponent - 1.0)

    def _own_modulus(self) -> float:
        return self.scale * (self.exponent - 1.0)


@dataclass(frozen=True)
class Entropy(MirrorMap):
    """Phi(w) = scale * sum w log w on the simplex {w >= 0, sum w = total}.

    >>> Entropy().step([0.5, 0.25, 0.25], [0.0, 0.0, float("inf")], 1.0).round(6).tolist()
    [0.666667, 0.333333, 0.0]
    """

    total: float = 1.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", positive("total", self.total))
        object.__setattr__(self, "scale", positive("scale", self.scale))

    @classmethod
    def regular(cls, total: float = 1.0) -> Entropy:
        """Return the entropy scaled by the total: 1-strongly convex in l_1."""
        return cls(total, total)

    @property
    def norm(self) -> Lp:
        """The l_1 norm."""
        return L1

    def potential(self, weights: ArrayLike) -> Floats:
        """Return scale * sum w log w along the last axis, 0 log 0 being 0."""
        w = np.asarray(weights, dtype=float)
        with np.errstate(over="ignore", under="ignore"):
            return np.asarray(self.scale * np.sum(w * np.log(np.where(w == 0.0, 1.0, w)), axis=-1))

    def gradient(self, weights: ArrayLike) -> Floats:
        """Return scale * (1 + log w); -inf at zero."""
        with np.errstate(divide="ignore"):
            return np.asarray(self.scale * (1.0 + np.log(np.asarray(weights, dtype=float))))

    def inverse(self, dual: ArrayLike) -> Floats:
        """Return total * softmax(dual / scale): the member of the simplex with this gradient."""
        with np.errstate(over="ignore"):
            return self._softmax(np.asarray(dual, dtype=float) / self.scale)

    def bregman(self, point: ArrayLike, weights: ArrayLike) -> float:
        """Return scale * sum (v log(v / w) - v + w), infinite where w is 0 and v is not."""
        v, w = vectors(point=point, weights=weights)
        if not (np.all(np.isfinite(v)) and np.all(np.isfinite(w))):
            return math.nan
        if np.any((w == 0.0) & (v > 0.0)):
            return math.inf
        return self.scale * (entropy_bregman(v[w > 0.0], w[w > 0.0]))

    def spread(self, domain: Domain, d: int) -> float:
        """Return scale * total * log d: the divergence of a vertex from the uniform weights."""
        if getattr(domain, "total", None) != self.total:
            raise AssumptionError(f"this entropy lives on Simplex({self.total!r}), got {domain}.")
        return self.scale * self.total * math.log(integer("d", d))

    def step(
        self, weights: ArrayLike, gradient: ArrayLike, step: float, *, extra: float = 0.0
    ) -> Floats:
        """Return the minimiser over the simplex: multiplicative weights, in log space.

        Weights of zero stay zero; if all are zero the step starts at the uniform weights. A weight
        may underflow to zero and then stays there: to avoid it sum up dual vectors and use
        `inverse`.

        Args:
            weights: where the step starts, zero or above; their sum does not matter.
            gradient: the (noisy) gradient there.
            step: its weight against the divergence, positive.
            extra: weight of the potential in the objective, which pulls to the uniform weights.
        """
        w, g = vectors(weights=weights, gradient=gradient)
        step, extra = positive("step", step), non_negative("extra", extra)
        w = total(w)
        with np.errstate(divide="ignore", over="ignore", under="ignore"):
            logs = np.log(np.maximum(w, 0.0)) if np.any(w > 0.0) else np.zeros_like(w)
            move = total(step * (total(g) / self.scale))
            return self._softmax((logs - move) / (1.0 + step * extra))

    def _softmax(self, logs: Floats) -> Floats:
        """Return weights in proportion to exp(logs), summing to the total."""
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            top = np.max(logs, axis=-1, keepdims=True)
            shares = np.exp(np.where(logs == top, 0.0, logs - top))
            return np.asarray(self.total * (shares / np.sum(shares, axis=-1, keepdims=True)))

    def _own_modulus(self) -> float:
        return self.scale / self.total


# -- duality map, divergence near equality, threshold, totals --------------------------------------


def vectors(**values: ArrayLike) -> tuple[Floats, ...]:
    """Return the named values as vectors of one length."""
    result = tuple(np.asarray(value, dtype=float) for value in values.values())
    shapes = {array.shape for array in result}
    if len(shapes) > 1 or result[0].ndim != 1 or result[0].size == 0:
        sizes = ", ".join(f"{name} {a.shape}" for name, a in zip(values, result, strict=True))
        raise ParameterError(f"a mirror map needs vectors of one length here, got {sizes}.")
    return result


def total(values: Floats) -> Floats:
    """Return the values with NaN as zero and infinity as the largest float."""
    if np.all(np.isfinite(values)):
        return values
    return np.nan_to_num(values, nan=0.0, posinf=LARGEST, neginf=-LARGEST)


def duality(vector: ArrayLike, exponent: float, factor: float) -> Floats:
    """Return factor * ||x||^(2 - p) sign(x) |x|^(p - 1) along the last axis, p the exponent.

    It is the gradient of factor / 2 * ||x||_p^2. Entries are divided by the largest first: the
    powers of a plain formula underflow, with p up to 14 at d = 1000.
    """
    x = np.asarray(vector, dtype=float)
    with np.errstate(over="ignore", under="ignore"):
        if exponent == 2.0:
            return np.asarray(factor * x)
        size = np.minimum(np.abs(x), LARGEST)
        top = np.max(size, axis=-1, keepdims=True, initial=0.0)
        size = size / np.where(top == 0.0, 1.0, top)
        norm = np.maximum(Lp(exponent)(size)[..., None], 1.0)  # below 1 only for the zero vector
        size = size ** (exponent - 1.0) * norm ** (2.0 - exponent)
        return np.asarray(np.copysign(np.minimum(factor * top, LARGEST) * size, x))


def half_square_bregman(v: Floats, w: Floats, p: float) -> float:
    """Return the divergence of ||.||_p^2 / 2 for entries of about 1, stable near v = w.

    With N = ||w||, M = ||v|| and F = sum |w_j|^p it is (M - N)^2 / 2 + N (M - N - <N', v - w>). The
    last bracket is N (b(1/p, rho) + E / (p F)), where rho = (sum |v_j|^p) / F - 1,
    b(a, t) = (1 + t)^a - 1 - a t, and E is the divergence of sum |.|^p, itself a sum of
    |w_j|^p b(p, (v_j - w_j) / w_j). Nothing of first order is left to cancel.
    """
    change = v - w
    if p == 2.0:
        return 0.5 * float(change @ change)
    norm, moved = float(Lp(p)(w)), float(Lp(p)(change))
    if moved > _NEAR * norm:
        other = float(Lp(p)(v))
        return 0.5 * other * other + 0.5 * norm * norm - float(duality(w, p, 1.0) @ v)
    size = np.abs(w)
    slopes = np.copysign(size ** (p - 1.0), w)
    relative = np.divide(change, w, out=np.full_like(w, math.inf), where=np.abs(w) > _SMALLEST)
    near = np.abs(relative) <= _NEAR
    series = size**p * _series(np.where(near, relative, 0.0), _binomials(p))
    plain = np.abs(v) ** p - size**p - p * slopes * change
    excess = float(np.sum(np.where(near, series, plain)))
    whole = float(np.sum(size**p))
    rho = (excess + p * float(slopes @ change)) / whole
    longer = norm * math.expm1(math.log1p(rho) / p)
    return 0.5 * longer * longer + norm * norm * (_curved(1.0 / p, rho) + excess / (p * whole))


def entropy_bregman(v: Floats, w: Floats) -> float:
    """Return sum (v log(v / w) - v + w) for w > 0, v >= 0, stable near v = w."""
    with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
        change = (v - w) / w
        near = np.abs(change) <= _NEAR
        series = w * _series(np.where(near, change, 0.0), _ENTROPY_SERIES)
        logs = np.where(v > 0.0, np.log(v) - np.log(w), 0.0)
        return float(np.sum(np.where(near, series, v * logs - v + w)))


def threshold(gap: Floats, r: float, target: float) -> float:
    """Return tau with tau * A^((2 - r) / r) B = target, s = (1 - gap / tau)_+.

    Here A = sum s^r and B = sum s^(r - 1), and the least gap is 0. The left side over tau
    increases from 1 to at most d^(2 / r), which brackets tau; Newton's method in log tau,
    bisection where it leaves the bracket.
    """
    target = max(target, _SMALLEST)
    low, high = target * len(gap) ** (-2.0 / r), min(1.0, target)
    tau = high
    for _ in range(_MOST_ITERATIONS):
        s = np.maximum(0.0, 1.0 - gap / tau)
        first, second = float(np.sum(s**r)), float(np.sum(s ** (r - 1.0)))
        third = float(np.sum(s[s > 0.0] ** (r - 2.0)))
        value = math.log(tau / target * first ** ((2.0 - r) / r) * second)
        if abs(value) <= _ROUNDING:
            break
        low, high = (low, tau) if value > 0.0 else (tau, high)
        slope = (2.0 - r) * second / first + (r - 1.0) * third / second
        moved = tau * math.exp(-value / slope)
        if not low < moved < high:
            moved = math.sqrt(low) * math.sqrt(high)
        if moved == tau or not low < moved < high:
            break
        tau = moved
    return tau


def _curved(a: float, t: float) -> float:
    """Return (1 + t)^a - 1 - a t."""
    if abs(t) <= _NEAR:
        return float(_series(np.array(t), _binomials(a)))
    return float((1.0 + t) ** a - 1.0 - a * t)


def _binomials(a: float) -> Floats:
    """Return the binomial coefficients of a over 2, 3, ..."""
    below = np.arange(_TERMS[-1])
    return np.asarray(np.cumprod((a - below) / (below + 1.0))[1:])


def _series(t: Floats, coefficients: Floats) -> Floats:
    """Return sum_k coefficients_k t^k over k = 2, 3, ..."""
    result = np.zeros_like(t)
    for coefficient in coefficients[::-1]:
        result = result * t + coefficient
    return np.asarray(result * t * t)
