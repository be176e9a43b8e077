"""One pass in few rounds: the experiments of Choquette-Choo, Ganesh, Thakurta 2025, clipped.

X2, X5 and X6 are locally strongly convex: excess falls faster than the theorem's
alpha_n = 1/sqrt(n) + 2 sqrt(d)/(mu n). X3 is hard at every n and shows that rate itself. X4 is
ill-conditioned: what acceleration buys at equal rounds. Bands hold our own measurements with room
for three standard errors, or what the theorem says.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import dpsco as dp

from .comparison import Comparison, Entrant, Options, grid
from .experiment import Experiment, Instance, slope
from .few_round_instances import x3, x4, x4_smoothness, x6
from .instances import x2

Choices = dict[str, Iterable[object]]

BUDGET = dp.ApproxDP(1.0, 1e-6)
SGD = "dp_sgd_single_epoch"
SIZES = (2048, 4096, 8192, 16384, 32768, 65536, 131072)
STEEP = (-1.9, -0.9)  # between statistics alone (-1) and noise alone (-2)
X2_SMOOTHNESS: Options = {"population_smoothness": 1 / 80}  # of the mean logistic loss: 1/(4 d)


def alpha(n: int, d: int, budget: dp.ApproxDP) -> float:
    """Return what sampling and noise cost, in units of L R: the rate of Thm 2."""
    price = budget.adjacency.factor / budget.mu_per_row()
    return 1 / math.sqrt(n) + price * math.sqrt(d) / n


# -- X2: excess against n --------------------------------------------------------------------------


def _x2(
    name: str,
    solver: str,
    limits: dict[int, float],
    *,
    epsilon: float = 1.0,
    repeats: int = 24,
    options: Options = X2_SMOOTHNESS,
    slopes: tuple[float, float] = STEEP,
) -> Experiment:
    """Return X2 with mean excess below ``limits``, and no run above L R alpha_n."""
    budget, instance = dp.ApproxDP(epsilon, 1e-6), x2()
    return Experiment(
        f"X2, epsilon = {epsilon:g}, {name}",
        instance,
        solver,
        budget,
        tuple(limits),
        repeats=repeats,
        options=options,
        slope=slopes,
        excess={n: (0.0, limit) for n, limit in limits.items()},
        limit={n: 10.0 * alpha(n, 20, budget) for n in limits},
    )


def _each(sizes: tuple[int, ...], *limits: float) -> dict[int, float]:
    return dict(zip(sizes, limits, strict=True))


_FEW = (4096, 16384, 65536)

_X2 = (
    _x2(
        "acc_srgd",
        "acc_srgd",
        _each(SIZES, 0.056, 0.017, 0.0053, 0.0024, 8.3e-4, 3.1e-4, 1.3e-4),
        slopes=(-1.7, -1.3),
    ),
    _x2(
        "acc_srgd",
        "acc_srgd",
        _each(SIZES, 0.165, 0.053, 0.016, 0.0052, 0.0018, 5e-4, 1.8e-4),
        epsilon=0.5,
    ),
    _x2(
        "acc_srgd",
        "acc_srgd",
        _each(SIZES, 0.0125, 0.004, 0.002, 0.0011, 4.9e-4, 2.3e-4, 1.1e-4),
        epsilon=4.0,
    ),
    _x2(
        "acc_srgd, smoothness of the rows",
        "acc_srgd",
        _each(_FEW, 0.024, 0.003, 9.5e-4),
        repeats=12,
        options={},
    ),
    *(
        _x2(key, key, _each(_FEW, *limits), repeats=12)
        for key, limits in {
            "acc_independent": (0.068, 0.0082, 0.0014),
            "srg_sgd": (0.043, 0.003, 4.1e-4),
            "srg_online_to_batch": (0.018, 0.0038, 5.6e-4),
        }.items()
    ),
)

# -- X3: the rate of the theorem -------------------------------------------------------------------


@dataclass(frozen=True)
class HardAtEveryN(Experiment):
    """X3 with a mean of ``length`` times alpha_n, which neither sampling nor noise lets one see."""

    d: int = 10
    length: float = 1.0

    def at(self, n: int) -> Instance:
        """Return the instance that is hard for ``n`` rows."""
        assert isinstance(self.budget, dp.ApproxDP)
        return x3(self.d, self.length * alpha(n, self.d, self.budget))


def _x3(d: int, epsilon: float, length: float, sizes: tuple[int, ...]) -> HardAtEveryN:
    """Return X3 with excess between a quarter and three quarters of alpha_n, at its slope."""
    budget = dp.ApproxDP(epsilon, 1e-6)
    rates = {n: alpha(n, d, budget) for n in sizes}
    return HardAtEveryN(
        f"X3, d = {d}, epsilon = {epsilon:g}, mean {length:g} alpha_n",
        x3(d, length * rates[sizes[0]]),
        "acc_srgd",
        budget,
        sizes,
        repeats=24,
        slope=(slope(rates) - 0.12, slope(rates) + 0.12),
        excess={n: (0.25 * rate, 0.75 * rate) for n, rate in rates.items()},
        d=d,
        length=length,
    )


_X3 = (
    _x3(10, 4.0, 1.0, tuple(2**k for k in range(10, 18))),
    _x3(100, 0.25, 2.0, tuple(2**k for k in range(11, 17))),
)

# -- other instances, other options ----------------------------------------------------------------

_OTHER = (
    Experiment(
        "X5, the best weights outside of the ball",
        x2(radius=2.0),
        "acc_srgd",
        BUDGET,
        _FEW,
        repeats=12,
        slope=STEEP,
        excess={4096: (0.0, 0.006), 16384: (0.0, 6e-4), 65536: (0.0, 9e-5)},
    ),
    Experiment(
        "X6, least squares, clipped",
        x6(),
        "acc_srgd",
        BUDGET,
        (1024, *_FEW),
        repeats=12,
        options={"clip": 1.0},
        slope=STEEP,
        excess={4096: (0.0, 0.0042), 16384: (0.0, 4.1e-4), 65536: (0.0, 5.5e-5)},
    ),
    Experiment(
        "X2, moves so short that no clip acts",
        x2(),
        "acc_srgd",
        BUDGET,
        (16384,),
        repeats=12,
        options={"certified": True, **X2_SMOOTHNESS},
        excess={16384: (0.003, 0.006)},
    ),
    Experiment(
        "X2, schedule of Thm 14: hardly moves",
        x2(),
        "acc_srgd",
        BUDGET,
        (16384,),
        options={"schedule": "paper_general"},
        excess={16384: (0.17, 0.23)},
    ),
)

EXPERIMENTS = (*_X2, *_X3, *_OTHER)

# -- side by side ----------------------------------------------------------------------------------


def _mechanism(noise: str, low: float, high: float) -> Entrant:
    options: Options = {"rounds": 31, "beta": 0.05, "noise": noise}
    return Entrant(noise, "acc_srgd", (options,), (low, high))


def _x4(d: int, radius: float, rounds: int, refined: dict[str, float]) -> Comparison:
    """Return X4 at equal rounds: untuned acc_srgd beside the best of the others' settings.

    DP-SGD and DP-FTRL as they are published return the average of their iterates (DP-SGD: or the
    last one) after steps of one length; the best length is chosen by the answer. Refined, they may
    also average a tail of the iterates and let steps fall. ``refined`` has the least ratios there.
    """
    smoothness = x4_smoothness(d)
    hint: Options = {"rounds": rounds, "population_smoothness": smoothness}
    shares = (0.125, 0.25, 0.5, 0.71, 1.0, 1.25, 1.5, 1.77, 2.1, 2.5, 3.0, 3.5)
    steps = [share * 2 / smoothness for share in shares]  # descent is sure to converge up to 1
    each: Choices = {"rounds": [rounds], "step": steps}
    part = (rounds // 4, rounds // 2)
    tails = grid(falling=[False], tail=part, **each)
    falling = grid(falling=[True], tail=(1, rounds // 2), **each)
    betas = [share * smoothness for share in (0.125, 0.18, 0.25, 0.35, 0.5, 0.71, 1.0, 1.41, 2.0)]
    tuned = grid(rounds=[rounds], beta=betas)
    far = math.inf

    def best(key: str, which: str, settings: tuple[Options, ...], least: float) -> Entrant:
        return Entrant(f"{key}, best {which}", key, settings, (least, far))

    return Comparison(
        f"X4 at {rounds} rounds",
        x4(d, radius=radius),
        BUDGET,
        65536,
        (
            Entrant("acc_srgd", "acc_srgd", (hint,)),
            Entrant("acc_srgd, best beta", "acc_srgd", tuned, (0.3, 1.05)),
            best(SGD, "step", grid(falling=[False], tail=(1, rounds), **each), 4.0),
            best("dp_ftrl", "step", grid(tail=[rounds], **each), 4.0),
            Entrant("srg_online_to_batch", "srg_online_to_batch", (hint,), (0.8, 4.0)),
            Entrant("acc_independent", "acc_independent", (hint,), (4.0, far)),
            best("acc_independent", "beta", tuned, 4.0),
            Entrant("srg_sgd", "srg_sgd", (hint,), (4.0, far)),
            best("srg_sgd", "beta", tuned, refined["srg_sgd"]),
            best(SGD, "refined", (*tails, *falling), refined[SGD]),
            best("dp_ftrl", "refined", grid(tail=(1, *part), **each), refined["dp_ftrl"]),
        ),
        repeats=8,
    )


COMPARISONS = (
    Comparison(
        "noise mechanisms at 31 rounds",
        x2(),
        BUDGET,
        16384,
        (
            _mechanism("toeplitz_cn", 1.0, 1.0),
            _mechanism("toeplitz", 1.0, 1.4),
            _mechanism("tree_honaker", 1.8, 4.0),
            _mechanism("tree", 3.2, 7.0),
        ),
        repeats=24,
    ),
    _x4(20, 20.0, 32, {"srg_sgd": 1.0, SGD: 1.8, "dp_ftrl": 1.0}),
    _x4(50, 30.0, 34, {"srg_sgd": 3.0, SGD: 4.0, "dp_ftrl": 2.0}),
)
