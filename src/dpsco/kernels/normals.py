"""Standard normals from random words, by a Box-Muller map without library calls; their rounding.

Two consecutive words (w, v) give two independent normals. With 64-bit words

    u = (w + 1) / 2**64 in (0, 1],    r = sqrt(-2 log u),
    x = the low 62 bits of v as a signed number, scaled to [-1, 1] (eighths of a turn),
    normals = +-r cos(x pi / 4), +-r sin(x pi / 4), exchanged or not: sign and exchange are the
    two top bits of v.

The radius uses all 64 bits, so that |z| can reach sqrt(128 log 2) = 9.4193 (a true normal lies
beyond with probability 5e-21) and u is never zero. An angle is a wedge of 90 degrees (2 bits) and
a place in it (62 bits): no reduction, no branch. Once u is rounded to a float, a normal is off the
exact map by at most 2e-15. (This is no cure for attacks on the last bits of floating-point noise.)

There are two implementations, a loop for Numba and a plain NumPy reference. Both use only
operations that IEEE 754 rounds correctly (+, -, *, /, sqrt, integer to float), in the same order,
and neither may fuse or reorder them: the normals are the same **bit for bit**, whichever ran, on
every machine. A seeded stream is therefore reproducible across installations with and without
Numba.

`round_pairs` scales normals and rounds them to integers, and says which are too close to an edge to
be sure; what its tolerance rests on says :mod:`dpsco.privacy.rounded_normals`.

Importing Numba takes as long as making ten million normals with the reference, so the reference
serves the first `COMPILE_THRESHOLD` normals of a process (fewer in small requests) and the loop
those after. ``DPSCO_COMPILED=0`` in the environment keeps the reference for good,
``DPSCO_COMPILED=1`` takes the loop from the first normal on.
"""

from __future__ import annotations

import math
import os
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from .._validate import refusal
from ..errors import ParameterError
from . import compiler

Words = NDArray[np.uint64]
Floats = NDArray[np.float64]
Flags = NDArray[np.uint8]

COMPILE_THRESHOLD = 1 << 22
"""How many normals a process makes with the reference before it loads the compiled loop."""

_CALL = 4096  # what one call of the reference costs beyond its normals, in normals
_served = 0  # what the reference has cost this process so far, in normals

# Chebyshev interpolants with 7 nodes, computed with 40 digits and rounded; lowest power first.
# log m = 2 z + z y LOG(y),  z = (m - 1) / (m + 1), y = z**2 <= 0.0295;  error of log m 2e-18
_LOG = (
    0.666666666666667,
    0.39999999999899505,
    0.28571428625975487,
    0.2222221113479508,
    0.18182889125261723,
    0.15331721600556042,
    0.14616449685043406,
)
# sin(pi x / 4) = x SIN(y),  y = x**2 <= 1;  error 3e-18
_SIN = (
    0.7853981633974483,
    -0.08074551218828054,
    0.002490394570188844,
    -3.657620415891387e-05,
    3.133616225433416e-07,
    -1.7571500746983935e-09,
    6.877360573166326e-12,
)
# cos(pi x / 4) = 1 - y COS(y),  y = x**2 <= 1;  error 2e-19
_COS = (
    0.30842513753404244,
    -0.015854344243815488,
    0.0003259918869271996,
    -3.590860447448612e-06,
    2.4611366238309744e-08,
    -1.1500679700940496e-10,
    3.863156948832656e-13,
)
_LOG_2 = 0.6931471805599453

# u = m 2**e with sqrt(1/2) <= m < sqrt(2), read off the bits of the float u.
_UNIT = 2.0**-53
_MARGIN = 2.0**-48  # rounding of the distance to an edge
_ROOT_HALF = np.uint64(0x3FE6A09E667F3BCD)  # bits of sqrt(1/2)
_TO_ONE = np.uint64(0x3FF0000000000000 - 0x3FE6A09E667F3BCD)  # from there to the bits of 1.0
_FRACTION = np.uint64((1 << 52) - 1)
_FRACTION_BITS = np.uint64(52)
_BIAS = 1023.0
_SIGN = np.uint64(1 << 63)
_ONE = np.uint64(1)
_TWO = np.uint64(2)
_REFERENCE_BLOCK = (
    4096  # pairs at a time: the reference's temporaries stay in the second-level cache
)


