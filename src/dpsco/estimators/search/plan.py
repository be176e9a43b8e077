"""A search: plans of all candidates, under a budget for one run; how a run is made."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from ...data.bounds import Bounds
from ...data.labels import Classes, Scaled
from ...data.source import MemorySource
from ...data.tables.table import Table
from ...errors import AssumptionError
from ...fit.run import execute
from ...models.config import ModelConfig
from ...models.linear import LinearModel
from ...models.plan import plan_model
from ...privacy.accounting import gaussian
from ...privacy.accounting.calibration import calibrate
from ...privacy.accounting.composition import cost
from ...privacy.budget import ApproxDP
from ...privacy.ledger import Ledger
from ...privacy.mechanisms import GaussianRelease, RepeatedSelectionRelease, gaussian_sigma
from ...privacy.mechanisms.repeated_selection.best_of_runs import Attempt, Best
from ...privacy.mechanisms.repeated_selection.profile import Runs
from ...privacy.odometer.odometer import Odometer
from ...privacy.randomness import Randomness
from ...privacy.release import flatten
from ...solvers.base import BasePlan
from ..base import PrivateLinearModel
from .scoring import ACCURACY, Scoring, scoring_bounds

Floats = NDArray[np.float64]

_ENOUGH = 0.99  # of the budget: a base budget that spends less is raised
_MOST_ROUNDS = 12  # of looking for the base budget


@dataclass(frozen=True)
class Search:
    """Everything that is decided before a row is read."""

    configs: tuple[ModelConfig, ...]
    plans: tuple[BasePlan, ...]
    base: ApproxDP  # of one run, for the same unit as the whole budget
    budget: ApproxDP
    runs: Runs
    n: int
    fitted: int  # rows that are fitted; the others score
    scoring: Scoring

    @property
    def held_out(self) -> int:
        """How many rows score."""
        return self.n - self.fitted

    @cached_property
    def score(self) -> GaussianRelease:
        """What is released of held-out rows, with noise."""
        rows, bound, diameter = (self.fitted, self.n), self.scoring.bound, self.scoring.diameter
        sigma = gaussian_sigma(self.base, bound=bound, rows=rows, diameter=diameter)
        return GaussianRelease(bound, sigma, diameter, rows=rows)

    @cached_property
    def release(self) -> RepeatedSelectionRelease:
        """The one release of the search."""
        alternatives = tuple(flatten([*plan.releases(), self.score]) for plan in self.plans)
        return RepeatedSelectionRelease(alternatives, self.runs, rows=(0, self.n))

    def mean_score(self, best: Best[LinearModel]) -> float:
        """Return the noisy score of the best run, as scikit-learn would scale it."""
        label = self.plans[best.alternative].problem.bounds.label
        assert isinstance(label, (Classes, Scaled))
        return self.scoring.shown(best.score, self.held_out, label)

    def ledger(self, randomness: Randomness, odometer: Odometer | None) -> Ledger:
        """Open the ledger of the search, which pays for it."""
        enforced = [note for plan in self.plans for note in plan.enforced]
        trusted = [note for plan in self.plans for note in plan.trusted]
        return Ledger(
            [self.release],
            self.budget,
            randomness=randomness,
            enforced=dict.fromkeys([*enforced, self.scoring.enforced]),
            trusted=dict.fromkeys(trusted),
            odometer=odometer,
            label="PrivateGridSearch",
        )

    def attempts(
        self, table: Table, randomness: Randomness
    ) -> Callable[[int, Randomness], Attempt[LinearModel]]:
        """Split the rows in secret, once; return the function that makes one run."""
        order = randomness.child("split of the rows").permutation(self.n)
        parts: dict[tuple[Bounds, int], MemorySource] = {}

        def part(bounds: Bounds, begin: int, end: int) -> MemorySource:
            if (bounds, begin) not in parts:
                whole = table.bounded(bounds, order="given")
                parts[bounds, begin] = MemorySource(whole.take(order[begin:end]), bounds)
            return parts[bounds, begin]

        def attempt(index: int, randomness: Randomness) -> Attempt[LinearModel]:
            plan, bounds = self.plans[index], self.plans[index].problem.bounds
            with warnings.catch_warnings():  # one warning per run would tell how many there were
                warnings.simplefilter("ignore")
                ledger = Ledger(plan.releases(), plan.budget, randomness=randomness)
                result = execute(plan, part(bounds, 0, self.fitted), ledger)
                model = self.configs[index].model(result.weights)
                held_out = part(scoring_bounds(bounds), self.fitted, self.n)
                total = held_out.sum(self.scoring.query(model, bounds))
                scoring = Ledger([self.score], self.base, randomness=randomness)
                score = self.score
                noisy = scoring.gaussian(
                    total,
                    bound=score.bound,
                    sigma=score.sigma,
                    rows=score.rows,
                    diameter=score.diameter,
                )
            certificates = (result.certificate, scoring.close())
            return Attempt(self.scoring.order(noisy), model, certificates)

        return attempt


def plan_search(
    candidates: Sequence[PrivateLinearModel],
    shape: tuple[int, int],
    *,
    fraction: float,
    budget: ApproxDP,
    runs: Runs,
    scoring: Scoring = ACCURACY,
) -> Search:
    """Plan every candidate with the largest budget of one run that the whole search can pay for."""
    n, d = shape
    fitted = min(max(n - round(fraction * n), 1), n - 1)
    configs = tuple(candidate._config() for candidate in candidates)

    def search(base: ApproxDP, count: int) -> Search:
        plans = tuple(
            plan_model(
                config,
                n=fitted,
                d=d,
                budget=base,
                solver=candidate.solver,
                calibration=candidate.calibration,
                options=candidate.options,
                count_rows=False,
                units="declared",  # a search releases one thing: the best of its runs
            ).fit
            for candidate, config in zip(candidates[:count], configs[:count], strict=True)
        )
        return Search(configs, plans, base, budget, runs, n, fitted, scoring)

    # Candidates cost about the same, so that the first one finds the budget for all.
    base = _largest(lambda base: search(base, 1), _gaussian_base(budget, runs, n), budget).base
    return _largest(lambda base: search(base, len(candidates)), base, budget)


@lru_cache(maxsize=32)  # the same search is often made on several tables of one size
def _gaussian_base(budget: ApproxDP, runs: Runs, n: int) -> ApproxDP:
    """Return the budget of one run, if runs are Gaussian: no plan has to be made to find it."""

    def repeated(sigma: float) -> RepeatedSelectionRelease:
        return RepeatedSelectionRelease(
            ((GaussianRelease(1.0, sigma, rows=(0, n)),),), runs, rows=(0, n)
        )

    noise = repeated(calibrate(repeated, budget, tolerance=1e-5))
    mu = cost(noise.alternatives[0], adjacency=budget.adjacency, unit=budget.unit).mu or 0.0
    delta = budget.delta / runs.mean  # where the profile of one run matters most
    epsilon = gaussian.epsilon(delta, mu) * (1 - 1e-9)
    return dataclasses.replace(budget, epsilon=max(epsilon, 1e-12), delta=delta)


def _largest(search: Callable[[ApproxDP], Search], base: ApproxDP, budget: ApproxDP) -> Search:
    """Return the search with the largest budget of one run that is within the whole budget."""
    best, low, high = None, 0.0, math.inf
    for _ in range(_MOST_ROUNDS):
        candidate = search(base)
        price = cost([candidate.release], adjacency=budget.adjacency, unit=budget.unit)
        spent, allowed = price.against(budget)
        if spent <= allowed:
            best, low = candidate, base.epsilon
            if spent >= _ENOUGH * allowed:
                break
        else:
            high = base.epsilon
        guess = base.epsilon * allowed / spent * 0.998
        if not low < guess < high:
            guess = 0.5 * (low + high) if high < math.inf else 1.5 * low
        base = dataclasses.replace(base, epsilon=guess)
    if best is None:
        raise AssumptionError(
            f"no budget of one run keeps this search within {budget}: the least that some "
            "candidate can cost is too much. Use fewer runs (mean_runs), a larger epsilon, or "
            "solver='noisy_gd' for all candidates."
        )
    return best
