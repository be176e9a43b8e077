"""Output-perturbed SGD on E1: smooth, Hoelder and nonsmooth losses, published and tight noise.

Bands are 60 % around earlier measurements, one seed set of 8 runs each: their standard errors (up
to 13 %, for the absolute loss 20 %) and ours (up to 20 %) add up to that, three times. For the
power 1.5 that is generous: at n = 2000 we measure 0.046, not 0.033. Slopes are those of an instance
with quadratic growth.
"""

from __future__ import annotations

import math

import dpsco as dp

from .experiment import Experiment
from .instances import e1

BUDGET = dp.ApproxDP(1.0, 1e-6)
SIZES = (500, 2000, 8000)


def _near(values: dict[int, float], room: float) -> dict[int, tuple[float, float]]:
    """Return bands of a relative width around what was measured."""
    return {n: (value * (1 - room), value * (1 + room)) for n, value in values.items()}


def _below(values: dict[int, float]) -> dict[int, tuple[float, float]]:
    return {n: (0.0, value) for n, value in values.items()}


EXPERIMENTS = (
    Experiment(
        "E1 Huber, one pass",
        e1("huber", 5),
        "dp_sgd_output",
        BUDGET,
        (*SIZES, 32_000),
        repeats=8,
        options={"passes": 1},
        slope=(-1.3, -0.5),
        excess=_near({500: 0.0141, 2000: 0.0043, 8000: 0.0011, 32_000: 0.0003}, 0.6),
    ),
    Experiment(
        "E1 Huber, ten passes",
        e1("huber", 5),
        "dp_sgd_output",
        BUDGET,
        SIZES,
        repeats=8,
        options={"passes": 10},
        slope=(-1.3, -0.5),
        excess=_near({500: 0.0085, 2000: 0.0030, 8000: 0.0006}, 0.6),
    ),
    Experiment(
        "E1 power 1.5, one pass",
        e1("power", 5),
        "dp_sgd_output",
        BUDGET,
        (*SIZES, 32_000),
        repeats=8,
        options={"passes": 1},
        slope=(-1.2, -0.5),
        excess=_near({500: 0.125, 2000: 0.033, 8000: 0.013, 32_000: 0.0030}, 0.6),
    ),
    Experiment(
        "E1 absolute, one pass on the loss itself",
        e1("absolute", 5),
        "dp_sgd_output",
        BUDGET,
        (*SIZES, 32_000),
        repeats=8,
        options={"passes": 1, "smoothing": 0.0},
        slope=(-0.6, -0.15),
        excess=_near({500: 0.264, 2000: 0.244, 8000: 0.136, 32_000: 0.089}, 0.6),
    ),
    Experiment(
        "E1 absolute, defaults: on the envelope",
        e1("absolute", 5),
        "dp_sgd_output",
        BUDGET,
        (500, 2000, 8000),
        repeats=5,
        excess=_below({500: 0.16, 2000: 0.08, 8000: 0.03}),
    ),
    Experiment(
        "E1 Huber, published noise: no better than weights of 0",
        e1("huber", 5),
        "dp_sgd_output",
        BUDGET,
        (500, 2000, 8000),
        repeats=8,
        calibration="paper",
        options={"project": True},
        excess=dict.fromkeys((500, 2000, 8000), (0.0657 * 0.75, math.inf)),
    ),
    Experiment(
        "E1 Huber, d = 20, one pass",
        e1("huber", 20),
        "bolt_on_sgd",
        BUDGET,
        (1000, 4000, 16_000),
        repeats=6,
        options={"passes": 1},
        slope=(-1.2, -0.5),
        excess=_near({1000: 0.0107, 4000: 0.0036, 16_000: 0.0011}, 0.6),
    ),
    Experiment(
        "E1 Huber, pure privacy",
        e1("huber", 5),
        "bolt_on_sgd",
        dp.PureDP(1.0),
        (2000, 8000, 32_000),
        repeats=6,
        slope=(-math.inf, -0.5),
    ),
)
