"""Noisy prefix sums: the record and its cost, that of one Gaussian release of the encoded sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .... import _validate
from ....errors import ParameterError
from ...accounting.calibration import calibrate
from ...accounting.privacy_loss import PrivacyLoss, gaussian_loss
from ...accounting.sensitivity import refuse_add_remove, sum_sensitivity
from ...budget import Adjacency, Budget
from ...lattice import lattice_step, with_gaussian
from ...randomness import Stream
from ...release import Release, in_words, register
from .encoding import encoding_slack
from .mechanism import PrefixMechanism

Array = NDArray[np.float64]


@register
@dataclass(frozen=True)
class PrefixSumRelease(Release):
    """All noisy prefix sums of ``mechanism.rounds`` batch sums, each row in one batch at most.

    The noise on the prefix sums is ``sigma`` times the mechanism's correlated unit noise. The
    batches are disjoint sub-ranges of ``rows``, fixed without looking at the rows.
    """

    kind: ClassVar[str] = "prefix_sum"
    summary: ClassVar[str] = "Running sums over rows, with correlated Gaussian noise"
    single_stream: ClassVar[bool] = False  # its rounds are resumed, not skipped
    bound: float
    sigma: float
    mechanism: PrefixMechanism

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.mechanism, PrefixMechanism):
            raise ParameterError(
                "mechanism must come from dpsco.privacy.mechanism(name, rounds=...), "
                f"got {_validate.shown(self.mechanism)}.",
                parameter="mechanism",
            )
        if self.mechanism.rounds > self.row_count:
            raise ParameterError(
                f"{self.mechanism.rounds} rounds need at least as many rows, got {self.row_count}. "
                "Use fewer rounds."
            )

    def privacy_loss(self, adjacency: Adjacency) -> PrivacyLoss:
        """Return the loss of a row that shows as one column of the encoder."""
        refuse_add_remove(self, adjacency)
        encoded = 1 + encoding_slack(self.mechanism, self.row_count)
        sensitivity = sum_sensitivity(self, adjacency) * encoded * self.mechanism.column_norm
        return gaussian_loss(sensitivity / self.sigma)

    def step(self, size: int) -> float:
        """Return the step of the rows of the encoder times batch sums: they move by its norm."""
        return lattice_step(self.bound * self.mechanism.column_norm, self.mechanism.draws() * size)

    def lattices(self, size: int) -> tuple[tuple[float, float], ...]:
        """Return sigma and the step of the encoded sums."""
        return ((self.sigma, self.step(size)),)

    def draw_noisy(self, stream: Stream, encoded: Array, step: float) -> Array:
        """Return a row of the encoded sums with its noise, both on the lattice of that `step`."""
        return with_gaussian(stream.words, encoded, self.sigma, step)

    def details(self) -> str:
        """Return the fields in words."""
        rule = self.mechanism
        options = in_words({"bands": rule.bands, "exponent": rule.exponent})
        name = f"{rule.name}, {rule.rounds} rounds" + (f", {options}" if options else "")
        return in_words({"bound": self.bound, "sigma": self.sigma, "mechanism": name})

    @classmethod
    def decode(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Return the fields, with the mechanism rebuilt."""
        if not isinstance(values["mechanism"], dict):
            return values
        try:
            return {**values, "mechanism": PrefixMechanism(**values["mechanism"])}
        except TypeError as problem:
            raise ParameterError(
                f"this is not a prefix-sum mechanism: {_validate.reason(problem)}."
            ) from None


def prefix_sum_sigma(
    budget: Budget, *, bound: float, rows: tuple[int, int], mechanism: PrefixMechanism
) -> float:
    """Return the scale of the unit noise of a prefix-sum release."""
    return calibrate(lambda s: PrefixSumRelease(bound, s, mechanism, rows=rows), budget)
