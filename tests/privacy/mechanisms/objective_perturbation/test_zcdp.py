"""Several rows at once, zCDP of a loss with two sides, and K - 1 directions: exact densities."""

from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import logsumexp
from scipy.stats import chi, norm

from dpsco.losses import Softmax
from dpsco.privacy.accounting.calibration import calibrate
from dpsco.privacy.accounting.composition import compose, cost
from dpsco.privacy.budget import ZCDP, ApproxDP, Unit
from dpsco.privacy.mechanisms import (
    GaussianRelease,
    ObjectivePerturbationRelease,
    PoissonGaussianRelease,
)
from dpsco.privacy.mechanisms.objective_perturbation import zcdp as perturbation_zcdp
from dpsco.privacy.mechanisms.objective_perturbation.chi_law import chi_law
from dpsco.privacy.mechanisms.objective_perturbation.loss import (
    delta_average,
    delta_chi,
    delta_glm,
    log_determinant,
)


def release(sigma, floor, **change):
    facts = {"curvature": 1.0, "rank": 1, "directions": "glm", "distance": 1e-12,
             "output_sigma": 1e-3, "rows": (0, 50), **change}  # fmt: skip
    return ObjectivePerturbationRelease(1.0, sigma, floor=floor, **facts)


# --- expectations over chi ------------------------------------------------------------------------


@pytest.mark.parametrize("s", [1, 2, 7, 150, 4000])
def test_excesses_are_expectations(s):
    law = chi_law(s)
    for start in (-1.0, 0.0, math.sqrt(s) - 2.003, math.sqrt(s) + 0.37, math.sqrt(s) + 4.1):
        knots = [math.sqrt(s) + shift for shift in (-8, -3, 0, 2, 4, 6, 9, 14)]
        knots = [max(start, 0.0), *[knot for knot in knots if knot > max(start, 0.0)]]
        exact = sum(
            quad(lambda r, x=start: (r - x) * chi.pdf(r, s), a, b, epsabs=0)[0]
            for a, b in itertools.pairwise(knots)
        )
        found = float(law.mean_excess(np.array(start)))
        assert exact * (1 - 1e-9) <= found <= exact * (1 + 2e-3)


def test_convex_functions_are_rounded_up():
    for s, cells in ((1, 16), (9, 64)):
        law = chi_law(s, cells)
        for h in (np.square, lambda r: np.exp(0.7 * r), lambda r: np.abs(r - 1.234)):
            exact = quad(lambda r, h=h, s=s: h(r) * chi.pdf(r, s), 0, 20, points=[1.234])[0]
            assert exact <= float(law.weights @ h(law.edges)) <= exact * (1 + 2e-3)


@pytest.mark.thorough
@pytest.mark.parametrize("s", [1, 2, 9, 60])
def test_moments_of_chi(s):
    slopes = np.array([1e-4, 0.3, 4.0, 60.0, 1e6])
    found = perturbation_zcdp.log_moment_chi(slopes, s)
    for slope, value in zip(slopes[:4], found, strict=False):
        with mpmath.workdps(25):
            top = (slope + math.sqrt(slope**2 + 4 * s)) / 2
            knots = [max(0.0, top + 4 * i) for i in range(-4, 5)]
            moment = mpmath.quad(
                lambda r, slope=slope: mpmath.e ** (slope * r - r * r / 2) * r ** (s - 1),
                sorted(set(knots)),
            )
            norm_ = mpmath.mpf(2) ** (mpmath.mpf(s) / 2 - 1) * mpmath.gamma(mpmath.mpf(s) / 2)
            exact = float(mpmath.log(moment / norm_))
        assert exact * (1 - 1e-9) <= value <= exact * (1 + 1e-6) + 1e-8
    assert found[4] <= 0.5e12 + 1e6 * perturbation_zcdp.mean_chi(s)


# --- averages -------------------------------------------------------------------------------------


