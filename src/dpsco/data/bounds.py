"""The public bounds of a row, and the one place where rows are clipped to them.

What leaves `Bounds.apply` obeys the bounds in exact arithmetic, not by one unit in the last place
more, whatever the values; nothing that a row contains can raise an error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from types import NoneType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._validate import shown, store
from ..errors import DataError, ParameterError
from ..geometry.norms import L2, Lp, Norm, WeightedLp
from ..kernels.rescale import as_columns, prepared, scale, shrink, use_compiled
from ..kernels.rows import Rows, SparseRows
from .block import Block, Floats, Mask, take_rows
from .labels import LabelRule, check_rule, clean_labels, default_label, describe_rule, label_bound
from .row_norms import (
    FLOOR,
    HUGE,
    cache_slices,
    check_limit,
    reduce_segments,
    round_up,
    row_norms,
    shrink_factors,
    shrink_huge,
    thresholds,
)
from .units import Units

_SINGLE = 1e-30  # below this bound float32 would run out of exponents
_UP = 1.0 + 2.0**-46


@dataclass(frozen=True)
class Bounds:
    """How large one row may be; declared, never read off the data.

    A row whose features exceed ``feature_norm`` is rescaled to it; its label is clipped or must be
    declared. A row with a feature or label that is not finite, or a label outside the declared
    classes, becomes a null row: zeros (intercept included), the default label, not ``present``.

    Args:
        feature_norm: bound on the norm of a row's features, without the intercept.
        label: None; "sign" (-1 or 1, anything else is a null row); Y > 0 (clip to [-Y, Y]);
            (low, high); or Classes(...).
        norm: in which rows are measured. A weighted or group norm speaks of the whole row, the
            intercept last.
        intercept: None, or the constant b > 0 of a column that is appended to every present row.
        units: in which raw rows are measured before they are clipped, where these were found at run
            time. The bounds are those of rows in units: they are compared and written without.

    Raises:
        ParameterError: a bound is not positive and finite, or outside [1e-100, 1e100].

    >>> bounds = Bounds(feature_norm=3.0, label="sign", intercept=4.0)
    >>> round(bounds.row_norm, 9), bounds.label_bound
    (5.0, 1.0)
    >>> bounds.apply(np.array([[30.0], [np.nan]]), np.array([1, 1])).rows.round(9).tolist()
    [[3.0, 4.0], [0.0, 0.0]]
    """

    feature_norm: float
    label: LabelRule = None
    norm: Norm = L2
    intercept: float | None = None
    units: Units | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        store(self, "feature_norm", check_limit("feature_norm", self.feature_norm))
        store(self, "label", check_rule(self.label))
        if not isinstance(self.norm, Norm):
            raise ParameterError(
                f"norm must be a norm of dpsco.geometry, such as L2, got {shown(self.norm)}.",
                parameter="norm",
            )
        if self.intercept is not None:
            hint = "Leave it out (None) for a model without intercept."
            store(self, "intercept", check_limit("intercept", self.intercept, hint=hint))
        if not isinstance(self.units, (Units, NoneType)):
            raise ParameterError("units are found at run time: leave them out.", parameter="units")
        label = None if self.units is None else self.units.label
        if label is not None and label_bound(label) > self.label_bound:
            raise ParameterError(f"labels within {label!r} exceed the bound of {self.label!r}.")

    @property
    def row_norm(self) -> float:
        """Bound on the norm of a row, features and intercept together; rounded up."""
        if self.intercept is None:
            return self.feature_norm
        return float(self._with_intercept(np.array(self.feature_norm)))

    @property
    def label_bound(self) -> float:
        """Bound on the size of a label."""
        return label_bound(self.label)

    @property
    def default_label(self) -> float:
        """The label of a null row."""
        return default_label(self.label)

    @property
    def enforced(self) -> tuple[str, ...]:
        """What `apply` enforces, in sentences for a certificate."""
        norm = describe_norm(self.norm)
        features = f"a row's features have {norm} norm at most {self.feature_norm:g}, by rescaling"
        column = (
            () if self.intercept is None else (f"the intercept's column is {self.intercept:g}",)
        )
        return (features, *column, *describe_rule(self.label))

    def dtype(self, raw: np.dtype[Any]) -> np.dtype[Any]:
        """Return the type of clipped rows: float32 for float16 and float32, else float64.

        Bounds that leave the range of float32 make it float64 as well, and so do units: rows that
        were mapped to other numbers would be rounded after their length was taken.
        """
        if self.units is not None:
            return np.dtype(np.float64)
        intercept = 1.0 if self.intercept is None else self.intercept
        fits = self.feature_norm >= _SINGLE and _SINGLE <= intercept <= 1.0 / _SINGLE
        single = raw.kind == "f" and raw.itemsize <= 4 and fits
        return np.dtype(np.float32 if single else np.float64)

    def width(self, d: int) -> int:
        """Return the number of columns of a clipped row of ``d`` features; check the norm's."""
        width = d + (self.intercept is not None)
        if self.norm.dimension not in (None, width):
            raise DataError(
                f"the bounds' norm is for rows of {self.norm.dimension} numbers, but a row has "
                f"{width}, the intercept included. Give the norm one weight for each of them."
            )
        return width

    def apply(
        self,
        X: Rows,
        y: NDArray[Any] | None = None,
        missing: Mask | None = None,
        out: NDArray[Any] | None = None,
        *,
        table_rows: int | None = None,
    ) -> Block:
        """Return the rows clipped, rescaled and labelled, as a copy.

        Args:
            X: (rows, d) numbers of any type and strides, or sparse rows.
            y: raw labels, of a type that the label rule reads.
            missing: rows whose label is missing, for labels that cannot say so themselves.
            out: where dense rows are to be put, in C order, of the type and width that `dtype` and
                `width` say.
            table_rows: how many rows are clipped by all calls together, where these are a part of
                them: whether compiled passes pay. The result is the same bits either way.

        Raises:
            DataError: the labels' type does not fit the rule, or the norm is for another width.
                No error depends on a value.
        """
        rule, stored = self.label, self.dtype(X.dtype)
        if self.units is not None:
            X, rule = self.units.apply(X), self.units.label or rule
        labels, readable = clean_labels(rule, y, len(X), missing)
        rows: Rows
        with np.errstate(all="ignore"):
            if isinstance(X, SparseRows):
                rows, norms, present = self._clip_sparse(X, readable, stored)
            else:
                shape = len(X), self.width(X.shape[1])
                rows = np.empty(shape, dtype=stored) if out is None else out
                count = len(X) if table_rows is None else table_rows
                compiled = self._euclidean and use_compiled(count, X.shape[1])
                norms, present = self._clip_dense(X, readable, rows, compiled)
        labels[~present] = self.default_label
        return Block(rows, labels, norms, present, self.norm)

    @property
    def _euclidean(self) -> bool:
        return isinstance(self.norm, Lp) and self.norm.p == 2.0

    # -- clipping: why it is exact stands in `row_norms` ------------------------------------------

    def _clip_dense(
        self, X: NDArray[Any], readable: Mask, rows: NDArray[Any], compiled: bool
    ) -> tuple[Floats, Mask]:
        """Fill in dense rows; return upper bounds on their norms, and which are present."""
        count, d = X.shape
        lengths, present = np.empty(count), np.ones(count, dtype=bool)
        X = prepared(X) if compiled else X
        # Compiled, rows in C order are read once and leave no temporaries: in one piece.
        whole = compiled and not as_columns(X)
        for part in [slice(0, count)] if whole else cache_slices(count, d):
            factors = np.ones(0)
            if self._euclidean:
                ends = thresholds(self.norm, d, self.feature_norm, _storing(rows.dtype))
                lengths[part] = shrink(X, part, *ends, rows[part], compiled=compiled)
            else:
                lengths[part] = row_norms(self._padded(X[part]), self.norm)
                factors = self._factors(lengths[part], d, rows.dtype)
                scale(X, part, factors, rows[part])
            odd = np.flatnonzero(~(lengths[part] <= HUGE))
            if len(odd):
                work = np.asarray(X[part][odd], dtype=np.float64)
                present[part][odd] = finite = np.isfinite(work).all(axis=1)
                huge = self._shrink(self._padded(work[finite]), rows.dtype)
                rows[part][odd[finite], :d] = huge[:, :d]
            self._flush(rows[part, :d], factors[:, None])
        if self.intercept is not None:
            rows[:, d] = _round_down(self.intercept, rows.dtype)
        norms = self._norms(lengths, d)
        present &= readable
        null = np.flatnonzero(~present)
        rows[null], norms[null] = 0.0, FLOOR
        return norms, present

    def _clip_sparse(
        self, X: SparseRows, readable: Mask, dtype: np.dtype[Any]
    ) -> tuple[SparseRows, Floats, Mask]:
        """Return sparse rows and the same; a null row stores nothing."""
        d = X.width
        span = slice(int(X.offsets[0]), int(X.offsets[-1]))
        offsets, sizes = X.offsets - X.offsets[0], np.diff(X.offsets)
        raw, columns = np.asarray(X.values[span], dtype=np.float64), X.columns[span]
        work = SparseRows(raw, columns, offsets, self.width(d))
        lengths = row_norms(work, self.norm)
        factors = self._factors(lengths, d, dtype)
        values = (raw * np.repeat(factors, sizes)).astype(dtype)
        infinite = reduce_segments(np.maximum, ~np.isfinite(raw), offsets) > 0.0
        huge = ~(lengths <= HUGE) & ~infinite
        if np.any(huge):
            chosen = take_rows(work, np.flatnonzero(huge))
            values[np.repeat(huge, sizes)] = self._shrink(chosen, dtype)
        present = readable & ~infinite
        self._flush(values, np.repeat(factors, sizes))
        norms = np.where(present, self._norms(lengths, d), FLOOR)
        clipped = SparseRows(values, columns, offsets, self.width(d))
        return _assemble(clipped, present, self.intercept), norms, present

    def _factors(self, lengths: Floats, d: int, dtype: np.dtype[Any]) -> Floats:
        """Return by what each row is multiplied, given its computed length."""
        return shrink_factors(lengths, self.norm, d, self.feature_norm, _storing(dtype))

    def _shrink(self, huge: Rows, dtype: np.dtype[Any]) -> Any:
        """Return huge rows rescaled."""
        return shrink_huge(huge, self.norm, self.feature_norm, _storing(dtype))

    def _flush(self, values: NDArray[Any], factors: Floats) -> None:
        """Set subnormal products to 0 where large weights would magnify their rounding."""
        if not isinstance(self.norm, Lp):
            small = np.abs(values) < np.finfo(values.dtype).tiny
            values[small & (factors != 1.0)] = 0.0

    def _norms(self, lengths: Floats, d: int) -> Floats:
        """Return upper bounds on the norms of clipped rows, intercept included."""
        # A rescaled row had a length above c (1 - e): rounded up it is above c, and c is returned.
        upper = np.minimum(round_up(lengths, self.norm, d), self.feature_norm)
        return upper if self.intercept is None else self._with_intercept(upper)

    def _with_intercept(self, features: Floats) -> Floats:
        """Return a bound on a row's norm from that of its features, rounded up."""
        b = float(self.intercept or 0.0)
        p = getattr(self.norm, "p", None)
        if isinstance(self.norm, WeightedLp):
            b = b * self.norm.weights[-1] * _UP
        elif not isinstance(self.norm, Lp):  # the triangle inequality holds in every norm
            last = np.zeros(self.norm.dimension or 1)
            last[-1] = b
            return np.asarray((features + float(self.norm(last))) * _UP)
        if p == math.inf:
            return np.maximum(features, b)
        if p == 2.0:  # limits between 1e-100 and 1e100: no square leaves the range of float64
            return np.asarray(np.sqrt(features * features + b * b) * _UP)
        pair = np.stack(np.broadcast_arrays(features, b), axis=-1)
        return np.asarray(Lp(float(p or 2.0))(pair) * _UP)

    def _padded(self, rows: Floats) -> Floats:
        """Return the rows as the norm wants them: with a zero for the intercept if it counts."""
        if self.intercept is None or self.norm.dimension is None:
            return rows
        return np.concatenate([rows, np.zeros((len(rows), 1))], axis=1)


