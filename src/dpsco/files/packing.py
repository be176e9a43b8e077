"""Messages between processes: a JSON head, raw arrays behind it, and a digest of both.

Nothing in a message is code, and reading one runs none. The digest tells a message that was cut or
damaged on its way; who sent it, it does not tell.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DpscoError
from .limits import JsonLimits
from .reading import parse_json

_MAGIC = b"dpsco 1\n"
_LENGTH = 8  # bytes that hold the length of the head
_DIGEST = 16
_TYPES = {"|u1", "<u2", "<u4", "<u8", "<i4", "<i8", "<f4", "<f8"}


def pack(head: Mapping[str, Any], arrays: Sequence[NDArray[Any]] = ()) -> bytes:
    """Return a message of a head, which is plain JSON, and of arrays of numbers.

    >>> head, (numbers,) = unpack(
    ...     pack({"round": 3}, [np.array([0.1, -2.0])]),
    ...     what="it", limits=JsonLimits(1000), error=DpscoError)
    >>> head, numbers.tolist()
    ({'round': 3}, [0.1, -2.0])
    """
    plain = [np.ascontiguousarray(each, dtype=each.dtype.newbyteorder("<")) for each in arrays]
    kinds = [{"type": each.dtype.str, "shape": list(each.shape)} for each in plain]
    text = json.dumps({"head": head, "arrays": kinds}, allow_nan=False).encode()
    parts = [_MAGIC, len(text).to_bytes(_LENGTH, "little"), text]
    body = b"".join([*parts, *(each.tobytes() for each in plain)])
    return body + digest(body)


def unpack(
    message: bytes, *, what: str, limits: JsonLimits, error: type[DpscoError]
) -> tuple[dict[str, Any], list[NDArray[Any]]]:
    """Return the head and the arrays of a message.

    Args:
        message: from `pack`.
        what: it is, in words, for errors.
        limits: of the head.
        error: to raise.

    Raises:
        DpscoError: of the kind ``error``: this is no message, or not a whole one.
    """
    begin = len(_MAGIC) + _LENGTH
    body, end = memoryview(message)[:-_DIGEST], len(message) - _DIGEST
    if len(message) < begin + _DIGEST or bytes(body[: len(_MAGIC)]) != _MAGIC:
        raise error(f"cannot read {what}: it is no message of this kind.")
    if digest(body) != bytes(message[end:]):
        raise error(f"cannot read {what}: it was cut or damaged on its way.")
    reached = begin + int.from_bytes(body[len(_MAGIC) : begin], "little")
    record = parse_json(bytes(body[begin:reached]), what=what, limits=limits, error=error)
    arrays = []
    try:
        for item in record["arrays"]:
            kind, shape = item["type"], tuple(item["shape"])
            if kind not in _TYPES or not all(type(size) is int and size >= 0 for size in shape):
                raise ValueError
            size = np.dtype(kind).itemsize * math.prod(shape)
            if reached + size > end:
                raise ValueError
            part = np.frombuffer(body[reached : reached + size], dtype=kind)
            arrays.append(part.astype(part.dtype.newbyteorder("=")).reshape(shape))
            reached += size
        if reached != end or not isinstance(record["head"], dict):
            raise ValueError
    except (KeyError, TypeError, ValueError):
        raise error(f"cannot read {what}: its arrays are not as its head says.") from None
    return record["head"], arrays


def digest(content: bytes | memoryview) -> bytes:
    """Return a digest of 16 bytes."""
    return hashlib.blake2b(content, digest_size=_DIGEST).digest()
