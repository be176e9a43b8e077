"""The moreau_smoothing pinball loss: calculus against numbers, and the quantile that it keeps."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsco.losses import Pinball, scalar_prox
from dpsco.losses.quantile import RoundedPinball

LEVELS = st.floats(0.02, 0.98)
SMOOTHINGS = st.floats(0.1, 100.0)


@given(level=LEVELS, smoothing=SMOOTHINGS, residual=st.floats(-5, 5), label=st.floats(-2, 2))
def test_slopes_are_those_of_the_average_over_the_blur(level, smoothing, residual, label):
    loss, plain = RoundedPinball(level, smoothing), Pinball(level)
    margin = label + residual
    offsets = (np.arange(20_000) + 0.5) / 20_000 - 0.5
    average = plain.value(margin + offsets / smoothing, label).mean()
    assert loss.value(margin, label) == pytest.approx(average, abs=1e-6 / smoothing)
    assert 0 <= loss.value(margin, label) - plain.value(margin, label) <= 0.1251 / smoothing
    h = 1e-6 / smoothing
    rise = (loss.value(margin + h, label) - loss.value(margin - h, label)) / (2 * h)
    assert loss.slope(margin, label) == pytest.approx(float(rise), abs=1e-4)
    assert -level - 1e-12 <= loss.slope(margin, label) <= 1 - level + 1e-12
    assert loss.curvature(margin, label) in (0.0, smoothing)


@given(level=LEVELS, smoothing=SMOOTHINGS, margin=st.floats(-5, 5), step=st.floats(0.01, 10))
def test_prox_and_conjugate(level, smoothing, margin, step):
    loss = RoundedPinball(level, smoothing)
    found = loss.prox(margin, 0.3, step)
    assert found + step * loss.slope(found, 0.3) == pytest.approx(margin, abs=1e-9)
    assert found == pytest.approx(float(scalar_prox(loss, margin, 0.3, step)), abs=1e-6)
    dual = float(loss.slope(margin, 0.3))
    # Fenchel: equality at the slope, inequality elsewhere
    assert loss.conjugate(dual, 0.3) == pytest.approx(
        dual * margin - float(loss.value(margin, 0.3)), abs=1e-9
    )
    assert loss.conjugate(dual, 0.3) >= dual * 0.7 - float(loss.value(0.7, 0.3)) - 1e-12


@pytest.mark.parametrize("level", [0.1, 0.5, 0.75, 0.9])
def test_the_minimiser_keeps_its_quantile_where_the_moreau_envelope_does_not(level):
    labels = np.sort(np.random.default_rng(0).normal(size=4001))
    smoothing = 1.0  # a ramp as wide as the labels' own spread

    def coverage(slope):
        guesses = np.linspace(-2.5, 2.5, 2001)
        best = guesses[np.argmin([abs(slope(g).sum()) for g in guesses])]
        return np.mean(labels <= best)

    moreau_smoothing = coverage(lambda g: RoundedPinball(level, smoothing).slope(g, labels))
    moreau = coverage(lambda g: Pinball(level).envelope(smoothing)(g, labels))
    assert abs(moreau_smoothing - level) < 0.02
    if level != 0.5:
        assert abs(moreau - level) > 0.06
