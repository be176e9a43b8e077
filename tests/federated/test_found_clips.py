"""Runs that find their clip from workers' counts, or follow the gradients with them."""

import dataclasses
import functools
import itertools
import math
from unittest import mock

import numpy as np
import pytest

import dpsco as dp
from dpsco.errors import AssumptionError, ParameterError
from dpsco.federated import Answer, Coordinator, FixedPoint, Request, Worker, collection
from dpsco.federated.agreement import query_of
from dpsco.federated.protection import rounds_of
from dpsco.solvers.common import found_clip, moment_clips

N, D = 3000, 3
ONE_PASS = {"population_smoothness": 1.0, "strong_convexity": 1.0, "rounds": 4}
RUNS = {  # a search on all rows, one in a slice, and a clip that follows from either beginning
    "share": ("clipped_reg_subgradient", {"clip": "auto", "rounds": 6}, N),
    "coordinates": ("heavy_tailed_coordinate_gd", {"clip": "auto", "rounds": 6}, N),
    "slice": ("clipped_sgd_sc", {"clip": "auto", **ONE_PASS}, 20_000),
    "tracked": ("clipped_reg_subgradient", {"clip": "tracked", "rounds": 6}, N),
    "tracked from a public clip": ("clipped_sgd_sc", {"clip": "tracked", **ONE_PASS}, 60),
}


def planned(name, **more):
    key, options, n = RUNS[name]
    problem = dp.Problem(
        loss=dp.losses.Squared(),
        bounds=dp.Bounds(100.0, label=100.0),
        domain=dp.domains.L2Ball(2.0),
    )
    budget = dp.ApproxDP(2.0, 1e-6, **more)
    way = "slice" if name == "slice" else "auto"
    search = functools.partial(found_clip.clip_search, way=way)
    with mock.patch.object(moment_clips, "clip_search", lambda task, tail, **_: search(task, tail)):
        return dp.plan(problem, n=n, d=D, budget=budget, solver=key, options=options)


def rows(n):
    rng = np.random.default_rng(0)
    X = rng.standard_t(6.0, (n, D))
    return X, X @ np.array([0.5, -0.5, 0.3]) + 0.3 * rng.standard_t(3.0, n)


def workers_of(plan, round, count=3, **more):
    """Workers of a round: of all rows where every round asks all, else of the round's own."""
    X, y = rows(plan.n)
    start, stop = rounds_of(plan)[round].rows
    cuts = np.linspace(start, stop, count + 1).astype(int)
    return [
        Worker((X[a:b], y[a:b]), plan, name=f"{round}/{a}", **more)
        for a, b in itertools.pairwise(cuts)
    ]


def finish(coordinator, plan):
    """Carry messages as JSON; whoever belongs to a round answers it."""
    once = rounds_of(plan).single_epoch
    workers = workers_of(plan, 0)
    for round in range(plan.total_rounds):
        if once and round:
            workers = workers_of(plan, round)
        request = Request.from_json(coordinator.request().to_json())
        sent = [worker.answer(request).to_json() for worker in workers]
        coordinator.receive([Answer.from_json(text) for text in sent])
    return coordinator.result()


def at_round(plan, round):
    """A coordinator that stands at a round of a plan that asks all rows in every round."""
    coordinator = Coordinator(plan, randomness=dp.Randomness.seeded(7))
    workers = workers_of(plan, 0)
    for _ in range(round):
        request = coordinator.request()
        coordinator.receive([worker.answer(request) for worker in workers])
    return coordinator, workers


@pytest.mark.parametrize("name", RUNS)
def test_a_run_that_finds_its_clip_is_the_run_in_one_place(name):
    plan = planned(name)
    there = finish(Coordinator(plan, randomness=dp.Randomness.seeded(7)), plan)
    here = dp.run(plan, rows(plan.n), order="given", randomness=dp.Randomness.seeded(7))
    assert there.weights == pytest.approx(here.weights, abs=1e-9)
    assert there.certificate.releases == here.certificate.releases
    assert any("clip that the run has found" in line for line in there.certificate.enforced)
    assert there.certificate.verify(cross_check=False).ok


