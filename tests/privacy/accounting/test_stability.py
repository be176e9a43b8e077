"""Stability bounds: printed values, coupled runs that never exceed them, runs that attain them."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsco.errors import AssumptionError, ParameterError
from dpsco.privacy.accounting import stability
from dpsco.privacy.accounting.gaussian import mu
from dpsco.privacy.accounting.stability import expansion, phase_sensitivity, sgd_sensitivity

INF = math.inf


def recursion(n, passes, a, b, *, batch=1, shrink=1.0, position=0):
    """The recursion, step by step, for a row in the batch at ``position``: (average, last)."""
    steps, distance, total = n // batch, 0.0, 0.0
    for _, j in itertools.product(range(passes), range(steps)):
        total += distance
        grown = math.hypot(distance, a) if distance > 0 else 0.0
        if j == position:
            distance = shrink * (grown if batch > 1 else distance) + b / batch
        else:
            distance = shrink * grown
    return total / (steps * passes), distance


# --- expansion ------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [1e-4, 0.3, 1.9])
def test_expansion_is_the_largest_growth_of_a_step(step):
    """Maximise step^2 r^2 - 2 step r (r/L)^(1/alpha) over r numerically."""
    r = np.geomspace(1e-60, 1e3, 400_001)
    for alpha in (0.1, 0.25, 0.5, 0.75, 0.9):
        growth = step**2 * r**2 - 2 * step * r * (r / 1.7) ** (1 / alpha)
        found = expansion(alpha, 1.7, step, clip=INF)
        assert math.isclose(found, math.sqrt(growth.max()), rel_tol=1e-6)
        assert found >= math.sqrt(growth.max()) * (1 - 1e-12)


@pytest.mark.parametrize(
    ("alpha", "constant", "step", "known"),
    [(0.0, 2.0, 0.01, 0.02), (0.5, 2.12132034, 0.01, 8.66025e-5), (1.0, 1.0, 2.0, 0.0)],
)
def test_expansion_known_answers(alpha, constant, step, known):
    assert math.isclose(expansion(alpha, constant, step, clip=INF), known, rel_tol=1e-6)


@pytest.mark.parametrize("step", [0.01, 0.5, 1.5])
def test_expansion_is_continuous_in_alpha(step):
    """P3: no NaN near the ends, and the limits are those of alpha = 0 and alpha = 1."""
    low = expansion(1e-12, 1.0, step, clip=INF)
    assert math.isclose(low, expansion(0.0, 1.0, step, clip=INF), rel_tol=1e-9)
    assert expansion(1 - 1e-9, 1.0, step, clip=INF) < 1e-9
    general = [
        math.sqrt((1 - a) / (1 + a)) * (2.0**-a * step) ** (1 / (1 - a)) for a in (0.25, 0.5, 0.75)
    ]
    ratios = [
        g / expansion(a, 1.0, step, clip=INF)
        for a, g in zip((0.25, 0.5, 0.75), general, strict=True)
    ]
    assert np.allclose(ratios, [1.36, 1.50, 1.59], atol=0.006)


def test_expansion_is_capped_by_clipping():
    assert math.isclose(expansion(0.0, 8.0, 0.1, clip=1.0), 0.2, rel_tol=1e-9)
    assert math.isclose(expansion(1 - 1e-9, 9.0, 1.0, clip=0.5), 1.0, rel_tol=1e-9)
    assert expansion(0.3, 0.0, 1.0, clip=1.0) == 0.0


def test_expansion_refuses_long_steps_on_smooth_losses():
    assert expansion(1.0, 4.0, 0.5, clip=1.0) == 0.0
    with pytest.raises(AssumptionError, match=r"step \* smoothness <= 2.*shorter step"):
        expansion(1.0, 4.0, 0.5 + 1e-9, clip=1.0)
    with pytest.raises(ParameterError, match="alpha"):
        expansion(1.1, 1.0, 0.1, clip=1.0)


# --- several passes -------------------------------------------------------------------------------

T2 = [
    ((1000, 1, 0.0, 2.0, 1.0, 0.01), 0.42131666, 0.63245553),
    ((1000, 5, 0.0, 2.0, 1.0, 0.01), 0.97249794, 1.46929230),
    ((1000, 1, 0.5, 2.12132034, 2.0, 0.01), 0.04000670, 0.04009355),
    ((1000, 3, 1.0, 1.0, 1.0, 0.01), 0.03998, 0.06),
    ((7, 2, 0.0, 1.0, 1.0, 0.1), 0.36215741, 0.57139400),
]


@pytest.mark.parametrize(("case", "average", "last"), T2)
def test_known_sensitivities(case, average, last):
    n, passes, alpha, constant, gradient, step = case
    a = expansion(alpha, constant, step, clip=INF)
    facts = {"n": n, "passes": passes, "step": step, "gradient": gradient, "drift": a}
    for factor, adjacency in ((1, "replace_one"), (2, "zero_out")):
        facts["gradient"] = factor * gradient
        found = sgd_sensitivity(**facts, adjacency=adjacency)
        assert math.isclose(found, average, rel_tol=3e-7)
        assert math.isclose(
            sgd_sensitivity(**facts, adjacency=adjacency, output="last"), last, rel_tol=3e-7
        )


facts = st.fixed_dictionaries(
    {
        "n": st.integers(1, 40),
        "passes": st.integers(1, 4),
        "batch": st.integers(1, 5),
        "a": st.sampled_from([0.0, 1e-3, 0.3, 2.0]),
        "ridge": st.sampled_from([0.0, 0.05, 0.7]),
    }
).filter(lambda f: f["batch"] <= f["n"])


@given(facts)
@settings(max_examples=150, deadline=None)
def test_no_position_is_worse_than_stated(f):
    """Every batch that the row could be in, and for the worst of them nothing is given away."""
    shrink = 1 - f["ridge"]
    for index, output in enumerate(("average", "last")):
        bound = sgd_sensitivity(
            n=f["n"], passes=f["passes"], step=1.0, gradient=0.5, drift=f["a"],
            adjacency="replace_one", batch=f["batch"], ridge=f["ridge"], output=output,
        )  # fmt: skip
        values = [
            recursion(f["n"], f["passes"], f["a"], 1.0, batch=f["batch"], shrink=shrink, position=j)
            for j in range(f["n"] // f["batch"])
        ]
        worst = max(value[index] for value in values)
        assert worst <= bound <= worst * (1 + 1e-9)


@given(facts)
@settings(max_examples=60, deadline=None)
def test_fresh_orders_are_covered(f):
    """Any position in each pass, by brute force over first and last."""
    steps = f["n"] // f["batch"]
    for output in ("average", "last"):
        bound = sgd_sensitivity(
            n=f["n"], passes=f["passes"], step=1.0, gradient=0.5, drift=f["a"],
            adjacency="replace_one", batch=f["batch"], output=output, order="fresh",
        )  # fmt: skip
        for places in itertools.product((0, steps - 1), repeat=f["passes"]):
            distance = total = 0.0
            for place, j in itertools.product(places, range(steps)):
                total += distance
                grown = math.hypot(distance, f["a"]) if distance > 0 else 0.0
                if j == place:
                    distance = (grown if f["batch"] > 1 else distance) + 1.0 / f["batch"]
                else:
                    distance = grown
            value = total / (steps * f["passes"]) if output == "average" else distance
            assert value <= bound


@pytest.mark.parametrize("ridge", [0.0, 1e-6, 0.3])
def test_long_passes_are_bounded_and_sharp(ridge, monkeypatch):
    """Integrals and blocks instead of sums: above the sum, by little."""
    a = {"n": 3000, "passes": 3, "step": 0.1, "gradient": 1.0, "drift": 0.05}
    exact = sgd_sensitivity(**a, ridge=ridge, adjacency="zero_out")
    monkeypatch.setattr(stability, "_EXACT_TERMS", 40)
    quick = sgd_sensitivity(**a, ridge=ridge, adjacency="zero_out")
    assert exact * (1 - 1e-12) <= quick <= exact * (1.02 if ridge else 1 + 1e-3)


def test_more_of_anything_moves_more():
    base = {"n": 50, "passes": 2, "step": 0.1, "gradient": 1.0, "drift": 0.1}
    least = sgd_sensitivity(**base, adjacency="replace_one")
    for name, value in (("passes", 3), ("step", 0.2), ("gradient", 1.1), ("drift", 0.2)):
        assert sgd_sensitivity(**{**base, name: value}, adjacency="replace_one") > least * 1.01
    paper = stability.paper_uas(
        n=50, steps=100, step=0.1, alpha=0.0, constant=1.0, gradient=1.0, failure=1e-6
    )
    assert least < sgd_sensitivity(**base, adjacency="replace_one", order="fresh")
    assert least < paper.sensitivity


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"adjacency": "add_remove"}, "public number of rows"),
        ({"ridge": 10.0}, r"step \* ridge < 1"),
        ({"batch": 11}, "batch must be at most"),
        ({"output": "first"}, "output"),
        ({"order": "sorted"}, "order"),
        ({"drift": -1.0}, "drift"),
    ],
)
def test_refusals(wrong, message):
    a = {"n": 10, "passes": 1, "step": 0.1, "gradient": 1.0, "drift": 0.0}
    with pytest.raises((AssumptionError, ParameterError), match=message):
        sgd_sensitivity(**{**a, "adjacency": "zero_out", **wrong})


@pytest.mark.parametrize(
    ("n", "steps", "epsilon", "paper", "permutation"),
    [
        (1000, 1000, 0.5, 2353.6, 16.10),
        (1000, 1000, 1.0, 1176.8, 8.44),
        (1000, 1000, 4.0, 294.2, 2.38),
        (10000, 10000, 1.0, 1300.4, 8.45),
        (10000, 50000, 1.0, 1372.0, 25.35),
        (1000, 10000, 1.0, 1337.9, 46.46),
    ],
)
def test_printed_noise(n, steps, epsilon, paper, permutation):
    """sigma/(G step) of smooth losses at delta = 1e-6, published and in one fixed order."""
    a = {"step": 1.0, "gradient": 1.0}
    found = sgd_sensitivity(n=n, passes=steps // n, drift=0.0, adjacency="replace_one", **a)
    assert abs(found / mu(epsilon, 1e-6) - permutation) < 0.0101
    old = stability.paper_uas(n=n, steps=steps, alpha=1.0, constant=1.0, failure=5e-7, **a)
    assert abs(old.sensitivity * math.sqrt(2 * math.log(2.5e6)) / epsilon - paper) < 0.06


@pytest.mark.parametrize(("passes", "permutation", "paper"), [(1, 89.4, 2370), (1000, 6133, 45772)])
def test_printed_noise_of_the_hinge(passes, permutation, paper):
    """Per unit of step, n = 1000: true G = 1 against the published 2."""
    found = sgd_sensitivity(
        n=1000, passes=passes, step=1.0, gradient=1.0, drift=1.0, adjacency="replace_one"
    )
    assert math.isclose(found / mu(1.0, 1e-6), permutation, rel_tol=6e-4)
    old = stability.paper_uas(
        n=1000, steps=1000 * passes, step=1.0, alpha=0.0, constant=1.0, gradient=2.0, failure=5e-7
    )
    assert math.isclose(old.sensitivity * math.sqrt(2 * math.log(2.5e6)), paper, rel_tol=6e-4)


# --- coupled runs ---------------------------------------------------------------------------------


def derivative(q, u, y):
    """The derivative of |u - y|^q / q, clipped to 1: (q-1)-Hoelder with constant 2^(2-q)."""
    return np.clip(np.sign(u - y) * np.abs(u - y) ** (q - 1), -1.0, 1.0)


def run(q, X, y, step, order, *, batch, ridge, radius):
    w = np.zeros(X.shape[1])
    total = np.zeros_like(w)
    for rows in order:
        total += w
        g = derivative(q, X[rows] @ w, y[rows]) @ X[rows] / batch
        w = w - step * (g + ridge * w)
        w *= min(1.0, radius / max(np.linalg.norm(w), 1e-300))
    return total / len(order), w


@pytest.mark.thorough
@pytest.mark.parametrize("q", [1.0, 1.5, 2.0])
@pytest.mark.parametrize(("batch", "ridge"), [(1, 0.0), (4, 0.0), (1, 0.3), (3, 0.2)])
def test_coupled_runs_stay_within_the_bound(q, batch, ridge):
    """P1: random and hostile neighbours; replace-one and zero-out (a null row)."""
    rng = np.random.default_rng(int(10 * q) + batch)
    n, d, passes, step = 12, 3, 3, 0.5
    drift = expansion(q - 1, 2.0 ** (2 - q), step / (1 - step * ridge), clip=1.0)
    worst = 0.0
    for trial in range(60):
        X = rng.normal(size=(n, d))
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        y = rng.choice([-1e-9, 1e-9, 1.0, -1.0], size=n)
        order = [list(range(i, i + batch)) for i in range(0, n - batch + 1, batch)] * passes
        for adjacency in ("replace_one", "zero_out"):
            X2, y2 = X.copy(), y.copy()
            row = int(rng.integers(n // batch * batch)) if trial % 2 else 0
            X2[row], y2[row] = (-X[row], y[row]) if adjacency == "replace_one" else (0.0, 0.0)
            runs = [
                run(q, A, b, step, order, batch=batch, ridge=ridge, radius=2.0)
                for A, b in ((X, y), (X2, y2))
            ]
            for k, output in enumerate(("average", "last")):
                bound = sgd_sensitivity(
                    n=n, passes=passes, step=step, gradient=1.0, drift=drift, adjacency=adjacency,
                    batch=batch, ridge=ridge, output=output,
                )  # fmt: skip
                distance = np.linalg.norm(runs[0][k] - runs[1][k])
                assert distance <= bound
                worst = max(worst, distance / bound)
    assert worst > 0.2  # the neighbours are hostile enough to mean something


def test_absolute_loss_attains_the_bound():
    """T5: rows almost orthogonal to all that came before push the runs apart at every step."""
    step, steps, s = 0.01, 400, 1e-6
    runs = []
    for label in (1.0, -1.0):
        w = np.zeros(steps + 1)
        for t in range(steps):
            x = np.zeros(steps + 1)
            x[0], x[t] = (1.0, 1.0) if t == 0 else (s, math.sqrt(1 - s * s))
            y = 10.0 * label if t == 0 else 0.0
            w = w - step * np.sign(x @ w - y) * x
        runs.append(w)
    drift = expansion(0.0, 2.0, step, clip=1.0)
    bound = sgd_sensitivity(
        n=steps, passes=1, step=step, gradient=1.0, drift=drift, adjacency="replace_one",
        output="last",
    )  # fmt: skip
    assert math.isclose(bound, 0.4, rel_tol=1e-9)
    assert 0.999 < np.linalg.norm(runs[0] - runs[1]) / bound <= 1.0


# --- one pass on smooth losses --------------------------------------------------------------------


def test_phase_known_answers():
    """Feldman, Koren, Talwar phases at n = 1000, d = 20, (1, 1e-6)."""
    eta = 0.02608647
    known = {1: (500, 0.01301715, 0.05499327), 2: (250, 0.00324777, 0.01372076),
             3: (125, 0.00080868, 0.00341642), 4: (62, 0.00020051, 0.00084710)}  # fmt: skip
    for i, (steps, sensitivity, sigma) in known.items():
        found = phase_sensitivity(
            gradient=1.0, step=eta / 4**i, steps=steps, smoothness=1.0, adjacency="replace_one"
        )
        assert math.isclose(found, sensitivity, rel_tol=4e-5)
        assert math.isclose(found / mu(1.0, 1e-6), sigma, rel_tol=4e-5)
    both = phase_sensitivity(
        gradient=1.0, step=0.04253892736 / 4, steps=500, smoothness=1.0, adjacency="replace_one",
        output="average_both",
    )  # fmt: skip
    assert math.isclose(both / mu(1.0, 1e-6), 0.08967729961, rel_tol=1e-8)


def test_phase_outputs_and_halves():
    def found(output, adjacency="replace_one", batch=1):
        return phase_sensitivity(
            gradient=3.0, step=0.5, steps=4, smoothness=4.0, adjacency=adjacency, output=output,
            batch=batch,
        )  # fmt: skip

    outputs = ("average_before", "average_both", "average_after", "last")
    assert np.allclose([found(o) for o in outputs], [2.25, 2.4, 3.0, 3.0], rtol=1e-9)
    assert np.allclose([found(o, "zero_out", 2) for o in outputs], [0.5625, 0.6, 0.75, 0.75])
    with pytest.raises(AssumptionError, match="privacy condition"):
        phase_sensitivity(gradient=3.0, step=0.5, steps=4, smoothness=4.01, adjacency="zero_out")
    with pytest.raises(AssumptionError, match="zero_out"):
        found("last", "add_remove")


@pytest.mark.parametrize(("eta", "exceeds"), [(2.0, False), (2.5, True), (6.0, True)])
def test_the_step_condition_is_a_privacy_condition(eta, exceeds):
    """A clipped quadratic of curvature 1: with longer steps than 2 the runs drift apart."""
    steps = 100
    difference = np.zeros(steps + 1)
    difference[0] = 2 * eta
    for t in range(1, steps + 1):  # labels midway, margins 2 apart: derivatives +1 and -1
        size = np.linalg.norm(difference)
        x = 2.0 * difference / size**2
        x[t] = math.sqrt(1 - min(1.0, float(x @ x)))
        difference = difference - eta * 2.0 * x
    grown = np.linalg.norm(difference) / (2 * eta)
    assert (grown > 1.5) == exceeds
    assert math.isclose(grown, math.sqrt(1 + steps * (1 - 2 / eta)), rel_tol=1e-9)


def test_three_passes_against_the_published_bound():
    """Wu et al. 2017: one hit of 2 step G a pass, (passes + 1)/2 of them for the average."""
    exact = sgd_sensitivity(
        n=1000, passes=3, step=0.01, gradient=1.0, drift=0.0, adjacency="replace_one"
    )
    assert math.isclose(exact, 0.03998, rel_tol=1e-9)
    assert exact < 2 * 0.01 * (3 + 1) / 2


def test_strongly_convex_steps_attain_the_bound():
    """Linear losses with a ridge: the gradient's sign flipped in one row, every pass."""
    n, passes, ridge, smooth = 9, 40, 0.5, 2.0
    w = np.zeros(2)
    for t in range(1, n * passes + 1):
        step = min(1 / (smooth + ridge), 1 / (ridge * t))
        signs = np.array([1.0, -1.0]) if t % n == 3 else np.zeros(2)
        w = w - step * (signs + ridge * w)
    bound = stability.strongly_convex_sensitivity(
        gradient=1.0, ridge=ridge, n=n, adjacency="replace_one"
    )
    assert math.isclose(bound, 2 / (ridge * n), rel_tol=1e-9)
    assert 0.95 * bound < abs(w[0] - w[1]) <= bound
    with pytest.raises(AssumptionError, match="add_remove"):
        stability.strongly_convex_sensitivity(gradient=1.0, ridge=1.0, n=3, adjacency="add_remove")


