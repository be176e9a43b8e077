"""Solvers that ask for one noisy sum a batch: every row in one batch, the batches in order.

Such a run is a conversation. A `Stepper` says at which weights it wants the gradients of the next
batch, somebody sums them, and a `Engine` lets the sum leave through the ledger and hands the
noisy mean back to the stepper. Who sums is nobody's business here: a table in memory, a stream that
is read once, or workers on other machines. All that a stepper holds follows from noisy answers, so
it can be stored between rounds and shown.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from .. import _validate
from ..data.queries import ClippedDifference, ClippedGradient
from ..data.source import Source
from ..errors import LedgerError, ParameterError
from ..files.limits import MOST_BATCHES, MOST_RELEASES
from ..privacy.ledger import Ledger
from ..privacy.mechanisms import GaussianRelease, PrefixSumRelease
from ..privacy.mechanisms.prefix_sum.mechanism import NEEDS, PrefixMechanism, mechanism
from ..privacy.release import Release
from ..task import Task
from .base import BasePlan, Floats, Progress

BatchQuery = ClippedGradient | ClippedDifference
Rows = tuple[int, int]
NOISE_BYTES = 2**28  # of past noise, and as many of past sums: beyond, the buffered mechanism


@dataclass(frozen=True, kw_only=True)
class BatchPlan(BasePlan):
    """A plan of one noisy sum for each of ``rounds`` batches, from public task only."""

    rounds: int  # batches, each row in one of them
    clip: float  # l2 bound on what a row adds to its batch's sum, enforced
    sigma: float  # noise on a batch's sum, per coordinate; with a mechanism: of its unit noise
    mechanism: PrefixMechanism | None = None  # of the prefix sums; None: independent noise

    def __post_init__(self) -> None:
        """Refuse too many rounds, and noise for another number of them: a file may hold any."""
        most = MOST_RELEASES if self.mechanism is None else MOST_BATCHES
        hint = "Every round is a release of its own." if self.mechanism is None else ""
        _validate.integer("rounds", self.rounds, at_most=most, hint=hint)
        if isinstance(self.mechanism, PrefixMechanism) and self.mechanism.rounds != self.rounds:
            raise ParameterError(
                f"a plan of {self.rounds} rounds has noise for {self.mechanism.rounds} of them. "
                "Make the plan anew with dpsco.plan(...)."
            )

    def batches(self) -> tuple[Rows, ...]:
        """Return the rows of each batch: n/rounds of them, the first ones one more if need be."""
        size, more = divmod(self.n, check_rounds(self.rounds, self.n))
        starts = [t * size + min(t, more) for t in range(self.rounds + 1)]
        return tuple(itertools.pairwise(starts))

    def releases(self) -> tuple[Release, ...]:
        """Return a noisy sum a batch, or the stream of noisy prefix sums."""
        if self.mechanism is not None:
            return (PrefixSumRelease(self.clip, self.sigma, self.mechanism, rows=(0, self.n)),)
        return tuple(GaussianRelease(self.clip, self.sigma, rows=rows) for rows in self.batches())

    @property
    def total_rounds(self) -> int:
        """The number of batches."""
        return self.rounds

    @property
    def enforced(self) -> tuple[str, ...]:
        """The bounds, and the clip."""
        query = ClippedGradient(self.problem.loss, self.task.start, self.clip)
        return (*self.problem.bounds.enforced, *query.enforced)


class Stepper(ABC):
    """Where a solver stands and how it moves. All of it is public: it follows from noisy answers.

    A subclass names the vectors that change from round to round in ``vectors`` and sets them in
    ``__init__``; everything else comes from the plan.
    """

    vectors: ClassVar[tuple[str, ...]]

    def __init__(self) -> None:
        self.round = 0  # answers taken so far

    @abstractmethod
    def query(self) -> BatchQuery:
        """Return what the next batch is asked for."""

    @abstractmethod
    def move(self, mean: Floats) -> None:
        """Move on the noisy mean of the batch that was asked for."""

    @abstractmethod
    def answer(self) -> Floats:
        """Return the weights of a run whose rounds are over."""

    def take(self, mean: Floats) -> None:
        """Take the answer of a round."""
        self.move(mean)
        self.round += 1

    def state(self) -> dict[str, Floats]:
        """Return copies of the vectors that change."""
        return {name: np.array(getattr(self, name)) for name in self.vectors}

    def restore(self, round: int, state: Mapping[str, Floats]) -> None:
        """Go on from a state that `state` returned after so many rounds.

        Raises:
            ParameterError: a vector is missing, or has another shape.
        """
        found = {name: np.array(state.get(name, np.nan), dtype=float) for name in self.vectors}
        for name, vector in found.items():
            shape = getattr(self, name).shape
            if vector.shape != shape:
                raise ParameterError(f"a state with {name} of shape {shape} was expected.")
        for name, vector in found.items():
            setattr(self, name, vector)
        self.round = round


class Engine:
    """A run in progress: the stepper, and the ledger through which its batches leave.

    Args:
        plan: whose releases the ledger was opened with.
        stepper: of that plan.
        ledger: open, with none of the plan's releases executed.
    """

    def __init__(self, plan: BatchPlan, stepper: Stepper, ledger: Ledger) -> None:
        self.plan, self._stepper, self._ledger = plan, stepper, ledger
        self._batches, self._size = plan.batches(), plan.task.n_weights
        self._released = np.zeros(self._size)  # the last noisy prefix sum
        self._stream = None
        if plan.mechanism is not None:
            self._stream = ledger.prefix_sum(
                self._size,
                bound=plan.clip,
                sigma=plan.sigma,
                mechanism=plan.mechanism,
                rows=(0, plan.n),
            )

    @property
    def round(self) -> int:
        """Rounds done so far."""
        return self._stepper.round

    @property
    def finished(self) -> bool:
        """Whether all rounds are done."""
        return self.round == self.plan.rounds

    @property
    def rows(self) -> Rows:
        """The rows of the next batch."""
        self._check_open()
        return self._batches[self.round]

    def query(self) -> BatchQuery:
        """Return what the next batch is asked for."""
        self._check_open()
        return self._stepper.query()

    def commit(self, total: Floats) -> None:
        """Let the exact sum over the next batch leave, with noise, and move on it.

        Raises:
            ParameterError: the sum has another length than the weights. Nothing is drawn.
        """
        start, stop = rows = self.rows
        if np.shape(total) != (self._size,):
            raise ParameterError(
                f"a batch sum of length {self._size} was expected, got shape {np.shape(total)}."
            )
        if self._stream is None:
            noisy = self._ledger.gaussian(
                total, bound=self.plan.clip, sigma=self.plan.sigma, rows=rows
            )
        else:
            prefix = self._stream.add(total, rows=rows)
            noisy, self._released = prefix - self._released, prefix
        self._stepper.take(noisy / (stop - start))

    def state(self) -> dict[str, Floats]:
        """Return all that the next rounds build on, besides the noise; nothing of it is secret."""
        return {**self._stepper.state(), "released": np.array(self._released)}

    def secrets(self) -> dict[str, Floats]:
        """Return what the last round has changed of what later ones build on, besides the state.

        There is nothing where noise is independent. Exact sums are among it: as secret as the rows.
        """
        return {} if self._stream is None else self._stream.changed()

    def resume(
        self,
        round: int,
        state: Mapping[str, Floats],
        secrets: Mapping[str, Floats] = MappingProxyType({}),
    ) -> None:
        """Go on after ``round`` rounds that another process has committed.

        The ledger must draw from the randomness of that process, as it was when it began: the noise
        of the rounds that are over is used up here without anything leaving. ``secrets`` is what
        `secrets` returned after each of them, later values in place of earlier ones.
        """
        if self.round or not 0 <= round <= self.plan.rounds:
            raise LedgerError(f"a run at round {self.round} cannot go on at round {round}.")
        released = np.array(state.get("released", np.nan), dtype=float)
        if released.shape != self._released.shape:
            raise ParameterError(
                f"a state with a last noisy sum of shape {self._released.shape} was expected."
            )
        self._stepper.restore(round, state)
        self._released = released
        done = self._batches[:round]
        if self._stream is not None and done:
            self._stream.resume(round, secrets, row=done[-1][1], prefix=self._released)
        elif self._stream is None:
            for rows in done:
                self._ledger.skip(GaussianRelease(self.plan.clip, self.plan.sigma, rows=rows))

    def weights(self) -> Floats:
        """Return the weights, once all rounds are done."""
        if not self.finished:
            raise LedgerError(f"the run is at round {self.round} of {self.plan.rounds}.")
        return self._stepper.answer()

    def _check_open(self) -> None:
        if self.finished:
            raise LedgerError(f"all {self.plan.rounds} rounds of this run are over.")


def batch_runner(
    stepper: Callable[[Any], Stepper],
) -> Callable[[Any, Source, Ledger, Progress], Floats]:
    """Return the ``run`` of a solver whose stepper is made from its plan."""

    def run(plan: Any, source: Source, ledger: Ledger, progress: Progress) -> Floats:
        going = Engine(plan, stepper(plan), ledger)
        advance(going, source, progress)
        return going.weights()

    return run


def advance(
    run: Engine,
    source: Source,
    progress: Progress,
    *,
    committed: Callable[[Engine], None] | None = None,
) -> None:
    """Do the rounds that are left, on the rows of a source.

    ``committed`` is called after each, before the progress is reported.
    """
    source.expect(run.plan.n, points=2)
    while not run.finished:
        total = source.sum(run.query(), *run.rows)
        run.commit(total)
        if committed is not None:
            committed(run)
        progress(run.round, run.plan.rounds)


def check_rounds(rounds: int, n: int) -> int:
    """Return the number of rounds; refuse more than rows."""
    if _validate.integer("rounds", rounds) > n:
        raise ParameterError(f"rounds must be at most n = {n}, one row a batch; got {rounds}.")
    return int(rounds)


def chosen_mechanism(
    noise: str | PrefixMechanism | None, rounds: int, task: Task
) -> PrefixMechanism:
    """Return the mechanism asked for; by default the best one whose past noise fits."""
    if isinstance(noise, PrefixMechanism):
        if noise.rounds != rounds:
            raise ParameterError(
                f"the noise is made for {noise.rounds} rounds, the plan has {rounds}."
            )
        return noise
    if noise is None:
        noise = "toeplitz_cn" if rounds * task.n_weights * 8 <= NOISE_BYTES else "blt_cn"
    if isinstance(noise, str) and noise in NEEDS:
        value = 0.5 if noise == "power" else min(8, rounds)
        raise ParameterError(
            f"noise={noise!r} needs {NEEDS[noise]}, which a name does not give. Pass a mechanism, "
            f"such as options={{'noise': dpsco.privacy.mechanism({noise!r}, rounds={rounds}, "
            f"{NEEDS[noise]}={value})}}; 'toeplitz_cn' and 'blt_cn' need nothing more."
        )
    return mechanism(noise, rounds=rounds)
