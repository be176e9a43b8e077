"""Batches in secret order: known noise, what it costs, the law of order and noise, refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from dpsco.errors import AssumptionError, BudgetError, LedgerError, ParameterError
from dpsco.privacy.accounting import amplification, gaussian
from dpsco.privacy.accounting.composition import cost
from dpsco.privacy.budget import GDP, ZCDP, Adjacency, ApproxDP
from dpsco.privacy.ledger import Ledger
from dpsco.privacy.mechanisms import (
    GaussianRelease,
    ShuffledRelease,
    ShuffledSequenceRelease,
    shuffled_sigma,
)
from dpsco.privacy.randomness import Randomness

FALSE_ALARM = 1e-6
LOOSE = ApproxDP(1e6, 1e-6)


@pytest.mark.parametrize(
    ("n", "epsilon", "noise"), [(10_000, 1.0, 1.40833), (100_000, 1.0, 1.025), (10**6, 1.0, 0.83)]
)
def test_known_noise_of_a_report(n, epsilon, noise):
    """In units of the distance of two inputs, 2 bound: the specification's, within 1 %."""
    sigma = shuffled_sigma(ApproxDP(epsilon, 1e-6), bound=0.5, rows=(0, n))
    assert noise * 0.99 <= sigma <= noise * 1.01


@pytest.mark.parametrize(("n", "epsilon", "rows"), [(10_000, 1.0, 9.0), (1000, 0.5, 6.4)])
def test_batches_beyond_the_break_even_gain_nothing_from_the_order(n, epsilon, rows):
    """Below it the order is the cheaper proof, above it the batch's own noise."""
    sigma = shuffled_sigma(ApproxDP(epsilon, 1e-6), bound=0.5, rows=(0, n))
    known = gaussian.mu(epsilon, 1e-6)
    assert math.isclose((1.0 / (known * sigma)) ** 2, rows, rel_tol=0.02)
    for size in (math.floor(rows) - 1, math.ceil(rows) + 1):
        release = ShuffledSequenceRelease(0.5, sigma, n // size, rows=(0, n))
        local, batch = release.local_mu(), release.batch_mu(Adjacency.REPLACE_ONE)
        shuffled = amplification.shuffled_epsilon(1e-6, n, local)
        assert cost(release).epsilon(1e-6) == min(shuffled, gaussian.epsilon(1e-6, batch))
        assert (shuffled < gaussian.epsilon(1e-6, batch)) == (size < rows)


def test_one_row_a_batch_is_as_good_as_all_reports_at_once():
    """Shuffled reports that nothing was learnt between cost what a sequence of them costs."""
    sequence = ShuffledSequenceRelease(1.0, 4.0, 5000, rows=(0, 5000))
    at_once = ShuffledRelease(1.0, 4.0, rows=(0, 5000))
    for adjacency in ("replace_one", "zero_out"):
        one, other = (cost(each, adjacency=adjacency).epsilon(1e-6) for each in (sequence, at_once))
        assert one == other


def test_a_single_batch_is_a_sum():
    release = ShuffledSequenceRelease(1.0, 3.0, 1, rows=(0, 400))
    total = GaussianRelease(1.0, 60.0, rows=(0, 400))
    for adjacency in ("replace_one", "zero_out"):
        one, other = (cost(each, adjacency=adjacency).epsilon(1e-6) for each in (release, total))
        assert math.isclose(one, other, rel_tol=1e-8)
        assert one >= other


def test_uneven_batches_are_charged_for_the_smallest():
    even = ShuffledSequenceRelease(1.0, 3.0, 3, rows=(0, 9))
    uneven = ShuffledSequenceRelease(1.0, 3.0, 3, rows=(0, 11))
    assert [uneven.batch(t) for t in range(3)] == [(0, 4), (4, 8), (8, 11)]
    for adjacency in (Adjacency.REPLACE_ONE, Adjacency.ZERO_OUT):
        assert math.isclose(even.batch_mu(adjacency), uneven.batch_mu(adjacency), rel_tol=1e-9)
        distance = 2.0 if adjacency is Adjacency.REPLACE_ONE else 1.0
        assert math.isclose(
            uneven.batch_mu(adjacency), distance / (3.0 * math.sqrt(3)), rel_tol=1e-5
        )
    # Hiding compares any two inputs, whatever the adjacency.
    assert math.isclose(uneven.local_mu(), 2.0 / 3.0, rel_tol=1e-5)


def test_gaussian_releases_beside_it_use_the_batches():
    release = ShuffledSequenceRelease(1.0, 3.0, 2, rows=(0, 400))
    beside = GaussianRelease(1.0, 60.0, rows=(0, 400))
    both = cost([release, beside]).epsilon(1e-6)
    mu = math.hypot(release.batch_mu(Adjacency.REPLACE_ONE), 2.0 / 60.0)
    assert math.isclose(both, gaussian.epsilon(1e-6, mu), rel_tol=1e-6)
    assert both > cost(release).epsilon(1e-6)


def test_two_passes_cost_more_than_twice_nothing():
    release = ShuffledSequenceRelease(1.0, 3.0, 20, rows=(0, 400), count=2)
    once = ShuffledSequenceRelease(1.0, 3.0, 20, rows=(0, 400))
    assert cost(release).epsilon(1e-6) > cost(once).epsilon(1e-6)


# -- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "epsilon"), [pytest.param(10_000, 4.0, marks=pytest.mark.slow), (10, 1.0)]
)
def test_an_order_that_gains_nothing_is_refused(n, epsilon):
    with pytest.raises(AssumptionError, match="gains nothing"):
        shuffled_sigma(ApproxDP(epsilon, 1e-6), bound=1.0, rows=(0, n))


