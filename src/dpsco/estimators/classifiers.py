"""Classifiers: logistic regression and support vectors, for two classes or many, in one budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin

from ..models.linear import LinearModel
from .base import PrivateLinearModel, described
from .inputs import row_weights, scored_labels


@dataclass(eq=False, repr=False, kw_only=True)
class PrivateClassifier(ClassifierMixin, PrivateLinearModel):  # type: ignore[misc]
    """A linear classifier with declared classes."""

    classes: Sequence[Any] | None = None

    _labels_text: ClassVar[str] = """classes: every label that may occur, two or more; declared,
    never read off the rows.
"""
    _attributes_text: ClassVar[str] = """coef_, intercept_: (1, features) and (1,) for two classes,
    else one row a class.
classes_: the declared classes.
"""

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return a score a row: (rows,) for two classes, (rows, classes) for more."""
        rows = self._rows(X)
        return self.model_.decision(rows)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the predicted class of each row."""
        rows = self._rows(X)
        return self.model_.predict(rows)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the part of the caller's own rows whose predicted class is their label.

        A label that is missing or no class counts as one that was not predicted.

        Args:
            X: rows, as `predict` takes them.
            y: one label a row.
            sample_weight: how much each row counts; None for all alike.

        Raises:
            DataError: a shape or type that cannot be used; no entry is quoted.
        """
        predicted = self.predict(X)
        labels = scored_labels(y, len(predicted), text=predicted.dtype.kind == "U")
        right = np.asarray(predicted == labels, dtype=float)
        return float(np.average(right, weights=row_weights(sample_weight, len(right))))

    def _label_rule(self) -> dict[str, Any]:
        return {"classes": self.classes}

    def _publish(self, model: LinearModel) -> None:
        self.classes_ = np.asarray(model.classes)
        self.coef_, self.intercept_ = model.coef, model.intercept


@described
@dataclass(eq=False, repr=False, kw_only=True)
class PrivateLogisticRegression(PrivateClassifier):
    """Logistic regression under differential privacy, for two classes or more.

    Many classes are one multinomial model, fitted within one budget.

    >>> X, y = np.array([[0.1, 0.9], [0.8, 0.2]] * 500), np.array(["no", "yes"] * 500)
    >>> model = PrivateLogisticRegression(1.0, feature_norm=1.0, classes=["no", "yes"])
    >>> model.fit(X, y).predict([[0.9, 0.1]]).tolist(), model.certificate_.verify().ok
    (['yes'], True)
    """

    _kind: ClassVar[str] = "logistic"

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return each row's probability of each class."""
        rows = self._rows(X)
        return self.model_.probabilities(rows)

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the logarithms of `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))


@described
@dataclass(eq=False, repr=False, kw_only=True)
class PrivateSVC(PrivateClassifier):
    """Linear support vector classification under differential privacy.

    More than two classes are fitted one against the rest, all within one budget.

    Args:
        power: of the hinge loss, from 1 (the hinge itself) to 2 (its square).
    """

    power: float = 1.0

    _kind: ClassVar[str] = "svc"
    _settings: ClassVar[tuple[str, ...]] = ("power",)
