"""The side that holds the plan's ledger: it asks, adds, lets noisy sums leave, and moves on.

A round is two messages: a task goes to the round's workers, their clipped sum comes back. The noise
is drawn when the sum is taken, so until then a round may be collected again; afterwards it is
closed. The divisor is the planned number of rows (or workers), never a count: whoever drops out is
a zero vector. The exact sum is kept by nothing here once it has left with noise.

Rounding. A worker adds its rows in leaves of 4096, and leaves pairwise; workers' sums are added
pairwise here. With B >= 4096 rows of W workers and u = 2^-53 the sum is off by at most
(4096 - D + log2(B/4096) + log2(W) + 3) u B clip, where D is what small workers save: one of
b < 4096 rows adds them in b steps, which saves b (4096 - b)/B >= 4095/B. The ledger allows for
4096 + log2(B) + 4. That is enough for W up to 2^11. It is enough for B up to 2^22 as well: at most
B/4096 workers save nothing, so W <= (1 + D) B/4095, and log2(1 + D) - D never exceeds 0.09. Both
leave 2 u for the products. Fewer rows than 4096 take at most B + 2 steps, whoever holds them.
Beyond both limits float sums are refused; fixed-point sums do not round.

A number that is far larger than the noise would swallow it, and the low bits of all others: a
worker that does not clip could take away the protection of the rest. So a float answer that is
longer than all rows of the round, clipped, is refused: a rule for that answer alone. A rule for the
sum would tell, without noise, on which side of a threshold the others are.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from .. import _validate
from ..api import check_helpers
from ..checkpoint import Checkpoint
from ..data.queries import ClippedGradient
from ..data.table import Order
from ..errors import LedgerError, ParameterError
from ..plans import Result
from ..privacy.ledger import Ledger, Purse, RunPurse
from ..privacy.ledger_parts import Unique
from ..privacy.randomness import Randomness, fresh_name
from ..privacy.summation import PairwiseSum
from ..solvers.rounds import BatchPlan
from .agreement import (
    WORKER,
    checked,
    enforced,
    fingerprint,
    helped_encoding,
    protected,
    stepper_of,
    trusted,
)
from .attendance import AttendedRun
from .fixed_point import FixedPoint, Words
from .messages import Answer, Floats, Task, Vector, checked_vector
from .trust import Trust

MOST_FLOAT_ROWS, MOST_FLOAT_ANSWERS = 2**22, 2**11
"""Rows of a batch, or else answers, up to which float sums are proved to round little enough."""
_ROUNDED = 1.0 + 2.0**-20  # more than rounding can add to the length of a clipped sum


class Coordinator(Unique):
    """One federated run of a plan, from its first task to its result.

    Args:
        plan: of a solver that asks for one sum a batch. Its budget's unit says whom it protects:
            a row, or with ``Unit(1, "worker")`` a worker with all its rows; n counts those.
        trust: who has to be believed; see `Trust`.
        encoding: how contributions become integers; needed wherever sums are masked.
        helpers: how many noise helpers add to each sum. The coordinator adds its own noise all the
            same, so the weights carry the noise of 1 + helpers runs, sqrt(1 + helpers) times as
            much, and the certificate rests on no helper.
        randomness: secure by default; a seeded one marks the certificate as reproducible.
        odometer: pays for the run out of a shared budget.
        checkpoint: a file that brings the run over a crash of the coordinator, as in `dpsco.run`.
            The open round is then asked for again, with the same task.

    Raises:
        AssumptionError: the plan exceeds its budget, or its theorem does not cover the problem.
        BudgetError: the odometer cannot pay.
        CheckpointError: the checkpoint cannot be used, is in use, or is another run's.
        ParameterError: the solver does not work by sums of batches, or the arguments do not fit.

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
    ...     coordinator.receive([worker.answer(coordinator.task())])
    >>> coordinator.result().certificate.epsilon(1e-6) <= 1.0
    True
    """

    def __init__(
        self,
        plan: BatchPlan,
        *,
        trust: Trust | str = Trust.TRUSTED_COORDINATOR,
        encoding: FixedPoint | None = None,
        helpers: int = 0,
        randomness: Randomness | None = None,
        odometer: Purse | None = None,
        checkpoint: str | Path | None = None,
    ) -> None:
        self.plan, self.trust = checked(plan), Trust.parse(trust)
        self.encoding = helped_encoding(plan, self.trust, encoding, helpers)
        check_helpers(odometer, None)
        self._lock, self._broken = threading.RLock(), False
        self._fingerprint, self._protects = fingerprint(plan), protected(plan)
        self._kept: Checkpoint | None = None
        self._done: Result | None = None
        if checkpoint is not None:
            self._open(checkpoint, randomness, odometer)
            return
        self.run = fresh_name()
        ledger = Ledger(
            plan.releases(),
            plan.budget,
            randomness=randomness,
            trusted=(*plan.trusted, *trusted(plan, self.trust, self.encoding)),
            odometer=odometer,
            label=plan.solver,
        )
        self._begin(ledger)

    @property
    def round(self) -> int:
        """Rounds that are closed."""
        return self.plan.rounds if self._done is not None else self._rounds.round

    @property
    def finished(self) -> bool:
        """Whether all rounds are closed."""
        return self.round == self.plan.rounds

    def task(self) -> Task:
        """Return what the workers of the open round are asked for.

        Raises:
            LedgerError: all rounds are over.
        """
        with self._lock:
            self._check_open()
            query, (start, stop) = self._rounds.query(), self._rounds.rows
            points: tuple[Floats, ...]
            factors: tuple[float, ...]
            if isinstance(query, ClippedGradient):
                points, factors = (query.weights,), (1.0,)
            else:
                points = (query.first, query.second)
                factors = (query.first_factor, query.second_factor)
            return Task(
                run=self.run,
                plan=self._fingerprint,
                round=self.round,
                points=points,
                factors=factors,
                clip=query.clip,
                cohort=stop - start,
                protects=self._protects,
                trust=self.trust,
                encoding=self.encoding,
            )

    def receive(self, answers: Iterable[Answer], *, nobody: bool = False) -> None:
        """Take the answers of the open round, let their sum leave with noise, and close the round.

        Fewer answers than were asked for are taken as they are: who is missing adds zero. What is
        refused leaves the round open, and nothing has left.

        Args:
            answers: at most one from each worker, and none from a worker of an earlier round.
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
                "receive_sum(total, round=...)."
            )
        given: Any = answers
        if not isinstance(given, Iterable):
            kind = type(given).__name__
            raise ParameterError(f"a round takes a list of Answers, got {kind}.")
        taken = list(given)
        with self._lock:
            task = self.task()
            self._check_somebody(taken, nobody)
            names = self._names(taken, task)
            vectors = [self._fitting(answer.vector, task.size) for answer in taken]
            self._check_lengths(taken, task)
            self._check_rounding(len(vectors), task.cohort)
            self._rounds.attend(names)
            self._commit(self._added(vectors, task.size))

    def receive_sum(self, total: Vector, *, round: int) -> None:
        """Take the sum over the open round, as an engine or a secure aggregation has found it.

        Args:
            total: d floats, added pairwise, without answers that no clipped rows can add up to; or,
                with an encoding, d integers modulo its power of two, as uint64.
            round: to which it belongs.

        Raises:
            LedgerError: the round is not the open one.
            ParameterError: the sum has another length or type.
        """
        with self._lock:
            task = self.task()
            if _validate.integer("round", round, at_least=0) != task.round:
                self._refuse_round(round)
            vector = self._fitting(checked_vector(total), task.size)
            self._commit(self._added([vector], task.size))

    def result(self) -> Result:
        """Return the weights and their certificate, once all rounds are closed.

        Raises:
            LedgerError: rounds are missing.
        """
        with self._lock:
            if self._done is None:
                self._check_unbroken()
                self._done = self._stated(self._finish())
            return self._done

    def close(self) -> None:
        """Let go of the checkpoint's file, if there is one; the run can go on from it later."""
        if self._kept is not None:
            self._kept.close()

    # -- from the first noise to the last ----------------------------------------------------------

    def _open(self, path: Any, randomness: Any, odometer: Any) -> None:
        """Begin a run with a checkpoint, or go on from it."""
        # Who is trusted cannot change half-way: the certificate speaks of all rounds.
        order = cast(Order, f"federated, {self.trust.value}, {self.encoding}")
        purse = cast("RunPurse | None", odometer)  # which Checkpoint checks
        kept = Checkpoint(path, self.plan, order=order, randomness=randomness, odometer=purse)
        self._kept, self.run = kept, kept.run
        try:
            if kept.result is not None:
                self._done = self._stated(kept.result)
                kept.close()
                return
            sentences = trusted(self.plan, self.trust, self.encoding)
            self._begin(kept.open_ledger(trusted=sentences))
            kept.resume(self._rounds)
        except BaseException:
            kept.close()
            raise

    def _begin(self, ledger: Ledger) -> None:
        self._ledger, self._rounds = ledger, AttendedRun(self.plan, stepper_of(self.plan), ledger)

    def _commit(self, total: Floats) -> None:
        """Let a sum leave. If anything fails here, nobody hears of the round."""
        self._broken = True
        with np.errstate(all="ignore"):  # a warning could tell something of the rows
            self._rounds.commit(total)
        if self._kept is not None:
            self._kept.commit(self._rounds)
        self._broken = False

    def _finish(self) -> Result:
        if self._kept is not None:
            found = self._kept.finish(self._rounds, self._ledger)
            self._kept.close()
            return found
        weights = np.asarray(self._rounds.weights(), dtype=float)
        return Result(weights, self._ledger.close(), self.plan, self.plan.trace())

    def _stated(self, found: Result) -> Result:
        """Return a result whose certificate speaks of workers, where a ledger's has one place."""
        certificate = dataclasses.replace(
            found.certificate,
            enforced=enforced(self.plan, self.encoding),
            trust_model=self.trust.model,
        )
        return dataclasses.replace(found, certificate=certificate)

    # -- refusals ----------------------------------------------------------------------------------

    def _check_open(self) -> None:
        self._check_unbroken()
        if self.finished:
            raise LedgerError(f"all {self.plan.rounds} rounds of this run are over.")

    def _check_unbroken(self) -> None:
        if self._broken:
            raise LedgerError(
                "a round of this run failed while its noise was drawn, so nothing more may leave "
                "this coordinator. With a checkpoint, make a new one from the file."
            )

    def _check_somebody(self, answers: Sequence[Any], nobody: bool) -> None:
        """Refuse to lose a whole round unless that was said, and to lose answers if it was."""
        if not answers and nobody is not True:
            raise ParameterError(
                f"round {self.round} has no answers: closing it loses the whole round, for good. "
                "Collect it again with the same task, or say receive([], nobody=True)."
            )
        if answers and nobody is not False:
            raise ParameterError(
                f"nobody=True goes with no answers, got {len(answers)}. Leave nobody out."
            )

    def _names(self, answers: Sequence[Any], task: Task) -> set[str]:
        """Return who answered; refuse answers that do not belong here."""
        names: set[str] = set()
        for answer in answers:
            if not isinstance(answer, Answer):
                raise ParameterError(f"a round takes Answers, got {type(answer).__name__}.")
            if answer.run != self.run:
                raise LedgerError(f"{answer!r} belongs to another run.")
            if answer.round != task.round:
                self._refuse_round(answer.round)
            if answer.worker in names or self._rounds.attended(answer.worker):
                raise LedgerError(
                    f"worker {answer.worker!r} would count twice in this run: a row takes part "
                    "once. Leave its second answer out."
                )
            names.add(answer.worker)
        if len(names) > task.cohort:
            raise LedgerError(
                f"{len(names)} workers answered a round that was planned for {task.cohort} "
                f"{task.protects}s."
            )
        return names

    def _refuse_round(self, round: int) -> None:
        state = "closed" if round < self.round else "not open yet"
        raise LedgerError(
            f"round {round} is {state}: the run is at round {self.round}. A round leaves once."
        )

    def _check_lengths(self, answers: Sequence[Answer], task: Task) -> None:
        """Refuse floats that are longer than a clipped sum: noise would drown in them."""
        if self.encoding is not None:
            return
        most = self.plan.clip * (1 if task.protects == WORKER else task.cohort) * _ROUNDED
        for answer in answers:
            with np.errstate(all="ignore"):
                fits = np.linalg.norm(answer.vector) <= most
            if not fits:
                raise ParameterError(
                    f"the answer of worker {answer.worker!r} is longer than clipped rows can add "
                    "up to: it does not clip. Leave its answer out."
                )

    def _check_rounding(self, answers: int, rows: int) -> None:
        """Refuse floats whose sum could round by more than the ledger allows for."""
        if self.encoding is None and answers > MOST_FLOAT_ANSWERS and rows > MOST_FLOAT_ROWS:
            raise ParameterError(
                f"the rounding of float sums is bounded for {MOST_FLOAT_ANSWERS} answers, or for "
                f"{MOST_FLOAT_ROWS} rows a round; got {answers} answers for {rows} rows. Run it "
                "with encoding=FixedPoint.choose(plan), whose sums are exact."
            )

    def _fitting(self, vector: Vector, size: int) -> Vector:
        """Return a vector of the run's length and type."""
        kind = "float64" if self.encoding is None else "uint64"
        if vector.dtype.name != kind or vector.shape != (size,):
            raise ParameterError(
                f"this run adds vectors of {size} {kind} numbers, got {len(vector)} "
                f"{vector.dtype} numbers."
            )
        if self.encoding is not None and not self.encoding.holds(cast(Words, vector)):
            raise ParameterError(f"a number of an answer has more than {self.encoding.bits} bits.")
        return vector

    def _added(self, vectors: Sequence[Any], size: int) -> Floats:
        """Return the sum of vectors, as floats."""
        if self.encoding is not None:
            return self.encoding.decode(self.encoding.add(vectors, size))
        if not vectors:
            return np.zeros(size)
        total = PairwiseSum()
        for vector in vectors:
            total.add(vector)
        return total.result()

    def __repr__(self) -> str:
        return f"<Coordinator of {self.plan.solver}: round {self.round} of {self.plan.rounds}>"
