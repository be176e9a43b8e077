"""The engine: the one loop of every solver that asks for noisy answers, round by round.

A run is a conversation. A `Stepper` says what every row is asked for next, somebody sums, the
ledger lets the sum leave with noise, and the stepper moves on the noisy answer. All that a stepper
holds follows from noisy answers, so it can be stored between rounds, shown, and moved elsewhere.

The rounds are the releases of the plan, read in order, each as often as it counts (`Schedule`). So
what is accounted for and what is executed cannot drift apart, and ten thousand equal rounds are one
record. A release says which rows a round reads and how its answer leaves; bounds and noise may
differ from one to the next, and several may touch the same rows.

| release                  | a round reads                          | the stepper gets            |
|--------------------------|----------------------------------------|-----------------------------|
| GaussianRelease          | the rows of its range                  | a noisy sum                 |
| PoissonGaussianRelease   | each row of its range by a secret coin | a noisy sum                 |
| FixedSizeGaussianRelease | a secret sample of its range           | a noisy sum                 |
| PrefixSumRelease         | the next of equal parts of its range   | a noisy sum, correlated     |
| GeneralizedGaussian...   | the rows of its range                  | a noisy sum, for l_r rows   |
| SelectionRelease         | the rows of its range, as scores       | the index of a low score    |
| ClipQuantileRelease      | the rows of its range, as counts       | a clip                      |
| FadingSelectionRelease   | its newest rows, as scores             | the index of a low score    |
| ShuffledRelease          | the rows of its range, one by one      | noisy reports, order secret |
| ShuffledSequenceRelease  | the next part of its rows, secret order| a noisy sum                 |

Reading order: `Round` and `Schedule` (what is planned), `Stepper` (what a solver writes),
`EnginePlan` (what its plan inherits), `Engine` (a run in progress), `run_rounds` (the loop). Who
sums is nobody's business here: a table in memory, a stream, or workers on other machines. Whether
rounds are kept is the store's: `dpsco.fit.checkpoint`, or `NOTHING`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from ..data.contributions import contribution_pieces, contributions
from ..data.gradient_norms import GradientNorms
from ..data.queries import ClippedGradient, Query, found_clip_sentence
from ..data.row_norms import cache_slices
from ..data.source import Source
from ..data.vertices import FadingScores
from ..errors import LedgerError, ParameterError
from ..geometry.norms import L2, Lp
from ..privacy.ledger import Ledger, PrefixSums, ShuffledSums
from ..privacy.mechanisms import (
    ClipQuantileRelease,
    FadingSelectionRelease,
    FixedSizeGaussianRelease,
    GaussianRelease,
    GeneralizedGaussianRelease,
    PoissonGaussianRelease,
    PrefixSumRelease,
    SelectionRelease,
    ShuffledRelease,
    ShuffledSequenceRelease,
)
from ..privacy.release import Composition, Release
from .base import BasePlan, Floats, Progress, Solver, TraceLine

_IN_PARTS = (PrefixSumRelease, ShuffledSequenceRelease)  # one release is many rounds

Rows = tuple[int, int]
Answer = Any  # a noisy sum, noisy reports, the index of a selection, or a clip


# -- what is planned -------------------------------------------------------------------------------


class Round(NamedTuple):
    """One round: the release by which its answer leaves, once, and the rows that it reads."""

    release: Any  # a Release of one of the kinds above
    # Of a prefix sum its part of the release's rows, of a shuffled sequence places in the secret
    # order, of fading scores the newest rows; else all rows of the release.
    rows: Rows
    part: int = 0  # of the first two: how many rounds of the release came before

    @property
    def sampled(self) -> bool:
        """Whether it reads a secret sample of its rows."""
        return isinstance(self.release, (PoissonGaussianRelease, FixedSizeGaussianRelease))

    @property
    def expected_rows(self) -> float:
        """How many rows it reads, on average."""
        start, stop = self.rows
        if isinstance(self.release, PoissonGaussianRelease):
            return self.release.rate * (stop - start)
        if isinstance(self.release, FixedSizeGaussianRelease):
            return float(self.release.size)
        return float(stop - start)


class Schedule:
    """The rounds of a run, in order, made from the releases of a plan and as cheap to hold.

    >>> releases = [GaussianRelease(1.0, 2.0, rows=(0, 9), count=10_000)]
    >>> schedule = Schedule(releases)
    >>> len(schedule), schedule[9_999].rows
    (10000, (0, 9))

    Raises:
        ParameterError: a release is of a kind that has no rounds.
    """

    def __init__(self, releases: Iterable[Release | Composition]) -> None:
        self._stages = tuple(map(_stage, releases))
        self._ends = tuple(accumulate(stage.rounds for stage in self._stages))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __iter__(self) -> Iterator[Round]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, t: int) -> Round:
        """Return a round, counted from 0."""
        if not 0 <= t < len(self):
            raise IndexError(t)
        place = bisect_right(self._ends, t)
        parts, rounds = self._stages[place]
        t -= self._ends[place] - rounds
        release = parts[t % len(parts)]
        if isinstance(release, _IN_PARTS):
            return Round(release, part_of(release.rows, rounds, t), t)
        return Round(release, rows_read(release))

    @property
    def releases(self) -> tuple[Any, ...]:
        """The different releases, each once, in the order of their first rounds."""
        return tuple(dict.fromkeys(part for stage in self._stages for part in stage.parts))

    @property
    def expected_rows(self) -> int:
        """How many rows all rounds read together, on average."""
        total = 0.0
        for parts, rounds in self._stages:
            # A prefix sum or a sequence reads its rows once, in all its rounds together.
            repeats = 1 if isinstance(parts[0], _IN_PARTS) else rounds // len(parts)
            total += repeats * sum(Round(part, rows_read(part)).expected_rows for part in parts)
        return int(total)

    @property
    def single_epoch(self) -> bool:
        """Whether each row is read once, in order: what rows that come once can serve."""
        reached = 0
        for (first, *_), rounds in self._stages:
            once = rounds == 1 or isinstance(first, PrefixSumRelease)
            secret = Round(first, first.rows).sampled or isinstance(first, ShuffledSequenceRelease)
            start, stop = rows_read(first)
            if not once or secret or start < reached:
                return False
            reached = stop
        return True


def rows_read(release: Any) -> Rows:
    """Return the rows that a round reads: of those that fade, the newest only."""
    rows: Rows = getattr(release, "new_rows", release.rows)
    return rows


class _Stage(NamedTuple):
    """A release, or a composition of some, as rounds."""

    parts: tuple[Any, ...]  # releases that follow one another, over and over
    rounds: int  # in all


def _stage(release: Release | Composition) -> _Stage:
    """Return the rounds of a release; refuse kinds that have none."""
    if type(release) is PrefixSumRelease and release.count == 1:
        return _Stage((release,), release.mechanism.rounds)
    if type(release) is ShuffledSequenceRelease and release.count == 1:
        return _Stage((release,), release.batches)
    parts = release.parts if isinstance(release, Composition) else (release.once(),)
    for part in parts:
        if type(part) not in _RELEASED or isinstance(part, _IN_PARTS) or part.count > 1:
            raise ParameterError(f"the engine has no rounds for {release}.")
    return _Stage(parts, len(parts) * release.count)


def part_of(rows: Rows, parts: int, t: int) -> Rows:
    """Return one of equal parts of a range; the first ones have one row more if need be."""
    size, more = divmod(rows[1] - rows[0], parts)
    start = rows[0] + t * size + min(t, more)
    return start, start + size + (t < more)


# -- what a solver writes --------------------------------------------------------------------------


def no_numbers(size: int) -> Floats:
    """Return zeros that take no memory, not to be written to: what a vector is before it is set."""
    return np.broadcast_to(0.0, size)


class Stepper(ABC):
    """Where a solver stands and how it moves. All of it is public: it follows from noisy answers.

    A subclass is made from its plan. It names the vectors that change from round to round in
    ``vectors`` and sets them in ``__init__``; everything else comes from the plan.
    """

    vectors: ClassVar[tuple[str, ...]]

    def __init__(self) -> None:
        self.round = 0  # answers taken so far

    @abstractmethod
    def query(self) -> Query:
        """Return what the next round asks of each row."""

    @abstractmethod
    def step(self, answer: Any) -> None:
        """Move on the answer of round ``self.round``: a noisy sum, a selected index, reports."""

    @abstractmethod
    def output(self) -> Floats:
        """Return the weights of a run whose rounds are over."""

    def update(self, answer: Any) -> None:
        """Take the answer of a round."""
        self.step(answer)
        self.round += 1

    def state(self) -> dict[str, Floats]:
        """Return copies of the vectors that change."""
        return {name: np.array(getattr(self, name)) for name in self.vectors}

    def restore(self, round: int, state: Mapping[str, Floats]) -> None:
        """Go on from a state that `state` returned after so many rounds.

        Raises:
            ParameterError: a vector is missing, or has another shape.
        """
        vectors = {name: np.array(state.get(name, np.nan), dtype=float) for name in self.vectors}
        for name, vector in vectors.items():
            shape = getattr(self, name).shape
            if vector.shape != shape:
                raise ParameterError(f"a state with {name} of shape {shape} was expected.")
        for name, vector in vectors.items():
            setattr(self, name, vector)
        self.round = round


@dataclass(frozen=True, kw_only=True)
class EnginePlan(BasePlan):
    """A plan that the engine carries out: its releases are its rounds."""

    points: ClassVar[int] = 1  # at how many weights a row's gradient is computed, for its cost

    def step_at(self, t: int) -> float:
        """Return the step size of round t, for the trace; 0 where there is none."""
        return float(getattr(self, "step", 0.0))

    def schedule(self) -> Iterator[TraceLine]:
        """Yield one line per round."""
        for t, round in enumerate(Schedule(self.releases())):
            sigma = getattr(round.release, "sigma", 0.0)
            yield TraceLine(t + 1, round.rows, self.step_at(t), sigma)

    @property
    def total_rounds(self) -> int:
        """The number of noisy answers."""
        return len(Schedule(self.releases()))

    @property
    def finds_clip(self) -> bool:
        """Whether bounds of releases are in units of a clip that the run finds.

        So they are in plans that find one before the first step. A plan whose clip follows the
        gradients from a public one says so itself.
        """
        return any(type(release) is ClipQuantileRelease for release in self.releases())

    @property
    def enforced(self) -> tuple[str, ...]:
        """The bounds, and each clip that releases of sums are planned with."""
        return (*self.problem.bounds.enforced, *dict.fromkeys(self._clips()))

    def _clips(self) -> Iterator[str]:
        """Yield what is enforced of the rows of each release, in words."""
        loss, start, in_units = self.problem.loss, self.task.start, self.finds_clip
        for release in Schedule(self.releases()).releases:
            if type(release) is ClipQuantileRelease:
                yield from GradientNorms(loss, start, release.grid).enforced
            elif type(release) not in _SELECTIONS and in_units:
                yield found_clip_sentence(bound=release.bound)
            elif type(release) not in _SELECTIONS:
                yield from ClippedGradient(loss, start, release.bound).enforced


# -- a run in progress -----------------------------------------------------------------------------


class Sums(Protocol):
    """Whoever sums a query over rows: a `dpsco.data.source.Source`, or others elsewhere."""

    def sum(self, query: Query, start: int, stop: int) -> Floats:
        """Return the sum over a range of rows."""

    def sum_at(self, query: Query, indices: ArrayLike) -> Floats:
        """Return the sum over some rows."""


class Engine:
    """A run in progress: the schedule, the stepper, and the ledger through which answers leave.

    Args:
        plan: whose releases the ledger was opened with.
        stepper: of that plan.
        ledger: open, with none of the plan's releases executed.
    """

    def __init__(self, plan: BasePlan, stepper: Stepper, ledger: Ledger) -> None:
        self.plan, self.rounds = plan, Schedule(plan.releases())
        self._stepper, self._ledger = stepper, ledger
        self._stream: PrefixSums | None = None  # of the last round, if it was of a prefix sum
        self._streams = 0  # opened so far
        self._shuffled: ShuffledSums | None = None  # of the last round, if it was of a sequence
        self._released = no_numbers(plan.task.n_weights)  # the last noisy prefix sum
        self._fading: Floats | None = None  # the exact total of fading scores: secret

    @property
    def round(self) -> int:
        """Rounds done so far."""
        return self._stepper.round

    @property
    def finished(self) -> bool:
        """Whether all rounds are done."""
        return self.round == len(self.rounds)

    @property
    def next_round(self) -> Round:
        """The round that is to be done next."""
        if self.finished:
            raise LedgerError(f"all {len(self.rounds)} rounds of this run are over.")
        return self.rounds[self.round]

    def query(self) -> Query:
        """Return what the next round asks of each row.

        Raises:
            LedgerError: one row may add more to it than its noise was planned for.
        """
        return self._query(self.next_round)

    def _query(self, round: Round) -> Query:
        """Return what a round asks of each row; refuse more than its noise was planned for."""
        release, query = round.release, self._stepper.query()
        fading = type(release) is FadingSelectionRelease
        planned = release.bounds[-1] if fading else release.bound
        if query.bound != planned:
            raise LedgerError(
                f"round {self.round} asks for up to {query.bound!r} of a row, but its noise was "
                f"planned for {planned!r}."
            )
        if type(release) is ClipQuantileRelease and not isinstance(query, GradientNorms):
            raise LedgerError(f"round {self.round} finds a clip: it takes counts of GradientNorms.")
        if fading:
            self._check_fading(release, query)
        norm = getattr(query, "norm", L2)
        counted = type(release) in (*_SELECTIONS, ClipQuantileRelease)
        widest = release.norm if isinstance(release, GeneralizedGaussianRelease) else 2.0
        if not counted and not (isinstance(norm, Lp) and norm.p <= widest):
            raise LedgerError(
                f"round {self.round} bounds a row in {norm}, and its noise was planned for rows "
                f"that are bounded in the l{widest:g} norm."
            )
        return query

    def _check_fading(self, release: FadingSelectionRelease, query: Query) -> None:
        """Refuse scores in which the rows of earlier rounds count more than their noise allows."""
        earlier: tuple[float, ...] = ()
        stops: tuple[int, ...] = ()
        if len(release.bounds) > 1:
            before = self.rounds[self.round - 1].release if self.round else None
            if type(before) is FadingSelectionRelease and before.rows[0] == release.rows[0]:
                earlier, stops = before.bounds, before.stops
        keep = query.keep if isinstance(query, FadingScores) else math.nan
        least = (keep * bound * (1.0 - 2.0**-50) for bound in earlier)
        covered = all(a <= b for a, b in zip(least, release.bounds[:-1], strict=False))
        if not covered or stops != release.stops[:-1] or not keep >= 0.0:
            raise LedgerError(
                f"round {self.round} keeps {keep!r} of the scores before, but its noise was not "
                "planned for rows that count so much."
            )

    def step(self, source: Sums) -> None:
        """Do the next round on the rows of a source: ask, release, move."""
        round = self.next_round
        query = self._query(round)
        answer = _RELEASED[type(round.release)](self, round, query, source)
        del query  # it holds weights that the stepper may be done with
        self._stepper.update(answer)

    def commit(self, total: Floats) -> None:
        """Do the next round with a sum that was taken elsewhere, over its rows or its sample.

        Raises:
            ParameterError: the sum has another length than the query, or each of its rows needs
                noise of its own. Nothing is drawn.
        """
        size = self.query().size
        if isinstance(self.next_round.release, ShuffledSequenceRelease):
            raise ParameterError(
                "reports in secret order need their rows in one place: no sum will do."
            )
        if np.shape(total) != (size,):
            raise ParameterError(
                f"a sum of length {size} was expected, got shape {np.shape(total)}."
            )
        self.step(_Summed(total))

    def state(self) -> dict[str, Floats]:
        """Return all that the next rounds build on, besides the noise; nothing of it is secret."""
        return {**self._stepper.state(), "released": np.array(self._released)}

    def secrets(self) -> dict[str, Floats]:
        """Return what the last round has changed of what later ones build on, besides the state.

        There is nothing where rounds are independent. Exact sums, of correlated noise and of scores
        that fade, are among it: as secret as the rows.
        """
        changed = {} if self._stream is None else self._stream.changed()
        secrets = {f"stream {self._streams} {name}": value for name, value in changed.items()}
        if self._fading is not None:
            secrets[_FADING] = np.array(self._fading)
        return secrets

    def resume(
        self,
        round: int,
        state: Mapping[str, Floats],
        secrets: Mapping[str, Floats] = MappingProxyType({}),
    ) -> None:
        """Go on after ``round`` rounds that another process has committed.

        The ledger must draw from the randomness of that process, as it was when it began: noise and
        samples of the rounds that are over are used up here without anything leaving, and the next
        round draws what it would have drawn there. ``secrets`` is what `secrets` returned after
        each of them, later values in place of earlier ones.
        """
        if self.round or not 0 <= round <= len(self.rounds):
            raise LedgerError(f"a run at round {self.round} cannot go on at round {round}.")
        released = np.array(state.get("released", np.nan), dtype=float)
        if released.shape != self._released.shape:
            raise ParameterError(
                f"a state with a last noisy sum of shape {self._released.shape} was expected."
            )
        fades = round > 0 and type(self.rounds[round - 1].release) is FadingSelectionRelease
        total = np.array(secrets.get(_FADING, np.nan), dtype=float)
        if fades and total.shape != self._released.shape:
            shape = self._released.shape
            raise ParameterError(f"a total of fading scores of shape {shape} was expected.")
        self._fading = total if fades else None
        self._stepper.restore(round, state)
        for t in range(round):
            self._skip(self.rounds[t], released, last=t + 1 == round, secrets=secrets)

    def output(self) -> Floats:
        """Return the weights, once all rounds are done; they are the caller's own."""
        if not self.finished:
            raise LedgerError(f"the run is at round {self.round} of {len(self.rounds)}.")
        return np.array(self._stepper.output())

    def _skip(
        self, round: Round, released: Floats, *, last: bool, secrets: Mapping[str, Floats]
    ) -> None:
        """Take a round off the plan that is over; of a prefix sum, all of its rounds at once."""
        release = round.release
        if isinstance(release, ShuffledSequenceRelease):
            self._sequence(round).skip()
            return
        if not isinstance(release, PrefixSumRelease):
            self._stream = None
            self._ledger.skip(release)
            return
        if round.part == 0:
            self._open(release)
        if last or round.part + 1 == release.mechanism.rounds:
            assert self._stream is not None
            head, (_, reached) = f"stream {self._streams} ", round.rows
            held = {
                name.removeprefix(head): value
                for name, value in secrets.items()
                if name.startswith(head)
            }
            self._stream.resume(round.part + 1, held, row=reached, prefix=released)
            self._released = released

    def _open(self, release: PrefixSumRelease) -> None:
        """Open a stream of prefix sums."""
        size = self.plan.task.n_weights
        self._streams, self._released = self._streams + 1, no_numbers(size)
        self._stream = self._ledger.prefix_sum(
            size,
            bound=release.bound,
            sigma=release.sigma,
            mechanism=release.mechanism,
            rows=release.rows,
        )

    # -- how answers leave, by the kind of their release -------------------------------------------

    def _gaussian(self, round: Round, query: Query, source: Sums) -> Floats:
        total, release = source.sum(query, *round.rows), round.release
        return self._ledger.gaussian(
            total,
            bound=query.bound,
            sigma=release.sigma,
            rows=round.rows,
            diameter=query.diameter,
        )

    def _generalized(self, round: Round, query: Query, source: Sums) -> Floats:
        total, release = source.sum(query, *round.rows), round.release
        return self._ledger.generalized_gaussian(
            total, bound=query.bound, sigma=release.sigma, norm=release.norm, rows=round.rows
        )

    def _poisson(self, round: Round, query: Query, source: Sums) -> Floats:
        release: PoissonGaussianRelease = round.release
        sample = self._ledger.poisson(
            bound=query.bound,
            sigma=release.sigma,
            rate=release.rate,
            rows=round.rows,
            pair=release.pair,
        )
        return sample.release(source.sum_at(query, sample.indices))

    def _fixed_size(self, round: Round, query: Query, source: Sums) -> Floats:
        release: FixedSizeGaussianRelease = round.release
        sample = self._ledger.fixed_size(
            bound=query.bound, sigma=release.sigma, size=release.size, rows=round.rows
        )
        return sample.release(source.sum_at(query, sample.indices))

    def _prefix_sum(self, round: Round, query: Query, source: Sums) -> Floats:
        """Return what the round adds to the noisy prefix sum."""
        if round.part == 0:
            self._open(round.release)
        assert self._stream is not None
        prefix = self._stream.add(source.sum(query, *round.rows), rows=round.rows)
        noisy, self._released = prefix - self._released, prefix
        return noisy

    def _sequence(self, round: Round) -> ShuffledSums:
        """Return the sequence of a round, which the first of its rounds opens."""
        self._stream = None
        if round.part == 0:
            self._shuffled = self._ledger.shuffled_sequence(round.release)
        assert self._shuffled is not None
        return self._shuffled

    def _shuffled_sequence(self, round: Round, query: Any, source: Any) -> Floats:
        sequence = self._sequence(round)
        query.check(source)
        places = sequence.indices
        parts = (places[part] for part in cache_slices(len(places), query.size))
        reports = [contributions(query, source.take(part)) for part in parts]
        return sequence.release(np.concatenate(reports))

    def _selection(self, round: Round, query: Query, source: Sums) -> int:
        scores, release = source.sum(query, *round.rows), round.release
        return self._ledger.argmin(
            scores, bound=query.bound, scale=release.scale, rows=round.rows, noise=release.noise
        )

    def _fading_selection(self, round: Round, query: Query, source: Sums) -> int:
        """Return the index of a low score on a total that this engine keeps to itself."""
        assert isinstance(query, FadingScores)  # `query` has checked
        release: FadingSelectionRelease = round.release
        before = self._fading if len(release.bounds) > 1 else None
        self._fading = query.joined(before, source.sum(query, *round.rows))
        candidates = query.scores.candidates
        return self._ledger.fading_argmin(candidates.scores(self._fading), release)

    def _clip_quantile(self, round: Round, query: Query, source: Sums) -> float:
        return self._ledger.clip_quantile(source.sum(query, *round.rows), round.release)

    def _shuffled_reports(self, round: Round, query: Any, source: Any) -> Floats:
        pieces = contribution_pieces(query, source, *round.rows)
        return self._ledger.shuffled(
            np.concatenate(list(pieces)),
            bound=query.bound,
            sigma=round.release.sigma,
            rows=round.rows,
        )


