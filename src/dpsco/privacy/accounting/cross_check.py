"""A cost checked by a second accountant, on another route than the one that computed it.

| releases on the row                | first accountant          | second                         |
|------------------------------------|---------------------------|--------------------------------|
| Gaussian, prefix sums              | closed form, exact        | PLD, agrees on both sides      |
| one perturbed minimiser, with      | own profile and Renyi     | own integration of the loss on |
| Gaussian releases or without       |                           | a grid, agrees on both sides   |
| several, or with other releases    | own Renyi                 | RDP of their zCDP, an upper    |
| generalized, discrete, selection   | own Renyi and pure bounds | RDP of their zCDP, an upper    |
| sampled                            | PLD                       | RDP, an upper bound            |
| sampled, replace-one Poisson       | PLD                       | none exists                    |
| stable vectors                     | as Gaussian or selection  | as Gaussian or selection       |
| averages, rows with replacement    | own mixture               | none exists                    |
| best of a secret number of runs    | own profile and Renyi     | RDP where a run has a zCDP     |

PLD and RDP are dp-accounting's. "An upper bound" can show that the first number is too large, not
that it is too small: what it proves is its own, larger, epsilon. That of the RDP of a zCDP starts
from the first accountant's rho and checks the conversion only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from . import pld
from .composition import Cost, RowCost
from .privacy_loss import SecondComputation

INTEGRATION = "a second integration of the privacy loss"
_MOST_COMPOSED = 100_000  # Gaussian releases beyond this are merged before the PLD is built


@dataclass(frozen=True)
class CrossCheck:
    """What the second accountant finds at one delta, beside the first."""

    route: str
    delta: float
    first: float
    second: float
    sharp: bool  # both accountants claim the exact value
    rho: tuple[float, float] | None = None  # zCDP by the first and by the second, if both know it

    @property
    def agrees(self) -> bool:
        """Whether the second accountant confirms the first."""
        if self.route == "none":
            return True
        if self.rho is not None and not 0.99 <= self.rho[0] / self.rho[1] <= 1.01:
            return False
        if self._above and not (self.route == INTEGRATION and self.first <= self.second * 1.1):
            return False
        return not self.sharp or self.second <= self.first * 1.01 + 1e-5

    @property
    def _above(self) -> bool:
        """Whether the first is larger than it need be: of no harm, but not the same number.

        Two integrations may differ so by a few percent at a delta above 1e-3, where the first
        rounds up in coarser steps; any other sharp or upper route must not be exceeded at all.
        """
        return not self.first <= self.second * 1.01 + 1e-6

    def __str__(self) -> str:
        if self.route == "none":
            return "no second accountant covers these releases"
        what = "epsilon" if self.sharp or not self.agrees else "a looser upper bound, epsilon"
        relation = "agrees with" if self.sharp else "which does not contradict"
        relation = "less than and no contradiction to" if self._above else relation
        relation = relation if self.agrees else "contradicts"
        also = f", rho {self.rho[1]:.4g} for {self.rho[0]:.4g}" if self.rho else ""
        return (
            f"{self.route} gives {what} {self.second:.6g} at delta {self.delta:.3g}, "
            f"{relation} {self.first:.6g}{also}"
        )


def cross_check(cost: Cost, delta: float) -> CrossCheck:
    """Return the least favourable check over all rows of a cost."""
    checks = [_of_row(row, cost, delta) for row in cost.rows]
    covered = [check for check in checks if check.route != "none"]
    doubtful = [check for check in covered if not check.agrees]
    return (doubtful or sorted(covered, key=lambda item: -item.first) or checks)[0]


def _of_row(row: RowCost, whole: Cost, delta: float) -> CrossCheck:
    unit_rows = whole.unit_rows
    own = Cost((row,), unit_rows, whole.alike)
    first = own.epsilon(delta)
    if not row.losses:
        return CrossCheck("none", delta, first, math.inf, sharp=False)
    if row.mu is not None:
        second = pld.Composed(_gaussian_losses(row, unit_rows)).pld_epsilon(delta)
        if second == math.inf:  # too fine a grid: compose by hand, then ask
            second = pld.Composed(((pld.GaussianLoss(unit_rows * row.mu), 1),)).pld_epsilon(delta)
        return CrossCheck("PLD" if second < math.inf else "none", delta, first, second, sharp=True)
    check = _lone_check(row, unit_rows) if own.alike or unit_rows == 1 else None
    if check is not None and own.rho is not None:
        _, second = check.epsilon(delta)
        return CrossCheck(INTEGRATION, delta, first, second, sharp=True, rho=(own.rho, check.rho))
    if own.rho is not None:
        second = pld.Composed(((pld.ZcdpLoss(own.rho), 1),)).rdp_epsilon(delta)
        return CrossCheck("RDP", delta, first, second, sharp=False)
    second = math.inf
    if unit_rows == 1 and all(item.pld is not None for item, _ in row.losses):
        recipes = tuple((item.pld, count) for item, count in row.losses if item.pld is not None)
        second = pld.Composed(recipes).rdp_epsilon(delta)
    return CrossCheck("RDP" if second < math.inf else "none", delta, first, second, sharp=False)


def _lone_check(row: RowCost, unit_rows: int) -> SecondComputation | None:
    """Return the second computation of a perturbed minimiser, once, with Gaussian releases only."""
    others = [(item, count) for item, count in row.losses if item.mu is None]
    if len(others) != 1 or others[0][1] != 1 or others[0][0].check is None:
        return None
    squares = math.fsum(count * (item.mu or 0.0) ** 2 for item, count in row.losses)
    beside = unit_rows * math.sqrt(squares)
    return others[0][0].check.in_group(unit_rows, beside)


def _gaussian_losses(row: RowCost, unit_rows: int) -> tuple[tuple[pld.Loss, int], ...]:
    """Return the Gaussian losses of a unit, merged into one where they are too many to compose."""
    assert row.mu is not None
    steps = sum(count for _, count in row.losses)
    if steps > _MOST_COMPOSED or len(row.losses) > 50:
        return ((pld.GaussianLoss(unit_rows * row.mu), 1),)
    return tuple(
        (pld.GaussianLoss(unit_rows * (item.mu or 0.0)), count) for item, count in row.losses
    )
