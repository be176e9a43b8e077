"""Stability, step sizes and predicted risk of SGD whose average is released once, with noise.

Everything is a function of the public task. Lengths are Euclidean; ``clip`` bounds a row's
gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import cast

import numpy as np

from ...errors import AssumptionError
from ...losses.base import Hoelder, MarginLoss
from ...privacy.accounting import stability
from ...privacy.budget import Budget, PureDP
from ...problem import is_ball, projects_exactly
from ...task import Task
from ..common.glm_objective import SLOPE_ERROR, steepness
from ..common.passes import smoothness_beyond
from ..common.smoothing import nonsmooth

POINTS = 60  # of the grid of step sizes
RISK_POINTS = 12  # of the grid behind a prediction, which must be cheap
SMOOTH_PASSES, MOST_PASSES, MANY_STEPS = 10, 100, 200_000
GAUSS = math.sqrt(2.0 / math.pi)  # E|<z, x>| for |x| = 1 and standard normal z
_INEXACT = 1e-9  # error of an iterative projection, relative to the size of its domain


# -- stability -------------------------------------------------------------------------------------


def views(task: Task) -> tuple[Hoelder, ...]:
    """Return every pair (alpha, L) that holds for a row's gradient where the iterates are.

    The last one is the smoothness over the domain, which may be finite where the whole line has
    none; clipping keeps each of them.
    """
    smooth = smoothness(task)
    return (*task.hoelder, Hoelder(1.0, smooth)) if math.isfinite(smooth) else task.hoelder


def smoothness(task: Task) -> float:
    """Return the smoothness wherever a rounded margin may lie: a little beyond the domain."""
    if not math.isfinite(task.smoothness):
        return math.inf
    return (1 + 1e-9) * smoothness_beyond(task, task.problem.loss)


def expansion(task: Task, step: float, clip: float) -> float:
    """Return the least a that is known: a step on a shared row takes D to sqrt(D^2 + a^2)."""
    inner = inner_step(task, step)
    least = stability.expansion(0.0, 2.0 * clip, inner, clip=clip)
    for view in views(task):
        if view.alpha == 1.0 and not inner * view.constant <= 2.0:
            continue
        least = min(least, stability.expansion(view.alpha, view.constant, inner, clip=clip))
    return least


def longest_smooth(task: Task) -> float:
    """Return the longest step that expands nothing: step/(1 - step ridge) <= 2/L; 0 if none."""
    smooth = smoothness(task)
    if smooth == 0.0 and task.ridge == 0.0:
        return math.inf
    return (1 - 1e-9) / (0.5 * smooth + task.ridge)


def inner_step(task: Task, step: float) -> float:
    """Return step/(1 - step ridge): a step with a ridge is a shorter one, then a shrinking."""
    shrink = 1.0 - step * task.ridge
    if not shrink > 0.0:
        raise AssumptionError(
            f"stability of gradient steps with a ridge needs step * ridge < 1, got {step:.6g} * "
            f"{task.ridge:.6g}. Take a shorter step, or leave step=None."
        )
    return step / shrink * (1 + 2.0**-50)


def ball(task: Task, *, steps: int, step: float, clip: float) -> float:
    """Return the radius of a ball about the origin that the iterates are kept in.

    The largest norm in the domain if it is bounded. Otherwise how far ``steps`` clipped steps can
    lead, or for losses that are never negative the bound of Wang, Lei, Ying, Zhang 2022, Lemma 20:
    there the projection never acts. It holds by projection all the same, so nothing rests on the
    lemma.
    """
    if math.isfinite(task.max_norm):
        return task.max_norm
    least = steps * step * clip
    if not never_negative(task):
        return least
    return min(least, norm_bound(task, steps=steps, step=step))


def never_negative(task: Task) -> bool:
    """Whether the loss is known to be >= 0: that of counts is not, a user's own one unknown."""
    loss = task.problem.loss
    return not loss.trusted and getattr(loss, "labels", "") != "count"


def norm_bound(task: Task, *, steps: int, step: float) -> float:
    """Return the bound of Lemma 20 on the iterates of a loss >= 0; infinite for long steps."""
    least, inner = math.inf, inner_step(task, step)
    for view in views(task):
        if view.alpha < 1.0 or inner * view.constant <= 1.0:
            bound = stability.iterate_norm_bound(
                view.alpha,
                view.constant,
                inner,
                steps=steps,
                initial_loss=task.constants.value_at_zero,
            )
            least = min(least, bound)
    return least


