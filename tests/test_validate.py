"""Argument checks: one wording, and nothing slips through by its type."""

import inspect
import pickle

import numpy as np
import pytest

import dpsco as dp
from dpsco import _validate
from dpsco.errors import AssumptionError, ParameterError, describe

NOT_NUMBERS = [True, np.True_, "1", b"1", None, [1.0], [[1], [1, 2]], np.ones(1), {}, 1j, object()]


@pytest.mark.parametrize("value", NOT_NUMBERS, ids=lambda v: type(v).__name__)
@pytest.mark.parametrize("check", ["real", "positive", "non_negative", "probability"])
def test_what_is_not_a_number_is_refused(check, value):
    with pytest.raises(ParameterError, match=r"size must be a number, got .* Pass a metre"):
        getattr(_validate, check)("size", value, hint="Pass a metre.")


@pytest.mark.parametrize(
    ("check", "value"),
    [
        ("real", float("nan")),
        ("positive", 0),
        ("positive", float("inf")),
        ("non_negative", -1e-300),
        ("non_negative", float("inf")),
        ("probability", 0.0),
        ("probability", 1.0),
        ("integer", 0),
        ("integer", 1.0),
        ("integer", True),
        ("integer", np.True_),
        ("integer", "3"),
    ],
)
def test_out_of_range_is_refused(check, value):
    with pytest.raises(ParameterError, match="size must"):
        getattr(_validate, check)("size", value)


@pytest.mark.parametrize("value", [2, 2.0, np.float32(2), np.int8(2), np.array(2.0)])
def test_numbers_of_any_type_become_floats(value):
    assert type(_validate.positive("size", value)) is float
    assert _validate.positive("size", value) == 2.0


def test_integers_of_any_type_become_ints():
    assert type(_validate.integer("size", np.int64(3))) is int


@pytest.mark.parametrize(
    "value", [None, 3, (1,), (1, 2, 3), (2, 2), (3, 1), (-1, 2), (0.0, 2), "ab"]
)
def test_bad_row_ranges_are_refused(value):
    with pytest.raises(ParameterError, match="rows"):
        _validate.row_range("rows", value)


def test_choice_lists_what_is_allowed():
    with pytest.raises(ParameterError, match="colour must be one of 'blue', 'red'; got 'green'"):
        _validate.choice("colour", "green", {"red", "blue"})


def test_an_argument_that_may_be_rows_is_shown_by_type_and_size():
    secret = 918273.4655
    rows = np.full((40, 2), secret)
    for value in (rows, rows.tolist(), rows[0], tuple(rows[:, 0]), {"a": secret}, {secret}):
        assert "918273" not in _validate.shown(value)
        for check in (_validate.real, _validate.positive, _validate.integer, _validate.row_range):
            with pytest.raises(ParameterError) as caught:
                check("epsilon", value)
            assert "918273" not in str(caught.value)
    for value, words in (("x", "'x'"), (None, "None"), ((1, 2.5), "(1, 2.5)"), (["a"], "['a']")):
        assert _validate.shown(value) == words
    assert _validate.shown("x" * 100) == "text of 100 characters"
    assert _validate.shown(10**5000) == "a very large integer"  # which Python would not write
    assert _validate.shown(dp.ApproxDP(1.0, 1e-6)).startswith("ApproxDP(")


# -- which parameter, and how a face calls it ------------------------------------------------------

REFUSED = {
    "real": "one",
    "positive": -1.0,
    "non_negative": -1.0,
    "probability": 2.0,
    "integer": 0.5,
    "flag": "yes",
    "row_range": (3, 1),
}


def flag(parameter):
    return "--" + parameter.replace("_", "-")


@pytest.mark.parametrize("check", [*REFUSED, "choice"])
def test_every_refusal_knows_its_parameter(check):
    arguments = ("green", {"red"}) if check == "choice" else (REFUSED[check],)
    with pytest.raises(ParameterError) as caught:
        getattr(_validate, check)("label_range", *arguments)
    error = caught.value
    assert error.parameter == "label_range"
    assert str(error).startswith("label_range must ")
    assert describe(error, flag) == str(error).replace("label_range", "--label-range", 1)


def test_every_check_of_a_parameter_is_tried_above():
    checks = {
        name
        for name, function in vars(_validate).items()
        if inspect.isfunction(function)
        and function.__module__ == _validate.__name__
        and next(iter(inspect.signature(function).parameters)) == "name"
    }
    assert checks == {*REFUSED, "choice", "refusal"}


def test_a_part_of_a_parameter_belongs_to_it():
    with pytest.raises(ParameterError) as caught:
        _validate.row_range("rows", (0, 1.5))
    assert caught.value.parameter == "rows"
    assert describe(caught.value, flag).startswith("--rows[1] must be an integer")


def test_a_face_gives_its_own_advice():
    with pytest.raises(ParameterError) as caught:
        _validate.positive("radius", 0.0, hint="Use WholeSpace().")
    error = caught.value
    assert str(error) == "radius must be positive and finite, got 0.0. Use WholeSpace()."
    assert describe(error, flag) == f"--{error}"
    assert describe(error, flag, hints={"radius": "Leave it out."}).endswith(
        "got 0.0. Leave it out."
    )
    assert describe(error, flag, hints={"radius": ""}).endswith("got 0.0.")
    assert describe(error, flag, hints={"delta": "No."}) == f"--{error}"


def test_errors_without_a_parameter_stay_as_they_are():
    for error in (ParameterError("no rows."), ValueError("rounds"), AssumptionError("not convex.")):
        assert describe(error, flag) == str(error)
    late = AssumptionError("the loss has no finite slope here.", parameter="feature_norm")
    assert describe(late, flag) == "--feature-norm: the loss has no finite slope here."


def test_a_refusal_survives_pickling():
    error = ParameterError("rounds must be at least 1.", parameter="rounds", hint="Try 8.")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.parameter, again.hint) == (str(error), "rounds", "Try 8.")
    assert describe(again, flag) == describe(error, flag)
