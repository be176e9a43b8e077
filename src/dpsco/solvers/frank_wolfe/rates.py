"""Constants of a loss in the domain's geometry, and how many rounds, which steps, which noise.

Pure functions of public numbers. Privacy holds for any values, since every contribution is clipped;
they decide accuracy alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...data.vertices import VertexSet
from ...geometry.domains import LpBall, Simplex
from ...geometry.norms import L1, L2, Lp, Norm, equivalence
from ...losses.base import MarginLoss
from ...privacy.budget import ApproxDP, Budget, PureDP
from ...task import Task

Floats = NDArray[np.float64]

_LARGEST_RHO = 1e12  # of budgets that mean nothing any more: keeps round counts finite


@dataclass(frozen=True)
class Geometry:
    """Lengths of weights in a norm, those of gradients in its dual."""

    norm: Norm  # of weights
    diameter: float  # D: of the domain
    lipschitz: float  # L0: of a row's loss
    smoothness: float  # L1: Lipschitz constant of a row's gradient; may be infinite
    feature: float  # R: length of a row, in the dual norm

    @property
    def dual(self) -> Norm:
        """The norm of gradients."""
        return self.norm.dual


def vertex_geometry(task: Task) -> Geometry:
    """Return the geometry for selections: l1 for the l1 ball and the simplex, else l2."""
    domain = task.problem.domain
    pointed = isinstance(domain, Simplex) or (isinstance(domain, LpBall) and domain.p == 1.0)
    return geometry(task, L1 if pointed else L2)


def ball_geometry(task: Task) -> Geometry:
    """Return the geometry for linear minimisation: that of an l_p ball with p <= 2, else l2.

    Below 1 + 1/ln d the norms differ from l1 by a factor e at most, and the theorems take that p.
    """
    domain, d = task.problem.domain, task.n_weights
    if not isinstance(domain, LpBall) or domain.p >= 2.0 or d < 3:
        return geometry(task, L2)
    return geometry(task, Lp(max(domain.p, min(2.0, 1.0 + 1.0 / math.log(d)))))


def geometry(task: Task, norm: Norm) -> Geometry:
    """Return diameter and constants in a norm between l1 and l2.

    Rows may be bounded in any l_p norm. Constants of losses that are no function of a margin are
    Euclidean, which bounds those of any such norm.
    """
    loss, domain, columns = task.problem.loss, task.problem.domain, task.columns
    own = task.problem.bounds.norm
    diameter = domain.diameter(task.n_weights, norm)
    if not isinstance(loss, MarginLoss):
        feature = task.feature_bound * equivalence(own, L2, columns)
        facts = loss.constants(feature=feature, label=task.label_bound, radius=task.max_norm)
        return Geometry(norm, diameter, facts.lipschitz, facts.smoothness, feature)
    feature = task.feature_bound * equivalence(own, norm.dual, columns)
    margin = min(
        domain.max_norm(task.n_weights, norm) * feature,
        domain.max_norm(task.n_weights, own.dual) * task.feature_bound,
    )
    facts = loss.constants(feature=feature, label=task.label_bound, radius=margin / feature)
    return Geometry(norm, diameter, facts.lipschitz, facts.smoothness, feature)


# -- rounds ----------------------------------------------------------------------------------------


def zcdp(budget: Budget) -> float:
    """Return the zCDP that one row may cost; of a pure budget what one release of it costs."""
    if isinstance(budget, PureDP):
        rho = 0.5 * (budget.epsilon / budget.unit.rows) ** 2 / 4.0
    elif isinstance(budget, ApproxDP):
        rho = budget.rho() / budget.unit.rows**2
    else:
        rho = 0.5 * budget.mu_per_row() ** 2
    return min(rho, _LARGEST_RHO)


def full_rounds(task: Task, candidates: int, most: int) -> int:
    """Return T for selections on all rows: n sqrt(8 rho)/ln J, at which steps and noise are equal.

    Pure budgets add up: there it is (n epsilon/(2 ln J))^(2/3).
    """
    logarithm = math.log(candidates)
    if isinstance(task.budget, PureDP):
        amount = task.n * task.budget.epsilon / task.budget.unit.rows
        return _within((amount / (2.0 * logarithm)) ** (2.0 / 3.0), most)
    return _within(task.n * math.sqrt(8.0 * zcdp(task.budget)) / logarithm, most)


def fresh_rounds(task: Task, candidates: int, most: int) -> int:
    """Return T for selections on batches: sqrt(n sqrt(8 rho)/ln J)."""
    rounds = math.sqrt(task.n * math.sqrt(8.0 * zcdp(task.budget)) / math.log(candidates))
    return _within(rounds, min(most, task.n))


def gaussian_rounds(task: Task, p: float, most: int) -> int:
    """Return T for Gaussian noise on batches: sqrt(n mu/d^(1/p))/2; the factor was measured."""
    reached = task.n * task.budget.mu_per_row() / task.n_weights ** (1.0 / p)
    return _within(0.5 * math.sqrt(reached), min(most, task.n))


def _within(rounds: float, most: int) -> int:
    return int(min(max(round(rounds), 1), most))


# -- steps -----------------------------------------------------------------------------------------


def momentum(t: int) -> float:
    """Return a_t, the weight of new gradients in the running mean."""
    return 1.0 / math.sqrt(t + 1.0)


def default_step(t: int) -> float:
    """Return gamma_t = 2/(t + 2)."""
    return 2.0 / (t + 2.0)


def clips(steps: Sequence[float], shares: Sequence[float], facts: Geometry) -> list[float]:
    """Return G_t: how long a row's contribution to the running mean can be.

    ``(1 - a_t) L1 gamma_{t-1} D + a_t L0``, as the last move had length gamma_{t-1} D at most (not
    gamma_t D), or ``(2 - a_t) L0`` if that is less. With a_t = 1 it is L0.
    """
    bounds = []
    for t, share in enumerate(shares):
        if t == 0 or share == 1.0:
            bounds.append(share * facts.lipschitz if t else facts.lipschitz)
            continue
        moved = steps[t - 1] * facts.diameter
        near = (1.0 - share) * facts.smoothness * moved + share * facts.lipschitz
        bounds.append(min(near, (2.0 - share) * facts.lipschitz))
    return bounds


def fading_bounds(fresh: Sequence[float], shares: Sequence[float]) -> list[list[float]]:
    """Return, for each round t, the spread of a row of each batch k <= t: P_{k,t} fresh_k.

    P_{k,t} is the product of 1 - a_j over j = k+1, ..., t: a batch's own share has not faded yet.
    """
    table: list[list[float]] = []
    for t, bound in enumerate(fresh):
        older = table[-1] if t else []
        table.append([(1.0 - shares[t]) * each for each in older] + [bound])
    return table


def scale_shapes(table: Sequence[Sequence[float]]) -> list[list[float]]:
    """Return how scales may vary over the rounds: alike, or with what later rounds still see.

    ``h_t = sqrt(sum_{t' >= t} range_{t,t'}^2)`` is large where a batch's rows are seen often.
    """
    rounds = len(table)
    seen = [math.sqrt(math.fsum(table[s][t] ** 2 for s in range(t, rounds))) for t in range(rounds)]
    return [[1.0] * rounds, seen]


def paid_by_batch(
    table: Sequence[Sequence[float]], scales: Sequence[float], power: float
) -> Floats:
    """Return the sum over the rounds of (spread/scale)^power, for a row of each batch."""
    paid = np.zeros(len(table))
    for row, scale in zip(table, scales, strict=True):
        paid[: len(row)] += (np.asarray(row) / scale) ** power
    return paid


# -- predictions -----------------------------------------------------------------------------------


def noise_of_selection(task: Task, candidates: int, rounds: int, bound: float) -> float:
    """Return s ln J on the mean: what one of so many selections on all rows costs."""
    range_ = task.budget.adjacency.sensitivity(bound)
    share = math.sqrt(8.0 * zcdp(task.budget) / rounds)
    if isinstance(task.budget, PureDP):
        share = task.budget.epsilon / task.budget.unit.rows / rounds
    return range_ / share * math.log(candidates) / task.n


def candidates(task: Task) -> int:
    """Return J: how many vertices the domain has."""
    return VertexSet(task.problem.domain, task.n_weights).count
