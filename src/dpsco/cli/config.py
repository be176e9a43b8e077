"""What a command line says about a model, a budget and a plan; all of it is public."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from .._validate import choice, integer
from ..data.schema.schema import Schema
from ..errors import DataError, ParameterError
from ..files import limits as _limits
from ..files.reading import read_bytes
from ..fit import run as api
from ..models.config import configure, usual_model
from ..models.plan import ModelPlan
from ..models.spec import MODELS
from ..models.tables import TableModel, model_of_table, plan_table
from ..privacy.budget import Budget, fit_budget
from ..solvers.base import BasePlan


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
    return model_of_table(schema, _model_name(options), **_parameters(options))


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
    options: argparse.Namespace,
    model: TableModel,
    n: int,
    *,
    single_epoch: bool = False,
    whole: Budget | None = None,
    solver: str | None = None,
) -> ModelPlan:
    """Return the plan of a fit on ``n`` rows, perhaps with another budget or solver."""
    return plan_table(
        model,
        n,
        budget(options, n) if whole is None else whole,
        solver=options.solver if solver is None else solver,
        calibration=options.calibration,
        options=dict(options.option),
        prefer=options.prefer,
        single_epoch=single_epoch,
        sums=getattr(options, "cluster", None) is not None,
        count_rows=options.count_rows,
        units=options.units or "auto",
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
