"""`TableEncoder` as a transformer of scikit-learn: columns to numbers by public facts alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from ..data.schema import encoder as data
from ..data.schema.columns import from_library, named_table, to_arrow
from ..data.schema.schema import Schema
from ..data.tables.arrow import require
from ..errors import DataError, ParameterError

Self = TypeVar("Self", bound="TableEncoder")


class TableEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turn the columns of a table into numbers, as a schema says.

    It learns nothing: `fit` looks at names and types of columns and at no entry, and `transform`
    works without it. So it may stand in a `Pipeline` in front of a private estimator, where a
    `StandardScaler` or a `OneHotEncoder` would tell about the rows what nobody has paid for.

    Parameters
    ----------
    schema : Schema, str or Path
        What the columns may hold: a `dpsco.data.Schema`, or the path of a schema file.
    sparse_output : bool, optional
        Whether rows are sparse. By default the public number of columns decides.
    dtype : {"float64", "float32"}, optional
        The type of the numbers; ``"float64"`` by default.

    Attributes
    ----------
    n_features_in_ : int
        The number of columns of the table that `fit` has seen.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, if it was a data frame.

    Examples
    --------
    >>> import pandas as pd
    >>> import dpsco as dp
    >>> from dpsco.data import Flag, Number, Schema
    >>> encoder = dp.TableEncoder(Schema((Number("age", 0, 100), Flag("owner"))))
    >>> encoder.fit_transform(pd.DataFrame({"age": [25, None], "owner": [True, False]}))
    array([[-0.5,  1. ],
           [ 0. , -1. ]])
    >>> encoder.get_feature_names_out()
    array(['age', 'owner'], dtype=object)
    """

    n_features_in_: int
    feature_names_in_: NDArray[Any]

    def __init__(
        self,
        schema: Schema | str | Path,
        *,
        sparse_output: bool | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        self.schema = schema
        self.sparse_output = sparse_output
        self.dtype = dtype

    @property
    def table_encoder(self) -> data.TableEncoder:
        """The encoder of `dpsco.data` that does the work, as ``from_frame`` takes it."""
        return data.TableEncoder(
            self.schema, sparse=self.sparse_output, dtype=self.dtype or np.float64
        )

    @property
    def feature_norm(self) -> float:
        """The largest norm that an encoded row can have; no row has to be read to know it."""
        return self.table_encoder.feature_norm

    @property
    def classes(self) -> tuple[Any, ...] | None:
        """The classes of the schema's label; None if it has none."""
        return self.table_encoder.classes

    def fit(self: Self, X: Any, y: Any = None) -> Self:
        """Check the names and types of columns; no entry is looked at.

        Parameters
        ----------
        X : data frame, or array-like of shape (n_samples, n_columns)
            The table: a frame with the schema's columns in any order, with the label's column or
            without it; or an array whose columns stand in the schema's order.
        y : object, optional
            Ignored.

        Returns
        -------
        Self
            The encoder.

        Raises
        ------
        DataError
            A column is missing, not declared, or of a type that does not fit.
        """
        table = self._table(X, self.table_encoder.schema)
        if table.num_rows == 0:
            raise DataError("0 sample(s): a table needs at least one row.")
        names = list(table.schema.names)
        self.n_features_in_ = len(names)
        self.__dict__.pop("feature_names_in_", None)
        if from_library(X):
            self.feature_names_in_ = np.array(names, dtype=object)
        return self

    def transform(self, X: Any) -> Any:
        """Return the rows as numbers.

        Parameters
        ----------
        X : data frame, or array-like of shape (n_samples, n_columns)
            The table, as `fit` takes it. What is missing, or not as declared, follows the schema.

        Returns
        -------
        ndarray or sparse matrix of shape (n_samples, n_features_out)
            The encoded rows; a data frame after ``set_output(transform="pandas")``.

        Raises
        ------
        DataError
            A column is missing, not declared, or of a type that does not fit. No error depends on
            an entry.
        """
        encoder = self.table_encoder
        return encoder.features(self._table(X, encoder.schema))

    def set_output(self: Self, *, transform: str | None = None) -> Self:
        """Choose what `transform` returns.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"}, optional
            Arrays, or frames with the names of the encoded columns. None changes nothing.

        Returns
        -------
        Self
            The encoder.
        """
        super().set_output(transform=transform)
        return self

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the encoded columns.

        Parameters
        ----------
        input_features : array-like of str, optional
            Only compared with the names that `fit` has seen.

        Returns
        -------
        ndarray of str
            The names.

        Raises
        ------
        DataError
            ``input_features`` are others than those of the fit.
        """
        known = getattr(self, "feature_names_in_", None)
        if input_features is not None and known is not None:
            names = list(map(str, input_features))
            if names != list(known):
                raise DataError("input_features is not equal to feature_names_in_: leave it out.")
        return np.array(self.table_encoder.feature_names, dtype=object)

    def _table(self, X: Any, schema: Schema) -> Any:
        """Return a table that fits the schema, as Arrow."""
        if not from_library(X):
            return named_table(X, schema)
        table = to_arrow(X, schema)
        pairs = zip(table.schema.names, table.schema.types, strict=True)
        require(schema, pairs, "the table", label=False)
        return table

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


def encoder_before(steps: Any) -> TableEncoder | None:
    """Return the encoder in the steps before an estimator; None if there are none.

    Raises:
        ParameterError: there is another step, which is not known to look at each row alone.
    """
    others = [step for _, step in steps if step is not None and step != "passthrough"]
    if not others:
        return None
    if len(others) == 1 and isinstance(others[0], TableEncoder):
        return others[0]
    names = ", ".join(type(step).__name__ for step in others)
    raise ParameterError(
        f"a pipeline may have one step before the estimator, a dpsco.TableEncoder, got {names}. "
        "Whatever is fitted on the rows, such as a scaler, would not be private, and errors of "
        "other steps can quote rows. Declare ranges and categories in a schema."
    )
