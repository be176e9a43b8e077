"""Sequential projected gradient steps over rows, with the sum of the iterates.

    w_{t+1} = project((1 - step_t ridge) w_t - step_t c_t x_t),   t = 1..T,

with c_t the slope of the loss at <w_t, x_t>, cut to the row's limit, and the projection onto a
Euclidean ball. One call is one pass. Dense rows cost O(d) a step. Sparse rows cost O(non-zeros):
the iterate is held as ``centre + scale * v + shift * centre``, so that shrinking and projecting
change two numbers (`sparse`).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from .._validate import non_negative, real
from ..errors import ParameterError
from . import compiler, sparse
from .clipping import checked_clip, limits
from .rows import Rows, SparseRows, checked_rows, kind, vector
from .slope import BISECTIONS, Floats, Slope, check_slope, coefficient, smoothed_slope

LONG_ROW = 256  # entries; the processor fetches the rest of longer rows in time by itself

_NONE = np.empty(0)


def sgd_pass(
    rows: Rows,
    labels: Floats,
    slope: Slope,
    weights: Floats,
    steps: float | Floats,
    *,
    norms: Floats | None = None,
    clip: float = math.inf,
    ridge: float = 0.0,
    radius: float = math.inf,
    centre: Floats | None = None,
) -> tuple[Floats, Floats]:
    """Return the last iterate and the sum of the iterates before each step.

    The average of the iterates *after* each step is ``(total + last - weights) / T``. A slope that
    is not finite counts as 0.

    Args:
        rows: dense (C order, float32 or float64) or sparse.
        labels: one for each row.
        slope: the loss's derivative, perhaps smoothed.
        weights: the first iterate; it is not changed.
        steps: one step size, or one for each step.
        norms: upper bounds on the rows' norms; needed if there is a clip.
        clip: bound on ``|c_t| * norm``, enforced in exact arithmetic.
        ridge: strength of ``ridge / 2 ||w||^2`` added to the loss.
        radius: of the ball that every step is projected onto.
        centre: of that ball; the origin if absent.

    Raises:
        ParameterError: shapes, types or numbers that do not fit.

    Example:
        >>> from dpsco.kernels.slope import two_argument
        >>> half_square = Slope(two_argument(lambda margin, label: margin - label))
        >>> X, y = np.eye(2), np.array([1.0, 2.0])
        >>> sgd_pass(X, y, half_square, np.zeros(2), 0.5)
        (array([0.5, 1. ]), array([0.5, 0. ]))
    """
    job = Job(rows, labels, slope, weights, steps, norms, clip, ridge, radius, centre)
    if compiler.use_compiled(job.reference_seconds()):
        function = compiler.scalar_function(slope.function)
        if function is not None:
            return _run_compiled(job, function)
    with np.errstate(all="ignore"):  # a warning could tell something of the rows
        return sparse.reference(job) if isinstance(job.rows, SparseRows) else job.dense_reference()


class Job:
    """Checked arguments of one pass; absent arrays have length 0."""

    count: int  # of steps: one for each row
    d: int

    def __init__(
        self,
        rows: Rows,
        labels: Floats,
        slope: Slope,
        weights: Floats,
        steps: float | Floats,
        norms: Floats | None,
        clip: float,
        ridge: float,
        radius: float,
        centre: Floats | None,
    ) -> None:
        check_slope(slope)
        self.slope, self.rows = slope, checked_rows(rows)
        self.count, self.d = rows.shape
        self.labels = vector("labels", labels, self.count)
        self.weights = vector("weights", weights, self.d)
        self.steps = np.atleast_1d(np.asarray(steps, dtype=np.float64))
        if np.ndim(steps) > 0:
            self.steps = vector("steps", steps, self.count)
        if not np.all(np.isfinite(self.steps)):
            raise ParameterError("steps must be finite.")
        self.limits = _limits(norms, clip, self.count)
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

    def step(self, row: int) -> float:
        """Return the size of the step on a row."""
        return float(self.steps[row if len(self.steps) > 1 else 0])

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
        for row in range(self.count):
            total += last
            step = self.step(row)
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


def _limits(norms: Any, clip: Any, n: int) -> Floats:
    """Return each row's largest coefficient; nothing without a clip."""
    bound = checked_clip(clip)
    if bound == math.inf:
        return _NONE
    if norms is None:
        raise ParameterError(
            f"clip = {clip!r} needs norms, upper bounds on the rows' norms; pass norms=... or "
            "leave clip infinite for a loss whose slope is bounded."
        )
    return limits(vector("norms", norms, n), bound)


# -- the compiled loop over dense rows -------------------------------------------------------------


def _run_compiled(job: Job, function: Any) -> tuple[Floats, Floats]:
    """Take the steps with the compiled loop."""
    last, total = job.weights.copy(), np.zeros(job.d)
    if job.count == 0:
        return last, total
    slope, rows = job.slope, job.rows
    head = (function, slope.first, slope.second, slope.smoothing, slope.bound)
    tail = (job.labels, job.limits, job.steps)
    ball = (job.ridge, job.radius, job.centre, last, total)
    if not isinstance(rows, SparseRows):
        _dense_loop(kind(rows))(*head, rows, *tail, *ball)
        return last, total
    body = (rows.values, rows.columns, rows.offsets)
    sparse.lazy_loop(kind(rows))(*head, *body, *tail, *ball)
    return last, total


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


def _dense_pass(
    function: Any,
    first: float,
    second: float,
    smoothing: float,
    bound: float,
    rows: Any,
    labels: Floats,
    limits: Floats,
    steps: Floats,
    ridge: float,
    radius: float,
    centre: Floats,
    weights: Floats,
    total: Floats,
) -> None:
    """Take all steps, weights and total in place; compiled, never run as Python."""
    count, d = rows.shape
    w = weights.copy()  # arrays of its own cannot overlap others, which the vectoriser would test
    sums = np.zeros(d)
    # A word of each cache line of the next row is read early, so that the line is there in time.
    seen = np.empty(d)
    for i in range(count):
        margin = 0.0
        for j in range(d):
            sums[j] += w[j]
            margin += w[j] * rows[i, j]
        k = min(i + 1, count - 1)
        if d <= LONG_ROW:
            for j in range(0, d, 8):
                seen[j] = rows[k, j]
        limit = limits[i] if limits.size > 0 else np.inf
        g = coefficient(function, first, second, smoothing, bound, margin, labels[i], limit)
        step = steps[i if steps.size > 1 else 0]
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
def _dense_loop(dtype: str) -> compiler.Loop:
    """Return the loop for one type of rows."""
    return compiler.compile_loop(
        _dense_pass,
        f"none(slope, float, float, float, float, {dtype} rows, floats, floats, floats, "
        "float, float, floats, out, out)",
        flags=compiler.REASSOCIATE,
        helpers=(coefficient, centred_step, pull),
    )
