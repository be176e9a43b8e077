"""Record a run, replay it on a neighbour with the same noisy answers, compare the two.

Given the same noisy answers, a run on a neighbouring table must make the same releases in the same
order, put something into each that is no further away than the release declares, and end at the
same weights, bit for bit: then nothing but the releases has looked at the rows.

A recording holds exact answers, so it is not private. Use it on made-up rows.
"""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammainc, ndtri

from ..data.tables.table import Table, from_arrays
from ..errors import LedgerError
from ..privacy.budget import Adjacency
from ..privacy.certificate import Certificate
from ..privacy.ledger import Ledger, PrefixSums, SampledSum, ShuffledSums
from ..privacy.mechanisms import (
    ClipQuantileRelease,
    FadingSelectionRelease,
    FixedSizeGaussianRelease,
    GaussianRelease,
    GeneralizedGaussianRelease,
    ObjectivePerturbationRelease,
    PoissonGaussianRelease,
    PrefixSumRelease,
    SelectionRelease,
    ShuffledRelease,
    ShuffledSequenceRelease,
    StableGammaRelease,
    StableGaussianRelease,
    WithReplacementRelease,
)
from ..privacy.randomness import Randomness
from ..privacy.release import Release
from ..solvers import get
from ..solvers.base import BasePlan
from ..solvers.engine import carry_out

Floats = NDArray[np.float64]
Rows = tuple[int, int]
Data = Table | tuple[Any, ...]

_NOT_NORMAL = (
    SelectionRelease,
    FadingSelectionRelease,
    ClipQuantileRelease,
    ShuffledRelease,
    GeneralizedGaussianRelease,
)
_MOST_INTEGRATED, _STEPS = 32, 512  # candidates, and points, of an integral over the noise
_ROUNDING = 1e-9  # relative: sums and iterates are float64
# Written out, not read off Adjacency.factor: this file is there to doubt it.
FACTORS = {Adjacency.REPLACE_ONE: 2.0, Adjacency.ZERO_OUT: 1.0, Adjacency.ADD_REMOVE: 1.0}


@dataclass(eq=False)
class Event:
    """One release: what went in before the noise, what came out, and what was drawn in secret."""

    release: Release
    inputs: list[Floats] = field(default_factory=list)
    outputs: list[Any] = field(default_factory=list)
    secret: Floats | None = None  # the rows of a sample, or the tilt of an objective


@dataclass(frozen=True, eq=False)
class Recording:
    """A run with everything that went through its ledger."""

    plan: BasePlan
    seed: int
    weights: Floats
    events: tuple[Event, ...]
    certificate: Certificate
    rounds: tuple[tuple[int, int], ...]  # what the progress callback was told


def record(plan: BasePlan, data: Data, *, seed: int = 0) -> Recording:
    """Run a plan on rows in their given order, with seeded noise, and record every release.

    Raises:
        LedgerError: executed and planned releases differ.
    """
    return _run(plan, data, seed, None)


def replay(recording: Recording, data: Data) -> Recording:
    """Run the recorded plan on other rows; every release answers what it answered then.

    Raises:
        LedgerError: the run makes other releases, or in another order.
    """
    return _run(recording.plan, data, recording.seed, recording.events)


def compare(first: Recording, second: Recording, *, row: int | None = None) -> list[str]:
    """Return what two recordings on neighbours must not show, in words; nothing if all is well.

    Args:
        first: from `record`.
        second: from `replay` of the first on a neighbour.
        row: where the neighbours differ, if known: releases on other rows must then be equal.
    """
    findings = []
    if len(first.events) != len(second.events):
        findings.append(f"{len(first.events)} releases became {len(second.events)}")
    adjacency = first.plan.budget.adjacency
    for number, (one, other) in enumerate(zip(first.events, second.events, strict=False), start=1):
        distance, allowed = _distance(one, other), declared_sensitivity(one, adjacency, row=row)
        if row is not None and not one.release.rows[0] <= row < one.release.rows[1]:
            allowed = 0.0
        if not distance <= allowed * (1 + _ROUNDING):
            findings.append(
                f"release {number} ({one.release.kind}) moves by {distance:.6g}, which is more "
                f"than the {allowed:.6g} that it declares"
            )
    if first.weights.tobytes() != second.weights.tobytes():
        findings.append("the weights differ although every noisy answer was the same")
    if first.rounds != second.rounds:
        findings.append("the rounds that were reported differ")
    if first.certificate.to_json() != second.certificate.to_json():
        findings.append("the certificates differ")
    return findings


