"""How far neighbouring tables can move the output of a solver: one function a theorem, rounded up.

Two runs on neighbours share everything but one row. A step on a shared row takes their distance D
to at most sqrt(D^2 + a^2), a the :func:`expansion` (0 for smooth losses and short steps); a step on
the differing row adds at most b = 2 step G (replace-one) or step G (zero-out), G the bound on every
gradient used. Projections onto convex sets and averages that do not depend on the data never add
anything. Everything here takes the adjacency, and its factor is in what is returned.

Convexity is what makes this true. It holds by construction for generalised linear models with a
clipped scalar derivative; vector-clipped gradients of other losses have no such bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ... import _validate
from ...errors import AssumptionError, ParameterError
from ..budget import Adjacency

Array = NDArray[np.float64]

_UP = 1 + 1e-12  # more than the roundings of one closed form or of one pairwise sum
_EXACT_TERMS = 100_000  # summed one by one; what follows is bounded by an integral or by blocks
_UNIT = 2.0**-53
_STEP_REMEDY = "Take a shorter step, smooth the loss more, or shrink the feature bound."


def expansion(alpha: float, constant: float, step: float, *, clip: float) -> float:
    """Return a: one step on the same row takes a distance D to at most sqrt(D^2 + a^2).

    For a GLM whose gradient is alpha-Hoelder with this ``constant`` L in w (Wang, Lei, Ying, Zhang
    2022, Lemma 21, sharpened):

        a^2 = (1-alpha)/(1+alpha) ((alpha/(1+alpha))^alpha L step)^(2/(1-alpha)),

    a = 0 at alpha = 1 if step L <= 2. Proof: with s the difference of the margins and r that of the
    derivatives, the square grows by step^2 |x|^2 r^2 - 2 step r s, where r s >= 0 and s >=
    (r/H)^(1/alpha); maximise over r. Dropping s altogether gives a <= 2 step clip. Means over
    minibatches have the same a. With a ridge term pass step/(1 - step ridge).
    """
    alpha = _validate.non_negative("alpha", alpha)
    constant = _validate.non_negative("constant", constant)
    step = _validate.positive("step", step)
    if alpha > 1:
        raise ParameterError(f"alpha must lie between 0 and 1, got {alpha}.", parameter="alpha")
    most = 2 * step * _clip(clip)
    if alpha == 1.0:
        check_smooth_step(step, constant)
        return 0.0
    if constant == 0.0:
        return 0.0
    log_base = math.log(constant) + math.log(step)
    if alpha > 0:
        log_base += alpha * (math.log(alpha) - math.log1p(alpha))
    # The exponent 2/(1-alpha) is huge near alpha = 1, and so is what it does to rounding errors.
    power = 1 / (1 - alpha)
    log_a = 0.5 * math.log((1 - alpha) / (1 + alpha)) + power * log_base
    log_a += 8 * 2.0**-52 * power * (abs(math.log(constant)) + abs(math.log(step)) + 4)
    return min(most, _exp(log_a)) * _UP


def check_smooth_step(step: float, smoothness: float) -> None:
    """Refuse a step that can drive neighbours apart on a smooth loss: step * smoothness > 2."""
    if not step * smoothness <= 2:
        raise AssumptionError(
            f"stability of gradient steps on a smooth loss needs step * smoothness <= 2 (a privacy "
            f"condition), got {step:.6g} * {smoothness:.6g} = {step * smoothness:.6g}. "
            + _STEP_REMEDY
        )


def sgd_sensitivity(
    *,
    n: int,
    passes: int,
    step: float,
    gradient: float,
    drift: float,
    adjacency: Adjacency | str,
    batch: int = 1,
    ridge: float = 0.0,
    output: str = "average",
    order: str = "same",
) -> float:
    """Return how far neighbours move the average or the last iterate of several passes of SGD.

    Wang, Lei, Ying, Zhang 2022, the recursion behind Thm 7. ``drift`` is :func:`expansion` (at
    step/(1 - step ridge) if there is a ridge), ``batch`` rows make a step (mean with the fixed
    divisor; n mod batch rows are left out), ``output`` is 'average' (of the iterates before each
    step) or 'last'. The order is the 'same' in every pass, or 'fresh'.

    Same order: a row in a later batch shifts the whole sequence of distances in time, D'(t) =
    D(t - j), because it stays at 0 until its first step. So the first batch is the worst for the
    average, for any ridge, and for the last iterate the largest of the last pass's distances
    counts. Fresh order (no ridge): k of T steps on the row give k b + a sqrt(T) at most, by
    induction.
    """
    _validate.choice("output", output, ("average", "last"))
    _validate.choice("order", order, ("same", "fresh"))
    drift = _validate.non_negative("drift", drift)
    batch = _validate.integer("batch", batch)
    passes, steps = _validate.integer("passes", passes), _validate.integer("n", n) // batch
    if steps < 1:
        raise ParameterError(f"batch must be at most n = {n}, got {batch}.", parameter="batch")
    shift = _shift(step, gradient, adjacency) / batch
    shrink = 1.0 - step * _validate.non_negative("ridge", ridge)
    if not shrink > 0:
        raise AssumptionError(
            f"a ridge needs step * ridge < 1, got {step * ridge:.6g}. {_STEP_REMEDY}"
        )
    shrink = min(1.0, shrink * (1 + 2.0**-50))
    if order == "fresh":  # a ridge only shrinks these
        return _fresh(steps, passes, shift, drift, output) * _UP
    _check_work(passes, steps, shrink)
    distance = total = peak = 0.0
    for _ in range(passes):
        moved = _grown(distance, drift, 1) if batch > 1 and distance > 0 else distance
        after = shrink * moved + shift
        later, peak = _rest_of_pass(after, drift, shrink, steps)
        total += distance + later
        distance = _end(after, drift, shrink, steps - 1)
    value = total / (passes * steps) if output == "average" else peak
    return value * _UP * (1 + passes * 2.0**-50)


def _check_work(passes: int, steps: int, shrink: float) -> None:
    """Refuse passes whose recursion would take more than about two seconds."""
    terms, each = (_EXACT_TERMS, 2e-8) if shrink == 1.0 else (2 * _EXACT_TERMS, 1e-7)
    if passes > (most := int(2.0 / (5e-5 + each * min(steps, terms)))):  # seconds of a pass
        raise AssumptionError(f"the stability of {passes:,} passes takes long; at most {most:,}.")


def _rest_of_pass(after: float, drift: float, shrink: float, steps: int) -> tuple[float, float]:
    """Return the sum of D before the steps after the row's own in a pass, and the largest D."""
    count = steps - 1
    exact = np.arange(min(count, _EXACT_TERMS), dtype=float)
    total = float(np.sum(_curve(after, drift, shrink, exact)))
    left = count - len(exact)
    if left > 0 and shrink == 1.0:
        # Concave, so that a sum is at most the integral plus half of both ends.
        low, high = (
            float(_curve(after, drift, shrink, np.array([j]))[0]) for j in (len(exact), count - 1.0)
        )
        ratio = low / high
        chord = (2 / 3) * high * (ratio * ratio + ratio + 1) / (ratio + 1)
        total += (left - 1) * chord + 0.5 * (low + high)
    elif left > 0:  # monotone, so that a block is at most its length times the larger end
        edges = np.unique(np.linspace(len(exact), count, _EXACT_TERMS).astype(np.int64))
        ends = _curve(after, drift, shrink, edges.astype(float))
        total += float(np.sum(np.diff(edges) * np.maximum(ends[:-1], ends[1:])))
    return total, max(after, _end(after, drift, shrink, steps - 1))