def unclipped(task: Task, *, steps: int, step: float) -> float:
    """Return a clip that never acts: the largest gradient within `norm_bound`."""
    constants = task.problem.loss.constants(
        feature=task.feature_bound,
        label=task.label_bound,
        radius=norm_bound(task, steps=steps, step=step),
    )
    return constants.lipschitz


def rounding(task: Task, *, steps: int, step: float, clip: float) -> float:
    """Return how far roundings can drive two runs apart, projections included."""
    max_norm = ball(task, steps=steps, step=step, clip=clip)
    radius = max_norm + step * clip
    apart = 2.0 * stability.rounding(steps, task.n_weights, radius)
    # Slopes by bisection, or of counts, are off by a share of the loss's own, whatever the clip.
    loss = cast(MarginLoss, task.problem.loss)
    steep = steepness(loss, feature=task.feature_bound, label=task.label_bound)
    apart += 2.0 * steps * step * SLOPE_ERROR * steep
    if projects_exactly(task.problem.domain):
        return apart
    return apart + 2.0 * steps * _INEXACT * max_norm


def drift(task: Task, *, steps: int, step: float, clip: float) -> float:
    """Return `expansion`, with what rounded margins do to a slope that is not smooth."""
    a = expansion(task, step, clip)
    if a == 0.0:
        return 0.0
    radius = ball(task, steps=steps, step=step, clip=clip) + step * clip
    inner = inner_step(task, step)
    return math.hypot(
        a, stability.rounding_drift(inner, gradient=clip, d=task.n_weights, radius=radius)
    )