def test_answers_have_as_many_numbers_as_the_plan_says():
    """A cell for each clip of the grid, then a number for each weight and one for the count."""
    plan = planned("tracked")
    coordinator, workers = at_round(plan, 0)
    first = coordinator.request()
    assert first.size == plan.search.candidates
    counts = [worker.answer(first).vector for worker in workers]
    assert np.sum(counts) <= N
    assert all(np.array_equal(each, np.rint(each)) for each in counts)
    coordinator, _ = at_round(plan, 1)
    assert (coordinator.request().size, len(coordinator.request().points[0])) == (D + 1, D)


def test_a_new_coordinator_goes_on_with_the_clip_that_was_found(tmp_path):
    plan, kept = planned("tracked"), tmp_path / "half"
    coordinator = Coordinator(plan, checkpoint=kept, randomness=dp.Randomness.seeded(7))
    workers = workers_of(plan, 0)
    for _ in range(3):
        request = coordinator.request()
        coordinator.receive([worker.answer(request) for worker in workers])
    before = coordinator.request()
    coordinator.close()
    again = Coordinator(plan, checkpoint=kept)
    assert again.request().to_json() == before.to_json()
    while not again.finished:
        request = again.request()
        again.receive([worker.answer(request) for worker in workers])
    whole = finish(Coordinator(plan, randomness=dp.Randomness.seeded(7)), plan)
    assert again.result().weights == pytest.approx(whole.weights, abs=1e-9)


# -- a coordinator that lies -----------------------------------------------------------------------


def refused(worker, request, words):
    with pytest.raises(AssumptionError, match=words):
        worker.answer(request)


def test_counts_elsewhere_or_of_another_grid_are_refused():
    plan = planned("share")
    coordinator, (worker, *_) = at_round(plan, 0)
    honest = coordinator.request()
    elsewhere = (np.array([0.1, 0.0, 0.0]),)
    refused(
        worker, dataclasses.replace(honest, points=elsewhere), "measures gradients at the start"
    )
    for numbers in (None, honest.size + 1, 10**9):
        refused(worker, dataclasses.replace(honest, numbers=numbers), "its answers have")
    refused(worker, dataclasses.replace(honest, unit=1.0), "its unit is 1.0")
    refused(worker, dataclasses.replace(honest, clip=0.5), "its clip is 0.5")
    grid = dataclasses.replace(plan.search, lowest=plan.search.lowest * 2.0)
    other = Coordinator(dataclasses.replace(plan, search=grid)).request()
    refused(worker, other, "another plan")
    refused(worker, dataclasses.replace(honest, plan=other.plan), "another plan")
    assert worker.answer(honest).vector.sum() <= len(rows(N)[0])


@pytest.mark.parametrize("name", ["share", "coordinates"])
def test_units_that_no_clip_of_the_grid_makes_are_refused(name):
    coordinator, (worker, *_) = at_round(planned(name), 1)
    honest = coordinator.request()
    for unit in (honest.unit * 1.01, honest.unit * 2.0**60, math.nextafter(honest.unit, 1e9), 1e99):
        refused(worker, dataclasses.replace(honest, unit=unit), "no clip of the plan's grid")
    refused(worker, dataclasses.replace(honest, unit=None), "its unit is None")
    refused(worker, dataclasses.replace(honest, clip=2.0 * honest.clip), "its clip is")
    refused(worker, dataclasses.replace(honest, clip=0.5 * honest.clip), "its clip is 0.5|'s")
    refused(worker, dataclasses.replace(honest, numbers=D - 1), "its answers have")
    for unit in (0.0, -1.0, 1e-101, 1e101, math.nan, math.inf):
        with pytest.raises(ParameterError):
            dataclasses.replace(honest, unit=unit)
    assert len(worker.answer(honest).vector) == D


