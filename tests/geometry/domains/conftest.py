"""One example of every domain in every dimension, each with an independent sampler of members."""

import math
from dataclasses import dataclass

import numpy as np
import pytest

from dpsco.geometry.domains import (
    Box,
    Domain,
    Ellipsoid,
    Intersection,
    L1Ball,
    L2Ball,
    LInfBall,
    LpBall,
    Polytope,
    Simplex,
)


@dataclass
class Example:
    """A domain and its members, drawn without asking the domain itself."""

    domain: Domain
    members: np.ndarray


def in_lp_ball(rng, p, radius, centre, count):
    d = len(centre)
    rows = rng.standard_normal((count, d)) * rng.random((count, d)) ** rng.choice([0.0, 3.0, 30.0])
    rows /= np.max(np.abs(rows), axis=1, keepdims=True)
    sizes = np.linalg.norm(rows, ord=p, axis=1, keepdims=True)
    shares = rng.random((count, 1)) ** rng.choice([0.0, 0.1, 1.0])
    return centre + radius * shares * rows / sizes


def dirichlet(rng, shape):
    weights = rng.standard_exponential(shape) ** rng.choice([1.0, 4.0])
    return weights / weights.sum(axis=1, keepdims=True)


def lp_ball(p, moved):
    def build(d, rng, count):
        radius = 10.0 ** rng.uniform(-2, 2)
        centre = rng.standard_normal(d) * radius if moved else None
        place = np.zeros(d) if centre is None else centre
        domain = LpBall(p, radius, centre)
        return Example(domain, in_lp_ball(rng, p, radius, place, count))

    return build


def named(kind, p):
    def build(d, rng, count):
        return Example(kind(0.7), in_lp_ball(rng, p, 0.7, np.zeros(d), count))

    return build


def simplex(d, rng, count):
    return Example(Simplex(2.5), 2.5 * dirichlet(rng, (count, d)))


def box(d, rng, count):
    low = rng.standard_normal(d)
    high = low + rng.random(d) + 0.01
    return Example(Box(low, high), np.clip(low + (high - low) * rng.random((count, d)), low, high))


def aligned(d, rng, count):
    axes, centre = np.exp(rng.standard_normal(d)), rng.standard_normal(d)
    members = centre + axes * in_lp_ball(rng, 2, 1.0, np.zeros(d), count)
    return Example(Ellipsoid(axes, centre=centre), members)


def rotated(d, rng, count):
    root = rng.standard_normal((d, d)) / math.sqrt(d) + 0.3 * np.eye(d)
    matrix = root @ root.T + 1e-3 * np.eye(d)
    centre = rng.standard_normal(d)
    factor = np.linalg.cholesky(matrix)
    members = centre + in_lp_ball(rng, 2, 1.0, np.zeros(d), count) @ factor.T
    return Example(Ellipsoid(matrix=(matrix + matrix.T) / 2, centre=centre), members)


def polytope(d, rng, count):
    many = min(2 * d + 2, 25)
    vertices = rng.standard_normal((many, d)) + rng.standard_normal(d)
    vertices = np.concatenate([vertices, vertices[:1]])  # a repeated one
    return Example(Polytope(vertices), dirichlet(rng, (count, many + 1)) @ vertices)


def meeting(kind):
    """The intersection of another example with a ball about one of its members."""

    def build(d, rng, count):
        part = kind(d, rng, count + 1)
        middle = part.members[0] + 1e-3
        radius = 0.5 * float(np.median(np.linalg.norm(part.members - middle, axis=1))) + 0.2
        # Drawn towards the member that the ball is about, until they are in the ball.
        offsets = part.members[1:] - part.members[0]
        lengths = np.linalg.norm(offsets, axis=1, keepdims=True) + 1e-300
        slip = np.linalg.norm(middle - part.members[0])
        if slip >= radius:
            radius = 2.0 * slip
        members = part.members[0] + offsets * np.minimum(1.0, (radius - slip) / lengths)
        return Example(Intersection(part.domain, L2Ball(radius, middle)), members)

    return build


BUILDERS = {
    **{f"l{p} ball": lp_ball(p, False) for p in (1, 1.05, 1.5, 2, 3, 10, np.inf)},
    **{f"l{p} ball moved": lp_ball(p, True) for p in (1, 1.01, 2, 4, 100, np.inf)},
    "L1Ball": named(L1Ball, 1),
    "L2Ball": named(L2Ball, 2),
    "LInfBall": named(LInfBall, np.inf),
    "simplex": simplex,
    "box": box,
    "ellipsoid, axes": aligned,
    "ellipsoid, matrix": rotated,
    "polytope": polytope,
    "box and ball": meeting(box),
    "l1 ball and ball": meeting(lp_ball(1, True)),
    "simplex and ball": meeting(simplex),
    "ellipsoid and ball": meeting(aligned),
}


@pytest.fixture(params=BUILDERS, ids=str)
def build(request):
    """Build the example: ``build(d, seed, count=20)``."""

    def make(d, seed, count=20):
        return BUILDERS[request.param](d, np.random.default_rng(seed), count)

    make.kind = request.param
    return make


@pytest.fixture
def builders():
    """All of them, by name."""
    return BUILDERS