def declared_sensitivity(event: Event, adjacency: Adjacency, *, row: int | None = None) -> float:
    """Return how far neighbours may move what goes into a release, by what the release declares."""
    release, factor = event.release, FACTORS[adjacency]
    if isinstance(release, (StableGaussianRelease, StableGammaRelease)):
        return release.sensitivity
    if isinstance(release, WithReplacementRelease):
        return _drawn_sensitivity(release, event.secret, row)
    if isinstance(release, ObjectivePerturbationRelease):
        # With the same tilt the gradients differ by factor * bound, the curvature is >= floor.
        return factor * release.bound / release.floor + 2.0 * release.distance
    if isinstance(release, FixedSizeGaussianRelease):
        factor = 2.0  # a row takes the place of another one
    if isinstance(release, GaussianRelease) and release.diameter and factor == 2.0:
        return release.diameter
    if isinstance(release, FadingSelectionRelease):
        return _faded_sensitivity(release, factor, row)
    return factor * float(getattr(release, "bound", math.nan))


def _faded_sensitivity(release: FadingSelectionRelease, factor: float, row: int | None) -> float:
    """Return how far one row may move the scores: a row that entered early counts less."""
    if row is None or not release.rows[0] <= row < release.rows[1]:
        return factor * release.largest
    return factor * release.bound_of(row) + 1e-12 * release.largest  # rounding of all rows


def noise(recording: Recording) -> Floats:
    """Return the noise of all releases as numbers that must be independent and N(0, 1).

    Of a selection it is where the answer lies in its law, by ranks of the scores, spread out evenly
    over the answer's own chance; of noise shaped like other balls it is the length. Clips and
    shuffled reports are left out.
    """
    parts = [np.zeros(0)]
    for number, event in enumerate(recording.events):
        parts += _standard(event, place=f"{recording.seed} {number}")
    return np.concatenate([np.ravel(part) for part in parts])


# -- distances and laws ----------------------------------------------------------------------------


def _distance(one: Event, other: Event) -> float:
    """Return how far apart the inputs are, in the release's own norm; NaN if they do not match."""
    if [a.shape for a in one.inputs] != [b.shape for b in other.inputs]:
        return math.nan
    moves = [a - b for a, b in zip(one.inputs, other.inputs, strict=True)]
    release = one.release
    if isinstance(release, (SelectionRelease, FadingSelectionRelease)):
        return max((float(np.ptp(move)) for move in moves), default=0.0)
    if isinstance(release, GeneralizedGaussianRelease):
        return sum(float(np.linalg.norm(move, release.norm)) for move in moves)
    return sum(float(np.linalg.norm(move)) for move in moves)  # a row is in one batch of a stream


def _drawn_sensitivity(
    release: WithReplacementRelease, indices: Floats | None, row: int | None
) -> float:
    """Return the sensitivity of an average of iterates, given which steps drew the row."""
    drawn = np.zeros(0) if indices is None else indices
    rows = range(*release.rows) if row is None else [row]
    left = (release.steps - 1.0 - np.arange(len(drawn))) / release.steps  # of the steps, after it
    most = max(float(left[drawn == r].sum()) for r in rows)
    drift = (2 / 3) * release.drift * math.sqrt(release.steps)
    return release.participation_shift * most + (drift if most > 0.0 else 0.0)


