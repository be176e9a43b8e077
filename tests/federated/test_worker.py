"""Workers: one bounded vector a run, whatever the rows hold; anything else is refused unread."""

import copy
import dataclasses
import os
import pickle
import threading
import time
import warnings
from fractions import Fraction

import numpy as np
import pytest

import dpsco as dp
from dpsco.data.source import Source
from dpsco.data.tables.table import MemoryTable
from dpsco.errors import AssumptionError, DataError, LedgerError, ParameterError
from dpsco.federated import Coordinator, FixedPoint, Request, Worker

HOSTILE = [
    np.full(4, np.nan),
    np.full(4, np.inf),
    np.full(4, 1e308),
    np.full(4, -1e-308),
    np.array([1e200, -1e200, 1.0, 0.0]),
    np.zeros(4),
    np.array([-50.0, 3.0, 2.0, 1.0]),
]


def task_of(plan, round=0, **changes):
    """Return the task of a round that asks for long differences."""
    coordinator = Coordinator(plan, encoding=changes.pop("encoding", None))
    for _ in range(round):
        coordinator.receive([], nobody=True)
    return dataclasses.replace(coordinator.request(), **changes)


def exact(vector):
    return [Fraction(float(number)) for number in vector]


def squared(vector):
    return sum(number * number for number in vector)


def answers(setting, plan, X, y, task, encoding=None):
    return Worker((X, y), plan, name="w", encoding=encoding).answer(task).vector


# -- what it answers -------------------------------------------------------------------------------


@pytest.mark.parametrize("round", [0, 2])
def test_the_answer_is_the_clipped_sum_of_its_rows(setting, round):
    plan = setting.plan(clip=0.5)
    task = task_of(plan, round)
    table = dp.data.from_arrays(*setting.rows(0, 30))
    source = table.bounded(plan.problem.bounds, order="given")
    wanted = source.sum(task.query(plan.loss))
    assert (Worker(table, plan, name="table").answer(task).vector == wanted).all()
    assert (Worker(source, plan, name="source").answer(task).vector == wanted).all()


@pytest.mark.parametrize("clip", [0.5, 3.0])
def test_integers_differ_from_floats_by_half_a_step_a_row(setting, clip):
    plan = setting.plan(clip=clip)
    encoding = FixedPoint.choose(plan, step=2.0**-8)
    X, y = setting.rows(0, 40)
    floats = answers(setting, plan, X, y, task_of(plan))
    integers = answers(setting, plan, X, y, task_of(plan, encoding=encoding), encoding)
    error = np.linalg.norm(encoding.decode(integers) - floats)
    # A row at the clip is first shortened by as much as rounding may lengthen it.
    most = 40 * 2.0**-8 * np.sqrt(5) / 2 * (1 if clip == 3.0 else 2)
    assert 0.0 < error <= most


