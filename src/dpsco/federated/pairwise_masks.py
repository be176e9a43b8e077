"""Masks that every two parties share and no server knows: sums that nobody sees in parts.

Each party has an X25519 key. The public halves stand in a `Roster`, which reaches everybody as the
plan does: beforehand, from somebody they believe. So no key travels during a run, and a server that
makes up parties of its own is not in the roster. Two parties agree on a secret without a message
(Diffie-Hellman of their two keys), and derive from it, by HKDF with SHA-256, one key for each
request; the keystream under that key is their mask. The one whose name comes first adds it, the
other one subtracts it, modulo 2^bits: in the sum over all members of a request they cancel.

A request names its members, and a mask depends on all of the request. So the same mask never hides
two different vectors, as long as a worker answers a round once or repeats the same bits, which is
the worker's rule. Whoever answers with a set of members stays with it: two sums that differ by one
member would give its answer away.

What this is not: it has no recovery. If a member's answer never comes, the sum of the others is
uniformly random and worth nothing; the round waits for that member, or the run ends there. And keys
that are stolen later open what was recorded earlier: make new ones for each run, and delete them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from .. import _validate
from ..errors import DataError, ParameterError
from ..files import limits as _limits
from ..files.reading import check_private, parse_json, read_bytes
from ..privacy.randomness import Randomness
from .fixed_point import Words
from .messages import Request, check_name

_SCHEMA = "dpsco.roster/1"
_PURPOSE = "dpsco pairwise mask 1"
_MOST_PEM = 10_000  # bytes


@dataclass(frozen=True)
class Roster:
    """Who may be in a masked sum: names with public keys, the same for everybody.

    Args:
        workers: public keys by name, 64 hexadecimal digits each.
        helpers: those of noise helpers, who are in every sum.
        minimum: how many workers a sum has at least; a worker adds to no smaller one.

    Raises:
        ParameterError: a name, a key or the minimum is out of range, or a name or key occurs twice.
    """

    workers: Mapping[str, str]
    helpers: Mapping[str, str] = field(default_factory=dict)
    minimum: int = 2

    def __post_init__(self) -> None:
        keys: dict[str, str] = {}
        for group in (self.workers, self.helpers):
            for name, key in group.items():
                if check_name(name) in keys:
                    raise ParameterError(f"{name!r} is a worker and a helper: it can be one.")
                keys[name] = _checked_key(name, key)
        if len(set(keys.values())) < len(keys):
            raise ParameterError("two parties of a roster have the same key: make one for each.")
        if not 2 <= len(keys) <= _limits.MOST_MEMBERS:
            raise ParameterError(
                f"a roster has 2 to {_limits.MOST_MEMBERS} parties, got {len(keys)}."
            )
        if _validate.integer("minimum", self.minimum, at_least=2) > len(self.workers):
            raise ParameterError(
                f"minimum must be at most the number of workers, {len(self.workers)}, got "
                f"{self.minimum}.",
                parameter="minimum",
            )

    @property
    def keys(self) -> dict[str, str]:
        """All public keys by name, in alphabetical order."""
        return dict(sorted({**self.workers, **self.helpers}.items()))

    @property
    def digest(self) -> str:
        """64 hexadecimal digits that tell rosters apart."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    def to_json(self) -> str:
        """Return the roster as JSON text, the same for equal rosters."""
        record = {
            "schema": _SCHEMA,
            "workers": dict(self.workers),
            "helpers": dict(self.helpers),
            "minimum": self.minimum,
        }
        return json.dumps(record, sort_keys=True, indent=1)

    @classmethod
    def from_json(cls, text: str | bytes) -> Roster:
        """Return the roster that `to_json` wrote.

        Raises:
            ParameterError: this is no roster.
        """
        record = parse_json(text, what="the roster", limits=_limits.AGREEMENT, error=ParameterError)
        fields = {"schema", "workers", "helpers", "minimum"}
        if not isinstance(record, dict) or set(record) != fields or record["schema"] != _SCHEMA:
            raise ParameterError("this is no roster: make one with dpsco federated roster.")
        groups = record["workers"], record["helpers"]
        if not all(isinstance(group, dict) for group in groups):
            raise ParameterError("a roster's workers and helpers are names with public keys.")
        return cls(*groups, minimum=record["minimum"])

    @classmethod
    def load(cls, path: str | Path) -> Roster:
        """Return the roster in a file.

        Raises:
            DataError: it cannot be read, or is none.
        """
        most = _limits.AGREEMENT.size
        text = read_bytes(path, what="the roster", most=most, error=DataError)
        try:
            return cls.from_json(text)
        except ParameterError as problem:
            raise DataError(f"{path}: {problem}") from None

    def objection(self, members: tuple[str, ...]) -> str:
        """Return why nobody may add to a sum of these members; empty if there is no reason."""
        strangers = [name for name in members if name not in self.keys]
        if strangers:
            return f"{strangers[0]!r} is not in the roster"
        absent = [name for name in self.helpers if name not in members]
        if absent:
            return f"the noise of helper {absent[0]!r} is not in its sum"
        count = sum(name in self.workers for name in members)
        if count < self.minimum:
            return f"its sum has {count} workers, agreed were {self.minimum} at least"
        return ""


