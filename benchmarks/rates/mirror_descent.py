"""Mirror descent on logistic regression over the corners of a cube, one active column.

The excess is relative to that of zero weights, as in the table that it is compared with (Su, Zhao,
Wang 2023 in l_p, 1 <= p <= 1.5). The published schedule hardly leaves the start, and is here to
say so.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import expit

import dpsco as dp

from .experiment import Experiment, Instance

Floats = np.ndarray
_TEST_ROWS = 20_000
KEY = "noisy_regularized_mirror_descent"


@lru_cache(maxsize=8)
def corners(p: float, d: int, size: float) -> Instance:
    """Return rows of l_q norm 1 with entries +-d^(-1/q), and w* = size e_1, weights free."""
    q = math.inf if p == 1.0 else p / (p - 1.0)
    entry = d ** (-1.0 / q)

    def rows(rng: np.random.Generator, n: int) -> Floats:
        return entry * (2.0 * rng.integers(0, 2, (n, d)) - 1.0)

    def draw(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
        X = rows(rng, n)
        return X, np.where(rng.random(n) < expit(size * X[:, 0]), 1.0, -1.0)

    fresh = rows(np.random.default_rng(4), _TEST_ROWS)
    chance = expit(size * fresh[:, 0])

    def risk(w: Floats) -> float:
        margins = fresh @ w
        return float(np.mean(np.logaddexp(0.0, margins) - chance * margins))

    best = np.concatenate([[size], np.zeros(d - 1)])
    least, unit = risk(best), risk(np.zeros(d)) - risk(best)
    norm = dp.geometry.LINF if p == 1.0 else dp.geometry.Lp(q)
    problem = dp.Problem(
        loss=dp.losses.Logistic(), bounds=dp.Bounds(1.0, label="sign", norm=norm)
    )  # fmt: skip
    name = f"corners, p = {p:g}, d = {d}"
    return Instance(name, problem, draw, lambda w: (risk(w) - least) / unit, 1.0)


def _experiment(p: float, d: int, size: float, schedule: str, **bands: object) -> Experiment:
    common = {"distance": size, "clip": d ** (0.5 - (0.0 if p == 1.0 else (p - 1.0) / p))}
    return Experiment(
        name=f"p = {p:g}, {schedule}",
        instance=corners(p, d, size),
        solver=KEY,
        budget=dp.ApproxDP(1.0, 1e-6),
        sizes=(1000, 4000, 16_000),
        repeats=3,
        options={**common, "schedule": schedule},
        **bands,  # type: ignore[arg-type]
    )


EXPERIMENTS: tuple[Experiment, ...] = (
    _experiment(1.5, 50, 10.0, "practical", slope=(-2.4, -0.7), excess={16_000: (0.0, 0.03)}),
    _experiment(1.2, 50, 5.0, "practical", slope=(-2.6, -0.7), excess={16_000: (0.0, 0.03)}),
    _experiment(1.0, 200, 5.0, "practical", slope=(-1.5, -0.4), excess={16_000: (0.0, 0.2)}),
    _experiment(1.5, 50, 10.0, "balanced", slope=(-0.7, -0.2), excess={16_000: (0.1, 0.5)}),
    _experiment(1.5, 50, 10.0, "paper", slope=(-0.1, 0.0), excess={16_000: (0.9, 1.0)}),
)
