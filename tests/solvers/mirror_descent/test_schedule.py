"""Plans: known answers of the schedules, the noise of either kind, and what is refused."""

import math

import numpy as np
import pytest

import dpsco as dp
from dpsco.errors import AssumptionError, ParameterError
from dpsco.geometry.norms import LINF, GroupNorm, Lp
from dpsco.privacy.accounting import renyi
from dpsco.solvers.mirror_descent import rates
from dpsco.solvers.mirror_descent.schedule import KEY, public_scales

BUDGET = dp.ApproxDP(1.0, 1e-6)
L3, REACH = Lp(3.0), 50 ** (1.0 / 6.0)  # sup |x|_2 over |x|_3 <= 1


def problem(norm=L3, domain=None, loss=None, **more):
    bounds = dp.Bounds(1.0, label="sign", norm=norm)
    domain = dp.domains.WholeSpace() if domain is None else domain
    return dp.Problem(loss=loss or dp.losses.Logistic(), bounds=bounds, domain=domain, **more)


DEFAULT = problem()


def make(n=4000, d=50, budget=BUDGET, problem=DEFAULT, **options):
    return dp.plan(problem, n=n, d=d, budget=budget, solver=KEY, options=options)


def test_known_scales():
    """n 4000, d 50, p 1.5, a guess of 10: 286 rounds with noise of 0.0685659 on the mean."""
    plan = make(distance=10.0, clip=REACH, rounds=286)
    scales = public_scales(plan.task, 1.5, "p_norm", "gaussian", REACH, 10.0)
    assert (scales.kappa, scales.beta, scales.spread) == pytest.approx((2.0, 0.25, 100.0))
    assert scales.noise == pytest.approx(0.01745442, rel=1e-6)
    assert rates.practical(scales, 1000) == 286
    assert rates.practical(scales, 200) == 200
    assert plan.sigma / 4000 == pytest.approx(0.0685659, rel=1e-5)
    assert plan.step == pytest.approx(2.0, rel=2e-3)
    assert plan.longest == pytest.approx(scales.time / 286)


def test_known_paper_schedule():
    plan = make(n=16_000, distance=10.0, schedule="paper")
    assert plan.rounds == 15
    assert plan.pull / 0.25 == pytest.approx(2.514723, rel=1e-6)
    assert plan.step == plan.longest == pytest.approx(4.0)
    assert plan.tail == 15


def test_balanced_is_no_worse_than_any_other_choice():
    plan = make(n=16_000, distance=10.0, clip=REACH, schedule="balanced")
    scales = public_scales(plan.task, 1.5, "p_norm", "gaussian", REACH, 10.0)

    def bound(rounds, pull):
        growth = math.expm1(rounds * math.log1p(pull / (2 * scales.beta)))
        return pull * scales.spread * (1 + 0.5 / growth) + scales.noise**2 * rounds / pull

    best = bound(plan.rounds, plan.pull)
    for rounds in (1, 3, 10, 30, 100, 300, 1000):
        for share in (1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0):
            assert best <= bound(rounds, share * scales.beta) * 1.02


def test_known_size_of_generalized_noise():
    """One release of sensitivity 1, p 1.5, d 50; a row that is replaced moves a sum by 2."""
    plan = make(n=1000, d=50, noise="generalized", p=1.5, rounds=1, clip=1.0)
    assert plan.sigma / 2.0 == pytest.approx(6.40763, rel=2e-6)


@pytest.mark.parametrize(("rounds", "tight"), [(10, 28.7), (50, 64.1), (200, 128.0)])
def test_generalized_noise_is_calibrated_in_zcdp(rounds, tight):
    """In units of L sqrt(kappa); the published route needs 13.8 to 15.0 times as much."""
    plan = make(n=1000, noise="generalized", rounds=rounds, clip=1.0)
    (release,) = plan.releases()
    assert (release.kind, release.norm, release.count) == ("generalized_gaussian", 3.0, rounds)
    assert plan.sigma / math.sqrt(2.0) == pytest.approx(tight, rel=3e-3)
    rho = rounds * 2.0 * 2.0**2 / (2.0 * plan.sigma**2)
    assert renyi.epsilon(renyi.zcdp(rho), 1e-6) <= 1.0
    published = math.sqrt(64 * rounds * math.log(2 * rounds / 1e-6) * math.log(2 / 1e-6))
    assert 13.5 < published / (plan.sigma / math.sqrt(2.0)) < 15.3


