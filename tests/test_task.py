"""A task: its sizes, bounds and constants, its equality, and what it refuses."""

import dataclasses
import functools
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpsco as dp
from dpsco.errors import AssumptionError, ParameterError
from dpsco.files import limits
from dpsco.task import CALIBRATIONS, as_task

BUDGET = dp.ApproxDP(1.0, 1e-6)
SIGN = dp.Bounds(1.0, label="sign")


def problem(**settings):
    return dp.Problem(**{"loss": dp.losses.Logistic(), "bounds": SIGN, **settings})


def task(n=10, d=3, **settings):
    return dp.Task(problem(**settings), n, d, BUDGET)


def properties():
    """The names of all properties, computed once or each time."""
    kinds = (property, functools.cached_property)
    return [name for name, value in vars(dp.Task).items() if isinstance(value, kinds)]


# -- sizes, bounds, constants ----------------------------------------------------------------------


def test_a_linear_model():
    linear = task(100, 7, bounds=dp.Bounds(3.0, label="sign", intercept=4.0))
    assert (linear.n, linear.d, linear.columns, linear.n_weights) == (100, 7, 8, 8)
    assert linear.feature_bound == pytest.approx(5.0)
    assert linear.lipschitz == pytest.approx(5.0)
    assert linear.smoothness == pytest.approx(25 / 4)
    assert linear.glm
    assert linear.euclidean
    assert linear.label_bound == 1.0
    assert linear.ridge == 0.0
    assert np.array_equal(linear.start, np.zeros(8))


def test_vector_losses():
    classes = dp.data.Classes(["a", "b", "c"])
    soft = task(10, 4, loss=dp.losses.Softmax(3), bounds=dp.Bounds(1.0, label=classes))
    assert soft.n_weights == 12
    assert not soft.glm
    mean = task(10, 4, loss=dp.losses.SquaredDistance(), bounds=dp.Bounds(2.0))
    assert mean.n_weights == 4
    assert mean.hoelder == (mean.constants.hoelder,)


def test_labels_are_bounded_by_1_unless_they_are_numbers():
    assert task().label_bound == 1.0
    numbers = dp.Bounds(1.0, label=(-2.0, 7.0))
    assert task(loss=dp.losses.Absolute(), bounds=numbers).label_bound == 7.0
    classes = dp.Bounds(1.0, label=dp.data.Classes(range(5)))
    assert task(loss=dp.losses.Softmax(5), bounds=classes).label_bound == 1.0


def test_radius_and_largest_norm_differ_by_the_centre():
    ball = dp.domains.L2Ball(2.0, [3.0, 4.0])
    moved = task(10, 2, domain=ball)
    assert (moved.radius, moved.max_norm) == (2.0, 7.0)
    assert np.array_equal(moved.start, [3.0, 4.0])
    assert task().max_norm == math.inf


def test_ridge_and_norms():
    assert task(penalty=dp.losses.L2Penalty(0.25)).ridge == 0.25
    assert task(penalty=dp.losses.L1Penalty(0.25)).ridge == 0.0
    assert not task(bounds=dp.Bounds(1.0, label="sign", norm=dp.geometry.LINF)).euclidean


def test_hoelder_views_scale_with_the_features():
    views = task(loss=dp.losses.QPower(1.5), bounds=dp.Bounds(4.0, label=1.0)).hoelder
    assert views[0].alpha == pytest.approx(0.5)
    scalar = dp.losses.QPower(1.5).hoelder().constant
    assert views[0].constant == pytest.approx(scalar * 4.0**1.5)


def test_gradient_bound_takes_the_smaller():
    bounded = task(bounds=dp.Bounds(2.0, label="sign"))
    assert bounded.gradient_bound(None) == pytest.approx(2.0)
    assert bounded.gradient_bound(0.5) == 0.5
    assert bounded.gradient_bound(50.0) == pytest.approx(2.0)
    with pytest.raises(ParameterError, match="clip") as caught:
        bounded.gradient_bound(-1.0)
    assert caught.value.parameter == "clip"
    free = task(loss=dp.losses.Squared(), bounds=dp.Bounds(1.0, label=1.0))
    assert math.isinf(free.lipschitz)
    assert 0.0 < free.gradient_bound(None) < math.inf


def test_gradients_that_are_zero_everywhere_leave_nothing_to_do():
    nothing = task(
        loss=dp.losses.Absolute(),
        domain=dp.domains.L2Ball(1.0),
        bounds=dp.Bounds(1.0, label=1.0),
    )
    nothing.__dict__["constants"] = dataclasses.replace(nothing.constants, lipschitz=0.0)
    with pytest.raises(AssumptionError, match=r"zero everywhere. There is nothing to minimise"):
        nothing.gradient_bound(None)


def test_gradients_at_the_start_are_those_of_the_domains_centre():
    squares = {"loss": dp.losses.Squared(), "bounds": dp.Bounds(2.0, label=3.0)}
    assert task(**squares).start_gradient == pytest.approx(2.0 * 3.0)
    far = task(10, 2, domain=dp.domains.L2Ball(1.0, [0.0, 5.0]), **squares)
    assert far.start_gradient == pytest.approx(2.0 * (3.0 + 2.0 * 5.0))


