"""Forecasts of rounds: their sense, their agreement with a measured case, their words."""

import dataclasses
import json
import re

import numpy as np
import pytest

import dpsco as dp
from dpsco.errors import AssumptionError, ParameterError
from dpsco.fit.forecast import calibrated_solvers
from dpsco.solvers import registry
from dpsco.solvers.base import SingleEpoch

BUDGET = dp.ApproxDP(1.0, 1e-9)
SOLVERS = calibrated_solvers()
N, D = 50_000, 20


def problem(loss=None, **settings):
    return dp.Problem(
        loss=loss or dp.losses.Logistic(), bounds=dp.Bounds(1.0, label="sign"), **settings
    )


def forecast(n=N, d=D, budget=BUDGET, loss=None, **options):
    return dp.forecast(problem(loss), n, d, budget, **options)


def test_every_solver_of_one_pass_is_forecast():
    assert set(SOLVERS) == {
        key
        for key, solver in registry().items()
        if solver.single_epoch and (solver.measured or solver.single_epoch.rank)
    }
    found = forecast()
    assert set(found.defaults) == set(SOLVERS)
    assert len(found.points) == len(found.rounds) * len(SOLVERS)
    assert all(0 < point.excess < 2 for point in found.points)


@pytest.mark.parametrize(
    "loss", [dp.losses.Logistic(), dp.losses.Hinge()], ids=["smooth", "nonsmooth"]
)
@pytest.mark.parametrize("key", ["acc_srgd", "srg_online_to_batch", "srg_sgd"])
def test_fewer_rounds_than_needed_are_worse(loss, key):
    found = forecast(loss=loss, rounds=[1, 2, 4, 8, 16], solvers=key)
    excess = [found.at(rounds, key).excess for rounds in found.rounds]
    assert excess == sorted(excess, reverse=True)
    assert found.times(4, instead_of=16) > 1.5
    assert found.times(16, instead_of=4) == pytest.approx(1 / found.times(4, instead_of=16))


def test_sharp_curvature_is_forecast_like_none():
    """A Huber loss of a small threshold is smoothed as the absolute one, and learnt as slowly."""

    def made(loss):
        bounds = dp.Bounds(1.0, label=1.0)
        return dp.forecast(dp.Problem(loss=loss, bounds=bounds), N, D, BUDGET, rounds=[8, 32])

    absolute, sharp, gentle = map(
        made, (dp.losses.Absolute(), dp.losses.Huber(1e-3), dp.losses.Huber(1))
    )
    assert sharp.calibration == absolute.calibration != gentle.calibration
    for key in SOLVERS:
        if key not in ("dp_sgd_single_epoch", "dp_ftrl"):  # which do not smooth
            assert sharp.times(8, 32, key) == pytest.approx(absolute.times(8, 32, key), rel=1e-3)


def test_independent_noise_pays_for_every_round_and_correlated_noise_does_not():
    tight = forecast(budget=dp.ApproxDP(0.2, 1e-9), rounds=[32, 64, 128])
    for rounds in tight.rounds:
        assert tight.at(rounds, "acc_srgd").excess < tight.at(rounds, "acc_independent").excess
        assert tight.at(rounds, "dp_ftrl").excess < tight.at(rounds, "dp_sgd_single_epoch").excess
    assert tight.times(128, 32, "acc_independent") > 1.5 * tight.times(128, 32, "acc_srgd")


def test_more_rows_and_more_budget_promise_less():
    base = forecast(rounds=32)
    for key in SOLVERS:
        here = base.at(32, key).excess
        assert forecast(n=4 * N, rounds=32).at(32, key).excess < here
        assert forecast(budget=dp.ApproxDP(0.1, 1e-9), rounds=32).at(32, key).excess > here
        zero = dp.ApproxDP(1.0, 1e-9, adjacency="zero_out")
        assert forecast(budget=zero, rounds=32).at(32, key).excess <= here


def test_a_hint_of_the_smoothness_saves_rounds():
    plain, hinted = forecast(), forecast(population_smoothness=0.0125)
    assert hinted.defaults["acc_srgd"] < plain.defaults["acc_srgd"] / 2
    few = hinted.defaults["acc_srgd"]
    known = forecast(rounds=few, population_smoothness=0.0125)
    assert known.at(few, "acc_srgd").excess < forecast(rounds=few).at(few, "acc_srgd").excess / 2
    assert hinted.defaults["dp_ftrl"] == plain.defaults["dp_ftrl"]


