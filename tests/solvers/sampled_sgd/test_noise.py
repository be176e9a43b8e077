"""Noise of sampled releases: published multipliers, few evaluations, refusals."""

import math

import pytest

from dpsco.errors import AssumptionError
from dpsco.privacy import GDP, ZCDP, ApproxDP, GaussianRelease, cost, gaussian_sigma
from dpsco.solvers.sampled_sgd import noise as sampled_noise
from dpsco.solvers.sampled_sgd.noise import Samples, full_batch_multiplier, noise_multiplier, usage

# n = 1e4, delta = 1e-6: sigma/C of samples of fixed size (replace-one), Poisson samples with the
# antipodal pair (replace-one) and Poisson samples under zero-out.
TABLE = [
    (1.0, 1000, 100, 9.260, 8.452, 4.457),
    (4.0, 1000, 100, 3.200, 2.388, 1.512),
]
# delta = 1e-6, epsilon = 1, rate 1/k: add-remove and antipodal replace-one
RATES = [(32, 32, 1.303, 1.585), (32, 320, 2.567, 4.725)]


def within(printed, budget, tolerance=5e-3, **job):
    """Say whether the least multiplier is the printed one: two evaluations instead of a search."""
    samples = Samples(**job)
    enough = usage(printed * (1 + tolerance), budget, samples) <= 1.0
    return enough and usage(printed * (1 - tolerance), budget, samples) > 1.0


@pytest.mark.parametrize(("epsilon", "batch", "rounds", "fixed", "pair", "zero"), TABLE)
def test_table(epsilon, batch, rounds, fixed, pair, zero):
    replace, remove = ApproxDP(epsilon, 1e-6), ApproxDP(epsilon, 1e-6, adjacency="zero_out")
    job = {"batch": batch, "n": 10_000, "rounds": rounds}
    assert within(fixed, replace, sampling="fixed_size", pair="proved", **job)
    assert within(pair, replace, sampling="poisson", pair="conjectured", **job)
    assert within(zero, remove, sampling="poisson", pair="proved", **job)


def test_proved_poisson_noise_is_that_of_fixed_size():
    """Replace-one: the proved profile of Poisson samples is the one without replacement."""
    budget = ApproxDP(1.0, 1e-6)
    job = {"batch": 1000, "n": 10_000, "rounds": 100, "pair": "proved"}
    assert within(9.260, budget, sampling="poisson", **job)


@pytest.mark.parametrize(("inverse", "rounds", "remove", "replace"), RATES)
def test_rates(inverse, rounds, remove, replace):
    job = {"sampling": "poisson", "batch": 100, "n": 100 * inverse, "rounds": rounds}
    zero = ApproxDP(1.0, 1e-6, adjacency="zero_out")
    assert within(remove, zero, 2e-3, pair="proved", **job)
    assert within(replace, ApproxDP(1.0, 1e-6), 2e-3, pair="conjectured", **job)


@pytest.mark.parametrize(("adjacency", "printed"), [("zero_out", 23.898), ("replace_one", 47.80)])
def test_full_batches(adjacency, printed):
    budget = ApproxDP(1.0, 1e-6, adjacency=adjacency)
    found = noise_multiplier(budget, Samples("full", 1000.0, 1000, 32))
    assert found == pytest.approx(printed, rel=1e-4)
    release = GaussianRelease(1.0, found, rows=(0, 1000), count=32)
    assert cost(release, adjacency=adjacency).satisfies(budget)
    exact = gaussian_sigma(budget, bound=1.0, rows=(0, 1000), count=32)
    assert found == pytest.approx(exact, rel=1e-8)


@pytest.mark.parametrize("budget", [GDP(0.3), ZCDP(0.1)], ids=["gdp", "zcdp"])
def test_full_batches_for_other_budgets(budget):
    samples = Samples("full", 10.0, 10, 4)
    found = noise_multiplier(budget, samples)
    assert cost(samples.release(3.0, 3.0 * found)).satisfies(budget)
    with pytest.raises(AssumptionError, match="ApproxDP"):
        noise_multiplier(budget, Samples("poisson", 5.0, 10, 4))


