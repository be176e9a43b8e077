"""The best of a secret number of runs: laws of K, bounds against exact answers, and the ledger."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import json
import math
import sqlite3
from collections import Counter
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import ndtr, ndtri
from scipy.stats import chi2, kstest, logser, nbinom, poisson

from dpsco.errors import (
    AssumptionError,
    BudgetError,
    CertificateError,
    LedgerError,
    OdometerError,
    ParameterError,
)
from dpsco.privacy import certificate as certificates
from dpsco.privacy.accounting import gaussian, pld, renyi
from dpsco.privacy.accounting.calibration import calibrate
from dpsco.privacy.accounting.composition import cost, least_epsilon
from dpsco.privacy.accounting.cross_check import cross_check
from dpsco.privacy.budget import ApproxDP, PureDP, Unit
from dpsco.privacy.certificate import Certificate
from dpsco.privacy.ledger import Ledger
from dpsco.privacy.mechanisms import (
    GaussianRelease,
    GeneralizedGaussianRelease,
    PoissonGaussianRelease,
    RepeatedSelectionRelease,
    SelectionRelease,
    StableGaussianRelease,
    WithReplacementRelease,
)
from dpsco.privacy.mechanisms.repeated_selection import profile as repeated
from dpsco.privacy.mechanisms.repeated_selection.best_of_runs import Attempt, best_of_runs
from dpsco.privacy.mechanisms.repeated_selection.profile import MOST_RUNS, Base, Runs, Selected
from dpsco.privacy.odometer.odometer import Odometer
from dpsco.privacy.randomness import Randomness
from dpsco.privacy.release import Release

LAWS = {
    "poisson": Runs.named("poisson", 4.0),
    "geometric": Runs.named("geometric", 4.0),
    "logarithmic": Runs.named("logarithmic", 4.0),
    "eta -0.5": Runs("negative_binomial", 0.05, -0.5),
    "eta 3": Runs("negative_binomial", 0.4, 3.0),
    "many": Runs.named("geometric", 60.0),
    "hardly more than one": Runs.named("poisson", 1.1),
}
every_law = pytest.mark.parametrize("runs", LAWS.values(), ids=LAWS)


def chances(runs, most=20_000):
    """P(K = 1), P(K = 2), ... from the definitions, product by product."""
    found, k, term, rising = [], 1, 0.0, 0.0
    while k < most and sum(found) < 1 - 1e-13:
        if runs.law == "poisson":
            rate = runs.parameter
            term = math.exp(-rate) * rate / -math.expm1(-rate) if k == 1 else term * rate / k
            found.append(term)
        else:
            gamma, eta = runs.parameter, runs.eta
            if eta == 0.0:
                found.append((1 - gamma) ** k / (k * math.log(1 / gamma)))
            else:
                rising = (1 - gamma) * (eta if k == 1 else rising * (k - 1 + eta) / k)
                found.append(rising / (gamma**-eta - 1))
        k += 1
    return np.array(found)


def best(law, runs):
    """The law of the best of K draws from a law on 0, 1, 2, ..., summed over K."""
    upto = np.minimum(np.cumsum(law), 1.0)
    below = np.concatenate([[0.0], upto[:-1]])
    return sum(p * (upto**k - below**k) for k, p in enumerate(chances(runs), 1))


def hockey(P, Q, epsilon):
    return float(np.sum(np.maximum(P - math.exp(epsilon) * Q, 0.0)))


def divergence(P, Q, order):
    terms = order * np.log(P) + (1 - order) * np.log(Q)
    return float(np.logaddexp.reduce(terms) / (order - 1))


def both(function, P, Q, *arguments):
    return max(function(P, Q, *arguments), function(Q, P, *arguments))


def known(P, Q):
    """All that can be said of one run between two finite laws."""
    return Base(
        delta=lambda e: both(hockey, P, Q, e),
        curve=lambda orders: np.array([both(divergence, P, Q, a) for a in orders]),
        pure=float(np.max(np.abs(np.log(P / Q)))),
    )


def gauss(mu):
    return Base(lambda e: gaussian.delta(e, mu), renyi.zcdp(0.5 * mu * mu))


# --- the number of runs ---------------------------------------------------------------------------


@every_law
def test_mean_single_and_slope_agree_with_the_definition(runs):
    p = chances(runs)
    k = np.arange(1, len(p) + 1)
    assert sum(p) == pytest.approx(1.0, abs=1e-9)
    assert runs.mean == pytest.approx(float(k @ p), rel=1e-7)
    for x in (0.0, 0.3, 0.9, 0.999):  # the generating function's derivative
        slope = runs.mean * math.exp(-float(runs.fall(np.array(1 - x))))
        assert slope == pytest.approx(float(np.sum(k * p * x ** (k - 1.0))), rel=1e-7)
    z = np.linspace(0, 1, 7)
    assert np.allclose(runs.rank(runs.fall(z)), z, atol=1e-14)


@pytest.mark.parametrize("distribution", ["poisson", "geometric", "logarithmic"])
@pytest.mark.parametrize("mean", [1.01, 3.0, 50.0, MOST_RUNS])
def test_named_laws_have_their_mean(distribution, mean):
    found = Runs.named(distribution, mean)
    assert found.mean == pytest.approx(mean, rel=1e-9)
    assert found.name == distribution


@pytest.mark.thorough
@every_law
def test_draws_follow_the_law(runs):
    """G-test at 1e-6, with power: the same draws are no Poisson law of another mean."""
    stream = Randomness.seeded(11).child("runs")
    counted = Counter(runs.draw_number(stream) for _ in range(4000))
    assert g_test(counted, chances(runs)) > 1e-6
    assert g_test(counted, chances(Runs.named("poisson", 1.2 * runs.mean))) < 1e-6


def g_test(counted, p, first=1):
    """The probability of so large a deviation, small cells joined at the end."""
    total = sum(counted.values())
    cells, seen, expected = [], 0, 0.0
    for k, chance in enumerate(p, first):
        seen, expected = seen + counted[k], expected + total * chance
        if expected >= 8:
            cells.append((seen, expected))
            seen, expected = 0, 0.0
    cells.append((total - sum(s for s, _ in cells), total - sum(e for _, e in cells)))
    statistic = sum((s - e) ** 2 / max(e, 1e-9) for s, e in cells if e > 1 or s)
    return float(chi2.sf(statistic, len(cells)))


EXTREME = {
    "poisson 400": Runs.named("poisson", 400.0),
    "hardly more than one": Runs.named("poisson", 1 + 1e-9),
    "geometric": Runs.named("geometric", MOST_RUNS),
    "logarithmic": Runs.named("logarithmic", MOST_RUNS),
    "eta 100": Runs("negative_binomial", 0.01, 100.0),
    "eta -0.5": Runs("negative_binomial", 1e-5, -0.5),
    "no more than one": Runs("negative_binomial", 1 - 1e-9, 1.0),
}


class Fixed:
    """A stream of given words, three a draw."""

    def __init__(self, *numbers):
        self.numbers = list(numbers)  # from 0 to 1

    def words(self, count):
        assert count == 3
        number = min(int(self.numbers.pop(0) * 2.0**192), 2**192 - 1)
        return np.array([number >> 64 * i & (2**64 - 1) for i in range(3)], dtype=np.uint64)


def cumulative(runs, k):
    """P(K <= k) from SciPy."""
    if runs.law == "poisson":
        return (poisson.cdf(k, runs.parameter) - math.exp(-runs.parameter)) / -math.expm1(
            -runs.parameter
        )
    if runs.eta == 0.0:
        return logser.cdf(k, 1 - runs.parameter)
    if runs.eta < 0.0:
        return float(np.sum(chances(runs, int(k) + 1)))
    none = runs.parameter**runs.eta
    return (nbinom.cdf(k, runs.eta, runs.parameter) - none) / (1 - none)


@pytest.mark.parametrize("runs", EXTREME.values(), ids=EXTREME)
def test_chances_add_up_to_one_and_to_the_mean(runs):
    steps = np.arange(1.0, 60 * max(runs.mean, 1 / runs.parameter if runs.eta is not None else 20))
    p = runs._single() * np.concatenate([[1.0], np.cumprod(runs._ratio(steps))])
    assert runs._single() > 1e-300
    assert float(np.sum(p)) == pytest.approx(1.0, abs=1e-8)
    k = np.arange(1.0, len(p) + 1)
    assert float(k @ p) == pytest.approx(runs.mean, rel=1e-7)


@pytest.mark.thorough
@pytest.mark.parametrize("runs", [*LAWS.values(), *EXTREME.values()], ids=[*LAWS, *EXTREME])
def test_every_quantile_is_drawn_where_it_lies(runs):
    for u in (1e-12, 0.01, 0.3, 0.5, 0.8, 0.99):
        k = runs.draw_number(Fixed(u))
        assert cumulative(runs, k - 1) - 2e-9 <= u <= cumulative(runs, k) + 2e-9
    if runs.eta is None or runs.parameter > 1e-5:  # the largest words: drawn again, and it ends
        stream = Fixed(1 - 2.0**-53, 0.5)
        assert runs.draw_number(stream) == runs.draw_number(Fixed(0.5))
        assert stream.numbers == []


@pytest.mark.thorough
@pytest.mark.parametrize("mean", [501.0, 742.0, 1000.0, MOST_RUNS])
def test_large_poisson_numbers_of_runs(mean):
    """Kolmogorov and Smirnov at 1e-6, mean and variance of 150 draws within 6 deviations."""
    runs, stream = Runs.named("poisson", mean), Randomness.seeded(3).child("runs")
    drawn = np.array([runs.draw_number(stream) for _ in range(150)])
    assert kstest(drawn - 0.5, lambda x: poisson.cdf(np.asarray(x), mean)).pvalue > 1e-6
    assert abs(np.mean(drawn) - mean) < 6 * math.sqrt(mean / 150)
    assert abs(np.var(drawn) / mean - 1) < 6 * math.sqrt(2 / 150)
    assert kstest(drawn, lambda x: poisson.cdf(x, 1.1 * mean)).pvalue < 1e-6


def test_a_sum_of_no_runs_is_drawn_again(monkeypatch):
    parts = iter([0, 0, 3, 4])
    monkeypatch.setattr(repeated, "_inverted", lambda *_: next(parts))
    assert Runs("poisson", 900.0).draw_number(None) == 7


@pytest.mark.parametrize("wrong", [0.0, -1.0, 1.0, math.nan, math.inf, "10", 2 * MOST_RUNS, None])
def test_wrong_means_are_refused(wrong):
    with pytest.raises(ParameterError, match="mean_runs"):
        Runs.named("geometric", wrong)


@pytest.mark.parametrize(
    "arguments",
    [
        ("binomial", 0.5),
        ("poisson", 3.0, 1.0),
        ("poisson", -3.0),
        ("poisson", 1e6),
        ("negative_binomial", 0.5),
        ("negative_binomial", 1.0, 1.0),
        ("negative_binomial", 0.5, -1.0),
        ("negative_binomial", 1e-9, 1.0),
        ("negative_binomial", 1e-310, -0.9999999999),
        ("negative_binomial", 1e-320, -0.5),
        ("negative_binomial", 0.99e-9, -0.5),
    ],
    ids=repr,
)
def test_wrong_laws_are_refused(arguments):
    with pytest.raises(ParameterError):
        Runs(*arguments)


# --- bounds against exact answers -----------------------------------------------------------------


def mechanisms(count, seed=5):
    """Pairs of laws on a few outcomes in the order of their scores; every kind of closeness."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        size, spread = int(rng.integers(2, 6)), float(rng.choice([0.1, 0.5, 1.5]))
        P = rng.dirichlet(np.full(size, rng.choice([0.5, 1.0, 5.0]))) + 1e-6
        Q = P * np.exp(spread * rng.standard_normal(size))
        yield P / P.sum(), Q / Q.sum()
    for e0 in (
        0.05,
        0.5,
        2.0,
    ):  # the pairs behind the bounds: a rare better, a likely worse outcome
        for top in (0.3, 0.1, 0.01):
            Q = np.array([0.5 * (1 - top), 0.5 * (1 - top), top])
            P = np.array([0.0, math.exp(e0) * Q[1], math.exp(-e0) * Q[2]])
            P[0] = 1 - P.sum()
            if P[0] >= math.exp(-e0) * Q[0]:
                yield P, Q


