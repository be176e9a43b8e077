"""Every number that leaves is a multiple of a public power of two, and its noise is drawn exactly.

Floating-point noise added to a floating-point sum tells neighbours apart by its last bits: which
floats can occur depends on the sum (Mironov 2012; Haney et al. 2022, arXiv:2207.13793). Here a sum
is rounded to an integer number of steps, an integer noise is added in integers, and the result is
multiplied by the step, which is exact. What can occur is the same for every table: all integers.

Theorem. Let a and a' be the sums of neighbours, |a - a'|_2 <= D, in d coordinates, and let the step
h satisfy h sqrt(d) <= SLACK B for some B <= D. Then the release

    h (rint(a/h) + floor(Z sigma/h + 1/2)),    Z ~ N(0, I)

is a function of the Gaussian mechanism of standard deviation sigma on sums whose distance is at
most (1 + SLACK) D. Every bound that holds for the latter holds for the release: exact mu, Renyi,
sampled, shuffled, correlated.

Proof. k = rint(a/h) is an integer vector, and adding an integer commutes with rounding down:
k + floor(Z sigma/h + 1/2) = floor((h k + sigma Z)/h + 1/2), a function of h k + sigma Z, the
Gaussian mechanism on h k. Rounding moves each coordinate by h/2 at most, so |h k - h k'| <= D +
2 sqrt(d) h/2 <= D + SLACK B <= (1 + SLACK) D. []

So the noise being an integer costs nothing: `rounded_normals` draws floor(Z sigma/h + 1/2)
with exactly that law. `accounting.sensitivity` allows for SLACK, once, where it computes distances;
the step comes from the bound that the release states and from the number of its coordinates, both
public. Integers are kept as float64. The noise is below 2^53 steps, hence exact, and so is k (a
rounded float); their sum is rounded once beyond 2^53, which is a function of the exact sum: after
the noise, hence allowed.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..errors import ParameterError
from .rounded_normals import CHUNK, MAX_SCALE, Words, rounded_normals

__all__ = [
    "SLACK",
    "TILT_SHARE",
    "gaussian_steps",
    "in_steps",
    "lattice_step",
    "on_lattice",
    "with_gaussian",
    "with_rounded",
]

Array = NDArray[np.float64]

SLACK = 2.0**-20
"""By how much, relative to the bound, the lattice may move two neighbouring sums apart."""
TILT_SHARE = 2.0**-6
"""What the lattices of objective perturbation may add to the distance of its minimisers."""


def lattice_step(bound: float, size: int, *, slack: float = SLACK) -> float:
    """Return the largest power of two h with h sqrt(size) <= slack bound, but for rounding.

    >>> lattice_step(1.5, 1) == 2.0**-20, lattice_step(1.5, 5) == 2.0**-21
    (True, True)
    """
    largest = slack * bound / math.sqrt(max(size, 1)) * (1 - 2.0**-50)  # whatever was rounded
    step = math.ldexp(0.5, math.frexp(largest)[1])
    if not 2.0**-960 <= step <= 2.0**900:  # 2^62 steps are then a finite float
        raise ParameterError(f"a bound of {bound!r} for {size} numbers does not suit float64.")
    return step


def on_lattice(values: Array, step: float) -> Array:
    """Return the nearest whole numbers of steps, as floats."""
    steps = values * (1.0 / step)  # a power of two: exact
    return np.rint(steps, out=steps)


def with_gaussian(words: Words, exact: Array, sigma: float, step: float) -> Array:
    """Return the exact values on the lattice plus rounded Gaussian noise, as floats.

    Raises:
        ParameterError: the noise is more than 2**48 steps; a public matter.
    """
    scale = in_steps(sigma, step)
    flat, out = exact.reshape(-1), np.empty(exact.size)
    for start in range(0, out.size, CHUNK):  # within the cache
        part = slice(start, start + CHUNK)
        total = on_lattice(flat[part], step)
        total += rounded_normals(words, total.size, scale)
        np.multiply(total, step, out=out[part])
    return out.reshape(exact.shape)


def gaussian_steps(words: Words, size: int, sigma: float, step: float) -> Array:
    """Return N(0, sigma^2) noise rounded to whole numbers of steps."""
    return rounded_normals(words, size, in_steps(sigma, step))


def with_rounded(noise: Array, exact: Array, step: float) -> Array:
    """Return the exact values plus noise that was drawn in floats, both rounded to the lattice."""
    total = on_lattice(exact.reshape(-1), step) + on_lattice(noise.reshape(-1), step)
    return np.asarray(total * step).reshape(exact.shape)


def in_steps(sigma: float, step: float) -> float:
    """Return sigma in steps; refuse what the noise's integers have no room for."""
    scale = sigma / step
    if not 0.0 < scale <= MAX_SCALE:
        raise ParameterError(
            f"noise of standard deviation {sigma!r} is more than 2**48 steps of {step!r}: the "
            "budget of this release is too small for float64. Plan fewer releases, or more budget "
            "(for objective perturbation: a larger distance)."
        )
    return scale
