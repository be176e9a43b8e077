"""Certified minimisers against closed forms, an independent optimiser, and exact arithmetic."""

import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsco import domains, losses
from dpsco.audit.work import counted
from dpsco.data import Bounds, Classes, from_arrays
from dpsco.data.source import MemorySource, Source
from dpsco.errors import LedgerError
from dpsco.solvers.common import minimise as module
from dpsco.solvers.common.glm_objective import (
    GlmObjective,
    VectorObjective,
    gradient_rounding,
    steepness,
)
from dpsco.solvers.common.minimise import certified_error, minimise, projection_error


class Quadratic:
    """1/2 (w - best)' H (w - best), with gradients that are off by a chosen amount."""

    single, divisible = False, 0

    def __init__(self, hessian, best, error=0.0):
        self.matrix, self.best, self.error = hessian, best, error
        values = np.linalg.eigvalsh(hessian)
        self.strong_convexity, self.smoothness = float(values[0]), float(values[-1])
        self.size, self.calls = len(best), 0

    def gradient(self, weights):
        self.calls += 1
        return self.matrix @ (weights - self.best) + self.error * np.eye(self.size)[0]

    def steepest(self, weights):
        return float(np.linalg.norm(self.gradient(weights))) + self.error

    def hessian(self, weights, spread):
        return self.matrix

    def hessian_product(self, weights, spread):
        return lambda vector: self.matrix @ vector

    def rounding(self, weights):
        return self.error + 1e-15 * (1 + float(np.linalg.norm(weights)))


def quadratic(d, condition, seed, far=1.0, error=0.0):
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(d, d)))[0]
    values = np.geomspace(1.0 / condition, 1.0, d)
    return Quadratic((basis * values) @ basis.T, far * rng.normal(size=d), error)


def on_sphere(problem, radius):
    """The minimiser over an l2 ball by the secular equation: (H + t) w = H best, ||w|| = radius."""
    values, basis = np.linalg.eigh(problem.matrix)
    along = basis.T @ problem.best

    def length(t):
        return np.linalg.norm(values / (values + t) * along) - radius

    t = scipy.optimize.brentq(length, 0.0, 1e9, xtol=1e-15, rtol=8.9e-16)
    return basis @ (values / (values + t) * along)


FAST = settings(max_examples=25, deadline=None, derandomize=True)


@FAST
@given(st.integers(1, 12), st.floats(0, 5), st.integers(0, 10**6), st.floats(2, 9))
def test_whole_space(d, log_condition, seed, digits):
    problem = quadratic(d, 10**log_condition, seed)
    asked = 10.0**-digits
    found = minimise(
        problem, domain=domains.WholeSpace(), start=np.zeros(d), distance=asked, spread=1.0
    )
    assert np.linalg.norm(found - problem.best) <= asked


@FAST
@given(st.integers(2, 12), st.floats(0, 4), st.integers(0, 10**6), st.floats(2, 9))
def test_sphere(d, log_condition, seed, digits):
    problem = quadratic(d, 10**log_condition, seed, far=3.0)
    radius, asked = 0.3 * float(np.linalg.norm(problem.best)), 10.0**-digits
    found = minimise(
        problem, domain=domains.L2Ball(radius), start=np.zeros(d), distance=asked, spread=1.0
    )
    assert np.linalg.norm(found - on_sphere(problem, radius)) <= asked + 1e-11


def test_interior_minimiser_is_not_moved():
    problem = quadratic(5, 10.0, 0)
    domain = domains.L2Ball(2 * float(np.linalg.norm(problem.best)))
    found = minimise(problem, domain=domain, start=np.zeros(5), distance=1e-10, spread=1.0)
    assert np.linalg.norm(found - problem.best) <= 1e-10


@pytest.mark.thorough
@pytest.mark.parametrize(
    "domain",
    [
        domains.L1Ball(1.0),
        domains.Box(-0.2, 0.3),
        domains.Simplex(1.0),
        domains.LpBall(1.5, 1.0),
        domains.Intersection(domains.Box(0.0, 1.0), domains.L2Ball(0.7)),
    ],
    ids=lambda domain: type(domain).__name__,
)
def test_other_domains_by_a_slow_reference(domain):
    problem = quadratic(8, 4.0, 4, far=2.0)
    found = minimise(problem, domain=domain, start=np.zeros(8), distance=1e-7, spread=1.0)
    slow = domain.centre(8)
    for _ in range(80):  # plain projected gradients: the distance falls by a quarter each time
        slow = domain.project(slow - (problem.matrix @ (slow - problem.best)))
    assert np.linalg.norm(found - slow) <= 2e-7
    assert domain.contains(found)


