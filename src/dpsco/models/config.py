"""Everything public about a model: its loss, the bounds of a row, the domain, the penalty.

A `ModelConfig` is made without data. It states the problem that a solver minimises, in scaled
labels, and turns that problem's weights into a model in the label's own units. It travels in the
plan of a fit: whoever carries the plan out knows which model the weights belong to.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _validate
from ..data.bounds import Bounds
from ..data.labels import Classes, Scaled
from ..data.schema.encoder import TableEncoder
from ..data.schema.schema import ClassLabel, Label, NumberLabel, Schema
from ..data.units import Units
from ..errors import ParameterError
from ..losses.penalties import L2Penalty, NoPenalty, Penalty
from ..problem import Problem
from ..solvers.base import BasePlan
from ..solvers.serialization import decode, encode
from .linear import LinearModel
from .spec import MODELS, SPARSIFY, ModelSpec
from .unit_rules import UnitSearch

INTERCEPT = 0.3  # the constant column of the intercept, as a part of feature_norm

_NORM_HELP = (
    "feature_norm is the largest Euclidean length of a row's features; longer rows are shortened "
    "to it. Take it from what is publicly known, never from the private rows: with d features "
    "scaled to [-1, 1] it is at most sqrt(d). A `data.Schema` computes it, and "
    'bounds="auto" of the estimators spends a part of the budget on finding it.'
)
_CLASSES_HELP = (
    "List every label that may occur, for example classes=['no', 'yes']. They are declared, since "
    "classes read off the private rows would reveal that somebody has a rare one; a row with "
    "another label is left out of the fit."
)
_RANGE_HELP = (
    "label_range=(low, high) is the range that labels are known to have before the private rows "
    "are looked at; labels outside are clipped to it. For a price: (0, the highest one that "
    'matters). bounds="auto" of the estimators spends a part of the budget on finding it.'
)


@dataclass(frozen=True)
class ModelConfig:
    """A model before it is fitted; see `configure`."""

    name: str  # a key of `MODELS`
    bounds: Bounds
    classes: tuple[Any, ...] | None = None
    radius: float | None = None
    alpha: float = 0.0
    scale: float | None = None
    settings: Mapping[str, float | None] = field(default_factory=dict)
    units: UnitSearch | None = None  # which units are found; the bounds are then of rows in units

    @property
    def unit(self) -> float:
        """What one unit of a scaled label is worth."""
        return self.bounds.label.unit if isinstance(self.bounds.label, Scaled) else 1.0

    @property
    def centre(self) -> float:
        """Which label a scaled label of 0 stands for."""
        return self.bounds.label.centre if isinstance(self.bounds.label, Scaled) else 0.0

    def problem(self) -> Problem:
        """Return what is minimised, in scaled labels."""
        spec = MODELS[self.name]
        count = 0 if self.classes is None else len(self.classes)
        domain = spec.domain(self.radius, unit=self.unit)
        alpha = _validate.non_negative("alpha", self.alpha) * self.unit ** (2 - spec.degree)
        penalty: Penalty = L2Penalty(alpha) if alpha > 0.0 else NoPenalty()
        scale = self.scale
        if scale is not None:
            scale = _validate.positive("scale", scale) / self.unit
        loss = spec.loss(self.settings, unit=self.unit, classes=count)
        return Problem(loss=loss, bounds=self.bounds, domain=domain, penalty=penalty, scale=scale)

    def in_units(self) -> ModelConfig:
        """Return the same model for rows of length 1, in units that are to be found."""
        norm, column = self.bounds.feature_norm, self.bounds.intercept
        intercept = None if column is None else column / norm
        return replace(self, bounds=replace(self.bounds, feature_norm=1.0, intercept=intercept))

    def model(self, weights: NDArray[Any], units: Units | None = None) -> LinearModel:
        """Return the model of raw rows that the weights of `problem` stand for.

        Args:
            weights: that minimise the problem.
            units: in which the rows of the fit were measured, where these were found.
        """
        count = 0 if self.classes is None else len(self.classes)
        matrix = np.asarray(weights, dtype=float).reshape(-1, count if count > 2 else 1).T
        constant, label = self.bounds.intercept, self.bounds.label
        if units is not None and units.label is not None:
            label = units.label
        coef, intercept = matrix, np.zeros(len(matrix))
        if constant is not None:
            coef, intercept = matrix[:, :-1], matrix[:, -1] * constant
        ends = None
        if isinstance(label, Scaled):
            coef, intercept = coef * label.unit, intercept * label.unit + label.centre
            ends = (label.low, label.high)
        if units is not None:  # here, and nowhere else
            coef, intercept = units.fold(coef, intercept)
        if self.units is not None and self.units.features == "declared":
            units = None  # only the labels' range was found: rows have their declared length
        # Of rows in declared units nothing was found: they are predicted as they are.
        mapped = self.units is not None and self.units.features != "declared"
        model = LinearModel(
            self.name,
            np.array(coef),
            np.array(intercept),
            self.classes,
            ends,
            units if mapped else None,
        )
        sparsity = self.settings.get(SPARSIFY)
        if sparsity is None:
            return model
        return model.sparsified(int(sparsity))  # of public numbers: it costs nothing

    def weights(self, model: LinearModel, column: float) -> NDArray[np.float64]:
        """Return the weights of `problem` that stand for a model of raw rows, as `model` undone.

        Args:
            model: fitted in whatever units.
            column: the constant of the intercept's column, in declared units.
        """
        constant = (model.intercept - self.centre) / self.unit / column
        return np.asarray(np.column_stack([model.coef / self.unit, constant]).T.ravel())

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values, as a plan holds them."""
        return {
            "name": self.name,
            "bounds": encode(self.bounds),
            "classes": None if self.classes is None else list(self.classes),
            "radius": self.radius,
            "alpha": self.alpha,
            "scale": self.scale,
            "settings": dict(self.settings),
            "units": None if self.units is None else self.units.to_json(),
        }

    @classmethod
    def from_json(cls, record: Any) -> ModelConfig:
        """Rebuild a configuration.

        Raises:
            ParameterError: a part is missing, unknown or out of range.
        """
        try:
            fields = {"units": None, **record}  # older files have none
            if set(fields) != {item.name for item in dataclasses.fields(cls)}:
                raise TypeError("its fields are not those of a model")
            classes, bounds = fields.pop("classes"), decode(fields.pop("bounds"))
            units = UnitSearch.from_json(fields.pop("units"))
            classes = None if classes is None else tuple(classes)
            config = cls(bounds=bounds, classes=classes, units=units, **fields)
            known_model(config.name)
            config.problem()  # refuses what is out of range
            return config
        except (LookupError, TypeError, ValueError, AttributeError) as problem:
            why = _validate.reason(problem)
            raise ParameterError(f"this is not the record of a model: {why}") from None

    def put_into(self, plan: BasePlan) -> BasePlan:
        """Return the plan with this model's record inside."""
        return replace(plan, model=self.to_json())


