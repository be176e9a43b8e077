"""Records: what they refuse, how they flatten, and their JSON."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest

from dpsco.errors import ParameterError
from dpsco.privacy.mechanisms import (
    ClipQuantileRelease,
    FadingSelectionRelease,
    FixedSizeGaussianRelease,
    GaussianRelease,
    GeneralizedGaussianRelease,
    ObjectivePerturbationRelease,
    PoissonGaussianRelease,
    PrefixSumRelease,
    RepeatedSelectionRelease,
    SelectionRelease,
    ShuffledRelease,
    ShuffledSequenceRelease,
    StableGammaRelease,
    StableGaussianRelease,
    WithReplacementRelease,
)
from dpsco.privacy.mechanisms.prefix_sum.mechanism import MECHANISMS, PrefixMechanism
from dpsco.privacy.mechanisms.repeated_selection.profile import Runs
from dpsco.privacy.release import RELEASE_KINDS, Composition, Release, flatten

from .conftest import described

ROWS = (3, 103)
TREE = PrefixMechanism("tree", 8)
STABLE = {"adjacency": "zero_out", "theorem": "A theorem, of 2022"}
EVERY = {
    GaussianRelease: {"bound": 0.1, "sigma": 2.0},
    GeneralizedGaussianRelease: {"bound": 0.1, "sigma": 2.0, "norm": 2.5},
    SelectionRelease: {"bound": 0.1, "scale": 2.0, "candidates": 9, "noise": "laplace"},
    FadingSelectionRelease: {
        "bounds": (0.02, 0.1), "stops": (53, 103), "scale": 2.0, "candidates": 9, "noise": "laplace"
    },
    PrefixSumRelease: {"bound": 0.1, "sigma": 2.0, "mechanism": TREE},
    PoissonGaussianRelease: {"bound": 0.1, "sigma": 2.0, "rate": 0.3, "pair": "conjectured"},
    FixedSizeGaussianRelease: {"bound": 0.1, "sigma": 2.0, "size": 30},
    ShuffledRelease: {"bound": 0.1, "sigma": 2.0},
    ShuffledSequenceRelease: {"bound": 0.1, "sigma": 2.0, "batches": 7},
    ClipQuantileRelease: {
        "scale": 2.0, "target": 90, "candidates": 9, "lowest": 0.1, "per_octave": 2, "tilt": 1.0
    },
    StableGaussianRelease: {"sensitivity": 0.1, "sigma": 2.0, **STABLE},
    StableGammaRelease: {"sensitivity": 0.1, "scale": 2.0, **STABLE},
    WithReplacementRelease: {
        "participation_shift": 0.1, "drift": 0.01, "steps": 30, "sigma": 2.0, **STABLE
    },
    ObjectivePerturbationRelease: {
        "bound": 0.1, "sigma": 2.0, "curvature": 0.25, "floor": 3.0, "rank": 2,
        "directions": "subspace", "distance": 1e-9, "output_sigma": 1e-7, "span": 4,
    },
    RepeatedSelectionRelease: {
        "alternatives": ((GaussianRelease(0.1, 2.0, rows=ROWS),),),
        "runs": Runs("negative_binomial", 0.1, 0.5),
    },
}  # fmt: skip
CASES = [pytest.param(kind, values, id=kind.kind) for kind, values in EVERY.items()]
WRONG_NUMBERS = [0.0, -1.0, math.nan, math.inf, "1", True, None, np.ones(2)]
every = pytest.mark.parametrize(("kind", "values"), CASES)


def test_every_class_is_listed():
    assert set(RELEASE_KINDS.values()) == set(EVERY)
    assert all(name == kind.kind for name, kind in RELEASE_KINDS.items())


# --- validation -----------------------------------------------------------------------------------


@every
@pytest.mark.parametrize("wrong", WRONG_NUMBERS, ids=repr)
def test_every_amount_is_checked(kind, values, wrong):
    amounts = {
        "bound",
        "sigma",
        "scale",
        "step",
        "norm",
        "rate",
        "sensitivity",
        "participation_shift",
        "floor",
    }
    for name in (amounts | {"distance", "output_sigma"}) & set(values):
        with pytest.raises(ParameterError, match=name):
            kind(**{**values, name: wrong}, rows=ROWS)


@every
@pytest.mark.parametrize("wrong", [0, -1, 1.0, 2.5, "1", True, None], ids=repr)
def test_every_whole_number_is_checked(kind, values, wrong):
    with pytest.raises(ParameterError, match="count"):
        kind(**values, rows=ROWS, count=wrong)
    for name in {"candidates", "size", "steps", "rank", "span"} & set(values):
        with pytest.raises(ParameterError, match=name):
            kind(**{**values, name: wrong}, rows=ROWS)


@every
@pytest.mark.parametrize(
    "wrong", [(0, 0), (5, 3), (-1, 4), (0.0, 4), (0, 4, 8), 4, "04", None, (True, 4)], ids=repr
)
def test_rows_are_checked(kind, values, wrong):
    with pytest.raises(ParameterError, match="rows"):
        kind(**values, rows=wrong)


@pytest.mark.parametrize("wrong", [1.01, 2, 1 + 1e-15])
def test_rate_is_at_most_one(wrong):
    with pytest.raises(ParameterError, match=r"rate must lie in \(0, 1\]"):
        PoissonGaussianRelease(1.0, 1.0, wrong, rows=ROWS)
    assert PoissonGaussianRelease(1.0, 1.0, 1, rows=ROWS).rate == 1.0


@pytest.mark.parametrize("norm", [1.0, 1.999])
def test_norm_is_at_least_two(norm):
    with pytest.raises(ParameterError, match="dual exponent"):
        GeneralizedGaussianRelease(1.0, 1.0, norm, rows=ROWS)


@pytest.mark.parametrize("diameter", [0.999, 2.001, 0.0, -1.0, math.nan, "2"])
def test_diameter_lies_between_one_and_two_bounds(diameter):
    with pytest.raises(ParameterError, match="diameter"):
        GaussianRelease(1.0, 1.0, diameter, rows=ROWS)
    for right in (1.0, math.sqrt(2.0), 2):
        assert GaussianRelease(1.0, 1.0, right, rows=ROWS).diameter == right


def test_sample_needs_its_rows():
    assert FixedSizeGaussianRelease(1.0, 1.0, 100, rows=ROWS).size == 100
    with pytest.raises(ParameterError, match="101"):
        FixedSizeGaussianRelease(1.0, 1.0, 101, rows=ROWS)


def test_prefix_sums_need_a_mechanism_and_rows():
    with pytest.raises(ParameterError, match=r"dpsco\.privacy\.mechanism"):
        PrefixSumRelease(1.0, 1.0, "tree", rows=ROWS)
    with pytest.raises(ParameterError, match="fewer rounds"):
        PrefixSumRelease(1.0, 1.0, TREE, rows=(0, 7))


def test_words_are_checked():
    with pytest.raises(ParameterError, match="'gumbel', 'laplace', 'permute_and_flip'"):
        SelectionRelease(1.0, 1.0, 2, "exponential", rows=ROWS)
    with pytest.raises(ParameterError, match="'conjectured', 'proved'"):
        PoissonGaussianRelease(1.0, 1.0, 0.5, "maybe", rows=ROWS)


@every
def test_numpy_numbers_become_plain(kind, values):
    """Records compare, hash and print alike, whatever number types they were made from."""
    odd = {k: np.float64(v) if isinstance(v, float) else v for k, v in values.items()}
    odd = {k: np.int64(v) if type(v) is int else v for k, v in odd.items()}
    release = kind(**odd, rows=np.array(ROWS), count=np.int32(2))
    assert release == kind(**values, rows=list(ROWS), count=2)
    assert json.dumps(release.to_json()) == json.dumps(kind(**values, rows=ROWS, count=2).to_json())
    assert hash(release) == hash(kind(**values, rows=ROWS, count=2))
    assert release.row_count == 100


@every
def test_records_are_frozen(kind, values):
    release = kind(**values, rows=ROWS)
    with pytest.raises(dataclasses.FrozenInstanceError):
        release.bound = 0.0


# --- JSON -----------------------------------------------------------------------------------------


@every
def test_json_round_trip(kind, values):
    release = kind(**values, rows=ROWS, count=5)
    back = Release.from_json(json.loads(json.dumps(release.to_json(), allow_nan=False)))
    assert back == release
    assert type(back) is kind


@pytest.mark.parametrize("name", MECHANISMS)
def test_json_of_every_mechanism(name):
    release = PrefixSumRelease(1.0, 1.0, described(name, 8), rows=ROWS)
    assert Release.from_json(json.loads(json.dumps(release.to_json()))) == release


@every
def test_json_with_other_fields_is_refused(kind, values):
    record = kind(**values, rows=ROWS).to_json()
    for name in record:
        with pytest.raises(ParameterError):
            Release.from_json({key: value for key, value in record.items() if key != name})
    with pytest.raises(ParameterError, match=kind.kind):
        Release.from_json({**record, "more": 1})
    with pytest.raises(ParameterError, match="kind"):
        Release.from_json({**record, "kind": "another"})
    with pytest.raises(ParameterError):
        Release.from_json({**record, "bound": -1.0})


def test_json_of_another_shape_is_refused():
    for wrong in (None, [], "gaussian", 3, {}, {"kind": []}, {"kind": None}):
        with pytest.raises(ParameterError, match="kind"):
            Release.from_json(wrong)
    record = PrefixSumRelease(1.0, 1.0, TREE, rows=ROWS).to_json()
    for wrong in ("tree", {"name": "tree"}, {"name": "oak", "rounds": 8}, {"height": 3}):
        with pytest.raises(ParameterError):
            Release.from_json({**record, "mechanism": wrong})


# --- flatten --------------------------------------------------------------------------------------

ONE = GaussianRelease(1.0, 2.0, rows=(0, 10))
TWO = SelectionRelease(1.0, 2.0, 3, rows=(0, 10))


def test_flatten_multiplies_and_merges():
    inner = Composition((ONE, TWO, dataclasses.replace(ONE, count=4)), count=3)
    flat = flatten([Composition((inner, TWO), count=2), ONE])
    counts = {release.once(): release.count for release in flat}
    assert counts == {ONE: 2 * 3 * 5 + 1, TWO: 2 * 3 + 2}


def test_flatten_keeps_different_records_apart():
    others = [
        dataclasses.replace(ONE, sigma=2.0 + 1e-15),
        dataclasses.replace(ONE, bound=1.0 + 1e-15),
        dataclasses.replace(ONE, rows=(0, 11)),
        ShuffledRelease(1.0, 2.0, rows=(0, 10)),
    ]
    assert flatten([ONE, *others]) == (ONE, *others)


def test_flatten_takes_one_release_or_none():
    assert flatten(ONE) == (ONE,)
    assert flatten([]) == ()
    assert flatten(release for release in [ONE, [TWO, (ONE,)]]) == (
        dataclasses.replace(ONE, count=2),
        TWO,
    )


@pytest.mark.parametrize("wrong", ["gaussian", b"x", {"kind": "gaussian"}, 3, None, [ONE, 3]])
def test_flatten_refuses_what_is_no_release(wrong):
    with pytest.raises(ParameterError, match=r"record of dpsco\.privacy"):
        flatten(wrong)


def test_composition_is_checked():
    for parts in ((), ("a",), (ONE, None)):
        with pytest.raises(ParameterError, match="one or more releases"):
            Composition(parts)
    for count in (0, -1, 1.0, True):
        with pytest.raises(ParameterError, match="count"):
            Composition((ONE,), count=count)


def test_once():
    assert dataclasses.replace(ONE, count=9).once() == ONE
    assert isinstance(ONE.once(), Release)
