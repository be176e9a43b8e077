"""The engine: schedules, rounds of every kind, order, rows, noise, states, what is refused."""

import copy
import dataclasses
import json
import pickle
import re

import numpy as np
import pytest

import dpsco as dp
from dpsco.audit import contract
from dpsco.audit.planted import planted as planting
from dpsco.data.gradient_norms import GradientNorms, TrackedGradient, tracked_bound
from dpsco.data.queries import ClippedGradient, InUnits
from dpsco.data.vertices import VertexScores, vertex_set
from dpsco.errors import LedgerError, ParameterError
from dpsco.geometry.norms import L1, L2, LINF, Lp
from dpsco.losses import Logistic
from dpsco.privacy import Ledger, Randomness, lattice
from dpsco.privacy.budget import GDP, ApproxDP
from dpsco.privacy.mechanisms import (
    ClipQuantileRelease,
    FixedSizeGaussianRelease,
    GaussianRelease,
    PoissonGaussianRelease,
    PrefixSumRelease,
    SelectionRelease,
    ShuffledRelease,
    ShuffledSequenceRelease,
    StableGaussianRelease,
)
from dpsco.privacy.mechanisms.prefix_sum.mechanism import NEEDS, mechanism
from dpsco.privacy.release import Composition, flatten
from dpsco.solvers import get, registry
from dpsco.solvers.common.batches import (
    NOISE_BYTES,
    BatchPlan,
    check_rounds,
    chosen_mechanism,
)
from dpsco.solvers.common.found_clip import FoundClipStepper, TrackedClipStepper
from dpsco.solvers.engine import Engine, EnginePlan, Schedule, Stepper, reads_once, run_rounds

LOGISTIC = dp.Task(
    dp.Problem(loss=Logistic(), bounds=dp.Bounds(1.0, label="sign"), domain=dp.domains.L2Ball(5.0)),
    8,
    2,
    ApproxDP(2.0, 1e-6),
)
KEYS = tuple(
    key
    for key, entry in registry().items()
    if entry.stepper is not None and not entry.refusals(LOGISTIC)
)
ONE_PASS = ("clipped_acsa", "clipped_sgd_sc", "clipped_prox_sgd", "noisy_gd_split_baseline")
BATCHED = tuple(key for key in KEYS if registry()[key].single_epoch is not None)
SELECTING = ("noisy_fw_gll", "poly_sfw")  # an index leaves, and no sum
OWN_ROWS = ("noisy_fw_gll", "shuffled_truncated_mirror_descent")  # no sums taken elsewhere
SUMMING = tuple(key for key in KEYS if key not in (*SELECTING, "noisy_sfw_lp"))  # of one clip
STREAMS = ("acc_srgd", "srg_sgd", "srg_online_to_batch", "dp_ftrl")
X8 = np.array([[0.6, 0.8], [-1, 0], [0, 1], [0.8, -0.6], [0.6, -0.8], [0, -1], [1, 0], [-0.6, 0.8]])
Y8 = np.array([1.0, -1, 1, 1, -1, -1, 1, 1])


def make(key, n=8, d=2, radius=5.0, budget=None, **options):
    ball = dp.domains.L1Ball if key in SELECTING else dp.domains.L2Ball
    problem = dp.Problem(loss=Logistic(), bounds=dp.Bounds(1.0, label="sign"), domain=ball(radius))
    budget = ApproxDP(2.0, 1e-6) if budget is None else budget
    return dp.plan(problem, n=n, d=d, budget=budget, solver=key, options=options)


def planned(key, rounds=4, n=8, d=2):
    """A plan of any engine solver with so many noisy answers."""
    options = {
        "dp_sgd_poisson": {"epochs": rounds / 2, "rate": 0.5},
        "dp_sgd_gradient": {"rounds": rounds + 1, "batch": 3},
        "shuffled_truncated_mirror_descent": {"rounds": rounds, "secret_order": False},
    }.get(key, {"rounds": rounds})
    return make(key, n=n, d=d, **options)


def opened(plan, X=X8, y=Y8):
    return dp.data.from_arrays(X, y).bounded(plan.problem.bounds, order="given")


def begun(plan, seed=3):
    """A run at its beginning, and its ledger."""
    ledger = Ledger(plan.releases(), plan.budget, randomness=Randomness.seeded(seed))
    return Engine(plan, get(plan.solver).stepper(plan), ledger), ledger


def go(run, source, rounds):
    for _ in range(rounds):
        run.step(source)


def test_the_solvers_that_this_is_about():
    assert {*STREAMS, *ONE_PASS, "acc_independent", "dp_sgd_single_epoch"} == set(BATCHED)
    sampled = {"dp_sgd_poisson", "dp_sgd_gradient", "noisy_sgd_2019", "noisy_sgd_2020"}
    assert {"noisy_gd", *sampled, *BATCHED} <= set(KEYS)
    for key in sorted({*BATCHED} - {*ONE_PASS}):
        assert isinstance(make(key), BatchPlan)
        assert (make(key).mechanism is not None) == (key in STREAMS)
    for key in KEYS:
        assert planned(key).total_rounds == len(planned(key).trace()) == 4, key
        once = (*BATCHED, "poly_sfw", "noisy_sfw_lp")
        assert reads_once(registry()[key], planned(key)) == (key in once)


