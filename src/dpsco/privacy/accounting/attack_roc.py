"""How well the best attack can do: rigorous bounds read off a privacy curve.

An attacker sees the output and says which of two neighbouring tables it came from: "the person's
data was used" or "it was not". If the releases are (epsilon, delta)-DP in both directions, a test
with false-alarm rate a has power at most (Kairouz, Oh, Viswanath 2013, arXiv:1311.0776, Thm 2.1)

    min(e^epsilon a + delta,  1 - e^-epsilon (1 - a - delta)),

and, with even odds beforehand, is right with probability at most 1/2 + (e^epsilon - 1 + 2 delta) /
(2 (e^epsilon + 1)). Every epsilon gives a bound, so the least one over any set of them is a bound;
over all of them it is the trade-off curve itself (Dong, Roth, Su 2019, arXiv:1905.02383, Prop 6).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from .composition import Cost

Points = tuple[tuple[float, float], ...]

_NEAR, _FAR = 1e-4, 1e-12  # deltas up to which the curve is sampled densely, and at all
_DENSE, _SPARSE = 192, 32  # points in each part
_STRIDE = 12  # points of a step when the least bound is looked for
_SLACK = 1e-12  # rounding of the few operations behind a bound
FALSE_ALARMS = 0.01  # at which detection is stated where one number has to do


@dataclass(frozen=True)
class AttackBound:
    """What no attack on a run can exceed, whatever else the attacker knows."""

    accuracy: float  # largest share of right answers at even odds; guessing has 0.5
    detection: float  # largest share detected at 1 % false alarms; guessing has 0.01

    @property
    def advantage(self) -> float:
        """The largest difference between detection and false alarms, 0 to 1; guessing has 0."""
        return 2.0 * self.accuracy - 1.0  # exact for an accuracy of at least a half

    def to_json(self) -> dict[str, float]:
        """Return the numbers as JSON values."""
        return {
            "attack_accuracy": self.accuracy,
            "advantage": self.advantage,
            "detection_at_1_percent": self.detection,
        }

    def __str__(self) -> str:
        return (
            f"no attack is right about one row in more than {percent(self.accuracy)} of cases "
            f"(guessing: 50 %), or detects more than {percent(self.detection)} at "
            f"{percent(FALSE_ALARMS)} false alarms"
        )


@dataclass(frozen=True)
class Odds:
    """Bounds on every attack, from what the releases cost."""

    cost: Cost

    @cached_property
    def points(self) -> Points:
        """The privacy curve: pairs (epsilon, delta), epsilon rising."""
        return tuple(map(self._point, range(len(self._epsilons))))

    def power(self, false_alarms: float) -> float:
        """Return the most that a test can detect at this rate of false alarms.

        For Gaussian releases it lies within 3e-4 of what the best test reaches.
        """
        return self._least(lambda epsilon, delta: _power(epsilon, delta, false_alarms))

    @cached_property
    def accuracy(self) -> float:
        """The largest share of right answers when both tables are equally likely beforehand."""
        return self._least(_accuracy)

    @cached_property
    def bound(self) -> AttackBound:
        """The two numbers that listings show."""
        return AttackBound(self.accuracy, self.power(FALSE_ALARMS))

    @cached_property
    def _epsilons(self) -> tuple[float, ...]:
        near, far = (self._finite(delta) for delta in (_NEAR, _FAR))
        epsilons = {near * k / _DENSE for k in range(_DENSE + 1)}
        epsilons |= {near + (far - near) * k / _SPARSE for k in range(1, _SPARSE + 1)}
        return tuple(sorted(epsilons))

    @cached_property
    def _deltas(self) -> dict[int, float]:
        """What was computed of the curve: a delta may take milliseconds."""
        return {}

    def _point(self, place: int) -> tuple[float, float]:
        epsilon = self._epsilons[place]
        if place not in self._deltas:
            self._deltas[place] = self.cost.delta(epsilon)
        return epsilon, self._deltas[place]

    def _least(self, bound: Callable[[float, float], float]) -> float:
        """Return the least of a bound along the curve, looked for in large steps first.

        Every point proves its bound, so a search that passes over some stays on the safe side.
        """

        def at(place: int) -> float:
            return bound(*self._point(place))

        count = len(self._epsilons)
        near = min(range(0, count, _STRIDE), key=at)
        return min(map(at, range(max(0, near - _STRIDE + 1), min(count, near + _STRIDE))))

    def _finite(self, delta: float) -> float:
        """Return epsilon at ``delta``, or at the next larger power of ten where it is finite."""
        while delta < 0.5:
            epsilon = self.cost.epsilon(delta)
            if math.isfinite(epsilon):
                return epsilon
            delta *= 10
        return 1.0


def percent(share: float, digits: int = 1) -> str:
    """Return a share that is a privacy claim in per cent, rounded up.

    >>> percent(0.541201), percent(0.5), percent(1.0), percent(0.0100001)
    ('54.2 %', '50 %', '100 %', '1.1 %')
    """
    scale = 10**digits
    shown = math.ceil(share * 100 * scale) / scale
    return f"{min(shown, 100.0):.{digits}f}".removesuffix("." + "0" * digits) + " %"


def _power(epsilon: float, delta: float, false_alarms: float) -> float:
    """Return the two lines of the trade-off at one epsilon, whichever is lower, rounded up."""
    scaled = epsilon + math.log(false_alarms) if false_alarms > 0 else -math.inf
    rising = math.exp(min(scaled, 1.0)) * (1 + 1e-12) + delta  # from e^0 on it says nothing
    falling = 1.0 - math.exp(-epsilon) * (1.0 - false_alarms - delta)
    return min(1.0, min(rising, falling) + _SLACK)


def _accuracy(epsilon: float, delta: float) -> float:
    """Return the share of right answers at even odds, rounded up."""
    # (e^epsilon - 1)/(e^epsilon + 1) = tanh(epsilon/2), and 2/(e^epsilon + 1) = 1 - that.
    edge = math.tanh(epsilon / 2)
    return min(1.0, 0.5 + 0.5 * (edge + (1.0 - edge) * delta) + _SLACK)