def measured(solver, rounds):
    """Return the mean excess of logistic regression on the sphere, by its exact probabilities."""
    n, d, best = 8192, 10, np.zeros(10)
    best[0] = 6.0
    test = np.random.default_rng(9).normal(size=(20_000, d))
    test /= np.linalg.norm(test, axis=1, keepdims=True)
    true, found = test @ best, []
    made = dp.plan(
        problem(domain=dp.domains.L2Ball(8.0)),
        n=n,
        d=d,
        budget=dp.ApproxDP(1.0, 1e-6),
        solver=solver,
        options={"rounds": rounds},
    )
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, d))
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        y = np.where(X @ best + rng.logistic(size=n) > 0, 1.0, -1.0)
        w = dp.run(made, (X, y), randomness=dp.Randomness.seeded(seed)).weights
        chance = 1 / (1 + np.exp(-true))
        loss = np.logaddexp(0, test @ w) - np.logaddexp(0, true) - chance * (test @ w - true)
        found.append(loss.mean())
    return float(np.mean(found))


def test_the_order_is_that_of_a_measured_case():
    rounds = (2, 8, 32)
    found = dp.forecast(
        problem(domain=dp.domains.L2Ball(8.0)), 8192, 10, dp.ApproxDP(1.0, 1e-6), rounds=rounds
    )
    truth = {(key, T): measured(key, T) for key in ("acc_srgd", "acc_independent") for T in rounds}
    for few, many in ((2, 8), (8, 32)):
        ratio = truth["acc_srgd", few] / truth["acc_srgd", many]
        told = found.times(few, many, "acc_srgd")
        assert ratio > 1.1
        assert told > 1.1
        assert 0.2 < told / ratio < 5.0
    assert truth["acc_srgd", 32] < truth["acc_independent", 32]
    assert found.at(32, "acc_srgd").excess < found.at(32, "acc_independent").excess


def test_what_it_says():
    found = forecast()
    text = str(found)
    lines = text.splitlines()
    assert max(map(len, lines)) <= 100
    assert all(key in text for key in SOLVERS)
    assert sum(line.startswith("*") for line in lines) == 2  # the row, and what it means
    assert re.search(rf"^\* +{found.usual} ", text, flags=re.MULTILINE)
    assert re.search(r"\d+ rounds of \w+ instead of \d+: about .* the excess risk", text)
    leader = min(found.own, key=lambda point: point.excess).solver
    assert f"\n* what {leader} takes by itself" in text
    assert found.defaults[leader] == found.usual
    assert found.accuracy in " ".join(lines)
    assert found.rounds[0] == 1
    assert found.rounds[-1] <= 4 * found.usual
    asked = forecast(rounds=[32, 8])
    assert asked.answer.startswith("8 rounds of acc_srgd instead of 32: about ")
    single = forecast(rounds=1).answer
    assert re.fullmatch(
        r"1 round of \w+: made-up problems of this size had an excess of about \S+\.", single
    )
    assert "by itself" not in str(asked)  # neither number is a default
    assert "*" not in str(asked)
    same = forecast(n=10**7, rounds=[500, 2000], solvers="acc_srgd").answer
    assert "about the same excess risk" in same


def test_each_number_that_is_asked_for_is_compared_with_the_largest():
    usual = forecast().usual
    asked = forecast(rounds=[4, usual, 8, 2 * usual])
    lines = str(asked).splitlines()
    sentences = asked.answer.split(". ")
    assert len(sentences) == 3
    many = asked.at(2 * usual)
    for rounds, sentence in zip((4, 8, usual), sentences, strict=True):
        start = f"{rounds} rounds of {many.solver} instead of {many.rounds}: about "
        assert sentence.startswith(start)
        assert sum(line.startswith(start) for line in lines) == 1
    told = asked.times(8, instead_of=2 * usual)
    assert f"about {told:.2g} times the excess risk" in sentences[1]
    assert f"\n*{usual:>6} " in str(asked)
    assert max(map(len, lines)) <= 100
    assert asked.at(4).solver != many.solver  # which is compared with itself all the same
    assert asked.times(4, instead_of=2 * usual) == asked.at(4, many.solver).excess / many.excess


