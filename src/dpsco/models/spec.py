"""The models by name: which loss they minimise and which settings they have.

Losses see labels that are scaled to [-1, 1] (`data.Scaled`); a setting in units of the label, such
as Huber's threshold, is divided by what one scaled unit is worth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from .. import _validate, losses
from ..errors import ParameterError
from ..geometry.domains import Domain, L1Ball, L2Ball, Simplex, WholeSpace
from ..problem import Loss

_SUM_OF_SIZES = "It bounds the sum of the weights' sizes"
_GENEROUS = "three times as much costs little. For weights without such a bound use a"
_ODDS_HELP = (
    f"{_SUM_OF_SIZES}. Ten columns that each move the odds by a factor of e^3 where they are 1 "
    f"make 30; {_GENEROUS} logistic model."
)
_LABEL_HELP = (
    f"{_SUM_OF_SIZES}, in units of label / feature. Ten columns that each move the label by 3 "
    f"where they are 1 make 30; {_GENEROUS} linear model."
)
_SIMPLEX_HELP = (
    "It is what the weights, none of which is below 0, add up to, in units of label / feature: 1 "
    "for weighted means of columns in units of the label."
)

SPARSIFY = "sparsify"  # a setting of the fitted model, which its loss does not see

Settings = Mapping[str, float]
Maker = Callable[[Settings, int], Loss]


@dataclass(frozen=True)
class ModelSpec:
    """A model with a name: its loss and its settings."""

    name: str
    summary: str
    make: Maker  # from settings in scaled units, and the number of classes
    classifies: bool = False
    degree: int = 0
    """The loss of a residual u times as large is u**degree times as large."""

    settings: Settings = field(default_factory=dict)
    """Defaults, in scaled units where they are in units of the label."""

    lengths: tuple[str, ...] = ()
    """The settings that are in units of the label."""

    sparsifies: bool = False
    """Whether the setting `sparsify` says how many weights the fitted model keeps."""

    shape: str = "l2"
    """Of the set of weights that a radius bounds: "l2" or "l1" for balls, or "simplex"."""

    odds: bool = False
    """Whether scores are the logarithms of odds."""

    def domain(self, radius: float | None, *, unit: float) -> Domain:
        """Return the set of weights that a radius leaves, in scaled units.

        Raises:
            ParameterError: the radius is no length; or there is none, and the shape needs one.
        """
        if self.shape == "l2":
            if radius is None:
                return WholeSpace()
            return L2Ball(_validate.positive("radius", radius) / unit)
        help_ = _SIMPLEX_HELP if self.shape == "simplex" else _LABEL_HELP
        help_ = _ODDS_HELP if self.odds else help_
        if radius is None:
            raise _validate.refusal("radius", f"is needed for a {self.name} model.", help_)
        size = _validate.positive("radius", radius, hint=help_) / unit
        return L1Ball(size) if self.shape == "l1" else Simplex(size)

    def loss(self, settings: Mapping[str, float | None], *, unit: float, classes: int) -> Loss:
        """Return the loss of scaled labels.

        Args:
            settings: by name, in the label's own units; what is left out or None has its default.
            unit: what one scaled unit of the label is worth.
            classes: how many there are; 0 for numbers.

        Raises:
            ParameterError: the model has no such setting, or it is out of range.
        """
        own = (*self.settings, SPARSIFY) if self.sparsifies else tuple(self.settings)
        unknown = sorted(set(settings) - set(own))
        if unknown:
            known = ", ".join(own) or "none"
            raise ParameterError(
                f"a {self.name} model has no setting {unknown[0]!r}; its settings are: {known}."
            )
        if settings.get(SPARSIFY) is not None:
            _validate.integer(SPARSIFY, settings[SPARSIFY])
        scaled = {
            name: _validate.positive(name, value) / (unit if name in self.lengths else 1.0)
            for name, value in settings.items()
            if value is not None and name in self.settings
        }
        return self.make({**self.settings, **scaled}, classes)


def _logistic(settings: Settings, classes: int) -> Loss:
    return losses.Logistic() if classes == 2 else losses.Softmax(classes)


def _svc(settings: Settings, classes: int) -> Loss:
    power = settings["power"]
    if not 1.0 <= power <= 2.0:
        raise ParameterError(
            f"power is that of the hinge loss, between 1 (the hinge) and 2 (its square); got "
            f"{power!r}."
        )
    special = {1.0: losses.Hinge(), 2.0: losses.SquaredHinge()}
    loss = special.get(power) or losses.QHinge(power)
    return loss if classes == 2 else losses.OneVersusRest(loss, classes)


def _quantile(settings: Settings, classes: int) -> Loss:
    level = settings["quantile"]
    if not (math.isfinite(level) and 0.0 < level < 1.0):
        raise ParameterError(
            f"quantile must lie between 0 and 1, got {level!r}.", parameter="quantile"
        )
    return losses.Pinball(level)


_ALL = (
    ModelSpec(
        "logistic",
        "logistic regression, also of many classes",
        _logistic,
        classifies=True,
        odds=True,
    ),
    ModelSpec(
        "sparse_logistic",
        "logistic regression with a bound on the sum of the weights' sizes",
        _logistic,
        classifies=True,
        sparsifies=True,
        shape="l1",
        odds=True,
    ),
    ModelSpec(
        "svc",
        "support vector classification: the hinge loss, or a power of it",
        _svc,
        classifies=True,
        settings={"power": 1.0},
    ),
    ModelSpec(
        "linear", "linear regression: least squares", lambda s, _: losses.Squared(), degree=2
    ),
    ModelSpec(
        "lasso",
        "least squares with a bound on the sum of the weights' sizes",
        lambda s, _: losses.Squared(),
        degree=2,
        sparsifies=True,
        shape="l1",
    ),
    ModelSpec(
        "simplex",
        "least squares with weights of at least 0 and a given sum",
        lambda s, _: losses.Squared(),
        degree=2,
        shape="simplex",
    ),
    ModelSpec(
        "huber",
        "linear regression that large residuals pull with a bounded force",
        lambda s, _: losses.Huber(s["threshold"]),
        degree=2,
        settings={"threshold": 0.1},
        lengths=("threshold",),
    ),
    ModelSpec(
        "quantile",
        "linear regression of a quantile, by default the median",
        _quantile,
        degree=1,
        settings={"quantile": 0.5},
    ),
    ModelSpec(
        "absolute",
        "linear regression: least absolute residuals",
        lambda s, _: losses.Absolute(),
        degree=1,
    ),
    ModelSpec(
        "epsilon_insensitive",
        "support vector regression: residuals within a width cost nothing",
        lambda s, _: losses.EpsilonInsensitive(s["width"]),
        degree=1,
        settings={"width": 0.05},
        lengths=("width",),
    ),
)

MODELS: Mapping[str, ModelSpec] = MappingProxyType({spec.name: spec for spec in _ALL})
"""The models by name."""
