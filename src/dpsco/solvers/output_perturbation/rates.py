"""Stability, step sizes and predicted risk of SGD whose average is released once, with noise.

Everything is a function of public facts. Lengths are Euclidean; ``clip`` bounds a row's gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import cast

import numpy as np

from ...errors import AssumptionError
from ...geometry.domains import Box, LpBall, Simplex, WholeSpace
from ...losses.base import Hoelder, MarginLoss
from ...privacy.accounting import stability
from ...privacy.budget import Adjacency, Budget, PureDP
from ...problem import Facts
from ..common.glm_objective import SLOPE_ERROR, steepness
from ..common.passes import smoothness_beyond
from ..common.smoothing import kinked

POINTS = 60  # of the grid of step sizes
RISK_POINTS = 12  # of the grid behind a prediction, which must be cheap
SMOOTH_PASSES, MOST_PASSES, MANY_STEPS = 10, 100, 200_000
GAUSS = math.sqrt(2.0 / math.pi)  # E|<z, x>| for |x| = 1 and standard normal z
_INEXACT = 1e-9  # error of an iterative projection, relative to the reach of its domain


# -- stability -------------------------------------------------------------------------------------


def views(facts: Facts) -> tuple[Hoelder, ...]:
    """Return every pair (alpha, L) that holds for a row's gradient where the iterates are.

    The last one is the smoothness over the domain, which may be finite where the whole line has
    none; clipping keeps each of them.
    """
    smooth = smoothness(facts)
    return (*facts.hoelder, Hoelder(1.0, smooth)) if math.isfinite(smooth) else facts.hoelder


def smoothness(facts: Facts) -> float:
    """Return the smoothness wherever a rounded margin may lie: a little beyond the domain."""
    if not math.isfinite(facts.smoothness):
        return math.inf
    return (1 + 1e-9) * smoothness_beyond(facts, facts.problem.loss)


def expansion(facts: Facts, step: float, clip: float) -> float:
    """Return the least a that is known: a step on a shared row takes D to sqrt(D^2 + a^2)."""
    inner = inner_step(facts, step)
    least = stability.expansion(0.0, 2.0 * clip, inner, clip=clip)
    for view in views(facts):
        if view.alpha == 1.0 and not inner * view.constant <= 2.0:
            continue
        least = min(least, stability.expansion(view.alpha, view.constant, inner, clip=clip))
    return least


def longest_smooth(facts: Facts) -> float:
    """Return the longest step that expands nothing: step/(1 - step ridge) <= 2/L; 0 if none."""
    smooth = smoothness(facts)
    if smooth == 0.0 and facts.ridge == 0.0:
        return math.inf
    return (1 - 1e-9) / (0.5 * smooth + facts.ridge)


def inner_step(facts: Facts, step: float) -> float:
    """Return step/(1 - step ridge): a step with a ridge is a shorter one, then a shrinking."""
    shrink = 1.0 - step * facts.ridge
    if not shrink > 0.0:
        raise AssumptionError(
            f"stability of gradient steps with a ridge needs step * ridge < 1, got {step:.6g} * "
            f"{facts.ridge:.6g}. Take a shorter step, or leave step=None."
        )
    return step / shrink * (1 + 2.0**-50)


def ball(facts: Facts, *, steps: int, step: float, clip: float) -> float:
    """Return the radius of a ball about the origin that the iterates are kept in.

    The domain's own reach if it is bounded. Otherwise how far ``steps`` clipped steps can lead, or
    for losses that are never negative the bound of Wang, Lei, Ying, Zhang 2022, Lemma 20: there
    the projection never acts. It holds by projection all the same, so nothing rests on the lemma.
    """
    if math.isfinite(facts.reach):
        return facts.reach
    least = steps * step * clip
    if not never_negative(facts):
        return least
    return min(least, norm_bound(facts, steps=steps, step=step))


def never_negative(facts: Facts) -> bool:
    """Whether the loss is known to be >= 0: that of counts is not, a user's own one unknown."""
    loss = facts.problem.loss
    return not loss.trusted and getattr(loss, "labels", "") != "count"


def norm_bound(facts: Facts, *, steps: int, step: float) -> float:
    """Return the bound of Lemma 20 on the iterates of a loss >= 0; infinite for long steps."""
    least, inner = math.inf, inner_step(facts, step)
    for view in views(facts):
        if view.alpha < 1.0 or inner * view.constant <= 1.0:
            bound = stability.iterate_norm_bound(
                view.alpha,
                view.constant,
                inner,
                steps=steps,
                initial_loss=facts.constants.value_at_zero,
            )
            least = min(least, bound)
    return least


