"""What X and y may be. Shapes and types are checked; no error of a fit depends on a row."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.validation import validate_data

from ..data.labels import LONGEST_CLASS, Classes, label_kind
from ..data.prediction import PredictionRows, prediction_rows
from ..data.schema.columns import from_library, open_frame
from ..data.tables.arrays import (
    as_array,
    label_array,
    listed_labels,
    numbers_of,
    raw_labels,
    raw_rows,
)
from ..data.tables.table import Table, labelled_rows
from ..errors import DataError, ParameterError
from ..kernels.rows import Rows, SparseRows
from ..models.config import declared as declared_classes

_LEAST_ROWS = 2  # of a fit; their number is public


def training_table(
    estimator: Any, X: Any, y: Any = None, *, shift: NDArray[np.float64] | None = None
) -> Table:
    """Return the private table; remember the number and the names of the columns.

    Everything is read and refused here. scikit-learn's own checks would quote rows, so it only sees
    the columns' names and number, after that.

    Args:
        estimator: gets ``n_features_in_`` and ``feature_names_in_``.
        X: an array, a list of rows, a SciPy sparse matrix, a pandas or Polars frame.
        y: labels, one per row: an array, a list, a column; None if there are none.
        shift: public numbers that are added to every row.

    Raises:
        DataError: a shape or type that cannot be used; none depends on what a row holds.
    """
    if isinstance(X, Table):
        raise ParameterError(
            f"{type(estimator).__name__} fits arrays and data frames, not a table of dpsco.data. "
            "The linear models fit one."
        )
    rows = raw_rows(X)
    n, d = rows.shape
    name = type(estimator).__name__
    if d < 1:
        raise DataError(
            f"0 feature(s) (shape=({n}, 0)) while a minimum of 1 is required by {name}."
        )
    if n < _LEAST_ROWS:
        raise DataError(f"{n} sample(s) while a minimum of {_LEAST_ROWS} is required by {name}.")
    if shift is not None and len(shift) not in (1, d):
        raise ParameterError(
            f"centre must be a number, or one for each of {d} features; got {len(shift)}.",
            parameter="centre",
        )
    labels = _labels(y)
    _check_columns(estimator, X if from_library(X) else rows, reset=True)
    if shift is not None and shift.any():
        rows = _shifted(rows, shift)
    return labelled_rows(rows, labels)


def labelled_table(estimator: Any, table: Table, y: Any) -> Table:
    """Return a table of `dpsco.data` with its labels inside; remember its columns.

    Raises:
        ParameterError: ``y`` was passed as well.
        DataError: an encoder's schema declares other labels than the estimator.
    """
    if y is not None:
        raise ParameterError(
            f"a table of dpsco.data has its labels inside, but y was given as well. Call "
            f"{type(estimator).__name__}.fit(table)."
        )
    _check_encoded(estimator, table)
    estimator.n_features_in_ = table.d
    estimator.__dict__.pop("feature_names_in_", None)  # of an earlier fit
    if table.feature_names is not None:
        estimator.feature_names_in_ = np.array(table.feature_names, dtype=object)
    return table


def _check_encoded(estimator: Any, table: Table) -> None:
    """Refuse a table whose schema declares other labels than the estimator, in its own words."""
    if table.encoded is None:
        return
    name, declared = type(estimator).__name__, table.encoded.classes
    if declared is None and table.encoded.rule == "sign":
        declared = (-1, 1)
    if not hasattr(estimator, "classes"):
        if declared is not None:
            raise DataError(
                f"{name} predicts numbers, but the label of the table's schema has classes. Use a "
                "classifier, or declare the label as a number in the schema."
            )
        return
    if declared is None:
        raise DataError(
            f"{name} predicts classes, but the label of the table's schema has none. Use a "
            "regressor, or declare the label with kind 'classes' in the schema."
        )
    places = tuple(range(len(declared)))
    if set(declared) == set(places) and declared != places:
        raise DataError(
            f"the table's schema lists the classes as {list(declared)!r}, whose places are the "
            f"same numbers. List them as {list(places)!r}, so that nobody takes one for the other."
        )
    values = Classes(*declared_classes(estimator.classes)).values
    if values != places and set(values) != set(declared):
        raise DataError(
            f"the table's schema declares the classes {list(declared)!r}: pass "
            f"{name}(classes={list(declared)!r})."
        )


def rows_to_predict(estimator: Any, X: Any) -> PredictionRows:
    """Return rows as finite numbers; they are the caller's own, so errors may say what is wrong.

    Raises:
        DataError: a shape, type or entry that cannot be used, or other columns than those of the
            fit; no entry is quoted.
    """
    rows = prediction_rows(X)
    if rows.shape[0] == 0:
        raise DataError("0 sample(s): there is no row to predict.")
    _check_columns(estimator, X if from_library(X) else rows.rows, reset=False)
    return rows


def scored_labels(y: Any, count: int, *, text: bool) -> NDArray[Any]:
    """Return labels to compare ``count`` predictions with; a missing label equals no prediction.

    Args:
        y: labels, as `fit` takes them.
        count: how many there must be.
        text: whether predictions are strings.

    Raises:
        DataError: a shape or type that cannot be used; no label is quoted.
    """
    labels, missing, _ = raw_labels(_labels(y))
    if labels is None or len(labels) != count:
        number = "none" if labels is None else f"{len(labels)} labels"
        raise DataError(f"X has {count} rows, but y has {number}.")
    if isinstance(labels, tuple):
        labels, missing = listed_labels(labels, text=text)
    if (label_kind(labels) == "text") != text:
        kinds = ("strings", "numbers") if text else ("numbers", "strings")
        raise DataError(f"predictions are {kinds[0]}, but the labels in y are {kinds[1]}.")
    if missing is not None:  # no class is that long
        labels = np.where(missing, "\0" * (LONGEST_CLASS + 1) + "!", labels)
    return labels


def _check_columns(estimator: Any, X: Any, *, reset: bool) -> None:
    """Have scikit-learn remember or compare the columns' number and names, which are public."""
    problem = ""
    try:
        validate_data(estimator, X, reset=reset, skip_check_array=True)
    except (TypeError, ValueError) as refusal:
        problem = str(refusal)
    if problem:
        raise DataError(problem)