@pytest.mark.slow
@every_law
def test_no_mechanism_exceeds_the_bounds(runs):
    sharpest = {"delta": 0.0, "renyi": 0.0, "pure": 0.0}
    for P, Q in mechanisms(8):
        found = Selected(known(P, Q), runs)
        A, B = best(P, runs), best(Q, runs)
        for e in (0.0, 0.05, 0.3, 1.0, 2.5):
            true, bound = both(hockey, A, B, e), found.delta(e)
            assert true <= bound * (1 + 1e-9) + 1e-12
            sharpest["delta"] = max(sharpest["delta"], true / bound if true > 1e-6 else 0.0)
        for a in (1.2, 3.0, 20.0):
            true, bound = both(divergence, A, B, a), float(found.curve(np.array([a]))[0])
            assert true <= bound * (1 + 1e-9) + 1e-9
            sharpest["renyi"] = max(sharpest["renyi"], true / bound)
        true = float(np.max(np.abs(np.log(A / B))))
        assert true <= found.pure * (1 + 1e-9) + 1e-6
        sharpest["pure"] = max(sharpest["pure"], true / found.pure)
    assert min(sharpest.values()) > 0.35  # how near the truth comes, over so few examples


ORDERS = {  # of the outcomes of a normal, worst to best: P(score <= that of x) under N(shift, 1)
    "rising": lambda x, shift: ndtr(x - shift),
    "falling": lambda x, shift: ndtr(shift - x),
    "outward": lambda x, shift: ndtr(abs(x) - shift) - ndtr(-abs(x) - shift),
}


