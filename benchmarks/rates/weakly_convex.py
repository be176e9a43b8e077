"""Proximal steps on MCP regression, and the strongly convex solver on absolute loss with a ridge.

The first is judged by how far the answer is from its proximal point, beside its loss; `noisy_gd`
on the same rows is there to compare with. The second is judged by its excess.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

import dpsco as dp
from dpsco.audit import prox_stationarity
from dpsco.kernels.slope import Slope
from dpsco.losses.base import Hoelder, MarginLoss

from .experiment import Experiment, Instance
from .instances import on_sphere

Floats = np.ndarray
_BEST = np.array([0.6, -0.4, 0.3, 0.0, 0.0])
_TEST_ROWS = 100_000


def _mcp_slope(margin: Any, label: Any, first: Any, second: Any) -> Any:
    size = np.abs(margin - label)
    return np.sign(margin - label) * np.maximum(1.0 - size, 0.0)


@dataclass(frozen=True)
class Mcp(MarginLoss):
    """|r| - r^2/2 for |r| <= 1, 1/2 beyond: L0 = 1, weakly convex with rho = 1, not smooth."""

    labels: ClassVar[Any] = "real"
    convex: ClassVar[bool] = False

    def value(self, margin: Any, label: Any) -> Floats:
        """Return phi."""
        size = np.minimum(np.abs(np.asarray(margin) - label), 1.0)
        return np.asarray(size - 0.5 * size * size)

    def kernel(self) -> Slope:
        """Return phi'."""
        return Slope(_mcp_slope)

    def curvature(self, margin: Any, label: Any) -> Floats:
        """Return phi''."""
        return np.where(np.abs(np.asarray(margin) - label) < 1.0, -1.0, 0.0)

    def slope_bound(self, label: float, margin: float) -> float:
        """Return 1."""
        return 1.0

    def curvature_bound(self, label: float, margin: float) -> float:
        """Return inf: the slope jumps."""
        return math.inf

    def hoelder(self) -> Hoelder:
        """Return that slopes differ by at most 2."""
        return Hoelder(0.0, 2.0)

    def value_at_zero(self, label: float) -> float:
        """Return 1/2."""
        return 0.5

    def weak_convexity(self) -> float:
        """Return 1."""
        return 1.0


MCP = dp.Problem(
    loss=Mcp(), bounds=dp.Bounds(1.0, label=5.0), domain=dp.domains.L2Ball(1.0)
)  # fmt: skip
RIDGE = dp.Problem(
    loss=dp.losses.Absolute(), bounds=dp.Bounds(1.0, label=5.0), penalty=dp.losses.L2Penalty(1.0)
)


def draw(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    """Return unit rows and labels, one in ten of them 3 too high or too low."""
    X = on_sphere(rng, n, 5)
    shift = np.where(rng.random(n) < 0.1, rng.choice([-3.0, 3.0], n), 0.0)
    return X, X @ _BEST + 0.05 * rng.standard_normal(n) + shift


@lru_cache(maxsize=1)
def _test() -> tuple[Floats, Floats]:
    return draw(np.random.default_rng(2), _TEST_ROWS)


def risk(w: Floats) -> float:
    """Return the mean MCP loss on fresh rows."""
    X, y = _test()
    return float(np.mean(Mcp().value(X @ w, y)))


def distance(w: Floats) -> float:
    """Return how far weights are from their proximal point, on fresh rows."""
    return prox_stationarity(MCP, w, _test(), curvature=2.0, public=True).distance


def _draw_dense(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    X = on_sphere(rng, n, 5)
    return X, X @ _BEST + 0.1 * rng.standard_normal(n)


@lru_cache(maxsize=1)
def _ridge_risks() -> tuple[Any, float]:
    """Return the ridge risk on fresh rows, and its least value."""
    X, y = _draw_dense(np.random.default_rng(3), 40_000)

    def value(w: Floats) -> float:
        return float(np.mean(np.abs(X @ w - y)) + 0.5 * w @ w)

    w, average = np.zeros(5), np.zeros(5)
    for t in range(1, 1001):
        w = w - 2.0 / (t + 1.0) * (X.T @ np.sign(X @ w - y) / len(y) + w)
        average += 2.0 * t / (1000.0 * 1001.0) * w
    return value, value(average)


def ridge_excess(w: Floats) -> float:
    """Return the excess of absolute loss with a ridge."""
    value, least = _ridge_risks()
    return value(w) - least


_BUDGET = dp.ApproxDP(1.0, 1e-6)
_PROX = Instance("MCP, prox distance", MCP, draw, distance, 0.1065)
_MCP_LOSS = Instance("MCP, loss over that of w*", MCP, draw, lambda w: risk(w) - risk(_BEST), 0.176)
_STRONG = Instance("absolute loss and a ridge", RIDGE, _draw_dense, ridge_excess, 0.0623)

EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        name="MCP, prox distance",
        instance=_PROX,
        solver="prox_guided_weakly_convex",
        budget=_BUDGET,
        sizes=(3000, 10_000, 30_000),
        repeats=4,
        slope=(-1.2, -0.25),
        excess={10_000: (0.0, 0.03)},
    ),
    Experiment(
        name="MCP, loss",
        instance=_MCP_LOSS,
        solver="prox_guided_weakly_convex",
        budget=_BUDGET,
        sizes=(3000, 10_000, 30_000),
        repeats=4,
        excess={10_000: (-0.002, 0.011)},
    ),
    Experiment(
        name="MCP, prox distance of noisy_gd",
        instance=_PROX,
        solver="noisy_gd",
        budget=_BUDGET,
        sizes=(3000, 10_000, 30_000),
        repeats=4,
        options={"clip": 1.0},
        excess={10_000: (0.0, 0.03)},
    ),
    *(
        Experiment(
            name=f"ridge, {mode}",
            instance=_STRONG,
            solver="strongly_convex_lp",
            budget=_BUDGET,
            sizes=(256, 1024, 4096),
            repeats=6,
            options={"mode": mode, "clip": 1.0},
            slope=(-2.2, -0.8),
            excess={4096: (0.0, most)},
        )
        for mode, most in (("direct", 0.0002), ("localized", 0.0006), ("reduction", 0.0012))
    ),
)
