"""Refits: the scale of a model's scores and its intercepts, learnt anew once the weights stand.

Descent under noise stops early, and clips what rows say: the weights it ends with point in a good
direction and are of a poor length, and rare classes have poor intercepts. Both cost probabilities
more than they cost ranks. A factor for all scores and one intercept for each class are few numbers,
so noise on them is small: they are refitted in some last rounds, for a small part of the budget,
with a clip that hardly cuts. Descent itself may then clip harder, for less noise: what such a clip
spoils most is the length of the weights.

Clip, share, time and the least signal were chosen on half of a park of real tables and on tables
of other origin, see docs/park.md.
"""

from __future__ import annotations

import math
from typing import TypedDict

import numpy as np

from ... import _validate
from ...errors import AssumptionError, ParameterError
from ...geometry.domains import WholeSpace
from ...losses import Logistic, Softmax
from ...losses.penalties import NoPenalty
from ...privacy.mechanisms import gaussian_sigma
from ...task import Floats, Task

SHARE = 0.08  # of squared mu, by rule: the descent's noise grows by 4 %
LEAST_SIGNAL = 250.0  # z from which on refits pay: below, they cost what they gain
MOST_COLUMNS = 301  # with more nothing was measured, and typical sizes of scores may mislead
CLIP_PART = 0.7  # of its usual clip, for descent before a refit
ROUNDS, MOMENTUM = 20, 0.8
TIME = 0.1  # steps in all, before momentum, for each row above the noise of the refit,
LONGEST = 1.0  # and the longest step: scores and intercepts are in units of about 1
SPARE = 1e-12  # of mu, for the rounding of two calibrations
REACH = 2.0  # typical sizes of a score, at random directions, that are one unit


class Refit(TypedDict, total=False):
    """The part of a plan that refits."""

    refit_rounds: int
    refit_clip: float
    refit_sigma: float
    refit_step: float


def refit_share(task: Task) -> float:
    """Return which part of squared mu a refit is worth; 0 where it does not pay."""
    if obstacle(task) or task.columns > MOST_COLUMNS:
        return 0.0
    try:
        return SHARE if task.signal >= LEAST_SIGNAL else 0.0
    except AssumptionError:  # a pure budget buys no Gaussian noise
        return 0.0


def checked_share(task: Task, share: float) -> float:
    """Return the share of a refit that was asked for.

    Raises:
        AssumptionError: there is nothing to refit, or it would leave the domain.
        ParameterError: the share is not below 1.
    """
    share = _validate.non_negative("refit", share)
    if share >= 1.0:
        raise ParameterError(f"refit must be below 1, got {share:g}.", parameter="refit")
    if share and (why := obstacle(task)):
        raise AssumptionError(f"scores cannot be refitted: {why}.", hint="Leave out refit.")
    return share


def refit_plan(task: Task, share: float) -> Refit:
    """Return the rounds of a refit, its clip and noise, and its step."""
    if not share:
        return {}
    clip = math.sqrt(2.0)  # of a row one unit from the origin whose slope is 1
    sigma = gaussian_sigma(task.budget, bound=clip, rows=(0, task.n), count=ROUNDS)
    classes = getattr(task.problem.loss, "classes", 2)
    time = TIME * task.signal * math.sqrt(share / (classes / 2))
    return {
        "refit_rounds": ROUNDS,
        "refit_clip": clip,
        "refit_sigma": sigma / mu_part(share),
        "refit_step": min(LONGEST, time / ROUNDS),
    }


def mu_part(share: float) -> float:
    """Return which part of mu a share of its square is, a little less for rounding."""
    return math.sqrt(share) * (1.0 - SPARE)


def unit_of_scores(task: Task, weights: Floats) -> Floats:
    """Return the derivative of the weights in the factor of the scores, where it is 0.

    Of random weights so long a row has scores of about 1 / `REACH`; intercepts have no part in it.
    """
    bounds = task.problem.bounds
    along, last = np.array(weights), 0 if bounds.intercept is None else len(weights) // task.columns
    along[len(along) - last :] = 0.0
    length = float(np.linalg.norm(along))
    if length > 0.0:
        along *= math.sqrt(len(along) - last) / (REACH * bounds.feature_norm * length)
    return np.asarray(along)


def unit_of_intercepts(task: Task) -> float:
    """Return the derivative of an intercept's weight in the intercept; 0 if there is none."""
    column = task.problem.bounds.intercept
    return 0.0 if column is None else 1.0 / column


def obstacle(task: Task) -> str:
    """Return why scores cannot be refitted; nothing if they can."""
    problem = task.problem
    if not isinstance(problem.loss, (Logistic, Softmax)):
        return "that is for the log-loss of two classes or more"
    if not isinstance(problem.domain, WholeSpace):
        return "the weights are bounded"
    if not isinstance(problem.penalty, NoPenalty):
        return "the weights are penalised"
    return ""
