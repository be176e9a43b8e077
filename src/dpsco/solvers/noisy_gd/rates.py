"""How far and how long descent goes: integrated time, rounds, momentum, longest steps.

With the integrated time h = step rounds/(1 - momentum) the bias is R^2/(2 h) and the noise h d
(single/n)^2/2, whatever the number of rounds. All else follows from the h at which both are equal:
the rounds that can cover it, and the momentum that lets them.
"""

from __future__ import annotations

import math

from ...errors import AssumptionError
from ...geometry.domains import LpBall, Polytope, Simplex
from ...geometry.width import l2_ball_width
from ...privacy.mechanisms import gaussian_sigma
from ...task import Task
from ..common.clips import cautious_clip, descent_clip
from ..common.smoothing import nonsmooth

MOMENTUM = 0.9
ROUNDS = (60, 200)  # full passes by default: on large tables, and on small ones
MAX_FLOPS = 1e9  # products that a small table may take: about a second
LONGEST = 300  # full passes by default where a smooth loss has far to go
LONG_FLOPS = 1e10  # products that these may take: a few seconds
NARROW_FLOPS = 1e11  # the same over narrow domains: rows that go with them are mostly sparse
NONSMOOTH_ROUNDS = 2000  # full passes by default where a nonsmooth loss is worth following closely
REGRESSION_ROUNDS = 1000  # the same for labels that are numbers: half of them lost up to 13 %
NONSMOOTH_FLOPS = 3e9  # products that these may take: a few seconds
ROUNDS_FRACTION = 0.25  # of the rounds that noise justifies: how many a table gets beyond MAX_FLOPS
WARM_UP = 10.0  # rounds divided by 1/(1 - momentum), at least: momentum starts slowly
NARROW_WARM_UP = (3.0, 16.0)  # the same over narrow domains, where z is small and large: so many
STARTS_PER_ROW = 1.6  # for each of z per weight; both measured on sparse rows with an l1 ball
NARROW_STEPS = 6.0  # of full length over such domains, times z/width; measured on those rows, too
WIDE = 10_000  # columns: beyond, a table is sparse in practice, and its rows count as so many:
WIDE_ENTRIES = 300
NOISE_FLOPS = 40  # products that take as long as one number of noise
DIRECTIONS = 2.0  # for each unit of z, in which rows take noise back: measured on text and images
CAUTION = 0.25  # power of those over the number of weights in `caution`; measured
WIDTH_SAMPLES = 256  # directions for the width of a polytope: within 1 to 5 %


def risk(task: Task) -> float:
    """Return the predicted excess risk: the header's bound at the best integrated time."""
    bound = cautious_clip(task)
    single = gaussian_sigma(task.budget, bound=bound, rows=(0, task.n)) / task.n
    noise = single * math.sqrt(task.n_weights) * narrowness(task)
    return task.initial_distance * (noise + bound / math.sqrt(task.n))


def gradients(task: Task) -> float:
    """Return how many gradients of a row a default plan takes."""
    try:
        single = gaussian_sigma(task.budget, bound=descent_clip(task), rows=(0, task.n))
        return float(default_rounds(task, integrated_time(task, single)) * task.n)
    except (AssumptionError, ArithmeticError):  # nothing is known, and nothing will be predicted
        return float(ROUNDS[1] * task.n)


def integrated_time(task: Task, single: float) -> float:
    """Return h = step * rounds, at which bias R^2/(2h) and noise h d (single/n)^2/2 are equal.

    Over a narrow domain noise gains W single/n at most, however long it runs, W the Gaussian width.
    That equals the bias at a time longer by R sqrt(d)/W. In units of the radius W is w, sqrt(2 ln 2
    d) for an l1 ball, and a gradient has noise of its clip times w/z in the directions that the
    domain leaves. So where weights outnumber z, the time ends with a number of steps that goes with
    z/w, whatever the radius: one that is too large would only let more noise in. Where z is larger,
    the usual time is taken if that is longer.
    """
    distance = caution(task) * task.initial_distance
    usual = distance * task.n / (single * math.sqrt(task.n_weights))
    if narrowness(task) == 1.0 or not math.isfinite(task.smoothness):
        return usual
    width = narrowness(task) * math.sqrt(task.n_weights)
    steps = NARROW_STEPS * task.signal / width
    narrow = min(steps * stretch(0.0, MOMENTUM) / task.smoothness, usual / narrowness(task))
    return narrow if outnumbered(task) else max(usual, narrow)


def outnumbered(task: Task) -> bool:
    """Return whether the domain is narrow, and weights outnumber the rows above the noise."""
    return narrowness(task) < 1.0 and task.signal < task.n_weights


def narrowness(task: Task) -> float:
    """Return the domain's Gaussian width over that of the l2 ball of its radius; 1 at most.

    It is sqrt(2 ln(2 d)/d) for an l1 ball, and 1 wherever the width is not known in a moment.
    """
    domain, d = task.problem.domain, task.n_weights
    if not isinstance(domain, (LpBall, Simplex, Polytope)) or task.radius == 0.0:
        return 1.0
    width = domain.gaussian_width(d, WIDTH_SAMPLES).value
    return min(1.0, width / l2_ball_width(d, task.radius).value)


