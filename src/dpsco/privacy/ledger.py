"""The ledger: every noisy number is released through it, and by nothing else.

A ledger is opened with the releases that a plan announced and the budget that pays for them. Each
method states what it is about to release; the ledger looks that up among the planned releases that
are still due, and only then gives the record a stream of its own, to draw its noise from.
``close()`` hands out the certificate if everything planned was executed, and raises otherwise.

What is passed in must already be bounded: sums of rows that were clipped to ``bound``. Nothing that
a ledger raises depends on the rows. One release happens at a time, whatever the threads, and a step
that fails breaks the ledger for good.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import _validate
from ..errors import BudgetError, LedgerError, ParameterError
from .accounting.composition import Cost, cost
from .budget import Budget
from .certificate import Certificate
from .mechanisms.clip_quantile import ClipQuantileRelease
from .mechanisms.fading_selection import FadingSelectionRelease
from .mechanisms.gaussian import GaussianRelease
from .mechanisms.generalized_gaussian import GeneralizedGaussianRelease
from .mechanisms.objective_perturbation.release import ObjectivePerturbationRelease
from .mechanisms.prefix_sum.mechanism import PrefixMechanism
from .mechanisms.prefix_sum.release import PrefixSumRelease
from .mechanisms.prefix_sum.streams import PrefixNoise as PrefixNoise
from .mechanisms.prefix_sum.streams import PrefixSums as PrefixSums
from .mechanisms.sampled_gaussian import FixedSizeGaussianRelease, PoissonGaussianRelease
from .mechanisms.selection import SelectionRelease
from .mechanisms.shuffled import ShuffledRelease
from .mechanisms.shuffled_sequence import ShuffledSequenceRelease
from .mechanisms.stable import StableGammaRelease, StableGaussianRelease
from .mechanisms.with_replacement import WithReplacementRelease
from .odometer.payment import BudgetSpender as BudgetSpender
from .odometer.payment import pay
from .randomness import Randomness, Stream
from .release import Composition, NonCopyable, Release, flatten, floats

Array = NDArray[np.float64]
Indices = NDArray[np.int64]
Rows = tuple[int, int]
SampledRelease = PoissonGaussianRelease | FixedSizeGaussianRelease | WithReplacementRelease
T = TypeVar("T")
P = TypeVar("P", PrefixSums, PrefixNoise)


class SampledSum(NonCopyable):
    """A secret sample whose sum is still to be released. The ``indices`` must stay secret."""

    def __init__(self, release: SampledRelease, stream: Stream, ledger: Ledger) -> None:
        self.indices = release.draw_rows(stream)
        self.finished = False
        self._release, self._stream, self._ledger = release, stream, ledger

    def release(self, total: ArrayLike) -> Array:
        """Return the sum over the sampled rows plus Gaussian noise, once; no rows sum to 0."""
        exact = floats(total)
        with self._ledger._step():
            if self.finished:
                raise LedgerError("a sampled sum was released twice: draw a new sample for each.")
            self.finished = True
            self.indices = self.indices[:0].copy()  # a run may take thousands of samples
            return self._release.draw_noisy(self._stream, exact)

    def __repr__(self) -> str:
        return "a sampled sum"


class ShuffledSums(NonCopyable):
    """Rows in secret order, whose noisy sums are released a batch at a time."""

    def __init__(self, release: ShuffledSequenceRelease, order: Indices, ledger: Ledger) -> None:
        self._release, self._order, self._ledger = release, order, ledger
        self._round = 0

    @property
    def finished(self) -> bool:
        """Whether all batches were released."""
        return self._round == self._release.batches

    @property
    def indices(self) -> Indices:
        """The rows of the next batch, which must stay secret."""
        if self.finished:
            raise LedgerError("all batches of this sequence were released.")
        start, stop = self._release.batch(self._round)
        return self._order[start:stop]

    def release(self, reports: ArrayLike) -> Array:
        """Return the sum of the next batch's vectors, each of which has noise of its own."""
        exact, rows = floats(reports), len(self.indices)
        if exact.ndim != 2 or len(exact) != rows:
            raise ParameterError(
                f"a batch takes one vector for each of its {rows} rows, got shape {exact.shape}."
            )
        with self._ledger._step():
            stream = self._advance()
            return self._release.draw_noisy_sum(stream, exact)

    def skip(self) -> None:
        """Use up the noise of a batch that was released in another process; nothing leaves."""
        with self._ledger._step():
            self._advance()

    def _advance(self) -> Stream:
        """Return the next batch's stream; each has one of its own, whatever is skipped."""
        if self.finished:
            raise LedgerError("a sequence has no more batches than were planned.")
        self._round += 1
        return self._ledger._randomness.child(f"{self._release.kind} noise")

    def __repr__(self) -> str:
        return f"batches in secret order, {self._round} of {self._release.batches} released"


