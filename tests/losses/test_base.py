"""What every loss has from the base: constants in the weights, refusals, records."""

from __future__ import annotations

import copy
import importlib
import inspect
import math
import pickle
import pkgutil
from dataclasses import FrozenInstanceError, fields

import numpy as np
import pytest

from dpsco import losses
from dpsco.errors import AssumptionError, ParameterError
from dpsco.kernels.slope import Slope
from dpsco.losses import Hoelder, MarginLoss
from dpsco.losses.quantile import RoundedPinball

MADE_FROM_OTHERS = {losses.Smoothed, losses.CustomLoss, RoundedPinball}


def defined(kind):
    """The public classes of one kind that the modules of dpsco.losses define, bases left out."""
    modules = [
        importlib.import_module(f"dpsco.losses.{module.name}")
        for module in pkgutil.iter_modules(losses.__path__)
    ]
    return {
        item
        for module in modules
        for name, item in vars(module).items()
        if isinstance(item, type)
        and issubclass(item, kind)
        and item.__module__ == module.__name__
        and not name.startswith("_")
        and not inspect.isabstract(item)
    }


def test_every_loss_and_penalty_is_exported():
    """Names stay written out in ``__init__``, where editors and type checkers look for them."""
    for kind in (MarginLoss, losses.VectorLoss, losses.Penalty):
        exported = {getattr(losses, name) for name in losses.__all__}
        assert defined(kind) - exported <= {RoundedPinball}, kind  # which solvers alone make
    assert len(losses.__all__) == len(set(losses.__all__))


def test_the_catalogue_is_complete(catalogue):
    """Every convex loss of the package is under test, and so is that of docs/add_loss.md."""
    convex = {item for item in defined(MarginLoss) - {MarginLoss} if item.convex is True}
    tested = {type(case.loss) for case in catalogue}
    assert convex - MADE_FROM_OTHERS == {t for t in tested if t.__module__.startswith("dpsco.")}
    assert [t.__name__ for t in tested if not t.__module__.startswith("dpsco.")] == ["LogCosh"]
    assert len(convex - MADE_FROM_OTHERS) >= 13


def test_constants_scale_with_the_features(case):
    """Slopes scale with the feature bound, curvatures with its square, H with its power 1 + a."""
    loss, feature, label, radius = case.loss, 3.0, 2.5, 0.25
    found = loss.constants(feature=feature, label=label, radius=radius)
    bound = 1.0 if loss.labels == "sign" else label
    margin = feature * radius
    view = loss.hoelder()
    assert found.lipschitz == pytest.approx(feature * loss.slope_bound(bound, margin), rel=1e-15)
    curvature = loss.curvature_bound(bound, margin)
    assert found.smoothness == pytest.approx(feature**2 * curvature, rel=1e-15)
    assert found.curvature == curvature
    assert found.gradient_at_zero == pytest.approx(feature * loss.slope_bound(bound, 0.0))
    assert found.value_at_zero == loss.value_at_zero(bound)
    assert found.hoelder.alpha == view.alpha
    scaled = view.constant * feature ** (1 + view.alpha)
    assert found.hoelder.constant == pytest.approx(scaled, rel=1e-15)
    assert (found.strong_convexity, found.weak_convexity) == (0.0, 0.0)
    assert (found.hessian_rank, found.convex) == (1, True)


def test_constants_by_default_are_those_of_the_whole_space(case):
    loss = case.loss
    found = loss.constants(feature=2.0, label=1.5)
    assert found == loss.constants(feature=2.0, label=1.5, radius=math.inf)
    assert found.lipschitz >= loss.constants(feature=2.0, label=1.5, radius=1e6).lipschitz
    assert not any(math.isnan(value) for value in vars(found).values() if type(value) is float)


def test_labels_of_a_sign_need_no_bound(case):
    if case.loss.labels == "sign":
        one = case.loss.constants(feature=2.0, radius=1.0)
        assert one == case.loss.constants(feature=2.0, label=-7.0, radius=1.0)  # not even looked at
    else:
        with pytest.raises(ParameterError):
            case.loss.constants(feature=2.0, label=-7.0, radius=1.0)


def test_constants_survive_huge_bounds(case):
    found = case.loss.constants(feature=1e200, label=1e200, radius=1e200)
    assert not any(math.isnan(value) for value in vars(found).values() if type(value) is float)


@pytest.mark.parametrize(
    "bad",
    [
        {"feature": 0.0},
        {"feature": -1.0},
        {"feature": math.inf},
        {"feature": "1"},
        {"feature": 1.0, "radius": -1.0},
        {"feature": 1.0, "radius": math.nan},
        {"feature": 1.0, "label": -0.5},
        {"feature": 1.0, "label": math.inf},
    ],
)
def test_constants_refuse(bad):
    with pytest.raises(ParameterError):
        losses.Squared().constants(**bad)


@pytest.mark.parametrize(
    "make",
    [
        lambda: losses.QHinge(0.99),
        lambda: losses.QHinge(2.01),
        lambda: losses.QPower(math.nan),
        lambda: losses.QPower(3),
        lambda: losses.Pinball(0.0),
        lambda: losses.Pinball(1.0),
        lambda: losses.EpsilonInsensitive(-0.1),
        lambda: losses.Huber(0.0),
        lambda: losses.PseudoHuber(math.inf),
        lambda: losses.Poisson(-1.0),
        lambda: losses.Poisson(1e305),
    ],
)
def test_parameters_out_of_range(make):
    with pytest.raises(ParameterError):
        make()


