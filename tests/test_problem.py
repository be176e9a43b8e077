"""A problem and the public task that plans read off it."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpsco as dp
from dpsco.errors import ParameterError
from dpsco.problem import is_ball

SIGN = dp.Bounds(1.0, label="sign")


def problem(**settings):
    return dp.Problem(**{"loss": dp.losses.Logistic(), "bounds": SIGN, **settings})


def test_defaults():
    made = problem()
    assert isinstance(made.domain, dp.domains.WholeSpace)
    assert isinstance(made.penalty, dp.losses.NoPenalty)
    assert made.scale is None
    assert repr(made).startswith("Problem(Logistic() over WholeSpace()")
    assert "L2Penalty" in repr(problem(penalty=dp.losses.L2Penalty(0.1)))


@pytest.mark.parametrize(
    ("field", "value"),
    [("loss", "logistic"), ("bounds", 1.0), ("domain", 10.0), ("penalty", 0.1), ("domain", None)],
)
def test_wrong_types_name_what_to_pass(field, value):
    with pytest.raises(ParameterError, match=rf"problem's {field} .* for example"):
        problem(**{field: value})


@pytest.mark.parametrize("scale", [0.0, -1.0, math.inf, math.nan, "wide"])
def test_scale_must_be_positive(scale):
    with pytest.raises(ParameterError, match="scale"):
        problem(scale=scale)


def test_labels_must_fit_the_loss():
    with pytest.raises(ParameterError):
        dp.Problem(loss=dp.losses.Logistic(), bounds=dp.Bounds(1.0, label=2.0))
    with pytest.raises(ParameterError):
        dp.Problem(loss=dp.losses.Absolute(), bounds=dp.Bounds(1.0))


def test_facts_of_a_linear_model():
    task = dp.Task(
        problem(bounds=dp.Bounds(3.0, label="sign", intercept=4.0)), 100, 7, dp.ApproxDP(1.0, 1e-6)
    )
    assert (task.n, task.d, task.columns, task.n_weights) == (100, 7, 8, 8)
    assert task.feature_bound == pytest.approx(5.0)
    assert task.lipschitz == pytest.approx(5.0)
    assert task.smoothness == pytest.approx(25 / 4)
    assert task.glm
    assert task.euclidean
    assert task.label_bound == 1.0
    assert task.ridge == 0.0
    assert np.array_equal(task.start, np.zeros(8))


def test_facts_of_vector_losses():
    classes = dp.data.Classes(["a", "b", "c"])
    soft = dp.Task(
        dp.Problem(loss=dp.losses.Softmax(3), bounds=dp.Bounds(1.0, label=classes)),
        10,
        4,
        dp.ApproxDP(1.0, 1e-6),
    )
    assert soft.size == 12
    assert not soft.glm
    mean = dp.Task(
        dp.Problem(loss=dp.losses.SquaredDistance(), bounds=dp.Bounds(2.0)),
        10,
        4,
        dp.ApproxDP(1.0, 1e-6),
    )
    assert mean.size == 4
    assert mean.hoelder == (mean.constants.hoelder,)


def test_facts_are_computed_once_and_checked():
    made = problem()
    assert dp.Task(made, 10, 3, dp.ApproxDP(1.0, 1e-6)) is dp.Task(
        made, 10, 3, dp.ApproxDP(1.0, 1e-6)
    )
    for n, d in ((0, 3), (10, 0), (2.5, 3), (10, "3")):
        with pytest.raises(ParameterError):
            dp.Task(made, n, d, dp.ApproxDP(1.0, 1e-6))


def test_a_domain_of_another_dimension_is_refused():
    box = dp.domains.Box([0.0, 0.0], [1.0, 1.0])
    assert dp.Task(problem(domain=box), 10, 2, dp.ApproxDP(1.0, 1e-6)).n_weights == 2
    with pytest.raises(ParameterError, match="2 coordinates"):
        dp.Task(problem(domain=box), 10, 3, dp.ApproxDP(1.0, 1e-6))


def test_ridge_and_norms():
    assert (
        dp.Task(problem(penalty=dp.losses.L2Penalty(0.25)), 10, 3, dp.ApproxDP(1.0, 1e-6)).ridge
        == 0.25
    )
    assert (
        dp.Task(problem(penalty=dp.losses.L1Penalty(0.25)), 10, 3, dp.ApproxDP(1.0, 1e-6)).ridge
        == 0.0
    )
    flat = dp.Bounds(1.0, label="sign", norm=dp.geometry.LINF)
    assert not dp.Task(problem(bounds=flat), 10, 3, dp.ApproxDP(1.0, 1e-6)).euclidean


def test_hoelder_views_scale_with_the_features():
    made = dp.Problem(loss=dp.losses.QPower(1.5), bounds=dp.Bounds(4.0, label=1.0))
    views = dp.Task(made, 10, 3, dp.ApproxDP(1.0, 1e-6)).hoelder
    assert views[0].alpha == pytest.approx(0.5)
    scalar = dp.losses.QPower(1.5).hoelder().constant
    assert views[0].constant == pytest.approx(scalar * 4.0**1.5)


def test_gradient_bound_takes_the_smaller():
    task = dp.Task(problem(bounds=dp.Bounds(2.0, label="sign")), 10, 3, dp.ApproxDP(1.0, 1e-6))
    assert task.gradient_bound(None) == pytest.approx(2.0)
    assert task.gradient_bound(0.5) == 0.5
    assert task.gradient_bound(50.0) == pytest.approx(2.0)
    with pytest.raises(ParameterError, match="clip"):
        task.gradient_bound(-1.0)
    free = dp.Task(
        dp.Problem(loss=dp.losses.Squared(), bounds=dp.Bounds(1.0, label=1.0)),
        10,
        3,
        dp.ApproxDP(1.0, 1e-6),
    )
    assert math.isinf(free.lipschitz)
    assert 0.0 < free.gradient_bound(None) < math.inf


def test_distance_is_the_guess_the_radius_or_a_rule():
    assert (
        dp.Task(
            problem(domain=dp.domains.L2Ball(3.0)), 10, 3, dp.ApproxDP(1.0, 1e-6)
        ).initial_distance
        == 3.0
    )
    assert (
        dp.Task(
            problem(domain=dp.domains.L2Ball(3.0), scale=1.5), 10, 3, dp.ApproxDP(1.0, 1e-6)
        ).initial_distance
        == 1.5
    )
    assert (
        dp.Task(
            problem(domain=dp.domains.L2Ball(3.0), scale=9.0), 10, 3, dp.ApproxDP(1.0, 1e-6)
        ).initial_distance
        == 3.0
    )
    assert dp.Task(problem(scale=7.0), 10, 3, dp.ApproxDP(1.0, 1e-6)).initial_distance == 7.0


@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6), st.integers(1, 50))
def test_distance_scales_with_the_units(feature, label, d):
    """Weights are labels over features: so must be the guess of their size."""
    unit = dp.Task(
        dp.Problem(loss=dp.losses.Absolute(), bounds=dp.Bounds(1.0, label=1.0)),
        9,
        d,
        dp.ApproxDP(1.0, 1e-6),
    )
    other = dp.Problem(loss=dp.losses.Absolute(), bounds=dp.Bounds(feature, label=label))
    scaled = dp.Task(other, 9, d, dp.ApproxDP(1.0, 1e-6)).initial_distance * feature / label
    assert scaled == pytest.approx(unit.distance, rel=1e-9)


def test_is_ball():
    assert is_ball(dp.domains.L2Ball(1.0))
    assert is_ball(dp.domains.WholeSpace())
    assert not is_ball(dp.domains.L1Ball(1.0))
    assert not is_ball(dp.domains.Box([0.0], [1.0]))
