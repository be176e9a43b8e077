"""Mean oracles: how a mean of gradients without a bound is released, and what that costs.

The frameworks of Lowy, Razaviyayn 2023 (Algorithms 4 to 6) take any noisy mean with a known bias
and variance. An oracle is a frozen record: it says what each row is asked for at a threshold, how
much a row can then add (the engine compares that with what the noise was planned for), and how far
the mean is off. Bias and variance decide accuracy alone.

| oracle          | a row adds                                        | a row's l2 bound  |
|-----------------|---------------------------------------------------|-------------------|
| L2Clip          | its gradient, rescaled to the threshold           | threshold         |
| CoordinateClip  | its gradient, each coordinate cut (su2023, Thm 15)| sqrt(d) threshold |
| RowOracle       | a user's function of its gradient, rescaled       | threshold         |

``l2_clip_mean_oracle`` is the noisy mean itself (Algorithm 1), for a batch of rows.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ... import _validate
from ...data.queries import ClippedCoordinates, ClippedGradient, Loss, Query, coordinate_bound
from ...data.transformed import TransformedGradient
from ...errors import ParameterError
from ..base import Floats


class MeanOracle(ABC):
    """How a mean of gradients is bounded. Subclasses are frozen dataclasses."""

    @abstractmethod
    def query(self, loss: Loss, weights: Floats, threshold: float) -> Query:
        """Return what each row is asked for; its bound is `bound`."""

    @abstractmethod
    def bound(self, threshold: float, size: int) -> float:
        """Return the l2 bound on what one row adds to a sum, for ``size`` weights."""

    @abstractmethod
    def bias(self, threshold: float, moment: float, order: float) -> float:
        """Return a bound on the bias of the mean, for k-th moments of at most ``moment``."""

    def variance(self, threshold: float, moment: float, rows: int) -> float:
        """Return a bound on the mean's sampling variance, noise excluded."""
        return min(moment, threshold) ** 2 / rows


@dataclass(frozen=True)
class L2Clip(MeanOracle):
    """Rescale each gradient to at most the threshold (Algorithm 1, Lemma 8).

    >>> round(L2Clip().bias(9.43075072, 3.0, 2.0), 8)
    0.23858122
    """

    def query(self, loss: Loss, weights: Floats, threshold: float) -> ClippedGradient:
        """Ask for clipped gradients."""
        return ClippedGradient(loss, weights, threshold)

    def bound(self, threshold: float, size: int) -> float:
        """The threshold."""
        return threshold

    def bias(self, threshold: float, moment: float, order: float) -> float:
        """c_k r^k/C^(k-1): attained by the law on 0 and kC/(k-1)."""
        return tail_bias(threshold, moment, order)


@dataclass(frozen=True)
class CoordinateClip(MeanOracle):
    """Cut each coordinate at the threshold (Su, Zhao, Wang 2023, Thm 15).

    Better than `L2Clip` where single coordinates have heavy tails and few are large at a time;
    sqrt(d) times the noise at the same threshold.
    """

    def query(self, loss: Loss, weights: Floats, threshold: float) -> ClippedCoordinates:
        """Ask for gradients cut by coordinate."""
        return ClippedCoordinates(loss, weights, threshold)

    def bound(self, threshold: float, size: int) -> float:
        """sqrt(size) times the threshold, rounded up."""
        return coordinate_bound(threshold, size)

    def bias(self, threshold: float, moment: float, order: float) -> float:
        """c_k r^k/t^(k-1): the coordinates' k-th moments add up to at most r^k for k >= 2."""
        return tail_bias(threshold, moment, order)

    def variance(self, threshold: float, moment: float, rows: int) -> float:
        """That of the gradients."""
        return moment * moment / rows


@dataclass(frozen=True)
class RowOracle(MeanOracle):
    """A user's own rule for each row's gradient, with a stated bias.

    Args:
        function: from one row's gradient to a vector of its length; the result is rescaled to the
            threshold, so the bound on a row holds whatever the function does.
        row_bias: from (threshold, moment, order) to a bound on the bias; decides accuracy alone.
        name: for messages.
    """

    function: Callable[[Floats], Any]
    row_bias: Callable[[float, float, float], float]
    name: str = "row oracle"

    def __post_init__(self) -> None:
        if not callable(self.function) or not callable(self.row_bias):
            raise ParameterError("a RowOracle needs a function of a gradient and a row_bias.")

    def query(self, loss: Loss, weights: Floats, threshold: float) -> TransformedGradient:
        """Ask for what the function makes of gradients."""
        return TransformedGradient(loss, weights, threshold, self.function)

    def bound(self, threshold: float, size: int) -> float:
        """The threshold."""
        return threshold

    def bias(self, threshold: float, moment: float, order: float) -> float:
        """What was stated."""
        return _validate.non_negative("bias", self.row_bias(threshold, moment, order))


ORACLES: dict[str, MeanOracle] = {"l2_clip": L2Clip(), "coordinate_clip": CoordinateClip()}


def chosen_oracle(oracle: str | MeanOracle) -> MeanOracle:
    """Return an oracle by its name, or the user's own."""
    if isinstance(oracle, MeanOracle):
        return oracle
    hint = "Your own is a dpsco.solvers.common.mean_oracle.RowOracle."
    return ORACLES[_validate.choice("oracle", oracle, set(ORACLES), hint=hint)]


# -- formulas --------------------------------------------------------------------------------------


def tail_constant(order: float) -> float:
    """Return c_k = (k-1)^(k-1)/k^k; the paper has 1/(k-1).

    >>> [round(tail_constant(k), 8) for k in (2.0, 3.0, 4.0)]
    [0.25, 0.14814815, 0.10546875]
    """
    return math.exp((order - 1.0) * math.log(order - 1.0) - order * math.log(order))


def tail_bias(threshold: float, moment: float, order: float) -> float:
    """Return c_k r^k/C^(k-1), the sharp bound on E (|g| - C)_+."""
    return tail_constant(order) * moment * math.pow(moment / threshold, order - 1.0)


def moment_threshold(
    moment: float, order: float, *, rows: float, noise: float, size: int, averaged: float = 1.0
) -> float:
    """Return the C of least bias^2 + noise^2.

    C = r ((k-1) c_k^2 m s^2/(z^2 d))^(1/(2k)) for means over s = ``rows`` with noise z = ``noise``
    on a sum, in units of C, of which m = ``averaged`` are averaged.

    >>> round(moment_threshold(3.0, 2.0, rows=500, noise=2 / 0.5, size=10), 8)
    9.43075072
    """
    ratio = (order - 1.0) * tail_constant(order) ** 2 * averaged * (rows / noise) ** 2 / size
    return moment * math.pow(ratio, 0.5 / order)


def paper_threshold(
    moment: float, order: float, *, rows: float, mu: float, size: int, averaged: float = 1.0
) -> float:
    """Return the paper's C = r (mu s sqrt(m)/sqrt(d))^(1/k).

    >>> round(paper_threshold(3.0, 2.0, rows=500, mu=0.5, size=10), 8)
    26.67419115
    """
    return moment * math.pow(mu * rows * math.sqrt(averaged / size), 1.0 / order)


def coordinate_lemma(coordinate_moment: float, size: int) -> float:
    """Return r_k of gradients whose coordinates have central k-th moments at most gamma (Lemma 3).

    r <= 2 sqrt(2) sqrt(d) gamma^(1/k), for coordinates whose means are no larger than that; the
    paper has 4. ``coordinate_moment`` is gamma^(1/k).
    """
    return 2.0 * math.sqrt(2.0) * math.sqrt(size) * coordinate_moment
