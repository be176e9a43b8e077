"""Projections and linear minimisers against a conic solver."""

import warnings

import cvxpy as cp
import numpy as np
import pytest

from dpsco.geometry.domains import (
    Box,
    Ellipsoid,
    Intersection,
    L1Ball,
    L2Ball,
    LInfBall,
    LpBall,
    Polytope,
    Simplex,
)


def hull(vertices, w):
    weights = cp.Variable(len(vertices), nonneg=True)
    return [w == vertices.T @ weights, cp.sum(weights) == 1.0]


def cases(d, rng):
    """Yield (name, domain, constraints on a variable)."""
    c, axes = rng.standard_normal(d), np.exp(rng.standard_normal(d))
    low, high = c - rng.random(d) - 0.1, c + rng.random(d) + 0.1
    root = rng.standard_normal((d, d)) + np.eye(d)
    matrix = root @ root.T
    inverse = np.linalg.inv(np.linalg.cholesky(matrix))
    vertices = rng.standard_normal((2 * d + 1, d))
    middle = vertices[0] * 0.9 + vertices[1] * 0.1
    yield "l1", L1Ball(1.3, c), lambda w: [cp.norm1(w - c) <= 1.3]
    yield "l2", L2Ball(1.3, c), lambda w: [cp.norm2(w - c) <= 1.3]
    yield "linf", LInfBall(1.3, c), lambda w: [cp.norm_inf(w - c) <= 1.3]
    for p in (1.5, 3, 7):
        yield f"l{p}", LpBall(p, 1.3, c), lambda w, p=p: [cp.pnorm(w - c, p) <= 1.3]
    yield "simplex", Simplex(2.0), lambda w: [w >= 0.0, cp.sum(w) == 2.0]
    yield "box", Box(low, high), lambda w: [w >= low, w <= high]
    yield "axes", Ellipsoid(axes, centre=c), lambda w: [cp.norm2(cp.multiply(1 / axes, w - c)) <= 1]
    yield "matrix", Ellipsoid(matrix=matrix), lambda w: [cp.norm2(inverse @ w) <= 1.0]
    yield "polytope", Polytope(vertices), lambda w: hull(vertices, w)
    yield (
        "box and ball",
        Intersection(Box(low, high), L2Ball(0.4, low + 0.05)),
        lambda w: [w >= low, w <= high, cp.norm2(w - low - 0.05) <= 0.4],
    )
    yield (
        "l1 and ball",
        Intersection(L1Ball(1.0), L2Ball(0.8, 0.3 * c / np.linalg.norm(c))),
        lambda w: [cp.norm1(w) <= 1.0, cp.norm2(w - 0.3 * c / np.linalg.norm(c)) <= 0.8],
    )
    yield (
        "polytope and ball",
        Intersection(Polytope(vertices), L2Ball(0.8, middle)),
        lambda w: [*hull(vertices, w), cp.norm2(w - middle) <= 0.8],
    )


def solved(objective, constraints):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "may be inaccurate": the tolerance below is ours
        problem = cp.Problem(cp.Minimize(objective), constraints)
        problem.solve(solver="CLARABEL")
    assert problem.status in ("optimal", "optimal_inaccurate")
    return problem.value


@pytest.mark.thorough
@pytest.mark.parametrize("d", [1, 2, 6, 40])
def test_projection_and_minimiser(d):
    rng = np.random.default_rng(d)
    for name, domain, constraints in cases(d, rng):
        w = cp.Variable(d)
        x, g = 2.0 * rng.standard_normal(d), rng.standard_normal(d)
        P = domain.project(x)
        distance = solved(cp.norm2(w - x), constraints(w))
        assert np.linalg.norm(P - x) == pytest.approx(distance, rel=1e-6, abs=1e-7), name
        solved(cp.sum_squares(w - x), constraints(w))
        # A distance that is right to e leaves the point free to about sqrt(e).
        assert np.linalg.norm(P - w.value) <= 2e-3 * (1.0 + distance), name
        least = solved(g @ w, constraints(w))
        assert g @ domain.minimise(g) == pytest.approx(least, rel=1e-5, abs=1e-6), name


@pytest.mark.parametrize("d", [2, 5])
def test_gauge_of_a_polytope(d):
    rng = np.random.default_rng(d)
    vertices = rng.standard_normal((3 * d, d))
    centre = vertices.mean(axis=0)
    x = 2.0 * rng.standard_normal(d)
    weights = cp.Variable(3 * d, nonneg=True)
    least = solved(cp.sum(weights), [(vertices - centre).T @ weights == x - centre])
    assert float(Polytope(vertices).minkowski(x)) == pytest.approx(least, rel=1e-6)
