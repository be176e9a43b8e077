"""Runs of one noisy sum a batch: order, rows, noise, states, and what is refused."""

import copy
import dataclasses
import json
import pickle
import re

import numpy as np
import pytest

import dpsco as dp
from dpsco.errors import LedgerError, ParameterError
from dpsco.losses import Logistic
from dpsco.privacy import Ledger, Randomness, lattice
from dpsco.privacy.budget import GDP, ApproxDP
from dpsco.privacy.mechanisms.prefix_sum.mechanism import NEEDS, mechanism
from dpsco.solvers import get, registry
from dpsco.solvers.engine import (
    NOISE_BYTES,
    BatchPlan,
    Engine,
    advance,
    check_rounds,
    chosen_mechanism,
)

KEYS = tuple(key for key, entry in registry().items() if entry.stepper is not None)
STREAMS = ("acc_srgd", "srg_sgd", "srg_online_to_batch", "dp_ftrl")
X8 = np.array([[0.6, 0.8], [-1, 0], [0, 1], [0.8, -0.6], [0.6, -0.8], [0, -1], [1, 0], [-0.6, 0.8]])
Y8 = np.array([1.0, -1, 1, 1, -1, -1, 1, 1])


def make(key, n=8, d=2, radius=5.0, budget=None, **options):
    problem = dp.Problem(
        loss=Logistic(), bounds=dp.Bounds(1.0, label="sign"), domain=dp.domains.L2Ball(radius)
    )
    budget = ApproxDP(2.0, 1e-6) if budget is None else budget
    return dp.plan(problem, n=n, d=d, budget=budget, solver=key, options=options)


def opened(plan, X=X8, y=Y8):
    return dp.data.from_arrays(X, y).bounded(plan.problem.bounds, order="given")


def begun(plan, seed=3):
    """A run at its beginning, and its ledger."""
    ledger = Ledger(plan.releases(), plan.budget, randomness=Randomness.seeded(seed))
    return Engine(plan, get(plan.solver).stepper(plan), ledger), ledger


def go(run, source, rounds):
    for _ in range(rounds):
        run.commit(source.sum(run.query(), *run.rows))


def test_the_solvers_that_this_is_about():
    assert {*STREAMS, "acc_independent", "dp_sgd_single_epoch"} <= set(KEYS)
    for key in KEYS:
        assert isinstance(make(key), BatchPlan)
        assert (make(key).mechanism is not None) == (key in STREAMS)


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
    assert run.weights() == pytest.approx(expected, abs=1e-5)
    ledger.close()
    random = Randomness.seeded(3)
    again = dp.run(plan, (X8, Y8), order="given", randomness=random).weights
    assert again.tobytes() == run.weights().tobytes()


@pytest.mark.parametrize("key", KEYS)
def test_who_sums_does_not_matter(key):
    """Sums of parts of a batch, added up elsewhere, give the same run up to rounding."""
    plan = make(key, rounds=2)
    (one, _), (two, _), source = begun(plan), begun(plan), opened(plan)
    go(one, source, 2)
    while not two.finished:
        start, stop = two.rows
        query = two.query()
        two.commit(sum(source.sum(query, row, row + 1) for row in range(start, stop)))
    assert two.weights() == pytest.approx(one.weights(), abs=1e-9)


@pytest.mark.parametrize("key", KEYS)
def test_the_divisor_is_the_planned_size(key):
    """Rows that are missing add zero; the mean is over the rows that were planned.

    A batch of one row three times, and once with two null rows, differ by a factor three.
    """
    budget, means = GDP(1e12), []
    for missing in (False, True):
        plan = make(key, n=3, rounds=1, budget=budget)
        X = np.tile([[0.6, 0.8]], (3, 1))
        X[1:] = np.nan if missing else X[1:]
        stepper = get(key).stepper(plan)
        seen = []
        stepper.take = seen.append
        run = Engine(plan, stepper, begun_ledger(plan))
        run.commit(opened(plan, X, np.ones(3)).sum(run.query(), 0, 3))
        means.append(seen[0])
    assert means[0] == pytest.approx(3 * means[1], abs=1e-5)
    assert means[1] == pytest.approx(np.array([0.6, 0.8]) / -2 / 3, abs=1e-5)


@pytest.mark.parametrize("key", KEYS)
def test_every_batch_is_divided_by_its_own_size(key):
    plan, means = make(key, n=5, rounds=2, budget=GDP(1e12)), []  # batches of 3 and 2 rows
    stepper = get(key).stepper(plan)
    take = stepper.take
    stepper.take = lambda mean: (means.append(mean), take(mean))
    run = Engine(plan, stepper, begun_ledger(plan))
    for _ in range(2):
        run.commit(np.array([6.0, 12.0]))
    assert np.allclose(means, [[2.0, 4.0], [3.0, 6.0]], atol=1e-6)


