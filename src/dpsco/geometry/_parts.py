"""Parts of norms: exponents, weights and groups, each checked in one place."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._validate import integer, real, refusal, shown
from ..errors import ParameterError

Groups = tuple[tuple[int, ...], ...]


def exponent(name: str, value: float) -> float:
    """Return an exponent from 1 to inf."""
    p = real(name, value)
    if p < 1.0:
        raise refusal(name, f"must be at least 1, got {p!r}: below it is no norm.")
    return p


def conjugate(p: float) -> float:
    """Return q with 1/p + 1/q = 1."""
    if p == 1.0:
        return math.inf
    return 1.0 if p == math.inf else p / (p - 1.0)


def positive_weights(weights: ArrayLike) -> NDArray[np.float64]:
    """Return the weights as a vector, positive and finite like their inverses."""
    try:
        found = np.array(weights, dtype=float)
    except (TypeError, ValueError):
        raise ParameterError("weights must be a list of numbers.") from None
    with np.errstate(all="ignore"):
        usable = np.all((found > 0.0) & np.isfinite(found) & np.isfinite(1.0 / found))
    if found.ndim != 1 or found.size == 0 or not usable:
        raise ParameterError(
            "weights must be a list of positive finite numbers (with finite inverses): a weight of "
            "zero gives no norm. Leave such a coordinate out."
        )
    return found


def partition(groups: Iterable[Iterable[int]]) -> Groups:
    """Return the groups as tuples, after a check that each coordinate is in exactly one."""
    try:
        found = tuple(
            tuple(integer("a group's entry", j, at_least=0) for j in group) for group in groups
        )
    except TypeError:
        raise ParameterError(
            f"groups must be a list of lists of coordinates, got {shown(groups)}."
        ) from None
    together = sorted(j for group in found for j in group)
    if not together or together != list(range(len(together))) or not all(found):
        raise ParameterError(
            "groups must not be empty and must hold each of the coordinates 0, ..., d - 1 exactly "
            "once. Put coordinates without a group into groups of their own."
        )
    return found


def by_size(groups: Groups) -> tuple[tuple[NDArray[np.intp], NDArray[np.intp]], ...]:
    """Return, for each size, which groups have it and their members as a table."""
    sizes: dict[int, list[int]] = {}
    for number, group in enumerate(groups):
        sizes.setdefault(len(group), []).append(number)
    return tuple(
        (np.array(which, dtype=np.intp), np.array([groups[k] for k in which], dtype=np.intp))
        for which in sizes.values()
    )