def test_budgets_that_no_order_is_paid_from_are_refused():
    with pytest.raises(AssumptionError, match="ApproxDP"):
        shuffled_sigma(ZCDP(0.1), bound=1.0, rows=(0, 10_000))


@pytest.mark.parametrize("batches", [0, 11, 1.5])
def test_batches_without_rows_are_refused(batches):
    with pytest.raises(ParameterError, match="batches"):
        ShuffledSequenceRelease(1.0, 3.0, batches, rows=(0, 10))


def test_a_sequence_of_less_noise_than_its_budget_takes_is_refused():
    sigma = shuffled_sigma(ApproxDP(1.0, 1e-6), bound=1.0, rows=(0, 10_000))
    Ledger(ShuffledSequenceRelease(1.0, sigma, 10_000, rows=(0, 10_000)), ApproxDP(1.0, 1e-6))
    less = ShuffledSequenceRelease(1.0, 0.98 * sigma, 10_000, rows=(0, 10_000))
    with pytest.raises(BudgetError):
        Ledger(less, ApproxDP(1.0, 1e-6))


# -- the ledger, order and noise -------------------------------------------------------------------


def opened(release, seed):
    ledger = Ledger(release, LOOSE, randomness=Randomness.seeded(seed))
    return ledger.shuffled_sequence(release), ledger


def test_all_batches_are_released_once_before_the_close():
    release = ShuffledSequenceRelease(1.0, 3.0, 3, rows=(2, 12))
    sequence, ledger = opened(release, 1)
    rows = []
    for size in (4, 3, 3):
        rows += list(sequence.indices)
        assert sequence.release(np.zeros((size, 2))).shape == (2,)
    assert sorted(rows) == list(range(2, 12))
    assert sequence.finished
    with pytest.raises(LedgerError, match="all batches"):
        sequence.release(np.zeros((3, 2)))
    ledger.close()


def test_batches_that_are_missing_return_nothing():
    sequence, ledger = opened(ShuffledSequenceRelease(1.0, 3.0, 3, rows=(0, 9)), 1)
    sequence.release(np.zeros((3, 2)))
    with pytest.raises(LedgerError, match="1 of 3"):
        ledger.close()


