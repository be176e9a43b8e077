"""Penalties: the known answers, and every prox against a conic solver and its own optimality."""

from __future__ import annotations

import math
import pickle

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dpsco.errors import AssumptionError, ParameterError
from dpsco.geometry.domains import Box, L1Ball, L2Ball, Simplex
from dpsco.losses.constraints import AffineSet, HalfSpace, Within, WithinBall, WithinBox
from dpsco.losses.penalties import (
    ElasticNet,
    GroupPenalty,
    Indicator,
    L1Penalty,
    L2Penalty,
    LInfPenalty,
    NoPenalty,
    SparseGroup,
)

V = np.array([3.0, -0.5, 1.2, -2.0])
PAIRS = [[0, 1], [2, 3]]

KNOWN = [  # penalty, step, prox at V
    (NoPenalty(), 1.0, (3, -0.5, 1.2, -2)),
    (L1Penalty(1.0), 1.0, (2, 0, 0.2, -1)),
    (L1Penalty(2.0), 0.5, (2, 0, 0.2, -1)),  # the step is part of the threshold
    (L1Penalty(1.0), 0.5, (2.5, 0, 0.7, -1.5)),
    (L2Penalty(2.0), 0.5, (1.5, -0.25, 0.6, -1)),
    (ElasticNet(0.5, 2.0), 0.5, (1.375, -0.125, 0.475, -0.875)),
    (GroupPenalty(PAIRS, 1.0), 1.0, (2.01360608, -0.33560101, 0.68550424, -1.14250707)),
    (GroupPenalty(PAIRS, 4.0), 0.25, (2.01360608, -0.33560101, 0.68550424, -1.14250707)),
    (LInfPenalty(2.0), 1.0, (1.5, -0.5, 1.2, -1.5)),
    (LInfPenalty(0.5), 4.0, (1.5, -0.5, 1.2, -1.5)),
    (Indicator(L1Ball(2.0)), 7.0, (1.5, 0, 0, -0.5)),
    (Indicator(Simplex()), 7.0, (1, 0, 0, 0)),
    (Indicator(L2Ball(2.0)), 0.1, (1.56545415, -0.26090903, 0.62618166, -1.0436361)),
    (Indicator(Box([-1.0] * 4, [1.0] * 4)), 7.0, (1, -0.5, 1, -1)),
    (WithinBall(L1Penalty(1.0), 1.0), 1.0, (0.89087081, 0, 0.08908708, -0.4454354)),
    (WithinBox(L1Penalty(1.0), -0.5, 0.5), 1.0, (0.5, 0, 0.2, -0.5)),
    (WithinBox(NoPenalty(), 0.0, math.inf), 3.0, (3, 0, 1.2, 0)),
    (Indicator(HalfSpace((1.0, 1.0, 0.0, 0.0), 1.0)), 7.0, (2.25, -1.25, 1.2, -2)),
    (Indicator(AffineSet(((1.0, 1.0, 1.0, 1.0),), (0.0,))), 7.0, (2.575, -0.925, 0.775, -2.425)),
]


@pytest.mark.parametrize(("penalty", "step", "answer"), KNOWN, ids=lambda v: str(v)[:40])
def test_known_answers(penalty, step, answer):
    np.testing.assert_allclose(penalty.prox(V, step), answer, rtol=1e-7, atol=1e-8)


# --- against a conic solver -----------------------------------------------------------------------


def expression(penalty, w):
    """The penalty as a convex expression and a list of constraints."""
    name = type(penalty).__name__
    if name == "NoPenalty":
        return 0, []
    if name == "L1Penalty":
        weights = np.ones(w.size) if penalty.weights is None else np.array(penalty.weights)
        return penalty.strength * weights @ cp.abs(w), []
    if name == "L2Penalty":
        return penalty.strength / 2 * cp.sum_squares(w), []
    if name == "ElasticNet":
        return penalty.l1 * cp.norm1(w) + penalty.l2 / 2 * cp.sum_squares(w), []
    if name == "LInfPenalty":
        return penalty.strength * cp.norm_inf(w), []
    if name in ("GroupPenalty", "SparseGroup"):
        pairs = zip(penalty.groups, penalty.strengths, strict=True)
        total = sum(s * cp.norm2(w[list(group)]) for group, s in pairs)
        return total + (penalty.l1 * cp.norm1(w) if name == "SparseGroup" else 0), []
    if name == "WithinBall":
        return expression(penalty.penalty, w)[0], [cp.norm2(w) <= penalty.radius]
    if name == "WithinBox":
        return expression(penalty.penalty, w)[0], [w >= penalty.lower, w <= penalty.upper]
    if name == "Within":
        total, constraints = expression(penalty.penalty, w)
        return total, constraints + expression(Indicator(penalty.domain), w)[1]
    domain, kind = penalty.domain, type(penalty.domain).__name__
    if kind == "HalfSpace":
        return 0, [np.array(domain.normal) @ w <= domain.offset]
    if kind == "AffineSet":
        return 0, [np.array(domain.matrix) @ w == np.array(domain.offset)]
    return 0, {"L1Ball": lambda: [cp.norm1(w) <= 0.8], "Simplex": lambda: [w >= 0, cp.sum(w) == 1]}[
        kind
    ]()


