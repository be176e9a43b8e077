"""Phased SGD on the published instances: A (nonsmooth), E1 (smooth and Hoelder), free logistic.

Bands hold earlier measurements with room for three standard errors.
"""

from __future__ import annotations

import dataclasses
import math

import dpsco as dp

from .experiment import Experiment, Instance
from .instances import a, e1, logistic_sphere

BUDGET = dp.ApproxDP(1.0, 1e-6)


def _guess(instance: Instance, scale: float) -> Instance:
    """Return the instance with another guess of the solution's length."""
    problem = dataclasses.replace(instance.problem, scale=scale)
    return dataclasses.replace(instance, problem=problem)


def _below(**limits: float) -> dict[int, tuple[float, float]]:
    """Return bands [0, limit] from names such as n8192=0.006."""
    return {int(name[1:]): (0.0, limit) for name, limit in limits.items()}


EXPERIMENTS = (
    Experiment(
        "A, nonsmooth loss",
        a(10),
        "phased_sgd_gll",
        BUDGET,
        (2048, 4096, 8192, 16384),
        repeats=10,
        slope=(-math.inf, -0.8),
        excess=_below(n2048=0.022, n4096=0.009, n8192=0.006, n16384=0.0015),
    ),
    Experiment(
        "A, nonsmooth loss, published constants",
        a(10),
        "phased_sgd_gll",
        BUDGET,
        (2048, 8192, 16384),
        calibration="paper",
        excess={8192: (0.006, 0.024), 16384: (0.002, 0.010)},
    ),
    Experiment(
        "A of rank 5 in 1000 dimensions, rank known",
        _guess(a(1000, rank=5), 2.0),
        "phased_sgd_gll",
        BUDGET,
        (2048, 8192),
        options={"rank": 5},
        excess=_below(n2048=0.02, n8192=0.0015),
    ),
    Experiment(
        "A of rank 5 in 1000 dimensions, rank unknown",
        _guess(a(1000, rank=5), 2.0),
        "phased_sgd_gll",
        BUDGET,
        (2048, 8192),
        excess={2048: (0.05, 0.15), 8192: (0.001, 0.01)},
    ),
    Experiment(
        "E1 Huber, d = 5",
        e1("huber", 5),
        "phased_sgd",
        BUDGET,
        (500, 2000, 8000, 32000),
        repeats=8,
        slope=(-2.0, -0.8),
        excess=_below(n500=0.045, n2000=0.006, n8000=0.0012, n32000=0.0003),
    ),
    Experiment(
        "E1 Huber, d = 20",
        e1("huber", 20),
        "phased_sgd",
        BUDGET,
        (1000, 4000, 16000),
        repeats=6,
        slope=(-2.0, -0.7),
        excess=_below(n1000=0.021, n4000=0.008, n16000=0.0013),
    ),
    Experiment(
        "E1 power 1.5, d = 5",
        e1("power", 5),
        "phased_sgd",
        BUDGET,
        (500, 2000, 8000, 32000),
        repeats=8,
        slope=(-2.0, -0.8),
        excess=_below(n500=0.21, n2000=0.065, n8000=0.009, n32000=0.001),
    ),
    Experiment(
        "free logistic, d = 10, length known",
        logistic_sphere(10, scale=8.0),
        "phased_dp_sgd_unconstrained",
        BUDGET,
        (1000, 4000, 16000, 64000),
        repeats=6,
        slope=(-1.4, -0.8),
        excess=_below(n4000=0.35, n16000=0.075, n64000=0.014),
    ),
    Experiment(
        "free logistic, d = 10, length taken for 1",
        logistic_sphere(10, scale=1.0),
        "phased_dp_sgd_unconstrained",
        BUDGET,
        (1000, 4000, 16000, 64000),
        slope=(-0.55, -0.25),
        excess={16000: (0.3, 0.43), 64000: (0.16, 0.23)},
    ),
    Experiment(
        "free logistic, d = 50, length known",
        logistic_sphere(50, scale=8.0),
        "phased_dp_sgd_unconstrained",
        BUDGET,
        (4000, 16000, 64000),
        slope=(-1.0, -0.4),
        excess=_below(n4000=0.95, n16000=0.5, n64000=0.11),
    ),
)