def test_a_unit_where_the_plan_has_a_clip_is_refused():
    plan = dp.plan(
        planned("share").problem, n=N, d=D, budget=dp.ApproxDP(2.0, 1e-6),
        solver="clipped_reg_subgradient", options={"clip": 1.0, "rounds": 4},
    )  # fmt: skip
    coordinator, (worker, *_) = at_round(plan, 0)
    honest = coordinator.request()
    assert (honest.unit, honest.numbers) == (None, None)
    refused(worker, dataclasses.replace(honest, unit=1e-50), "its unit is 1e-50")
    refused(worker, dataclasses.replace(honest, numbers=9), "its answers have 9")


@pytest.mark.parametrize("unit", [1e-100, 1e-9, 1e9, 1e100])
@pytest.mark.parametrize("name", ["tracked", "tracked from a public clip"])
def test_a_tracked_clip_may_be_any_and_a_row_is_bounded_all_the_same(name, unit):
    """Whatever a coordinator asks for: one row moves the answer by what the noise covers."""
    plan = planned(name)
    searched = plan.search is not None
    request = dataclasses.replace(
        (at_round(plan, 1)[0] if searched else Coordinator(plan)).request(), unit=unit
    )
    bound = query_of(plan, 1).bound
    for row in ([1e300, 0.0, 0.0], [0.1, 0.2, 0.3], [np.nan, 0.0, 0.0]):
        worker = Worker((np.array([row]), np.array([-50.0])), plan, name="one")
        if searched:
            worker.answer(dataclasses.replace(Coordinator(plan).request(), run=request.run))
        assert np.linalg.norm(worker.answer(request).vector) <= bound


# -- what cannot be carried ------------------------------------------------------------------------


@pytest.mark.parametrize("trust", ["secure_aggregation", "noise_helpers"])
def test_masked_sums_need_a_clip_in_the_plan(trust):
    plan = planned("share")
    helpers = int(trust == "noise_helpers")
    for encoding in (None, FixedPoint(2.0**-20, 40)):
        with pytest.raises(ParameterError, match=r"clip=.*trusted_coordinator"):
            Coordinator(plan, trust=trust, encoding=encoding, helpers=helpers)
        with pytest.raises(ParameterError, match="clip="):
            Worker(rows(N), plan, name="w", trust=trust, encoding=encoding)
    with pytest.raises(ParameterError, match="clip="):
        FixedPoint.choose(plan)


def test_whole_workers_and_parts_that_come_again_are_refused():
    with pytest.raises(ParameterError, match=r"mean is clipped as one vector.*clip="):
        Coordinator(planned("share", unit=dp.Unit(1, "worker")))
    problem = planned("share").problem
    plan = dp.plan(
        problem, n=100_000, d=D, budget=dp.ApproxDP(2.0, 1e-6),
        solver="localized_clipped_subgradient", options={"clip": "auto", "rounds": 4},
    )  # fmt: skip
    with pytest.raises(ParameterError, match=r"come again.*clip="):
        Coordinator(plan)


def test_the_plans_of_these_tests_search_where_they_say():
    assert planned("share").search.rows == (0, N)
    assert planned("slice").search.rows[1] == planned("slice").training_rows[0] > 0
    assert planned("tracked").search is not None
    assert planned("tracked from a public clip").search is None


def test_sums_that_are_divided_once_more_have_half_the_room(monkeypatch):
    request = at_round(planned("share"), 1)[0].request()
    monkeypatch.setattr(collection, "MOST_FLOAT_ROWS", N)
    monkeypatch.setattr(collection, "MOST_FLOAT_ANSWERS", 6)
    collection.check_rounding(3, request)
    collection.check_rounding(6, dataclasses.replace(request, unit=None))
    with pytest.raises(ParameterError, match="3 answers, or for 1500 rows"):
        collection.check_rounding(4, request)