@given(st.integers(1, 30), st.floats(0.01, 10), st.integers(0, 2**31))
@settings(max_examples=60, deadline=None)
def test_minimisers_stay_within_the_bound(count, ridge, seed):
    """Mean of <g_i, w> + (ridge/2)|w|^2: the minimiser is known."""
    g = np.random.default_rng(seed).normal(size=(count, 3))
    g /= np.linalg.norm(g, axis=1, keepdims=True)
    other = g.copy()
    other[0] = -g[0]
    moved = np.linalg.norm(g.mean(axis=0) - other.mean(axis=0)) / ridge
    a = {"gradient": 1.0, "ridge": ridge, "count": count, "adjacency": "replace_one"}
    bound = stability.regularised_minimiser(**a, distance=0.0)
    assert moved <= bound * (1 + 1e-12) <= moved * (1 + 1e-9)
    more = stability.regularised_minimiser(**a, distance=0.25)
    assert math.isclose(more, bound + 0.5, rel_tol=1e-9)


# --- published constants --------------------------------------------------------------------------

T1 = [
    ((0.0, 1.0, 2.0, 0.01, 1000, 1000, 5e-7), 64.249239, 65.249239, 4.36719467),
    ((0.5, 2.12132034, 1.0, 0.01, 1000, 1000, 5e-7), 64.249239, 65.249239, 2.16799127),
    ((1.0, 1.0, 1.0, 0.01, 1000, 1000, 5e-7), 64.249239, 65.249239, 2.16798069),
    ((0.5, 1.0, 2.0, 0.05, 200, 5000, 1e-3), 1.464729, 61.618218, 20.48263469),
    ((0.0, 2.0, 3.0, 1e-4, 1000, 10**6, 5e-7), 0.253474, 1253.474336, 1.28355095),
]


