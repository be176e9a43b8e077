"""Sequential steps over sparse rows in O(non-zeros) each, by scaling and averaging lazily.

The iterate is ``w = centre + z`` with ``z = scale * v + shift * centre``. Shrinking by r makes
``z = r z + (r - 1) centre``, projecting onto the ball multiplies z, and a gradient changes v at the
row's columns only. The distance ``||z||`` follows from ``||v||^2`` and ``<v, centre>``, each kept
up to date by a recurrence. The sum of the iterates is ``spent * v - debt`` and a multiple of the
centre, where ``spent`` sums the scales so far and ``debt`` collects ``spent`` times each change.

Every so often, when the scale leaves its range, when the shift is long beside the ball's radius,
and before a change that dwarfs v (whose debt would swallow the digits of the sum), all this is
settled: w and the sum are written out and the recurrences start afresh. Rounding therefore cannot
drift, and settling costs a few numbers a step on average.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import compiler
from .slope import Floats, coefficient

if TYPE_CHECKING:
    from .sgd import Job

RANGE = 256.0  # of the scale, either way; the sum loses about as many units in the last place
SHORTEST, LONGEST = 64, 8192  # steps between two settlements
FAR = 1e4  # squared shifts beyond so many squared radii would cancel in the distance
SHARE = 8  # of a settlement's d numbers, that one step pays for


def interval(d: int) -> int:
    """Return the steps between two settlements."""
    return min(max(d // SHARE, SHORTEST), LONGEST)


def reference(job: Job) -> tuple[Floats, Floats]:
    """Take the steps of a job over sparse rows with NumPy."""
    rows: Any = job.rows
    state = _State(job.weights, job.centre, rows.width)
    for row in range(job.count):
        step = job.step(row)
        entries = slice(rows.offsets[row], rows.offsets[row + 1])
        columns, x = rows.columns[entries], rows.values[entries].astype(np.float64)
        along, across = float(x @ state.v[columns]), float(x @ state.centre[columns])
        g = job.cut(state.scale * along + (1.0 + state.shift) * across, row)
        length = float(x @ x)
        state.shrink(1.0 - step * job.ridge)
        if state.due(step * g * step * g * length, job.radius):
            state.settle()
            along = float(x @ state.v[columns])
        by = -step * g / state.scale
        state.move(columns, by * x)
        state.square += by * (2.0 * along + by * length)
        state.cross += by * across
        if job.radius < math.inf:
            state.project(job.radius)
    state.settle()
    return job.centred(state.v), state.total


class _State:
    """The numbers of the module's text, for the NumPy reference."""

    def __init__(self, weights: Floats, centre: Floats, d: int) -> None:
        self.centre = centre if len(centre) else np.zeros(d)
        self.v = weights - self.centre
        self.debt, self.total = np.zeros(d), np.zeros(d)
        self.centre_square = float(self.centre @ self.centre)
        self._begin()

    def _begin(self) -> None:
        self.scale, self.shift, self.spent, self.shifts = 1.0, 0.0, 0.0, 0.0
        self.steps_left = interval(len(self.v))
        self.square, self.cross = float(self.v @ self.v), float(self.v @ self.centre)

    def shrink(self, factor: float) -> None:
        """Count the iterate, then multiply it."""
        self.spent += self.scale
        self.shifts += 1.0 + self.shift
        self.scale *= factor
        self.shift = factor * self.shift + (factor - 1.0)
        self.steps_left -= 1

    def due(self, jump: float, radius: float) -> bool:
        """Return whether to settle before a change of the iterate of this squared length."""
        if self.steps_left == 0 or not (1.0 / RANGE < abs(self.scale) < RANGE):
            return True
        if self.shift * self.shift * self.centre_square > FAR * radius * radius:
            return True
        least = RANGE * self.scale
        return not jump <= least * least * self.square

    def settle(self) -> None:
        """Write out the iterate (less the centre) and the sum, and begin afresh."""
        self.total += self.spent * self.v - self.debt + self.shifts * self.centre
        self.v = self.scale * self.v + self.shift * self.centre
        self.debt[:] = 0.0
        self._begin()

    def move(self, columns: NDArray[np.int32], change: Floats) -> None:
        """Add the change to v at these columns."""
        self.v[columns] += change
        self.debt[columns] += self.spent * change

    def project(self, radius: float) -> None:
        """Bring the iterate back into the ball."""
        square = self.scale * self.scale * self.square
        square += self.shift * (2.0 * self.scale * self.cross + self.shift * self.centre_square)
        if not square <= radius * radius:  # a square that is no number: to the centre
            factor = radius / math.sqrt(square) if square < math.inf else 0.0
            self.scale *= factor
            self.shift *= factor


# -- compiled --------------------------------------------------------------------------------------


