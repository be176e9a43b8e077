"""Tables of mixed columns as numbers, by public facts alone: no fitting, nothing remembered.

Each declared column owns one slot of a row. Whatever the entry, at most one number of the slot
differs from zero and lies in [-1, 1]; of text several may, and together have norm 1 at most. So a
row of k slots has Euclidean norm at most sqrt(k), which is the bound that clipping needs, and it is
known before any row is read.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..._validate import integer, shown
from ...errors import ParameterError
from ...files.limits import MOST_WEIGHTS
from ...geometry.norms import L2, Lp, Norm
from ...kernels.rows import Rows, SparseRows
from ..block import join_rows, matrix
from ..bounds import Bounds
from ..labels import Classes, LabelRule
from ..tables.arrow import distinct, places, require, written_numbers
from ..tables.dates import dates_in
from .columns import to_arrow
from .schema import (
    Category,
    ClassLabel,
    Column,
    Date,
    Flag,
    Hashed,
    Number,
    NumberLabel,
    Schema,
    Text,
)
from .text import text_entries

Floats = NDArray[np.float64]

_BATCH = 1 << 16  # rows at a time: their columns stay in the second-level cache
_DENSE_WIDTH = 256  # up to here dense rows are always the faster ones
_MOST_UNITS = 4096  # columns whose unit vectors are measured one by one
_SPARSE_GAIN = 8  # beyond, sparse if at most one number in so many can differ from zero


class TableEncoder:
    """Turns a table into numeric rows and labels as a schema says; it never looks at other rows.

    Args:
        schema: the declared columns; a `Schema`, or the path of a schema file.
        sparse: rows in compressed form; None decides from the public width.
        dtype: float64 or float32, of the rows.

    Raises:
        DataError: the schema file cannot be read; later, a table does not match the schema.

    Example:
        >>> encoder = TableEncoder(Schema((Number("age", 0, 100), Category("work", ("a", "b")))))
        >>> encoder.feature_names
        ('age', 'work=a', 'work=b')
        >>> round(encoder.feature_norm, 6)
        1.414214
    """

    def __init__(
        self,
        schema: Schema | str | Path,
        *,
        sparse: bool | None = None,
        dtype: DTypeLike = np.float64,
    ) -> None:
        if not isinstance(schema, (Schema, str, Path)):
            raise ParameterError(
                "TableEncoder needs a Schema or the path of a schema file, got "
                f"{type(schema).__name__}."
            )
        self.schema = schema if isinstance(schema, Schema) else Schema.load(schema)
        try:
            self.dtype = np.dtype(dtype)
        except TypeError:
            raise ParameterError(
                f"dtype must be float32 or float64, got {shown(dtype)}.", parameter="dtype"
            ) from None
        if self.dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
            raise ParameterError(
                f"dtype must be float32 or float64, got {self.dtype}.", parameter="dtype"
            )
        widths = [_width(column) for column in self.schema.encoded]
        integer("the number of encoded columns", sum(widths), at_most=MOST_WEIGHTS)
        self._offsets = np.concatenate(([0], np.cumsum(widths)))
        wide = self.width > _DENSE_WIDTH and self.width > _SPARSE_GAIN * self.entries
        self.sparse = wide if sparse is None else bool(sparse)

    @cached_property
    def feature_names(self) -> tuple[str, ...]:
        """The names of an encoded row's columns; made when they are asked for."""
        return tuple(name for column in self.schema.encoded for name in _names(column))

    @property
    def label_rule(self) -> LabelRule:
        """How `Bounds` reads the labels that `encode` returns."""
        label = self.schema.label
        if label is None:
            return None
        if isinstance(label, ClassLabel):
            return Classes(range(len(label.values)))
        return (label.low, label.high) if isinstance(label, NumberLabel) else "sign"

    @property
    def classes(self) -> tuple[Any, ...] | None:
        """The classes of the schema's label, whose places `encode` returns; None if it has none."""
        label = self.schema.label
        return label.values if isinstance(label, ClassLabel) else None

    @property
    def width(self) -> int:
        """The number of columns of an encoded row; the intercept is not among them."""
        return int(self._offsets[-1])

    @property
    def slots(self) -> int:
        """The number of encoded columns, each of which has norm 1 at most."""
        return len(self.schema.encoded)

    @property
    def entries(self) -> int:
        """The most numbers of a row that can differ from zero."""
        return sum(map(_entries, self.schema.encoded))

    @property
    def readable(self) -> tuple[int, tuple[int, ...]]:
        """How many columns show whether an entry was read as declared, and the places that do not.

        Such a column has a number other than 0 at one of its places just if an entry was read.
        Not so text, and numbers with a rule for missing entries; a value that is not declared is
        not read.
        """
        count, hidden = 0, list[int]()
        for base, column in zip(self._offsets, self.schema.encoded, strict=False):
            ruled = isinstance(column, (Number, Date)) and column.missing is not None
            if ruled or isinstance(column, Text):
                hidden += range(int(base), int(base) + _width(column))
                continue
            count += 1
            if isinstance(column, Category) and column.other:
                hidden.append(int(base) + len(column.values))
        return count, tuple(hidden)

    @property
    def feature_norm(self) -> float:
        """The largest Euclidean norm that any encoded row can have: sqrt(slots), rounded up."""
        return _root_up(self.slots)

    @property
    def units(self) -> tuple[Floats, Floats]:
        """For each encoded column the entry that becomes 0, and by how much 1 is more."""
        centre, scale = np.zeros(self.width), np.ones(self.width)
        for base, column in zip(self._offsets, self.schema.encoded, strict=False):
            if isinstance(column, (Number, Date)):
                number = column.as_number if isinstance(column, Date) else column
                centre[base] = 0.5 * number.low + 0.5 * number.high
                scale[base] = 0.5 * number.high - 0.5 * number.low
            elif isinstance(column, Flag):
                centre[base], scale[base] = 0.5, 0.5
        return centre, scale

    def bounds(
        self,
        *,
        feature_norm: float | None = None,
        norm: Norm = L2,
        intercept: float | None = None,
    ) -> Bounds:
        """Return the bounds that encoded rows obey, with the label rule of the schema.

        Args:
            feature_norm: a smaller bound, to which rows are then clipped; None for the largest
                norm that an encoded row can have.
            norm: in which rows are measured.
            intercept: the constant of a column that every row gets, or None.
        """
        if feature_norm is None:
            feature_norm = self._largest(norm)
        return Bounds(feature_norm, label=self.label_rule, norm=norm, intercept=intercept)

    def encode(self, table: Any) -> tuple[Any, Floats | None]:
        """Return rows and labels of a pandas, Polars or PyArrow table or record batch.

        The rows are an array or a SciPy matrix in CSR form, see ``sparse``. A label that is missing
        or not declared is NaN; classes are numbered 0, 1, ... in the declared order. A column of
        Python objects is read as declared, and whatever else it holds is missing.

        Raises:
            DataError: a column is missing, of the wrong type, or not declared. The message names
                columns and types; it never depends on a value.
        """
        rows, labels = self._encode(table, label=self.schema.label is not None)
        return matrix(rows), labels

    def features(self, table: Any) -> Any:
        """Return the rows alone; the table need not have the label's column."""
        rows, _ = self._encode(table, label=False)
        return matrix(rows)

    def encode_batch(self, batch: Any, *, label: bool = True) -> tuple[Rows, Floats | None]:
        """Return rows and labels of a record batch whose columns are known to match."""
        slots = self._slots(batch)
        labels = self._labels(batch) if label and self.schema.label is not None else None
        if self.sparse:
            return self._sparse_rows(slots, len(batch)), labels
        rows = np.zeros((len(batch), self.width), dtype=self.dtype)
        self._fill(slots, rows)
        return rows, labels

    def _encode(self, table: Any, *, label: bool) -> tuple[Rows, Floats | None]:
        """Check the columns, then encode batch by batch."""
        arrow = to_arrow(table, self.schema)
        result = zip(arrow.schema.names, arrow.schema.types, strict=True)
        require(self.schema, result, "the table", label=label)
        wanted = {column.name for column in self.schema.encoded}
        if label and self.schema.label is not None:
            wanted.add(self.schema.label.name)
        parts = _batches(arrow.select([name for name in arrow.schema.names if name in wanted]))
        labels = np.concatenate([np.empty(0), *map(self._labels, parts)]) if label else None
        if self.sparse:
            none = np.empty(0, self.dtype), np.empty(0, np.int32), np.zeros(1, np.int64)
            stored = [self._sparse_rows(self._slots(part), len(part)) for part in parts]
            return join_rows([*stored, SparseRows(*none, self.width)]), labels
        rows = np.zeros((sum(map(len, parts)), self.width), dtype=self.dtype)
        start = 0
        for part in parts:
            self._fill(self._slots(part), rows[start : start + len(part)])
            start += len(part)
        return rows, labels

    def _slots(self, batch: Any) -> list[_Slot]:
        """Return what each declared column contributes to the rows of a batch."""
        columns = self.schema.encoded
        return [_SLOTS[type(c)](c, batch.column(c.name), self.schema) for c in columns]

    def _fill(self, slots: list[_Slot], rows: NDArray[Any]) -> None:
        """Write the slots into rows of zeros."""
        every = np.arange(len(rows))
        for base, (place, values) in zip(self._offsets, slots, strict=False):
            if isinstance(place, int):
                rows[:, base + place] = values
            elif isinstance(place, tuple):
                rows[place[0], base + place[1]] = values
            else:
                rows[every, base + place] = values

    def _sparse_rows(self, slots: list[_Slot], count: int) -> SparseRows:
        """Return the rows in compressed form; slots come in order, so columns are sorted."""
        if any(isinstance(place, tuple) for place, _ in slots):
            return self._several(slots, count)
        columns = np.empty((count, len(slots)), dtype=np.int32)
        values = np.empty((count, len(slots)), dtype=self.dtype)
        for k, (place, entries) in enumerate(slots):
            columns[:, k] = place
            columns[:, k] += np.int32(self._offsets[k])
            values[:, k] = entries
        stored = values != 0.0
        offsets = np.concatenate(([0], np.cumsum(np.count_nonzero(stored, axis=1))))
        return SparseRows(values[stored], columns[stored], offsets.astype(np.int64), self.width)

    def _several(self, slots: list[_Slot], count: int) -> SparseRows:
        """Return rows of which some slot has several numbers, in compressed form."""
        every = np.arange(count)
        rows, columns, values = [], [], []
        for base, (place, entries) in zip(self._offsets, slots, strict=False):
            here, inside = place if isinstance(place, tuple) else (every, place)
            rows.append(here)
            columns.append(np.broadcast_to(base + inside, here.shape))
            values.append(entries)
        row, column = np.concatenate(rows), np.concatenate(columns)
        value = np.concatenate(values).astype(self.dtype)
        order = np.lexsort((column, row))
        order = order[value[order] != 0.0]
        offsets = np.searchsorted(row[order], np.arange(count + 1)).astype(np.int64)
        return SparseRows(value[order], column[order].astype(np.int32), offsets, self.width)

    def _labels(self, batch: Any) -> Floats:
        """Return the labels as float64, NaN where there is none."""
        label = self.schema.label
        assert label is not None
        array = batch.column(label.name)
        if isinstance(label, ClassLabel):
            result, _ = places(array, label, self.schema)
            return np.where(result >= 0, result.astype(np.float64), np.nan)
        return written_numbers(array, self.schema).astype(np.float64)

    def _largest(self, norm: Norm) -> float:
        """Return a bound on the norm of an encoded row."""
        if norm == L2:
            return self.feature_norm
        counts = np.array(list(map(_entries, self.schema.encoded)), dtype=float)
        if isinstance(norm, Lp):  # k numbers of size at most 1, and of text of norm at most 1
            if norm.p == math.inf:
                return 1.0
            if norm.p >= 2.0 or self.entries == self.slots:
                return float(self.slots ** (1.0 / norm.p) * (1.0 + 1e-15))
            # Hoelder: m numbers of Euclidean norm 1 have p-norm at most m^(1/p - 1/2).
            powers = counts ** (1.0 - norm.p / 2.0)
            return float(np.sum(powers) ** (1.0 / norm.p) * (1.0 + 1e-12))
        if self.width > _MOST_UNITS:
            raise ParameterError(
                f"bounds needs feature_norm for {norm!r} and {self.width} columns: pass it."
            )
        # Any other norm: the triangle inequality over the slots.
        units = norm(np.eye(self.width))
        largest = np.maximum.reduceat(units, self._offsets[:-1]) * np.sqrt(counts)
        return float(np.sum(largest)) * (1.0 + 1e-12)

    def __repr__(self) -> str:
        kind = "sparse" if self.sparse else "dense"
        return f"<TableEncoder: {self.slots} columns to {self.width}, {kind} {self.dtype}>"


