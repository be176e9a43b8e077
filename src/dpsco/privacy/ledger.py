"""The one door through which noisy numbers leave.

A ledger is opened with the releases that a plan announced and the budget that pays for them. Each
method states what it is about to release; the ledger looks that up among the planned releases that
are still due, and only then draws noise from a stream of its own. ``close()`` hands out the
certificate if everything planned was executed, and raises otherwise.

What is passed in must already be bounded: sums of rows that were clipped to ``bound``. Nothing that
a ledger raises depends on the rows.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import _validate
from ..errors import BudgetError, LedgerError, ParameterError
from . import mechanisms
from .accounting import Cost, cost
from .budget import Budget
from .certificate import Certificate
from .discrete import discrete_gaussian
from .prefix_sums import PrefixMechanism
from .randomness import Randomness, Stream
from .releases import (
    Composition,
    DiscreteGaussianRelease,
    FixedSizeGaussianRelease,
    GaussianRelease,
    GeneralizedGaussianRelease,
    PoissonGaussianRelease,
    PrefixSumRelease,
    Release,
    SelectionRelease,
    ShuffledRelease,
    flatten,
)

Array = NDArray[np.float64]
Rows = tuple[int, int]


class Purse(Protocol):
    """Whatever can pay for releases before they happen: an odometer."""

    def spend(self, releases: Iterable[Release], *, label: str) -> Any:
        """Record the spend durably, or refuse."""


class Ledger:
    """Planned and executed releases of one run.

    >>> from dpsco.privacy.budget import ApproxDP
    >>> from dpsco.privacy.calibration import gaussian_sigma
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
        odometer: Purse | None = None,
        label: str = "run",
    ) -> None:
        self.planned = flatten(releases)
        self.budget = budget
        self.cost: Cost = cost(self.planned, adjacency=budget.adjacency, unit=budget.unit)
        spent, allowed = self.cost.against(budget)
        if not spent <= allowed:
            raise BudgetError(
                f"the planned releases cost {spent:.6g} of a budget of {allowed:.6g} ({budget}). "
                "Calibrate the noise with dpsco.privacy.calibration, or raise the budget."
            )
        if odometer is not None:
            odometer.spend(self.planned, label=label)
        self._randomness = randomness or Randomness.secure()
        self._notes = tuple(enforced), tuple(trusted)
        self._due = {release.once(): release.count for release in self.planned}
        self._open: list[PrefixSums | SampledSum] = []
        self._state = "open"
        self._lock = threading.Lock()

    def gaussian(self, total: ArrayLike, *, bound: float, sigma: float, rows: Rows) -> Array:
        """Return ``total`` plus Gaussian noise."""
        exact = _floats(total)
        stream = self._claim(GaussianRelease(bound, sigma, rows=rows))
        return exact + mechanisms.gaussian(stream, exact.shape, sigma)

    def discrete_gaussian(
        self, total: ArrayLike, *, bound: float, sigma: float, step: float, rows: Rows
    ) -> Array:
        """Return an integer ``total`` in grid steps plus discrete Gaussian noise, as floats."""
        exact = np.asarray(total)
        if exact.dtype != np.int64:
            raise ParameterError(
                f"a grid release takes an int64 sum, got {exact.dtype}: use Grid.encode, Grid.sum."
            )
        stream = self._claim(DiscreteGaussianRelease(bound, sigma, step, rows=rows))
        noise = discrete_gaussian(stream.words, sigma / step, exact.size)
        return np.asarray((exact + noise.reshape(exact.shape)) * step)

    def generalized_gaussian(
        self, total: ArrayLike, *, bound: float, sigma: float, norm: float, rows: Rows
    ) -> Array:
        """Return a vector ``total`` plus noise shaped like the l_r ball."""
        exact = _floats(total)
        stream = self._claim(GeneralizedGaussianRelease(bound, sigma, norm, rows=rows))
        noise = mechanisms.generalized_gaussian(stream, exact.size, norm, sigma)
        return np.asarray(exact + noise.reshape(exact.shape))

    def argmin(
        self, scores: ArrayLike, *, bound: float, scale: float, rows: Rows, noise: str = "gumbel"
    ) -> int:
        """Return the index of the (noisily) smallest score."""
        exact = _floats(scores).ravel()
        stream = self._claim(SelectionRelease(bound, scale, len(exact), noise, rows=rows))
        return mechanisms.noisy_argmin(stream, exact, scale, noise)

    def shuffled(self, reports: ArrayLike, *, bound: float, sigma: float, rows: Rows) -> Array:
        """Return one noisy report a row, in a secret uniformly random order."""
        exact = _floats(reports)
        release = ShuffledRelease(bound, sigma, rows=rows)
        if exact.ndim != 2 or len(exact) != release.row_count:
            raise ParameterError(
                f"shuffled reports must be one vector for each of {release.row_count} rows, "
                f"got shape {exact.shape}."
            )
        stream = self._claim(release)
        noisy = exact + mechanisms.gaussian(stream, exact.shape, sigma)
        return np.asarray(noisy[stream.permutation(len(noisy))])

    def prefix_sum(
        self, dimension: int, *, bound: float, sigma: float, mechanism: PrefixMechanism, rows: Rows
    ) -> PrefixSums:
        """Open a stream of noisy prefix sums; all of its rounds must be run before the close."""
        release = PrefixSumRelease(bound, sigma, mechanism, rows=rows)
        opened = PrefixSums(release, _validate.integer("dimension", dimension), self)
        self._open.append(opened)
        return opened

    def poisson(
        self, *, bound: float, sigma: float, rate: float, rows: Rows, pair: str = "proved"
    ) -> SampledSum:
        """Draw a secret Poisson sample; its clipped sum must be released before the close."""
        release = PoissonGaussianRelease(bound, sigma, rate, pair, rows=rows)
        stream = self._claim(release)
        chosen = rows[0] + stream.poisson_sample(release.row_count, rate)
        return self._sampled(chosen, stream, sigma)

    def fixed_size(self, *, bound: float, sigma: float, size: int, rows: Rows) -> SampledSum:
        """Draw a secret sample of fixed size; its clipped sum must be released before the close."""
        release = FixedSizeGaussianRelease(bound, sigma, size, rows=rows)
        stream = self._claim(release)
        chosen = rows[0] + stream.fixed_size_sample(release.row_count, size)
        return self._sampled(chosen, stream, sigma)

    def close(self) -> Certificate:
        """Return the certificate; raise if executed and planned releases differ."""
        with self._lock:
            self._require_open()
            self._state = "broken"  # unless everything below holds
            missing = [f"{count} x {due}" for due, count in self._due.items() if count]
            unfinished = [str(item) for item in self._open if not item.finished]
            if missing or unfinished:
                raise LedgerError(
                    "planned releases were not executed, so nothing is returned: "
                    + "; ".join([*missing, *unfinished])
                )
            self._state = "closed"
        enforced, trusted = self._notes
        return Certificate.of(
            self.budget,
            self.planned,
            self.cost,
            randomness=self._randomness.description,
            reproducible=self._randomness.reproducible,
            enforced=enforced,
            trusted=trusted,
        )

    def _claim(self, release: Release) -> Stream:
        """Take one release off the plan and return its own stream; refuse what was not planned."""
        with self._lock:
            self._require_open()
            if not self._due.get(release):
                self._state = "broken"
                known = release in self._due
                raise LedgerError(
                    f"{release} was {'already executed as often as' if known else 'not'} planned, "
                    "so nothing may leave this run."
                )
            self._due[release] -= 1
        return self._randomness.child(release.kind)

    def _require_open(self) -> None:
        if self._state != "open":
            raise LedgerError(f"this ledger is {self._state}: open a new one for another run.")

    def _break(self) -> None:
        self._state = "broken"

    def _sampled(self, chosen: NDArray[np.int64], stream: Stream, sigma: float) -> SampledSum:
        opened = SampledSum(chosen, stream, sigma, self)
        self._open.append(opened)
        return opened


