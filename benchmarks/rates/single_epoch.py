"""One pass of noisy SGD and DP-FTRL on E1, E2, A and X2, with the default schedules.

Bands hold our own measurements with room for three standard errors.
"""

from __future__ import annotations

import math

import dpsco as dp

from .experiment import Experiment, Instance
from .instances import a, e1, e2, x2

KEYS = ("dp_sgd_single_epoch", "dp_ftrl")
STEEP = (-math.inf, -0.8)

# Instance, epsilon, and the largest excess of SGD and of DP-FTRL at each n.
_LIMITS: tuple[tuple[Instance, float, dict[int, tuple[float, float]]], ...] = (
    (e1("absolute", 5), 2.0, {1000: (0.005, 0.003), 4000: (0.0012, 0.0007), 16000: (4e-4, 3e-4)}),
    (e1("absolute", 20), 1.0, {1000: (0.035, 0.04), 4000: (0.006, 0.005), 16000: (1.2e-3, 7e-4)}),
    (e1("huber", 20), 1.0, {1000: (0.012, 0.012), 4000: (0.0055, 0.0015), 16000: (8e-4, 2e-4)}),
    (e2(10), 1.0, {1000: (0.10, 0.11), 4000: (0.03, 0.015), 16000: (0.006, 0.003)}),
    (a(20), 1.0, {2048: (0.015, 0.014), 8192: (0.003, 0.0015)}),
    (x2(20), 1.0, {4096: (0.12, 0.035), 16384: (0.025, 0.006), 65536: (0.006, 0.001)}),
)

EXPERIMENTS = tuple(
    Experiment(
        f"{instance.name}, epsilon = {epsilon:g}, {key}",
        instance,
        key,
        dp.ApproxDP(epsilon, 1e-6),
        tuple(limits),
        repeats=8,
        slope=STEEP,
        excess={n: (0.0, limit[column]) for n, limit in limits.items()},
    )
    for instance, epsilon, limits in _LIMITS
    for column, key in enumerate(KEYS)
)
