"""Exact draws from the discrete Gaussian, vectorised.

The law is N_Z(0, sigma^2): P(k) proportional to exp(-k^2 / (2 sigma^2)) on the integers (Canonne,
Kamath, Steinke 2020, arXiv:2004.00010). A float ``sigma`` stands for the rational number it is.

Proposal (their Alg 2, 3). With t = floor(sigma) + 1 draw a sign, U uniform on {0, ..., t-1} and
V >= 0 with P(V >= k) = exp(-k); put X = U + t V, and refuse "minus zero". The two acceptance steps
of the paper are merged into one: accept with probability exp(-x), where

    x = U/t + (X - sigma^2/t)^2 / (2 sigma^2) = X^2/(2 sigma^2) - V + sigma^2/(2 t^2)  >= 0,

so that an integer k is accepted with probability proportional to exp(-k^2 / (2 sigma^2)).

Why the law is exact, although floating point is used. Only coin flips "is u < exp(-x)?" meet
irrational numbers, u being uniform on [0, 1). The leading bits of u are compared with a float p for
which |p - exp(-x)| < 2^-46 is proved below. If the two differ by more than ``_SLACK`` = 2^-44, the
answer is that of exact arithmetic. Otherwise (probability below 2^-42 a flip) `_Uniform` settles
the flip in integers: rigorous bounds on exp(-x) for the exact rational x, and 64 further random
bits of the same u whenever the bounds do not separate. So every flip has probability exp(-x)
exactly, given uniform random words. V compares u with the integers floor(2^64 exp(-k)), equality
being settled likewise; U is a remainder of 63 bits, without the incomplete last cycle. The one
exception is that int64 would overflow where V > 2^16, an event of probability below exp(-2^16);
draws above 2^52 in absolute value are less likely than exp(-900).

Proof of 2^-46, with unit roundoff e = 2^-53 and only + - * / and conversions of IEEE 754 (no
library exp). X < 2^52 and t are exact floats and sigma^2/t < sigma is rounded once, so for
z = (X - sigma^2/t)/sigma the error is at most e (1 + 2|z|), and for x it is at most
e (7 x + sqrt(2 x)) to first order; times exp(-x) that is below 4 e. The table of exp(-n/256) comes
from integers, rounded once (e); the split x = n/256 + r is exact; the Taylor polynomial of degree
4 in r < 1/256 misses r^5/120 < 2^-46.9; its evaluation and the product round by less than 8 e.
Capping x at 40 costs exp(-40) < e/16. Sum: 2^-46.9 + 14 e < 2^-46. Reading u to 53 bits and
subtracting add 2 e, far inside the slack.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from .. import _validate
from ..errors import ParameterError

__all__ = ["MAX_SIGMA", "MIN_SIGMA", "Words", "bernoulli_exp", "discrete_gaussian", "exp_bounds"]

Words: TypeAlias = Callable[[int], NDArray[np.uint64]]

MIN_SIGMA = 2.0**-10  # below, P(0) = 1 - exp(-2**19): no noise to speak of
MAX_SIGMA = 2.0**46  # 45 blocks of floor(sigma) + 1 integers stay below 2**52

_SLACK = 2.0**-44  # a float comparison closer than this is settled exactly
_CAP = 40  # exponents above are treated as 40 by the float comparison
_CELLS = 256  # table cells for a unit of the exponent
_CHUNK = 1 << 15  # proposals at a time: arrays that stay in the cache
_LEVELS = 45  # exp(-45) < 2**-64: V above 44 needs a word equal to 0


def discrete_gaussian(words: Words, sigma: float, count: int) -> NDArray[np.int64]:
    """Draw ``count`` independent integers from N_Z(0, sigma^2), exactly.

    Arguments: ``words(n)`` returns n fresh uniform uint64 words; ``sigma`` between ``MIN_SIGMA``
    and ``MAX_SIGMA``, in grid units (its square bounds the variance from above, and is within a
    millionth of it from sigma = 1 on); ``count`` zero or more. How many words are used depends on
    the words and on the two numbers only, never on data.

    Raises `ParameterError` for anything else, and for words of another shape or type.

    >>> from itertools import count
    >>> tick = count(1)
    >>> def words(n):  # a toy stream: use `Stream.words`
    ...     keys = np.fromiter((next(tick) for _ in range(n)), np.uint64, n)
    ...     return keys * np.uint64(0x9E3779B97F4A7C15)
    >>> draws = discrete_gaussian(words, 3.5, 1000)
    >>> draws.dtype.name, draws.shape
    ('int64', (1000,))
    """
    law = _Law.of(sigma)
    count = _validate.integer("count", count, at_least=0)
    if not callable(words):
        raise ParameterError(
            f"words must be a function from n to n random uint64 words, got {words!r}. "
            "Pass the method Stream.words."
        )
    out = np.empty(count, dtype=np.int64)
    done = 0
    while done < count:
        size = min(_CHUNK, 64 + math.ceil(1.02 * (count - done) / law.acceptance()))
        drawn = _round(words, law, size)[: count - done]
        out[done : done + drawn.size] = drawn
        done += drawn.size
    return out


def bernoulli_exp(words: Words, exponent: Fraction | int) -> bool:
    """Return True with probability exp(-exponent) exactly, for a rational exponent >= 0."""
    if isinstance(exponent, bool) or not isinstance(exponent, (int, Fraction)) or exponent < 0:
        raise ParameterError(
            f"exponent must be a Fraction or int of at least 0, got {exponent!r}. "
            "Wrap a float in Fraction to take it as the rational number that it is."
        )
    return _Uniform(int(_fresh(words, 1)[0]), words).below_exp(Fraction(exponent))


def exp_bounds(x: Fraction, bits: int) -> tuple[int, int]:
    """Return integers low <= 2**bits * exp(-x) <= high with high - low <= 2, for x >= 0.

    exp(x) = exp(x / 2^h)^(2^h) with x / 2^h < 1/2, by its Taylor series and h squarings in fixed
    point: the lower bound rounds down, the upper bound rounds up, and the reciprocal swaps them.
    """
    if x == 0:
        return 1 << bits, 1 << bits
    if x >= bits:  # exp(-x) < 2**-bits
        return 0, 1
    halvings = math.floor(x).bit_length() + 1
    scale = bits + 64
    low, high = _exp_series(x / 2**halvings, scale)
    for _ in range(halvings):
        low, high = low * low >> scale, -(-(high * high) >> scale)
    one = 1 << (scale + bits)
    return one // high, -(-one // low)


def _exp_series(y: Fraction, scale: int) -> tuple[int, int]:
    """Return bounds on 2**scale * exp(y) for 0 < y < 1/2."""
    floor, ceil = math.floor(y * 2**scale), math.ceil(y * 2**scale)
    low = high = below = above = 1 << scale
    order = 0
    while above > 1:
        order += 1
        below = below * floor // (order << scale)
        above = -(-above * ceil // (order << scale))
        low, high = low + below, high + above
    return low, high + 1  # the last term is at most 1, and the terms at least halve: tail <= 1


class _Uniform:
    """One uniform number of [0, 1), known to as many bits as have been asked for."""

    def __init__(self, word: int, words: Words) -> None:
        self._digits, self._bits, self._words = word, 64, words

    def below_exp(self, x: Fraction) -> bool:
        """Tell whether the number is below exp(-x), drawing further bits until it is certain."""
        while True:
            low, high = exp_bounds(x, self._bits)
            if self._digits < low:
                return True
            if self._digits >= high:
                return False
            self._digits = self._digits << 64 | int(_fresh(self._words, 1)[0])
            self._bits += 64


@dataclass(frozen=True)
class _Law:
    """The discrete Gaussian's scale and what the proposal derives from it."""

    sigma: float
    width: int  # t = floor(sigma) + 1
    centre: float  # sigma^2 / t, rounded once

    @classmethod
    def of(cls, sigma: float) -> _Law:
        """Check the scale."""
        sigma = _validate.real("sigma", sigma)
        if not MIN_SIGMA <= sigma <= MAX_SIGMA:
            raise ParameterError(
                f"sigma must lie between 2**-10 and 2**46 grid units, got {sigma!r}. "
                "Choose the grid step with Grid.choose(bound, sigma, dimension)."
            )
        width = math.floor(sigma) + 1
        return cls(sigma, width, float(Fraction(sigma) ** 2 / width))

    def acceptance(self) -> float:
        """Return the share of proposals that become draws, within some 10%."""
        mass = max(1.0, math.sqrt(2 * math.pi) * self.sigma)  # of exp(-k^2 / (2 sigma^2))
        return 0.316 / self.width * mass * math.exp(-self.centre / (2 * self.width))

    def exponent(self, offset: int, level: int) -> Fraction:
        """Return x of the module docstring as an exact rational."""
        square, t = Fraction(self.sigma) ** 2, self.width
        return Fraction(offset, t) + (offset + t * level - square / t) ** 2 / (2 * square)


