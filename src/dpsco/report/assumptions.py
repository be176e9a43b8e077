"""What was declared of the rows, and what is minimised, in words that a signer can check."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ..data.labels import Classes, Scaled
from ..data.schema.schema import (
    Category,
    ClassLabel,
    Column,
    Date,
    Flag,
    Hashed,
    Ignore,
    Label,
    Number,
    NumberLabel,
    Schema,
    Text,
)
from ..geometry.domains import LpBall, WholeSpace
from ..geometry.norms import Lp
from ..losses.penalties import L1Penalty, L2Penalty, NoPenalty
from ..models.config import config_of
from ..models.unit_rules import UnitSearch
from ..privacy.certificate import Certificate
from ..privacy.release import flatten
from ..problem import Problem
from ..solvers.base import BasePlan
from . import text as words
from .formatting import plain, safe

MOST_COLUMNS = 10  # that are shown unfolded
_MOST_VALUES = 12
_MOST_NAMES = 40

Row = tuple[str, str, str]  # a column, what it may hold, what becomes of the rest


def declared(
    schema: Schema | None, plan: BasePlan | None, certificate: Certificate
) -> dict[str, Any] | None:
    """Return the declarations, from the schema if there is one; None where nothing is known.

    Args:
        schema: of the table.
        plan: has the bound on the length of a row.
        certificate: tells whether a bound may have been estimated by a release: if it lists others
            than the plan's.
    """
    if schema is None and plan is None:
        return None
    section: dict[str, Any] = {"label": None, "columns": [], "unread": "", "norm": None}
    section |= {"sources": False, "label_source": None}
    if plan is not None:
        certified = Counter(flatten(certificate.releases))
        alone = Counter(flatten(plan.releases())) == certified
        config = config_of(plan)
        units = None if config is None else config.units
        section["norm"] = _norm(plan.problem, units, alone=alone)
        section["label"] = _rule(plan.problem.bounds.label)
        if units is not None and units.labels:
            section["label"] = "", _RANGE_FOUND, _CLIPPED
    if schema is not None:
        section["columns"] = [(*_column(column), column.source) for column in schema.encoded]
        section["sources"] = any(item.source for item in schema.items)
        section["label_source"] = None if schema.label is None else schema.label.source
        section["unread"] = _names([c.name for c in schema.columns if isinstance(c, Ignore)])
        section["label"] = None if schema.label is None else _label(schema.label)
    section["folded"] = len(section["columns"]) > MOST_COLUMNS
    return section


def minimised(problem: Problem) -> str:
    """Return what a problem minimises, in words.

    >>> from dpsco import Bounds, Problem, domains, losses
    >>> minimised(Problem(loss=losses.Hinge(), bounds=Bounds(1.0, label="sign")))
    'the mean hinge loss, without a penalty, over all weights'
    >>> ridge = losses.L2Penalty(0.01)
    >>> bounds, ball = Bounds(1.0, label=1.0), domains.L2Ball(5.0)
    >>> problem = Problem(loss=losses.Pinball(0.9), bounds=bounds, domain=ball, penalty=ridge)
    >>> minimised(problem)
    'the mean pinball loss (quantile 0.9), with an l2 penalty of strength 0.01, over weights of l2 \
norm at most 5'
    """
    loss, penalty, domain = problem.loss, problem.penalty, problem.domain
    settings = [
        f"{name} {plain(getattr(loss, name))}"
        for name in ("quantile", "threshold", "width", "power", "classes")
        if isinstance(getattr(loss, name, None), (int, float))
    ]
    name = words.LOSSES.get(loss.name, f"{loss.name} loss")
    said = f"the mean {name}" + (f" ({', '.join(settings)})" if settings else "")
    if isinstance(penalty, NoPenalty):
        said += ", without a penalty"
    elif isinstance(penalty, (L1Penalty, L2Penalty)):
        which = "l1" if isinstance(penalty, L1Penalty) else "l2"
        said += f", with an {which} penalty of strength {plain(penalty.strength)}"
    else:
        said += f", with the penalty {type(penalty).__name__}"
    if isinstance(domain, WholeSpace):
        return f"{said}, over all weights"
    if isinstance(domain, LpBall):
        radius = domain.radius(domain.dimension or 1, Lp(domain.p))
        place = "" if domain.dimension is None else ", measured from a public point"
        return f"{said}, over weights of l{domain.p:g} norm at most {plain(radius)}{place}"
    return f"{said}, over weights in the domain {type(domain).__name__}"


def _norm(problem: Problem, units: UnitSearch | None, *, alone: bool) -> str:
    """Return the bound on the length of a row, in units that were found if they were."""
    bounds = problem.bounds
    which = f" in the l{bounds.norm.p:g} norm" if isinstance(bounds.norm, Lp) else ""
    if units is not None and units.features != "declared":
        first = ""
        if units.feature_norm is not None:
            first = f"; before that at most {plain(units.feature_norm)}, as declared"
        return (
            f"at most {plain(bounds.feature_norm)}{which} in units that releases listed here have "
            f"found, else the row is shortened to it{first}"
        )
    source = "" if alone else " (declared, or estimated by a release that is listed here)"
    return f"at most {plain(bounds.feature_norm)}{which}, else the row is shortened to it{source}"


def _rule(rule: Any) -> tuple[str, str, str] | None:
    """Return what a plan says of labels, where there is no schema."""
    if rule is None:
        return None
    if isinstance(rule, Classes):
        return "", _one_of(rule.values), _LEFT_OUT
    if isinstance(rule, Scaled):
        return "", _range(rule.low, rule.high), _CLIPPED
    if isinstance(rule, tuple) and len(rule) == 2:
        return "", _range(*rule), _CLIPPED
    if isinstance(rule, (int, float)):
        return "", _range(-rule, rule), _CLIPPED
    return "", "-1 or 1", _LEFT_OUT


_LEFT_OUT = "left out"
_CLIPPED = "clipped, or left out if missing"
_RANGE_FOUND = "a range that releases listed here have found"


def _label(label: Label) -> Row:
    if isinstance(label, NumberLabel):
        return label.name, _range(label.low, label.high), _CLIPPED
    if isinstance(label, ClassLabel):
        return label.name, _one_of(label.values), _LEFT_OUT
    return label.name, "-1 or 1", _LEFT_OUT


def _column(column: Column) -> Row:
    if isinstance(column, Number):
        if column.missing is None:
            missing = "the middle"
        elif isinstance(column.missing, str):
            missing = "a column of its own"
        else:
            missing = plain(float(column.missing))
        return column.name, _range(column.low, column.high), f"clipped; missing: {missing}"
    if isinstance(column, Date):
        rules = {"indicator": "a column of its own"}
        missing = rules.get(column.missing or "", column.missing or "the middle")
        return column.name, f"{column.low} to {column.high}", f"clipped; missing: {missing}"
    if isinstance(column, Category):
        rest = "a category of its own" if column.other else "counts as missing"
        return column.name, _one_of(column.values), rest
    if isinstance(column, Hashed):
        return (
            column.name,
            f"anything, hashed into {column.buckets:,} columns",
            "missing: none of them",
        )
    if isinstance(column, Text):
        words = f"text, whose {column.of} are hashed into {column.buckets:,} columns of norm 1"
        return column.name, words, "missing: none of them"
    assert isinstance(column, Flag)
    return column.name, "yes or no", "counts as missing"


def _range(low: float, high: float) -> str:
    return f"{plain(float(low), 6)} to {plain(float(high), 6)}"


def _one_of(values: Sequence[object]) -> str:
    listed = ", ".join(safe(value) for value in values[:_MOST_VALUES])
    more = ", ..." if len(values) > _MOST_VALUES else ""
    return f"one of {len(values):,}: {listed}{more}"


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(safe(name) or "(no name)" for name in names[:_MOST_NAMES])
    return shown + (f", and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else "")
