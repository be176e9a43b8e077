"""Count what a run computes on the rows: an attacker who times it must learn nothing from it.

Counted are reads and sums of rows, gradients and Hessians of objectives, steps of sequential
passes, and minimisations of quadratic models. Time within one of them is not looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from ..data.objective import Objective
from ..data.source import MemorySource, Source
from ..kernels.sgd import Job
from ..solvers.common import quadratic
from ..solvers.common.glm_objective import GlmObjective

_CALLS: tuple[tuple[type, str, str], ...] = (
    (Source, "sum", "sums"),
    (Source, "sum_at", "sums"),
    (Source, "take", "reads"),
    (Source, "rows", "reads"),
    (MemorySource, "rows", "reads"),
    (GlmObjective, "gradient", "gradients"),
    (GlmObjective, "hessian", "hessians"),
    (GlmObjective, "hessian_product", "products"),
    (Objective, "value", "gradients"),
    (Objective, "value_and_gradient", "gradients"),
    (Objective, "hessian", "hessians"),
    (Objective, "hessian_product", "products"),
    *((kind, "step", "models") for kind in quadratic.MODELS),
)


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """Count while the block lasts; the counts are in what it gives."""
    counts: Counter[str] = Counter()
    with ExitStack() as stack:
        for kind, name, what in _CALLS:
            method = getattr(kind, name)
            stack.enter_context(mock.patch.object(kind, name, _counting(method, what, counts)))
        stack.enter_context(mock.patch.object(Job, "__init__", _steps(Job.__init__, counts)))
        yield counts


def _counting(method: Callable[..., Any], what: str, counts: Counter[str]) -> Callable[..., Any]:
    """Return the method, which counts."""

    def counting(self: Any, *arguments: Any, **named: Any) -> Any:
        counts[what] += 1
        return method(self, *arguments, **named)

    return counting


def _steps(method: Callable[..., Any], counts: Counter[str]) -> Callable[..., Any]:
    """Return a job's constructor, which counts the job's steps."""

    def counting(self: Any, *arguments: Any, **named: Any) -> None:
        method(self, *arguments, **named)
        counts["steps"] += self.count

    return counting
