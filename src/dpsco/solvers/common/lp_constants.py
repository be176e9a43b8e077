"""Constants of a loss where weights are measured in l_p and gradients in its dual."""

from __future__ import annotations

from ... import _validate
from ...data.row_norms import check_limit
from ...geometry.norms import Lp, conjugate, equivalence
from ...losses.base import Constants
from ...task import Task
from ..needs import Need
from .clips import cautious_clip, descent_clip


def row_stretch(task: Task, q: float) -> float:
    """Return sup |x|_q over rows of length 1 in the norm in which they are bounded."""
    return equivalence(task.problem.bounds.norm, Lp(q), task.columns)


def lp_constants(task: Task, p: float) -> Constants:
    """Return the constants of the loss in l_p.

    The gradient of a loss of the margin is a number times the row, so its length in any norm is
    that number times the row's. Other losses state Euclidean ones, which are larger for p <= 2.
    """
    if not task.glm:
        return task.constants
    feature = task.feature_bound * row_stretch(task, conjugate(p))
    largest = task.problem.domain.max_norm(task.n_weights, Lp(p))
    return task.problem.loss.constants(feature=feature, label=task.label_bound, radius=largest)


def gradient_clip(task: Task, clip: float | None, norm: float = 2.0) -> float:
    """Return the bound on a row's gradient in l_norm that a solver enforces by clipping.

    By default that of a descent; a ``clip`` may be as large as the loss's own bound.
    """
    stretch = row_stretch(task, norm) if task.glm else 1.0
    if clip is None:
        return descent_clip(task) * stretch
    return min(task.lipschitz * stretch, check_limit("clip", clip))


def predicted_clip(task: Task) -> float:
    """Return an l2 bound for predictions, which never grows with the budget."""
    return cautious_clip(task) * (row_stretch(task, 2.0) if task.glm else 1.0)


def likely_distance(task: Task, p: float, distance: float | None = None) -> float:
    """Return how far from the centre good weights may lie, in l_p."""
    if distance is not None:
        size = _validate.positive("distance", distance)
        return min(size, task.problem.domain.radius(task.n_weights, Lp(p)))
    if task.problem.domain.bounded:
        return task.problem.domain.radius(task.n_weights, Lp(p))
    return task.initial_distance


def _measurable(task: Task) -> str:
    norm = task.problem.bounds.norm
    if isinstance(norm, Lp) and (task.glm or norm.p == 2.0):
        return ""
    if isinstance(norm, Lp):
        return (
            f"of {task.problem.loss.name}, which is no loss of one margin, it knows Euclidean "
            "constants only: give Bounds(feature_norm=..., norm=L2)"
        )
    return "it measures rows in an l_p norm: give Bounds(feature_norm=..., norm=L2 or LINF)"


MEASURABLE = Need("rows in l_p", _measurable)