def unclipped(facts: Facts, *, steps: int, step: float) -> float:
    """Return a clip that never acts: the largest gradient within `norm_bound`."""
    constants = facts.problem.loss.constants(
        feature=facts.feature, label=facts.label, radius=norm_bound(facts, steps=steps, step=step)
    )
    return constants.lipschitz


def exact_projection(facts: Facts) -> bool:
    """Whether the domain's projection is a formula, right up to a few roundings."""
    domain = facts.problem.domain
    if isinstance(domain, LpBall):
        return domain.p in (1.0, 2.0, math.inf)
    return isinstance(domain, (WholeSpace, Box, Simplex))


def rounding(facts: Facts, *, steps: int, step: float, clip: float) -> float:
    """Return how far roundings can drive two runs apart, projections included."""
    reach = ball(facts, steps=steps, step=step, clip=clip)
    radius = reach + step * clip
    apart = 2.0 * stability.rounding(steps, facts.size, radius)
    # Slopes by bisection, or of counts, are off by a share of the loss's own, whatever the clip.
    loss = cast(MarginLoss, facts.problem.loss)
    steep = steepness(loss, feature=facts.feature, label=facts.label)
    apart += 2.0 * steps * step * SLOPE_ERROR * steep
    return apart if exact_projection(facts) else apart + 2.0 * steps * _INEXACT * reach


def drift(facts: Facts, *, steps: int, step: float, clip: float) -> float:
    """Return `expansion`, with what rounded margins do to a slope that is not smooth."""
    a = expansion(facts, step, clip)
    if a == 0.0:
        return 0.0
    radius = ball(facts, steps=steps, step=step, clip=clip) + step * clip
    inner = inner_step(facts, step)
    return math.hypot(
        a, stability.rounding_drift(inner, gradient=clip, d=facts.size, radius=radius)
    )


