"""With a budget so large that noise does not matter, every solver finds the optimum."""

import numpy as np
import pytest
from scipy.optimize import minimize

import dpsco as dp
from dpsco.solvers import registry

D = 3
ROWS = 4000
MORE = {  # slow rates: 1.4 % there, 6 % at 4000
    "phased_erm": 16_000,
    "noisy_sgd_2019": 16_000,
    "noisy_gd_split_baseline": 16_000,
}
SHORT = {
    "dp_sgd_gradient": {"rounds": 1500},
    "noisy_sgd_2020": {"rounds": 2500},
    "shuffled_truncated_mirror_descent": {"secret_order": False},
}
# One pass over the rows leaves what the rows themselves cannot tell, and ridges leave a bias.
CLOSE = 0.05  # of the excess of zero weights
HUGE = dp.ApproxDP(50.0, 1e-3)
BALL = dp.domains.L2Ball(3.0)

PROBLEMS = {
    "logistic": dp.Problem(
        loss=dp.losses.Logistic(), bounds=dp.Bounds(1.0, label="sign"), domain=BALL
    ),
    "logistic-free": dp.Problem(
        loss=dp.losses.Logistic(), bounds=dp.Bounds(1.0, label="sign"), scale=3.0
    ),
    "logistic-ridge": dp.Problem(
        loss=dp.losses.Logistic(),
        bounds=dp.Bounds(1.0, label="sign"),
        domain=BALL,
        penalty=dp.losses.L2Penalty(0.05),
    ),
    "logistic-l1": dp.Problem(  # the same optimum: it lies inside both balls
        loss=dp.losses.Logistic(),
        bounds=dp.Bounds(1.0, label="sign"),
        domain=dp.domains.L1Ball(6.0),
    ),
}


def table(n=ROWS):
    rng = np.random.default_rng(8)
    X = rng.standard_normal((n, D))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    chance = 1.0 / (1.0 + np.exp(-X @ np.array([2.0, -1.0, 0.5])))
    return X, np.where(rng.random(n) < chance, 1.0, -1.0)


def risk(problem, w, X, y):
    ridge = getattr(problem.penalty, "strength", 0.0)
    return np.mean(np.logaddexp(0.0, -y * (X @ w))) + 0.5 * ridge * float(w @ w)


def optimum(problem, X, y):
    """Return the least risk, by an optimiser that knows nothing of this package."""
    ball = {"type": "ineq", "fun": lambda w: 9.0 - w @ w}
    found = minimize(
        lambda w: risk(problem, w, X, y), np.zeros(D), method="SLSQP", constraints=[ball],
        options={"ftol": 1e-12},
    )  # fmt: skip
    assert found.success
    return float(found.fun)


@pytest.mark.thorough
def test_huge_budget_reaches_the_optimum(solver):
    X, y = table(MORE.get(solver, ROWS))
    entry = registry()[solver]
    fitting = [
        (name, problem)
        for name, problem in PROBLEMS.items()
        if not entry.refusals(dp.Task(problem, len(y), D, HUGE))
    ]
    if not fitting:
        pytest.skip("it takes other problems")
    name, problem = fitting[0]
    options = SHORT.get(solver, {})
    seed = dp.Randomness.seeded(1)
    result = dp.solve(problem, (X, y), HUGE, solver=solver, options=options, randomness=seed)
    least = optimum(problem, X, y)
    excess = risk(problem, result.weights, X, y) - least
    trivial = risk(problem, np.zeros(D), X, y) - least
    assert excess > -1e-6
    assert excess < CLOSE * trivial, (name, excess / trivial)


def test_the_check_has_power():
    """Weights that are right in direction but 40 % too short fail it."""
    X, y = table()
    problem = PROBLEMS["logistic"]
    found = minimize(lambda w: risk(problem, w, X, y), np.zeros(D), tol=1e-10)
    trivial = risk(problem, np.zeros(D), X, y) - found.fun
    assert risk(problem, 0.6 * found.x, X, y) - found.fun > CLOSE * trivial
