"""Messages come back as they were, and what was cut or changed on its way is refused."""

import json

import numpy as np
import pytest

from dpsco.errors import DataError
from dpsco.files.limits import JsonLimits
from dpsco.files.packing import digest, pack, unpack

HOW = {"what": "the message", "limits": JsonLimits(10_000), "error": DataError}
ARRAYS = [
    np.array([0.1, -0.0, np.nan, np.inf, 5e-324]),
    np.arange(6, dtype=np.int32).reshape(2, 3),
    np.zeros((0, 4), dtype=np.float32),
    np.array([255, 0], dtype=np.uint8),
    np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    np.arange(8, dtype=">i8")[::2],
]


def test_messages_come_back_to_the_bit():
    head = {"round": 3, "text": "größer", "none": None, "list": [1, 2.5, "x"]}
    again, arrays = unpack(pack(head, ARRAYS), **HOW)
    assert again == head
    for array, answer in zip(ARRAYS, arrays, strict=True):
        assert answer.shape == array.shape
        assert answer.dtype == array.dtype.newbyteorder("=")
        assert answer.tobytes() == array.astype(answer.dtype).tobytes()


def test_every_changed_bit_and_every_cut_is_noticed():
    message = pack({"a": 1}, [np.arange(3.0)])
    for place in range(len(message)):
        for changed in (message[:place], message[:place] + b"\xff" * 3):
            with pytest.raises(DataError, match="cannot read the message"):
                unpack(changed, **HOW)
        flipped = bytearray(message)
        flipped[place] ^= 4
        with pytest.raises(DataError, match="cannot read the message"):
            unpack(bytes(flipped), **HOW)


@pytest.mark.parametrize(
    "arrays",
    [
        [{"type": "O", "shape": [1]}],
        [{"type": "<f8", "shape": [-1]}],
        [{"type": "<f8", "shape": [True]}],
        [{"type": "<f8", "shape": [2**40, 2**40]}],
        [{"type": "<f8", "shape": "1"}],
        [{"type": "<f8"}],
        [None],
        None,
        [],
    ],
)
def test_arrays_that_are_not_there(arrays):
    """Whoever signs such a message, it is refused before anything large is made."""
    text = json.dumps({"head": {}, "arrays": arrays}).encode()
    body = b"dpsco 1\n" + len(text).to_bytes(8, "little") + text + bytes(16)
    with pytest.raises(DataError, match="its arrays are not as its head says"):
        unpack(body + digest(body), **HOW)


def test_a_head_beyond_its_limits():
    with pytest.raises(DataError, match="larger than 10,000 bytes"):
        unpack(pack({"text": "x" * 20_000}), **HOW)
    with pytest.raises(ValueError, match="not JSON compliant"):
        pack({"number": np.inf})
