"""Coefficients that predict: public numbers, the outcome of a private fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._validate import shown
from ..data.labels import Classes
from ..data.prediction import prediction_rows
from ..errors import DataError, ParameterError
from .spec import MODELS

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class LinearModel:
    """A linear model.

    Two classes have one row of coefficients, which speaks for the second class; more have one row
    per class; numbers have one row.
    """

    name: str  # a key of `MODELS`
    coef: Floats  # (1 or classes, d)
    intercept: Floats  # (1 or classes,)
    classes: tuple[Any, ...] | None = None  # declared labels, in order
    label_range: tuple[float, float] | None = None  # to which predicted numbers are clipped

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

    @property
    def d(self) -> int:
        """The number of features."""
        return int(self.coef.shape[1])

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
        return scores[:, 0] if len(self.intercept) == 1 else scores

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
        if self.name != "logistic":
            raise ParameterError(f"a {self.name} model has scores, but no probabilities.")
        scores = self.decision(X)
        if scores.ndim == 1:
            scores = np.column_stack([np.zeros(len(scores)), scores])
        shifted = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))
