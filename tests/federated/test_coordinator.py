"""The coordinator: the same run as in one place, each round once, nothing else kept or let out."""

import dataclasses
import gc
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import dpsco as dp
from dpsco.errors import (
    AssumptionError,
    BudgetError,
    CheckpointError,
    LedgerError,
    ParameterError,
    RandomnessError,
)
from dpsco.federated import (
    Answer,
    Coordinator,
    FixedPoint,
    Request,
    Trust,
    Worker,
    fits_clip,
    masked,
)
from dpsco.federated import collection as module
from dpsco.federated.trust import CAVEAT

SOLVERS = (
    *("acc_srgd", "acc_independent", "srg_sgd", "srg_online_to_batch"),
    *("dp_ftrl", "dp_sgd_single_epoch"),
)


def seeded():
    return dp.Randomness.seeded(7)


def finish(setting, coordinator, count=1, **more):
    """Do the rounds that are left, every message as JSON."""
    while not coordinator.finished:
        task = Request.from_json(coordinator.request().to_json())
        workers = setting.workers(coordinator.plan, task.round, count, **more)
        sent = [worker.answer(task).to_json() for worker in workers]
        coordinator.receive([Answer.from_json(text) for text in sent])
    return coordinator.result()


def in_one_place(setting, plan):
    return dp.run(plan, (setting.X, setting.y), order="given", randomness=seeded())


# -- the same run ----------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", SOLVERS)
def test_one_worker_a_round_gives_the_bits_of_a_run_in_one_place(setting, solver):
    plan = setting.plan(solver)
    wanted = in_one_place(setting, plan)
    found = finish(setting, Coordinator(plan, randomness=seeded()))
    assert (found.weights == wanted.weights).all()
    assert found.certificate.releases == wanted.certificate.releases
    assert found.certificate.verify().ok
    assert found.trace == wanted.trace


def test_a_smoothed_loss_is_smoothed_by_the_workers_too(setting):
    setting.problem = dataclasses.replace(setting.problem, loss=dp.losses.Hinge())
    plan = setting.plan()
    found = finish(setting, Coordinator(plan, randomness=seeded()))
    assert (found.weights == in_one_place(setting, plan).weights).all()


@pytest.mark.parametrize("solver", SOLVERS)
def test_many_workers_give_the_same_up_to_rounding(setting, solver):
    plan = setting.plan(solver)
    found = finish(setting, Coordinator(plan, randomness=seeded()), count=8)
    np.testing.assert_allclose(found.weights, in_one_place(setting, plan).weights, atol=1e-9)


@pytest.mark.parametrize("solver", ["acc_srgd", "dp_sgd_single_epoch"])
def test_fixed_point_gives_the_same_up_to_its_steps(setting, solver):
    plan = setting.plan(solver)
    encoding = FixedPoint.choose(plan)
    found = finish(
        setting,
        Coordinator(plan, randomness=seeded(), encoding=encoding),
        count=5,
        encoding=encoding,
    )
    wanted = in_one_place(setting, plan).weights
    assert 0.0 < np.abs(found.weights - wanted).max() < 1e-4
    assert any(f"modulo 2^{encoding.bits}" in line for line in found.certificate.enforced)


def test_masked_sums_are_all_that_is_needed(setting):
    plan, encoding = setting.plan(), FixedPoint.choose(setting.plan())
    trust = Trust.SECURE_AGGREGATION
    plain = finish(
        setting, Coordinator(plan, randomness=seeded(), encoding=encoding), 4, encoding=encoding
    )
    coordinator = Coordinator(plan, trust=trust, encoding=encoding, randomness=seeded())
    while not coordinator.finished:
        task = coordinator.request()
        workers = setting.workers(plan, task.round, 4, encoding=encoding, trust=trust)
        hidden = masked([worker.answer(task) for worker in workers], encoding)
        with pytest.raises(ParameterError, match="receive_sum"):
            coordinator.receive(hidden)
        total = encoding.add([answer.vector for answer in hidden], task.size)
        names = [answer.worker for answer in hidden]
        coordinator.receive_sum(total, round=task.round, workers=names)
    assert (coordinator.result().weights == plain.weights).all()