@pytest.mark.parametrize(
    ("key", "options", "expected"),
    [
        ("acc_srgd", {"beta": 0.25, "clip": 1.0}, [2.571815751, 2.461906001]),
        ("srg_online_to_batch", {"beta": 0.25, "clip": 1.0}, [2.177565062, 2.072752456]),
        ("srg_sgd", {"beta": 0.25, "clip": 1.0}, [2.969027892, 2.590298841]),
        ("acc_independent", {"beta": 0.25, "clip": 1.0}, [1.146271064, 2.852083516]),
        ("dp_sgd_single_epoch", {"step": 1.0, "falling": False}, [0.493242198, 0.883921831]),
        (
            "dp_sgd_single_epoch",
            {"step": 1.0, "falling": False, "tail": 4},
            [0.473670938, 0.522393609],
        ),
        ("dp_ftrl", {"step": 1.0, "tail": 4}, [0.350360388, 0.301413151]),
    ],
)
def test_known_runs_through_a_ledger(key, options, expected):
    """Eight rows in four batches, with noise of 1e-11 (Choquette-Choo, Ganesh, Thakurta 2025)."""
    plan = make(key, budget=GDP(1e12), rounds=4, **options)
    run, ledger = begun(plan)
    source = opened(plan)
    go(run, source, 4)
    assert run.output() == pytest.approx(expected, abs=1e-5)
    ledger.close()
    random = Randomness.seeded(3)
    again = dp.run(plan, (X8, Y8), order="given", randomness=random).weights
    assert again.tobytes() == run.output().tobytes()


@pytest.mark.parametrize("key", BATCHED)
def test_who_sums_does_not_matter(key):
    """Sums of parts of a batch, added up elsewhere, give the same run up to rounding."""
    plan = make(key, rounds=2)
    (one, _), (two, _), source = begun(plan), begun(plan), opened(plan)
    go(one, source, 2)
    while not two.finished:
        start, stop = two.next_round.rows
        query = two.query()
        two.commit(sum(source.sum(query, row, row + 1) for row in range(start, stop)))
    assert two.output() == pytest.approx(one.output(), abs=1e-9)


@pytest.mark.parametrize("key", SUMMING)
def test_the_divisor_is_public_and_planned(key):
    """Rows that are missing add zero: twice as many planned rows halve the same sum."""
    plan = make(key, rounds=1) if key in BATCHED else planned(key)
    changes = {"task": dataclasses.replace(plan.task, n=16)}
    if hasattr(plan, "batch"):
        changes["batch"] = 2 * plan.batch
    if hasattr(plan, "row_range"):  # those of the rounds
        changes["row_range"] = (0, 16)
    if hasattr(plan, "sizes"):  # of stages, or of phases
        changes["sizes"] = tuple(2 * size for size in plan.sizes)
    if isinstance(getattr(plan, "batches", None), tuple):  # of phases
        changes["batches"] = tuple(2.0 * batch for batch in plan.batches)
    wider = dataclasses.replace(plan, **changes)
    one, two = get(key).stepper(plan), get(key).stepper(wider)
    total = np.array([0.25, -0.5])
    one.update(total)
    two.update(2 * total)
    assert all(np.array_equal(one.state()[name], two.state()[name]) for name in one.vectors)


@pytest.mark.parametrize("key", BATCHED)
def test_every_batch_is_divided_by_its_own_size(key):
    plan = make(key, n=5, rounds=2)
    assert [plan.batch_size(t) for t in (0, 1)] == [3, 2]
    assert plan.batches() == ((0, 3), (3, 5))
    equal = dataclasses.replace(plan, task=dataclasses.replace(plan.task, n=6))
    assert equal.batches() == ((0, 3), (3, 6))
    means = np.array([[0.25, -0.5], [0.5, 0.125]])

    def state(plan, sizes):
        """Return where a plan's stepper stands after sums of means of so many rows."""
        stepper = get(key).stepper(plan)
        for mean, size in zip(means, sizes, strict=True):
            stepper.update(size * mean)
        return np.concatenate(list(stepper.state().values()))

    assert state(plan, (3, 2)) == pytest.approx(state(equal, (3, 3)), rel=1e-12)
    assert state(plan, (3, 3)) != pytest.approx(state(equal, (3, 3)), rel=1e-3)


@pytest.mark.parametrize("key", ["dp_sgd_single_epoch", "acc_independent", "acc_srgd", "dp_ftrl"])
def test_a_run_divides_unequal_batches_by_their_sizes(key):
    """Seven equal rows without noise: batches of 3, 2 and 2 have one mean, whatever their sizes."""
    plan = make(key, n=7, budget=GDP(1e12), rounds=3)
    equal = dataclasses.replace(plan, task=dataclasses.replace(plan.task, n=6))
    assert [stop - start for start, stop in plan.batches()] == [3, 2, 2]
    weights = []
    for each in (plan, equal):
        run, ledger = begun(each)
        go(run, opened(each, np.tile(X8[:1], (each.n, 1)), np.ones(each.n)), 3)
        ledger.close()
        weights.append(run.output())
    assert weights[0] == pytest.approx(weights[1], abs=1e-5)
    assert np.linalg.norm(weights[0]) > 1e-2


def begun_ledger(plan):
    return Ledger(plan.releases(), plan.budget, randomness=Randomness.seeded(0))


@pytest.mark.parametrize("key", BATCHED)
def test_batches_cover_every_row_once(key):
    for n, rounds in ((10, 3), (10, 10), (1000, 7), (5, 1)):
        batches = make(key, n=n, rounds=rounds).batches()
        assert np.array_equal(np.concatenate([np.arange(*rows) for rows in batches]), np.arange(n))
        sizes = [stop - start for start, stop in batches]
        assert sizes == sorted(sizes, reverse=True)
        assert sizes[0] - sizes[-1] <= 1


