"""Frank-Wolfe on published instances: B (convex, l1 ball), C (sigmoid, l1 ball), D (sigmoid, l2).

C and D measure the Frank-Wolfe gap on fresh rows. On C a gap says little by itself, since a single
vertex has a tiny one: the loss is measured beside it. Bands hold earlier measurements with room for
three standard errors.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np

import dpsco as dp
from dpsco.geometry import LINF

from .experiment import Experiment, Instance

BUDGET = dp.ApproxDP(1.0, 1e-6)
FRESH = 20_000  # rows on which populations are judged
TRUTH_D = np.arange(1, 11) ** -0.5 / np.linalg.norm(np.arange(1, 11) ** -0.5)
WEIGHTS_D = (-1.0) ** np.arange(10) / TRUTH_D

Rows = tuple[np.ndarray, np.ndarray]


def instance_b(d: int = 100) -> Instance:
    """Absolute regression on signs, three active columns, the l1 unit ball; excess risk."""
    truth = np.zeros(d)
    truth[:3] = 0.5, -0.3, 0.2

    def draw(rng: np.random.Generator, n: int) -> Rows:
        X = rng.choice([-1.0, 1.0], (n, d))
        return X, X @ truth + 0.1 * rng.standard_normal(n)

    X, y = draw(np.random.default_rng(7), FRESH)
    least = float(np.abs(X @ truth - y).mean())

    def excess(weights: np.ndarray) -> float:
        return float(np.abs(X @ weights - y).mean()) - least

    problem = dp.Problem(
        loss=dp.losses.Absolute(),
        bounds=dp.Bounds(1.0, label=2.0, norm=LINF),
        domain=dp.domains.L1Ball(1.0),
    )
    return Instance("B", problem, draw, excess, excess(np.zeros(d)))


def sigmoid_facts(X: np.ndarray, y: np.ndarray, weights: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the mean sigmoid loss and its gradient."""
    value = 1.0 / (1.0 + np.exp(y * (X @ weights)))
    return float(value.mean()), -(X * (y * value * (1.0 - value))[:, None]).mean(axis=0)


def _judged(
    name: str,
    problem: dp.Problem,
    draw: Callable[[np.random.Generator, int], Rows],
    d: int,
    *,
    loss: bool = False,
) -> Instance:
    """Return an instance whose excess is the Frank-Wolfe gap, or the loss itself."""
    X, y = draw(np.random.default_rng(7), FRESH)

    def excess(weights: np.ndarray) -> float:
        value, gradient = sigmoid_facts(X, y, weights)
        return value if loss else gap(problem, weights, gradient)

    return Instance(name, problem, draw, excess, excess(np.zeros(d)))


def gap(problem: dp.Problem, weights: np.ndarray, gradient: np.ndarray) -> float:
    """Return max <gradient, w - v> over members v of the domain."""
    return float(gradient @ weights + problem.domain.support(-gradient))


def instance_c(*, loss: bool = False, norm: dp.geometry.Norm = LINF) -> Instance:
    """The sign of the sum of five of fifty signs, a tenth flipped; an l1 ball of radius 3."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        X = rng.choice([-1.0, 1.0], (n, 50))
        return X, np.sign(X[:, :5].sum(axis=1)) * np.where(rng.random(n) < 0.1, -1.0, 1.0)

    bound = 1.0 if norm == LINF else math.sqrt(50.0)
    problem = dp.Problem(
        loss=dp.losses.Sigmoid(),
        bounds=dp.Bounds(bound, label="sign", norm=norm),
        domain=dp.domains.L1Ball(3.0),
    )
    return _judged("C", problem, draw, 50, loss=loss)


def instance_d(*, loss: bool = False) -> Instance:
    """Ten columns of different scales, the l2 ball of radius 5."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        X = rng.choice([-1.0, 1.0], (n, 10)) * TRUTH_D
        return X, np.sign(X @ WEIGHTS_D + 0.3 * rng.standard_normal(n))

    problem = dp.Problem(
        loss=dp.losses.Sigmoid(),
        bounds=dp.Bounds(1.0, label="sign"),
        domain=dp.domains.L2Ball(5.0),
    )
    return _judged("D", problem, draw, 10, loss=loss)


class EveryPoint(Experiment):
    """The mean over the points of a run: each repeat returns another one, spread over its rounds.

    So it measures what a random point has, with less noise than drawing it.
    """

    def runs(self, n: int) -> list[float]:
        """Return the excess of points from the first to the last but one."""
        instance, excesses = self.instance, []
        d = instance.draw(np.random.default_rng(0), 1)[0].shape[1]
        plan = dp.plan(
            instance.problem, n=n, d=d, budget=self.budget, solver=self.solver, options=self.options
        )
        for repeat in range(self.repeats):
            rng = np.random.default_rng([self.seed, n, repeat])
            chosen = (2 * repeat + 1) * plan.total_rounds // (2 * self.repeats)
            seeded = dp.Randomness.seeded(int(rng.integers(1 << 60)))
            plan = dataclasses.replace(plan, output="random", chosen=chosen)
            result = dp.run(plan, instance.draw(rng, n), randomness=seeded)
            excesses.append(instance.excess(result.weights))
        return excesses


EXPERIMENTS = (
    Experiment(
        "B, l1 ball, d = 100",
        instance_b(),
        "noisy_fw_gll",
        BUDGET,
        (2000, 4000, 8000, 16000),
        repeats=4,
        options={"rounds": 400},
        slope=(-math.inf, -0.7),
        excess={8000: (0.0, 0.03), 16000: (0.0, 0.008)},
    ),
    EveryPoint(
        "C, a random point",
        instance_c(),
        "poly_sfw",
        BUDGET,
        (3000, 10_000, 30_000, 100_000),
        repeats=20,
        slope=(-0.6, -0.2),
    ),
    Experiment(
        "C, the last point",
        instance_c(),
        "poly_sfw",
        BUDGET,
        (3000, 10_000, 30_000),
        slope=(-math.inf, -0.3),
        excess={30_000: (0.0, 0.04)},
    ),
    Experiment(
        "C, the loss of the last point",
        instance_c(loss=True),
        "poly_sfw",
        BUDGET,
        (10_000, 30_000),
        excess={10_000: (0.0, 0.34), 30_000: (0.0, 0.325)},
    ),
    EveryPoint(
        "D, a random point",
        instance_d(),
        "noisy_sfw_lp",
        BUDGET,
        (3000, 10_000, 30_000, 100_000),
        repeats=40,
        slope=(-1.0, -0.3),
    ),
    Experiment(
        "D, the point of least estimated gap",
        instance_d(),
        "noisy_sfw_lp",
        BUDGET,
        (3000, 10_000, 30_000, 100_000),
        slope=(-math.inf, -0.6),
        excess={30_000: (0.0, 0.02)},
    ),
    Experiment(
        "D, clips of the longest steps",
        instance_d(),
        "noisy_sfw_lp",
        BUDGET,
        (3000, 10_000, 30_000),
        options={"follow_steps": False},
        slope=(-math.inf, -0.6),
        excess={30_000: (0.0, 0.02)},
    ),
)