class SampledSum:
    """A secret sample whose sum is still to be released. The ``indices`` must stay secret."""

    def __init__(
        self, indices: NDArray[np.int64], stream: Stream, sigma: float, ledger: Ledger
    ) -> None:
        self.indices = indices
        self.finished = False
        self._stream, self._sigma, self._ledger = stream, sigma, ledger

    def release(self, total: ArrayLike) -> Array:
        """Return the sum over the sampled rows plus Gaussian noise, once; no rows sum to 0."""
        self._ledger._require_open()
        if self.finished:
            self._ledger._break()
            raise LedgerError("a sampled sum was released twice: draw a new sample for each.")
        exact = _floats(total)
        self.finished = True
        return exact + mechanisms.gaussian(self._stream, exact.shape, self._sigma)

    def __repr__(self) -> str:
        return "a sampled sum"


class PrefixSums:
    """Noisy prefix sums of batch sums. Each row may enter one batch; rounds come in order."""

    def __init__(self, release: PrefixSumRelease, dimension: int, ledger: Ledger) -> None:
        stream = ledger._claim(release)
        self._release, self._ledger = release, ledger
        self._noise = release.mechanism.start(lambda: stream.normals(dimension))
        self._prefix = np.zeros(dimension)
        self._next_row = release.rows[0]

    @property
    def finished(self) -> bool:
        """Whether all rounds were run."""
        return self._noise.position == self._release.mechanism.rounds

    def add(self, total: ArrayLike, *, rows: Rows) -> Array:
        """Add the batch sum over ``rows`` and return the noisy prefix sum."""
        ledger, release = self._ledger, self._release
        ledger._require_open()
        start, stop = _validate.row_range("rows", rows)
        exact = _floats(total)
        if exact.shape != self._prefix.shape:
            raise ParameterError(
                f"the batch sum must have shape {self._prefix.shape}, got {exact.shape}."
            )
        if self.finished or start < self._next_row or stop > release.rows[1]:
            ledger._break()
            raise LedgerError(
                f"batch {(start, stop)} does not fit the planned stream over rows {release.rows}: "
                "each row enters one round, rounds come in order, and their number is fixed."
            )
        self._next_row = stop
        self._prefix = self._prefix + exact + release.sigma * self._noise.next()
        return np.array(self._prefix)

    def __repr__(self) -> str:
        return f"prefix sums at round {self._noise.position} of {self._release.mechanism.rounds}"


def _floats(total: ArrayLike) -> Array:
    """Return the exact value as float64; refuse what is not an array of numbers."""
    try:
        return np.asarray(total, dtype=np.float64)
    except (TypeError, ValueError):
        raise ParameterError("a release takes an array of numbers.") from None
