"""What the best of a secret number of runs costs a row, from what one run costs any row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ...accounting import gaussian, pld, renyi
from ...accounting.rules import Charge, Profile
from .profile import Base, Runs, Selected


class Single(Protocol):
    """The cost of one run to one row."""

    @property
    def mu(self) -> float | None:
        """The Gaussian parameter."""

    @property
    def rho(self) -> float | None:
        """The zCDP parameter."""

    @property
    def pure(self) -> float:
        """The pure epsilon."""

    @property
    def curve(self) -> renyi.Curve | None:
        """The Renyi curve."""

    def delta(self, epsilon: float) -> float:
        """Return the smallest delta proved at ``epsilon``."""


def repeated_charge(rows: Sequence[Single], runs: Runs) -> Charge:
    """Return the charge of the best run; ``rows`` are the rows of every alternative.

    Which alternative a run takes is drawn without looking at the rows, so that a run's profile and
    Renyi divergences are at most the largest of the alternatives'.
    """
    base = _worst(rows)
    best = Selected(base, runs)
    rho = max((math.inf if row.rho is None else row.rho for row in rows), default=math.inf)
    curve = None if base.curve is None else best.curve
    alone = Profile(best.delta)
    if base.pure < math.inf:
        e0 = best.pure
        return Charge(rho=e0 * e0 / 2, curve=curve, pure=e0, pld=pld.PureLoss(e0), alone=alone)
    shape = math.inf if runs.eta is None else runs.eta
    known = rho if rho < math.inf and shape >= 0.0 else None
    loss = pld.RepeatedLoss(best.points, known, runs.mean, shape)
    return Charge(curve=curve, pld=loss, alone=alone)


def _worst(rows: Sequence[Single]) -> Base:
    """Return what holds for every row."""
    if all(row.mu is not None for row in rows):
        mu = max(row.mu or 0.0 for row in rows)
        rho = 0.5 * mu * mu * (1 + 2.0**-50)
        return Base(lambda epsilon: gaussian.delta(epsilon, mu), renyi.zcdp(rho))
    curves = [row.curve for row in rows if row.curve is not None]

    def curve(orders: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(np.max([single(orders) for single in curves], axis=0))

    return Base(
        rows[0].delta,
        curve=curve if len(curves) == len(rows) else None,
        pure=max(row.pure for row in rows),
        others=tuple(row.delta for row in rows[1:]),
    )
