"""Gamma numbers, of which noise shaped like a ball is made. Computed in floats."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..randomness import Stream


def gamma(stream: Stream, shape: float, count: int) -> NDArray[np.float64]:
    """Return Gamma(shape, 1) numbers by Marsaglia and Tsang's exact rejection (2000)."""
    if shape < 1.0:
        boost = stream.uniforms(count) ** (1.0 / shape)
        return np.asarray(gamma(stream, shape + 1.0, count) * boost)
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    numbers = np.empty(0)
    while len(numbers) < count:
        batch = 2 * (count - len(numbers)) + 16
        z = stream.normals(batch)
        v = (1.0 + c * z) ** 3
        positive = v > 0
        log_v = np.log(np.where(positive, v, 1.0))
        accepted = np.log(stream.uniforms(batch)) < 0.5 * z * z + d * (1.0 - v + log_v)
        numbers = np.concatenate([numbers, d * v[positive & accepted]])
    return numbers[:count]