def cases(d, rng):
    shuffled = rng.permutation(d).tolist()
    cut = sorted(rng.choice(np.arange(1, d), size=min(2, d - 1), replace=False).tolist())
    groups = [shuffled[a:b] for a, b in zip([0, *cut], [*cut, d], strict=True)]
    strengths = rng.uniform(0.0, 2.0, len(groups)).tolist()
    sparse = SparseGroup(groups, 0.3, strengths)
    return [
        L1Penalty(0.7),
        L1Penalty(0.7, rng.uniform(0.0, 2.0, d).tolist()),
        L2Penalty(1.3),
        ElasticNet(0.4, 0.9),
        GroupPenalty(groups, strengths),
        sparse,
        LInfPenalty(1.1),
        WithinBall(L1Penalty(0.5, rng.uniform(0.0, 2.0, d).tolist()), 0.6),
        WithinBall(ElasticNet(0.4, 0.9), 0.6),
        WithinBall(GroupPenalty(groups, strengths), 0.6),
        WithinBall(sparse, 0.6),
        WithinBall(LInfPenalty(1.1), 0.6),
        WithinBall(NoPenalty(), 0.6),
        WithinBox(L1Penalty(0.7), -0.3, 0.5),
        WithinBox(L1Penalty(0.7), 0.1, 0.5),  # 0 is outside
        WithinBox(ElasticNet(0.4, 0.9), -0.3, math.inf),
        Indicator(HalfSpace(tuple(rng.normal(size=d)), 0.2)),
        Indicator(AffineSet(tuple(map(tuple, rng.normal(size=(1, d)))), (0.3,))),
        Within(L1Penalty(0.3), L1Ball(0.8)),
        Within(L2Penalty(0.3), Simplex()),
        Within(GroupPenalty(groups, strengths), HalfSpace(tuple(rng.normal(size=d)), -0.1)),
    ]


@pytest.mark.thorough
@pytest.mark.parametrize("d", [2, 3, 7, 40])
def test_prox_against_a_conic_solver(d):
    rng = np.random.default_rng(d)
    for penalty in cases(d, rng):
        point, step = 2 * rng.normal(size=d), float(rng.uniform(0.2, 1.5))
        w = cp.Variable(d)
        total, constraints = expression(penalty, w)
        problem = cp.Problem(cp.Minimize(step * total + cp.sum_squares(w - point) / 2), constraints)
        problem.solve(solver=cp.CLARABEL)
        found = penalty.prox(point, step)
        np.testing.assert_allclose(found, w.value, atol=2e-4, err_msg=str(penalty)[:60])
        reached = step * penalty.value(found) + float(np.sum((found - point) ** 2)) / 2
        assert reached <= problem.value + 1e-6, penalty


@pytest.mark.thorough
@pytest.mark.parametrize("d", [1, 2, 5, 30, 1000])
def test_prox_cannot_be_improved(d):
    """No random or adversarial move, long or short, lowers the objective."""
    rng = np.random.default_rng(100 + d)
    groups = np.array_split(rng.permutation(d), min(3, d))
    strengths = rng.uniform(0, 1, len(groups)).tolist()
    penalties = [
        L1Penalty(0.7), L2Penalty(0.7), ElasticNet(0.4, 0.9), LInfPenalty(0.8),
        GroupPenalty(groups, strengths), SparseGroup(groups, 0.2, strengths),
    ]  # fmt: skip
    for penalty in penalties:
        point, step = 2 * rng.normal(size=d), 0.8

        def objective(w, penalty=penalty, point=point, step=step):
            return step * penalty.value(w) + 0.5 * float(np.sum((w - point) ** 2))

        found = penalty.prox(point, step)
        best = objective(found)
        for size in (1.0, 1e-2, 1e-4):
            moves = [*rng.normal(size=(30, d)), point - found, found, np.sign(found)]
            for move in moves:
                for sign in (1, -1):
                    assert objective(found + sign * size * move) >= best - 1e-12 * (1 + best)


