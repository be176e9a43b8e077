"""What a theorem asks of a problem, as named needs that can say why they are not met.

A need looks at the public task only. Refusals, listings and recommendations read the same words.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from ..geometry.norms import Lp
from ..losses.penalties import L2Penalty, NoPenalty
from ..privacy.budget import Adjacency, PureDP
from ..task import Task
from .common.smoothing import nonsmooth

Unmet = Callable[[Task], str]


@dataclass(frozen=True)
class Need:
    """A condition of a theorem; ``unmet`` returns why it fails, or an empty text."""

    name: str
    unmet: Unmet


def _glm(task: Task) -> str:
    if task.glm:
        return ""
    return (
        f"it needs a loss of one margin, phi(<w, x>, y), because clipping keeps only those convex; "
        f"{task.problem.loss.name} is none"
    )


def _convex(task: Task) -> str:
    if task.constants.convex:
        return ""
    return f"its guarantee rests on convexity, and {task.problem.loss.name} is not convex"


def _smooth(task: Task) -> str:
    if math.isfinite(task.smoothness):
        return ""
    return (
        f"it needs a smooth loss, and the slope of {task.problem.loss.name} jumps or grows "
        "without bound (losses.Smoothed(loss, b) is smooth)"
    )


def _smoothable(task: Task) -> str:
    return "" if nonsmooth(task) else _smooth(task)


def _bounded(task: Task) -> str:
    if math.isfinite(task.radius):
        return ""
    return "it needs a bounded domain, for example domains.L2Ball(10.0)"


def _unbounded(task: Task) -> str:
    if not math.isfinite(task.radius) and not task.problem.domain.bounded:
        return ""
    return "it is for weights without constraint, domains.WholeSpace()"


def _lipschitz(task: Task) -> str:
    if math.isfinite(task.lipschitz):
        return ""
    return (
        f"it needs a bounded slope, and that of {task.problem.loss.name} is unbounded over "
        f"{task.problem.domain!r} (bound the domain, or take Huber(threshold) for Squared)"
    )


def _euclidean(task: Task) -> str:
    if task.euclidean:
        return ""
    bounds = task.problem.bounds
    limit = ""
    if isinstance(bounds.norm, Lp) and bounds.norm.p > 1.0:
        # |x|_2 <= d^(1/2 - 1/p) |x|_p for p >= 2, and |x|_2 <= |x|_p below.
        power = max(0.0, 0.5 - 1.0 / bounds.norm.p)
        longest = float(f"{bounds.feature_norm * task.d**power * (1 + 1e-3):.4g}")
        limit = f" (rows as they are bounded now are {longest:.4g} long at most; sparse ones less)"
    return f"it measures rows in the l2 norm: give Bounds(feature_norm=..., norm=L2){limit}"


def _plain(task: Task) -> str:
    if isinstance(task.problem.penalty, NoPenalty):
        return ""
    return f"it has no room for a penalty, and the problem has {task.problem.penalty!r}"


def _ridge(task: Task) -> str:
    if isinstance(task.problem.penalty, (NoPenalty, L2Penalty)):
        return ""
    return f"of all penalties it knows the ridge L2Penalty only, not {task.problem.penalty!r}"


def _fixed_n(task: Task) -> str:
    if task.budget.adjacency is not Adjacency.ADD_REMOVE:
        return ""
    return (
        "its plan is made for a public number of rows, which add_remove keeps private: use "
        "adjacency='zero_out' (same noise) or 'replace_one'"
    )


def _gaussian(task: Task) -> str:
    if not isinstance(task.budget, PureDP):
        return ""
    return "its Gaussian noise cannot be paid from a pure budget: give a delta above 0"


GLM = Need("loss of one margin", _glm)
CONVEX = Need("convex", _convex)
SMOOTH = Need("smooth", _smooth)
SMOOTHABLE = Need("smooth, or a nonsmooth loss of one margin", _smoothable)
LIPSCHITZ = Need("bounded slope", _lipschitz)
BOUNDED = Need("bounded domain", _bounded)
UNBOUNDED = Need("whole space", _unbounded)
EUCLIDEAN = Need("l2 rows", _euclidean)
PLAIN = Need("no penalty", _plain)
RIDGE = Need("no penalty but the ridge", _ridge)
FIXED_N = Need("public number of rows", _fixed_n)
GAUSSIAN = Need("budget with a delta", _gaussian)


def at_least(rows: int) -> Need:
    """Return the need for so many rows."""

    def unmet(task: Task) -> str:
        return "" if task.n >= rows else f"it needs at least {rows} rows, and there are {task.n}"

    return Need(f"n >= {rows}", unmet)