@pytest.mark.thorough
@every_law
@pytest.mark.parametrize("order", ORDERS)
def test_gaussian_runs_by_numerical_integration(runs, order):
    mu, rank = 0.6, ORDERS[order]

    def density(x, shift):
        slope = runs.mean * math.exp(-float(runs.fall(np.array(1 - rank(x, shift)))))
        return math.exp(-0.5 * (x - shift) ** 2) / math.sqrt(2 * math.pi) * slope

    assert quad(density, -12, 12, args=(0.0,), limit=200)[0] == pytest.approx(1.0, abs=1e-6)
    found = Selected(gauss(mu), runs)
    for e, (one, two) in itertools.product((0.1, 0.8, 2.0), ((0.0, mu), (mu, 0.0))):
        true = quad(
            lambda x, e, one, two: max(density(x, one) - math.exp(e) * density(x, two), 0.0),
            -12, 12, args=(e, one, two), limit=400, points=np.linspace(-4, 4, 17),
        )[0]  # fmt: skip
        assert true <= found.delta(e) + 1e-7


@pytest.mark.thorough
@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(["poisson", "geometric", "logarithmic"]),
    st.floats(1.05, 50.0),
    st.floats(0.02, 3.0),
    st.floats(0.0, 8.0),
)
def test_more_runs_more_noise_and_more_epsilon_go_the_right_way(law, mean, mu, epsilon):
    found = Selected(gauss(mu), Runs.named(law, mean))
    here = found.delta(epsilon)
    assert min(1.0, mean * gaussian.delta(epsilon, mu) * (1 - 1e-6)) <= here <= 1.0
    assert found.delta(epsilon + 0.1) <= here
    assert Selected(gauss(1.1 * mu), found.runs).delta(epsilon) >= here * (1 - 1e-3) - 1e-22
    assert Selected(gauss(mu), Runs.named(law, 1.2 * mean)).delta(epsilon) >= here * (1 - 1e-3)