def _curve(after: float, drift: float, shrink: float, j: Array) -> Array:
    """Return D after j steps on shared rows: D^2 <- shrink^2 (D^2 + drift^2), in closed form.

    No number is squared by itself: the square of a tiny one is 0, and so would be the distance.
    """
    if shrink == 1.0:
        return np.asarray(np.hypot(after, np.sqrt(j) * drift))
    log = math.log(shrink)
    grown = np.sqrt(-np.expm1(2 * j * log) / ((1 - shrink) * (1 + shrink))) * shrink
    return np.asarray(np.hypot(after * np.exp(j * log), grown * drift))


def _end(after: float, drift: float, shrink: float, steps: int) -> float:
    return float(_curve(after, drift, shrink, np.array([float(steps)]))[0])


def _grown(distance: float, drift: float, steps: float) -> float:
    return math.hypot(distance, math.sqrt(steps) * drift)


def _fresh(steps: int, passes: int, shift: float, drift: float, output: str) -> float:
    total = steps * passes
    if output == "last":
        return passes * shift + drift * math.sqrt(total)
    # The row first in every pass: sum over i < total of ceil(i/steps), and of sqrt(i).
    return shift * ((passes + 1) / 2 - 1 / steps) + (2 / 3) * drift * math.sqrt(total)


