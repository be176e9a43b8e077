"""Ridge, noise and certificate of objective perturbation, from the public task.

The ridge r trades bias for noise. In a direction of curvature h where the solution has the size w
and the tilt of the mean loss the deviation s, the excess is h (r^2 w^2 + s^2)/(2 (h + r)^2): least
for h near r at r = s/w. With w = R/sqrt(d), R the distance of good weights, that is
r = sigma sqrt(d)/(n R), of which half is taken. Curvature p that is known beforehand (a ridge
penalty) makes it s^2/(w^2 p) if that is less.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ... import _validate
from ...errors import AssumptionError, ParameterError
from ...geometry.domains import Box, Domain, LpBall, Simplex
from ...losses.base import MarginLoss
from ...losses.vector import Softmax, SquaredDistance
from ...privacy.accounting.calibration import calibrate
from ...privacy.budget import ZCDP, ApproxDP, Budget
from ...privacy.mechanisms import ObjectivePerturbationRelease
from ...task import Task
from ..common.clips import minimiser_clip, start_clip
from ..common.glm_objective import gradient_rounding, steepness
from ..common.minimise import certified_error
from ..common.smoothing import moreau_smoothing, nonsmooth, smoothed

SHARE = 0.2  # of epsilon for the change of volume, at most, by default
BALANCE = 0.5  # of the ridge at which the worst direction balances: other directions want less
OUTPUT_SHARE = 2e-3  # of the budget's mu for the output noise: it costs about 0.3 % more tilt
DISTANCE_SHARE = 1e-9  # certified distance relative to that of good weights
FARTHEST_TILT = 9.0  # deviations: a longer tilt is less likely than 1e-18
FLATTEST = 1e-8  # ridge over curvature: less biases no less, and no minimiser can be found then
TOLERANCE = 1e-4  # of the calibrated noise: a digit more takes a third longer
_UP = 1 + 1e-12


@dataclass(frozen=True)
class Shape:
    """What is known of a row's gradients and Hessians."""

    kind: str
    bound: float
    curvature: float
    rank: int
    span: int | None
    steepness: float = 0.0  # of slopes before they are cut, where their error depends on it
    scores: int = 1  # that a row's gradient is computed from

    def release(
        self, *, n: int, sigma: float, ridge: float, distance: float, output_sigma: float
    ) -> ObjectivePerturbationRelease:
        """Return the record; ``ridge`` is that of the mean loss, penalty included."""
        return ObjectivePerturbationRelease(
            self.bound,
            sigma,
            self.curvature,
            n * ridge / _UP,
            self.rank,
            self.kind,
            distance,
            output_sigma,
            self.span,
            rows=(0, n),
        )


@dataclass(frozen=True)
class Noise:
    """What a schedule decides."""

    ridge: float
    sigma: float
    distance: float
    output_sigma: float


def kind(task: Task) -> str:
    """Return the structure of the loss, an empty text if nothing is known."""
    loss = task.problem.loss
    if isinstance(loss, MarginLoss):
        return "glm"
    if isinstance(loss, SquaredDistance):
        return "constant_hessian"
    return "subspace" if isinstance(loss, Softmax) else ""


def smoothing(task: Task) -> float:
    """Return the smoothing of the Moreau envelope of a nonsmooth loss; 0 for every other loss.

    The envelope costs at most L0^2/(2 b), and needs a ridge of about b X^2/(0.2 epsilon n), which
    costs at most half of that times r^2. They are equal at b = L0 sqrt(0.2 epsilon n)/(r X), here
    with r = 10 R; and an edge is smoothed over no more than a fifth of the labels' scale.
    """
    least = moreau_smoothing(task)
    share = SHARE * amount(task.budget) * task.n
    if least == 0.0:
        return 0.0
    slope = task.lipschitz / task.feature_bound
    return max(least, slope * math.sqrt(share) / (10 * task.initial_distance * task.feature_bound))


def check_smoothing(task: Task, value: float | None) -> float:
    """Return the user's smoothing, or the default; refuse it where the loss is smooth."""
    if value is None or not nonsmooth(task):
        if value:
            raise ParameterError(f"smoothing is for nonsmooth losses; got {value!r}.")
        return smoothing(task)
    return _validate.positive("smoothing", value)


