"""Moreau smoothing: the known answers, the invariants, and brute force in many digits."""

from __future__ import annotations

import math
import pickle

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsco.errors import AssumptionError, ParameterError
from dpsco.kernels.slope import Slope
from dpsco.losses.custom import CustomLoss
from dpsco.losses.epsilon_insensitive import EpsilonInsensitive
from dpsco.losses.hinge import Hinge, ModifiedHuber, QHinge, SquaredHinge
from dpsco.losses.huber import Huber, PseudoHuber
from dpsco.losses.logistic import Logistic
from dpsco.losses.nonconvex import Sigmoid, Tukey
from dpsco.losses.poisson import Poisson
from dpsco.losses.power import Absolute, QPower
from dpsco.losses.quantile import Pinball
from dpsco.losses.smoothing import Smoothed
from dpsco.losses.squared import Squared


def mixed_value(u, y):
    return abs(u - y) + 0.5 * np.log(1 + np.exp(-abs(u))) + 0.5 * max(u, 0.0)


def mixed_slope(u, y):
    return np.sign(u - y) + 0.5 / (1 + np.exp(-u))


MIXED = CustomLoss(  # a kink and a bend: no closed form, so this one goes through bisection
    mixed_value, mixed_slope, slope_bound=1.5, convex=True, labels="real", name="mixed"
)
NONSMOOTH = [Hinge(), Absolute(), Pinball(0.3), Pinball(0.85), EpsilonInsensitive(0.5)]
SMOOTH = [Logistic(), Huber(0.7), Huber(3.0), PseudoHuber(0.8), ModifiedHuber(), Poisson(3.0)]
LOSSES = [*NONSMOOTH, *SMOOTH, MIXED]
BETAS = [1e-2, 0.2, 1.0, 5.0, 1e3]


def smoothed(loss, beta):
    return Smoothed(loss, beta, label=1.0 if isinstance(loss, Poisson) else None)


def labels_of(loss, rng, size):
    if loss.labels == "sign":
        return rng.choice([-1.0, 1.0], size)
    return rng.uniform(0.0 if loss.labels == "count" else -1.0, 1.0, size)


def minimise(loss, m, y, beta, bound):
    """The envelope by golden-section search over values alone, knowing nothing of slopes."""
    low, high = m - bound / beta - 1e-12, m + bound / beta + 1e-12
    golden = (math.sqrt(5) - 1) / 2

    def objective(u):
        return loss.value(u, y) + beta / 2 * (u - m) ** 2

    for _ in range(90):
        a, b = high - golden * (high - low), low + golden * (high - low)
        left = objective(a) < objective(b)
        low, high = np.where(left, low, a), np.where(left, b, high)
    return objective((low + high) / 2), (low + high) / 2


# --- known answers --------------------------------------------------------------------------------

KNOWN = [
    (Hinge(), 2, 0.4, 1, -1.0),
    (Hinge(), 2, 0.95, 1, -0.1),
    (Hinge(), 2, 1.3, 1, 0.0),
    (Hinge(), 5, -0.2, -1, 1.0),
    (Absolute(), 2, 0.7, 0.5, 0.4),
    (Absolute(), 2, 3, 0.5, 1.0),
    (Pinball(0.3), 2, 0.6, 0.5, 0.2),
    (Pinball(0.3), 2, 3, 0.5, 0.7),
    (Pinball(0.3), 2, -3, 0.5, -0.3),
    (EpsilonInsensitive(0.5), 2, 1.2, 0.5, 0.4),
    (EpsilonInsensitive(0.5), 2, 0.8, 0.5, 0.0),
    (EpsilonInsensitive(0.5), 2, -3, 0.5, -1.0),
    (Huber(0.7), 2, 1, 0.5, 1 / 3),
    (Huber(0.7), 2, 3, 0.5, 0.7),
    (Logistic(), 1, 0, 1, -0.401058137541547),
    (Logistic(), 100, 0, 1, -0.4987531197852631),
    (Logistic(), 0.5, 2, -1, 0.6625841928288003),
    (Logistic(), 4, -1.5, 1, -0.7864063737141542),
]


@pytest.mark.parametrize(("loss", "beta", "m", "y", "answer"), KNOWN, ids=str)
def test_known_answers(loss, beta, m, y, answer):
    assert float(Smoothed(loss, beta).slope(m, y)) == pytest.approx(answer, abs=1e-14)


