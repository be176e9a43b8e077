"""The side that holds rows: it answers one task of a run, and no other.

A worker holds the plan, and consents to nothing but it: bounds, clip, encoding and trust model are
its own, and a task that asks for more is refused before a row is read. What leaves is one vector:
the sum of its rows' contributions, each clipped; or, where a whole worker is protected, their mean,
clipped as one vector. The mean, because a worker is then what a row is otherwise: one contribution
of gradient size, however many rows it holds, and the coordinator's divisor counts workers.
"""

from __future__ import annotations

import os
import threading
from typing import Any

import numpy as np

from .. import _validate
from ..data.contributions import contribution_pieces
from ..data.row_norms import LARGEST_LIMIT, clip_rows
from ..data.source import Source
from ..data.tables.table import Table
from ..errors import AssumptionError, DataError, LedgerError, ParameterError
from ..fit.run import as_table
from ..geometry.norms import L2
from ..privacy.open_releases import NonCopyable
from ..solvers.common.batches import BatchPlan
from .agreement import agreed_encoding, checked, fingerprint, first_query
from .fixed_point import FixedPoint
from .messages import Answer, Floats, Task, Vector, check_name
from .protection import WORKER, protected
from .trust import Trust


class Worker(NonCopyable):
    """Rows that stay here, and the answers they give.

    It remembers in memory alone which runs it has answered: keep it for as long as runs may ask, in
    the process that made it. A forked process would forget that it has answered, so it refuses.

    Args:
        data: the worker's own rows: a table of `dpsco.data`, a pair (X, y), or a source. All of
            them belong to one round; who has rows for several makes a worker for each.
        plan: the public plan of the run. Its n counts the rows (or workers) of everybody.
        name: public, and another one for each worker.
        trust: the trust model that the worker agrees to.
        encoding: the one that was agreed on, or None for float sums.
        rows: which of the rows are this worker's, as a range (start, stop); by default all. So
            workers of several rounds share one source, without copies; their ranges must not
            overlap.
        runs: in how many runs of this plan it takes part. Each is paid for separately.
        resend: whether it gives the same answer again to the very same task, for messages that get
            lost. Never under noise helpers: two sums with the same noise give their difference.

    Raises:
        AssumptionError, ParameterError: the plan is not one of a federated run, or the encoding
            does not fit it or the trust model; see `Coordinator`.
        DataError: the rows have another width than the plan, or other bounds. No row is read;
            of an iterator the first chunk is looked at, for its shape and types.
    """

    def __init__(
        self,
        data: Table | Source | tuple[Any, ...],
        plan: BatchPlan,
        *,
        name: str,
        trust: Trust | str = Trust.TRUSTED_COORDINATOR,
        encoding: FixedPoint | None = None,
        rows: tuple[int, int] | None = None,
        runs: int = 1,
        resend: bool = False,
    ) -> None:
        self.plan, self.name = checked(plan), check_name(name)
        self._trust = Trust.parse(trust)
        least = int(self._trust is Trust.NOISE_HELPERS)  # how many there are is not told here
        self._encoding = agreed_encoding(plan, self._trust, encoding, helpers=least)
        if not isinstance(resend, bool):
            raise ParameterError(f"resend must be True or False, got {_validate.shown(resend)}.")
        self._runs, self._resend = _validate.integer("runs", runs), resend
        self._rows = _fitting(as_table(data), plan)
        self._range = _range(rows, self._rows)
        self._loss = first_query(plan).loss  # perhaps a smooth one close to the problem's
        self._fingerprint, self._protects = fingerprint(plan), protected(plan)
        self._answered: dict[str, tuple[Task, Answer] | None] = {}  # kept only to be sent again
        self._lock, self._process = threading.Lock(), os.getpid()

    def answer(self, task: Task) -> Answer:
        """Return the worker's contribution to a round, once in a run.

        Raises:
            AssumptionError: the task asks for something that the worker has not agreed to.
            LedgerError: the worker has taken part already, or was made in another process.
            ParameterError: this is no task.
        """
        if not isinstance(task, Task):
            raise ParameterError(f"a worker answers a Task, got {type(task).__name__}.")
        if os.getpid() != self._process:
            raise LedgerError(
                f"worker {self.name!r} must stay in the process that made it: a forked copy does "
                "not know what the others have answered. Make it where it answers."
            )
        with self._lock:
            self._check(task)
            if task.run in self._answered:
                return self._again(task)
            if len(self._answered) >= self._runs:
                raise LedgerError(
                    f"worker {self.name!r} takes part in {self._runs} runs of this plan, and has "
                    "done so. Each one more costs its budget again: runs=..."
                )
            with np.errstate(all="ignore"):  # a warning could tell something of the rows
                vector = self._vector(task)
            answer = Answer(run=task.run, round=task.round, worker=self.name, vector=vector)
            self._answered[task.run] = (task, answer) if self._resend else None
            return answer

    # -- consent -----------------------------------------------------------------------------------

    def _check(self, task: Task) -> None:
        """Refuse what the worker has not agreed to; no row is read."""
        plan = self.plan
        if task.plan != self._fingerprint:
            self._refuse("it belongs to another plan")
        if task.round >= plan.rounds:
            self._refuse(f"the plan has {plan.rounds} rounds, and it is of round {task.round}")
        if task.protects != self._protects:
            self._refuse(f"it protects a {task.protects}, the plan a {self._protects}")
        if task.trust is not self._trust:
            self._refuse(f"its trust model is {task.trust.value}, agreed was {self._trust.value}")
        if not task.clip <= plan.clip:
            self._refuse(f"its clip is {task.clip!r}, the plan's noise covers {plan.clip!r}")
        if task.encoding != self._encoding:
            self._refuse(f"its encoding is {task.encoding}, agreed was {self._encoding}")
        if task.size != plan.task.n_weights:
            self._refuse(f"its points have {task.size} numbers, the plan {plan.task.n_weights}")
        start, stop = plan.batches()[task.round]
        if task.cohort != stop - start:
            self._refuse(f"its cohort is {task.cohort}, the plan's {stop - start}")
        if self._protects != WORKER and self._n > task.cohort:
            self._refuse(
                f"the worker's {self._n} rows are more than its {task.cohort}. Cut them into one "
                "part a round, and make a Worker with a name of its own for each: rows=(start, "
                "stop)"
            )

    def _refuse(self, reason: str) -> None:
        raise AssumptionError(f"worker {self.name!r} does not answer this task: {reason}.")

    def _again(self, task: Task) -> Answer:
        """Return the answer that was given to the very same task; refuse any other."""
        kept = self._answered[task.run]
        if kept is not None and task.trust is not Trust.NOISE_HELPERS:
            known, answer = kept
            if known.to_json() == task.to_json():
                return answer
        raise LedgerError(
            f"worker {self.name!r} has answered this run already: a row takes part once. A "
            "worker made with resend=True repeats a lost answer, outside of noise helpers."
        )

    # -- rows --------------------------------------------------------------------------------------

    def _vector(self, task: Task) -> Vector:
        """Return the contribution: a sum over rows, or their mean clipped as one vector."""
        source = self._rows
        if isinstance(source, Table):  # which rows come first does not matter: all are added up
            source = source.bounded(self.plan.problem.bounds, order="given")
        source.expect(self.plan.n, points=2)  # as a run in one place: sums are the same bits
        if self._protects == WORKER:
            return self._mean(task, source)
        query = task.query(self._loss)
        if task.encoding is None:
            return source.sum(query, *self._range)
        encoding, grid = task.encoding, task.encoding.grid(task.clip, task.size)
        pieces = contribution_pieces(query, source, *self._range)
        return encoding.add((encoding.wrap(grid.encode(piece)) for piece in pieces), task.size)

    def _mean(self, task: Task, source: Source) -> Vector:
        """Return the rows' mean, clipped as one vector; a row that is not finite counts as 0."""
        query = task.query(self._loss, clip=LARGEST_LIMIT)
        total = source.sum(query, *self._range)
        mean: Floats = total[None] / self._n
        if task.encoding is None:
            return np.asarray(clip_rows(mean, L2, task.clip)[0])
        return task.encoding.wrap(task.encoding.grid(task.clip, task.size).encode(mean))

    @property
    def _n(self) -> int:
        """How many rows are this worker's."""
        start, stop = self._range
        return stop - start

    def __repr__(self) -> str:
        return f"<Worker {self.name!r}: {self._n} rows, {len(self._answered)} runs answered>"


def _fitting(data: Any, plan: BatchPlan) -> Table | Source:
    """Return the rows; refuse those that the plan does not fit, from public task."""
    bounds = plan.problem.bounds
    if not isinstance(data, (Table, Source)):
        raise ParameterError(
            f"a worker needs a table of dpsco.data or a pair (X, y), got {type(data).__name__}."
        )
    width = plan.task.columns if isinstance(data, Source) else plan.d
    if data.d != width:
        raise DataError(f"the plan is for rows of {width} columns, the worker's have {data.d}.")
    if isinstance(data, Table):
        data.check(bounds, order="given")
    elif data.bounds != bounds:
        raise DataError(f"the plan is for {bounds}, the worker's rows are within {data.bounds}.")
    return data


def _range(rows: Any, data: Table | Source) -> tuple[int, int]:
    """Return the range of the worker's rows; refuse one that leaves the table."""
    if rows is None:
        return 0, data.n
    start, stop = _validate.row_range("rows", rows)
    if stop > data.n:
        raise DataError(f"rows are {(start, stop)}, and there are {data.n} of them.")
    return start, stop