@pytest.mark.parametrize("key", KEYS)
def test_rounds_are_reported_after_they_are_kept(key):
    plan, said = planned(key), []

    class Store:
        def resume(self, engine):
            said.append(("resumed", engine.round))

        def commit(self, engine):
            said.append(("kept", engine.round))

    ledger = begun_ledger(plan)
    run_rounds(
        plan,
        get(key).stepper(plan),
        opened(plan),
        ledger,
        progress=lambda done, total: said.append(("told", done, total)),
        store=Store(),
    )
    assert said[0] == ("resumed", 0)
    assert said[1:] == [x for t in range(1, 5) for x in (("kept", t), ("told", t, 4))]
    ledger.close()


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize("key", KEYS)
def test_rounds_beyond_the_last_and_answers_before_it(key):
    plan = planned(key)
    run, ledger = begun(plan)
    go(run, opened(plan), 3)
    with pytest.raises(LedgerError, match="round 3 of 4"):
        run.output()
    go(run, opened(plan), 1)
    assert run.finished
    for refused in (run.query, lambda: run.next_round, lambda: run.commit(np.zeros(2))):
        with pytest.raises(LedgerError, match="all 4 rounds of this run are over"):
            refused()
    ledger.close()


@pytest.mark.parametrize("key", KEYS)
def test_unfinished_runs_have_no_certificate(key):
    plan = planned(key)
    run, ledger = begun(plan)
    go(run, opened(plan), 3)
    with pytest.raises(LedgerError, match="not executed"):
        ledger.close()


@pytest.mark.parametrize("key", KEYS)
def test_two_runs_cannot_share_a_ledger(key):
    """A second participation of the rows: the same batches once more."""
    plan = planned(key)
    run, ledger = begun(plan)
    go(run, opened(plan), 4)
    with pytest.raises(LedgerError, match="already executed"):
        go(Engine(plan, get(key).stepper(plan), ledger), opened(plan), 1)


@pytest.mark.parametrize("key", KEYS)
def test_weights_of_a_run_are_the_callers(key):
    plan = planned(key)
    run, _ = begun(plan)
    go(run, opened(plan), 4)
    held, weights = run.state(), run.output()
    before = weights.copy()
    weights -= 1.0
    assert np.array_equal(run.output(), before)
    assert all(np.array_equal(value, held[name]) for name, value in run.state().items())


@pytest.mark.parametrize("rows", [(0, 2), (1, 3), (2, 9)])
def test_streams_take_each_row_once_and_in_order(rows):
    plan = make("acc_srgd", rounds=4)
    stream = begun_ledger(plan).prefix_sum(
        2, bound=plan.clip, sigma=plan.sigma, mechanism=plan.mechanism, rows=(0, 8)
    )
    stream.add(np.zeros(2), rows=(0, 2))
    with pytest.raises(LedgerError, match="each row enters one round"):
        stream.add(np.zeros(2), rows=rows)


def test_batches_of_their_own_noise_are_taken_once():
    plan = make("acc_independent", rounds=4)
    ledger = begun_ledger(plan)
    ledger.gaussian(np.zeros(2), bound=plan.clip, sigma=plan.sigma, rows=(0, 2))
    with pytest.raises(LedgerError, match="already executed"):
        ledger.gaussian(np.zeros(2), bound=plan.clip, sigma=plan.sigma, rows=(0, 2))


@pytest.mark.parametrize("rounds", [0, -1, 9, 2.0, True, None, "4"])
def test_numbers_of_rounds(rounds):
    with pytest.raises(ParameterError, match="rounds must be"):
        check_rounds(rounds, 8)
    assert check_rounds(8, 8) == 8


def test_mechanisms_by_name_by_size_or_given():
    task, wide = make("acc_srgd").task, make("acc_srgd", d=1000).task
    assert chosen_mechanism(None, 64, task) == mechanism("toeplitz_cn", rounds=64)
    assert chosen_mechanism(None, 2**16, wide).name == "blt_cn"
    most = NOISE_BYTES // (8 * wide.n_weights)
    assert chosen_mechanism(None, most, wide).name == "toeplitz_cn"
    assert chosen_mechanism(None, most + 1, wide).name == "blt_cn"
    assert chosen_mechanism("tree", 7, task) == mechanism("tree", rounds=7)
    given = mechanism("banded", rounds=7, bands=3)
    assert chosen_mechanism(given, 7, task) is given
    with pytest.raises(ParameterError, match="made for 7 rounds, the plan has 8"):
        chosen_mechanism(given, 8, task)
    with pytest.raises(ParameterError, match="name must be one of"):
        chosen_mechanism("white", 7, task)


@pytest.mark.parametrize("key", STREAMS)
@pytest.mark.parametrize("name", NEEDS)
def test_names_that_leave_something_open_are_refused(key, name):
    """And what the refusal says to pass can be pasted, with the rounds that were asked for."""
    for n, asked in ((8, {}), (8, {"rounds": 5}), (1000, {}), (1, {})):
        with pytest.raises(ParameterError, match=f"noise='{name}' needs {NEEDS[name]}") as refused:
            make(key, n, noise=name, **asked)
        advice = re.search(r"options=(\{.*\});", str(refused.value)).group(1)
        plan = make(key, n, **asked, **eval(advice, {"dpsco": dp}))
        assert plan.mechanism.name == name
        assert plan.rounds == make(key, n, **asked).rounds


OPEN = [
    mechanism("banded", rounds=8, bands=3),
    mechanism("bisr", rounds=8, bands=3),
    mechanism("power", rounds=8, exponent=0.75),
    mechanism("blt_cn", rounds=8),
]


