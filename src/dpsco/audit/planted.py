"""Deliberate privacy bugs. Whatever claims to check a solver must catch every one of them.

Each bug has happened in somebody's library. `planted` puts one into the runs (or plans) of a solver
for as long as a ``with`` block lasts; outside of it nothing is changed. The solver's own code is
not touched: the bug sits in what it is given, or in what it gives back.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from .. import _validate
from ..data import units
from ..data.block import Block
from ..data.bounds import Bounds
from ..data.histograms import LabelHistogram
from ..data.source import Source
from ..errors import OutlookWarning
from ..models.units import fitting
from ..privacy import lattice
from ..privacy.budget import Adjacency
from ..privacy.ledger import Ledger
from ..privacy.mechanisms import fading_selection, selection
from ..privacy.mechanisms import gamma as gamma_noise
from ..privacy.mechanisms.selection import noisy_argmin
from ..privacy.randomness import Randomness, Stream
from ..privacy.rounded_normals import Words, rounded_normals
from ..solvers import get, registry
from ..solvers.base import Progress
from ..solvers.engine import carry_out
from ..task import Task

Floats = NDArray[np.float64]
Run = Callable[[Any, Source, Ledger, Progress], Floats]
BuggyRun = Callable[[Run, Any, Source, Ledger, Progress], Floats]


@dataclass(frozen=True)
class Bug:
    """A bug: what it does, and which promise it breaks."""

    key: str
    summary: str
    breaks: str  # "replay", "ledger", "noise law", "independence", "cost", "work" or "messages"
    plant: Callable[[str], Any]  # the solver's key -> a context manager


@dataclass(frozen=True)
class UnitBug:
    """A bug of units that are found: it sits before the fit, whatever the solver."""

    key: str
    summary: str
    breaks: str  # "replay" or "ledger"
    plant: Callable[[], Any]  # a context manager


@contextmanager
def planted(bug: str, solver: str) -> Iterator[None]:
    """Plant a bug into a solver while the block lasts.

    Args:
        bug: a key of `BUGS`.
        solver: a key of the registry.

    Raises:
        ParameterError: there is no such bug, or no such solver.
    """
    chosen = BUGS[_validate.choice("bug", bug, set(BUGS))]
    get(solver)
    with chosen.plant(solver):
        yield


# -- noise -----------------------------------------------------------------------------------------


@contextmanager
def _half_noise(solver: str) -> Iterator[None]:
    """Draw everything at half its size, whatever is claimed."""
    gamma = gamma_noise.gamma

    def less(words: Words, count: int, scale: float) -> Floats:
        return rounded_normals(words, count, 0.5 * scale)

    def shorter(stream: Stream, shape: float, count: int) -> Floats:
        return gamma(stream, shape, count) * 0.5

    def nearer(words: Words, scores: Floats, scale: float, noise: str) -> int:
        return noisy_argmin(words, scores, 0.5 * scale, noise)

    with (
        mock.patch.object(lattice, "rounded_normals", less),
        mock.patch.object(selection, "noisy_argmin", nearer),
        mock.patch.object(fading_selection, "noisy_argmin", nearer),
        mock.patch.object(gamma_noise, "gamma", shorter),
    ):
        yield


@contextmanager
def _reused_seed(solver: str) -> Iterator[None]:
    """Give every release the same stream."""

    def same(root: Randomness, purpose: str) -> Stream:
        return Stream(bytes(32), purpose=purpose, reproducible=root.reproducible)

    with mock.patch.object(Randomness, "child", same):
        yield


@contextmanager
def _forgotten_factor(solver: str) -> Iterator[None]:
    """Take neighbours that replace a row for neighbours that remove one."""
    with mock.patch.object(Adjacency, "factor", property(lambda _: 1)):
        yield


# -- rows ------------------------------------------------------------------------------------------


@contextmanager
def _unclipped_row(solver: str) -> Iterator[None]:
    """Let rows through as they are, and claim that they were clipped."""
    apply = Bounds.apply

    def raw(bounds: Bounds, X: Any, y: Any = None, *rest: Any, **more: Any) -> Block:
        block = apply(bounds, X, y, *rest, **more)
        rows = np.array(block.rows)
        rows[block.present, : X.shape[1]] = X[block.present]
        out = more.get("out")
        if out is not None:
            out[...] = rows
        return dataclasses.replace(block, rows=rows)

    with mock.patch.object(Bounds, "apply", raw):
        yield


# -- runs ------------------------------------------------------------------------------------------


def _in_runs(bug: BuggyRun) -> Callable[[str], Any]:
    """Return what runs a solver through the bug while a block lasts."""

    @contextmanager
    def plant(solver: str) -> Iterator[None]:
        entries, entry = registry(), get(solver)
        run = partial(bug, partial(carry_out, entry))
        entries[solver] = dataclasses.replace(entry, run=run, stepper=None)
        try:
            yield
        finally:
            entries[solver] = entry

    return plant


@_in_runs
def _divisor_from_data(
    run: Run, plan: Any, source: Source, ledger: Ledger, progress: Progress
) -> Floats:
    """Scale every noisy answer by the number of rows that are there."""
    there = int(source.rows().present.sum())
    scaled: Any = _Between(ledger, after=lambda answer: answer * (plan.n / max(there, 1)))
    return run(plan, source, scaled, progress)


@_in_runs
def _skipped_empty_batch(
    run: Run, plan: Any, source: Source, ledger: Ledger, progress: Progress
) -> Floats:
    """Release nothing where there is nothing to release."""
    saving: Any = _Between(ledger, skip=lambda total: not np.any(total))
    return run(plan, source, saving, progress)


@_in_runs
def _start_from_data(
    run: Run, plan: Any, source: Source, ledger: Ledger, progress: Progress
) -> Floats:
    """Start at the first row, far out, in place of a public point."""
    first = np.asarray(source.rows(0, 1).rows, dtype=float).ravel()

    def start(task: Task) -> Floats:
        far = 1e3 * task.initial_distance / task.feature_bound
        return task.problem.domain.project(far * np.resize(first, task.n_weights))

    with mock.patch.object(Task, "start", property(start)):
        return run(plan, source, ledger, progress)


def _branch(ask: Callable[[Block], bool]) -> Callable[[str], Any]:
    """End a hair's breadth away if a question about all rows is answered with yes."""

    def buggy(run: Run, plan: Any, source: Source, ledger: Ledger, progress: Progress) -> Floats:
        weights = run(plan, source, ledger, progress)
        return np.nextafter(weights, np.inf) if ask(source.rows()) else weights

    return _in_runs(buggy)


