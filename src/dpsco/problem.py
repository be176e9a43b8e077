"""What is minimised: a loss over rows within bounds, weights within a domain, perhaps a penalty.

    minimise  E f(w; x, y) + penalty(w)   over w in the domain.

Everything here is public. A `Task` adds the size of the table and the budget.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from . import _validate
from .data.bounds import Bounds
from .data.labels import require_labels
from .geometry.domains import Box, Domain, LpBall, Simplex, WholeSpace
from .losses.base import MarginLoss
from .losses.penalties import NoPenalty, Penalty
from .losses.vector import VectorLoss

Loss = MarginLoss | VectorLoss


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A loss, the bounds of a row, a domain of weights, a penalty.

    Args:
        loss: of `dpsco.losses`.
        bounds: of a row; rows are clipped to them before anything reads them.
        domain: where the weights may lie; everywhere by default.
        penalty: a public function of the weights that is added to the mean loss.
        scale: a public guess of the distance from the domain's centre to good weights. It sets
            step sizes where the domain is unbounded, or much larger than the solution; privacy does
            not depend on it.

    Raises:
        ParameterError: an argument has the wrong type, or the loss cannot read the bounds' labels.

    >>> from dpsco import Bounds, domains, losses
    >>> Problem(loss=losses.Hinge(), bounds=Bounds(1.0, label="sign"), domain=domains.L2Ball(10.0))
    Problem(Hinge() over L2Ball(radius=10.0), Bounds(feature_norm=1, label='sign'))
    """

    loss: Loss
    bounds: Bounds
    domain: Domain = field(default_factory=WholeSpace)
    penalty: Penalty = field(default_factory=NoPenalty)
    scale: float | None = None

    def __post_init__(self) -> None:
        kinds: dict[str, tuple[type, ...]] = {"loss": (MarginLoss, VectorLoss), "bounds": (Bounds,)}
        kinds |= {"domain": (Domain,), "penalty": (Penalty,)}
        example = {
            "loss": "losses.Logistic()",
            "bounds": "Bounds(feature_norm=1.0, label='sign')",
            "domain": "domains.L2Ball(10.0)",
            "penalty": "losses.L2Penalty(0.01)",
        }
        for name, kind in kinds.items():
            if not isinstance(getattr(self, name), kind):
                raise _validate.refusal(
                    name,
                    f"must be one of dpsco's, for example {example[name]}; got "
                    f"{_validate.shown(getattr(self, name))}.",
                )
        if self.scale is not None:
            object.__setattr__(self, "scale", _validate.positive("scale", self.scale))
        require_labels(self.loss, self.bounds.label)

    def __repr__(self) -> str:
        label = "" if self.bounds.label is None else f", label={self.bounds.label!r}"
        norm = f"feature_norm={self.bounds.feature_norm:g}"
        tail = "" if isinstance(self.penalty, NoPenalty) else f", {self.penalty!r}"
        return f"Problem({self.loss!r} over {self.domain!r}, Bounds({norm}{label}){tail})"


def is_ball(domain: Any) -> bool:
    """Return whether projection onto the domain is onto a Euclidean ball, or nowhere."""
    return isinstance(domain, WholeSpace) or (isinstance(domain, LpBall) and domain.p == 2.0)


def projects_exactly(domain: Any) -> bool:
    """Return whether projection onto the domain is a formula, right up to a few roundings."""
    if isinstance(domain, LpBall):
        return domain.p in (1.0, 2.0, math.inf)
    return isinstance(domain, (WholeSpace, Box, Simplex))