FLOATS = arrays(float, 6, elements=st.floats(-50, 50))
SOME = [*cases(6, np.random.default_rng(6))]


@settings(max_examples=40, deadline=None)
@given(first=FLOATS, second=FLOATS, step=st.floats(0, 5), which=st.integers(0, 17))
def test_prox_is_firmly_non_expansive(first, second, step, which):
    a, b = SOME[which].prox(first, step), SOME[which].prox(second, step)
    assert np.sum((a - b) ** 2) <= np.dot(a - b, first - second) + 1e-9


@settings(max_examples=60, deadline=None)
@given(point=FLOATS, cut=st.floats(0, 400))
def test_linf_prox_and_l1_projection_are_a_pair(point, cut):
    """Moreau's identity, with the domain's own projection as the other half."""
    found = LInfPenalty(1.0).prox(point, cut)
    projected = L1Ball(cut).project(point) if cut > 0 else np.zeros(6)
    np.testing.assert_allclose(found + projected, point, atol=1e-10 * (1 + np.abs(point).max()))


@settings(max_examples=40, deadline=None)
@given(point=FLOATS, which=st.integers(0, 15))
def test_step_zero_keeps_feasible_points(point, which):
    penalty = SOME[which]
    found = penalty.prox(point, 0.0)
    again = penalty.prox(found, 0.0)
    np.testing.assert_allclose(again, found, atol=1e-12 * (1 + np.abs(point).max()))
    if penalty.value(point) < math.inf:
        np.testing.assert_allclose(found, point, atol=1e-12)


# --- facts ----------------------------------------------------------------------------------------


def test_values():
    assert L1Penalty(2.0).value(V) == pytest.approx(13.4)
    assert L1Penalty(2.0, (0.0, 1.0, 1.0, 0.5)).value(V) == pytest.approx(5.4)
    assert L2Penalty(2.0).value(V) == pytest.approx(14.69)
    assert ElasticNet(2.0, 2.0).value(V) == pytest.approx(13.4 + 14.69)
    assert LInfPenalty(2.0).value(V) == 6.0
    group = math.hypot(3, 0.5) + 3 * math.hypot(1.2, 2)
    assert GroupPenalty(PAIRS, [1.0, 3.0]).value(V) == pytest.approx(group)
    assert SparseGroup(PAIRS, 2.0, [1.0, 3.0]).value(V) == pytest.approx(group + 13.4)
    assert Indicator(L2Ball(2.0)).value(V) == math.inf
    assert Indicator(L2Ball(9.0)).value(V) == 0.0
    assert WithinBall(L1Penalty(2.0), 1.0).value(V) == math.inf
    assert WithinBall(L1Penalty(2.0), 9.0).value(V) == pytest.approx(13.4)
    assert WithinBox(L1Penalty(2.0), -1.0, 1.0).value(V) == math.inf
    assert WithinBox(L1Penalty(2.0), -9.0, 9.0).value(V) == pytest.approx(13.4)
    assert Within(L1Penalty(2.0), L2Ball(1.0)).value(V) == math.inf
    assert NoPenalty().value(V) == 0.0


def test_prox_of_a_ball_has_a_finite_value():
    rng = np.random.default_rng(5)
    for _ in range(300):
        point = rng.normal(size=7) * 10.0 ** rng.uniform(-5, 5)
        penalty = WithinBall(L1Penalty(0.1), 10.0 ** rng.uniform(-5, 5))
        assert penalty.value(penalty.prox(point, 1.0)) < math.inf


