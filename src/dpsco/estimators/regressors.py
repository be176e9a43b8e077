"""Regressors: least squares, and relatives that outliers disturb less or that aim at a quantile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from ..errors import DataError
from ..models.linear import LinearModel
from .base import PrivateLinearModel, described
from .inputs import row_weights, scored_labels


@dataclass(eq=False, repr=False, kw_only=True)
class PrivateRegressor(RegressorMixin, PrivateLinearModel):  # type: ignore[misc]
    """A linear regressor with a declared range of labels."""

    label_range: tuple[float, float] | None = None

    _labels_text: ClassVar[str] = """label_range: (low, high) of the labels; others are clipped to
    it, and so are predictions. Declared, never read off the rows.
"""
    _attributes_text: ClassVar[str] = """coef_, intercept_: (features,) and a number, in the label's
    own units; the plan is in labels scaled to [-1, 1].
"""

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the predicted number of each row, within ``label_range``."""
        rows = self._rows(X)
        return self.model_.predict(rows)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the coefficient of determination on rows of the caller's own.

        Args:
            X: rows, as `predict` takes them.
            y: one number a row.
            sample_weight: how much each row counts; None for all alike.

        Raises:
            DataError: a shape or type that cannot be used, or a label that is missing or not
                finite; no entry is quoted.
        """
        predicted = self.predict(X)
        labels = scored_labels(y, len(predicted), text=False)
        if not np.isfinite(labels).all():
            raise DataError("y contains NaN, infinity, or a label that is no number.")
        weights = row_weights(sample_weight, len(predicted))
        return float(r2_score(labels, predicted, sample_weight=weights))

    def _label_rule(self) -> dict[str, Any]:
        return {"label_range": self.label_range}

    def _publish(self, model: LinearModel) -> None:
        self.coef_, self.intercept_ = model.coef[0], float(model.intercept[0])


@described
@dataclass(eq=False, repr=False, kw_only=True)
class PrivateLinearRegression(PrivateRegressor):
    """Least squares under differential privacy.

    >>> import numpy as np
    >>> X = np.linspace(-1, 1, 2000)[:, None]
    >>> model = PrivateLinearRegression(1.0, feature_norm=1.0, label_range=(0, 10))
    >>> bool(abs(model.fit(X, 5 + 3 * X[:, 0]).predict([[1.0]])[0] - 8) < 2)
    True
    """

    _kind: ClassVar[str] = "linear"


@described
@dataclass(eq=False, repr=False, kw_only=True)
class PrivateHuberRegressor(PrivateRegressor):
    """Huber's regression: residuals beyond a threshold pull with a bounded force.

    Args:
        threshold: in units of the label; None is a twentieth of the range.
    """

    threshold: float | None = None

    _kind: ClassVar[str] = "huber"
    _settings: ClassVar[tuple[str, ...]] = ("threshold",)


@described
@dataclass(eq=False, repr=False, kw_only=True)
class PrivateQuantileRegressor(PrivateRegressor):
    """Regression of a quantile: the prediction lies above that part of the labels.

    Args:
        quantile: between 0 and 1; 0.5 is the median.
    """

    quantile: float = 0.5

    _kind: ClassVar[str] = "quantile"
    _settings: ClassVar[tuple[str, ...]] = ("quantile",)


@described
@dataclass(eq=False, repr=False, kw_only=True)
class PrivateAbsoluteRegressor(PrivateRegressor):
    """Least absolute residuals: best where the mean absolute error counts."""

    _kind: ClassVar[str] = "absolute"


@described
@dataclass(eq=False, repr=False, kw_only=True)
class PrivateSVR(PrivateRegressor):
    """Linear support vector regression: residuals within a width cost nothing.

    Args:
        width: in units of the label; None is a fortieth of the range.
    """

    width: float | None = None

    _kind: ClassVar[str] = "epsilon_insensitive"
    _settings: ClassVar[tuple[str, ...]] = ("width",)
