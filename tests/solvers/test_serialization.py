"""Public records survive JSON, and files cannot name anything else."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpsco as dp
from dpsco.errors import ParameterError
from dpsco.privacy import GaussianRelease
from dpsco.privacy.mechanisms.prefix_sum import mechanism as prefix_sums
from dpsco.solvers.serialization import decode, encode

L, G = dp.losses, dp.domains
SIGN, REAL = dp.Bounds(1.0, label="sign"), dp.Bounds(2.0, label=1.5, intercept=0.5)

RECORDS = [
    dp.Problem(loss=L.Hinge(), bounds=SIGN, domain=G.L2Ball(2.0)),
    dp.Problem(loss=L.Huber(0.3), bounds=REAL, penalty=L.ElasticNet(0.1, 0.5), scale=3.0),
    dp.Problem(loss=L.Smoothed(L.Hinge(), 5.0), bounds=SIGN, domain=G.L1Ball(2.0)),
    dp.Problem(loss=L.QPower(1.5), bounds=REAL, domain=G.Box([-1.0] * 3, [1.0, 2.0, 3.0])),
    dp.Problem(
        loss=L.Softmax(2), bounds=dp.Bounds(1.0, label=dp.data.Classes(["no", "yes"]))
    ),
    dp.Problem(loss=L.SquaredDistance(), bounds=dp.Bounds(1.0), domain=G.Simplex(3)),
    dp.Bounds(1.0, label=(0.0, 5.0), norm=dp.geometry.Lp(1.5)),
    dp.ApproxDP(1.0, 1e-6, adjacency="zero_out", unit=dp.Unit(3, "person")),
    dp.PureDP(0.5),
    dp.ZCDP(0.1),
    dp.GDP(1.0),
    GaussianRelease(1.0, 2.0, rows=(3, 9), count=4),
    prefix_sums.mechanism(rounds=8),
    dp.data.Classes([1, 2, 3]),
]  # fmt: skip


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_records_survive_json(record):
    text = json.dumps(encode(record), allow_nan=False)
    again = decode(json.loads(text))
    assert type(again) is type(record)
    assert repr(again) == repr(record)
    assert again == record


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4).map(tuple),
    max_leaves=12,
)


@given(plain)
def test_plain_values_survive_json(value):
    assert decode(json.loads(json.dumps(encode(value), allow_nan=False))) == value


def test_numbers_that_json_does_not_know():
    assert decode(encode(math.inf)) == math.inf
    assert decode(encode(-math.inf)) == -math.inf
    assert math.isnan(decode(encode(math.nan)))
    assert decode(encode(np.float64(0.1))) == 0.1
    assert decode(encode(np.arange(3.0))) == (0.0, 1.0, 2.0)


def test_code_of_users_is_not_written():
    class Mine(L.MarginLoss):
        labels = "real"

    for value in (object(), Mine, lambda: 0, {"a": b"x"}, {1: 2}, {1, 2}, b"x"):
        with pytest.raises(ParameterError, match="cannot be written to a file"):
            encode(value)


def test_plain_values_are_written_as_they_stand():
    record = {"name": "huber", "classes": ["a", 1, None], "settings": {"threshold": 0.5}}
    assert decode(json.loads(json.dumps(encode(record)))) == record


def test_lookalikes_are_not_written():
    """A user's class with the name of one of ours must not come back as ours."""
    import dataclasses

    @dataclasses.dataclass(frozen=True)
    class Hinge:
        pass

    with pytest.raises(ParameterError, match="Hinge cannot be written"):
        encode(Hinge())


@pytest.mark.parametrize(
    "record",
    [
        {"type": "os.system", "command": "true"},
        {"type": "CustomLoss", "function": "f"},
        {"type": "PerRowLoss"},
        {"type": None},
        {},
        {"type": "L2Ball", "radius": 1.0, "colour": "red"},
        {"type": "Problem"},
        {"type": "Classes"},
        {"type": "Release", "value": {"kind": "none"}},
        {"type": "Budget", "value": {"kind": "none"}},
        {"type": "L2Ball", "radius": -1.0},
        {"type": "float", "value": "many"},
        {"type": "float"},
        {"type": "MarginLoss"},
        {"type": "Domain"},
        {"type": ["L2Ball"]},
    ],
    ids=lambda record: json.dumps(record)[:40],
)
def test_bad_files_are_refused(record):
    with pytest.raises(ParameterError):
        decode(record)


@pytest.mark.parametrize("name", ["CustomLoss", "PerRowLoss"])
def test_files_cannot_ask_for_code(name):
    with pytest.raises(ParameterError, match="none of dpsco's records"):
        decode({"type": name})
