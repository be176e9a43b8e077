"""The ledger: executed equals planned, noise at the declared scale, nothing depends on the rows.

Statistical tests have fixed seeds and a false-alarm rate of FALSE_ALARM each, and reject a scale
that is wrong by 10%.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
import math
import os
import pickle
import sys
import threading
import time
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from scipy import stats

from dpsco.errors import BudgetError, DpscoError, LedgerError, ParameterError, RandomnessError
from dpsco.privacy.accounting.composition import Cost, cost
from dpsco.privacy.budget import GDP, ApproxDP, PureDP
from dpsco.privacy.certificate import Certificate
from dpsco.privacy.lattice import lattice_step
from dpsco.privacy.ledger import Ledger
from dpsco.privacy.mechanisms import (
    FixedSizeGaussianRelease,
    GaussianRelease,
    GeneralizedGaussianRelease,
    PoissonGaussianRelease,
    PrefixSumRelease,
    SelectionRelease,
    ShuffledRelease,
    StableGammaRelease,
    StableGaussianRelease,
    WithReplacementRelease,
    gaussian,
    gaussian_sigma,
    prefix_sum_sigma,
)
from dpsco.privacy.mechanisms.prefix_sum import release as prefix_sum
from dpsco.privacy.mechanisms.prefix_sum.mechanism import MECHANISMS, mechanism
from dpsco.privacy.randomness import Randomness
from dpsco.privacy.release import Composition
from dpsco.privacy.rounded_normals import rounded_normals

from .conftest import described as example

FALSE_ALARM = 1e-6
WRONG_SCALES = (0.9, 1.1)
ROWS = (100, 112)
PLENTY = ApproxDP(1e9, 1e-6, adjacency="zero_out")
NAN, INF, HUGE = math.nan, math.inf, 1.7e308

RELEASES = {
    release.kind: release
    for release in (
        GaussianRelease(1.0, 8.0, rows=ROWS),
        GeneralizedGaussianRelease(1.0, 8.0, 4.0, rows=ROWS),
        SelectionRelease(1.0, 8.0, 6, rows=ROWS),
        PrefixSumRelease(1.0, 8.0, mechanism("tree", rounds=4), rows=ROWS),
        PoissonGaussianRelease(1.0, 8.0, 0.5, rows=ROWS),
        FixedSizeGaussianRelease(1.0, 8.0, 6, rows=ROWS),
        ShuffledRelease(1.0, 8.0, rows=ROWS),
    )
}
EVERY_KIND = pytest.mark.parametrize("kind", RELEASES)


@cache
def known_cost(planned, adjacency, unit):
    return cost(planned, adjacency=adjacency, unit=unit)


known_epsilon = cache(Cost.epsilon)


@pytest.fixture(autouse=True)
def _costs_are_computed_once(monkeypatch):
    """Hundreds of ledgers are opened here on few plans; accounting is tested elsewhere."""
    monkeypatch.setattr("dpsco.privacy.certificate.CURVE_DELTAS", (1e-6,))
    monkeypatch.setattr("dpsco.privacy.ledger.cost", lambda *a, **k: known_cost(*a, **k))
    monkeypatch.setattr(Cost, "epsilon", known_epsilon)


class Recording(Randomness):
    """A randomness that tells which streams were asked for."""

    def __init__(self, seed=None):
        self.purposes = []
        super().__init__(seed)

    def child(self, purpose):
        self.purposes.append(purpose)
        return super().child(purpose)


def opened(*releases, budget=PLENTY, seed=1, **options):
    return Ledger(releases, budget, randomness=Recording.seeded(seed), **options)


def drawn(ledger):
    return len(ledger._randomness.purposes)


def arguments(release):
    """What the ledger's method is told: all fields but the count and, of a selection, its size."""
    names = [field.name for field in dataclasses.fields(release)]
    return {name: getattr(release, name) for name in names if name not in ("count", "candidates")}


def zeros(release):
    """An all-zero total of the shape that suits the release."""
    if isinstance(release, SelectionRelease):
        return np.zeros(release.candidates)
    if isinstance(release, ShuffledRelease):
        return np.zeros((release.row_count, 3))
    return np.zeros(6)


def batches(release):
    """Equal batches of the rows, one a round."""
    edges = np.linspace(*release.rows, release.mechanism.rounds + 1).astype(int)
    return list(itertools.pairwise(edges.tolist()))


def execute(ledger, release, total=None):
    """Execute one release, whatever its kind, and return all that left."""
    total = zeros(release) if total is None else total
    if isinstance(release, PrefixSumRelease):
        sums = ledger.prefix_sum(len(total), **arguments(release))
        return np.array([sums.add(total, rows=rows) for rows in batches(release)])
    if isinstance(release, (PoissonGaussianRelease, FixedSizeGaussianRelease)):
        name = "poisson" if isinstance(release, PoissonGaussianRelease) else "fixed_size"
        return getattr(ledger, name)(**arguments(release)).release(total)
    name = "argmin" if isinstance(release, SelectionRelease) else release.kind
    return getattr(ledger, name)(total, **arguments(release))


def assert_broken(ledger, release):
    """Nothing leaves, now or ever."""
    before = drawn(ledger)
    for _ in range(2):
        with pytest.raises(LedgerError, match="broken"):
            execute(ledger, release)
        with pytest.raises(LedgerError, match="broken"):
            ledger.close()
    assert drawn(ledger) == before


# --- Executed equals planned -------------------------------------------------------------


@EVERY_KIND
def test_an_executed_plan_closes_once(kind):
    release = RELEASES[kind]
    ledger = opened(release)
    assert np.isfinite(execute(ledger, release)).all()
    assert ledger._randomness.purposes == [kind]
    certificate = ledger.close()
    assert isinstance(certificate, Certificate)
    assert certificate.releases == (release,)
    assert certificate.epsilon(1e-6) == ledger.cost.epsilon(1e-6)
    for late in (ledger.close, lambda: execute(ledger, release)):
        with pytest.raises(LedgerError, match="closed"):
            late()
    assert drawn(ledger) == 1


@EVERY_KIND
def test_a_missing_release_returns_nothing(kind):
    release = RELEASES[kind]
    ledger = opened(release)
    with pytest.raises(LedgerError, match="not executed"):
        ledger.close()
    assert_broken(ledger, release)