def test_a_test_has_no_more_power_than_the_exact_curve_says_and_little_less():
    base, z = gauss(0.7), np.concatenate([[0.0], np.geomspace(1e-12, 1.0, 300)])
    exact = ndtr(ndtri(z) + 0.7)
    assert np.all(base.power(z) >= exact - 1e-15)
    assert np.all(base.power(z) <= exact * 1.02 + 1e-4)


# Epsilon at delta 1e-6 of mu-GDP runs: (law, mean, mu) -> the profile; Renyi; Thm 2 or 6 by itself.
TABLE = {
    ("poisson", 10.0, 0.1): (0.7548, 0.7812, 0.7812),
    ("geometric", 10.0, 0.1): (0.5949, 0.6254, 0.8981),
    ("logarithmic", 10.0, 0.1): (0.5628, 0.5935, 0.7428),
    ("geometric", 100.0, 0.5): (4.217, 4.362, 5.646),
    ("logarithmic", 3.0, 0.5): (2.687, 2.844, 3.382),
}


@pytest.mark.parametrize("case", TABLE, ids=str)
def test_epsilon_of_gaussian_runs(case):
    (law, mean, mu), (profile, lemma, theorem) = case, TABLE[case]
    runs = Runs.named(law, mean)
    found = Selected(gauss(mu), runs)
    assert least_epsilon(found.delta, 1e-6) == pytest.approx(profile, rel=2e-3)
    assert renyi.epsilon(found.curve, 1e-6) == pytest.approx(lemma, rel=2e-3)
    assert renyi.epsilon(published(mu, runs), 1e-6) == pytest.approx(theorem, rel=2e-3)
    assert gaussian.epsilon(1e-6, mu) < profile < lemma <= theorem


def published(mu, runs):
    """Thms 2 and 6 of Papernot and Steinke for Gaussian runs, in closed form."""
    rho = 0.5 * mu * mu

    def curve(orders):
        if runs.law == "poisson":
            deltas = [gaussian.delta(math.log(a / (a - 1)), mu) for a in orders]
            extra = runs.parameter * np.array(deltas)
        else:  # min over b of rho (b - 1) + log(1/gamma)/b, times 1 + eta
            extra = (1 + runs.eta) * (2 * math.sqrt(-rho * math.log(runs.parameter)) - rho)
        return rho * orders + extra + math.log(runs.mean) / (orders - 1)

    return curve


@every_law
def test_renyi_is_never_worse_than_the_published_theorems(runs):
    orders = 1 + np.geomspace(0.01, 1000, 60)
    ours = Selected(gauss(0.4), runs).curve(orders)
    assert np.all(ours <= published(0.4, runs)(orders) * (1 + 2e-3))


def test_pure_epsilons_in_closed_form():
    for e0, gamma, eta in itertools.product((0.1, 1.0, 3.0), (0.01, 0.3), (-0.5, 0.0, 1.0, 2.0)):
        found = Selected(Base(lambda e: 0.0, pure=e0), Runs("negative_binomial", gamma, eta)).pure
        ratio = (gamma + math.exp(e0)) / (1 + gamma * math.exp(e0))
        assert found == pytest.approx(e0 + (1 + eta) * math.log(ratio), rel=1e-8)
        assert found < (2 + eta) * e0  # Cor 3, and Liu and Talwar's 3 e0 for eta = 1
    found = Selected(Base(lambda e: 0.0, pure=0.5), Runs("poisson", 7.0)).pure
    assert found == pytest.approx(0.5 + 7 * math.tanh(0.25), rel=1e-8)
    large = Selected(Base(lambda e: 0.0, pure=900.0), Runs("poisson", 7.0)).pure
    assert 900.0 < large <= 907.1


@pytest.mark.parametrize("runs", [*LAWS.values(), *EXTREME.values()], ids=[*LAWS, *EXTREME])
def test_pure_epsilons_are_rounded_up_and_by_little(runs):
    """Against 60 digits, for tiny and huge epsilons of a run."""
    for e0 in (1e-14, 3e-11, 1.3e-9, 7e-8, 1e-4, 0.02, 1.0, 30.0, 499.0, 1e4):
        found = Selected(Base(lambda e: 0.0, pure=e0), runs).pure
        with localcontext() as context:
            context.prec = 60
            e, g = Decimal(e0), Decimal(runs.parameter)
            if runs.law == "poisson":
                true = e + g * (1 - (-e).exp()) / (1 + (-e).exp())
            else:
                true = e + (1 + Decimal(runs.eta)) * ((g * (-e).exp() + 1) / ((-e).exp() + g)).ln()
            assert 0 <= Decimal(found) / true - 1 < Decimal("2e-13")


# --- planted mistakes -----------------------------------------------------------------------------


