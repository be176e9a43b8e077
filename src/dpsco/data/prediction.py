"""Rows to predict: read as rows to fit are, but what cannot be predicted is refused.

They are the caller's own rows, and one prediction is owed for each: a row that cannot be read has
none, so that an error is the only honest answer. It names types and shapes, and never an entry.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import DataError
from ..kernels.rows import SparseRows
from .block import matrix
from .tables.arrays import raw_rows


@dataclass(frozen=True, eq=False, repr=False)
class PredictionRows:
    """Rows that were looked at: an array of finite numbers, or a SciPy matrix in CSR form."""

    rows: Any

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return int(self.rows.shape[0]), int(self.rows.shape[1])


def prediction_rows(X: Any) -> PredictionRows:
    """Return rows of finite numbers; rows that were looked at are not looked at again.

    Args:
        X: whatever `from_arrays` takes. The columns of a sparse matrix are checked here: SciPy
            would follow a wrong one out of its arrays.

    Raises:
        DataError: a wrong shape or type, or an entry that is missing, no number or not finite.
    """
    if isinstance(X, PredictionRows):
        return X
    rows = raw_rows(X)
    values = rows.values if isinstance(rows, SparseRows) else rows
    if not np.isfinite(values).all():
        raise DataError(
            "X contains NaN, infinity, or an entry that is no number: such a row has no "
            "prediction. Leave those rows out, or fill them in as it was done before the fit."
        )
    return PredictionRows(matrix(rows))