@pytest.mark.parametrize("key", STREAMS)
@pytest.mark.parametrize("noise", OPEN, ids=lambda noise: noise.name)
def test_runs_with_every_other_mechanism_are_certified(key, noise, tmp_path):
    """Plan and certificate come back from their files, and both accountants bear them out."""
    plan = dp.load_plan(make(key, noise=noise).to_json())
    assert plan == make(key, noise=noise)
    assert plan.mechanism == noise
    result = dp.run(plan, (X8, Y8))
    result.certificate.save(tmp_path / "certificate.json")
    read = dp.privacy.Certificate.load(tmp_path / "certificate.json")
    assert read == result.certificate
    assert read.releases[0].mechanism == noise
    verdict = read.verify()
    assert verdict.ok
    assert "skipped" not in verdict.cross_check
    needed = plan.clip * noise.column_norm * 2 / plan.sigma  # replace-one
    assert needed <= read.mu <= needed * (1 + 1e-6)  # pays for rounding and the lattice
    assert f"{noise.name}, 8 rounds" in str(read)


@pytest.mark.parametrize("key", STREAMS)
@pytest.mark.parametrize("rounds", [4, 16])
def test_plans_whose_noise_has_another_horizon_return_nothing(key, rounds):
    """However such a plan came about: no certificate without all of the rounds that were paid."""
    record = json.loads(make(key, rounds=8).to_json())
    record["mechanism"]["rounds"] = rounds
    with pytest.raises((ParameterError, LedgerError)):
        dp.run(dp.load_plan(json.dumps(record)), (X8, Y8))


# -- states ----------------------------------------------------------------------------------------


def secrets_of(run, source, rounds):
    """Do some rounds, and return what a run that goes on in their place must know of them."""
    found = {}
    for _ in range(rounds):
        go(run, source, 1)
        found |= run.secrets()
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("after", [0, 1, 3, 4])
def test_resumed_runs_have_the_same_bits(key, after):
    """A run that stops after some rounds and goes on elsewhere, from its state and its randomness.

    The state is kept as JSON, numbers as they are printed.
    """
    plan = planned(key)
    whole, first = begun(plan)[0], begun(plan)[0]
    source = opened(plan)
    go(whole, source, 4)
    first_secrets = secrets_of(first, source, after)
    kept = json.loads(json.dumps({name: list(v) for name, v in first.state().items()}))
    second, ledger = begun(plan)
    second.resume(after, kept, first_secrets)
    assert second.round == after
    go(second, source, 4 - after)
    assert second.output().tobytes() == whole.output().tobytes()
    for name, vector in second.state().items():
        assert vector.tobytes() == whole.state()[name].tobytes()
    ledger.close()


@pytest.mark.parametrize(
    "noise", ["tree", "tree_honaker", "toeplitz", "blt", *OPEN], ids=lambda noise: str(noise)[:40]
)
def test_resumed_noise_of_every_mechanism(noise):
    plan = make("acc_srgd", rounds=8, noise=noise)
    source = opened(plan)
    (whole, _), (first, _), (second, ledger) = begun(plan), begun(plan), begun(plan)
    go(whole, source, 8)
    kept = secrets_of(first, source, 5)
    second.resume(5, first.state(), kept)
    go(second, source, 3)
    assert second.output().tobytes() == whole.output().tobytes()
    ledger.close()


@pytest.mark.parametrize("key", KEYS)
def test_resumed_runs_cannot_repeat_a_round(key):
    plan = planned(key)
    source, (first, _), (second, ledger) = opened(plan), begun(plan), begun(plan)
    kept = secrets_of(first, source, 2)
    second.resume(2, first.state(), kept)
    with pytest.raises(LedgerError, match="round 2 cannot go on at round 1"):
        second.resume(1, first.state())
    assert second.round == 2
    go(second, source, 2)
    with pytest.raises(LedgerError, match="over"):
        go(second, source, 1)
    ledger.close()


def test_correlated_noise_goes_on_from_all_it_knew_or_not_at_all():
    plan = make("acc_srgd", rounds=4)
    source, (first, _), (second, _) = opened(plan), begun(plan), begun(plan)
    found = secrets_of(first, source, 2)
    del found["stream 1 exact 1"]
    with pytest.raises(LedgerError, match="cannot go on at round 2"):
        second.resume(2, first.state(), found)
    assert begun(make("acc_independent", rounds=4))[0].secrets() == {}


@pytest.mark.parametrize("round", [-1, 5])
def test_resuming_outside_of_the_rounds(round):
    run, _ = begun(make("acc_srgd", rounds=4))
    with pytest.raises(LedgerError, match=f"cannot go on at round {round}"):
        run.resume(round, run.state())


@pytest.mark.parametrize("key", KEYS)
def test_states_of_another_shape_are_refused(key):
    plan = planned(key)
    run, other = begun(plan)[0], begun(planned(key, d=3))[0]
    with pytest.raises(ParameterError, match="of shape"):
        run.resume(1, other.state())
    for name in run.state():
        partial = {other: vector for other, vector in run.state().items() if other != name}
        with pytest.raises(ParameterError, match="of shape"):
            run.resume(1, partial)


def test_a_sum_of_rows_that_need_noise_of_their_own_is_refused():
    run, _ = begun(planned("shuffled_truncated_mirror_descent"))
    with pytest.raises(ParameterError, match="in one place"):
        run.commit(np.zeros(2))


@pytest.mark.parametrize("key", [key for key in KEYS if key not in OWN_ROWS])
def test_sums_of_another_length_are_refused_and_draw_nothing(key):
    plan = planned(key)
    run, again = begun(plan)[0], begun(plan)[0]
    for total in (np.zeros(5), np.zeros((2, 2)), np.float64(0.0)):
        with pytest.raises(ParameterError, match="length"):
            run.commit(total)
    run.commit(np.zeros(2))
    again.commit(np.zeros(2))
    assert all(np.array_equal(run.state()[k], again.state()[k]) for k in run.state())


