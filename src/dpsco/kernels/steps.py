"""What a pass of gradient steps is made of: checked arguments, and the loops over dense rows."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._validate import non_negative, real, refusal
from ..errors import ParameterError
from . import compiler
from .clipping import limits
from .rows import Rows, SparseRows
from .slope import BISECTIONS, Floats, Slope, check_slope, smoothed_slope

Integers = NDArray[np.int64]

LONG_ROW = 256  # entries; the processor fetches the rest of longer rows in time by itself

_NONE = np.empty(0)
_NO_ORDER = np.empty(0, dtype=np.int64)


class Job:
    """Checked arguments of one pass; absent arrays have length 0."""

    def __init__(
        self,
        rows: Rows,
        labels: Floats,
        slope: Slope,
        weights: Floats,
        steps: float | Floats,
        norms: Floats | None,
        clip: float,
        order: Integers | None,
        ridge: float,
        radius: float,
        centre: Floats | None,
    ) -> None:
        check_slope(slope)
        self.slope, self.rows = slope, checked_rows(rows)
        n, self.d = rows.shape
        self.labels = vector("labels", labels, n)
        self.weights = vector("weights", weights, self.d)
        self.order = _NO_ORDER if order is None else _checked_order(order, n)
        self.count = n if order is None else len(self.order)
        self.ordered = order is not None
        self.steps = np.atleast_1d(np.asarray(steps, dtype=np.float64))
        if np.ndim(steps) > 0:
            self.steps = vector("steps", steps, self.count)
        if not np.all(np.isfinite(self.steps)):
            raise ParameterError("steps must be finite.")
        self.limits = _limits(norms, clip, n)
        self.ridge = non_negative("ridge", ridge)
        self.radius = real("radius", radius)
        if self.radius < 0.0:
            raise ParameterError(f"radius must be zero or positive, got {radius!r}.")
        if self.radius not in (0.0, math.inf) and not 1e-100 <= self.radius <= 1e100:
            raise ParameterError(  # its square must be a number
                f"radius must lie between 1e-100 and 1e100, or be 0 or inf, got {radius!r}."
            )
        self.centre = _NONE if centre is None else vector("centre", centre, self.d)

    def reference_seconds(self) -> float:
        """Return roughly how long the NumPy reference takes."""
        step = 2e-5 if isinstance(self.rows, SparseRows) else 5e-6 + 5e-9 * self.d
        if self.radius < math.inf:
            step += 2e-6
        if self.slope.smoothing > 0.0:
            step += BISECTIONS * 5e-6
        return self.count * step

    def step(self, t: int) -> tuple[int, float]:
        """Return row and step size of step t."""
        row = int(self.order[t]) if self.ordered else t
        return row, float(self.steps[t if len(self.steps) > 1 else 0])

    def cut(self, margin: float, row: int) -> float:
        """Return the coefficient of a row at this margin."""
        if self.slope.smoothing > 0.0:
            result = float(smoothed_slope(self.slope, margin, self.labels[row]))
        else:  # NumPy's numbers overflow to inf where Python's would raise
            result = float(self.slope(np.float64(margin), self.labels[row]))
        if not math.isfinite(result):
            return 0.0
        if len(self.limits):
            limit = float(self.limits[row])
            result = min(max(result, -limit), limit)
        return result

    def centred(self, offset: Floats) -> Floats:
        """Return the point that lies at this offset from the centre."""
        return offset + self.centre if len(self.centre) else offset

    def dense_reference(self) -> tuple[Floats, Floats]:
        """Take the steps over dense rows with NumPy."""
        last, total = self.weights.copy(), np.zeros(self.d)
        centre = self.centre if len(self.centre) else np.zeros(self.d)
        rows: Any = self.rows
        for t in range(self.count):
            total += last
            row, step = self.step(t)
            x = np.asarray(rows[row], dtype=np.float64)
            change = self.cut(float(x @ last), row) * x
            change *= step
            last *= 1.0 - step * self.ridge
            last -= change
            if self.radius < math.inf:
                last -= centre
                distance = math.sqrt(float(last @ last))
                if distance > self.radius:
                    last *= self.radius / distance
                last += centre
        return last, total


# -- the compiled loop over dense rows -------------------------------------------------------------


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


def centred_step(w: Floats, shrink: float, g: float, rows: Any, i: int, centre: Floats) -> float:
    """Step, and return the squared distance from the centre; compiled into the loop."""
    square = 0.0
    for j in range(w.size):
        v = shrink * w[j] - g * rows[i, j]
        w[j] = v
        v -= centre[j]
        square += v * v
    return square


def pull(w: Floats, centre: Floats, scale: float) -> None:
    """Scale the offset from the centre; compiled into the loop."""
    for j in range(w.size):
        c = centre[j] if centre.size > 0 else 0.0
        w[j] = c + (w[j] - c) * scale


def dense_pass(
    function: Any,
    first: float,
    second: float,
    smoothing: float,
    bound: float,
    rows: Any,
    labels: Floats,
    limits: Floats,
    order: Integers,
    steps: Floats,
    ridge: float,
    radius: float,
    centre: Floats,
    weights: Floats,
    total: Floats,
) -> None:
    """Take all steps, weights and total in place; compiled, never run as Python."""
    count = order.size if order.size > 0 else rows.shape[0]
    d = weights.size
    w = weights.copy()  # arrays of its own cannot overlap others, which the vectoriser would test
    sums = np.zeros(d)
    # A word of each cache line of the next row is read early, so that the line is there in time.
    seen = np.empty(d)
    for t in range(count):
        i = order[t] if order.size > 0 else t
        margin = 0.0
        for j in range(d):
            sums[j] += w[j]
            margin += w[j] * rows[i, j]
        k = min(t + 1, count - 1)
        k = order[k] if order.size > 0 else k
        if d <= LONG_ROW:
            for j in range(0, d, 8):
                seen[j] = rows[k, j]
        limit = limits[i] if limits.size > 0 else np.inf
        g = coefficient(function, first, second, smoothing, bound, margin, labels[i], limit)
        step = steps[t if steps.size > 1 else 0]
        shrink = 1.0 - step * ridge
        g *= step
        square = 0.0
        if centre.size == 0:
            for j in range(d):
                v = shrink * w[j] - g * rows[i, j]
                w[j] = v
                square += v * v
        else:
            square = centred_step(w, shrink, g, rows, i, centre)
        if square > radius * radius:
            pull(w, centre, radius / math.sqrt(square))
    for j in range(d):
        weights[j] = w[j]
        total[j] += sums[j]


@lru_cache(maxsize=2)
def dense_loop(dtype: str) -> compiler.Loop:
    """Return the loop for one type of rows."""
    return compiler.compile_loop(
        dense_pass,
        f"none(slope, float, float, float, float, {dtype} rows, floats, floats, integers, floats, "
        "float, float, floats, out, out)",
        flags=compiler.REASSOCIATE,
        helpers=(coefficient, centred_step, pull),
    )


# -- checks ----------------------------------------------------------------------------------------


def checked_rows(rows: Rows) -> Rows:
    """Refuse rows that a compiled loop would misread; copy dense ones into C order if need be."""
    if isinstance(rows, SparseRows):
        rows.check_shape()
        return rows
    if getattr(rows, "ndim", 0) != 2 or rows.dtype.char not in "fd":
        raise ParameterError(
            "rows must be a two-dimensional array of float32 or float64 or SparseRows, got "
            f"{getattr(rows, 'ndim', 0)} dimensions of {getattr(rows, 'dtype', type(rows))}."
        )
    return np.ascontiguousarray(rows, dtype=np.dtype(rows.dtype.char))  # in the machine's order


def kind(rows: Rows) -> str:
    """Return the name of the rows' type, as the signatures have it."""
    return "float32" if rows.dtype.itemsize == 4 else "float64"