@pytest.mark.parametrize("domain", [domains.WholeSpace(), domains.L1Ball(1.5)], ids=["free", "l1"])
def test_accelerated_gradients_reach_the_same_point(domain, monkeypatch):
    problem = quadratic(10, 300.0, 1)
    usual = minimise(problem, domain=domain, start=np.zeros(10), distance=1e-9, spread=1.0)
    monkeypatch.setattr(module, "TIMES", ())
    problem.calls = 0
    slow = minimise(problem, domain=domain, start=np.zeros(10), distance=1e-9, spread=1.0)
    assert problem.calls > 20
    assert np.linalg.norm(usual - slow) <= 2e-9


def test_many_weights_by_products(monkeypatch):
    problem = quadratic(30, 1e3, 2)
    monkeypatch.setattr(module, "LARGEST_DENSE", 10)
    problem.hessian = None
    found = minimise(
        problem, domain=domains.WholeSpace(), start=np.zeros(30), distance=1e-8, spread=1.0
    )
    assert np.linalg.norm(found - problem.best) <= 1e-8
    ball = domains.L2Ball(0.5)
    inside = minimise(problem, domain=ball, start=np.zeros(30), distance=1e-8, spread=1.0)
    assert np.linalg.norm(inside - on_sphere(problem, 0.5)) <= 2e-8


def test_rounding_is_part_of_the_certificate():
    # Gradients off by 1e-6 leave the minimiser uncertain by 1e-6 / mu = 1e-4.
    problem = quadratic(4, 100.0, 3, error=1e-6)
    wide = minimise(
        problem, domain=domains.WholeSpace(), start=np.zeros(4), distance=3e-4, spread=1.0
    )
    assert np.linalg.norm(wide - problem.best) <= 3e-4
    for domain in (domains.WholeSpace(), domains.L2Ball(0.1)):
        with pytest.raises(LedgerError, match="nothing is returned"):
            minimise(problem, domain=domain, start=np.zeros(4), distance=0.5e-4, spread=1.0)


@FAST
@given(st.integers(2, 6), st.integers(0, 10**6), st.floats(-2, 12), st.booleans())
def test_no_point_is_certified_that_is_too_far(d, seed, log_curvature, free):
    """Whatever the step: short ones hardly move, which must not look like a small gradient."""
    problem = quadratic(d, 50.0, seed, far=2.0)
    radius = 0.3 * float(np.linalg.norm(problem.best))
    domain = domains.WholeSpace() if free else domains.L2Ball(radius)
    best = problem.best if free else on_sphere(problem, radius)
    x = domain.project(np.random.default_rng(seed).normal(size=d))
    near = module._State(problem, domain, 1.0)
    point, _, _ = near.on_boundary(x, problem.gradient(x), 10.0**log_curvature)
    for share in (0.2, 0.999):
        state = module._State(problem, domain, share * float(np.linalg.norm(point - best)))
        assert not state.on_boundary(x, problem.gradient(x), 10.0**log_curvature)[2]


def test_error_that_rounding_leaves():
    free = certified_error(
        1e-12, domain=domains.WholeSpace(), size=3, strong_convexity=1e-3, smoothness=1.0
    )
    assert free == pytest.approx(1e-9)
    ball = domains.L2Ball(10.0)
    held = certified_error(1e-12, domain=ball, size=3, strong_convexity=1e-3, smoothness=1.0)
    assert held == pytest.approx(1e-9 + 2 * 1e-13 / 1e-3 + 1e-13)
    assert projection_error(domains.LpBall(1.5, 1.0)) > projection_error(ball) > 0.0


# -- the work --------------------------------------------------------------------------------------


class Counted(Quadratic):
    """A quadratic that counts its Hessians and products too."""

    def __init__(self, *given, **named):
        super().__init__(*given, **named)
        self.hessians = self.products = 0

    def hessian(self, weights, spread):
        self.hessians += 1
        return self.matrix

    def hessian_product(self, weights, spread):
        def product(vector):
            self.products += 1
            return self.matrix @ vector

        return product

    def steepest(self, weights):
        return 50.0


