"""Noise helpers: the whole noise of a run in every sum, once a round, in step with the integers."""

import copy
import dataclasses
import pickle

import numpy as np
import pytest

import dpsco as dp
from dpsco.errors import AssumptionError, LedgerError, ParameterError
from dpsco.federated import Coordinator, FixedPoint, NoiseHelper, Trust, masked
from dpsco.federated.fixed_point import needed_bits
from dpsco.privacy.lattice import lattice_step

WIDE = 12_000
FIVE = 0.065  # standard errors of a variance estimated from so many numbers


def wide_plan(solver):
    """Return a plan of so many weights that one run shows the law of its noise."""
    problem = dp.Problem(loss=dp.losses.SquaredDistance(), bounds=dp.Bounds(1.0))
    options = {"rounds": 4, "clip": 1.0}
    budget = dp.ApproxDP(1.0, 1e-6)
    return dp.plan(problem, n=40, d=WIDE, budget=budget, solver=solver, options=options)


def start(plan, helpers=1, **more):
    encoding = FixedPoint.choose(plan, helpers=helpers)
    trust = {"trust": Trust.NOISE_HELPERS, "encoding": encoding}
    made = [
        NoiseHelper(plan, name=f"h{k}", encoding=encoding, randomness=dp.Randomness.seeded(k))
        for k in range(helpers)
    ]
    return Coordinator(plan, helpers=helpers, **trust, **more), made, encoding


@pytest.mark.parametrize("solver", ["acc_srgd", "dp_sgd_single_epoch"])
def test_a_helper_gives_the_noise_of_a_whole_run(solver):
    """The covariance over rounds is the plan's, within five standard errors."""
    plan = wide_plan(solver)
    coordinator, (helper,), encoding = start(plan)
    rounds = []
    while not coordinator.finished:
        task = coordinator.request()
        answer = helper.answer(task)
        rounds.append(encoding.decode(answer.vector))
        coordinator.receive_sum(answer.vector, round=task.round, workers=None)
    noise = np.array(rounds)
    wanted = np.eye(4) * plan.sigma**2
    if plan.mechanism is not None:
        decoder = plan.mechanism.decoder()
        increments = np.diff(decoder, axis=0, prepend=0.0)
        wanted = plan.sigma**2 * increments @ increments.T
    scale = np.sqrt(np.outer(np.diag(wanted), np.diag(wanted)))
    found = noise @ noise.T / WIDE
    assert (np.abs(found - wanted) < FIVE * scale).all()
    for wrong in (0.9, 1.1):  # a scale that is off by a tenth would be seen in every round
        assert (
            np.abs(np.diag(found - wrong**2 * wanted)) > FIVE * wrong**2 * np.diag(wanted)
        ).all()
    assert helper.certificate().verify().ok


def test_correlated_noise_has_no_lattice_of_its_own():
    """Multiples of a step, times a number that is no power of two, would favour some integers."""
    plan = wide_plan("acc_srgd")
    _, (helper,), encoding = start(plan)
    stream = dp.Randomness.seeded(0).child("prefix_sum")
    normals = plan.mechanism.start(lambda: stream.normals(WIDE))
    noise = helper._noise(0)
    assert np.array_equal(noise, plan.sigma * normals.next())
    spacing = np.diff(np.sort(noise)).min()
    assert spacing < 0.2 * encoding.step
    assert any("correlated noise" in line for line in helper._ledger._certificate.trusted)


@pytest.mark.parametrize("finer", [1, 2, 8])
def test_sums_finer_than_the_noise_are_refused(finer):
    plan = wide_plan("dp_sgd_single_epoch")
    step = lattice_step(plan.clip, WIDE)
    fits = FixedPoint(step, needed_bits(plan, step, 1))
    assert fits.check(plan, helpers=1) == fits
    if finer > 1:
        with pytest.raises(ParameterError, match="helpers' noise is a multiple"):
            FixedPoint(step / finer, 53).check(plan, helpers=1)