@given(st.floats(-0.2, 3.0), st.floats(0.02, 3.0), st.integers(1, 12))
@settings(max_examples=60, deadline=None)
def test_an_average_costs_at_least_one_of_its_parts(epsilon, m, s):
    one = float(delta_chi(epsilon, m, 0.1, s))
    found = float(delta_average(epsilon, m, 0.1, s))
    assert one * (1 - 1e-6) - 1e-12 <= found <= min(1.0, math.e * one * 1.05 + 1e-9) or one > 0.1


def test_little_is_lost_where_the_distance_is_small():
    one = float(delta_glm(1.0, 0.2, 0.05))
    assert one < float(delta_average(1.0, 0.2, 0.05, 1)) < 1.05 * one


def test_averages_of_dependent_lengths_by_simulation():
    """Alike, independent, opposed, and mixed lengths; 5 standard errors."""
    rng = np.random.default_rng(1)
    u = rng.normal(size=(3, 400_000))
    mixed = (u[0] + u[1:]) / math.sqrt(2)
    couplings = (u[:1], u, np.abs(norm.ppf(0.5 + 0.5 * (2 * norm.cdf(np.abs(u)) - 1))), mixed)
    for epsilon, m in ((0.3, 0.3), (1.0, 0.7), (0.05, 0.2)):
        bound = float(delta_average(epsilon, m, 0.0, 1))
        for each in couplings:
            loss = m * m / 2 + m * np.mean(np.abs(each), axis=0)
            gain = np.maximum(-np.expm1(epsilon - loss), 0.0)
            assert gain.mean() - 5 * gain.std() / math.sqrt(gain.size) <= bound


# --- densities in one and two dimensions ----------------------------------------------------------


def clipped(start):
    """Gradient from -1 to 1 with slope 1 from ``start`` on, and its derivative."""
    return (
        lambda v: np.clip(v - start - 1.0, -1.0, 1.0),
        lambda v: ((v > start) & (v < start + 2.0)).astype(float),
    )


def log_densities(tables, points, sigma, floor):
    """log density at each point (d, N) of the minimiser of each table, rows (direction, loss)."""
    d = len(points)
    found = []
    for rows in tables:
        slope = floor * points
        bend = floor * np.eye(d)[:, :, None] * np.ones(points.shape[1])
        for direction, (gradient, curvature) in rows:
            x = np.asarray(direction, dtype=float)[:, None]
            along = (x * points).sum(axis=0)
            slope = slope + x * gradient(along)
            bend = bend + x[:, None] * x[None] * curvature(along)
        volume = np.linalg.slogdet(np.moveaxis(bend, 2, 0))[1]
        found.append(volume - 0.5 * (slope**2).sum(axis=0) / sigma**2 - d * math.log(sigma))
    return [each - 0.5 * d * math.log(2 * math.pi) for each in found]


def grid(d, sigma, floor, count):
    axis = np.linspace(-1, 1, count) * (9 * sigma + 3) / floor
    points = np.array(np.meshgrid(*[axis] * d)).reshape(d, -1)
    return points, (axis[1] - axis[0]) ** d


def check_bounds(tables, *, d, sigma, floor, spent, count):
    """Hockey sticks and Renyi divergences, both ways, stay below what is certified."""
    points, cell = grid(d, sigma, floor, count)
    logs = log_densities(tables, points, sigma, floor)
    closest = 0.0
    for p, q in (logs, logs[::-1]):
        assert math.isclose(float(np.exp(p).sum() * cell), 1.0, rel_tol=2e-3)
        for epsilon in (0.0, 0.1, 0.5, 1.0, 2.0):
            stick = float(np.maximum(np.exp(p) - np.exp(epsilon + q), 0.0).sum() * cell)
            assert stick <= spent.delta(epsilon) * (1 + 1e-6) + 1e-4 / count
        for order in (1.01, 1.5, 2.0, 4.0, 10.0, 40.0):
            moment = float(np.exp(order * p - (order - 1) * q).sum() * cell)
            divergence = math.log(moment) / (order - 1)
            assert divergence <= spent.rho * order * (1 + 1e-3) + 1e-3
            closest = max(closest, divergence / (spent.rho * order))
    return closest


