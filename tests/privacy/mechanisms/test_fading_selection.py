"""Selections whose rows have different bounds: what each row pays, and the law of the answer."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsco.errors import AssumptionError, LedgerError, ParameterError
from dpsco.privacy import (
    ApproxDP,
    FadingSelectionRelease,
    GaussianRelease,
    Ledger,
    Randomness,
    SelectionRelease,
    cost,
)
from dpsco.privacy.accounting import renyi
from dpsco.privacy.accounting.privacy_loss import PrivacyLoss
from dpsco.privacy.mechanisms import selection

KEEP = (0.0, 0.3, 0.5, 0.6)
EDGES = (0, 100, 180, 300, 340)
FRESH = (0.4, 0.9, 0.7, 1.1)


def releases(scale=9.0, noise="gumbel", keep=KEEP):
    """Four rounds whose older rows fade."""
    records, bounds = [], []
    for t, fresh in enumerate(FRESH):
        bounds = [keep[t] * bound for bound in bounds] + [fresh]
        rows = (0, EDGES[t + 1])
        stops = EDGES[1 : t + 2]
        records.append(FadingSelectionRelease(tuple(bounds), stops, scale, 6, noise, rows=rows))
    return records


def on_row(row, noise="gumbel"):
    """The same as selections of one bound each, for one row, by hand."""
    batch = int(np.searchsorted(EDGES[1:], row, side="right"))
    records, faded = [], FRESH[batch]
    for t in range(batch, len(FRESH)):
        faded = faded if t == batch else KEEP[t] * faded
        records.append(SelectionRelease(faded, 9.0, 6, noise, rows=(row, row + 1)))
    return records


@pytest.mark.parametrize("noise", ["gumbel", "laplace", "permute_and_flip"])
@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
def test_the_worst_row_is_composed(noise, adjacency):
    """Tight: the cost is that of the row that pays most, written out by hand."""
    whole = cost(releases(noise=noise), adjacency=adjacency)
    by_hand = [cost(on_row(row, noise), adjacency=adjacency) for row in (0, 100, 180, 300)]
    for delta in (1e-9, 1e-6, 1e-3):
        worst = max(each.epsilon(delta) for each in by_hand)
        assert worst <= whole.epsilon(delta) <= worst * (1 + 1e-6)
    assert whole.pure_epsilon == pytest.approx(max(e.pure_epsilon for e in by_hand), rel=1e-6)
    assert whole.rho == pytest.approx(max(e.rho for e in by_hand), rel=1e-6)
    assert len(whole.rows) == 4


def test_each_row_has_its_own_bound():
    last = releases()[-1]
    assert last.bound_of(0) == last.bound_of(99) == pytest.approx(0.4 * 0.3 * 0.5 * 0.6)
    assert last.bound_of(100) == pytest.approx(0.9 * 0.5 * 0.6)
    assert last.bound_of(339) == last.largest == 1.1
    assert last.new_rows == (300, 340)
    pieces = list(last.pieces())
    assert [piece.rows for piece in pieces] == [(0, 100), (100, 180), (180, 300), (300, 340)]
    assert all(p.bound >= b for p, b in zip(pieces, last.bounds, strict=True))


@pytest.mark.parametrize("noise", ["laplace", "permute_and_flip"])
def test_bounded_range_is_for_gumbel_noise_only(noise):
    """Laplace noise as bounded range would claim a fourth of the zCDP that it costs."""
    plain, other = (cost(releases(noise=name)) for name in ("gumbel", noise))
    assert other.rho == pytest.approx(4 * plain.rho, rel=1e-6)
    assert other.pure_epsilon == plain.pure_epsilon
    assert other.epsilon(1e-6) > plain.epsilon(1e-6)


@given(
    keep=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=6),
    scale=st.floats(1.0, 1e3),
)
@settings(max_examples=30, deadline=None)
def test_fading_never_costs_more_than_no_fading(keep, scale):
    bounds, records, whole = [1.0], [], []
    for t, share in enumerate(keep, start=1):
        bounds = [share * bound for bound in bounds] + [1.0]
        rows, stops = (0, 10 * (t + 1)), tuple(range(10, 10 * (t + 2), 10))
        records.append(FadingSelectionRelease(tuple(bounds), stops, scale, 3, rows=rows))
        whole.append(SelectionRelease(1.0, scale, 3, rows=rows))
    assert cost(records).epsilon(1e-6) <= cost(whole).epsilon(1e-6) * (1 + 1e-6)
    assert cost(records).epsilon(1e-6) >= cost(whole[:1]).epsilon(1e-6) * (1 - 1e-9)


def test_other_releases_compose_with_it_row_by_row():
    noisy = GaussianRelease(1.0, 20.0, rows=(300, 340))
    beside = cost([*releases(), noisy])
    assert beside.rho == pytest.approx(max(cost(releases()).rho, on_last_rows(noisy)), rel=1e-6)


def on_last_rows(noisy):
    return cost([*on_row(300), noisy]).rho


@pytest.mark.parametrize(
    "wrong",
    [
        {"bounds": (1.0,)},
        {"bounds": (1.0, -0.1)},
        {"bounds": (0.0, 0.0)},
        {"bounds": (1.0, math.nan)},
        {"bounds": ()},
        {"bounds": 1.0},
        {"stops": (5, 5)},
        {"stops": (6, 3)},
        {"stops": (5, 11)},
        {"stops": (5, 9)},
        {"stops": "5"},
        {"candidates": 0},
        {"scale": 0.0},
        {"noise": "normal"},
    ],
)
def test_parts_are_checked(wrong):
    right = {"bounds": (0.5, 1.0), "stops": (5, 10), "scale": 2.0, "candidates": 3}
    FadingSelectionRelease(**right, rows=(0, 10))
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        FadingSelectionRelease(**{**right, **wrong}, rows=(0, 10))


def test_rows_may_begin_anywhere():
    late = FadingSelectionRelease((0.5, 1.0), (15, 20), 4.0, 3, rows=(10, 20))
    first = late.at_first_row()
    assert (first.rows, first.stops) == ((0, 10), (5, 10))
    assert cost(late).epsilon(1e-6) == cost(first).epsilon(1e-6)
    assert late.bound_of(14) == 0.5
    assert late.bound_of(15) == 1.0


def test_rounding_of_all_rows_is_paid_by_each():
    """A sum of very many rows rounds by more than the oldest of them count."""
    rows = 10**8
    huge = FadingSelectionRelease((0.0, 1.0), (rows // 2, rows), 1.0, 3, rows=(0, rows))
    oldest, newest = huge.pieces()
    assert 2.0**-52 * rows * 4000 < oldest.bound < 1e-3
    assert newest.bound > 1.0 + 2.0**-52 * rows * 4000


def test_nothing_is_claimed_under_add_remove():
    with pytest.raises(AssumptionError, match="public number of rows"):
        cost(releases()[-1], adjacency="add_remove")


def test_the_answer_has_the_law_of_the_exponential_mechanism():
    """20,000 answers: a scale that is wrong by a tenth shifts the first share by 5.6 or more."""
    scores, scale, count = np.array([0.0, 0.3, 1.0]), 0.5, 20_000
    release = FadingSelectionRelease((0.1, 0.2), (5, 10), scale, 3, rows=(0, 10))
    stream = Randomness.seeded(4).child("answers")
    answers = [release.draw_index(stream, scores) for _ in range(count)]
    expected = np.array([0.593772, 0.325869, 0.080358])  # softmax(-scores/scale)
    shares = np.bincount(answers, minlength=3) / count
    deviations = (shares - expected) / np.sqrt(expected * (1 - expected) / count)
    assert np.max(np.abs(deviations)) < 5.0  # false alarm 2e-6, of a fixed seed
    for wrong in (0.9, 1.1):
        other = np.exp(-scores / (wrong * scale))
        gap = other[0] / other.sum() - expected[0]
        assert abs(gap) / math.sqrt(expected[0] * (1 - expected[0]) / count) > 5.5


def test_other_scores_than_planned_are_refused():
    first, *rest = releases()
    ledger = Ledger([first, *rest], ApproxDP(9.0, 1e-6))
    with pytest.raises(ParameterError, match="among 6 candidates, got 5"):
        ledger.fading_argmin(np.zeros(5), first)
    assert ledger.fading_argmin(np.zeros(6), first) in range(6)
    with pytest.raises(LedgerError, match="already executed"):
        ledger.fading_argmin(np.zeros(6), first)


# -- a planted bug: pure noise charged as bounded range --------------------------------------------


def winning(noise, gap, others):
    """The chance that one candidate beats so many whose scores are lower by ``gap``, scale 1."""
    u = np.linspace(-30.0, 30.0, 300_001)
    if noise == "permute_and_flip":
        density = np.where(u >= 0, np.exp(-np.maximum(u, 0)), 0.0)
        law = -np.expm1(-np.maximum(u - gap, 0.0))
    else:
        density, past = 0.5 * np.exp(-np.abs(u)), u - gap
        tail = 0.5 * np.exp(-np.abs(past))
        law = np.where(past < 0, tail, 1 - tail)
    return float(np.sum(density * law**others) * (u[1] - u[0]))


def divergence(noise, e0, gap, others):
    """KL of "it wins" between neighbours whose gap moves by e0; a lower bound on the zCDP."""
    p, q = (winning(noise, x, others) for x in (gap, gap + e0))
    return p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))


@pytest.mark.parametrize(
    ("noise", "gap", "others", "factor"),
    [("permute_and_flip", 0.0, 1, 3.0), ("laplace", -0.25, 2, 1.1)],
)
def test_pure_noise_as_bounded_range_is_caught(noise, gap, others, factor, monkeypatch):
    """The claim falls below what one event alone shows; what is charged stays above."""
    e0 = 0.2
    release = SelectionRelease(1.0, 2.0 / e0, others + 1, noise, rows=(0, 10))
    shown = divergence(noise, e0, gap, others)
    assert shown > factor * e0 * e0 / 8
    assert shown <= cost(release).rho

    def bounded_range(epsilon):
        return PrivacyLoss(rho=epsilon**2 / 8, curve=renyi.bounded_range(epsilon), pure=epsilon)

    monkeypatch.setattr(selection, "pure_loss", bounded_range)
    assert shown > cost(release).rho
