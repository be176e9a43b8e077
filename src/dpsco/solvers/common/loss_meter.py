"""How far the loss has fallen, read off the noisy gradients that descent releases anyway.

Along a path the loss falls by the sum of the moves times the gradients between their ends. A noisy
gradient and the moves before it have independent noise, so that sum tells the loss of the rows at
any round to within a known error, whatever the number of weights. At zero weights the gradient of
the intercepts tells how common the classes are, and so the loss of the best constant. All of it
follows from released numbers: it costs nothing.

Where the loss falls far below that of the constant, most rows are told apart. Their gradients are
short, and a small clip and long weights win; elsewhere such a clip cuts rare classes first, and
loses. So the clip of a descent that follows the loss is a multiple of the part of it that is left,
from a whole down to a quarter, and steps lengthen by as much as the clip shrinks: noise moves the
weights as far as before. Each round is released in units of its clip, so the plan's releases are
public.

Rows that are told apart also curve little, so the loss that is left bounds the curvature, and with
it how long steps may be. A row that loses l gives its own class the chance q = e^-l. Its curvature
is at most 4 q (1 - q) of the loss's largest if q is above a half, and the largest otherwise. That
is a concave function of l, so the mean over rows is at most its value at the mean loss.

Chosen on half of a park of real tables and on made-up ones, see docs/park.md.
"""

from __future__ import annotations

import math

import numpy as np

from ...data.row_norms import check_limit
from ...errors import AssumptionError
from ...task import Floats, Task
from . import refits

LEVEL = 2.5  # the clip over the usual one, for each part of the constant's loss that is left
CAUTION = 0.5  # standard deviations by which that part is taken to be larger
LEAST = 0.25  # of the usual clip
LEAST_CURVATURE = 1e-3  # of the largest: so that steps stay finite
LEAST_SIGNAL = 150.0  # z from which on it pays: below, the loss is read too badly
SHARES = (0.05, 1 / 20)  # of the classes: how sure they are to be, and in which part of the rounds


def follows_loss(task: Task) -> bool:
    """Return whether a clip that follows the loss was measured to pay: also if it hardly moves."""
    if _obstacle(task) or task.columns > refits.MOST_COLUMNS:
        return False
    try:
        return task.signal >= LEAST_SIGNAL
    except AssumptionError:  # a pure budget buys no Gaussian noise
        return False


def check_follow(task: Task, clip: float) -> None:
    """Refuse a clip that is to follow a loss which cannot be read off.

    Raises:
        AssumptionError: the loss is another one, weights are bounded, or there is no intercept.
        ParameterError: the clip may become too small for any query.
    """
    if why := _obstacle(task):
        raise AssumptionError(f"the loss cannot be followed: {why}.", hint="Leave out follow.")
    check_limit("clip", LEAST * clip)


class LossMeter:
    """The loss of the rows along a descent from zero weights.

    Args:
        task: of the descent.
        noise: standard deviation of each coordinate of the mean gradient, in units of the clip.
        clip: the usual one.
        rounds: of the descent.
    """

    def __init__(self, task: Task, noise: float, clip: float, rounds: int) -> None:
        column, classes = task.problem.bounds.intercept, getattr(task.problem.loss, "classes", 2)
        assert column is not None
        self._noise, self._weights = noise, task.n_weights
        self._start = task.constants.value_at_zero
        self._outputs = classes if classes > 2 else 1
        wrong = math.sqrt(1.0 - 1.0 / classes) if classes > 2 else 0.5  # a row's slope at the start
        cut = min(1.0, clip / (task.feature_bound * wrong))
        self._share = 1.0 / (column * cut)  # of a class, for each unit of its intercept's gradient
        sure, part = SHARES
        error = noise * clip * self._share
        most = max(2.0, part * rounds)
        self._counted = math.ceil(min(min(max(error / sure, 1.0), most) ** 2, most))
        self._error = error / math.sqrt(self._counted)
        self.reading = np.zeros(2 + self._outputs)  # what fell, its variance, sums of slopes

    def arrive(self, round: int, gradient: Floats, move: Floats, clip: float) -> None:
        """Take the gradient at the end of a move, which was clipped so."""
        self.reading[0] += 0.5 * float(gradient @ move)
        self.reading[1] += (self._noise * clip) ** 2 * float(move @ move)
        if round < self._counted:
            self.reading[2:] += gradient[-self._outputs :] / self._counted

    def leave(self, gradient: Floats, move: Floats, clip: float, gain: float) -> None:
        """Take the gradient at the start of a move, which contains ``gain`` times its noise."""
        shared = gain * self._weights * (self._noise * clip) ** 2
        self.reading[0] += 0.5 * (float(gradient @ move) + shared)

    def part(self, round: int) -> float:
        """Return the part of the usual clip that the loss after so many gradients calls for."""
        if round < self._counted:
            return 1.0
        part = LEVEL * self._left() / max(self._constant(), 1e-3)
        return min(max(part, LEAST), 1.0) if math.isfinite(part) else 1.0

    def curvature(self) -> float:
        """Return the part of the loss's largest curvature that is left at most: 1 at the start."""
        left = self._left()
        if not left < math.log(2.0):
            return 1.0
        return max(4.0 * math.exp(-left) * -math.expm1(-left), LEAST_CURVATURE)

    def _left(self) -> float:
        """Return the loss that is left, a little on the safe side."""
        fallen, variance = self.reading[:2]
        return float(max(self._start + fallen, 0.0) + CAUTION * math.sqrt(variance))

    def _constant(self) -> float:
        """Return the loss of the best constant, if the classes are less even than they look."""
        slopes = [float(slope) * self._share for slope in self.reading[2:]]
        shares = [1.0 / len(slopes) - slope for slope in slopes]
        if self._outputs == 1:
            shares = [0.5 - slopes[0], 0.5 + slopes[0]]
        sure = [max(share - self._error, 1e-6) for share in shares]
        return min(self._start, sum(each * math.log(sum(sure) / each) for each in sure) / sum(sure))


def _obstacle(task: Task) -> str:
    """Return why the loss cannot be read off; nothing if it can."""
    if task.problem.bounds.intercept is None:
        return "there is no intercept"
    return refits.obstacle(task)
