"""Norms: many digits, extreme entries, duality with equality, and constants found by ascent."""

from __future__ import annotations

import math
import pickle

import cvxpy as cp
import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dpsco.errors import ParameterError
from dpsco.geometry.norms import (
    L1,
    L2,
    LINF,
    GroupNorm,
    Lp,
    Norm,
    WeightedLp,
    equivalence,
    operator_norm,
)

EXPONENTS = [1.0, 1.0 + 1e-9, 1.05, 1.2, 1.5, 2.0, 2.5, 3.0, 7.0, 30.0, 1e4, math.inf]
SCALES = [5e-324, 1e-310, 1e-300, 1e-160, 1e-90, 1.0, 1e100, 1e160, 1e300]
GROUPS = ((0, 3), (1,), (5, 2, 4))


def norms_of_six() -> list[Norm]:
    plain = [Lp(p) for p in EXPONENTS]
    weighted = [
        WeightedLp(p, (0.3, 1.0, 2.0, 7.0, 0.01, 5.0)) for p in (1.0, 1.3, 2.0, 5.0, math.inf)
    ]
    pairs = [(2.0, 1.0), (1.0, 2.0), (math.inf, 1.0), (1.5, 3.0), (2.0, math.inf), (2.0, 2.0)]
    grouped = [GroupNorm(GROUPS, a, b, (0.5, 2.0, 3.0)) for a, b in pairs]
    return [*plain, *weighted, *grouped]


NORMS = norms_of_six()
entries = st.floats(-1e3, 1e3, allow_subnormal=False).map(lambda v: 0.0 if abs(v) < 1e-9 else v)
sixes = arrays(float, 6, elements=entries)


def exact(p: float, x: np.ndarray) -> float:
    """The l_p norm to 40 digits, then rounded."""
    with mpmath.workdps(40):
        sizes = [abs(mpmath.mpf(float(v))) for v in x]
        if p == math.inf:
            return float(max(sizes))
        power = mpmath.mpf(p)
        return float(mpmath.fsum(s**power for s in sizes) ** (1 / power))


# --- values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", EXPONENTS)
@pytest.mark.parametrize("scale", SCALES)
def test_values_against_many_digits(p, scale):
    rng = np.random.default_rng(3)
    for d in (1, 2, 5, 40):
        with np.errstate(under="ignore"):
            x = rng.normal(size=d) * np.exp(3 * rng.normal(size=d)) * scale
        np.testing.assert_allclose(Lp(p)(x), exact(p, x), rtol=1e-14, atol=5e-324)


def test_values_of_plain_cases():
    x = np.array([[3.0, -4.0], [0.0, 0.0], [5.0, 12.0]])
    assert L2(x).tolist() == [5.0, 0.0, 13.0]
    assert L1(x).tolist() == [7.0, 0.0, 17.0]
    assert LINF(x).tolist() == [4.0, 0.0, 12.0]
    assert Lp(3.0)([1.0, 2.0, 2.0]) == pytest.approx(17 ** (1 / 3), rel=1e-15, abs=0)


