"""Privacy of the best of a secret, random number of runs.

A mechanism Q is run K times, K random and secret, and the run with the best score leaves. With
``g = f'`` the derivative of K's generating function, an output of score rank q = Q(<= y) has the
density ``A(y) = Q(y) g(q)``, averaged over its atom (Papernot, Steinke 2022, arXiv:2110.03620,
proof of Lemma 7). Here every law of K is written ``g(1 - z) = mean e^(-k(z))``, where

    poisson            k(z) = rate z                                  Poisson given K >= 1
    negative_binomial  k(z) = (1 + eta) log(1 + (1/gamma - 1) z)      their Def 1; eta = 1 is
                                                                      geometric, 0 logarithmic

Three bounds on neighbours A, A' follow from what is known of Q, Q'. The ranks z = 1 - q and z' =
1 - q' of an output are the powers of one test, hence ``z' <= e^e z + delta(e)`` for every e.

* Renyi: their Lemma 7, at its best over those (z, z'), and Thms 2 and 6, which follow from it.
* Pure: the ratio of A, A' is at most ``e^(e0 + k(z') - k(z))``. As k is concave and z k'(z) rises,
  it is largest at the corner of randomised response, z = 1/(1 + e^e0), z' = 1 - z. For small gamma
  that is their Cor 3, (2 + eta) e0 (Liu, Talwar 2019: 3 e0 for eta = 1).
* The privacy profile itself (in the spirit of Koskela, Redberg, Wang 2024). With l = dQ'/dQ,

      delta_A(e) = int (g(q) - e^e l g(q'))_+ dQ  <=  int Phi(e^e l) dQ,
      Phi(x) = sup over possible (z, z') of mean (e^(-k(z)) - x e^(-k(z')))_+ .

  Phi is convex and falls to 0, so that its chords between nodes l_j lie above it and are sums of
  ``w_j (l_j - l)_+`` with w_j >= 0, whose integrals are ``w_j l_j delta_Q(-log l_j)``. Only the
  base's delta at finitely many points enters, and no term is negative.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .... import _validate
from ....errors import ParameterError
from ...accounting import renyi
from ...randomness import Stream

Array = NDArray[np.float64]

LAWS = ("poisson", "negative_binomial")
NAMED = ("poisson", "geometric", "logarithmic")
MOST_RUNS = 1e4  # mean number
_UP = 1 + 1e-9  # relative error of some thousand sums and products of positive numbers, generously
_NODES = 160  # of the base's profile, on each side of 0
_RENYI_CELLS = 3000  # of the ranks
_LEAST_GAMMA = 1e-9  # of a negative binomial law: below, its tail is too long to draw from
_PIECE = 500.0  # rate of a Poisson law whose smallest probability is still a normal number
_POINTS = 1000  # of the best run's profile, for compositions
_LARGEST = 600.0  # epsilon of the base, beyond which nothing is hidden
_LEAST_DELTA = 1e-25  # of the base, where its profile ends


@dataclass(frozen=True)
class Runs:
    """The law of the number of runs, always at least one.

    ``parameter`` is the rate of 'poisson' (conditioned on K >= 1), or gamma of the truncated
    'negative_binomial', whose ``eta`` > -1 is 1 for the geometric and 0 for the logarithmic law.

    >>> Runs.named("geometric", 10.0)
    Runs(law='negative_binomial', parameter=0.1, eta=1.0)
    """

    law: str
    parameter: float
    eta: float | None = None

    def __post_init__(self) -> None:
        _validate.choice("law", self.law, LAWS)
        parameter = _validate.positive("parameter", self.parameter)
        object.__setattr__(self, "parameter", parameter)
        if self.law == "negative_binomial":
            eta = _validate.real("eta", self.eta)
            if not -1.0 < eta <= 100.0 or not _LEAST_GAMMA <= parameter < 1.0:
                raise ParameterError(
                    "a truncated negative binomial number of runs needs eta above -1 (at most 100) "
                    f"and gamma from {_LEAST_GAMMA:g} to below 1, got eta={eta} and "
                    f"gamma={parameter}."
                )
            object.__setattr__(self, "eta", eta)
        elif self.eta is not None:
            raise ParameterError(f"eta belongs to law='negative_binomial', got {self.eta!r}.")
        if not self.mean <= MOST_RUNS * (1 + 1e-9):
            raise ParameterError(
                f"the mean number of runs must be at most {MOST_RUNS:.0f}, got {self.mean:.6g}."
            )

    @classmethod
    def named(cls, distribution: str, mean: float) -> Runs:
        """Return the 'poisson', 'geometric' or 'logarithmic' law with this mean number of runs."""
        _validate.choice("distribution", distribution, NAMED)
        wanted = _validate.positive("mean_runs", mean)
        if not 1.0 < wanted <= MOST_RUNS:
            raise ParameterError(
                f"mean_runs must be above 1 and at most {MOST_RUNS:.0f}, got {wanted}. For one "
                "run, fit the estimator itself.",
                parameter="mean_runs",
            )
        if distribution == "poisson":
            return cls(
                "poisson", _solve(lambda rate: cls("poisson", rate).mean, wanted, rising=True)
            )
        eta = 1.0 if distribution == "geometric" else 0.0
        if eta == 1.0:
            return cls("negative_binomial", 1.0 / wanted, eta)
        gamma = _solve(lambda x: _binomial_mean(x, eta), wanted, rising=False)
        return cls("negative_binomial", gamma, eta)

    @property
    def mean(self) -> float:
        """The mean number of runs."""
        if self.law == "poisson":
            return self.parameter / -math.expm1(-self.parameter)
        return _binomial_mean(self.parameter, self.eta or 0.0)

    @property
    def name(self) -> str:
        """The law in a word."""
        known = {0.0: "logarithmic", 1.0: "geometric"}
        return self.law if self.eta is None else known.get(self.eta, f"{self.law} eta {self.eta:g}")

    def fall(self, z: Array) -> Array:
        """Return k(z) = log(g(1)/g(1 - z)): how much less often a run of rank z is selected."""
        if self.law == "poisson":
            return np.asarray(self.parameter * z)
        return np.asarray((1 + (self.eta or 0.0)) * np.log1p((1 / self.parameter - 1) * z))

    def rank(self, k: Array) -> Array:
        """Return z of k(z): the inverse of :meth:`fall`."""
        if self.law == "poisson":
            return np.asarray(k / self.parameter)
        return np.asarray(np.expm1(k / (1 + (self.eta or 0.0))) / (1 / self.parameter - 1))

    def draw_number(self, stream: Stream) -> int:
        """Return a number of runs, by inversion of its distribution; it must stay secret.

        A Poisson law of a large rate is a sum of independent ones; given that it is not 0, it is
        drawn again if it is. See :func:`_inverted` for how exact this is.
        """
        if self.law == "negative_binomial" or self.parameter <= _PIECE:
            return _inverted(stream, 1, self._single(), self._ratio, self.mean)
        pieces = math.ceil(self.parameter / _PIECE)
        rate = self.parameter / pieces
        while True:
            parts = (
                _inverted(stream, 0, math.exp(-rate), lambda k: rate / (k + 1), rate)
                for _ in range(pieces)
            )
            if runs := sum(parts):
                return runs

    def _single(self) -> float:
        """Return P(K = 1) = g(0)."""
        return self.mean * math.exp(-float(self.fall(np.array(1.0))))

    def _ratio(self, k: int) -> float:
        """Return P(K = k + 1)/P(K = k)."""
        if self.law == "poisson":
            return self.parameter / (k + 1)
        return (1 - self.parameter) * (k + (self.eta or 0.0)) / (k + 1)


@dataclass(frozen=True)
class Base:
    """What is known of one run on a row: its privacy profile, and more where there is more."""

    delta: Callable[[float], float]
    curve: renyi.Curve | None = None
    pure: float = math.inf
    others: tuple[Callable[[float], float], ...] = ()  # further profiles: the largest counts

    @cached_property
    def nodes(self) -> tuple[Array, Array]:
        """Points e >= 0 and delta(e) there, from 0 to where it has no weight."""
        # One profile after the other: each may stand on a distribution that is dear to compute.
        profiles = (self.delta, *self.others)
        epsilons = max(map(_reach, profiles)) * np.linspace(0.0, 1.0, _NODES)
        deltas = np.max([[delta(float(e)) for e in epsilons] for delta in profiles], axis=0)
        return epsilons, np.minimum(np.minimum.accumulate(deltas), 1.0)

    def delta_between(self, epsilons: Array) -> Array:
        """Return delta anywhere, by chords: delta is convex in e^epsilon, hence below them."""
        e, d = self.nodes
        return np.asarray(np.interp(np.exp(np.minimum(epsilons, e[-1])), np.exp(e), d))

    def power(self, z: Array) -> Array:
        """Return the largest z' of a test of size z, from above.

        Every node gives two lines above it; which node is best is found by where the lines of
        neighbouring nodes meet. A node that is not the best is still valid.
        """
        e, d = self.nodes
        growth = np.exp(e)
        gap = np.diff(growth)
        meet = -np.diff(d) / gap  # falling: the smaller z, the larger e
        at = len(meet) - np.searchsorted(meet[::-1], z)
        one = growth[at] * z + d[at]
        meet = (d[:-1] * growth[1:] - d[1:] * growth[:-1]) / gap  # in 1 - z, rising
        at = len(meet) - np.searchsorted(meet[::-1], 1 - z)
        two = 1 - (1 - z - d[at]) / growth[at]
        return np.asarray(np.minimum(np.minimum(one, two) + 1e-15, 1.0))


@dataclass(frozen=True)
class Selected:
    """What is known of the best run: its profile, its Renyi curve, its pure epsilon."""

    base: Base
    runs: Runs

    def delta(self, epsilon: float) -> float:
        """Return delta at ``epsilon``, rounded up: the sum over the nodes of the module's text."""
        ratios, deltas = self._sticks
        scaled = np.exp(np.minimum(epsilon + np.log(ratios), 700.0))
        phi = np.concatenate([[1.0], np.interp(scaled, *self._envelope)])  # Phi(0)/mean = 1
        steep = np.append(-np.diff(phi) / np.diff(ratios, prepend=0.0), 0.0)
        bends = np.maximum(steep[:-1] - steep[1:], 0.0)
        total = float(phi[-1] + np.dot(bends * ratios, deltas))
        return min(1.0, self.runs.mean * total * _UP)

    def curve(self, orders: Array) -> Array:
        """Return the Renyi divergences of the best run, from those of one.

        Papernot, Steinke 2022:
        Thm 2    R(a) + (1 + eta) min_b ((1 - 1/b) R(b) + log(1/gamma)/b) + log(mean)/(a - 1)
        Thm 6    R(a) + rate delta(log(a/(a - 1))) + log(mean)/(a - 1)
        Lemma 7  R(a) + sup ((a - 1) k(z') - a k(z))/(a - 1) + log(mean)/(a - 1)
        """
        if self.base.curve is None:
            raise ParameterError("a Renyi curve of the best run needs one of the single run.")
        if self.runs.law == "poisson":
            between = self.base.delta_between(-np.log1p(-1 / orders) * (1 - 1e-12))
            theorem = self.runs.parameter * between
        else:
            theorem = np.full_like(orders, self._theorem_2)
        k, moved = self._renyi_cells
        lemma = np.array([np.max(moved - (1 + 1 / (a - 1)) * k) for a in orders])
        more = math.log(self.runs.mean) / (orders - 1)
        return np.asarray(self.base.curve(orders) + (np.minimum(theorem, lemma) + more) * _UP)

    @cached_property
    def pure(self) -> float:
        """The pure epsilon: what the corner of randomised response gives."""
        e0, parameter = self.base.pure, self.runs.parameter
        if self.runs.law == "poisson":
            more = parameter * math.tanh(0.5 * e0)
        else:  # log of (gamma + e^e0)/(1 + gamma e^e0), without differences of nearly equal numbers
            gain = (1 - parameter) * -math.expm1(-e0) / (math.exp(-e0) + parameter)
            more = (1 + (self.runs.eta or 0.0)) * math.log1p(gain)
        return (e0 + more) * (1 + 1e-13)  # of which rounding takes at most 1e-14

    def points(self) -> tuple[Array, Array]:
        """Return epsilons from 0 on and delta there, for compositions."""
        return self._points

    @cached_property
    def _points(self) -> tuple[Array, Array]:
        epsilons = _reach(self.delta) * np.linspace(0.0, 1.0, _POINTS)
        return epsilons, np.minimum.accumulate([self.delta(float(e)) for e in epsilons])

    @cached_property
    def _theorem_2(self) -> float:
        """The constant of Thm 2 at its best second order."""
        assert self.base.curve is not None
        orders = 1.0 + np.geomspace(1e-6, 1e8, 2000)
        stop = -math.log(self.runs.parameter)
        terms = (1 - 1 / orders) * self.base.curve(orders) + stop / orders
        return (1 + (self.runs.eta or 0.0)) * float(np.min(terms))

    @cached_property
    def _sticks(self) -> tuple[Array, Array]:
        """The nodes l_j, rising, and the base's delta(-log l_j); below 0 by duality."""
        e, d = self.base.nodes
        mirrored = -np.expm1(-e[1:]) + np.exp(-e[1:]) * d[1:]
        epsilons, deltas = np.concatenate([e[::-1], -e[1:]]), np.concatenate([d[::-1], mirrored])
        return np.exp(-epsilons), np.asarray(deltas)

    def _cells(self, count: int) -> tuple[Array, Array]:
        """Return k(z) from below and k(z') from above on cells that cover every z."""
        k = np.linspace(0.0, float(self.runs.fall(np.array(1.0))), count + 1)
        z = np.minimum(self.runs.rank(k) * _UP, 1.0)
        z[-1] = 1.0
        moved = self.runs.fall(self.base.power(np.concatenate([[0.0], z[1:]])))
        return np.concatenate([[0.0], k[:-1]]), moved  # the point z = 0 by itself, first

    @cached_property
    def _renyi_cells(self) -> tuple[Array, Array]:
        return self._cells(_RENYI_CELLS)

    @cached_property
    def _envelope(self) -> tuple[Array, Array]:
        """The corners x, and Phi(x)/mean, of the largest of the lines e^(-k) - x e^(-k')."""
        count = int(min(max(1000 * float(self.runs.fall(np.array(1.0))), 2000), 40_000))
        heights, slopes = (np.exp(-values).tolist() for values in self._cells(count))
        x, hull = [0.0], [(heights[0], slopes[0])]  # the first line is highest at 0
        for height, slope in zip([*heights[1:], 0.0], [*slopes[1:], 0.0], strict=True):
            while slope < hull[-1][1]:  # flatter: above the last one from some x on
                meet = (hull[-1][0] - height) / (hull[-1][1] - slope)
                if meet > x[-1] or len(x) == 1:
                    x.append(max(meet, 0.0))
                    hull.append((height, slope))
                    break
                x.pop()
                hull.pop()
        values = [height - at * slope for at, (height, slope) in zip(x, hull, strict=True)]
        return np.array(x), np.maximum(np.array(values), 0.0)