def normals_from_words(words: Words, out: Floats) -> None:
    """Fill ``out`` with the standard normals that belong to ``words``.

    Words 2k and 2k + 1 give normals 2k and 2k + 1, so a longer request begins with the values of
    a shorter one. Uniform independent words give independent standard normals.

    Args:
        words: uint64, one-dimensional, contiguous, of even length.
        out: float64, one-dimensional, contiguous, of the same length.

    Raises:
        ParameterError: a wrong type, layout or length.

    Example:
        >>> words = np.array([2**63 - 1, 0], dtype=np.uint64)  # u = 1/2, angle 0
        >>> normals = np.empty(2)
        >>> normals_from_words(words, normals)
        >>> print(normals.round(12))
        [1.17741002 0.        ]

    Reference:
        Box, Muller 1958, A note on the generation of random normal deviates.
    """
    global _served
    _check(words, out)
    loop = _loop_if_due(_pair_loop, "none(words, out)")
    if loop is None:
        _served += out.size + _CALL
        _numpy_normals(words, out)
    else:
        loop(words, out)


def _check(words: Words, out: Floats) -> None:
    """Refuse arrays that the loops would misread."""
    for name, array, kind in (("words", words, np.uint64), ("out", out, np.float64)):
        if array.dtype != kind or array.ndim != 1 or not array.flags.c_contiguous:
            raise refusal(
                name,
                f"must be a contiguous one-dimensional array of {np.dtype(kind).name}, "
                f"got {array.ndim} dimensions of {array.dtype}.",
            )
    if words.size != out.size or words.size % 2:
        raise ParameterError(
            f"words and out must have one even length, got {words.size} and {out.size}."
        )


def _loop_if_due(function: compiler.Loop, signature: str) -> compiler.Loop | None:
    """Return a compiled loop, or None until this process has made so many normals that it pays."""
    wish = os.environ.get("DPSCO_COMPILED")
    due = wish != "0" and (wish == "1" or _served >= COMPILE_THRESHOLD)
    return _compiled_loop(function, signature) if due else None


@lru_cache(maxsize=2)
def _compiled_loop(function: compiler.Loop, signature: str) -> compiler.Loop | None:
    """Import Numba and compile a loop, or load it from Numba's cache; None without Numba."""
    try:  # no fast-math: the reference's bits would be lost
        return compiler.compile_loop(function, signature, flags=())
    except ImportError:
        return None