@EVERY_KIND
def test_an_extra_release_returns_nothing(kind):
    release = RELEASES[kind]
    ledger = opened(release)
    execute(ledger, release)
    with pytest.raises(LedgerError, match="as often as planned"):
        execute(ledger, release)
    assert drawn(ledger) == 1
    assert_broken(ledger, release)


OTHER = {
    "bound": 1.5,
    "sigma": 8.000000000000002,  # the next float
    "scale": 8.000000000000002,
    "step": 2.0**-7,
    "norm": 5.0,
    "candidates": 7,
    "noise": "laplace",
    "mechanism": mechanism("tree", rounds=3),
    "rate": 0.25,
    "pair": "conjectured",
    "size": 5,
    "diameter": 1.5,
}
DIFFERENCES = [
    (kind, field.name, other)
    for kind, release in RELEASES.items()
    for field in dataclasses.fields(release)
    if field.name != "count"
    for other in ([(99, 111), (100, 113), (101, 112)] if field.name == "rows" else [None])
]


@pytest.mark.parametrize(("kind", "name", "value"), DIFFERENCES)
def test_a_release_that_differs_in_one_field_is_refused(kind, name, value):
    planned = RELEASES[kind]
    other = dataclasses.replace(planned, **{name: value or OTHER[name]})
    assert other != planned
    ledger = opened(planned)
    with pytest.raises(LedgerError, match="not planned"):
        execute(ledger, other)
    assert drawn(ledger) == 0
    assert_broken(ledger, planned)


def test_a_release_of_another_kind_with_the_same_numbers_is_refused():
    kinds = [GaussianRelease(1.0, 8.0, rows=ROWS), ShuffledRelease(1.0, 8.0, rows=ROWS)]
    for planned, other in itertools.permutations(kinds):
        ledger = opened(planned)
        with pytest.raises(LedgerError, match="not planned"):
            execute(ledger, other)
        assert_broken(ledger, planned)


@EVERY_KIND
def test_the_count_must_be_met_exactly(kind):
    release = RELEASES[kind]
    plan = dataclasses.replace(release, count=3)
    few, right, many = opened(plan), opened(plan), opened(plan)
    for _ in range(2):
        execute(few, release)
    with pytest.raises(LedgerError, match="1 x"):
        few.close()
    assert_broken(few, release)
    for _ in range(3):
        execute(right, release)
        execute(many, release)
    assert right.close().releases == (plan,)
    with pytest.raises(LedgerError, match="as often as planned"):
        execute(many, release)
    assert_broken(many, release)


def test_releases_may_come_in_any_order_and_interleaved():
    first, second = GaussianRelease(1.0, 8.0, rows=ROWS), SelectionRelease(1.0, 8.0, 6, rows=ROWS)
    plan = Composition((first, second), count=2)
    for order in set(itertools.permutations([first, first, second, second])):
        ledger = opened(plan)
        for release in order:
            execute(ledger, release)
        assert {(r.once(), r.count) for r in ledger.close().releases} == {(first, 2), (second, 2)}


def test_prefix_sums_interleave_with_other_releases():
    stream, other = RELEASES["prefix_sum"], RELEASES["gaussian"]
    ledger = opened(stream, dataclasses.replace(other, count=4))
    sums = ledger.prefix_sum(2, **arguments(stream))
    for rows in batches(stream):
        sums.add([1.0, 2.0], rows=rows)
        execute(ledger, other)
    assert len(ledger.close().releases) == 2


def test_an_empty_plan_releases_nothing_and_costs_nothing():
    ledger = opened()
    with pytest.raises(LedgerError, match="not planned"):
        execute(ledger, RELEASES["gaussian"])
    assert opened().close().epsilon(1e-6) == 0.0


# --- Failures in the middle --------------------------------------------------------------


@EVERY_KIND
@pytest.mark.parametrize("failure", [RuntimeError, KeyboardInterrupt])
def test_a_failure_while_drawing_breaks_the_ledger(kind, failure, monkeypatch):
    """What was claimed from the plan and then failed must not pass for executed."""
    release = RELEASES[kind]
    ledger = opened(release)

    def fail(purpose):
        raise failure("in the middle")

    with monkeypatch.context() as patch:
        patch.setattr(ledger._randomness, "child", fail)
        with pytest.raises(failure):
            execute(ledger, release)
    assert_broken(ledger, release)


def test_a_failure_in_a_later_step_breaks_the_ledger(monkeypatch):
    sampled, stream = RELEASES["poisson_gaussian"], RELEASES["prefix_sum"]

    def fail(*_):
        raise RuntimeError("in the middle")

    ledger = opened(sampled)
    sample = ledger.poisson(**arguments(sampled))
    with monkeypatch.context() as patch:
        patch.setattr(gaussian, "with_gaussian", fail)
        with pytest.raises(RuntimeError, match="middle"):
            sample.release(0.0)
    with pytest.raises(LedgerError, match="broken"):
        sample.release(0.0)
    assert_broken(ledger, sampled)

    ledger = opened(stream)
    sums = ledger.prefix_sum(2, **arguments(stream))
    monkeypatch.setattr(sums._decoder, "next", fail)
    with pytest.raises(RuntimeError, match="middle"):
        sums.add([0.0, 0.0], rows=(100, 101))
    monkeypatch.undo()
    with pytest.raises(LedgerError, match="broken"):
        sums.add([0.0, 0.0], rows=(100, 101))
    assert_broken(ledger, stream)


def test_open_samples_and_streams_die_with_the_ledger():
    sampled, stream = RELEASES["poisson_gaussian"], RELEASES["prefix_sum"]
    ledger = opened(sampled, stream)
    sample = ledger.poisson(**arguments(sampled))
    sums = ledger.prefix_sum(2, **arguments(stream))
    with pytest.raises(LedgerError, match="not planned"):
        execute(ledger, RELEASES["gaussian"])
    with pytest.raises(LedgerError, match="broken"):
        sample.release(0.0)
    with pytest.raises(LedgerError, match="broken"):
        sums.add([0.0, 0.0], rows=(100, 101))


@EVERY_KIND
def test_arguments_out_of_range_are_refused_without_harm(kind):
    """They are public, so the run may go on; but nothing was drawn and nothing left."""
    release = RELEASES[kind]
    ledger = opened(release)
    for name in ("bound", "sigma", "scale", "rows"):
        if name in arguments(release):
            wrong = {**arguments(release), name: (5, 5) if name == "rows" else -1.0}
            with pytest.raises(ParameterError):
                execute_with(ledger, release, wrong)
    assert drawn(ledger) == 0
    execute(ledger, release)
    ledger.close()