@pytest.mark.parametrize("many", [False, True], ids=["dense", "products"])
@pytest.mark.parametrize(
    "domain", [domains.WholeSpace(), domains.L2Ball(0.5), domains.Box(-0.1, 0.1)], ids=repr
)
def test_work_is_the_same_wherever_the_minimiser_lies(domain, many, monkeypatch):
    """From a start that is the minimiser to one that a domain cuts off: the same evaluations."""
    monkeypatch.setattr(module, "LARGEST_DENSE", 2 if many else 100)
    basis = quadratic(6, 100.0, 0).matrix
    seen = set()
    for far in (0.0, 1e-9, 1e-3, 0.3, 10.0):
        problem = Counted(basis, far * np.arange(1.0, 7.0) / 6)
        minimise(problem, domain=domain, start=np.zeros(6), distance=1e-6, spread=1.0)
        seen.add((problem.calls, problem.hessians, problem.products))
    assert len(seen) == 1 or (many and not isinstance(domain, domains.WholeSpace))
    steps = module.accelerated_steps(
        Counted(basis, np.zeros(6)), domain=domain, start=np.zeros(6), distance=1e-6
    )
    if len(seen) > 1:  # accelerated gradients from the start: one of their milestones each
        assert {calls - 2 * (k + 1) for k, step in enumerate(steps) for calls, *_ in seen
                if calls == step + 2 * (k + 1)} <= set(steps)  # fmt: skip
        assert len(seen) <= len(steps)


def test_work_grows_with_the_condition_number_only():
    usual = [module.effort(20, condition).rounds for condition in (0.0, 1.0, 50.0, 1e4, 1e8)]
    assert usual == [(2, 8, 32), (2, 8, 32), (4, 16, 64), (6, 24, 96), (10, 40, 160)]
    assert module.effort(1501, 50.0) == module.Effort(3, (8, 32, 128))
    assert f"{module.MILESTONES} public milestones" in module.TRUSTED
    assert module.MILESTONES == 7


def test_many_rows_are_begun_on_a_part_of_them():
    """The rounds on all rows are few then; rows per weight and the domain decide, nothing else."""
    whole = domains.WholeSpace()
    rows = module.divisible_rows(whole, 100_000)
    work = module.effort(20, 1e4, rows)
    assert (work.early, work.rounds, work.hessians) == (6, (1, 7, 97), (7, 13, 103))
    assert module.effort(20, 1e6, rows).rounds[0] == 3
    for other in (module.effort(1000, 1e4, rows), module.effort(2, 1e4, 4000)):
        assert other == module.effort(20, 1e4)
    assert module.divisible_rows(domains.L2Ball(1.0), 9) == 9
    assert module.divisible_rows(domains.Box(-1.0, 1.0), 9) == 0


@pytest.mark.parametrize("domain", [domains.WholeSpace(), domains.L2Ball(0.3)], ids=repr)
@pytest.mark.parametrize("streamed", [False, True])
def test_a_part_of_the_rows_leads_to_the_same_minimiser(domain, streamed, monkeypatch):
    source = table(n=9000)
    objective = glm(Streamed(source) if streamed else source, losses.Logistic(), ridge=1e-3)
    terms = {"domain": domain, "start": np.zeros(source.d), "distance": 1e-8, "spread": 5.0}
    with counted() as work:
        few = minimise(objective, **terms)
    assert work["hessians"] == module.effort(source.d, 2e3, 9000).hessians[0]
    monkeypatch.setattr(module, "divisible_rows", lambda domain, rows: 0)
    assert np.linalg.norm(few - minimise(objective, **terms)) <= 2e-8


def test_a_part_is_the_objective_of_a_smaller_table():
    source, first = table(n=9000), table(n=9000)
    w = np.linspace(-1, 1, source.d)
    for count in (100, 4096, 5000):
        part = glm(source, losses.Logistic()).part(count)
        small = MemorySource(first.rows(0, count), source.bounds)
        same = glm(small, losses.Logistic())
        np.testing.assert_allclose(part.gradient(w), same.gradient(w), rtol=1e-13)
        np.testing.assert_allclose(part.hessian(w, 0.1), same.hessian(w, 0.1), rtol=1e-13)


