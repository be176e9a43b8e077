"""Everything public about a model: its loss, the bounds of a row, the domain, the penalty.

A `ModelConfig` is made without data. It states the problem that a solver minimises, in scaled
labels, and turns that problem's weights into a model in the label's own units.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _validate
from ..data.bounds import Bounds
from ..data.labels import Classes, Scaled
from ..errors import ParameterError
from ..geometry.domains import Domain, L2Ball, WholeSpace
from ..losses.penalties import L2Penalty, NoPenalty, Penalty
from ..problem import Problem
from .linear import LinearModel
from .spec import MODELS, ModelSpec

INTERCEPT = 0.3  # the constant column of the intercept, as a part of feature_norm

_NORM_HELP = (
    "feature_norm is the largest Euclidean length of a row's features; longer rows are shortened "
    "to it. Take it from what is publicly known, never from the private rows: with d features "
    "scaled to [-1, 1] it is at most sqrt(d). A `data.Schema` computes it, and "
    'bounds="private" spends a part of the budget on estimating it.'
)
_CLASSES_HELP = (
    "List every label that may occur, for example classes=['no', 'yes']. They are declared, since "
    "classes read off the private rows would reveal that somebody has a rare one; a row with "
    "another label is left out of the fit."
)
_RANGE_HELP = (
    "label_range=(low, high) is the range that labels are known to have before the private rows "
    "are looked at; labels outside are clipped to it. For a price: (0, the highest one that "
    'matters). bounds="private" spends a part of the budget on estimating it.'
)


@dataclass(frozen=True)
class ModelConfig:
    """A model before it is fitted; see `configure`."""

    kind: str
    bounds: Bounds
    classes: tuple[Any, ...] | None = None
    radius: float | None = None
    alpha: float = 0.0
    scale: float | None = None
    settings: Mapping[str, float | None] = field(default_factory=dict)

    @property
    def unit(self) -> float:
        """What one unit of a scaled label is worth."""
        return self.bounds.label.unit if isinstance(self.bounds.label, Scaled) else 1.0

    def problem(self) -> Problem:
        """Return what is minimised, in scaled labels."""
        kind = MODELS[self.kind]
        count = 0 if self.classes is None else len(self.classes)
        domain: Domain = WholeSpace()
        if self.radius is not None:
            domain = L2Ball(_validate.positive("radius", self.radius) / self.unit)
        alpha = _validate.non_negative("alpha", self.alpha) * self.unit ** (2 - kind.degree)
        penalty: Penalty = L2Penalty(alpha) if alpha > 0.0 else NoPenalty()
        scale = self.scale
        if scale is not None:
            scale = _validate.positive("scale", scale) / self.unit
        loss = kind.loss(self.settings, unit=self.unit, classes=count)
        return Problem(loss=loss, bounds=self.bounds, domain=domain, penalty=penalty, scale=scale)

    def model(self, weights: NDArray[Any]) -> LinearModel:
        """Return the model that the weights of `problem` stand for."""
        count = 0 if self.classes is None else len(self.classes)
        matrix = np.asarray(weights, dtype=float).reshape(-1, count if count > 2 else 1).T
        constant, label = self.bounds.intercept, self.bounds.label
        coef, intercept = matrix, np.zeros(len(matrix))
        if constant is not None:
            coef, intercept = matrix[:, :-1], matrix[:, -1] * constant
        ends = None
        if isinstance(label, Scaled):
            coef, intercept = coef * label.unit, intercept * label.unit + label.centre
            ends = (label.low, label.high)
        return LinearModel(self.kind, np.array(coef), np.array(intercept), self.classes, ends)


def configure(
    kind: str,
    *,
    feature_norm: float | None,
    classes: Any = None,
    label_range: tuple[float, float] | None = None,
    intercept: bool | float = True,
    radius: float | None = None,
    alpha: float = 0.0,
    scale: float | None = None,
    settings: Mapping[str, float | None] | None = None,
) -> ModelConfig:
    """Return the public side of a model.

    Args:
        kind: a name in `MODELS`.
        feature_norm: bound on the Euclidean length of a row's features.
        classes: of a classifier, every label that may occur.
        label_range: of a regression, (low, high).
        intercept: whether there is one; a number is the constant of its column as a part of
            ``feature_norm`` (True: 0.3).
        radius: bound on the Euclidean length of the weights, in units of label / feature.
        alpha: strength of the penalty ``alpha / 2 ||weights||^2``.
        scale: a guess of the length of good weights, where ``radius`` is None or too large a guess.
        settings: of the kind, for example {"quantile": 0.9}.

    Raises:
        ParameterError: a bound is missing; the message says how to choose one.

    >>> setup = configure("logistic", feature_norm=1.0, classes=["no", "yes"])
    >>> setup.problem().loss, setup.model(np.array([3.0, 1.0])).coef.tolist()
    (Logistic(), [[3.0]])
    """
    found = known_model(kind)
    if feature_norm is None:
        raise ParameterError(f"a {kind} model needs feature_norm. {_NORM_HELP}")
    norm = _validate.positive("feature_norm", feature_norm, hint=_NORM_HELP)
    label: Classes | Scaled
    if found.classifies:
        if label_range is not None:
            raise ParameterError(f"a {kind} model has classes, no label_range. {_CLASSES_HELP}")
        values = declared(classes)
        label = Classes(*values)
    else:
        if classes is not None:
            raise ParameterError(f"a {kind} model has a label_range, no classes. {_RANGE_HELP}")
        values, label = None, Scaled(*_ends(label_range), centred=bool(intercept))
    part = INTERCEPT if intercept is True else float(intercept)
    column = _validate.positive("intercept", part) * norm if intercept else None
    bounds = Bounds(norm, label=label, intercept=column)
    setup = ModelConfig(kind, bounds, values, radius, alpha, scale, dict(settings or {}))
    setup.problem()  # refuses here what it would refuse later
    return setup


def known_model(kind: str) -> ModelSpec:
    """Return the kind of that name, or refuse with the names there are."""
    _validate.choice("kind", kind, tuple(MODELS))
    return MODELS[kind]


def declared(classes: Any) -> tuple[Any, ...]:
    """Return the declared classes as plain Python values, or explain what they are."""
    if classes is None or isinstance(classes, (str, bytes)) or not hasattr(classes, "__iter__"):
        raise ParameterError(
            f"a classifier needs classes, got {_validate.shown(classes)}. {_CLASSES_HELP}"
        )
    values = tuple(v.item() if isinstance(v, np.generic) else v for v in classes)
    if len(values) < 2:
        raise ParameterError(
            f"a classifier needs at least two classes, got {_validate.shown(list(values))}. "
            f"{_CLASSES_HELP}"
        )
    return values


def _ends(label_range: Any) -> tuple[float, float]:
    """Return both ends of the range, or explain what it is."""
    if label_range is None:
        raise ParameterError(f"a regression needs label_range. {_RANGE_HELP}")
    if not isinstance(label_range, (tuple, list, np.ndarray)) or len(label_range) != 2:
        raise ParameterError(
            f"label_range must be (low, high), got {_validate.shown(label_range)}. {_RANGE_HELP}"
        )
    return label_range[0], label_range[1]
