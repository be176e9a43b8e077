"""The whole public side of a fit as one value: what is minimised, on how many rows, at what price.

A plan is made of a `Task` and of nothing else. What plans need to know of a problem (sizes, bounds,
constants of the loss) are properties of the task; those that take time are computed once.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _validate
from .data.row_norms import check_limit
from .errors import AssumptionError, ParameterError
from .files import limits
from .geometry.domains import WholeSpace
from .geometry.norms import Lp
from .losses.base import Constants, Hoelder, MarginLoss
from .losses.penalties import L2Penalty
from .privacy.budget import Budget
from .problem import Problem

Floats = NDArray[np.float64]
CALIBRATIONS = ("tight", "conjectured", "paper")


@dataclass(frozen=True)
class Task:
    """A problem, the public size of the table, the budget, and how noise is calibrated.

    Args:
        problem: what is minimised.
        n: number of rows, which is public.
        d: number of features of a row, without the intercept.
        budget: what may be spent.
        calibration: "tight" (proved bounds, computed numerically), "conjectured" (bounds that are
            checked numerically only, listed as trusted), or "paper" (published constants, where
            the accountant confirms them).

    Raises:
        ParameterError: an argument has the wrong type or is out of range, or the domain has
            another dimension than the weights.

    >>> import dpsco as dp
    >>> problem = dp.Problem(loss=dp.losses.Logistic(), bounds=dp.Bounds(1.0, label="sign"))
    >>> task = Task(problem, n=10_000, d=5, budget=dp.ApproxDP(1.0, 1e-8))
    >>> task.n_weights, task.feature_bound, task.lipschitz
    (5, 1.0, 1.0)
    """

    problem: Problem
    n: int
    d: int
    budget: Budget
    calibration: str = "tight"

    def __post_init__(self) -> None:
        if not isinstance(self.problem, Problem):
            raise _validate.refusal(
                "problem", f"must be a Problem, got {_validate.shown(self.problem)}."
            )
        if not isinstance(self.budget, Budget):
            raise _validate.refusal(
                "budget",
                "must be a budget such as ApproxDP(1.0, 1e-6), got "
                f"{_validate.shown(self.budget)}.",
            )
        _validate.choice("calibration", self.calibration, CALIBRATIONS)
        for name, most in (("n", limits.MOST_ROWS), ("d", limits.MOST_WEIGHTS)):
            value = _validate.integer(name, getattr(self, name), at_most=most)
            object.__setattr__(self, name, value)
        self._check_weights()

    def _check_weights(self) -> None:
        """Refuse too many weights, and a domain of another dimension than they have."""
        domain = self.problem.domain
        weights = f"{self.problem.loss.name} has {self.n_weights:,} weights for rows of "
        weights += f"{self.d:,} features"
        if self.n_weights > limits.MOST_WEIGHTS:
            raise ParameterError(
                f"d is too large: {weights}, and at most {limits.MOST_WEIGHTS:,} are possible.",
                parameter="d",
            )
        if domain.dimension not in (None, self.n_weights):
            raise ParameterError(
                f"the domain {domain!r} has {domain.dimension:,} coordinates, but {weights}."
            )

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields; what was computed from them is computed again after unpickling."""
        return {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}

    def __str__(self) -> str:
        return f"{self.problem}, {self.n:,} rows of {self.d:,} features, {self.budget}"

    # -- sizes -------------------------------------------------------------------------------------

    @cached_property
    def columns(self) -> int:
        """Columns of a row, the intercept included."""
        return self.problem.bounds.width(self.d)

    @cached_property
    def n_weights(self) -> int:
        """How many weights there are."""
        return self.problem.loss.dimension(self.columns)

    @property
    def start(self) -> Floats:
        """The first iterate: the domain's centre."""
        return self.problem.domain.centre(self.n_weights)

    # -- bounds of a row, of the weights, of gradients ---------------------------------------------

    @property
    def feature_bound(self) -> float:
        """The largest norm of a row's features, the intercept included."""
        return self.problem.bounds.row_norm

    @cached_property
    def label_bound(self) -> float:
        """The largest label; 1 for signs and classes."""
        loss = self.problem.loss
        numeric = isinstance(loss, MarginLoss) and loss.labels != "sign"
        return self.problem.bounds.label_bound if numeric else 1.0

    @cached_property
    def radius(self) -> float:
        """The largest distance of weights from the domain's centre; may be infinite."""
        return self.problem.domain.radius(self.n_weights)

    @cached_property
    def max_norm(self) -> float:
        """The largest norm of weights in the domain; may be infinite."""
        return self.problem.domain.max_norm(self.n_weights)

    @property
    def ridge(self) -> float:
        """The strength of the problem's l2 penalty; 0 without one."""
        penalty = self.problem.penalty
        return penalty.strength if isinstance(penalty, L2Penalty) else 0.0

    @property
    def glm(self) -> bool:
        """Whether a row's loss is a function of one margin."""
        return isinstance(self.problem.loss, MarginLoss)

    @property
    def euclidean(self) -> bool:
        """Whether rows are bounded in the l2 norm."""
        norm = self.problem.bounds.norm
        return isinstance(norm, Lp) and norm.p == 2.0

    @cached_property
    def signal(self) -> float:
        """z: rows over the noise of one release of bound 1 that spends the whole budget.

        What noise does to a fit depends on the rows, the budget and the adjacency through this
        number alone.
        """
        sensitivity = self.budget.adjacency.sensitivity(1.0)
        return self.n * self.budget.mu_per_row() / sensitivity

    @cached_property
    def constants(self) -> Constants:
        """The constants of the loss over the domain."""
        return self._constants(self.max_norm)

    @property
    def lipschitz(self) -> float:
        """G: the largest gradient of a row over the domain; may be infinite."""
        return self.constants.lipschitz

    @property
    def smoothness(self) -> float:
        """The Lipschitz constant of a row's gradient; infinite where there is none."""
        return self.constants.smoothness

    @property
    def hoelder(self) -> tuple[Hoelder, ...]:
        """Every known pair (alpha, L_alpha) of the gradient in w, the loss's own first."""
        loss = self.problem.loss
        if not isinstance(loss, MarginLoss):
            return (self.constants.hoelder,)
        return tuple(
            Hoelder(view.alpha, view.constant * self.feature_bound ** (1 + view.alpha))
            for view in loss.hoelder_views()
        )

    def gradient_bound(self, clip: float | None) -> float:
        """Return the l2 bound on a row's gradient that a solver enforces by clipping.

        The loss's own bound, unless ``clip`` is smaller. Without either: the largest gradient
        within ``initial_distance`` of the origin.

        Raises:
            AssumptionError: there is none, and no ``clip``; or all gradients are zero.
            ParameterError: the ``clip`` is no length that a query can clip to.
        """
        bound = self.lipschitz
        if not math.isfinite(bound):
            bound = self._constants(self.initial_distance).lipschitz
        if clip is not None:
            bound = min(bound, check_limit("clip", clip))
        if not 0.0 < bound < math.inf:
            problem, size = self.problem, "unbounded" if bound else "zero everywhere"
            raise AssumptionError(
                f"a bound on a row's gradient is needed, and that of {problem.loss.name} over "
                f"{problem.domain!r} is {size}.",
                hint="Pass options={'clip': ...}." if bound else "There is nothing to minimise.",
            )
        return bound

    @cached_property
    def start_gradient(self) -> float:
        """The largest gradient of a row at the start: a clip that cuts only rows gone wrong.

        Later gradients that are longer belong to rows that the model predicts worse than it did at
        the start; cutting them makes the loss grow linearly there, and halves the noise of a
        logistic regression.
        """
        # The whole space has its centre at the origin; a million zeros would take longer to add up.
        whole = isinstance(self.problem.domain, WholeSpace)
        norm = 0.0 if whole else float(np.linalg.norm(self.start))
        return min(self._constants(norm).lipschitz, self.lipschitz)

    @property
    def margin_scale(self) -> float:
        """How large good predictions are: the label bound, or 1 for signs and classes."""
        return self.label_bound if self.label_bound > 0.0 else 1.0

    @cached_property
    def initial_distance(self) -> float:
        """How far from the centre good weights may lie.

        The user's guess, else the domain's radius. Where that is infinite, weights of a size that
        fits typical tables: coordinates of about 2 / feature bound for classes (margins of a few
        units), and of a third of label / feature bound for numbers, whose predictions stay within
        the labels.
        """
        scale = self.problem.scale
        if scale is not None:
            return min(scale, self.radius)
        if math.isfinite(self.radius):
            return self.radius
        kind = self.problem.loss.labels
        coordinate = self.margin_scale / 3 if kind in ("real", "count", "none") else 2.0
        return coordinate * math.sqrt(self.n_weights) / self.feature_bound

    def _constants(self, max_norm: float) -> Constants:
        """Return the constants of the loss over weights of at most such a norm."""
        return self.problem.loss.constants(
            feature=self.feature_bound, label=self.label_bound, radius=max_norm
        )


def as_task(
    problem: Problem | Task,
    *,
    n: int | None = None,
    d: int | None = None,
    budget: Budget | None = None,
    calibration: str = "tight",
) -> Task:
    """Return the task, or that of a problem with the arguments of a task."""
    if not isinstance(problem, Task):
        return Task(problem, n, d, budget, calibration)  # type: ignore[arg-type]  # it checks them
    if (n, d, budget, calibration) != (None, None, None, "tight"):
        raise ParameterError(
            "a Task has its own n, d, budget and calibration: leave them out, or pass a Problem."
        )
    return problem
