"""Records of releases whose privacy rests on a theorem about the computation before the noise.

Unlike a clipped sum, an averaged iterate or a minimiser has no ``bound`` that one row contributes.
What is known is how far neighbours move it: a ``sensitivity`` from :mod:`.stability`, which has the
adjacency in it already, so that the record names the ``adjacency`` and the ``theorem``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ... import _validate
from ...errors import ParameterError
from ...files.limits import MOST_COUNT, MOST_WEIGHTS
from ..release import Release, store

STABLE_ADJACENCIES = ("replace_one", "zero_out")
DIRECTIONS = ("glm", "subspace", "general")
_LONGEST_THEOREM = 200
_ADJACENCY_HINT = "A stability theorem needs a public number of rows, so add_remove has none."


@dataclass(frozen=True)
class StableGaussianRelease(Release):
    """A vector that neighbours under ``adjacency`` move by l2 <= sensitivity, plus N(0, sigma^2 I).

    ``theorem`` names the result that the sensitivity comes from.
    """

    kind: ClassVar[str] = "stable_gaussian"
    sensitivity: float
    sigma: float
    adjacency: str
    theorem: str

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_theorem(self)


@dataclass(frozen=True)
class StableGammaRelease(Release):
    """A vector that neighbours move by l2 <= sensitivity, plus noise ~ exp(-|z|_2/scale).

    The noise is a uniform direction times a Gamma(d, scale) length: purely private.
    """

    kind: ClassVar[str] = "stable_gamma"
    sensitivity: float
    scale: float
    adjacency: str
    theorem: str

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_theorem(self)


@dataclass(frozen=True)
class WithReplacementRelease(Release):
    """The average of ``steps`` SGD iterates, rows drawn i.i.d. and in secret, plus N(0, sigma^2 I).

    Given the drawn indices, neighbours move the average of the iterates before each step by at
    most ``hit * K + (2/3) drift sqrt(steps) [K > 0]``, K the sum of (steps - s)/steps over the
    steps s that drew the row: a step on the row moves the iterate by ``hit``, any other step takes
    a distance D to at most sqrt(D^2 + drift^2).
    """

    kind: ClassVar[str] = "random_hits"
    hit: float
    drift: float
    steps: int
    sigma: float
    adjacency: str
    theorem: str

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_theorem(self)
        store(self, "hit", _validate.positive("hit", self.hit))
        store(self, "drift", _validate.non_negative("drift", self.drift))
        store(self, "steps", _validate.integer("steps", self.steps, at_least=2, at_most=MOST_COUNT))


@dataclass(frozen=True)
class ObjectivePerturbationRelease(Release):
    """The minimiser over a convex set of a randomly tilted objective, plus N(0, output_sigma^2 I).

    The objective is ``sum_i f(w, z_i) + <b, w> + (floor/2) |w|^2`` over the rows, b ~ N(0, sigma^2
    I), and what is noised lies within ``distance`` (l2) of its exact minimiser. Each f(., z) is
    convex, with gradients of norm <= ``bound``, Hessians of norm <= ``curvature`` and rank <=
    ``rank``. ``directions`` says where one row's gradients point as w moves:

    glm       along one fixed direction (generalised linear models; rank 1)
    subspace  within a fixed subspace of ``span`` dimensions
    general   anywhere in the ``dimension`` dimensions of w
    """

    kind: ClassVar[str] = "objective_perturbation"
    theorem: ClassVar[str] = (
        "Redberg, Koskela, Wang 2023 and Su, Zhao, Wang 2023: privacy of perturbed minimisers"
    )
    bound: float
    sigma: float
    curvature: float
    floor: float
    rank: int
    directions: str
    distance: float
    output_sigma: float
    span: int | None = None
    dimension: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.choice("directions", self.directions, DIRECTIONS)
        store(self, "curvature", _validate.non_negative("curvature", self.curvature))
        store(self, "rank", _validate.integer("rank", self.rank, at_most=MOST_WEIGHTS))
        for name in ("floor", "distance", "output_sigma"):
            store(self, name, _validate.positive(name, getattr(self, name)))
        for name, needed in (("span", "subspace"), ("dimension", "general")):
            value = getattr(self, name)
            if self.directions == needed:
                store(self, name, _validate.integer(name, value, at_most=MOST_WEIGHTS))
            elif value is not None:
                raise ParameterError(
                    f"{name} belongs to directions={needed!r}, got {_validate.shown(value)} with "
                    f"directions={self.directions!r}. Leave it out."
                )
        if self.directions == "glm" and self.rank != 1:
            raise ParameterError(
                f"a generalised linear model has rank 1, got rank={self.rank}. For vector-valued "
                "models use directions='subspace' with their span."
            )


def _check_theorem(record: Any) -> None:
    """Check the adjacency and the theorem's name."""
    _validate.choice("adjacency", record.adjacency, STABLE_ADJACENCIES, hint=_ADJACENCY_HINT)
    text = record.theorem
    if not isinstance(text, str) or not text.strip() or len(text) > _LONGEST_THEOREM:
        raise ParameterError(
            f"theorem must name the result that the sensitivity rests on, in 1 to "
            f"{_LONGEST_THEOREM} characters, got {_validate.shown(text)}."
        )