def test_distance_is_the_guess_the_radius_or_a_rule():
    ball = dp.domains.L2Ball(3.0)
    assert task(domain=ball).initial_distance == 3.0
    assert task(domain=ball, scale=1.5).initial_distance == 1.5
    assert task(domain=ball, scale=9.0).initial_distance == 3.0
    assert task(scale=7.0).initial_distance == 7.0


@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6), st.integers(1, 50))
def test_distance_scales_with_the_units(feature, label, d):
    """Weights are labels over features: so must be the guess of their size."""
    unit = task(9, d, loss=dp.losses.Absolute(), bounds=dp.Bounds(1.0, label=1.0))
    other = task(9, d, loss=dp.losses.Absolute(), bounds=dp.Bounds(feature, label=label))
    scaled = other.initial_distance * feature / label
    assert scaled == pytest.approx(unit.initial_distance, rel=1e-9)


# -- a value: equality, copies, pickles ------------------------------------------------------------


class Unhashable(dp.losses.Logistic):
    """A user's loss that is equal to its like and has no hash."""

    __hash__ = None

    def __eq__(self, other):
        return isinstance(other, Unhashable)


def test_equal_tasks_are_equal_whatever_was_computed():
    one, other = task(), task()
    assert [getattr(one, name) is not None for name in properties()]
    assert one == other
    assert hash(one) == hash(other)
    for change in ({"n": 11}, {"d": 4}, {"budget": dp.ApproxDP(2.0, 1e-6)}):
        assert dataclasses.replace(one, **change) != one
    assert dataclasses.replace(one, calibration="conjectured") != one
    assert dataclasses.replace(one, problem=problem(scale=2.0)) != one


def test_a_changed_copy_computes_its_own_constants():
    first = task(10, 3)
    assert (first.n_weights, first.initial_distance) == (3, 2.0 * math.sqrt(3.0))
    wider = dataclasses.replace(first, d=12)
    assert (wider.n_weights, wider.initial_distance) == (12, 2.0 * math.sqrt(12.0))


def test_a_task_is_pickled_by_its_fields():
    first = task(domain=dp.domains.L2Ball(2.0))
    known = {name: repr(getattr(first, name)) for name in properties()}
    again = pickle.loads(pickle.dumps(first))
    assert set(vars(again)) == {"problem", "n", "d", "budget", "calibration"}
    assert again == first
    assert {name: repr(getattr(again, name)) for name in properties()} == known


def test_a_loss_without_a_hash_serves():
    own = task(loss=Unhashable())
    assert own == task(loss=Unhashable())
    assert {name: repr(getattr(own, name)) for name in properties()}
    assert pickle.loads(pickle.dumps(own)) == own
    with pytest.raises(TypeError, match="unhashable"):
        hash(own)
    assert dp.plan(own, solver="noisy_gd").task == own


def test_nothing_can_be_set():
    with pytest.raises(dataclasses.FrozenInstanceError):
        task().n = 7


def test_a_task_is_told_in_a_line():
    assert str(task(10_000, 3)).endswith("10,000 rows of 3 features, " + str(BUDGET))


# -- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("problem", dp.losses.Logistic()),
        ("problem", None),
        ("budget", 1.0),
        ("budget", None),
        ("n", 0),
        ("n", 2.5),
        ("n", None),
        ("n", limits.MOST_ROWS + 1),
        ("d", 0),
        ("d", "3"),
        ("d", limits.MOST_WEIGHTS + 1),
        ("calibration", "loose"),
        ("calibration", None),
    ],
)
def test_a_wrong_argument_is_named(parameter, value):
    fields = {"problem": problem(), "n": 10, "d": 3, "budget": BUDGET, parameter: value}
    with pytest.raises(ParameterError, match=rf"^{parameter} must") as caught:
        dp.Task(**fields)
    assert caught.value.parameter == parameter


def test_calibrations_are_words_of_a_task():
    assert [dp.Task(problem(), 10, 3, BUDGET, word).calibration for word in CALIBRATIONS]


def test_integers_of_any_type_are_stored_as_ints():
    sizes = dp.Task(problem(), np.int64(10), np.int8(3), BUDGET)
    assert (type(sizes.n), type(sizes.d)) == (int, int)
    assert sizes == task()


def test_too_many_weights_are_refused():
    classes = dp.data.Classes(range(100))
    many = problem(loss=dp.losses.Softmax(100), bounds=dp.Bounds(1.0, label=classes))
    with pytest.raises(ParameterError, match="d is too large: Softmax has") as caught:
        dp.Task(many, 10, limits.MOST_WEIGHTS // 50, BUDGET)
    assert caught.value.parameter == "d"


def test_a_domain_of_another_dimension_is_refused():
    box = dp.domains.Box([0.0, 0.0], [1.0, 1.0])
    assert task(10, 2, domain=box).n_weights == 2
    with pytest.raises(ParameterError, match=r"2 coordinates.*Logistic has 3 weights"):
        task(10, 3, domain=box)


def test_a_task_or_the_arguments_of_one():
    whole = task()
    assert as_task(whole) is whole
    assert as_task(problem(), n=10, d=3, budget=BUDGET) == whole
    for more in ({"n": 10}, {"d": 3}, {"budget": BUDGET}, {"calibration": "paper"}):
        with pytest.raises(ParameterError, match="has its own n, d, budget and calibration"):
            as_task(whole, **more)
    with pytest.raises(ParameterError, match=r"^n must be an integer, got None"):
        as_task(problem(), d=3, budget=BUDGET)
