"""The moves of the Frank-Wolfe family: unrolled means, sensitivities, what the engine refuses."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from benchmarks import wide_rounds
from hypothesis import given, settings
from hypothesis import strategies as st

import dpsco as dp
from dpsco.audit import compare, declared_sensitivity, record, replay
from dpsco.data.queries import ClippedDifference, ClippedGradient
from dpsco.data.vertices import FadingScores, VertexScores, VertexSet
from dpsco.errors import LedgerError, ParameterError
from dpsco.geometry import L1, L2, LINF
from dpsco.losses import Absolute, Logistic, Sigmoid
from dpsco.privacy import ApproxDP, FadingSelectionRelease, Ledger, Randomness
from dpsco.solvers import get
from dpsco.solvers.engine import Engine
from dpsco.solvers.frank_wolfe import noise, rates

BUDGET = ApproxDP(3.0, 1e-4)
N, D = 48, 4
SIGN = dp.Bounds(1.0, label="sign", norm=LINF)
KEYS = ("noisy_fw_gll", "poly_sfw", "noisy_sfw_lp")


def problem(loss=None, radius=2.0):
    return dp.Problem(loss=loss or Sigmoid(), bounds=SIGN, domain=dp.domains.L1Ball(radius))


def make(key, loss=None, n=N, budget=BUDGET, **options):
    loss = Logistic() if loss is None and key == "noisy_fw_gll" else loss
    options = {"rounds": 6, **options}
    return dp.plan(problem(loss), n=n, d=D, budget=budget, solver=key, options=options)


def table(seed=0, n=N):
    rng = np.random.default_rng(seed)
    return rng.uniform(-1.0, 1.0, (n, D)), rng.choice([-1.0, 1.0], n)


def opened(plan, data):
    return dp.data.from_arrays(*data).bounded(plan.problem.bounds, order="given")


def begun(plan, seed=3, budget=None):
    budget = plan.budget if budget is None else budget
    ledger = Ledger(plan.releases(), budget, randomness=Randomness.seeded(seed))
    return Engine(plan, get(plan.solver).stepper(plan), ledger), ledger


# -- the estimate ----------------------------------------------------------------------------------


def test_scores_are_those_of_the_unrolled_mean():
    """est_t = sum_k P_{k,t} mean_k u_k, with u_k unclipped here."""
    plan, data = make("poly_sfw"), table()
    run, _ = begun(plan)
    source, stepper = opened(plan, data), run._stepper
    means = []
    for t in range(6):
        start, stop = plan.edges[t], plan.edges[t + 1]
        a = plan.share(t)
        w, before = stepper.weights, stepper.previous
        assert plan.keep(t) == 1 - a
        if t == 0:
            query = ClippedGradient(Sigmoid(), w, 1e6)
        else:
            query = ClippedDifference(Sigmoid(), w, before, 1.0, 1 - a, 1e6)
        means = [(1 - a) * mean for mean in means]
        means.append(source.sum(query, start, stop) / (stop - start))
        run.step(source)
        assert run._fading == pytest.approx(np.sum(means, axis=0), abs=1e-12)


def test_a_clip_bounds_what_a_smooth_loss_adds():
    """G_t is no cut for rows within their bounds: differences never reach it."""
    plan, data = make("poly_sfw"), table(1)
    run, _ = begun(plan)
    source = opened(plan, data)
    for t in range(6):
        gradient = run.query().scores.gradient
        start, stop = plan.edges[t], plan.edges[t + 1]
        for row in range(start, stop):
            wide = dataclasses.replace(gradient, clip=1e6)
            assert np.abs(source.sum(wide, row, row + 1)).max() <= plan.clips[t] * (1 + 1e-9)
        run.step(source)


def test_the_bound_of_a_difference_is_reached():
    """One weight, f = z w^2/2, z = +-1: flipping z in batch 1 moves est_1 by 2 G_1 exactly."""
    clips = rates.clips([1.0, 1 / math.sqrt(2)], [1.0, 1 / math.sqrt(2)],
                        rates.Geometry(L1, 2.0, 1.0, 1.0, 1.0))  # fmt: skip
    assert clips[1] == pytest.approx(1.2928932, abs=1e-7)
    w0, w1, keep = -1.0, 1.0, 1.0 - 1.0 / math.sqrt(2)
    moved = abs((w1 - keep * w0) - (-w1 + keep * w0))
    assert moved == pytest.approx(2 * clips[1], rel=1e-12)


@given(seed=st.integers(0, 999), row=st.integers(0, N - 1), size=st.sampled_from([1.0, 1e3, 1e200]))
@settings(max_examples=10, deadline=None)
@pytest.mark.parametrize("key", KEYS)
def test_a_row_moves_no_release_by_more_than_it_pays_for(key, seed, row, size):
    plan, (X, y) = make(key), table(seed)
    other, labels = X.copy(), y.copy()
    other[row], labels[row] = -size * X[row][::-1], -y[row]
    first = record(plan, (X, y), seed=seed)
    assert compare(first, replay(first, (other, labels)), row=row) == []


def test_older_rows_move_scores_less():
    """What is declared for an old row is a small part of what new rows pay."""
    plan, data = make("poly_sfw", rounds=12), table()
    run = record(plan, data)
    last = run.events[-1]
    declared = [
        declared_sensitivity(last, plan.budget.adjacency, row=row)
        for row in (plan.edges[0], plan.edges[5], plan.edges[11])
    ]
    assert declared[0] < 0.05 * declared[1]
    assert declared[1] < 0.3 * declared[2]


@pytest.mark.parametrize("key", [*KEYS, "noisy_gd", "noisy_regularized_mirror_descent"])
def test_a_round_holds_few_vectors_beside_the_table(key):
    """Not 2d scores and their copies, targets, products: 9 to 21 vectors once, and no matrix."""
    most = 7.2 if key in KEYS else 9.5
    assert 1.0 < wide_rounds.vectors(key, *wide_rounds.table(2000, 200_000)) < most


# -- planted bugs ----------------------------------------------------------------------------------


def spoilt(plan, rounds):
    """The same plan with other releases."""

    class Spoilt(type(plan)):
        @property
        def _releases(self):
            return tuple(rounds)

    fields = {item.name: getattr(plan, item.name) for item in dataclasses.fields(plan)}
    return Spoilt(**fields)


def off_by_one(plan):
    """P_{k,t} with one factor too many: a batch has faded in its own round."""
    changed, bounds = [], []
    for t, release in enumerate(plan.releases()):
        keep = plan.keep(t + 1) if t + 1 < len(plan.sizes) else 1.0
        bounds = [*release.bounds[:-1], release.bounds[-1]]
        bounds = [bound * min(1.0, keep) for bound in bounds[:-1]] + bounds[-1:]
        changed.append(dataclasses.replace(release, bounds=tuple(bounds)))
    return changed


def test_a_fading_product_that_is_off_by_one_is_refused():
    plan = make("poly_sfw")
    wrong = spoilt(plan, off_by_one(plan))
    run, ledger = begun(wrong)
    source = opened(plan, table())
    run.step(source)
    with pytest.raises(LedgerError, match="was not planned for rows that count so much"):
        run.step(source)
    with pytest.raises(LedgerError):
        ledger.close()


def test_a_fading_product_that_is_off_by_one_is_seen_on_neighbours():
    """Replay sees it too: an old row moves the scores by more than such bounds say."""
    plan = make("poly_sfw", rounds=3)
    rows = (np.zeros((N, D)), np.ones(N))
    rows[0][0] = 1.0
    other = (-rows[0], rows[1])
    first = record(plan, rows)
    again = replay(first, other)
    assert compare(first, again, row=0) == []
    event, moved = first.events[1], again.events[1]
    distance = float(np.ptp(event.inputs[0] - moved.inputs[0]))
    wrong = off_by_one(plan)[1].bound_of(0)
    assert 2 * wrong < distance <= 2 * event.release.bound_of(0) * (1 + 1e-9)


def test_a_radius_in_the_place_of_the_diameter_is_refused():
    plan = make("noisy_fw_gll")
    half = VertexSet(plan.problem.domain, D).spread(plan.clip, plan.norm) / 2

    class Half(type(plan)):
        def releases(self):
            return tuple(dataclasses.replace(each, bound=half) for each in plan.releases())

    fields = {item.name: getattr(plan, item.name) for item in dataclasses.fields(plan)}
    run, _ = begun(Half(**fields))
    with pytest.raises(LedgerError, match="noise was planned for"):
        run.step(opened(plan, table()))


def test_the_diameter_is_reached_and_the_radius_exceeded():
    """One row that turns around moves the scores by twice the diameter times its clip."""
    plan = make("noisy_fw_gll", Absolute(), budget=ApproxDP(3.0, 1e-4))
    X, y = np.zeros((N, D)), np.zeros(N)
    X[0, 0], y[0] = 1.0, 5.0
    plan = dp.plan(
        dp.Problem(
            loss=Absolute(),
            bounds=dp.Bounds(1.0, label=5.0, norm=LINF),
            domain=dp.domains.L1Ball(2.0),
        ),
        n=N, d=D, budget=BUDGET, solver="noisy_fw_gll", options={"rounds": 2},
    )  # fmt: skip
    first = record(plan, (X, y))
    second = replay(first, (X, -y))
    move = first.events[0].inputs[0] - second.events[0].inputs[0]
    assert float(np.ptp(move)) == pytest.approx(2 * 4.0 * 1.0, rel=1e-9)  # 2 D L0 R, D = 4


def test_totals_of_other_rows_are_refused():
    """A pass cannot go on from the total of another one."""
    plan = make("poly_sfw")
    first, second, *rest = plan.releases()
    merged = dataclasses.replace(second, stops=(first.stops[0] - 1, second.stops[1]))
    run, _ = begun(spoilt(plan, [first, merged, *rest]), budget=ApproxDP(9.0, 1e-4))
    source = opened(plan, table())
    run.step(source)
    with pytest.raises(LedgerError, match="count so much"):
        run.step(source)


def test_scores_that_do_not_fade_are_refused():
    plan = make("poly_sfw")
    run, _ = begun(plan)
    query = run.query()
    assert isinstance(query, FadingScores)
    plain = VertexScores(
        ClippedGradient(Sigmoid(), plan.task.start, 1.0, LINF), query.scores.vertices
    )
    object.__setattr__(plain, "bound", query.bound)
    run._stepper.query = lambda: plain
    with pytest.raises(LedgerError, match="count so much"):
        run.step(opened(plan, table()))
    for wrong in ({"keep": 1.5}, {"keep": -0.1}, {"weight": 0.0}):
        with pytest.raises(ParameterError, match=next(iter(wrong))):
            dataclasses.replace(query, **wrong)


# -- runs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stop", [1, 3, 5])
def test_a_run_goes_on_with_its_secret_total(stop):
    plan, data = make("poly_sfw"), table()
    source, (whole, _), (first, _), (second, ledger) = (
        opened(plan, data), begun(plan), begun(plan), begun(plan),
    )  # fmt: skip
    for _ in range(6):
        whole.step(source)
    for _ in range(stop):
        first.step(source)
    with pytest.raises(ParameterError, match="total of fading scores of shape"):
        begun(plan)[0].resume(stop, first.state(), {})
    second.resume(stop, first.state(), first.secrets())
    for _ in range(6 - stop):
        second.step(source)
    assert second.output().tobytes() == whole.output().tobytes()
    ledger.close()
    assert "fading total" not in whole.state()


def test_who_sums_does_not_matter():
    plan, data = make("poly_sfw"), table()
    (one, _), (two, _), source = begun(plan), begun(plan), opened(plan, data)
    while not two.finished:
        start, stop = two.next_round.rows
        query, middle = two.query(), (start + stop) // 2
        one.step(source)
        two.commit(source.sum(query, start, middle) + source.sum(query, middle, stop))
    assert one.output().tobytes() == two.output().tobytes()


@pytest.mark.parametrize("key", KEYS)
def test_weights_stay_in_the_domain_and_steps_are_as_planned(key):
    plan, data = make(key), table()
    run, _ = begun(plan)
    source, stepper = opened(plan, data), run._stepper
    for t in range(6):
        before = stepper.weights
        run.step(source)
        assert np.abs(stepper.weights).sum() <= 2.0 * (1 + 1e-12)
        moved = np.abs(stepper.weights - before).sum()
        assert moved <= plan.step_at(t) * 4.0 * (1 + 1e-12)
    assert np.abs(run.output()).sum() <= 2.0 * (1 + 1e-12)


def test_the_first_full_step_is_a_vertex():
    plan = make("noisy_fw_gll")
    run, _ = begun(plan)
    run.step(opened(plan, table()))
    assert sorted(np.abs(run._stepper.weights)) == [0.0, 0.0, 0.0, 2.0]


@pytest.mark.parametrize("chosen", [0, 2, 6])
def test_the_drawn_point_is_returned_before_its_round(chosen):
    plan = dataclasses.replace(make("poly_sfw"), output="random", chosen=chosen)
    run, _ = begun(plan)
    source, points = opened(plan, table()), []
    for _ in range(6):
        points.append(run._stepper.weights)
        run.step(source)
    points.append(run._stepper.weights)
    assert run.output().tobytes() == points[chosen].tobytes()


def test_selection_of_a_point_reads_released_numbers_alone():
    """The point of least estimated gap, by hand from the noisy means."""
    plan = make("noisy_sfw_lp", output="select")
    run = record(plan, table())
    weights, estimate, gaps, points = np.zeros(D), np.zeros(D), [], []
    stepper = get("noisy_sfw_lp").stepper(plan)
    for t, event in enumerate(run.events):
        unit = stepper.query().unit
        stepper.update(event.outputs[0])
        estimate = plan.keep(t) * estimate + unit * event.outputs[0] / plan.sizes[t]
        target = plan.problem.domain.minimise(estimate)
        gaps.append(float(estimate @ (weights - target)))
        points.append(weights)
        weights = (1 - plan.step_at(t)) * weights + plan.step_at(t) * target
    assert run.weights == pytest.approx(points[int(np.argmin(gaps))], abs=1e-12)


def test_clips_follow_the_steps_taken():
    """Never above the longest step's, and below it where a step was shorter."""
    plan = make("noisy_sfw_lp", rounds=6)
    run, _ = begun(plan)
    source, units = opened(plan, table()), []
    for _ in range(6):
        units.append(run.query().unit)
        run.step(source)
    assert all(unit <= clip * (1 + 1e-12) for unit, clip in zip(units, plan.clips, strict=True))
    assert units[0] == plan.clips[0]
    assert any(unit < 0.99 * clip for unit, clip in zip(units, plan.clips, strict=True))