def test_hessians_in_single_precision_serve_as_models(monkeypatch):
    source = table(n=9000)
    exact, single = (glm(source, losses.Logistic(), ridge=1e-3) for _ in range(2))
    monkeypatch.setattr(GlmObjective, "single", property(lambda self: self is single))
    w = np.linspace(-1, 1, source.d)
    whole, half = exact.hessian(w, 0.1), single.hessian(w, 0.1)
    assert 0.0 < np.linalg.norm(whole - half) <= 1e-5 * np.linalg.norm(whole)
    terms = {"domain": domains.WholeSpace(), "start": 0 * w, "distance": 1e-8, "spread": 5.0}
    assert np.linalg.norm(minimise(exact, **terms) - minimise(single, **terms)) <= 2e-8


def test_single_precision_is_for_large_hessians_far_from_singular():
    assert not glm(table(n=9000), losses.Logistic()).single
    wide = table(n=9000, d=40)
    assert glm(wide, losses.Logistic(), ridge=1e-3).single
    assert not glm(wide, losses.Logistic(), ridge=1e-6).single
    assert not glm(Streamed(wide), losses.Logistic(), ridge=1e-3).single


def test_rounds_on_the_way_are_in_single_precision_and_the_last_ones_are_not():
    source = table(n=30_000, d=40)
    objective = glm(source, losses.Logistic(), ridge=1e-3)
    rough, w = objective.rough(), np.linspace(-1, 1, source.d)
    exact = objective.gradient(w)
    assert 1e-12 < np.linalg.norm(rough.gradient(w) - exact) <= 1e-5 * np.linalg.norm(exact)
    np.testing.assert_allclose(rough.hessian(w, 0.1), objective.hessian(w, 0.1), atol=1e-7)
    assert rough.part(500).single  # however few: its rows are not exact
    assert rough.part(500).rough().size == source.d
    terms = {"domain": domains.WholeSpace(), "start": 0 * w, "spread": 5.0}
    near = minimise(objective, distance=1e-9, **terms)
    assert np.linalg.norm(objective.gradient(near)) <= 1e-12


def test_what_is_certified_is_a_gradient_in_double_precision(monkeypatch):
    """Of a round on all rows, and where the handover leaves it if no step of a round is taken."""
    source, seen = table(n=30_000, d=40), []
    objective = glm(source, losses.Logistic(), ridge=1e-3)
    certified, whole = module._State.certified, module._round

    def watched(state, weights, gradient, *normal):
        assert state.objective is objective
        seen.append((weights.copy(), gradient.copy()))
        return certified(state, weights, gradient, *normal)

    monkeypatch.setattr(module._State, "certified", watched)
    for rounds in (whole, lambda *_: None):
        monkeypatch.setattr(module, "_round", rounds)
        for domain in (domains.WholeSpace(), domains.L2Ball(1.0)):
            terms = {"domain": domain, "start": np.zeros(source.d), "spread": 5.0}
            minimise(objective, distance=1e-2, **terms)
    assert len(seen) >= 8
    for weights, gradient in seen:
        assert np.array_equal(gradient, objective.gradient(weights))