def test_strong_convexity_is_the_largest():
    rng = np.random.default_rng(3)
    for penalty in (*SOME[:13], L2Penalty(0.0)):
        inner = getattr(penalty, "penalty", penalty)
        worst = math.inf
        for a, b in rng.normal(size=(400, 2, 6)):
            a[1:], b[1:] = np.abs(a[1:]), np.abs(b[1:])  # same signs: l1 is linear in between
            b[0] = -a[0] if rng.random() < 0.2 else b[0]
            bend = inner.value(a) / 2 + inner.value(b) / 2 - inner.value((a + b) / 2)
            worst = min(worst, 8 * bend / float(np.sum((a - b) ** 2)))
        assert worst >= penalty.strong_convexity - 1e-9, penalty
        # along a ray every norm is linear
        ray = rng.normal(size=6)
        bend = inner.value(ray) / 2 + inner.value(3 * ray) / 2 - inner.value(2 * ray)
        assert 2 * bend / float(ray @ ray) == pytest.approx(penalty.strong_convexity, abs=1e-9)


def test_gradients():
    np.testing.assert_allclose(L2Penalty(0.3).gradient(V), 0.3 * V)
    np.testing.assert_array_equal(NoPenalty().gradient(V), np.zeros(4))
    for penalty in SOME:
        assert penalty.smooth == isinstance(penalty, (L2Penalty, NoPenalty))
        if not penalty.smooth:
            with pytest.raises(AssumptionError, match="gradient"):
                penalty.gradient(np.zeros(6))


def test_huge_tiny_and_zero_groups():
    penalty = GroupPenalty([[0, 1], [2], [3, 4]], 1.0)
    found = penalty.prox([1e200, -1e200, 0.0, 3e-200, 4e-200], 0.5)
    np.testing.assert_allclose(found, [1e200, -1e200, 0.0, 0.0, 0.0], rtol=1e-14)
    free = GroupPenalty([[0, 1], [2], [3, 4]], 0.0).prox([1e200, 1.0, 0.0, 3e-200, 4e-200], 0.5)
    np.testing.assert_array_equal(free, [1e200, 1.0, 0.0, 3e-200, 4e-200])
    assert LInfPenalty(1.0).prox([1e20, 2.0], 1.0).tolist() == [1e20, 2.0]  # lost in rounding
    assert LInfPenalty(1.0).prox([0.0, 0.0], 1.0).tolist() == [0.0, 0.0]


def test_prox_returns_a_new_array():
    for penalty in (NoPenalty(), L1Penalty(0.0), LInfPenalty(0.0)):
        point = V.copy()
        found = penalty.prox(point, 1.0)
        found[0] = 77.0
        assert point[0] == 3.0


@pytest.mark.slow
def test_alternation_projects_on_intersections():
    """Two indicators: plain alternating projections would end elsewhere in the intersection."""
    rng = np.random.default_rng(12)
    centre = np.array([1.2, 0.0, 0.3])
    ball, other = L2Ball(1.0), L2Ball(0.8, centre)
    moved = 0
    for point in 3 * rng.normal(size=(8, 3)):
        found = Within(Indicator(ball), other).prox(point, 1.0)
        w = cp.Variable(3)
        constraints = [cp.norm2(w) <= 1, cp.norm2(w - centre) <= 0.8]
        cp.Problem(cp.Minimize(cp.sum_squares(w - point)), constraints).solve(solver=cp.CLARABEL)
        np.testing.assert_allclose(found, w.value, atol=1e-4)
        plain = point
        for _ in range(100):
            plain = other.project(ball.project(plain))
        moved += np.abs(plain - found).max() > 1e-2
    assert moved > 2  # the instances can tell the two apart


def test_affine_sets_with_redundant_rows():
    rows = ((1.0, 2.0, 0.0), (2.0, 4.0, 0.0))
    domain = AffineSet(rows, (1.0, 2.0))
    found = domain.project(np.array([1.0, 1.0, 5.0]))
    np.testing.assert_allclose(found, [0.6, 0.2, 5.0])
    assert domain.contains(found)
    assert not domain.contains(np.array([1.0, 1.0, 5.0]))
    with pytest.raises(ParameterError, match="contradicts"):
        AffineSet(rows, (1.0, 3.0))


def test_half_space():
    domain = HalfSpace((0.0, 2.0), 1.0)
    assert domain.contains(np.array([9.0, 0.5]))
    assert not domain.contains(np.array([9.0, 0.51]))
    assert domain.project(np.array([9.0, 0.2])).tolist() == [9.0, 0.2]