@pytest.mark.parametrize(
    ("loss", "name"),
    [
        (dp.losses.Squared(), "Squared"),
        (dp.losses.Logistic(), None),
        (dp.losses.Huber(0.2), None),
        (dp.losses.Pinball(0.75), None),
        (
            dp.losses.CustomLoss(
                value=lambda m, y: np.log(np.cosh(m - y)),
                slope=lambda m, y: np.tanh(m - y),
                slope_bound=1.0,
                curvature_bound=1.0,
                convex=True,
                labels="real",
                name="log-cosh",
            ),
            "log-cosh",
        ),
    ],
)
def test_losses_that_were_not_measured_are_named(loss, name):
    label = 1.0 if loss.labels == "real" else "sign"
    told = dp.forecast(
        dp.Problem(loss=loss, bounds=dp.Bounds(1.0, label=label), domain=dp.domains.L2Ball(1.0)),
        N,
        D,
        BUDGET,
        rounds=[8, 32],
    )
    words = " ".join(str(told).split())
    assert ("was not measured" in words) == (name is not None)
    assert told.to_json()["measured"] == (name is None)
    if name is not None:
        assert f"The loss {name} was not measured" in words
        assert "Those measured: Logistic, Huber, Hinge, Absolute, Pinball." in words


def test_json():
    record = json.loads(json.dumps(forecast(rounds=[8, 32]).to_json()))
    assert {point["rounds"] for point in record["expected"]} == {8, 32}
    assert min(point["times_best"] for point in record["expected"]) == 1.0
    assert record["default_rounds"]["acc_srgd"] > 1
    assert record["answer"].startswith("8 rounds")


@pytest.mark.parametrize("n", [1, 2, 3, 40])
def test_few_rows_have_few_rounds(n):
    found = forecast(n=n, budget=dp.ApproxDP(1.0, 1e-3))
    assert found.rounds[0] >= 1
    assert found.rounds[-1] <= n
    assert str(found)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rounds": 0}, "rounds must be at least 1"),
        ({"rounds": [2.5]}, "rounds"),
        ({"rounds": []}, "from 1 to n = 50000"),
        ({"rounds": [8, N + 1]}, "from 1 to n = 50000"),
        ({"solvers": "noisy_gd"}, "solvers must be one of"),
        ({"solvers": []}, "at least one of acc_srgd"),
        ({"population_smoothness": 0.0}, "population_smoothness must be positive"),
    ],
)
def test_wrong_arguments(options, words):
    with pytest.raises(ParameterError, match=words):
        forecast(**options)


def test_what_does_not_apply_is_refused():
    with pytest.raises(AssumptionError, match=r"acc_srgd does not apply: .*a delta above 0"):
        forecast(budget=dp.PureDP(1.0))
    with pytest.raises(AssumptionError, match="add_remove"):
        forecast(budget=dp.ApproxDP(1.0, 1e-9, adjacency="add_remove"))
    with pytest.raises(ParameterError, match="must be a budget such as"):
        dp.forecast(problem(), N, D, 1.0)
    with pytest.raises(ParameterError, match="no 7 rounds of any solver; it has 8 rounds"):
        forecast(rounds=8).at(7)
    with pytest.raises(ParameterError, match="no 8 rounds of noisy_gd"):
        forecast(rounds=8).times(8, 8, "noisy_gd")


def test_a_solver_that_is_not_calibrated_has_no_forecast(monkeypatch):
    entry = registry()["srg_sgd"]
    smooth_only = dataclasses.replace(entry.single_epoch, nonsmooth=None)
    monkeypatch.setitem(registry(), "srg_sgd", dataclasses.replace(entry, single_epoch=smooth_only))
    assert forecast(rounds=8, solvers="srg_sgd").points
    with pytest.raises(AssumptionError, match="srg_sgd for nonsmooth losses: not calibrated"):
        forecast(rounds=8, loss=dp.losses.Hinge(), solvers="srg_sgd")
    bare = dataclasses.replace(entry, single_epoch=SingleEpoch())
    monkeypatch.setitem(registry(), "srg_sgd", bare)
    assert "srg_sgd" not in forecast(rounds=8).defaults
    with pytest.raises(ParameterError, match="solvers must be one of"):
        forecast(rounds=8, solvers="srg_sgd")


def test_it_is_fast():
    import time

    forecast()
    started = time.process_time()
    forecast(n=N + 1)
    assert time.process_time() - started < 1.0
