"""How much privacy may be spent, against which neighbours, and for whom.

A budget carries its adjacency (which two tables count as neighbours) and its unit (a row, or all
rows of a person). ``budget.mu_per_row()`` is the Gaussian parameter that one row may cost, rounded
down.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

from .. import _validate
from .._validate import store
from ..errors import AssumptionError, ParameterError
from ..files import limits as _limits
from .accounting import gaussian, renyi

_LARGE_EPSILON = 20.0  # above is next to no protection
_EPSILON_HINT = "Common choices lie between 0.1 and 10; smaller is more private."
_DELTA_HINT = "Choose it well below 1/n, for example 1/n**2; pure privacy is PureDP(epsilon)."


class Adjacency(str, enum.Enum):
    """Which tables are neighbours.

    ``replace_one``: one row takes any other value; the number of rows is public.
    ``zero_out``: one row's contribution becomes zero; the number of rows stays public.
    ``add_remove``: one row more or less; the number of rows is private, so the ranges of rows in a
    plan must be public upper bounds, not counts of the table.
    """

    REPLACE_ONE = "replace_one"
    ZERO_OUT = "zero_out"
    ADD_REMOVE = "add_remove"

    @property
    def factor(self) -> int:
        """How many bounds apart two neighbours' sums can lie: 2 for replace-one, else 1."""
        return 2 if self is Adjacency.REPLACE_ONE else 1

    def sensitivity(self, bound: float) -> float:
        """Return the distance between neighbouring sums of rows whose norm is at most ``bound``.

        >>> Adjacency.REPLACE_ONE.sensitivity(1.5), Adjacency.ZERO_OUT.sensitivity(1.5)
        (3.0, 1.5)
        """
        return self.factor * _validate.positive("bound", bound)

    @classmethod
    def parse(cls, value: Any) -> Adjacency:
        """Return the adjacency named by ``value``; refuse unknown names."""
        if isinstance(value, cls):
            return value
        return cls(_validate.choice("adjacency", value, {member.value for member in cls}))


@dataclass(frozen=True)
class Unit:
    """Whom the budget protects: ``rows`` rows together, under the ``name`` of their owner.

    Protection of k rows follows from that of one row by group privacy: k mu for Gaussian releases.
    """

    rows: int = 1
    name: str = "row"

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "rows", _validate.integer("unit.rows", self.rows, at_most=_limits.MOST_ROWS)
        )
        if not isinstance(self.name, str) or not self.name:
            raise ParameterError(
                f"unit.name must be a word such as 'person', got {_validate.shown(self.name)}."
            )


@dataclass(frozen=True)
class Budget:
    """What every budget states besides its amount. Use one of the subclasses."""

    kind: ClassVar[str] = ""
    adjacency: Adjacency = field(default=Adjacency.REPLACE_ONE, kw_only=True)
    unit: Unit = field(default=Unit(), kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "adjacency", Adjacency.parse(self.adjacency))
        if not isinstance(self.unit, Unit):
            raise ParameterError(
                "unit must be a Unit, for example Unit(5, 'person'); got "
                f"{_validate.shown(self.unit)}.",
                parameter="unit",
            )

    def mu_per_row(self) -> float:
        """Return the mu-GDP that one row may cost, rounded down."""
        return self._unit_mu() / self.unit.rows * (1 - 2.0**-50)

    def _unit_mu(self) -> float:
        raise AssumptionError(
            f"{type(self).__name__} cannot be spent on Gaussian noise, which is never purely "
            "differentially private. Pass ApproxDP(epsilon, delta), ZCDP(rho) or GDP(mu)."
        )

    def amounts(self) -> dict[str, float]:
        """Return the numbers that may be spent, by their names."""
        return {name: getattr(self, name) for name in _amounts(type(self))}

    def to_json(self) -> dict[str, Any]:
        """Return the budget as plain JSON values."""
        return {
            "kind": self.kind,
            **self.amounts(),
            "adjacency": self.adjacency.value,
            "unit": {"rows": self.unit.rows, "name": self.unit.name},
        }


@dataclass(frozen=True)
class ApproxDP(Budget):
    """(epsilon, delta)-differential privacy.

    >>> round(ApproxDP(1.0, 1e-6).mu_per_row(), 10)
    0.2367043807
    """

    kind: ClassVar[str] = "approx_dp"
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        super().__post_init__()
        store(self, "epsilon", _validate.positive("epsilon", self.epsilon, hint=_EPSILON_HINT))
        store(self, "delta", _validate.probability("delta", self.delta, hint=_DELTA_HINT))

    def _unit_mu(self) -> float:
        return gaussian.mu(self.epsilon, self.delta)

    def rho(self) -> float:
        """Return the zCDP parameter that implies this budget for the whole unit, rounded down."""
        return renyi.rho(self.epsilon, self.delta)


