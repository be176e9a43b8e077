"""Damage to text: bytes, and JSON values that are not what a reader expects."""

from __future__ import annotations

import copy
import hashlib
import json
import random
from collections.abc import Callable
from typing import Any

LONG = "x" * 5000  # must not be quoted at length
_RAW = "@raw:"  # a text that stands for tokens which json.dumps does not write
HUGE = (10**6, 10**7, 10**9, 10**12, 2**53 + 1, 2**63, 2**64, 10**30, 10**400)
ODD = (
    -1, 0, 1, 2, 0.5, -0.5, 1e-300, 1e300, 5e-324, 1e-9, 1e9, 1e15, True, False, None, "text", "",
    "1.0", [], {}, [1], {"type": "float", "value": "inf"}, {"type": "float", "value": LONG},
    f"{_RAW}NaN", f"{_RAW}Infinity", f"{_RAW}-Infinity", f"{_RAW}1e999", f"{_RAW}-0", LONG,
    f"{_RAW}{'9' * 5000}", f"{_RAW}{'[' * 200}1{']' * 200}", f"{_RAW}{'[' * 100_000}",
    _RAW + '{"a":' * 3000 + "1" + "}" * 3000,
    "\ud800", "a\u0000b", f"{_RAW}\"\\ud800\"",
)  # fmt: skip

Path = tuple[Any, ...]


def paths(value: Any, before: Path = ()) -> list[Path]:
    """Return where every value of a record stands."""
    found = [before]
    items = value.items() if isinstance(value, dict) else ()
    if isinstance(value, list):
        items = list(enumerate(value))[:20]
    for key, item in items:
        found += paths(item, (*before, key))
    return found


def at(record: Any, path: Path) -> Any:
    """Return the value that stands somewhere."""
    for key in path:
        record = record[key]
    return record


def put(record: Any, path: Path, value: Any) -> Any:
    """Return the record with another value somewhere."""
    if not path:
        return value
    at(record, path[:-1])[path[-1]] = value
    return record


def mutate(record: Any, rng: random.Random, words: list[str]) -> Any:
    """Return a copy with one to three changes that a reader of JSON sees."""
    record = copy.deepcopy(record)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        places = paths(record)
        path = rng.choice(places)
        change = rng.choice(_CHANGES)
        record = change(record, path, rng, words)
    return record


def _number(record: Any, path: Path, rng: random.Random, words: list[str]) -> Any:
    """Put an odd value in the place of a number, or of a text."""
    numbers = [p for p in paths(record) if p and not isinstance(at(record, p), (dict, list))]
    path = rng.choice(numbers) if numbers else path
    value = rng.choice(HUGE) if rng.random() < 0.5 else rng.choice(ODD)
    return put(record, path, copy.deepcopy(value))


def _scaled(record: Any, path: Path, rng: random.Random, words: list[str]) -> Any:
    """Multiply a number, by a little or a lot."""
    numbers = [p for p in paths(record) if _is_small(at(record, p))]
    if not numbers:
        return record
    path = rng.choice(numbers)
    value = at(record, path)
    factor = rng.choice((-1, 1 + 1e-12, 0.5, 2, 10, 1e3, 1e6, 1e9, 1e-3, 1e-9))
    scaled = value * factor
    return put(record, path, int(scaled) if isinstance(value, int) else scaled)


def _is_small(value: Any) -> bool:
    """Return whether a value is a number that can be multiplied."""
    return type(value) in (int, float) and abs(value) < 10**100


def _sized(record: Any, path: Path, rng: random.Random, words: list[str]) -> Any:
    """Make counts large wherever they stand, so that they fit together."""
    names = ("n", "d", "rounds", "steps", "count", "batch", "bands", "candidates", "size", "span",
             "classes", "buckets", "dimension", "rank", "passes", "tail")  # fmt: skip
    chosen = {name: rng.choice(HUGE[:6]) for name in rng.sample(names, rng.choice((1, 2, 4)))}
    if rng.random() < 0.5:
        chosen["n"] = max([10**9, *chosen.values()])
    for place in paths(record):
        if place and place[-1] in chosen and type(at(record, place)) is int:
            put(record, place, chosen[place[-1]])
        elif place and place[-1] == "rows" and isinstance(at(record, place), list):
            put(record, place, [0, chosen.get("n", 1000)])
        elif place and place[-1] in ("sigma", "scale") and rng.random() < 0.7:
            put(record, place, 10.0 ** rng.randrange(0, 12))
    return record


