"""Scaled normals rounded to integers, and which of them are too close to an edge to be sure.

The loop and its NumPy twin use operations that IEEE 754 rounds correctly, in the same order: the
same bits, whichever ran. What the tolerance rests on says :mod:`dpsco.privacy.rounded_normals`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from . import compiler
from .normals import loop_is_due

Floats = NDArray[np.float64]
Flags = NDArray[np.uint8]

_NEAR, _FAR, _FARTHEST, _NEAREST = 4.0, 160.0, 5.2, 2.0**-16
_SLOPE, _INVERSE = 12.0, 4.0
_UNIT = 2.0**-53
_MARGIN = 2.0**-48  # rounding of the distance to an edge


def round_pairs(normals: Floats, scale: float, doubtful: Flags) -> None:
    """Multiply by the scale and round to integers in place; flag the pairs that are not certain.

    Args:
        normals: pairs that `normals_from_words` made, contiguous, of even length.
        scale: positive.
        doubtful: one for each pair, 1 where ``scale`` times the exact normals may round otherwise.
    """
    loop = _compiled_loop() if loop_is_due() else None
    if loop is None:
        _numpy_round_pairs(normals, scale, doubtful)
    else:
        loop(normals, scale, doubtful)


@lru_cache(maxsize=1)
def _compiled_loop() -> Callable[[Floats, float, Flags], None] | None:
    """Compile the loop, or load it from Numba's cache; None without Numba."""
    try:
        return compiler.compile_loop(_round_loop, "none(out, float, flags)", flags=())
    except ImportError:
        return None


def _round_loop(normals: Floats, scale: float, doubtful: Flags) -> None:
    """Do one pair after the other; compiled, never run as Python."""
    unit = scale * _UNIT
    for k in range(doubtful.size):
        a = normals[2 * k]
        b = normals[2 * k + 1]
        r = math.sqrt(a * a + b * b)
        error = _FAR if r > _NEAR else _SLOPE * r + _INVERSE / r
        error = error * unit + _MARGIN
        a *= scale
        b *= scale
        first = np.rint(a)
        second = np.rint(b)
        beyond = max(abs(a - first), abs(b - second))
        sure = (beyond + error < 0.5) & (r <= _FARTHEST) & (r >= _NEAREST)
        normals[2 * k] = first
        normals[2 * k + 1] = second
        doubtful[k] = 0 if sure else 1


def _numpy_round_pairs(normals: Floats, scale: float, doubtful: Flags) -> None:
    """Do the same with NumPy alone."""
    pairs = normals.reshape(-1, 2)
    squares = pairs * pairs
    r = np.sqrt(squares[:, 0] + squares[:, 1])
    with np.errstate(divide="ignore"):
        error = _INVERSE / r
    error += _SLOPE * r
    error[r > _NEAR] = _FAR
    error *= scale * _UNIT
    error += _MARGIN
    normals *= scale
    exact = normals.copy()
    np.rint(normals, out=normals)
    exact -= normals
    beyond = np.abs(exact, out=exact).reshape(-1, 2).max(axis=1)
    beyond += error
    doubtful[:] = ~((beyond < 0.5) & (r <= _FARTHEST) & (r >= _NEAREST))