def phase_sensitivity(
    *,
    gradient: float,
    step: float,
    steps: int,
    smoothness: float,
    adjacency: Adjacency | str,
    batch: int = 1,
    output: str = "average_before",
) -> float:
    """Return how far neighbours move one pass of ``steps`` steps on a smooth convex loss.

    Every step is non-expansive (step * smoothness <= 2), so from its own step on the two runs stay
    b = 2 step G apart at most (Feldman, Koren, Talwar 2020). The average

    average_before  of the iterates before each step    b (1 - 1/steps)   (0 for a single step)
    average_both    of all steps + 1 iterates           b steps/(steps + 1)
    average_after   of the iterates after each step     b
    last            the last iterate                    b
    """
    check_smooth_step(step, _validate.non_negative("smoothness", smoothness))
    steps = _validate.integer("steps", steps)
    shares = {
        "average_before": (steps - 1) / steps,
        "average_both": steps / (steps + 1),
        "average_after": 1.0,
        "last": 1.0,
    }
    share = shares[_validate.choice("output", output, shares)]
    return _shift(step, gradient, adjacency) / _validate.integer("batch", batch) * share * _UP


def strongly_convex_sensitivity(
    *, gradient: float, ridge: float, n: int, adjacency: Adjacency | str
) -> float:
    """Return how far neighbours move the last iterate of SGD with a ridge and decreasing steps.

    Wu et al. 2017: with step_t = min(1/(smoothness + ridge), 1/(ridge t)) a shift at t is shrunk to
    2 G/(ridge T) by the end, whatever t, and passes = T/n of them add up to 2 G/(ridge n).
    ``gradient`` bounds the data part alone, ``n`` counts the rows that are used.
    """
    bound = _factor(adjacency) * _validate.positive("gradient", gradient)
    return bound / (_validate.positive("ridge", ridge) * _validate.integer("n", n)) * _UP


def regularised_minimiser(
    *, gradient: float, ridge: float, count: int, distance: float, adjacency: Adjacency | str
) -> float:
    """Return how far neighbours move a minimiser of mean loss + (ridge/2)|w - w0|^2, +- distance.

    The mean of ``count`` G-Lipschitz convex losses changes its gradient by 2 G/count at most, and a
    ridge-strongly convex function's minimiser moves by that over ridge (Feldman, Koren, Talwar
    2020); either computed point lies within ``distance`` of its minimiser.
    """
    exact = strongly_convex_sensitivity(
        gradient=gradient, ridge=ridge, n=count, adjacency=adjacency
    )
    return exact + 2 * _validate.non_negative("distance", distance) * _UP


def iterate_norm_bound(
    alpha: float, constant: float, step: float, *, steps: int, initial_loss: float
) -> float:
    """Return a bound on |w| after ``steps`` unprojected steps from 0 on losses >= 0.

    Wang, Lei, Ying, Zhang 2022, Lemma 20, sharpened: |w|^2 <= steps ((1-alpha)/(1+alpha) (L
    step)^(2/(1-alpha)) + 2 step f(0)); at alpha = 1 the first term vanishes if step L <= 1.
    """
    alpha = _validate.non_negative("alpha", alpha)
    constant = _validate.non_negative("constant", constant)
    step = _validate.positive("step", step)
    if alpha > 1 or (alpha == 1 and constant * step > 1):
        raise AssumptionError(
            f"iterates of a smooth loss are bounded for alpha <= 1, and at alpha = 1 for step * "
            f"constant <= 1; got alpha={alpha}, step * constant = {constant * step:.6g}. "
            + _STEP_REMEDY
        )
    growth = 0.0
    if alpha < 1 and constant > 0:
        power = 2 / (1 - alpha)
        growth = (1 - alpha) / (1 + alpha) * _exp(power * (math.log(constant) + math.log(step)))
    start = 2 * step * _validate.non_negative("initial_loss", initial_loss)
    return math.sqrt(_validate.integer("steps", steps) * (growth + start)) * _UP


def rounding(steps: int, d: int, radius: float) -> float:
    """Return how far float64 rounding can move an iterate, or their average, in ``steps`` steps.

    ``radius`` bounds every vector met, before projection too. A margin <w, x> is off by d u |w||x|
    in any order of summation (u = 2^-53), which moves a step on a smooth loss by step L d u |w| <=
    2 d u |w|; the update adds 3 u, a projection (d + 6) u and the running sum u times the radius.
    Steps are non-expansive (or x -> sqrt(x^2 + a^2), 1-Lipschitz), so errors add up. Both runs are
    off, so add it twice to a sensitivity. A loss that is not smooth jumps where the margin is off:
    see :func:`rounding_drift`.
    """
    per_step = (4 * _validate.integer("d", d) + 32) * _UNIT * _validate.positive("radius", radius)
    return _validate.integer("steps", steps) * per_step * _UP