def _leans(block: Block) -> bool:
    """Whether the first column adds up to more than 0."""
    return float(np.sum(np.asarray(block.rows, dtype=float)[:, 0])) > 0.0


def _filled(block: Block) -> bool:
    """Whether any number is not zero."""
    return bool(np.any(np.asarray(block.rows, dtype=float)))


@_in_runs
def _work_from_rows(
    run: Run, plan: Any, source: Source, ledger: Ledger, progress: Progress
) -> Floats:
    """Look at the rows once more if they lean to one side, as an early exit does."""
    if _leans(source.rows()):
        source.rows()
    return run(plan, source, ledger, progress)


@_in_runs
def _forecast_from_rows(
    run: Run, plan: Any, source: Source, ledger: Ledger, progress: Progress
) -> Floats:
    """Say what to expect of these rows, in place of what public facts say."""
    if _leans(source.rows()):
        warnings.warn("these rows leave little to learn.", OutlookWarning, stacklevel=2)
    return run(plan, source, ledger, progress)


class _Between:
    """Stands between a solver and its ledger: changes answers, or leaves releases out."""

    def __init__(
        self,
        ledger: Any,
        *,
        after: Callable[[Any], Any] = lambda answer: answer,
        skip: Callable[[Any], bool] = lambda total: False,
    ) -> None:
        self._ledger, self._after, self._skip = ledger, after, skip

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._ledger, name)
        if name in ("poisson", "fixed_size", "with_replacement", "prefix_sum", "shuffled_sequence"):
            return lambda *arguments, **named: _Opened(method(*arguments, **named), self)
        if name == "perturbed_minimiser":
            return lambda *arguments, **named: self._after(method(*arguments, **named))
        return lambda total, *arguments, **named: self.answer(method, total, *arguments, **named)

    def answer(self, method: Callable[..., Any], total: Any, *arguments: Any, **named: Any) -> Any:
        """Pass a release on, or leave it out."""
        selects = method.__name__ in ("argmin", "fading_argmin")
        if self._skip(total):
            return 0 if selects else np.zeros(np.shape(total))
        answer = method(total, *arguments, **named)
        return answer if selects else self._after(answer)  # an index is no amount


