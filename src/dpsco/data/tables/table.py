"""Raw tables. Their rows cannot be read: `Table.bounded` is the only door, and it clips.

`from_arrays` takes NumPy arrays, lists, SciPy's sparse matrices and data frames; `from_frame` and
`from_parquet` say more about columns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..._validate import choice
from ...errors import DataError, ParameterError
from ...kernels.pairwise import SUM_LEAF
from ...kernels.rows import Rows, SparseRows
from ...privacy.randomness import Randomness
from ..block import Block, Indices, Mask
from ..bounds import Bounds
from ..labels import (
    EncodedLabels,
    LabelRule,
    check_declared,
    check_kind,
    check_type,
    label_kind,
    reads_text,
)
from ..source import UNCHOSEN, MemorySource, Source
from .arrays import Raw, listed_labels, raw_labels, raw_rows

Order = Literal["shuffled", "given"]
LabelKind = Literal["none", "number", "text", "list"]

_PIECE = 1 << 18  # numbers clipped at a time: the temporaries' size, beside the one private copy


class Table(ABC):
    """Raw rows with a public shape. A subclass calls ``super().__init__`` and writes `_source`."""

    def __init__(self, n: int, d: int, dtype: np.dtype[Any], labels: LabelKind) -> None:
        if n < 1 or d < 1:
            raise DataError(f"a table needs at least one row and one column, got {n} x {d}.")
        self._n, self._d, self._dtype, self._labels = n, d, dtype, labels
        self._encoded: EncodedLabels | None = None  # what an encoder has made of labels
        self._origin: str | None = None

    def declare(
        self,
        rule: LabelRule,
        *,
        classes: tuple[Any, ...] | None = None,
        origin: str | None = None,
    ) -> Table:
        """Say how the labels were encoded; bounds that would misread them are refused.

        Args:
            rule: of the encoder.
            classes: of its schema, whose places the labels then are.
            origin: of the rows, where they were read from files (`dpsco.data.tables.origin`).
        """
        self._encoded = EncodedLabels(rule, classes)
        self._origin = self._origin if origin is None else origin
        return self

    @property
    def n(self) -> int:
        """The number of rows, which is public."""
        return self._n

    @property
    def d(self) -> int:
        """The number of feature columns."""
        return self._d

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """The names of the feature columns, where they are columns of a file."""
        return None

    @property
    def once(self) -> bool:
        """Whether the rows can be read only once, so that several passes are impossible."""
        return False

    @property
    def sums_only(self) -> bool:
        """Whether rows lie elsewhere and only their sums come here."""
        return False

    @property
    def sparse(self) -> bool:
        """Whether rows are stored sparse, which is public."""
        return False

    @property
    def origin(self) -> str | None:
        """Which files the rows lie in, and how those are read; None for arrays and iterators.

        It is another text for other files, and after any change of these. A run with a checkpoint
        goes on with rows of the same origin only.
        """
        return self._origin

    @property
    def encoded(self) -> EncodedLabels | None:
        """What an encoder has made of the labels; None where there was none."""
        return self._encoded

    @property
    def shuffle(self) -> str:
        """How ``order="shuffled"`` shuffles; from one key, two ways make two different orders."""
        return "shuffled"

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the features."""
        return self._dtype

    @property
    def labels(self) -> LabelKind:
        """What the labels are: "none", "number", "text", or "list": what the bounds declare."""
        return self._labels

    def bounded(
        self,
        bounds: Bounds,
        *,
        order: Order = "shuffled",
        randomness: Randomness | None = None,
        copy: bool = True,
    ) -> Source:
        """Return the rows clipped to ``bounds``, in an order that does not depend on them.

        Args:
            bounds: public bounds on a row.
            order: "shuffled" shuffles uniformly; "given" keeps the given order, which must then not
                have been chosen by looking at the rows.
            randomness: where the shuffle comes from; by default a secure root of its own.
            copy: False clips rows in the given order anew whenever they are read, where that is
                possible: for those who read them once.

        Raises:
            DataError: the bounds do not fit the table's labels or width.
            ParameterError: an argument has the wrong type.
        """
        self.check(bounds, order=order)
        if randomness is not None and not isinstance(randomness, Randomness):
            raise ParameterError(
                f"randomness must be a Randomness, got {type(randomness).__name__}. Pass "
                "Randomness.secure(), or leave it out.",
                parameter="randomness",
            )
        if order == "given":
            return self._source(bounds, None) if copy else self._view(bounds)
        return self._source(bounds, randomness or Randomness.secure())

    def trusted(self, order: Order) -> tuple[str, ...]:
        """Return what a run takes on trust about how the rows come, for its certificate."""
        return (UNCHOSEN,) if order == "given" else ()

    def check(self, bounds: Bounds, *, order: Order = "shuffled") -> None:
        """Refuse bounds that do not fit, and unknown orders, from public facts: no row is read.

        Raises:
            DataError: the bounds do not fit the table's labels or width.
            ParameterError: an argument has the wrong type.
        """
        if not isinstance(bounds, Bounds):
            raise ParameterError(
                f"bounds must be Bounds(feature_norm=...), got {type(bounds).__name__}.",
                parameter="bounds",
            )
        choice("order", order, ("shuffled", "given"))
        if self._encoded is not None:
            check_declared(bounds.label, self._encoded)
        listed = "text" if reads_text(bounds.label) else "number"
        named = self._encoded is not None and self._encoded.named_by(bounds.label)
        check_kind(bounds.label, listed if named or self._labels == "list" else self._labels)
        bounds.width(self._d)

    def check_loss(self, loss: Any) -> None:  # noqa: B027 - most tables know every loss
        """Refuse a loss that whoever sums these rows does not know; no row is read.

        Raises:
            ParameterError: names what else would work.
        """

    @abstractmethod
    def _source(self, bounds: Bounds, shuffle: Randomness | None) -> Source:
        """Return the rows clipped; in a uniformly random order drawn from ``shuffle`` if given."""

    def _view(self, bounds: Bounds) -> Source:
        """Return the rows clipped whenever they are read, or a copy."""
        return self._source(bounds, None)

    def __getstate__(self) -> Any:
        raise TypeError(f"{self!r} holds raw rows and is not pickled; send what it was made from.")

    def __repr__(self) -> str:
        labels = "no labels" if self._labels == "none" else f"labels: {self._labels}"
        return f"<{type(self).__name__}: {self._n} x {self._d}, {self._dtype}, {labels}>"


