"""Recommendations: every solver is ranked or refused with a reason, from public task alone."""

import json
import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import dpsco as dp
from dpsco.errors import AccuracyWarning, AssumptionError
from dpsco.fit import choose as select
from dpsco.fit.choose import Candidate, Recommendation, caution, choose, predict
from dpsco.geometry.norms import LINF
from dpsco.solvers import listing, registry

BUDGET = dp.ApproxDP(1.0, 1e-8)


def problem(loss=None, label="sign", **settings):
    return dp.Problem(
        loss=loss or dp.losses.Logistic(), bounds=dp.Bounds(1.0, label=label), **settings
    )


@pytest.mark.parametrize(
    ("loss", "label"),
    [
        (dp.losses.Logistic(), "sign"),
        (dp.losses.Hinge(), "sign"),
        (dp.losses.Absolute(), 1.0),
        (dp.losses.Squared(), 1.0),
        (dp.losses.Sigmoid(), "sign"),
        (dp.losses.SquaredDistance(), None),
        (dp.losses.Softmax(3), dp.data.Classes(1, 2, 3)),
        (dp.losses.OneVersusRest(dp.losses.Hinge(), 3), dp.data.Classes(1, 2, 3)),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
@pytest.mark.parametrize("radius", [math.inf, 5.0])
def test_every_solver_is_ranked_or_refused(loss, label, radius):
    domain = dp.domains.WholeSpace() if radius == math.inf else dp.domains.L2Ball(radius)
    found = dp.recommend(problem(loss, label, domain=domain), 10_000, 10, BUDGET)
    ranked = [candidate.solver for candidate in found.ranked]
    assert sorted([*ranked, *found.refused]) == sorted(registry())
    assert "noisy_gd" in ranked
    assert all(reasons and all(reasons) for reasons in found.refused.values())
    risks = [candidate.risk for candidate in found.ranked]
    assert all(0 < risk < math.inf for risk in risks)
    measured = [candidate.risk for candidate in found.ranked if candidate.measured]
    others = [candidate.risk for candidate in found.ranked if not candidate.measured]
    assert risks == measured + others  # facts go before predictions
    assert measured[0] <= select.CLOSE * min(measured)
    assert measured[1:] == sorted(measured[1:])
    said = [each.risk for each in found.ranked if each.calibrated and not each.measured]
    formulas = [each.risk for each in found.ranked if not each.calibrated]
    assert others == sorted(said) + sorted(formulas)


@pytest.mark.parametrize(
    ("loss", "label", "domain"),
    [
        (dp.losses.PerRowLoss(lambda w, X, y: (X @ w - y)[:, None] * X), 1.0, None),
        (
            dp.losses.EpsilonInsensitive(5.0),
            2.0,
            dp.domains.L2Ball(3.0),
        ),  # zero on the whole domain
        (dp.losses.Logistic(), "sign", dp.domains.Simplex()),  # of one feature: a single point
    ],
    ids=["unbounded", "zero", "point"],
)
@pytest.mark.parametrize("n", [1, 1000])
def test_nothing_to_predict_is_no_error(loss, label, domain, n):
    made = problem(loss, label, **({} if domain is None else {"domain": domain}))
    for budget in (BUDGET, dp.PureDP(1.0), dp.ZCDP(0.1)):
        found = dp.recommend(made, n, 1, budget)
        assert sorted([*(c.solver for c in found.ranked), *found.refused]) == sorted(registry())
        assert not any(math.isnan(candidate.risk) for candidate in found.ranked)


def test_gradients_without_a_bound_ask_for_a_clip():
    made = problem(dp.losses.PerRowLoss(lambda w, X, y: (X @ w - y)[:, None] * X), 1.0)
    for solver in ("auto", "noisy_gd", "dp_sgd_poisson", "dp_sgd_gradient", "dp_sgd_single_epoch"):
        with pytest.raises(AssumptionError, match=r"unbounded\. Pass options={'clip'"):
            dp.plan(made, n=1000, d=2, budget=BUDGET, solver=solver)
    settled = dp.plan(made, n=1000, d=2, budget=BUDGET, options={"clip": 0.5})
    assert settled.clip == 0.5
    assert settled.solver == "noisy_gd"


def test_more_rows_and_more_budget_promise_less_risk():
    for key, solver in registry().items():
        made = problem(domain=dp.domains.L2Ball(5.0), penalty=dp.losses.NoPenalty())
        task = dp.Task(made, 10_000, 10, BUDGET)
        if solver.refusals(task):
            continue
        base = solver.risk(task)
        assert solver.risk(dp.Task(made, 100_000, 10, BUDGET)) < base, key
        less, weaker = dp.ApproxDP(0.1, 1e-8), dp.ApproxDP(1.0, 1e-8, adjacency="zero_out")
        assert solver.risk(replace(task, budget=less)) > base, key
        assert solver.risk(replace(task, budget=weaker)) <= base, key


def test_auto_takes_the_first():
    made = problem()
    found = dp.recommend(made, 5_000, 5, BUDGET)
    assert dp.plan(made, n=5_000, d=5, budget=BUDGET).solver == found.best


def test_a_close_race_goes_to_the_more_reliable_one():
    reliable = select.Candidate("reliable", 1.9, 100.0, order=0)
    race = [select.Candidate("a", 1.0, 100.0), reliable, select.Candidate("b", 1.2, 1.0)]
    assert [candidate.solver for candidate in select._order(race)] == ["reliable", "a", "b"]
    far = replace(reliable, risk=2.1)
    assert select._order([far, *race[::2]])[0].solver == "a"


def test_large_tables_without_much_noise_save_time():
    reliable = select.Candidate("reliable", 1.0, 100.0, order=0)
    cheap, cheapest = select.Candidate("cheap", 1.005, 10.0), select.Candidate("worse", 1.1, 1.0)
    race = [reliable, cheap, cheapest]
    assert select._order(race)[0] is reliable
    assert select._order(race, save_time=True)[0] is cheap
    other = "approx_objective_perturbation"
    budget = dp.ApproxDP(1.0, 1e-9)
    for n, d, key in ((39_000, 109, other), (39_000, 20, "noisy_gd"), (10**6, 10_000, "noisy_gd")):
        assert dp.recommend(problem(), n, d, budget).best == key
    weak = dp.ApproxDP(0.1, 1e-9)
    assert dp.recommend(problem(), 39_000, 109, weak).best == "noisy_gd"  # noise matters
    softmax = problem(dp.losses.Softmax(3), dp.data.Classes(0, 1, 2))
    assert dp.recommend(softmax, 10**6, 20, budget).best == "noisy_gd"  # predicted to be better


def test_facts_go_before_predictions():
    fact = select.Candidate("fact", 3.0, 1.0)
    near = select.Candidate("near", 2.0, 1.0, measured=False)
    guess = select.Candidate("guess", 1.0, 1.0, measured=False, proven=False, order=0)
    formula = replace(guess, solver="formula", risk=0.1, calibrated=False)
    ranked = select._order([formula, guess, near, fact])
    assert [candidate.solver for candidate in ranked] == ["fact", "near", "guess", "formula"]


@pytest.mark.parametrize("adjacency", ["zero_out", "replace_one"])
@pytest.mark.parametrize("n", [20, 300, 5_000, 10**6])
@pytest.mark.parametrize("d", [1, 30, 10_000, 10**6])
def test_no_specialist_is_taken(n, d, adjacency):
    """Wherever noisy gradient descent applies it kept up with all others, and beyond it is safe."""
    numbers = (dp.losses.Squared(), dp.losses.Huber(0.2), dp.losses.Absolute())
    for epsilon in (0.001, 0.03, 1.0, 16.0):
        budget = dp.ApproxDP(epsilon, 1 / n**2, adjacency=adjacency)
        classes = [(loss, "sign") for loss in (dp.losses.Logistic(), dp.losses.Hinge())]
        for loss, label in (*classes, *((loss, 1.0) for loss in numbers)):
            best = dp.recommend(problem(loss, label), n, d, budget).best
            assert best in ("noisy_gd", "approx_objective_perturbation")
            assert best == "noisy_gd" or n == 10**6


def test_calibration_narrows_the_choice():
    found = dp.recommend(problem(), 5_000, 5, BUDGET, calibration="paper")
    assert "noisy_gd" in found.refused
    assert any("calibration" in reason for reason in found.refused["noisy_gd"])


def test_no_solver_is_an_error_with_all_reasons():
    groups = dp.geometry.GroupNorm(((0, 1), (2,)))
    sup = dp.Problem(
        loss=dp.losses.Logistic(), bounds=dp.Bounds(1.0, label="sign", norm=groups)
    )  # fmt: skip
    with pytest.raises(AssumptionError, match=r"no solver applies.*l2 norm"):
        dp.plan(sup, n=1000, d=3, budget=BUDGET)


def test_it_prints_and_survives_json():
    found = dp.recommend(problem(dp.losses.Hinge()), 5_000, 5, BUDGET)
    text = str(found)
    assert "predicted excess" in text
    assert "not bolt_on_sgd: it needs a smooth loss" in text
    record = json.loads(json.dumps(found.to_json()))
    assert record["ranked"][0]["solver"] == found.best


def test_listings_say_that_facts_go_before_predictions():
    measured, other = Candidate("a", 1.0, 1.0), Candidate("b", 0.5, 1.0, measured=False)
    close, bare = Candidate("c", 0.8, 1.0), Candidate("d", 0.1, 1.0, calibrated=False)
    facts, equal = "measured facts go before predictions", "within a factor of 2 count as equal"
    for ranked, reasons in (
        ((measured, other), (facts,)),
        ((measured, close), (equal,)),
        ((measured, close, other), (facts, equal)),
        ((close, measured), ()),
        ((measured, bare), ()),  # a formula is no prediction
    ):
        advice = Recommendation(ranked, {"e": ("no",)})
        *_, line, refusal = str(advice).splitlines()
        assert refusal == "not e: no"
        assert "Solvers go first where measurements cover the task, then by prediction." in line
        assert advice.why_first in line
        assert ("though others are predicted lower" in line) == bool(reasons)
        assert [reason for reason in (facts, equal) if reason in line] == list(reasons)
    none = Recommendation((), {})
    assert none.why_first == ""
    assert "Solvers" not in str(none)


def test_it_is_fast():
    import time

    dp.recommend(problem(), 50_000, 100, BUDGET)
    started = time.process_time()
    for n in range(50_001, 50_006):
        dp.recommend(problem(), n, 100, BUDGET)
    assert time.process_time() - started < 0.5


def test_plenty_of_budget_never_ends_in_a_single_pass():
    """Noise-free, one pass leaves a bias that full passes do not: auto must see it."""
    for loss, label in ((dp.losses.Logistic(), "sign"), (dp.losses.Absolute(), 1.0)):
        found = dp.recommend(problem(loss, label), 5_000, 12, dp.ApproxDP(1e6, 1e-6))
        assert found.best in ("noisy_gd", "approx_objective_perturbation")


def test_many_weights_and_few_rows_favour_gradients():
    """Where every direction is flat, a ridge cannot tell noise from signal."""
    assert dp.recommend(problem(), 4_500, 1_024, BUDGET).best == "noisy_gd"


def test_the_choice_for_rows_that_are_seen_once():
    task = dp.Task(problem(), 5_000, 5, BUDGET)

    def once(**options):
        return choose(task, single_epoch=True, options=options)

    assert choose(task, single_epoch=True) == once() == "acc_srgd"
    assert once(rounds=8, certified=True) == "acc_srgd"
    assert once(tail=3) == "dp_ftrl"
    assert once(falling=False) == "dp_sgd_single_epoch"
    assert once(nonsense=1) == "acc_srgd"  # which says that it has no such option
    assert choose(replace(task, calibration="paper"), single_epoch=True) == "acc_srgd"


def test_solvers_that_read_rows_once_say_so():
    """What is declared must be true of the plans: every row is in one release, of one round."""
    task = dp.Task(problem(), 64, 2, BUDGET)
    for key, solver in registry().items():
        if solver.refusals(task) or solver.single_epoch is None:
            continue
        rows = [line.rows for line in solver.plan(task).schedule()]
        assert rows[0][0] == 0, key
        assert all(a[1] == b[0] for a, b in pairwise(rows)), key
    ranks = [s.single_epoch.rank for s in registry().values() if s.single_epoch is not None]
    known = [rank for rank in ranks if rank is not None]
    assert sorted(known) == list(range(1, len(known) + 1))


def test_the_choice_is_made_of_a_task_or_of_its_parts():
    task = dp.Task(problem(), 5_000, 5, BUDGET)
    assert dp.recommend(task) == dp.recommend(problem(), 5_000, 5, BUDGET)
    assert choose(task) == dp.recommend(task).best
    for candidate in dp.recommend(task).ranked:
        assert candidate.risk == predict(task, candidate.solver)


@pytest.fixture
def uncalibrated(monkeypatch):
    """The registry with noisy_gd as if nobody had measured it, and a formula that flatters it."""
    flattering = replace(registry()["noisy_gd"], measured=None, risk=lambda task: 1e-9)
    monkeypatch.setitem(registry(), "noisy_gd", flattering)
    return flattering


def test_a_solver_that_is_not_calibrated_comes_last_and_is_marked(uncalibrated):
    """Its formula says 1e-9, but formulas cannot be compared with predictions."""
    advice = dp.recommend(problem(), 5_000, 5, BUDGET)
    others = [candidate for candidate in advice.ranked if not candidate.calibrated]
    assert others == list(advice.ranked[-len(others) :])
    assert (others[0].solver, others[0].risk) == ("noisy_gd", 1e-9)
    keys = [candidate.solver for candidate in others]
    assert keys == [c.solver for c in advice.ranked if registry()[c.solver].measured is None]
    assert advice.best not in keys
    marked = [line for line in str(advice).splitlines() if "not calibrated" in line]
    assert [line.split()[0] for line in marked] == keys
    assert [c["calibrated"] for c in advice.to_json()["ranked"]].count(False) == len(keys)


def test_a_solver_that_is_not_calibrated_is_taken_where_no_other_applies(uncalibrated):
    alone = [select.Candidate("a", 0.5, 9.0, calibrated=False)]
    alone += [select.Candidate("b", 0.4, 10.0, calibrated=False)]
    assert [candidate.solver for candidate in select._order(alone)] == ["b", "a"]
    unknown = select.Candidate("c", math.inf, 1.0)
    assert select._order([*alone, unknown])[0] is unknown  # measured elsewhere, silent here


def test_every_listing_says_that_a_solver_is_not_calibrated(uncalibrated):
    assert uncalibrated.record()["measured"] is None
    assert "not calibrated" in listing.page("noisy_gd")
    unmeasured = sum(solver.measured is None for solver in registry().values())
    assert listing.table().count("(not calibrated)") == unmeasured >= 1
    assert "of the formula's excess for smooth losses" in listing.page("dp_ftrl")
    plan = dp.plan(problem(), n=1000, d=3, budget=BUDGET, solver="noisy_gd")
    assert "no forecast; not calibrated)" in str(plan)


def test_none_that_is_predicted_worse_than_the_start_goes_before_one_that_is_not():
    worse = Candidate("worse", 1.0, 1.0, order=0, worse=True)
    better = Candidate("better", 0.6, 1.0)
    assert [each.solver for each in select._order([worse, better])] == ["better", "worse"]
    unmeasured = replace(better, measured=False)
    assert select._order([worse, unmeasured])[0] is worse  # facts go first
    advice = dp.recommend(problem(), 500, 100_000, BUDGET)
    start = math.log(2)
    assert all(each.worse == (each.risk > start) for each in advice.ranked if each.calibrated)
    assert not any(each.worse for each in dp.recommend(problem(), 50_000, 5, BUDGET).ranked[:3])


def test_rows_in_another_norm_are_told_which_bounds_would_do():
    made = dp.Problem(
        loss=dp.losses.Logistic(),
        bounds=dp.Bounds(2.0, label="sign", norm=LINF),
        domain=dp.domains.L1Ball(3.0),
    )
    advice = dp.recommend(made, 1000, 100, BUDGET)
    reason = advice.refused["noisy_gd"][0]
    limit = float(reason.split("give Bounds(feature_norm=")[1].split(",")[0])
    assert 20.0 <= limit <= 20.1  # 2 sqrt(100)
    if not advice.ranked:
        with pytest.raises(AssumptionError, match="The nearest is noisy_gd: it measures rows"):
            _ = advice.best


def test_a_ranking_is_remembered_for_losses_that_cannot_change(monkeypatch):
    calls = []
    original = select.predict
    monkeypatch.setattr(select, "predict", lambda *args: calls.append(args) or original(*args))
    bounds = dp.Bounds(1.0, label="sign")

    def rank(loss):
        calls.clear()
        problem = dp.Problem(loss=loss, bounds=bounds)
        advice = select.recommend(problem, 4_321, 7, dp.ApproxDP(1.0, 1e-7))
        return advice, len(calls)

    first, _ = rank(dp.losses.Logistic())
    again, repeated = rank(dp.losses.Logistic())
    assert again == first
    assert repeated == 0
    own = dp.losses.CustomLoss(
        lambda margin, label: np.logaddexp(0.0, -label * margin),
        lambda margin, label: -label / (1.0 + np.exp(label * margin)),
        slope_bound=1.0,
        curvature_bound=0.25,
        convex=True,
        labels="sign",
    )
    assert rank(own)[1] > 0
    assert rank(own)[1] > 0


@pytest.mark.parametrize("budget", [BUDGET, dp.PureDP(1.0)], ids=["approx", "pure"])
def test_auto_says_where_it_takes_what_nobody_compared(budget):
    rows = np.random.default_rng(0).uniform(-1.0, 1.0, (1500, 3))
    ball = dp.domains.L1Ball(2.0)
    wide = dp.Bounds(1.0, label="sign", norm=LINF)
    problem = dp.Problem(loss=dp.losses.Logistic(), bounds=wide, domain=ball)
    with pytest.warns(AccuracyWarning, match=r"not compared .* Bounds\(feature_norm=1.73"):
        dp.solve(problem, (rows, np.sign(rows[:, 0])), budget)
    usual = replace(problem, bounds=dp.Bounds(2.0, label="sign"))
    task = dp.Task(usual, 1500, 3, budget)
    assert caution(task, dp.recommend(task).best) == ""


def test_where_predictions_are_close_mirror_descent_goes_before_the_strongly_convex_solver():
    bounds = dp.Bounds(1.0, label=4.0, norm=LINF)
    problem = dp.Problem(loss=dp.losses.Squared(), bounds=bounds, domain=dp.domains.Simplex())
    best = dp.recommend(problem, 3000, 300, dp.ApproxDP(8.0, 1e-6)).best
    assert best == "noisy_regularized_mirror_descent"