class _Opened:
    """The same for what a ledger opens: samples and streams of sums."""

    def __init__(self, opened: Any, between: _Between) -> None:
        self._opened, self._between = opened, between

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._opened, name)
        if name not in ("release", "add"):
            return method
        return lambda total, **named: self._between.answer(method, total, **named)


BUGS: dict[str, Bug] = {
    bug.key: bug
    for bug in (
        Bug("half_noise", "half the noise that is claimed", "noise law", _half_noise),
        Bug("reused_seed", "every release draws the same noise", "independence", _reused_seed),
        Bug("forgotten_factor", "replacing a row taken for removing it", "cost", _forgotten_factor),
        Bug("unclipped_row", "a row larger than its bound", "replay", _unclipped_row),
        Bug("divisor_from_data", "sums divided by a private count", "replay", _divisor_from_data),
        Bug("skipped_empty_batch", "no release of an empty sum", "ledger", _skipped_empty_batch),
        Bug("start_from_data", "the first iterate looks at a row", "replay", _start_from_data),
        Bug("branch_on_rows", "what is done depends on a sum", "replay", _branch(_leans)),
        Bug("branch_on_any", "what is done depends on there being any", "replay", _branch(_filled)),
        Bug("work_from_rows", "how much is computed depends on a row", "work", _work_from_rows),
        Bug("forecast_from_rows", "a forecast reads the rows", "messages", _forecast_from_rows),
    )
}


# -- units that are found --------------------------------------------------------------------------


@contextmanager
def _units_of_unclipped_rows() -> Iterator[None]:
    """Find units from rows as they are, and claim that they were clipped."""
    find = fitting.find

    def raw(plan: Any, table: Any, bounds: Any, ledger: Any) -> Any:
        with _unclipped_row(""):
            return find(plan, table, bounds, ledger)

    with mock.patch.object(fitting, "find", raw):
        yield


@contextmanager
def _unpaid_label_histogram() -> Iterator[None]:
    """Read the range of labels off their exact histogram, and release nothing."""
    release = fitting._release

    def unpaid(source: Source, query: Any, sigma: float, ledger: Any) -> Any:
        if isinstance(query, LabelHistogram):
            return source.sum(query)
        return release(source, query, sigma, ledger)

    with mock.patch.object(fitting, "_release", unpaid):
        yield


@contextmanager
def _centred_null_rows() -> Iterator[None]:
    """Take what is not finite for 0, and subtract the centre: a null row becomes a row."""
    mapped = units._mapped

    def filled(values: NDArray[Any], *rest: Any) -> Floats:
        return mapped(np.where(np.isfinite(values), values, 0.0), *rest)

    with mock.patch.object(units, "_mapped", filled):
        yield


@contextmanager
def _reused_units() -> Iterator[None]:
    """Keep the units of the first fit for all later ones, which release none."""
    find, memory = fitting.find, {}

    def once(*arguments: Any) -> Any:
        if "answer" not in memory:
            memory["answer"] = find(*arguments)
        return memory["answer"]

    with mock.patch.object(fitting, "find", once):
        yield


UNIT_BUGS: dict[str, UnitBug] = {
    bug.key: bug
    for bug in (
        UnitBug("unclipped_units", "units from unclipped rows", "replay", _units_of_unclipped_rows),
        UnitBug("unpaid_labels", "a label histogram unpaid", "ledger", _unpaid_label_histogram),
        UnitBug("centred_null_rows", "a null row is centred", "replay", _centred_null_rows),
        UnitBug("reused_units", "units of an earlier fit", "ledger", _reused_units),
    )
}
"""Bugs of units that are found, by key."""