def test_only_the_few_round_solvers_send_two_points(setting):
    for solver, points in (("acc_srgd", [1, 2, 2]), ("dp_ftrl", [1, 1, 1])):
        coordinator, sent = Coordinator(setting.plan(solver)), []
        while not coordinator.finished:
            sent.append(len(coordinator.request().points))
            coordinator.receive([], nobody=True)
        assert sent == points


# -- drop-outs -------------------------------------------------------------------------------------


def test_who_drops_out_is_a_zero_vector_and_the_divisor_stays(setting):
    plan = setting.plan("dp_sgd_single_epoch")
    runs = []
    for silent in (False, True):
        coordinator = Coordinator(plan, randomness=seeded())
        while not coordinator.finished:
            task = coordinator.request()
            assert task.cohort == 40
            answers = [worker.answer(task) for worker in setting.workers(plan, task.round, 4)]
            zero = Answer(
                run=task.run, round=task.round, worker=f"-{task.round}", vector=np.zeros(5)
            )
            coordinator.receive(answers[:-1] if silent else [*answers[:-1], zero])
        runs.append(coordinator.result().weights)
    assert (runs[0] == runs[1]).all()
    assert (runs[0] != in_one_place(setting, plan).weights).any()


def test_rounds_without_any_answer_are_noise_alone(setting):
    coordinator = Coordinator(setting.plan())
    for _ in range(3):
        coordinator.receive([], nobody=True)
    assert np.isfinite(coordinator.result().weights).all()


def test_a_round_without_any_answer_is_lost_only_if_that_is_said(setting):
    plan = setting.plan()
    coordinator = Coordinator(plan, randomness=seeded())
    task = coordinator.request()
    for none, word in [([], False), (iter(()), False), ([], None), ([], 1), ((), "no")]:
        with pytest.raises(ParameterError, match=r"round 0 has no answers.*nobody=True"):
            coordinator.receive(none, nobody=word)
    answer = setting.workers(plan, 0)[0].answer(task)
    for wrong in (None, 3, answer):  # the last one without its list
        with pytest.raises(ParameterError, match="a round takes a list of Answers, got"):
            coordinator.receive(wrong)
    with pytest.raises(ParameterError, match="goes with no answers, got 1"):
        coordinator.receive([answer], nobody=True)
    assert coordinator.request().to_json() == task.to_json()
    coordinator.receive([answer])  # nothing was drawn or noted meanwhile
    assert (finish(setting, coordinator).weights == in_one_place(setting, plan).weights).all()


# -- each round once -------------------------------------------------------------------------------


def test_a_refused_collection_leaves_the_round_open_and_draws_nothing(setting):
    plan = setting.plan()
    coordinator = Coordinator(plan, randomness=seeded())
    task = coordinator.request()
    good = setting.workers(plan, 0)[0].answer(task)

    def changed(**fields):
        known = {"run": task.run, "round": 0, "worker": "x", "vector": np.zeros(5)}
        return Answer(**{**known, **fields})

    wrong = [
        (changed(run="0" * 32), LedgerError, "another run"),
        (changed(round=1), LedgerError, "not open yet"),
        (changed(worker=good.worker), LedgerError, "count twice"),
        (changed(vector=np.zeros(4)), ParameterError, "vectors of 5"),
        (changed(vector=np.zeros(5, dtype=np.uint64)), ParameterError, "float64"),
        ("nonsense", ParameterError, "Answers"),
    ]
    for answer, error, words in wrong:
        with pytest.raises(error, match=words):
            coordinator.receive([good, answer])
        assert coordinator.round == 0
        assert coordinator.request().to_json() == task.to_json()
    coordinator.receive([good])
    assert (finish(setting, coordinator).weights == in_one_place(setting, plan).weights).all()


