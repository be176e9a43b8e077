"""Text as hashed n-grams: a public number of columns, and a vector of length 1 at most.

Words, or letters within words, are counted in short runs (n-grams). Each run is hashed to a public
place, and the counts are divided by their Euclidean length. So whatever a text says, its part of a
row has norm 1, or 0 if there is nothing in it; a long text weighs no more than a short one.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..tables.arrow import distinct

if TYPE_CHECKING:
    from .schema import Text

Entries = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]  # row, place, value

_WORD = re.compile(r"\w+")
_LONGEST = 1 << 16  # characters of a text that are read: a public number
_MOST_KNOWN = 1 << 18  # hashes that are remembered
_SHORTER = 1.0 - 1e-6  # so that no rounding, of float32 either, makes a part longer than 1


def ngrams(text: str, column: Text) -> Iterator[str]:
    """Yield the n-grams of a text in order.

    >>> from dpsco.data.schema.schema import Text
    >>> list(ngrams("Not good, not bad", Text("t", 8, ngrams=(1, 2))))[:4]
    ['not', 'not good', 'good', 'good not']
    """
    words = _WORD.findall(text[:_LONGEST].casefold())
    low, high = column.ngrams
    if column.of == "letters":
        for word in words:
            edged = f" {word} "
            for start in range(len(edged)):
                for n in range(low, min(high, len(edged) - start) + 1):
                    yield edged[start : start + n]
        return
    for start in range(len(words)):
        for n in range(low, min(high, len(words) - start) + 1):
            yield " ".join(words[start : start + n])


def text_entries(column: Text, array: Any) -> Entries:
    """Return which numbers of which rows differ from zero, by row and place.

    At most ``column.most`` different n-grams of a text count, the first ones.
    """
    key = hashlib.blake2b(column.name.encode(), digest_size=32, person=b"dpsco text").digest()
    known: dict[str, tuple[int, float]] = {}
    texts, indices = distinct(array)
    parts = [_vector(entry, column, key, known) for entry in texts]
    lengths = np.array([len(places) for places, _ in parts] + [0])
    rows = np.repeat(np.arange(len(indices)), lengths[indices])
    chosen = [parts[k] for k in indices if k >= 0]
    if not chosen:
        return rows, np.empty(0, np.int64), np.empty(0)
    places = np.concatenate([places for places, _ in chosen])
    return rows, places, np.concatenate([values for _, values in chosen])


def _vector(
    entry: bytes, column: Text, key: bytes, known: dict[str, tuple[int, float]]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the places of a text in order, and its numbers there."""
    counts: dict[str, int] = {}
    for gram in ngrams(entry.decode(errors="replace"), column):
        if gram in counts:
            counts[gram] += 1
        elif len(counts) < column.most:
            counts[gram] = 1
    sums: dict[int, float] = {}
    for gram, number in counts.items():
        if gram not in known:
            if len(known) >= _MOST_KNOWN:
                known.clear()
            known[gram] = _place(gram, column.buckets, key)
        place, sign = known[gram]
        sums[place] = sums.get(place, 0.0) + sign * number
    length = math.sqrt(math.fsum(value * value for value in sums.values()))
    filled = sorted((place, value) for place, value in sums.items() if value)
    places = np.array([place for place, _ in filled], dtype=np.int64)
    values = np.array([value for _, value in filled], dtype=np.float64)
    return places, values / length * _SHORTER if filled else values


def _place(gram: str, buckets: int, key: bytes) -> tuple[int, float]:
    """Return where an n-gram counts, and with which sign: collisions cancel on average."""
    digest = hashlib.blake2b(gram.encode(errors="replace"), digest_size=8, key=key).digest()
    word = int.from_bytes(digest, "little")
    return (word >> 1) % buckets, -1.0 if word & 1 else 1.0
