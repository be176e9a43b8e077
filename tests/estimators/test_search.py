"""Tuning within one budget: what it costs, what it hides, what it refuses."""

from __future__ import annotations

import json
import math
import pickle

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.stats import chi2
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from dpsco.cli.entry import main
from dpsco.data.bounds import Bounds
from dpsco.data.labels import Classes, Scaled
from dpsco.data.tables.table import from_arrays
from dpsco.errors import AssumptionError, BudgetError, ParameterError
from dpsco.estimators import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateMean,
    PrivateSVC,
)
from dpsco.estimators.search import PrivateGridSearch
from dpsco.estimators.search import plan as search_plan
from dpsco.estimators.search import scoring as search_scoring
from dpsco.estimators.search.scoring import HeldOutErrors, scoring_bounds
from dpsco.models import SavedModel
from dpsco.models.config import config_of
from dpsco.models.linear import LinearModel
from dpsco.privacy.budget import ApproxDP
from dpsco.privacy.mechanisms.repeated_selection.profile import Runs
from dpsco.privacy.odometer.odometer import Odometer
from dpsco.privacy.randomness import Randomness

N, D = 400, 3
GRID = {"alpha": [0.0, 0.1, 1000.0]}
QUICK = {"solver": "noisy_gd", "options": {"rounds": 8}}


def table(n=N, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-0.5, 0.5, (n, D))
    return X, np.where(X[:, 0] - X[:, 1] > 0, "yes", "no")


def classifier(**more):
    return PrivateLogisticRegression(feature_norm=1.0, classes=["no", "yes"], **{**QUICK, **more})


def regressor(**more):
    return PrivateLinearRegression(feature_norm=1.0, label_range=(-2, 6), **{**QUICK, **more})


def search(estimator=None, grid=None, **more):
    settings = {"epsilon": 2.0, "mean_runs": 4.0, "random_state": 3, **more}
    return PrivateGridSearch(estimator or classifier(), grid or GRID, **settings)


@pytest.fixture
def runs(monkeypatch):
    """Every run of a search: its candidate's plan, the rows that it fitted and that it scored."""
    seen = []
    execute = search_plan.execute

    def spied(plan, source, ledger):
        seen.append({"plan": plan, "fitted": source.rows().rows.copy()})
        return execute(plan, source, ledger)

    class Spied(HeldOutErrors):
        def sum(self, block):
            seen[-1]["scored"] = block.rows.copy()
            seen[-1]["errors"] = super().sum(block)
            return seen[-1]["errors"]

    monkeypatch.setattr(search_plan, "execute", spied)
    monkeypatch.setattr(search_scoring, "HeldOutErrors", Spied)
    return seen


# --- what leaves ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("distribution", ["geometric", "poisson", "logarithmic"])
def test_one_certificate_covers_the_whole_search(distribution):
    X, y = table()
    found = search(distribution=distribution).fit(X, y)
    certificate = found.certificate_
    (release,) = certificate.releases
    assert 0.98 * 2.0 < certificate.epsilon(1 / N**2) <= 2.0
    assert certificate.verify().ok
    assert len(release.alternatives) == len(found.candidates_) == 3
    assert release.runs.name == distribution
    assert release.runs.mean == pytest.approx(4.0)
    assert release.rows == (0, N)
    for fit, score in release.alternatives:
        assert (fit.rows, score.rows) == ((0, 320), (320, N))
        assert fit.count == 8
        assert score.bound == 0.5
    assert found.best_estimator_.certificate_ is certificate
    assert found.best_params_ == found.candidates_[found.best_index_]
    assert found.best_estimator_.alpha == found.best_params_["alpha"]
    assert found.plan_.n == 320
    assert found.plan_.budget.epsilon < 1.9  # of one run