class MemoryTable(Table):
    """Raw rows in memory, dense or sparse; shares them with the caller until they are bounded."""

    def __init__(
        self,
        X: Rows,
        y: NDArray[Any] | tuple[Any, ...] | None = None,
        missing: Mask | None = None,
        label_type: np.dtype[Any] | None = None,  # of the column that became floats
    ) -> None:
        n, d = X.shape
        super().__init__(n, d, X.dtype, "list" if isinstance(y, tuple) else label_kind(y))
        self._X, self._y, self._missing = X, y, missing
        self._label_type = label_type if label_type is not None else getattr(y, "dtype", None)

    @property
    def sparse(self) -> bool:
        """Whether rows are stored sparse."""
        return isinstance(self._X, SparseRows)

    def check(self, bounds: Bounds, *, order: Order = "shuffled") -> None:
        """Refuse as every table does, and labels whose type cannot hold the declared classes."""
        super().check(bounds, order=order)
        check_type(bounds.label, self._label_type)

    def part(self, columns: Indices) -> MemoryTable:
        """Return the table of these features alone, in this order; columns are public numbers."""
        X = self._X
        if isinstance(X, SparseRows):
            chosen = X.matrix()[:, columns]  # of entries that were looked at when they came
            places, offsets = chosen.indices.astype(np.int32), chosen.indptr.astype(np.int64)
            rows: Rows = SparseRows(chosen.data, places, offsets, len(columns))
        else:
            rows = np.ascontiguousarray(np.asarray(X)[:, columns])
        result = MemoryTable(rows, self._y, self._missing, self._label_type)
        result._encoded = self._encoded
        return result

    def _source(self, bounds: Bounds, shuffle: Randomness | None) -> Source:
        raw = self._labelled(bounds.label)
        order = None
        if shuffle is not None:
            order = shuffle.child("order of the rows").permutation(self._n)
        fill = self._sparse if self.sparse else self._dense
        whole = fill(raw, bounds, order)
        return MemorySource(whole, bounds)

    def _view(self, bounds: Bounds) -> Source:
        return ClippedView(self._labelled(bounds.label), self._n, self._d, bounds)

    def _labelled(self, rule: LabelRule) -> Raw:
        """Return the rows, with labels of the type that a rule reads."""
        if isinstance(self._y, tuple):
            return Raw(self._X, *listed_labels(self._y, text=reads_text(rule)))
        encoded = self._encoded
        if encoded is not None and self._y is not None and encoded.named_by(rule):
            return Raw(self._X, *encoded.read(rule, self._y))
        return Raw(self._X, self._y, self._missing)

    def _pieces(self, order: Indices | None, width: int) -> Iterator[tuple[slice, Any]]:
        """Yield ranges of rows, and what to take for each from the raw arrays."""
        step = max(1, _PIECE // width)
        for start in range(0, self._n, step):
            part = slice(start, min(start + step, self._n))
            yield part, part if order is None else order[part]

    def _dense(self, raw: Raw, bounds: Bounds, order: Indices | None) -> Block:
        """Return all rows clipped, in one array that is filled a piece at a time."""
        n = self._n
        rows = np.empty((n, bounds.width(self._d)), dtype=bounds.dtype(self._dtype))
        labels, norms, present = np.empty(n), np.empty(n), np.empty(n, dtype=bool)
        for part, which in self._pieces(order, self._d):
            piece = raw[which]
            block = bounds.apply(
                piece.rows, piece.labels, piece.missing, out=rows[part], table_rows=n
            )
            labels[part], norms[part], present[part] = block.labels, block.norms, block.present
        return Block(rows, labels, norms, present, bounds.norm)

    def _sparse(self, raw: Raw, bounds: Bounds, order: Indices | None) -> Block:
        """Return all rows clipped, in one set of sparse arrays that is filled likewise."""
        assert isinstance(raw.rows, SparseRows)
        n, stored = self._n, int(raw.rows.offsets[-1] - raw.rows.offsets[0])
        room = stored + (n if bounds.intercept is not None else 0)
        values = np.empty(room, dtype=bounds.dtype(self._dtype))
        columns, offsets = np.empty(room, dtype=np.int32), np.zeros(n + 1, dtype=np.int64)
        labels, norms, present = np.empty(n), np.empty(n), np.empty(n, dtype=bool)
        for part, which in self._pieces(order, stored // n + 1):
            piece = raw[which]
            block = bounds.apply(piece.rows, piece.labels, piece.missing)
            rows, begin = block.rows, offsets[part.start]
            assert isinstance(rows, SparseRows)
            offsets[part.start + 1 : part.stop + 1] = rows.offsets[1:] + begin
            values[begin : offsets[part.stop]] = rows.values
            columns[begin : offsets[part.stop]] = rows.columns
            labels[part], norms[part], present[part] = block.labels, block.norms, block.present
        filled = slice(0, int(offsets[-1]))
        whole = SparseRows(values[filled], columns[filled], offsets, bounds.width(self._d))
        return Block(whole, labels, norms, present, bounds.norm)


class ClippedView(Source):
    """Raw rows in memory that are clipped whenever they are read: no copy of the whole is made."""

    def __init__(self, raw: Raw, n: int, d: int, bounds: Bounds) -> None:
        super().__init__(n, bounds.width(d), bounds)
        self._raw = raw

    def _blocks(self, start: int, stop: int) -> Iterator[Block]:
        for begin in range(start, stop, SUM_LEAF):
            piece = self._raw[slice(begin, min(begin + SUM_LEAF, stop))]
            yield self._bounds.apply(piece.rows, piece.labels, piece.missing, table_rows=self._n)


def from_arrays(X: Any, y: Any = None) -> Table:
    """Return a table of an array, sparse matrix or frame of features, and labels if there are any.

    Args:
        X: (n, d) numbers of any type: NumPy array of any strides, SciPy sparse matrix or array of
            any format, which is never made dense, list of rows, or a data frame (see `from_frame`)
            whose columns are all features.
        y: n labels: NumPy array, list, or column of a data frame, in the order of the rows. What a
            list or an array of Python objects holds is only read when the table is bounded:
            strings if the bounds declare classes of text, numbers otherwise.

    What is missing makes a null row; so does an entry of a list, or an object in an array, that is
    no number (or, among labels of text, no string).

    Raises:
        DataError: wrong shape or type. No error depends on a value.
        MissingExtraError: a data frame is given, and narwhals is not installed.

    >>> from_arrays([[1.0, 2.0], [3.0, 4.0]], np.array(["no", "yes"]))
    <MemoryTable: 2 x 2, float64, labels: text>
    """
    return labelled_rows(raw_rows(X), y)


def labelled_rows(rows: Rows, y: Any = None) -> MemoryTable:
    """Return a table of rows that were read already, and labels as `from_arrays` takes them.

    Raises:
        DataError: labels of a wrong shape, type or number.
    """
    labels, missing, kind = raw_labels(y)
    if labels is not None and len(labels) != len(rows):
        raise DataError(f"X has {len(rows)} rows, but y has {len(labels)} labels.")
    return MemoryTable(rows, labels, missing, kind)
