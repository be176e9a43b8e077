"""A trade-off measured on rows that cost nothing: public ones, or rows made up from public facts.

A rehearsal fits every point of a trade-off several times and replaces the forecast's band by what
the fits lost. Nothing is charged and no certificate is handed out: a rehearsal says how much noise
hurts on such rows, and nothing about the private ones.

Of public rows a fifth is set aside to measure on. Each fit takes n rows, drawn with replacement
from the others: the noise is then that of the private fit, whatever the number of public rows. The
excess is the mean loss on the rows set aside, minus that of the best linear model that was fitted
to the others without privacy; the constant's loss is measured on them, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _validate
from ..data.bounds import Bounds
from ..data.labels import Classes
from ..data.source import Source
from ..data.tables.arrays import raw_rows
from ..data.tables.table import from_arrays
from ..errors import DataError, ParameterError
from ..privacy.accounting.composition import Cost
from ..privacy.randomness import Randomness, Stream
from ..solvers.base import BasePlan
from ..solvers.common.smoothing import nonsmooth, surrogate_loss
from ..task import Task
from .made_up_rows import made_up_rows
from .outlook import CLASS_LABELS, verdict_of
from .run import plan as plan_of
from .run import run
from .tradeoff import EPSILONS, Planner, Tradeoff, TradeoffPoint, at_epsilon, tradeoff_of

Floats = NDArray[np.float64]
Rows = tuple[Any, Any]  # X, and y or None
Fitter = Callable[[Task, str, Rows, Randomness], Floats]

PUBLIC, MADE_UP = "public rows", "made-up rows"
REPEATS = 5
LEAST_ROWS = 20  # of a public table
MOST_NUMBERS = 3e8  # entries of the rows of one fit
_TEST_SHARE = 0.2
_RIDGES = (0.0, 1e-5, 1e-3, 1e-2)  # of the model without privacy: the best of them counts
_SMOOTHING = 100.0  # of losses with kinks, where that model is sought


def rehearse_task(
    task: Task,
    table: Rows | None = None,
    epsilons: float | Iterable[float] = EPSILONS,
    *,
    repeats: int = REPEATS,
    solvers: str | Iterable[str] | None = "auto",
    seed: int | None = None,
    prefer: str = "accuracy",
    **facts: Any,
) -> Tradeoff:
    """Return the trade-off of a task, measured; arguments as in `dpsco.rehearse`."""

    def planner(task: Task, key: str) -> tuple[BasePlan, Cost]:
        plan = plan_of(task, solver=key, prefer=prefer)
        return plan, plan.cost

    def fitter(task: Task, key: str, rows: Rows, randomness: Randomness) -> Floats:
        return run(plan_of(task, solver=key), rows, randomness=randomness).weights

    at_epsilon(task, 1.0)  # refuses what is no task with an epsilon
    how: dict[str, Any] = {"repeats": repeats, "solvers": solvers, "seed": seed, "prefer": prefer}
    return rehearse_fits(task, table, epsilons, planner, fitter, **how, **facts)


def rehearse_fits(
    task: Task,
    table: Rows | None,
    epsilons: float | Iterable[float],
    planner: Planner,
    fitter: Fitter,
    *,
    features: Any = None,
    bounds: Bounds | None = None,
    repeats: int = REPEATS,
    solvers: str | Iterable[str] | None = "auto",
    seed: int | None = None,
    prefer: str = "accuracy",
    **facts: Any,
) -> Tradeoff:
    """Return the trade-off of any fits, measured.

    Args:
        task, epsilons, planner, solvers, prefer: as in `tradeoff_of`.
        table: public (X, y); None for made-up rows.
        fitter: fits a task's rows by a solver, and returns weights of the task's problem within
            the ``bounds``.
        features: of made-up rows; by default they point in all directions.
        bounds: of the rows that are measured on, if not the problem's.
        repeats: fits of each point.
        seed: of draws and noise, to repeat a rehearsal; fresh by default.
        facts: of labels, as in `dpsco.outlook`; of public rows they are measured.
    """
    repeats = _validate.integer("repeats", repeats)
    _check_size(task)
    root = Randomness.secure() if seed is None else Randomness.seeded(seed)
    draws = root.child("rehearsal")
    basis = MADE_UP if table is None else PUBLIC
    rows = made_up_rows(task, draws, features, **facts) if table is None else _public(table, task.d)
    known = _facts(task, rows[1]) if basis == PUBLIC else facts
    curve = tradeoff_of(task, epsilons, planner, solvers=solvers, prefer=prefer, **known)
    measure = _Measure.of(task, rows, draws, bounds)
    fits: dict[tuple[float, str], list[_Fit]] = {}
    for _ in range(repeats):
        drawn = measure.drawn(task.n, draws)
        for point in curve.points:
            noise = root if seed is None else Randomness.seeded(int(draws.integers(2**40, 1)[0]))
            begun = time.perf_counter()
            weights = fitter(at_epsilon(task, point.epsilon), point.solver, drawn, noise)
            took = time.perf_counter() - begun
            fit = _Fit(measure.loss(weights) - measure.best, took)
            fits.setdefault((point.epsilon, point.solver), []).append(fit)
    points = []
    for point in curve.points:
        own = fits[point.epsilon, point.solver]
        excesses, seconds = np.array([(fit.excess, fit.seconds) for fit in own]).T
        new = measured_point(point, excesses, measure.constant, measure.best, basis)
        points.append(replace(new, seconds=float(np.median(seconds))))
    return replace(curve, points=tuple(points))


def _check_size(task: Task) -> None:
    """Refuse more rows than are held in memory."""
    if task.n * task.d > MOST_NUMBERS:
        raise ParameterError(
            f"a rehearsal holds the rows of a fit in memory, and {task.n:,} rows of {task.d:,} "
            f"features are more than {MOST_NUMBERS:.0e} numbers. Rehearse a task with fewer rows: "
            "its excess risk is an upper estimate."
        )


@dataclass(frozen=True)
class _Fit:
    excess: float
    seconds: float


def measured_point(
    point: TradeoffPoint, excesses: Floats, constant: float, best: float, basis: str
) -> TradeoffPoint:
    """Return the point with what fits lost: their mean, and the 10th and 90th percentile.

    Args:
        point: of a forecast.
        excesses: by fit, over the loss of the best model without privacy, which is ``best``.
        constant: the loss of the best constant.
        basis: which rows it was measured on.
    """
    losses = np.maximum(excesses, 0.0)  # below zero: as good as the best
    low, high = np.quantile(losses, (0.1, 0.9))
    excess, learnable = float(np.mean(losses)), max(constant - best, 1e-12)
    return replace(
        point,
        excess=excess,
        low=float(low),
        high=float(high),
        constant=constant,
        typical=False,
        verdict=verdict_of(excess, max(constant, 1e-12), learnable),
        basis=basis,
        repeats=len(losses),
    )


@dataclass(frozen=True)
class _Measure:
    """Rows to fit on, and what models lose on the others."""

    rows: Rows  # to draw from
    problem_loss: Any
    test: Source
    best: float  # loss of the best model without privacy
    constant: float  # loss of the best constant

    @classmethod
    def of(cls, task: Task, rows: Rows, draws: Stream, bounds: Bounds | None) -> _Measure:
        """Set rows aside, and fit the others without privacy."""
        X, y = rows
        order = np.asarray(draws.permutation(X.shape[0]))
        cut = max(1, round(_TEST_SHARE * len(order)))
        parts = [(X[part], None if y is None else y[part]) for part in (order[:cut], order[cut:])]
        problem, loss = task.problem, task.problem.loss
        test, train = (_source(part, problem.bounds) for part in parts)
        test_loss = test.objective(loss)
        losses = [test_loss.value(weights) for weights in _fitted(task, train)]
        constant = [test_loss.value(weights) for weights in _constants(task, train)]
        own = test if bounds is None else _source(parts[0], bounds)
        return cls(parts[1], loss, own, min(losses), min(constant))

    def loss(self, weights: Floats) -> float:
        """Return the mean loss of weights on the rows that were set aside."""
        return self.test.objective(self.problem_loss).value(weights)

    def drawn(self, n: int, draws: Stream) -> Rows:
        """Return n rows, drawn with replacement."""
        X, y = self.rows
        chosen = np.asarray(draws.integers(X.shape[0], n))
        return X[chosen], None if y is None else y[chosen]


def _source(rows: Rows, bounds: Bounds) -> Source:
    X, y = rows
    return from_arrays(X, y).bounded(bounds, order="given")


# -- without privacy -------------------------------------------------------------------------------


def _fitted(task: Task, source: Source) -> Iterator[Floats]:
    """Yield weights that minimise the mean loss, with several penalties."""
    for ridge in _RIDGES:
        yield _minimiser(task, source, ridge + task.ridge)


def _minimiser(task: Task, source: Source, ridge: float, free: Any = None) -> Floats:
    """Return about the best weights within the domain; only ``free`` coordinates may move."""
    from scipy.optimize import minimize

    loss = surrogate_loss(task, _SMOOTHING) if nonsmooth(task) else task.problem.loss
    objective, domain = source.objective(loss, ridge=ridge), task.problem.domain
    mask = np.ones(task.n_weights) if free is None else free

    def value_and_gradient(weights: Floats) -> tuple[float, Floats]:
        value, gradient = objective.value_and_gradient(weights)
        return value, gradient * mask

    result = minimize(
        value_and_gradient,
        task.start * mask,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 300},
    )
    weights = np.asarray(domain.project(np.asarray(result.x, dtype=float)))
    best, step = objective.value(weights), 1.0
    for _ in range(100):  # where the domain cut it off, follow the edge
        gradient = value_and_gradient(weights)[1]
        trial = np.asarray(domain.project(weights - step * gradient))
        value = objective.value(trial)
        if value < best:
            weights, best, step = trial, value, 2.0 * step
        else:
            step /= 4.0
            if step < 1e-9:
                break
    return weights


def _constants(task: Task, source: Source) -> Iterator[Floats]:
    """Yield the weights of constants: zero, and the best ones of the intercept alone."""
    yield task.start
    if task.problem.bounds.intercept is not None:
        mask = np.zeros((task.columns, task.n_weights // task.columns))
        mask[-1] = 1.0  # the intercept's column is the last of a row
        yield _minimiser(task, source, task.ridge, mask.ravel())


# -- rows ------------------------------------------------------------------------------------------


def public_rows(table: Rows) -> Rows:
    """Return public rows as arrays, checked."""
    if not isinstance(table, tuple) or len(table) != 2:
        raise _validate.refusal(
            "table", f"must be public rows (X, y), got {_validate.shown(table)}."
        )
    X = table[0].tocsr() if hasattr(table[0], "tocsr") else np.asarray(raw_rows(table[0]))
    y = None if table[1] is None else np.asarray(table[1])
    if X.shape[0] < LEAST_ROWS or (y is not None and len(y) != X.shape[0]):
        raise DataError(
            f"a rehearsal needs at least {LEAST_ROWS} public rows, each with a label; got "
            f"{X.shape[0]} rows and {0 if y is None else len(y)} labels. Without public rows leave "
            "the table out: rows are made up then."
        )
    return X, y


def _public(table: Rows, d: int) -> Rows:
    """Return public rows of as many features as the task has."""
    X, y = public_rows(table)
    if X.shape[1] != d:
        raise DataError(
            f"the public rows have {X.shape[1]:,} features, and the task has rows of {d:,}."
        )
    return X, y


def _facts(task: Task, y: Any) -> dict[str, Any]:
    """Return what public labels say, as `dpsco.outlook` takes it; nothing of odd labels."""
    kind, rule = task.problem.loss.labels, task.problem.bounds.label
    if y is None:
        return {}
    if kind in CLASS_LABELS:
        values = rule.values if isinstance(rule, Classes) else (-1, 1)
        shares = np.array([np.mean(y == value) for value in values])
        return {"base_rate": list(shares / shares.sum())} if shares.sum() > 0.0 else {}
    spread = float(np.std(np.asarray(y, dtype=float))) if kind == "real" else 0.0
    return {"label_spread": spread} if spread > 0.0 else {}