@pytest.mark.slow
@pytest.mark.parametrize(("p", "least", "most"), [(1.0, 0.5, 0.54), (1.5, 0.65, 0.69)])
def test_gaussian_noise_is_never_larger_than_generalized(p, least, most):
    """E|Z|_q^2 of both at equal rho, for rows whose gradients fill the l_q ball."""
    d, q = 200, math.inf if p == 1.0 else p / (p - 1.0)
    norm = LINF if p == 1.0 else Lp(q)
    budget = dp.ZCDP(0.5)
    both = [
        make(n=1000, d=d, budget=budget, problem=problem(norm), noise=noise, rounds=4, clip=50.0)
        for noise in ("gaussian", "generalized")
    ]
    squares = []
    for plan in both:
        zeros = np.zeros(d)
        stream = dp.Randomness.seeded(1).child("noise")
        noises = [plan.releases()[0].once().draw_noisy(stream, zeros) for _ in range(400)]
        squares.append(np.mean([float(Lp(q)(noise)) ** 2 for noise in noises]))
    assert least * 0.93 < squares[0] / squares[1] < most * 1.07


def test_noise_halves_where_a_row_can_only_vanish():
    for noise in ("gaussian", "generalized"):
        zero_out = dp.ApproxDP(1.0, 1e-6, adjacency="zero_out")
        one, two = (make(budget=b, noise=noise, rounds=9) for b in (BUDGET, zero_out))
        assert one.sigma / two.sigma == pytest.approx(2.0, rel=2e-6)


def test_rows_in_other_norms_have_longer_gradients():
    """A row of l_inf norm 1 has l2 norm sqrt(d), and that is what Gaussian noise is for."""
    assert make(d=49, problem=problem(LINF)).clip == pytest.approx(0.5 * 7.0)
    assert make(d=49, problem=problem(LINF), clip=2.0).clip == 2.0
    assert make(d=49, problem=problem(Lp(2.0))).clip == pytest.approx(0.5)
    ball = make(d=49, problem=problem(Lp(2.0), dp.domains.L1Ball(3.0)), noise="generalized")
    assert ball.clip == pytest.approx(0.5)  # in l_r, r > 2


def test_enforced_says_in_which_norm():
    assert "l2 norm at most 2" in make(clip=2.0, d=49, problem=problem(LINF)).enforced[-1]
    shaped = make(noise="generalized")
    assert "l3 norm at most" in shaped.enforced[-1]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"p": 2.5}, "p must lie between 1 and 2"),
        ({"p": 0.5}, "p must lie between 1 and 2"),
        ({"distance": 0.0}, "distance"),
        ({"distance": math.inf}, "distance"),
        ({"step": 0.0}, "step"),
        ({"mirror": "none"}, "mirror must be one of"),
        ({"noise": "laplace"}, "noise must be one of"),
        ({"schedule": "best"}, "schedule must be one of"),
    ],
)
def test_options_out_of_range(options, words):
    with pytest.raises(ParameterError, match=words):
        make(**options)


def test_schedules_of_the_paper_are_those_of_the_p_norm():
    with pytest.raises(ParameterError, match="mirror='p_norm'"):
        make(problem=problem(domain=dp.domains.L1Ball(1.0)), schedule="paper")
    with pytest.raises(AssumptionError, match="epsilon and delta"):
        make(budget=dp.ZCDP(0.1), schedule="paper")


def test_generalized_noise_has_no_exact_gaussian_privacy():
    with pytest.raises(AssumptionError, match="noise='gaussian'"):
        make(budget=dp.GDP(0.3), noise="generalized")


@pytest.mark.parametrize(
    ("bad", "budget", "words"),
    [
        (problem(GroupNorm(((0, 1), (2, 3)))), BUDGET, "rows in an l_p norm"),
        (problem(loss=dp.losses.Hinge()), BUDGET, "smooth loss"),
        (problem(penalty=dp.losses.L1Penalty(0.1)), BUDGET, "no room for a penalty"),
        (problem(), dp.ApproxDP(1.0, 1e-6, adjacency="add_remove"), "zero_out"),
        (problem(), dp.PureDP(1.0), "delta above 0"),
    ],
    ids=["norm", "nonsmooth", "penalty", "add_remove", "pure"],
)
def test_refusals(bad, budget, words):
    with pytest.raises(AssumptionError, match=words):
        make(d=4, problem=bad, budget=budget)


def test_a_vector_loss_is_measured_in_l2():
    classes = dp.Bounds(1.0, label=dp.data.Classes(["a", "b", "c"]), norm=LINF)
    softmax = dp.Problem(loss=dp.losses.Softmax(3), bounds=classes)
    with pytest.raises(AssumptionError, match="Euclidean"):
        make(d=4, problem=softmax)


def test_longer_steps_than_the_first_are_averaged_late():
    grows = make(n=4000, d=50, rounds=40, distance=100.0)
    assert grows.step < grows.longest
    assert grows.tail == 20
    fixed = make(n=4000, d=50, rounds=40, step=3.0)
    assert (fixed.step, fixed.longest, fixed.tail) == (3.0, 3.0, 40)