@pytest.mark.parametrize("shape", [(2, 2), (4, 2), (3,), (3, 2, 1)])
def test_batches_of_another_size_are_refused(shape):
    sequence, _ = opened(ShuffledSequenceRelease(1.0, 3.0, 3, rows=(0, 9)), 1)
    with pytest.raises(ParameterError, match="3 rows"):
        sequence.release(np.zeros(shape))


def test_a_sum_is_exactly_that_of_rounded_reports():
    """Rows are rounded one by one: what one row holds moves no other row's rounding."""
    release = ShuffledSequenceRelease(1.0, 3.0, 1, rows=(0, 5))
    rng, step = np.random.default_rng(2), release.step(3)
    reports = rng.normal(size=(5, 3)) / 4
    other = np.vstack([-reports[:1], reports[1:]])
    sums = []
    for table in (reports, other):
        sequence, _ = opened(release, 7)
        sums.append(sequence.release(table))
    apart = sums[0] - sums[1]  # the same noise
    assert np.array_equal(apart, 2 * step * np.rint(reports[0] / step))
    assert np.array_equal(sums[0] / step, np.rint(sums[0] / step))


def test_every_batch_has_noise_of_its_own_size_with_power():
    """The noise of b rows, sqrt(b) sigma: a chi-square test, which rejects a tenth more or less."""
    release = ShuffledSequenceRelease(1.0, 3.0, 3, rows=(0, 8))
    drawn = [[], [], []]
    stream = Randomness.seeded(5).child("test")
    for _ in range(120):
        for t, size in enumerate((3, 3, 2)):
            noisy = release.draw_noisy_sum(stream, np.zeros((size, 40)))
            drawn[t].append(noisy / (3.0 * math.sqrt(size)))
    for sample in map(np.ravel, drawn):

        def p_value(scale, sample=sample):
            square = float(sample @ sample) / scale**2
            law = stats.chi2(len(sample))
            return 2 * min(law.cdf(square), law.sf(square))

        assert p_value(1.0) > FALSE_ALARM
        assert p_value(0.9) < FALSE_ALARM
        assert p_value(1.1) < FALSE_ALARM
    assert len(np.unique(np.concatenate([np.ravel(each) for each in drawn]))) == 3 * 120 * 40


def test_orders_are_uniform_with_power():
    """All 24 orders of four rows; an order that is left as it is (the bug) fails at once."""
    release = ShuffledSequenceRelease(1.0, 3.0, 2, rows=(0, 4))
    seen: dict[tuple[int, ...], int] = {}
    for seed in range(2400):
        order = tuple(release.draw_order(Randomness.seeded(seed).child("test")))
        seen[order] = seen.get(order, 0) + 1
    square = sum((count - 100) ** 2 / 100 for count in seen.values()) + 100 * (24 - len(seen))
    assert stats.chi2(23).sf(square) > FALSE_ALARM


def test_skipped_batches_draw_what_they_would_have_drawn():
    release = ShuffledSequenceRelease(1.0, 3.0, 3, rows=(0, 9))
    (whole, _), (resumed, _) = opened(release, 3), opened(release, 3)
    expected = [whole.release(np.ones((3, 2))) for _ in range(3)]
    resumed.skip()
    resumed.skip()
    assert resumed.release(np.ones((3, 2))).tobytes() == expected[2].tobytes()


def test_gaussian_budgets_pay_for_the_batches():
    release = ShuffledSequenceRelease(1.0, 6.0, 4, rows=(0, 400))
    mu = release.batch_mu(Adjacency.REPLACE_ONE)
    assert cost(release).satisfies(GDP(mu * 1.0000001))
    assert not cost(release).satisfies(GDP(mu * 0.999))
    assert cost(release).mu is None  # the order hides more: it is no exact parameter
