"""Coefficients in the units of a table: per year of age, and not per half of its range."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..data.schema.encoder import TableEncoder
from ..errors import DataError
from .linear import LinearModel

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class TableCoefficients:
    """What a model adds to a score for each unit of a column.

    A score is ``intercept + coef @ v``. Numbers count in v as they stand in the table (within their
    range), dates in whole units since 1970, a flag as 1 or 0, a category as 1 at its own place; a
    missing number counts as the middle of its range, a missing flag as 1/2.

    Attributes:
        names: of the encoded columns.
        coef: (1 or classes, columns).
        intercept: (1 or classes,).
    """

    names: tuple[str, ...]
    coef: Floats
    intercept: Floats

    def __str__(self) -> str:
        room = max(map(len, (*self.names, "(intercept)")))
        columns = [("(intercept)", self.intercept), *zip(self.names, self.coef.T, strict=True)]
        return "\n".join(
            f"{name:<{room}}" + "".join(f"  {value:>12.6g}" for value in values)
            for name, values in columns
        )


def table_coefficients(model: LinearModel, encoder: TableEncoder) -> TableCoefficients:
    """Return a model's coefficients in the units of the table that an encoder reads.

    Raises:
        DataError: the encoder makes rows of another number of columns.

    >>> from dpsco.data import Number, Schema
    >>> model = LinearModel("linear", np.array([[10.0]]), np.array([50.0]))
    >>> print(table_coefficients(model, TableEncoder(Schema((Number("age", 0, 100),)))))
    (intercept)            40
    age                   0.2
    """
    if encoder.width != model.d:
        raise DataError(
            f"the model has {model.d} coefficients, the schema makes rows of {encoder.width}."
        )
    centre, scale = encoder.units
    coef = model.coef / scale
    return TableCoefficients(encoder.feature_names, coef, model.intercept - coef @ centre)