@pytest.mark.parametrize(("case", "excess", "draws", "known"), T1)
def test_published_stability(case, excess, draws, known):
    alpha, constant, gradient, step, n, steps, failure = case
    found = stability.paper_uas(
        n=n, steps=steps, step=step, alpha=alpha, constant=constant, gradient=gradient,
        failure=failure,
    )  # fmt: skip
    assert abs(found.excess - excess) < 1e-6
    assert abs(found.draws - draws) < 1e-6
    assert math.isclose(found.sensitivity, known, rel_tol=1e-8)


@pytest.mark.parametrize(
    ("alpha", "one", "two"),
    [
        (0.0, (1, 1, 1), (2, 2, 4)),
        (0.25, (1.37973, 0.61480, 0.6), (2.40225, 1.5492, 3.8098)),
        (0.5, (1.44225, 0.28868, 0.33333), (2.28943, 1.1547, 5.3333)),
        (0.75, (1.43782, 0.047246, 0.14286), (2.13659, 0.75593, 36.571)),
        (0.9, (1.42467, 4.4808e-4, 0.052632), (2.05188, 0.45883, 55188)),
        (1.0, (1.41421, 0, 0), (2, 0, 0)),
    ],
)
def test_published_constants(alpha, one, two):
    for constant, known in ((1.0, one), (2.0, two)):
        found = stability.paper_constants(alpha, constant, at_zero=0.0, initial_loss=0.0)
        assert np.allclose(found, known, rtol=2e-5)