ENVELOPES = [  # t = distance from the corner; tau = 1 / beta = 0.5
    (Hinge(), 1.2, 1, 0.0),
    (Hinge(), 0.75, 1, 0.0625),
    (Hinge(), -1.0, 1, 1.75),
    (Absolute(), 0.7, 0.5, 0.04),
    (Absolute(), -2.5, 0.5, 2.75),
    (Pinball(0.3), 0.6, 0.5, 0.01),
    (Pinball(0.3), 2.5, 0.5, 0.7 * 2 - 0.49 / 4),
    (Pinball(0.3), -1.5, 0.5, 0.3 * 2 - 0.09 / 4),
    (EpsilonInsensitive(0.5), 1.2, 0.5, 0.04),
    (EpsilonInsensitive(0.5), 3.0, 0.5, 1.75),
    (Huber(0.7), 1.0, 0.5, 0.25 / 3),
    (Huber(0.7), 2.5, 0.5, 1.4 - 1.5 * 0.49 / 2),
]


@pytest.mark.parametrize(("loss", "m", "y", "answer"), ENVELOPES, ids=str)
def test_known_envelopes(loss, m, y, answer):
    assert float(Smoothed(loss, 2.0).value(m, y)) == pytest.approx(answer, abs=1e-14)


# --- brute force ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("beta", BETAS)
def test_against_minimisation(loss, beta):
    rng = np.random.default_rng(int(beta * 100))
    m, y = 3 * rng.normal(size=200), labels_of(loss, rng, 200)
    found = smoothed(loss, beta)
    value, nearest = minimise(loss, m, y, beta, found.lipschitz)
    scale = 1 + np.abs(value)
    np.testing.assert_allclose(found.value(m, y), value, rtol=0, atol=1e-12 * scale.max())
    # a minimiser found from values is good to the root of their rounding
    near = m - found.slope(m, y) / beta
    assert np.abs(near - nearest).max() <= 1e-6 * max(1.0, 1 / math.sqrt(beta)) * 2


def test_logistic_in_many_digits():
    loss = Logistic()
    with mpmath.workdps(40):
        for beta in (1e-3, 0.05, 0.25, 1.0, 100.0):
            for s in (-30.0, -2.0, 0.0, 0.7, 5.0, 30.0):
                tau = 1 / mpmath.mpf(beta)

                def root(v, s=s, tau=tau):
                    return v - s - tau / (1 + mpmath.exp(v))

                v = mpmath.findroot(root, (s, s + tau), solver="anderson", tol=1e-35)
                exact = -1 / (1 + mpmath.exp(v))
                assert float(Smoothed(loss, beta).slope(s, 1.0)) == pytest.approx(
                    float(exact), rel=1e-12
                )


@pytest.mark.parametrize("loss", [*NONSMOOTH, *SMOOTH], ids=repr)
@pytest.mark.parametrize("beta", [0.05, 2.0, 300.0])
def test_bisection_agrees_with_closed_form(loss, beta):
    """The generic oracle, which knows phi' and its bound alone, to 1e-10."""
    rng = np.random.default_rng(0)
    m, y = 4 * rng.normal(size=500), labels_of(loss, rng, 500)
    closed = smoothed(loss, beta)
    plain = loss.kernel()

    class Bisected(type(loss)):
        def envelope(self, smoothing):
            return Slope(plain.function, plain.first, plain.second, smoothing, closed.lipschitz)

    arguments = {k: v for k, v in vars(loss).items() if k in type(loss).__dataclass_fields__}
    generic = smoothed(Bisected(**arguments), beta)
    assert generic.kernel().smoothing == beta
    np.testing.assert_allclose(generic.slope(m, y), closed.slope(m, y), rtol=0, atol=1e-10)
    assert np.abs(generic.slope(m, y)).max() <= generic.lipschitz


