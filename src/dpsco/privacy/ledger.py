"""The one door through which noisy numbers leave.

A ledger is opened with the releases that a plan announced and the budget that pays for them. Each
method states what it is about to release; the ledger looks that up among the planned releases that
are still due, and only then draws noise from a stream of its own. ``close()`` hands out the
certificate if everything planned was executed, and raises otherwise.

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
from .lattice import gaussian_steps, lattice_step, on_lattice, with_gaussian, with_steps
from .ledger_parts import BudgetSpender as BudgetSpender
from .ledger_parts import NonCopyable, floats, output_step, tilt_step
from .ledger_parts import RunSpender as RunSpender
from .mechanisms import float_laws as mechanisms
from .mechanisms.prefix_sum.mechanism import PrefixMechanism
from .mechanisms.releases import (
    Composition,
    FixedSizeGaussianRelease,
    GaussianRelease,
    GeneralizedGaussianRelease,
    ObjectivePerturbationRelease,
    PoissonGaussianRelease,
    PrefixSumRelease,
    Release,
    SelectionRelease,
    ShuffledRelease,
    StableGammaRelease,
    StableGaussianRelease,
    WithReplacementRelease,
    flatten,
)
from .mechanisms.selection import noisy_argmin
from .odometer.payment import pay
from .open_releases import PrefixNoise as PrefixNoise
from .open_releases import PrefixSums as PrefixSums
from .open_releases import SampledSum as SampledSum
from .randomness import Randomness, Stream

Array = NDArray[np.float64]
Rows = tuple[int, int]
T = TypeVar("T")
P = TypeVar("P", PrefixSums, PrefixNoise)

_SKIPPABLE = (  # each draws from a single stream, which nothing else uses
    GaussianRelease,
    GeneralizedGaussianRelease,
    SelectionRelease,
    ShuffledRelease,
    PoissonGaussianRelease,
    FixedSizeGaussianRelease,
    StableGaussianRelease,
    StableGammaRelease,
    WithReplacementRelease,
)


class Ledger(NonCopyable):
    """Planned and executed releases of one run.

    >>> from dpsco.privacy.budget import ApproxDP
    >>> from dpsco.privacy.accounting.calibration import gaussian_sigma
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
                f"budget must be a budget such as ApproxDP(1.0, 1e-6), got {budget!r}."
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
                f"got {type(randomness).__name__}."
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
        self._open: list[PrefixSums | PrefixNoise | SampledSum] = []
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
        return self._execute(release, lambda stream: _noisy(stream, exact, release))

    def generalized_gaussian(
        self, total: ArrayLike, *, bound: float, sigma: float, norm: float, rows: Rows
    ) -> Array:
        """Return a vector ``total`` plus noise shaped like the l_r ball."""
        exact = floats(total)
        release = GeneralizedGaussianRelease(bound, sigma, norm, rows=rows)

        def noisy(stream: Stream) -> Array:
            noise = mechanisms.generalized_gaussian(stream, exact.size, release.norm, release.sigma)
            return _with_floats(noise, exact, release.bound)

        return self._execute(release, noisy)

    def argmin(
        self, scores: ArrayLike, *, bound: float, scale: float, rows: Rows, noise: str = "gumbel"
    ) -> int:
        """Return the index of the (noisily) smallest score."""
        exact = floats(scores).ravel()
        release = SelectionRelease(bound, scale, len(exact), noise, rows=rows)
        return self._execute(
            release, lambda stream: noisy_argmin(stream.words, exact, release.scale, noise)
        )

    def shuffled(self, reports: ArrayLike, *, bound: float, sigma: float, rows: Rows) -> Array:
        """Return one noisy report a row, in a secret uniformly random order."""
        exact = floats(reports)
        release = ShuffledRelease(bound, sigma, rows=rows)
        if exact.ndim != 2 or len(exact) != release.row_count:
            raise ParameterError(
                f"shuffled reports must be one vector for each of {release.row_count} rows, "
                f"got shape {exact.shape}."
            )

        def noisy(stream: Stream) -> Array:
            step = lattice_step(release.bound, exact.shape[1])
            reports = with_gaussian(stream.words, exact, release.sigma, step)
            return np.asarray(reports[stream.permutation(len(reports))])

        return self._execute(release, noisy)

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
        release = PoissonGaussianRelease(bound, sigma, rate, pair, rows=rows)
        return self._sampled(
            release, lambda stream: stream.poisson_sample(release.row_count, release.rate)
        )

    def fixed_size(self, *, bound: float, sigma: float, size: int, rows: Rows) -> SampledSum:
        """Draw a secret sample of fixed size; its clipped sum must be released before the close."""
        release = FixedSizeGaussianRelease(bound, sigma, size, rows=rows)
        return self._sampled(
            release, lambda stream: stream.fixed_size_sample(release.row_count, release.size)
        )

    def stable(
        self, vector: ArrayLike, release: StableGaussianRelease | StableGammaRelease
    ) -> Array:
        """Return a ``vector`` that neighbours move by the release's sensitivity, plus its noise."""
        exact = floats(vector)

        def noisy(stream: Stream) -> Array:
            if isinstance(release, StableGaussianRelease):
                step = lattice_step(release.sensitivity, exact.size)
                return with_gaussian(stream.words, exact, release.sigma, step)
            noise = mechanisms.norm_gamma(stream, exact.size, release.scale)
            return _with_floats(noise, exact, release.sensitivity)

        _expect(release, StableGaussianRelease, StableGammaRelease)
        if exact.ndim != 1:
            raise ParameterError(f"a stable release takes a vector, got shape {exact.shape}.")
        return self._execute(release.once(), noisy)

    def random_hits(self, release: WithReplacementRelease) -> SampledSum:
        """Draw secret rows, one a step; the average iterate must be released before the close."""
        _expect(release, WithReplacementRelease)
        return self._sampled(
            release, lambda stream: stream.integers(release.row_count, release.steps)
        )

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
            found = floats(minimise(_tilt(stream, length, release)))
            self._state = "open"
            if found.shape != (length,):
                raise ParameterError(f"a minimiser of shape {(length,)} was expected.")
            step = output_step(release, length)
            return with_gaussian(second.words, found, release.output_sigma, step)

        return self._execute(release.once(), noisy)

    def skip(self, release: Release) -> None:
        """Take a release off the plan that this run has made in another process; nothing leaves.

        Its stream is used up, so that the next release draws what it would have drawn there. Only
        releases that draw from one stream and leave at once, or after one sample, can be skipped:
        prefix sums are resumed instead.
        """
        _expect(release, *_SKIPPABLE)
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
            return draw(self._randomness.child(release.kind))

    def _prefix(self, kind: type[P], release: PrefixSumRelease, dimension: int) -> P:
        """Open prefix sums, or their noise, on a stream of their own."""
        length = _validate.integer("dimension", dimension)

        def start(stream: Stream) -> P:
            opened = kind(release, length, stream, self)
            self._open.append(opened)
            return opened

        return self._execute(release, start)

    def _sampled(
        self,
        release: PoissonGaussianRelease | FixedSizeGaussianRelease | WithReplacementRelease,
        draw: Callable[[Stream], NDArray[np.int64]],
    ) -> SampledSum:
        def start(stream: Stream) -> SampledSum:
            bound = release.hit if isinstance(release, WithReplacementRelease) else release.bound
            rows = release.rows[0] + draw(stream)
            opened = SampledSum(rows, stream, self, sigma=release.sigma, bound=bound)
            self._open.append(opened)
            return opened

        return self._execute(release.once(), start)

    @contextmanager
    def _step(self) -> Iterator[None]:
        """FileLock the ledger, open and in its own process; whatever is raised meanwhile breaks it.

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


def _noisy(stream: Stream, exact: Array, release: GaussianRelease) -> Array:
    """Return a sum with its noise, both on the lattice of the release."""
    step = lattice_step(release.bound, exact.size)
    return with_gaussian(stream.words, exact, release.sigma, step)


def _with_floats(noise: Array, exact: Array, bound: float) -> Array:
    """Return a sum with noise that was drawn in floats, both rounded to the lattice."""
    step = lattice_step(bound, exact.size)
    return with_steps(on_lattice(noise, step), exact, step)


def _tilt(stream: Stream, size: int, release: ObjectivePerturbationRelease) -> Array:
    """Return b: within TILT_SHARE distance floor of an exactly normal vector.

    The minimiser moves by at most 1/floor times as much, which its charge allows for.
    """
    step = tilt_step(release, size)
    return gaussian_steps(stream.words, size, release.sigma, step) * step
