"""What a domain of weights offers: projection, linear minimisation, sizes, gauge and width.

A domain is a frozen record of its constructor's arguments. Every method that takes points works
along the last axis and is total in their values: where a point is not a number the centre's
coordinate stands in, and infinity counts as the largest float. A loop that meets an overflow thus
goes on from a defined weight, and no error depends on the rows that caused it. Shapes and types
are checked.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..._validate import integer, non_negative, refusal, shown
from ...errors import ParameterError
from ..norms import L2, Norm
from ..width import Width, monte_carlo_width

Floats = NDArray[np.float64]

MAX_VERTEX_ENTRIES = 2**20
"""Most numbers (vertices times dimension) that a matrix of vertices may hold."""

ROUNDING = float(np.finfo(float).eps)
LARGEST = float(np.finfo(float).max)


class Domain(ABC):
    """A closed convex set of weights."""

    bounded: ClassVar[bool] = True
    _arguments: Mapping[str, Any]
    _dimension: int | None

    def _record(self, dimension: int | None, **arguments: Any) -> None:
        """Keep the constructor's arguments; all else is computed from them."""
        object.__setattr__(self, "_dimension", dimension)
        object.__setattr__(self, "_arguments", arguments)

    def _derive(self, **values: Any) -> None:
        """Keep what was computed from the arguments."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: {name!r} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: {name!r} cannot be deleted")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Domain):
            return NotImplemented
        return self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def __repr__(self) -> str:
        shown = (f"{k}={_shown(v)}" for k, v in self._arguments.items() if v is not None)
        return f"{type(self).__name__}({', '.join(shown)})"

    def _identity(self) -> tuple[Any, ...]:
        """Return what equal domains share."""
        return type(self).__name__, *((k, _frozen(v)) for k, v in self._arguments.items())

    # -- facts -------------------------------------------------------------------------------------

    @property
    def dimension(self) -> int | None:
        """The number of coordinates; None if the domain exists in every dimension."""
        return self._dimension

    @property
    def interior(self) -> bool:
        """Whether it has interior points in R^d; a flat set such as the simplex has none."""
        return True

    @property
    def arguments(self) -> dict[str, Any]:
        """The constructor's arguments, arrays as lists: enough to build the domain again."""
        return {
            key: value.tolist() if isinstance(value, np.ndarray) else value
            for key, value in self._arguments.items()
        }

    @abstractmethod
    def centre(self, d: int) -> Floats:
        """Return the point that radius and gauge are about; in the relative interior."""

    def vertices(self, d: int) -> Floats | None:
        """Return the vertices as rows, or None for a set that is not a polytope.

        Raises:
            ParameterError: the matrix would hold more than `MAX_VERTEX_ENTRIES` numbers.
        """
        self._size(d)
        return None

    @abstractmethod
    def radius(self, d: int, norm: Norm = L2) -> float:
        """Return the largest distance from the centre, or an upper bound on it."""

    @abstractmethod
    def max_norm(self, d: int, norm: Norm = L2) -> float:
        """Return the largest norm of a member, or an upper bound on it."""

    def diameter(self, d: int, norm: Norm = L2) -> float:
        """Return the largest distance between two members, or an upper bound on it.

        Here it is twice the radius: exact where the radius is, and the domain symmetric about its
        centre.
        """
        return 2.0 * self.radius(d, norm)

    def gaussian_width(self, d: int, samples: int = 4096, seed: int = 0) -> Width:
        """Return E max <g, w> over members w, g standard normal: by simulation if not exact.

        Args:
            d: the dimension.
            samples: normal vectors to average over, where there is no closed form.
            seed: their seed; the width is a public constant.
        """
        return monte_carlo_width(self.support, self._size(d), samples, seed)

    # -- points ------------------------------------------------------------------------------------

    def project(self, point: ArrayLike) -> Floats:
        """Return the member nearest to ``point`` (Euclidean); members stay as they are."""
        x = self._points("point", point)
        return self._project(x.reshape(-1, x.shape[-1])).reshape(x.shape)

    def minimise(self, direction: ArrayLike) -> Floats:
        """Return a member of least <direction, w>: a vertex where there are vertices.

        Of several minimisers it is the same one every time; the zero direction gives a boundary
        point.
        """
        g = self._points("direction", direction, stand_in=0.0)
        return self._minimise(g.reshape(-1, g.shape[-1])).reshape(g.shape)

    def support(self, direction: ArrayLike) -> Floats:
        """Return the largest <direction, w> over members w."""
        g = self._points("direction", direction, stand_in=0.0)
        rows = g.reshape(-1, g.shape[-1])
        top = np.max(np.abs(rows), axis=-1)
        with quiet():  # for directions of largest entry one, then in proportion
            largest = self._support(rows / np.where(top > 0.0, top, 1.0)[:, None]) * top
        return np.asarray(largest).reshape(g.shape[:-1])

    def minkowski(self, point: ArrayLike) -> Floats:
        """Return the gauge about the centre: the least t with centre + (point - centre) / t inside.

        At most 1 exactly for members; infinite off the affine hull of a flat set.
        """
        x = self._points("point", point)
        with quiet():
            return self._gauge(x.reshape(-1, x.shape[-1])).reshape(x.shape[:-1])

    def contains(self, point: ArrayLike, slack: float = 1e-9) -> bool:
        """Whether every point is within ``slack`` times `max_norm` of the domain (Euclidean)."""
        x = self._array("point", point)
        limit = non_negative("slack", slack) * self.max_norm(x.shape[-1])
        if not np.all(np.isfinite(x)):
            return False
        with quiet():
            return bool(np.all(L2(x - self.project(x)) <= limit))

    @abstractmethod
    def _project(self, rows: Floats) -> Floats:
        """Project each row; what is returned is new."""

    @abstractmethod
    def _minimise(self, rows: Floats) -> Floats:
        """Minimise along each row; what is returned is new."""

    def _support(self, rows: Floats) -> Floats:
        """Return the support function of each row."""
        return np.asarray(np.einsum("ij,ij->i", rows, self._minimise(-rows)))

    @abstractmethod
    def _gauge(self, rows: Floats) -> Floats:
        """Return the gauge of each row."""

    # -- checks ------------------------------------------------------------------------------------

    def _size(self, d: Any) -> int:
        """Return ``d`` as a dimension in which the domain exists."""
        size = integer("d", d)
        if self._dimension not in (None, size):
            raise ParameterError(
                f"{type(self).__name__} lives in dimension {self._dimension}, got d={size}. "
                f"Pass d={self._dimension}, or build the domain for {size} coordinates."
            )
        return size

    def _array(self, name: str, value: ArrayLike) -> Floats:
        """Return ``value`` as floats whose last axis has the domain's dimension, not copied."""
        x = floats(name, value, copy=False)
        if x.ndim == 0 or x.shape[-1] == 0:
            raise refusal(
                name,
                f"must be a vector, or an array of them along the last axis; got shape {x.shape}.",
            )
        if self._dimension not in (None, x.shape[-1]):
            raise refusal(
                name,
                f"must have {self._dimension} coordinates, as {type(self).__name__} has; "
                f"got {x.shape[-1]}.",
            )
        return x

    def _points(self, name: str, value: ArrayLike, stand_in: float | None = None) -> Floats:
        """Return finite points, by the rule at the head of this module."""
        x = self._array(name, value)
        if np.all(np.isfinite(x)):
            return x
        missing = self.centre(x.shape[-1]) if stand_in is None else stand_in
        return np.asarray(np.clip(np.where(np.isnan(x), missing, x), -LARGEST, LARGEST))