def execute_with(ledger, release, given):
    """Call the method of the release's kind with these arguments."""
    names = {
        SelectionRelease: "argmin",
        PoissonGaussianRelease: "poisson",
        FixedSizeGaussianRelease: "fixed_size",
        PrefixSumRelease: "prefix_sum",
    }
    method = getattr(ledger, names.get(type(release), release.kind))
    if isinstance(release, (PoissonGaussianRelease, FixedSizeGaussianRelease)):
        return method(**given)
    total = zeros(release)
    return method(len(total) if isinstance(release, PrefixSumRelease) else total, **given)


# --- Prefix sums and samples -------------------------------------------------------------


def test_an_unfinished_prefix_sum_returns_nothing():
    release = RELEASES["prefix_sum"]
    for rounds in range(release.mechanism.rounds):
        ledger = opened(release)
        sums = ledger.prefix_sum(2, **arguments(release))
        for rows in batches(release)[:rounds]:
            sums.add([0.0, 0.0], rows=rows)
        assert not sums.finished
        with pytest.raises(LedgerError, match=f"round {rounds} of 4"):
            ledger.close()
        with pytest.raises(LedgerError, match="broken"):
            sums.add([0.0, 0.0], rows=batches(release)[rounds])
        assert_broken(ledger, release)


@pytest.mark.parametrize(
    "second",
    [
        (100, 103),  # the same rows again
        (102, 106),  # the last row again
        (99, 100),  # before the first
        (98, 110),
        (110, 113),  # past the end
        (112, 115),
        (0, 12),  # counted from the batch's own start
    ],
)
def test_a_batch_that_overlaps_or_leaves_the_rows_is_refused(second):
    release = RELEASES["prefix_sum"]
    ledger = opened(release)
    sums = ledger.prefix_sum(2, **arguments(release))
    sums.add([0.0, 0.0], rows=(100, 103))
    with pytest.raises(LedgerError, match="does not fit"):
        sums.add([0.0, 0.0], rows=second)
    assert_broken(ledger, release)


def test_too_many_rounds_are_refused():
    release = RELEASES["prefix_sum"]
    ledger = opened(release)
    sums = ledger.prefix_sum(2, **arguments(release))
    for row in range(100, 104):
        sums.add([0.0, 0.0], rows=(row, row + 1))
    assert sums.finished
    with pytest.raises(LedgerError, match="does not fit"):
        sums.add([0.0, 0.0], rows=(104, 105))
    assert_broken(ledger, release)


def test_batches_may_leave_rows_out():
    release = RELEASES["prefix_sum"]
    ledger = opened(release)
    sums = ledger.prefix_sum(1, **arguments(release))
    for row in (101, 103, 107, 111):
        sums.add([0.0], rows=(row, row + 1))
    assert ledger.close().releases == (release,)


@pytest.mark.parametrize("total", [0.0, [0.0], [0.0, 0.0, 0.0], [[0.0, 0.0]]])
def test_a_batch_sum_of_another_shape_is_refused_before_noise(total):
    release = RELEASES["prefix_sum"]
    ledger = opened(release)
    sums = ledger.prefix_sum(2, **arguments(release))
    with pytest.raises(ParameterError, match="shape"):
        sums.add(total, rows=(100, 103))
    assert sums._decoder.position == 0


def test_prefix_sums_add_up():
    """The released prefixes are exact prefixes plus sigma times the mechanism's noise."""
    release = RELEASES["prefix_sum"]
    ledger = opened(release, seed=5)
    sums = ledger.prefix_sum(3, **arguments(release))
    totals = np.random.default_rng(0).normal(size=(4, 3))
    noisy = [sums.add(a, rows=rows) for a, rows in zip(totals, batches(release), strict=True)]
    stream = Randomness.seeded(5).child("prefix_sum")
    step = lattice_step(release.mechanism.column_norm, 4 * 3)
    noise = release.mechanism.start(lambda: rounded_normals(stream.words, 3, 8.0 / step) * step)
    expected = np.cumsum([a + noise.next() for a in totals], axis=0)
    assert np.array(noisy) == pytest.approx(expected, abs=8 * step)
    noisy[0][:] = 0.0  # what the caller does with an answer changes nothing inside
    assert sums._prefix == pytest.approx(expected[-1])


@pytest.mark.parametrize("kind", ["poisson_gaussian", "fixed_size_gaussian"])
def test_a_sampled_sum_is_released_once(kind):
    release = RELEASES[kind]
    draw = "poisson" if kind == "poisson_gaussian" else "fixed_size"
    never, twice = opened(release), opened(release)
    getattr(never, draw)(**arguments(release))
    with pytest.raises(LedgerError, match="sampled sum"):
        never.close()
    assert_broken(never, release)
    sample = getattr(twice, draw)(**arguments(release))
    indices = sample.indices
    sample.release(np.zeros(2))
    assert sample.indices.size == 0  # nothing keeps who was in it, not even as a view
    assert sample.indices.base is not indices
    with pytest.raises(LedgerError, match="twice"):
        sample.release(np.zeros(2))
    assert_broken(twice, release)


# --- Before anything is drawn ------------------------------------------------------------


class BudgetSpender:
    """An odometer that writes down what happens, and refuses on demand."""

    def __init__(self, randomness, refusal=None):
        self.randomness, self.refusal, self.calls = randomness, refusal, []

    def spend(self, releases, *, label):
        self.calls.append((tuple(releases), label, len(self.randomness.purposes)))
        if self.refusal:
            raise self.refusal


@pytest.mark.parametrize(
    ("release", "budget"),
    [
        (GaussianRelease(1.0, 8.0, rows=ROWS), ApproxDP(0.5, 1e-6)),
        (GaussianRelease(1.0, 8.0, rows=ROWS), GDP(0.2499)),
        (GaussianRelease(1.0, 8.0, rows=ROWS), PureDP(1e9)),
        (GaussianRelease(1.0, 8.0, rows=ROWS, count=5), GDP(0.5)),
        (SelectionRelease(1.0, 8.0, 6, rows=ROWS), PureDP(0.2499)),
    ],
)
def test_a_plan_over_budget_is_refused_with_nothing_drawn(release, budget):
    randomness = Recording.seeded(1)
    purse = BudgetSpender(randomness)
    with pytest.raises(BudgetError, match="budget"):
        Ledger(release, budget, randomness=randomness, odometer=purse)
    assert randomness.purposes == []
    assert purse.calls == []


