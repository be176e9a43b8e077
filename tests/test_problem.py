"""A problem and the public facts that plans read off it."""

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
    facts = problem(bounds=dp.Bounds(3.0, label="sign", intercept=4.0)).facts(100, 7)
    assert (facts.n, facts.d, facts.columns, facts.size) == (100, 7, 8, 8)
    assert facts.feature == pytest.approx(5.0)
    assert facts.lipschitz == pytest.approx(5.0)
    assert facts.smoothness == pytest.approx(25 / 4)
    assert facts.glm
    assert facts.euclidean
    assert facts.label == 1.0
    assert facts.ridge == 0.0
    assert np.array_equal(facts.start, np.zeros(8))


def test_facts_of_vector_losses():
    classes = dp.data.Classes(["a", "b", "c"])
    soft = dp.Problem(loss=dp.losses.Softmax(3), bounds=dp.Bounds(1.0, label=classes)).facts(10, 4)
    assert soft.size == 12
    assert not soft.glm
    mean = dp.Problem(loss=dp.losses.SquaredDistance(), bounds=dp.Bounds(2.0)).facts(10, 4)
    assert mean.size == 4
    assert mean.hoelder == (mean.constants.hoelder,)


def test_facts_are_computed_once_and_checked():
    made = problem()
    assert made.facts(10, 3) is made.facts(10, 3)
    for n, d in ((0, 3), (10, 0), (2.5, 3), (10, "3")):
        with pytest.raises(ParameterError):
            made.facts(n, d)


def test_a_domain_of_another_dimension_is_refused():
    box = dp.domains.Box([0.0, 0.0], [1.0, 1.0])
    assert problem(domain=box).facts(10, 2).size == 2
    with pytest.raises(ParameterError, match="2 coordinates"):
        problem(domain=box).facts(10, 3)


def test_ridge_and_norms():
    assert problem(penalty=dp.losses.L2Penalty(0.25)).facts(10, 3).ridge == 0.25
    assert problem(penalty=dp.losses.L1Penalty(0.25)).facts(10, 3).ridge == 0.0
    flat = dp.Bounds(1.0, label="sign", norm=dp.geometry.LINF)
    assert not problem(bounds=flat).facts(10, 3).euclidean


def test_hoelder_views_scale_with_the_features():
    made = dp.Problem(loss=dp.losses.QPower(1.5), bounds=dp.Bounds(4.0, label=1.0))
    views = made.facts(10, 3).hoelder
    assert views[0].alpha == pytest.approx(0.5)
    scalar = dp.losses.QPower(1.5).hoelder().constant
    assert views[0].constant == pytest.approx(scalar * 4.0**1.5)


def test_gradient_bound_takes_the_smaller():
    facts = problem(bounds=dp.Bounds(2.0, label="sign")).facts(10, 3)
    assert facts.gradient_bound(None) == pytest.approx(2.0)
    assert facts.gradient_bound(0.5) == 0.5
    assert facts.gradient_bound(50.0) == pytest.approx(2.0)
    with pytest.raises(ParameterError, match="clip"):
        facts.gradient_bound(-1.0)
    free = dp.Problem(loss=dp.losses.Squared(), bounds=dp.Bounds(1.0, label=1.0)).facts(10, 3)
    assert math.isinf(free.lipschitz)
    assert 0.0 < free.gradient_bound(None) < math.inf


def test_distance_is_the_guess_the_radius_or_a_rule():
    assert problem(domain=dp.domains.L2Ball(3.0)).facts(10, 3).distance == 3.0
    assert problem(domain=dp.domains.L2Ball(3.0), scale=1.5).facts(10, 3).distance == 1.5
    assert problem(domain=dp.domains.L2Ball(3.0), scale=9.0).facts(10, 3).distance == 3.0
    assert problem(scale=7.0).facts(10, 3).distance == 7.0


@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6), st.integers(1, 50))
def test_distance_scales_with_the_units(feature, label, d):
    """Weights are labels over features: so must be the guess of their size."""
    unit = dp.Problem(loss=dp.losses.Absolute(), bounds=dp.Bounds(1.0, label=1.0)).facts(9, d)
    other = dp.Problem(loss=dp.losses.Absolute(), bounds=dp.Bounds(feature, label=label))
    scaled = other.facts(9, d).distance * feature / label
    assert scaled == pytest.approx(unit.distance, rel=1e-9)


def test_is_ball():
    assert is_ball(dp.domains.L2Ball(1.0))
    assert is_ball(dp.domains.WholeSpace())
    assert not is_ball(dp.domains.L1Ball(1.0))
    assert not is_ball(dp.domains.Box([0.0], [1.0]))
