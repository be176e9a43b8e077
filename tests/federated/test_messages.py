"""Messages: exact as JSON, small, and refused where anything is out of place."""

import json

import numpy as np
import pytest

from dpsco.data import ClippedDifference, ClippedGradient
from dpsco.errors import ParameterError
from dpsco.federated import Answer, FixedPoint, Request, Trust
from dpsco.losses import Logistic

RUN, PLAN = "0123456789abcdef" * 2, "f" * 32
AWKWARD = np.array([0.1, -0.0, 5e-324, 1.7976931348623157e308, 1 / 3])


def task(**changes):
    fields = {
        "run": RUN,
        "plan": PLAN,
        "round": 3,
        "points": (AWKWARD, AWKWARD[::-1]),
        "factors": (4.0, 3.0),
        "clip": 0.1,
        "cohort": 7,
        "protects": "row",
        "trust": "secure_aggregation",
        "encoding": FixedPoint(2.0**-20, 35),
    }
    return Request(**{**fields, **changes})


def answer(**changes):
    return Answer(**{"run": RUN, "round": 3, "worker": "ward 7", "vector": AWKWARD, **changes})


def bits(vector):
    return vector.dtype, vector.tobytes()


def test_a_task_comes_back_the_same():
    for sent in (task(), task(points=(AWKWARD,), factors=(1.0,), encoding=None)):
        found = Request.from_json(sent.to_json().encode())
        assert found.to_json() == sent.to_json()
        assert [bits(point) for point in found.points] == [bits(point) for point in sent.points]
        assert (found.encoding, found.trust, found.clip) == (sent.encoding, sent.trust, sent.clip)
        assert isinstance(found.trust, Trust)


@pytest.mark.parametrize("vector", [AWKWARD, np.array([0, 2**35 - 1, 2**64 - 1], dtype=np.uint64)])
def test_an_answer_comes_back_the_same(vector):
    found = Answer.from_json(answer(vector=vector).to_json())
    assert (found.run, found.round, found.worker) == (RUN, 3, "ward 7")
    assert bits(found.vector) == bits(vector)


def test_a_round_sends_two_vectors_down_and_one_up():
    """11 bytes a number, and a head that does not grow; nothing but the fields that are listed."""
    for d in (10, 1000):
        down = task(points=(np.zeros(d), np.zeros(d))).to_json()
        up = answer(vector=np.zeros(d)).to_json()
        assert len(down) < 2 * 8 * d * 4 / 3 + 600
        assert len(up) < 8 * d * 4 / 3 + 200
    assert set(json.loads(up)) == {"run", "round", "worker", "vector"}


def test_a_task_says_what_a_row_is_asked_for():
    query = task().query(Logistic())
    assert isinstance(query, ClippedDifference)
    assert (query.first_factor, query.second_factor, query.clip) == (4.0, 3.0, 0.1)
    assert (query.first == AWKWARD).all()
    assert (query.second == AWKWARD[::-1]).all()
    single = task(points=(AWKWARD,), factors=(1.0,)).query(Logistic(), clip=9.0)
    assert isinstance(single, ClippedGradient)
    assert (single.clip, task().size) == (9.0, 5)


def test_an_answer_is_sealed_and_does_not_show_its_numbers():
    sent = answer(vector=np.array([12345.678, 1.0]))
    assert "12345" not in repr(sent)
    with pytest.raises(ValueError, match="read-only"):
        sent.vector[0] = 0.0


@pytest.mark.parametrize(
    "changes",
    [
        {"run": "short"},
        {"run": "abc"},
        {"plan": "0" * 33},
        {"plan": "F" * 32},
        {"round": -1},
        {"round": True},
        {"points": (), "factors": ()},
        {"points": (AWKWARD,)},
        {"points": (AWKWARD,), "factors": (2.0,)},
        {"points": (AWKWARD, AWKWARD[:2])},
        {"points": (AWKWARD, np.full(5, np.nan))},
        {"factors": (4.0, np.nan)},
        {"factors": (np.inf, 1.0)},
        {"clip": 0.0},
        {"clip": np.inf},
        {"cohort": 0},
        {"protects": "nobody"},
        {"trust": "me"},
        {"encoding": 35},
    ],
)
def test_a_task_out_of_range_is_refused(changes):
    with pytest.raises(ParameterError):
        task(**changes)


@pytest.mark.parametrize(
    "vector",
    [[1.0], np.array([1]), np.array([1.0], np.float32), np.ones((2, 2)), np.array([np.inf]), None],
)
def test_an_answer_of_other_numbers_is_refused(vector):
    with pytest.raises(ParameterError):
        answer(vector=vector)
    for name in ("", "a\nb", 7, "x" * 300):
        with pytest.raises(ParameterError, match="name"):
            answer(worker=name)


def test_an_answer_keeps_its_numbers_whatever_becomes_of_the_callers():
    mine = AWKWARD.copy()
    sent = answer(vector=mine)
    mine[:] = 7.0
    assert bits(sent.vector) == bits(AWKWARD)


@pytest.mark.parametrize("stray", ["\n", "*", " ", "="])
def test_strange_letters_amid_a_vector_are_refused(stray):
    record = json.loads(answer().to_json())
    text = record["vector"]["base64"]
    record["vector"]["base64"] = text[:8] + stray + text[8:]
    with pytest.raises(ParameterError, match="cannot be read"):
        Answer.from_json(json.dumps(record))


def test_texts_that_are_no_message_are_refused():
    record = json.loads(task().to_json())
    wrong = [
        "nonsense",
        "[]",
        "{}",
        answer().to_json(),
        json.dumps({**record, "more": 1}),
        json.dumps({**record, "points": 3}),
        json.dumps({**record, "factors": None}),
        json.dumps({**record, "encoding": {"step": 1.0}}),
        json.dumps({**record, "points": [{"type": "float32", "base64": "AAAA"}] * 2}),
        json.dumps({**record, "points": [{"type": "float64", "base64": "AAAA"}] * 2}),
        json.dumps({**record, "points": [{"type": "float64", "base64": "*"}] * 2}),
        json.dumps({**record, "points": [{"type": ["float64"], "base64": ""}] * 2}),
        task().to_json()[:-1] + ', "round": 4}',
    ]
    for text in wrong:
        with pytest.raises(ParameterError):
            Request.from_json(text)
    for text in (*wrong[:3], task().to_json()):
        with pytest.raises(ParameterError):
            Answer.from_json(text)