@pytest.mark.parametrize("far", [1e-3, 1.0])
def test_one_row_beyond_single_precision_decides_nothing(far):
    """Its curvature is within the range of float32, also where its numbers are not."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(1 << 16, 20))
    y = np.sign(X[:, 0] + rng.normal(size=len(X)))
    X *= 1e36 / np.linalg.norm(X, axis=1, keepdims=True)
    X[0] *= 1e3 * far
    bounds = Bounds(1e39, label="sign")
    source = from_arrays(X, y).bounded(bounds, order="given")
    objective = GlmObjective(
        source,
        losses.Smoothed(losses.Hinge(), 1e-70),
        clip=1e39,
        curvature=1e8,
        linear=np.zeros(20),
        ridge=1e5,
        centre=np.zeros(20),
    )
    assert objective.single
    assert objective.rough() is objective  # rows beyond float32 are not had in it
    hessian = objective.hessian(np.zeros(20), 1e-39)
    assert np.isfinite(hessian).all()
    assert np.linalg.eigvalsh(hessian)[0] >= 0.9e5


def test_single_rows_are_for_memory_and_hessians_far_from_singular():
    streamed = glm(Streamed(table(n=30_000, d=40)), losses.Logistic(), ridge=1e-3)
    steep = glm(table(n=30_000, d=40), losses.Logistic(), ridge=1e-6)
    few = glm(table(n=9000, d=40), losses.Logistic(), ridge=1e-3)
    for objective in (streamed, steep, few):
        assert objective.rough() is objective


def test_later_milestones_are_reached_and_certified(monkeypatch):
    """A bad model makes every milestone fail but the last, which no table can miss."""
    problem = quadratic(6, 1e3, 1)
    monkeypatch.setattr(problem, "hessian", lambda weights, spread: 1e6 * np.eye(6))
    seen, milestone = [], module._State.milestone

    def spied(state, *at):
        found = milestone(state, *at)
        seen.append(found is not None)
        return found

    monkeypatch.setattr(module._State, "milestone", spied)
    found = minimise(
        problem, domain=domains.WholeSpace(), start=np.zeros(6), distance=1e-9, spread=1.0
    )
    assert np.linalg.norm(found - problem.best) <= 1e-9
    assert seen[-1]
    assert not any(seen[:4])


@pytest.mark.parametrize("seed", range(5))
def test_no_table_stops_the_search(seed):
    """Flat rows, equal rows, rows at a jump: neither an error nor a number that is none."""
    rng = np.random.default_rng(seed)
    X = np.repeat(rng.normal(size=(3, 2)), 20, axis=0) * rng.choice([0.0, 1e-8, 1.0], size=(60, 1))
    source = from_arrays(X, np.zeros(60)).bounded(Bounds(1.0, label=1.0), order="given")
    loss = losses.Smoothed(losses.Absolute(), 1e5)
    for domain in (domains.WholeSpace(), domains.L2Ball(1e-3)):
        objective = glm(source, loss, 1.0, 1e-3, curvature=1e5)
        found = minimise(objective, domain=domain, start=np.zeros(2), distance=1e-6, spread=1.0)
        assert np.linalg.norm(found) <= 1e-6  # every row is best off at 0


# -- objectives ------------------------------------------------------------------------------------


def table(n=300, d=4, label="sign", seed=0, sparse=False, dtype=float):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)).astype(dtype)
    X[3] = np.nan
    X[5] *= 1e6
    kind = isinstance(label, Classes)
    y = rng.integers(0, 3, n) if kind else np.sign(X[:, 0] + rng.normal(size=n))
    y[3] = 1
    if not kind and label != "sign":
        y = y * label
    raw = scipy.sparse.csr_array(X) if sparse else X
    bounds = Bounds(2.0, label=label, intercept=0.5)
    return from_arrays(raw, y).bounded(bounds, order="given")


def glm(source, loss, clip=1.0, ridge=0.1, linear=None, centre=None, curvature=None):
    zero = np.zeros(source.d)
    label = 1.0 if loss.labels == "sign" else source.bounds.label_bound
    bend = loss.constants(feature=source.bounds.row_norm, label=label).smoothness
    return GlmObjective(
        source,
        loss,
        clip=clip,
        curvature=bend if curvature is None else curvature,
        linear=zero if linear is None else linear,
        ridge=ridge,
        centre=zero if centre is None else centre,
    )


def dense(block):
    rows = block.rows
    return np.asarray(rows if isinstance(rows, np.ndarray) else rows.matrix().toarray(), float)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    ("loss", "label"), [(losses.Logistic(), "sign"), (losses.Squared(), 2.0)], ids=["log", "square"]
)
@pytest.mark.parametrize("clip", [0.3, 100.0])
def test_gradient_and_hessian_by_definition(loss, label, clip, dtype, sparse):
    source = table(label=label, sparse=sparse, dtype=dtype)
    rng = np.random.default_rng(1)
    linear, centre, w, v = rng.normal(size=(4, source.d))
    objective = glm(source, loss, clip, 0.2, linear, centre)
    block = source.rows()
    X, y = dense(block), block.labels
    limit = clip / np.maximum(block.norms, 1e-300)  # norms are upper bounds
    slope, bend = loss.slope(X @ w, y), loss.curvature(X @ w, y)
    held = np.clip(slope, -limit, limit)
    expected = X.T @ held / 300 + linear + 0.2 * (w - centre)
    np.testing.assert_allclose(objective.gradient(w), expected, rtol=1e-9, atol=1e-12)
    hessian = X.T @ (X * np.where(np.abs(slope) < limit, bend, 0.0)[:, None]) / 300
    hessian += 0.2 * np.eye(source.d)
    np.testing.assert_allclose(objective.hessian(w, 1e-7), hessian, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(
        objective.hessian_product(w, 1e-7)(v), hessian @ v, rtol=1e-6, atol=1e-8
    )
    assert objective.smoothness >= np.linalg.eigvalsh(hessian)[-1] >= objective.strong_convexity


@FAST
@given(st.floats(1e-6, 1e3), st.integers(0, 1000))
def test_no_row_exceeds_the_clip(clip, seed):
    """In exact arithmetic: slopes times the exact norm of the row."""
    source = table(n=20, label=5.0, seed=seed)
    objective = glm(source, losses.Squared(), clip)
    rng = np.random.default_rng(seed)
    w = rng.normal(size=source.d) * 10.0 ** rng.integers(-3, 6)
    (leaf,) = list(objective._leaves())
    rows, labels, limit = leaf
    slopes = objective._slopes(rows @ w, labels, limit)
    for row, slope in zip(rows, slopes, strict=True):
        square = sum(Fraction(float(x)) ** 2 for x in row) * Fraction(float(slope)) ** 2
        assert square <= Fraction(clip) ** 2


def test_null_rows_are_nothing():
    source = table(n=40)
    objective = glm(source, losses.Logistic())
    rows, labels, limit = next(iter(objective._leaves()))
    assert not np.any(rows[3])
    slopes = objective._slopes(np.array([np.nan, np.inf, 0.0]), labels[:3], limit[:3])
    assert np.all(np.isfinite(slopes))
    assert slopes[0] == 0.0


class Streamed(Source):
    """The same rows, but not in memory."""

    def __init__(self, inner):
        super().__init__(inner.n, inner.d, inner.bounds)
        self.inner = inner

    def _blocks(self, start, stop):
        return self.inner._blocks(start, stop)


def test_streamed_rows_give_the_same():
    source = table(n=5000)
    w = np.linspace(-1, 1, source.d)
    kept, streamed = (glm(s, losses.Logistic()) for s in (source, Streamed(source)))
    assert np.linalg.norm(kept.gradient(w) - streamed.gradient(w)) <= 2 * kept.rounding(w)
    np.testing.assert_allclose(
        kept.hessian(w, 0.1), streamed.hessian(w, 0.1), rtol=1e-12, atol=1e-15
    )


@pytest.mark.parametrize("size", [1.0, 1e4])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rounding_bound_holds_and_is_no_excuse(size, dtype):
    """Against exact rational sums; slopes of the squared loss need no transcendental function."""
    source = table(n=200, d=6, label=2.0, dtype=dtype)
    objective = glm(source, losses.Squared(), 0.7, 0.3, np.full(7, 0.1), np.full(7, 0.2))
    w = size * np.random.default_rng(0).normal(size=7)
    block = source.rows()
    limits = np.concatenate([limit for _, _, limit in objective._leaves()])
    total = [Fraction(0)] * 7
    for row, label, limit in zip(dense(block), block.labels, limits, strict=True):
        x = [Fraction(float(value)) for value in row]
        slope = sum(a * Fraction(float(b)) for a, b in zip(x, w, strict=True))
        slope -= Fraction(float(label))
        if math.isfinite(limit):
            top = Fraction(float(limit))
            slope = max(-top, min(top, slope))
        total = [t + slope * a for t, a in zip(total, x, strict=True)]
    exact = [
        t / 200 + Fraction(0.1) + Fraction(0.3) * (Fraction(float(v)) - Fraction(0.2))
        for t, v in zip(total, w, strict=True)
    ]
    found = objective.gradient(w)
    gaps = [Fraction(float(f)) - e for f, e in zip(found, exact, strict=True)]
    error = math.sqrt(sum(float(gap) ** 2 for gap in gaps))
    assert 0.0 < error <= objective.rounding(w) <= 1e-13 * (1 + 10 * size)


def test_rounding_of_slopes_that_are_cut_hard():
    """Bisection leaves an error relative to the loss's bound, whatever the clip."""
    mine = losses.CustomLoss(
        lambda u, y: np.abs(u - y),
        lambda u, y: np.sign(u - y),
        slope_bound=1.0,
        convex=True,
        labels="real",
        name="mine",
    )
    loss, clip = losses.Smoothed(mine, 10.0), 1e-6
    labels = np.random.default_rng(0).uniform(-1e-8, 1e-8, size=100)
    source = from_arrays(np.ones((100, 1)), labels).bounded(Bounds(1.0, label=1.0), order="given")
    terms = {"linear": np.zeros(1), "ridge": 1e-9, "centre": np.zeros(1), "clip": clip}
    steep = steepness(loss, feature=1.0, label=1.0)
    objective = GlmObjective(source, loss, curvature=10.0, **terms, steepness=steep)
    error = abs(float(objective.gradient(np.zeros(1))[0] + 10.0 * math.fsum(labels) / 100))
    assert (
        gradient_rounding(
            rows=100, columns=1, clip=clip, curvature=10.0, tilt=0.0, ridge=1e-9, max_norm=0.0
        )
        < error
        <= objective.rounding(np.zeros(1))
    )
    assert steepness(losses.Logistic(), feature=1.0, label=1.0) == 0.0
    assert steepness(losses.Poisson(1e3), feature=2.0, label=100.0) >= 2.0 * 99.0