def rounding_drift(step: float, *, gradient: float, d: int, radius: float) -> float:
    """Return what to add in squares to the drift of a loss whose derivative jumps.

    A margin that is off by e = (d + 2) u |w||x| on either side spoils monotonicity by at most 2 e:
    r s >= -2 e |r|, and |r||x| <= 2 G, so the square of the distance grows by 8 step G (d + 2) u
    radius more than drift^2. Identical iterates have identical roundings.
    """
    error = (_validate.integer("d", d) + 2) * 2 * _UNIT * _validate.positive("radius", radius)
    return math.sqrt(8 * step * _validate.positive("gradient", gradient) * error) * _UP


@dataclass(frozen=True)
class PaperStability:
    """The published high-probability bound, for reproduction; never tight."""

    excess: float  # c_{g,T}, relative excess of a row's draws over their mean
    draws: float  # how often one row is drawn, except with the stated probability
    sensitivity: float


def paper_constants(
    alpha: float, constant: float, *, at_zero: float, initial_loss: float
) -> tuple[float, float, float]:
    """Return c_{a,1}, c_{a,2} and C_a of Wang, Lei, Ying, Zhang 2022, simplified.

    ``at_zero`` is M = sup |grad f(0, z)|, ``initial_loss`` sup f(0, z).
    """
    if alpha == 0:
        return at_zero + constant, constant, (at_zero + constant) ** 2 + 2 * initial_loss
    first = (1 + 1 / alpha) ** (alpha / (1 + alpha)) * constant ** (1 / (1 + alpha))
    if alpha == 1:
        return first, 0.0, 2 * initial_loss
    ratio = (1 - alpha) / (1 + alpha)
    second = math.sqrt(ratio) * _exp((math.log(constant) - alpha * math.log(2)) / (1 - alpha))
    third = ratio * _exp(2 / (1 - alpha) * math.log(constant)) + 2 * initial_loss
    return first, second, third


def paper_uas(
    *,
    n: int,
    steps: int,
    step: float,
    alpha: float,
    constant: float,
    gradient: float,
    failure: float,
) -> PaperStability:
    """Return Thm 7 of Wang, Lei, Ying, Zhang 2022 (replace-one, except w.p. ``failure``).

    Delta^2 = e (c_{a,2}^2 T step^(2/(1-a)) + 4 G^2 step^2 (1 + k) k), k = (T/n)(1 + c_{g,T}).
    """
    load = 3 * n * math.log(n / failure) / steps
    excess = max(math.sqrt(load), load)
    draws = steps / n * (1 + excess)
    grown = 0.0
    if alpha < 1:
        log_base = math.log(constant * step) - alpha * math.log(2)
        grown = (1 - alpha) / (1 + alpha) * _exp(2 / (1 - alpha) * log_base)
    square = grown * steps + 4 * gradient**2 * step**2 * (1 + draws) * draws
    return PaperStability(excess, draws, math.sqrt(math.e * square) * _UP)


def participation_shift(step: float, gradient: float, adjacency: Adjacency | str) -> float:
    """Return b: how far one step on the differing row drives neighbours apart."""
    return _shift(step, gradient, adjacency) * _UP


def _shift(step: float, gradient: float, adjacency: Adjacency | str) -> float:
    step = _validate.positive("step", step)
    return _factor(adjacency) * step * _validate.positive("gradient", gradient)


def _factor(adjacency: Adjacency | str) -> int:
    """Return how many gradients apart neighbours are; refuse add_remove."""
    parsed = Adjacency.parse(adjacency)
    if parsed is Adjacency.ADD_REMOVE:
        raise AssumptionError(
            "stability of a solver needs a public number of rows, and under add_remove a row more "
            "or less moves all later rows to other steps. Use adjacency='zero_out' (same noise, "
            "number of rows public) or 'replace_one'."
        )
    return parsed.factor


def _exp(value: float) -> float:
    return math.exp(value) if value < 700 else math.inf


def _clip(value: float) -> float:
    """Return a clipping bound, possibly infinite."""
    return math.inf if value == math.inf else _validate.positive("clip", value)
