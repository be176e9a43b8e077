"""Schedules of the few-round solvers: known answers, bounds on the risk, published constants."""

import dataclasses
import math

import numpy as np
import pytest

import dpsco as dp
from dpsco.errors import AssumptionError
from dpsco.privacy.accounting import gaussian
from dpsco.privacy.budget import ApproxDP
from dpsco.privacy.mechanisms.prefix_sum.mechanism import MECHANISMS, NEEDS, mechanism
from dpsco.solvers.common.batches import landau, largest_error
from dpsco.solvers.recursive_gradient import published
from dpsco.solvers.recursive_gradient import rates as schedules
from dpsco.solvers.recursive_gradient.rates import Scales


def scales(n, d, smoothness, distance, epsilon, delta, factor=2):
    """Numbers of a loss with gradients of at most 1."""
    multiplier = factor / ApproxDP(epsilon, delta).mu_per_row()
    return Scales(n, d, 1.0, smoothness, distance, multiplier)


# n, d, M, R, epsilon, delta, adjacency's factor; alpha, T, beta
KNOWN = [
    ((10_000, 20, 0.25, 10, 1, 1e-6, 2), 0.013778668, 27, 0.251116218),
    ((10_000, 20, 0.0125, 10, 1, 1e-6, 2), 0.013778668, 7, 0.016878868),
    ((10_000, 20, 0.0125, 10, 1, 1e-6, 1), 0.011889334, 7, 0.014564434),
    ((1_000_000, 100, 0.25, 5, 2, 1e-8, 2), 0.001053059, 69, 0.250680584),
    ((100, 5, 0.25, 2, 8, 1e-5, 2), 0.126843060, 3, 0.25),
]


@pytest.mark.parametrize(("given", "alpha", "rounds", "beta"), KNOWN)
def test_known_schedules(given, alpha, rounds, beta):
    found = scales(*given)
    assert found.alpha == pytest.approx(alpha, abs=6e-10)
    assert schedules.best_rounds(found) == rounds
    assert schedules.recursive_beta(found, rounds) == pytest.approx(beta, abs=6e-10)


def test_rounds_are_few_and_batches_not_small():
    assert schedules.within(2.1, 10_000) == 4  # acceleration needs a few rounds
    assert schedules.within(7.1, 10_000) == 8
    assert schedules.within(100, 320) == 10  # batches of 32 rows
    assert schedules.within(100, 31) == schedules.within(1, 1) == 1


@pytest.mark.parametrize("change", [{"n": 40_000}, {"noise_multiplier": 2.0}])
def test_more_rows_or_less_noise_mean_more_rounds(change):
    """What is to be reached lies lower, so that steps go on for longer."""
    one = scales(10_000, 20, 0.25, 10, 1, 1e-6)
    two = dataclasses.replace(one, **change)
    assert two.alpha < one.alpha
    assert schedules.best_rounds(two) > schedules.best_rounds(one)


def test_rounds_grow_with_the_fourth_root_of_the_rows():
    rounds = [schedules.best_rounds(scales(n, 20, 0.25, 10, 4, 1e-6)) for n in (10**6, 16 * 10**6)]
    assert rounds[1] / rounds[0] == pytest.approx(2.0, rel=0.1)


def test_units_do_not_matter():
    """Losses in units of a, weights in units of r: T is a number, beta has units a/r^2."""
    one = scales(10_000, 20, 0.25, 10, 1, 1e-6)
    a, r = 7.0, 0.3
    two = dataclasses.replace(
        one, gradient=a / r, smoothness=0.25 * a / r**2, distance=10 * r
    )  # fmt: skip
    rounds = schedules.best_rounds(one)
    assert schedules.best_rounds(two) == rounds
    assert schedules.best_independent_rounds(two) == schedules.best_independent_rounds(one)
    for beta in (schedules.recursive_beta, schedules.independent_beta):
        assert beta(two, rounds) == pytest.approx(beta(one, rounds) * a / r**2)
    beta = schedules.recursive_beta(one, rounds)
    assert schedules.recursive_excess(two, rounds, beta * a / r**2, 2.0) == pytest.approx(
        a * schedules.recursive_excess(one, rounds, beta, 2.0)
    )


# -- bounds on the excess risk ---------------------------------------------------------------------


def test_recursive_excess_by_hand():
    """T = 10 batches of 10 rows, d = 4, L = 1, R = 3, price 2, e = 1.5, beta = 5."""
    found = Scales(100, 4, 1.0, 0.25, 3.0, 2.0)
    left = 2 * 5 * 9 / 110
    drift = 3 * (4 / 3 / 10 + 2 * 2 * 1.5 * 2 / 100)
    jitter = (1 / 10 + 2 * 4 * (2 * 1.5 / 10) ** 2 / 11) / 5
    assert schedules.recursive_excess(found, 10, 5.0, 1.5) == pytest.approx(left + drift + jitter)


