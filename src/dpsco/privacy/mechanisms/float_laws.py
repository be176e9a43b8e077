"""Laws of noise that are computed in floats, one function a law. Called by the ledger alone.

Each function takes a stream of its own, so that no two releases ever share noise. Gaussian noise
and selection, whose laws are exact, have modules of their own: :mod:`.lattice`, :mod:`.selection`.
What is drawn here is rounded to the lattice as well; that its law is that of real numbers up to
rounding is listed under ``trusted``.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..randomness import Stream

Array = NDArray[np.float64]


def generalized_gaussian(stream: Stream, dimension: int, norm: float, sigma: float) -> Array:
    """Return one vector of density proportional to exp(-|z|_r^2 / (2 sigma^2)), r = ``norm``.

    Exact: a direction from the cone measure of the l_r ball times an independent chi radius. A
    coordinate of the direction is a signed Gamma(1/r)^(1/r), drawn as a uniform number times
    Gamma(1+1/r)^(1/r); for r = infinity it is uniform.
    """
    inverse = 0.0 if math.isinf(norm) else 1.0 / norm
    signed = 2.0 * stream.uniforms(dimension) - 1.0
    direction = signed * gamma(stream, 1.0 + inverse, dimension) ** inverse
    largest = np.max(np.abs(direction))
    scaled = direction / largest  # powers of r must not underflow
    length = 1.0 if math.isinf(norm) else float(np.sum(np.abs(scaled) ** norm)) ** inverse
    radius = math.sqrt(2.0 * float(gamma(stream, dimension / 2, 1)[0]))
    return np.asarray(sigma * radius * scaled / length)


def norm_gamma(stream: Stream, size: int, scale: float) -> Array:
    """Return a vector of density ~ exp(-|z|_2/scale): uniform direction, Gamma(size) length."""
    direction = stream.normals(size)
    length = scale * float(gamma(stream, float(size), 1)[0])
    return np.asarray(direction * (length / float(np.linalg.norm(direction))))


def gamma(stream: Stream, shape: float, count: int) -> Array:
    """Return Gamma(shape, 1) numbers by Marsaglia and Tsang's exact rejection (2000)."""
    if shape < 1.0:
        boost = stream.uniforms(count) ** (1.0 / shape)
        return np.asarray(gamma(stream, shape + 1.0, count) * boost)
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    found = np.empty(0)
    while len(found) < count:
        batch = 2 * (count - len(found)) + 16
        z = stream.normals(batch)
        v = (1.0 + c * z) ** 3
        positive = v > 0
        log_v = np.log(np.where(positive, v, 1.0))
        accepted = np.log(stream.uniforms(batch)) < 0.5 * z * z + d * (1.0 - v + log_v)
        found = np.concatenate([found, d * v[positive & accepted]])
    return found[:count]