@pytest.mark.thorough
@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_several_rows_in_one_dimension(k, seed):
    """Rows of any sign appear, or are replaced; atoms of curvature where they hurt most."""
    rng = np.random.default_rng(seed)
    sigma, floor = float(rng.uniform(3, 12)), float(rng.uniform(2, 40))

    def rows(count):
        return [
            ([rng.choice([-1, 1])], clipped(rng.normal() * sigma / floor)) for _ in range(count)
        ]

    common = rows(2)
    for adjacency, tables in (
        ("zero_out", (common, common + rows(k))),
        ("replace_one", (common + rows(k), common + rows(k))),
    ):
        spent = cost(release(sigma, floor), adjacency=adjacency, unit=Unit(k))
        check_bounds(tables, d=1, sigma=sigma, floor=floor, spent=spent, count=100_001)


def test_rows_that_point_the_same_way_reach_the_bound():
    """k constant gradients of one sign are a Gaussian release of k times the distance."""
    flat = (lambda v: np.ones_like(v), np.zeros_like)
    for k in (1, 3):
        spent = cost(release(5.0, 1e4), adjacency="zero_out", unit=Unit(k))
        tables = ([([1.0], flat)] * k, [])
        closest = check_bounds(tables, d=1, sigma=5.0, floor=1e4, spent=spent, count=20_001)
        assert closest > 0.6


@pytest.mark.thorough
@pytest.mark.parametrize("angle", [0.0, 0.4, 1.57])
def test_two_rows_in_two_dimensions(angle):
    sigma, floor = 4.0, 3.0
    pair = [([1.0, 0.0], clipped(-1.0)), ([math.cos(angle), math.sin(angle)], clipped(-0.7))]
    spent = cost(release(sigma, floor), adjacency="zero_out", unit=Unit(2))
    check_bounds(([], pair), d=2, sigma=sigma, floor=floor, spent=spent, count=801)
    spent = cost(release(sigma, floor))  # one of them instead of the other
    check_bounds(([pair[0]], [pair[1]]), d=2, sigma=sigma, floor=floor, spent=spent, count=801)


# --- softmax --------------------------------------------------------------------------------------


def softmax_parts(weights, x, label, classes):
    """Gradient and Hessian of one row at weights (d * classes,), from the loss's own functions."""
    loss = Softmax(classes)
    row = np.array([x])
    gradient = loss.gradients(weights, row, [float(label)])[0]
    hessian = np.column_stack([loss.hessian_product(weights, row, e) for e in np.eye(len(weights))])
    return gradient, hessian


@pytest.mark.parametrize("classes", [2, 3, 6])
def test_moving_all_classes_alike_costs_nothing(classes):
    """The loss sees b in the span of the rows alone: K - 1 dimensions each, an intercept included.

    b is moved along everything else, at the same weights: the ratio of densities stays.
    """
    rng = np.random.default_rng(classes)
    x, other = (np.append(rng.normal(size=2), 1.0) for _ in range(2))
    floor, sigma = 0.7, 2.0
    for _ in range(20):
        weights = rng.normal(size=3 * classes)
        gradient, hessian = softmax_parts(weights, x, 0, classes)
        instead, bent = softmax_parts(weights, other, classes - 1, classes)
        even = np.outer(rng.normal(size=3), np.ones(classes)).ravel()
        assert abs(gradient @ even) < 1e-12
        assert np.abs(hessian @ even).max() < 1e-12
        assert np.linalg.matrix_rank(hessian, tol=1e-9) == classes - 1
        base = floor * np.eye(len(weights))
        volume = np.linalg.slogdet(base + hessian)[1] - np.linalg.slogdet(base + bent)[1]
        bend = np.linalg.eigvalsh(hessian).max()
        assert abs(volume) <= log_determinant(bend, floor, classes - 1) + 1e-9 or volume < 0
        difference = instead - gradient
        b = rng.normal(size=len(weights)) * sigma
        losses = [
            volume + (difference @ difference - 2 * tilt @ difference) / (2 * sigma**2)
            for tilt in (b, b + even)
        ]
        assert math.isclose(*losses, abs_tol=1e-10)


