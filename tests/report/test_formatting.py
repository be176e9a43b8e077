"""Numbers on the page: claims are never smaller than what they stand for."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsco.report.formatting import about, claim, one_in, percent, plain, safe

LOWERED = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")


def read(shown):
    """Return the number that a reader sees."""
    front, times, power = shown.partition(" × 10")
    if times:
        return float(f"{front}e{power.translate(LOWERED)}")
    if shown.startswith("10") and shown[2:].translate(LOWERED) != shown[2:]:
        return float("1e" + shown[2:].translate(LOWERED))
    return float(shown.replace(",", ""))


@given(st.floats(1e-300, 1e300), st.integers(2, 6))
def test_claims_round_up_and_stay_close(value, digits):
    shown = read(claim(value, digits))
    assert value <= shown <= value * (1 + 10.0 ** (1 - digits)) * (1 + 1e-12)


@given(st.floats(1e-300, 1e300), st.integers(2, 6))
def test_other_numbers_round_to_the_nearest(value, digits):
    assert read(plain(value, digits)) == pytest.approx(value, rel=0.51 * 10.0 ** (1 - digits))


@given(st.floats(0.0, 1.0))
def test_shares_round_up(share):
    shown = float(percent(share).removesuffix(" %"))
    assert share * 100 <= shown + 1e-12
    assert shown <= share * 100 + 0.1 + 1e-9
    assert shown <= 100


@given(st.floats(1e-15, 1.0))
def test_odds_are_never_longer_than_true(probability):
    words = one_in(probability).removeprefix("1 in ").split()
    size = {"million": 1e6, "billion": 1e9, "trillion": 1e12}[words[1]] if words[1:] else 1.0
    count = float(words[0].replace(",", "")) * size
    assert 0.5 / probability * 0.99 <= count <= 1 / probability * (1 + 1e-9)


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.0, "0"), (1e-4, "10⁻⁴"), (6.348e-4, "6.348 × 10⁻⁴"), (0.001, "0.001"), (1e300, "10³⁰⁰")],
)
def test_powers_of_ten(value, shown):
    assert claim(value) == plain(value) == shown


@pytest.mark.parametrize("function", [claim, plain, about])
def test_numbers_that_are_none(function):
    assert function(math.inf) == "infinite"
    assert function(math.nan) in ("none", "not a number")


def test_text_loses_what_misleads():
    assert safe("\u202egnp.exe\x1b[31m\u200b\n\x00") == "?gnp.exe?[31m???"
    assert safe("Größe ≤ 3, 東京 𝛿") == "Größe ≤ 3, 東京 𝛿"
    assert safe({"a": 1}) == "{'a': 1}"
    assert len(safe("x" * 10**6)) < 5000
