"""The second computation of a perturbed minimiser's cost: on its own, agreeing or not."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import math

import numpy as np
import pytest
from scipy.special import ndtr

from dpsco.privacy.accounting.composition import cost
from dpsco.privacy.accounting.cross_check import INTEGRATION, cross_check
from dpsco.privacy.budget import Unit
from dpsco.privacy.mechanisms import GaussianRelease, ObjectivePerturbationRelease
from dpsco.privacy.mechanisms.objective_perturbation import check as perturbation_check
from dpsco.privacy.mechanisms.objective_perturbation import release as perturbation_release
from dpsco.privacy.mechanisms.objective_perturbation import zcdp as perturbation_zcdp
from dpsco.privacy.mechanisms.objective_perturbation.check import Check

ROWS = (0, 1000)
SHAPES = {  # directions, span, dimension, rank
    "glm": ("glm", None, None, 1),
    "two classes": ("subspace", 1, None, 1),
    "ten classes": ("subspace", 9, None, 9),
    "narrow": ("general", None, 6, 6),
    "wide": ("general", None, 800, 40),
}


def release(shape="glm", sigma=9.0, floor=10.0, share=2e-3, **change):
    directions, span, dimension, rank = SHAPES[shape]
    output = 2e-9 * sigma / share
    facts = {"span": span, "dimension": dimension, "rows": ROWS, **change}
    return ObjectivePerturbationRelease(
        1.0, sigma, 0.25, floor, rank, directions, 1e-9, output, **facts
    )


def planned(shape, adjacency, epsilon, delta, ridge, rows):
    """A release with about the epsilon asked for; ``ridge`` of it goes to the volume."""
    distance = rows * (2 if adjacency == "replace_one" else 1)
    rank = SHAPES[shape][3]
    sigma = 1.3 * distance * math.sqrt(2 * math.log(1 / delta)) / epsilon
    return release(shape, sigma=sigma, floor=rows * rank * 0.25 / (ridge * epsilon))


ADJACENCIES = ("zero_out", "replace_one")
POINTS = (  # epsilon, delta, ridge, rows of a unit
    (0.1, 1e-6, 0.1, 1),
    (0.3, 1e-5, 0.01, 2),
    (0.5, 1e-3, 0.05, 1),
    (1.0, 1e-6, 0.2, 1),
    (1.0, 1e-6, 0.001, 3),
    (1.0, 1e-10, 0.1, 1),
    (2.0, 1e-5, 0.02, 5),
    (4.0, 1e-9, 0.1, 1),
    (8.0, 1e-6, 0.05, 1),
    (8.0, 1e-6, 0.2, 2),
)
SETTINGS = list(itertools.product(SHAPES, ADJACENCIES, POINTS))


def test_there_are_a_hundred_settings():
    assert len(SETTINGS) == 100


@pytest.mark.thorough
@pytest.mark.parametrize(("shape", "adjacency", "point"), SETTINGS)
def test_two_computations_agree_to_a_percent(shape, adjacency, point):
    epsilon, delta, ridge, rows = point
    record = planned(shape, adjacency, epsilon, delta, ridge, rows)
    spent = cost(record, adjacency=adjacency, unit=Unit(rows))
    first = spent.epsilon(delta)
    assert 0.3 * epsilon < first < 3 * epsilon
    lower, upper = Check(record, adjacency == "replace_one", rows).epsilon(delta)
    assert 0.999 * lower <= first
    assert abs(first / upper - 1) < 0.01
    assert upper < lower * 1.01 + 1e-4
    opinion = cross_check(spent, delta)
    assert (opinion.route, opinion.agrees) == (INTEGRATION, True)
    assert "agrees with" in str(opinion)


@pytest.mark.thorough
@pytest.mark.parametrize("share", [1e-4, 0.03, 0.4, 4.0])
@pytest.mark.parametrize("shape", SHAPES)
def test_they_agree_whatever_the_noise_of_the_output(shape, share):
    record = release(shape, sigma=20.0, floor=500.0 * SHAPES[shape][3], share=share)
    first = cost(record).epsilon(1e-6)
    assert abs(first / Check(record, True).epsilon(1e-6)[1] - 1) < 0.012


@pytest.mark.thorough
@pytest.mark.parametrize("rows", [1, 2])
def test_they_agree_beside_gaussian_releases(rows):
    noisy = GaussianRelease(1.0, 30.0, rows=ROWS, count=3)
    spent = cost([release(), noisy], unit=Unit(rows))
    opinion = cross_check(spent, 1e-6)
    assert opinion.route == INTEGRATION
    assert opinion.agrees
    alone = cross_check(cost(release(), unit=Unit(rows)), 1e-6)
    assert opinion.second > 1.02 * alone.second


@pytest.mark.thorough
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("rows", [1, 3])
def test_two_rhos_agree_to_a_percent(shape, adjacency, rows):
    for sigma, floor in ((3.0, 1e4), (30.0, 1e3), (100.0, 1e6)):
        record = release(shape, sigma=sigma, floor=floor)
        spent = cost(record, adjacency=adjacency, unit=Unit(rows))
        second = Check(record, adjacency == "replace_one", rows).rho
        assert abs(spent.rho / second - 1) < 0.01


# --- it stands on its own -------------------------------------------------------------------------


def test_nothing_is_shared_with_the_first_computation():
    tree = ast.parse(inspect.getsource(perturbation_check))
    imported = {
        node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level
    }
    assert imported == {"lattice", "release", "kernels.pairwise"}  # a constant, the record's type
    assert "scipy" not in inspect.getsource(perturbation_check)


def test_one_direction_against_a_closed_form():
    """2 (Phi(-x) - e^e Phi(-x - m)) with e = epsilon - c, x = e/m - m/2, to the grid's width."""
    record = release(sigma=5.0, floor=10.0, share=1e-9)
    m, c = 0.2, math.log1p(0.025)
    for delta in (1e-4, 1e-7):
        lower, upper = Check(record, False).epsilon(delta)

        def exact(epsilon, m=m, c=c):
            x = (epsilon - c) / m - m / 2
            return 2 * (ndtr(-x) - math.exp(epsilon - c) * ndtr(-x - m))

        assert exact(lower) >= delta >= exact(upper)