def _standard(event: Event, *, place: str) -> Iterator[Floats]:
    """Yield a release's noise, standardised."""
    release: Any = event.release
    if isinstance(release, PrefixSumRelease):
        added = np.array(event.outputs) - np.cumsum(event.inputs, axis=0)
        decoder = release.mechanism.decoder()
        root = np.linalg.cholesky(decoder @ decoder.T)
        yield np.asarray(np.linalg.solve(root, added / release.sigma), dtype=float)
    elif isinstance(release, ShuffledSequenceRelease):
        for t, (exact, noisy) in enumerate(zip(event.inputs, event.outputs, strict=True)):
            start, stop = release.batch(t)
            yield (noisy - exact) / (release.sigma * math.sqrt(stop - start))
    elif isinstance(release, GeneralizedGaussianRelease):
        for exact, noisy in zip(event.inputs, event.outputs, strict=True):
            length = np.linalg.norm(noisy - exact, release.norm) / release.sigma
            yield np.array([ndtri(gammainc(0.5 * len(exact), 0.5 * length * length))])
    elif isinstance(release, StableGammaRelease):
        length = np.linalg.norm(event.outputs[0] - event.inputs[0]) / release.scale
        yield np.array([ndtri(gammainc(len(event.inputs[0]), length))])
    elif isinstance(release, ObjectivePerturbationRelease):
        assert event.secret is not None
        yield event.secret / release.sigma
        yield (event.outputs[0] - event.inputs[0]) / release.output_sigma
    elif isinstance(release, (SelectionRelease, FadingSelectionRelease)):
        yield from (np.array([z]) for z in _rank(event, release, place))
    elif not isinstance(release, _NOT_NORMAL):
        for exact, noisy in zip(event.inputs, event.outputs, strict=True):
            yield (noisy - exact) / release.sigma


def _rank(
    event: Event, release: SelectionRelease | FadingSelectionRelease, place: str
) -> Iterator[float]:
    """Yield a standard normal number that says how low the score of a selection's answer was."""
    scores, index = event.inputs[0] / release.scale, int(event.outputs[0])
    if release.noise == "gumbel":
        chance = np.exp(scores.min() - scores)
    elif release.noise == "permute_and_flip" and len(scores) <= _MOST_INTEGRATED:
        chance = _flip_chances(scores)
    else:
        return
    chance = chance / chance.sum()
    below = float(chance[scores < scores[index]].sum())
    level = np.flatnonzero(scores == scores[index])  # equal scores share their chance
    digest = hashlib.blake2b(place.encode(), digest_size=6).digest()  # the same every time
    within = int.from_bytes(digest, "little") + 0.5
    yield float(ndtri(below + float(chance[level].sum()) * within / 2.0**48))


def _flip_chances(scores: Floats) -> Floats:
    """Return the law of the least s_j - E_j, E exponential, by integrating over the winner's E."""
    share = (np.arange(_STEPS) + 0.5) / _STEPS
    won = -np.log1p(-share)
    gaps = scores[None, :] - scores[:, None]
    wins = -np.expm1(-np.maximum(won[:, None, None] + gaps[None], 0.0))
    np.einsum("uii->ui", wins)[:] = 1.0
    return np.asarray(wins.prod(axis=2).mean(axis=0), dtype=float)


# -- a ledger that remembers -----------------------------------------------------------------------


def _run(plan: BasePlan, data: Data, seed: int, script: Sequence[Event] | None) -> Recording:
    """Run a plan through a ledger that remembers, and answers by a script if there is one."""
    table = from_arrays(*data) if isinstance(data, tuple) else data
    ledger = _opened(plan).reopened(seed, script)
    source = table.bounded(plan.problem.bounds, order="given")
    rounds: list[tuple[int, int]] = []
    with np.errstate(all="ignore"):
        weights = carry_out(
            get(plan.solver),
            plan,
            source,
            ledger,
            lambda done, total: rounds.append((done, total)),
        )
    certificate = ledger.close()
    if len(ledger.events) != sum(release.count for release in ledger.planned):
        raise LedgerError(f"{plan.solver} makes releases of a kind that audits do not record yet.")
    return Recording(
        plan,
        seed,
        np.asarray(weights, dtype=float),
        tuple(ledger.events),
        certificate,
        tuple(rounds),
    )


@lru_cache(maxsize=16)
def _opened(plan: BasePlan) -> RecordingLedger:
    """Return a ledger for a plan: the cost of sampled releases takes a second, so only once."""
    return RecordingLedger(
        plan.releases(),
        plan.budget,
        randomness=Randomness.seeded(0),
        enforced=plan.enforced,
        trusted=plan.trusted,
    )


