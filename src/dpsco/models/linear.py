"""Coefficients that predict: public numbers, the outcome of a private fit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._validate import shown
from ..data.labels import Classes
from ..data.prediction import PredictionRows, prediction_rows
from ..data.units import Units
from ..errors import DataError, ParameterError
from ..kernels.rows import SparseRows
from .spec import MODELS

Floats = NDArray[np.float64]

_PIECE = 1 << 22  # numbers of sparse rows that are made dense at a time


@dataclass(frozen=True)
class LinearModel:
    """A linear model.

    Two classes have one row of coefficients, which speaks for the second class; more have one row
    per class; numbers have one row.

    A fit in units that were found has seen rows within a length of 1 in these units. Longer rows
    are shortened before they are predicted, as they were before the fit: the model knows nothing
    about rows beyond. All others are predicted by the coefficients as they stand.
    """

    name: str  # a key of `MODELS`
    coef: Floats  # (1 or classes, d)
    intercept: Floats  # (1 or classes,)
    classes: tuple[Any, ...] | None = None  # declared labels, in order
    label_range: tuple[float, float] | None = None  # to which predicted numbers are clipped
    units: Units | None = None  # that were found, in which the rows of the fit were at most 1 long

    def __post_init__(self) -> None:
        if self.name not in MODELS or MODELS[self.name].classifies == (self.classes is None):
            raise ParameterError(
                f"a model is one of {', '.join(MODELS)}, and classifiers alone have classes; got "
                f"{shown(self.name)} with classes {shown(self.classes)}."
            )
        if self.classes is not None:
            Classes(*self.classes)  # two or more, all different
        rows = 1 if self.classes is None or len(self.classes) == 2 else len(self.classes)
        fits = self.coef.ndim == 2 and len(self.coef) == rows and self.intercept.shape == (rows,)
        if not (fits and np.isfinite(self.coef).all() and np.isfinite(self.intercept).all()):
            raise ParameterError(
                f"such a model has {rows} x d finite coefficients and {rows} intercepts, "
                f"got shapes {self.coef.shape} and {self.intercept.shape}."
            )
        if self.units is not None and not self.units.fit(self.d):
            raise ParameterError(f"the model's units are for other rows than of {self.d} features.")

    @property
    def d(self) -> int:
        """The number of features."""
        return int(self.coef.shape[1])

    @property
    def odds(self) -> bool:
        """Whether scores are the logarithms of odds, so that there are probabilities."""
        return MODELS[self.name].odds

    def decision(self, X: Any) -> Floats:
        """Return one score per row: (rows,), or (rows, classes) for more than two classes.

        Args:
            X: (rows, d) numbers: an array, a list of rows, a SciPy sparse matrix or a data frame.

        Raises:
            DataError: X has another width or type, or an entry that is no finite number.
        """
        rows = prediction_rows(X)
        if rows.shape[1] != self.d:
            raise DataError(f"the model is for rows of {self.d} features, got {rows.shape}.")
        scores = np.asarray(rows.rows @ self.coef.T) + self.intercept
        if self.units is not None:
            self._shorten(rows, self.units, scores)
        return scores[:, 0] if len(self.intercept) == 1 else scores

    def _shorten(self, rows: PredictionRows, units: Units, scores: Floats) -> None:
        """Give rows that a fit in these units would have cut the scores of what it has seen."""
        raw = rows.rows
        if not isinstance(raw, np.ndarray) and units.centre is not None:
            # Of a model that was fitted on dense rows: measured from a centre few entries are 0.
            step = max(1, _PIECE // self.d)
            for begin in range(0, raw.shape[0], step):
                piece = slice(begin, begin + step)
                self._shorten(PredictionRows(raw[piece].toarray()), units, scores[piece])
            return
        if not isinstance(raw, np.ndarray):
            raw = SparseRows(raw.data, raw.indices, raw.indptr, raw.shape[1])
        mapped = units.apply(raw)
        values: Any = mapped.matrix() if isinstance(mapped, SparseRows) else mapped
        squares = values.multiply(values) if isinstance(mapped, SparseRows) else values**2
        lengths = np.sqrt(np.asarray(squares.sum(axis=1)).reshape(-1))
        far = np.flatnonzero((lengths > 1.0) | units.exceeded(raw))
        centre = np.zeros(1) if units.centre is None else units.centre
        base = self.intercept + self.coef @ np.broadcast_to(centre, (self.d,))
        seen = np.asarray(values[far] @ (self.coef * units.scale).T)
        scores[far] = base + seen / np.maximum(lengths[far], 1.0)[:, None]

    def sparsified(self, count: int) -> LinearModel:
        """Return the model with the weights of ``count`` columns, the largest; the others are 0.

        >>> LinearModel("linear", np.array([[3.0, -5.0, 1.0]]), np.zeros(1)).sparsified(2).coef
        array([[ 3., -5.,  0.]])
        """
        if count >= self.d:
            return self
        size = np.max(np.abs(self.coef), axis=0)
        largest = np.argsort(-size, kind="stable")[:count]
        coef = np.zeros_like(self.coef)
        coef[:, largest] = self.coef[:, largest]
        return replace(self, coef=coef)

    def spread(self, columns: NDArray[np.int64], d: int) -> LinearModel:
        """Return the model of rows of ``d`` features of which it reads these columns alone."""
        coef = np.zeros((len(self.coef), d))
        coef[:, columns] = self.coef
        return replace(self, coef=coef)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the predicted class or number of each row."""
        if self.classes is not None:
            return np.asarray(np.asarray(self.classes)[self.places(X)])
        scores = self.decision(X)
        return scores if self.label_range is None else np.clip(scores, *self.label_range)

    def places(self, X: Any) -> NDArray[np.int64]:
        """Return the predicted class of each row as its place among the classes."""
        scores = self.decision(X)
        places = scores > 0 if scores.ndim == 1 else np.argmax(scores, axis=1)
        return np.asarray(places, dtype=np.int64)

    def probabilities(self, X: Any) -> Floats:
        """Return each row's probability of each class; logistic models alone have them."""
        if not self.odds:
            raise ParameterError(f"a {self.name} model has scores, but no probabilities.")
        scores = self.decision(X)
        if scores.ndim == 1:
            scores = np.column_stack([np.zeros(len(scores)), scores])
        shifted = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))
