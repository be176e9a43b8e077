"""Arrays in the place of dp-accounting's loops: the same numbers, sooner."""

import math
import time

import pytest

from dpsco.privacy.accounting import pld
from dpsco.privacy.accounting.pld import dense, epsilon_for_delta

DELTAS = (0.3, 1e-2, 1e-6, 1e-10)
LOSSES = {
    "gaussian": (pld.GaussianLoss(0.4), 100),
    "gaussian-large": (pld.GaussianLoss(5.0), 20),
    "poisson": (pld.PoissonLoss(0.5, 0.02, replace_one=False), 500),
    "antipodal": (pld.PoissonLoss(0.5, 0.02, replace_one=True), 500),
    "sampled": (pld.SampledLoss(0.8, 0.01), 200),
    "sampled-few": (pld.SampledLoss(2.0, 0.3), 3),
    "pure": (pld.PureLoss(0.3), 70),
    "many": (pld.PoissonLoss(0.05, 0.01, replace_one=False), 100_000),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", LOSSES)
def test_epsilon_is_the_library_s(name):
    distribution = pld.Composed((LOSSES[name],))._distribution
    for delta in DELTAS:
        theirs = distribution.get_epsilon_for_delta(delta)
        assert math.isclose(epsilon_for_delta(distribution, delta), theirs, rel_tol=1e-12)


def test_a_delta_that_is_never_reached_has_no_epsilon():
    distribution = pld.Composed((LOSSES["sampled"],))._distribution
    assert epsilon_for_delta(distribution, 0.0) == distribution.get_epsilon_for_delta(0.0)
    assert epsilon_for_delta(distribution, 1.0 - 1e-16) == 0.0


def test_insides_that_are_not_known_are_left_to_the_library():
    class Other:
        def get_epsilon_for_delta(self, delta):
            return 7.0

    assert epsilon_for_delta(Other(), 1e-6) == 7.0
    other = Other()
    assert dense(other, 10**6) is other


def test_the_dense_form_composes_to_the_same():
    loss, _ = LOSSES["poisson"]
    single = pld._single(loss, 1e-3)
    one, two = single.self_compose(1500), dense(single, 1500).self_compose(1500)
    for delta in DELTAS:
        assert one.get_epsilon_for_delta(delta) == two.get_epsilon_for_delta(delta)


@pytest.mark.thorough
def test_a_million_steps_are_composed_in_short_time():
    """The library takes 6 seconds to raise the number of points to the millionth power."""
    composed = pld.Composed(((pld.PoissonLoss(0.0396, 0.00341, replace_one=False), 1_287_000),))
    started = time.process_time()
    assert 0.1 < composed._numerical(1e-6) < 10.0
    assert time.process_time() - started < 3.0


@pytest.mark.thorough
@pytest.mark.parametrize(("mu", "rate", "count"), [(1.6, 1e-5, 21), (2.0, 1e-4, 5), (7.0, 1e-6, 3)])
def test_tiny_rates_do_not_ask_for_millions_of_points(mu, rate, count):
    composed = pld.Composed(((pld.SampledLoss(mu, rate), count),))
    started = time.process_time()
    found = composed.pld_epsilon(1e-6)
    assert time.process_time() - started < 3.0
    assert found >= 0.0


@pytest.mark.thorough
def test_a_coarser_grid_is_on_the_safe_side(monkeypatch):
    composed = pld.Composed(((pld.SampledLoss(2.0, 1e-3), 5),))
    pld._composition.cache_clear()
    coarse = composed.pld_epsilon(1e-6)
    monkeypatch.setattr(pld, "_MOST_PROFILE", 4_000_000)
    pld._composition.cache_clear()
    fine = composed.pld_epsilon(1e-6)
    pld._composition.cache_clear()
    assert fine * (1 - 1e-8) <= coarse <= fine * 1.01  # the transforms round by as much