def test_independent_excess_by_hand():
    found = Scales(100, 4, 1.0, 0.25, 3.0, 2.0)
    variance = 1 / 10 + 4 * (2 / 10) ** 2
    assert found.gradient_std(10) ** 2 == pytest.approx(variance)
    expected = 2 * 5 * 9 / 110 + 21 * variance / 15
    assert schedules.independent_excess(found, 10, 5.0) == pytest.approx(expected)
    beta = 0.25 * 10**1.5 * (1 / math.sqrt(10) + 2 * 2 / 10) / 3
    assert schedules.independent_beta(found, 10) == pytest.approx(max(0.25, beta))


def test_independent_rounds_have_the_least_bound():
    found = scales(10_000, 20, 0.25, 10, 1, 1e-6)

    def excess(rounds):
        return schedules.independent_excess(
            found, rounds, schedules.independent_beta(found, rounds)
        )

    best = schedules.best_independent_rounds(found)
    assert excess(best) <= min(map(excess, range(4, 313))) * 1.001
    assert schedules.best_independent_rounds(scales(20, 2, 0.25, 10, 1, 1e-6)) == 1


def test_correlated_noise_predicts_less_risk():
    for n in (10_000, 100_000, 1_000_000):
        found = scales(n, 20, 0.25, 10, 1, 1e-6)
        rounds = schedules.best_rounds(found)
        error = mechanism(rounds=rounds).error_max()
        recursive = schedules.recursive_excess(
            found, rounds, schedules.recursive_beta(found, rounds), error
        )
        other = schedules.best_independent_rounds(found)
        assert recursive < schedules.independent_excess(
            found, other, schedules.independent_beta(found, other)
        )


@pytest.mark.parametrize("rounds", [1, 2, 7, 100, 4096, 4097, 2**14])
def test_errors_of_streams(rounds):
    """Landau's constants bound the Toeplitz mechanisms, with or without the long way round."""
    for name in ("toeplitz", "toeplitz_cn"):
        assert mechanism(name, rounds=rounds).error_max() <= landau(rounds)
    noise = mechanism("tree", rounds=rounds)
    assert largest_error(noise) == pytest.approx(noise.error_max(), rel=1e-14)
    assert largest_error(mechanism(rounds=10**6)) == landau(10**6)


@pytest.mark.thorough
@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("rounds", [4096, 8191, 2**14])
def test_errors_do_not_fall_where_streams_get_long(name, rounds):
    """One more round never predicts less noise; the trees had a Toeplitz error beyond 4096."""
    needed = {"bands": {"bands": 64}, "exponent": {"exponent": 0.75}}
    options = needed[NEEDS[name]] if name in NEEDS else {}
    here, next_ = (
        largest_error(mechanism(name, rounds=r, **options)) for r in (rounds, rounds + 1)
    )
    assert here <= next_ * (1 + 1e-12)
    exact = mechanism(name, rounds=rounds, **options).error_max()
    assert here == pytest.approx(exact, rel=1e-12)


def test_errors_of_long_trees():
    """sqrt(levels times the most bits of a number up to T)."""
    for rounds in (4097, 2**14 + 1, 10**6, 2**23 - 1, 2**23):
        bits = max(rounds.bit_count(), rounds.bit_length() - 1)
        error = largest_error(mechanism("tree", rounds=rounds))
        assert error == pytest.approx(math.sqrt(rounds.bit_length() * bits), rel=1e-13)
        assert largest_error(mechanism("tree_honaker", rounds=rounds)) < error
    assert largest_error(mechanism("tree", rounds=4, drop_root=True)) == pytest.approx(2)
    assert largest_error(mechanism("tree", rounds=2, drop_root=True)) ** 2 == (pytest.approx(2))