def check_encoder(encoder: Any) -> None:
    """Refuse what is no encoder, such as the schema itself."""
    if not isinstance(encoder, TableEncoder):
        raise ParameterError(
            f"encoder must be a dpsco.data.TableEncoder, got {type(encoder).__name__}. Make one "
            "from a schema or its file: data.TableEncoder(schema); a transformer has one inside, "
            "transformer.table_encoder.",
            parameter="encoder",
        )


Places = tuple[NDArray[np.int64], NDArray[np.int64]]  # row and place of each number
_Slot = tuple[int | NDArray[np.int64] | Places, NDArray[Any]]
"""The place within the slot and the number there, of each row; or of several numbers of a row."""


_MIDDLE = 2.0**-60  # for 0, which says that nothing was read; no weight makes it matter


def _number(column: Number, array: Any, schema: Schema) -> _Slot:
    """Scale to [-1, 1]; what is missing or not finite follows the public rule, and is 0 without."""
    return _scaled(column, written_numbers(array, schema).astype(np.float64))


def _date(column: Date, array: Any, schema: Schema) -> _Slot:
    """Scale whole units as numbers are."""
    return _scaled(column.as_number, dates_in(array, column.unit, column.order))


def _text(column: Text, array: Any, schema: Schema) -> _Slot:
    """Return the n-grams of each row, of norm 1 at most."""
    rows, places, values = text_entries(column, array)
    return (rows, places), values