_RELEASED: dict[type[Release], Callable[[Engine, Round, Query, Sums], Answer]] = {
    GaussianRelease: Engine._gaussian,
    GeneralizedGaussianRelease: Engine._generalized,
    PoissonGaussianRelease: Engine._poisson,
    FixedSizeGaussianRelease: Engine._fixed_size,
    PrefixSumRelease: Engine._prefix_sum,
    SelectionRelease: Engine._selection,
    ClipQuantileRelease: Engine._clip_quantile,
    FadingSelectionRelease: Engine._fading_selection,
    ShuffledRelease: Engine._shuffled_reports,
    ShuffledSequenceRelease: Engine._shuffled_sequence,
}


_SELECTIONS = (SelectionRelease, FadingSelectionRelease)  # their bound is on scores, in any norm
_BY_ROW = (ShuffledRelease, ShuffledSequenceRelease)  # every row has noise of its own
_FADING = "fading total"


class _Summed:
    """A sum that was taken elsewhere."""

    def __init__(self, total: Floats) -> None:
        self._total = total

    def sum(self, query: Query, start: int, stop: int) -> Floats:
        return self._total

    def sum_at(self, query: Query, indices: ArrayLike) -> Floats:
        return self._total


# -- the loop --------------------------------------------------------------------------------------