def test_a_closed_round_takes_no_more(setting):
    plan = setting.plan()
    coordinator = Coordinator(plan)
    answer = setting.workers(plan, 0)[0].answer(coordinator.request())
    coordinator.receive([answer])
    with pytest.raises(LedgerError, match="round 0 is closed"):
        coordinator.receive([answer])
    with pytest.raises(LedgerError, match="round 0 is closed"):
        coordinator.receive_sum(np.zeros(5), round=0, workers=None)
    again = Answer(run=answer.run, round=1, worker=answer.worker, vector=answer.vector)
    with pytest.raises(LedgerError, match="count twice"):  # of another round of the same run
        coordinator.receive([again])
    with pytest.raises(LedgerError, match="round 1 of 3"):
        coordinator.result()
    coordinator.receive_sum(np.zeros(5), round=1, workers=None)
    coordinator.receive([], nobody=True)
    for late in (coordinator.request, lambda: coordinator.receive([], nobody=True)):
        with pytest.raises(LedgerError, match="all 3 rounds"):
            late()
    first = coordinator.result()
    assert coordinator.result() is first


def test_more_workers_than_rows_are_refused(setting):
    coordinator = Coordinator(setting.plan(n=3, rounds=3))
    task = coordinator.request()
    crowd = [Answer(run=task.run, round=0, worker=w, vector=np.zeros(5)) for w in "ab"]
    with pytest.raises(LedgerError, match=r"2 workers answered .* 1 rows"):
        coordinator.receive(crowd)


def test_integers_beyond_the_modulus_are_refused(setting):
    plan = setting.plan()
    coordinator = Coordinator(plan, encoding=FixedPoint.choose(plan))
    with pytest.raises(ParameterError, match=r"more than .* bits"):
        coordinator.receive_sum(np.full(5, 2**60, dtype=np.uint64), round=0, workers=None)
    with pytest.raises(ParameterError, match="uint64"):
        coordinator.receive_sum(np.zeros(5), round=0, workers=None)
    assert coordinator.round == 0


def test_sums_say_whose_they_are_and_nobody_counts_twice(setting, tmp_path):
    """A server of a secure aggregation knows who took part, and a row adds one clip, once."""
    plan, path = setting.plan(), tmp_path / "run"
    agreed = {"trust": "secure_aggregation", "encoding": FixedPoint.choose(plan)}
    coordinator = Coordinator(plan, checkpoint=path, **agreed)
    total = np.zeros(5, dtype=np.uint64)
    with pytest.raises(TypeError, match="workers"):
        coordinator.receive_sum(total, round=0)
    for names, error, words in [
        (["a", "a"], LedgerError, "'a' would count twice"),
        ([f"w{k}" for k in range(41)], LedgerError, "41 workers answered"),
        ("ab", ParameterError, "list of workers' names, got str"),
        (3, ParameterError, "list of workers' names, got int"),
        ([3], ParameterError, "a worker's name"),
        ([], ParameterError, r"no answers.*workers=\[\], nobody=True"),
    ]:
        with pytest.raises(error, match=words):
            coordinator.receive_sum(total, round=0, workers=names)
        assert coordinator.round == 0
    coordinator.receive_sum(total, round=0, workers=iter(["a", "b"]))
    coordinator.close()
    again = Coordinator(plan, checkpoint=path, **agreed)
    with pytest.raises(LedgerError, match="'b' would count twice"):  # also after a crash
        again.receive_sum(total, round=1, workers=["c", "b"])
    again.receive_sum(total, round=1, workers=[], nobody=True)
    again.receive_sum(total, round=2, workers=["c"])
    again.result()


