"""Budgets: what they refuse, what they promise a row, and their JSON."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsco.errors import AssumptionError, ParameterError
from dpsco.privacy.accounting import gaussian, renyi
from dpsco.privacy.budget import GDP, ZCDP, Adjacency, ApproxDP, PureDP, Unit, budget_from_json

NOT_NUMBERS = ["1", b"1", True, None, [1.0], np.array([1.0]), np.zeros((1, 1)), 1j, math.nan, {}]
NOT_POSITIVE = [0, 0.0, -0.0, -1, -1e-300, math.inf, -math.inf]

# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [*NOT_NUMBERS, *NOT_POSITIVE], ids=repr)
def test_wrong_epsilon(wrong):
    for build in (lambda: ApproxDP(wrong, 1e-6), lambda: PureDP(wrong)):
        with pytest.raises(ParameterError, match=r"^epsilon must be .*between 0\.1 and 10"):
            build()


@pytest.mark.parametrize("wrong", [*NOT_NUMBERS, *NOT_POSITIVE, 1, 1.0, 2.0], ids=repr)
def test_wrong_delta(wrong):
    with pytest.raises(ParameterError, match=r"^delta must .*1/n\*\*2.*PureDP"):
        ApproxDP(1.0, wrong)


@pytest.mark.parametrize("wrong", [*NOT_NUMBERS, *NOT_POSITIVE], ids=repr)
def test_wrong_rho_and_mu(wrong):
    with pytest.raises(ParameterError, match=r"^rho must be "):
        ZCDP(wrong)
    with pytest.raises(ParameterError, match=r"^mu must be "):
        GDP(wrong)


@pytest.mark.parametrize("wrong", [0, -1, 1.0, "2", True, None, [1]], ids=repr)
def test_wrong_unit(wrong):
    with pytest.raises(ParameterError, match=r"^unit\.rows must be "):
        Unit(wrong)


def test_unit_needs_a_name_and_its_own_type():
    for name in ("", 3, None):
        with pytest.raises(ParameterError, match="'person'"):
            Unit(1, name)
    with pytest.raises(ParameterError, match=r"Unit\(5, 'person'\)"):
        ApproxDP(1.0, 1e-6, unit=5)


@pytest.mark.parametrize("wrong", ["", "add", "REPLACE_ONE", 2, None])
def test_unknown_adjacency_lists_the_known_ones(wrong):
    with pytest.raises(ParameterError, match="'add_remove', 'replace_one', 'zero_out'"):
        ApproxDP(1.0, 1e-6, adjacency=wrong)


def test_budgets_are_frozen():
    with pytest.raises(AttributeError):
        ApproxDP(1.0, 1e-6).epsilon = 2.0


# --- numbers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("one", [1, np.float32(1), np.int64(1), np.array(1.0), Fraction(1)])
def test_number_types_become_floats(one):
    budget = ApproxDP(one, np.float64(1e-6), unit=Unit(np.int64(3)))
    assert type(budget.epsilon) is float
    assert type(budget.delta) is float
    assert type(budget.unit.rows) is int
    assert budget == ApproxDP(1.0, 1e-6, unit=Unit(3))
    assert json.loads(json.dumps(budget.to_json()))["unit"]["rows"] == 3


def test_adjacency_factor():
    factors = {member.value: member.factor for member in Adjacency}
    assert factors == {"replace_one": 2, "zero_out": 1, "add_remove": 1}
    for member in Adjacency:
        assert member.sensitivity(0.7) == member.factor * 0.7
        assert Adjacency.parse(member.value) is member
    with pytest.raises(ParameterError, match="bound"):
        Adjacency.ZERO_OUT.sensitivity(0.0)


@given(st.floats(-3, 3).map(lambda t: 10.0**t), st.integers(1, 10**6))
@settings(max_examples=100, deadline=None)
def test_mu_of_a_row_in_a_unit(amount, rows):
    """k rows cost k mu by group privacy, so a row of a unit of k may cost a k-th, rounded down."""
    unit = Unit(rows, "person")
    for budget, whole in [
        (GDP(amount, unit=unit), amount),
        (ZCDP(amount, unit=unit), math.sqrt(2 * amount)),
        (ApproxDP(amount, 1e-6, unit=unit), gaussian.mu(amount, 1e-6)),
    ]:
        share = budget.mu_per_row()
        assert Fraction(share) * rows <= Fraction(whole)
        assert math.isclose(share * rows, whole, rel_tol=1e-14)


def test_mu_does_not_depend_on_the_adjacency():
    """The factor belongs to the bound, not to the budget: applied in both, it would count twice."""
    shares = {ApproxDP(1.0, 1e-6, adjacency=a).mu_per_row() for a in Adjacency}
    assert len(shares) == 1


def test_rho_of_approximate_dp():
    assert ApproxDP(1.0, 1e-6).rho() == renyi.rho(1.0, 1e-6)


def test_pure_dp_buys_no_gaussian_noise():
    with pytest.raises(AssumptionError, match=r"ApproxDP\(epsilon, delta\), ZCDP\(rho\) or GDP"):
        PureDP(1.0).mu_per_row()


# --- JSON -----------------------------------------------------------------------------------------

BUDGETS = [
    ApproxDP(0.1 + 0.2, 1e-300, adjacency="zero_out", unit=Unit(7, "person")),
    PureDP(3.3),
    ZCDP(1 / 3, adjacency="add_remove"),
    GDP(5e-324, unit=Unit(2)),
]


@pytest.mark.parametrize("budget", BUDGETS, ids=lambda b: b.kind)
def test_json_round_trip(budget):
    text = json.dumps(budget.to_json(), allow_nan=False)
    back = budget_from_json(json.loads(text))
    assert back == budget
    assert type(back) is type(budget)


@pytest.mark.parametrize(
    "damage",
    [
        {"kind": "approx"},
        {"kind": None},
        {"kind": []},
        {"epsilon": -1.0},
        {"epsilon": "1"},
        {"delta": 1.0},
        {"adjacency": "add"},
        {"unit": 3},
        {"unit": {"rows": 0, "name": "row"}},
        {"unit": {"rows": 1, "name": "row", "more": 1}},
        {"extra": 1},
    ],
    ids=str,
)
def test_damaged_json_is_refused(damage):
    with pytest.raises(ParameterError):
        budget_from_json({**ApproxDP(1.0, 1e-6).to_json(), **damage})


def test_incomplete_json_is_refused():
    record = ApproxDP(1.0, 1e-6).to_json()
    for name in record:
        with pytest.raises(ParameterError):
            budget_from_json({key: value for key, value in record.items() if key != name})
    for wrong in (None, [], "approx_dp", 1):
        with pytest.raises(ParameterError, match="approx_dp"):
            budget_from_json(wrong)