def test_forgetting_the_mean_number_of_runs_is_wrong():
    """Without the factor, and without log E[K], the bounds are below the truth."""
    runs = Runs.named("geometric", 60.0)
    Q = np.array([0.99, 0.01])
    P = np.array([0.995, 0.005])
    A, B = best(P, runs), best(Q, runs)
    found = Selected(known(P, Q), runs)
    e = 0.0
    assert both(hockey, A, B, e) > 5 * both(hockey, P, Q, e)  # as if one run were made
    assert both(hockey, A, B, e) > found.delta(e) / runs.mean
    assert both(hockey, A, B, e) <= found.delta(e)


def test_telling_the_number_of_runs_is_wrong():
    """Knowing that there were 60 runs, the best one tells more than the bound allows."""
    runs = Runs.named("geometric", 60.0)
    e0 = 0.5
    Q = np.array([0.7, 0.3])
    P = np.array([1 - 0.3 * math.exp(-e0), 0.3 * math.exp(-e0)])
    found = Selected(known(P, Q), runs)
    many = [np.array([law[0] ** 60, 1 - law[0] ** 60]) for law in (P, Q)]
    assert abs(math.log(many[0][0] / many[1][0])) > found.pure
    assert both(divergence, *many, 50.0) > float(found.curve(np.array([50.0]))[0])


# --- what a selection costs -----------------------------------------------------------------------

ROWS = (0, 100)
FIT, SCORE = GaussianRelease(1.0, 30.0, rows=(0, 80)), GaussianRelease(0.5, 15.0, rows=(80, 100))


def selection(*alternatives, law="geometric", mean=10.0, **more):
    runs = Runs.named(law, mean)
    return RepeatedSelectionRelease(alternatives or ((FIT, SCORE),), runs, rows=ROWS, **more)


def spent(*releases, delta=1e-6, **more):
    return cost(releases, **more).epsilon(delta)


def test_a_row_pays_for_the_fit_or_for_the_score():
    assert spent(selection((FIT, SCORE))) == pytest.approx(spent(selection((FIT,))), rel=1e-6)
    overlapping = dataclasses.replace(SCORE, rows=(70, 100))
    assert spent(selection((FIT, overlapping))) > 1.3 * spent(selection((FIT,)))


def test_the_dearest_alternative_counts_and_its_order_does_not():
    dear = dataclasses.replace(FIT, sigma=20.0)
    alone = spent(selection((dear,)))
    assert spent(selection((FIT,), (dear,))) == alone == spent(selection((dear,), (FIT,)))
    assert spent(selection((FIT,))) < alone


def test_zero_out_is_half_of_replace_one_and_selections_compose():
    halved = selection((dataclasses.replace(FIT, sigma=15.0),))
    assert spent(halved, adjacency="zero_out") == spent(selection((FIT,)))
    one, two = spent(selection()), spent(dataclasses.replace(selection(), count=2))
    assert one < two < 2 * one + 0.2
    assert spent(selection(), FIT) < two
    assert two == pytest.approx(
        renyi.epsilon(lambda a: 2 * cost(selection()).rows[0].curve(a), 1e-6)
    )


@pytest.mark.parametrize("law", ["poisson", "geometric", "logarithmic"])
def test_rows_of_one_person_together(law):
    unit = Unit(2, "person")
    assert spent(selection(law=law), unit=unit) > 1.9 * spent(selection(law=law))


def test_sampled_and_pure_and_mixed_runs():
    sampled = PoissonGaussianRelease(1.0, 6.0, 0.05, rows=ROWS, count=50)
    one = cost(sampled)
    found = spent(selection((sampled,)))
    assert one.epsilon(1e-7) < found < 3 * one.epsilon(1e-6)
    choice = SelectionRelease(1.0, 20.0, 4, rows=ROWS)  # 0.1-DP
    pure = cost(selection((choice,)))
    assert 0.2 < pure.pure_epsilon < 0.3
    assert pure.epsilon(1e-9) < pure.pure_epsilon
    assert pure.satisfies(PureDP(0.3))
    stable = StableGaussianRelease(0.5, 9.0, "zero_out", "A theorem", rows=ROWS)
    with pytest.raises(AssumptionError, match="zero_out"):
        spent(selection((stable,)), adjacency="replace_one")


# --- together with other releases ----------------------------------------------------------------

SAMPLED = PoissonGaussianRelease(1.0, 6.0, 0.05, rows=ROWS, count=50)
WHOLE = GaussianRelease(1.0, 30.0, rows=ROWS)


def test_the_best_of_sampled_runs_composes():
    best_run = selection((SAMPLED,))
    one, after = spent(best_run), spent(best_run, WHOLE)
    assert one < after < one + spent(WHOLE)
    assert after > math.sqrt(one**2 + spent(WHOLE) ** 2) - 0.05
    assert one < spent(best_run, SAMPLED) < one + spent(SAMPLED)
    assert one < spent(dataclasses.replace(best_run, count=2)) < 2 * one
    assert spent(selection(), SAMPLED) < spent(selection()) + spent(SAMPLED)  # of Gaussian runs
    hits = WithReplacementRelease(0.1, 0.0, 20, 9.0, "replace_one", "A theorem", rows=ROWS)
    assert spent(selection((hits,)), WHOLE) > spent(selection((hits,)))
    other = GeneralizedGaussianRelease(1.0, 30.0, 3.0, rows=ROWS)
    with pytest.raises(AssumptionError, match="no accountant covers"):
        spent(best_run, other)