def _deleted(record: Any, path: Path, rng: random.Random, words: list[str]) -> Any:
    if path:
        del at(record, path[:-1])[path[-1]]
    return record


def _renamed(record: Any, path: Path, rng: random.Random, words: list[str]) -> Any:
    parent = at(record, path[:-1]) if path else record
    if isinstance(parent, dict) and path:
        parent[rng.choice((*words, "unknown", "", "type", "value"))] = parent.pop(path[-1])
    return record


def _word(record: Any, path: Path, rng: random.Random, words: list[str]) -> Any:
    """Put another word in the place of one: another kind, solver, type."""
    texts = [p for p in paths(record) if p and isinstance(at(record, p), str)]
    return put(record, rng.choice(texts), rng.choice(words)) if texts else record


def _swapped(record: Any, path: Path, rng: random.Random, words: list[str]) -> Any:
    """Put a part in another part's place."""
    other = rng.choice(paths(record))
    return put(record, path, copy.deepcopy(at(record, other)))


def _repeated(record: Any, path: Path, rng: random.Random, words: list[str]) -> Any:
    """Make a list longer, or empty, or shorter."""
    lists = [p for p in paths(record) if isinstance(at(record, p), list)]
    if not lists:
        return record
    path = rng.choice(lists)
    value = at(record, path)
    times = rng.choice((0, 2, 10, 100, 1000, 20_000))
    longer = (value * times)[:200_000] if times else value[: len(value) // 2]
    if rng.random() < 0.3:  # all different
        longer = [
            {**item, "rows": [k, k + 1]} if isinstance(item, dict) and "rows" in item else item
            for k, item in enumerate(longer)
        ]
    return put(record, path, longer)


def _wrapped(record: Any, path: Path, rng: random.Random, words: list[str]) -> Any:
    value = at(record, path)
    for _ in range(rng.choice((1, 2, 70))):
        value = [value]
    return put(record, path, value)


def _added(record: Any, path: Path, rng: random.Random, words: list[str]) -> Any:
    value = at(record, path)
    if isinstance(value, dict):
        value[rng.choice(words)] = copy.deepcopy(rng.choice(ODD))
    return record


_CHANGES: tuple[Callable[..., Any], ...] = (
    _number, _number, _number, _sized, _sized, _sized, _scaled, _scaled, _deleted, _renamed,
    _word, _word, _swapped, _repeated, _wrapped, _added,
)  # fmt: skip


def text_of(record: Any, rng: random.Random) -> str:
    """Return a record as text, odd tokens included; sometimes with a field twice."""
    text = json.dumps(record)
    while (start := text.find(f'"{_RAW}')) >= 0:
        token, length = json.decoder.scanstring(text, start + 1)
        text = text[:start] + token[len(_RAW) :] + text[length:]
    if rng.random() < 0.03 and text.startswith("{") and '": ' in text:
        text = "{" + text[1:].split(", ")[0] + ", " + text[1:]
    return text


def signed(record: Any) -> Any:
    """Return a model or a certificate with digests that match what it says now."""
    if not isinstance(record, dict):
        return record
    inner = record.get("certificate")
    if isinstance(inner, dict) and "digest" in inner:
        record["certificate"] = signed(inner)
    content = {name: value for name, value in record.items() if name != "digest"}
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    record["digest"] = "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()
    return record


def damage(content: bytes, rng: random.Random) -> bytes:
    """Return bytes with some of them changed, lost, repeated or added."""
    kind = rng.randrange(9)
    size = len(content)
    spot = rng.randrange(size + 1) if size else 0
    if kind <= 2:
        found = bytearray(content)
        for _ in range(rng.choice((1, 1, 2, 8, 64))):
            if found:
                found[rng.randrange(len(found))] = rng.randrange(256)
        return bytes(found)
    if kind == 3:
        return content[:spot]
    if kind == 4:
        return content[:spot] + content[min(size, spot + rng.randrange(1, 200)) :]
    if kind == 5:
        return content[:spot] + content[: rng.randrange(1, 4000)] + content[spot:]
    if kind == 6:
        return rng.choice((b"\xef\xbb\xbf", b"\x00", b" ", b"\xff\xfe")) + content
    if kind == 7:
        coding = rng.choice(("utf-16", "utf-32", "latin-1"))
        return content.decode("utf-8", "replace").encode(coding, "replace")
    return rng.choice((b"", rng.randbytes(300), content + b"}", content + content, b"[" * 10**6))