def _pair_loop(words: Words, out: Floats) -> None:
    """Map every pair of words; compiled, never run as Python. Change `_numpy_normals` with it."""
    log, sin, cos = _LOG, _SIN, _COS
    for k in range(words.size // 2):
        w = words[2 * k]
        v = words[2 * k + 1]

        u = (np.float64(w) + 1.0) * 2.0**-64
        bits = np.float64(u).view(np.uint64) + _TO_ONE
        m = np.uint64((bits & _FRACTION) + _ROOT_HALF).view(np.float64)
        exponent = np.float64(np.int32(np.uint64(bits >> _FRACTION_BITS))) - _BIAS
        z = (m - 1.0) / (m + 1.0)
        y = z * z
        p = ((log[6] * y + log[5]) * y + log[4]) * y + log[3]
        p = ((p * y + log[2]) * y + log[1]) * y + log[0]
        r = math.sqrt(2.0 * (0.0 - (exponent * _LOG_2 + (z * (y * p) + (z + z)))))

        x = (np.float64(np.int64(np.uint64(v << _TWO))) + 0.5) * 2.0**-63
        y = x * x
        p = ((cos[6] * y + cos[5]) * y + cos[4]) * y + cos[3]
        p = ((p * y + cos[2]) * y + cos[1]) * y + cos[0]
        c = 1.0 - p * y
        p = ((sin[6] * y + sin[5]) * y + sin[4]) * y + sin[3]
        p = ((p * y + sin[2]) * y + sin[1]) * y + sin[0]
        s = p * x

        r = -r if np.int64(v) < 0 else r
        exchange = np.int64(np.uint64(v << _ONE)) < 0
        out[2 * k] = r * (s if exchange else c)
        out[2 * k + 1] = r * (c if exchange else s)


def _numpy_normals(words: Words, out: Floats) -> None:
    """Do the same with NumPy alone, operation for operation."""
    pairs, results = words.reshape(-1, 2), out.reshape(-1, 2)
    for start in range(0, len(pairs), _REFERENCE_BLOCK):
        block = slice(start, start + _REFERENCE_BLOCK)
        v = np.ascontiguousarray(pairs[block, 1])
        r = _radii(pairs[block, 0])
        r.view(np.uint64)[:] |= v & _SIGN
        c, s = _wedge(v)
        differ = c.view(np.int64) ^ s.view(np.int64)
        differ &= (v << _ONE).view(np.int64) >> 63  # all bits where the two are exchanged, or none
        c.view(np.int64)[:] ^= differ
        s.view(np.int64)[:] ^= differ
        np.multiply(r, c, out=results[block, 0])
        np.multiply(r, s, out=results[block, 1])


def _radii(w: Words) -> Floats:
    """Return sqrt(-2 log((w + 1) / 2**64))."""
    u = w.astype(np.float64)
    u += 1.0
    u *= 2.0**-64
    bits = u.view(np.uint64)
    bits += _TO_ONE
    exponent = (bits >> _FRACTION_BITS).astype(np.float64)
    exponent -= _BIAS
    bits &= _FRACTION
    bits += _ROOT_HALF  # u now holds m
    z = u - 1.0
    u += 1.0
    z /= u
    y = z * z
    log = _horner(_LOG, y)
    log *= y
    log *= z
    z += z
    log += z
    exponent *= _LOG_2
    log += exponent
    np.subtract(0.0, log, out=log)
    log *= 2.0
    return np.sqrt(log, out=log)


def _wedge(v: Words) -> tuple[Floats, Floats]:
    """Return cosine and sine of the angle in (-pi/4, pi/4) that the low 62 bits of v give."""
    x = (v << _TWO).view(np.int64).astype(np.float64)
    x += 0.5
    x *= 2.0**-63
    y = x * x
    c = _horner(_COS, y)
    c *= y
    np.subtract(1.0, c, out=c)
    s = _horner(_SIN, y)
    s *= x
    return c, s


def _horner(coefficients: tuple[float, ...], y: Floats) -> Floats:
    """Evaluate a polynomial, lowest power first, from the top down."""
    p = y * coefficients[-1]
    for coefficient in coefficients[-2:0:-1]:
        p += coefficient
        p *= y
    p += coefficients[0]
    return p


def round_pairs(normals: Floats, scale: float, doubtful: Flags) -> None:
    """Multiply by the scale and round to integers in place; flag the pairs that are not certain.

    Args:
        normals: pairs that `normals_from_words` made, contiguous, of even length.
        scale: positive.
        doubtful: one for each pair, 1 where ``scale`` times the exact normals may round otherwise.
    """
    loop = _loop_if_due(_round_loop, "none(out, float, flags)")
    if loop is None:
        _numpy_round_pairs(normals, scale, doubtful)
    else:
        loop(normals, scale, doubtful)


def _round_loop(normals: Floats, scale: float, doubtful: Flags) -> None:
    """Do one pair after the other; compiled, never run as Python. Change the reference with it."""
    unit = scale * _UNIT
    for k in range(doubtful.size):
        a = normals[2 * k]
        b = normals[2 * k + 1]
        square = a * a + b * b
        error = 4.5 * square + 16.0
        error = 160.0 if square > 16.0 else error
        error = 22.0 if square < 2.0**-2 else error
        error = 70.0 if square < 2.0**-4 else error
        error = 1100.0 if square < 2.0**-8 else error
        error = 3e5 if square < 2.0**-16 else error
        error = np.inf if square > 27.0 else error
        error = np.inf if square < 2.0**-32 else error
        a *= scale
        b *= scale
        first = np.rint(a)
        second = np.rint(b)
        normals[2 * k] = first
        normals[2 * k + 1] = second
        beyond = max(abs(a - first), abs(b - second))
        doubtful[k] = 0 if beyond + (error * unit + _MARGIN) < 0.5 else 1


def _numpy_round_pairs(normals: Floats, scale: float, doubtful: Flags) -> None:
    """Do the same with NumPy alone."""
    pairs = normals.reshape(-1, 2)
    squares = pairs * pairs
    square = squares[:, 0] + squares[:, 1]
    error = 4.5 * square
    error += 16.0
    for where, value in (
        (square > 16.0, 160.0),
        (square < 2.0**-2, 22.0),
        (square < 2.0**-4, 70.0),
        (square < 2.0**-8, 1100.0),
        (square < 2.0**-16, 3e5),
        (square > 27.0, np.inf),
        (square < 2.0**-32, np.inf),
    ):
        np.putmask(error, where, value)
    error *= scale * _UNIT
    error += _MARGIN
    normals *= scale
    beyond = normals.copy()
    np.rint(normals, out=normals)
    beyond -= normals
    np.abs(beyond, out=beyond)
    error += np.maximum(beyond[::2], beyond[1::2])
    np.logical_not(error < 0.5, out=doubtful.view(np.bool_))
