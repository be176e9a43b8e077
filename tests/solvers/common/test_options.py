"""Options that several families have: one check, one wording."""

import math

import pytest

import dpsco as dp
from dpsco.errors import AssumptionError, ParameterError
from dpsco.solvers.common.options import checked_p, published_budget


def task(budget):
    problem = dp.Problem(loss=dp.losses.Logistic(), bounds=dp.Bounds(1.0, label="sign"))
    return dp.Task(problem, 100, 3, budget)


@pytest.mark.parametrize("p", [0.99, 2.01, math.nan, math.inf, "one"])
def test_p_out_of_range(p):
    with pytest.raises(ParameterError, match="p must"):
        checked_p(p)


def test_both_ends_are_in_range():
    assert (checked_p(1), checked_p(2.0)) == (1.0, 2.0)


def test_published_schedules_need_epsilon_and_delta():
    budget = dp.ApproxDP(1.0, 1e-6)
    assert published_budget(task(budget), otherwise="practical") is budget
    for other in (dp.GDP(0.5), dp.ZCDP(0.1)):
        with pytest.raises(AssumptionError, match="Take schedule='tuned', or an ApproxDP budget"):
            published_budget(task(other), otherwise="tuned")