def _assemble(rows: SparseRows, present: Mask, intercept: float | None) -> SparseRows:
    """Return sparse rows without what null rows store, and with the intercept's column."""
    stored = np.repeat(present, np.diff(rows.offsets))
    sizes = np.diff(rows.offsets) * present
    values, columns = rows.values[stored], rows.columns[stored]
    if intercept is not None:
        ends = np.cumsum(sizes)[present]
        values = np.insert(values, ends, _round_down(intercept, rows.dtype))
        columns = np.insert(columns, ends, rows.width - 1)
        sizes = sizes + present
    offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes)])
    return SparseRows(values, columns.astype(np.int32), offsets.astype(np.int64), rows.width)


def _round_down(value: float, dtype: np.dtype[Any]) -> Any:
    """Return the largest number of the type that does not exceed ``value`` > 0."""
    nearest = dtype.type(value)
    return np.nextafter(nearest, dtype.type(0)) if float(nearest) > value else nearest


def _storing(dtype: np.dtype[Any]) -> float:
    """Return what rounding to the type of the rows may add to a length, relatively."""
    return 2.0**-23 if dtype == np.float32 else 0.0


def describe_norm(norm: Norm) -> str:
    """Return a norm's name for a sentence: l2, or its record."""
    return f"l{norm.p:g}" if isinstance(norm, Lp) else repr(norm)