def loss_of(found):
    return pld.RepeatedLoss(found.points, None, found.runs.mean, 0.0)


@pytest.mark.thorough
@every_law
def test_composed_profiles_cover_pairs_of_finite_mechanisms(runs):
    """The exact product of two selections, and of one with a coin, stays below."""
    sharpest = 0.0
    for P, Q in itertools.islice(mechanisms(4), 0, None, 3):
        found = Selected(known(P, Q), runs)
        A, B = best(P, runs), best(Q, runs)
        twice = pld.Composed(((loss_of(found), 2),))
        coin = np.array([1.0, math.exp(0.4)]) / (1 + math.exp(0.4))
        mixed = pld.Composed(((loss_of(found), 1), (pld.PureLoss(0.4), 1)))
        for e in (0.0, 0.3, 1.0, 2.0):
            true = both(hockey, np.outer(A, A), np.outer(B, B), e)
            bound = twice.delta(e)
            assert true <= bound * (1 + 1e-9) + 1e-12
            sharpest = max(sharpest, true / bound if true > 1e-6 else 0.0)
            true = both(hockey, np.outer(A, coin), np.outer(B, coin[::-1]), e)
            assert true <= mixed.delta(e) * (1 + 1e-9) + 1e-12
    assert sharpest > 0.2


@every_law
def test_a_composition_of_one_is_the_profile_itself(runs):
    found = Selected(gauss(0.3), runs)
    for delta in (1e-3, 1e-8):
        exact = least_epsilon(found.delta, delta)
        assert exact * (1 - 1e-9) <= pld.Composed(((loss_of(found), 1),)).epsilon(delta)
        assert pld.Composed(((loss_of(found), 1),)).epsilon(delta) < exact * (1 + 2e-3)


def test_the_hull_of_points_is_convex_and_touches_from_below():
    x = np.array([0.0, 0.5, 1.0, 2.0, 3.0, 4.0])
    y = np.array([1.0, 1.0, 1.0, 0.2, 0.3, 0.0])
    corners = pld.hull(x, y)
    assert corners[0].tolist() == [0.0, 2.0, 4.0]
    assert np.all(np.interp(x, *corners) <= y)


def test_add_remove_needs_the_same_rows_in_every_alternative():
    upper = dataclasses.replace(WHOLE, rows=(50, 100))
    for alternatives in (((WHOLE,), (upper,)), ((upper,),), ((WHOLE, upper),)):
        with pytest.raises(AssumptionError, match="under add_remove"):
            spent(selection(*alternatives), adjacency="add_remove")
    even = selection((WHOLE,), (dataclasses.replace(WHOLE, sigma=40.0),))
    assert spent(even, adjacency="add_remove") == spent(even, adjacency="zero_out")


def test_each_alternative_builds_its_distribution_a_few_times_only():
    many = [(dataclasses.replace(SAMPLED, sigma=6.5 + i),) for i in range(4)]
    before = pld._composition.cache_info().misses
    all_of_them = spent(selection(*many[::-1]))  # the dearest last
    assert pld._composition.cache_info().misses - before <= 3 * len(many)
    assert all_of_them == pytest.approx(spent(selection(many[0])), rel=1e-6)


def test_noise_is_calibrated_through_a_selection():
    budget = ApproxDP(1.0, 1e-6)
    sigma = calibrate(lambda s: selection((GaussianRelease(1.0, s, rows=ROWS),)), budget)
    exact = spent(selection((GaussianRelease(1.0, sigma, rows=ROWS),)))
    assert 1 - 1e-4 < exact <= 1.0
    assert 0.55 < spent(GaussianRelease(1.0, sigma, rows=ROWS)) < 0.75  # of one run


@pytest.mark.parametrize("law", ["poisson", "geometric", "logarithmic"])
def test_the_second_accountant_confirms(law):
    opinion = cross_check(cost(selection(law=law)), 1e-6)
    assert opinion.agrees
    assert opinion.first <= opinion.second < 2 * opinion.first
    odd = dataclasses.replace(selection(), runs=Runs("negative_binomial", 0.1, -0.5))
    assert cross_check(cost(odd), 1e-6).route == "none"


def test_record_survives_json_and_refuses_nonsense():
    record = selection((FIT, SCORE), (SCORE,), law="logarithmic")
    text = json.dumps(record.to_json())
    assert Release.from_json(json.loads(text)) == record
    for field, value in [("runs", 3), ("alternatives", 3), ("alternatives", [3])]:
        with pytest.raises(ParameterError):
            Release.from_json({**json.loads(text), field: value})
    for wrong, match in [
        (((selection(),),), "plain releases"),
        (((FIT, "x"),), "plain releases"),
        ((), "1 to"),
        (((),), "1 to"),
        (((dataclasses.replace(FIT, rows=(0, 101)),),), "outside"),
    ]:
        with pytest.raises(ParameterError, match=match):
            dataclasses.replace(record, alternatives=wrong)
    with pytest.raises(ParameterError, match=r"Runs\.named"):
        dataclasses.replace(record, runs=10)


# --- carrying it out ------------------------------------------------------------------------------

BIG = ApproxDP(1e9, 0.5)
CERTIFICATES: dict[tuple, Certificate] = {}


