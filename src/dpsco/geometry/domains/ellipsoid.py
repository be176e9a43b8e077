"""Ellipsoids, by semi-axes or by a positive definite matrix."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from ...errors import ParameterError
from ..norms import L1, L2, Lp, Norm, WeightedLp
from .base import (
    LARGEST,
    ROUNDING,
    Domain,
    Floats,
    checked_norm,
    difference,
    finite_vector,
    floats,
    quiet,
    rounding_of,
)
from .extents import ball_extent, box_extent, unit

_STEPS = 200  # far above the number ever needed (about 10)


_THINNEST = 1e-100  # shortest over longest axis: squares of the quotient are still numbers


class Ellipsoid(Domain):
    """{w: (w - centre)^T matrix^-1 (w - centre) <= 1}.

    Args:
        axes: the semi-axes, positive, along the coordinates; or
        matrix: a symmetric positive definite matrix, whose eigenvalues are the squares of the
            semi-axes.
        centre: the origin by default.

    >>> Ellipsoid([2.0, 1.0]).project([5.0, 0.0]).tolist()
    [2.0, 0.0]
    """

    _axes: Floats
    _frame: Floats | None  # columns are the directions of the axes; None means the coordinates
    _middle: Floats

    def __init__(
        self,
        axes: ArrayLike | None = None,
        *,
        matrix: ArrayLike | None = None,
        centre: ArrayLike | None = None,
    ) -> None:
        if (axes is None) == (matrix is None):
            raise ParameterError("Ellipsoid needs axes or matrix, one of the two.")
        if matrix is None:
            lengths, frame, form = _checked_axes(axes), None, None
        else:
            lengths, frame, form = _decomposed(matrix)
        if np.min(lengths) < _THINNEST * np.max(lengths):
            raise ParameterError(
                f"{'axes' if form is None else 'matrix'} must not differ by more than a factor "
                f"{1 / _THINNEST:g} in length: drop the shortest ones from the problem."
            )
        d = len(lengths)
        middle = np.zeros(d) if centre is None else finite_vector("centre", centre)
        if len(middle) != d:
            raise ParameterError(
                f"centre must have {d} coordinates, got {len(middle)}.", parameter="centre"
            )
        shown = {"axes": lengths} if form is None else {"matrix": form}
        self._record(d, **shown, centre=None if centre is None else middle)
        self._derive(_axes=lengths, _frame=frame, _middle=middle)

    def centre(self, d: int) -> Floats:
        """Return the centre."""
        self._size(d)
        return np.array(self._middle)

    def radius(self, d: int, norm: Norm = L2) -> float:
        """Return the largest distance from the centre.

        Exact in l_2 (the longest axis) and l_inf and, for axes along the coordinates, in l_p,
        weighted and group norms. Else the least of three upper bounds: through l_2; through the
        largest values of the coordinates; in l_1, the root of the sum of |matrix|.
        """
        self._size(d)
        if checked_norm(norm) == L2:
            return float(np.max(self._axes))
        if self._frame is None:
            return ball_extent(WeightedLp(2.0, tuple(1.0 / self._axes)), norm, d)
        halves = L2(self._frame * self._axes)  # largest |w_j - centre_j|
        bounds = [float(np.max(self._axes)) * ball_extent(L2, norm, d), box_extent(halves, norm)]
        if norm == L1:
            matrix = (self._frame * self._axes**2) @ self._frame.T
            bounds.append(math.sqrt(float(np.sum(np.abs(matrix)))))
        return min(bounds)

    def max_norm(self, d: int, norm: Norm = L2) -> float:
        """Return the centre's norm plus the radius: an upper bound, exact for a zero centre."""
        return float(checked_norm(norm)(self._middle)) + self.radius(d, norm)

    def _along(self, rows: Floats) -> Floats:
        """Return coordinates along the axes."""
        return rows if self._frame is None else np.asarray(rows @ self._frame)

    def _back(self, rows: Floats) -> Floats:
        """Return coordinates of the space."""
        return rows if self._frame is None else np.asarray(rows @ self._frame.T)

    def _project(self, rows: Floats) -> Floats:
        result = np.array(rows)
        outside = ~(self.minkowski(rows) <= 1.0 + self._tolerance())
        if np.any(outside):
            offsets = difference(rows[outside], self._middle)
            top = np.max(np.abs(offsets), axis=-1, keepdims=True)
            sphere = _sphere_points(self._along(offsets / top), top, self._axes)
            result[outside] = self._middle + self._back(self._axes * sphere)
        return result

    def _tolerance(self) -> float:
        """Return how far above 1 rounding may lift the gauge of a member."""
        shortest = float(np.min(self._axes))
        longest = shortest if self._frame is None else float(np.max(self._axes))
        place = (
            L2(self._middle / self._axes) if self._frame is None else L2(self._middle) / shortest
        )
        return rounding_of(len(self._axes)) * (2.0 + 2.0 * longest / shortest + float(place))

    def _minimise(self, rows: Floats) -> Floats:
        d = rows.shape[-1]
        steered = np.where(np.any(rows != 0.0, axis=-1, keepdims=True), rows, unit(0, d))
        steered = steered / np.max(np.abs(steered), axis=-1, keepdims=True)
        pulled = self._along(steered) * (self._axes / np.max(self._axes))
        sphere = Lp(2.0).steepest(pulled)
        return np.asarray(self._middle - self._back(self._axes * sphere))

    def _support(self, rows: Floats) -> Floats:
        return np.asarray(rows @ self._middle + L2(self._along(rows) * self._axes))

    def _gauge(self, rows: Floats) -> Floats:
        offset = difference(rows, self._middle)
        top = np.max(np.abs(offset), axis=-1, keepdims=True)
        scaled = offset / np.where(top > 0.0, top, 1.0)
        return np.asarray(L2(self._along(scaled) / self._axes) * top[:, 0])


