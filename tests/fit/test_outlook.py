"""Outlooks: public facts alone, monotone by construction, the same words in Python and commands."""

import inspect
import json
import math
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpsco as dp
from dpsco.audit import planted
from dpsco.errors import OutlookWarning, ParameterError
from dpsco.fit import outlook as module
from dpsco.fit.outlook import Family, noise_ratio, outlook, share_lost

sys.path.insert(0, str(Path(__file__).parents[2]))  # benchmarks are not installed

from benchmarks import bands

LOSSES = {
    "logistic": (dp.losses.Logistic(), "sign"),
    "hinge": (dp.losses.Hinge(), "sign"),
    "softmax": (dp.losses.Softmax(4), dp.data.Classes(0, 1, 2, 3)),
    "absolute": (dp.losses.Absolute(), 1.0),
    "huber": (dp.losses.Huber(0.2), 1.0),
    "squared": (dp.losses.Squared(), 1.0),
}


def task(name="logistic", n=5_000, d=10, epsilon=1.0, adjacency="replace_one"):
    loss, label = LOSSES[name]
    budget = dp.ApproxDP(epsilon, 1e-7, adjacency=adjacency)
    return dp.Task(dp.Problem(loss=loss, bounds=dp.Bounds(1.0, label=label)), n, d, budget)


# -- numbers ---------------------------------------------------------------------------------------


@given(
    name=st.sampled_from(sorted(LOSSES)),
    n=st.integers(2, 10**6),
    d=st.integers(1, 10**5),
    epsilon=st.floats(0.01, 50.0),
    more=st.floats(1.0, 100.0),
)
@settings(max_examples=60, deadline=None)
def test_more_budget_or_the_weaker_adjacency_never_expects_more_excess(name, n, d, epsilon, more):
    base = task(name, n, d, epsilon)
    larger = task(name, n, d, min(epsilon * more, 1e3))
    weaker = task(name, n, d, epsilon, "zero_out")
    first = outlook(base)
    order = ["good", "weak", "constant", "hopeless"]
    for better in (outlook(larger), outlook(weaker)):
        # mu is found to 1e-15: two budgets that are closer may change places
        assert better.excess <= first.excess * (1 + 1e-12)
        assert better.low <= first.low * (1 + 1e-12)
        assert better.high <= first.high * (1 + 1e-12)
        assert order.index(better.verdict) <= order.index(first.verdict)


def test_known_answer():
    """At u = middle noise costs half of what zero weights lose; u is sqrt(P)/z."""
    base = task(n=1_000, d=16)
    mu = base.budget.mu_per_row()
    assert noise_ratio(base) == pytest.approx(4.0 / (1_000 * mu / 2))
    family = Family(middle=0.1, power=1.3, low=0.5, high=2.0, constant=0.9, learnable=0.5)
    assert share_lost(family, 0.1) == pytest.approx(0.5)
    assert share_lost(family, 0.01) == pytest.approx(10**-1.3 / (1 + 10**-1.3))
    assert share_lost(family, 1e9) < 1.0
    many = task("softmax", n=1_000, d=4)  # as many weights, twice as many classes
    assert noise_ratio(many) == pytest.approx(2 * noise_ratio(base))


def test_directions_that_no_row_has_cost_nothing():
    assert outlook(task(n=200, d=10**6)).excess == outlook(task(n=200, d=200)).excess


def test_band_holds_the_excess_and_small_ones_are_not_told_from_none():
    for n in (300, 3_000, 30_000, 3_000_000):
        seen = outlook(task(n=n))
        assert seen.low <= seen.excess <= seen.high
        assert seen.high / max(seen.low, module.RESOLUTION * math.log(2)) <= 10.0
    assert seen.low == 0.0
    assert "(at most " in seen.sentence


@pytest.mark.parametrize("family", [module.CLASSES, module.BOUNDED, module.SQUARED])
def test_calibration_is_sane(family):
    assert family.low < 1.0 < family.high
    assert family.high / family.low <= 10.0
    assert 0.5 <= family.power <= 2.0  # between worst-case slopes and a quadratic's
    assert 0.0 < family.constant <= 1.0


def test_a_noisier_solver_expects_more():
    best, worst = (
        outlook(task()),
        outlook(task(), solver=max(module.SOLVERS, key=module.SOLVERS.get)),
    )
    assert worst.excess > best.excess
    assert outlook(task(), solver="noisy_gd") == best


@pytest.mark.parametrize("key", module.OUTSIDE_PARK)
def test_solvers_that_no_estimator_takes_have_their_own_noise(key):
    """Calibrated, far noisier than noisy_gd, and never in the park that the others come from."""
    assert module.noise_of(key) >= bands.APART
    assert key not in module.SOLVERS
    base = task(n=2_000)
    assert outlook(base, solver=key).excess > 1.3 * outlook(base).excess
    assert outlook(base).verdict == "good"
    if key == "prox_guided_weakly_convex":
        assert not outlook(base, solver=key).promising


