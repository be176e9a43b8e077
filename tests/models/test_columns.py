"""A private choice of columns: plan, charge, what it finds, what it refuses."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import sparse

import dpsco as dp
from dpsco.data import from_arrays
from dpsco.errors import AssumptionError, DataError, LedgerError, ParameterError
from dpsco.models.columns import ColumnsPlan, plan_columns, plan_on_columns, run_on_columns
from dpsco.models.config import configure
from dpsco.privacy.randomness import Randomness

BUDGET = dp.ApproxDP(1.0, 1e-6)
D, N = 60, 20_000


def config(name="sparse_logistic", **facts):
    own = {"label_range": (-3, 3)} if name == "lasso" else {"classes": [0, 1]}
    return configure(name, feature_norm=math.sqrt(D), radius=6.0, **own, **facts)


def rows(n=N, seed=0, *, shift=0.0):
    rng = np.random.default_rng(seed)
    X = rng.choice([-1.0, 1.0], (n, D))
    score = X[:, 7] - X[:, 30] + shift
    return X, score, (score + rng.logistic(size=n) > 0).astype(int)


def planned(count=2, n=N, model=None, budget=BUDGET):
    return plan_on_columns(model or config(), count, n=n, d=D, budget=budget)


def test_the_choice_is_paid_for_from_the_budget_of_the_fit():
    plan = planned()
    alone = dp.plan(config().problem(), n=N, d=2, budget=BUDGET, solver=plan.fit.solver)
    assert plan.releases()[:2] == plan.columns.releases()
    assert plan.releases()[2:] == plan.fit.releases()
    assert plan.cost.epsilon(1e-6) == pytest.approx(1.0, rel=1e-3)
    assert plan.cost.epsilon(1e-6) <= 1.0
    # 30 % of squared mu is gone: the noise of the fit is larger by 1/sqrt(.7).
    assert plan.fit.sigma / math.sqrt(plan.fit.rounds) == pytest.approx(
        alone.sigma / math.sqrt(alone.rounds) / math.sqrt(0.7), rel=1e-3
    )
    mu = sum((2 * plan.columns.clip / sigma) ** 2 for sigma in plan.columns.sigmas)
    assert mu == pytest.approx(0.3 * BUDGET.mu_per_row() ** 2, rel=1e-3)


@pytest.mark.parametrize("shift", [0.0, 2.0])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_the_columns_that_matter_are_chosen(kind, shift):
    X, _, y = rows(shift=shift)
    result, chosen = run_on_columns(
        planned(), from_arrays(kind(X), y), randomness=Randomness.seeded(0)
    )
    assert chosen.tolist() == [7, 30]
    weights = config().model(result.weights).spread(chosen, D).coef[0]
    assert weights[7] > 0.5 > -0.5 > weights[30]
    assert np.count_nonzero(weights) == 2
    assert len(result.certificate.releases) == len(planned().releases())
    assert result.certificate.verify().ok


def test_popular_columns_are_not_taken_for_telling_ones():
    rng = np.random.default_rng(0)
    X = (rng.random((N, D)) < np.linspace(0.9, 0.1, D)).astype(float)
    y = (2.5 + 1.5 * (X[:, 50] - X[:, 40]) + rng.logistic(size=N) > 0).astype(int)  # mostly 1
    plan = planned(budget=dp.ApproxDP(4.0, 1e-6))
    _, chosen = run_on_columns(plan, from_arrays(X, y), randomness=Randomness.seeded(0))
    assert chosen.tolist() == [40, 50]


def test_numbers_choose_columns_too():
    X, score, _ = rows()
    plan = planned(model=config("lasso"))
    _, chosen = run_on_columns(plan, from_arrays(X, score), randomness=Randomness.seeded(0))
    assert chosen.tolist() == [7, 30]


def test_columns_that_are_chosen_without_charge_return_nothing():
    X, _, y = rows(2000)
    plan, table = planned(n=2000), from_arrays(X, y)
    source = table.bounded(plan.fit.problem.bounds, order="given")
    uncharged = plan.fit  # whose releases do not include the choice
    ledger = dp.privacy.ledger.Ledger(uncharged.releases(), BUDGET)
    with pytest.raises(LedgerError):
        plan.columns.choose(source, ledger)

    class Peeking(ColumnsPlan):
        def choose(self, source, ledger):
            return np.argsort(-np.abs(X.T @ (y - 0.5)))[: self.count]

    names = [item.name for item in dataclasses.fields(ColumnsPlan)]
    facts = {name: getattr(plan.columns, name) for name in names}
    peeking = dataclasses.replace(plan, columns=Peeking(**facts))
    with pytest.raises(LedgerError):
        run_on_columns(peeking, table)


def test_a_file_of_chosen_columns_that_lists_no_choice_is_invalid(tmp_path):
    X, _, y = rows(4000)
    model = dp.PrivateLogisticRegression(
        feature_norm=math.sqrt(D), classes=[0, 1], select_columns=3, random_state=0
    ).fit(X, y)
    assert np.count_nonzero(model.coef_) <= 3
    model.save(tmp_path / "model.json")
    saved = dp.models.SavedModel.load(tmp_path / "model.json")
    assert saved.verify().ok
    assert saved.predict(X[:5]).tolist() == model.predict(X[:5]).tolist()
    bare = dataclasses.replace(saved.certificate, releases=tuple(saved.certificate.releases[2:]))
    assert not dataclasses.replace(saved, certificate=bare).verify().ok


def test_bad_requests_are_refused_before_the_rows():
    task = dp.Task(config().problem(), N, D, BUDGET)
    for count in (0, D + 1, 2.5):
        with pytest.raises(ParameterError, match="select_columns"):
            plan_columns(task, count)
    with pytest.raises(AssumptionError, match="ApproxDP"):
        plan_columns(dataclasses.replace(task, budget=dp.PureDP(1.0)), 2)
    three = configure("logistic", feature_norm=1.0, classes=[0, 1, 2])
    with pytest.raises(ParameterError, match="two classes"):
        plan_columns(dp.Task(three.problem(), N, D, BUDGET), 2)
    X, _, y = rows(100)
    with pytest.raises(DataError, match="the plan is for"):
        run_on_columns(planned(), from_arrays(X, y))


class Recorder:
    """A ledger that answers with given numbers, and keeps the exact sums."""

    def __init__(self, mean):
        self.mean, self.sums, self.bounds = mean, [], []

    def gaussian(self, total, *, bound, sigma, rows):
        self.sums.append(total)
        self.bounds.append(bound)
        answer = np.zeros(len(total))
        answer[-1] = self.mean
        return answer


@pytest.mark.parametrize("name", ["lasso", "sparse_logistic"])
@pytest.mark.parametrize("share", [-3.0, -0.6, 0.0, 0.6, 3.0])
def test_one_row_moves_what_is_released_by_its_bound_at_most(name, share):
    """Whatever constant was found; and nearly so far, or the noise would be larger than needed."""
    n, model = 50, config(name)
    plan = planned(n=n, model=model)
    column = plan.fit.problem.bounds.intercept
    longest = [0.0, 0.0]
    for ends in ([-3, 3], [3, -3], [-3, -3]) if name == "lasso" else ([0, 1], [1, 0], [0, 0]):
        exact = []
        for first in (-1.0, 1.0):
            X, y = np.ones((n, D)), np.full(n, ends[0])
            X[0], y[0] = first, ends[0 if first < 0 else 1]
            recorder = Recorder(share * n * column)  # of the gradient: which constant is found
            source = from_arrays(X, y).bounded(plan.fit.problem.bounds, order="given")
            plan.columns.choose(source, recorder)
            exact.append(recorder.sums)
            assert recorder.bounds == [plan.columns.clip] * 2
        moved = [np.linalg.norm(one - other) for one, other in zip(*exact, strict=True)]
        assert max(moved) <= 2.0 * plan.columns.clip
        longest = np.maximum(longest, moved)
    assert longest.min() > 0.7 * plan.columns.clip


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_a_part_of_a_table_has_these_columns_alone(kind):
    X = np.arange(12.0).reshape(3, 4)
    part = from_arrays(kind(X), [0, 1, 0]).part(np.array([3, 1]))
    assert (part.n, part.d) == (3, 2)
    bounds = dp.Bounds(100.0, label=dp.data.Classes(0, 1))
    source = part.bounded(bounds, order="given")
    query = dp.data.queries.ClippedGradient(dp.losses.Logistic(), np.zeros(2), 100.0)
    assert source.sum(query) == pytest.approx(0.5 * np.array([1, -1, 1]) @ X[:, [3, 1]])
