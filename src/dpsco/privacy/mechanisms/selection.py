"""The index of the smallest noisy score, with comparisons that are exact.

Each candidate j has a score s_j, a float that stands for the rational number it is, and a noise
G_j, a function of uniform real numbers U of which random words are the first digits:

    gumbel            -log(-log U)            the exponential mechanism, P(j) ~ exp(-s_j / scale)
    permute_and_flip  -log U                  (McKenna, Sheldon 2020; Ding et al. 2021)
    laplace           -log U + log U'         report noisy max

The answer is the j with the least s_j - scale G_j, and its law is exactly that of real arithmetic.
Floats with error bounds leave one candidate that can be the least, or, once in some 2^30 releases,
several; those are compared in integers, with as many further digits of their U as it takes. (A
float logarithm is believed to 2^-40 of its value, 2^12 times what libraries promise.) Nothing else
about the noise can be seen: what leaves is an index.

The exponential mechanism has a bounded range, hence costs an eighth of epsilon^2 zCDP; the others
are pure DP only, and cost a half.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ... import _validate
from ..._validate import store
from ..accounting import pld, renyi
from ..accounting.calibration import calibrate
from ..accounting.privacy_loss import PrivacyLoss, pure_loss, round_up
from ..accounting.sensitivity import float_sum_sensitivity
from ..budget import Adjacency, Budget
from ..randomness import Stream
from ..release import Release, register
from ..rounded_normals import Words, log_bounds

__all__ = ["SELECTION_NOISES", "SelectionRelease", "noisy_argmin", "selection_scale"]

Array = NDArray[np.float64]
Digits = list[int]  # the uniform numbers of one candidate, as integers of equally many digits

_WORD = 64
_GUARD = 64
_TRUST = 2.0**-40  # relative error that is allowed for in a float logarithm
_PART = 1 << 14  # candidates at a time
_EXTREME = 2.0**20  # words this close to 0 or 2^64 leave too few digits


SELECTION_NOISES = ("gumbel", "permute_and_flip", "laplace")


@register
@dataclass(frozen=True)
class SelectionRelease(Release):
    """The index of the smallest of ``candidates`` noisy scores, each score a sum over ``rows``.

    ``bound`` is the spread max - min over the candidates of one row's scores. (A shift common to
    all candidates changes nothing but the rounding: keep each row's scores within ``bound`` of 0.)
    ``noise`` of size ``scale`` is 'gumbel' (the exponential mechanism), 'permute_and_flip'
    (exponential noise) or 'laplace' (report noisy max).
    """

    kind: ClassVar[str] = "selection"
    summary: ClassVar[str] = (
        "The best of several public candidates, chosen with noise on the scores"
    )
    bound: float
    scale: float
    candidates: int
    noise: str = "gumbel"

    def __post_init__(self) -> None:
        super().__post_init__()
        store(self, "candidates", _validate.integer("candidates", self.candidates))
        _validate.choice("noise", self.noise, SELECTION_NOISES)

    def privacy_loss(self, adjacency: Adjacency) -> PrivacyLoss:
        """Return the pure epsilon, and the smaller Renyi divergences of a bounded range."""
        e0 = round_up(float_sum_sensitivity(self, adjacency) / self.scale)
        if self.noise != "gumbel":
            return pure_loss(e0)
        curve = renyi.bounded_range(e0)
        return PrivacyLoss(rho=e0 * e0 / 8, curve=curve, pure=e0, pld=pld.PureLoss(e0))

    def draw_index(self, stream: Stream, scores: Array) -> int:
        """Return the index of the noisily smallest score."""
        return noisy_argmin(stream.words, scores, self.scale, self.noise)


def selection_scale(
    budget: Budget,
    *,
    bound: float,
    candidates: int,
    rows: tuple[int, int],
    count: int = 1,
    noise: str = "gumbel",
) -> float:
    """Return the least scale of ``count`` selections on the same rows.

    ``bound`` is the spread of one row's scores: for vertices and clipped gradients the vertices'
    diameter times the clip. (A bound on each score, taken for the spread, is up to half of that:
    epsilon would be doubled. Twice the diameter is up to twice too much.)

    >>> from dpsco.privacy.budget import ApproxDP
    >>> budget = ApproxDP(1.0, 1e-6)
    >>> scale = selection_scale(budget, bound=1.0, candidates=200, rows=(0, 10_000), count=50)
    >>> round(2.0 / scale, 4)
    0.0632
    """

    def planned(scale: float) -> SelectionRelease:
        return SelectionRelease(bound, scale, candidates, noise, rows=rows, count=count)

    return calibrate(planned, budget)


def noisy_argmin(words: Words, scores: Array, scale: float, noise: str) -> int:
    """Return the index of the smallest score after noise of size ``scale`` is taken off.

    Candidates are looked at in parts that stay in the cache: of a part only those are remembered
    that may still be the least. (Laplace noise takes two numbers of each, drawn one after the
    other for all candidates: that is one part.)
    """
    part = len(scores) if noise == "laplace" else _PART
    open_, reached = _nearest(words, scores[:part], scale, noise)
    for start in range(part, len(scores), part):
        others, high = _nearest(words, scores[start : start + part], scale, noise)
        reached = min(reached, high)
        open_ = open_.joined(others._replace(places=others.places + start)).below(reached)
    if len(open_.places) == 1:
        return int(open_.places[0])
    digits = {int(j): [int(w) for w in open_.drawn[:, i]] for i, j in enumerate(open_.places)}
    values = {int(j): float(s) for j, s in zip(open_.places, open_.scores, strict=True)}
    return _exact_argmin(digits, values, scale, noise, words)


def _nearest(words: Words, scores: Array, scale: float, noise: str) -> tuple[_Contenders, float]:
    """Return the candidates of a part that may be its least, and what the least is at most."""
    numbers = 2 if noise == "laplace" else 1
    drawn = words(numbers * len(scores)).reshape(numbers, len(scores))
    exact = np.nan_to_num(scores)  # scores are sums of bounded rows; whatever comes has an order
    low, high = _float_bounds(drawn, exact, scale, noise)
    reached = float(high.min())
    near = np.flatnonzero(low <= reached)
    return _Contenders(near, exact[near], low[near], drawn[:, near]), reached


class _Contenders(NamedTuple):
    """Candidates that may be the least: which, their scores, lower bounds, and words."""

    places: NDArray[np.int64]
    scores: Array
    low: Array
    drawn: NDArray[np.uint64]

    def joined(self, others: _Contenders) -> _Contenders:
        """Return these and others."""
        pairs = zip(self, others, strict=True)
        return _Contenders(*(np.concatenate(pair, axis=-1) for pair in pairs))

    def below(self, reached: float) -> _Contenders:
        """Return those whose lower bound is not above what some candidate has reached."""
        near = self.low <= reached
        return _Contenders(
            self.places[near], self.scores[near], self.low[near], self.drawn[:, near]
        )


def _float_bounds(
    drawn: NDArray[np.uint64], scores: Array, scale: float, noise: str
) -> tuple[Array, Array]:
    """Return float bounds on s - scale G for each candidate."""
    with np.errstate(all="ignore"):
        value, error = _exponential(drawn[0])
        if noise == "gumbel":
            value, error = -np.log(value), error / value
            error += _TRUST * np.abs(value) + _TRUST
        elif noise == "laplace":
            other, more = _exponential(drawn[1])
            value, error = value - other, error + more
        middle = scores - scale * value
        error = scale * error + (np.abs(scores) + scale * np.abs(value)) * 2.0**-50
        low, high = middle - error, middle + error
    extreme = ((drawn < _EXTREME) | (drawn >= 2.0**64 - _EXTREME)).any(axis=0)
    extreme |= ~(np.isfinite(low) & np.isfinite(high))
    return np.where(extreme, -np.inf, low), np.where(extreme, np.inf, high)


def _exponential(words: NDArray[np.uint64]) -> tuple[Array, Array]:
    """Return -log U near what the words say, and how far off it may be."""
    below, above = words.astype(np.float64), (~words).astype(np.float64)
    small = below < 2.0**63
    value = np.where(small, -np.log((below + 0.5) * 2.0**-64), -np.log1p(-(above + 0.5) * 2.0**-64))
    # U moves by 2^-64 within the word; reading a word as a float by 2^-53 of it.
    nearest = np.where(small, below, 2.0**64) * 2.0**-64
    moved = (2.0**-64 + 2.0**-52 * np.minimum(below, above) * 2.0**-64) / nearest
    return value, 2.0 * moved + _TRUST * value


def _exact_argmin(
    digits: dict[int, Digits], scores: dict[int, float], scale: float, noise: str, words: Words
) -> int:
    """Return the least of a few candidates, in integers."""
    length = _WORD
    while True:
        bits = length + _GUARD
        bounds = {
            j: _exact_bounds(digits[j], length, bits, scores[j], scale, noise)
            for j in digits
            if min(digits[j]) > 0 and max(digits[j]) < (1 << length) - 1
        }
        if len(bounds) == len(digits):
            least = min(high for _, high in bounds.values())
            digits = {j: digits[j] for j, (low, _) in bounds.items() if low <= least}
            if len(digits) == 1:
                return next(iter(digits))
        for j in digits:
            digits[j] = [w << _WORD | int(words(1)[0]) for w in digits[j]]
        length += _WORD


def _exact_bounds(
    digits: Digits, length: int, bits: int, score: float, scale: float, noise: str
) -> tuple[Fraction, Fraction]:
    """Return bounds on s - scale G as rationals."""
    high, low = log_bounds(digits[0], length, bits)
    if noise == "gumbel":
        # -log E falls with E: the largest noise belongs to the smallest exponential.
        low, high = log_bounds(high, bits, bits)[1], log_bounds(max(low, 1), bits, bits)[0]
    elif noise == "laplace":
        other_high, other_low = log_bounds(digits[1], length, bits)
        low, high = low - other_high, high - other_low
    unit = Fraction(scale) / 2**bits
    return Fraction(score) - unit * high, Fraction(score) - unit * low