def config_of(plan: BasePlan) -> ModelConfig | None:
    """Return the model that a plan was made for; None if it was made for a problem alone.

    Raises:
        ParameterError: the record is damaged, or its problem is not the plan's.
    """
    if plan.model is None:
        return None
    config = ModelConfig.from_json(plan.model)
    if config.problem() != plan.problem:
        raise ParameterError(
            f"the plan minimises {plan.problem}, which is not the problem of its {config.name} "
            "model."
        )
    return config


def configure(
    name: str,
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
        name: a key of `MODELS`.
        feature_norm: bound on the Euclidean length of a row's features.
        classes: of a classifier, every label that may occur.
        label_range: of a regression, (low, high).
        intercept: whether there is one; a number is the constant of its column as a part of
            ``feature_norm`` (True: 0.3). A simplex model has none.
        radius: bound on the weights, in units of label / feature: on their Euclidean length, or as
            the model says (`ModelSpec.shape`).
        alpha: strength of the penalty ``alpha / 2 ||weights||^2``.
        scale: a guess of the length of good weights, where ``radius`` is None or too large a guess.
        settings: of the model, for example {"quantile": 0.9}.

    Raises:
        ParameterError: a bound is missing; the message says how to choose one.

    >>> config = configure("logistic", feature_norm=1.0, classes=["no", "yes"])
    >>> config.problem().loss, config.model(np.array([3.0, 1.0])).coef.tolist()
    (Logistic(), [[3.0]])
    """
    spec = known_model(name)
    if feature_norm is None:
        raise _validate.refusal("feature_norm", f"is needed for a {name} model.", _NORM_HELP)
    norm = _validate.positive("feature_norm", feature_norm, hint=_NORM_HELP)
    if spec.shape == "simplex":
        intercept = False  # which would take a share of the sum
    label: Classes | Scaled
    if spec.classifies:
        if label_range is not None:
            raise _validate.refusal("label_range", f"is not for a {name} model: it has classes.")
        values = declared(classes)
        label = Classes(*values)
    else:
        if classes is not None:
            raise _validate.refusal("classes", f"are not for a {name} model: it has a label_range.")
        values, label = None, Scaled(*_ends(label_range), centred=bool(intercept))
    part = INTERCEPT if intercept is True else float(intercept)
    column = _validate.positive("intercept", part) * norm if intercept else None
    bounds = Bounds(norm, label=label, intercept=column)
    config = ModelConfig(name, bounds, values, radius, alpha, scale, dict(settings or {}))
    config.problem()  # refuses here what it would refuse later
    return config


def configure_for(
    schema: Schema,
    name: str | None = None,
    *,
    feature_norm: float | None = None,
    intercept: bool | float = True,
    radius: float | None = None,
    alpha: float = 0.0,
    scale: float | None = None,
    settings: Mapping[str, float | None] | None = None,
) -> ModelConfig:
    """Return the public side of a model of tables that a schema describes.

    Args:
        schema: declares the label, and how long a row can be.
        name: a key of `MODELS`; by default "logistic" for classes, "huber" for numbers.
        feature_norm: a smaller bound than the schema's; longer rows are shortened to it.
        intercept, radius, alpha, scale, settings: as in `configure`.

    Raises:
        ParameterError: the schema has no label, or one that the model does not predict.
    """
    label = require_label(schema)
    numeric = isinstance(label, NumberLabel)
    name = usual_model(numeric=numeric) if name is None else name
    if known_model(name).classifies == numeric:
        has, wants = ("a range of numbers", "classes") if numeric else ("classes", "numbers")
        raise ParameterError(
            f"a {name} model predicts {wants}, but the schema's label {label.name!r} is of {has}. "
            "Choose another model, or declare the label otherwise."
        )
    encoder = TableEncoder(schema)
    norm = encoder.feature_norm
    if feature_norm is not None:
        norm = min(norm, _validate.positive("feature_norm", feature_norm))
    codes = range(len(label.values)) if isinstance(label, ClassLabel) else (-1, 1)
    config = configure(
        name,
        feature_norm=norm,
        classes=None if numeric else codes,
        label_range=(label.low, label.high) if isinstance(label, NumberLabel) else None,
        intercept=intercept,
        radius=radius,
        alpha=alpha,
        scale=scale,
        settings=settings,
    )
    if numeric:
        return config
    bounds = replace(config.bounds, label=encoder.label_rule)  # what the encoder makes of labels
    return replace(config, bounds=bounds, classes=declared_classes(label))


def usual_model(*, numeric: bool) -> str:
    """Return the model of a label for which none is named.

    Of numbers the robust one: it limits how far one row can pull the fit, so it needs less noise,
    and heavy tails do not rule it. Who wants means rather than typical values asks for squares.
    """
    return "huber" if numeric else "logistic"


def require_label(schema: Schema) -> Label:
    """Return the label that a schema declares; refuse one that declares none."""
    if schema.label is None:
        raise ParameterError(
            'the schema declares no label, so there is nothing to predict. Add "label": {"name": '
            '..., "kind": "classes" or "number", ...} to it.'
        )
    return schema.label


def declared_classes(label: Label) -> tuple[Any, ...] | None:
    """Return the classes that a label may have, or None for numbers."""
    if isinstance(label, NumberLabel):
        return None
    return label.values if isinstance(label, ClassLabel) else (-1, 1)


def known_model(name: str) -> ModelSpec:
    """Return the model of that name, or refuse with the names there are."""
    _validate.choice("model", name, tuple(MODELS))
    return MODELS[name]


def declared(classes: Any) -> tuple[Any, ...]:
    """Return the declared classes as plain Python values, or explain what they are."""
    if classes is None or isinstance(classes, (str, bytes)) or not hasattr(classes, "__iter__"):
        raise ParameterError(
            f"a classifier needs classes, got {_validate.shown(classes)}.",
            parameter="classes",
            hint=_CLASSES_HELP,
        )
    values = tuple(v.item() if isinstance(v, np.generic) else v for v in classes)
    if len(values) < 2:
        raise ParameterError(
            f"a classifier needs at least two classes, got {_validate.shown(list(values))}.",
            parameter="classes",
            hint=_CLASSES_HELP,
        )
    return values


def _ends(label_range: Any) -> tuple[float, float]:
    """Return both ends of the range, or explain what it is."""
    if label_range is None:
        raise _validate.refusal("label_range", "is needed for a regression.", _RANGE_HELP)
    if not isinstance(label_range, (tuple, list, np.ndarray)) or len(label_range) != 2:
        text = f"must be (low, high), got {_validate.shown(label_range)}."
        raise _validate.refusal("label_range", text, _RANGE_HELP)
    return label_range[0], label_range[1]
