"""Phased ERM on E1 (absolute and Huber loss) and E2 (hinge).

Bands hold the published measurements with room for three standard errors.
"""

from __future__ import annotations

import math

import dpsco as dp

from .experiment import Experiment
from .instances import e1, e2

STEEP = (-math.inf, -0.8)

EXPERIMENTS = (
    Experiment(
        "E1 absolute, d = 5, epsilon = 2",
        e1("absolute", 5),
        "phased_erm",
        dp.ApproxDP(2.0, 1e-6),
        (1000, 4000, 16000),
        repeats=12,
        slope=STEEP,
        excess={1000: (0.003, 0.013), 4000: (0.0005, 0.0025), 16000: (0.0, 0.0005)},
    ),
    Experiment(
        "E1 absolute, d = 20, epsilon = 1",
        e1("absolute", 20),
        "phased_erm",
        dp.ApproxDP(1.0, 1e-6),
        (1000, 4000, 16000),
        repeats=6,
        slope=(-1.5, -0.8),
        excess={1000: (0.03, 0.055), 4000: (0.008, 0.017), 16000: (0.001, 0.004)},
    ),
    Experiment(
        "E1 Huber, d = 20, epsilon = 1",
        e1("huber", 20),
        "phased_erm",
        dp.ApproxDP(1.0, 1e-6),
        (1000, 4000, 16000),
        repeats=6,
        slope=STEEP,
        excess={4000: (0.0, 0.006), 16000: (0.0, 0.0012)},
    ),
    Experiment(
        "E2 hinge, d = 10, epsilon = 1",
        e2(10),
        "phased_erm",
        dp.ApproxDP(1.0, 1e-6),
        (1000, 4000, 16000),
        repeats=6,
        slope=(-1.5, -0.6),
        excess={1000: (0.10, 0.22), 4000: (0.035, 0.08), 16000: (0.007, 0.016)},
    ),
    Experiment(
        "E1 absolute, published constants",
        e1("absolute", 20),
        "phased_erm",
        dp.ApproxDP(1.0, 1e-6),
        (4000, 16000),
        calibration="paper",
        excess={4000: (0.0, 0.08), 16000: (0.0, 0.05)},
    ),
)
