"""Coefficients that keep a row's contribution within its bound, in exact arithmetic.

A row x with ``||x|| <= norm`` contributes ``c x``. Here ``|c|`` is at most

    limit = (clip / norm) (1 - 2**-52),

computed with two roundings, each of relative size u = 2**-53 at most, so that ``limit * norm`` is
at most ``clip (1 + u)**2 (1 - 2 u) < clip``: exactly, not only up to rounding. Where the quotient
is subnormal this reasoning fails, and the limit is 0. A slope that is not finite (weights that
overflow) has the coefficient 0: a rule for the row alone, as privacy needs it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._validate import real
from ..errors import ParameterError
from . import compiler

Floats = NDArray[np.float64]

BELOW_ONE = 1.0 - 2.0**-52
TINY = 2.0**-1021  # a limit of this size or more has met no subnormal number on its way


def checked_clip(clip: Any) -> float:
    """Return a bound on a row's contribution, zero or positive; inf for none."""
    bound = real("clip", clip)
    if bound < 0.0:
        raise ParameterError(f"clip must be zero or positive, got {clip!r}.")
    return bound


def limits(norms: Floats, clip: float) -> Floats:
    """Return the largest coefficient of each row; inf for a row of norm 0."""
    with np.errstate(all="ignore"):
        cut = np.divide(clip, norms)
        cut *= BELOW_ONE
        cut[~(cut >= TINY)] = 0.0
        return cut


def coefficients(slopes: Floats, norms: Floats, clip: float, *, compiled: bool = False) -> Floats:
    """Return the slopes cut to their limits, and 0 for those that are not finite."""
    if compiled:
        cut = np.empty(len(slopes))
        _compiled()(slopes, norms, float(clip), cut)
        return cut
    bounds = limits(norms, clip)
    result = np.minimum(slopes, bounds)
    np.maximum(result, np.negative(bounds, out=bounds), out=result)
    result[~np.isfinite(slopes)] = 0.0
    return result


def _cut(slopes: Floats, norms: Floats, clip: float, out: Floats) -> None:
    """Do the same in one pass; compiled, never run as Python."""
    for i in range(out.size):
        slope = slopes[i]
        limit = clip / norms[i] * BELOW_ONE
        limit = limit if limit >= TINY else 0.0
        cut = slope if slope < limit else limit
        cut = cut if cut > -limit else -limit
        out[i] = cut if abs(slope) < np.inf else 0.0


@lru_cache(maxsize=1)
def _compiled() -> compiler.Loop:
    # A reciprocal instead of the quotient, or another order, would break the bound.
    return compiler.compile_loop(_cut, "none(floats, floats, float, out)", flags=())
