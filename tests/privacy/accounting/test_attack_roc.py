"""Bounds on attacks: at least what the best attack reaches, and hardly more."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri

from dpsco.privacy.accounting.attack_roc import Odds, _accuracy, _power
from dpsco.privacy.accounting.composition import cost
from dpsco.privacy.budget import Unit
from dpsco.privacy.mechanisms import GaussianRelease, PoissonGaussianRelease, SelectionRelease

ROWS = (0, 1)  # one row: no rounding of sums is charged, so that mu is exact
CLOSE = 6e-4  # on the safe side; at its worst it is 4.7e-4 (mu 7, rate 1e-12)


def gaussian(mu, unit=None):
    release = GaussianRelease(1.0, unit.rows / mu if unit else 1 / mu, rows=ROWS)
    return Odds(cost(release, adjacency="zero_out", unit=unit))


def pure(epsilon, times=1):
    release = SelectionRelease(1.0, times / epsilon, 3, "laplace", rows=ROWS, count=times)
    return Odds(cost(release, adjacency="zero_out"))


@pytest.mark.parametrize("mu", [1e-3, 0.05, 0.2098, 1.0, 2.5, 4.0, 9.0, 40.0])
@pytest.mark.parametrize("rate", [0.0, 1e-6, 0.001, 0.01, 0.05, 0.3, 0.5, 0.9, 1.0])
def test_the_gaussian_trade_off_is_known(mu, rate):
    # Dong, Roth, Su 2019, eq. (6): the best test of N(0, 1) against N(mu, 1).
    exact = float(ndtr(ndtri(rate) + mu))
    found = gaussian(mu).power(rate)
    assert exact <= found <= exact + CLOSE


@pytest.mark.parametrize("mu", [1e-3, 0.05, 0.2098, 1.0, 2.5, 4.0, 9.0, 40.0])
def test_the_gaussian_accuracy_is_known(mu):
    exact = float(ndtr(mu / 2))
    assert exact <= gaussian(mu).accuracy <= exact + 1e-6


def test_known_answers():
    # epsilon 1 at delta 1/4000^2 is mu 0.20984: hand-computed from tables of the normal law.
    odds = gaussian(0.20984)
    assert odds.accuracy == pytest.approx(0.54178, abs=1e-5)
    assert odds.power(0.01) == pytest.approx(0.01713, abs=2e-4)
    assert odds.power(0.05) == pytest.approx(0.07559, abs=2e-4)


@settings(max_examples=40, deadline=None)
@given(st.floats(0.01, 12.0), st.just(0.0) | st.floats(1e-12, 1.0))
def test_every_gaussian_is_covered(mu, rate):
    exact = float(ndtr(ndtri(rate) + mu))
    assert exact <= gaussian(mu).power(rate) <= exact + CLOSE


@pytest.mark.thorough
@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 4.0, 30.0])
@pytest.mark.parametrize("rate", [0.0, 0.001, 0.05, 0.4, 1.0])
def test_pure_privacy_is_known(epsilon, rate):
    exact = min(math.exp(epsilon) * rate, 1 - math.exp(-epsilon) * (1 - rate))
    assert exact <= pure(epsilon).power(rate) <= exact + 1e-9


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 4.0, 30.0])
def test_pure_accuracy_is_known(epsilon):
    exact = 1 / (1 + math.exp(-epsilon))  # randomised response
    assert exact <= pure(epsilon).accuracy <= exact + 1e-9


def test_composition_beats_the_sum_of_pure_epsilons():
    alone, many = pure(1.0), pure(1.0, times=100)
    assert many.accuracy < alone.accuracy - 0.1


def test_a_unit_of_rows_is_attacked_together():
    person = Unit(4, "person")
    assert gaussian(1.0, person).accuracy == pytest.approx(gaussian(1.0).accuracy, abs=1e-9)


def test_a_sampled_release_is_covered():
    rate, reach = 0.2, 1.5
    release = PoissonGaussianRelease(1.0, 1 / reach, rate, rows=ROWS)
    odds = Odds(cost(release, adjacency="zero_out"))
    for threshold in (-1.0, 0.0, 0.5, 1.0, 2.0, 3.0):
        # The best test of N(0, 1) against the mixture has a threshold; it may also be run backward.
        alarms = float(ndtr(-threshold))
        detected = (1 - rate) * alarms + rate * float(ndtr(reach - threshold))
        assert odds.power(alarms) >= detected
        assert odds.power(1 - detected) >= 1 - alarms
        assert odds.accuracy >= 0.5 + (detected - alarms) / 2
    unsampled = Odds(cost(GaussianRelease(1.0, 1 / reach, rows=ROWS), adjacency="zero_out"))
    assert odds.accuracy < unsampled.accuracy - 0.1


@pytest.mark.parametrize("mu", [0.1, 1.0, 6.0])
def test_the_bound_is_a_trade_off(mu):
    odds = gaussian(mu)
    heights = [odds.power(k / 50) for k in range(51)]
    assert heights == sorted(heights)
    assert heights[-1] == 1.0
    assert all(k / 50 <= height <= 1.0 for k, height in enumerate(heights))
    steps = [b - a for a, b in itertools.pairwise(heights)]
    assert all(b <= a + 1e-9 for a, b in itertools.pairwise(steps))  # concave


def test_the_curve_falls_and_starts_at_zero():
    points = gaussian(1.0).points
    assert points[0][0] == 0.0
    assert len(points) > 100
    assert [delta for _, delta in points] == sorted((d for _, d in points), reverse=True)
    assert points[-1][1] <= 1.01e-12


def test_nothing_released_tells_nothing():
    odds = Odds(cost([], adjacency="zero_out"))
    assert odds.accuracy == pytest.approx(0.5, abs=1e-9)
    assert odds.power(0.05) == pytest.approx(0.05, abs=1e-9)


@pytest.mark.parametrize("mu", [1e3, 1e6, 1e12])
def test_no_privacy_is_no_error(mu):
    odds = gaussian(mu)
    assert odds.accuracy == 1.0
    assert odds.power(0.01) == 1.0


class Stub:
    """A curve whose epsilon is not finite at small deltas, as numerical accountants have it."""

    pure_epsilon = math.inf

    def __init__(self, least):
        self.least, self.true = least, cost(GaussianRelease(1.0, 1.0, rows=ROWS))

    def epsilon(self, delta):
        return self.true.epsilon(delta) if delta >= self.least else math.inf

    def delta(self, epsilon):
        return max(self.true.delta(epsilon), self.least)


@pytest.mark.parametrize("least", [1e-10, 1e-3])
def test_curves_that_end_early_are_read_where_they_hold(least):
    found, true = Odds(Stub(least)), Odds(Stub(0.0))
    assert true.accuracy <= found.accuracy <= true.accuracy + least + 1e-6
    assert found.power(0.01) >= float(ndtr(ndtri(0.01) + 2.0))
    assert found.points[-1][0] <= found.cost.true.epsilon(least) + 1e-9


def test_a_curve_that_never_ends_is_no_error():
    assert Odds(Stub(0.9)).accuracy >= 0.9


@settings(max_examples=100, deadline=None)
@given(st.floats(0.0, 800.0), st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_one_point_bounds_the_region_of_its_lines(epsilon, delta, rate):
    # No point of the region {(a, b)} of epsilon and delta lies above either bound.
    power = _power(epsilon, delta, rate)
    assert rate <= power <= 1.0
    assert 0.5 + (power - rate) / 2 <= _accuracy(epsilon, delta) + 1e-9


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.1), (1.0, 0.0), (1.0, 0.05), (3.0, 1e-6)])
def test_accuracy_is_attained_at_the_corner(epsilon, delta):
    corner = (1 - delta) / (1 + math.exp(epsilon))
    reached = 0.5 + (_power(epsilon, delta, corner) - corner) / 2
    assert _accuracy(epsilon, delta) == pytest.approx(reached, abs=1e-11)
