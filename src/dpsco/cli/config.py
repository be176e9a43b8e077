"""What a command line says about a model, a budget and a plan; all of it is public."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._validate import choice, integer
from ..data.schema.encoder import TableEncoder
from ..data.schema.schema import Schema
from ..errors import DataError, ParameterError
from ..files import limits as _limits
from ..files.reading import read_bytes
from ..fit import run as api
from ..models.config import (
    ModelConfig,
    config_of,
    configure,
    configure_for,
    declared_classes,
    require_label,
    usual_model,
)
from ..models.plan import ModelPlan, plan_model
from ..models.spec import MODELS
from ..privacy.budget import Budget, fit_budget
from ..solvers.base import BasePlan


@dataclass(frozen=True)
class TableModel:
    """A model, and the rows that it is fitted on: how many features, and how they are encoded."""

    config: ModelConfig
    d: int
    encoder: TableEncoder | None = None  # where there is a schema


def from_options(options: argparse.Namespace) -> TableModel:
    """Return the model of options without a table: by a schema, or by the number of columns.

    Raises:
        ParameterError: a public fact is missing, given twice or out of range.
    """
    if options.n is not None:
        integer("--n", options.n)
    if options.schema is not None:
        for name in ("d", "classes", "label_range"):
            if getattr(options, name) is not None:
                flag = name.replace("_", "-")
                raise ParameterError(f"the schema says what --{flag} is: leave one of them out.")
        return from_schema(options, Schema.load(options.schema))
    if options.d is None:
        raise ParameterError("give --schema FILE, or the number of features with --d.")
    d = integer("--d", options.d)
    name = _model_name(options) or usual_model(numeric=options.label_range is not None)
    classes = None
    if MODELS[name].classifies:
        if options.label_range is not None:
            raise ParameterError(f"a {name} model has classes, no --label-range: give --classes.")
        classes = _classes(options.classes)
    elif options.classes is not None:
        raise ParameterError(f"a {name} model predicts numbers: give --label-range LOW HIGH.")
    config = configure(
        name,
        classes=classes,
        label_range=None if options.label_range is None else tuple(options.label_range),
        **_parameters(options),
    )
    return TableModel(config, d)


def from_schema(options: argparse.Namespace, schema: Schema) -> TableModel:
    """Return the model of options on tables that a schema describes.

    Raises:
        ParameterError: the schema has no label, or one that the model does not predict.
    """
    config = configure_for(schema, _model_name(options), **_parameters(options))
    encoder = TableEncoder(schema)
    return TableModel(config, encoder.width, encoder)


def from_plan(plan: BasePlan, schema: Schema) -> TableModel:
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


def budget(options: argparse.Namespace, n: int) -> Budget:
    """Return the budget of a fit on ``n`` rows.

    Raises:
        ParameterError: there is no epsilon, or too few rows for the default delta.
    """
    if options.epsilon is None:
        raise ParameterError("give the budget with --epsilon; often it lies from 0.1 to 10.")
    return fit_budget(
        n,
        epsilon=options.epsilon,
        delta=options.delta,
        adjacency=options.adjacency,
        rows_per_person=options.rows_per_person,
    )


def make_plan(
    options: argparse.Namespace, model: TableModel, n: int, *, single_epoch: bool = False
) -> ModelPlan:
    """Return the plan of a fit on ``n`` rows."""
    whole = budget(options, n)
    return plan_model(
        model.config,
        n=n,
        d=model.d,
        budget=whole,
        solver=options.solver,
        calibration=options.calibration,
        options=dict(options.option),
        single_epoch=single_epoch,
        count_rows=options.count_rows,
        encoder=model.encoder,
        units=options.units or "auto",
        reread=not single_epoch,  # of a fit with a checkpoint nothing is read before
        sparse=model.encoder is not None and model.encoder.sparse,
    )


def load_plan(path: Path) -> BasePlan:
    """Return the plan in a file that ``dpsco plan -o`` wrote.

    Raises:
        DataError: it cannot be read, or is no plan.
    """
    try:
        most = _limits.PLAN.size
        text = read_bytes(path, what="the plan", most=most, error=DataError)
        return api.load_plan(text)
    except ParameterError as problem:
        raise DataError(f"{path}: {problem}") from None


def _parameters(options: argparse.Namespace) -> dict[str, Any]:
    """Return the parameters of a model that do not depend on its label."""
    return {
        "feature_norm": options.feature_norm,
        "intercept": not options.no_intercept,
        "radius": options.radius,
        "alpha": options.alpha,
        "scale": options.scale,
        "settings": dict(options.setting),
    }


def _model_name(options: argparse.Namespace) -> str | None:
    """Return the name of the model, if one is named."""
    return None if options.model is None else choice("--model", options.model, tuple(MODELS))


def _classes(text: str | None) -> tuple[Any, ...] | range:
    """Return the classes: so many, or with names."""
    if text is None:
        raise ParameterError(
            "a classifier needs --classes: how many there are, or their names, a,b,c. Or give "
            "--schema FILE, or --label-range LOW HIGH to predict a number."
        )
    if text.isdigit():
        return range(int(text))
    return tuple(text.split(","))
