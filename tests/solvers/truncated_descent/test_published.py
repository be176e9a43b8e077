"""The paper's numbers, and what it asks for before it gives any."""

import math

import pytest

import dpsco as dp
from dpsco.errors import AssumptionError, ParameterError
from dpsco.geometry.mirror import Regularity
from dpsco.solvers.truncated_descent.published import theorem_10, theorem_14, theorem_15

MIRROR, COORDINATES, SHUFFLED = (
    "truncated_batched_mirror_descent",
    "heavy_tailed_coordinate_gd",
    "shuffled_truncated_mirror_descent",
)
BALL = dp.domains.LpBall(1.5, 2.0)
BUDGET = dp.ApproxDP(1.0, 1e-6)


def problem(**changes):
    facts = {"loss": dp.losses.Squared(), "bounds": dp.Bounds(5.0, label=5.0), "domain": BALL}
    return dp.Problem(**{**facts, **changes})


SQUARED = problem()


def planned(solver, n=16_000, *, problem=SQUARED, budget=BUDGET, **options):
    facts = {"n": n, "d": 20, "budget": budget, "solver": solver}
    return dp.plan(problem, **facts, options={"schedule": "paper", **options})


def test_theorem_14():
    rounds, radius, gamma = theorem_14(16_000, Regularity(1.5, 20), 4.0, 1.0, 1.0, 1e-6)
    assert (rounds, round(radius - 4.0, 6), round(gamma, 6)) == (15, 15.673302, 3.872983)


def test_theorem_10_by_hand():
    log = math.log(1e6)
    margin = 7.0 * math.sqrt(32_000) / (2.0**2 * 20 * log) ** 0.25
    root = 4.0 * 32_000 / ((4.0 + margin) * math.sqrt(20 * log))
    rounds, radius, gamma = theorem_10(32_000, Regularity(1.5, 20), 4.0, 1.0, 7.0, 1.0, 1e-6)
    assert rounds == math.floor(root**2)
    assert (radius, gamma) == pytest.approx((4.0 + margin, math.sqrt(rounds)))


def test_theorem_15_minimises_its_bound():
    """Rounds and clip are those of least bound, to first order, at eta = 1/beta."""
    signal, d, diameter, beta, moment = 4000.0, 20, 3.0, 1.0, 2.0
    rounds, clip = theorem_15(signal, d, diameter, beta, moment)

    def bound(rounds, clip):
        noise = clip * math.sqrt(d * rounds) / signal  # n mu of the text is 2 signal
        heavy = math.sqrt(d) * moment**2 + (beta * diameter) ** 2
        descent = diameter**2 * beta / (2 * rounds)
        return descent + d * noise**2 / beta + diameter * heavy / (4 * clip)

    least = bound(rounds, clip)
    for more in (0.5, 0.8, 1.25, 2.0):
        assert least <= bound(max(1, round(rounds * more)), clip) * 1.001
        best = min(bound(t, clip * more) for t in range(1, 200))
        assert least <= best * 1.05


def test_the_radius_in_l_q_becomes_one_in_l2_and_noise_is_charged_for_it():
    """d^(1/2 - 1/q) B: what the noise is paid for, 4.2247 times half the sensitivity."""
    plan = planned(MIRROR, population_smoothness=1.0)
    assert (plan.rounds, plan.batches, plan.tail) == (15, True, 15)
    assert plan.clip == pytest.approx(20 ** (1 / 2 - 1 / 3) * 19.673302, rel=1e-6)
    assert plan.step == pytest.approx(1 / 3.872983, rel=1e-6)
    assert plan.sigma == pytest.approx(2 * plan.clip / 0.2367043807, rel=1e-6)
    shuffled = planned(SHUFFLED, moment=7.0, population_smoothness=1.0)
    assert shuffled.rounds == theorem_10(16_000, Regularity(1.5, 20), 4.0, 1.0, 7.0, 1.0, 1e-6)[0]
    assert planned(COORDINATES, moment=2.0, population_smoothness=1.0).step == 1.0


REFUSALS = {
    "no bounded domain": (MIRROR, {"problem": problem(domain=dp.domains.WholeSpace())}, "bounded"),
    "not smooth": (MIRROR, {"problem": problem(loss=dp.losses.Absolute())}, "smooth"),
    "zCDP": (MIRROR, {"budget": dp.ZCDP(0.1)}, "delta"),
    "no moment, coordinates": (COORDINATES, {}, "moment"),
    "no moment, shuffled": (SHUFFLED, {}, "moment"),
    "margin too small": (SHUFFLED, {"moment": 1e-3}, "rows"),
    "nonsense": (MIRROR, {"schedule": "printed"}, "schedule"),
    "hint": (MIRROR, {"population_smoothness": -1.0}, "population_smoothness"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_the_theorems_do_not_cover_is_refused(name):
    solver, changes, word = REFUSALS[name]
    with pytest.raises((AssumptionError, ParameterError), match=word):
        planned(solver, **changes)