def test_a_plan_of_exactly_the_budget_is_accepted():
    for budget in (ApproxDP(1.0, 1e-6), GDP(0.3)):
        sigma = gaussian_sigma(budget, bound=1.0, rows=ROWS, count=7)
        plan = GaussianRelease(1.0, sigma, rows=ROWS, count=7)
        assert opened(plan, budget=budget).planned == (plan,)
        with pytest.raises(BudgetError):
            opened(dataclasses.replace(plan, sigma=sigma * (1 - 1e-9)), budget=budget)


def test_the_odometer_pays_before_anything_is_drawn():
    randomness = Recording.seeded(1)
    purse = BudgetSpender(randomness)
    release = GaussianRelease(1.0, 8.0, rows=ROWS)
    ledger = Ledger(release, PLENTY, randomness=randomness, odometer=purse, label="fit 3")
    assert purse.calls == [((release,), "fit 3", 0)]
    execute(ledger, release)
    ledger.close()
    assert len(purse.calls) == 1


def test_a_refusing_odometer_leaves_nothing_drawn():
    randomness = Recording.seeded(1)
    purse = BudgetSpender(randomness, BudgetError("the dataset's budget is spent"))
    with pytest.raises(BudgetError, match="is spent"):
        Ledger(RELEASES["gaussian"], PLENTY, randomness=randomness, odometer=purse)
    assert len(purse.calls) == 1
    assert randomness.purposes == []


def test_a_used_up_noise_state_is_refused_before_anybody_pays():
    randomness = Randomness.seeded(1)
    randomness.stored()  # for a run that may be interrupted: its noise is that run's alone
    purse = BudgetSpender(randomness)
    with pytest.raises(RandomnessError, match="stored for a run"):
        Ledger(RELEASES["gaussian"], PLENTY, randomness=randomness, odometer=purse)
    assert purse.calls == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_noise_state_of_before_a_fork_is_refused_before_anybody_pays():
    randomness = Randomness.seeded(1)
    purse = BudgetSpender(randomness)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            Ledger(RELEASES["gaussian"], PLENTY, randomness=randomness, odometer=purse)
        except RandomnessError:
            code = 7 if purse.calls == [] else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_a_certificate_that_cannot_be_written_is_refused_at_opening(monkeypatch):
    """Rather than at the close, when the rows have been used and the odometer has paid."""
    randomness = Recording.seeded(1)
    purse = BudgetSpender(randomness)

    def fail(*_, **__):
        raise ParameterError("no claim")

    monkeypatch.setattr(Certificate, "of", fail)
    with pytest.raises(ParameterError, match="no claim"):
        Ledger(RELEASES["gaussian"], PLENTY, randomness=randomness, odometer=purse)
    assert purse.calls == []


@pytest.mark.parametrize("randomness", [0, 7, "seed", np.random.default_rng(1)])
def test_only_the_library_s_randomness_is_accepted(randomness):
    with pytest.raises(ParameterError, match="Randomness"):
        Ledger(RELEASES["gaussian"], PLENTY, randomness=randomness)


# --- Noise is never shared ---------------------------------------------------------------


def noise_of(ledger, release):
    return np.asarray(execute(ledger, release), dtype=float).ravel()


FLOATING = [kind for kind in RELEASES if kind != "selection"]


@pytest.mark.parametrize("kind", FLOATING)
def test_two_releases_two_ledgers_two_seeds_never_share_noise(kind):
    release = RELEASES[kind]
    plan = dataclasses.replace(release, count=2)
    first = opened(plan, seed=1)
    a, b = noise_of(first, release), noise_of(first, release)
    c = noise_of(opened(plan, seed=2), release)
    d, e = (noise_of(Ledger(plan, PLENTY), release) for _ in range(2))
    again = opened(plan, seed=1)
    assert np.array_equal(noise_of(again, release), a)  # a seeded ledger is reproducible
    assert np.array_equal(noise_of(again, release), b)
    for one, two in itertools.combinations([a, b, c, d, e], 2):
        assert not np.isin(one[one != 0], two).mean() > 0.2  # grid noise may repeat by chance
        assert not np.array_equal(one, two)


def test_two_ledgers_on_one_randomness_never_share_noise():
    randomness = Recording.seeded(1)
    release = RELEASES["gaussian"]
    ledgers = [Ledger(release, PLENTY, randomness=randomness) for _ in range(2)]
    a, b = (noise_of(ledger, release) for ledger in ledgers)
    assert not np.isin(a, b).any()


def test_threads_never_share_noise_and_never_exceed_the_plan():
    release, threads, each = RELEASES["gaussian"], 8, 25
    ledger = opened(dataclasses.replace(release, count=threads * each))
    found, barrier = [], threading.Barrier(threads)

    def work():
        barrier.wait()
        found.extend(noise_of(ledger, release) for _ in range(each))

    run_threads(work, threads)
    noise = np.concatenate(found)
    assert noise.size == np.unique(noise).size == threads * each * 6
    with pytest.raises(LedgerError, match="as often as planned"):
        execute(ledger, release)


def run_threads(work, count):
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)


def test_one_release_at_a_time(monkeypatch):
    """Checks and their consequences are one step: no other thread comes between."""
    plain, sampled = RELEASES["gaussian"], RELEASES["poisson_gaussian"]
    stream = PrefixSumRelease(1.0, 8.0, mechanism("tree", rounds=4), rows=ROWS)
    ledger = opened(dataclasses.replace(plain, count=4), sampled, stream)
    sample, sums = ledger.poisson(**arguments(sampled)), ledger.prefix_sum(1, **arguments(stream))
    inside, most, next_noise = [], [], sums._decoder.next

    def slowly(draw):
        def wrapped(*given):
            inside.append(1)
            time.sleep(0.01)
            most.append(len(inside))
            inside.pop()
            return draw(*given)

        return wrapped

    for module in (gaussian, prefix_sum):
        monkeypatch.setattr(module, "with_gaussian", slowly(module.with_gaussian))
    monkeypatch.setattr(sums._decoder, "next", slowly(next_noise))
    steps = [lambda: execute(ledger, plain)] * 4 + [lambda: sample.release(0.0)]
    steps += [lambda: sums.add([0.0], rows=(100, 101))]
    run_threads(lambda: steps.pop()(), len(steps))
    assert len(most) == 7  # a prefix sum has its noise drawn and is decoded
    assert max(most) == 1


