"""What X and y of a fit may be. Shapes and types are checked; what rows hold raises no error."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils.validation import check_array, column_or_1d, validate_data

from ..data.arrays import dense_rows, label_array, list_rows, sparse_rows
from ..data.columns import from_library, number_rows, open_frame
from ..data.table import Table, from_arrays
from ..errors import ParameterError


def training_table(
    estimator: Any, X: Any, y: Any = None, *, shift: NDArray[np.float64] | None = None
) -> Table:
    """Return the private table; remember the number and the names of the columns.

    Args:
        estimator: gets ``n_features_in_`` and ``feature_names_in_``.
        X: an array, a list of rows, a SciPy sparse matrix, a pandas or Polars frame.
        y: labels, one a row: an array, a list, a column; None where there are none.
        shift: public numbers that are added to every row.

    Raises:
        ValueError: a shape or type that cannot be used; none depends on what a row holds.
    """
    if isinstance(X, Table):
        raise ParameterError(
            f"{type(estimator).__name__} fits arrays and data frames, not a table of dpsco.data. "
            "The linear models fit one."
        )
    if isinstance(X, (list, tuple)):  # read entry by entry: one of them decides no type or error
        X = list_rows(X)
    validate_data(estimator, X, skip_check_array=True)
    if isinstance(X, np.ma.MaskedArray):
        dense_rows(X)  # refuses it, for its mask would be lost
    if not from_library(X):
        X = check_array(
            X,
            accept_sparse=True,
            dtype=None,
            ensure_all_finite=False,  # what is not finite makes a null row
            ensure_min_samples=2,  # the number of rows is public
            estimator=estimator,
        )
    if shift is not None and len(shift) not in (1, estimator.n_features_in_):
        raise ParameterError(
            f"centre must be a number, or one for each of {estimator.n_features_in_} features; "
            f"got {len(shift)}."
        )
    if shift is not None and shift.any():
        X = _shifted(X, shift)
    return from_arrays(_by_entry(X), _labels(y))


def given_table(estimator: Any, table: Table, y: Any) -> Table:
    """Return a table of `dpsco.data` that is fitted as it is; remember its columns.

    Raises:
        ParameterError: there are labels beside it.
    """
    if y is not None:
        raise ParameterError(
            f"a table of dpsco.data has its labels inside, but y was given as well. Call "
            f"{type(estimator).__name__}.fit(table)."
        )
    estimator.n_features_in_ = table.d
    estimator.__dict__.pop("feature_names_in_", None)  # of an earlier fit
    if table.feature_names is not None:
        estimator.feature_names_in_ = np.array(table.feature_names, dtype=object)
    return table


def rows_to_predict(estimator: Any, X: Any) -> Any:
    """Return rows as numbers; they are the caller's own, so what is wrong with them is said."""
    return validate_data(estimator, X, reset=False, accept_sparse="csr", dtype="numeric")


def _labels(y: Any) -> Any:
    if y is None:
        return None
    if isinstance(y, (list, tuple)) or (from_library(y) and len(np.shape(y)) == 1):
        return y
    if isinstance(y, np.ma.MaskedArray):
        return label_array(y)  # refuses it, for its mask would be lost
    return _by_entry(column_or_1d(y, warn=True))


def _shifted(X: Any, shift: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return rows, dense, with a public vector added to each."""
    if from_library(X):
        frame = open_frame(X, "fit")
        X = number_rows(frame, list(frame.columns))
    elif issparse(X):
        X = sparse_rows(X).matrix().toarray()  # SciPy itself would follow a column out of its row
    values = _by_entry(X)
    rows = list_rows(values) if isinstance(values, list) else dense_rows(values)
    with np.errstate(all="ignore"):  # a sum that overflows makes a null row
        return np.asarray(rows + shift, dtype=float)


def _by_entry(values: Any) -> Any:
    """Return an array of Python objects as a list, which is read entry by entry."""
    if isinstance(values, np.ndarray) and values.dtype.kind == "O":
        return values.tolist()
    return values