@pytest.mark.parametrize("key", KEYS)
def test_states_are_copies_and_follow_from_noisy_answers(key):
    """Other rows and the same noisy answers give the same state: nothing of it is secret."""
    plan = planned(key)
    one, two = get(key).stepper(plan), get(key).stepper(plan)
    rng = np.random.default_rng(0)
    answers = rng.standard_normal((4, 2)) if key not in SELECTING else rng.integers(0, 4, 4)
    for answer in answers:
        one.update(answer)
        two.update(answer)
        kept = one.state()
        assert {k: v.tobytes() for k, v in kept.items()} == {
            k: v.tobytes() for k, v in two.state().items()
        }
        for vector in kept.values():
            vector[:] = np.nan
        assert all(np.all(np.isfinite(v)) for v in one.state().values())
    assert set(one.state()) == set(one.vectors)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
@pytest.mark.parametrize("key", ["acc_srgd", "acc_independent"])
def test_the_noise_of_a_run_cannot_be_duplicated(key, duplicate):
    """A run may be copied only without its ledger, and a ledger not at all."""
    run, ledger = begun(make(key, rounds=4))
    go(run, opened(run.plan), 1)
    with pytest.raises(LedgerError, match="neither copied nor pickled"):
        duplicate(ledger)
    if duplicate is not copy.copy:  # a shallow copy shares the ledger, which refuses the second one
        with pytest.raises(LedgerError, match="neither copied nor pickled"):
            duplicate(run)


@pytest.mark.parametrize("key", ["acc_srgd", "acc_independent"])
def test_a_failed_round_ends_the_run(key, monkeypatch):
    """Noise that may have been drawn is never drawn again for another sum."""
    plan = make(key, rounds=4)
    run, ledger = begun(plan)
    go(run, opened(plan), 1)

    def fails(words, count, scale):
        raise MemoryError

    with monkeypatch.context() as broken:
        broken.setattr(lattice, "rounded_normals", fails)
        with pytest.raises(MemoryError):
            run.commit(np.zeros(2))
    with pytest.raises(LedgerError, match="broken"):
        run.commit(np.zeros(2))
    with pytest.raises(LedgerError, match="broken"):
        ledger.close()


def test_releases_of_a_plan():
    """One stream over all rows, or one release a batch; the clip is their bound."""
    stream = make("acc_srgd", rounds=4, clip=0.7).releases()
    assert [(r.rows, r.bound, r.mechanism.rounds) for r in stream] == [((0, 8), 0.7, 4)]
    alone = make("acc_independent", rounds=3, clip=0.7).releases()
    assert [(r.rows, r.bound) for r in alone] == [((0, 3), 0.7), ((3, 6), 0.7), ((6, 8), 0.7)]
    louder = dataclasses.replace(make("acc_srgd", rounds=4), sigma=99.0)
    assert louder.releases()[0].sigma == 99.0


# -- schedules -------------------------------------------------------------------------------------


def test_equal_rounds_are_one_record():
    schedule = Schedule([GaussianRelease(1.0, 2.0, rows=(0, 9), count=10**7)])
    assert len(schedule) == 10**7
    assert schedule[10**7 - 1] == (GaussianRelease(1.0, 2.0, rows=(0, 9)), (0, 9), 0)
    assert schedule.expected_rows == 9 * 10**7
    with pytest.raises(IndexError):
        schedule[10**7]


def test_rounds_follow_the_releases_in_order():
    """Phases with several rounds on the same rows, bounds and noise of their own."""
    parts = [
        GaussianRelease(1.0, 2.0, rows=(0, 4), count=2),
        GaussianRelease(3.0, 4.0, rows=(0, 4)),
        PrefixSumRelease(1.0, 2.0, mechanism("tree", rounds=3), rows=(4, 9)),
        PoissonGaussianRelease(1.0, 2.0, 0.5, rows=(0, 8)),
        FixedSizeGaussianRelease(1.0, 2.0, 3, rows=(0, 8), count=2),
    ]
    schedule = Schedule(parts)
    rounds = list(schedule)
    assert [(round.rows, round.release.sigma) for round in rounds] == [
        *[((0, 4), 2.0)] * 2, ((0, 4), 4.0), ((4, 6), 2.0), ((6, 8), 2.0), ((8, 9), 2.0),
        *[((0, 8), 2.0)] * 3,
    ]  # fmt: skip
    assert [round.part for round in rounds[3:6]] == [0, 1, 2]
    assert schedule.expected_rows == 4 + 4 + 4 + 5 + 4 + 3 + 3
    assert flatten(parts) == flatten([round.release for round in (*rounds[:4], *rounds[6:])])


def test_compositions_are_turns():
    one, two = GaussianRelease(1.0, 2.0, rows=(0, 4)), GaussianRelease(2.0, 2.0, rows=(0, 4))
    schedule = Schedule([Composition((one, two), count=3)])
    assert [round.release for round in schedule] == [one, two] * 3


def test_which_rows_come_once():
    half, rest = (GaussianRelease(1.0, 2.0, rows=rows) for rows in ((0, 4), (4, 8)))
    stream = PrefixSumRelease(1.0, 2.0, mechanism("tree", rounds=2), rows=(4, 8))
    assert Schedule([half, rest]).single_epoch
    assert Schedule([half, stream]).single_epoch
    assert not Schedule([rest, half]).single_epoch  # not in order
    assert not Schedule([half, half]).single_epoch
    assert not Schedule([dataclasses.replace(half, count=2)]).single_epoch
    assert not Schedule([PoissonGaussianRelease(1.0, 2.0, 0.5, rows=(0, 8))]).single_epoch