@contextmanager
def quiet() -> Iterator[None]:
    """Let sizes beyond the floats become infinite or zero: the code around expects it."""
    with np.errstate(over="ignore", under="ignore"):
        yield


def floats(name: str, value: ArrayLike, *, copy: bool = True) -> Floats:
    """Return ``value`` as an array of floats; refuse text, objects, booleans, complex numbers."""
    try:
        array = np.asarray(value)
    except ValueError:
        raise refusal(name, "must be an array of numbers; its rows differ in length.") from None
    if array.dtype.kind not in "iuf":
        raise refusal(name, f"must be an array of numbers, got dtype {array.dtype}.")
    return array.astype(float, copy=copy)


def finite_vector(name: str, value: ArrayLike) -> Floats:
    """Return a public vector (a centre, say) as a read-only array of finite numbers."""
    array = floats(name, value)
    if array.ndim != 1 or array.size == 0:
        raise refusal(name, f"must be a vector, got shape {array.shape}.")
    if not np.all(np.isfinite(array)):
        raise refusal(name, f"must be finite, got {_shown(array)}.")
    array.flags.writeable = False
    return array


def checked_norm(norm: Any) -> Norm:
    """Return ``norm`` if it is one."""
    if not isinstance(norm, Norm):
        raise ParameterError(
            f"norm must be a norm such as L2 or Lp(1.5), got {shown(norm)}.", parameter="norm"
        )
    return norm


def enumerable(who: str, count: int, d: int, instead: str) -> None:
    """Refuse to list ``count`` vertices of ``d`` numbers when they are too many."""
    if count * d > MAX_VERTEX_ENTRIES:
        many = f"{count}" if count < 10**9 else f"2**{math.log2(count):.0f}"
        raise ParameterError(
            f"vertices of {who} with d={d} are too many to enumerate: {many} of them, and the "
            f"matrix may hold {MAX_VERTEX_ENTRIES} numbers. {instead}"
        )


def difference(rows: Floats, centre: Floats) -> Floats:
    """Return rows minus centre, at most the largest float in size."""
    with quiet():
        return np.asarray(np.clip(rows - centre, -LARGEST, LARGEST))


def rounding_of(d: int) -> float:
    """Return the relative error that a norm of d numbers may carry, with room to spare."""
    return ROUNDING * (8.0 + math.sqrt(d))


def _shown(value: Any) -> str:
    if not isinstance(value, np.ndarray):
        return repr(value)
    return np.array2string(value, separator=", ", threshold=8, edgeitems=2).replace("\n", "")


def _frozen(value: Any) -> Any:
    return (value.shape, value.tobytes()) if isinstance(value, np.ndarray) else value
