"""What may leave: the base class of every release record, and the registry of their kinds.

A record says everything that an accountant needs: the ``bound`` on what one row contributes (before
the adjacency's factor), the noise, the half-open range of ``rows`` that the release touches, in the
run's own order, and how many times (``count``) it happens. Noise is always on the *sum* over rows.
Sum and noise are rounded to a lattice, as :mod:`.lattice` says; a record speaks of the law before.

A kind is one file of :mod:`.mechanisms`: a frozen dataclass under ``@register`` that defines what
leaves, what it costs (`privacy_loss`), how its noise is drawn (methods ``draw_...``, which the
ledger alone calls), what a certificate says of it and how it is stored. The meaning of a kind never
changes; a new meaning is a new kind. An accountant refuses classes that are not registered.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import _validate
from .._validate import store
from ..errors import AssumptionError, LedgerError, ParameterError
from ..files import limits as _limits
from .lattice import in_steps

if TYPE_CHECKING:
    from .accounting.privacy_loss import PrivacyLoss
    from .budget import Adjacency

__all__ = ["RELEASE_KINDS", "Composition", "Release", "check_lattice", "flatten", "register"]

_BOUND_HINT = "It is the largest norm that one row can contribute, enforced by clipping."
_FLOAT_CAVEAT = (
    "generalized Gaussian and Gamma noise is computed in float64 before it is rounded to the "
    "lattice: its law is that of real numbers up to rounding (no proof)"
)


@dataclass(frozen=True)
class Release:
    """What every record has, and what every kind says of itself; use a subclass."""

    kind: ClassVar[str] = ""
    summary: ClassVar[str] = ""  # for readers who know no mechanisms
    stream_name: ClassVar[str] = ""  # of its noise, where that is not the kind
    single_stream: ClassVar[bool] = True  # draws from one stream, so that a ledger can skip it
    exact_law: ClassVar[bool] = True  # noise on the lattice has exactly the stated law
    rows: tuple[int, int] = field(kw_only=True)
    count: int = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        store(self, "rows", _validate.row_range("rows", self.rows))
        store(self, "count", _validate.integer("count", self.count, at_most=_limits.MOST_COUNT))
        for name in ("bound", "sensitivity", "sigma", "scale"):
            if hasattr(self, name):
                hint = _BOUND_HINT if name == "bound" else ""
                store(self, name, _validate.positive(name, getattr(self, name), hint=hint))

    @property
    def row_count(self) -> int:
        """How many rows the release may touch."""
        return self.rows[1] - self.rows[0]

    def once(self) -> Release:
        """Return the same record with count 1."""
        return self if self.count == 1 else dataclasses.replace(self, count=1)

    def at_first_row(self) -> Release:
        """Return a record with rows from 0 on, which costs each of its rows the same."""
        if not self.rows[0]:
            return self
        return dataclasses.replace(self, rows=(0, self.row_count))

    def pieces(self) -> Iterable[Release]:
        """Return releases on parts of the rows that cost each row what this one costs it."""
        return (self,)

    def inner(self) -> Iterator[Release]:
        """Yield the releases of which this one lets out the best, if any."""
        return iter(())

    # -- what a kind defines -----------------------------------------------------------------------

    def privacy_loss(self, adjacency: Adjacency) -> PrivacyLoss:
        """Return what one execution costs a row that it touches."""
        raise AssumptionError(
            f"no accountant knows {type(self).__name__}: its privacy cost is unproved here. "
            "Use a record of dpsco.privacy.mechanisms."
        )

    def lattices(self, size: int) -> tuple[tuple[float, float], ...]:
        """Return each noise's sigma and lattice step, for a vector of ``size`` numbers."""
        return ()

    def caveats(self, adjacency: Adjacency) -> tuple[str, ...]:
        """Return what the privacy loss rests on besides its proof."""
        return () if self.exact_law else (_FLOAT_CAVEAT,)

    def theorems(self) -> tuple[str, ...]:
        """Return the results that a stated sensitivity rests on."""
        own = getattr(self, "theorem", None)
        inner = [name for release in self.inner() for name in release.theorems()]
        return (*([own] if own else []), *inner)

    def details(self) -> str:
        """Return the fields in words."""
        hidden = ("rows", "count", "theorem")
        names = [item.name for item in dataclasses.fields(self) if item.name not in hidden]
        return in_words({name: getattr(self, name) for name in names})

    def sentence(self) -> str:
        """Return the release in words, as certificates list it."""
        start, stop = self.rows
        return f"{self.count} x {self.kind} on rows {start}..{stop - 1}: {self.details()}"

    # -- storage -----------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain JSON values."""
        return {"kind": self.kind, **dataclasses.asdict(self), "rows": list(self.rows)}

    @classmethod
    def decode(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Return a kind's own field values from the plain ones that `to_json` wrote."""
        return values

    @staticmethod
    def from_json(record: Any) -> Release:
        """Rebuild a record of any kind from `to_json`; refuse unknown kinds and fields."""
        if not isinstance(record, dict) or str(record.get("kind")) not in RELEASE_KINDS:
            raise ParameterError(
                f"a release's kind must be one of {sorted(RELEASE_KINDS)}, "
                f"got {_validate.shown(record)}."
            )
        kind = RELEASE_KINDS[record["kind"]]
        values = {name: value for name, value in record.items() if name != "kind"}
        if set(values) != {item.name for item in dataclasses.fields(kind)}:
            raise ParameterError(
                f"this is not a {kind.kind} release: its fields are "
                f"{_validate.shown(sorted(values))}."
            )
        return kind(**kind.decode(values))


RELEASE_KINDS: dict[str, type[Release]] = {}
"""Every registered kind by its name."""

R = TypeVar("R", bound=type[Release])


def register(kind: R) -> R:
    """Make a record class known, as a decorator; its kind is stored in files and must be new."""
    if not kind.kind or kind.kind in RELEASE_KINDS:
        raise TypeError(f"{kind.__name__} needs a kind of its own, got {kind.kind!r}.")
    RELEASE_KINDS[kind.kind] = kind
    return kind


def registered(release: Release) -> bool:
    """Return whether a record is of a registered class, and not of one derived from it."""
    return RELEASE_KINDS.get(release.kind) is type(release)


@dataclass(frozen=True)
class Composition:
    """Several releases in a row, the whole sequence ``count`` times."""

    kind: ClassVar[str] = "composition"
    parts: tuple[Release | Composition, ...]
    count: int = 1

    def __post_init__(self) -> None:
        parts = tuple(self.parts)
        if not parts or not all(isinstance(part, (Release, Composition)) for part in parts):
            raise ParameterError("a Composition needs one or more releases.")
        store(self, "parts", parts)
        store(self, "count", _validate.integer("count", self.count))


def flatten(
    releases: Release | Composition | Iterable[Release | Composition],
) -> tuple[Release, ...]:
    """Return the elementary releases, compositions multiplied out and equal records merged."""
    counts: dict[Release, int] = {}
    for release, count in _walk(releases, 1):
        single = release.once()
        counts[single] = counts.get(single, 0) + count
    return tuple(
        single if count == 1 else dataclasses.replace(single, count=count)
        for single, count in counts.items()
    )


def _walk(item: Any, times: int) -> Iterator[tuple[Release, int]]:
    if isinstance(item, Composition):
        for part in item.parts:
            yield from _walk(part, times * item.count)
    elif isinstance(item, Release):
        yield item, times * item.count
    elif isinstance(item, Iterable) and not isinstance(item, (str, bytes, dict)):
        for part in item:
            yield from _walk(part, times)
    else:
        raise ParameterError(
            f"a release must be a record of dpsco.privacy, got {_validate.shown(item)}."
        )


def check_lattice(releases: Iterable[Release | Composition], size: int) -> None:
    """Refuse noise that no lattice in float64 holds, for vectors of ``size`` numbers.

    Of use before anybody pays: the ledger would refuse it when it is drawn.

    Raises:
        ParameterError: a release has a budget so small that its noise is beyond 2**48 steps.
    """
    for release, _ in _walk(releases, 1):
        for sigma, step in release.lattices(size):
            in_steps(sigma, step)


def floats(total: ArrayLike) -> NDArray[np.float64]:
    """Return the exact value as float64; refuse what is not an array of numbers."""
    try:
        with np.errstate(all="ignore"):
            return np.asarray(total, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ParameterError("a release takes an array of numbers.") from None


class NonCopyable:
    """Something that may leave once: a copy could leave again."""

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise LedgerError(f"a {type(self).__name__} can be neither copied nor pickled.")


def in_words(values: Mapping[str, Any]) -> str:
    """Return named values in words, those that are None left out."""
    return ", ".join(
        f"{name} {value:.6g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in values.items()
        if value is not None
    )