def test_three_classes_on_a_grid():
    """One feature, three classes: the two dimensions that matter, integrated."""
    sigma, floor, classes = 3.0, 2.0, 3
    basis = np.linalg.qr(np.column_stack([np.ones(3), np.eye(3)[:, :2]]))[0][:, 1:]
    points, cell = grid(2, sigma, floor, 601)
    weights = basis @ points
    p = np.exp(weights - weights.max(axis=0))
    p /= p.sum(axis=0)
    inside = np.einsum("ia,in,ib->nab", basis, p, basis)
    mean = basis.T @ p
    bend = inside - np.einsum("an,bn->nab", mean, mean)
    slope = basis.T @ (p - np.array([[1.0], [0.0], [0.0]]))
    empty = -0.5 * (floor**2 * (points**2).sum(axis=0)) / sigma**2 + 2 * math.log(floor / sigma)
    full = -0.5 * ((floor * points + slope) ** 2).sum(axis=0) / sigma**2 - 2 * math.log(sigma)
    full += np.linalg.slogdet(bend + floor * np.eye(2))[1]
    constants = Softmax(classes).constants(feature=1.0)
    record = ObjectivePerturbationRelease(
        constants.lipschitz, sigma, constants.smoothness, floor, 2, "subspace", 1e-12, 1e-3,
        Softmax(classes).structure.zero_out, rows=(0, 9),
    )  # fmt: skip
    spent = cost(record, adjacency="zero_out")
    for p_, q in ((full, empty), (empty, full)):
        one, two = (np.exp(each) / (2 * math.pi) * cell for each in (p_, q))
        assert math.isclose(one.sum(), 1.0, rel_tol=1e-3)
        for epsilon in (0.0, 0.2, 0.6, 1.2):
            assert np.maximum(one - math.exp(epsilon) * two, 0.0).sum() <= spent.delta(epsilon)
        divergence = float((one * (p_ - q)).sum())
        assert 0 < divergence <= spent.rho


# --- zCDP of a loss with two sides ----------------------------------------------------------------


def test_a_bounded_loss_costs_what_a_coin_does():
    """Without a slope the worst law is randomised response: R(1) = c tanh(c/2)."""
    for c in (0.01, 0.3, 2.0):
        known = c * math.tanh(c / 2)
        assert known <= perturbation_zcdp.rho(1e-12, c, 1) <= known * 1.002


@pytest.mark.parametrize(
    ("m", "c", "s", "known"),
    [
        (0.2, 0.04, 1, 0.03196),
        (0.5, 0.1, 1, 0.24156),
        (0.5, 0.1, 9, 1.28997),
        (0.01, 0, 1, 6.453e-5),
    ],
)
def test_known_rhos(m, c, s, known):
    assert math.isclose(perturbation_zcdp.rho(m, c, s), known, rel_tol=3e-4)


@given(st.floats(1e-3, 2.0), st.floats(0.0, 1.0), st.integers(1, 5), st.floats(1.001, 60.0))
@settings(max_examples=40, deadline=None)
def test_no_law_between_the_ends_exceeds_rho(m, c, s, order):
    """Losses at one end or the other by a threshold on x, tuned until E e^-L = 1."""
    x = np.linspace(1e-6, math.sqrt(s) + m * order + 9, 6001)
    mass = chi.pdf(x, s)
    mass /= mass.sum()
    up, down = c + m * m / 2 + m * x, c + m * x
    for near in (True, False):  # the lower end for small x, or for large x
        order_ = np.arange(len(x)) if near else np.arange(len(x))[::-1]
        gain = (mass * (np.exp(down) - np.exp(-up)))[order_]
        short = -float(mass @ np.expm1(-up)) - (np.cumsum(gain) - gain)
        share = np.empty_like(x)
        share[order_] = np.clip(short / np.maximum(gain, 1e-300), 0.0, 1.0)
        t = order - 1
        log_up, log_down = t * up, -t * down
        with np.errstate(divide="ignore"):
            terms = np.log(np.concatenate([(1 - share) * mass, share * mass]))
        found = logsumexp(terms + np.concatenate([log_up, log_down])) / t
        assert found <= perturbation_zcdp.rho(m, c, s) * order * (1 + 1e-3) + 1e-9


