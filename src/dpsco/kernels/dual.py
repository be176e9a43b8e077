"""Coordinate ascent on the dual of a ridge-regularised loss: one exact step a row, in their order.

    minimise  1/m sum_i phi(<w, x_i>, y_i) + ridge/2 ||w - c||^2,   w = c - scale sum_i a_i x_i,

with scale = 1 / (ridge m) and one dual number a_i a row, a slope of phi at a *place* t_i. A step on
row i looks at the margin it would have without its own dual, b = <w, x_i> + a_i q, where q = scale
||x_i||^2, and solves ``a = phi'(b - a q)``: the left side rises in a and the right side falls, so
the solution lies between 0 and phi'(b), where `BISECTIONS` halvings find it. Only slopes are
needed, cut to the row's limit; so every convex loss will do, with a kink or without.

What is kept of the solution certifies it: a slope of phi at a point within ``width_i`` of the place
``t_i`` differs from ``a_i`` by at most 2^-48 of its size.

Reference:
    Shalev-Shwartz, Zhang 2013 (arXiv:1209.1873), Fig. 1, with a cyclic order.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from . import compiler
from .clipping import limits
from .rows import Rows, SparseRows
from .slope import BISECTIONS, Floats, Slope, check_slope, smoothed_slope
from .steps import Integers, checked_rows, coefficient, dense_row, kind, vector


@dataclass(frozen=True, eq=False)
class Duals:
    """The dual numbers of some rows, changed in place by every pass."""

    values: Floats  # a
    places: Floats  # t
    widths: Floats  # how near to the place a is a slope; inf before the first pass

    @classmethod
    def zeros(cls, count: int) -> Duals:
        """Return the duals before the first pass."""
        return cls(np.zeros(count), np.zeros(count), np.full(count, np.inf))


def dual_pass(
    rows: Rows,
    labels: Floats,
    slope: Slope,
    weights: Floats,
    duals: Duals,
    *,
    norms: Floats,
    clip: float,
    scale: float,
    compiled: bool | None = None,
) -> Floats:
    """Take one step a row, and return the weights after it; the duals change in place.

    Args:
        rows: dense (C order, float32 or float64) or sparse.
        labels: one for each row.
        slope: the derivative of a convex loss, perhaps smoothed.
        weights: c - scale sum_i a_i x_i; they are not changed.
        duals: of the rows.
        norms: upper bounds on the rows' norms.
        clip: bound on ``|a_i| norm_i``, enforced in exact arithmetic.
        scale: 1 / (ridge m).
        compiled: True and False choose the implementation; None decides by the job's size.
    """
    check_slope(slope)
    rows = checked_rows(rows)
    n, d = rows.shape
    labels, norms = vector("labels", labels, n), vector("norms", norms, n)
    caps, squares = limits(norms, clip), norms * norms
    w: Floats = vector("weights", weights, d).copy()
    if compiler.chosen(compiled, twin_seconds(n, slope)):
        function = compiler.scalar_function(slope.function)
        if function is not None:
            head = (function, slope.first, slope.second, slope.smoothing, slope.bound)
            tail = (labels, caps, squares, float(scale))
            state = (duals.values, duals.places, duals.widths, w)
            if isinstance(rows, SparseRows):
                body = (rows.values, rows.columns, rows.offsets)
                _sparse_loop(kind(rows))(*head, *body, *tail, *state)
            else:
                _dense_loop(kind(rows))(*head, rows, *tail, *state)
            return w
    with np.errstate(all="ignore"):
        _twin(rows, labels, slope, caps, squares, float(scale), duals, w)
    return w


def twin_seconds(steps: int, slope: Slope) -> float:
    """Return roughly how long the twin takes for so many steps."""
    return steps * BISECTIONS * (2e-6 if slope.smoothing == 0.0 else BISECTIONS * 2e-6)


def _twin(
    rows: Rows,
    labels: Floats,
    slope: Slope,
    caps: Floats,
    squares: Floats,
    scale: float,
    duals: Duals,
    w: Floats,
) -> None:
    """Take the steps with NumPy."""

    def cut(margin: float, i: int) -> float:
        found = float(smoothed_slope(slope, np.float64(margin), labels[i]))
        found = found if abs(found) < np.inf else 0.0
        return min(max(found, -float(caps[i])), float(caps[i]))

    for i in range(len(labels)):
        x, q = dense_row(rows, i), scale * float(squares[i])
        base = float(x @ w) + float(duals.values[i]) * q
        inner, outer = 0.0, cut(base, i)
        at_end = cut(base - outer * q, i)
        if at_end >= outer if outer > 0.0 else at_end <= outer:
            inner = outer
        for _ in range(BISECTIONS if inner != outer else 0):
            middle = 0.5 * (inner + outer)
            value = cut(base - middle * q, i)
            further = value >= middle if outer > 0.0 else value <= middle
            inner, outer = (middle, outer) if further else (inner, middle)
        w -= (inner - float(duals.values[i])) * scale * x
        duals.values[i], duals.places[i] = inner, base - inner * q
        duals.widths[i] = abs(outer - inner) * q


# -- the compiled loops ----------------------------------------------------------------------------


def root(
    function: Any,
    first: float,
    second: float,
    smoothing: float,
    bound: float,
    base: float,
    label: float,
    limit: float,
    q: float,
) -> tuple[float, float]:
    """Return the dual and how far the bracket reaches beyond it; compiled into the loops."""
    inner = 0.0
    outer = coefficient(function, first, second, smoothing, bound, base, label, limit)
    at = base - outer * q
    value = coefficient(function, first, second, smoothing, bound, at, label, limit)
    if (value >= outer) if outer > 0.0 else (value <= outer):
        return outer, 0.0
    for _ in range(BISECTIONS):
        middle = 0.5 * (inner + outer)
        at = base - middle * q
        value = coefficient(function, first, second, smoothing, bound, at, label, limit)
        if (value >= middle) if outer > 0.0 else (value <= middle):
            inner = middle
        else:
            outer = middle
    return inner, abs(outer - inner)


def dense_ascent(
    function: Any,
    first: float,
    second: float,
    smoothing: float,
    bound: float,
    rows: Any,
    labels: Floats,
    caps: Floats,
    squares: Floats,
    scale: float,
    values: Floats,
    places: Floats,
    widths: Floats,
    weights: Floats,
) -> None:
    """Take all steps in place; compiled, never run as Python."""
    d = weights.size
    w = weights.copy()  # an array of its own cannot overlap others
    for i in range(rows.shape[0]):
        margin = 0.0
        for j in range(d):
            margin += w[j] * rows[i, j]
        q = scale * squares[i]
        old = values[i]
        base = margin + old * q
        new, room = root(function, first, second, smoothing, bound, base, labels[i], caps[i], q)
        by = (new - old) * scale
        if by != 0.0:
            for j in range(d):
                w[j] -= by * rows[i, j]
        values[i], places[i], widths[i] = new, base - new * q, room * q
    for j in range(d):
        weights[j] = w[j]


def sparse_ascent(
    function: Any,
    first: float,
    second: float,
    smoothing: float,
    bound: float,
    entries: Any,
    columns: Any,
    offsets: Integers,
    labels: Floats,
    caps: Floats,
    squares: Floats,
    scale: float,
    values: Floats,
    places: Floats,
    widths: Floats,
    weights: Floats,
) -> None:
    """Do the same over sparse rows; compiled, never run as Python."""
    for i in range(labels.size):
        margin = 0.0
        for k in range(offsets[i], offsets[i + 1]):
            margin += weights[columns[k]] * entries[k]
        q = scale * squares[i]
        old = values[i]
        base = margin + old * q
        new, room = root(function, first, second, smoothing, bound, base, labels[i], caps[i], q)
        by = (new - old) * scale
        if by != 0.0:
            for k in range(offsets[i], offsets[i + 1]):
                weights[columns[k]] -= by * entries[k]
        values[i], places[i], widths[i] = new, base - new * q, room * q


@lru_cache(maxsize=2)
def _dense_loop(dtype: str) -> compiler.Loop:
    """Return the loop for one type of rows."""
    return compiler.compile_loop(
        dense_ascent,
        f"none(slope, float, float, float, float, {dtype} rows, floats, floats, floats, float, "
        "out, out, out, out)",
        flags=compiler.REASSOCIATE,
        helpers=(coefficient, root),
    )


@lru_cache(maxsize=2)
def _sparse_loop(dtype: str) -> compiler.Loop:
    """Return the loop over sparse rows for one type of values."""
    return compiler.compile_loop(
        sparse_ascent,
        f"none(slope, float, float, float, float, {dtype} values, columns, integers, floats, "
        "floats, floats, float, out, out, out, out)",
        flags=compiler.CONTRACT,
        helpers=(coefficient, root),
    )