def test_a_loss_is_a_record(case):
    """Equal by parameters, hashable, picklable, frozen; its name is its class."""
    loss = case.loss
    assert pickle.loads(pickle.dumps(loss)) == loss == copy.deepcopy(loss)
    assert hash(loss) == hash(copy.deepcopy(loss))
    assert loss.name == type(loss).__name__
    assert loss.trusted == ()
    assert loss.convex
    for field in fields(loss):
        with pytest.raises(FrozenInstanceError):
            setattr(loss, field.name, 1.5)


def test_parameters_become_floats():
    assert type(losses.Huber(np.float32(2)).threshold) is float
    assert type(losses.QPower(2).q) is float
    assert losses.QPower(2) == losses.QPower(2.0)


def test_kernels_pickle(case):
    """A slope belongs to a module: worker processes and the disk cache of machine code need it."""
    slope = case.loss.kernel()
    assert pickle.loads(pickle.dumps(slope)) == slope


def test_slope_is_bounded_as_the_kernel_says(case):
    kernel = case.loss.kernel()
    if case.loss.labels != "count":
        assert kernel.bound == case.loss.slope_bound(1.0, math.inf)
    assert kernel.smoothing == 0.0


# --- what the base offers a loss that adds nothing ------------------------------------------------


class Cosh(MarginLoss):
    """log cosh(u - y), bare."""

    labels = "real"

    def value(self, margin, label):
        return np.log(np.cosh(np.asarray(margin) - np.asarray(label)))

    def kernel(self):
        return Slope(lambda margin, label, first, second: np.tanh(margin - label))

    def curvature(self, margin, label):
        return 1 / np.cosh(np.asarray(margin) - np.asarray(label)) ** 2

    def slope_bound(self, label, margin):
        return math.tanh(label + margin)

    def curvature_bound(self, label, margin):
        return 1.0

    def hoelder(self):
        return Hoelder(1.0, 1.0)

    def value_at_zero(self, label):
        return math.log(math.cosh(label))


class Wave(Cosh):
    """cos(u - y): weakly convex, rho = 1, and its bound is 1."""

    convex = False

    def value(self, margin, label):
        return np.cos(np.asarray(margin) - np.asarray(label))

    def kernel(self):
        return Slope(lambda margin, label, first, second: -np.sin(margin - label))

    def curvature(self, margin, label):
        return -np.cos(np.asarray(margin) - np.asarray(label))

    def slope_bound(self, label, margin):
        return 1.0

    def weak_convexity(self):
        return 1.0


def test_defaults_serve_a_bare_loss():
    loss = Cosh()
    assert loss.hoelder_views() == (loss.hoelder(),)
    assert loss.envelope(4.0).smoothing == 4.0
    assert loss.envelope(4.0).bound == 1.0
    nearest = loss.prox(2.0, 0.5, 0.25)
    assert nearest + 0.25 * np.tanh(nearest - 0.5) == pytest.approx(2.0, rel=1e-15)
    value = loss.envelope_value(2.0, 0.5, 4.0)
    assert value == pytest.approx(loss.value(nearest, 0.5) + 2.0 * (nearest - 2.0) ** 2, rel=1e-15)
    with pytest.raises(AssumptionError, match="Cosh has none"):
        loss.conjugate(0.5, 0.0)


def test_a_weakly_convex_loss_needs_a_short_step():
    loss = Wave()
    u = loss.prox(np.linspace(-3, 3, 61), 0.0, 0.9)
    grid = np.linspace(-6, 6, 120001)
    for m, found in zip(np.linspace(-3, 3, 61), u, strict=True):
        best = np.min(np.cos(grid) + (grid - m) ** 2 / 1.8)
        assert np.cos(found) + (found - m) ** 2 / 1.8 <= best + 1e-15
    for step in (1.0, 5.0):
        with pytest.raises(AssumptionError, match="weak convexity"):
            loss.prox(0.0, 0.0, step)
    assert loss.envelope(1.5).smoothing == 1.5
    with pytest.raises(AssumptionError, match="above its weak convexity"):
        loss.envelope(1.0)


def test_a_loss_that_is_not_convex_must_say_how_far():
    class Silent(Wave):
        weak_convexity = MarginLoss.weak_convexity

    with pytest.raises(NotImplementedError):
        Silent().constants(feature=1.0)


@pytest.mark.parametrize("loss", [losses.QHinge(1.5), losses.QPower(1.2)], ids=repr)
def test_smoothing_needs_a_bounded_slope(loss):
    with pytest.raises(AssumptionError, match="Huber"):
        loss.envelope(1.0)


@pytest.mark.parametrize("smoothing", [0.0, -1.0, math.inf, math.nan, "1"])
def test_smoothing_must_be_positive(case, smoothing):
    with pytest.raises(ParameterError):
        case.loss.envelope(smoothing)
    with pytest.raises(ParameterError):
        case.loss.envelope_value(0.0, 1.0, smoothing)