# --- invariants -----------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), log_beta=st.floats(-3, 4), spread=st.floats(-3, 2))
def test_invariants(loss, seed, log_beta, spread):
    rng = np.random.default_rng(seed)
    beta = 10**log_beta
    found = smoothed(loss, beta)
    y = float(labels_of(loss, rng, 1)[0])
    m = np.sort(10**spread * rng.normal(size=64))
    g, L0 = found.slope(m, y), found.lipschitz
    assert np.abs(g).max() <= L0
    slack = 1e-11 * L0  # the accuracy of bisection
    assert np.diff(g).min() >= -slack  # convex
    assert np.all(np.diff(g) <= beta * np.diff(m) * (1 + 1e-9) + slack)  # smooth
    assert np.all(np.diff(g) <= found.hoelder().constant * np.diff(m) * (1 + 1e-9) + slack)
    envelope, value = found.value(m, y), loss.value(m, y)
    rounding = 1e-14 * (1 + np.abs(value) + L0 * np.abs(m))
    assert np.all(envelope <= value + rounding)
    assert np.all(value <= envelope + found.gap + rounding)
    assert np.all(np.abs(g) <= np.abs(loss.slope(m, y)) + slack)  # never longer than phi' at m
    assert float(found.value(0.0, y)) <= found.value_at_zero(1.0) + 1e-14


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("beta", [0.3, 4.0, 60.0])
def test_slope_and_curvature_are_derivatives(loss, beta):
    rng = np.random.default_rng(3)
    found = smoothed(loss, beta)
    m, y, h = 3 * rng.normal(size=300), labels_of(loss, rng, 300), 1e-6
    quotient = (found.value(m + h, y) - found.value(m - h, y)) / (2 * h)
    np.testing.assert_allclose(found.slope(m, y), quotient, atol=3e-8 + beta * h)
    h = 1e-5
    bend = (found.slope(m + h, y) - found.slope(m - h, y)) / (2 * h)
    # away from the points where the envelope's second derivative jumps
    calm = np.abs(found.slope(m + 2 * h, y) + found.slope(m - 2 * h, y) - 2 * found.slope(m, y))
    calm = calm <= 1e-4 * h * beta
    assert calm.mean() > 0.9
    curvature = found.curvature(m, y)
    np.testing.assert_allclose(curvature[calm], bend[calm], atol=2e-4 * beta)
    assert curvature.max() <= found.curvature_bound(1.0, math.inf) * (1 + 1e-9)
    assert curvature.min() >= 0.0


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_much_smoothing_recovers_the_subgradient(loss):
    m = np.linspace(-3.01, 3.013, 61)
    y = 1.0
    away = np.abs(loss.slope(m + 1e-3, y) - loss.slope(m - 1e-3, y)) < 0.05
    found = smoothed(loss, 1e7).slope(m, y)
    np.testing.assert_allclose(found[away], loss.slope(m, y)[away], atol=1e-5)


def test_hinge_is_odd_in_margin_and_label():
    m = np.linspace(-3, 3, 101)
    found = Smoothed(Hinge(), 3.0)
    np.testing.assert_array_equal(found.slope(m, -1.0), -found.slope(-m, 1.0))


# --- constants ------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("beta", [0.2, 4.0])
@pytest.mark.parametrize("margin", [0.1, 1.0, 10.0])
def test_constants_hold_within_a_margin(loss, beta, margin):
    found = smoothed(loss, beta)
    m = np.linspace(-margin, margin, 801)
    kind = {"sign": [-1.0, 1.0], "count": np.linspace(0, 1, 11), "real": np.linspace(-1, 1, 11)}
    for y in kind[loss.labels]:
        g = found.slope(m, y)
        assert np.abs(g).max() <= found.slope_bound(1.0, margin) * (1 + 1e-12)
        bend = np.diff(g) / np.diff(m)
        assert bend.max() <= found.curvature_bound(1.0, margin) * (1 + 1e-6) + 1e-8


def test_curvature_bounds_are_exact():
    """Kinks give beta itself; a smooth loss the harmonic sum, attained where phi'' is."""
    beta = 4.0
    for loss in NONSMOOTH:
        assert Smoothed(loss, beta).curvature_bound(1.0, math.inf) == beta
        assert Smoothed(loss, beta).hoelder().constant == beta
        m = np.linspace(-2, 2, 4001)
        bend = np.diff(Smoothed(loss, beta).slope(m, 1.0)) / np.diff(m)
        assert bend.max() == pytest.approx(beta, rel=1e-6)
    for loss, native in [(Logistic(), 0.25), (Huber(0.7), 1.0), (PseudoHuber(0.8), 1.0)]:
        exact = 1 / (1 / beta + 1 / native)
        assert Smoothed(loss, beta).curvature_bound(1.0, math.inf) == pytest.approx(exact)
        assert Smoothed(loss, beta).hoelder().constant == pytest.approx(exact)
        m = np.linspace(-2, 2, 40001)
        bend = np.diff(Smoothed(loss, beta).slope(m, 1.0)) / np.diff(m)
        assert exact * 0.999 <= bend.max() <= exact * (1 + 1e-6)
    # far from the hinge's corner the envelope is a line
    assert Smoothed(Hinge(), 4.0).curvature_bound(1.0, 0.7) == 0.0
    assert Smoothed(Hinge(), 4.0).curvature_bound(1.0, 0.76) == 4.0


