"""The side that holds the plan's ledger: it asks, adds, lets noisy sums leave, and moves on.

A round is two messages: a request goes to the round's workers, their clipped sum comes back. Where
each row belongs to one round (a single epoch), a worker answers once in the run; else every worker
answers every round, once. The noise is drawn when the sum is taken, so until then a round may be
collected again; afterwards it is closed. The divisor is the planned number of rows (or workers),
never a count: a worker that drops out counts as zero. The exact sum is kept by nothing here once it
has left with noise.

Rounding. A worker adds its rows in leaves of 4096, and leaves pairwise; workers' sums are added
pairwise here. With B >= 4096 rows of W workers and u = 2^-53 the sum is off by at most
(4096 - D + log2(B/4096) + log2(W) + 3) u B clip, where D is what small workers save: one of
b < 4096 rows adds them in b steps, which saves b (4096 - b)/B >= 4095/B. The ledger allows for
4096 + log2(B) + 4. That is enough for W up to 2^11. It is enough for B up to 2^22 as well: at most
B/4096 workers save nothing, so W <= (1 + D) B/4095, and log2(1 + D) - D never exceeds 0.09. Both
leave 2 u for the products. Fewer rows than 4096 take at most B + 2 steps, whoever holds them.
Beyond both limits float sums are refused; fixed-point sums do not round. Sums in units of a clip
that a run finds are divided once more by each worker; half of either limit has room for that.
Counts are whole numbers, and do not round.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from .. import _validate
from ..data.gradient_norms import GradientNorms, TrackedGradient
from ..data.queries import (
    ClippedCoordinates,
    ClippedDifference,
    ClippedGradient,
    InUnits,
    Query,
)
from ..errors import LedgerError, ParameterError
from ..fit.checkpoint.checkpoint import Checkpoint, NoCheckpoint
from ..fit.run import check_helpers
from ..privacy.ledger import BudgetSpender, Ledger
from ..privacy.randomness import Randomness, fresh_name
from ..privacy.release import NonCopyable
from ..solvers.base import Result
from ..solvers.engine import EnginePlan
from . import collection
from .agreement import checked, enforced, fingerprint, helped_encoding, stepper_of, trusted
from .attendance import AttendedRun
from .fixed_point import FixedPoint
from .messages import Answer, Floats, Request, Vector, checked_vector
from .protection import check_odometer, protected
from .trust import CAVEAT, Trust


class Coordinator(NonCopyable):
    """One federated run of a plan, from its first request to its result.

    Args:
        plan: of a solver that asks for noisy sums round by round. Its budget's unit says whom it
            protects: a row, or with ``Unit(1, "worker")`` a worker with all its rows; n counts
            those.
        trust: who has to be believed; see `Trust`.
        encoding: how contributions become integers; needed wherever sums are masked.
        helpers: how many noise helpers add to each sum. The coordinator adds its own noise all the
            same, so the weights carry the noise of 1 + helpers runs, sqrt(1 + helpers) times as
            much, and the certificate rests on no helper.
        randomness: secure by default; a seeded one marks the certificate as reproducible.
        odometer: pays for the run out of a shared budget; not one of whole workers for a run that
            protects rows.
        checkpoint: a file that brings the run over a crash of the coordinator, as in `dpsco.run`.
            The open round is then asked for again, with the same request. A warning says so if the
            file's run is over.

    Raises:
        AssumptionError: the plan exceeds its budget, its theorem does not cover the problem, or
            the odometer protects somebody else.
        BudgetError: the odometer cannot pay.
        CheckpointError: the checkpoint cannot be used, is in use, or is another run's.
        ParameterError: the solver does not work by noisy sums, or the arguments do not fit.

    >>> import dpsco as dp
    >>> from dpsco.federated import Coordinator, Worker
    >>> problem = dp.Problem(loss=dp.losses.Squared(), bounds=dp.Bounds(1.0, label=1.0))
    >>> budget = dp.ApproxDP(1.0, 1e-6)
    >>> plan = dp.plan(
    ...     problem, n=8, d=2, budget=budget, solver="dp_ftrl", options={"rounds": 2, "clip": 1.0}
    ... )
    >>> X, y = np.ones((8, 2)), np.ones(8)
    >>> coordinator = Coordinator(plan)
    >>> for start, stop in plan.batches():
    ...     worker = Worker((X[start:stop], y[start:stop]), plan, name=f"rows from {start}")
    ...     coordinator.receive([worker.answer(coordinator.request())])
    >>> coordinator.result().certificate.epsilon(1e-6) <= 1.0
    True
    """

    def __init__(
        self,
        plan: EnginePlan,
        *,
        trust: Trust | str = Trust.TRUSTED_COORDINATOR,
        encoding: FixedPoint | None = None,
        helpers: int = 0,
        randomness: Randomness | None = None,
        odometer: BudgetSpender | None = None,
        checkpoint: str | Path | None = None,
    ) -> None:
        self.plan, self.trust = checked(plan), Trust.parse(trust)
        self.encoding = helped_encoding(plan, self.trust, encoding, helpers)
        check_helpers(odometer, None)
        check_odometer(plan, odometer)
        self._helpers = int(helpers)
        self._lock, self._state, self._round = threading.RLock(), "open", 0
        self._fingerprint, self._protects = fingerprint(plan), protected(plan)
        self._result: Result | None = None
        self._store: Checkpoint | NoCheckpoint
        if checkpoint is not None:
            self._open(checkpoint, randomness, odometer)
            return
        self.run = fresh_name()
        self._store = NoCheckpoint(plan, randomness=randomness, odometer=odometer)
        sentences = trusted(plan, self.trust, self.encoding)
        self._begin(self._store.open_ledger(trusted=sentences))

    @property
    def round(self) -> int:
        """Rounds that are closed."""
        return self._round

    @property
    def finished(self) -> bool:
        """Whether all rounds are closed."""
        return self.round == self.plan.total_rounds

    def request(self) -> Request:
        """Return what the workers of the open round are asked for.

        Raises:
            LedgerError: all rounds are over, or the coordinator was closed.
        """
        with self._lock:
            self._check_state()
            if self.finished:
                raise LedgerError(f"all {self.plan.total_rounds} rounds of this run are over.")
            query, round = self._rounds.query(), self._rounds.next_round
            start, stop = round.rows
            unit = query.unit if isinstance(query, (InUnits, TrackedGradient)) else None
            return Request(
                run=self.run,
                plan=self._fingerprint,
                round=self.round,
                **_points(query),
                unit=unit,
                numbers=query.size if self.plan.finds_clip else None,
                clip=query.bound,
                cohort=stop - start,
                protects=self._protects,
                trust=self.trust,
                encoding=self.encoding,
                rate=round.release.rate if round.sampled else None,
            )

    def receive(self, answers: Iterable[Answer], *, nobody: bool = False) -> None:
        """Take the answers of the open round, let their sum leave with noise, and close the round.

        Fewer answers than were asked for are taken as they are: who is missing adds zero. What is
        refused leaves the round open, and nothing has left.

        Args:
            answers: at most one from each worker; where each row belongs to one round, none from a
                worker of an earlier round.
            nobody: says that a round without any answer is to be closed all the same. It is lost
                then, and the weights can be much worse for it; privacy is not.

        Raises:
            LedgerError: an answer belongs to another run or round, or a worker is counted twice.
            ParameterError: there are no answers, or an answer has another length or type, or holds
                larger floats than clipped rows can add up to; or sums are masked, and single
                answers tell nothing.
        """
        if self.trust.masked:
            raise ParameterError(
                f"under {self.trust.value} the coordinator takes the sum over a round alone: "
                "receive_sum(total, round=..., workers=...)."
            )
        taken = collection.listed(answers, "Answers")
        with self._lock:
            request = self.request()
            call = "receive([], nobody=True)"
            collection.check_somebody(taken, nobody, round=request.round, call=call)
            names = collection.names_of(taken, request)
            collection.check_once(names, request, self._rounds)
            vectors = [collection.fitting(answer.vector, request) for answer in taken]
            collection.check_lengths(taken, request)
            collection.check_rounding(len(vectors), request)
            self._commit(collection.added(vectors, request.size, self.encoding), names)

    def check(self, answer: Answer) -> None:
        """Refuse an answer as `receive` would, before the others of its round are there.

        Raises:
            LedgerError: it belongs to another run or round, or its worker to an earlier one.
            ParameterError: it is no answer, has another length or type, or holds larger floats
                than clipped rows can add up to.
        """
        with self._lock:
            request = self.request()
            collection.check_once(collection.names_of([answer], request), request, self._rounds)
            collection.fitting(answer.vector, request)
            collection.check_lengths([answer], request)

    def receive_sum(
        self,
        total: Vector,
        *,
        round: int,
        workers: Iterable[str] | None,
        nobody: bool = False,
    ) -> None:
        """Take the sum over the open round, as an engine or a secure aggregation has found it.

        Args:
            total: d floats, added pairwise, without answers that `fits_clip` refuses; or, with an
                encoding, d integers modulo its power of two, as uint64.
            round: to which it belongs.
            workers: the names of those whose answers are in it, without noise helpers. None says
                that the aggregation does not tell: then that nobody takes part twice rests on it
                and on the workers alone.
            nobody: as in `receive`, with ``workers=[]``.

        Raises:
            LedgerError: the round is not the open one, or a worker is counted twice.
            ParameterError: the sum has another length or type, or there are no workers.
        """
        names = None if workers is None else collection.listed(workers, "workers' names")
        with self._lock:
            request = self.request()
            collection.check_round(_validate.integer("round", round, at_least=0), request)
            if names is not None:
                call = "receive_sum(..., workers=[], nobody=True)"
                collection.check_somebody(names, nobody, round=request.round, call=call)
                collection.check_once(names, request, self._rounds)
            vector = collection.fitting(checked_vector(total), request)
            self._commit(collection.added([vector], request.size, self.encoding), names or [])

    def result(self) -> Result:
        """Return the weights and their certificate, once all rounds are closed.

        Raises:
            LedgerError: rounds are missing, or the coordinator was closed before this was asked.
        """
        with self._lock:
            if self._result is None:
                self._check_state()
                weights = np.asarray(self._rounds.output(), dtype=float)
                result = self._store.finish(weights, self._ledger)
                self._store.close()
                self._result = self._stated(result)
            return self._result

    def close(self) -> None:
        """Let go of the checkpoint's file, if there is one; the run can go on from it later."""
        with self._lock:
            if isinstance(self._store, Checkpoint):
                self._store.close()
                self._state = "closed" if self._result is None else self._state

    # -- from the first noise to the last ----------------------------------------------------------

    def _open(self, path: Any, randomness: Any, odometer: Any) -> None:
        """Begin a run with a checkpoint, or go on from it."""
        # Who is trusted cannot change half-way: the certificate speaks of all rounds.
        encoding = None if self.encoding is None else dataclasses.asdict(self.encoding)
        about = {"trust": self.trust.value, "encoding": encoding, "helpers": self._helpers}
        checkpoint = Checkpoint(
            path,
            self.plan,
            order="federated",
            about=about,
            randomness=randomness,
            odometer=odometer,
        )
        self._store, self.run = checkpoint, checkpoint.run
        try:
            stored = checkpoint.stored_result(stacklevel=3)
            if stored is not None:
                self._result, self._round = self._stated(stored), self.plan.total_rounds
                checkpoint.close()
                return
            sentences = trusted(self.plan, self.trust, self.encoding)
            self._begin(checkpoint.open_ledger(trusted=sentences, caveat=CAVEAT))
            checkpoint.resume(self._rounds)
            self._round = self._rounds.round
        except BaseException:
            checkpoint.close()
            raise

    def _begin(self, ledger: Ledger) -> None:
        self._ledger, self._rounds = ledger, AttendedRun(self.plan, stepper_of(self.plan), ledger)

    def _commit(self, total: Floats, names: Iterable[str]) -> None:
        """Let a sum leave. If anything fails here, nobody hears of the round."""
        self._state = "broken"
        self._rounds.attend(names)
        with np.errstate(all="ignore"):  # a warning could tell something of the rows
            self._rounds.commit(total)
        self._store.commit(self._rounds)
        self._state, self._round = "open", self._rounds.round

    def _stated(self, result: Result) -> Result:
        """Return a result whose certificate speaks of workers, where a ledger's has one place."""
        certificate = dataclasses.replace(
            result.certificate,
            enforced=enforced(self.plan, self.encoding),
            trust_model=self.trust.model,
        )
        return dataclasses.replace(result, certificate=certificate)

    def _check_state(self) -> None:
        """Refuse what comes after a failure, or after the file was let go of."""
        if self._state == "closed":
            raise LedgerError(
                "this coordinator is closed, and its run is not lost: make a new Coordinator from "
                "the file, with the same checkpoint=..."
            )
        if self._state == "broken":
            raise LedgerError(
                "a round of this run failed while its noise was drawn, so nothing more may leave "
                "this coordinator. With a checkpoint, close it and make a new one from the file."
            )

    def __repr__(self) -> str:
        return (
            f"<Coordinator of {self.plan.solver}: round {self.round} of {self.plan.total_rounds}>"
        )


def _points(query: Query) -> dict[str, Any]:
    """Return at which weights a query asks for gradients, and their factors."""
    if isinstance(query, (InUnits, TrackedGradient)):
        return _points(query.gradient)
    if isinstance(query, (ClippedGradient, ClippedCoordinates, GradientNorms)):
        return {"points": (query.weights,), "factors": (1.0,)}
    assert isinstance(query, ClippedDifference)
    factors = (query.first_factor, query.second_factor)
    return {"points": (query.first, query.second), "factors": factors}
