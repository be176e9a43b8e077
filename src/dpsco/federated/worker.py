"""The side that holds rows: it answers each request of a run that is its own, once.

A worker holds the plan, and consents to nothing but it: bounds, clip, encoding and trust model are
its own, and a request that asks for more is refused before a row is read. What leaves is a vector:
the sum of its rows' contributions, each clipped; or, where a whole worker is protected, their mean,
clipped as one vector. The mean, because a worker is then what a row is otherwise: one contribution
of gradient size, however many rows it holds, and the coordinator's divisor counts workers.

How often a worker answers follows from the plan. In a single epoch each row belongs to one round,
and a worker answers one round of a run. Where every round asks all rows, a worker answers every
round once, in order, always with the same rows: the plan's releases charge each row for each round,
so that one more answer to a round is what nobody has paid for.

Secret samples. A request with a ``rate`` asks for a Poisson sample: the worker draws one coin for
each of its rows (where workers are protected: one for itself), independently in each round, from
secure randomness that never leaves it, and sums the rows whose coin says so. The coins of all
workers together are those of one Poisson sample of all rows, which is what the plan's release
states and the coordinator's ledger executes. Amplification needs that whoever sees the output does
not know a row's coin. Nobody but the worker does; it answers also if no coin says so, with zeros;
and a request that is repeated gets the same answer, not one with new coins, whose difference would
tell. Coins that a worker draws wrongly cost the protection of its own rows alone: those of others
do not depend on them. The certificate lists all this as trusted.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import threading
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from .. import _validate
from ..data.contributions import contribution_pieces, contributions
from ..data.gradient_norms import GradientNorms, TrackedGradient
from ..data.queries import ClippedCoordinates, InUnits
from ..data.row_norms import LARGEST_LIMIT, cache_slices, clip_rows
from ..data.source import Source
from ..data.tables.table import Table
from ..errors import AssumptionError, DataError, LedgerError, ParameterError
from ..fit.run import as_table
from ..geometry.norms import L2
from ..privacy.randomness import Randomness
from ..privacy.release import NonCopyable
from ..solvers.engine import EnginePlan
from .agreement import FOUND, agreed_encoding, checked, fingerprint, follows_unit, query_of
from .fixed_point import FixedPoint, Words
from .journal import Journal
from .messages import Answer, Floats, GradientQuery, Request, RowQuery, Vector, check_name
from .pairwise_masks import PairwiseMasks
from .protection import WORKER, protected, rounds_of
from .trust import Trust


class AnsweredError(LedgerError):
    """A worker has answered the round already, and does not do so twice."""


class _Attendance(NamedTuple):
    """What a worker remembers of a run."""

    round: int  # the last one that it has answered
    request: str  # the digest of that round's request
    sent: Answer | None = None  # to be sent again
    masked: str = ""  # the digest of what has left behind masks


class Worker(NonCopyable):
    """Rows that stay here, and the answers they give.

    It remembers which runs it has answered, in memory, or with a ``journal`` on a disk as well.
    Without one, keep it for as long as runs may ask, in the process that made it. A forked process
    would forget that it has answered, so it refuses.

    Args:
        data: the worker's own rows: a table of `dpsco.data`, a pair (X, y), or a source. In a plan
            of a single epoch all of them belong to one round; who has rows for several makes a
            worker for each.
        plan: the public plan of the run. Its n counts the rows (or workers) of everybody.
        name: public, and another one for each worker.
        trust: the trust model that the worker agrees to.
        encoding: the one that was agreed on, or None for float sums.
        rows: which of the rows are this worker's, as a range (start, stop); by default all. So
            workers of several rounds share one source, without copies; their ranges must not
            overlap.
        runs: in how many runs of this plan it takes part. Each is paid for separately.
        resend: whether it gives the same answer again to the very same request, for messages
            that get lost. Never under noise helpers: two sums with the same noise give their
            difference.
        masks: hide its answers from everybody who does not see a whole sum, with integers alone;
            None: they leave as they are, and hiding them is the engine's business.
        journal: where it writes down what it has answered, before the answer leaves. A worker of
            the same name and rows that is made from it later goes on, and answers nothing twice:
            with ``resend`` it gives the same bits again, but for samples, whose coins were lost.

    Raises:
        AssumptionError, ParameterError: the plan is not one of a federated run, or the encoding
            does not fit it or the trust model; see `Coordinator`.
        DataError: the rows have another width than the plan, or other bounds. No row is read;
            of an iterator the first chunk is looked at, for its shape and types.
    """

    def __init__(
        self,
        data: Table | Source | tuple[Any, ...],
        plan: EnginePlan,
        *,
        name: str,
        trust: Trust | str = Trust.TRUSTED_COORDINATOR,
        encoding: FixedPoint | None = None,
        rows: tuple[int, int] | None = None,
        runs: int = 1,
        resend: bool = False,
        masks: PairwiseMasks | None = None,
        journal: Journal | None = None,
    ) -> None:
        self.plan, self.name = checked(plan), check_name(name)
        self._trust = Trust.parse(trust)
        least = int(self._trust is Trust.NOISE_HELPERS)  # how many there are is not told here
        self._encoding = agreed_encoding(plan, self._trust, encoding, helpers=least)
        self._runs, self._resend = _validate.integer("runs", runs), _validate.flag("resend", resend)
        self._rows = _fitting(as_table(data), plan)
        self._range = _range(rows, self._rows)
        self._rounds, self._coins = rounds_of(plan), Randomness.secure()
        self._fingerprint, self._protects = fingerprint(plan), protected(plan)
        self._masks, self._journal = _masks_for(masks, self._trust), journal
        self._answered = self._remembered()  # by run
        self._lock, self._process = threading.Lock(), os.getpid()

    def answer(self, request: Request) -> Answer:
        """Return the worker's contribution to a round, once in a run, or once in each round.

        Raises:
            AssumptionError: the request asks for something that the worker has not agreed to.
            LedgerError: the worker has taken part already, or was made in another process.
            ParameterError: this is no request.
        """
        if not isinstance(request, Request):
            raise ParameterError(f"a worker answers a Request, got {type(request).__name__}.")
        if os.getpid() != self._process:
            raise LedgerError(
                f"worker {self.name!r} must stay in the process that made it: a forked copy does "
                "not know what the others have answered. Make it where it answers."
            )
        with self._lock:
            self._check(request)
            before = self._answered.get(request.run)
            if before is not None and (self._rounds.single_epoch or request.round <= before.round):
                return self._again(request, before)
            if before is None and len(self._answered) >= self._runs:
                raise LedgerError(
                    f"worker {self.name!r} takes part in {self._runs} runs of this plan, and has "
                    "done so. Each one more costs its budget again: runs=..."
                )
            answer = self._contribution(request)
            sent = answer if self._resend else None
            masked = "" if self._masks is None else _digest(answer)
            attendance = _Attendance(request.round, request.digest, sent, masked)
            self._note(request, attendance)
            self._answered[request.run] = attendance
            return answer

    # -- consent -----------------------------------------------------------------------------------

    def _check(self, request: Request) -> None:
        """Refuse what the worker has not agreed to; no row is read."""
        plan = self.plan
        if request.plan != self._fingerprint:
            self._refuse("it belongs to another plan")
        if request.round >= (count := len(self._rounds)):
            self._refuse(f"the plan has {count} rounds, and it is of round {request.round}")
        round = self._rounds[request.round]
        if request.protects != self._protects:
            self._refuse(f"it protects a {request.protects}, the plan a {self._protects}")
        if request.trust is not self._trust:
            self._refuse(
                f"its trust model is {request.trust.value}, agreed was {self._trust.value}"
            )
        if not request.clip <= (clip := round.release.bound):
            self._refuse(f"its clip is {request.clip!r}, the plan's noise covers {clip!r}")
        if request.rate != (rate := round.release.rate if round.sampled else None):
            self._refuse(f"its rate is {request.rate}, the plan's {rate}")
        if request.encoding != self._encoding:
            self._refuse(f"its encoding is {request.encoding}, agreed was {self._encoding}")
        if (size := len(request.points[0])) != plan.task.n_weights:
            self._refuse(f"its points have {size} numbers, the plan {plan.task.n_weights}")
        self._check_unit(request)
        self._check_members(request)
        start, stop = round.rows
        if request.cohort != stop - start:
            self._refuse(f"its cohort is {request.cohort}, the plan's {stop - start}")
        if self._protects != WORKER and self._n > request.cohort:
            self._refuse(
                f"the worker's {self._n} rows are more than its {request.cohort}. Cut them into "
                "one part per round, and make a Worker with a name of its own for each: "
                "rows=(start, stop)"
            )

    def _check_unit(self, request: Request) -> None:
        """Refuse counts, units and lengths of answers that are not those of the plan."""
        query, unit = query_of(self.plan, request.round), request.unit
        if request.size != query.size:
            self._refuse(f"its answers have {request.size} numbers, the plan's {query.size}")
        in_units = isinstance(query, (InUnits, TrackedGradient))
        if in_units != (unit is not None):
            self._refuse(f"its unit is {unit}, which is not what round {request.round} asks for")
        if isinstance(query, FOUND) and request.clip != query.bound:
            self._refuse(f"its clip is {request.clip!r}, the plan's {query.bound!r}")
        if unit is not None and not follows_unit(self.plan, request.round, unit):
            self._refuse(f"its unit is {unit!r}, and no clip of the plan's grid makes that")
        if isinstance(query, GradientNorms):
            points = request.points
            if len(points) != 1 or points[0].tobytes() != query.weights.tobytes():
                self._refuse("the plan measures gradients at the start, and its points are others")

    def _check_members(self, request: Request) -> None:
        """Refuse a sum of others than those agreed on, and one that is not hidden as agreed."""
        if self._masks is None:
            if request.members is not None:
                self._refuse("it adds answers behind masks, and the worker has none")
        elif reason := self._masks.objection(request):
            self._refuse(reason)

    def _refuse(self, reason: str) -> None:
        raise AssumptionError(f"worker {self.name!r} does not answer this request: {reason}.")

    def _again(self, request: Request, before: _Attendance) -> Answer:
        """Return the answer that was given to the very same request; refuse any other."""
        repeats = self._resend and request.trust is not Trust.NOISE_HELPERS
        if repeats and request.digest == before.request:
            if before.sent is not None:
                return before.sent
            if request.rate is None:  # another process has answered: the same rows, the same bits
                answer = self._contribution(request)
                self._check_masked(answer, before)
                return answer
        what = "this run" if self._rounds.single_epoch else f"round {before.round} of this run"
        raise AnsweredError(
            f"worker {self.name!r} has answered {what} already: a "
            "row takes part once. A worker made with resend=True repeats a lost answer, outside of "
            "noise helpers and of samples that another process has drawn."
        )

    def _check_masked(self, answer: Answer, before: _Attendance) -> None:
        """Refuse to hide other numbers behind masks that were used.

        The difference of the two would be that of the rows, and behind no mask.
        """
        if self._masks is not None and _digest(answer) != before.masked:
            raise LedgerError(
                f"worker {self.name!r} has answered round {before.round} of this run with other "
                "numbers: its rows have changed, or are added in another way. Put back the table "
                "and the environment that it began with, or begin a new run."
            )

    def _remembered(self) -> dict[str, _Attendance]:
        """Return what a journal knows of this worker and its plan."""
        if self._journal is None:
            return {}
        try:
            return {
                entry["run"]: _Attendance(
                    int(entry["round"]), str(entry["request"]), masked=str(entry.get("masked", ""))
                )
                for entry in self._journal.entries
                if (entry["worker"], entry["plan"]) == (self.name, self._fingerprint)
            }
        except (LookupError, TypeError, ValueError):
            raise DataError(
                f"{self._journal.path} is no journal of a worker. Pass the one that it began with."
            ) from None

    def _note(self, request: Request, attendance: _Attendance) -> None:
        """Write down that a request is answered, before the answer leaves.

        The digest of an answer is written where masks hide it: without them it would be one of an
        exact sum, against which guesses could be tried.
        """
        if self._journal is not None:
            head = {"worker": self.name, "plan": self._fingerprint, "run": request.run}
            entry = {**head, "round": request.round, "request": attendance.request}
            if self._masks is not None:
                entry["masked"] = attendance.masked
            self._journal.append(entry)

    # -- rows --------------------------------------------------------------------------------------

    def _contribution(self, request: Request) -> Answer:
        """Return what leaves: the vector, behind masks where there are some."""
        with np.errstate(all="ignore"):  # a warning could tell something of the rows
            vector = self._vector(request)
        if self._masks is not None:
            vector = self._masks.hide(cast(Words, vector), request)
        return Answer(run=request.run, round=request.round, worker=self.name, vector=vector)

    def _vector(self, request: Request) -> Vector:
        """Return the contribution: a sum over rows, or their mean clipped as one vector."""
        if isinstance(self._rows, Table):  # which rows come first does not matter: all are added up
            self._rows = self._rows.bounded(self.plan.problem.bounds, order="given")
        source = self._rows
        # As a run in one place: sums are the same bits.
        source.expect(self._rounds.expected_rows, self.plan.points)
        if self._protects == WORKER:
            return self._mean(request, source)
        query = self._query(request)
        chosen = None if request.rate is None else self._sample(request.rate)
        if request.encoding is None:
            if chosen is None:
                return source.sum(query, *self._range)
            return source.sum_at(query, chosen)
        assert not isinstance(query, (GradientNorms, TrackedGradient))  # they have no encoding
        encoding, grid = request.encoding, request.encoding.grid(request.clip, request.size)
        pieces = contribution_pieces(query, source, *self._range)
        if chosen is not None:
            block = source.take(chosen)
            pieces = (
                contributions(query, block[part]) for part in cache_slices(len(block), query.size)
            )
        return encoding.add((encoding.wrap(grid.encode(piece)) for piece in pieces), request.size)

    def _query(self, request: Request) -> RowQuery:
        """Return what a row is asked for: the plan's kind of query at the request's points."""
        query = query_of(self.plan, request.round)
        if isinstance(query, GradientNorms):
            return query
        if isinstance(query, (InUnits, TrackedGradient)):
            gradient: Any = _in_unit(query.gradient, request)
            return dataclasses.replace(query, gradient=gradient)
        if not isinstance(query, ClippedCoordinates):
            return request.query(query.loss)
        if request.clip != query.bound:
            self._refuse(f"its clip is {request.clip!r}, the plan's coordinates {query.bound!r}")
        return dataclasses.replace(query, weights=request.points[0])

    def _mean(self, request: Request, source: Source) -> Vector:
        """Return the rows' mean, clipped as one vector; a row that is not finite counts as 0."""
        query = request.query(query_of(self.plan, request.round).loss, clip=LARGEST_LIMIT)
        total = source.sum(query, *self._range)
        mean: Floats = total[None] / self._n
        rate = request.rate  # of one coin, for the worker with all its rows
        if rate is not None and not len(self._coins.child("coin").poisson_sample(1, rate)):
            mean = np.zeros_like(mean)
        if request.encoding is None:
            return np.asarray(clip_rows(mean, L2, request.clip)[0])
        return request.encoding.wrap(request.encoding.grid(request.clip, request.size).encode(mean))

    def _sample(self, rate: float) -> NDArray[np.int64]:
        """Return the rows whose coin says so; the coins are drawn anew."""
        return self._range[0] + self._coins.child("coins").poisson_sample(self._n, rate)

    @property
    def _n(self) -> int:
        """How many rows are this worker's."""
        start, stop = self._range
        return stop - start

    def __repr__(self) -> str:
        return f"<Worker {self.name!r}: {self._n} rows, {len(self._answered)} runs answered>"