@dataclass(frozen=True)
class PureDP(Budget):
    """Pure epsilon-differential privacy: only selections can be paid from it."""

    kind: ClassVar[str] = "pure_dp"
    epsilon: float

    def __post_init__(self) -> None:
        super().__post_init__()
        store(self, "epsilon", _validate.positive("epsilon", self.epsilon, hint=_EPSILON_HINT))


@dataclass(frozen=True)
class ZCDP(Budget):
    """rho-zero-concentrated differential privacy (Bun, Steinke 2016)."""

    kind: ClassVar[str] = "zcdp"
    rho: float

    def __post_init__(self) -> None:
        super().__post_init__()
        store(self, "rho", _validate.positive("rho", self.rho))

    def _unit_mu(self) -> float:
        return math.sqrt(2 * self.rho)


@dataclass(frozen=True)
class GDP(Budget):
    """mu-Gaussian differential privacy (Dong, Roth, Su 2019)."""

    kind: ClassVar[str] = "gdp"
    mu: float

    def __post_init__(self) -> None:
        super().__post_init__()
        store(self, "mu", _validate.positive("mu", self.mu))

    def _unit_mu(self) -> float:
        return self.mu


def default_delta(n: int) -> float:
    """Return the delta of a fit on n rows for which none is given: 1/n^2.

    Raises:
        ParameterError: with a single row that would be 1, which is no protection.

    >>> default_delta(1000)
    1e-06
    """
    if n < 2:
        text = f"is 1/n^2 unless it is given, which is no protection with n = {n} row."
        raise _validate.refusal("delta", text, "Fit more rows, or give delta, such as 1e-6.")
    return 1.0 / n**2


def fit_budget(
    n: int,
    *,
    epsilon: float,
    delta: float | None = None,
    adjacency: Adjacency | str = Adjacency.REPLACE_ONE,
    rows_per_person: int = 1,
) -> Budget:
    """Return the budget of a fit on n rows from the plain numbers that a user types.

    Args:
        n: number of rows, which is public.
        epsilon: of the budget.
        delta: likewise; None for `default_delta`, 0 for pure privacy.
        adjacency: which tables are neighbours.
        rows_per_person: how many rows one person may have; all of them are protected together.

    >>> fit_budget(1000, epsilon=1.0).delta, type(fit_budget(1000, epsilon=1.0, delta=0)).__name__
    (1e-06, 'PureDP')
    """
    relation = Adjacency.parse(adjacency)
    rows = _validate.integer("rows_per_person", rows_per_person)
    unit = Unit(rows, "person") if rows > 1 else Unit()
    delta = default_delta(n) if delta is None else _validate.non_negative("delta", delta)
    if delta == 0.0:
        return PureDP(epsilon, adjacency=relation, unit=unit)
    return ApproxDP(epsilon, delta, adjacency=relation, unit=unit)


def budget_warnings(budget: Budget, n: int) -> list[str]:
    """Return what is odd about the budget of a fit on n rows: it may be meant, but seldom is."""
    sentences = []
    if isinstance(budget, ApproxDP) and budget.delta > 1.0 / n:
        sentences.append(
            f"delta {budget.delta:.3g} is above 1/n = {1.0 / n:.3g}: publishing a row picked at "
            "random would pass. Choose it well below, or leave it out for 1/n^2."
        )
    if isinstance(budget, (ApproxDP, PureDP)) and budget.epsilon > _LARGE_EPSILON:
        sentences.append(
            f"epsilon {budget.epsilon:g} is next to no protection; often it lies from 0.1 to 10."
        )
    return sentences


def budget_from_json(record: Any) -> Budget:
    """Rebuild a budget from :meth:`Budget.to_json`; refuse unknown kinds and fields."""
    if not isinstance(record, dict) or str(record.get("kind")) not in _KINDS:
        raise ParameterError(
            f"a budget's kind must be one of {sorted(_KINDS)}, got {_validate.shown(record)}."
        )
    kind = _KINDS[record["kind"]]
    try:
        unit = Unit(**record["unit"])
        amounts = {name: record[name] for name in _amounts(kind)}
        if set(record) != {"kind", "adjacency", "unit", *amounts}:
            raise KeyError("unexpected field")
    except (KeyError, TypeError) as problem:
        raise ParameterError(
            f"this is not a {kind.kind} budget: {_validate.reason(problem)}."
        ) from None
    return kind(**amounts, adjacency=record["adjacency"], unit=unit)


def _amounts(kind: type[Budget]) -> list[str]:
    return [f.name for f in dataclasses.fields(kind) if f.name not in ("adjacency", "unit")]


_KINDS: dict[str, type[Budget]] = {kind.kind: kind for kind in (ApproxDP, PureDP, ZCDP, GDP)}