def test_rounding_bound_grows_with_each_argument():
    base = {"rows": 1000, "columns": 20, "clip": 1.0, "curvature": 0.25, "tilt": 0.1, "ridge": 0.01}
    usual = gradient_rounding(**base, max_norm=3.0)
    large = gradient_rounding(**base, max_norm=3.0, dense=False)  # leaves do not depend on columns
    for name in base:
        more = {**base, name: 50 * base[name]}
        assert gradient_rounding(**more, max_norm=3.0, dense=False) > large
    assert gradient_rounding(**base, max_norm=30.0) > usual
    assert gradient_rounding(**base, max_norm=3.0, classes=5) > usual


@pytest.mark.parametrize("clip", [0.2, 0.6, 50.0])
def test_clipped_least_squares_is_hubers(clip):
    source = table(n=400, label=1.0)
    objective = glm(source, losses.Squared(), clip, 0.05)
    found = minimise(
        objective, domain=domains.WholeSpace(), start=np.zeros(source.d), distance=1e-9, spread=1.0
    )
    block = source.rows()
    X, y = dense(block), block.labels
    limit = clip / np.maximum(block.norms, 1e-300)

    def huber(w):
        gap = np.abs(X @ w - y)
        inner = np.minimum(gap, limit)
        return np.mean(inner * gap - 0.5 * inner**2) + 0.025 * w @ w

    best = scipy.optimize.minimize(huber, found, method="BFGS", options={"gtol": 1e-9})
    assert huber(found) <= best.fun + 1e-12
    assert np.linalg.norm(found - best.x) <= 1e-5


