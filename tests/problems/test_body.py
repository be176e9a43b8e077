"""The mean point problem has the rows, the mean and the risk that it states."""

import math

import numpy as np
import pytest

import dpsco as dp
from dpsco import problems
from dpsco.errors import ParameterError
from dpsco.problems.body import lower_bound

N, D = 2000, 10
BUDGET = dp.ApproxDP(1.0, 1e-6)


@pytest.mark.parametrize("p", [1, 2])
def test_rows_are_vertices_with_the_stated_mean(p):
    hard = problems.mean_point(N, D, BUDGET, p=p, signs=[1, 1, -1, 1, -1, -1, 1, 1, -1, 1])
    (rows,) = hard.draw(200_000, 3)
    norms = np.sum(np.abs(rows) ** p, axis=1)
    np.testing.assert_allclose(norms, 1.0, rtol=1e-12)
    error = 5.0 * rows.std(axis=0) / math.sqrt(len(rows))  # false alarms: 1e-5
    assert np.all(np.abs(rows.mean(axis=0) - hard.mean) < error)
    weights = hard.problem.domain.project(np.linspace(-0.2, 0.2, D))
    values = 0.5 * np.sum((weights - rows) ** 2, axis=1)
    assert hard.risk(weights) == pytest.approx(values.mean(), abs=5.0 * values.std() / 447.0)


def test_all_vertices_are_as_likely():
    (rows,) = problems.mean_point(N, D, BUDGET).draw(100_000, 4)
    counts = np.sum(rows != 0.0, axis=0)
    assert np.all(np.abs(counts - 10_000) < 5.0 * math.sqrt(9000.0))


@pytest.mark.parametrize("p", [1, 2])
def test_zero_weights_are_as_good_as_the_bound(p):
    hard = problems.mean_point(N, D, BUDGET, p=p)
    assert hard.trivial == pytest.approx(lower_bound(N, D, BUDGET, p=p), rel=1e-9)
    assert hard.excess(hard.best) == 0.0
    assert hard.problem.domain.contains(hard.best)
    few = problems.mean_point(2, D, BUDGET, p=p)  # nothing is private: all rows lean one way
    assert few.problem.domain.contains(few.best)


def test_the_bound_by_hand():
    """G_C of the l_2 ball in ten dimensions is 3.0843277598."""
    known = 0.5 * 3.0843277598**2 * math.log(1e6) / 2000.0**2
    assert lower_bound(N, D, BUDGET, p=2) == pytest.approx(known, rel=1e-9)


@pytest.mark.parametrize("p", [1, 2])
def test_no_solver_does_better_than_it_should(p):
    """Means of 20 private answers stay above the bound with its logarithm; fixed seeds."""
    hard = problems.mean_point(N, D, BUDGET, p=p)
    plan = dp.plan(hard.problem, n=N, d=D, budget=BUDGET, solver="heavy_tailed_coordinate_gd",
                   options={"rounds": 20})  # fmt: skip
    runs = [
        hard.excess(dp.run(plan, hard.draw(N, s), randomness=dp.Randomness.seeded(s)).weights)
        for s in range(20)
    ]
    assert np.mean(runs) > lower_bound(N, D, BUDGET, p=p) / math.log(2 * D) ** 4


@pytest.mark.parametrize("change", [{"p": 3}, {"signs": [1.0]}, {"signs": [0.5] * D}])
def test_what_is_no_such_problem_is_refused(change):
    with pytest.raises(ParameterError):
        problems.mean_point(N, D, BUDGET, **change)