@pytest.mark.parametrize(
    "release",
    [
        StableGaussianRelease(1.0, 2.0, "replace_one", "made up", rows=(0, 8)),
        Composition((PrefixSumRelease(1.0, 2.0, mechanism("tree", rounds=2), rows=(0, 8)),)),
        PrefixSumRelease(1.0, 2.0, mechanism("tree", rounds=2), rows=(0, 8), count=2),
    ],
    ids=["stable", "composed", "twice"],
)
def test_releases_that_have_no_rounds(release):
    with pytest.raises(ParameterError, match="no rounds for"):
        Schedule([release])


@pytest.mark.parametrize("key", SUMMING)
def test_rounds_and_trace_are_the_releases(key):
    """What is accounted for and what is executed: one list."""
    plan = planned(key)
    rounds = Schedule(plan.releases())
    assert [line.rows for line in plan.trace()] == [round.rows for round in rounds]
    sigma = plan.sigmas[0] if hasattr(plan, "sigmas") else plan.sigma
    assert [line.sigma for line in plan.trace()] == [sigma] * 4
    assert {round.release for round in rounds} == {r.once() for r in plan.releases()}


@pytest.mark.parametrize("key", SUMMING)
def test_a_query_beyond_its_planned_bound_is_refused(key):
    plan = planned(key)
    stepper = get(key).stepper(dataclasses.replace(plan, clip=plan.clip * 2))
    run = Engine(plan, stepper, begun_ledger(plan))
    with pytest.raises(LedgerError, match="noise was planned for"):
        run.step(opened(plan))


@pytest.mark.parametrize("key", SUMMING)
def test_a_query_that_is_bounded_in_another_norm_is_refused(key, monkeypatch):
    """Rows within the bound in the largest coordinate are up to sqrt(d) bounds long."""
    plan = planned(key)
    for norm, refused in ((LINF, True), (Lp(3.0), True), (L2, False), (L1, False)):
        run, ledger = begun(plan)
        bound = plan.releases()[0].bound
        query = ClippedGradient(Logistic(), plan.task.start, bound, norm)
        monkeypatch.setattr(run._stepper, "query", lambda query=query: query)
        if not refused:
            assert run.query() is query
            continue
        for attempt in (lambda run=run: run.step(opened(plan)), lambda run=run: run.commit(X8[0])):
            with pytest.raises(LedgerError, match="bounded in the l2 norm"):
                attempt()
        assert sum(ledger._due.values()) == sum(r.count for r in flatten(plan.releases()))


def test_a_release_of_rows_that_are_closer_takes_no_other_query():
    """Noise for rows that differ by one bound does not cover rows that differ by two."""
    plan = planned("noisy_gd")

    class Close(type(plan)):
        def releases(self):
            return (GaussianRelease(self.clip, 99.0, self.clip, rows=(0, self.n), count=4),)

    close = Close(**{item.name: getattr(plan, item.name) for item in dataclasses.fields(plan)})
    run, _ = begun(close)
    with pytest.raises(LedgerError, match="not planned"):
        run.step(opened(plan))


def test_every_clip_of_a_plan_is_stated():
    plan = planned("noisy_gd")

    class Growing(type(plan)):
        def releases(self):
            rows = (0, self.n)
            select = SelectionRelease(7.0, 99.0, 4, rows=rows)
            return (select, *(GaussianRelease(c, 99.0, rows=rows, count=2) for c in (0.5, 2.0)))

    growing = Growing(**{item.name: getattr(plan, item.name) for item in dataclasses.fields(plan)})
    said = [line for line in growing.enforced if "by clipping" in line and "gradient" in line]
    assert len(said) == 2
    assert all(f"at most {clip}," in line for clip, line in zip(("0.5", "2"), said, strict=True))


def test_fixed_samples_are_drawn_and_resumed():
    sampled = {"sampling": "fixed_size", "batch": 3.0, "sigma": 50.0}
    plan = dataclasses.replace(planned("noisy_sgd_2019"), **sampled)
    assert plan.releases()[0].kind == "fixed_size_gaussian"
    source, (whole, _), (first, _), (second, ledger) = (
        opened(plan),
        begun(plan),
        begun(plan),
        begun(plan),
    )
    go(whole, source, 4)
    go(first, source, 2)
    second.resume(2, first.state())
    go(second, source, 2)
    assert second.output().tobytes() == whole.output().tobytes()
    ledger.close()


# -- rounds of kinds that no solver has yet --------------------------------------------------------


@dataclasses.dataclass(frozen=True, kw_only=True)
class ToyPlan(EnginePlan):
    clip: float = 1.0

    @property
    def enforced(self):
        return self.problem.bounds.enforced


class FrankWolfePlan(ToyPlan):
    """Select a vertex, then ask how far the gradients point; three times."""

    def releases(self):
        rows = (0, self.n)
        scores = FrankWolfeStepper(self).query()
        select = SelectionRelease(scores.bound, 400.0, 4, "permute_and_flip", rows=rows)
        return (Composition((select, GaussianRelease(1.0, 99.0, rows=rows)), count=3),)


