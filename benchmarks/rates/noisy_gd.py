"""Noisy gradient descent on E1 and E2, defaults as they are.

The bands end at twice what Poisson samples with T = n steps reach in Wang, Lei, Ying, Zhang 2022's
setting (full batches have no more noise), for replace-one neighbours.
"""

from __future__ import annotations

import math

import dpsco as dp

from .experiment import Experiment
from .instances import e1, e2

_BUDGET = dp.ApproxDP(1.0, 1e-6)
_CASES = {
    "E1 absolute, d = 20": (e1("absolute", 20), {4000: 0.0041, 16_000: 0.0010}),
    "E1 Huber, d = 20": (e1("huber", 20), {4000: 0.0014, 16_000: 0.00026}),
    "E2 hinge, d = 10": (e2(10), {4000: 0.020, 16_000: 0.0068}),
}

EXPERIMENTS: tuple[Experiment, ...] = tuple(
    Experiment(
        name=name,
        instance=instance,
        solver="noisy_gd",
        budget=_BUDGET,
        sizes=(1000, 4000, 16_000),
        repeats=6,
        slope=(-math.inf, -0.6),
        excess={n: (0.0, most) for n, most in highest.items()},
    )
    for name, (instance, highest) in _CASES.items()
)