# -- as published ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "smoothness", "radius", "expected", "sigma", "printed"),
    [
        # c_M = M D/L = 2.5, and 1
        (16_384, 0.125, 10.0, (128, 614.4, 24.0), 0.00468530624, 0.00876540535),
        (1_000_000, 0.5, 1.0, (1000, 24_000.0, 12.0), 9.00138362e-6, 1.71355743e-5),
    ],
)
def test_general_schedule(n, smoothness, radius, expected, sigma, printed):
    """Theorem 14 and Lemma 8 (zero-out, epsilon = 1, delta = 1e-6); noise in units of beta b_t.

    Corollary 13 prints 2 sqrt(log2(T)/levels) times the lemma's.
    """
    found = published.general(n, 1.0, smoothness, radius)
    assert dataclasses.astuple(found) == pytest.approx(expected)
    node = published.tree_sigma(found.rounds, found.clip, 1.0, 1e-6)
    assert node / (n // found.rounds) / found.beta == pytest.approx(sigma, rel=2e-9)
    ratio = 2 * math.sqrt(math.log2(found.rounds) / (1 + math.ceil(math.log2(found.rounds))))
    assert ratio * sigma == pytest.approx(printed, rel=2e-9)


def test_realizable_schedule_wants_more_rows_than_there_are():
    with pytest.raises(AssumptionError, match=r"1,24\d,\d{3} rounds, .* 1,000,000 rows .* 39,4"):
        published.realizable(10**6, 20, 1.0, 10.0, 1.0, 1e-6)


@pytest.mark.parametrize("n", [1, 2, 12, 20, 99, 100, 10_000])
def test_general_schedule_says_how_many_rounds_it_needs(n):
    """The number in the refusal is the least that is taken."""
    least = next(T for T in range(1, n + 1) if n // T <= math.isqrt(n))
    assert published.general(n, 1.0, 0.5, 1.0, least).rounds == least
    if least > 1:
        with pytest.raises(AssumptionError, match=f"at least {least} rounds"):
            published.general(n, 1.0, 0.5, 1.0, least - 1)


@pytest.mark.parametrize(
    ("most", "delta", "expected"),
    [
        (lambda n: n, lambda n: 1 / n, 1.5e6),
        (lambda n: n / 10, lambda n: 1 / n, 8.7e7),
        (math.sqrt, lambda n: 1 / n, 7.8e25),
        (lambda n: n, lambda n: 1e-6, 1.4e6),
        (lambda n: n / 10, lambda n: 1e-6, 5.2e7),
        (math.sqrt, lambda n: 1e-6, 3.7e22),
    ],
)
def test_where_the_realizable_schedule_begins(most, delta, expected):
    """The least n whose rounds are at most n, n/10, sqrt(n)."""

    def feasible(n):
        try:
            return published.realizable(n, 20, 1.0, 10.0, 1.0, delta(n)).rounds <= most(n)
        except AssumptionError:
            return False

    low, high = math.log(1e5), math.log(1e27)
    while high - low > 1e-3:
        middle = (low + high) / 2
        low, high = (low, middle) if feasible(math.floor(math.exp(middle))) else (middle, high)
    assert math.exp(high) == pytest.approx(expected, rel=0.05)


def test_realizable_schedule_where_it_exists():
    """n = 1e9, delta = 1/n: 2.3e7 rounds of 43 rows; constants of Eq. 19 by hand."""
    found = published.realizable(10**9, 20, 2.0, 10.0, 1.0, 1e-9)
    factor = 4 * math.sqrt(2) * math.log2(1e9) ** 1.5 * math.sqrt(math.log(2e18))
    factor *= math.log(2.5e9)
    assert found.rounds == math.ceil(factor * 10**2.25)
    assert found.rounds == pytest.approx(2.3e7, rel=0.02)
    assert 10**9 // found.rounds == 43
    assert found.clip == pytest.approx(2 * factor)
    assert found.beta == pytest.approx(factor**2 * 0.2)
    strict = published.realizable(10**9, 20, 2.0, 10.0, 1e-5, 1e-9)
    assert strict.beta == pytest.approx(found.beta * math.sqrt(20) / (1e-5 * math.sqrt(1e9)))


@pytest.mark.parametrize("rounds", [1, 2, 3, 15, 16, 17, 1000])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_published_noise_suffices(rounds, epsilon):
    """Lemma 8 covers the true tree, which never has more levels; a single round has noise too."""
    noise = mechanism("tree", rounds=rounds)
    sigma = published.tree_sigma(rounds, 1.0, epsilon, 1e-6)
    assert 0 < gaussian.epsilon(1e-6, noise.column_norm / sigma) <= epsilon


@pytest.mark.parametrize(
    ("rounds", "printed", "natural", "other"),
    [
        (2, (1.615, 3.464), (1.972, 4.255), (0.527, 1.109)),
        (8, (1.296, 2.765), (1.581, 3.389), (0.424, 0.891)),
        (15, (1.123, 2.390), (1.370, 2.926), (0.368, 0.773)),
        (16, (1.251, 2.668), (1.526, 3.269), (0.410, 0.861)),
        (64, (1.205, 2.568), (1.470, 3.146), (0.395, 0.830)),
        (1024, (1.168, 2.486), (1.424, 3.045), (0.382, 0.804)),
    ],
)
def test_printed_noise_of_the_corollary_would_not_suffice(rounds, printed, natural, other):
    """Corollary 9 leaves out sqrt(2 levels/log T): a claimed epsilon of 1 is more.

    Zero-out and replace-one, for logarithms of base 2 and e; and Corollary 13, which suffices for
    zero-out.
    """
    levels = 1 + math.ceil(math.log2(rounds))
    lemma = published.tree_sigma(rounds, 1.0, 1.0, 1e-6)
    norm = mechanism("tree", rounds=rounds).column_norm

    def true(ratio):
        return tuple(gaussian.epsilon(1e-6, reach * norm / (ratio * lemma)) for reach in (1, 2))

    share = math.sqrt(math.log2(rounds) / (2 * levels))
    assert true(share) == pytest.approx(printed, abs=6e-4)
    assert true(share * math.sqrt(math.log(2))) == pytest.approx(natural, abs=6e-4)
    assert true(math.sqrt(8) * share) == pytest.approx(other, abs=6e-4)


@pytest.mark.parametrize(
    ("delta", "first", "halved"),
    [
        (1e-1, 7.741, 5.743),
        (1e-2, 8.459, 6.772),
        (1e-3, 9.022, 7.463),
        (1e-5, 9.862, 8.420),
        (1e-6, 10.192, 8.782),
        (1e-8, 10.743, 9.374),
    ],
)
def test_where_published_noise_stops_to_suffice(delta, first, halved):
    """A single release of mu = epsilon/sqrt(2 log(c/delta)) at the full delta; c = 2.5, 1.25."""

    def suffices(epsilon, constant):
        mu = 1 / published.tree_sigma(1, 1.0, epsilon, delta * 2.5 / constant)
        return gaussian.delta(epsilon, mu) <= delta

    for epsilon, constant in ((first, 2.5), (halved, 1.25)):
        assert suffices(epsilon - 1e-3, constant)
        assert not suffices(epsilon + 1e-3, constant)


@pytest.mark.parametrize(
    ("epsilon", "ratio"),
    [(0.1, 1.50), (0.5, 1.35), (1, 1.285), (2, 1.217), (4, 1.137), (8, 1.039)],
)
def test_tight_noise_is_smaller_than_the_published_formula(epsilon, ratio):
    tight = ApproxDP(epsilon, 1e-6).mu_per_row()
    formula = epsilon / math.sqrt(2 * math.log(2.5e6))
    assert tight / formula == pytest.approx(ratio, abs=6e-3)


@pytest.mark.parametrize(
    ("rounds", "theirs", "tight"), [(16, 24.27, 7.53), (64, 35.18, 9.34), (1024, 56.9, 13.0)]
)
def test_published_noise_against_ours(rounds, theirs, tight):
    """The largest noise on a prefix, zero-out, epsilon = 1, delta = 1e-6, a row's bound 1."""
    tree = mechanism("tree", rounds=rounds).prefix_std().max()
    assert published.tree_sigma(rounds, 1.0, 1.0, 1e-6) * tree == pytest.approx(theirs, rel=1e-3)
    ours = np.max(mechanism(rounds=rounds).prefix_std()) / ApproxDP(1.0, 1e-6).mu_per_row()
    assert ours == pytest.approx(tight, rel=2e-3)


def test_fewer_rounds_than_enough_take_longer_steps():
    problem = dp.Problem(
        loss=dp.losses.Logistic(), bounds=dp.Bounds(1.0, label="sign"), domain=dp.domains.L2Ball(10)
    )

    def beta(rounds, loss=None, solver="acc_srgd"):
        asked = problem if loss is None else dataclasses.replace(problem, **loss)
        options = {"population_smoothness": 0.0125, "clip": 1.0}
        options |= {"rounds": rounds} if rounds else {}
        made = dp.plan(
            asked, n=16_384, d=20, budget=dp.ApproxDP(1.0, 1e-6), solver=solver, options=options
        )
        return made.beta

    own = beta(None)
    assert beta(8) == own  # its own number of rounds
    assert [beta(rounds) / own for rounds in (1, 2, 4)] == pytest.approx([1 / 2, 1 / 2, 0.5**0.5])
    assert beta(16) > own
    # plain steps have 32 rounds of their own
    plain = {rounds: beta(rounds, solver="srg_sgd") for rounds in (2, 8, 32, 64)}
    assert [plain[rounds] / plain[32] for rounds in (2, 8)] == pytest.approx([1 / 2, 1 / 2])
    assert plain[32] == plain[64]
    # a parabola is as curved everywhere: longer steps would leave it
    square = {"loss": dp.losses.Squared(), "bounds": dp.Bounds(1.0, label=1.0)}
    assert beta(1, square) == beta(4, square)