@pytest.mark.thorough
def test_two_directions_by_simulation():
    """4e6 draws of the larger part at a few angles: no epsilon from below, false alarm 1e-6."""
    record = release(sigma=6.0, floor=1e4, share=1e-9)
    m, c, delta = 2 / 6.0, math.log1p(0.25e-4), 2e-3
    _, upper = Check(record, True).epsilon(delta)
    normal = np.abs(np.random.default_rng(5).normal(size=(2, 4_000_000)))
    most = 0.0
    for t in (0.0, 0.2, 0.5, math.pi / 4):
        parts = m * np.array([math.cos(t), math.sin(t)])[:, None]
        loss = c + np.max(0.5 * parts**2 + parts * normal, axis=0)
        gain = np.maximum(-np.expm1(upper - loss), 0.0)
        assert gain.mean() <= delta + 5 * gain.std() / math.sqrt(gain.size)
        most = max(most, gain.mean())
    assert most > 0.9 * delta


def test_an_average_of_lengths_by_its_worst_coupling():
    """Three rows' parts that are at their tail's mean together: the law that the bound is for."""
    record = release("ten classes", sigma=40.0, floor=1e4, share=1e-9)
    m, c, delta = 3 / 40.0, 27 * math.log1p(0.25e-4), 1e-3
    lower, upper = Check(record, False, 3).epsilon(delta)
    lengths = np.sort(np.sqrt(np.random.default_rng(8).chisquare(9, size=2_000_000)))
    means = np.cumsum(lengths[::-1]) / np.arange(1, lengths.size + 1)  # of each upper tail
    shares = np.arange(1, lengths.size + 1) / lengths.size
    for epsilon, above in ((lower, True), (upper, False)):
        gains = shares * -np.expm1(np.minimum(epsilon - c - m * m / 2 - m * means, 0.0))
        assert gains.max() > 0.97 * delta
        assert above or gains.max() < 1.03 * delta


# --- a wrong first number is found ----------------------------------------------------------------


def _half_the_distance(loss):
    return dataclasses.replace(loss, m=loss.m / 2)


def _no_volume(loss):
    return dataclasses.replace(loss, curvature=0.0)


def _one_row(loss):
    return dataclasses.replace(loss, rows=1)


def _fewer_dimensions(loss):
    return dataclasses.replace(loss, dimensions=1, span=1)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("shape", "rows", "mistake"),
    [
        ("glm", 1, _half_the_distance),
        ("glm", 1, _no_volume),
        ("glm", 3, _one_row),
        ("ten classes", 1, _fewer_dimensions),
        ("narrow", 1, _no_volume),
        ("wide", 1, _half_the_distance),
    ],
)
def test_a_planted_mistake_is_contradicted(shape, rows, mistake, monkeypatch):
    record = release(shape, sigma=20.0 * rows, floor=10.0 * SHAPES[shape][3])
    build = perturbation_release.Loss
    monkeypatch.setattr(perturbation_release, "Loss", lambda **facts: mistake(build(**facts)))
    opinion = cross_check(cost(record, unit=Unit(rows)), 1e-6)
    assert not opinion.agrees
    assert "contradicts" in str(opinion)


def test_a_wrong_rho_is_contradicted(monkeypatch):
    monkeypatch.setattr(perturbation_zcdp, "rho", lambda m, c, s: 0.45 * m * m)
    opinion = cross_check(cost(release(floor=1e3)), 1e-6)
    assert not opinion.agrees


@pytest.mark.parametrize("apart", [False, True])
def test_several_minimisers_are_not_covered(apart):
    """They compose by Renyi divergences, or as a group; what is said is an upper bound."""
    pytest.importorskip("dp_accounting")
    spent = cost(release(count=2))
    if apart:  # a unit's rows may be touched by one or by the other
        spent = cost([release(), release(rows=(1000, 2000))], unit=Unit(2))
    opinion = cross_check(spent, 1e-6)
    assert (opinion.route, opinion.sharp, opinion.agrees) == ("RDP", False, True)
    assert "looser upper bound" in str(opinion)
