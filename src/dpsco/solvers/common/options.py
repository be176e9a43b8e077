"""Checks of options that several families have, in one wording."""

from __future__ import annotations

from ... import _validate
from ...errors import AssumptionError, ParameterError
from ...privacy.budget import ApproxDP
from ...task import Task


def checked_p(p: float, *, beyond: str = "work in l2 (p=2.0)") -> float:
    """Return a p from 1 to 2; ``beyond`` says what to do for larger ones."""
    value = _validate.real("p", p)
    if not 1.0 <= value <= 2.0:
        raise ParameterError(
            f"p must lie between 1 and 2, got {value!r}: for p above 2 {beyond}.", parameter="p"
        )
    return value


def published_budget(task: Task, *, otherwise: str) -> ApproxDP:
    """Return the budget of a published schedule; ``otherwise`` is the schedule for any budget.

    Raises:
        AssumptionError: the budget has no epsilon and delta.
    """
    if not isinstance(task.budget, ApproxDP):
        raise AssumptionError(
            f"schedule='paper' is written in epsilon and delta, and the budget is {task.budget}. "
            f"Take schedule={otherwise!r}, or an ApproxDP budget."
        )
    return task.budget
