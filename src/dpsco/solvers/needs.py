"""What a theorem asks of a problem, as named needs that can say why they are not met.

A need looks at the public task only. Refusals, listings and recommendations read the same words.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from ..data.vertices import VertexSet
from ..errors import AssumptionError, ParameterError
from ..geometry.norms import L2, Lp, equivalence
from ..losses.penalties import L2Penalty, NoPenalty
from ..privacy.budget import GDP, Adjacency, PureDP
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
    if not isinstance(bounds.norm, Lp):
        return "it measures rows in the l2 norm: give Bounds(feature_norm=..., norm=L2)"
    most = bounds.feature_norm * equivalence(bounds.norm, L2, task.d)
    return (
        f"it measures rows in the l2 norm: give Bounds(feature_norm={most:.6g}, norm=L2), which "
        "holds all of these (sparse rows are shorter)"
    )


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


def _minimiser(task: Task) -> str:
    if math.isfinite(task.radius):
        return ""
    return (
        "it moves towards points of least <gradient, w>, and there are none over "
        f"{task.problem.domain!r}: give a bounded domain, such as domains.L1Ball(radius)"
    )


def _vertices(task: Task) -> str:
    if not math.isfinite(task.radius):
        return _minimiser(task)
    domain = task.problem.domain
    try:
        VertexSet(domain, task.n_weights).count  # noqa: B018  # it lists them, or says why not
    except AssumptionError:
        return (
            f"it selects among vertices, and {domain!r} has none: give domains.L1Ball(radius), "
            "domains.Simplex() or domains.Polytope(vertices)"
        )
    except ParameterError as problem:
        return f"it selects among vertices, and {str(problem).rstrip('.')}"
    return ""


def _lp_rows(task: Task) -> str:
    if isinstance(task.problem.bounds.norm, Lp):
        return ""
    return "it measures rows in an l_p norm: give Bounds(feature_norm=..., norm=LINF), say, or L2"


def _selection(task: Task) -> str:
    if not isinstance(task.budget, GDP):
        return ""
    return "its selections cannot be paid from a GDP budget: give ApproxDP, PureDP or ZCDP"


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
MINIMISER = Need("bounded domain, for linear minimisers", _minimiser)
VERTICES = Need("vertices", _vertices)
LP_ROWS = Need("rows in an l_p norm", _lp_rows)
SELECTION = Need("budget of selections: not GDP", _selection)
GAUSSIAN = Need("budget with a delta", _gaussian)


def at_least(rows: int) -> Need:
    """Return the need for so many rows."""

    def unmet(task: Task) -> str:
        return "" if task.n >= rows else f"it needs at least {rows} rows, and there are {task.n}"

    return Need(f"n >= {rows}", unmet)