class FrankWolfeStepper(Stepper):
    vectors = ("weights", "vertex")

    def __init__(self, plan):
        super().__init__()
        self.plan, self.weights, self.vertex = plan, plan.task.start, np.zeros(2)

    def query(self):
        loss, ball = self.plan.problem.loss, self.plan.problem.domain
        if self.round % 2:
            return ClippedGradient(loss, self.weights, 1.0)
        return VertexScores(ClippedGradient(loss, self.weights, 1.0, LINF), ball)

    def step(self, answer):
        if self.round % 2 == 0:
            assert isinstance(answer, int)
            self.vertex = vertex_set(self.plan.problem.domain, 2).vertex(answer)
            return
        share = 1.0 / (2.0 + abs(answer).sum())
        self.weights = (1 - share) * self.weights + share * self.vertex

    def output(self):
        return self.weights


class ShuffledPlan(ToyPlan):
    """One report of each row, from which the mean is taken; twice."""

    def releases(self):
        return (ShuffledRelease(1.0, 60.0, rows=(0, self.n), count=2),)


class ShuffledStepper(Stepper):
    vectors = ("weights",)

    def __init__(self, plan):
        super().__init__()
        self.plan, self.weights = plan, plan.task.start

    def query(self):
        return ClippedGradient(self.plan.problem.loss, self.weights, 1.0)

    def step(self, answer):
        assert answer.shape == (self.plan.n, 2)
        self.weights = self.plan.problem.domain.project(self.weights - answer.mean(axis=0) / 100)

    def output(self):
        return self.weights


class FoundPlan(ToyPlan):
    """Find a clip, then three rounds in its units."""

    enforced = EnginePlan.enforced

    @property
    def search(self):
        return ClipQuantileRelease(8.0, 6, 21, 2.0**-10, 2, rows=(0, self.n))

    def releases(self):
        return (self.search, GaussianRelease(1.0, 9.0, rows=(0, self.n), count=3))


class FoundStepper(FoundClipStepper):
    vectors = ("weights", "unit")

    def __init__(self, plan):
        super().__init__(plan, plan.task.start)
        self.weights = plan.task.start

    def gradient(self):
        return ClippedGradient(self.plan.problem.loss, self.weights, self.clip)

    def move(self, total):
        self.weights = self.plan.problem.domain.project(self.weights - 0.1 * total / self.plan.n)

    def output(self):
        return self.weights


class TrackedPlan(FoundPlan):
    """Find a clip, and let it follow the gradients."""

    weight, level = 0.5, 0.7

    def releases(self):
        bound = tracked_bound(self.weight)
        return (self.search, GaussianRelease(bound, 9.0, rows=(0, self.n), count=3))


class TrackedStepper(FoundStepper, TrackedClipStepper):
    pass


class SequencePlan(ToyPlan):
    """Three batches in secret order."""

    def releases(self):
        return (ShuffledSequenceRelease(1.0, 6.0, 3, rows=(0, self.n)),)


class SequenceStepper(FoundStepper):
    vectors = ("weights",)

    def __init__(self, plan):
        object.__setattr__(plan, "search", None)
        super().__init__(plan)

    def move(self, total):
        self.weights = self.plan.problem.domain.project(self.weights - 0.1 * total)


TOYS = {
    "found": (FoundPlan, FoundStepper),
    "tracked": (TrackedPlan, TrackedStepper),
    "sequence": (SequencePlan, SequenceStepper),
    "frank_wolfe": (FrankWolfePlan, FrankWolfeStepper),
    "shuffled": (ShuffledPlan, ShuffledStepper),
}


@pytest.fixture(params=TOYS)
def toy(request):
    """A plan of a solver that is in the registry for the while."""
    kind, stepper = TOYS[request.param]
    problem = dp.Problem(
        loss=Logistic(), bounds=dp.Bounds(1.0, label="sign"), domain=dp.domains.L1Ball(2.0)
    )
    entry = dataclasses.replace(
        get("noisy_gd"), key="toy", stepper=stepper, plan_type=kind, plan=lambda task: kind
    )
    registry()["toy"] = entry
    try:
        yield kind(solver="toy", task=dp.Task(problem, 8, 2, ApproxDP(4.0, 1e-4)))
    finally:
        del registry()["toy"]


def neighbours(row):
    """Tables that differ from X8 in one row."""
    changed = ([-1.0, 0.0], [0.0, 0.0], [np.nan, 0.0], [1e30, -1e30])
    return {str(new): (np.vstack([X8[:row], [new], X8[row + 1 :]]), Y8) for new in changed}


def problems_of(plan):
    """What the contracts say of a plan that replaces a row."""
    found = []
    for row in (0, 6):
        others = neighbours(row)
        found += contract.check_replay(plan, (X8, Y8), others, row=row)
        found += [
            problem for data in others.values() for problem in contract.check_rows(plan, data)
        ]
    return found


def test_other_kinds_of_rounds_are_replayed_on_neighbours(toy):
    assert problems_of(toy) == []
    assert contract.check_ledger(toy, (X8, Y8)) == []


@pytest.mark.parametrize("bug", ["branch_on_rows", "start_from_data", "unclipped_row"])
def test_bugs_in_other_kinds_of_rounds_are_caught(toy, bug):
    with planting(bug, "toy"):
        assert problems_of(toy)


@pytest.mark.parametrize("after", [1, 2])
def test_other_kinds_of_rounds_are_resumed(toy, after):
    source, (whole, _), (first, _), (second, ledger) = (
        opened(toy),
        begun(toy),
        begun(toy),
        begun(toy),
    )
    rounds = len(whole.rounds)
    go(whole, source, rounds)
    go(first, source, after)
    second.resume(after, first.state())
    go(second, source, rounds - after)
    assert second.output().tobytes() == whole.output().tobytes()
    ledger.close()


