"""The moves of the few-round solvers, on exact sums: known runs, identities, bounds on rows."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import dpsco as dp
from dpsco.data.queries import ClippedDifference, ClippedGradient
from dpsco.losses import CustomLoss, Hinge, L1Penalty, L2Penalty, Logistic, Squared, SquaredDistance
from dpsco.privacy.accounting import gaussian
from dpsco.privacy.budget import GDP
from dpsco.solvers import get

RECURSIVE = ("acc_srgd", "srg_sgd", "srg_online_to_batch")
KEYS = (*RECURSIVE, "acc_independent")
WIDE = 1e6  # a clip that never acts
X8 = np.array([[0.6, 0.8], [-1, 0], [0, 1], [0.8, -0.6], [0.6, -0.8], [0, -1], [1, 0], [-0.6, 0.8]])
Y8 = np.array([1.0, -1, 1, 1, -1, -1, 1, 1])


def logistic(radius=5.0, **more):
    return dp.Problem(
        loss=Logistic(),
        bounds=dp.Bounds(1.0, label="sign"),
        domain=dp.domains.L2Ball(radius),
        **more,
    )


def squared(radius=10.0, label=10.0, **more):
    return dp.Problem(
        loss=Squared(),
        bounds=dp.Bounds(1.0, label=label),
        domain=dp.domains.L2Ball(radius),
        **more,
    )


def make(key, problem, n, d, **options):
    return dp.plan(problem, n=n, d=d, budget=GDP(1.0), solver=key, options=options)


def opened(plan, *data):
    return dp.data.from_arrays(*data).bounded(plan.problem.bounds, order="given")


def drive(plan, *data, noise=None, look=None):
    """Run a plan on exact means; ``noise`` is added to them, ``look`` sees each round."""
    stepper, source = get(plan.solver).stepper(plan), opened(plan, *data)
    for t, (start, stop) in enumerate(plan.batches()):
        query = stepper.query()
        total = source.sum(query, start, stop)
        stepper.update(total if noise is None else total + (stop - start) * noise[t])
        if look is not None:
            look(stepper, query)
    return stepper.output()


def unit_rows(n, d, seed):
    rows = np.random.default_rng(seed).standard_normal((n, d))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True) / (1 + 1e-12)


# -- known runs (two rows a batch, no noise) -------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "rounds", "clip", "z_factor", "expected"),
    [
        (4, 2, 100.0, 0.5, 1.5),
        (4, 2, 100.0, 1.0, 1.625),
        (4, 2, 2.0, 0.5, 1.375),
        (4, 2, 2.0, 1.0, 1.5625),
        (6, 3, 100.0, 0.5, 2.46875),
        (6, 3, 100.0, 1.0, 2.78125),
        (6, 3, 2.0, 0.5, 2.2291666667),
        (6, 3, 2.0, 1.0, 2.6927083333),
    ],
)
def test_least_squares_by_hand(rows, rounds, clip, z_factor, expected):
    plan = make(
        "acc_srgd", squared(), rows, 1, rounds=rounds, clip=clip, beta=2.0, z_factor=z_factor
    )
    found = drive(plan, np.ones((rows, 1)), np.arange(1.0, rows + 1))
    assert found == pytest.approx([expected], abs=6e-11)


def test_trace_of_least_squares():
    seen = []
    plan = make("acc_srgd", squared(), 4, 1, rounds=2, clip=100.0, beta=2.0)

    def look(stepper, query):
        points = (stepper.prefix, stepper.mirror, stepper.descent, stepper.point)
        seen.append([float(vector[0]) for vector in points])

    drive(plan, np.ones((4, 1)), np.arange(1.0, 5.0), look=look)
    assert seen[0] == pytest.approx([-1.5, 0.375, 0.75, 0.5], abs=1e-11)
    assert seen[1][:3] == pytest.approx([-4.0, 1.375, 1.5], abs=1e-11)


@pytest.mark.parametrize(
    ("key", "radius", "options", "expected"),
    [
        ("acc_srgd", 5.0, {}, [2.571815751, 2.461906001]),
        ("acc_srgd", 5.0, {"clip": 0.6}, [2.608475526, 2.405044902]),
        ("acc_srgd", 5.0, {"z_factor": 1.0}, [3.633728231, 3.124536400]),
        ("acc_srgd", 1.0, {}, [0.637779664, 0.770218865]),
        ("srg_online_to_batch", 5.0, {}, [2.177565062, 2.072752456]),
        ("srg_sgd", 5.0, {}, [2.969027892, 2.590298841]),
        ("acc_independent", 5.0, {}, [1.146271064, 2.852083516]),
    ],
)
def test_logistic_regression_on_eight_rows(key, radius, options, expected):
    given = {"rounds": 4, "beta": 0.25, "clip": 1.0, **options}
    found = drive(make(key, logistic(radius), 8, 2, **given), X8, Y8)
    assert found == pytest.approx(expected, abs=1e-9)


def test_one_round_is_one_step():
    """T = 1: y = project(w_0 - mean/beta)."""
    gradient = -(Y8[:, None] * X8 / 2).mean(axis=0)
    for key in ("acc_srgd", "acc_independent", "srg_sgd"):
        found = drive(make(key, logistic(), 8, 2, rounds=1, beta=0.5), X8, Y8)
        assert found == pytest.approx(-gradient / 0.5, abs=1e-10)


@settings(max_examples=25, deadline=None)
@given(
    key=st.sampled_from(KEYS),
    n=st.integers(5, 30),
    rounds=st.integers(1, 5),
    clip=st.floats(0.05, 1.5),
    beta=st.floats(0.02, 2.0),
    seed=st.integers(0, 99),
)
def test_runs_equal_their_twin(key, n, rounds, clip, beta, seed):
    """The whole run once more in plain NumPy, with noise, rows left over, and a clip that acts."""
    rng = np.random.default_rng(seed)
    X, y = unit_rows(n, 3, seed), rng.choice([-1.0, 1.0], n)
    noise = 0.1 * rng.standard_normal((rounds, 3))
    plan = make(key, logistic(2.0), n, 3, rounds=rounds, clip=clip, beta=beta)

    def gradients(w, rows, labels):
        return (-labels / (1 + np.exp(labels * (rows @ w))))[:, None] * rows

    def project(w):
        return w * min(1.0, 2.0 / max(np.linalg.norm(w), 1e-300))

    x = last = z = y_t = np.zeros(3)
    P, start = np.zeros(3), 0
    for t in range(rounds):
        stop = start + n // rounds + (t < n % rounds)
        rows, labels = X[start:stop], y[start:stop]
        v = gradients(x, rows, labels)
        if key != "acc_independent":
            v = (t + 1) * v - t * gradients(last, rows, labels)
        v = v * np.minimum(1.0, plan.clip / np.maximum(np.linalg.norm(v, axis=1), 1e-300))[:, None]
        mean = v.sum(axis=0) / (stop - start) + noise[t]
        P = (t + 1) * mean if key == "acc_independent" else P + mean
        z, y_t = project(z - P / (2 * beta)), project(x - P / ((t + 1) * beta))
        tau, last, start = 2 / (t + 3), x, stop
        x = {"srg_sgd": y_t, "srg_online_to_batch": (1 - tau) * x + tau * z}.get(
            key, (1 - tau) * y_t + tau * z
        )
        leash = {"srg_online_to_batch": 8.0, "acc_independent": math.inf}.get(key, 12.0)
        longest = leash * plan.clip / ((t + 1) * plan.population_smoothness)
        x = last + (x - last) * min(1.0, longest / max(np.linalg.norm(x - last), 1e-300))
    expected = y_t if key.startswith("acc") else x
    assert np.allclose(drive(plan, X, y, noise=noise), expected, rtol=0.0, atol=1e-9)


# -- recursive gradients ---------------------------------------------------------------------------


@pytest.mark.parametrize("key", RECURSIVE)
def test_differences_telescope(key):
    """Batches that are copies of one another: the prefix sum is t + 1 times the gradient at x_t."""
    X, y = unit_rows(6, 3, 0), np.array([1.0, 1, -1, 1, -1, 1])
    plan = make(key, logistic(), 60, 3, rounds=10, clip=WIDE, beta=0.3)
    moved = []

    def look(stepper, query):
        at = stepper.previous  # the point that the round was asked at
        gradient = (-y / (1 + np.exp(y * (X @ at))))[:, None] * X
        np.testing.assert_allclose(
            stepper.prefix, stepper.round * gradient.mean(axis=0), rtol=0, atol=1e-10
        )
        moved.append(np.linalg.norm(at - stepper.point))

    drive(plan, np.tile(X, (10, 1)), np.tile(y, 10), look=look)
    assert len(moved) == 10
    assert min(moved[:5]) > 1e-3


def linear():
    """The loss -y <w, x>; its slope does not change, up to the least smoothness there is."""
    return CustomLoss(
        lambda u, y: -y * u,
        lambda u, y: -y + 0.0 * u,
        slope_bound=1.0,
        curvature_bound=1e-9,
        convex=True,
        labels="sign",
        name="linear",
    )


@pytest.mark.parametrize("key", RECURSIVE)
def test_linear_losses_give_their_rows(key):
    """All that a run sees of a row is the row itself, in every round: rows of equal sums, equal."""
    problem = dp.Problem(
        loss=linear(), bounds=dp.Bounds(1.0, label="sign"), domain=dp.domains.L2Ball(2.0)
    )
    plan = make(key, problem, 12, 3, rounds=4, clip=1.0, beta=0.5)
    X, y = 0.5 * unit_rows(12, 3, 1), np.where(np.arange(12) % 5, 1.0, -1.0)
    source, seen = opened(plan, X, y), []

    def look(stepper, query):
        for row in range(12):
            found = source.sum(query, row, row + 1)
            assert found == pytest.approx(-y[row] * X[row], abs=1e-15)
        seen.append(stepper.prefix)

    answer = drive(plan, X, y, look=look)
    means = -(y[:, None] * X).reshape(4, 3, 3).mean(axis=1)
    np.testing.assert_allclose(seen, np.cumsum(means, axis=0), rtol=0, atol=1e-14)
    same = np.repeat(-means, 3, axis=0)  # each batch three times its mean
    assert drive(plan, same, np.ones(12)) == pytest.approx(answer, abs=1e-12)


@pytest.mark.parametrize("key", KEYS)
def test_order_inside_a_batch_does_not_matter(key):
    plan = make(key, logistic(), 8, 2, rounds=4, beta=0.25)
    inside = [1, 0, 3, 2, 5, 4, 7, 6]
    one = drive(plan, X8, Y8)
    assert drive(plan, X8[inside], Y8[inside]) == pytest.approx(one, abs=1e-13)
    across = [2, 1, 0, 3, 4, 5, 6, 7]
    assert np.abs(drive(plan, X8[across], Y8[across]) - one).max() > 1e-3


@pytest.mark.thorough
@pytest.mark.parametrize("radius", [0.3, 3.0])
@pytest.mark.parametrize("rounds", [1, 2, 5, 20])
def test_noise_free_bound_on_quadratics(rounds, radius):
    """F(y_T) - F* <= 2 beta R^2/(T (T+1)) with beta the smoothness of F, and not below it."""
    ratios, short = [], []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((5, 3)) * [1.0, 0.3, 0.05]
        X /= np.linalg.norm(X, axis=1).max() * (1 + 1e-9)
        y = rng.uniform(-1, 1, 5)

        def risk(w, X=X, y=y):
            return 0.5 * np.mean((X @ w - y) ** 2)

        curvature = np.linalg.eigvalsh(X.T @ X / 5)[-1]
        best = minimize(
            risk, np.zeros(3), jac=lambda w, X=X, y=y: X.T @ (X @ w - y) / 5, method="SLSQP",
            constraints=[{"type": "ineq", "fun": lambda w: radius**2 - w @ w}],
            options={"ftol": 1e-14, "maxiter": 500},
        )  # fmt: skip
        data = np.tile(X, (rounds, 1)), np.tile(y, rounds)
        allowed = 2 * curvature * (best.x @ best.x) / (rounds * (rounds + 1))

        def ratio(beta, data=data, risk=risk, best=best, allowed=allowed):
            given = {"rounds": rounds, "clip": WIDE, "beta": beta}
            plan = make("acc_srgd", squared(radius, 1.0), 5 * rounds, 3, **given)
            return (risk(drive(plan, *data)) - best.fun) / allowed

        ratios.append(ratio(curvature))
        short.append(ratio(8 * curvature))
    assert -1e-6 < max(ratios) <= 1.0
    if rounds > 1 and radius > 1:
        assert max(short) > max(ratios)  # the bound knows the step


@pytest.mark.slow
@pytest.mark.parametrize("walk", [False, True], ids=["independent", "walk"])
@pytest.mark.parametrize("rounds", [2, 7, 30])
def test_noisy_bound_on_quadratics(rounds, walk):
    """What errors e_t of the prefix sums cost at most, for beta >= 2 M, whatever they are.

    F(y_T) - F* <= 2/(T (T+1)) (beta R^2 + sum of |e_t|^2/beta - <e_t, z_t - x*>); without the sum
    it would be false.
    """
    ratios, without = [], []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        curvatures = 10.0 ** rng.uniform(-3, 0, 3)
        centre, radius = rng.standard_normal(3), 10.0 ** rng.uniform(-0.5, 0.5)

        def risk(w, curvatures=curvatures, centre=centre):
            return 0.5 * curvatures @ (w - centre) ** 2

        best = minimize(
            risk, np.zeros(3), jac=lambda w, a=curvatures, c=centre: a * (w - c), method="SLSQP",
            constraints=[{"type": "ineq", "fun": lambda w, r=radius: r**2 - w @ w}],
            options={"ftol": 1e-14, "maxiter": 500},
        )  # fmt: skip
        beta = 2 * curvatures.max()
        plan = make("acc_srgd", squared(radius), rounds, 3, rounds=rounds, clip=1.0, beta=beta)
        stepper = get("acc_srgd").stepper(plan)
        errors = rng.standard_normal((rounds, 3)) * 10.0 ** rng.uniform(-2, 0.5)
        errors = np.cumsum(errors, axis=0) if walk else errors
        allowed = first = beta * best.x @ best.x
        for t, error in enumerate(errors):
            exact = (t + 1) * curvatures * (stepper.point - centre)
            allowed += error @ error / beta - error @ (stepper.mirror - best.x)
            stepper.update(exact + error - stepper.prefix)
        excess = (risk(stepper.output()) - best.fun) * rounds * (rounds + 1) / 2
        ratios.append(excess / allowed)
        without.append(excess / first)
    assert 0.05 < max(ratios) <= 1.0
    assert max(without) > 1.0


# -- what a row contributes ------------------------------------------------------------------------


def adversarial(rounds):
    """Labels that turn around half-way: the recursive gradients have to be unlearnt."""
    return np.ones((rounds, 1)), np.where(np.arange(rounds) < rounds // 2, 1.0, -1.0)


@pytest.mark.parametrize(("rounds", "largest"), [(15, 3.31), (31, 4.38), (63, 4.74)])
def test_only_clipping_bounds_a_row(rounds, largest):
    """With beta = M a row contributes several L without a clip, and never more than C with one."""
    for clip in (WIDE, 1.0):
        plan = make("acc_srgd", logistic(10.0), rounds, 1, rounds=rounds, beta=0.25, clip=clip)
        both, found = opened(make("srg_sgd", logistic(), 2, 1), np.ones((2, 1)), [1.0, -1.0]), []

        def look(stepper, query, both=both, found=found):
            found.extend(abs(both.sum(query, row, row + 1)[0]) for row in (0, 1))

        drive(plan, *adversarial(rounds), look=look)
        if clip == WIDE:
            assert max(found) == pytest.approx(largest, abs=6e-3)
        else:
            assert 0.99 < max(found) <= 1.0
    if rounds == 31:  # what noise for C = L would cost that row, if it were not clipped
        mu = gaussian.mu(1.0, 1e-6)
        assert gaussian.epsilon(1e-6, largest * mu) == pytest.approx(5.09, abs=0.02)


def lengths(query):
    """What rows in all directions, of either label, would contribute to a sum without its clip."""
    angles = np.arange(48) * math.pi / 24
    rows = np.stack([np.cos(angles), np.sin(angles)], axis=1)

    def slopes(weights, label):
        return -label / (1 + np.exp(label * (rows @ weights)))

    if isinstance(query, ClippedGradient):
        return np.abs([slopes(query.weights, label) for label in (1.0, -1.0)])
    first, second = query.first_factor, query.second_factor
    return np.abs(
        [first * slopes(query.first, y) - second * slopes(query.second, y) for y in (1.0, -1.0)]
    )


def reached(key, radius, scale, seed, rounds=31, **options):
    """Return the largest contribution of each round, on wild labels and noise, and the plan."""
    rng = np.random.default_rng(seed)
    plan = make(key, logistic(radius), rounds, 2, rounds=rounds, **options)
    noise = scale * rng.standard_normal((rounds, 2))
    if seed % 2:
        noise = scale * np.where(np.arange(rounds) < rounds // 2, 1.0, -3.0)[:, None] * [0.6, 0.8]
    labels, found = rng.choice([-1.0, 1.0], rounds), []

    def look(stepper, query):
        found.append(lengths(query).max())

    drive(plan, unit_rows(rounds, 2, seed), labels, noise=noise, look=look)
    return np.array(found), plan


@pytest.mark.thorough
@pytest.mark.parametrize("radius", [1.0, 5.0])
@pytest.mark.parametrize("scale", [0.0, 1.0, 100.0])
def test_online_to_batch_needs_no_clip(radius, scale):
    """Moves are 2 D/(t+2) at most: a row contributes at most L + 2 M D t/(t+2), whatever happens.

    The accelerated method has no such bound.
    """
    t = np.arange(31)
    allowed = 1.0 + 2 * 0.25 * 2 * radius * t / (t + 2)
    for seed in range(6):
        found, _ = reached("srg_online_to_batch", radius, scale, seed, beta=0.05, clip=WIDE)
        assert np.all(found <= allowed * (1 + 1e-12))
    if scale == 100.0:
        wild = [reached("acc_srgd", radius, scale, s, beta=0.05, clip=WIDE)[0] for s in range(6)]
        assert np.max(wild) > allowed.max()


@pytest.mark.slow
@pytest.mark.parametrize("key", RECURSIVE)
@pytest.mark.parametrize("scale", [0.0, 1.0, 100.0])
def test_certified_moves_never_meet_the_clip(key, scale):
    for seed in range(6):
        found, plan = reached(key, 5.0, scale, seed, beta=0.05, certified=True)
        assert plan.clip == pytest.approx(2 * plan.task.lipschitz)
        assert np.all(found <= plan.clip * (1 + 1e-9))
    free = [reached(key, 5.0, scale, seed, beta=0.05, clip=2.0)[0] for seed in range(6)]
    if key == "acc_srgd" and scale:
        assert np.max(free) > 2.5  # the limit on moves is what keeps it


@pytest.mark.thorough
@pytest.mark.parametrize("key", RECURSIVE)
@pytest.mark.parametrize("loss", [Hinge(), Logistic()], ids=repr)
def test_certified_moves_of_longer_rows(key, loss):
    """Rows of length 3, and a nonsmooth loss that is smoothed: the constants of both count."""
    bounds, domain = dp.Bounds(3.0, label="sign"), dp.domains.L2Ball(2.0)
    problem = dp.Problem(loss=loss, bounds=bounds, domain=domain)
    n = 21_000  # enough for an envelope that is sharp
    plan = make(key, problem, n, 2, rounds=21, beta=0.05, certified=True)
    angles = np.arange(48) * math.pi / 24
    directions = 3.0 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    everyone = opened(plan, np.tile(directions, (2, 1)), np.repeat([1.0, -1.0], 48))
    found = []

    def look(stepper, query):
        free = dataclasses.replace(query, clip=WIDE)
        sums = [everyone.sum(free, row, row + 1) for row in range(96)]
        found.append(np.linalg.norm(sums, axis=1).max())

    noise = 30.0 * np.random.default_rng(1).standard_normal((21, 2))
    drive(plan, np.resize(directions, (n, 2)), np.ones(n), noise=noise, look=look)
    assert 0.6 * plan.clip < max(found) <= plan.clip * (1 + 1e-9)


# -- public penalties ------------------------------------------------------------------------------


@pytest.mark.parametrize("penalty", [L2Penalty(0.3), L1Penalty(0.3)])
@pytest.mark.parametrize("key", KEYS)
def test_rows_are_not_asked_about_the_penalty(key, penalty):
    """At the same points the sums are the same bits, with a penalty and without."""
    given = {"rounds": 4, "beta": 0.25, "clip": 0.7}
    plain, more = (make(key, p, 8, 2, **given) for p in (logistic(), logistic(penalty=penalty)))
    source, steppers = opened(plain, X8, Y8), [get(key).stepper(p) for p in (plain, more)]
    for start, stop in plain.batches():
        steppers[1].restore(steppers[0].round, steppers[0].state())
        sums = [source.sum(stepper.query(), start, stop) for stepper in steppers]
        assert sums[0].tobytes() == sums[1].tobytes()
        assert isinstance(steppers[1].query(), (ClippedGradient, ClippedDifference))
        assert steppers[1].query().bound == 0.7
        for stepper in steppers:
            stepper.update(sums[0])
        assert np.abs(steppers[0].point - steppers[1].point).max() > 1e-3 or start == 0
    assert plain.releases() == more.releases()


@pytest.mark.parametrize("key", KEYS)
def test_ridge_reaches_its_solution(key):
    X, y = unit_rows(8, 3, 3), np.array([1.0, -1, 1, 1, -1, 1, 1, -1])
    best = minimize(
        lambda w: np.mean(np.logaddexp(0, -y * (X @ w))) + 0.05 * w @ w, np.zeros(3), tol=1e-12
    ).x
    rounds = 400 if key == "srg_online_to_batch" else 100
    given = {"rounds": rounds, "clip": WIDE, "beta": 0.35}
    plan = make(key, logistic(penalty=L2Penalty(0.1)), 8 * rounds, 3, **given)
    found = drive(plan, np.tile(X, (rounds, 1)), np.tile(y, rounds))
    assert found == pytest.approx(best, abs=1e-3)


@pytest.mark.thorough
@pytest.mark.parametrize("key", KEYS)
def test_lasso_reaches_its_solution_and_its_zeros(key):
    X = unit_rows(8, 4, 4)
    y = X @ np.array([0.9, 0.0, 0.0, -0.8])
    curvature, best = np.linalg.eigvalsh(X.T @ X / 8)[-1], np.zeros(4)
    for _ in range(20_000):
        moved = best - X.T @ (X @ best - y) / 8 / curvature
        best = np.sign(moved) * np.maximum(np.abs(moved) - 0.06 / curvature, 0)
    assert 0 < np.sum(best == 0) < 4
    rounds = 600 if key == "srg_online_to_batch" else 150
    given = {"rounds": rounds, "clip": WIDE, "beta": curvature}
    plan = make(key, squared(5.0, 2.0, penalty=L1Penalty(0.06)), 8 * rounds, 4, **given)
    found = drive(plan, np.tile(X, (rounds, 1)), np.tile(y, rounds))
    assert found == pytest.approx(best, abs=5e-3)
    if key != "srg_online_to_batch":  # an average has few exact zeros
        assert np.array_equal(found == 0, best == 0)


def test_means_are_found():
    """A vector loss: the mean of rows, through all of the moves."""
    problem = dp.Problem(
        loss=SquaredDistance(), bounds=dp.Bounds(1.0), domain=dp.domains.L2Ball(1.0)
    )
    rows = np.tile([[0.3, -0.4], [0.1, 0.2]], (40, 1))
    for key in KEYS:
        found = drive(make(key, problem, 80, 2, rounds=40, clip=WIDE, beta=1.0), rows)
        assert found == pytest.approx([0.2, -0.1], abs=5e-3)