def test_order_of_rows_does_not_matter():
    rng = np.random.default_rng(0)
    X, order = rng.normal(size=(700, 5)), rng.permutation(700)
    y = np.sign(X[:, 0])
    made = []
    for rows in (slice(None), order):
        source = from_arrays(X[rows], y[rows]).bounded(Bounds(2.0, label="sign"), order="given")
        objective = glm(source, losses.Logistic(), 2.0, 1e-3)
        made.append(
            minimise(
                objective, domain=domains.L1Ball(3.0), start=np.zeros(5), distance=1e-9, spread=1.0
            )
        )
    assert np.linalg.norm(made[0] - made[1]) <= 2e-9


def test_vector_objective_is_the_objective():
    source = table(label=Classes(0, 1, 2))
    size = 3 * source.d
    rng = np.random.default_rng(2)
    linear, centre, w, v = rng.normal(size=(4, size))
    terms = {"linear": linear, "ridge": 0.3, "centre": centre}
    loss = losses.Softmax(3)
    made = VectorObjective(source, loss, clip=3.0, curvature=2.0, classes=3, **terms)
    plain = source.objective(loss, **terms)
    assert made.size == size
    assert np.array_equal(made.gradient(w), plain.gradient(w))
    assert np.array_equal(made.hessian(w, 1.0), plain.hessian(w))
    assert np.array_equal(made.hessian_product(w, 1.0)(v), plain.hessian_product(w, v))
    assert (made.strong_convexity, made.smoothness) == (0.3, 2.3)
    assert made.rounding(w) < made.rounding(100 * w) < 1e-9
    found = minimise(
        made, domain=domains.WholeSpace(), start=np.zeros(size), distance=1e-8, spread=1.0
    )
    assert np.linalg.norm(plain.gradient(found)) / 0.3 <= 1e-8
