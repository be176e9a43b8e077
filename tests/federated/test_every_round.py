"""Runs in which every worker answers every round: full passes, and samples that workers draw."""

import dataclasses
import itertools
from typing import ClassVar

import numpy as np
import pytest

import dpsco as dp
from dpsco.errors import AssumptionError, LedgerError, ParameterError
from dpsco.federated import Answer, Coordinator, FixedPoint, NoiseHelper, Request, Worker, masked
from dpsco.federated.agreement import trusted
from dpsco.federated.protection import rounds_of
from dpsco.federated.trust import COINS, Trust
from dpsco.privacy.mechanisms import GaussianRelease, PoissonGaussianRelease, PrefixSumRelease
from dpsco.privacy.mechanisms.prefix_sum.mechanism import mechanism
from dpsco.privacy.randomness import Stream
from dpsco.solvers import noisy_gd

N, ROUNDS = 120, 3


def planned(setting, solver="noisy_gd", **more):
    sampled = {"epochs": ROUNDS / 2, "rate": 0.5}
    options = sampled if solver == "dp_sgd_poisson" else {"rounds": ROUNDS}
    budget = dp.ApproxDP(2.0, 1e-6, **more)
    return dp.plan(setting.problem, n=N, d=4, budget=budget, solver=solver, options=options)


def workers_of(setting, plan, count=4, **more):
    cuts = np.linspace(0, N, count + 1).astype(int)
    return [
        Worker(setting.rows(a, b), plan, name=f"w{a}", **more) for a, b in itertools.pairwise(cuts)
    ]


def finish(coordinator, workers):
    while not coordinator.finished:
        request = Request.from_json(coordinator.request().to_json())
        sent = [worker.answer(request).to_json() for worker in workers]
        coordinator.receive([Answer.from_json(text) for text in sent])
    return coordinator.result()


def seeded():
    return dp.Randomness.seeded(7)


@pytest.mark.parametrize(
    "solver", ["truncated_batched_mirror_descent", "heavy_tailed_coordinate_gd"]
)
def test_truncated_gradients_are_those_of_the_run_in_one_place(setting, solver):
    """Which coordinates are cut follows from the plan, not from the request."""
    setting.problem = dataclasses.replace(setting.problem, domain=dp.domains.L2Ball(2.0))
    options = {"rounds": ROUNDS, "clip": 0.05}
    budget = dp.ApproxDP(2.0, 1e-6)
    plan = dp.plan(setting.problem, n=N, d=4, budget=budget, solver=solver, options=options)
    workers = workers_of(setting, plan)
    there = finish(Coordinator(plan, randomness=seeded()), workers)
    here = dp.run(plan, (setting.X, setting.y), order="given", randomness=seeded())
    assert there.weights == pytest.approx(here.weights, abs=1e-9)
    request = Coordinator(plan, randomness=seeded()).request()
    if solver == "heavy_tailed_coordinate_gd":  # its clip is no l2 clip: a smaller one is refused
        assert request.clip == plan.bound
        with pytest.raises(AssumptionError, match="coordinates"):
            workers_of(setting, plan)[0].answer(dataclasses.replace(request, clip=0.01))


@pytest.mark.parametrize("loss", [dp.losses.Logistic(), dp.losses.Hinge()])
def test_full_passes_are_the_run_in_one_place(setting, loss):
    """Also where the loss changes from round to round, as the envelope of a kink does."""
    setting.problem = dataclasses.replace(setting.problem, loss=loss)
    plan = dataclasses.replace(planned(setting), smoothing_growth=4.0)
    assert plan.smoothing == 0.0 or plan.smoothing_at(0) != plan.smoothing_at(ROUNDS - 1)
    there = finish(Coordinator(plan, randomness=seeded()), workers_of(setting, plan))
    here = dp.run(plan, (setting.X, setting.y), order="given", randomness=seeded())
    assert there.weights == pytest.approx(here.weights, abs=1e-9)
    assert there.certificate.releases == here.certificate.releases
    assert any("every round of the run" in line for line in there.certificate.trusted)
    assert there.certificate.verify(cross_check=False).ok


def test_samples_that_workers_draw_are_poisson_samples(setting, monkeypatch):
    """With the coins of the run in one place, it is that run."""
    plan, drawn = planned(setting, "dp_sgd_poisson"), []
    draw = Stream.poisson_sample
    with monkeypatch.context() as patch:
        patch.setattr(
            Stream,
            "poisson_sample",
            lambda stream, n, rate: drawn.append(draw(stream, n, rate)) or drawn[-1],
        )
        here = dp.run(plan, (setting.X, setting.y), order="given", randomness=seeded())
    coordinator, (worker,) = Coordinator(plan, randomness=seeded()), workers_of(setting, plan, 1)
    for sample in drawn:
        request = coordinator.request()
        assert request.rate == plan.releases()[0].rate == 0.5
        with monkeypatch.context() as patch:
            patch.setattr(Stream, "poisson_sample", lambda *_, sample=sample: sample)
            answer = worker.answer(request)
        coordinator.receive([answer])
    there = coordinator.result()
    assert there.weights.tobytes() == here.weights.tobytes()
    assert there.certificate.releases == here.certificate.releases
    assert COINS.format(unit="row") in there.certificate.trusted
    assert COINS.format(unit="row") not in here.certificate.trusted


