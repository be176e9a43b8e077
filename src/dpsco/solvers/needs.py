"""What a theorem asks of a problem, as named needs that can say why they are not met.

A need looks at public facts only. Refusals, listings and recommendations all read the same words.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from ..losses.penalties import L2Penalty, NoPenalty
from ..privacy.budget import Adjacency, Budget, PureDP
from ..problem import Facts
from .common.smoothing import kinked

Unmet = Callable[[Facts, Budget], str]


@dataclass(frozen=True)
class Need:
    """A condition of a theorem; ``unmet`` returns why it fails, or an empty text."""

    name: str
    unmet: Unmet


def _glm(facts: Facts, budget: Budget) -> str:
    if facts.glm:
        return ""
    return (
        f"it needs a loss of one margin, phi(<w, x>, y), because clipping keeps only those convex; "
        f"{facts.problem.loss.name} is none"
    )


def _convex(facts: Facts, budget: Budget) -> str:
    if facts.constants.convex:
        return ""
    return f"its guarantee rests on convexity, and {facts.problem.loss.name} is not convex"


def _smooth(facts: Facts, budget: Budget) -> str:
    if math.isfinite(facts.smoothness):
        return ""
    return (
        f"it needs a smooth loss, and the slope of {facts.problem.loss.name} jumps or grows "
        "without bound (losses.Smoothed(loss, b) is smooth)"
    )


def _smoothable(facts: Facts, budget: Budget) -> str:
    return "" if kinked(facts) else _smooth(facts, budget)


def _bounded(facts: Facts, budget: Budget) -> str:
    if math.isfinite(facts.radius):
        return ""
    return "it needs a bounded domain, for example domains.L2Ball(10.0)"


def _unbounded(facts: Facts, budget: Budget) -> str:
    if not math.isfinite(facts.radius) and not facts.problem.domain.bounded:
        return ""
    return "it is for weights without constraint, domains.WholeSpace()"


def _lipschitz(facts: Facts, budget: Budget) -> str:
    if math.isfinite(facts.lipschitz):
        return ""
    return (
        f"it needs a bounded slope, and that of {facts.problem.loss.name} is unbounded over "
        f"{facts.problem.domain!r} (bound the domain, or take Huber(threshold) for Squared)"
    )


def _euclidean(facts: Facts, budget: Budget) -> str:
    if facts.euclidean:
        return ""
    return "it measures rows in the l2 norm: give Bounds(feature_norm=..., norm=L2)"


def _plain(facts: Facts, budget: Budget) -> str:
    if isinstance(facts.problem.penalty, NoPenalty):
        return ""
    return f"it has no room for a penalty, and the problem has {facts.problem.penalty!r}"


def _ridge(facts: Facts, budget: Budget) -> str:
    if isinstance(facts.problem.penalty, (NoPenalty, L2Penalty)):
        return ""
    return f"of all penalties it knows the ridge L2Penalty only, not {facts.problem.penalty!r}"


def _fixed_n(facts: Facts, budget: Budget) -> str:
    if budget.adjacency is not Adjacency.ADD_REMOVE:
        return ""
    return (
        "its plan is made for a public number of rows, which add_remove keeps private: use "
        "adjacency='zero_out' (same noise) or 'replace_one'"
    )


def _gaussian(facts: Facts, budget: Budget) -> str:
    if not isinstance(budget, PureDP):
        return ""
    return "its Gaussian noise cannot be paid from PureDP: use ApproxDP(epsilon, delta)"


GLM = Need("loss of one margin", _glm)
CONVEX = Need("convex", _convex)
SMOOTH = Need("smooth", _smooth)
SMOOTHABLE = Need("smooth, or a kinked loss of one margin", _smoothable)
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

    def unmet(facts: Facts, budget: Budget) -> str:
        return "" if facts.n >= rows else f"it needs at least {rows} rows, and there are {facts.n}"

    return Need(f"n >= {rows}", unmet)