def certificate_of(*releases, adjacency="replace_one"):
    """A certificate of releases, as an inner ledger hands it out."""
    key = (releases, adjacency)
    if key not in CERTIFICATES:
        ledger = Ledger(releases, ApproxDP(1e9, 0.5, adjacency=adjacency))
        ledger._due.clear()
        CERTIFICATES[key] = ledger.close()
    return copy.copy(CERTIFICATES[key])


def drawing(law, seen=None):
    """An attempt that draws an outcome from a finite law and scores it by its place."""

    def attempt(index, randomness):
        place = int(np.searchsorted(np.cumsum(law), randomness.child("run").uniforms(1)[0]))
        if seen is not None:
            seen.append(place)
        return Attempt(float(place), place, (certificate_of(FIT), certificate_of(SCORE)))

    return attempt


def outcomes(law, record, count, seed):
    many = dataclasses.replace(record, count=count)
    ledger = Ledger(many, BIG, randomness=Randomness.seeded(seed))
    drawn = Counter(best_of_runs(ledger, drawing(law), record).value for _ in range(count))
    ledger.close()
    return drawn


@pytest.mark.slow
@pytest.mark.parametrize("law", ["poisson", "geometric", "logarithmic"])
def test_audit_of_a_tiny_mechanism(law):
    """What leaves has the law of the theorem (1e-6), and not that of one run or of 3 runs.

    The empirical lower bound on epsilon between neighbours stays below what is charged.
    """
    record = selection(law=law, mean=3.0)
    P, Q = np.array([0.5, 0.3, 0.2]), np.array([0.45, 0.3, 0.25])
    drawn = outcomes(P, record, 800, seed=21)
    assert g_test(drawn, best(P, record.runs), first=0) > 1e-6
    assert g_test(drawn, P, first=0) < 1e-6
    fixed = np.diff(np.cumsum(P) ** 3, prepend=0.0)
    assert g_test(drawn, fixed, first=0) < (1e-6 if law != "poisson" else 0.05)
    other = outcomes(Q, record, 800, seed=22)
    bound = Selected(known(P, Q), record.runs).pure
    for place in range(3):
        low = drawn[place] / 800 - 5 * math.sqrt(drawn[place]) / 800
        high = other[place] / 800 + 5 * math.sqrt(other[place]) / 800
        assert low <= math.exp(bound) * high


def test_the_best_run_leaves_and_its_certificate_does_not_tell_of_the_others():
    written = []
    for seed in (1, 2, 3, 4):
        seen = []
        ledger = Ledger(selection(), BIG, randomness=Randomness.seeded(seed))
        found = best_of_runs(ledger, drawing(np.full(50, 0.02), seen), selection())
        assert found.value == found.score == max(seen)
        assert {field.name for field in dataclasses.fields(found)} == {
            "alternative", "score", "value",
        }  # fmt: skip
        written.append((len(seen), json.dumps(ledger.close().to_json()), str(ledger._certificate)))
    assert len({runs for runs, _, _ in written}) > 1
    assert len({text for _, text, _ in written}) == len({text for _, _, text in written}) == 1
    assert "how many runs" in written[0][2]
    assert "mean" in written[0][2]


def test_alternatives_are_drawn_evenly():
    record = selection((FIT,), (SCORE,), (FIT, SCORE), mean=1.5)
    many = dataclasses.replace(record, count=900)
    ledger, seen = Ledger(many, BIG, randomness=Randomness.seeded(4)), Counter()

    def attempt(index, randomness):
        seen[index] += 1
        parts = record.alternatives[index]
        return Attempt(0.0, index, tuple(certificate_of(part) for part in parts))

    for _ in range(900):
        best_of_runs(ledger, attempt, record)
    total = sum(seen.values())
    assert all(abs(seen[i] - total / 3) < 5 * math.sqrt(total * 2 / 9) for i in range(3))


def test_equal_scores_keep_the_first_and_nan_is_the_worst():
    record, scores = selection(mean=50.0), itertools.count()

    def attempt(index, randomness):
        number = next(scores)
        score = [math.nan, 1.0, 1.0, 0.0][min(number, 3)]
        return Attempt(score, number, (certificate_of(FIT, SCORE),))

    found = best_of_runs(Ledger(record, BIG, randomness=Randomness.seeded(2)), attempt, record)
    assert (found.score, found.value) == (1.0, 1)


WRONG = {
    "nothing": (),
    "the fit alone": (certificate_of(FIT),),
    "twice": (certificate_of(FIT), certificate_of(SCORE), certificate_of(SCORE)),
    "less noise": (certificate_of(dataclasses.replace(FIT, sigma=29.0)), certificate_of(SCORE)),
    "other rows": (certificate_of(dataclasses.replace(FIT, rows=(0, 81))), certificate_of(SCORE)),
    "other neighbours": (certificate_of(FIT, SCORE, adjacency="zero_out"),),
}


@pytest.mark.parametrize("certificates", WRONG.values(), ids=WRONG)
def test_runs_that_differ_from_the_plan_break_the_ledger(certificates):
    ledger = Ledger(selection(), BIG)
    with pytest.raises(LedgerError, match="other releases than planned"):
        best_of_runs(ledger, lambda i, r: Attempt(1.0, "leak", certificates), selection())
    with pytest.raises(LedgerError, match="broken"):
        ledger.close()