def test_gap_is_attained():
    for loss, m in [
        (Hinge(), -5.0),
        (Absolute(), 9.0),
        (Pinball(0.3), 9.0),
        (EpsilonInsensitive(0.5), 9),
    ]:
        found = Smoothed(loss, 2.0)
        gap = float(loss.value(m, 1.0) - found.value(m, 1.0))
        assert gap == pytest.approx(found.gap, rel=1e-12)
        assert found.gap == pytest.approx(found.lipschitz**2 / 4.0)


def test_constants_in_the_weights():
    found = Smoothed(Hinge(), 3.0).constants(feature=2.0, radius=1.0)
    assert (found.lipschitz, found.smoothness, found.convex) == (2.0, 12.0, True)
    assert found.weak_convexity == 0.0
    assert found.value_at_zero == 1.0
    assert Smoothed(Logistic(), 3.0).constants(feature=2.0).gradient_at_zero == 1.0


# --- composition ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_smoothing_twice_adds_reciprocals(loss):
    rng = np.random.default_rng(8)
    m, y = 3 * rng.normal(size=100), labels_of(loss, rng, 100)
    inner = smoothed(loss, 3.0)
    twice, once = Smoothed(inner, 6.0), smoothed(loss, 2.0)
    assert twice.label == inner.label
    np.testing.assert_allclose(twice.slope(m, y), once.slope(m, y), atol=1e-11)
    value, nearest = minimise(inner, m, y, 6.0, inner.lipschitz)
    np.testing.assert_allclose(twice.value(m, y), value, atol=1e-11)
    step = inner.prox(m, y, 1 / 6.0)
    np.testing.assert_allclose(step, nearest, atol=1e-6)
    np.testing.assert_allclose(step, m - twice.slope(m, y) / 6.0, atol=1e-11)


def test_labels_trust_and_name_pass_through():
    assert Smoothed(Hinge(), 1.0).labels == "sign"
    assert Smoothed(Absolute(), 1.0).labels == "real"
    assert Smoothed(MIXED, 1.0).trusted == MIXED.trusted != ()
    assert Smoothed(Hinge(), 1.0).trusted == ()
    assert Smoothed(Hinge(), 1.0).name == "Smoothed(Hinge)"
    loss = Smoothed(Huber(0.5), 2.0)
    again = pickle.loads(pickle.dumps(loss))
    assert again == loss
    assert hash(again) == hash(loss)
    assert again.labels == "real"


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", [Squared(), SquaredHinge(), QHinge(1.5), QPower(1.5)], ids=repr)
def test_losses_without_lipschitz_constant_are_refused(loss):
    with pytest.raises(AssumptionError, match=r"Huber\(threshold="):
        Smoothed(loss, 1.0)


@pytest.mark.parametrize("loss", [Sigmoid(), Tukey(1.0)], ids=repr)
def test_non_convex_losses_are_refused(loss):
    with pytest.raises(AssumptionError, match="convex"):
        Smoothed(loss, 1.0)


@pytest.mark.parametrize("beta", [0.0, -1.0, math.inf, math.nan, "2"])
def test_bad_smoothing(beta):
    with pytest.raises(ParameterError, match="smoothing"):
        Smoothed(Hinge(), beta)


def test_a_slope_that_depends_on_the_label_needs_its_bound():
    with pytest.raises(ParameterError, match="label"):
        Smoothed(Poisson(3.0), 1.0)
    loss = Smoothed(Poisson(3.0), 1.0, label=5.0)
    assert loss.lipschitz == 5.0
    assert loss.constants(feature=1.0, label=5.0).lipschitz == 5.0
    with pytest.raises(ParameterError, match="label"):
        loss.constants(feature=1.0, label=6.0)
    with pytest.raises(ParameterError, match="label"):
        Smoothed(Poisson(3.0), 1.0, label=-1.0)
    with pytest.raises(ParameterError, match="loss"):
        Smoothed("hinge", 1.0)


def test_the_bracket_grows_with_the_labels():
    """A loss without closed form whose slope depends on the label: bisection must not be cut."""

    class Plain(Poisson):
        def envelope(self, smoothing):
            kernel = self.kernel()
            return Slope(kernel.function, kernel.first, 0.0, smoothing, 3.0)

    wide = Smoothed(Plain(3.0), 2.0, label=9.0)
    assert wide.kernel().bound == 9.0
    exact = Smoothed(Poisson(3.0), 2.0, label=9.0)
    m = np.linspace(-6, 3, 50)
    np.testing.assert_allclose(wide.slope(m, 9.0), exact.slope(m, 9.0), atol=1e-10)
