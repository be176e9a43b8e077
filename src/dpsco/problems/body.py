"""The mean point problem over a symmetric body: the lower bound of su2023.

Su, Zhao, Wang 2023, Thms 5 and 11, after Kattis, Nikolov 2017: the loss is ||w - x||^2/2, rows and
weights lie in a body C within the unit ball, and no private answer has less excess than
G_C^2 ln(1/delta)/(ln(2 d)^4 eps^2 n^2) or 1/n, up to constants, G_C the Gaussian width of C. The
theorem shows that hard rows exist and names none. Here they are vertices of C whose signs lean one
way or the other, by as much as makes zero weights as good as the bound without its logarithm.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import _validate
from ..data.bounds import Bounds
from ..geometry.domains import L1Ball, L2Ball
from ..geometry.width import lp_ball_width
from ..losses import SquaredDistance
from ..privacy.budget import ApproxDP
from ..problem import Problem
from .hard import HardProblem

Floats = NDArray[np.float64]

ROOM = 1.0 + 1e-9  # a declared bound is not to cut what it bounds


def mean_point(
    n: int, d: int, budget: ApproxDP, *, p: int = 1, signs: ArrayLike | None = None
) -> HardProblem:
    """Return the mean point problem over the l_1 or the l_2 ball of radius 1.

    A row of the l_1 ball is a unit vector or its negative, each coordinate as likely as the others;
    one of the l_2 ball has coordinates 1/sqrt(d) and -1/sqrt(d).

    Args:
        n: rows that a fit will see.
        d: weights.
        budget: of that fit.
        p: of the ball, 1 or 2.
        signs: d numbers 1 or -1, for the theorem drawn at random; by default they alternate.

    >>> hard = mean_point(10_000, 40, ApproxDP(1.0, 1e-6))
    >>> round(hard.trivial / lower_bound(10_000, 40, ApproxDP(1.0, 1e-6)), 6)
    1.0
    """
    size = _validate.integer("d", d)
    if p not in (1, 2):
        raise _validate.refusal("p", f"must be 1 or 2, got {_validate.shown(p)}.")
    chosen = 1.0 - 2.0 * (np.arange(size) % 2) if signs is None else np.asarray(signs, dtype=float)
    if chosen.shape != (size,) or not np.all(np.abs(chosen) == 1.0):
        raise _validate.refusal("signs", f"must be {size} numbers 1 or -1.")
    # The mean of rows with lean t has length t/sqrt(d) over the l_1 ball, t over the l_2 ball.
    long = math.sqrt(size) if p == 1 else 1.0
    lean = min(1.0, long * math.sqrt(2.0 * lower_bound(n, d, budget, p=p)))
    mean = np.asarray(chosen * (lean / (size if p == 1 else math.sqrt(size))), dtype=float)

    def of_l1(uniform: Floats) -> Floats:
        rows = np.zeros_like(uniform)
        first = uniform[:, 0] * size
        place = np.minimum(first.astype(int), size - 1)
        up = first - place < 0.5 * (1.0 + lean * chosen[place])  # what is left is uniform too
        rows[np.arange(len(rows)), place] = np.where(up, 1.0, -1.0)
        return rows

    def of_l2(uniform: Floats) -> Floats:
        up = uniform < 0.5 * (1.0 + lean * chosen)
        return np.where(up, 1.0, -1.0) / math.sqrt(size)

    def excess(weights: Floats) -> float:
        gap = weights - mean
        return 0.5 * float(gap @ gap)

    return HardProblem(
        problem=Problem(
            loss=SquaredDistance(),
            bounds=Bounds(ROOM),
            domain=L1Ball(1.0) if p == 1 else L2Ball(1.0),
        ),
        rows=of_l1 if p == 1 else of_l2,
        mean=mean,
        excess=excess,
        best=mean,
        least=0.5 * (1.0 - float(mean @ mean)),  # rows have length 1
    )


def lower_bound(n: int, d: int, budget: ApproxDP, *, p: int = 1) -> float:
    """Return half of G_C^2 ln(1/delta)/(eps n)^2, at most 1/2 (1/(2 d) for p = 1).

    The theorem's bound on the excess is that over ln(2 d)^4, up to a constant.

    >>> round(lower_bound(10_000, 40, ApproxDP(1.0, 1e-6), p=2) * 1e6, 4)
    2.7288
    """
    width = lp_ball_width(_validate.integer("d", d), float(p)).value
    root = width * math.sqrt(math.log(1.0 / budget.delta)) / (budget.epsilon * n)
    return 0.5 * min(root**2, 1.0 / d if p == 1 else 1.0)
