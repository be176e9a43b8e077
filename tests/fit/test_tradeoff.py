"""Trade-offs: monotone, in agreement with outlooks and plans, proven about attacks."""

import itertools
import json
import math

import pytest

import dpsco as dp
from dpsco.errors import AssumptionError, ParameterError
from dpsco.privacy.accounting.attack_roc import Odds

EPSILONS = (0.1, 0.3, 1.0, 3.0)
CLOSE = ("noisy_gd", "approx_objective_perturbation")


@pytest.fixture(scope="module")
def task(binary):
    return dp.Task(binary, n=3_000, d=20, budget=dp.ApproxDP(1.0, 1e-7))


@pytest.fixture(scope="module")
def binary():
    return dp.Problem(loss=dp.losses.Logistic(), bounds=dp.Bounds(1.0, label="sign"))


@pytest.fixture(scope="module")
def curve(task):
    return dp.tradeoff(task, EPSILONS)


def test_a_point_for_every_epsilon_and_solver(curve):
    assert curve.epsilons == EPSILONS
    assert {point.solver for point in curve.points} == set(CLOSE)
    assert [point.epsilon for point in curve.chosen] == list(EPSILONS)


@pytest.mark.parametrize("key", CLOSE)
def test_more_privacy_never_promises_more_accuracy_nor_a_better_attack(curve, key):
    own = [point for point in curve.points if point.solver == key]
    for few, more in itertools.pairwise(own):
        assert few.excess > more.excess
        assert few.high >= more.high
        assert few.attack_accuracy < more.attack_accuracy
        assert few.detection < more.detection
        assert few.noise > more.noise


def test_there_is_no_second_excess_risk(curve, task):
    for point in curve.points:
        one = dp.Task(task.problem, task.n, task.d, dp.ApproxDP(point.epsilon, 1e-7))
        expected = dp.outlook(one, solver=point.solver)
        assert (point.excess, point.low, point.high) == (
            expected.excess,
            expected.low,
            expected.high,
        )
        assert (point.verdict, point.constant) == (expected.verdict, expected.constant)


def test_the_attack_bound_is_that_of_the_plan(curve, task):
    point = curve.at(1.0, "approx_objective_perturbation")
    odds = Odds(dp.plan(task, solver=point.solver).cost)
    assert (point.attack_accuracy, point.detection) == (odds.accuracy, odds.power(0.01))
    assert point.advantage == pytest.approx(2 * odds.accuracy - 1, rel=1e-12)


def test_an_attack_on_objective_perturbation_may_succeed_more_often(curve):
    # Equal epsilon and delta, another privacy curve: what finding A7 of the trials was about.
    gaussian, perturbed = (curve.at(1.0, key) for key in CLOSE)
    assert perturbed.attack_accuracy > gaussian.attack_accuracy + 0.02


def test_auto_can_be_told_to_weigh_attacks(binary):
    # So large that objective perturbation saves time, and auto takes it.
    large = dp.Task(binary, n=200_000, d=20, budget=dp.ApproxDP(1.0, 1e-11))
    assert dp.recommend(large).best == dp.plan(large).solver == "approx_objective_perturbation"
    assert dp.recommend(large, prefer="attack").best == "noisy_gd"
    assert dp.plan(large, prefer="attack").solver == "noisy_gd"
    assert dp.tradeoff(large, 1.0, prefer="attack").at(1.0).solver == "noisy_gd"
    everything = {each.solver for each in dp.recommend(large).ranked}
    assert {each.solver for each in dp.recommend(large, prefer="attack").ranked} == everything


def test_public_facts_change_verdicts_alone(curve, task):
    rare = dp.tradeoff(task, EPSILONS, base_rate=0.03)
    assert [point.excess for point in rare.points] == [point.excess for point in curve.points]
    assert rare.points[0].constant < curve.points[0].constant
    assert (curve.at(0.1).verdict, rare.at(0.1).verdict) == ("weak", "constant")
    assert not rare.points[0].typical


def test_the_best_point_is_the_most_private_one_with_room_to_learn(curve, task):
    assert curve.best() == next(point for point in curve.chosen if point.verdict == "good")
    hopeless = dp.tradeoff(task, (0.001, 0.002))
    assert hopeless.best().epsilon == 0.002


def test_named_solvers(task):
    curve = dp.tradeoff(task, (0.3, 1.0), solvers=["noisy_gd", "acc_srgd"])
    assert [point.solver for point in curve.points] == ["noisy_gd", "acc_srgd"] * 2
    assert dp.tradeoff(task, 1.0, solvers="auto").solvers == ("noisy_gd",)
    with pytest.raises(AssumptionError, match="does not apply"):
        dp.tradeoff(dp.Task(task.problem, 3_000, 20, dp.PureDP(1.0)), 1.0, solvers="noisy_gd")


def test_where_nothing_is_predicted_attacks_are_bounded_still(task):
    curve = dp.tradeoff(dp.Task(task.problem, 3_000, 20, dp.PureDP(1.0)), (0.1, 1.0))
    assert all(math.isnan(point.excess) for point in curve.points)
    assert curve.at(0.1).attack_accuracy <= 0.5 + math.tanh(0.05) / 2 + 1e-9
    assert curve.to_json()["points"][0]["excess"] is None


def test_text_json_and_frame_agree(curve):
    text, record = str(curve), json.loads(json.dumps(curve.to_json(), allow_nan=False))
    frame = curve.to_frame()
    assert len(frame) == len(record["points"]) == len(curve.points)
    assert list(frame["excess"]) == [point.excess for point in curve.points]
    for point in curve.points:
        assert f"{point.epsilon:g}" in text
        assert point.solver in text
        assert f" {point.gradients:.2g}\n" in text


def test_claims_are_rounded_up_in_text(curve):
    shown = f"{math.ceil(1000 * curve.at(1.0).attack_accuracy) / 10:g} %"
    assert shown in str(curve)
    assert 10 * float(shown.split()[0]) >= 1000 * curve.at(1.0).attack_accuracy


@pytest.mark.parametrize(
    ("epsilons", "named"),
    [((), "epsilons"), (0.0, "epsilons"), ((1.0, -1.0), "epsilons"), ("one", "epsilons")],
)
def test_epsilons_that_are_none(task, epsilons, named):
    with pytest.raises(ParameterError, match=named):
        dp.tradeoff(task, epsilons)


def test_what_is_refused(task, binary):
    with pytest.raises(ParameterError, match="has none"):
        dp.tradeoff(dp.Task(binary, 3_000, 20, dp.GDP(0.5)))
    with pytest.raises(ParameterError, match="must be a Task"):
        dp.tradeoff(binary)
    with pytest.raises(ParameterError, match="prefer"):
        dp.tradeoff(task, prefer="speed")
    with pytest.raises(ParameterError, match="has no epsilon 2"):
        dp.tradeoff(task, 1.0).at(2.0)


def test_named_solvers_are_not_said_to_be_taken_by_auto(task, curve):
    named = dp.tradeoff(task, 1.0, solvers=["acc_srgd", "noisy_gd"])
    assert "* ranked first of these" in str(named)
    assert '* what "auto" takes' in str(curve)