@pytest.mark.slow
@pytest.mark.parametrize(
    ("people", "solver"), [(3, "noisy_gd"), (1, "approx_objective_perturbation")]
)
def test_a_saved_search_states_what_the_search_cost_and_is_verified(
    people, solver, tmp_path, capsys
):
    X, y = table()
    options = QUICK["options"] if solver == "noisy_gd" else None
    model = classifier(solver=solver, options=options, rows_per_person=people, epsilon=77.0)
    found = search(model, epsilon=3.0, delta=1e-6, grid={"alpha": [0.1, 0.2]}).fit(X, y)
    best = found.best_estimator_
    assert (best.epsilon, best.delta, best.rows_per_person) == (3.0, 1e-6, people)
    assert found.estimator.epsilon == 77.0
    assert found.plan_.budget.unit == found.certificate_.budget.unit
    assert found.plan_.budget.unit.rows == people
    assert found.plan_.cost.satisfies(found.plan_.budget)
    assert 2.9 < found.certificate_.epsilon(1e-6) <= 3.0
    found.save(tmp_path / "model.json")
    saved = SavedModel.load(tmp_path / "model.json")
    assert saved.certificate.claims == found.certificate_.claims
    assert main(["verify", str(tmp_path / "model.json")]) == 0
    said = capsys.readouterr().out
    assert said.startswith("VALID: epsilon")
    assert f"epsilon {found.plan_.budget.epsilon:.6g}" not in said


def test_results_are_those_of_the_best_noisy_run(runs):
    X, y = table()
    found = search(random_state=5, mean_runs=8.0, epsilon=200.0).fit(X, y)
    assert len(runs) > 2
    accuracies = [0.5 - float(run["errors"][0]) / 80 for run in runs]
    assert found.best_score_ == pytest.approx(max(accuracies), abs=0.02)  # sigma 0.1 of 80 rows
    chosen = runs[int(np.argmax(accuracies))]
    assert found.best_params_["alpha"] < 1000.0
    assert found.score(X, y) > 0.9
    assert chosen["plan"].problem.penalty == found.plan_.problem.penalty


def test_scores_carry_the_noise_that_is_charged(runs):
    """Variance of 30 scores by chi square at 1e-6; a tenth of the noise is noticed."""
    X, y = table()
    made = search_plan.plan_search(
        [classifier(options={"rounds": 2})],
        (N, D),
        fraction=0.2,
        budget=ApproxDP(1.0, 1e-6),
        runs=Runs.named("geometric", 3.0),
    )
    randomness = Randomness.seeded(12)
    attempt = made.attempts(from_arrays(X, y), randomness)
    noise = [attempt(0, randomness).score + float(runs[-1]["errors"][0]) for _ in range(30)]
    total = sum(value**2 for value in noise) / made.score.sigma**2
    low, high = chi2.ppf([5e-7, 1 - 5e-7], 30)
    assert low < total < high
    assert total / 100 < low
    assert made.score.sigma == pytest.approx(1 / search_plan.cost(made.plans[0].releases()).mu)


def test_a_regressor_is_scored_by_its_mean_absolute_error(runs):
    X, _ = table()
    y = 2.0 + 4.0 * X[:, 0]
    found = search(regressor(), epsilon=500.0, random_state=1).fit(X, y)
    best = min(8 * (0.5 + float(run["errors"][0]) / 80) for run in runs)  # 8: the label's range
    assert found.best_score_ == pytest.approx(-best, abs=0.1)
    assert np.mean(np.abs(found.predict(X) - y)) == pytest.approx(best, abs=0.2)


def test_rows_are_fitted_or_scored_never_both_and_keep_their_part(runs):
    X, y = table()
    X[:, 2] = np.arange(N) / N - 0.5  # a row's name
    grid = {"feature_norm": [1.0, 0.9], "alpha": [0.0, 0.1]}
    search(grid=grid, mean_runs=12.0, random_state=8).fit(X, y)
    assert len({run["plan"].problem.bounds for run in runs}) == 2
    names = {round(float(value), 6) for value in X[:, 2]}
    parts = [
        (
            {round(float(row[2]), 6) for row in run["fitted"]},
            {round(float(row[2]), 6) for row in run["scored"]},
        )
        for run in runs
    ]
    for fitted, scored in parts:
        assert (len(fitted), len(scored)) == (320, 80)
        assert not fitted & scored
        assert fitted | scored == names
    assert all(part == parts[0] for part in parts)
    assert parts[0][1] != {round(float(value), 6) for value in X[320:, 2]}  # not the last rows


@pytest.mark.thorough
def test_nothing_tells_how_many_runs_there_were(runs):
    X, y = table()
    texts, counts = set(), set()
    for seed in range(3):
        runs.clear()
        found = search(random_state=seed).fit(X, y)
        counts.add(len(runs))
        texts.add(json.dumps(found.certificate_.to_json()) + str(found.certificate_))
        assert set(vars(found)) - set(found.get_params(deep=False)) == {
            "best_estimator_", "best_index_", "best_params_", "best_score_", "candidates_",
            "certificate_", "classes_", "n_features_in_", "plan_",
        }  # fmt: skip
    assert len(counts) > 1
    assert len(texts) == 1
    assert "how many runs" in texts.pop()