def test_two_threads_close_a_round_once(setting):
    coordinator = Coordinator(setting.plan())
    task, barrier, found = coordinator.request(), threading.Barrier(2), []

    def deliver(name):
        answer = Answer(run=task.run, round=0, worker=name, vector=np.zeros(5))
        barrier.wait()
        try:
            coordinator.receive([answer])
            found.append("taken")
        except LedgerError as refusal:
            found.append(str(refusal))

    slow = coordinator._rounds.commit
    coordinator._rounds.commit = lambda total: (time.sleep(0.1), slow(total))
    threads = [threading.Thread(target=deliver, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 2
    assert sorted(text[:17] for text in found) == ["round 0 is closed", "taken"]
    assert coordinator.round == 1


def test_answers_are_added_pairwise(setting):
    """(1 + 2^-53) + (2^-53 + 2^-53): one after the other these are 1, in pairs 1 + 2^-52."""
    plan, points = setting.plan("dp_sgd_single_epoch"), []
    parts = [1.0, 2.0**-53, 2.0**-53, 2.0**-53]
    wanted = (parts[0] + parts[1]) + (parts[2] + parts[3])
    assert wanted != ((parts[0] + parts[1]) + parts[2]) + parts[3]
    vectors = [np.array([part, 0.0, 0.0, 0.0, 0.0]) for part in parts]
    assert module.added(vectors, 5, None)[0] == wanted
    for sent in (vectors, [np.array([wanted, 0.0, 0.0, 0.0, 0.0])]):
        coordinator = Coordinator(plan, randomness=seeded())
        task = coordinator.request()
        coordinator.receive(
            [
                Answer(run=task.run, round=0, worker=str(k), vector=vector)
                for k, vector in enumerate(sent)
            ]
        )
        points.append(coordinator.request().points[0])
    assert (points[0] == points[1]).all()


def test_the_limits_of_float_sums_are_those_of_the_proof():
    """Both leave 2 u for the products; see the text of the coordinator."""
    rows, answers = module.MOST_FLOAT_ROWS, module.MOST_FLOAT_ANSWERS
    assert (rows, answers) == (2**22, 2**11)
    for B in (4096, 2**22, 2**40):  # up to so many answers, whatever the rows
        assert 4096 + np.log2(B / 4096) + np.log2(answers) + 3 <= 4096 + np.log2(B) + 4 - 2
    for B in (4096, 2**16, rows):  # up to so many rows, whatever the answers
        for saved in np.linspace(0.0, 4096.0, 10_001):
            W = min(B, (1 + saved) * B / 4095)
            need = 4096 - saved + np.log2(B / 4096) + np.log2(max(W, 1.0)) + 3
            assert need <= 4096 + np.log2(B) + 4 - 2


def reachable(thing, depth=8):
    """Return every array that can be reached from an object's fields."""
    seen, level, arrays = set(), [thing], []
    for _ in range(depth):
        level = [
            item
            for parent in level
            for item in gc.get_referents(parent)
            if id(item) not in seen and not seen.add(id(item)) and not isinstance(item, type)
        ]
        arrays += [item for item in level if isinstance(item, np.ndarray)]
        level = [item for item in level if type(item).__name__ not in ("module", "function")]
    return arrays


def test_the_exact_sum_is_kept_nowhere(setting):
    """Where noise is independent. Correlated noise builds on the sums before: they stay secret."""
    coordinator = Coordinator(setting.plan("dp_sgd_single_epoch"))
    total = np.array([1.25, -3.5, 7.0, 11.0, 13.0])
    coordinator.receive_sum(total, round=0, workers=None)
    engine = coordinator._rounds
    stepper, ledger = engine._stepper, engine._ledger
    deep = {id(getattr(stepper, name)) for name in stepper.vectors} | {id(engine._released)}

    def holders():
        arrays = reachable(coordinator)
        assert deep <= {id(array) for array in arrays}  # the search goes as deep as a run's state
        return [array for array in arrays if array.shape == (5,) and np.allclose(array, total)]

    assert holders() == []
    for owner in (coordinator, engine, stepper, ledger):  # it would be found in any of them
        owner._last = total.copy()
        assert len(holders()) == 1, owner
        del owner._last


def test_neither_copies_nor_pickles(setting):
    import copy

    with pytest.raises(LedgerError, match="copied"):
        copy.copy(Coordinator(setting.plan()))


# -- what it needs ---------------------------------------------------------------------------------


def test_arguments_that_do_not_fit_are_refused(setting):
    plan = setting.plan()
    encoding = FixedPoint.choose(plan)
    for wrong, words in [
        ({"trust": "nobody"}, "trust must be one of"),
        ({"trust": "secure_aggregation"}, "adds integers"),
        ({"trust": "noise_helpers", "encoding": encoding}, "helpers=1 or more"),
        ({"helpers": 1, "encoding": encoding}, "helpers=1 or more"),
        ({"trust": "noise_helpers", "encoding": encoding, "helpers": 9}, "need .* bits"),
        ({"encoding": 30}, "FixedPoint"),
        ({"odometer": 3}, "odometer"),
    ]:
        with pytest.raises(ParameterError, match=words):
            Coordinator(plan, **wrong)


@pytest.mark.parametrize("unit", ["row", "worker"])
def test_floats_that_no_clipped_rows_add_up_to_are_refused(setting, unit):
    """2^60 of one worker would swallow the noise and the low bits of everybody else."""
    plan = setting.plan(unit=dp.Unit(1, unit))
    coordinator = Coordinator(plan)
    task = coordinator.request()
    most = plan.clip * (task.cohort if unit == "row" else 1)

    def answer(name, *lengths):
        vector = np.array([*lengths, 0.0, 0.0, 0.0, 0.0])
        return Answer(run=task.run, round=0, worker=name, vector=vector)

    for length in (1.001 * most, -(2.0**60), 1e308):
        with pytest.raises(ParameterError, match="'loud' is longer than clipped rows"):
            coordinator.receive([answer("good", most), answer("loud", length)])
        assert coordinator.round == 0
    coordinator.receive([answer(name, most) for name in "abc"])  # a rule for each, not for the sum


@pytest.mark.parametrize("unit", ["row", "worker"])
def test_the_rule_of_lengths_drops_no_answer_of_a_worker_that_clips(setting, unit):
    """Rounding may make a sum longer than B clip: one row would decide whether a worker counts."""
    plan = setting.plan(unit=dp.Unit(1, unit))
    task = dataclasses.replace(Coordinator(plan).request(), clip=0.1)
    for count in range(1, 41):
        rows = np.ones((count, 4)), np.ones(count)
        whole = Worker(rows, plan, name="w").answer(task)
        asked = task if unit == "worker" else dataclasses.replace(task, cohort=count)
        most = asked.clip * (count if unit == "row" else 1)
        for factor, fits in [(1.0, True), (1 + 2**-21, True), (1 + 2**-19, False), (1e9, False)]:
            vector = np.array([0.0, -most * factor, 0.0, 0.0, 0.0])
            assert fits_clip(dataclasses.replace(whole, vector=vector), asked) is fits
        assert fits_clip(whole, asked)
        assert np.linalg.norm(whole.vector) > 0.999 * most  # these rows are clipped
    integers = dataclasses.replace(whole, vector=np.full(5, 2**60, dtype=np.uint64))
    assert fits_clip(integers, task)
    for wrong in ((whole.vector, task), (whole, None)):
        with pytest.raises(ParameterError, match="takes an Answer and the Request"):
            fits_clip(*wrong)


def test_a_worker_that_does_not_clip_takes_no_protection_from_others(setting):
    """Wherever it moves an integer sum to, two rows move the next point by two clips at most."""
    plan = setting.plan("dp_sgd_single_epoch")
    agreed = {"trust": "secure_aggregation", "encoding": FixedPoint.choose(plan)}
    encoding = agreed["encoding"]

    def next_point(label, offset):
        coordinator = Coordinator(plan, randomness=seeded(), **agreed)
        task = coordinator.request()
        row = setting.X[:1], np.array([label])
        honest = Worker(row, plan, name="honest", **agreed).answer(task).vector
        loud = np.full(5, offset, dtype=np.uint64)
        coordinator.receive_sum(encoding.add([honest, loud], 5), round=0, workers=None)
        return coordinator.request().points[0]

    modulus = 2**encoding.bits
    offsets = (0, modulus // 4, modulus // 2, 3 * modulus // 4, modulus - 1)
    moves = [np.linalg.norm(next_point(1.0, k) - next_point(-1.0, k)) for k in offsets]
    most = 2 * plan.clip * plan.trace()[0].step / 40
    assert most / 10 < max(moves) <= most * (1 + 1e-9)


@pytest.mark.parametrize(
    ("rows", "answers", "fits"), [(39, 4, True), (40, 3, True), (39, 3, False)]
)
def test_floats_that_could_round_too_much_are_refused(setting, monkeypatch, rows, answers, fits):
    """Many answers of a large round at once; 40 rows and 4 answers stand for them here."""
    monkeypatch.setattr(module, "MOST_FLOAT_ROWS", rows)
    monkeypatch.setattr(module, "MOST_FLOAT_ANSWERS", answers)
    plan = setting.plan()
    for encoding in (None, FixedPoint.choose(plan)):
        coordinator = Coordinator(plan, encoding=encoding)
        task = coordinator.request()
        sent = [worker.answer(task) for worker in setting.workers(plan, 0, 4, encoding=encoding)]
        if fits or encoding is not None:
            coordinator.receive(sent)
        else:
            with pytest.raises(ParameterError, match="4 answers for 40 rows"):
                coordinator.receive(sent)
        assert coordinator.round == int(fits or encoding is not None)


def test_the_odometer_pays_once_and_first(setting, tmp_path):
    plan = setting.plan()
    odometer = dp.Odometer(tmp_path / "spent", dp.ApproxDP(2.0, 1e-6))
    Coordinator(plan, odometer=odometer)
    assert len(odometer.entries()) == 1
    with pytest.raises(BudgetError):
        Coordinator(plan, odometer=odometer)
    for _ in range(2):  # nothing of a run that was not paid for stays behind
        with pytest.raises(BudgetError):
            Coordinator(plan, odometer=odometer, checkpoint=tmp_path / "run")
        assert not (tmp_path / "run").exists()
    assert len(odometer.entries()) == 1
    other = dp.Odometer(tmp_path / "other", dp.ApproxDP(2.0, 1e-6, adjacency="add_remove"))
    with pytest.raises(AssumptionError, match="hides the number of rows"):
        Coordinator(plan, odometer=other)


def test_an_odometer_of_workers_pays_for_no_rows(setting, tmp_path):
    """A worker with many rows would be paid for as one."""
    plan = setting.plan()
    budget = dp.ApproxDP(2.0, 1e-6, unit=dp.Unit(1, "worker"))
    workers = dp.Odometer(tmp_path / "workers", budget)
    for more in ({}, {"checkpoint": tmp_path / "run"}):
        with pytest.raises(AssumptionError, match="protects whole workers, and this plan single"):
            Coordinator(plan, odometer=workers, **more)
    assert workers.entries() == []
    assert not (tmp_path / "run").exists()
    Coordinator(setting.plan(unit=dp.Unit(1, "worker")), odometer=workers)
    rows = dp.Odometer(tmp_path / "rows", dp.ApproxDP(2.0, 1e-6))  # dearer than need be, and safe
    Coordinator(setting.plan(unit=dp.Unit(1, "worker")), odometer=rows)
    assert len(workers.entries()) == len(rows.entries()) == 1
    alike = dp.Odometer(tmp_path / "a", dp.ApproxDP(2.0, 1e-6, unit=dp.Unit(1, "Workers")))
    with pytest.raises(AssumptionError, match="named 'Workers'"):
        Coordinator(plan, odometer=alike)


def test_a_used_up_noise_state_costs_nothing(setting, tmp_path):
    plan, root = setting.plan(), seeded()
    Coordinator(plan, randomness=root, checkpoint=tmp_path / "run").close()
    odometer = dp.Odometer(tmp_path / "spent", dp.ApproxDP(2.0, 1e-6))
    with pytest.raises(RandomnessError, match="stored for a run"):
        Coordinator(plan, randomness=root, odometer=odometer)
    with pytest.raises(RandomnessError, match="stored for a run"):
        dp.run(plan, (setting.X, setting.y), randomness=root, odometer=odometer)
    assert odometer.entries() == []


# -- checkpoints -----------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize("solver", ["acc_srgd", "dp_sgd_single_epoch"])
@pytest.mark.parametrize("rounds", [0, 1, 2, 3])
def test_a_new_coordinator_goes_on_from_the_checkpoint(setting, tmp_path, solver, rounds):
    plan, path = setting.plan(solver), tmp_path / "run"
    odometer = dp.Odometer(tmp_path / "spent", dp.ApproxDP(2.0, 1e-6))
    more = {"checkpoint": path, "odometer": odometer}
    first = Coordinator(plan, randomness=seeded(), **more)
    for t in range(rounds):
        first.receive([setting.workers(plan, t)[0].answer(first.request())])
    open_round = None if first.finished else first.request().to_json()
    lost = setting.workers(plan, rounds, resend=True)[0] if rounds < 3 else None
    if lost is not None:
        lost.answer(first.request())  # an answer that the first coordinator does not live to see
    first.close()

    second = Coordinator(plan, **more)
    assert (second.run, second.round) == (first.run, rounds)
    if lost is not None:
        assert second.request().to_json() == open_round
        second.receive([lost.answer(second.request())])
    found = finish(setting, second)
    assert (found.weights == in_one_place(setting, plan).weights).all()
    assert found.certificate.verify().ok
    assert len(odometer.entries()) == 1

    with pytest.warns(UserWarning, match=r"is over, since .*Choose another checkpoint") as seen:
        assert Coordinator(plan, **more).finished  # which holds no file
    assert [Path(warning.filename) for warning in seen] == [Path(__file__)]
    with pytest.warns(UserWarning, match="is over"):
        third = Coordinator(plan, **more)  # the run is over: the same result, nothing new
    assert third.finished
    assert (third.result().weights == found.weights).all()
    assert third.result().certificate.to_json() == found.certificate.to_json()
    assert len(odometer.entries()) == 1
    with pytest.raises(LedgerError, match="all 3 rounds"):
        third.request()


def test_who_has_answered_is_known_after_a_crash(setting, tmp_path):
    plan, path = setting.plan(), tmp_path / "run"
    first = Coordinator(plan, checkpoint=path)
    first.receive([worker.answer(first.request()) for worker in setting.workers(plan, 0, 3)])
    first.close()
    second = Coordinator(plan, checkpoint=path)
    for again in setting.workers(plan, 0, 3):  # new workers, which have forgotten
        with pytest.raises(LedgerError, match="count twice"):
            second.receive([again.answer(second.request())])
    second.receive([worker.answer(second.request()) for worker in setting.workers(plan, 1, 3)])
    second.close()
    third = Coordinator(plan, checkpoint=path)
    for round in (0, 1):
        with pytest.raises(LedgerError, match="count twice"):
            third.receive([setting.workers(plan, round, 3)[1].answer(third.request())])
    assert third.round == 2


def test_trust_does_not_change_half_way(setting, tmp_path):
    plan, path = setting.plan(), tmp_path / "run"
    encoding = FixedPoint.choose(plan)
    first = Coordinator(plan, encoding=encoding, checkpoint=path)
    with pytest.raises(CheckpointError, match="in use"):
        Coordinator(plan, encoding=encoding, checkpoint=path)
    first.close()
    finer = FixedPoint.choose(plan, step=encoding.step / 2)
    for other, names in (
        ({}, "encoding"),
        ({"encoding": finer}, "encoding"),
        ({"encoding": encoding, "trust": "secure_aggregation"}, "trust"),
    ):
        with pytest.raises(CheckpointError, match=f"another plan: it differs in {names}\\."):
            Coordinator(plan, checkpoint=path, **other)
    with pytest.raises(CheckpointError, match="differs in trust, encoding, helpers"):
        dp.run(plan, (setting.X, setting.y), order="given", checkpoint=path)
    assert Coordinator(plan, encoding=encoding, checkpoint=path).run == first.run


def test_helpers_do_not_change_half_way(setting, tmp_path):
    plan, path = setting.plan(), tmp_path / "run"
    agreed = {"trust": "noise_helpers", "encoding": FixedPoint.choose(plan, helpers=2)}
    first = Coordinator(plan, helpers=2, checkpoint=path, **agreed)
    first.close()
    with pytest.raises(CheckpointError, match="it differs in helpers"):
        Coordinator(plan, helpers=1, checkpoint=path, **agreed)
    again = Coordinator(plan, helpers=2, checkpoint=path, **agreed)
    assert again.run == first.run
    again.close()


@pytest.mark.parametrize("rounds", [1, 3])
def test_a_closed_coordinator_sends_its_user_to_the_file(setting, tmp_path, rounds):
    """Advice to begin a new run would be paid for twice."""
    plan, path = setting.plan(), tmp_path / "run"
    first = Coordinator(plan, checkpoint=path)
    for _ in range(rounds):
        first.receive([], nobody=True)
    first.close()
    first.close()
    for late in (
        first.request,
        first.result,
        lambda: first.receive([], nobody=True),
        lambda: first.receive_sum(np.zeros(5), round=rounds, workers=None),
    ):
        with pytest.raises(LedgerError, match=r"closed.* make a new Coordinator from the file"):
            late()
    assert first.round == rounds
    second = Coordinator(plan, checkpoint=path)
    assert second.round == rounds
    found = finish(setting, second)
    second.close()
    assert second.result() is found


def test_a_run_that_does_not_begin_lets_go_of_its_file(setting, tmp_path, monkeypatch):
    plan, path = setting.plan(), tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(Coordinator, "_begin", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            Coordinator(plan, checkpoint=path)
    Coordinator(plan, checkpoint=path).close()


def test_a_round_that_is_not_on_the_disk_is_not_heard_of(setting, tmp_path, monkeypatch):
    coordinator = Coordinator(setting.plan(), checkpoint=tmp_path / "run")

    def full(*_):
        raise CheckpointError("the disk is full")

    monkeypatch.setattr(coordinator._store, "commit", full)
    with pytest.raises(CheckpointError, match="full"):
        coordinator.receive([], nobody=True)
    for later in (
        coordinator.request,
        coordinator.result,
        lambda: coordinator.receive([], nobody=True),
    ):
        with pytest.raises(LedgerError, match="nothing more may leave"):
            later()
    assert coordinator.round == 0  # nobody hears of the round


# -- what the certificate says ---------------------------------------------------------------------


def test_the_certificate_says_who_is_trusted_and_protected(setting):
    certificate = finish(setting, Coordinator(setting.plan())).certificate
    assert certificate.trust_model == Trust.TRUSTED_COORDINATOR.model
    assert any("clipping" in line for line in certificate.enforced)
    assert set(Trust.TRUSTED_COORDINATOR.trusted("row")) <= set(certificate.trusted)
    assert any("floats drown in larger ones" in line for line in certificate.trusted)
    encoded = Coordinator(setting.plan(), encoding=FixedPoint.choose(setting.plan()))
    for _ in range(3):
        encoded.receive([], nobody=True)
    assert not any("drown" in line for line in encoded.result().certificate.trusted)
    assert "protects    one row" in str(certificate)
    again = dp.Certificate.from_json(certificate.to_json())
    assert again.verify().ok


def test_the_certificate_says_what_a_named_unit_rests_on(setting):
    """A phone is not protected because it is a worker: only if it has no more rows than stated."""
    for unit, words in ((dp.Unit(1, "phone"), "one row"), (dp.Unit(4, "phone"), "4 rows")):
        coordinator = Coordinator(setting.plan(unit=unit))
        for _ in range(3):
            coordinator.receive([], nobody=True)
        said = coordinator.result().certificate.trusted
        assert any(line.startswith(f"a phone has at most {words} in the run") for line in said)


def test_a_checkpoint_adds_its_caveat_to_what_is_trusted_and_loses_nothing(setting, tmp_path):
    plain = finish(setting, Coordinator(setting.plan())).certificate
    kept = finish(setting, Coordinator(setting.plan(), checkpoint=tmp_path / "run")).certificate
    assert set(kept.trusted) == {*plain.trusted, CAVEAT}
    assert "same rows in the same order" not in "".join(kept.trusted)  # others may answer instead


def test_workers_as_units(setting):
    """A worker counts as one row, whatever it holds; the certificate says so."""
    plan = setting.plan(n=12, unit=dp.Unit(1, "worker"))
    coordinator = Coordinator(plan)
    for start, stop in plan.batches():
        task = coordinator.request()
        assert (task.protects, task.cohort) == ("worker", 4)
        answers = [
            Worker(setting.rows(10 * k, 10 * k + 10), plan, name=str(k)).answer(task)
            for k in range(start, stop)
        ]
        coordinator.receive(answers)
    certificate = coordinator.result().certificate
    assert "protects    one worker" in str(certificate)
    assert any("a worker's mean gradient" in line for line in certificate.enforced)
    assert not any("a row's gradient" in line for line in certificate.enforced)
    assert certificate.verify().ok