def _round(words: Words, law: _Law, size: int) -> NDArray[np.int64]:
    """Make ``size`` proposals and return those accepted, in order."""
    first, second, third = _fresh(words, 3 * size).reshape(3, size)
    half, t = first >> np.uint64(1), np.uint64(law.width)
    offset = (half - half // t * t).view(np.int64)
    complete = half < np.uint64(2**63 - 2**63 % law.width)
    level = _levels(words, second)
    accepted = _flips(words, law, offset, level, third)
    magnitude: NDArray[np.int64] = offset + law.width * level
    negative = (first & np.uint64(1)).view(np.int64)
    accepted &= complete
    accepted &= (magnitude != 0) | (negative == 0)
    magnitude *= 1 - 2 * negative
    return magnitude[accepted]


def _levels(words: Words, uniform: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return V: how many of exp(-1), exp(-2), ... lie above each uniform number."""
    thresholds = _thresholds()
    place = np.searchsorted(thresholds, uniform, side="right")
    level: NDArray[np.int64] = _LEVELS - place.astype(np.int64)
    for i in np.flatnonzero(thresholds[place - 1] == uniform):
        number = _Uniform(int(uniform[i]), words)
        while number.below_exp(Fraction(int(level[i]) + 1)):
            level[i] += 1
    return level


def _flips(
    words: Words,
    law: _Law,
    offset: NDArray[np.int64],
    level: NDArray[np.int64],
    uniform: NDArray[np.uint64],
) -> NDArray[np.bool_]:
    """Tell for each proposal whether its uniform number is below exp(-x)."""
    gap = _chances(law, offset, level) - (uniform >> np.uint64(11)).view(np.int64) * 2.0**-53
    answer: NDArray[np.bool_] = gap > 0
    for i in np.flatnonzero(np.abs(gap) <= _SLACK):
        exponent = law.exponent(int(offset[i]), int(level[i]))
        answer[i] = _Uniform(int(uniform[i]), words).below_exp(exponent)
    return answer


def _chances(law: _Law, offset: NDArray[np.int64], level: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return exp(-x) with an absolute error below 2**-46: see the proof at the top."""
    place = offset.astype(np.float64)
    z = (place + law.width * level.astype(np.float64) - law.centre) / law.sigma
    return _exp_minus(place / law.width + 0.5 * (z * z))


def _exp_minus(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return exp(-x) for x >= 0 with an absolute error below 2**-46.5, by table and Taylor."""
    x = np.minimum(x, _CAP)
    cell = (x * _CELLS).astype(np.int64)
    r = x - cell * (1 / _CELLS)
    series: NDArray[np.float64] = 1 - r * (1 - r * (1 / 2 - r * (1 / 6 - r * (1 / 24))))
    series *= _exp_table()[cell]
    return series


@lru_cache(maxsize=1)
def _exp_table() -> NDArray[np.float64]:
    """Return exp(-n / 256) for n = 0, ..., 40 * 256, from 192-bit integers."""
    one = 1 << 192
    factor, _ = exp_bounds(Fraction(1, _CELLS), 192)
    value, table = one, np.empty(_CAP * _CELLS + 1)
    for n in range(table.size):
        table[n] = value / one  # division of integers rounds once
        value = value * factor >> 192
    return table


@lru_cache(maxsize=1)
def _thresholds() -> NDArray[np.uint64]:
    """Return floor(2**64 * exp(-k)) for k = 45, ..., 1, ascending; the first is 0."""
    return np.array(
        [exp_bounds(Fraction(k), 128)[0] >> 64 for k in range(_LEVELS, 0, -1)], dtype=np.uint64
    )


def _fresh(words: Words, n: int) -> NDArray[np.uint64]:
    """Ask for n words and check what came."""
    drawn = words(n)
    if not isinstance(drawn, np.ndarray) or drawn.dtype != np.uint64 or drawn.shape != (n,):
        raise ParameterError(
            f"words({n}) must return an array of {n} uint64 words, got {type(drawn).__name__} "
            f"of shape {np.shape(drawn)}. Pass the method Stream.words."
        )
    return drawn