def _scaled(column: Number, raw: Floats) -> _Slot:
    """Scale numbers to [-1, 1] by the range of a column, with its rule for missing ones."""
    middle = 0.5 * column.low + 0.5 * column.high
    half = 0.5 * column.high - 0.5 * column.low
    absent = ~np.isfinite(raw)
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = np.clip((raw - middle) / half, -1.0, 1.0)
    scaled[scaled == 0.0] = _MIDDLE
    if column.missing == "indicator":
        return absent.astype(np.int64), np.where(absent, 1.0, scaled)
    rest = 0.0 if column.missing is None else (float(column.missing) - middle) / half
    return 0, np.where(absent, min(max(rest, -1.0), 1.0), scaled)


def _flag(column: Flag, array: Any, schema: Schema) -> _Slot:
    """Return 1 for yes, -1 for no, 0 where missing."""
    raw = written_numbers(array, schema)
    return 0, np.where(np.isfinite(raw), np.where(raw != 0.0, 1.0, -1.0), 0.0)


def _category(column: Category, array: Any, schema: Schema) -> _Slot:
    """Return 1 at the declared value's place, or at the last place for others."""
    result, absent = places(array, column, schema)
    if column.other:
        result = np.where((result < 0) & ~absent, len(column.values), result)
    return np.maximum(result, 0), (result >= 0).astype(np.float64)


