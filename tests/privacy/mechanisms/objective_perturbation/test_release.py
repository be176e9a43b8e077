"""Perturbed minimisers: what they cost, how they are drawn, what is refused.

Statistical tests have fixed seeds and a false-alarm rate of FALSE_ALARM each, and reject a scale
that is wrong by 10%.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from scipy import stats

from dpsco.errors import AssumptionError, LedgerError, ParameterError
from dpsco.privacy.accounting import gaussian
from dpsco.privacy.accounting.calibration import calibrate
from dpsco.privacy.accounting.composition import cost
from dpsco.privacy.budget import GDP, ZCDP, ApproxDP, PureDP, Unit
from dpsco.privacy.lattice import SLACK, TILT_SHARE
from dpsco.privacy.ledger import Ledger
from dpsco.privacy.mechanisms import (
    GaussianRelease,
)
from dpsco.privacy.mechanisms.objective_perturbation.loss import (
    Loss,
    delta_average,
    delta_chi,
    delta_general,
    delta_glm,
    log_determinant,
)
from dpsco.privacy.randomness import Randomness

from ..conftest import (
    ROWS,
    ZERO,
    accepts,
    composed_delta,
    drawn,
    largest_m,
    perturbed,
    stable,
)


@pytest.mark.thorough
@pytest.mark.parametrize("adjacency", ["zero_out", "replace_one"])
@pytest.mark.parametrize("share", [0.001, 0.01, 0.1])
def test_gaussian_releases_compose_with_a_perturbed_minimiser(adjacency, share):
    """Never below the composition by quadrature, and at most 2 % of epsilon above it."""
    release = perturbed(sigma=9.0 if adjacency == "zero_out" else 18.0)
    alone = cost(release, adjacency=adjacency)
    mu = math.sqrt(share) * gaussian.mu(alone.epsilon(1e-6), 1e-6)
    both = cost([release, stable(mu * 3.0, 3.0, adjacency)], adjacency=adjacency)
    for epsilon in (0.5, 1.0, 2.0):
        exact = composed_delta(alone.delta, epsilon, mu)
        assert exact * (1 - 1e-6) <= both.delta(epsilon)
        assert both.delta(epsilon * 1.02) <= exact
        assert both.delta(epsilon) > alone.delta(epsilon)
    # Two Gaussian releases are one of the root of the sum of squares, wherever they stand.
    half = stable(mu * 3.0 / math.sqrt(2), 3.0, adjacency)
    split = cost([half, release, dataclasses.replace(half, count=1)], adjacency=adjacency)
    assert math.isclose(split.delta(1.0), both.delta(1.0), rel_tol=1e-9)


def test_the_adjacency_of_a_perturbed_minimiser_is_applied_once():
    """replace-one is twice the distance; add_remove of a single release costs like zero-out."""
    c = log_determinant(0.25, 10.0, 1)
    quiet = {"distance": 1e-12, "output_sigma": 1.0}
    for adjacency, factor in (("replace_one", 2), ("zero_out", 1), ("add_remove", 1)):
        found = cost(perturbed(**quiet), adjacency=adjacency).delta(1.0)
        assert math.isclose(found, float(delta_glm(1.0, factor / 9.0, c)), rel_tol=1e-6)
    wide = perturbed(directions="subspace", span=2, rank=1, **quiet)
    both = (delta_average(1.0, 2 / 9.0, c, 2), delta_chi(1.0, 2 / 9.0, c, 4))
    assert both[0] < 0.3 * both[1]  # of two parts in a plane each, not one in four dimensions
    assert math.isclose(cost(wide).delta(1.0), float(min(both)), rel_tol=1e-5)
    single = float(delta_chi(1.0, 1 / 9.0, c, 2))
    assert math.isclose(cost(wide, adjacency="zero_out").delta(1.0), single, rel_tol=1e-5)
    general = perturbed(
        directions="general", dimension=500, rank=500, floor=0.25 * 32e3, sigma=12.0, **quiet
    )
    known = float(delta_general(1.0, 2 / 12.0, 1 / 32e3, rank=500, dimension=500))
    assert math.isclose(cost(general).delta(1.0), known, rel_tol=1e-6)


def test_a_replaced_row_costs_two_directions():
    """Where orthogonal rows are the worst, and with both inexact minimisers counted."""
    release = perturbed(sigma=20.0, floor=1e4, distance=1e-3, output_sigma=0.1)
    output = 0.02 * (1 + 1.5 * TILT_SHARE)
    facts = {"m": 0.1, "curvature": 0.25, "floor": 1e4, "rank": 1, "output": output}
    (loss, _), *_ = cost(release).rows[0].losses
    known = Loss(**facts, directions="pair", dimensions=2).delta(0.04)
    assert math.isclose(loss.alone.delta(0.04), known, rel_tol=1e-6)
    assert known > 1.1 * Loss(**facts, directions="glm", dimensions=1).delta(0.04)
    assert cost(release).delta(0.04) < known  # zCDP knows that the loss has two sides


@pytest.mark.parametrize(
    ("n", "ridge", "curvature", "budget", "known"),
    [
        (1000, 0.01, 0.25, ApproxDP(1.0, 1e-6), 8.936122),
        (1000, 0.01, 0.25, ApproxDP(1.0, 1e-6, adjacency="zero_out"), 4.468061),
        (10000, 1e-3, 0.25, ApproxDP(0.5, 1e-6), 17.509258),
        (1000, 1.0, 1.0, ApproxDP(1.0, 1e-5), 7.775405),
    ],
)
def test_calibrated_perturbations(n, ridge, curvature, budget, known):
    found = calibrate(
        lambda s: perturbed(
            s, floor=n * ridge, curvature=curvature, distance=1e-9, output_sigma=1e-3, rows=(0, n)
        ),
        budget,
    )
    assert known < found < known * 1.0002


def test_perturbed_minimisers_compose():
    """Renyi curves add up; two of them cost less than twice one, and more than one."""
    one = cost(perturbed()).epsilon(1e-6)
    two = cost(perturbed(count=2)).epsilon(1e-6)
    mixed = cost([perturbed(), GaussianRelease(1.0, 9.0, rows=ROWS)]).epsilon(1e-6)
    assert one < mixed < 2 * one
    assert one < two < 2.2 * one
    assert cost(perturbed(), unit=Unit(2, "person")).epsilon(1e-6) > 1.5 * one


@pytest.mark.thorough
def test_budgets_that_can_and_cannot_pay():
    sigma = calibrate(lambda s: perturbed(s), ZCDP(0.2))
    assert math.isclose(cost(perturbed(sigma)).rho, 0.2, rel_tol=1e-5)
    with pytest.raises(AssumptionError, match="floor such that"):
        calibrate(lambda s: perturbed(s), ZCDP(2e-4))  # c = 0.025 alone costs 3e-4
    for build, budget in (
        (perturbed, GDP(1.0)),
        (perturbed, PureDP(1.0)),
        (lambda s: drawn(s, "replace_one"), ZCDP(1.0)),
        (lambda s: drawn(s, "replace_one"), GDP(1.0)),
        (lambda s: stable(0.5, s, "replace_one"), PureDP(1.0)),
    ):
        with pytest.raises(AssumptionError, match=r"PureDP|with replacement an \(epsilon, delta\)"):
            calibrate(build, budget)
    for budget in (GDP(0.3), ZCDP(0.1), ApproxDP(1.0, 1e-6)):
        sigma = calibrate(lambda s: stable(0.5, s, "replace_one"), budget)
        assert math.isclose(sigma, 0.5 * (1 + SLACK) / budget.mu_per_row(), rel_tol=3e-9)


def test_more_of_anything_costs_more():
    least = cost(perturbed(output_sigma=1e-6)).epsilon(1e-6)
    for change in ({"bound": 1.1}, {"curvature": 0.5}, {"floor": 5.0}, {"sigma": 8.0},
                   {"distance": 4e-8}, {"output_sigma": 2e-8}):  # fmt: skip
        facts = {"output_sigma": 1e-6, **change}
        assert cost(perturbed(**facts)).epsilon(1e-6) > least * 1.0001
    with pytest.raises(ParameterError, match="rank 1"):
        perturbed(rank=2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"directions": "anywhere"}, "directions"),
        ({"span": 2}, "span belongs to directions='subspace'"),
        ({"dimension": 2}, "dimension belongs to directions='general'"),
        ({"directions": "subspace"}, "span"),
        ({"directions": "general", "span": 3}, "span belongs"),
        ({"directions": "general"}, "dimension"),
        ({"curvature": -1.0}, "curvature"),
        ({"floor": 0.0}, "floor"),
        ({"distance": 0.0}, "distance"),
        ({"output_sigma": 0.0}, "output_sigma"),
    ],
)
def test_perturbations_are_checked(change, message):
    with pytest.raises(ParameterError, match=message):
        perturbed(**change)


def test_perturbed_minimiser_draws_both_noises_apart():
    release = perturbed(sigma=9.0, output_sigma=2.0)
    ledger = Ledger([release], ZERO, randomness=Randomness.seeded(5))
    seen = []

    def record(b):
        seen.append(b.copy())
        return 3.0 * b

    found = ledger.perturbed_minimiser(record, 30_000, release)
    (b,) = seen
    assert accepts(b / 9.0, stats.norm.cdf)
    noise = (found - 3.0 * b) / 2.0
    assert accepts(noise, stats.norm.cdf)
    assert not accepts(noise * 1.1, stats.norm.cdf)
    assert not accepts(b / 9.0 * 1.1, stats.norm.cdf)
    assert abs(np.corrcoef(b, noise)[0, 1]) < 5 / math.sqrt(30_000)
    assert ledger.close().epsilon(1e-6) > 0


def test_a_failing_minimiser_breaks_the_ledger():
    def fails(b):
        raise ZeroDivisionError

    for minimise, error in (
        (fails, ZeroDivisionError),
        (lambda b: b[:-1], ParameterError),
        (lambda b: "nothing", ParameterError),
    ):
        ledger = Ledger([perturbed()], ZERO)
        with pytest.raises(error):
            ledger.perturbed_minimiser(minimise, 3, perturbed())
        with pytest.raises(LedgerError, match="broken"):
            ledger.close()


def test_a_minimiser_cannot_use_the_ledger():
    """Nor wait for ever: its second release is refused, and the run is lost."""
    ledger = Ledger([perturbed(), stable(rows=(0, 5))], ZERO)

    def nested(b):
        return ledger.stable(b, stable(rows=(0, 5)))

    with pytest.raises(LedgerError, match="busy"):
        ledger.perturbed_minimiser(nested, 3, perturbed())
    with pytest.raises(LedgerError, match="broken"):
        ledger.close()


def test_the_size_is_the_planned_dimension():
    release = perturbed(directions="general", dimension=3, rank=3)
    ledger = Ledger([release], ZERO)
    with pytest.raises(ParameterError, match="another size"):
        ledger.perturbed_minimiser(lambda b: b, 4, release)
    with pytest.raises(ParameterError, match="ObjectivePerturbationRelease"):
        ledger.perturbed_minimiser(lambda b: b, 3, stable())
    assert ledger.perturbed_minimiser(lambda b: b, 3, release).shape == (3,)


def test_zero_out_noise_meets_the_largest_m():
    c = log_determinant(0.25, 10.0, 1)
    m = largest_m(lambda m: float(delta_glm(1.0, m, c)), 1e-6)
    assert math.isclose(1 / m, 4.468061, rel_tol=2e-7)
