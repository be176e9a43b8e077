"""A second opinion on a cost, from dp-accounting, by another route than the one that computed it.

| releases on the row                | first accountant          | second witness              |
|------------------------------------|---------------------------|-----------------------------|
| Gaussian, prefix sums              | closed form, exact        | PLD, agrees on both sides   |
| generalized, discrete, selection   | own Renyi and pure bounds | RDP of their zCDP, an upper |
| sampled                            | PLD                       | RDP, an upper bound         |
| sampled, replace-one Poisson       | PLD                       | none exists                 |
| stable vectors                     | as Gaussian or selection  | as Gaussian or selection    |
| perturbed minimisers               | own profile and Renyi     | RDP of their zCDP, an upper |
| averages over random hits          | own mixture               | none exists                 |
| best of a secret number of runs    | own profile and Renyi     | RDP where a run has a zCDP  |
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from . import pld
from .accounting import Cost, RowCost

_MOST_COMPOSED = 100_000  # Gaussian releases beyond this are merged before the PLD is built


@dataclass(frozen=True)
class Opinion:
    """What the second accountant finds at one delta, beside the first."""

    route: str
    delta: float
    first: float
    second: float
    sharp: bool  # both accountants claim the exact value

    @property
    def agrees(self) -> bool:
        """Whether the second accountant confirms the first."""
        if self.route == "none":
            return True
        within_upper = self.first <= self.second * 1.01 + 1e-6
        return within_upper and (not self.sharp or self.second <= self.first * 1.01 + 1e-5)

    def __str__(self) -> str:
        if self.route == "none":
            return "no second accountant covers these releases"
        what = "epsilon" if self.sharp or not self.agrees else "a looser upper bound, epsilon"
        relation = "agrees with" if self.sharp else "which does not contradict"
        return (
            f"{self.route} gives {what} {self.second:.6g} at delta {self.delta:.3g}, "
            f"{relation if self.agrees else 'contradicts'} {self.first:.6g}"
        )


def second_opinion(cost: Cost, delta: float) -> Opinion:
    """Return the least favourable opinion over all rows of a cost."""
    opinions = [_of_row(row, cost.unit_rows, delta) for row in cost.rows]
    covered = [opinion for opinion in opinions if opinion.route != "none"]
    doubtful = [opinion for opinion in covered if not opinion.agrees]
    return (doubtful or sorted(covered, key=lambda item: -item.first) or opinions)[0]


def _of_row(row: RowCost, unit_rows: int, delta: float) -> Opinion:
    first = Cost((row,), unit_rows).epsilon(delta)
    if not row.charges:
        return Opinion("none", delta, first, math.inf, sharp=False)
    if row.mu is not None:
        second = pld.Composed(_gaussian_losses(row, unit_rows)).pld_epsilon(delta)
        if second == math.inf:  # too fine a grid: compose by hand, then ask
            second = pld.Composed(((pld.GaussianLoss(unit_rows * row.mu), 1),)).pld_epsilon(delta)
        return Opinion("PLD" if second < math.inf else "none", delta, first, second, sharp=True)
    if row.rho is not None:
        whole = pld.ZcdpLoss(unit_rows**2 * row.rho)
        second = pld.Composed(((whole, 1),)).rdp_epsilon(delta)
        return Opinion("RDP", delta, first, second, sharp=False)
    second = math.inf
    if unit_rows == 1 and all(item.pld is not None for item, _ in row.charges):
        recipes = tuple((item.pld, count) for item, count in row.charges if item.pld is not None)
        second = pld.Composed(recipes).rdp_epsilon(delta)
    return Opinion("RDP" if second < math.inf else "none", delta, first, second, sharp=False)


def _gaussian_losses(row: RowCost, unit_rows: int) -> tuple[tuple[pld.Loss, int], ...]:
    """Return the Gaussian losses of a unit, merged into one where they are too many to compose."""
    assert row.mu is not None
    steps = sum(count for _, count in row.charges)
    if steps > _MOST_COMPOSED or len(row.charges) > 50:
        return ((pld.GaussianLoss(unit_rows * row.mu), 1),)
    return tuple(
        (pld.GaussianLoss(unit_rows * (item.mu or 0.0)), count) for item, count in row.charges
    )