class Store(Protocol):
    """Where the rounds of a run are kept, so that it can go on after a crash."""

    def resume(self, engine: Engine) -> None:
        """Bring a run that has not begun to where it stopped."""

    def commit(self, engine: Engine) -> None:
        """Keep the round that was done last; before that, nobody hears of it."""


class _Nothing:
    """Keeps nothing."""

    def resume(self, engine: Engine) -> None: ...

    def commit(self, engine: Engine) -> None: ...


NOTHING: Store = _Nothing()


def run_rounds(
    plan: BasePlan,
    stepper: Stepper,
    source: Source,
    ledger: Ledger,
    *,
    progress: Progress,
    store: Store = NOTHING,
) -> Floats:
    """Do the rounds of a plan that its store has not seen, and return the weights.

    Args:
        plan: of a solver with a stepper.
        stepper: of that plan, at its beginning.
        source: rows within the plan's bounds.
        ledger: open, with none of the plan's releases executed.
        progress: called after each round, once it is kept.
        store: of earlier rounds, and of these.
    """
    engine = Engine(plan, stepper, ledger)
    source.expect(engine.rounds.expected_rows, getattr(plan, "points", 1))
    store.resume(engine)
    while not engine.finished:
        engine.step(source)
        store.commit(engine)
        progress(engine.round, len(engine.rounds))
    return engine.output()


def reads_once(solver: Solver, plan: BasePlan) -> bool:
    """Return whether a run reads each row once, in order, so that rows which come once will do."""
    return solver.stepper is not None and Schedule(plan.releases()).single_epoch


def takes_sums(solver: Solver, plan: BasePlan) -> bool:
    """Return whether a run asks for sums alone, so that the rows may stay elsewhere."""
    if solver.stepper is None:
        return False
    return not any(type(each) in _BY_ROW for each in Schedule(plan.releases()).releases)


def carry_out(
    solver: Solver,
    plan: BasePlan,
    source: Source,
    ledger: Ledger,
    progress: Progress,
    store: Store = NOTHING,
) -> Floats:
    """Return the weights of a plan: by the engine, or by the solver's own run."""
    if solver.stepper is None:
        assert solver.run is not None
        return solver.run(plan, source, ledger, progress)
    stepper = solver.stepper(plan)
    return run_rounds(plan, stepper, source, ledger, progress=progress, store=store)
