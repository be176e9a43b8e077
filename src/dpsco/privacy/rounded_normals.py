"""Exact draws of a normal number rounded to an integer: floor(scale Z + 1/2), Z ~ N(0, 1).

Random words name a real number. Two words (w, v), and further words w', w'', ... and v', v'', ...
that are drawn only if they are needed, are the digits of two uniform numbers, of which Box and
Muller (1958) make two independent normals Z:

    U = (w + 0.w'w''...) / 2^64,    R = sqrt(-2 log U),
    K = the low 62 bits of v as a signed number,    X = (K + 0.v'v''...) / 2^61 in [-1, 1),
    Z = +-R cos(pi X/4) and +-R sin(pi X/4); sign and exchange are the top bits of v.

The law of Z is the normal law, to its last digit and far into its tails, and so is that of the
rounded number, if every rounding is right. `dpsco.kernels.normals` computes z near Z. Where
``scale z`` is farther from the edge between two integers than ``scale Z`` can be from it, the
integer is certain. The others (a few in a million at scale 2^30, in proportion to the scale) are
settled by `_settled` in integer arithmetic of as many digits as it takes. How many they are depends
on the noise alone.

How far scale z can be from scale Z. Unit roundoff q = 2^-53, errors to first order, r = R.
  u    The kernel reads u = fl(fl(w) + 1) / 2^64. It is off by at most 2^-52 (w + 1) + 1 in units of
       2^-64, so |log u - log U| <= 2 q + 1/w; for r <= 4, where w >= 2^52.45, that is 3.5 q, and
       for r <= 5.2, where w >= 2^44.4, 390 q.
  log  u = 2^e m, sqrt(1/2) <= m < sqrt(2), is exact and so is m - 1. z = (m - 1)/(m + 1) is off by
       2 q (relative), z^2 by 5 q, the term beyond 2 z is at most 1 % of it and off by 11 q: log m
       is off by 3.3 q. e log 2 is off by 1.4 q; the sum cancels at worst half of e log 2 (e = -1,
       m near sqrt 2), so log u is off by (1.4 * 2 + 3.3 + 1) q = 7.1 q.
  r    half of that and the root's own rounding: 4.6 q r, and 3.5 q / r from u.
  x    read from 62 bits: 2 q |x| + 2^-61. cos(pi x/4) moves by 1.2 q of that and rounds by 1.6 q;
       sin moves by 1.6 q and rounds by 2.2 q: at most 4 q either way.
  z    |z - Z| <= 4.6 q r + 3.5 q/r + 4 q r + q r; and scale z rounds by q r scale:
       |fl(scale z) - scale Z| <= scale q (10.6 r + 3.5/r)       for 2^-16 <= r <= 4,
                               <= scale q (10.6 r + 390/4)       for r <= 5.2.
The code allows for more and takes no root: with s = r^2 from the two z (whose own error is lost in
the margin), 4.5 s + 16 >= 12 r + 8 for 1/4 <= s <= 16, and 22, 70, 1100, 3e5 for s down to 2^-4,
2^-8, 2^-16, 2^-32, where 12 r + 4/r is at most 22, 67, 1025, 2.7e5; 160 for 16 < s <= 27. All else,
one pair in 700 thousand, is settled in integers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..errors import ParameterError
from ..kernels.normals import normals_from_words, round_pairs

__all__ = ["MAX_SCALE", "Words", "log_bounds", "rounded_normals"]

Words: TypeAlias = Callable[[int], NDArray[np.uint64]]

MAX_SCALE = 2.0**48  # 32 standard deviations are exact as float64
CHUNK = 1 << 14  # words at a time: arrays that stay in the cache
_WORD = 64
_GUARD = 32  # binary digits beyond those of the words
_OFF = 1 << 10  # of the last of these digits: far above what the roundings add up to


def rounded_normals(words: Words, count: int, scale: float) -> NDArray[np.float64]:
    """Return ``count`` independent integers floor(scale Z + 1/2), Z standard normal, exactly.

    They come as float64, which holds them exactly.

    Args:
        words: ``words(n)`` returns n fresh uniform uint64 words.
        count: how many; zero or more.
        scale: positive, at most `MAX_SCALE`.

    >>> from dpsco.privacy.randomness import Randomness
    >>> draws = rounded_normals(Randomness.seeded(7).child("doc").words, 4, 1000.0)
    >>> draws.dtype.name, draws.shape
    ('float64', (4,))
    """
    if not 0.0 < scale <= MAX_SCALE:
        raise ParameterError(f"scale must be above 0 and at most 2**48, got {scale!r}.")
    out = np.empty(count + count % 2)
    for start in range(0, out.size, CHUNK):
        z = out[start : start + CHUNK]
        chunk, doubtful = words(z.size), np.empty(z.size // 2, dtype=np.uint8)
        normals_from_words(chunk, z)
        round_pairs(z, scale, doubtful)
        for i in np.flatnonzero(doubtful).tolist():
            w, v = chunk[2 * i : 2 * i + 2].tolist()
            z[2 * i : 2 * i + 2] = _settled(w, v, scale, words)
    return out[:count]


def _settled(w: int, v: int, scale: float, words: Words) -> tuple[int, int]:
    """Return the two integers of a pair of words, with further words until both are certain."""
    place = v & ((1 << 62) - 1)
    place -= (place >> 61) << 62  # signed
    negative, exchanged = bool(v >> 63), bool(v >> 62 & 1)
    digits = _WORD
    while True:
        if w.bit_length() > _WORD // 2:  # else hardly anything is known yet
            cosine, sine = _rounded_pair(w, place, digits, scale, negative)
            if cosine is not None and sine is not None:
                return (sine, cosine) if exchanged else (cosine, sine)
        more = words(2)
        w, place = w << _WORD | int(more[0]), place << _WORD | int(more[1])
        digits += _WORD


def _rounded_pair(
    w: int, place: int, digits: int, scale: float, negative: bool
) -> tuple[int | None, int | None]:
    """Return floor(scale Z + 1/2) for cosine and sine; None if the digits so far do not settle it.

    U lies in [w, w + 1] 2^-digits, X in [place, place + 1] 2^(3 - digits). All in multiples of
    2^-bits; each function is off by less than ``_OFF`` of them.
    """
    bits = digits + _GUARD
    log_high, log_low = log_bounds(w, digits, bits)
    radii = (_root(log_low, bits) - 1, _root(log_high, bits) + 1)
    x = place << (bits - digits + 3)
    off = _OFF + (1 << (bits - digits + 3))  # neither moves by more than X does
    numerator, denominator = scale.as_integer_ratio()
    if negative:
        numerator = -numerator
    unit = denominator << (2 * bits)

    def rounded(turn: int) -> int | None:
        products = [numerator * r * t for r in radii for t in (turn - off, turn + off)]
        low, high = ((2 * p + unit) // (2 * unit) for p in (min(products), max(products)))
        return low if low == high else None

    angle = _quarter_pi(bits) * x >> bits
    return rounded(_series(angle, bits, 1 << bits, 0)), rounded(_series(angle, bits, angle, 1))


def log_bounds(w: int, digits: int, bits: int) -> tuple[int, int]:
    """Return bounds (high, low) on -2^bits log U over U in [w, w + 1] 2^-digits, w >= 1.

    w = 2^k m, 2/3 <= m < 4/3, -log U = (digits - k) log 2 + 2 artanh(y), y = (1 - m)/(1 + m).
    """
    length = w.bit_length()
    mantissa = w << bits >> length  # in [1/2, 1)
    if 3 * mantissa < 2 << bits:
        length, mantissa = length - 1, 2 * mantissa
    one = 1 << bits
    y = ((one - mantissa) << bits) // (one + mantissa)
    value = (digits - length) * _log_two(bits) + 2 * _artanh(y, bits)
    off = _OFF * (abs(digits - length) + 2)
    return value + off, value - off - (one // w + 1)


def _artanh(y: int, bits: int) -> int:
    """Return 2^bits artanh(y 2^-bits) for |y| <= 1/3, off by less than two for each term."""
    square, power, total, odd = y * y >> bits, abs(y), 0, 1
    while power:
        total += power // odd
        power = power * square >> bits
        odd += 2
    return total if y >= 0 else -total


@lru_cache(maxsize=16)
def _log_two(bits: int) -> int:
    """Return 2^bits log 2: 2 artanh(1/3), with 32 digits more and rounded."""
    return 2 * _artanh((1 << (bits + 32)) // 3, bits + 32) >> 32


@lru_cache(maxsize=16)
def _quarter_pi(bits: int) -> int:
    """Return 2^bits pi/4 by Machin's formula, 4 arctan(1/5) - arctan(1/239)."""
    more = bits + 32

    def arctan(inverse: int) -> int:
        power, total, odd, sign = (1 << more) // inverse, 0, 1, 1
        while power:
            total += sign * (power // odd)
            power //= inverse * inverse
            odd, sign = odd + 2, -sign
        return total

    return (4 * arctan(5) - arctan(239)) >> 32


def _root(value: int, bits: int) -> int:
    """Return 2^bits sqrt(2 value 2^-bits), rounded down; 0 for what is not positive."""
    return math.isqrt(max(2 * value, 0) << bits)


def _series(angle: int, bits: int, first: int, order: int) -> int:
    """Return the Taylor series of the cosine (order 0) or the sine (order 1) of an angle."""
    square, term, total = angle * angle >> bits, first, first
    while abs(term) > 1:
        order += 2
        term = -(term * square >> bits) // (order * (order - 1))
        total += term
    return total