def _digest(answer: Answer) -> str:
    """Return 64 hexadecimal digits that tell this answer from every other one."""
    return hashlib.sha256(answer.to_json().encode()).hexdigest()


def _in_unit(gradient: GradientQuery, request: Request) -> GradientQuery:
    """Return the gradient that is clipped to the request's unit, at its points."""
    assert request.unit is not None
    if isinstance(gradient, ClippedCoordinates):
        return dataclasses.replace(gradient, weights=request.points[0], clip=request.unit)
    return request.query(gradient.loss, clip=request.unit)


def _fitting(data: Any, plan: EnginePlan) -> Table | Source:
    """Return the rows; refuse those that the plan does not fit, from public facts."""
    bounds = plan.problem.bounds
    if not isinstance(data, (Table, Source)):
        raise ParameterError(
            f"a worker needs a table of dpsco.data or a pair (X, y), got {type(data).__name__}."
        )
    width = plan.task.columns if isinstance(data, Source) else plan.d
    if data.d != width:
        raise DataError(f"the plan is for rows of {width} columns, the worker's have {data.d}.")
    if isinstance(data, Table):
        if data.once and not rounds_of(plan).single_epoch:
            raise ParameterError(
                f"{plan.solver} asks every worker in every round, and the rows of {data!r} come "
                "once. Pass rows that can be read again, or plan a single epoch, such as dp_ftrl."
            )
        data.check(bounds, order="given")
    elif data.bounds != bounds:
        raise DataError(f"the plan is for {bounds}, the worker's rows are within {data.bounds}.")
    return data


def _masks_for(masks: Any, trust: Trust) -> PairwiseMasks | None:
    """Return the masks; refuse what is none, and masks where single answers are read."""
    if masks is not None and not isinstance(masks, PairwiseMasks):
        raise ParameterError(
            f"masks must be PairwiseMasks or None, got {type(masks).__name__}.", parameter="masks"
        )
    if masks is not None and not trust.masked:
        raise ParameterError(
            f"under {trust.value} the coordinator reads single answers, and masks hide them. Pass "
            "trust='secure_aggregation', or leave masks out."
        )
    return masks


def _range(rows: Any, data: Table | Source) -> tuple[int, int]:
    """Return the range of the worker's rows; refuse one that leaves the table."""
    if rows is None:
        return 0, data.n
    start, stop = _validate.row_range("rows", rows)
    if stop > data.n:
        raise DataError(f"rows are {(start, stop)}, and there are {data.n} of them.")
    return start, stop
