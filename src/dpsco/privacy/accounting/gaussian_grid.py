"""Gaussian privacy curves at many points at once, rounded up; see :mod:`.gaussian` for one."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import erfcx, log_ndtr, ndtr

Array = NDArray[np.float64]

_ULP = 2.0**-52
_ROOT_TWO = math.sqrt(2.0)
_ROOT_HALF_PI = math.sqrt(math.pi / 2)
_LOG_ROOT_TWO_PI = 0.5 * math.log(2 * math.pi)
_TINY = 1e-300  # added, so that what underflows is not called impossible


def delta(epsilon: ArrayLike, mu: ArrayLike) -> Array:
    """Return delta at ``epsilon`` (any sign) of a mu-GDP Gaussian release, rounded up.

    ``Phi(-x) - e^epsilon Phi(-y)``, x = epsilon/mu - mu/2, y = x + mu, as in :mod:`.gaussian`:
    ``phi(x) (R(x) - R(y))`` with Mills' ratio R where x >= 0, which loses an ulp of R(x) only.
    """
    eps, size = np.broadcast_arrays(np.asarray(epsilon, dtype=float), np.asarray(mu, dtype=float))
    with np.errstate(all="ignore"):
        safe = np.maximum(size, _TINY)
        extent = np.abs(eps) / safe + safe / 2
        x = eps / safe - safe / 2
        y = x + safe
        right = np.maximum(x, 0.0)
        mills = _ROOT_HALF_PI * erfcx(right / _ROOT_TWO)
        gap = mills - _ROOT_HALF_PI * erfcx((right + safe) / _ROOT_TWO)
        # Relative error: rounding of x moves -x^2/2 by |x| times it, the rest is a few ulps.
        slack = np.minimum((4 * (right + 1) * extent + 4 * right * right + 64) * _ULP, 1.0)
        log_density = np.maximum(-0.5 * right * right, -745.0) - _LOG_ROOT_TWO_PI
        far = np.exp(log_density) * (gap + 8 * _ULP * mills) * (1 + 2 * slack)
        near = ndtr(-x) - np.exp(np.minimum(eps + log_ndtr(-y), 0.0)) + 64 * _ULP * (1 + extent**2)
    value = np.where(x >= 0, far, near) + _TINY
    return np.asarray(np.where(size == 0.0, 0.0, np.clip(value, 0.0, 1.0)))
