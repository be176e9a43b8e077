"""Empirical risk by a solver on resampled rows."""

import numpy as np
import pytest

import dpsco as dp
from dpsco.errors import ParameterError
from dpsco.fit.resample import erm_from_sco
from dpsco.privacy.accounting.resampling import resampled_mu

PROBLEM = dp.Problem(
    loss=dp.losses.Logistic(), bounds=dp.Bounds(1.0, label="sign"), domain=dp.domains.L2Ball(3.0)
)
BUDGET = dp.ApproxDP(2.0, 1e-5)


def table(n=2000):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 2)) / 2
    return X, np.where(X[:, 0] > 0, 1.0, -1.0)


def test_the_solver_gets_what_is_left_after_resampling():
    X, y = table()
    fit = erm_from_sco(PROBLEM, (X, y), BUDGET, randomness=dp.Randomness.seeded(1))
    assert fit.budget == BUDGET
    assert fit.inner.plan.budget == dp.GDP(resampled_mu(BUDGET, 2000))
    assert fit.weights[0] > 1.0
    assert fit.weights is fit.inner.weights


def test_draws_are_of_the_seed_and_of_nothing_else():
    X, y = table(200)
    one, two, other = (
        erm_from_sco(PROBLEM, (X, y), BUDGET, randomness=dp.Randomness.seeded(s)).weights
        for s in (1, 1, 2)
    )
    assert one.tobytes() == two.tobytes()
    assert not np.array_equal(one, other)


def test_the_rows_that_are_drawn_are_all_that_is_read():
    """A third of the rows is drawn by no draw: changing those changes no bit."""
    X, y = table(200)
    drawn = dp.Randomness.seeded(3).child("resample").integers(200, 200)
    left = np.setdiff1d(np.arange(200), drawn)
    assert 40 < len(left) < 110
    changed = X.copy()
    changed[left] *= -7.0
    fits = [
        erm_from_sco(PROBLEM, (rows, y), BUDGET, randomness=dp.Randomness.seeded(3)).weights
        for rows in (X, changed)
    ]
    assert fits[0].tobytes() == fits[1].tobytes()


def test_tables_that_cannot_be_drawn_from_are_refused():
    with pytest.raises(ParameterError, match="pass"):
        erm_from_sco(PROBLEM, "rows.csv", BUDGET)
