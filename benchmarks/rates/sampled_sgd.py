"""Noisy SGD on secret samples: E1 and E2, every key, against earlier measurements.

Bands hold those measurements with room for three standard errors; the rule's own T and m.
"""

from __future__ import annotations

import math

import dpsco as dp

from .experiment import Experiment
from .instances import e1, e2

BUDGET = dp.ApproxDP(1.0, 1e-6)
FAST = (-math.inf, -0.6)  # both instances grow quadratically around their minimum


def _below(**limits: float) -> dict[int, tuple[float, float]]:
    """Return bands [0, limit] from names such as n4000=0.006."""
    return {int(name[1:]): (0.0, limit) for name, limit in limits.items()}


def _gradient(name: str, d: int, calibration: str, **limits: float) -> Experiment:
    return Experiment(
        f"dp_sgd_gradient, {name}, d = {d}, {calibration}",
        e1(name, d) if name != "hinge" else e2(d),
        "dp_sgd_gradient",
        BUDGET,
        (1000, 4000),
        calibration=calibration,
        slope=FAST,
        excess=_below(**limits),
    )


EXPERIMENTS = (
    _gradient("absolute", 5, "conjectured", n4000=0.0014),
    _gradient("absolute", 20, "conjectured", n1000=0.016, n4000=0.0035),
    _gradient("absolute", 20, "tight", n1000=0.02, n4000=0.006),
    _gradient("power", 20, "conjectured", n4000=0.011),
    _gradient("huber", 20, "conjectured", n4000=0.001),
    _gradient("hinge", 10, "conjectured", n4000=0.013),
    Experiment(
        "dp_sgd_gradient, absolute, d = 5, published constants, T = n",
        e1("absolute", 5),
        "dp_sgd_gradient",
        dp.ApproxDP(2.0, 1e-6),
        (1000,),
        calibration="paper",
        options={"rounds": 1000},
        excess={1000: (0.08, 0.36)},
    ),
    Experiment(
        "noisy_sgd_2019, Huber, d = 5, published constants",
        e1("huber", 5),
        "noisy_sgd_2019",
        BUDGET,
        (1000, 4000, 16000),
        calibration="paper",
        slope=(-1.3, -0.7),
        excess=_below(n1000=0.0048, n4000=0.0014, n16000=0.0004),
    ),
    Experiment(
        "noisy_sgd_2019, absolute through its envelope, d = 5",
        e1("absolute", 5),
        "noisy_sgd_2019",
        BUDGET,
        (1000, 4000),
        slope=FAST,
        excess=_below(n4000=0.0042),
    ),
    Experiment(
        "noisy_sgd_2020, absolute, d = 5",
        e1("absolute", 5),
        "noisy_sgd_2020",
        BUDGET,
        (1000,),
        repeats=3,
        excess=_below(n1000=0.005),
    ),
    Experiment(
        "dp_sgd_poisson, absolute, d = 20, defaults",
        e1("absolute", 20),
        "dp_sgd_poisson",
        BUDGET,
        (1000, 4000, 16000),
        slope=FAST,
        excess=_below(n4000=0.002),
    ),
    Experiment(
        "dp_sgd_poisson, hinge, d = 10, defaults",
        e2(10),
        "dp_sgd_poisson",
        BUDGET,
        (4000, 16000),
        excess=_below(n4000=0.0065),
    ),
)