class Ledger(NonCopyable):
    """Planned and executed releases of one run.

    >>> from dpsco.privacy.budget import ApproxDP
    >>> from dpsco.privacy.mechanisms.gaussian import gaussian_sigma
    >>> budget = ApproxDP(1.0, 1e-6)
    >>> sigma = gaussian_sigma(budget, bound=1.0, rows=(0, 1000))
    >>> ledger = Ledger([GaussianRelease(1.0, sigma, rows=(0, 1000))], budget)
    >>> noisy = ledger.gaussian([12.0, -3.0], bound=1.0, sigma=sigma, rows=(0, 1000))
    >>> ledger.close().epsilon(1e-6) <= 1.0
    True
    """

    def __init__(
        self,
        releases: Release | Composition | Iterable[Release | Composition],
        budget: Budget,
        *,
        randomness: Randomness | None = None,
        enforced: Iterable[str] = (),
        trusted: Iterable[str] = (),
        odometer: BudgetSpender | None = None,
        label: str = "run",
        run: str | None = None,
    ) -> None:
        if not isinstance(budget, Budget):
            raise ParameterError(
                f"budget must be a budget such as ApproxDP(1.0, 1e-6), got {budget!r}.",
                parameter="budget",
            )
        for name, sentences in (("enforced", enforced), ("trusted", trusted)):
            if isinstance(sentences, str) or not isinstance(sentences, Iterable):
                raise ParameterError(f"{name} must be a list of sentences, got {sentences!r}.")
        self.planned = flatten(releases)
        self.budget = budget
        self.cost: Cost = cost(self.planned, adjacency=budget.adjacency, unit=budget.unit)
        spent, allowed = self.cost.against(budget)
        if not spent <= allowed:
            raise BudgetError(
                f"the planned releases cost {spent:.6g} of a budget of {allowed:.6g} ({budget}). "
                "Calibrate the noise (privacy.gaussian_sigma, privacy.calibrate), or raise the "
                "budget."
            )
        self._randomness = Randomness.secure() if randomness is None else randomness
        if not isinstance(self._randomness, Randomness):
            raise ParameterError(
                "randomness must be a Randomness, for example Randomness.seeded(7); "
                f"got {type(randomness).__name__}.",
                parameter="randomness",
            )
        # Written now, so that a claim that cannot be computed is refused before any row is read.
        self._certificate = Certificate.of(
            budget,
            self.planned,
            self.cost,
            randomness=self._randomness.description,
            reproducible=self._randomness.reproducible,
            enforced=enforced,
            trusted=trusted,
        )
        self._due = {release.once(): release.count for release in self.planned}
        self._open: list[PrefixSums | PrefixNoise | SampledSum | ShuffledSums] = []
        self._state = "open"
        self._lock = threading.RLock()  # a minimiser that calls back must meet an error, not wait
        self._process = os.getpid()
        self._randomness.check_usable()  # nobody pays for a run that cannot draw
        if odometer is not None:
            # A run that can be resumed has a name, under which it is paid for once.
            named = {} if run is None else {"run": run}
            pay(odometer, self.planned, label=label, **named)

    def gaussian(
        self,
        total: ArrayLike,
        *,
        bound: float,
        sigma: float,
        rows: Rows,
        diameter: float | None = None,
    ) -> Array:
        """Return ``total`` plus Gaussian noise."""
        exact = floats(total)
        release = GaussianRelease(bound, sigma, diameter, rows=rows)
        return self._execute(release, lambda stream: release.draw_noisy(stream, exact))

    def generalized_gaussian(
        self, total: ArrayLike, *, bound: float, sigma: float, norm: float, rows: Rows
    ) -> Array:
        """Return a vector ``total`` plus noise shaped like the l_r ball."""
        exact = floats(total)
        release = GeneralizedGaussianRelease(bound, sigma, norm, rows=rows)
        return self._execute(release, lambda stream: release.draw_noisy(stream, exact))

    def argmin(
        self, scores: ArrayLike, *, bound: float, scale: float, rows: Rows, noise: str = "gumbel"
    ) -> int:
        """Return the index of the (noisily) smallest score."""
        exact = floats(scores).ravel()
        release = SelectionRelease(bound, scale, len(exact), noise, rows=rows)
        return self._execute(release, lambda stream: release.draw_index(stream, exact))

    def fading_argmin(self, scores: ArrayLike, release: FadingSelectionRelease) -> int:
        """Return the index of the smallest score where older rows count less."""
        exact = floats(scores).ravel()
        _expect(release, FadingSelectionRelease)
        if len(exact) != release.candidates:
            raise ParameterError(
                f"a selection was planned among {release.candidates} candidates, got "
                f"{len(exact)} scores."
            )
        return self._execute(release.once(), lambda stream: release.draw_index(stream, exact))

    def clip_quantile(self, counts: ArrayLike, release: ClipQuantileRelease) -> float:
        """Return a clip of a grid, from how many rows have norms in each of its cells."""
        exact = floats(counts)
        _expect(release, ClipQuantileRelease)
        if exact.shape != (release.candidates,):
            raise ParameterError(
                f"a clip takes the counts of {release.candidates} cells, got shape {exact.shape}."
            )
        return self._execute(release.once(), lambda stream: release.draw_clip(stream, exact))

    def shuffled(self, reports: ArrayLike, *, bound: float, sigma: float, rows: Rows) -> Array:
        """Return one noisy report per row, in a secret uniformly random order."""
        exact = floats(reports)
        release = ShuffledRelease(bound, sigma, rows=rows)
        if exact.ndim != 2 or len(exact) != release.row_count:
            raise ParameterError(
                f"shuffled reports must be one vector for each of {release.row_count} rows, "
                f"got shape {exact.shape}."
            )
        return self._execute(release, lambda stream: release.draw_noisy(stream, exact))

    def shuffled_sequence(self, release: ShuffledSequenceRelease) -> ShuffledSums:
        """Put rows into secret order; all batches must be released before the close."""
        _expect(release, ShuffledSequenceRelease)

        def start(stream: Stream) -> ShuffledSums:
            opened = ShuffledSums(release, release.draw_order(stream), self)
            self._open.append(opened)
            return opened

        return self._execute(release.once(), start)

    def prefix_sum(
        self, dimension: int, *, bound: float, sigma: float, mechanism: PrefixMechanism, rows: Rows
    ) -> PrefixSums:
        """Open a stream of noisy prefix sums; all of its rounds must be run before the close."""
        release = PrefixSumRelease(bound, sigma, mechanism, rows=rows)
        return self._prefix(PrefixSums, release, dimension)

    def prefix_noise(
        self, dimension: int, *, bound: float, sigma: float, mechanism: PrefixMechanism, rows: Rows
    ) -> PrefixNoise:
        """Open the noise of prefix sums that somebody else adds up; all rounds must be run."""
        release = PrefixSumRelease(bound, sigma, mechanism, rows=rows)
        return self._prefix(PrefixNoise, release, dimension)

    def poisson(
        self, *, bound: float, sigma: float, rate: float, rows: Rows, pair: str = "proved"
    ) -> SampledSum:
        """Draw a secret Poisson sample; its clipped sum must be released before the close."""
        return self._sampled(PoissonGaussianRelease(bound, sigma, rate, pair, rows=rows))

    def fixed_size(self, *, bound: float, sigma: float, size: int, rows: Rows) -> SampledSum:
        """Draw a secret sample of fixed size; its clipped sum must be released before the close."""
        return self._sampled(FixedSizeGaussianRelease(bound, sigma, size, rows=rows))

    def with_replacement(self, release: WithReplacementRelease) -> SampledSum:
        """Draw a secret row for each step; the average must be released before the close."""
        _expect(release, WithReplacementRelease)
        return self._sampled(release)

    def stable(
        self, vector: ArrayLike, release: StableGaussianRelease | StableGammaRelease
    ) -> Array:
        """Return a ``vector`` that neighbours move by the release's sensitivity, plus its noise."""
        exact = floats(vector)
        _expect(release, StableGaussianRelease, StableGammaRelease)
        if exact.ndim != 1:
            raise ParameterError(f"a stable release takes a vector, got shape {exact.shape}.")
        return self._execute(release.once(), lambda stream: release.draw_noisy(stream, exact))

    def perturbed_minimiser(
        self,
        minimise: Callable[[Array], ArrayLike],
        size: int,
        release: ObjectivePerturbationRelease,
    ) -> Array:
        """Return the minimiser of an objective tilted by a secret b, plus noise.

        ``minimise(b)`` must lie within ``release.distance`` of the exact minimiser for every b and
        keep b to itself. Whatever it raises breaks the ledger, and it cannot use the ledger.
        """
        _expect(release, ObjectivePerturbationRelease)
        length = _validate.integer("size", size)
        if length != (release.dimension or length):
            raise ParameterError(f"{release} was planned for another size than {length}.")

        def noisy(stream: Stream) -> Array:
            second = self._randomness.child("output noise")
            self._state = "busy with a minimisation"
            minimiser = floats(minimise(release.draw_tilt(stream, length)))
            self._state = "open"
            if minimiser.shape != (length,):
                raise ParameterError(f"a minimiser of shape {(length,)} was expected.")
            return release.draw_noisy(second, minimiser)

        return self._execute(release.once(), noisy)

    def skip(self, release: Release) -> None:
        """Take a release off the plan that this run has made in another process; nothing leaves.

        Its stream is used up, so that the next release draws what it would have drawn there.

        Raises:
            ParameterError: the release has more than one stream, or stays open for many rounds, as
                prefix sums do: those are resumed.
        """
        _expect(release, Release)
        if not release.single_stream:
            raise ParameterError(
                f"a {release.kind} release cannot be skipped: it draws from more than one stream, "
                "or is resumed round by round."
            )
        self._execute(release.once(), lambda stream: None)

    def close(self) -> Certificate:
        """Return the certificate; raise if executed and planned releases differ."""
        with self._step():
            missing = [f"{count} x {due}" for due, count in self._due.items() if count]
            unfinished = [str(item) for item in self._open if not item.finished]
            if missing or unfinished:
                raise LedgerError(
                    "planned releases were not executed, so nothing is returned: "
                    + "; ".join([*missing, *unfinished])
                )
            self._state = "closed"
        return self._certificate

    def _execute(self, release: Release, draw: Callable[[Stream], T]) -> T:
        """Take one release off the plan and draw from a stream of its own."""
        with self._step():
            if not self._due.get(release):
                known = release in self._due
                raise LedgerError(
                    f"{release} was {'already executed as often as' if known else 'not'} planned, "
                    "so nothing may leave this run."
                )
            self._due[release] -= 1
            return draw(self._randomness.child(release.stream_name or release.kind))

    def _prefix(self, kind: type[P], release: PrefixSumRelease, dimension: int) -> P:
        """Open prefix sums, or their noise, on a stream of their own."""
        length = _validate.integer("dimension", dimension)

        def start(stream: Stream) -> P:
            opened = kind(release, length, stream, self)
            self._open.append(opened)
            return opened

        return self._execute(release, start)

    def _sampled(self, release: SampledRelease) -> SampledSum:
        """Open a secret sample, whose noise comes from the same stream."""

        def start(stream: Stream) -> SampledSum:
            opened = SampledSum(release, stream, self)
            self._open.append(opened)
            return opened

        return self._execute(release.once(), start)

    @contextmanager
    def _step(self) -> Iterator[None]:
        """Lock the ledger, open and in its own process; whatever is raised meanwhile breaks it.

        A forked copy of the plan would pay for the same releases twice. Floating-point warnings
        depend on the rows, so there are none.
        """
        if os.getpid() != self._process:
            raise LedgerError("a ledger must stay in the process that opened it.")
        with self._lock:
            if self._state != "open":
                raise LedgerError(f"this ledger is {self._state}: open a new one for another run.")
            try:
                with np.errstate(all="ignore"):
                    yield
            except BaseException:
                self._state = "broken"
                raise


def _expect(release: Any, *kinds: type[Release]) -> None:
    if not isinstance(release, kinds):
        names = " or ".join(kind.__name__ for kind in kinds)
        raise ParameterError(f"this release takes a {names}, got {release!r}.")