class Slow:
    """A total that takes its time to become an array."""

    def __array__(self, dtype=None, copy=None):
        time.sleep(0.02)
        return np.zeros(2, dtype=dtype)


def test_racing_threads_release_a_sample_once():
    release = RELEASES["poisson_gaussian"]
    ledger = opened(release)
    sample = ledger.poisson(**arguments(release))
    outcomes, barrier = [], threading.Barrier(4)

    def work():
        barrier.wait()
        try:
            outcomes.append(sample.release(Slow()))
        except LedgerError:
            outcomes.append(None)

    run_threads(work, 4)
    assert len(outcomes) == 4
    assert sum(outcome is not None for outcome in outcomes) == 1


def test_racing_threads_enter_a_row_once():
    release = PrefixSumRelease(1.0, 8.0, mechanism("tree", rounds=8), rows=(0, 8))
    for attempt in range(20):
        ledger = opened(release, seed=attempt)
        sums = ledger.prefix_sum(2, **arguments(release))
        outcomes, barrier = [], threading.Barrier(4)

        def work(sums=sums, outcomes=outcomes, barrier=barrier):
            barrier.wait()
            try:
                outcomes.append(sums.add([0.0, 0.0], rows=(0, 1)))
            except DpscoError:
                outcomes.append(None)

        run_threads(work, 4)
        assert sum(outcome is not None for outcome in outcomes) == 1
        assert sums._decoder.position == 1


def test_a_ledger_stays_in_its_process(monkeypatch):
    """A forked worker would have the whole plan to spend once more."""
    sampled, stream, plain = (
        RELEASES[kind] for kind in ("poisson_gaussian", "prefix_sum", "gaussian")
    )
    ledger = opened(sampled, stream, plain)
    sample = ledger.poisson(**arguments(sampled))
    sums = ledger.prefix_sum(1, **arguments(stream))
    before, here = drawn(ledger), os.getpid()
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: here + 1)
        for step in (
            lambda: execute(ledger, plain),
            lambda: sample.release(0.0),
            lambda: sums.add([0.0], rows=(100, 101)),
            ledger.close,
        ):
            with pytest.raises(LedgerError, match="process"):
                step()
    assert drawn(ledger) == before
    sample.release(0.0)  # the parent's own run goes on
    execute(ledger, plain)
    for rows in batches(stream):
        sums.add([0.0], rows=rows)
    ledger.close()


def test_nothing_can_be_copied():
    sampled, stream = RELEASES["poisson_gaussian"], RELEASES["prefix_sum"]
    ledger = opened(sampled, stream)
    sample = ledger.poisson(**arguments(sampled))
    sums = ledger.prefix_sum(1, **arguments(stream))
    for item in (ledger, sample, sums):
        for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(LedgerError, match="copied"):
                duplicate(item)


# --- Arguments, shapes, values -----------------------------------------------------------


@EVERY_KIND
def test_numpy_and_rational_arguments_equal_the_plan(kind):
    """And give the very same noise: what is drawn is what was planned, as a float64."""
    release = RELEASES[kind]
    expected = execute(opened(release), release)
    conversions = [
        (np.float64, np.int64),
        (np.float32, np.int32),  # all numbers here are exact in float32
        (Fraction, np.uint8),
        (lambda x: np.array(x), lambda x: np.array(x)),
    ]
    for real, integer in conversions:
        given = {}
        for name, value in arguments(release).items():
            if isinstance(value, float):
                given[name] = real(value)
            elif isinstance(value, int):
                given[name] = integer(value)
            elif isinstance(value, tuple):
                given[name] = [integer(row) for row in value]
            else:
                given[name] = value
        ledger = opened(release)
        answer = execute_with(ledger, release, given)
        if isinstance(release, PrefixSumRelease):
            answer = [answer.add(zeros(release), rows=rows) for rows in batches(release)]
        if isinstance(release, (PoissonGaussianRelease, FixedSizeGaussianRelease)):
            answer = answer.release(zeros(release))
        assert np.array_equal(answer, expected)
        assert np.asarray(answer).dtype == np.asarray(expected).dtype
        ledger.close()


@pytest.mark.parametrize("shape", [(), (1,), (5,), (2, 3), (2, 3, 4)])
def test_any_shape_comes_back_with_noise_on_every_entry(shape):
    floats = np.arange(math.prod(shape), dtype=float).reshape(shape)
    for kind in (
        "gaussian",
        "generalized_gaussian",
        "poisson_gaussian",
        "fixed_size_gaussian",
    ):
        total = floats
        before = total.copy()
        answer = execute(opened(RELEASES[kind]), RELEASES[kind], total)
        assert isinstance(answer, np.ndarray)
        assert answer.shape == shape
        assert answer.dtype == np.float64
        assert np.array_equal(total, before)  # not in place
        assert (answer != total).all()


def test_lists_and_integers_are_taken_as_numbers():
    release = RELEASES["gaussian"]
    noise = execute(opened(release), release, np.zeros((2, 2)))
    for total in ([[1, 2], [3, 4]], np.array([[1, 2], [3, 4]], dtype=np.int8)):
        answer = execute(opened(release), release, total)
        assert answer == pytest.approx(noise + np.array([[1.0, 2.0], [3.0, 4.0]]), rel=1e-12)


def test_scores_of_any_shape_are_one_list_of_candidates():
    release = RELEASES["selection"]
    scores = np.full((2, 3), 1e6)
    scores[1, 2] = -1e6
    assert execute(opened(release), release, scores) == 5
    with pytest.raises(LedgerError, match="not planned"):
        execute(opened(release), release, np.zeros(5))


@pytest.mark.parametrize("shape", [(12,), (11, 3), (13, 3), (12, 3, 1), ()])
def test_shuffled_reports_must_be_one_vector_a_row(shape):
    ledger = opened(RELEASES["shuffled"])
    with pytest.raises(ParameterError, match="one vector for each of 12 rows"):
        execute(ledger, RELEASES["shuffled"], np.zeros(shape))
    assert drawn(ledger) == 0


def test_shuffled_reports_come_in_a_secret_order():
    release = ShuffledRelease(1.0, 1e-3, rows=(0, 500))
    reports = np.arange(1000.0).reshape(500, 2)
    answer = execute(opened(release), release, reports)
    order = np.rint(answer[:, 0] / 2).astype(int)
    assert sorted(order) == list(range(500))
    assert np.abs(answer - reports[order]).max() < 0.01  # whole rows were moved
    assert abs(stats.spearmanr(order, np.arange(500)).statistic) < 0.25  # 5.6 deviations
    assert (order == np.arange(500)).sum() < 14  # Poisson(1)


