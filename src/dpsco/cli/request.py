"""What a command line asks for, as a model's setup, a budget and a plan; all of it is public."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .._validate import choice, integer
from ..data.schema.encoder import TableEncoder
from ..data.schema.schema import ClassLabel, Label, NumberLabel, Schema
from ..errors import AssumptionError, DataError, ParameterError
from ..files import limits as _limits
from ..files.reading import read_bytes
from ..fit import run as api
from ..fit.choose import choose
from ..models.config import ModelConfig, configure
from ..models.spec import MODELS
from ..privacy.budget import ApproxDP, Budget, PureDP, fit_budget
from ..solvers import registry
from ..solvers.base import BasePlan
from ..task import Task

_LARGE = 20.0  # an epsilon above is next to no protection

_KIND_OF = {
    "Logistic": "logistic",
    "Softmax": "logistic",
    "Hinge": "svc",
    "SquaredHinge": "svc",
    "QHinge": "svc",
    "OneVersusRest": "svc",
    "Squared": "linear",
    "Huber": "huber",
    "Pinball": "quantile",
    "Absolute": "absolute",
    "EpsilonInsensitive": "epsilon_insensitive",
}
"""The model that minimises a loss."""


@dataclass(frozen=True)
class Request:
    """A model to be fitted on rows of ``d`` features."""

    setup: ModelConfig
    d: int


def from_options(options: argparse.Namespace) -> Request:
    """Return what is asked for without a table: by a schema, or by the number of columns.

    Raises:
        ParameterError: a public fact is missing, or given twice.
    """
    if options.schema is not None:
        for name in ("d", "classes", "label_range"):
            if getattr(options, name) is not None:
                flag = name.replace("_", "-")
                raise ParameterError(f"the schema says what --{flag} is: leave one of them out.")
        return from_schema(options, Schema.load(options.schema))
    if options.d is None:
        raise ParameterError("give --schema FILE, or the number of features with --d.")
    d = integer("--d", options.d)
    ranged = options.label_range is not None
    kind = _kind(options, numeric=ranged)
    classes = None
    if MODELS[kind].classifies:
        classes = _classes(options.classes)
    elif options.classes is not None:
        raise ParameterError(f"a {kind} model predicts numbers: give --label-range LOW HIGH.")
    return Request(_setup(options, kind, options.feature_norm, classes, options.label_range), d)


def encoder_of(options: argparse.Namespace) -> TableEncoder | None:
    """Return the encoder of the schema that is named, if one is."""
    return None if options.schema is None else TableEncoder(Schema.load(options.schema))


def from_schema(options: argparse.Namespace, schema: Schema) -> Request:
    """Return what is asked for on tables that a schema describes.

    Raises:
        ParameterError: the schema has no label, or one that the model does not predict.
    """
    encoder, label = TableEncoder(schema), require_label(schema)
    numeric = isinstance(label, NumberLabel)
    kind = _kind(options, numeric=numeric)
    if MODELS[kind].classifies == numeric:
        has, wants = ("a range of numbers", "classes") if numeric else ("classes", "numbers")
        raise ParameterError(
            f"a {kind} model predicts {wants}, but the schema's label {label.name!r} is of {has}. "
            f"Choose another --model, or declare the label otherwise."
        )
    norm = encoder.feature_norm
    if options.feature_norm is not None:
        norm = min(norm, options.feature_norm)  # no encoded row is longer than the first
    if isinstance(label, NumberLabel):
        setup = _setup(options, kind, norm, None, (label.low, label.high))
    else:
        codes = range(len(label.values)) if isinstance(label, ClassLabel) else (-1, 1)
        setup = _setup(options, kind, norm, codes, None)
        bounds = replace(setup.bounds, label=encoder.label_rule)  # what the encoder makes of labels
        setup = replace(setup, bounds=bounds, classes=declared_classes(label))
    return Request(setup, encoder.width)


def _kind(options: argparse.Namespace, *, numeric: bool) -> str:
    """Return the model that is asked for, or the usual one."""
    if options.model is None:
        return "linear" if numeric else "logistic"
    return choice("--model", options.model, tuple(MODELS))


def require_label(schema: Schema) -> Label:
    """Return the label that a schema declares."""
    if schema.label is None:
        raise ParameterError(
            'the schema declares no label, so there is nothing to predict. Add "label": {"name": '
            '..., "kind": "classes" or "number", ...} to it.'
        )
    return schema.label


def declared_classes(label: Label) -> tuple[Any, ...] | None:
    """Return the classes that a label may have, or None for numbers."""
    if isinstance(label, NumberLabel):
        return None
    return label.values if isinstance(label, ClassLabel) else (-1, 1)


def budget(options: argparse.Namespace, n: int) -> Budget:
    """Return the budget, with delta 1/n^2 unless another is given.

    Raises:
        ParameterError: there is no epsilon, or too few rows for the default delta.
    """
    if options.epsilon is None:
        raise ParameterError("give the budget with --epsilon; often it lies from 0.1 to 10.")
    with in_flags():
        return fit_budget(
            n,
            epsilon=options.epsilon,
            delta=options.delta,
            adjacency=options.adjacency,
            rows_per_person=options.rows_per_person,
        )


def warnings(plan: BasePlan) -> list[str]:
    """Return what is odd about a budget, from public task: it may be meant, but seldom is."""
    found, budget = [], plan.budget
    if isinstance(budget, ApproxDP) and budget.delta > 1.0 / plan.n:
        found.append(
            f"delta {budget.delta:.3g} is above 1/n = {1.0 / plan.n:.3g}: publishing a row picked "
            "at random would pass. Choose it well below, or leave --delta out for 1/n^2."
        )
    if isinstance(budget, (ApproxDP, PureDP)) and budget.epsilon > _LARGE:
        found.append(
            f"epsilon {budget.epsilon:g} is next to no protection; often it lies from 0.1 to 10."
        )
    return found


def rows_of(count: int) -> str:
    """Return a number of rows in words.

    >>> rows_of(1), rows_of(2000)
    ('1 row', '2,000 rows')
    """
    return f"{count:,} row{'' if count == 1 else 's'}"


@contextmanager
def in_flags() -> Iterator[None]:
    """Tell what the library refuses in the words of the command line."""
    try:
        yield
    except ParameterError as problem:
        raise ParameterError(_as_flags(str(problem))) from None


def make_plan(
    options: argparse.Namespace,
    request: Request,
    n: int,
    *,
    one_pass: bool = False,
    make: Callable[..., Any] = api.plan,
) -> Any:
    """Return the plan of a fit on ``n`` rows that ``make`` makes; if need be, of one pass."""
    problem = request.setup.problem()
    task: dict[str, Any] = {"n": n, "d": request.d, "budget": budget(options, n)}
    task |= {"calibration": options.calibration}
    given, solver = dict(options.option), options.solver
    if solver == "auto" and (one_pass or given):
        solver = choose(Task(problem, **task), single_epoch=one_pass, options=given)
    if options.solver == "auto" and given:
        _check_options(solver, given)
    try:
        return make(problem, solver=solver, options=given, **task)
    except AssumptionError as refusal:
        raise AssumptionError(_as_flags(str(refusal))) from None


def _check_options(solver: str, given: dict[str, Any]) -> None:
    """Refuse options that the solver does not have which nobody named; say which ones have them."""
    found = registry()
    unknown = [name for name in given if name not in found[solver].options]
    if not unknown:
        return
    have = [key for key, entry in found.items() if set(given) <= set(entry.options)]
    once = [key for key in have if found[key].single_epoch is not None]
    named = f"of one pass {', '.join(once)} have it" if once else f"{', '.join(have)} would do"
    instead = f"Name one with --solver: {named}." if have else "See `dpsco solvers`."
    raise ParameterError(
        f"without --solver {solver} is chosen, which has no option {unknown[0]!r}. {instead}"
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


def from_plan(plan: BasePlan, schema: Schema) -> Request:
    """Return the request that a plan was made for, on tables that a schema describes.

    Raises:
        DataError: the plan is for rows of another width, or for no model with a name.
    """
    encoder, label = TableEncoder(schema), require_label(schema)
    kind = _KIND_OF.get(plan.problem.loss.name)
    if kind is None or plan.d != encoder.width:
        raise DataError(
            f"the plan is for {plan.problem.loss.name} on rows of {plan.d} features, the schema "
            f"makes rows of {encoder.width}. Make the plan with this schema: dpsco plan --schema."
        )
    return Request(ModelConfig(kind, plan.problem.bounds, declared_classes(label)), plan.d)


def _setup(
    options: argparse.Namespace, kind: str, norm: float | None, classes: Any, ends: Any
) -> ModelConfig:
    """Return the setup with everything else that the options say of the model."""
    with in_flags():
        return configure(
            kind,
            feature_norm=norm,
            classes=classes,
            label_range=None if ends is None else tuple(ends),
            intercept=not options.no_intercept,
            radius=options.radius,
            alpha=options.alpha,
            scale=options.scale,
            settings=dict(options.setting),
        )


def _as_flags(message: str) -> str:
    """Return a message of the library in the words of the command line."""
    words = {
        "from PureDP: use ApproxDP(epsilon, delta)": "from --delta 0: leave --delta out for 1/n^2",
        "ApproxDP(epsilon, delta)": "with a --delta above 0",
        "pure privacy is PureDP(epsilon)": "--delta 0 asks for pure privacy",
        "delta must": "--delta must",
        "epsilon must": "--epsilon must",
        "unit.rows must": "--rows-per-person must",
        "rows_per_person must": "--rows-per-person must",
        "give delta,": "give --delta,",
        "radius must": "--radius must",
        "alpha must": "--alpha must",
        "scale must": "--scale must",
        "population_smoothness must": "--population-smoothness must",
        "rounds must": "--rounds must",
        "solvers must": "--solver must",
        "1/n**2": "1/n^2",
        "label_range=(low, high)": "--label-range LOW HIGH",
        "label_range": "--label-range",
        "classes=['no', 'yes']": "--classes no,yes",
        "A `data.Schema` computes it, and ": "--schema FILE computes it. ",
    }
    for old, new in words.items():
        message = message.replace(old, new)
    message = re.sub(r"feature_norm(?!=\d)", "--feature-norm", message)  # not of a printed problem
    return message.split('bounds="private"')[0].strip()


def _classes(given: str | None) -> tuple[Any, ...] | range:
    """Return the classes: so many, or with names."""
    if given is None:
        raise ParameterError(
            "a classifier needs --classes: how many there are, or their names, a,b,c. Or give "
            "--schema FILE, or --label-range LOW HIGH to predict a number."
        )
    if given.isdigit():
        return range(int(given))
    return tuple(given.split(","))