@pytest.mark.parametrize(
    "record", [selection(mean=50.0), selection((FIT, FIT))], ids=["runs", "one"]
)
def test_a_certificate_counts_once(record):
    kept = [certificate_of(each) for each in record.alternatives[0]]
    kept = [kept[0]] * 2 if record.alternatives[0] == (FIT, FIT) else kept
    ledger = Ledger(record, BIG, randomness=Randomness.seeded(2))
    with pytest.raises(LedgerError, match="of an earlier one"):
        best_of_runs(ledger, lambda i, r: Attempt(1.0, "raw rows", tuple(kept)), record)
    with pytest.raises(LedgerError, match="broken"):
        ledger.close()


def test_runs_cannot_use_the_ledger_and_unplanned_selections_are_refused():
    ledger = Ledger([selection(), FIT], BIG)

    def nested(index, randomness):
        ledger.gaussian([0.0], bound=1.0, sigma=30.0, rows=(0, 80))

    with pytest.raises(LedgerError, match="busy"):
        best_of_runs(ledger, nested, selection())
    for wrong in (selection(mean=11.0), selection((FIT,)), selection(law="poisson")):
        with pytest.raises(LedgerError, match="not planned"):
            best_of_runs(Ledger(selection(), BIG), drawing([1.0]), wrong)
    with pytest.raises(ParameterError, match="RepeatedSelectionRelease"):
        best_of_runs(Ledger(FIT, BIG), drawing([1.0]), FIT)
    with pytest.raises(BudgetError):
        Ledger(selection(), ApproxDP(0.01, 1e-9))


def test_certificate_names_inner_theorems_and_caveats(tmp_path):
    inner = (
        StableGaussianRelease(0.5, 9.0, "replace_one", "A theorem, of 2022", rows=(0, 80)),
        PoissonGaussianRelease(1.0, 30.0, 0.1, rows=(80, 100)),
    )
    certificate = certificate_of(selection(inner))
    text = str(certificate)
    assert "A theorem, of 2022" in text
    assert "dpsco's own bound from one run's privacy profile" in text
    assert "the sampled rows stay secret" in text.replace("sampled\n", "sampled ")
    certificate.save(tmp_path / "c.json")
    assert Certificate.load(tmp_path / "c.json").verify(cross_check=False).ok
    five = str(
        certificate_of(selection(*[(dataclasses.replace(FIT, sigma=30.0 + i),) for i in range(5)]))
    )
    assert "and 2 more" in five


def test_an_odometer_pays_for_selections(tmp_path):
    odometer = Odometer(tmp_path / "o", ApproxDP(1.2, 1e-6))
    once = spent(selection())
    Ledger(selection(), BIG, odometer=odometer)
    assert odometer.cost().epsilon(1e-6) == pytest.approx(once)
    dear = dataclasses.replace(selection(), count=20)
    with pytest.raises(BudgetError, match="Nothing was recorded"):
        Ledger(dear, BIG, odometer=odometer)
    assert len(odometer.entries()) == 1


def test_an_odometer_goes_on_after_the_best_of_sampled_runs(tmp_path):
    odometer = Odometer(tmp_path / "o", ApproxDP(1.2, 1e-6))
    odometer.spend(selection((SAMPLED,)))
    before = odometer.cost().epsilon(1e-6)
    odometer.spend(WHOLE)
    assert before < odometer.cost().epsilon(1e-6) <= 1.2
    with pytest.raises(BudgetError, match="Nothing was recorded"):
        odometer.spend(selection((SAMPLED,)))
    assert len(odometer.entries()) == 2


FORGED = {
    "a tail without end": {"law": "negative_binomial", "parameter": 1e-310, "eta": -0.9999999999},
    "a huge number": {"law": "poisson", "parameter": 10**400, "eta": None},
    "not a number": {"law": "negative_binomial", "parameter": 0.1, "eta": "1"},
}


@pytest.mark.parametrize("runs", FORGED.values(), ids=FORGED)
def test_forged_laws_are_refused_as_such(runs, tmp_path):
    record = certificate_of(selection()).to_json()
    record["releases"][0]["runs"] = runs
    content = {name: value for name, value in record.items() if name != "digest"}
    with pytest.raises(CertificateError, match="not valid"):
        Certificate.from_json({**content, "digest": certificates._digest(content)})
    odometer = Odometer(tmp_path / "o", ApproxDP(5.0, 1e-6))
    odometer.spend(selection())
    with sqlite3.connect(tmp_path / "o") as database:
        database.execute("UPDATE spends SET releases = ?", (json.dumps(record["releases"]),))
    database.close()
    with pytest.raises(OdometerError, match="damaged"):
        odometer.cost()


def test_arithmetic_that_fails_while_reading_is_told_as_damage(tmp_path, monkeypatch):
    """Whatever a forged number breaks, a reader gets an error of dpsco's own."""
    record = certificate_of(selection()).to_json()
    odometer = Odometer(tmp_path / "o", ApproxDP(5.0, 1e-6))
    odometer.spend(selection())
    monkeypatch.setattr(repeated, "_binomial_mean", lambda *_: math.exp(1e6))
    with pytest.raises(CertificateError, match="not a certificate"):
        Certificate.from_json(record)
    with pytest.raises(OdometerError, match="damaged"):
        odometer.entries()
