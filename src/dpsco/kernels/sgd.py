"""Sequential projected gradient steps over rows, with the sum of the iterates.

    w_{t+1} = project((1 - step_t ridge) w_t - step_t c_t x_t),   t = 1..T,

with c_t the slope of the loss at <w_t, x_t>, cut to the row's limit, and the projection onto a
Euclidean ball. One call is one pass. Dense rows cost O(d) a step. Sparse rows cost O(non-zeros):
the iterate is held as ``centre + scale * v + shift * centre``, so that shrinking and projecting
change two numbers (`sparse`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from . import compiler, sparse
from .rows import Rows, SparseRows
from .slope import Floats, Slope
from .steps import Integers, Job, dense_loop, kind


def sgd_pass(
    rows: Rows,
    labels: Floats,
    slope: Slope,
    weights: Floats,
    steps: float | Floats,
    *,
    norms: Floats | None = None,
    clip: float = math.inf,
    order: Integers | None = None,
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
        order: which row each step reads (repeats allowed); all in their order if absent.
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
    job = Job(rows, labels, slope, weights, steps, norms, clip, order, ridge, radius, centre)
    if compiler.use_compiled(job.reference_seconds()):
        function = compiler.scalar_function(slope.function)
        if function is not None:
            return _run_compiled(job, function)
    with np.errstate(all="ignore"):  # a warning could tell something of the rows
        return sparse.reference(job) if isinstance(job.rows, SparseRows) else job.dense_reference()


def _run_compiled(job: Job, function: Any) -> tuple[Floats, Floats]:
    """Take the steps with the compiled loop."""
    last, total = job.weights.copy(), np.zeros(job.d)
    if job.count == 0:
        return last, total
    slope, rows = job.slope, job.rows
    head = (function, slope.first, slope.second, slope.smoothing, slope.bound)
    tail = (job.labels, job.limits, job.order, job.steps)
    ball = (job.ridge, job.radius, job.centre, last, total)
    if not isinstance(rows, SparseRows):
        dense_loop(kind(rows))(*head, rows, *tail, *ball)
        return last, total
    body = (rows.values, rows.columns, rows.offsets)
    sparse.lazy_loop(kind(rows))(*head, *body, *tail, *ball)
    return last, total
