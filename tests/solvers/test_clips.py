"""Default clips: the start's gradient, less for many classes, all where noise is small."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpsco as dp
from dpsco.losses import Hinge, Logistic, OneVersusRest, Softmax
from dpsco.solvers.clips import FARTHEST, cautious_clip, default_clip, finite


def facts(loss, n, d=20, *, feature=1.0, classes=10, **settings):
    label = "sign" if loss.labels == "sign" else dp.data.Classes(*range(classes))
    bounds = dp.Bounds(feature, label=label)
    return dp.Problem(loss=loss, bounds=bounds, **settings).facts(n, d)


def budget(epsilon=1.0):
    return dp.ApproxDP(epsilon, 1e-9, adjacency="zero_out")


def test_softmax_rows_are_cut_where_they_are_half_wrong():
    """1 - p_y = 1/2 gives at most sqrt(1/2), for two classes exactly the start's gradient."""
    for classes in (2, 3, 10):
        made = facts(Softmax(classes), 30_000, feature=2.0, classes=classes)
        assert cautious_clip(made, budget()) == pytest.approx(2.0 * math.sqrt(0.5))
    two = facts(Softmax(2), 30_000, classes=2)
    assert cautious_clip(two, budget()) == pytest.approx(two.start_gradient)
    assert facts(Softmax(10), 30_000).start_gradient == pytest.approx(math.sqrt(0.9))


def test_where_noise_outweighs_the_loss_the_clip_falls_to_a_quarter_wrong():
    clips = [cautious_clip(facts(Softmax(10), n), budget()) for n in (10, 200, 400, 10**5)]
    assert clips[0] == pytest.approx(math.sqrt(2) / 4)
    assert clips[-1] == pytest.approx(math.sqrt(2) / 2)
    assert clips[0] < clips[1] < clips[2] < clips[3]
    # as the root: in between, four times the noise is half the clip
    assert clips[2] / clips[1] == pytest.approx(math.sqrt(2.0), rel=1e-6)


def test_one_versus_rest_keeps_one_wrong_class_whole():
    made = facts(OneVersusRest(Hinge(), 10), 10**5)
    assert cautious_clip(made, budget()) == pytest.approx(1.0)
    assert made.lipschitz == pytest.approx(math.sqrt(10))


def test_losses_of_a_margin_are_cut_at_the_start():
    for n in (10, 10**5):
        assert cautious_clip(facts(Logistic(), n), budget()) == 0.5


@pytest.mark.parametrize("loss", [Logistic(), Softmax(10), OneVersusRest(Hinge(), 10)], ids=repr)
def test_a_large_budget_or_table_has_the_losses_own_bound(loss):
    made = facts(loss, 10**7)
    assert default_clip(made, budget(8.0)) == made.lipschitz
    assert default_clip(facts(loss, 1000), budget(8.0)) < made.lipschitz


def test_the_clip_never_exceeds_the_losses_own_bound():
    ball = dp.domains.L2Ball(0.1)
    for loss in (Softmax(3), OneVersusRest(Logistic(), 3)):
        for n in (10, 10**4, 10**8):
            made = facts(loss, n, classes=3, domain=ball)
            assert 0.0 < default_clip(made, budget()) <= made.lipschitz


@given(st.floats(0.01, 0.5), st.integers(2, 8), st.integers(0, 1000))
def test_no_row_less_wrong_is_cut(wrong, classes, seed):
    """||p - e_y|| <= settled(1 - p_y) for all probabilities."""
    p = np.random.default_rng(seed).dirichlet(np.full(classes, 0.3))
    p = np.concatenate([[1.0 - wrong], wrong * p[1:] / p[1:].sum()])
    assert np.linalg.norm(p - np.eye(classes)[0]) <= Softmax(classes).settled(wrong) * (1 + 1e-12)


def test_finite_numbers_whatever_the_noise():
    found = finite(np.array([np.nan, np.inf, -np.inf, 3.0]))
    assert found.tolist() == [0.0, FARTHEST, -FARTHEST, 3.0]