def test_published_constant_identity():
    """T4: C_a = c_2^2 4^(a/(1-a)) ... simplifies; and it overflows to infinity, not to an error."""
    for alpha, constant, known in ((0.3, 1.7, 2.4523372), (0.8, 0.6, 6.718464e-4)):
        found = stability.paper_constants(alpha, constant, at_zero=1.0, initial_loss=3.0)
        assert math.isclose(found[2] - 6.0, known, rel_tol=1e-6)
    assert stability.paper_constants(0.999, 4.0, at_zero=0.0, initial_loss=0.0)[2] == INF


@pytest.mark.parametrize(
    ("alpha", "step", "known"),
    [(0.0, 0.00149, 5.48), (0.5, 0.00102, 4.51), (0.9, 0.00080, 4.00), (1.0, 0.00076, 3.90)],
)
def test_iterate_norms(alpha, step, known):
    """|y - u|^q at n = T = 10^4, X = Y = 1, steps to three digits."""
    q = 1 + alpha
    constant = q * 2 ** (2 - q)
    if alpha == 0.0:
        constant = 1.0  # the gradient's norm serves at alpha = 0
    found = stability.iterate_norm_bound(alpha, constant, step, steps=10**4, initial_loss=1.0)
    assert abs(found - known) < 0.02
    with pytest.raises(AssumptionError, match="constant <= 1"):
        stability.iterate_norm_bound(1.0, 2.0, 0.6, steps=3, initial_loss=1.0)