@pytest.mark.parametrize("p", EXPONENTS)
def test_batches_of_mixed_sizes_agree_with_single_vectors(p):
    """Lost rows are done again, the others are not touched."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(3, 9, 5)) * np.array(SCALES)[None, :, None]
    x[0, 0] = 0.0
    x[1, 1, 2] = math.inf
    x[2, 2, 3] = math.nan
    found = Lp(p)(x)
    assert found.shape == (3, 9)
    for row, value in zip(x.reshape(-1, 5), found.ravel(), strict=True):
        np.testing.assert_allclose(value, Lp(p)(row), rtol=1e-15)
    assert found[0, 0] == 0.0
    assert found[1, 1] == math.inf
    assert math.isnan(found[2, 2])
    assert np.sum(~np.isfinite(found)) == 2


@pytest.mark.parametrize("norm", NORMS, ids=repr)
def test_infinite_and_undefined_entries(norm):
    x = np.ones(6)
    x[4] = -math.inf
    assert norm(x) == math.inf
    x[1] = math.nan
    assert math.isnan(norm(x))
    assert norm(np.zeros(6)) == 0.0
    assert np.all(norm(np.full(6, 1e308)) > 0)  # may be infinite, never NaN or an error


@pytest.mark.parametrize("p", EXPONENTS)
@pytest.mark.parametrize("value", [-3.3, 5e-324, 1.7e308, 0.1])
def test_one_dimension_is_exact(p, value):
    assert Lp(p)([value]) == abs(value)


@pytest.mark.parametrize("p", EXPONENTS)
def test_long_vectors(p):
    x = np.random.default_rng(0).normal(size=200_000)
    expected = np.max(np.abs(x)) if p == math.inf else None
    if expected is None:
        top = np.max(np.abs(x))
        expected = top * math.fsum((np.abs(x) / top) ** p) ** (1 / p)
    np.testing.assert_allclose(Lp(p)(x), expected, rtol=1e-14)


def test_rounding_does_not_pile_up():
    assert L2(np.full(10**6, 0.1)) == pytest.approx(100.0, rel=2e-14, abs=0)


@pytest.mark.parametrize("power", [-1000, -600, -450, 480, 900, 1010])
def test_powers_of_two_pass_through_exactly(power):
    x = np.random.default_rng(9).normal(size=(100, 7))
    assert np.array_equal(L2(np.ldexp(x, power)), np.ldexp(L2(x), power))


def test_floats_of_single_precision_and_integers():
    x = np.array([[1e30, 1e30], [1e-30, 0.0]], dtype=np.float32)
    np.testing.assert_allclose(L2(x), [math.sqrt(2) * float(x[0, 0]), float(x[1, 0])], rtol=1e-15)
    assert L2(np.array([3, 4])) == 5.0
    assert L2(np.zeros((4, 0))).tolist() == [0.0] * 4


def test_weights_and_groups_by_hand():
    x = np.array([3.0, -1.0, 2.0, 4.0, -2.0, 1.0])
    assert WeightedLp(1.0, (1, 2, 3, 4, 5, 6))(x) == 3 + 2 + 6 + 16 + 10 + 6
    assert WeightedLp(math.inf, (1, 2, 3, 4, 5, 6))(x) == 16.0
    # groups (0, 3), (1,), (5, 2, 4) have Euclidean norms 5, 1, 3
    assert GroupNorm(GROUPS)(x) == pytest.approx(9.0, rel=1e-15, abs=0)
    assert GroupNorm(GROUPS, 2.0, math.inf)(x) == pytest.approx(5.0, rel=1e-15, abs=0)
    assert GroupNorm(GROUPS, weights=(1.0, 10.0, 2.0))(x) == pytest.approx(21.0, rel=1e-15, abs=0)
    assert GroupNorm(GROUPS, 1.0, 2.0)(x) == pytest.approx(math.sqrt(49 + 1 + 25), rel=1e-15, abs=0)
    batch = np.stack([x, 2 * x, -x, 0 * x]).reshape(2, 2, 6)
    np.testing.assert_allclose(
        GroupNorm(GROUPS)(batch), [[9.0, 18.0], [9.0, 0.0]], rtol=1e-15, atol=0
    )


def test_extreme_weights():
    norm = WeightedLp(2.0, (1e300, 1e-300))
    assert norm([1e-300, 1e300]) == pytest.approx(math.sqrt(2), rel=1e-14, abs=0)
    assert norm.dual([1e300, 1e-300]) == pytest.approx(math.sqrt(2), rel=1e-14, abs=0)
    v = norm.steepest([1e300, 1e-300])
    assert norm(v) == pytest.approx(1.0, rel=1e-14, abs=0)


# --- axioms and duality ---------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize("norm", NORMS, ids=repr)
@settings(max_examples=12, deadline=None)
@given(x=sixes, y=sixes, factor=st.floats(-1e3, 1e3))
def test_axioms_and_duality(norm, x, y, factor):
    tiny = 1e-12
    assert norm(x + y) <= (norm(x) + norm(y)) * (1 + tiny)
    np.testing.assert_allclose(norm(factor * x), abs(factor) * norm(x), rtol=1e-12, atol=1e-300)
    assert (norm(x) == 0.0) == (not np.any(x))
    assert abs(x @ y) <= norm(x) * norm.dual(y) * (1 + tiny) + 1e-300
    v = norm.steepest(x)
    assert norm(v) == pytest.approx(1.0, rel=1e-12, abs=0)
    assert x @ v == pytest.approx(float(norm.dual(x)), rel=1e-11, abs=1e-300)


@pytest.mark.parametrize("norm", NORMS, ids=repr)
def test_dual_of_the_dual(norm):
    x = np.random.default_rng(5).normal(size=(50, 6))
    assert type(norm.dual) is type(norm)
    # 1.0 + 1e-9 has a conjugate of 1e9, which keeps it to 1e-7 of p - 1
    np.testing.assert_allclose(norm.dual.dual(x), norm(x), rtol=1e-12)


@pytest.mark.parametrize("norm", NORMS, ids=repr)
def test_steepest_at_extremes(norm):
    zero = norm.steepest(np.zeros(6))
    assert norm(zero) == pytest.approx(1.0, rel=1e-14, abs=0)
    rng = np.random.default_rng(2)
    x = rng.normal(size=(4, 6))
    direct = norm.steepest(x)
    for scale in (1e-300, 1e300):
        np.testing.assert_allclose(norm.steepest(x * scale), direct, rtol=1e-9, atol=1e-12)
    for row, value in zip(x, direct, strict=True):
        np.testing.assert_allclose(norm.steepest(row), value, rtol=1e-14)
    x[0, 1] = -math.inf
    found = norm.steepest(x)[0]
    only = np.zeros(6)
    only[1] = -1.0
    assert norm(found) == pytest.approx(1.0, rel=1e-12, abs=0)
    assert found @ only == pytest.approx(float(norm.dual(only)), rel=1e-12, abs=0)
    x[0, 2] = math.nan
    assert np.any(np.isnan(norm.steepest(x)[0]))
    assert not np.any(np.isnan(norm.steepest(x)[1:]))


def test_steepest_vertices():
    g = np.array([0.5, -2.0, 2.0, 0.0])
    assert L1.steepest(g).tolist() == [0.0, -1.0, 0.0, 0.0]  # the first of the largest
    assert LINF.steepest(g).tolist() == [1.0, -1.0, 1.0, 1.0]  # a corner, also at zeros
    np.testing.assert_allclose(L2.steepest(g), g / np.linalg.norm(g), rtol=1e-15)


@pytest.mark.parametrize(("inner", "outer"), [(2.0, 1.0), (2.0, math.inf), (1.0, 2.0)])
def test_dual_group_norm_against_a_conic_solver(inner, outer):
    rng = np.random.default_rng(8)
    g, weights = rng.normal(size=6), (0.5, 2.0, 3.0)
    norm = GroupNorm(GROUPS, inner, outer, weights)
    v = cp.Variable(6)
    names = {math.inf: "inf"}
    parts = cp.hstack(
        [
            w * cp.norm(v[list(group)], names.get(inner, inner))
            for group, w in zip(GROUPS, weights, strict=True)
        ]
    )
    problem = cp.Problem(cp.Maximize(g @ v), [cp.norm(parts, names.get(outer, outer)) <= 1])
    problem.solve(solver=cp.CLARABEL)
    assert norm.dual(g) == pytest.approx(problem.value, rel=1e-6, abs=0)


@settings(max_examples=60, deadline=None)
@given(
    data=st.data(),
    d=st.integers(1, 1000),
    p=st.sampled_from(EXPONENTS),
    scale=st.sampled_from([1e-150, 1.0, 1e150]),
)
def test_duality_in_many_dimensions(data, d, p, scale):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    x, y = rng.standard_t(2, size=(2, d))
    norm = Lp(p)
    assert abs(x @ y) <= norm(x) * norm.dual(y) * (1 + 1e-12)
    v = norm.steepest(x * scale)
    assert norm(v) == pytest.approx(1.0, rel=1e-12, abs=0)
    assert x @ v == pytest.approx(float(norm.dual(x)), rel=1e-9, abs=0)


# --- constants ------------------------------------------------------------------------------------


def ascend(matrix: np.ndarray, source: Norm, target: Norm) -> float:
    """sup target(A x) over source(x) <= 1, by alternating maximisation from many starts."""
    d = matrix.shape[1]
    rng = np.random.default_rng(11)
    x = np.vstack([np.eye(d), np.ones(d), rng.normal(size=(60, d))])
    best = 0.0
    for _ in range(1000):
        x = source.steepest(target.dual.steepest(x @ matrix.T) @ matrix)
        now = float(np.max(target(x @ matrix.T) / source(x)))
        if now <= best * (1 + 1e-13):
            break
        best = now
    return best


PLAIN = [Lp(p) for p in (1.0, 1.5, 2.0, 5.0, math.inf)]
OTHERS = [
    WeightedLp(1.5, (0.3, 1.0, 2.0, 7.0, 0.01, 5.0)),
    WeightedLp(4.0, (3.0, 1.0, 0.5, 2.0, 1.0, 1.0)),
    GroupNorm(GROUPS, 2.0, 1.0, (0.5, 2.0, 3.0)),
    GroupNorm(GROUPS, math.inf, 2.0),
    GroupNorm(GROUPS, 1.5, 3.0, (2.0, 1.0, 0.1)),
]


@pytest.mark.parametrize("weaker", [*PLAIN[::2], *OTHERS], ids=repr)
@pytest.mark.parametrize("stronger", [*PLAIN[1::2], *OTHERS], ids=repr)
def test_equivalence_is_the_least_constant(stronger, weaker):
    c = equivalence(stronger, weaker, 6)
    x = np.random.default_rng(4).standard_t(1, size=(2000, 6))
    assert np.all(weaker(x) <= c * stronger(x) * (1 + 1e-12))
    assert ascend(np.eye(6), stronger, weaker) == pytest.approx(c, rel=1e-5, abs=0)


@pytest.mark.parametrize("d", [1, 2, 9, 1000, 10**6])
def test_equivalence_of_plain_norms(d):
    for a in EXPONENTS:
        for b in EXPONENTS:
            expected = d ** max(0.0, 1 / b - 1 / a)
            assert equivalence(Lp(a), Lp(b), d) == pytest.approx(expected, rel=1e-14, abs=0)
    assert equivalence(LINF, L2, d) == math.sqrt(d)
    assert equivalence(L1, L2, d) == 1.0


def test_equivalence_refuses():
    with pytest.raises(ParameterError, match="d is 5"):
        equivalence(L2, WeightedLp(2.0, (1.0, 2.0)), 5)
    with pytest.raises(ParameterError, match="groups are the same"):
        equivalence(GroupNorm(((0, 1), (2,))), GroupNorm(((0,), (1, 2))), 3)
    with pytest.raises(ParameterError, match="d must be at least 1"):
        equivalence(L1, L2, 0)


@pytest.mark.parametrize(
    ("source", "target"),
    [(L1, L2), (L1, Lp(1.5)), (L1, L1), (L2, LINF), (Lp(1.5), LINF), (L2, L2), (LINF, LINF)],
)
def test_operator_norm(source, target):
    A = np.random.default_rng(6).normal(size=(4, 3))
    found = operator_norm(A, source, target)
    assert found == pytest.approx(ascend(A, source, target), rel=1e-6, abs=0)


def test_operator_norm_refuses():
    with pytest.raises(ParameterError, match="no closed form"):
        operator_norm(np.eye(2), LINF, L2)
    with pytest.raises(ParameterError, match="two axes"):
        operator_norm([1.0, 2.0], L1, L2)


# --- refusals and records -------------------------------------------------------------------------


@pytest.mark.parametrize("p", [0.999, 0.0, -1.0, math.nan, "2", None, True, [2.0]])
def test_bad_exponents(p):
    for make in (
        lambda: Lp(p),
        lambda: WeightedLp(p, (1.0,)),
        lambda: GroupNorm(((0,),), inner=p),
        lambda: GroupNorm(((0,),), outer=p),
    ):
        with pytest.raises(ParameterError, match=r"(p|inner|outer) must be"):
            make()


@pytest.mark.parametrize(
    "weights", [(), (0.0,), (-1.0, 1.0), (math.inf,), (math.nan,), (5e-324,), ((1.0,),), "ab", 3.0]
)
def test_bad_weights(weights):
    with pytest.raises(ParameterError, match="weights must"):
        WeightedLp(2.0, weights)


@pytest.mark.parametrize(
    "groups",
    [(), ((),), ((0, 1), (1,)), ((0, 2),), ((1,),), ((0,), ()), ((-1, 0),), ((0.0,),), (0, 1), 3],
)
def test_bad_groups(groups):
    with pytest.raises(ParameterError, match="group"):
        GroupNorm(groups)


def test_wrong_lengths():
    with pytest.raises(ParameterError, match="length 2, got length 3"):
        WeightedLp(2.0, (1.0, 2.0))(np.ones(3))
    with pytest.raises(ParameterError, match="length 6, got length 1"):
        GroupNorm(GROUPS).steepest(np.ones((6, 1)))
    with pytest.raises(ParameterError, match="one number per group: 3, got 2"):
        GroupNorm(GROUPS, weights=(1.0, 2.0))
    with pytest.raises(ParameterError, match="got a number"):
        L2(3.0)


def test_norms_are_records():
    weighted = WeightedLp(2, np.array([1, 2]))
    assert weighted == WeightedLp(2.0, (1.0, 2.0))
    assert len({weighted, WeightedLp(2.0, [1.0, 2.0]), Lp(2), L2}) == 2
    assert weighted.dimension == 2
    assert L2.dimension is None
    group = GroupNorm([[0, 1], [2]])
    assert group == GroupNorm(((0, 1), (2,)), 2.0, 1.0, (1.0, 1.0))
    assert group.dimension == 3
    for norm in (L2, weighted, group):
        again = pickle.loads(pickle.dumps(norm))
        assert again == norm
        assert hash(again) == hash(norm)
        x = np.arange(1.0, 1.0 + (norm.dimension or 4))
        assert again(x) == norm(x)
