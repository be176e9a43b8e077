"""What a linear model without privacy loses, and what the best constant does.

The non-private model is the best of three penalties on the test rows: about the least loss of any
linear model, also where rows are few and no penalty at all would overfit.
"""

from __future__ import annotations

import numpy as np

from .tables import Split

PENALTIES = (1e-3, 1.0, 30.0)  # on the summed loss


def not_private(split: Split, kind: str) -> float:
    """Return the loss of the best linear model."""
    if kind == "class":
        return min(_logistic(split, penalty) for penalty in PENALTIES)
    fit = _absolute if kind == "absolute" else _squared
    return min(fit(split, penalty) for penalty in PENALTIES)


def constant(split: Split, kind: str) -> float:
    """Return the loss of the training rows' class frequencies, median or mean."""
    if kind == "class":
        shares = np.bincount(split.y, minlength=split.table.classes) / len(split.y)
        return split.score_classes(np.tile(shares, (len(split.y_test), 1)))
    middle = np.median(split.y) if kind == "absolute" else np.mean(split.y)
    return split.score_numbers(np.full(len(split.y_test), middle), kind)


def _logistic(split: Split, penalty: float) -> float:
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=1.0 / penalty, max_iter=300).fit(split.X, split.y)
    probabilities = np.zeros((len(split.y_test), split.table.classes))
    probabilities[:, model.classes_.astype(int)] = model.predict_proba(split.X_test)
    return split.score_classes(probabilities)


def _squared(split: Split, penalty: float) -> float:
    _, predicted = _solve(split, np.ones(len(split.X)), penalty)
    return split.score_numbers(predicted, "squared")


def _absolute(split: Split, penalty: float) -> float:
    """Return the loss after iteratively reweighted least squares."""
    low, high = split.table.ends
    weights = np.ones(len(split.X))
    for _ in range(40):
        fitted, predicted = _solve(split, weights, penalty)
        weights = 1.0 / np.maximum(np.abs(fitted - split.y) / (high - low), 1e-4)
        weights /= weights.mean()
    return split.score_numbers(predicted, "absolute")


def _solve(split: Split, weights: np.ndarray, penalty: float) -> tuple[np.ndarray, np.ndarray]:
    """Return what ridge regression with row weights predicts of the training and test rows."""
    total = weights.sum()
    centre, middle = weights @ split.X / total, weights @ split.y / total
    rows, labels = split.X - centre, split.y - middle
    gram = (rows * weights[:, None]).T @ rows + penalty * np.eye(rows.shape[1])
    coef = np.linalg.solve(gram, rows.T @ (weights * labels))
    predicted = (split.X_test - centre) @ coef + middle
    return rows @ coef + middle, predicted