def test_coins_are_fair_and_fresh(setting):
    """Half of the rows of each round, others in each; false alarm 1e-6."""
    plan = planned(setting, "dp_sgd_poisson")
    worker = workers_of(setting, plan, 1)[0]
    samples = [set(worker._sample(0.5).tolist()) for _ in range(100)]
    assert len({frozenset(sample) for sample in samples}) == 100
    counts = np.array([sum(row in sample for sample in samples) for row in range(N)])
    assert abs(counts.sum() - 50 * N) < 5 * np.sqrt(100 * N / 4)
    assert counts.min() > 20
    assert counts.max() < 80


@pytest.mark.parametrize("coded", [False, True])
@pytest.mark.parametrize("solver", ["noisy_gd", "dp_sgd_poisson"])
def test_workers_that_share_rows_answer_with_their_own(setting, solver, coded, monkeypatch):
    """A row of somebody else's range would count twice."""
    plan = planned(setting, solver)
    monkeypatch.setattr(Stream, "poisson_sample", lambda _, n, rate: np.arange(0, n, 2))
    encoding = FixedPoint.choose(plan) if coded else None
    request = Coordinator(plan, encoding=encoding).request()
    for start, stop in ((0, 50), (50, N)):
        agreed = {"name": f"w{start}", "encoding": encoding}
        shared = Worker((setting.X, setting.y), plan, rows=(start, stop), **agreed)
        alone = Worker(setting.rows(start, stop), plan, **agreed)
        assert shared.answer(request).to_json() == alone.answer(request).to_json()


@pytest.mark.parametrize("solver", ["noisy_gd", "dp_sgd_poisson"])
def test_integers_give_the_same_run(setting, solver, monkeypatch):
    plan = planned(setting, solver)
    monkeypatch.setattr(Stream, "poisson_sample", lambda _, n, rate: np.arange(0, n, 2))
    encoding = FixedPoint.choose(plan)
    plain = finish(Coordinator(plan, randomness=seeded()), workers_of(setting, plan))
    coded = finish(
        Coordinator(plan, encoding=encoding, randomness=seeded()),
        workers_of(setting, plan, encoding=encoding),
    )
    assert coded.weights == pytest.approx(plain.weights, abs=1e-4)


@pytest.mark.parametrize("solver", ["noisy_gd", "dp_sgd_poisson"])
def test_noise_helpers_add_to_every_round(setting, solver):
    plan = planned(setting, solver)
    encoding = FixedPoint.choose(plan, helpers=1)
    agreed = {"trust": "noise_helpers", "encoding": encoding}
    coordinator = Coordinator(plan, helpers=1, **agreed)
    helper = NoiseHelper(plan, name="h", encoding=encoding)
    workers = workers_of(setting, plan, **agreed)
    while not coordinator.finished:
        request = coordinator.request()
        hidden = masked([side.answer(request) for side in (*workers, helper)], encoding)
        total = encoding.add([answer.vector for answer in hidden], request.size)
        names = [worker.name for worker in workers]
        coordinator.receive_sum(total, round=request.round, workers=names)
    assert helper.certificate().releases == coordinator.result().certificate.releases


def test_a_worker_answers_a_round_once_and_in_order(setting):
    plan = planned(setting, "dp_sgd_poisson")
    coordinator = Coordinator(plan)
    quiet, patient = workers_of(setting, plan, 1)[0], workers_of(setting, plan, 1, resend=True)[0]
    first = coordinator.request()
    answers = [patient.answer(first) for _ in range(3)]
    assert len({answer.to_json() for answer in answers}) == 1  # the same coins, not new ones
    other = dataclasses.replace(first, points=(first.points[0] + 1.0,))
    with pytest.raises(LedgerError, match="answered round 0"):
        patient.answer(other)
    quiet.answer(first)
    with pytest.raises(LedgerError, match="answered round 0"):
        quiet.answer(first)
    coordinator.receive(answers[:1])
    second = coordinator.request()
    coordinator.receive([patient.answer(second)])
    for late in (first, dataclasses.replace(second, clip=second.clip / 2)):
        with pytest.raises(LedgerError, match="answered round 1"):
            patient.answer(late)


def test_a_name_counts_once_in_a_round_and_again_in_the_next(setting):
    plan = planned(setting)
    coordinator = Coordinator(plan)
    one, two = (workers_of(setting, plan, 1)[0] for _ in range(2))
    request = coordinator.request()
    with pytest.raises(LedgerError, match="would count twice"):
        coordinator.receive([one.answer(request), two.answer(request)])
    coordinator.receive([workers_of(setting, plan, 1)[0].answer(request)])
    coordinator.receive([one.answer(coordinator.request())])
    assert coordinator.round == 2