def test_records_compare_and_pickle():
    for penalty in SOME[:17]:
        again = pickle.loads(pickle.dumps(penalty))
        assert again == penalty
        assert hash(again) == hash(penalty)
    assert L1Penalty(1.0, [1.0, 2.0]) == L1Penalty(1.0, (1.0, 2.0))
    assert GroupPenalty([[0], [1]], 1.0) == GroupPenalty(((0,), (1,)), [1.0, 1.0])


# --- refusals -------------------------------------------------------------------------------------

REFUSED = [
    (lambda: L1Penalty(-1.0), "strength"),
    (lambda: L1Penalty(math.inf), "strength"),
    (lambda: L1Penalty(math.nan), "strength"),
    (lambda: L1Penalty(1.0, [1.0, -0.1]), r"weights\[1\]"),
    (lambda: L1Penalty(1.0, 3.0), "weights"),
    (lambda: L1Penalty(1.0, [1.0, 1.0]).prox([1.0], 1.0), "weights cover 2"),
    (lambda: L2Penalty(-1.0), "strength"),
    (lambda: ElasticNet(-1.0, 0.0), "l1"),
    (lambda: ElasticNet(0.0, -1.0), "l2"),
    (lambda: LInfPenalty(-2.0), "strength"),
    (lambda: GroupPenalty([[0, 1], [1, 2]], 1.0), "groups overlap: coordinate 1"),
    (lambda: GroupPenalty([[0, 0], [1]], 1.0), "groups overlap: coordinate 0"),
    (lambda: GroupPenalty([[0], [2]], 1.0), "gap: coordinate 1"),
    (lambda: GroupPenalty([[1], [2]], 1.0), "gap: coordinate 0"),
    (lambda: GroupPenalty([[0], []], 1.0), "groups"),
    (lambda: GroupPenalty([], 1.0), "groups"),
    (lambda: GroupPenalty(3, 1.0), "groups"),
    (lambda: GroupPenalty([[0.5]], 1.0), r"groups\[0\]"),
    (lambda: GroupPenalty([[-1, 0]], 1.0), r"groups\[0\]"),
    (lambda: GroupPenalty(PAIRS, -1.0), "strengths"),
    (lambda: GroupPenalty(PAIRS, [1.0, -1.0]), r"strengths\[1\]"),
    (lambda: GroupPenalty(PAIRS, [1.0]), "strengths"),
    (lambda: GroupPenalty(PAIRS, 1.0).prox([1.0, 2.0], 1.0), "groups cover 4"),
    (lambda: SparseGroup(PAIRS, -0.1, 1.0), "l1"),
    (lambda: SparseGroup(PAIRS, 0.1, -1.0), "strengths"),
    (lambda: Indicator(3.0), "domain"),
    (lambda: WithinBall(Indicator(L2Ball(1.0)), 1.0), "WithinBall"),
    (lambda: WithinBall(L1Penalty(1.0), 0.0), "radius"),
    (lambda: WithinBox(LInfPenalty(1.0), 0.0, 1.0), "WithinBox"),
    (lambda: WithinBox(L1Penalty(1.0), 1.0, 0.0), "lower"),
    (lambda: Within(L1Penalty(1.0), None), "domain"),
    (lambda: Within(L1Penalty(1.0), L2Ball(1.0), 0), "iterations"),
    (lambda: HalfSpace((0.0, 0.0), 1.0), "normal"),
    (lambda: HalfSpace((math.nan, 0.0), 1.0), "normal"),
    (lambda: AffineSet(((1.0,),), (1.0, 2.0)), "offset"),
    (lambda: AffineSet((), ()), "matrix"),
    (lambda: L1Penalty(1.0).prox([1.0], -1.0), "step"),
    (lambda: L2Penalty(1.0).prox([[1.0]], 1.0), "point"),
]


@pytest.mark.parametrize(("make", "word"), REFUSED)
def test_refusals_name_the_argument(make, word):
    with pytest.raises(ParameterError, match=word):
        make()


def test_subnormal_groups_vanish_quietly():
    penalty = GroupPenalty([(0, 1), (2,)], 1.0)
    for tiny in (5e-324, 2.2e-309):
        assert penalty.prox(np.full(3, tiny), 1.0).tolist() == [0.0, 0.0, 0.0]
    unshrunk = GroupPenalty([(0, 1), (2,)], (0.0, 1.0)).prox(np.array([5e-324, 0.0, 3.0]), 1.0)
    assert unshrunk.tolist() == [5e-324, 0.0, 2.0]