# -- verdicts --------------------------------------------------------------------------------------


def test_verdicts_and_their_sentences():
    seen = {outlook(task(n=n, epsilon=0.1)).verdict for n in (2, 353, 1_500, 10**6)}
    assert "good" in seen
    assert seen & {"constant", "hopeless"}
    poor = outlook(task(n=353, d=30, epsilon=0.1))
    assert not poor.promising
    assert "n = 353 and epsilon 0.1, expect a model no better than a constant" in poor.sentence
    good = outlook(task(n=10**6))
    assert good.sentence.startswith("Privacy is expected to cost ")
    assert json.loads(json.dumps(good.to_json()))["verdict"] == "good"


def test_nothing_is_predicted_where_nothing_was_measured():
    mean = dp.Problem(loss=dp.losses.SquaredDistance(), bounds=dp.Bounds(1.0))
    pure = replace(task(), budget=dp.PureDP(1.0))
    for each in (dp.Task(mean, 100, 3, task().budget), pure):
        seen = outlook(each)
        assert seen.promising
        assert seen.sentence == "Nothing is predicted about the excess risk of this fit."
        assert seen.to_json()["excess"] is None


def test_public_facts_about_labels():
    """A known answer of the constant's loss, and rarer classes leave less to learn."""
    base = task(n=1_200, epsilon=0.3)
    assert outlook(base, base_rate=0.5).constant == pytest.approx(math.log(2.0), rel=1e-4)
    entropy = -0.1 * math.log(0.1) - 0.9 * math.log(0.9)
    assert outlook(base, base_rate=(0.9, 0.1)).constant == pytest.approx(entropy, rel=1e-3)
    assert outlook(task("hinge"), base_rate=0.2).constant == pytest.approx(0.4, rel=1e-6)
    many = outlook(task("softmax"), base_rate=[0.25] * 4)
    assert many.constant == pytest.approx(math.log(4.0))
    assert outlook(task("squared"), label_spread=0.3).constant == pytest.approx(0.045, rel=1e-2)
    spread = outlook(task("absolute"), label_spread=0.3).constant
    assert spread == pytest.approx(0.3 * math.sqrt(2 / math.pi), rel=0.05)
    order = ["good", "weak", "constant", "hopeless"]
    ranks = [order.index(outlook(base, base_rate=rate).verdict) for rate in (0.5, 0.2, 0.05, 0.01)]
    assert ranks == sorted(ranks)
    assert ranks[0] < ranks[-1]
    # The fact says what there is to learn, not what noise costs.
    assert outlook(base, base_rate=0.01).excess == outlook(base).excess


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("logistic", {"base_rate": 1.5}),
        ("logistic", {"base_rate": [0.5, 0.2]}),
        ("softmax", {"base_rate": 0.5}),
        ("logistic", {"label_spread": 0.5}),
        ("absolute", {"base_rate": 0.5}),
        ("absolute", {"label_spread": -1.0}),
    ],
)
def test_facts_out_of_range_are_refused(name, facts):
    with pytest.raises(ParameterError, match=next(iter(facts))):
        outlook(task(name), **facts)


# -- warnings --------------------------------------------------------------------------------------


def rows(n=353, d=20):
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (n, d)) / math.sqrt(d)
    return X, np.where(X[:, 0] > 0, 1, 0)


def model(epsilon):
    return dp.PrivateLogisticRegression(feature_norm=1.0, classes=[0, 1], epsilon=epsilon)


def messages(fit):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit()
    return [str(each.message) for each in caught]


def test_estimators_warn_before_anything_is_paid(tmp_path):
    X, y = rows()
    with pytest.warns(
        OutlookWarning, match=r"With n = 353 and epsilon 0\.1, expect a model no"
    ) as said:
        model(0.1).fit(X, y)
    assert Path(said[0].filename) == Path(__file__)  # whoever called fit
    clear, rare = model(8.0), model(8.0).set_params(base_rate=[0.999, 0.001])
    assert messages(lambda: clear.fit(X, y)) == []
    assert "the best constant prediction loses 0.0" in messages(lambda: rare.fit(X, y))[0]
    free = dp.PrivateLogisticRegression(classes=[0, 1], epsilon=0.1, bounds="private")
    free.set_params(solver="noisy_gd", options={"rounds": 2})
    with pytest.warns(OutlookWarning, match=r"n = 4,000 and epsilon 0\.1, "):
        free.fit(*rows(4_000, 500))
    odometer = dp.Odometer(tmp_path / "table.odometer", dp.ApproxDP(0.05, 1e-4))
    refusal = pytest.raises(dp.errors.BudgetError)
    with pytest.warns(OutlookWarning), refusal:  # the budget does not suffice: it was said before
        model(0.1).set_params(odometer=odometer).fit(X, y)
    assert messages(lambda: model(16.0).fit(X, y)) == []