class RecordingLedger(Ledger):
    """A ledger that remembers inputs and outputs; with a script it answers from that."""

    events: list[Event]
    _script: Sequence[Event] | None

    def reopened(self, seed: int, script: Sequence[Event] | None) -> RecordingLedger:
        """Return a new ledger with the same plan, none of which has been executed."""
        ledger = object.__new__(RecordingLedger)
        ledger.__dict__.update(self.__dict__)
        ledger._due = {release.once(): release.count for release in self.planned}
        ledger._open, ledger._state, ledger._lock = [], "open", threading.RLock()
        ledger._randomness = Randomness.seeded(seed)
        ledger.events, ledger._script = [], script
        return ledger

    def gaussian(
        self,
        total: ArrayLike,
        *,
        bound: float,
        sigma: float,
        rows: Rows,
        diameter: float | None = None,
    ) -> Floats:
        """Record a Gaussian release."""
        drawn = super().gaussian(total, bound=bound, sigma=sigma, rows=rows, diameter=diameter)
        release = GaussianRelease(bound, sigma, diameter, rows=rows)
        return np.asarray(self._once(release, total, drawn))

    def generalized_gaussian(
        self, total: ArrayLike, *, bound: float, sigma: float, norm: float, rows: Rows
    ) -> Floats:
        """Record noise shaped like a ball."""
        drawn = super().generalized_gaussian(total, bound=bound, sigma=sigma, norm=norm, rows=rows)
        release = GeneralizedGaussianRelease(bound, sigma, norm, rows=rows)
        return np.asarray(self._once(release, total, drawn))

    def argmin(
        self, scores: ArrayLike, *, bound: float, scale: float, rows: Rows, noise: str = "gumbel"
    ) -> int:
        """Record a selection."""
        drawn = super().argmin(scores, bound=bound, scale=scale, rows=rows, noise=noise)
        release = SelectionRelease(bound, scale, np.size(scores), noise, rows=rows)
        return int(self._once(release, scores, drawn))

    def fading_argmin(self, scores: ArrayLike, release: FadingSelectionRelease) -> int:
        """Record a selection whose older rows count less."""
        drawn = super().fading_argmin(scores, release)
        return int(self._once(release.once(), scores, drawn))

    def clip_quantile(self, counts: ArrayLike, release: ClipQuantileRelease) -> float:
        """Record a clip."""
        drawn = super().clip_quantile(counts, release)
        return float(self._once(release.once(), counts, drawn))

    def shuffled(self, reports: ArrayLike, *, bound: float, sigma: float, rows: Rows) -> Floats:
        """Record shuffled reports."""
        drawn = super().shuffled(reports, bound=bound, sigma=sigma, rows=rows)
        return np.asarray(self._once(ShuffledRelease(bound, sigma, rows=rows), reports, drawn))

    def stable(
        self, vector: ArrayLike, release: StableGaussianRelease | StableGammaRelease
    ) -> Floats:
        """Record a stable vector."""
        drawn = super().stable(vector, release)
        return np.asarray(self._once(release.once(), vector, drawn))

    def perturbed_minimiser(
        self,
        minimise: Callable[[Floats], ArrayLike],
        size: int,
        release: ObjectivePerturbationRelease,
    ) -> Floats:
        """Record a perturbed minimiser, and its tilt."""
        seen: list[Floats] = []

        def watched(tilt: Floats) -> ArrayLike:
            seen.append(np.array(tilt))
            minimiser = minimise(tilt)
            seen.append(np.array(minimiser, dtype=float))
            return minimiser

        drawn = super().perturbed_minimiser(watched, size, release)
        return np.asarray(self._once(release.once(), seen[1], drawn, secret=seen[0]))

    def poisson(
        self, *, bound: float, sigma: float, rate: float, rows: Rows, pair: str = "proved"
    ) -> Any:
        """Record a Poisson sample."""
        opened = super().poisson(bound=bound, sigma=sigma, rate=rate, rows=rows, pair=pair)
        return self._sample(PoissonGaussianRelease(bound, sigma, rate, pair, rows=rows), opened)

    def fixed_size(self, *, bound: float, sigma: float, size: int, rows: Rows) -> Any:
        """Record a sample of fixed size."""
        opened = super().fixed_size(bound=bound, sigma=sigma, size=size, rows=rows)
        return self._sample(FixedSizeGaussianRelease(bound, sigma, size, rows=rows), opened)

    def with_replacement(self, release: WithReplacementRelease) -> Any:
        """Record rows drawn with replacement."""
        return self._sample(release.once(), super().with_replacement(release))

    def shuffled_sequence(self, release: ShuffledSequenceRelease) -> Any:
        """Record batches in secret order."""
        opened = super().shuffled_sequence(release)
        event, scripted = self._begin(release.once(), np.array(opened._order))
        return _Batches(opened, event, scripted)

    def prefix_sum(
        self, dimension: int, *, bound: float, sigma: float, mechanism: Any, rows: Rows
    ) -> Any:
        """Record a stream of prefix sums."""
        opened = super().prefix_sum(
            dimension, bound=bound, sigma=sigma, mechanism=mechanism, rows=rows
        )
        event, scripted = self._begin(PrefixSumRelease(bound, sigma, mechanism, rows=rows), None)
        return _Sums(opened, event, scripted)

    def _sample(self, release: Release, opened: SampledSum) -> _Sample:
        event, scripted = self._begin(release, np.array(opened.indices))
        return _Sample(opened, event, scripted)

    def _once(
        self, release: Release, total: ArrayLike, drawn: Any, *, secret: Floats | None = None
    ) -> Any:
        """Note a release that is over at once; return its answer."""
        return _note(*self._begin(release, secret), total, drawn)

    def _begin(self, release: Release, secret: Any) -> tuple[Event, Event | None]:
        """Note that a release begins; check it against the script."""
        event = Event(release, secret=secret)
        number = len(self.events)
        self.events.append(event)
        if self._script is None:
            return event, None
        if number >= len(self._script) or self._script[number].release != release:
            due = self._script[number].release if number < len(self._script) else "the end"
            raise LedgerError(f"replayed, release {number + 1} is {release}; it was {due}.")
        scripted = self._script[number]
        if secret is not None and not np.array_equal(secret, np.asarray(scripted.secret)):
            raise LedgerError(f"replayed, release {number + 1} has drawn another secret.")
        return event, scripted


