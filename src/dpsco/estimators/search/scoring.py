"""How good a model is on held-out rows: sums to which each row adds a bounded vector.

A search compares noisy scores, so a score must be a function of a sum whose sensitivity is known
before a row is read, or it cannot be used. Two forms are:

* **A mean of bounded errors** (`HeldOutErrors`): accuracy, absolute error, pinball loss, log-loss.
  A row adds an error that is scaled and clipped to [-1/2, 1/2] by a public number: 1 for a class,
  the range of labels for a distance, `LOSS_CAP` for a log-loss. Two rows differ by 1 at most.
* **Counts** (`ClassCounts`, `ScoreCounts`): balanced accuracy and the area under the ROC curve are
  no sums over rows: one row more in a rare class moves them by 1 / (rows of that class), which is
  not public. But both are functions of counts, and of these one row moves few by little. So noisy
  counts are released, and the score is computed from them, which costs nothing more.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ... import _validate
from ...data.block import Block, matrix
from ...data.bounds import Bounds
from ...data.labels import Classes, Scaled
from ...data.queries import Query
from ...data.source import Source
from ...errors import ParameterError
from ...geometry.norms import L2
from ...losses.quantile import Pinball
from ...models.evaluate import LOSS_CAP
from ...models.linear import LinearModel
from ..base import PrivateLinearModel

Floats = NDArray[np.float64]

BINS = 24
"""Into how many bins scores are sorted for the area under the curve."""

_UNCLIPPED = 1e50  # rows are scored as they are predicted: longer ones are not shortened
_ERRORS = "a held-out row's error lies between -1/2 and 1/2"


@dataclass(frozen=True)
class Scoring:
    """What is released of held-out rows, and the score that is made of it.

    Attributes:
        name: as scikit-learn calls it.
        bound: l2 bound on what one row adds.
        diameter: the largest distance of what two rows add, if it is below twice the bound.
        enforced: the bound in words.
        quantile: of the pinball loss.
    """

    name: str
    bound: float = 0.5
    diameter: float | None = None
    enforced: str = _ERRORS
    quantile: float | None = None

    def query(self, model: LinearModel, bounds: Bounds) -> Query:
        """Return what each row adds, for a model that was fitted within these bounds."""
        label = bounds.label
        assert isinstance(label, (Classes, Scaled))
        if self.name == "balanced_accuracy":
            assert isinstance(label, Classes)
            return ClassCounts(model, len(label.values))
        if self.name == "roc_auc":
            return ScoreCounts(model, score_edges(model, bounds))
        return HeldOutErrors(model, label, self.name, self.quantile)

    def order(self, noisy: Floats) -> float:
        """Return by what runs are compared: more is better."""
        if self.name == "balanced_accuracy":
            return balanced_accuracy(noisy)
        if self.name == "roc_auc":
            return area(noisy)
        return -float(noisy[0])

    def shown(self, order: float, held_out: int, label: Classes | Scaled) -> float:
        """Return the score as scikit-learn would scale it."""
        if self.name in _COUNTS:
            return order
        error = 0.5 - order / held_out  # from 0 to 1, but for the noise
        if self.name == "accuracy":
            return 1.0 - error
        if isinstance(label, Scaled):
            width = label.low - label.high
            return float(width * _worst(self.quantile) * error)
        return -LOSS_CAP * error


ACCURACY = Scoring("accuracy")
_COUNTS = {
    "balanced_accuracy": Scoring(
        "balanced_accuracy",
        math.nextafter(math.sqrt(1.25), 2.0),
        math.nextafter(math.sqrt(2.5), 2.0),
        "a held-out row adds 1 to the count of its class, and 1/2 or -1/2 to that of right ones",
    ),
    "roc_auc": Scoring(
        "roc_auc",
        1.0,
        math.nextafter(math.sqrt(2.0), 2.0),
        "a held-out row adds 1 to one count, of its class and the bin of its score",
    ),
}


def scoring_for(estimator: PrivateLinearModel, name: object) -> Scoring:
    """Return how an estimator's candidates are scored; refuse scores that it does not have.

    Raises:
        ParameterError: the score is unknown, or none of such a model.
    """
    if hasattr(estimator, "classes"):
        scores = ["accuracy", "balanced_accuracy"]
        if hasattr(estimator, "predict_proba"):
            scores.append("neg_log_loss")
        if estimator.classes is not None and len(estimator.classes) == 2:
            scores.append("roc_auc")
    else:
        scores = ["neg_mean_absolute_error"]
        if hasattr(estimator, "quantile"):
            scores.append("neg_mean_pinball_loss")
    name = scores[0] if name is None else name
    if name not in scores:
        meant = _validate.closest(name, scores) if isinstance(name, str) else ""
        raise ParameterError(
            f"{type(estimator).__name__} is scored by {' or '.join(map(repr, scores))}, got "
            f"{_validate.shown(name)}.{meant} A score must be made of sums to which each row adds "
            "a bounded part. Leave scoring out for the first of these.",
            parameter="scoring",
        )
    assert isinstance(name, str)
    if name in _COUNTS:
        return _COUNTS[name]
    pinball = name == "neg_mean_pinball_loss"
    quantile = float(estimator.quantile) if pinball else None
    return Scoring(name, quantile=quantile)


def scoring_bounds(bounds: Bounds) -> Bounds:
    """Return bounds under which rows keep their length, without the intercept's column."""
    return Bounds(_UNCLIPPED, label=bounds.label)