# --- budgets --------------------------------------------------------------------------------------


def calibrated(budget, floor=100.0, **change):
    return calibrate(lambda s: release(s, floor, curvature=0.25, **change), budget, tolerance=1e-4)


def test_noise_of_zcdp_and_of_several_rows():
    """Before: 5.11, 32.1 and none; 9.18, 41.1, 291 (floor 10 and 100), group privacy of a row."""
    assert math.isclose(calibrated(ZCDP(0.2, adjacency="zero_out"), 10.0), 1.981, rel_tol=2e-3)
    assert math.isclose(calibrated(ZCDP(0.2), 100.0), 3.855, rel_tol=2e-3)
    assert math.isclose(
        calibrated(ZCDP(0.2, adjacency="zero_out", unit=Unit(3))), 5.412, rel_tol=2e-3
    )
    assert math.isclose(calibrated(ZCDP(0.2, unit=Unit(5))), 18.16, rel_tol=2e-3)
    ten = ApproxDP(8.0, 1e-6, unit=Unit(10))
    assert math.isclose(calibrated(ten), 13.45, rel_tol=2e-3)  # 14.30 by group privacy


@pytest.mark.parametrize("adjacency", ["zero_out", "replace_one"])
def test_more_rows_cost_more_and_never_more_than_a_group(adjacency):
    record = release(30.0, 100.0, curvature=0.25)
    single = cost(record, adjacency=adjacency)
    epsilons, rhos = [single.epsilon(1e-6)], [single.rho]
    for k in (2, 3, 6):
        unit = cost(record, adjacency=adjacency, unit=Unit(k))
        epsilons.append(unit.epsilon(1e-6))
        rhos.append(unit.rho)
        assert unit.rho <= k * k * single.rho
    assert np.all(np.diff(epsilons) > 0)
    assert np.all(np.diff(rhos) > 0)


def test_a_unit_beside_other_releases():
    """The others are charged as a group; what has no zCDP leaves the group's bound alone."""
    record, noisy = release(30.0, 100.0), GaussianRelease(1.0, 30.0, rows=(0, 50))
    unit = Unit(3)
    both = cost([record, noisy], unit=unit)
    assert both.rho >= cost(record, unit=unit).rho + 9 * cost(noisy).rho * (1 - 1e-9)
    assert both.rho < 9 * cost([record, noisy]).rho
    assert both.epsilon(1e-6) > cost(record, unit=unit).epsilon(1e-6)
    several = compose([cost(record), cost(noisy)], unit=unit)
    assert math.isclose(several.rho, both.rho, rel_tol=1e-9)
    # Equal releases on other rows: a unit may have two rows here and one there.
    apart = cost([record, release(30.0, 100.0, rows=(50, 100))], unit=unit)
    assert math.isclose(apart.rho, 9 * cost(record).rho, rel_tol=1e-9)
    assert apart.epsilon(1e-6) > cost(record, unit=unit).epsilon(1e-6)
    assert compose([apart, cost(noisy)], unit=unit).rho >= 9 * (cost(record).rho + cost(noisy).rho)
    sampled = PoissonGaussianRelease(1.0, 30.0, 0.1, rows=(0, 50))
    assert cost([record, sampled], unit=unit, adjacency="zero_out").rho is None
