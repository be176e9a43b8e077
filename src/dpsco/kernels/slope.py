"""The derivative of a scalar loss, in the form that the compiled loops call."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import ParameterError

Floats = NDArray[np.float64]
SlopeFunction = Callable[[Any, Any, Any, Any], Any]

BISECTIONS = 48
"""Halvings of [-bound, bound]: the slope of an envelope is found within bound / 2**48."""


@dataclass(frozen=True)
class Slope:
    """phi'(margin, label), as a function that NumPy runs on arrays and Numba on numbers.

    ``function(margin, label, first, second)`` may use arithmetic, comparisons (a truth value counts
    as 0 or 1) and NumPy's elementwise functions, but neither branches nor ``numpy.where``, which
    only one of the two understands. It belongs to a module, not to a closure, so that its machine
    code is kept on disk; the loss's parameters reach it as ``first`` and ``second``.

    With ``smoothing = beta > 0`` the loops use the derivative of the Moreau envelope
    ``min_u phi(u) + beta / 2 (u - margin)^2`` instead, found by bisection in
    ``[margin - bound / beta, margin + bound / beta]`` from a function whose values lie in
    ``[-bound, bound]``. A loss that knows this envelope in closed form has no need of it.
    """

    function: SlopeFunction
    first: float = 0.0
    second: float = 0.0
    smoothing: float = 0.0
    bound: float = float("inf")

    def __call__(self, margin: Any, label: Any) -> Any:
        """Evaluate ``function`` itself, without smoothing, on arrays or numbers."""
        return self.function(margin, label, self.first, self.second)


@dataclass(frozen=True)
class TwoArgument:
    """A user's phi'(margin, label) in the four-argument form; see `two_argument`."""

    function: Callable[[Any, Any], Any]
    arrays: bool = field(compare=False)  # whether the function understands arrays

    def __call__(self, margin: Any, label: Any, first: Any, second: Any) -> Any:
        """Evaluate on arrays or numbers; the parameters belong to the catalogue's losses."""
        if np.ndim(margin) == 0 and np.ndim(label) == 0:
            return self._single(margin, label)
        if self.arrays:
            result = self.function(margin, label)
        else:
            result = np.vectorize(self._single, otypes=[float])(margin, label)
        return np.broadcast_to(np.asarray(result, dtype=float), np.broadcast(margin, label).shape)

    def _single(self, margin: Any, label: Any) -> Any:
        """Evaluate on numbers; NaN where Python refuses them, so that no row can raise an error."""
        try:
            return self.function(margin, label)
        except (ArithmeticError, ValueError):
            return math.nan


def two_argument(function: Callable[[Any, Any], Any]) -> SlopeFunction:
    """Return a user's ``phi'(margin, label)`` in the form of `Slope.function`.

    The function may be written for numbers only, with branches: whether it understands arrays is
    tried on a few fixed numbers. The compiled loops recognise the result and compile the function
    itself; where that fails, it runs as Python.

    >>> slope = Slope(two_argument(lambda margin, label: margin - label if margin > label else 0.0))
    >>> print(slope(np.array([0.0, 3.0]), np.array([1.0, 1.0])))
    [0. 2.]
    """
    parameters: Any = function
    if isinstance(parameters, TwoArgument):
        return parameters
    if not callable(parameters):
        raise ParameterError(f"A slope must be a function of (margin, label), got {parameters!r}.")
    return TwoArgument(parameters, _understands_arrays(parameters))


def _understands_arrays(function: Callable[[Any, Any], Any]) -> bool:
    """Compare the function on an array of fixed numbers with itself on each of them."""
    margins = np.array([-1.75, -0.5, 0.25, 0.75, 2.5, 0.0])
    labels = np.array([1.0, -1.0, 1.0, -1.0, -1.0, 1.0])
    try:
        with np.errstate(all="ignore"):
            result = np.broadcast_to(np.asarray(function(margins, labels), dtype=float), (6,))
            single = [
                float(function(float(m), float(y))) for m, y in zip(margins, labels, strict=True)
            ]
    except Exception:  # whatever a user's function does with an array, numbers still work
        return False
    return bool(np.allclose(result, single, rtol=1e-12, atol=0.0, equal_nan=True))


def check_slope(slope: Slope) -> None:
    """Refuse a smoothing that the bisection cannot find."""
    if not (0.0 <= slope.smoothing < math.inf):
        raise ParameterError(f"smoothing must be zero or positive, got {slope.smoothing!r}.")
    if slope.smoothing > 0.0 and not (0.0 < slope.bound < math.inf):
        raise ParameterError(
            "Smoothing by bisection needs a loss with a finite slope bound, got bound = "
            f"{slope.bound!r}. Give Slope(bound=...), or smooth a Lipschitz loss (Huber's instead "
            "of the squared one)."
        )


def smoothed_slope(slope: Slope, margins: ArrayLike, labels: ArrayLike) -> Floats:
    """Return the slopes that the loops use: of phi, or of its envelope if there is smoothing.

    The envelope's slope g solves ``phi'(margin - g / beta) = g``, whose left side falls as g grows:
    `BISECTIONS` halvings of [-bound, bound] find it. Searching for g rather than for the point
    ``margin - g / beta`` loses no digits where the margin is large. A margin that is not finite
    has no slope: NaN; nor has one near which the function has none.

    Reference:
        Bassily, Guzman, Menart 2021, Algorithm 3, with the corrected comparison.
    """
    check_slope(slope)
    margin, label = np.asarray(margins, dtype=float), np.asarray(labels, dtype=float)
    if slope.smoothing == 0.0:
        return np.asarray(slope(margin, label), dtype=float)
    with np.errstate(all="ignore"):
        result = 0.0 * margin  # NaN stays where the margin is not finite
        half_width = slope.bound
        for _ in range(BISECTIONS):
            half_width = 0.5 * half_width
            value = np.asarray(slope(margin - result / slope.smoothing, label), dtype=float)
            result = result + half_width * (2.0 * (value > result) - 1.0)
            result = np.where(np.isnan(value), np.nan, result)
    return np.asarray(result, dtype=float)


def coefficient(
    function: Any,
    first: float,
    second: float,
    smoothing: float,
    bound: float,
    margin: float,
    label: float,
    limit: float,
) -> float:
    """Return the slope of the loss or of its envelope, cut; compiled into the loops."""
    result = 0.0 * margin
    if smoothing == 0.0:
        result = function(margin, label, first, second)
    else:
        half_width = bound
        for _ in range(BISECTIONS):
            half_width = 0.5 * half_width
            value = function(margin - result / smoothing, label, first, second)
            result = result + half_width if value > result else result - half_width
            if value != value:
                result = np.nan
    result = result if abs(result) < np.inf else 0.0
    return min(max(result, -limit), limit)