CASES = [
    ("poisson", "proved", "replace_one"),
    ("poisson", "conjectured", "replace_one"),
    ("poisson", "proved", "zero_out"),
    ("poisson", "proved", "add_remove"),
    ("fixed_size", "proved", "zero_out"),
]


@pytest.mark.parametrize(("sampling", "pair", "adjacency"), CASES)
@pytest.mark.parametrize("epsilon", [0.1, 8.0])
def test_search_takes_few_evaluations(monkeypatch, sampling, pair, adjacency, epsilon):
    seen = []

    def counted(*args):
        seen.append(usage(*args))
        return seen[-1]

    monkeypatch.setattr(sampled_noise, "usage", counted)
    budget = ApproxDP(epsilon, 1e-5, adjacency=adjacency)
    samples = Samples(sampling, 200.0, 1000, 30, pair)
    found = noise_multiplier.__wrapped__(budget, samples)
    assert 0.999 <= max(value for value in seen if value <= 1.0) <= 1.0
    assert len(seen) <= 7
    spent = cost(samples.release(1.0, found), adjacency=adjacency).epsilon(1e-5)
    assert 0.998 * epsilon <= spent <= epsilon


def test_found_once():
    budget = ApproxDP(2.0, 1e-5)
    before = noise_multiplier.cache_info().hits
    first, second = (noise_multiplier(budget, Samples("poisson", 50.0, 100, 3)) for _ in range(2))
    assert first == second
    assert noise_multiplier.cache_info().hits > before


def test_a_search_without_end_is_refused(monkeypatch):
    monkeypatch.setattr(sampled_noise, "usage", lambda *args: math.inf)
    with pytest.raises(AssumptionError, match="fewer rounds with a larger batch"):
        sampled_noise._search(ApproxDP(1.0, 1e-6), Samples("poisson", 1.0, 10**6, 10**6))


@pytest.mark.parametrize("shape", [1.0, 3.0, 8.0])
@pytest.mark.parametrize("start", [1e-3, 1.0, 1e4])
def test_search_finds_its_root_from_anywhere(monkeypatch, shape, start):
    def power(multiplier, *args):
        value = (3.7 / multiplier) ** shape
        return math.inf if value > 1e9 else value

    monkeypatch.setattr(sampled_noise, "usage", power)
    monkeypatch.setattr(sampled_noise, "_limit", lambda *args: start)
    found = sampled_noise._search(ApproxDP(1.0, 1e-6), Samples("poisson", 1.0, 10, 10))
    assert 1 - 1e-3 <= power(found) <= 1.0


def test_search_closes_in_on_a_jump(monkeypatch):
    monkeypatch.setattr(sampled_noise, "usage", lambda z, *args: 0.3 if z >= 2.5 else 5.0)
    monkeypatch.setattr(sampled_noise, "_limit", lambda *args: 1.0)
    found = sampled_noise._search(ApproxDP(1.0, 1e-6), Samples("poisson", 1.0, 10, 10))
    assert 2.5 <= found <= 2.5 * (1 + 1e-5)


def test_too_many_rounds_are_refused():
    with pytest.raises(AssumptionError, match="20,000,000 releases"):
        noise_multiplier(ApproxDP(1.0, 1e-6), Samples("poisson", 1.0, 10**6, 20_000_000))


def test_limit_of_many_releases():
    """Where the composition is nearly Gaussian, its limit is the answer to a few per cent."""
    budget = ApproxDP(1.0, 1e-6)
    found = sampled_noise._limit(budget, Samples("poisson", 1000, 10_000, 100, "conjectured"))
    assert found == pytest.approx(8.452, rel=0.01)
    zero = ApproxDP(1.0, 1e-6, adjacency="zero_out")
    found = sampled_noise._limit(zero, Samples("poisson", 1000, 10_000, 100))
    assert found == pytest.approx(4.457, rel=0.06)


def test_noise_against_full_batches():
    full = full_batch_multiplier(ApproxDP(1.0, 1e-6), 100)
    assert full == pytest.approx(20 / 0.236704, rel=1e-5)
    for multiplier, times in ((9.260, 1.10), (8.452, 1.00)):  # on the mean of 1000 rows of 10,000
        assert multiplier * 10_000 / (1000 * full) == pytest.approx(times, abs=5e-3)