def test_a_step_of_no_length_is_followed():
    """At a vertex that is chosen again nothing moves; gradients alone bound the next clip."""
    plan = make("noisy_sfw_lp", rounds=4)
    stepper = get("noisy_sfw_lp").stepper(plan)
    stepper.update(np.array([1.0, 0.0, 0.0, 0.0]))
    stepper.update(np.array([1e9, 0.0, 0.0, 0.0]))
    assert stepper.weights.tolist() == stepper.previous.tolist() == [-2.0, 0.0, 0.0, 0.0]
    query = stepper.query()
    facts = plan.geometries[1]
    assert query.unit == pytest.approx(plan.share(2) * facts.lipschitz, rel=1e-12)
    stepper.update(np.array([np.nan, np.inf, 0.0, 0.0]))  # whatever comes, weights are finite
    assert np.all(np.isfinite(stepper.weights))


def test_exact_minimisers_are_reached_without_noise():
    """Signs, indices and minimisers are right: at a huge budget the gap falls as it must."""
    rng = np.random.default_rng(5)
    truth = np.array([1.0, -0.5, 0.0, 0.0])
    X = rng.choice([-1.0, 1.0], (3000, D))
    y = np.where(rng.random(3000) < 1 / (1 + np.exp(-2 * X @ truth)), 1.0, -1.0)
    huge = ApproxDP(200.0, 1e-3)
    for key, rounds in zip(KEYS, (100, 30, 30), strict=True):
        loss = Logistic() if key == "noisy_fw_gll" else Sigmoid()
        options = {"rounds": rounds} | ({} if key == KEYS[0] else {"output": "last"})
        result = dp.solve(problem(loss), (X, y), huge, solver=key, options=options)
        margins = y * (X @ result.weights)
        if key == "noisy_fw_gll":
            slope = -1 / (1 + np.exp(margins))
        else:
            value = 1 / (1 + np.exp(margins))
            slope = -value * (1 - value)
        gradient = (X * (y * slope)[:, None]).mean(axis=0)
        gap = gradient @ result.weights + 2.0 * np.abs(gradient).max()
        assert gap < 0.03, key


def test_batches_of_explicit_vertices():
    corners = dp.domains.Polytope([[1.0, 0, 0, 0], [-1.0, 0, 0, 0], [0, 2.0, 0, 0]])
    plan = dp.plan(
        dp.Problem(loss=Sigmoid(), bounds=SIGN, domain=corners),
        n=N, d=D, budget=BUDGET, solver="poly_sfw", options={"rounds": 4},
    )  # fmt: skip
    assert plan.norm == L2
    assert all(type(each) is FadingSelectionRelease for each in plan.releases())
    weights = dp.run(plan, table()).weights
    assert corners.contains(weights)


def test_the_table_of_fading_bounds_is_a_product():
    shares = [rates.momentum(t) for t in range(7)]
    bounds = rates.fading_bounds([1.0] * 7, shares)
    for k, t in itertools.combinations(range(7), 2):
        assert bounds[t][k] == pytest.approx(math.prod(1 - shares[j] for j in range(k + 1, t + 1)))
    assert all(row[-1] == 1.0 for row in bounds)
    assert noise.fading_stages([1.0] * 3, (1, 1, 1), (1, 2))[1][0] == 1
