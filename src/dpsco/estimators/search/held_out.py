"""How good a model is on held-out rows, as a bounded sum that can be released with noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from ...data.block import Block
from ...data.bounds import Bounds
from ...data.labels import Classes, Scaled
from ...data.queries import Query
from ...kernels.rows import SparseRows
from ...models.linear import LinearModel

if TYPE_CHECKING:
    from ...data.source import Source

Floats = NDArray[np.float64]

_UNCLIPPED = 1e50  # rows are scored as they are predicted: longer ones are not shortened


def scoring_bounds(bounds: Bounds) -> Bounds:
    """Return bounds under which rows keep their length, without the intercept's column."""
    return Bounds(_UNCLIPPED, label=bounds.label)


@dataclass(frozen=True, eq=False)
class HeldOutErrors(Query):
    """How wrong a public model is on each row, from -1/2 (right) to 1/2 (as wrong as can be).

    Centred, so that replacing a row moves the sum by 1 and no more. A null row contributes zero. A
    class is right or wrong; a number's error is its distance as a share of the label's range.
    """

    model: LinearModel
    label: Classes | Scaled

    @property
    def bound(self) -> float:
        """One half."""
        return 0.5

    @property
    def size(self) -> int:
        """One number."""
        return 1

    @property
    def enforced(self) -> tuple[str, ...]:
        """The bound."""
        return ("a held-out row's error lies between -1/2 and 1/2",)

    @property
    def trusted(self) -> tuple[str, ...]:
        """Nothing."""
        return ()

    def check(self, source: Source) -> None:
        """Rows have the model's own length."""
        self.model.decision(np.zeros((1, source.d)))

    def sum(self, block: Block) -> Floats:
        """Return the sum over a leaf of rows."""
        with np.errstate(all="ignore"):
            errors = self._errors(_matrix(block.rows), block.labels)
        errors = np.where(np.isfinite(errors), np.clip(errors, -0.5, 0.5), 0.5)
        return np.array([np.sum(np.where(block.present, errors, 0.0))])

    def _errors(self, X: Any, labels: Floats) -> Floats:
        if isinstance(self.label, Classes):
            scores = self.model.decision(X)
            if scores.ndim == 1:
                return np.asarray(np.where((scores > 0) == (labels > 0), -0.5, 0.5))
            return np.asarray(np.where(np.argmax(scores, axis=1) == labels, -0.5, 0.5))
        width = self.label.high - self.label.low
        true = self.label.centre + self.label.unit * labels
        return np.asarray(np.abs(self.model.predict(X) - true) / width - 0.5)


def _matrix(rows: Any) -> Any:
    """Return rows that can be multiplied."""
    if isinstance(rows, SparseRows):
        begin, end = int(rows.offsets[0]), int(rows.offsets[-1])
        parts = (rows.values[begin:end], rows.columns[begin:end], rows.offsets - begin)
        return csr_matrix(parts, shape=rows.shape)
    return rows