# --- rounding -------------------------------------------------------------------------------------


def test_rounding_bounds_what_float64_does():
    """The same smooth run in float64 and in extended precision."""
    rng = np.random.default_rng(5)
    d, steps, radius = 20, 400, 3.0
    X = rng.normal(size=(steps, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = rng.normal(size=steps)
    ends = []
    for kind in (np.float64, np.longdouble):
        w, total = np.zeros(d, dtype=kind), np.zeros(d, dtype=kind)
        for x, label in zip(X.astype(kind), y.astype(kind), strict=True):
            total = total + w
            w = w - kind(1.9) * np.clip(x @ w - label, -1, 1) * x
            size = np.sqrt(w @ w)
            w = w * min(kind(1.0), kind(radius) / size)
        ends.append((w, total / steps))
    allowed = stability.rounding(steps, d, 5.0)
    for k in range(2):
        error = float(np.linalg.norm((ends[0][k] - ends[1][k]).astype(float)))
        assert error <= allowed
    assert allowed < 1e-9
    assert math.isclose(stability.rounding(2 * steps, d, 5.0), 2 * allowed, rel_tol=1e-9)


def test_rounding_of_a_jump_is_a_drift():
    """A margin off by e on either side lets the square grow by 8 step G e at most."""
    step, gradient, d, radius = 0.1, 2.0, 10, 3.0
    unit = 2.0**-53
    least = math.sqrt(8 * step * gradient * d * unit * radius)
    found = stability.rounding_drift(step, gradient=gradient, d=d, radius=radius)
    assert least < found < 2 * least


def test_participation_shift():
    assert math.isclose(stability.participation_shift(0.1, 3.0, "replace_one"), 0.6, rel_tol=1e-9)
    assert math.isclose(stability.participation_shift(0.1, 3.0, "zero_out"), 0.3, rel_tol=1e-9)


@pytest.mark.parametrize("step", [1e-165, 1e-250, 1e160])
def test_sensitivities_keep_their_digits_at_any_scale(step):
    """Squares of such steps under- or overflow; the recursion is homogeneous in step and drift."""
    for ridge in (0.0, 0.1 / step):
        for output in ("average", "last"):
            at = {"n": 10, "passes": 3, "gradient": 1.0, "output": output}
            at["adjacency"] = "replace_one"
            unit = stability.sgd_sensitivity(step=1.0, drift=0.3, ridge=ridge * step, **at)
            found = stability.sgd_sensitivity(step=step, drift=0.3 * step, ridge=ridge, **at)
            assert found / step == pytest.approx(unit, rel=1e-11)