def test_a_release_is_the_rounded_sum_plus_integers():
    release = GaussianRelease(1.0, 3.7, rows=ROWS)
    total = np.random.default_rng(3).normal(size=(40, 25)) * 2.0**20
    answer = execute(opened(release, seed=9), release, total)
    step = lattice_step(1.0, total.size)
    assert step * math.sqrt(total.size) <= 2.0**-20 < 2.1 * step * math.sqrt(total.size)
    words = Randomness.seeded(9).child("gaussian").words
    noise = rounded_normals(words, total.size, 3.7 / step).reshape(total.shape)
    expected = np.rint(total / step).astype(np.int64) + noise
    assert np.array_equal(answer / step, expected)
    assert 0.9 < noise.std() * step / 3.7 < 1.1


@pytest.mark.parametrize("total", ["text", [[1.0], [2.0, 3.0]], {"a": 1}, [1 + 2j], [10**400]])
def test_a_total_that_is_no_array_of_numbers_is_refused_without_harm(total):
    ledger = opened(RELEASES["gaussian"])
    with pytest.raises(ParameterError, match="array of numbers"):
        execute(ledger, RELEASES["gaussian"], total)
    assert drawn(ledger) == 0


CANARY = 918273
DIGITS = str(CANARY)


def canary(release):
    total = zeros(release)
    return np.full(total.shape, CANARY, dtype=total.dtype)


@EVERY_KIND
def test_no_error_shows_the_totals(kind):
    release = RELEASES[kind]
    total = canary(release)
    messages = []

    def collect(step):
        with pytest.raises(DpscoError) as caught:
            step()
        error = caught.value
        assert error.__cause__ is None
        assert error.__context__ is None or error.__suppress_context__
        messages.append(f"{error} {error!r} {error.args}")

    other = dataclasses.replace(release, rows=(100, 113))
    report = canary(other)
    collect(lambda: execute(opened(release), other, report))
    ledger = opened(release)
    execute(ledger, release, total)
    collect(lambda: execute(ledger, release, total))
    collect(lambda: execute(ledger, release, total))
    collect(ledger.close)
    for odd in (f"{CANARY} rows", [[CANARY], [CANARY, CANARY]], [CANARY + 1j], {"x": CANARY}):
        if kind != "prefix_sum":
            collect(lambda odd=odd: execute(opened(release), release, odd))
    if kind == "prefix_sum":
        collect(lambda: opened_sums(release).add(f"{CANARY} rows", rows=(100, 101)))
        collect(lambda: opened_sums(release).add(np.full(3, CANARY), rows=(100, 101)))
        collect(lambda: opened_sums(release).add(np.full(2, CANARY), rows=(90, 101)))
    if kind == "shuffled":
        collect(lambda: execute(opened(release), release, np.full((3, 3), CANARY)))
    assert len(messages) >= 5
    assert not [message for message in messages if DIGITS in message]


def opened_sums(release):
    return opened(release).prefix_sum(2, **arguments(release))


VALUES = [
    [NAN, NAN, NAN, NAN],
    [INF, -INF, INF, -INF],
    [HUGE, HUGE, HUGE, HUGE],
    [-HUGE, -HUGE, NAN, INF],
    [0.0, -0.0, 5e-324, 1.0],
]


@pytest.mark.thorough
@EVERY_KIND
@pytest.mark.parametrize("values", VALUES, ids=str)
def test_no_value_raises_warns_or_changes_what_comes_after(kind, values):
    """Warnings are errors here. Later noise is the same, so the same words were drawn."""
    release, after = RELEASES[kind], GaussianRelease(1.0, 1.0, rows=ROWS)
    if kind == "prefix_sum":
        totals = [np.array([value, value]) for value in values]
    else:
        totals = [np.resize(np.array(values), zeros(release).shape)]
    plan = [dataclasses.replace(release, count=1 if kind == "prefix_sum" else len(totals)), after]
    odd, plain = opened(*plan), opened(*plan)
    if kind == "prefix_sum":
        streams = [ledger.prefix_sum(2, **arguments(release)) for ledger in (odd, plain)]
        for total, rows in zip(totals, batches(release), strict=True):
            answer = streams[0].add(total, rows=rows)
            streams[1].add(np.zeros(2), rows=rows)
            assert answer.shape == (2,)
    else:
        for total in totals:
            answer = execute(odd, release, total)
            execute(plain, release, np.zeros_like(total))
            if kind == "selection":
                assert 0 <= answer < release.candidates
            else:
                assert answer.shape == total.shape
    assert np.array_equal(execute(odd, after), execute(plain, after))
    assert odd.close() == plain.close()


# --- Noise at the declared scale ---------------------------------------------------------


def squares_p(values, sigma):
    """Two-sided chi-square p-value of the sum of squares of N(0, sigma^2) numbers."""
    law = stats.chi2(values.size)
    total = float(((values / sigma) ** 2).sum())
    return 2.0 * min(law.cdf(total), law.sf(total))


NORMAL_SIZE = 20_000