def vector(name: str, values: Any, size: int) -> Floats:
    """Return ``values`` as a contiguous vector of float64 of this length."""
    if type(values) is np.ndarray and values.dtype == np.float64 and values.shape == (size,):
        return values if values.flags.c_contiguous else values.copy()
    array = np.ascontiguousarray(values, dtype=np.float64)
    if np.ndim(values) != 1 or len(array) != size:
        raise refusal(name, f"must be a vector of length {size}, got shape {np.shape(values)}.")
    return array


def _checked_order(order: Any, n: int) -> Integers:
    """Return the order as int64; refuse rows that do not exist."""
    array = np.asarray(order)
    if array.ndim != 1 or not (np.issubdtype(array.dtype, np.integer) or array.size == 0):
        raise ParameterError(
            f"order must be a vector of integers, got {array.ndim} dimensions of {array.dtype}."
        )
    array = np.ascontiguousarray(array, dtype=np.int64)
    if array.size and (array.min() < 0 or array.max() >= n):
        raise ParameterError(f"order must name rows 0 to {n - 1}, got others.")
    return array


def _limits(norms: Any, clip: Any, n: int) -> Floats:
    """Return each row's largest coefficient; nothing without a clip."""
    bound = real("clip", clip)
    if bound < 0.0:
        raise ParameterError(f"clip must be zero or positive, got {clip!r}.")
    if bound == math.inf:
        return _NONE
    if norms is None:
        raise ParameterError(
            f"clip = {clip!r} needs norms, upper bounds on the rows' norms; pass norms=... or "
            "leave clip infinite for a loss whose slope is bounded."
        )
    return limits(vector("norms", norms, n), bound)
