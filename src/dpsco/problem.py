"""What is minimised: a loss over rows within bounds, weights within a domain, perhaps a penalty.

    minimise  E f(w; x, y) + penalty(w)   over w in the domain.

Everything here is public. `Problem.facts` gathers what plans ask of it for a given public size.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _validate
from .data.bounds import Bounds
from .data.labels import require_labels
from .data.row_norms import check_limit
from .errors import AssumptionError, ParameterError
from .files import limits as _limits
from .geometry.domains import Domain, WholeSpace
from .geometry.norms import Lp
from .losses.base import Constants, Hoelder, MarginLoss
from .losses.penalties import L2Penalty, NoPenalty, Penalty
from .losses.vector import VectorLoss

Floats = NDArray[np.float64]
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
                raise ParameterError(
                    f"a problem's {name} must be one of dpsco's, for example {example[name]}; got "
                    f"{_validate.shown(getattr(self, name))}."
                )
        if self.scale is not None:
            object.__setattr__(self, "scale", _validate.positive("scale", self.scale))
        require_labels(self.loss, self.bounds.label)

    def facts(self, n: int, d: int) -> Facts:
        """Return what is known of the problem for ``n`` rows of ``d`` features."""
        n = _validate.integer("n", n, at_most=_limits.MOST_ROWS)
        d = _validate.integer("d", d, at_most=_limits.MOST_WEIGHTS)
        try:
            return _facts(self, n, d)
        except TypeError:  # a user's own loss need not be hashable
            return Facts(self, n, d)

    def __repr__(self) -> str:
        label = "" if self.bounds.label is None else f", label={self.bounds.label!r}"
        norm = f"feature_norm={self.bounds.feature_norm:g}"
        tail = "" if isinstance(self.penalty, NoPenalty) else f", {self.penalty!r}"
        return f"Problem({self.loss!r} over {self.domain!r}, Bounds({norm}{label}){tail})"


class Facts:
    """Public facts of a problem of ``n`` rows and ``d`` features, as every plan needs them."""

    def __init__(self, problem: Problem, n: int, d: int) -> None:
        self.problem, self.n, self.d = problem, n, d
        loss, bounds, domain = problem.loss, problem.bounds, problem.domain
        self.columns: int = bounds.width(d)  # the intercept included
        glm = isinstance(loss, MarginLoss)
        self.size: int = self.columns if glm else loss.dimension(self.columns)  # type: ignore[union-attr]
        _validate.integer("the number of weights", self.size, at_most=_limits.MOST_WEIGHTS)
        if domain.dimension not in (None, self.size):
            raise ParameterError(
                f"the domain {domain!r} has {domain.dimension} coordinates, but {loss.name} has "
                f"{self.size} weights for rows of {d} features."
            )
        self.feature: float = bounds.row_norm
        self.label: float = bounds.label_bound if glm and loss.labels != "sign" else 1.0
        self.radius: float = domain.radius(self.size)  # from the centre; may be infinite
        self.reach: float = domain.reach(self.size)  # from the origin
        self.constants: Constants = loss.constants(
            feature=self.feature, label=self.label, radius=self.reach
        )
        self.distance: float = self._distance()
        self.ridge: float = (
            problem.penalty.strength if isinstance(problem.penalty, L2Penalty) else 0.0
        )

    @property
    def glm(self) -> bool:
        """Whether a row's loss is a function of one margin."""
        return isinstance(self.problem.loss, MarginLoss)

    @property
    def euclidean(self) -> bool:
        """Whether rows are bounded in the l2 norm."""
        norm = self.problem.bounds.norm
        return isinstance(norm, Lp) and norm.p == 2.0

    @property
    def lipschitz(self) -> float:
        """G: the largest gradient of a row over the domain; may be infinite."""
        return self.constants.lipschitz

    @property
    def smoothness(self) -> float:
        """The Lipschitz constant of a row's gradient; infinite where there is none."""
        return self.constants.smoothness

    @property
    def hoelder(self) -> tuple[Hoelder, ...]:
        """Every known pair (alpha, L_alpha) of the gradient in w, the loss's own first."""
        loss = self.problem.loss
        if not isinstance(loss, MarginLoss):
            return (self.constants.hoelder,)
        return tuple(
            Hoelder(view.alpha, view.constant * self.feature ** (1 + view.alpha))
            for view in loss.hoelder_views()
        )

    @property
    def start(self) -> Floats:
        """The first iterate: the domain's centre."""
        return self.problem.domain.centre(self.size)

    def gradient_bound(self, clip: float | None) -> float:
        """Return the l2 bound on a row's gradient that a solver enforces by clipping.

        The loss's own bound, unless ``clip`` is smaller. Without either: the gradient at the
        centre of a problem whose weights lie within ``distance``.

        Raises:
            AssumptionError: there is none, and no ``clip``; or all gradients are zero.
            ParameterError: the ``clip`` is no length that a query can clip to.
        """
        bound = self.lipschitz
        if not math.isfinite(bound):
            bound = self.problem.loss.constants(
                feature=self.feature, label=self.label, radius=self.distance
            ).lipschitz
        if clip is not None:
            bound = min(bound, check_limit("clip", clip))
        if not 0.0 < bound < math.inf:
            problem, what = self.problem, "unbounded" if bound else "zero everywhere"
            raise AssumptionError(
                f"a bound on a row's gradient is needed, and that of {problem.loss.name} over "
                f"{problem.domain!r} is {what}. "
                + ("Pass options={'clip': ...}." if bound else "There is nothing to minimise.")
            )
        return bound

    @property
    def start_gradient(self) -> float:
        """The largest gradient of a row at the start: a clip that cuts only rows gone wrong.

        Later gradients that are longer belong to rows that the model predicts worse than it did at
        the start; cutting them makes the loss grow linearly there, and halves the noise of a
        logistic regression.
        """
        norm = float(np.linalg.norm(self.start))
        found: Constants = self.problem.loss.constants(
            feature=self.feature, label=self.label, radius=norm
        )
        return min(found.lipschitz, self.lipschitz)

    @property
    def margin_scale(self) -> float:
        """How large good predictions are: the label bound, or 1 for signs and classes."""
        return self.label if self.label > 0.0 else 1.0

    def _distance(self) -> float:
        """Return how far from the centre good weights may lie.

        The user's guess, else the domain's radius. Where that is infinite, weights of a size that
        fits typical tables: coordinates of about 2 / feature for classes (margins of a few units),
        and of a third of label / feature for numbers, whose predictions stay within the labels.
        """
        scale = self.problem.scale
        if scale is not None:
            return min(scale, self.radius)
        if math.isfinite(self.radius):
            return self.radius
        kind = self.problem.loss.labels
        coordinate = self.margin_scale / 3 if kind in ("real", "count", "none") else 2.0
        return coordinate * math.sqrt(self.size) / self.feature


@lru_cache(maxsize=64)
def _facts(problem: Problem, n: int, d: int) -> Facts:
    return Facts(problem, n, d)


def is_ball(domain: Any) -> bool:
    """Return whether projection onto the domain is onto a Euclidean ball, or nowhere."""
    from .geometry.domains import LpBall

    return isinstance(domain, WholeSpace) or (isinstance(domain, LpBall) and domain.p == 2.0)