def test_solve_warns_and_a_plan_does_not():
    small = task(n=353, d=20, epsilon=0.1)
    X, y = rows()
    given = (small.problem, (X, np.where(y == 1, 1.0, -1.0)), small.budget)
    assert messages(lambda: dp.solve(*given)) == [outlook(small).sentence]
    assert messages(lambda: dp.plan(small)) == []


def test_no_row_changes_a_message():
    """What an estimator says is the same on tables that have nothing in common but their size."""
    X, y = rows()
    tables = [
        (X, y),
        (-X, y),
        (np.zeros_like(X), y),
        (1e200 * X, 1 - y),
        (np.full_like(X, np.nan), y),
    ]
    usual = [messages(lambda t=table: model(0.1).fit(*t)) for table in tables]
    assert usual == usual[:1] * len(tables)
    assert len(usual[0]) == 1
    solver = model(0.1).fit(X, y).plan_.solver
    with planted("forecast_from_rows", solver):  # and the comparison sees one that reads rows
        spoiled = [messages(lambda t=table: model(0.1).fit(*t)) for table in tables]
    assert spoiled != usual


def test_an_outlook_has_no_data_argument():
    facts = {"problem", "n", "d", "budget", "solver", "base_rate", "label_spread"}
    assert set(inspect.signature(outlook).parameters) == facts


# -- calibration -----------------------------------------------------------------------------------


def measured(rng, count, noise=0.4):
    """Return cells of made-up tables with a known form."""
    points = []
    for number in range(count):
        shift = rng.normal() * noise
        for u in np.geomspace(1e-3, 3.0, 24):
            v = (u / 0.5) ** 1.2
            excess = v / (1 + v) * math.exp(shift + 0.2 * rng.normal())
            gap = rng.uniform(0.05, 0.5)
            below = int(excess > gap)
            half = ("choose", "check")[number % 2]
            points.append(
                bands.Point(
                    f"t{number}", half, "class", "auto", True, 2, u, excess, 0.9, 0.3, below, 1
                )
            )
    return points


@pytest.mark.slow
def test_calibration_finds_the_form_and_its_band_covers():
    points = measured(np.random.default_rng(1), 16)
    families, lines = bands.lines_of(points)
    family = families["class"]
    assert family.middle == pytest.approx(0.5, rel=0.35)
    assert family.power == pytest.approx(1.2, rel=0.1)
    check = [point for point in points if point.half == "check"]
    assert bands.covered(check, family) >= 0.8
    assert family.high / family.low <= bands.WIDEST + 1e-9
    hits, alarms = bands.alarms(check, family, known=False)
    assert hits > 0.6
    assert alarms < 0.2
    assert any(line.startswith("all check") for line in lines)
    # A form of twice the noise is told from it.
    wrong = Family(**{**family.__dict__, "middle": family.middle / 4})
    assert bands.covered(check, wrong) < bands.covered(check, family) - 0.1


def test_constants_are_written_in_place(tmp_path, monkeypatch):
    copy = tmp_path / "outlook.py"
    copy.write_text(Path(module.__file__).read_text())
    monkeypatch.setattr(module, "__file__", str(copy))
    family = Family(1.0, 0.9, 0.5, 2.0, 0.8, 0.3)
    text = bands.constants({"class": family, "squared": family}, {"phased_sgd": 3.0})
    bands.write(text)
    space: dict = {"__name__": "dpsco.fit.outlook", "__package__": "dpsco.fit"}
    exec(compile(copy.read_text(), str(copy), "exec"), space)
    assert vars(space["CLASSES"]) == vars(space["SQUARED"]) == vars(family)
    assert vars(space["BOUNDED"]) == vars(module.BOUNDED)
    assert space["SOLVERS"] == {"phased_sgd": 3.0}


def test_nothing_good_is_predicted_of_a_solver_that_is_not_calibrated():
    bounds = dp.Bounds(1.0, label=1.0)
    problem = dp.Problem(loss=dp.losses.Squared(), bounds=bounds, domain=dp.domains.L1Ball(3.0))
    large = dp.Task(problem, n=50_000, d=5, budget=dp.ApproxDP(1.0, 1e-9))
    assert dp.outlook(large).verdict == "good"
    assert dp.outlook(large, solver="poly_sfw").verdict == "unknown"
    small = dp.Task(problem, n=20, d=5, budget=dp.ApproxDP(0.1, 1e-4))
    assert not dp.outlook(small, solver="poly_sfw").promising
