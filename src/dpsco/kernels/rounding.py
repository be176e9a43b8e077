"""Scaled normals rounded to integers, and which of them are too close to an edge to be sure.

The loop and its NumPy reference use operations that IEEE 754 rounds correctly, in the same order:
the same bits, whichever ran. What the tolerance rests on says :mod:`dpsco.privacy.rounded_normals`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from . import compiler
from .normals import loop_is_due

Floats = NDArray[np.float64]
Flags = NDArray[np.uint8]

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