def _binomial_mean(gamma: float, eta: float) -> float:
    """Return the mean of the truncated negative binomial law (Papernot, Steinke 2022, Def 1)."""
    log = math.log(gamma)
    if abs(eta * log) < 1e-12:  # the logarithmic law, and its neighbourhood
        return (1 - gamma) / (gamma * -log)
    return eta * (1 - gamma) / (gamma * -math.expm1(eta * log))


def _inverted(
    stream: Stream, first: int, chance: float, ratio: Callable[[int], float], mean: float
) -> int:
    """Return a number from ``first`` on, by inversion of a distribution.

    ``chance`` is the probability of the first number, ``ratio(k)`` that of k + 1 by that of k. The
    subtractions are exact, in units of 2^-192. A draw beyond the last number that counts is drawn
    again, and every chance is lowered by 2^-30 so that their sum stays below 1 in spite of
    rounding. Hence the law is off by a factor within 1 -+ k 2^-50 at k, which moves the epsilon of
    the best run by less than 2e-9 where k is below 10^6, and by the cut-off tail: past the mean
    and below 2^-150 the rest is less than 2^-150/gamma < 2^-120, far below any delta.
    """
    lowered = chance * (1 - 2.0**-30)
    while True:
        left = int.from_bytes(stream.words(3).astype("<u8").tobytes(), "little")
        k, chance = first, lowered
        while k <= mean or chance >= 2.0**-150:
            mass = int(chance * 2.0**192)
            if left < mass:
                return k
            left -= mass
            chance *= ratio(k)
            k += 1


def _reach(delta: Callable[[float], float]) -> float:
    """Return from where on a profile has no weight."""
    # A numerical profile may never fall below its own rounding: end where it stops falling.
    least = max(_LEAST_DELTA, 1.5 * delta(_LARGEST))
    low, top = 0.0, 2.0**-20
    while top < _LARGEST and delta(top) > least:
        low, top = top, min(2 * top, _LARGEST)
    for _ in range(4):
        middle = 0.5 * (low + top)
        low, top = (middle, top) if delta(middle) > least else (low, middle)
    return top


def _solve(mean: Callable[[float], float], wanted: float, *, rising: bool) -> float:
    """Return the parameter whose mean is just below ``wanted``, by bisection."""
    low, high = (1e-12, wanted) if rising else (1e-12, 1.0 - 1e-12)
    for _ in range(200):
        middle = 0.5 * (low + high)
        if (mean(middle) <= wanted) == rising:
            low = middle
        else:
            high = middle
    return low if rising else high
