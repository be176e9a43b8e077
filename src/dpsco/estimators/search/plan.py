"""A search: plans of all candidates, under a budget for one run; how a run is made and scored."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...data.block import Block, matrix
from ...data.bounds import Bounds
from ...data.labels import Classes, Scaled
from ...data.queries import Query
from ...data.source import MemorySource, Source
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

Floats = NDArray[np.float64]

_ENOUGH = 0.99  # of the budget: a base budget that spends less is raised
_MOST_ROUNDS = 12  # of looking for the base budget
_UNCLIPPED = 1e50  # rows are scored as they are predicted: longer ones are not shortened
_ERRORS = "a held-out row's error lies between -1/2 and 1/2"


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

    @property
    def held_out(self) -> int:
        """How many rows score."""
        return self.n - self.fitted

    @cached_property
    def score(self) -> GaussianRelease:
        """The noisy number of errors on held-out rows."""
        rows = (self.fitted, self.n)
        return GaussianRelease(0.5, gaussian_sigma(self.base, bound=0.5, rows=rows), rows=rows)

    @cached_property
    def release(self) -> RepeatedSelectionRelease:
        """The one release of the search."""
        alternatives = tuple(flatten([*plan.releases(), self.score]) for plan in self.plans)
        return RepeatedSelectionRelease(alternatives, self.runs, rows=(0, self.n))

    def mean_score(self, best: Best[LinearModel]) -> float:
        """Return the noisy score of the best run, as scikit-learn would scale it."""
        error = 0.5 - best.score / self.held_out  # from 0 to 1, but for the noise
        label = self.plans[best.alternative].problem.bounds.label
        return float((label.low - label.high) * error if isinstance(label, Scaled) else 1.0 - error)

    def ledger(self, randomness: Randomness, odometer: Odometer | None) -> Ledger:
        """Open the ledger of the search, which pays for it."""
        enforced = [note for plan in self.plans for note in plan.enforced]
        trusted = [note for plan in self.plans for note in plan.trusted]
        return Ledger(
            [self.release],
            self.budget,
            randomness=randomness,
            enforced=dict.fromkeys([*enforced, _ERRORS]),
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
            label = bounds.label
            assert isinstance(label, (Classes, Scaled))
            with warnings.catch_warnings():  # one warning per run would tell how many there were
                warnings.simplefilter("ignore")
                ledger = Ledger(plan.releases(), plan.budget, randomness=randomness)
                result = execute(plan, part(bounds, 0, self.fitted), ledger)
                model = self.configs[index].model(result.weights)
                held_out = part(scoring_bounds(bounds), self.fitted, self.n)
                errors = held_out.sum(HeldOutErrors(model, label))
                scoring = Ledger([self.score], self.base, randomness=randomness)
                score, rows = self.score, self.score.rows
                noisy = scoring.gaussian(errors, bound=score.bound, sigma=score.sigma, rows=rows)
            return Attempt(-float(noisy[0]), model, (result.certificate, scoring.close()))

        return attempt


def plan_search(
    candidates: Sequence[PrivateLinearModel],
    shape: tuple[int, int],
    *,
    fraction: float,
    budget: ApproxDP,
    runs: Runs,
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
        return Search(configs, plans, base, budget, runs, n, fitted)

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


# -- how good a model is on held-out rows: a bounded sum that can be released with noise -----------


def scoring_bounds(bounds: Bounds) -> Bounds:
    """Return bounds under which rows keep their length, without the intercept's column."""
    return Bounds(_UNCLIPPED, label=bounds.label)


@dataclass(frozen=True, eq=False)
class HeldOutErrors(Query):
    """How wrong a public model is on each row, from -1/2 (right) to 1/2 (as wrong as can be).

    Centred, so that replacing a row moves the sum by 1 and no more. A null row contributes zero. A
    class is right or wrong; a number's error is its distance as a share of the label's range.
    """

    model: LinearModel
    label: Classes | Scaled

    @property
    def bound(self) -> float:
        """One half."""
        return 0.5

    @property
    def size(self) -> int:
        """One number."""
        return 1

    @property
    def enforced(self) -> tuple[str, ...]:
        """The bound."""
        return (_ERRORS,)

    @property
    def trusted(self) -> tuple[str, ...]:
        """Nothing."""
        return ()

    def check(self, source: Source) -> None:
        """Rows have the model's own length."""
        self.model.decision(np.zeros((1, source.d)))

    def sum(self, block: Block) -> Floats:
        """Return the sum over a leaf of rows."""
        with np.errstate(all="ignore"):
            errors = self._errors(matrix(block.rows), block.labels)
        errors = np.where(np.isfinite(errors), np.clip(errors, -0.5, 0.5), 0.5)
        return np.array([np.sum(np.where(block.present, errors, 0.0))])

    def _errors(self, X: Any, labels: Floats) -> Floats:
        if isinstance(self.label, Classes):
            truth = labels > 0 if len(self.label.values) == 2 else labels
            return np.asarray(np.where(self.model.places(X) == truth, -0.5, 0.5))
        width = self.label.high - self.label.low
        true = self.label.centre + self.label.unit * labels
        return np.asarray(np.abs(self.model.predict(X) - true) / width - 0.5)