def _worst(quantile: float | None) -> float:
    """Return the largest slope of an error in the distance."""
    return 1.0 if quantile is None else max(quantile, 1.0 - quantile)


class _HeldOut(Query):
    """What rows that are not fitted add to a score of a public model."""

    model: LinearModel

    @property
    def trusted(self) -> tuple[str, ...]:
        """Nothing."""
        return ()

    def check(self, source: Source) -> None:
        """Rows have the model's own length."""
        self.model.decision(np.zeros((1, source.d)))


@dataclass(frozen=True, eq=False)
class HeldOutErrors(_HeldOut):
    """How wrong a public model is on each row, from -1/2 (right) to 1/2 (as wrong as can be).

    Centred, so that replacing a row moves the sum by 1 and no more. A null row contributes zero. A
    class is right or wrong; a number's error is its distance (or pinball loss) as a share of what
    the label's range allows; a log-loss counts up to `LOSS_CAP`, as a share of it.
    """

    model: LinearModel
    label: Classes | Scaled
    scoring: str = ""
    quantile: float | None = None

    @property
    def bound(self) -> float:
        """One half."""
        return 0.5

    @property
    def size(self) -> int:
        """One number."""
        return 1

    @property
    def enforced(self) -> tuple[str, ...]:
        """The bound."""
        return (_ERRORS,)

    def sum(self, block: Block) -> Floats:
        """Return the sum over a leaf of rows."""
        with np.errstate(all="ignore"):
            errors = self._errors(matrix(block.rows), block.labels)
        errors = np.where(np.isfinite(errors), np.clip(errors, -0.5, 0.5), 0.5)
        return np.array([np.sum(np.where(block.present, errors, 0.0))])

    def _errors(self, X: object, labels: Floats) -> Floats:
        if isinstance(self.label, Classes):
            truth = _places(labels, len(self.label.values))
            if self.scoring == "neg_log_loss":
                chances = self.model.probabilities(X)
                chance = chances[np.arange(len(truth)), truth]
                return np.asarray(np.minimum(-np.log(chance) / LOSS_CAP, 1.0) - 0.5)
            return np.asarray(np.where(self.model.places(X) == truth, -0.5, 0.5))
        width = self.label.high - self.label.low
        true = self.label.centre + self.label.unit * labels
        if self.quantile is None:
            return np.asarray(np.abs(self.model.predict(X) - true) / width - 0.5)
        losses = Pinball(self.quantile).value(self.model.predict(X), true)
        return np.asarray(losses / (width * _worst(self.quantile)) - 0.5)


class _Counts(_HeldOut):
    """Counts of rows: what one row adds is a vector of few numbers other than 0."""

    @property
    @abstractmethod
    def scoring(self) -> Scoring:
        """Whose bounds they have."""

    @property
    def bound(self) -> float:
        """The norm of what one row adds."""
        return self.scoring.bound

    @property
    def enforced(self) -> tuple[str, ...]:
        """The bound in words."""
        return (self.scoring.enforced,)