def _hashed(column: Hashed, array: Any, schema: Schema) -> _Slot:
    """Return 1 or -1 at the place of the value's hash; each distinct value is hashed once."""
    key = hashlib.blake2b(column.name.encode(), digest_size=32, person=b"dpsco column").digest()
    values, indices = distinct(array)
    digests = b"".join(hashlib.blake2b(v, digest_size=8, key=key).digest() for v in values)
    words = np.frombuffer(digests, dtype="<u8").astype(np.uint64)
    slots = ((words >> np.uint64(1)) % np.uint64(column.buckets)).astype(np.int64)
    signs = np.where(words & np.uint64(1), -1.0, 1.0) if column.signed else np.ones(len(words))
    return np.append(slots, 0)[indices], np.append(signs, 0.0)[indices]


_SLOTS: dict[type, Callable[[Any, Any, Schema], _Slot]] = {
    Number: _number,
    Date: _date,
    Text: _text,
    Flag: _flag,
    Category: _category,
    Hashed: _hashed,
}


def _width(column: Column) -> int:
    """Return the number of a column's places."""
    if isinstance(column, Category):
        return len(column.values) + column.other
    if isinstance(column, (Hashed, Text)):
        return column.buckets
    return 1 + (isinstance(column, (Number, Date)) and column.missing == "indicator")


def _entries(column: Column) -> int:
    """Return how many numbers of a column's slot can differ from zero."""
    return min(column.most, column.buckets) if isinstance(column, Text) else 1


def _names(column: Column) -> list[str]:
    """Return the names of a column's places."""
    if isinstance(column, Category):
        names = [f"{column.name}={value}" for value in column.values]
        return [*names, f"{column.name}=(other)"] if column.other else names
    if isinstance(column, (Hashed, Text)):
        return [f"{column.name}#{k}" for k in range(column.buckets)]
    indicator = isinstance(column, (Number, Date)) and column.missing == "indicator"
    return [column.name, f"{column.name} missing"] if indicator else [column.name]


def _batches(arrow: Any) -> list[Any]:
    """Return a table or batch in record batches of bounded size."""
    if hasattr(arrow, "to_batches"):
        return list(arrow.to_batches(max_chunksize=_BATCH))
    return [arrow.slice(start, _BATCH) for start in range(0, len(arrow), _BATCH)]


def _root_up(count: int) -> float:
    """Return sqrt(count), rounded up: never below the true root."""
    root = math.sqrt(count)
    return root if int(root) ** 2 == count else math.nextafter(root, math.inf)
