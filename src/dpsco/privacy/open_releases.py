"""What a ledger lets out piece by piece: a secret sample whose sum is still to be released.

The ledger opens it and does not close before it is finished; it draws under the ledger's lock.
Prefix sums, which stay open for many rounds, are in :mod:`.mechanisms.prefix_sum.streams`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import LedgerError, ParameterError
from .mechanisms.sampled_gaussian import FixedSizeGaussianRelease, PoissonGaussianRelease
from .mechanisms.with_replacement import WithReplacementRelease
from .randomness import Stream

if TYPE_CHECKING:
    from .ledger import Ledger

Array = NDArray[np.float64]
SampledRelease = PoissonGaussianRelease | FixedSizeGaussianRelease | WithReplacementRelease


class NonCopyable:
    """Something that may leave once: a copy could leave again."""

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise LedgerError(f"a {type(self).__name__} can be neither copied nor pickled.")


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


def floats(total: ArrayLike) -> Array:
    """Return the exact value as float64; refuse what is not an array of numbers."""
    try:
        with np.errstate(all="ignore"):
            return np.asarray(total, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ParameterError("a release takes an array of numbers.") from None