@pytest.mark.parametrize("unit", ["row", "worker"])
@pytest.mark.parametrize("round", [0, 2])
def test_neighbouring_integer_sums_differ_by_two_clips_exactly(setting, unit, round):
    """Replace one row, or all of them: a statement about integers, without any rounding."""
    plan = setting.plan(clip=0.7, unit=dp.Unit(1, unit), n=120)
    encoding = FixedPoint.choose(plan, step=2.0**-6)
    task = task_of(plan, round, encoding=encoding)
    limit = (2 * Fraction(plan.clip) / Fraction(encoding.step)) ** 2
    X, y = (part.copy() for part in setting.rows(0, 12))
    known, largest = exact(answers(setting, plan, X, y, task, encoding)), 0
    for row in HOSTILE:
        for label in (1.0, -1.0, np.nan):
            changed, labels = X.copy(), y.copy()
            changed[slice(None) if unit == "worker" else 5] = row
            labels[slice(None) if unit == "worker" else 5] = label
            other = exact(answers(setting, plan, changed, labels, task, encoding))
            modulus = 2**encoding.bits
            pairs = zip(known, other, strict=True)
            gaps = [(a - b + modulus // 2) % modulus - modulus // 2 for a, b in pairs]
            assert squared(gaps) <= limit
            largest = max(largest, squared(gaps))
    assert largest > limit / 16  # the bound is not far from what happens


@pytest.mark.parametrize("unit", ["row", "worker"])
def test_neighbouring_float_sums_differ_by_two_clips(setting, unit):
    plan = setting.plan(clip=0.7, unit=dp.Unit(1, unit), n=120)
    task = task_of(plan, 2)
    X, y = setting.rows(0, 12)
    known = answers(setting, plan, X, y, task)
    for row in HOSTILE:
        changed = X.copy()
        changed[slice(None) if unit == "worker" else 5] = row
        other = answers(setting, plan, changed, y, task)
        assert np.isfinite(other).all()
        assert np.linalg.norm(known - other) <= 1.4 * (1 + 1e-12)


def test_one_row_alone_is_no_longer_than_the_clip_exactly(setting):
    plan = setting.plan(clip=0.7)
    encoding = FixedPoint.choose(plan, step=2.0**-6)
    task = task_of(plan, 2, encoding=encoding)
    for row in [*HOSTILE, *setting.X[:20]]:
        vector = answers(setting, plan, row[None], np.ones(1), task, encoding)
        integers = encoding.decode(vector) / encoding.step
        assert squared(exact(integers)) <= (Fraction(plan.clip) / Fraction(encoding.step)) ** 2


def test_one_row_is_no_longer_than_a_smaller_clip_of_the_task(setting):
    plan = setting.plan(clip=0.7)
    encoding = FixedPoint.choose(plan, step=2.0**-10)
    task = task_of(plan, 0, encoding=encoding, clip=0.05)
    lengths = []
    for row in setting.X[:20]:
        vector = answers(setting, plan, row[None], np.ones(1), task, encoding)
        lengths.append(squared(exact(encoding.decode(vector))))
    assert Fraction(0.04) ** 2 < max(lengths) <= Fraction(0.05) ** 2


def test_the_loop_is_chosen_by_the_plans_rows_not_by_the_workers(setting, monkeypatch):
    """Else sums of few rows would not be the bits of a run in one place."""
    asked = []
    monkeypatch.setattr(Source, "expect", lambda _, n, points: asked.append((n, points)))
    plan = setting.plan()
    setting.workers(plan, 0, 4)[0].answer(task_of(plan))
    assert asked == [(120, 2)]


@pytest.mark.parametrize("encoded", [False, True])
def test_a_range_of_rows_is_what_its_copy_would_be(setting, encoded):
    """A hospital with rows for every round: one source, a worker a round, each row in one."""
    plan = setting.plan()
    encoding = FixedPoint.choose(plan) if encoded else None
    task = task_of(plan, encoding=encoding)
    table = dp.data.from_arrays(setting.X, setting.y)
    source = table.bounded(plan.problem.bounds, order="given")
    wanted = answers(setting, plan, *setting.rows(50, 80), task, encoding)
    for data in (table, source):
        part = Worker(data, plan, name="w", rows=(50, 80), encoding=encoding)
        assert (part.answer(task).vector == wanted).all()
        assert repr(part) == "<Worker 'w': 30 rows, 1 runs answered>"
    whole = setting.plan(unit=dp.Unit(1, "worker"))
    task = task_of(whole)
    part = Worker(source, whole, name="w", rows=(50, 80)).answer(task)
    assert (part.vector == answers(setting, whole, *setting.rows(50, 80), task)).all()
    with pytest.raises(DataError, match="there are 120"):
        Worker(source, plan, name="w", rows=(50, 121))
    for wrong in ((5, 5), 3, (-1, 4), ("a", "b")):
        with pytest.raises(ParameterError, match="rows"):
            Worker(source, plan, name="w", rows=wrong)


def test_rows_that_overflow_warn_of_nothing(setting, monkeypatch):
    """Wherever on the way it happens: a warning would tell of the rows."""
    plan = setting.plan()
    worker, task, sound = setting.workers(plan, 0)[0], task_of(plan), Worker._vector

    def vector(task):
        assert np.isinf(np.full(2, 1e308) * 10.0).all()
        return sound(worker, task)

    monkeypatch.setattr(worker, "_vector", vector)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        worker.answer(task)


# -- a whole worker --------------------------------------------------------------------------------


@pytest.mark.parametrize("encoded", [False, True])
def test_a_protected_worker_sends_the_mean_clipped_as_one(setting, encoded):
    plan = setting.plan(clip=2.0, unit=dp.Unit(1, "worker"))
    encoding = FixedPoint.choose(plan) if encoded else None
    task = task_of(plan, 2, encoding=encoding)

    def vector(count, clip=2.0):
        X, y = setting.rows(0, 10)
        tasked = dataclasses.replace(task, clip=clip)
        found = answers(setting, plan, np.tile(X, (count, 1)), np.tile(y, count), tasked, encoding)
        return found if encoding is None else encoding.decode(found)

    wide = dp.data.from_arrays(*setting.rows(0, 10)).bounded(plan.problem.bounds, order="given")
    mean = wide.sum(task.query(plan.loss, clip=1e9)) / 10
    step = 0.0 if encoding is None else encoding.step
    np.testing.assert_allclose(vector(1), mean, atol=step + 1e-12)
    np.testing.assert_allclose(vector(7), mean, atol=step + 1e-12)  # however many rows
    short = vector(1, clip=0.01)
    assert squared(exact(short)) <= Fraction(0.01) ** 2
    np.testing.assert_allclose(short, mean * 0.01 / np.linalg.norm(mean), atol=5 * step + 1e-12)


# -- once ------------------------------------------------------------------------------------------


def test_it_answers_once_in_a_run(setting):
    plan = setting.plan()
    coordinator = Coordinator(plan)
    worker = setting.workers(plan, 0)[0]
    first = coordinator.request()
    coordinator.receive([worker.answer(first)])
    for again in (first, coordinator.request()):  # replayed, and of a later round
        with pytest.raises(LedgerError, match="takes part once"):
            worker.answer(again)
    with pytest.raises(LedgerError, match="in 1 runs"):  # and no other run
        worker.answer(task_of(plan))


def test_two_threads_get_one_answer(setting, monkeypatch):
    plan = setting.plan()
    worker, task = setting.workers(plan, 0)[0], task_of(plan)
    barrier, found, slow = threading.Barrier(2), [], worker._vector

    def vector(task):
        time.sleep(0.1)
        return slow(task)

    def ask():
        barrier.wait()
        try:
            found.append(worker.answer(task).worker)
        except LedgerError:
            found.append("refused")

    monkeypatch.setattr(worker, "_vector", vector)
    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == ["0/0", "refused"]


def test_a_copy_would_forget_that_it_has_answered(setting):
    worker = setting.workers(setting.plan(), 0)[0]
    for way in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(LedgerError, match="copied nor pickled"):
            way(worker)


def test_more_runs_are_a_decision(setting):
    plan = setting.plan()
    worker = setting.workers(plan, 0, runs=2)[0]
    tasks = [task_of(plan) for _ in range(3)]
    assert worker.answer(tasks[0]).run == tasks[0].run
    assert worker.answer(tasks[1]).run == tasks[1].run
    with pytest.raises(LedgerError, match="in 2 runs"):
        worker.answer(tasks[2])


def test_a_lost_answer_is_sent_again_to_the_same_task_alone(setting):
    plan = setting.plan()
    worker = setting.workers(plan, 0, resend=True)[0]
    task = task_of(plan)
    first = worker.answer(task)
    again = worker.answer(Request.from_json(task.to_json()))
    assert (again.vector == first.vector).all()
    moved = dataclasses.replace(task, points=tuple(point + 0.1 for point in task.points))
    for other in (moved, dataclasses.replace(task, round=1)):
        with pytest.raises(LedgerError, match="takes part once"):
            worker.answer(other)


def test_nothing_is_sent_again_under_noise_helpers(setting):
    plan = setting.plan()
    encoding = FixedPoint.choose(plan, helpers=1)
    more = {"trust": "noise_helpers", "encoding": encoding}
    task = Coordinator(plan, helpers=1, **more).request()
    worker = setting.workers(plan, 0, resend=True, **more)[0]
    worker.answer(task)
    with pytest.raises(LedgerError, match="takes part once"):
        worker.answer(task)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_forked_copy_does_not_answer(setting):
    """It would forget that it has answered, and answer the next round as well."""
    plan = setting.plan()
    worker, task = setting.workers(plan, 0)[0], task_of(plan)
    child = os.fork()
    if child == 0:
        try:
            worker.answer(task)
        except LedgerError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    worker.answer(task)


# -- consent ---------------------------------------------------------------------------------------


class Unread(MemoryTable):
    """A table that notices when somebody reads it."""

    def _source(self, bounds, shuffle):
        raise AssertionError("a row was read")


def test_what_was_not_agreed_on_is_refused_unread(setting):
    plan = setting.plan()
    worker = Worker(Unread(*setting.rows(0, 30)), plan, name="w")
    task = task_of(plan)
    encoding = FixedPoint.choose(plan)
    for changes, words in [
        ({"plan": "0" * 32}, "another plan"),
        ({"round": 3}, "3 rounds"),
        ({"protects": "worker"}, "protects a worker"),
        ({"trust": "secure_aggregation"}, "trust model"),
        ({"clip": np.nextafter(plan.clip, np.inf)}, "clip"),
        ({"encoding": encoding}, "encoding"),
        ({"points": (np.zeros(4),)}, "4 numbers"),
        ({"cohort": 39}, "cohort"),
    ]:
        with pytest.raises(AssumptionError, match=words):
            worker.answer(dataclasses.replace(task, **changes))
    with pytest.raises(ParameterError, match="Request"):
        worker.answer(task.to_json())
    with pytest.raises(AssertionError, match="was read"):
        worker.answer(task)


def test_a_finer_grid_than_agreed_is_refused(setting):
    """Helpers' noise is in steps: a worker on a finer grid would be louder than the noise."""
    plan = setting.plan()
    agreed = FixedPoint.choose(plan)
    worker = Worker(Unread(*setting.rows(0, 30)), plan, name="w", encoding=agreed)
    finer = FixedPoint.choose(plan, step=agreed.step / 1024)
    for encoding in (finer, FixedPoint(agreed.step, agreed.bits + 1), None):
        with pytest.raises(AssumptionError, match="encoding"):
            worker.answer(task_of(plan, encoding=encoding))


def test_rows_that_do_not_fit_the_plan_are_refused(setting):
    plan = setting.plan()
    X, y = setting.rows(0, 50)
    with pytest.raises(AssumptionError, match=r"50 rows are more than its 40.*one part per round"):
        Worker((X, y), plan, name="w").answer(task_of(plan))
    with pytest.raises(DataError, match="4 columns"):
        Worker((X[:, :3], y), plan, name="w")
    with pytest.raises(DataError, match="labels"):
        Worker((X,), plan, name="w")
    source = dp.data.from_arrays(X, y).bounded(dp.Bounds(9.0, label="sign", intercept=1.0))
    with pytest.raises(DataError, match="within"):
        Worker(source, plan, name="w")
    floats = {"trust": "secure_aggregation"}  # which no mask could hide
    loud = {"trust": "noise_helpers", "encoding": FixedPoint.choose(plan)}  # no room for noise
    words = [{"resend": word} for word in ("no", 1, 0, None)]
    others = ({"data": 3}, {"name": ""}, {"runs": 0}, {"trust": "x"}, {"encoding": 3})
    for wrong in (*others, *words, floats, loud):
        with pytest.raises(ParameterError):
            Worker(**{"data": (X, y), "plan": plan, "name": "w", **wrong})


def test_it_shows_no_rows(setting):
    worker = setting.workers(setting.plan(), 0)[0]
    assert repr(worker) == "<Worker '0/0': 40 rows, 0 runs answered>"