@pytest.mark.thorough
def test_the_number_of_runs_and_their_candidates_do_not_depend_on_rows(runs):
    X, y = table()
    seen = []
    for change in ("none", "blow up", "hole", "other classes"):
        Z, labels = X.copy(), y.copy()
        if change == "blow up":
            Z[:] *= 1e30
        if change == "hole":
            Z[7] = np.nan
        if change == "other classes":
            labels[:] = "no"
        runs.clear()
        search(random_state=5, mean_runs=8.0).fit(Z, labels)
        seen.append([run["plan"].problem.penalty for run in runs])
    assert len(seen[0]) > 1
    assert all(plans == seen[0] for plans in seen)


def test_seeds_repeat_and_mark_the_certificate_and_secure_noise_does_not():
    X, y = table()
    one, two = (search(random_state=9).fit(X, y) for _ in range(2))
    assert one.best_score_ == two.best_score_
    assert one.certificate_.reproducible
    free = [search(random_state=None).fit(X, y) for _ in range(2)]
    assert free[0].best_score_ != free[1].best_score_
    assert not free[0].certificate_.reproducible


# --- the budget of one run ------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize(
    "solver", ["approx_objective_perturbation", "phased_sgd", "dp_sgd_poisson"]
)
def test_other_solvers_are_tuned_within_the_budget(solver):
    candidates = [classifier(alpha=a, solver=solver, options=None) for a in (0.0, 0.05)]
    budget = ApproxDP(1.0, 1e-6)
    made = search_plan.plan_search(
        candidates, (N, D), fraction=0.25, budget=budget, runs=Runs.named("geometric", 3.0)
    )
    spent, _ = search_plan.cost([made.release]).against(budget)
    assert 0.95 < spent <= 1.0
    assert [plan.solver for plan in made.plans] == [solver] * 2
    assert made.held_out == 100
    assert made.base.epsilon < 1.0


@pytest.mark.thorough
def test_more_runs_leave_less_for_each():
    bases = []
    for distribution, mean in [("logarithmic", 4.0), ("geometric", 4.0), ("poisson", 40.0)]:
        made = search_plan.plan_search(
            [classifier()],
            (N, D),
            fraction=0.2,
            budget=ApproxDP(1.0, 1e-6),
            runs=Runs.named(distribution, mean),
        )
        bases.append(search_plan.cost(made.plans[0].releases()).epsilon(1e-6))
    assert 1.0 > bases[0] > bases[1] > 2 * bases[2]


@pytest.mark.slow
def test_zero_out_people_and_tiny_tables():
    X, y = table()
    half = search(classifier(adjacency="zero_out")).fit(X, y)
    assert half.certificate_.budget.adjacency.value == "zero_out"
    whole = search().fit(X, y)
    assert half.plan_.sigma == pytest.approx(whole.plan_.sigma / 2, rel=1e-3)
    people = search(classifier(rows_per_person=2)).fit(X, y).certificate_
    assert people.budget.unit.rows == 2
    assert people.epsilon(1 / N**2) <= 2.0
    tiny = search(validation_fraction=0.01, delta=1e-3).fit(X[:3], y[:3])
    assert tiny.certificate_.releases[0].alternatives[0][-1].rows == (2, 3)


def test_an_odometer_pays_once_and_a_refusal_reads_nothing(tmp_path, runs):
    X, y = table()
    odometer = Odometer(tmp_path / "o", ApproxDP(3.0, 1 / N**2))
    search(odometer=odometer).fit(X, y)
    assert len(odometer.entries()) == 1
    assert odometer.cost().epsilon(1 / N**2) <= 2.0
    runs.clear()
    with pytest.raises(BudgetError, match="PrivateGridSearch"):
        search(odometer=str(tmp_path / "o")).fit(X, y)
    assert runs == []
    assert len(odometer.entries()) == 1


# --- refusals -------------------------------------------------------------------------------------

