"""The derivative of a scalar loss, in the form that the compiled loops call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

SlopeFunction = Callable[[Any, Any, Any, Any], Any]


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