class _Sample:
    """A sample whose sum is recorded when it is released."""

    def __init__(self, opened: SampledSum, event: Event, scripted: Event | None) -> None:
        self.indices = opened.indices
        self._opened, self._event, self._scripted = opened, event, scripted

    def release(self, total: ArrayLike) -> Any:
        """Release the sum."""
        return _note(self._event, self._scripted, total, self._opened.release(total))


class _Batches:
    """Batches in secret order, whose sums are recorded as they are released."""

    def __init__(self, opened: ShuffledSums, event: Event, scripted: Event | None) -> None:
        self._opened, self._event, self._scripted = opened, event, scripted

    @property
    def indices(self) -> Any:
        """The rows of the next batch."""
        return self._opened.indices

    def release(self, reports: ArrayLike) -> Any:
        """Release the sum of a batch."""
        total = np.sum(np.asarray(reports, dtype=float), axis=0)
        return _note(self._event, self._scripted, total, self._opened.release(reports))


class _Sums:
    """Prefix sums whose batches are recorded as they are added."""

    def __init__(self, opened: PrefixSums, event: Event, scripted: Event | None) -> None:
        self._opened, self._event, self._scripted = opened, event, scripted

    def add(self, total: ArrayLike, *, rows: Rows) -> Any:
        """Add a batch."""
        drawn = self._opened.add(total, rows=rows)
        return _note(self._event, self._scripted, total, drawn)


def _note(event: Event, scripted: Event | None, total: ArrayLike, drawn: Any) -> Any:
    """Note an input and its answer, the script's if there is one; return a copy of the answer."""
    place = len(event.outputs)
    if scripted is not None:
        if place >= len(scripted.outputs):
            raise LedgerError(f"replayed, {event.release} answers more often than it did.")
        drawn = scripted.outputs[place]
    event.inputs.append(np.array(total, dtype=float))
    event.outputs.append(drawn if isinstance(drawn, int) else np.array(drawn))
    return drawn if isinstance(drawn, int) else np.array(drawn)