@dataclass(frozen=True, eq=False)
class ClassCounts(_Counts):
    """Rows of each class, and how many of these are right, less half of them.

    A row of class c adds ``(e_c, t e_c)``, e_c a unit vector and t = 1/2 if the model is right,
    -1/2 if not. Its squared norm is 1 + 1/4. Two rows of one class differ by 1 at most, in the
    second part; two of different classes by ``sqrt(1 + 1 + 1/4 + 1/4) = sqrt(5/2)``, and a row and
    a null row, which adds nothing, by ``sqrt(5/4)``. So the diameter is ``sqrt(5/2)``.
    """

    model: LinearModel
    classes: int

    @property
    def scoring(self) -> Scoring:
        """Balanced accuracy."""
        return _COUNTS["balanced_accuracy"]

    @property
    def size(self) -> int:
        """Two numbers for each class."""
        return 2 * self.classes

    def sum(self, block: Block) -> Floats:
        """Return the counts of a leaf; halves are exact."""
        with np.errstate(all="ignore"):
            truth = _places(block.labels, self.classes)
            right = np.where(self.model.places(matrix(block.rows)) == truth, 0.5, -0.5)
        here = block.present.astype(float)
        parts = [np.bincount(truth, w, self.classes) for w in (here, here * right)]
        return np.concatenate(parts)


@dataclass(frozen=True, eq=False)
class ScoreCounts(_Counts):
    """Rows by class and by the bin of their score: a histogram for each of two classes.

    A row adds a unit vector, whatever it holds: its norm is 1, two different unit vectors are
    ``sqrt(2)`` apart, and a null row, which adds nothing, is 1 away. The edges of the bins follow
    from the public model alone.
    """

    model: LinearModel
    edges: Floats

    @property
    def scoring(self) -> Scoring:
        """Area under the curve."""
        return _COUNTS["roc_auc"]

    @property
    def size(self) -> int:
        """A number for each class and bin."""
        return 2 * (len(self.edges) + 1)

    def sum(self, block: Block) -> Floats:
        """Return the counts of a leaf."""
        with np.errstate(all="ignore"):
            scores = self.model.decision(matrix(block.rows))
            bins = np.searchsorted(self.edges, scores)  # not finite: the last bin
        place = _places(block.labels, 2) * (len(self.edges) + 1) + bins
        counts = np.bincount(place, block.present.astype(float), self.size)
        return np.asarray(counts, dtype=float)


def _places(labels: Floats, classes: int) -> NDArray[np.int64]:
    """Return the place of each label among the classes; of two, rows know them as -1 and 1."""
    if classes == 2:
        return (labels > 0).astype(np.int64)
    return np.clip(np.nan_to_num(labels), 0, classes - 1).astype(np.int64)


def score_edges(model: LinearModel, bounds: Bounds) -> Floats:
    """Return edges of bins of scores, finer near the intercept: of public numbers alone."""
    norm = np.linalg.norm(model.coef) if bounds.norm == L2 else np.abs(model.coef).sum()
    steps = np.linspace(-1.0, 1.0, BINS + 1)[1:-1]
    return np.asarray(model.intercept[0] + float(norm) * bounds.feature_norm * steps**3)


def balanced_accuracy(counts: Floats) -> float:
    """Return the mean share of right predictions of a class, from noisy `ClassCounts`."""
    rows, right = np.split(counts, 2)
    shares = 0.5 + right / np.maximum(rows, 1.0)
    return float(np.mean(np.clip(shares, 0.0, 1.0)))


def area(counts: Floats) -> float:
    """Return the area under the ROC curve from noisy `ScoreCounts`; ties within a bin count half.

    >>> area(np.array([3.0, 1.0, 0.0, 0.0, 1.0, 3.0]))
    0.96875
    """
    negative, positive = np.split(np.maximum(counts, 0.0), 2)
    pairs = float(negative.sum() * positive.sum())
    below = np.cumsum(negative) - negative / 2.0
    return float(positive @ below) / pairs if pairs > 0.0 else 0.5