def _lazy_pass(
    function: Any,
    first: float,
    second: float,
    smoothing: float,
    bound: float,
    values: Any,
    columns: NDArray[np.int32],
    offsets: NDArray[np.int64],
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
    state = np.zeros((weights.size, 2))  # v and debt, side by side in memory
    numbers = np.zeros(6)  # scale, shift, spent, shifts, square, cross
    centre_square = begin(weights, centre, state, numbers)
    left = interval(weights.size)
    for i in range(offsets.size - 1):
        along, across, length = products(values, columns, offsets[i], offsets[i + 1], state, centre)
        margin = numbers[0] * along + (1.0 + numbers[1]) * across
        limit = limits[i] if limits.size > 0 else np.inf
        g = coefficient(function, first, second, smoothing, bound, margin, labels[i], limit)
        step = steps[i if steps.size > 1 else 0]
        shrink(numbers, 1.0 - step * ridge)
        left -= 1
        if left == 0 or due(numbers, step * g * step * g * length, radius, centre_square):
            settle(total, centre, state, numbers)
            left = interval(weights.size)
            along, _, _ = products(values, columns, offsets[i], offsets[i + 1], state, centre)
        by = -step * g / numbers[0]
        for k in range(offsets[i], offsets[i + 1]):
            j = np.uint32(columns[k])
            change = by * values[k]
            state[j, 0] += change
            state[j, 1] += numbers[2] * change
        numbers[4] += by * (2.0 * along + by * length)
        numbers[5] += by * across
        project(numbers, radius, centre_square)
    settle(total, centre, state, numbers)
    for j in range(weights.size):
        weights[j] = state[j, 0] + (centre[j] if centre.size > 0 else 0.0)


def begin(weights: Floats, centre: Floats, state: Floats, numbers: Floats) -> float:
    """Fill the state and return the square of the centre's norm; compiled into the loop."""
    centre_square = 0.0
    for j in range(weights.size):
        c = centre[j] if centre.size > 0 else 0.0
        state[j, 0] = weights[j] - c
        centre_square += c * c
    restart(centre, state, numbers)
    return centre_square


def restart(centre: Floats, state: Floats, numbers: Floats) -> None:
    """Set the scalars to those of a state just written out; compiled into the loop."""
    square = 0.0
    cross = 0.0
    for j in range(state.shape[0]):
        v = state[j, 0]
        square += v * v
        if centre.size > 0:
            cross += v * centre[j]
    numbers[0] = 1.0
    numbers[1] = 0.0
    numbers[2] = 0.0
    numbers[3] = 0.0
    numbers[4] = square
    numbers[5] = cross


def settle(total: Floats, centre: Floats, state: Floats, numbers: Floats) -> None:
    """Write out iterate and sum, and begin afresh; compiled into the loop."""
    for j in range(total.size):
        c = centre[j] if centre.size > 0 else 0.0
        total[j] += numbers[2] * state[j, 0] - state[j, 1] + numbers[3] * c
        state[j, 0] = numbers[0] * state[j, 0] + numbers[1] * c
        state[j, 1] = 0.0
    restart(centre, state, numbers)


def shrink(numbers: Floats, factor: float) -> None:
    """Count the iterate, then multiply it; compiled into the loop."""
    numbers[2] += numbers[0]
    numbers[3] += 1.0 + numbers[1]
    numbers[0] *= factor
    numbers[1] = factor * numbers[1] + (factor - 1.0)


def due(numbers: Floats, jump: float, radius: float, centre_square: float) -> bool:
    """Return whether to settle before a change of this squared length; compiled into the loop."""
    if not (1.0 / RANGE < abs(numbers[0]) < RANGE):
        return True
    if numbers[1] * numbers[1] * centre_square > FAR * radius * radius:
        return True
    least = RANGE * numbers[0]
    return not jump <= least * least * numbers[4]


def project(numbers: Floats, radius: float, centre_square: float) -> None:
    """Bring the iterate back into the ball; compiled into the loop."""
    scale, shift = numbers[0], numbers[1]
    square = scale * scale * numbers[4]
    square += shift * (2.0 * scale * numbers[5] + shift * centre_square)
    if not square <= radius * radius:  # a square that is no number: to the centre
        factor = radius / math.sqrt(square) if square < np.inf else 0.0
        numbers[0] *= factor
        numbers[1] *= factor


def products(
    values: Any,
    columns: NDArray[np.int32],
    start: int,
    stop: int,
    state: Floats,
    centre: Floats,
) -> tuple[float, float, float]:
    """Return <x, v>, <x, centre> and ||x||^2 of one row; compiled into the loop."""
    along = 0.0
    across = 0.0
    length = 0.0
    for k in range(start, stop):
        j = np.uint32(columns[k])  # unsigned: no test for a negative index
        x = np.float64(values[k])
        along += x * state[j, 0]
        length += x * x
        if centre.size > 0:
            across += x * centre[j]
    return along, across, length


@lru_cache(maxsize=2)
def lazy_loop(dtype: str) -> compiler.Loop:
    """Return the loop for one type of values."""
    return compiler.compile_loop(
        _lazy_pass,
        f"none(slope, float, float, float, float, {dtype} values, columns, integers, floats, "
        "floats, floats, float, float, floats, out, out)",
        flags=compiler.CONTRACT,
        helpers=(coefficient, interval, begin, restart, settle, shrink, due, project, products),
    )