def sensitivity(
    task: Task,
    *,
    passes: int,
    step: float,
    clip: float,
    batch: int = 1,
    output: str = "average",
    decay: bool = False,
) -> float:
    """Return how far neighbours move what is released, roundings included."""
    steps = passes * (task.n // batch)
    slack = rounding(task, steps=steps, step=step, clip=clip)
    if decay:
        if output != "last" or batch != 1 or not step * (smoothness(task) + task.ridge) <= 1.0:
            raise AssumptionError(
                "decreasing steps are stable for the last iterate, batch=1 and a first step of at "
                f"most 1/(smoothness + ridge); got output={output!r}, batch={batch}, step="
                f"{step:.6g}. Use decay=False."
            )
        moved = stability.strongly_convex_sensitivity(
            gradient=clip, ridge=task.ridge, n=task.n, adjacency=task.budget.adjacency
        )
        return moved + slack
    moved = stability.sgd_sensitivity(
        n=task.n,
        passes=passes,
        step=step,
        gradient=clip,
        drift=drift(task, steps=steps, step=step, clip=clip),
        adjacency=task.budget.adjacency,
        batch=batch,
        ridge=task.ridge,
        output=output,
    )
    return moved + slack


def drawn_rows(task: Task, *, steps: int, step: float, clip: float) -> tuple[float, float]:
    """Return participation shift and drift of SGD on rows that are drawn with replacement.

    A row that is never drawn leaves even the roundings alone, so they may ride on the drift, whose
    share of the distance is (2/3) drift sqrt(steps) if the row is drawn at all.
    """
    slack = rounding(task, steps=steps, step=step, clip=clip) / (2.0 / 3.0 * math.sqrt(steps))
    a = drift(task, steps=steps, step=step, clip=clip)
    shift = stability.participation_shift(step, clip, task.budget.adjacency)
    return shift, (a + slack) * (1 + 2.0**-50)


# -- predicted risk and the best step --------------------------------------------------------------


def unit_noise(budget: Budget, size: int) -> float:
    """Return the standard deviation, along any direction, of the noise for sensitivity 1."""
    if isinstance(budget, PureDP):  # E rho^2/d for rho ~ Gamma(d, 1/epsilon)
        return budget.unit.rows * math.sqrt(size + 1.0) / budget.epsilon
    return 1.0 / budget.mu_per_row()


def noise_risk(task: Task, clip: float, sigma: float) -> float:
    """Return what noise of this deviation costs: it enters a margin as <z, x>, whatever d is."""
    cost = clip * sigma * GAUSS
    if math.isfinite(task.smoothness):
        cost = min(cost, 0.5 * task.smoothness * sigma * sigma)
    return cost + 0.5 * task.ridge * task.n_weights * sigma * sigma


def steps_risk(task: Task, *, steps: int, step: float, clip: float, batch: int = 1) -> float:
    """Return R^2/(2 step steps) + step G^2/2, and 2 G R/sqrt(n) if rows are used again."""
    slope = clip + task.ridge * task.initial_distance
    bias = task.initial_distance**2 / (2.0 * step * steps) + 0.5 * step * slope * slope
    again = steps * batch > task.n
    return bias + (2.0 * clip * task.initial_distance / math.sqrt(task.n) if again else 0.0)


def decay_risk(task: Task, *, steps: int, clip: float) -> float:
    """Return (G + ridge R)^2 (1 + log T)/(2 ridge T): SGD with steps 1/(ridge t)."""
    slope = clip + task.ridge * task.initial_distance
    bias = slope * slope * (1.0 + math.log(steps)) / (2.0 * task.ridge * steps)
    again = 2.0 * clip * task.initial_distance / math.sqrt(task.n) if steps > task.n else 0.0
    return bias + again


def best_step(
    task: Task,
    *,
    steps: int,
    clip: Callable[[float], float],
    sigma: Callable[[float, float], float],
    points: int = POINTS,
    longest: float = math.inf,
) -> tuple[float, float]:
    """Return the step of least predicted risk on a logarithmic grid, and that risk.

    ``clip(step)`` and ``sigma(step, clip)`` say what a step entails. The noise grows with the step,
    so the best one is no longer than R/(G sqrt(T)), which is the best one without noise.
    """
    scale = task.initial_distance / math.sqrt(steps)
    bound = task.gradient_bound(None)
    top = scale / min(bound, clip(scale / bound))
    if task.ridge > 0.0:
        longest = min(longest, 0.5 / task.ridge)
    grid = np.minimum(top * np.geomspace(1e-4, 1.0, points), longest)
    best, least = float(grid[0]), math.inf
    smooth = min(top, longest, longest_smooth(task))  # where the drift sets in
    for step in (*map(float, grid), *([smooth] if smooth > 0.0 else [])):
        if not math.isfinite(bound := clip(step)):
            continue
        excess = steps_risk(task, steps=steps, step=step, clip=bound)
        excess += noise_risk(task, bound, sigma(step, bound))
        if excess < least:
            best, least = step, excess
    return best, least


def closed_form(task: Task, *, passes: int) -> Callable[[float, float], float]:
    """Return sigma(step, clip) by the closed form of the recursion: cheap, a little too large."""
    unit = unit_noise(task.budget, task.n_weights)

    def sigma(step: float, clip: float) -> float:
        return unit * stability.sgd_sensitivity(
            n=task.n,
            passes=passes,
            step=step,
            gradient=clip,
            drift=expansion(task, step, clip),
            adjacency=task.budget.adjacency,
            ridge=task.ridge,
            output="average",
            order="fresh",
        )

    return sigma


def default_passes(task: Task) -> int:
    """Return how many passes: ten for smooth losses, more for others while rows are few."""
    if not is_ball(task.problem.domain):
        return max(1, min(SMOOTH_PASSES, 100_000 // task.n))  # such projections are slow
    if math.isfinite(task.smoothness):
        return SMOOTH_PASSES
    return max(SMOOTH_PASSES, min(MOST_PASSES, MANY_STEPS // task.n))


def risk(task: Task, *, longest: float = math.inf) -> float:
    """Return the least bound of the header over a coarse grid of steps."""
    passes, bound = default_passes(task), task.gradient_bound(None)
    if nonsmooth(task):
        noise = task.budget.adjacency.factor * (SMOOTH_PASSES + 1) / 2
        noise *= unit_noise(task.budget, task.n_weights)
        variance = (1.5 + 2 * GAUSS * noise) / SMOOTH_PASSES
        return task.initial_distance * bound * (math.sqrt(variance) + 2.0) / math.sqrt(task.n)
    sigma = closed_form(task, passes=passes)
    _, least = best_step(
        task,
        steps=passes * task.n,
        clip=lambda _: bound,
        sigma=sigma,
        points=RISK_POINTS,
        longest=longest,
    )
    return least