REFUSED = {
    "another estimator": ({"estimator": LogisticRegression()}, "linear models of dpsco"),
    "a mean": ({"estimator": PrivateMean(feature_norm=1.0)}, "linear models of dpsco"),
    "a pipeline": (
        {"estimator": make_pipeline(StandardScaler(), classifier())},
        "would not be private",
    ),
    "epsilon as a candidate": ({"grid": {"epsilon": [1.0, 2.0]}}, "epsilon must be the same"),
    "classes as a candidate": ({"grid": [{"classes": [["a", "b"]]}]}, "classes must be the same"),
    "no such parameter": ({"grid": {"depth": [3]}}, "depth"),
    "another score": ({"scoring": "f1"}, "'accuracy'"),
    "an error for classes": ({"scoring": "neg_mean_absolute_error"}, "'accuracy'"),
    "one run": ({"mean_runs": 1.0}, "fit the estimator itself"),
    "another law": ({"distribution": "binomial"}, "distribution"),
    "no held-out rows": ({"validation_fraction": 0.0}, "validation_fraction"),
    "an odometer of its own": ({"estimator": classifier(odometer="o")}, "its own odometer"),
    "a seed of its own": ({"estimator": classifier(random_state=7)}, "its own random_state"),
    "no delta": ({"delta": 0.0}, "delta > 0"),
    "no budget": ({"epsilon": -1.0}, "epsilon"),
    "a missing bound": (
        {"estimator": PrivateSVC(classes=[0, 1])},
        "needs declared bounds, and feature_norm is missing",
    ),
    "missing bounds": (
        {"estimator": PrivateLinearRegression(**QUICK)},
        "needs declared bounds, and feature_norm and label_range are missing",
    ),
    "a bound of some": (
        {"estimator": classifier(), "grid": {"feature_norm": [1.0, None]}},
        "feature_norm is missing",
    ),
    "candidates that cannot be": ({"grid": {"alpha": [-1.0]}}, "alpha"),
}


@pytest.mark.parametrize(("changed", "match"), REFUSED.values(), ids=REFUSED)
def test_refusals_come_before_any_row_is_read(changed, match, runs):
    X, y = table()
    made = search(**changed)
    with pytest.raises(ValueError, match=match):
        made.fit(X, y)
    assert runs == []
    assert not hasattr(made, "certificate_")


def test_labels_are_needed_and_impossible_budgets_are_explained(monkeypatch):
    X, y = table()
    with pytest.raises(ParameterError, match="requires y"):
        search().fit(X, None)
    monkeypatch.setattr(search_plan, "_MOST_ROUNDS", 0)
    with pytest.raises(AssumptionError, match="mean_runs"):
        search().fit(X, y)


# --- the score of one model -----------------------------------------------------------------------


def model(label):
    coef, zero = np.array([[1.0, -1.0, 0.0]]), np.zeros(1)
    if isinstance(label, Scaled):
        return LinearModel("linear", coef, zero, None, (label.low, label.high))
    if len(label.values) == 2:
        return LinearModel("logistic", coef, zero, label.values)
    return LinearModel("logistic", np.eye(3), np.zeros(3), label.values)


LABELS = {
    "two": (Classes("no", "yes"), np.array(["yes", "no", "maybe", "yes"])),
    "three": (Classes(5, 6, 7), np.array([5, 7, 6, 9])),
    "numbers": (Scaled(-1.0, 3.0), np.array([0.0, 1e300, np.nan, -7.0])),
    "not centred": (Scaled(-1.0, 3.0, centred=False), np.array([0.0, 2.0, 3.0, -7.0])),
}
HOSTILE = np.array([[1e300, 0, 0], [np.inf, 0, 0], [np.nan, 1, 1], [1e-300, 5, -1e200], [1, 0, 0]])


@pytest.mark.parametrize(("label", "labels"), LABELS.values(), ids=LABELS)
@pytest.mark.parametrize("form", [np.asarray, csr_matrix], ids=["dense", "sparse"])
def test_no_row_moves_the_score_by_more_than_its_bound(label, labels, form):
    query, bounds = HeldOutErrors(model(label), label), scoring_bounds(Bounds(1.0, label=label))
    for row in HOSTILE:
        for value in labels:
            source = from_arrays(form(row[None, :]), np.array([value])).bounded(bounds)
            found = float(source.sum(query)[0])
            assert abs(found) <= query.bound == 0.5
            if not np.isfinite(row).all() or value in ("maybe", 9) or value != value:
                assert found == 0.0


