"""Frozen records of what may leave: one class a mechanism, no mathematics.

A record says everything that an accountant needs: the ``bound`` on what one row contributes (before
the adjacency's factor), the noise, the half-open range of ``rows`` that the release touches, in the
run's own order, and how many times (``count``) it happens. Noise is always on the *sum* over rows.
Sum and noise are rounded to a lattice, as :mod:`.lattice` says; a record speaks of the law before.

Releases whose noise rests on a stability theorem are in :mod:`.output_releases`, repeated selection
in :mod:`.repeated_release`; both are known here.
The meaning of a class never changes; a new meaning is a new class. An accountant refuses classes
that it does not know.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from ... import _validate
from ...errors import ParameterError
from ..release import Release
from ..release import store as _store
from .output_releases import (
    ObjectivePerturbationRelease,
    StableGammaRelease,
    StableGaussianRelease,
    WithReplacementRelease,
)
from .prefix_sum.mechanism import PrefixMechanism
from .repeated_selection.profile import Runs
from .repeated_selection.release import RepeatedSelectionRelease

__all__ = [
    "KINDS",
    "SELECTION_NOISES",
    "Composition",
    "FixedSizeGaussianRelease",
    "GaussianRelease",
    "GeneralizedGaussianRelease",
    "ObjectivePerturbationRelease",
    "PoissonGaussianRelease",
    "PrefixSumRelease",
    "WithReplacementRelease",
    "Release",
    "RepeatedSelectionRelease",
    "SelectionRelease",
    "ShuffledRelease",
    "StableGammaRelease",
    "StableGaussianRelease",
    "flatten",
    "from_json",
    "to_json",
]


@dataclass(frozen=True)
class GaussianRelease(Release):
    """The sum over ``rows`` of vectors with l2 norm <= bound, plus N(0, sigma^2 I).

    ``diameter`` is the largest l2 distance of two such vectors where that is less than 2 bound:
    sqrt(2) for the counts of a histogram, of which each row adds to one, 1 for a count of rows.
    """

    kind: ClassVar[str] = "gaussian"
    bound: float
    sigma: float
    diameter: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.diameter is None:
            return
        diameter = _validate.positive("diameter", self.diameter)
        if not self.bound <= diameter <= 2 * self.bound:  # a row may be replaced by an empty one
            raise ParameterError(
                f"diameter must lie between the bound and twice the bound, {self.bound!r} and "
                f"{2 * self.bound!r}; got {diameter!r}."
            )
        _store(self, "diameter", diameter)


@dataclass(frozen=True)
class GeneralizedGaussianRelease(Release):
    """A sum of vectors with l_r norm <= bound, plus noise of density ~ exp(-|z|_r^2/(2 sigma^2)).

    ``norm`` is r, at least 2 and finite.
    """

    kind: ClassVar[str] = "generalized_gaussian"
    bound: float
    sigma: float
    norm: float

    def __post_init__(self) -> None:
        super().__post_init__()
        norm = _validate.positive("norm", self.norm)
        if norm < 2:
            raise ParameterError(
                f"a generalized Gaussian release needs norm >= 2 (its squared norm must be "
                f"smooth), got {norm}. For l_p geometry with p < 2 pass the dual exponent."
            )
        _store(self, "norm", norm)


SELECTION_NOISES = ("gumbel", "permute_and_flip", "laplace")


@dataclass(frozen=True)
class SelectionRelease(Release):
    """The index of the smallest of ``candidates`` noisy scores, each score a sum over ``rows``.

    ``bound`` is the spread max - min over the candidates of one row's scores. (A shift common to
    all candidates changes nothing but the rounding: keep each row's scores within ``bound`` of 0.)
    ``noise`` of size ``scale`` is 'gumbel' (the exponential mechanism), 'permute_and_flip'
    (exponential noise) or 'laplace' (report noisy max).
    """

    kind: ClassVar[str] = "selection"
    bound: float
    scale: float
    candidates: int
    noise: str = "gumbel"

    def __post_init__(self) -> None:
        super().__post_init__()
        _store(self, "candidates", _validate.integer("candidates", self.candidates))
        _validate.choice("noise", self.noise, SELECTION_NOISES)


@dataclass(frozen=True)
class PrefixSumRelease(Release):
    """All noisy prefix sums of ``mechanism.rounds`` batch sums, each row in one batch at most.

    The noise on the prefix sums is ``sigma`` times the mechanism's correlated unit noise. The
    batches are disjoint sub-ranges of ``rows``, fixed without looking at the rows.
    """

    kind: ClassVar[str] = "prefix_sum"
    bound: float
    sigma: float
    mechanism: PrefixMechanism

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.mechanism, PrefixMechanism):
            raise ParameterError(
                "mechanism must come from prefix_sums.mechanism(name, rounds=...), "
                f"got {_validate.shown(self.mechanism)}."
            )
        if self.mechanism.rounds > self.row_count:
            raise ParameterError(
                f"{self.mechanism.rounds} rounds need at least as many rows, got {self.row_count}. "
                "Use fewer rounds."
            )


@dataclass(frozen=True)
class PoissonGaussianRelease(Release):
    """A sum over a secret sample with each row independently at ``rate``, plus N(0, sigma^2 I).

    ``pair`` says which bound pays for replace-one neighbours: 'proved', or 'conjectured' (the
    antipodal pair: less noise, checked numerically only, listed as trusted in the certificate).
    """

    kind: ClassVar[str] = "poisson_gaussian"
    bound: float
    sigma: float
    rate: float
    pair: str = "proved"

    def __post_init__(self) -> None:
        super().__post_init__()
        rate = _validate.positive("rate", self.rate)
        if rate > 1:
            raise ParameterError(f"rate must lie in (0, 1], got {rate}.")
        _store(self, "rate", rate)
        _validate.choice("pair", self.pair, ("proved", "conjectured"))


@dataclass(frozen=True)
class FixedSizeGaussianRelease(Release):
    """A sum over a secret uniformly random sample of ``size`` rows, plus N(0, sigma^2 I)."""

    kind: ClassVar[str] = "fixed_size_gaussian"
    bound: float
    sigma: float
    size: int

    def __post_init__(self) -> None:
        super().__post_init__()
        size = _validate.integer("size", self.size)
        if size > self.row_count:
            raise ParameterError(
                f"a sample of {size} without replacement needs as many rows, got {self.row_count}."
            )
        _store(self, "size", size)


@dataclass(frozen=True)
class ShuffledRelease(Release):
    """One report a row, a vector of l2 norm <= bound plus N(0, sigma^2 I), in secret order."""

    kind: ClassVar[str] = "shuffled"
    bound: float
    sigma: float


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
        _store(self, "parts", parts)
        _store(self, "count", _validate.integer("count", self.count))


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


KINDS: dict[str, type[Release]] = {
    kind.kind: kind
    for kind in (
        GaussianRelease,
        GeneralizedGaussianRelease,
        SelectionRelease,
        PrefixSumRelease,
        PoissonGaussianRelease,
        FixedSizeGaussianRelease,
        ShuffledRelease,
        StableGaussianRelease,
        StableGammaRelease,
        WithReplacementRelease,
        ObjectivePerturbationRelease,
        RepeatedSelectionRelease,
    )
}


def to_json(release: Release) -> dict[str, Any]:
    """Return the record as plain JSON values."""
    record = dataclasses.asdict(release)
    if isinstance(release, RepeatedSelectionRelease):
        record["alternatives"] = [
            [to_json(inner) for inner in alternative] for alternative in release.alternatives
        ]
    return {"kind": release.kind, **record, "rows": list(release.rows)}


def from_json(record: Any) -> Release:
    """Rebuild a record from :func:`to_json`; refuse unknown kinds and fields."""
    if not isinstance(record, dict) or str(record.get("kind")) not in KINDS:
        raise ParameterError(
            f"a release's kind must be one of {sorted(KINDS)}, got {_validate.shown(record)}."
        )
    kind = KINDS[record["kind"]]
    values = {name: value for name, value in record.items() if name != "kind"}
    if set(values) != {f.name for f in dataclasses.fields(kind)}:
        raise ParameterError(
            f"this is not a {kind.kind} release: its fields are {_validate.shown(sorted(values))}."
        )
    if isinstance(values.get("mechanism"), dict):
        try:
            values["mechanism"] = PrefixMechanism(**values["mechanism"])
        except TypeError as problem:
            raise ParameterError(
                f"this is not a prefix-sum mechanism: {_validate.reason(problem)}."
            ) from None
    if kind is RepeatedSelectionRelease:
        try:
            values["runs"] = Runs(**values["runs"])
            values["alternatives"] = [list(map(from_json, each)) for each in values["alternatives"]]
        except TypeError as problem:
            raise ParameterError(
                f"this is not a repeated selection: {_validate.reason(problem)}."
            ) from None
    return kind(**values)
