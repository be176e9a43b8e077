"""A problem: what may be part of it, how it is shown, which labels its loss reads."""

import math

import pytest

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
    with pytest.raises(ParameterError, match=rf"^{field} must be .* for example") as caught:
        problem(**{field: value})
    assert caught.value.parameter == field


@pytest.mark.parametrize("scale", [0.0, -1.0, math.inf, math.nan, "wide"])
def test_scale_must_be_positive(scale):
    with pytest.raises(ParameterError, match="scale"):
        problem(scale=scale)


def test_labels_must_fit_the_loss():
    with pytest.raises(ParameterError):
        dp.Problem(loss=dp.losses.Logistic(), bounds=dp.Bounds(1.0, label=2.0))
    with pytest.raises(ParameterError):
        dp.Problem(loss=dp.losses.Absolute(), bounds=dp.Bounds(1.0))


def test_is_ball():
    assert is_ball(dp.domains.L2Ball(1.0))
    assert is_ball(dp.domains.WholeSpace())
    assert not is_ball(dp.domains.L1Ball(1.0))
    assert not is_ball(dp.domains.Box([0.0], [1.0]))