def test_what_the_coordinator_sees_holds_every_helpers_noise(setting):
    plan = setting.plan()
    coordinator, helpers, encoding = start(plan, 2)
    while not coordinator.finished:
        task = coordinator.request()
        more = {"trust": "noise_helpers", "encoding": encoding}
        workers = setting.workers(plan, task.round, 3, **more)
        answers = [side.answer(task) for side in (*workers, *helpers)]
        total = encoding.add([a.vector for a in masked(answers, encoding)], task.size)
        rows, noise = (
            encoding.add([a.vector for a in part], task.size) for part in (answers[:3], answers[3:])
        )
        assert (encoding.decode(total) == encoding.decode(rows) + encoding.decode(noise)).all()
        assert np.abs(encoding.decode(noise)).min() > 0.0
        assert not (answers[3].vector == answers[4].vector).any()
        coordinator.receive_sum(total, round=task.round, workers=None)
    certificate = coordinator.result().certificate
    assert certificate.trust_model == Trust.NOISE_HELPERS.model
    assert certificate.verify().ok
    towards = helpers[0].certificate()
    assert towards.epsilon(1e-6) == certificate.epsilon(1e-6) <= 2.0


def test_the_coordinator_adds_its_own_noise_as_well(setting):
    """With the helper's share taken out again, it is the run in one place: nothing is missing."""
    plan = setting.plan("dp_sgd_single_epoch")
    coordinator, (helper,), encoding = start(plan, randomness=dp.Randomness.seeded(3))
    plain = Coordinator(plan, encoding=encoding, randomness=dp.Randomness.seeded(3))
    while not coordinator.finished:
        task = coordinator.request()
        noise = helper.answer(task).vector
        undone = encoding.add([noise, np.uint64(2**encoding.bits) - noise], task.size)
        coordinator.receive_sum(undone, round=task.round, workers=None)
        plain.receive([], nobody=True)
    assert (coordinator.result().weights == plain.result().weights).all()


def test_the_noise_is_that_of_the_helpers_own_root(setting):
    plan = setting.plan()
    encoding = FixedPoint.choose(plan, helpers=1)
    task = Coordinator(plan, trust="noise_helpers", encoding=encoding, helpers=1).request()

    def noise(*seed):
        root = dp.Randomness(*seed)
        made = NoiseHelper(plan, name="h", encoding=encoding, randomness=root)
        return made.answer(task).vector.tolist()

    assert noise(1) == noise(1) != noise(2)
    assert noise() != noise()


def test_a_helper_is_no_thing_to_copy(setting):
    """Two of them would give two rounds the same noise."""
    _, (helper,), _ = start(setting.plan())
    for way in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(LedgerError, match="copied nor pickled"):
            way(helper)


def test_a_round_has_one_answer(setting):
    coordinator, (helper,), _ = start(setting.plan())
    first = coordinator.request()
    with pytest.raises(LedgerError, match="round 0 of 3 next"):
        helper.answer(dataclasses.replace(first, round=1))
    vector = helper.answer(first).vector
    with pytest.raises(LedgerError, match="No round has two answers"):
        helper.answer(first)
    coordinator.receive_sum(vector, round=0, workers=None)
    with pytest.raises(LedgerError, match="another run"):
        helper.answer(dataclasses.replace(coordinator.request(), run="0" * 32))


def test_a_certificate_comes_last_and_asking_early_does_no_harm(setting):
    coordinator, (helper,), _ = start(setting.plan())
    while not coordinator.finished:
        with pytest.raises(LedgerError, match=f"round {coordinator.round} of 3"):
            helper.certificate()
        task = coordinator.request()
        coordinator.receive_sum(helper.answer(task).vector, round=task.round, workers=None)
    after = dataclasses.replace(task, round=3)
    with pytest.raises(LedgerError, match="round 3 of 3"):
        helper.answer(after)
    assert helper.certificate() is helper.certificate()
    assert helper.certificate().trust_model == Trust.NOISE_HELPERS.model
    assert set(Trust.NOISE_HELPERS.trusted("row")) <= set(helper.certificate().trusted)


def test_a_helper_agrees_to_its_plan_alone(setting):
    plan = setting.plan()
    coordinator, (helper,), encoding = start(plan)
    task = coordinator.request()
    coarse = FixedPoint(encoding.step * 2**10, encoding.bits)
    for changes in (
        {"plan": "0" * 32},
        {"trust": "secure_aggregation"},
        {"encoding": coarse},
        {"encoding": None},
        {"clip": plan.clip * 1.001},
        {"points": (np.zeros(3),)},
    ):
        with pytest.raises(AssumptionError, match="agreed on"):
            helper.answer(dataclasses.replace(task, **changes))
    with pytest.raises(ParameterError, match="Request"):
        helper.answer("task")
    helper.answer(task)  # none of these has used up the round
    with pytest.raises(ParameterError, match=r"need .* bits"):
        NoiseHelper(plan, name="h", encoding=FixedPoint(encoding.step, encoding.bits - 3))
    with pytest.raises(ParameterError, match="adds integers"):
        NoiseHelper(plan, name="h", encoding=None)