def released_noise(kind, sigma, seed):
    """Noise on all-zero totals, as numbers whose squares sum to sigma^2 chi-square."""
    release = dataclasses.replace(RELEASES[kind], sigma=sigma)
    ledger = opened(release, seed=seed)
    if kind == "shuffled":
        return execute(ledger, release, np.zeros((12, NORMAL_SIZE // 12))).ravel()
    answer = execute(ledger, release, np.zeros(NORMAL_SIZE))
    if kind == "generalized_gaussian":  # |z|_4^2 is chi-square: spread it over the coordinates
        return np.full(NORMAL_SIZE, np.sum(answer**4) ** 0.25 / math.sqrt(NORMAL_SIZE))
    return answer


@pytest.mark.parametrize("kind", [k for k in FLOATING if k != "prefix_sum"])
def test_the_declared_noise_is_added(kind):
    sigma = 37.5
    noise = released_noise(kind, sigma, 1)
    assert squares_p(noise, sigma) > FALSE_ALARM
    if kind != "generalized_gaussian":
        assert stats.kstest(noise / sigma, stats.norm.cdf).pvalue > FALSE_ALARM
    for wrong in WRONG_SCALES:
        assert squares_p(released_noise(kind, wrong * sigma, 2), sigma) < FALSE_ALARM


def covariance_p(prefixes, described, sigma):
    """Whiten with the exact covariance sigma^2 B B^T: then squares are chi-square and products,
    on average, vanish."""
    decoder = described.decoder()
    white = np.linalg.solve(np.linalg.cholesky(decoder @ decoder.T), prefixes) / sigma
    rounds, size = white.shape
    products = (white @ white.T)[np.tril_indices(rounds, -1)] / math.sqrt(size)
    rounds_p = [squares_p(row, 1.0) for row in white]
    p_values = [*rounds_p, *(2 * stats.norm.sf(np.abs(products)))]
    return min(1.0, len(p_values) * min(p_values))


def noisy_prefixes(described, sigma, seed, size=8000):
    release = PrefixSumRelease(1.0, sigma, described, rows=(0, 64))
    return execute(opened(release, seed=seed), release, np.zeros(size))


@pytest.mark.parametrize("name", MECHANISMS)
def test_prefix_sums_have_the_declared_covariance(name):
    described = example(name, 7)
    prefixes = noisy_prefixes(described, 2.5, 1)
    assert prefixes.shape == (7, 8000)
    assert covariance_p(prefixes, described, 2.5) > FALSE_ALARM
    for wrong in WRONG_SCALES:
        other = noisy_prefixes(described, wrong * 2.5, 2)
        assert covariance_p(other, described, 2.5) < FALSE_ALARM
    fresh = np.random.default_rng(4).normal(size=prefixes.shape)
    independent = 2.5 * described.prefix_std()[:, None] * fresh  # right variances, no correlation
    assert covariance_p(independent, described, 2.5) < FALSE_ALARM


def separation(plus, minus):
    """Mean shift over standard deviation, and its standard error."""
    spread = math.sqrt((plus.var(ddof=1) + minus.var(ddof=1)) / 2)
    found = (plus.mean() - minus.mean()) / spread
    return found, math.sqrt(2 / plus.size + found**2 / (4 * plus.size))


@pytest.mark.thorough
@pytest.mark.parametrize(("adjacency", "other"), [("replace_one", -1.5), ("zero_out", 0.0)])
def test_neighbours_are_mu_apart(adjacency, other):
    """lowy2023 PROP-3: totals one sensitivity apart are told apart as N(0, 1) from N(mu, 1)."""
    bound, runs, mu = 1.5, 2500, 3.0
    budget = GDP(mu, adjacency=adjacency)
    sigma = gaussian_sigma(budget, bound=bound, rows=ROWS)

    def audit(true_sigma):
        release = GaussianRelease(bound, true_sigma, rows=ROWS, count=runs)
        ledgers = [Ledger(release, PLENTY, randomness=Randomness.seeded(s)) for s in (1, 2)]
        plus, minus = (
            np.array([float(execute(ledger, release.once(), total)) for _ in range(runs)])
            for ledger, total in zip(ledgers, (bound, other), strict=True)
        )
        found, error = separation(plus, minus)
        return abs(found - mu) / error

    limit = stats.norm.isf(FALSE_ALARM / 2)
    assert audit(sigma) < limit
    for wrong in WRONG_SCALES:
        assert audit(wrong * sigma) > limit


def test_neighbouring_streams_are_mu_apart():
    """The best test against a row in round t is along its own encoder column: mu in the worst t."""
    bound, mu, size = 1.0, 3.0, 6000
    described = mechanism("toeplitz_cn", rounds=8)
    budget = GDP(mu, adjacency="zero_out")
    sigma = prefix_sum_sigma(budget, bound=bound, rows=(0, 64), mechanism=described)
    whiten = np.linalg.inv(described.decoder())

    def audit(true_sigma):
        release = PrefixSumRelease(bound, true_sigma, described, rows=(0, 64))
        worst = []
        for t in (0, 3, 7):
            outputs = []
            for seed, change in ((1, bound), (2, 0.0)):
                ledger = opened(release, seed=seed)
                sums = ledger.prefix_sum(size, **arguments(release))
                outputs.append(
                    [
                        sums.add(np.full(size, change if i == t else 0.0), rows=rows)
                        for i, rows in enumerate(batches(release))
                    ]
                )
            column = described.encoder()[:, t]
            plus, minus = (column @ (whiten @ np.array(output)) for output in outputs)
            found, error = separation(plus, minus)
            worst.append(abs(found - mu) / error)
        return max(worst)

    limit = stats.norm.isf(FALSE_ALARM / 6)
    assert audit(sigma) < limit
    for wrong in WRONG_SCALES:
        assert audit(wrong * sigma) > limit


# --- Sampling ----------------------------------------------------------------------------

DRAWS = 600


def samples(kind, **changes):
    release = dataclasses.replace(RELEASES[kind], rows=(100, 150), **changes)
    ledger = opened(dataclasses.replace(release, count=DRAWS), seed=3)
    draw = ledger.poisson if kind == "poisson_gaussian" else ledger.fixed_size
    found = []
    for _ in range(DRAWS):
        sample = draw(**arguments(release))
        found.append(sample.indices)
        sample.release(0.0)
    ledger.close()
    for indices in found:
        assert indices.dtype == np.int64
        assert (np.diff(indices) > 0).all()
        assert indices.size == 0 or (indices[0] >= 100 and indices[-1] < 150)
    return found


def inclusion(found):
    """How often each row was chosen, and how often each pair of neighbouring rows."""
    table = np.zeros((DRAWS, 50), dtype=bool)
    for i, indices in enumerate(found):
        table[i, indices - 100] = True
    return table


def rate_p(found, rate):
    """Inclusion at ``rate`` for each row, and independently for a row and the next."""
    table = inclusion(found)
    rows = stats.chi2(50).sf(
        ((table.sum(axis=0) - DRAWS * rate) ** 2 / (DRAWS * rate * (1 - rate))).sum()
    )
    pairs = int((table[:, ::2] & table[:, 1::2]).sum())
    return min(
        1.0,
        3
        * min(
            rows,
            stats.binomtest(int(table.sum()), table.size, rate).pvalue,
            stats.binomtest(pairs, DRAWS * 25, rate**2).pvalue,
        ),
    )


def test_poisson_samples_include_each_row_at_the_rate():
    found = samples("poisson_gaussian", rate=0.3)
    assert rate_p(found, 0.3) > FALSE_ALARM
    for wrong in WRONG_SCALES:
        assert rate_p(found, wrong * 0.3) < FALSE_ALARM
    sizes = np.array([len(indices) for indices in found])
    spread = stats.chi2(DRAWS - 1)
    statistic = ((sizes - sizes.mean()) ** 2).sum() / (50 * 0.3 * 0.7)  # not a fixed size
    assert 2 * min(spread.cdf(statistic), spread.sf(statistic)) > FALSE_ALARM


def test_fixed_size_samples_have_their_size_and_miss_no_row():
    found = samples("fixed_size_gaussian", size=15)
    assert {len(indices) for indices in found} == {15}
    counts = inclusion(found).sum(axis=0)
    # Given the size, the counts have covariance DRAWS p (1 - p) (50/49) (I - 1/50): chi-square 49.
    statistic = ((counts - DRAWS * 0.3) ** 2).sum() / (DRAWS * 0.3 * 0.7 * 50 / 49)
    assert stats.chi2(49).sf(statistic) > FALSE_ALARM
    counts[7] = 0  # a row that is never drawn
    statistic = ((counts - DRAWS * 0.3) ** 2).sum() / (DRAWS * 0.3 * 0.7 * 50 / 49)
    assert stats.chi2(49).sf(statistic) < FALSE_ALARM


def test_the_noise_of_a_sampled_sum_does_not_depend_on_the_sample():
    found, noise = [], []
    release = dataclasses.replace(RELEASES["poisson_gaussian"], rows=(100, 150), rate=0.3)
    ledger = opened(dataclasses.replace(release, count=DRAWS), seed=3)
    for _ in range(DRAWS):
        sample = ledger.poisson(**arguments(release))
        found.append(len(sample.indices))
        noise.append(float(sample.release(0.0)))
    assert stats.spearmanr(found, noise).pvalue > FALSE_ALARM
    assert stats.spearmanr(found, np.array(noise) + found).pvalue < FALSE_ALARM


def test_a_full_sample_is_every_row():
    poisson = dataclasses.replace(RELEASES["poisson_gaussian"], rate=1.0)
    fixed = dataclasses.replace(RELEASES["fixed_size_gaussian"], size=12)
    ledger = opened(poisson, fixed)
    for sample in (ledger.poisson(**arguments(poisson)), ledger.fixed_size(**arguments(fixed))):
        assert sample.indices.tolist() == list(range(100, 112))


def test_wrong_arguments_are_named():
    release = GaussianRelease(1.0, 10.0, rows=(0, 5))
    budget = ApproxDP(1.0, 1e-6)
    with pytest.raises(ParameterError, match="budget must be a budget"):
        Ledger(release, 1.0)
    with pytest.raises(ParameterError, match="budget must be a budget"):
        gaussian_sigma(1.0, bound=1.0, rows=(0, 5))
    for name in ("enforced", "trusted"):
        for wrong in ("a row is small", 3):  # one letter a line would be in the certificate
            with pytest.raises(ParameterError, match=f"{name} must be a list of sentences"):
                Ledger(release, budget, **{name: wrong})


# -- releases of a run that goes on in another process ---------------------------------------------


STABLE = {"adjacency": "zero_out", "theorem": "a test", "rows": ROWS}
SKIPPED = {
    **{kind: release for kind, release in RELEASES.items() if kind != "prefix_sum"},
    "stable_gaussian": StableGaussianRelease(0.5, 4.0, **STABLE),
    "stable_gamma": StableGammaRelease(0.5, 4.0, **STABLE),
    "with_replacement": WithReplacementRelease(0.1, 0.0, 6, 1.0, **STABLE),
}


def executed(ledger, release):
    """Make a release of zeros and return all that it let out, a secret sample included."""
    if isinstance(release, (StableGaussianRelease, StableGammaRelease)):
        return ledger.stable(np.zeros(3), release)
    if isinstance(release, WithReplacementRelease):
        sample = ledger.with_replacement(release)
    elif isinstance(release, PoissonGaussianRelease):
        sample = ledger.poisson(**arguments(release))
    elif isinstance(release, FixedSizeGaussianRelease):
        sample = ledger.fixed_size(**arguments(release))
    elif isinstance(release, SelectionRelease):
        return np.array([ledger.argmin(np.zeros(release.candidates), **arguments(release))])
    elif isinstance(release, ShuffledRelease):
        return ledger.shuffled(np.zeros((release.row_count, 2)), **arguments(release))
    else:
        return getattr(ledger, release.kind)(np.zeros(3), **arguments(release))
    indices = sample.indices.copy()
    return np.concatenate([indices, sample.release(np.zeros(3))])


@pytest.mark.parametrize("kind", SKIPPED)
def test_a_skipped_release_uses_up_its_noise_and_its_place(kind):
    release = dataclasses.replace(SKIPPED[kind], count=1 if kind == "with_replacement" else 3)
    planned = (release, dataclasses.replace(RELEASES["gaussian"], sigma=99.0, count=2))
    whole, resumed = opened(*planned, seed=5), opened(*planned, seed=5)
    answers = [executed(whole, each.once()) for each in planned for _ in range(each.count)]
    assert resumed.skip(release) is None  # one execution, however many are planned
    later = [each.once() for each in planned for _ in range(each.count)][1:]
    for each, answer in zip(later, answers[1:], strict=True):
        assert np.array_equal(executed(resumed, each), answer)
    resumed.close()
    with pytest.raises(LedgerError, match="closed"):
        resumed.skip(release)


def test_a_run_is_skipped_in_its_own_order():
    outside = ("generalized_gaussian", "with_replacement")  # no accountant for the mixture
    planned = [release for kind, release in SKIPPED.items() if kind not in outside]
    whole, resumed = opened(*planned, seed=8), opened(*planned, seed=8)
    answers = [executed(whole, release) for release in planned]
    for release in planned[:-1]:
        resumed.skip(release)
    assert np.array_equal(executed(resumed, planned[-1]), answers[-1])
    assert resumed.close().to_json() == whole.close().to_json()


def test_only_planned_releases_of_one_stream_are_skipped():
    release, other = RELEASES["gaussian"], RELEASES["prefix_sum"]
    ledger = opened(release, other)
    with pytest.raises(ParameterError, match="prefix_sum release cannot be skipped"):
        ledger.skip(other)
    ledger.skip(release)
    with pytest.raises(LedgerError, match="already executed as often as planned"):
        ledger.skip(release)
    with pytest.raises(LedgerError, match="broken"):
        ledger.close()
    with pytest.raises(LedgerError, match="not planned"):
        opened(release).skip(dataclasses.replace(release, sigma=9.0))
