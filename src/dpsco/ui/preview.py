"""What an epsilon would mean, before a row is read: utility, attack, and what is left to spend.

Everything here follows from the schema, the number of rows, the budget and what the odometer has
paid for. The plan is the one that `dpsco plan` makes of the same facts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .._validate import refusal, shown
from ..data.schema.encoder import TableEncoder
from ..data.schema.made_up import made_up_features
from ..data.schema.schema import Schema
from ..data.tables.written import number_in
from ..errors import BudgetError
from ..fit.outlook import Outlook, outlook
from ..fit.tradeoff import AUTO, Tradeoff, TradeoffPoint, tradeoff_of
from ..models.plan import ModelPlan
from ..models.rehearsal import rehearse_model
from ..models.tables import TableModel, model_of_table, plan_table, plan_text
from ..privacy.accounting.attack_roc import AttackBound, Odds
from ..privacy.accounting.composition import Cost
from ..privacy.budget import Budget, budget_warnings, fit_budget
from ..privacy.odometer.odometer import Odometer
from ..solvers.base import BasePlan
from ..task import Task

EPSILONS = (
    0.05, 0.07, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5, 1.75, 2.0,
    2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0,
)  # fmt: skip
"""Where the slider stops; any other value can be typed."""

CURVE = (0.1, 0.3, 1.0, 3.0, 10.0)
"""Whose points the picture joins."""


@dataclass(frozen=True)
class Facts:
    """What is typed about a fit; all of it is public."""

    epsilon: float = 1.0
    model: str | None = None  # by default the usual one of such labels
    delta: float | None = None  # by default 1/n^2
    base_rate: float | None = None  # of two classes
    label_spread: float | None = None

    @property
    def of_labels(self) -> dict[str, Any]:
        """What is public of the labels."""
        return {"base_rate": self.base_rate, "label_spread": self.label_spread}

    @classmethod
    def typed(cls, fields: Mapping[str, str]) -> Facts:
        """Return what a form says.

        Raises:
            ParameterError: a field that must be a number is none.
        """
        epsilon = _number("epsilon", fields, "Often it lies from 0.1 to 10.")
        if epsilon is None:
            raise refusal("epsilon", "is empty.", "Often it lies from 0.1 to 10.")
        return cls(
            epsilon,
            fields.get("model", "").strip() or None,
            _number("delta", fields, "Leave it empty for 1/n^2."),
            _number("base_rate", fields, "Leave it empty if it is not public."),
            _number("label_spread", fields, "Leave it empty if it is not public."),
        )


def _number(name: str, fields: Mapping[str, str], hint: str) -> float | None:
    """Return the number that a field holds, None if it is empty."""
    text = fields.get(name, "").strip()
    if not text:
        return None
    number = number_in(text)
    if number is None:
        raise refusal(name, f"must be a number, got {shown(text)}.", hint)
    return number


@dataclass(frozen=True)
class Preview:
    """A plan, what to expect of it, and what it would leave."""

    facts: Facts
    planned: ModelPlan
    outlook: Outlook
    attack: AttackBound  # what no attack can exceed
    spent: float  # by the odometer so far, in its own notion of privacy
    after: float  # with this fit
    allowed: float

    @property
    def fits(self) -> bool:
        """Whether the odometer would pay."""
        return self.after <= self.allowed

    @property
    def digest(self) -> str:
        """What tells this plan from every other: a page says which one it has shown."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def text(self) -> str:
        """The plan file."""
        return plan_text(self.planned)

    @property
    def warnings(self) -> Sequence[str]:
        """What is odd about the budget, or poor about the outlook."""
        plan = self.planned.fit
        sentences = budget_warnings(plan.budget, plan.n)
        return sentences if self.outlook.promising else [*sentences, self.outlook.sentence]

    def check(self) -> None:
        """Refuse what the odometer would not pay.

        Raises:
            BudgetError: it allows less.
        """
        if not self.fits:
            raise BudgetError(
                f"this fit would bring the spent budget from {self.spent:.6g} to {self.after:.6g}, "
                f"and the odometer allows {self.allowed:.6g}. Nothing was recorded or released. "
                "Choose a smaller epsilon, or accept that this dataset is used up."
            )


def preview(facts: Facts, schema: Schema, rows: int, odometer: Odometer) -> Preview:
    """Return what a fit would do, cost and leave.

    Args:
        facts: what was chosen.
        schema: of the table.
        rows: how many there are.
        odometer: that would pay; it says which tables are neighbours, and whom it protects.

    Raises:
        ParameterError: a fact is out of range.
        AssumptionError: no solver is for such a task.
    """
    total, budget = odometer.budget, _budget(facts, rows, odometer)
    planned = plan_table(model_of_table(schema, facts.model), rows, budget)
    plan = planned.fit
    after, allowed = odometer.cost_with(planned.releases()).against(total)
    return Preview(
        facts,
        planned,
        outlook(plan.task, solver=plan.solver, **facts.of_labels),
        Odds(planned.cost).bound,
        odometer.cost().against(total)[0],
        after,
        allowed,
    )


def curve(facts: Facts, schema: Schema, rows: int, odometer: Odometer) -> Tradeoff:
    """Return what to expect for several epsilons, the chosen one among them.

    Arguments and refusals as in `preview`.
    """
    model, task = _task(facts, schema, rows, odometer)

    def planner(task: Task, key: str) -> tuple[BasePlan, Cost]:
        planned = plan_table(model, rows, task.budget, solver=key)
        return planned.fit, planned.cost

    epsilons = {*CURVE, facts.epsilon}
    return tradeoff_of(task, epsilons, planner, solvers=AUTO, **facts.of_labels)


def rehearse(facts: Facts, schema: Schema, rows: int, odometer: Odometer) -> TradeoffPoint:
    """Return what fits on made-up rows measured; it costs nothing, and reads no private row.

    Arguments and refusals as in `preview`; tables that are too large to make up are refused.
    """
    model, task = _task(facts, schema, rows, odometer)
    encoder = TableEncoder(schema)

    def planner(task: Task, key: str) -> ModelPlan:
        return plan_table(model, rows, task.budget, solver=key)

    def features(count: int, draws: Any) -> Any:
        return made_up_features(encoder, count, draws.uniforms)

    measured = rehearse_model(
        model.config, task, planner, None, facts.epsilon, features=features, **facts.of_labels
    )
    return measured.at(facts.epsilon)


def _task(facts: Facts, schema: Schema, rows: int, odometer: Odometer) -> tuple[TableModel, Task]:
    """Return the model, and the public side of its fit."""
    model = model_of_table(schema, facts.model)
    return model, Task(model.config.problem(), rows, model.d, _budget(facts, rows, odometer))


def _budget(facts: Facts, rows: int, odometer: Odometer) -> Budget:
    """Return the budget of a fit, for the neighbours and the owners of the odometer's."""
    total = odometer.budget
    return fit_budget(
        rows,
        epsilon=facts.epsilon,
        delta=facts.delta,
        adjacency=total.adjacency,
        rows_per_person=total.unit.rows,
    )