@pytest.fixture
def found():
    """A plan that finds its clip."""
    problem = dp.Problem(loss=Logistic(), bounds=dp.Bounds(1.0, label="sign"))
    return FoundPlan(solver="noisy_gd", task=dp.Task(problem, 8, 2, ApproxDP(4.0, 1e-4)))


def test_a_clip_is_found_and_then_the_unit(found):
    """The first answer is a clip of the grid; later sums come in units of it."""
    engine, ledger = (
        Engine(found, FoundStepper(found), None),
        Ledger(found.releases(), found.budget),
    )
    engine._ledger = ledger
    assert isinstance(engine.query(), GradientNorms)
    source = opened(found)
    engine.step(source)
    clip = engine._stepper.clip
    assert clip in found.search.grid
    query = engine.query()
    assert isinstance(query, InUnits)
    assert (query.unit, query.bound) == (clip, 1.0)
    go(engine, source, 3)
    assert engine.finished
    ledger.close()


def test_what_is_enforced_speaks_of_the_found_clip(found):
    """A plan prints bounds of releases; 1 is no clip here."""
    *bounds, counts, clip = found.enforced
    assert tuple(bounds) == found.problem.bounds.enforced
    assert "public grid of the gradients' l2 norms" in counts
    assert "at most the clip that the run has found" in clip
    assert not any("gradient has l2 norm at most 1," in sentence for sentence in found.enforced)
    fields = {item.name: getattr(found, item.name) for item in dataclasses.fields(found)}
    tracked = TrackedPlan(**fields)
    assert "1.03078 times the clip that the run has found" in tracked.enforced[-1]


def test_a_round_that_finds_a_clip_takes_nothing_but_counts(found, monkeypatch):
    """A sum of 21 other numbers of size 1 would move scores further than two."""
    engine = Engine(found, FoundStepper(found), Ledger(found.releases(), found.budget))
    wide = InUnits(ClippedGradient(Logistic(), np.zeros(21), 1.0))
    monkeypatch.setattr(FoundStepper, "query", lambda stepper: wide)
    with pytest.raises(LedgerError, match="counts of GradientNorms"):
        engine.step(opened(found))


def test_an_indicator_that_is_not_centred_is_caught_by_replay(monkeypatch):
    """The planted bug, where a row is emptied: it moves by sqrt(1 + weight^2), not by the bound."""
    honest = TrackedGradient.sum

    def uncentred(query, block):
        total = honest(query, block)
        total[-1] += 0.5 * np.count_nonzero(block.present)
        return total

    problem = dp.Problem(loss=Logistic(), bounds=dp.Bounds(1.0, label="sign"))
    budget = ApproxDP(4.0, 1e-4, adjacency="zero_out")
    plan = TrackedPlan(solver="toy", task=dp.Task(problem, 8, 2, budget))
    plan_type = dataclasses.replace(get("noisy_gd"), key="toy", stepper=TrackedStepper)
    monkeypatch.setitem(registry(), "toy", plan_type)
    monkeypatch.setattr(FoundPlan, "search", ClipQuantileRelease(8.0, 6, 3, 0.25, 2, rows=(0, 8)))
    empty = np.vstack([[np.nan, 0.0], X8[1:]])  # a null row: its gradient is within every clip
    data, others = (empty, Y8), {"there": (X8 * 1.0, Y8)}
    assert contract.check_replay(plan, data, others, row=0) == []
    monkeypatch.setattr(TrackedGradient, "sum", uncentred)
    assert contract.check_replay(plan, data, others, row=0)


def test_sequences_take_each_row_once_in_secret_order():
    problem = dp.Problem(loss=Logistic(), bounds=dp.Bounds(1.0, label="sign"))
    plan = SequencePlan(solver="noisy_gd", task=dp.Task(problem, 8, 2, ApproxDP(4.0, 1e-4)))
    orders = set()
    for seed in range(4):
        engine, ledger = begun_with(plan, SequenceStepper(plan), seed)
        source, places = opened(plan), []
        take = source.take
        source.take = lambda indices, take=take, places=places: (
            places.extend(indices),
            take(indices),
        )[1]
        assert [round.rows for round in engine.rounds] == [(0, 3), (3, 6), (6, 8)]
        go(engine, source, 3)
        ledger.close()
        assert sorted(places) == list(range(8))
        orders.add(tuple(places))
    assert len(orders) == 4
    assert not Schedule(plan.releases()).single_epoch
    assert not Schedule([ShuffledSequenceRelease(1.0, 6.0, 1, rows=(0, 8))]).single_epoch


def begun_with(plan, stepper, seed):
    """An engine of that stepper, and its ledger."""
    ledger = Ledger(plan.releases(), plan.budget, randomness=Randomness.seeded(seed))
    return Engine(plan, stepper, ledger), ledger


def test_several_prefix_sums_in_one_run_are_resumed():
    """Two streams on two halves of the rows; each has secrets of its own."""
    plan = make("dp_ftrl", rounds=4)

    class Halves(type(plan)):
        def releases(self):
            return tuple(
                PrefixSumRelease(self.clip, 9.0, mechanism("tree", rounds=2), rows=rows)
                for rows in ((0, 4), (4, 8))
            )

    fields = {item.name: getattr(plan, item.name) for item in dataclasses.fields(plan)}
    halves, source = Halves(**fields), opened(plan)
    whole = begun(halves)[0]
    go(whole, source, 4)
    for after in (1, 2, 3):
        first, (second, ledger) = begun(halves)[0], begun(halves)
        kept = secrets_of(first, source, after)
        second.resume(after, first.state(), kept)
        go(second, source, 4 - after)
        assert second.output().tobytes() == whole.output().tobytes()
        ledger.close()