def shape(task: Task, clip: float | None, smooth: float = 0.0) -> Shape:
    """Return the bounds on a row.

    A margin loss may be replaced outside the domain by its tangents, so its constants over the
    domain do; where noise matters, slopes are clipped at what they can be at the start. Of softmax
    no such extension is known: its constants on the whole space are taken.
    """
    loss, structure = task.problem.loss, kind(task)
    if isinstance(loss, MarginLoss):
        bound = task.lipschitz
        if clip is not None:
            bound = min(bound, _validate.positive("clip", clip))
        elif math.isfinite(loss.slope_bound(task.label_bound, math.inf)):
            bound = minimiser_clip(task)
        else:
            bound = start_clip(task)
        curvature = task.smoothness if smooth == 0.0 else smooth * task.feature_bound**2
        surrogate = smoothed(task, smooth)
        assert isinstance(surrogate, MarginLoss)
        steep = steepness(surrogate, feature=task.feature_bound, label=task.label_bound)
        return Shape("glm", bound, curvature * _UP, 1, None, steep)
    if clip is not None:
        raise ParameterError(
            f"clip works for losses of one margin only: clipping the vector gradients of "
            f"{loss.name} would break their convexity. Leave it out; its gradients are bounded."
        )
    constants = loss.constants(feature=task.feature_bound, label=task.label_bound)
    if structure == "constant_hessian":
        return Shape(structure, task.feature_bound, constants.smoothness, task.n_weights, None)
    ranks = loss.structure
    span, rank = min(ranks.zero_out, task.n_weights), min(ranks.rank, task.n_weights)
    bound, curvature = constants.lipschitz * _UP, constants.smoothness * _UP
    return Shape(structure, bound, curvature, rank, span, scores=task.n_weights // task.columns)


def tight(
    task: Task,
    shape: Shape,
    *,
    ridge: float | str | None,
    c_frac: float | None,
    distance: float | None,
) -> Noise:
    """Return the least noise that the accountant confirms, and the ridge that goes with it."""
    published = 0.1 if ridge == "c_frac" else SHARE
    share = published if c_frac is None else _validate.probability("c_frac", c_frac)
    least = least_ridge(task.n, shape, task.budget, share)
    known = task.ridge
    added = max(least - known, 0.0)
    if ridge is None:
        added = max(added, balanced_ridge(task, rough_sigma(task.budget, shape), shape.curvature))
    elif ridge != "c_frac":
        added = check_ridge(ridge)
        _refuse_small(added + known, task.n, shape, task.budget)
    if added + known <= 0.0:  # linear losses: any ridge will do
        added = DISTANCE_SHARE * shape.bound / task.initial_distance
    total, n = added + known, task.n
    rough = rough_sigma(task.budget, shape)
    near = certified_distance(task, shape, total, rough, distance)
    output = 2 * near / (OUTPUT_SHARE * task.budget.mu_per_row())
    sigma = _calibrated(shape, n, total, near, output, rough, task.budget)
    return Noise(added, sigma, near, output)


@lru_cache(maxsize=256)  # of public numbers alone
def _calibrated(
    shape: Shape, n: int, ridge: float, near: float, output: float, rough: float, budget: Budget
) -> float:
    """Return the least sigma that the accountant confirms, about ``rough``."""

    def build(scale: float) -> ObjectivePerturbationRelease:
        sigma = scale * rough
        return shape.release(n=n, sigma=sigma, ridge=ridge, distance=near, output_sigma=output)

    return calibrate(build, budget, tolerance=TOLERANCE) * rough


def least_ridge(n: int, shape: Shape, budget: Budget, share: float) -> float:
    """Return beta/(n expm1(share epsilon/k)), for which k log(1 + beta/Lam) = share epsilon.

    It is not below `FLATTEST` beta, which only huge budgets would allow.
    """
    least = shape.curvature / (n * math.expm1(min(share * amount(budget) / shape.rank, 30.0)))
    return max(least, FLATTEST * shape.curvature)


def balanced_ridge(task: Task, sigma: float, curvature: float) -> float:
    """Return the ridge at which bias and noise balance; see the module's head.

    With many weights every direction is flat: the rows' curvature beta is shared by all of them,
    and directions of curvature beta/d want s^2 d/(w^2 beta), if that is more.
    """
    steep = sigma * width_factor(task) / (task.n * task.initial_distance)
    balanced = (
        max(BALANCE * steep, steep * steep * task.n_weights / curvature) if curvature else steep
    )
    return min(balanced, balanced**2 / task.ridge) if task.ridge > 0.0 else balanced


def amount(budget: Budget) -> float:
    """Return what the change of volume is measured against, for one row: epsilon, or a loss.

    A loss within +-c has a rho of about c^2/2, and of about c where it is large.
    """
    spent = 1.0
    if isinstance(budget, ApproxDP):
        spent = budget.epsilon
    elif isinstance(budget, ZCDP):
        spent = max(budget.rho, math.sqrt(2 * budget.rho))
    return spent / budget.unit.rows


def certified_distance(
    task: Task, shape: Shape, ridge: float, sigma: float, distance: float | None
) -> float:
    """Return B: far above what rounding leaves uncertain, far below anything that matters."""
    tilt = 2 * sigma * (math.sqrt(task.n_weights) + FARTHEST_TILT) / task.n
    rounding = gradient_rounding(
        rows=task.n,
        columns=task.columns,
        clip=shape.bound,
        curvature=shape.curvature,
        tilt=tilt,
        ridge=ridge,
        max_norm=_largest_weights(task, shape, ridge, tilt),
        classes=shape.scores,
        dense=False,
        steepness=shape.steepness,
    )
    least = 2 * certified_error(
        rounding,
        domain=task.problem.domain,
        size=task.n_weights,
        strong_convexity=ridge,
        smoothness=shape.curvature + ridge,
    )
    if distance is None:
        return max(2 * least, DISTANCE_SHARE * task.initial_distance)
    if _validate.positive("distance", distance) < least:
        raise AssumptionError(
            f"distance={distance:.3g} is finer than float64 can certify here ({least:.3g}). Leave "
            "it out, or add to the ridge."
        )
    return distance


def width_factor(task: Task) -> float:
    """Return the effective sqrt(d): the domain's Gaussian width over its radius, if smaller."""
    whole = math.sqrt(task.n_weights)
    if not math.isfinite(task.radius) or task.radius <= 0.0:
        return whole
    return min(whole, _width(task.problem.domain, task.n_weights) / task.radius)


def rough_sigma(budget: Budget, shape: Shape) -> float:
    """Return about the calibrated noise, quickly; within 15 % of it in the usual range."""
    sensitivity = budget.adjacency.sensitivity(shape.bound)
    if shape.kind == "constant_hessian":
        return sensitivity / budget.mu_per_row()
    if isinstance(budget, ApproxDP) and shape.kind == "glm":
        return 1.16 * sensitivity / budget.mu_per_row()
    spans = math.sqrt(shape.span or 1)
    if not isinstance(budget, ApproxDP):
        return 1.4 * spans * sensitivity / budget.mu_per_row()
    mean = spans + math.sqrt(2 * math.log(1 / budget.delta))
    return sensitivity / (math.sqrt(mean**2 + 1.8 * amount(budget)) - mean)


def excess(task: Task, *, sigma: float, bound: float) -> float:
    """Return the predicted excess risk of a noise level: noise and bias, then sampling.

    With many weights the rows' curvature beta is shared by all of them, see `balanced_ridge`; that
    of a nonsmooth loss is its envelope's, b X^2.
    """
    noise = sigma * width_factor(task) / task.n
    if kind(task) == "constant_hessian":
        tilted = min(0.5 * task.n_weights * (sigma / task.n) ** 2, noise * task.initial_distance)
        return tilted + 0.5 * task.feature_bound**2 / task.n
    curvature = task.smoothness
    if not math.isfinite(curvature):
        curvature = moreau_smoothing(task) * task.feature_bound**2
    flat = task.n_weights * noise / (task.initial_distance * curvature) if curvature else 0.0
    tilted = 0.5 * task.initial_distance * noise * (1.0 + flat)
    if task.ridge > 0.0:
        tilted = min(tilted, 0.5 * noise**2 / task.ridge)
    return tilted + task.initial_distance * bound / math.sqrt(task.n)


def check_ridge(ridge: Any) -> float:
    """Return the user's ridge; "c_frac" and none add nothing to a constant Hessian."""
    if ridge is None or ridge == "c_frac":
        return 0.0
    if isinstance(ridge, str):
        raise ParameterError(
            f"ridge must be a number or 'c_frac', got {ridge!r}.", parameter="ridge"
        )
    return _validate.non_negative("ridge", ridge)


def _refuse_small(total: float, n: int, shape: Shape, budget: Budget) -> None:
    """Refuse a ridge at which the change of volume alone costs the budget."""
    least = least_ridge(n, shape, budget, 0.95)
    if total <= 0.0 or total < least:
        raise AssumptionError(
            f"objective perturbation needs a ridge of at least {least:.4g} for {budget}, got "
            f"{total:.4g} in all: below, one row can curve the objective too much, or its "
            "minimiser cannot be certified. Leave ridge out, or give more budget."
        )


def _largest_weights(task: Task, shape: Shape, ridge: float, tilt: float) -> float:
    """Return a bound on the minimiser's norm.

    Its gradient vanishes, so ridge ||w - centre|| <= L + ||tilt||. If no row's loss is negative,
    also ridge/2 ||w||^2 <= (loss at 0) + ||tilt|| ||w||.
    """
    if math.isfinite(task.max_norm):
        return task.max_norm
    far = (shape.bound + tilt) / ridge
    if not _non_negative(task):
        return far
    return min(far, 2 * tilt / ridge + math.sqrt(2 * task.constants.value_at_zero / ridge))


def _non_negative(task: Task) -> bool:
    """Return whether the loss is known to be at least 0: its conjugate at 0 is at most 0."""
    loss = task.problem.loss
    if not isinstance(loss, MarginLoss):
        return isinstance(loss, Softmax)
    try:
        return bool(max(float(loss.conjugate(0.0, y)) for y in (-1.0, 0.0, 1.0)) <= 0.0)
    except AssumptionError:
        return False


@lru_cache(maxsize=256)
def _width(domain: Domain, size: int) -> float:
    """Return the Gaussian width where there is a formula, else infinity."""
    if isinstance(domain, (LpBall, Simplex, Box)):
        return domain.gaussian_width(size).value
    return math.inf