class PairwiseMasks:
    """What hides one party's answers from everybody who does not see all of a sum.

    Args:
        name: of the party, as in the roster.
        roster: who takes part.
        key: the party's private key; `load_key` reads one.

    Raises:
        ParameterError: the name is not in the roster, or the key is not the one that is there.
    """

    def __init__(self, name: str, roster: Roster, key: X25519PrivateKey) -> None:
        public = roster.keys.get(check_name(name))
        if public is None:
            raise ParameterError(f"{name!r} is not in the roster, which has {list(roster.keys)}.")
        if not isinstance(key, X25519PrivateKey) or public_half(key) != public:
            raise ParameterError(
                f"the key is not that of {name!r} in the roster: pass the private key whose public "
                "half is there."
            )
        self.name, self.roster, self._key = name, roster, key

    def objection(self, request: Request) -> str:
        """Return why this party does not answer a request; empty if it does."""
        if request.members is None or request.encoding is None:
            return "it does not say whose masked integers it adds"
        if self.name not in request.members:
            return f"{self.name!r} is not among its members"
        return self.roster.objection(request.members)

    def hide(self, vector: Words, request: Request) -> Words:
        """Return a vector behind the masks of all other members, modulo 2^bits.

        Raises:
            ParameterError: the request is not one for this party.
        """
        if reason := self.objection(request):
            raise ParameterError(f"this request cannot be answered behind masks: {reason}.")
        assert request.members is not None
        assert request.encoding is not None
        hidden, digest = vector.copy(), request.digest
        for other in request.members:
            if other == self.name:
                continue
            root = Randomness.shared(self._secret(other, digest))
            mask = root.child(_PURPOSE).words(len(vector))
            if self.name < other:
                hidden += mask
            else:
                hidden -= mask
        return request.encoding.add([hidden], len(vector))

    def _secret(self, other: str, digest: str) -> bytes:
        """Return the 32 bytes that this party and another one share for one request."""
        public = X25519PublicKey.from_public_bytes(bytes.fromhex(self.roster.keys[other]))
        pair = sorted((self.name, other))
        info = json.dumps([_PURPOSE, *pair, self.roster.digest, digest]).encode()
        return HKDF(SHA256(), 32, salt=None, info=info).derive(self._key.exchange(public))

    def __repr__(self) -> str:
        return f"<PairwiseMasks of {self.name!r}>"


def load_key(path: str | Path) -> X25519PrivateKey:
    """Return the private key in a PEM file, as ``openssl genpkey -algorithm X25519`` writes one.

    Raises:
        DataError: there is no such key in it, or other users may read it.
    """
    content = read_bytes(path, what="the key", most=_MOST_PEM, error=DataError)
    try:
        key: Any = load_pem_private_key(content, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, X25519PrivateKey):
        raise DataError(
            f"{path} holds no private X25519 key in PEM. Make one: openssl genpkey -algorithm "
            f"X25519 -out {path}."
        )
    check_private(path, what="the private key", error=DataError)
    return key


def load_public_key(path: str | Path) -> str:
    """Return the public key in a PEM file, as a roster has it.

    Raises:
        DataError: there is no such key in it.
    """
    content = read_bytes(path, what="the key", most=_MOST_PEM, error=DataError)
    try:
        key: Any = load_pem_public_key(content)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, X25519PublicKey):
        raise DataError(
            f"{path} holds no public X25519 key in PEM. Make it of the private one: openssl pkey "
            f"-in PRIVATE -pubout -out {path}."
        )
    return key.public_bytes_raw().hex()


def public_half(key: X25519PrivateKey) -> str:
    """Return the public half of a key, as a roster has it."""
    return key.public_key().public_bytes_raw().hex()


def _checked_key(name: str, key: Any) -> str:
    """Return a public key; refuse what is none, and keys with which every secret is the same."""
    problem = f"the key of {name!r} in the roster is no X25519 key of 64 hexadecimal digits."
    if not isinstance(key, str) or len(key) != 64 or not set(key) <= set("0123456789abcdef"):
        raise ParameterError(problem)
    try:
        X25519PrivateKey.generate().exchange(X25519PublicKey.from_public_bytes(bytes.fromhex(key)))
    except ValueError:
        raise ParameterError(problem) from None
    return key