def begun_ledger(plan):
    return Ledger(plan.releases(), plan.budget, randomness=Randomness.seeded(0))


@pytest.mark.parametrize("key", KEYS)
def test_batches_cover_every_row_once(key):
    for n, rounds in ((10, 3), (10, 10), (1000, 7), (5, 1)):
        batches = make(key, n=n, rounds=rounds).batches()
        assert np.array_equal(np.concatenate([np.arange(*rows) for rows in batches]), np.arange(n))
        sizes = [stop - start for start, stop in batches]
        assert sizes == sorted(sizes, reverse=True)
        assert sizes[0] - sizes[-1] <= 1


def test_rounds_are_reported_after_they_are_committed():
    plan, said = make("acc_srgd", rounds=4), []
    run, ledger = begun(plan)
    advance(
        run,
        opened(plan),
        lambda done, total: said.append(("told", done, total)),
        committed=lambda run: said.append(("kept", run.round)),
    )
    assert said == [x for t in range(1, 5) for x in (("kept", t), ("told", t, 4))]
    ledger.close()


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize("key", KEYS)
def test_rounds_beyond_the_last_and_answers_before_it(key):
    plan = make(key, rounds=4)
    run, ledger = begun(plan)
    go(run, opened(plan), 3)
    with pytest.raises(LedgerError, match="round 3 of 4"):
        run.weights()
    go(run, opened(plan), 1)
    assert run.finished
    for refused in (run.query, lambda: run.rows, lambda: run.commit(np.zeros(2))):
        with pytest.raises(LedgerError, match="all 4 rounds of this run are over"):
            refused()
    ledger.close()


@pytest.mark.parametrize("key", KEYS)
def test_unfinished_runs_have_no_certificate(key):
    plan = make(key, rounds=4)
    run, ledger = begun(plan)
    go(run, opened(plan), 3)
    with pytest.raises(LedgerError, match="not executed"):
        ledger.close()


@pytest.mark.parametrize("key", KEYS)
def test_two_runs_cannot_share_a_ledger(key):
    """A second participation of the rows: the same batches once more."""
    plan = make(key, rounds=4)
    run, ledger = begun(plan)
    go(run, opened(plan), 4)
    with pytest.raises(LedgerError, match="already executed"):
        go(Engine(plan, get(key).stepper(plan), ledger), opened(plan), 1)


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
    plan = make(key, rounds=4)
    whole, first = begun(plan)[0], begun(plan)[0]
    source = opened(plan)
    go(whole, source, 4)
    first_secrets = secrets_of(first, source, after)
    kept = json.loads(json.dumps({name: list(v) for name, v in first.state().items()}))
    second, ledger = begun(plan)
    second.resume(after, kept, first_secrets)
    assert second.round == after
    go(second, source, 4 - after)
    assert second.weights().tobytes() == whole.weights().tobytes()
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
    assert second.weights().tobytes() == whole.weights().tobytes()
    ledger.close()


@pytest.mark.parametrize("key", KEYS)
def test_resumed_runs_cannot_repeat_a_round(key):
    plan = make(key, rounds=4)
    source, (first, _), (second, ledger) = opened(plan), begun(plan), begun(plan)
    kept = secrets_of(first, source, 2)
    second.resume(2, first.state(), kept)
    with pytest.raises(LedgerError, match="round 2 cannot go on at round 1"):
        second.resume(1, first.state())
    assert second.rows == plan.batches()[2]
    go(second, source, 2)
    with pytest.raises(LedgerError, match="over"):
        go(second, source, 1)
    ledger.close()


def test_correlated_noise_goes_on_from_all_it_knew_or_not_at_all():
    plan = make("acc_srgd", rounds=4)
    source, (first, _), (second, _) = opened(plan), begun(plan), begun(plan)
    found = secrets_of(first, source, 2)
    del found["exact 1"]
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
    plan = make(key, rounds=4)
    run, other = begun(plan)[0], begun(make(key, d=3, rounds=4))[0]
    with pytest.raises(ParameterError, match="of shape"):
        run.resume(1, other.state())
    for name in run.state():
        partial = {other: vector for other, vector in run.state().items() if other != name}
        with pytest.raises(ParameterError, match="of shape"):
            run.resume(1, partial)


@pytest.mark.parametrize("key", KEYS)
def test_sums_of_another_length_are_refused_and_draw_nothing(key):
    plan = make(key, rounds=4)
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
    plan = make(key, rounds=4)
    one, two = get(key).stepper(plan), get(key).stepper(plan)
    rng = np.random.default_rng(0)
    for answer in rng.standard_normal((4, 2)):
        one.take(answer)
        two.take(answer)
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
