"""A few rows, already clipped: the only form in which rows reach a query or a loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..geometry.norms import L2, Norm
from ..kernels.rows import Rows, SparseRows
from .row_norms import upper_norms

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class Block:
    """Rows, labels, upper bounds on the rows' norms, and which rows are present.

    Made by `dpsco.data.Bounds.apply`. A null row (not ``present``) has only zeros, its intercept
    included, and the default label. Slices share memory with the whole; nothing can be written to.
    """

    rows: Rows  # C order, float32 or float64, intercept last; or sparse
    labels: Floats  # clipped, or codes of the declared classes; zeros if there are none
    norms: Floats  # no row's norm exceeds its entry, in exact arithmetic
    present: Mask
    norm: Norm = L2  # in which `norms` are measured
    # Norms in other norms, NaN where not yet found: one array for the whole and all its slices.
    _known: dict[Norm, Floats] = field(default_factory=dict)
    _begin: int = 0  # where this slice begins in the whole
    _total: int = -1  # rows of the whole; -1: this is the whole
    _single: SingleRows | None = None  # of the whole, where it pays

    def __post_init__(self) -> None:
        # Whoever changed a row in place could make it larger than its bound.
        object.__setattr__(self, "rows", _sealed_rows(self.rows))
        for name in ("labels", "norms", "present"):
            object.__setattr__(self, name, _sealed(getattr(self, name)))

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def d(self) -> int:
        """Columns, the intercept included."""
        return int(self.rows.shape[1])

    def __getitem__(self, part: slice) -> Block:
        begin, end, step = part.indices(len(self))
        if step != 1:
            raise IndexError("blocks are sliced without a step")
        if begin == 0 and end == len(self):
            return self  # nothing can be written to
        part = slice(begin, max(begin, end))
        return Block(
            self.rows[part],
            self.labels[part],
            self.norms[part],
            self.present[part],
            self.norm,
            self._known,
            self._begin + begin,
            len(self) if self._total < 0 else self._total,
            self._single,
        )

    def take(self, indices: Indices) -> Block:
        """Return a copy of the rows at ``indices``, in that order."""
        return Block(
            take_rows(self.rows, indices),
            self.labels[indices],
            self.norms[indices],
            self.present[indices],
            self.norm,
        )

    def norms_in(self, norm: Norm) -> Floats:
        """Return upper bounds on the rows' norms in any norm, computed once for each row."""
        if norm == self.norm:
            return self.norms
        if norm not in self._known:
            total = len(self) if self._total < 0 else self._total
            self._known[norm] = np.full(total, np.nan)
        result = self._known[norm][self._begin : self._begin + len(self)]
        if np.any(np.isnan(result)):
            result[:] = upper_norms(self.rows, norm)
        return _sealed(result)

    def single(self) -> NDArray[np.float32] | None:
        """Return dense rows rounded to float32, if there are such; made once for each row."""
        return None if self._single is None else self._single.part(self.rows, self._begin)

    def __repr__(self) -> str:
        kind = "sparse" if isinstance(self.rows, SparseRows) else "dense"
        return f"<Block: {len(self)} rows of {self.d} {self.rows.dtype} numbers, {kind}>"


class SingleRows:
    """Dense rows of a whole table in single precision: twice as fast to multiply by.

    Only for what may be a little off: no bound on a row rests on them.
    """

    def __init__(self, rows: int, columns: int) -> None:
        self._shape = rows, columns
        # The rows, and which of them are there. One thread never sees what another has begun: both
        # are assigned at once, and rows are there when they have been copied.
        self._store: tuple[NDArray[np.float32], Mask] | None = None

    def part(self, rows: Any, begin: int) -> NDArray[np.float32]:
        """Return the rows that begin at a row of the whole."""
        store = self._store
        if store is None:
            store = np.empty(self._shape, dtype=np.float32), np.zeros(self._shape[0], dtype=bool)
            self._store = store
        singles, present = store
        part = slice(begin, begin + len(rows))
        if not present[part].all():
            np.copyto(singles[part], rows, casting="same_kind")
            present[part] = True
        return singles[part]


def with_single(block: Block) -> Block:
    """Return a block that can be had in single precision; slices of a whole share what it made."""
    if block._single is not None:
        return block
    total = len(block) if block._total < 0 else block._total
    return replace(block, _single=SingleRows(total, block.d))


def _sealed(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array, not to be written to through what is returned."""
    view: NDArray[Any] = array.view()
    view.flags.writeable = False
    return view


def _sealed_rows(rows: Rows) -> Rows:
    """Return dense or sparse rows, not to be written to."""
    if not isinstance(rows, SparseRows):
        return _sealed(rows)
    values, columns, offsets = map(_sealed, (rows.values, rows.columns, rows.offsets))
    return SparseRows(values, columns, offsets, rows.width)


def join(blocks: Sequence[Block]) -> Block:
    """Return one block with the rows of several, which must be of one kind; at least one."""
    if len(blocks) == 1:
        return blocks[0]
    return Block(
        join_rows([block.rows for block in blocks]),
        np.concatenate([block.labels for block in blocks]),
        np.concatenate([block.norms for block in blocks]),
        np.concatenate([block.present for block in blocks]),
        blocks[0].norm,
    )


def join_rows(parts: Sequence[Rows]) -> Rows:
    """Return the rows of all parts, one after the other."""
    sparse = [part for part in parts if isinstance(part, SparseRows)]
    if not sparse:
        return np.concatenate([part for part in parts if not isinstance(part, SparseRows)])
    sizes = [np.diff(part.offsets) for part in sparse]
    offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(np.concatenate(sizes))])
    spans = [(part, slice(int(part.offsets[0]), int(part.offsets[-1]))) for part in sparse]
    return SparseRows(
        np.concatenate([part.values[span] for part, span in spans]),
        np.concatenate([part.columns[span] for part, span in spans]),
        offsets,
        sparse[0].width,
    )


def matrix(rows: Rows) -> Any:
    """Return rows as an array or a SciPy matrix in CSR form."""
    return rows.matrix() if isinstance(rows, SparseRows) else rows


def take_rows(rows: Rows, indices: Indices) -> Rows:
    """Return a copy of some rows, in the order of ``indices``."""
    if not isinstance(rows, SparseRows):
        return np.take(rows, indices, axis=0)
    starts, sizes = rows.offsets[indices], np.diff(rows.offsets)[indices]
    offsets = np.zeros(len(indices) + 1, dtype=np.int64)
    np.cumsum(sizes, out=offsets[1:])
    # Position k of the copy, in row r, comes from starts[r] + (k - offsets[r]).
    places = np.repeat(starts - offsets[:-1], sizes) + np.arange(offsets[-1])
    return SparseRows(rows.values[places], rows.columns[places], offsets, rows.width)