def _sphere_points(along: Floats, top: Floats, axes: Floats) -> Floats:
    """Return rows s of length one with axes * s nearest to top * along, which is outside.

    With lengths in units of the longest axis and z = top * along, s_i = a_i z_i / (a_i^2 + l) for
    the l > 0 that gives s length one. Newton's method on 1 / ||s||, which is nearly a line in l,
    inside a bracket: each |s_i| <= 1, and ||s|| <= ||a z|| / l.
    """
    longest = float(np.max(axes))
    a = axes / longest
    with quiet():
        scale = np.minimum(top / longest, LARGEST * 1e-20)  # farther away nothing changes
    pulled = a * along * scale
    low = np.maximum(0.0, np.max(np.abs(pulled) - a * a, axis=-1))
    high = np.maximum(low, L2(pulled))
    multiplier = low
    for _ in range(_STEPS):
        below = a * a + multiplier[:, None]
        s = pulled / below
        size = L2(s)
        low, high = np.where(size > 1.0, multiplier, low), np.where(size > 1.0, high, multiplier)
        slope = np.sum(s * s / below, axis=-1)
        following = multiplier + (size - 1.0) * size * size / slope
        usable = (low <= following) & (following <= high)
        following = np.where(usable, following, 0.5 * low + 0.5 * high)
        done = np.abs(following - multiplier) <= 2.0 * ROUNDING * multiplier
        if np.all(done):
            break
        multiplier = np.where(done, multiplier, following)
    return np.asarray(s / L2(s)[:, None])


def _checked_axes(axes: ArrayLike | None) -> Floats:
    lengths = finite_vector("axes", [] if axes is None else axes)
    if not np.all(lengths > 0.0):
        raise ParameterError(
            "axes must be positive, or the ellipsoid has no interior point; "
            f"axis {int(np.argmin(lengths))} is not.",
            parameter="axes",
        )
    return lengths


def _decomposed(matrix: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """Return semi-axes, their directions as columns, and the matrix itself."""
    form = floats("matrix", matrix)
    if form.ndim != 2 or form.shape[0] != form.shape[1] or form.size == 0:
        raise ParameterError(f"matrix must be square, got shape {form.shape}.", parameter="matrix")
    if not np.all(np.isfinite(form)):
        raise ParameterError("matrix must be finite.", parameter="matrix")
    if np.max(np.abs(form - form.T)) > 1e-12 * np.max(np.abs(form)):
        raise ParameterError(
            "matrix must be symmetric. Pass (M + M.T) / 2 if it nearly is.", parameter="matrix"
        )
    squares, frame = np.linalg.eigh(form)
    if not squares[0] > len(squares) * ROUNDING * squares[-1]:
        raise ParameterError(
            "matrix must be positive definite, or the ellipsoid has no interior point; "
            f"its eigenvalues run from {squares[0]:.3g} to {squares[-1]:.3g}.",
            parameter="matrix",
        )
    form.flags.writeable = False
    return np.sqrt(squares), frame, form
