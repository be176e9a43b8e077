"""Every solver runs on workers to the same bits, or is refused before anything is read."""

import pytest

import dpsco as dp
from dpsco.errors import AssumptionError, ParameterError
from dpsco.losses import Hinge, L2Penalty, Logistic, Ramp, SquaredDistance
from dpsco.solvers import registry
from dpsco.solvers.engine import takes_sums

from .conftest import BOUNDS, write_rows

N, D = 11_000, 5
BUDGET = dp.ApproxDP(1.0, 1e-7)
BALL = dp.domains.L2Ball(5.0)
PROBLEMS = [
    dp.Problem(loss=Logistic(), domain=BALL, bounds=BOUNDS),
    dp.Problem(loss=Hinge(), domain=BALL, bounds=BOUNDS),
    dp.Problem(loss=Ramp(), domain=BALL, bounds=BOUNDS),
    dp.Problem(loss=Logistic(), domain=dp.domains.L1Ball(2.0), bounds=BOUNDS),
    dp.Problem(
        loss=Logistic(),
        domain=dp.domains.LpBall(1.5, 2.0),
        bounds=dp.Bounds(2.0, label="sign", norm=dp.geometry.Lp(3.0)),
    ),
    dp.Problem(
        loss=Logistic(),
        domain=dp.domains.WholeSpace(),
        penalty=L2Penalty(0.1),
        bounds=BOUNDS,
    ),
    dp.Problem(loss=SquaredDistance(), domain=BALL, bounds=dp.Bounds(2.0)),
]
SLOW = {"localized_clipped_minibatch"}  # its plan takes seconds


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    place = tmp_path_factory.mktemp("solvers")
    return write_rows(place, rows=(6_000, 5_000), group=2_000)


def plan_of(solver):
    """Return a short plan of a solver for the first problem that it covers."""
    named = [name for name in ("rounds", "epochs") if name in solver.options]
    how = {"n": N, "d": D, "budget": BUDGET, "solver": solver.key}
    how["options"] = {name: {"rounds": 3, "epochs": 1}[name] for name in named[:1]}
    for problem in PROBLEMS:
        try:
            return dp.plan(problem, **how)
        except (AssumptionError, ParameterError):
            continue
    pytest.fail(f"{solver.key} covers none of these problems: add one")


@pytest.mark.parametrize(
    "key", [pytest.param(key, marks=pytest.mark.slow if key in SLOW else ()) for key in registry()]
)
def test_every_solver(rows, key):
    same_bits(rows, plan_of(registry()[key]))


def test_a_clip_that_follows_the_loss(rows):
    bounds = dp.Bounds(2.0, label="sign", intercept=0.6)
    options = {"follow": True, "refit": 0.1, "rounds": 30}
    problem = dp.Problem(loss=Logistic(), bounds=bounds)
    same_bits(rows, dp.plan(problem, n=N, d=D, budget=BUDGET, solver="noisy_gd", options=options))


def test_batches_that_end_within_a_file(rows):
    bounds = dp.Bounds(2.0, label="sign", intercept=0.6)
    options = {"batches": 3, "rounds": 6}
    problem = dp.Problem(loss=Logistic(), bounds=bounds)
    same_bits(rows, dp.plan(problem, n=N, d=D, budget=BUDGET, solver="noisy_gd", options=options))


def same_bits(rows, plan):
    """Carry a plan out on workers and on one machine."""
    label = None if plan.problem.bounds.label is None else "y"
    columns = {"features": [f"x{k}" for k in range(D)], "label": label}

    def fit(table):
        how = {"order": "given", "randomness": dp.Randomness.seeded(1)}
        return dp.run(plan, table, **how).weights.tobytes()

    with dp.data.from_cluster(rows, cluster="threads:2", slice_rows=4096, **columns) as table:
        if not takes_sums(registry()[plan.solver], plan):
            with pytest.raises(ParameterError, match="needs the rows themselves"):
                fit(table)
            return
        assert fit(table) == fit(dp.data.from_parquet(rows, **columns))
