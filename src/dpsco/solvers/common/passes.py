"""One sequential pass of clipped gradient steps over a range of a source's rows.

`Pass` leads solvers to `dpsco.kernels.sgd.sgd_pass`: labels are checked against the loss, gradients
are clipped, and every step is projected onto the problem's own domain. Beside it stands what every
plan checks whose guarantee rests on stability: convexity, smoothness, phases of rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import _validate
from ...data.block import Block
from ...data.labels import require_labels
from ...data.source import MemorySource, Source
from ...errors import AssumptionError, ParameterError
from ...files.limits import MOST_PHASES
from ...geometry.domains import Domain, WholeSpace
from ...kernels import compiler
from ...kernels.sgd import sgd_pass
from ...losses.base import MarginLoss
from ...privacy.budget import ApproxDP, Budget
from ...problem import is_ball
from ...task import Task
from .. import needs

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

_STABLE = (needs.GLM, needs.CONVEX, needs.EUCLIDEAN)


def require_stable(solver: str, task: Task) -> None:
    """Refuse what no stability theorem covers, wherever the plan comes from.

    Plans are asked for a solver's needs when they are made, but a file may hold any problem: with a
    loss that is not convex, or rows of another norm, steps would drive neighbours apart unnoticed.
    """
    reasons = [reason for need in _STABLE if (reason := need.unmet(task))]
    if reasons:
        raise AssumptionError(
            f"{solver} does not apply: {'; '.join(reasons)}. Make the plan with dpsco.plan(...), "
            "which names the solvers that do."
        )


def smoothness_beyond(task: Task, loss: Any) -> float:
    """Return the loss's smoothness over the domain and 1e-9 beyond it, where rounded margins lie.

    A jump of the slope that the domain misses by rounding alone is met: 49 (1/49) is less than 1
    in float64.
    """
    return float(
        loss.constants(
            feature=task.feature_bound, label=task.label_bound, radius=task.max_norm * (1 + 1e-9)
        ).smoothness
    )


def published_noise(solver: str, budget: Budget) -> float:
    """Return sigma_k / (G eta_k) of Feldman, Koren, Talwar 2020: 4/rho, for rho^2/2-zCDP.

    By epsilon = rho^2/2 + rho sqrt(2 log 1/delta); other budgets than (epsilon, delta) are refused.
    """
    if not isinstance(budget, ApproxDP):
        raise AssumptionError(
            f"calibration='paper' of {solver} is stated for (epsilon, delta), got {budget}. Use "
            "ApproxDP(epsilon, delta), or calibration='tight'."
        )
    log = -math.log(budget.delta)
    return 4 / (math.sqrt(2) * (math.sqrt(log + budget.epsilon) - math.sqrt(log)))


def check_phases(sizes: tuple[int, ...], n: int) -> None:
    """Refuse more phases than halving gives, and phases without rows: a file may hold any."""
    if not 1 <= len(sizes) <= MOST_PHASES or min(sizes) < 1 or sum(sizes) > n:
        raise ParameterError(
            f"1 to {MOST_PHASES} phases need at least one row each and {n} at most in all, got "
            f"{_validate.shown(sizes)}."
        )


@dataclass(frozen=True)
class Pass:
    """How a pass steps: w <- project((1 - step ridge) w - step clip(phi'(<w, x>, y)) x)."""

    loss: MarginLoss
    domain: Domain
    clip: float  # bound on a row's gradient, enforced
    ridge: float = 0.0
    passes: int = 1  # how many such passes the solver takes: together they choose the loop

    def run(
        self,
        source: Source,
        weights: Floats,
        step: float | Floats,
        *,
        start: int = 0,
        stop: int | None = None,
        order: Indices | None = None,
    ) -> tuple[Floats, Floats]:
        """Return the last iterate and the sum of the iterates before each step.

        ``order`` names rows of the source (repeats allowed) in place of the range.
        """
        require_labels(self.loss, source.bounds.label)
        stop = source.n if stop is None else stop
        steps = len(order) if order is not None else stop - start
        compiled = compiler.use_compiled(self._reference_seconds(source, steps))
        if order is not None or isinstance(source, MemorySource):
            blocks = iter([source.take(order) if order is not None else source.rows(start, stop)])
        else:
            blocks = source.blocks(start, stop)
        last, total, done = np.array(weights, dtype=float), np.zeros(len(weights)), 0
        with compiler.implementation(compiled=compiled):
            for block in blocks:
                part = step if np.ndim(step) == 0 else np.asarray(step)[done : done + len(block)]
                last, added = self._leaf(block, last, part)
                total, done = total + added, done + len(block)
        return last, total

    def _leaf(self, block: Block, weights: Floats, step: float | Floats) -> tuple[Floats, Floats]:
        """Take the steps of one block of rows."""
        if not is_ball(self.domain):
            with compiler.implementation(compiled=False):  # row by row
                return self._projected(block, weights, step)
        radius, centre = math.inf, None
        if not isinstance(self.domain, WholeSpace):
            radius, centre = self.domain.radius(len(weights)), self.domain.centre(len(weights))
        return sgd_pass(
            block.rows,
            block.labels,
            self.loss.kernel(),
            weights,
            step,
            norms=block.norms,
            clip=self.clip,
            ridge=self.ridge,
            radius=radius,
            centre=centre,
        )

    def _projected(
        self, block: Block, weights: Floats, step: float | Floats
    ) -> tuple[Floats, Floats]:
        """Take the steps one by one, each projected onto a domain that is no ball."""
        last, total = weights.copy(), np.zeros(len(weights))
        steps = np.broadcast_to(np.asarray(step, dtype=float), (len(block),))
        for i in range(len(block)):
            total += last
            moved, _ = sgd_pass(
                block.rows[i : i + 1],
                block.labels[i : i + 1],
                self.loss.kernel(),
                last,
                float(steps[i]),
                norms=block.norms[i : i + 1],
                clip=self.clip,
                ridge=self.ridge,
            )
            last = self.domain.project(moved)
        return last, total

    def _reference_seconds(self, source: Source, steps: int) -> float:
        """Return about how long the pass takes without compilation, from public numbers."""
        bisection = self.loss.kernel().smoothing > 0.0
        return self.passes * steps * (7e-6 + 5e-9 * source.d + (2.4e-4 if bisection else 0.0))