def caution(task: Task) -> float:
    """Return the share of the usual distance that is worth going: less if weights outnumber z.

    At the integrated time noise moves a prediction by R X/sqrt(d), 2 for classes. The rows'
    curvature takes that back in about twice as many directions as z = n mu/sensitivity. All others
    are flat: their noise stays, and on rows that teach little it is all there is. At d = 20 z it
    then moves a prediction by 1.1, which costs a tenth of a loss of log 2 at most. Who bounds or
    names the distance knows better.
    """
    if task.problem.scale is not None or math.isfinite(task.radius):
        return 1.0
    return min(1.0, math.pow(DIRECTIONS * task.signal / task.n_weights, CAUTION))


def default_momentum(task: Task, rounds: int, time: float, smooth: float) -> float:
    """Return 0.9, or more where so many steps of full length would not cover the integrated time.

    Without momentum ``needed`` = h * smoothness steps cover it; momentum m makes each count 1/(1-m)
    times, after a start of as many rounds.
    """
    needed = time * smoothness(task, smooth) / stretch(smooth, MOMENTUM)
    return max(MOMENTUM, min(1.0 - rounds / needed, 1.0 - warm_up(task) / rounds))


def warm_up(task: Task) -> float:
    """Return how many starts of the momentum a run is long.

    A narrow domain takes away most of the noise of a step, and the velocity has averaged the noise
    of 1/(1-m) rounds by then. So few and slow starts leave least of it where weights outnumber z:
    an l1 ball of 20,000 columns keeps a third of the excess with 3, and a half with 10. Where rows
    outweigh the noise, slow starts swing instead.
    """
    if narrowness(task) == 1.0 or not math.isfinite(task.smoothness):
        return WARM_UP
    per_weight = task.signal / task.n_weights
    least, most = NARROW_WARM_UP
    return min(max(least, STARTS_PER_ROW * per_weight), most)


def smoothness(task: Task, smooth: float) -> float:
    """Return the smoothness of what is descended."""
    return task.smoothness if smooth == 0.0 else smooth * task.feature_bound**2


def longest_step(task: Task, clip: float, smooth: float, momentum: float) -> float:
    """Return the longest step that the curvature allows, or that a guess does where it is none."""
    curvature = smoothness(task, smooth)
    if not math.isfinite(curvature):
        return task.initial_distance / clip
    return stretch(smooth, momentum) / curvature


def stretch(smoothing: float, momentum: float) -> float:
    """Return the longest step in units of 1/L, L the curvature.

    On a quadratic, steps below 2/L converge whatever the momentum is, as it is damped; 1/L without
    and nearly 2/L with much momentum are taken. An envelope is sharper than the loss in places, and
    gets 1/L.
    """
    return 1.0 if smoothing else 1.0 + momentum


def default_rounds(task: Task, time: float) -> int:
    """Return how many full passes: many where they are cheap, for their noise averages out.

    A smooth loss gets as many as it takes to cover the integrated time with the most momentum that
    so many rounds allow, rounds^2/WARM_UP steps of full length, if that is affordable. A nonsmooth
    loss gets as many as the sharpest envelope of any use takes.
    """
    work = _work(task)
    few = round(min(max(MAX_FLOPS / work, ROUNDS[0]), ROUNDS[1]))
    if nonsmooth(task):
        return max(few, _nonsmooth_rounds(task, time, work))
    if not math.isfinite(task.smoothness):
        return few
    needed = math.sqrt(warm_up(task) * time * task.smoothness / stretch(0.0, MOMENTUM))
    affordable = LONG_FLOPS if narrowness(task) == 1.0 else NARROW_FLOPS
    least = ROUNDS[0] if outnumbered(task) else few
    return max(least, round(min(needed, affordable / work, LONGEST)))


def _work(task: Task) -> float:
    """Return about how many products a pass takes, its noise included where that is much.

    A plan does not know whether rows are sparse. Those of more than `WIDE` columns are: dense ones
    would hardly fit into memory.
    """
    if task.columns <= WIDE:
        return float(task.n * task.n_weights)
    entries = task.n_weights / task.columns * WIDE_ENTRIES
    return task.n * entries + NOISE_FLOPS * task.n_weights


def _nonsmooth_rounds(task: Task, time: float, work: float) -> int:
    """Return T at which envelope L0^2/(2 b), descent 2 b X^2 R^2/T^2 and noise R^2/h are equal.

    That is T = L0 X h/R, or n mu/sqrt(d) but for the adjacency: the distance cancels out. All of
    them are taken while they are cheap, and a part where they are dear. Residuals hardly bunch at
    the one point where the loss of a number jumps, so a rounder envelope serves them as well.
    """
    needed = task.lipschitz * time / task.initial_distance
    cheap, dear = (
        min(needed, MAX_FLOPS / work),
        min(ROUNDS_FRACTION * needed, NONSMOOTH_FLOPS / work),
    )
    most = NONSMOOTH_ROUNDS if task.problem.loss.labels == "sign" else REGRESSION_ROUNDS
    return round(min(max(cheap, dear), most))