def test_a_rate_that_was_not_planned_is_refused(setting):
    sampled, full = planned(setting, "dp_sgd_poisson"), planned(setting)
    request = Coordinator(sampled).request()
    for rate in (0.9, 0.1, None):
        with pytest.raises(AssumptionError, match="its rate is"):
            workers_of(setting, sampled, 1)[0].answer(dataclasses.replace(request, rate=rate))
    request = dataclasses.replace(Coordinator(full).request(), rate=0.5)
    with pytest.raises(AssumptionError, match=r"its rate is 0\.5, the plan's None"):
        workers_of(setting, full, 1)[0].answer(request)
    for rate in (0.0, 1.5, np.nan, "x"):
        with pytest.raises(ParameterError, match="rate"):
            dataclasses.replace(request, rate=rate)


def test_samples_of_fixed_size_are_refused(setting):
    plan = dataclasses.replace(
        planned(setting, "noisy_sgd_2019"), sampling="fixed_size", batch=9.0, sigma=1e3
    )
    with pytest.raises(ParameterError, match=r"fixed size.*dp_sgd_poisson"):
        Coordinator(plan)


class Phases(noisy_gd.schedule.Plan):
    """A plan whose releases are given."""

    phases: ClassVar[tuple] = ()

    def releases(self):
        return self.phases


def phased(setting, *phases):
    plan = planned(setting)
    kind = type("Given", (Phases,), {"phases": phases})
    return kind(**{item.name: getattr(plan, item.name) for item in dataclasses.fields(plan)})


FULL = GaussianRelease(1.0, 99.0, rows=(0, N))
SAMPLED = PoissonGaussianRelease(1.0, 99.0, 0.5, rows=(0, N))
STREAM = PrefixSumRelease(1.0, 99.0, mechanism("tree", rounds=2), rows=(0, N))


@pytest.mark.parametrize(
    "phases",
    [
        (STREAM, FULL),
        (FULL, STREAM),
        (STREAM, STREAM),
        (GaussianRelease(1.0, 99.0, rows=(0, 60)), FULL),
        (dataclasses.replace(FULL, rows=(0, 60), count=2),),
    ],
)
def test_rounds_on_parts_of_the_rows_that_come_again_are_refused(setting, phases):
    """Workers would answer every round of a prefix sum, which pays for one of them."""
    plan = phased(setting, *phases)
    assert not rounds_of(phased(setting, FULL, FULL)).single_epoch
    with pytest.raises(ParameterError, match="come again"):
        rounds_of(plan)


def test_coins_and_correlated_noise_are_told_in_whichever_round(setting):
    said = trusted(phased(setting, FULL, SAMPLED), Trust.TRUSTED_COORDINATOR, None)
    assert COINS.format(unit="row") in said
    halves = [dataclasses.replace(FULL, rows=(0, 60)), dataclasses.replace(STREAM, rows=(60, N))]
    said = trusted(phased(setting, *halves), Trust.NOISE_HELPERS, None)
    assert any("correlated noise is computed in float64" in line for line in said)


def test_rows_that_come_once_serve_no_worker_of_every_round(setting):
    chunks = dp.data.from_batches(iter([(setting.X, setting.y)]), n=N, d=4)
    with pytest.raises(ParameterError, match="come once"):
        Worker(chunks, planned(setting), name="w")


@pytest.mark.parametrize("solver", ["noisy_gd", "dp_sgd_poisson"])
def test_whole_workers_are_protected(setting, solver, monkeypatch):
    """One coin for a worker with all its rows; its answer is no longer than the clip."""
    plan = planned(setting, solver, unit=dp.Unit(1, "worker"))
    request, lengths = Coordinator(plan).request(), set()
    for k in range(60):
        worker = Worker(setting.rows(0, 50), plan, name=f"w{k}")
        lengths.add(float(np.linalg.norm(worker.answer(request).vector)))
    assert max(lengths) <= plan.clip * (1 + 1e-12)
    assert len(lengths) == (1 if solver == "noisy_gd" else 2)  # never all heads: 2^-59
    assert (0.0 in lengths) == (solver == "dp_sgd_poisson")


@pytest.mark.parametrize("solver", ["noisy_gd", "dp_sgd_poisson"])
def test_a_coordinator_goes_on_after_a_crash(setting, solver, tmp_path, monkeypatch):
    plan = planned(setting, solver)
    monkeypatch.setattr(Stream, "poisson_sample", lambda _, n, rate: np.arange(0, n, 3))
    whole = finish(Coordinator(plan, randomness=seeded()), workers_of(setting, plan))
    path, workers = tmp_path / "run", workers_of(setting, plan, resend=True)
    first = Coordinator(plan, randomness=seeded(), checkpoint=path)
    request = first.request()
    first.receive([worker.answer(request) for worker in workers])
    lost = first.request()
    for worker in workers:
        worker.answer(lost)  # which the coordinator does not live to see
    first.close()
    second = Coordinator(plan, checkpoint=path)
    assert second.request().to_json() == lost.to_json()
    result = finish(second, workers)
    assert result.weights.tobytes() == whole.weights.tobytes()