def test_the_score_is_that_of_the_model_itself():
    X, y = table(300)
    X *= 40  # longer than any bound: scored as they are predicted
    label = Classes("no", "yes")
    errors = from_arrays(X, y).bounded(scoring_bounds(Bounds(1.0, label=label)))
    made = LinearModel("logistic", np.array([[1.0, -0.2, 0.1]]), np.array([3.0]), label.values)
    total = float(errors.sum(HeldOutErrors(made, label))[0])
    assert 0.5 - total / 300 == pytest.approx(np.mean(made.predict(X) == y))
    number, y = Scaled(-4.0, 4.0, centred=False), X[:, 1]
    errors = from_arrays(X, y).bounded(scoring_bounds(Bounds(1.0, label=number)))
    made = LinearModel("linear", np.array([[0.3, 0.5, 0.1]]), np.array([0.1]), None, (-4.0, 4.0))
    total = float(errors.sum(HeldOutErrors(made, number))[0])
    exact = np.mean(np.abs(made.predict(X) - np.clip(y, -4, 4)))
    assert 8 * (0.5 + total / 300) == pytest.approx(exact)
    with pytest.raises(ValueError, match="3 features"):
        from_arrays(X[:, :2], y).bounded(scoring_bounds(Bounds(1.0, label=number))).sum(
            HeldOutErrors(made, number)
        )


# --- habits of scikit-learn -----------------------------------------------------------------------


def test_it_is_a_scikit_learn_estimator(tmp_path):
    X, y = table()
    made = clone(search()).set_params(estimator__radius=3.0, mean_runs=3.0)
    assert made.get_params()["estimator__radius"] == 3.0
    assert is_classifier(made)
    assert is_regressor(search(regressor()))
    found = pickle.loads(pickle.dumps(made.fit(X, y)))
    assert found.classes_.tolist() == ["no", "yes"]
    assert found.n_features_in_ == found.best_estimator_.n_features_in_ == D
    assert found.best_estimator_.radius == 3.0
    assert np.array_equal(found.predict(X), found.best_estimator_.predict(X))
    assert found.predict_proba(X).shape == (N, 2)
    assert found.decision_function(X).shape == (N,)
    assert found.score(X, y) == np.mean(found.predict(X) == y)
    assert not hasattr(search(regressor()), "predict_proba")
    found.save(tmp_path / "model.json")
    assert np.array_equal(SavedModel.load(tmp_path / "model.json").predict(X), found.predict(X))
    piped = make_pipeline(FunctionTransformer(lambda rows: rows / 2), search()).fit(X, y)
    assert set(piped.predict(X)) <= {"no", "yes"}
    with pytest.raises(ValueError, match="not fitted"):
        search().predict(X)


def test_frames_and_sparse_rows():
    pandas = pytest.importorskip("pandas")
    X, y = table()
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    found = search().fit(frame, y)
    assert found.feature_names_in_.tolist() == ["a", "b", "c"]
    assert found.predict(frame).shape == (N,)
    assert search().fit(csr_matrix(X), y).best_score_ == pytest.approx(found.best_score_, abs=0.2)


class Uniform:
    """A distribution, as scikit-learn's samplers take it."""

    def rvs(self, random_state=None):
        return float(random_state.uniform())


@pytest.mark.thorough
def test_candidates_can_be_drawn_from_distributions():
    X, y = table()
    made = search(grid={"alpha": Uniform()}, n_candidates=5).fit(X, y)
    again = search(grid={"alpha": Uniform()}, n_candidates=5).fit(X, y)
    assert (
        len(made.candidates_) == 5 == len({math.floor(1e9 * c["alpha"]) for c in made.candidates_})
    )
    assert made.candidates_ == again.candidates_
    other = search(grid={"alpha": Uniform()}, n_candidates=5, random_state=4).fit(X, y)
    secure = search(grid={"alpha": Uniform()}, n_candidates=5, random_state=None).fit(X, y)
    assert made.candidates_ == other.candidates_ == secure.candidates_  # nothing of the seed
    assert made.best_score_ != other.best_score_
    several = search(grid=[{"alpha": [0.0]}, {"radius": [1.0, 2.0]}]).fit(X, y)
    assert len(several.candidates_) == 3


def test_the_chosen_plan_knows_its_model(tmp_path):
    tuned = search().fit(*table())
    config = config_of(tuned.plan_)
    assert (config.name, config.alpha) == ("logistic", tuned.best_params_["alpha"])
    assert np.array_equal(tuned.best_estimator_.model_.classes, config.classes)
    tuned.best_estimator_.save(tmp_path / "model.json")
    assert config_of(SavedModel.load(tmp_path / "model.json").plan) == config
