"""A model of tables that a schema describes: its plan, the plan's file, and what a fit hands back.

Whoever has a schema, a number of rows and a budget (the command line, the local page) plans here,
so that the same facts make the same plan file, byte for byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..data.schema.encoder import TableEncoder
from ..data.schema.schema import Schema
from ..errors import DataError, ParameterError
from ..privacy.budget import Budget
from ..solvers.base import BasePlan
from .config import ModelConfig, config_of, configure_for, declared_classes, require_label
from .file import SavedModel
from .plan import ModelPlan, Outcome, UnitsChoice, plan_model
from .provenance import Provenance


@dataclass(frozen=True)
class TableModel:
    """A model, and the rows that it is fitted on: how many features, and how they are encoded."""

    config: ModelConfig
    d: int
    encoder: TableEncoder | None = None  # where there is a schema


def model_of_table(schema: Schema, name: str | None = None, **parameters: Any) -> TableModel:
    """Return a model of tables that a schema describes.

    Args:
        schema: declares the label, and how long a row can be.
        name: a key of `MODELS`; by default the usual one of such labels.
        parameters: as in `configure_for`.

    Raises:
        ParameterError: the schema has no label, or one that the model does not predict.
    """
    config = configure_for(schema, name, **parameters)
    encoder = TableEncoder(schema)
    return TableModel(config, encoder.width, encoder)


def model_of_plan(plan: BasePlan, schema: Schema) -> TableModel:
    """Return the model that a plan was made for, on tables that a schema describes.

    Raises:
        DataError: the plan says of no model that it is for, or is for other rows or classes.
    """
    encoder, again = TableEncoder(schema), "Make the plan with this schema: dpsco plan --schema."
    try:
        config = config_of(plan)
    except ParameterError as problem:
        raise DataError(f"the plan cannot be used: {problem}") from None
    if config is None:
        raise DataError(f"the plan does not say which model it is for. {again}")
    if plan.d != encoder.width:
        raise DataError(
            f"the plan is for a {config.name} model of rows of {plan.d} features, the schema makes "
            f"rows of {encoder.width}. {again}"
        )
    if config.classes != declared_classes(require_label(schema)):
        raise DataError(f"the plan is for other labels than the schema declares. {again}")
    return TableModel(config, plan.d, encoder)


def plan_table(
    model: TableModel,
    n: int,
    budget: Budget,
    *,
    solver: str = "auto",
    calibration: str = "tight",
    options: Mapping[str, Any] | None = None,
    single_epoch: bool = False,
    sums: bool = False,
    count_rows: bool | None = None,
    units: UnitsChoice = "auto",
    prefer: str = "accuracy",
) -> ModelPlan:
    """Return the plan of a fit on ``n`` rows; arguments as in `plan_model`."""
    return plan_model(
        model.config,
        n=n,
        d=model.d,
        budget=budget,
        solver=solver,
        calibration=calibration,
        options=options,
        single_epoch=single_epoch,
        sums=sums,
        count_rows=count_rows,
        encoder=model.encoder,
        units=units,
        reread=not single_epoch,  # of a fit with a checkpoint nothing is read before
        sparse=model.encoder is not None and model.encoder.sparse,
        prefer=prefer,
    )


def plan_text(planned: ModelPlan) -> str:
    """Return the text of the plan's file."""
    return planned.fit.to_json() + "\n"


def saved_model(
    planned: ModelPlan,
    outcome: Outcome,
    encoder: TableEncoder,
    *,
    provenance: Provenance | None = None,
) -> SavedModel:
    """Return what a fit is saved as: the model with its certificate, plan and schema."""
    return SavedModel(
        outcome.model,
        outcome.result.certificate,
        planned.fit,
        encoder.schema,
        encoder.feature_names,
        outcome.count,
        provenance,
    )
