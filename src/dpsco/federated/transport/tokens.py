"""Who may speak for a party: one secret word each, of 256 random bits.

The coordinator keeps digests alone: whoever reads its file can speak for nobody. The words are
random and long, so a plain SHA-256 of them cannot be searched. A file that others may read is
refused, on both sides; a word is never an argument of a command, where other users would see it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ...errors import DataError, ParameterError
from ...files import limits as _limits
from ...files.disk import flag, write
from ...files.reading import check_private, read_bytes, read_json
from ...files.writing import explained, write_text
from ...privacy.randomness import fresh_secret
from ..messages import check_name

_SCHEMA = "dpsco.tokens/1"
_DIGITS = set("0123456789abcdef")


@dataclass(frozen=True)
class Tokens:
    """Digests of the parties' words, by name, in the order in which their sums are added."""

    digests: Mapping[str, str]

    def party(self, word: str) -> str | None:
        """Return whose word this is, in a time that does not depend on it; None: nobody's."""
        digest, result = _digest(word), None
        for name, known in self.digests.items():
            if hmac.compare_digest(digest, known):
                result = name
        return result

    @classmethod
    def load(cls, path: str | Path) -> Tokens:
        """Return the digests in a file.

        Raises:
            DataError: it cannot be read, others may read it, or it holds something else.
        """
        check_private(path, what="the tokens", error=DataError)
        record = read_json(path, what="the tokens", limits=_limits.AGREEMENT, error=DataError)
        digests = record.get("parties") if isinstance(record, dict) else None
        if not isinstance(digests, dict) or record.get("schema") != _SCHEMA:
            raise DataError(f"{path} holds no tokens: make it with dpsco federated token.")
        for name, digest in digests.items():
            check_name(name)
            if not isinstance(digest, str) or len(digest) != 64 or not set(digest) <= _DIGITS:
                raise DataError(f"{path} is damaged: the token of {name!r} cannot be read.")
        return cls(digests)


def issue(name: str, tokens: str | Path, word: str | Path) -> None:
    """Make a party's word: its digest goes to the coordinator's file, the word to a new one.

    Args:
        name: of the party.
        tokens: the coordinator's file; it is made if it is not there.
        word: the file that the party gets.

    Raises:
        DataError: a file cannot be written, or is there.
        ParameterError: the party has a word already.
    """
    tokens = Path(tokens)
    digests = dict(Tokens.load(tokens).digests) if tokens.exists() else {}
    if check_name(name) in digests:
        raise ParameterError(f"{name!r} has a token in {tokens} already: remove its line first.")
    secret = fresh_secret()
    with explained(Path(word)):
        _write_private(Path(word), f"{secret}\n")
    record = {"schema": _SCHEMA, "parties": {**digests, name: _digest(secret)}}
    text = json.dumps(record, indent=1) + "\n"
    with explained(tokens):
        if tokens.exists():
            write_text(tokens, text)  # keeps the mode of the file
        else:
            _write_private(tokens, text)


def load_word(path: str | Path) -> str:
    """Return a party's word.

    Raises:
        DataError: it cannot be read, others may read it, or it is no word of dpsco.
    """
    check_private(path, what="the token", error=DataError)
    word = read_bytes(path, what="the token", most=1000, error=DataError).decode("ascii", "replace")
    if len(word.strip()) != 64 or not set(word.strip()) <= _DIGITS:
        raise DataError(f"{path} holds no token: the coordinator makes it, dpsco federated token.")
    return word.strip()


def _digest(word: str) -> str:
    return hashlib.sha256(word.encode("utf-8", "surrogatepass")).hexdigest()


def _write_private(path: Path, text: str) -> None:
    """Write a new file that its owner alone may read."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | flag("O_CLOEXEC")
    handle = os.open(path, flags, 0o600)
    try:
        write(handle, text.encode())
        os.fsync(handle)
    finally:
        os.close(handle)