def row_weights(weights: Any, count: int) -> NDArray[np.float64] | None:
    """Return how much each row of a score counts, as finite numbers; None for all alike.

    Raises:
        DataError: not one for each row, not finite, below zero, or all zero.
    """
    if weights is None:
        return None
    values = numbers_of(np.ravel(as_array("sample_weight", weights)))
    if len(values) != count:
        raise DataError(f"sample_weight needs one number for each of {count} rows.")
    if not (np.isfinite(values).all() and (values >= 0.0).all() and values.any()):
        raise DataError("sample_weight needs finite numbers of at least 0, and one above.")
    return values


def _labels(y: Any) -> Any:
    """Return labels in one axis; a single column is flattened, with a warning."""
    if y is None or isinstance(y, (list, tuple)):
        return y
    if from_library(y):
        shape: tuple[int, ...] = getattr(y, "shape", ())
        if len(shape) != 2 or shape[1] != 1:
            return y  # a column; what is none is refused where it is read
        _warn_of_column()
        frame = open_frame(y, "fit")
        return frame.get_column(frame.columns[0]).to_native()
    if not isinstance(y, np.ndarray) and hasattr(type(y), "__array__"):
        y = as_array("y", y)
    if isinstance(y, np.ndarray) and y.ndim == 2 and y.shape[1] == 1:
        label_array(y[:, 0])  # refuses what it would refuse later
        _warn_of_column()
        return y[:, 0]
    return y


def _warn_of_column() -> None:
    """Warn as scikit-learn does about labels in a column; the text tells nothing about them."""
    warnings.warn(
        "A column-vector y was passed when a 1d array was expected. Pass y.ravel().",
        DataConversionWarning,
        stacklevel=5,
    )


def _shifted(rows: Rows, shift: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return rows, dense, with a public vector added to each."""
    values = rows.dense() if isinstance(rows, SparseRows) else rows
    with np.errstate(all="ignore"):  # a sum that overflows makes a null row
        return np.asarray(values + shift, dtype=float)