def sensitivity(
    facts: Facts,
    adjacency: Adjacency,
    *,
    passes: int,
    step: float,
    clip: float,
    batch: int = 1,
    output: str = "average",
    decay: bool = False,
) -> float:
    """Return how far neighbours move what is released, roundings included."""
    steps = passes * (facts.n // batch)
    slack = rounding(facts, steps=steps, step=step, clip=clip)
    if decay:
        if output != "last" or batch != 1 or not step * (smoothness(facts) + facts.ridge) <= 1.0:
            raise AssumptionError(
                "decreasing steps are stable for the last iterate, batch=1 and a first step of at "
                f"most 1/(smoothness + ridge); got output={output!r}, batch={batch}, step="
                f"{step:.6g}. Use decay=False."
            )
        found = stability.strongly_convex_sensitivity(
            gradient=clip, ridge=facts.ridge, n=facts.n, adjacency=adjacency
        )
        return found + slack
    found = stability.sgd_sensitivity(
        n=facts.n,
        passes=passes,
        step=step,
        gradient=clip,
        drift=drift(facts, steps=steps, step=step, clip=clip),
        adjacency=adjacency,
        batch=batch,
        ridge=facts.ridge,
        output=output,
    )
    return found + slack


def random_hits(
    facts: Facts, adjacency: Adjacency, *, steps: int, step: float, clip: float
) -> tuple[float, float]:
    """Return hit and drift of SGD on independently drawn rows.

    A row that is never drawn leaves even the roundings alone, so they may ride on the drift, whose
    share of the distance is (2/3) drift sqrt(steps) if the row is drawn at all.
    """
    slack = rounding(facts, steps=steps, step=step, clip=clip) / (2.0 / 3.0 * math.sqrt(steps))
    a = drift(facts, steps=steps, step=step, clip=clip)
    return stability.hit_size(step, clip, adjacency), (a + slack) * (1 + 2.0**-50)


# -- predicted risk and the best step --------------------------------------------------------------


def unit_noise(budget: Budget, size: int) -> float:
    """Return the standard deviation, along any direction, of the noise for sensitivity 1."""
    if isinstance(budget, PureDP):  # E rho^2/d for rho ~ Gamma(d, 1/epsilon)
        return budget.unit.rows * math.sqrt(size + 1.0) / budget.epsilon
    return 1.0 / budget.mu_per_row()


def noise_risk(facts: Facts, clip: float, sigma: float) -> float:
    """Return what noise of this deviation costs: it enters a margin as <z, x>, whatever d is."""
    cost = clip * sigma * GAUSS
    if math.isfinite(facts.smoothness):
        cost = min(cost, 0.5 * facts.smoothness * sigma * sigma)
    return cost + 0.5 * facts.ridge * facts.size * sigma * sigma


def walk_risk(facts: Facts, *, steps: int, step: float, clip: float, batch: int = 1) -> float:
    """Return R^2/(2 step steps) + step G^2/2, and 2 G R/sqrt(n) if rows are used again."""
    slope = clip + facts.ridge * facts.distance
    found = facts.distance**2 / (2.0 * step * steps) + 0.5 * step * slope * slope
    again = steps * batch > facts.n
    return found + (2.0 * clip * facts.distance / math.sqrt(facts.n) if again else 0.0)


def decay_risk(facts: Facts, *, steps: int, clip: float) -> float:
    """Return (G + ridge R)^2 (1 + log T)/(2 ridge T): SGD with steps 1/(ridge t)."""
    slope = clip + facts.ridge * facts.distance
    found = slope * slope * (1.0 + math.log(steps)) / (2.0 * facts.ridge * steps)
    again = 2.0 * clip * facts.distance / math.sqrt(facts.n) if steps > facts.n else 0.0
    return found + again


def best_step(
    facts: Facts,
    *,
    steps: int,
    clip: Callable[[float], float],
    sigma: Callable[[float, float], float],
    points: int = POINTS,
    longest: float = math.inf,
    batch: int = 1,
) -> tuple[float, float]:
    """Return the step of least predicted risk on a logarithmic grid, and that risk.

    ``clip(step)`` and ``sigma(step, clip)`` say what a step entails. The noise grows with the step,
    so the best one is no longer than R/(G sqrt(T)), which is the best one without noise.
    """
    scale = facts.distance / math.sqrt(steps)
    bound = facts.gradient_bound(None)
    top = scale / min(bound, clip(scale / bound))
    if facts.ridge > 0.0:
        longest = min(longest, 0.5 / facts.ridge)
    grid = np.minimum(top * np.geomspace(1e-4, 1.0, points), longest)
    best, least = float(grid[0]), math.inf
    smooth = min(top, longest, longest_smooth(facts))  # where the drift sets in
    for step in (*map(float, grid), *([smooth] if smooth > 0.0 else [])):
        if not math.isfinite(bound := clip(step)):
            continue
        found = walk_risk(facts, steps=steps, step=step, clip=bound, batch=batch)
        found += noise_risk(facts, bound, sigma(step, bound))
        if found < least:
            best, least = step, found
    return best, least


def closed_form(
    facts: Facts, budget: Budget, *, passes: int, batch: int = 1, output: str = "average"
) -> Callable[[float, float], float]:
    """Return sigma(step, clip) by the closed form of the recursion: cheap, a little too large."""
    unit = unit_noise(budget, facts.size)

    def sigma(step: float, clip: float) -> float:
        return unit * stability.sgd_sensitivity(
            n=facts.n,
            passes=passes,
            step=step,
            gradient=clip,
            drift=expansion(facts, step, clip),
            adjacency=budget.adjacency,
            batch=batch,
            ridge=facts.ridge,
            output=output,
            order="fresh",
        )

    return sigma


def default_passes(facts: Facts) -> int:
    """Return how many passes: ten for smooth losses, more for others while rows are few."""
    domain = facts.problem.domain
    if not (isinstance(domain, WholeSpace) or (isinstance(domain, LpBall) and domain.p == 2.0)):
        return max(1, min(SMOOTH_PASSES, 100_000 // facts.n))  # such projections are slow
    if math.isfinite(facts.smoothness):
        return SMOOTH_PASSES
    return max(SMOOTH_PASSES, min(MOST_PASSES, MANY_STEPS // facts.n))


def risk(facts: Facts, budget: Budget, *, longest: float = math.inf) -> float:
    """Return the least bound of the header over a coarse grid of steps."""
    passes, bound = default_passes(facts), facts.gradient_bound(None)
    if kinked(facts):
        noise = budget.adjacency.factor * (SMOOTH_PASSES + 1) / 2
        noise *= unit_noise(budget, facts.size)
        spread = (1.5 + 2 * GAUSS * noise) / SMOOTH_PASSES
        return facts.distance * bound * (math.sqrt(spread) + 2.0) / math.sqrt(facts.n)
    sigma = closed_form(facts, budget, passes=passes)
    _, least = best_step(
        facts,
        steps=passes * facts.n,
        clip=lambda _: bound,
        sigma=sigma,
        points=RISK_POINTS,
        longest=longest,
    )
    return least
