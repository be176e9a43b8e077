"""Cryptographic randomness: the only file of the package that makes random generators.

A `Randomness` is a root key, from the operating system or from a seed. It hands out children, one
for each purpose, and each child is a `Stream`: the keystream of AES-256 in counter mode under a key
of its own, read as 64-bit words. Everything random in the package is made from such words.

Noise that appears twice can be subtracted, so nothing here repeats:

* a child's key is BLAKE2b, keyed by the root, of a running number and the purpose, and no number
  is used twice;
* in a process forked from this one a secure root or stream takes a new key from the operating
  system, and a seeded one refuses to work;
* a copied or unpickled secure root is a new root; seeded roots and all streams refuse to be copied;
* a root is stored, for a run that may be interrupted, once, before it has handed out any child, and
  hands out none itself afterwards. The restored root does, and like a seeded one refuses to work in
  a forked process. The stored bytes are a secret.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import os
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from .._validate import integer, real
from ..errors import ParameterError, RandomnessError
from ..kernels.normals import normals_from_words

Words = NDArray[np.uint64]
Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

_KEY_BYTES = 32
_BLOCK = 1 << 14  # words at a time: 128 KiB, which stay in the second-level cache
_SLACK = 2  # words: older OpenSSL bindings ask for room for one more cipher block
_ZEROS = memoryview(bytes(8 * _BLOCK))
_MOST_ROWS = 1 << 53  # beyond, positions are no longer exact in float64
_BELOW_ONE = 1.0 - 2.0**-53
_SEED_HINT = "Leave it out for noise that nobody can reproduce: Randomness.secure()."
_WORKER_ADVICE = (
    "Make a root in each worker instead: Randomness.secure(), or Randomness.seeded(seed) with a "
    "seed of the worker's own."
)

_forks = 0
_fork_lock = threading.Lock()


def _note_fork() -> None:
    """Count a fork, in the new process; its locks may be held by threads that it does not have."""
    global _forks, _fork_lock
    _forks += 1
    _fork_lock = threading.Lock()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_note_fork)


def _process() -> tuple[int, int]:
    """Return what tells this process from those it was forked from and those forked from it."""
    return os.getpid(), _forks


class _Keyed(ABC):
    """A key that one process may use; subclasses say what they do with it."""

    def __init__(self, key: bytes, *, reproducible: bool, has_copy: bool = False) -> None:
        self._reproducible = reproducible
        self._has_copy = has_copy  # somewhere else, too: another key must not take its place
        self._set_key(key)
        self._lock = threading.Lock()
        self._owner = _process()

    @property
    def reproducible(self) -> bool:
        """Whether the numbers follow from a seed, and so are not private to those who know it."""
        return self._reproducible

    @abstractmethod
    def _set_key(self, key: bytes) -> None:
        """Take the key into use."""

    def _own(self) -> threading.Lock:
        """Return the lock to draw under, with a new key if this process was forked since."""
        process = _process()
        if process != self._owner:
            if self._reproducible or self._has_copy:
                raise RandomnessError(
                    f"{self!r} was made before this process was forked: here it would repeat the "
                    f"noise of the parent process. {_WORKER_ADVICE}"
                )
            with _fork_lock:
                if process != self._owner:
                    self._set_key(os.urandom(_KEY_BYTES))
                    self._lock = threading.Lock()
                    self._owner = process
        return self._lock

    def _refuse_copy(self) -> NoReturn:
        raise RandomnessError(
            f"{self!r} can be neither copied nor pickled: the copy would repeat its noise. "
            f"{_WORKER_ADVICE}"
        )


class Randomness(_Keyed):
    """A root key, from which any number of independent streams are derived.

    Safe to share between threads. ``pickle`` and ``copy`` turn a secure root into a new secure
    root, so that it may be sent to workers; a seeded root refuses.

    Args:
        seed: None takes the key from the operating system; an integer makes it reproducible.

    Raises:
        ParameterError: the seed is not a non-negative integer.
        RandomnessError: later, if noise would repeat (see the module's text).

    Example:
        >>> root = Randomness.seeded(7)
        >>> root.child("noise").normals(3).shape, root.reproducible
        ((3,), True)
    """

    def __init__(self, seed: int | None = None) -> None:
        self._children = 0
        self._stored = False  # for another process to go on with: this object's streams are over
        key = os.urandom(_KEY_BYTES) if seed is None else _key_of_seed(seed)
        super().__init__(key, reproducible=seed is not None)

    @classmethod
    def secure(cls) -> Randomness:
        """Return a root with 32 bytes from the operating system as its key."""
        return cls()

    @classmethod
    def seeded(cls, seed: int) -> Randomness:
        """Return a reproducible root; its noise hides nothing from those who know the seed."""
        return cls(integer("seed", seed, at_least=0, hint=_SEED_HINT))

    @property
    def description(self) -> str:
        """A sentence for the certificate: which cipher, and where the key came from."""
        if self._reproducible:
            return (
                "AES-256 in counter mode, keyed by BLAKE2b from a seed: the noise is reproducible, "
                "hence not private to anyone who knows the seed."
            )
        origin = "32 bytes of the operating system"
        if self._has_copy:
            origin += ", which a checkpoint kept while the run lasted"
        return f"AES-256 in counter mode, keyed by BLAKE2b from {origin}."

    def child(self, purpose: str) -> Stream:
        """Return a new stream; no two calls give the same one, whatever their purposes."""
        if not isinstance(purpose, str):
            raise ParameterError(f"purpose must be a string, got {purpose!r}.")
        with self._own():
            self._check_unstored()
            number, self._children = self._children, self._children + 1
            message = number.to_bytes(8, "little") + purpose.encode("utf-8", "surrogatepass")
            key = hashlib.blake2b(
                message, key=self.__key, digest_size=_KEY_BYTES, person=b"dpsco child"
            ).digest()
        return Stream(
            key, purpose=purpose, reproducible=self._reproducible, has_copy=self._has_copy
        )

    def check_usable(self) -> None:
        """Refuse, before anybody has paid for noise, a root that hands out no streams here."""
        with self._own():
            self._check_unstored()

    def _check_unstored(self) -> None:
        if self._stored:
            raise RandomnessError(
                f"{self!r} was stored for a run that may be interrupted, and the noise is that "
                "run's alone. Make another root, or leave it out."
            )

    def stored(self) -> bytes:
        """Return secret bytes, from which `restored` makes this root again, for one run only.

        Raises:
            RandomnessError: the root has handed out a stream, or was stored for another run: its
                noise would come a second time.
        """
        with self._own():
            if self._children or self._has_copy:
                raise RandomnessError(
                    f"{self!r} has been used, so it cannot be stored: restored it would repeat its "
                    "noise. Pass a root that has not been used, or leave it out."
                )
            self._has_copy = self._stored = True
            kind = bytes([self._reproducible])
            return kind + self.__key + _check_bytes(kind, self.__key)

    @classmethod
    def restored(cls, stored: bytes) -> Randomness:
        """Return the root that `stored` wrote down, as it was before it handed out any stream.

        It is for going on with the very run that the root was stored for: the same releases on the
        same rows. Anything else repeats noise.

        Raises:
            RandomnessError: these bytes are not what `stored` returned.
        """
        kind, key, check = stored[:1], stored[1 : 1 + _KEY_BYTES], stored[1 + _KEY_BYTES :]
        if kind not in (b"\0", b"\1") or not hmac.compare_digest(check, _check_bytes(kind, key)):
            raise RandomnessError("the stored root is damaged: its noise cannot be found again.")
        root = cls()
        root._reproducible, root._has_copy = kind == b"\1", True
        root._set_key(key)
        return root

    @classmethod
    def shared(cls, secret: bytes) -> Randomness:
        """Return the root that two parties make of one secret, for masks that cancel.

        Never for noise: both of them know it. In a forked process it refuses to work.

        Raises:
            RandomnessError: these are not 32 bytes.
        """
        if not isinstance(secret, bytes) or len(secret) != _KEY_BYTES:
            raise RandomnessError(f"a shared secret has {_KEY_BYTES} bytes.")
        root = cls()
        root._has_copy = True
        root._set_key(secret)
        return root

    def _set_key(self, key: bytes) -> None:
        self.__key = key

    def __reduce_ex__(self, protocol: Any) -> tuple[type[Randomness], tuple[()]]:
        if self._reproducible:
            self._refuse_copy()
        return type(self), ()

    def __repr__(self) -> str:
        return f"<Randomness: {'seeded' if self._reproducible else 'secure'}>"


class Stream(_Keyed):
    """One keystream, read as words, uniforms, normals, permutations and samples of rows.

    Made by `Randomness.child`. Safe to share between threads; in one thread a seeded stream gives
    the same numbers for the same sequence of calls, bit for bit (samples by `poisson_sample` also
    depend on the last bit of the platform's logarithm).

    Example:
        >>> stream = Randomness.seeded(7).child("rows")
        >>> stream.fixed_size_sample(10, 10)
        array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    """

    def __init__(
        self, key: bytes, *, purpose: str, reproducible: bool, has_copy: bool = False
    ) -> None:
        self._purpose = purpose
        super().__init__(key, reproducible=reproducible, has_copy=has_copy)

    def words(self, count: int) -> Words:
        """Return ``count`` independent uniform 64-bit words: the keystream, little-endian."""
        out = np.empty(integer("count", count, at_least=0), dtype=np.uint64)
        with self._own():
            for start, block in self._blocks(out.size):
                out[start : start + block.size] = block
        return out

    def uniforms(self, count: int) -> Floats:
        """Return ``count`` uniforms strictly between 0 and 1, from 2**-65 to 1 - 2**-53."""
        values = self.words(count).astype(np.float64)
        values += 0.5
        values *= 2.0**-64
        return np.minimum(values, _BELOW_ONE, out=values)

    def normals(self, shape: int | tuple[int, ...]) -> Floats:
        """Return independent standard normals, filled in C order; see `dpsco.kernels.normals`."""
        lengths = shape if isinstance(shape, tuple) else (shape,)
        out = np.empty(tuple(integer("shape", length, at_least=0) for length in lengths))
        flat = out.reshape(-1)
        with self._own():
            for start, block in self._blocks(flat.size + flat.size % 2):
                target = flat[start : start + block.size]
                if target.size == block.size:
                    normals_from_words(block, target)
                else:  # an odd number: the last normal of the last pair is not used
                    pairs = np.empty(block.size)
                    normals_from_words(block, pairs)
                    target[:] = pairs[:-1]
        return out

    def integers(self, high: int, count: int) -> Indices:
        """Return ``count`` integers, exactly uniform on 0, ..., high - 1, by rejection."""
        high = integer("high", high)
        if high > 1 << 63:
            raise ParameterError(f"high must be at most 2**63, got {high}.")
        out = np.empty(integer("count", count, at_least=0), dtype=np.int64)
        last_fair = np.uint64((1 << 64) - (1 << 64) % high - 1)
        filled = 0
        while filled < out.size:
            words = self.words(out.size - filled)
            words = words[words <= last_fair]
            out[filled : filled + words.size] = words % np.uint64(high)
            filled += words.size
        return out

    def permutation(self, n: int) -> Indices:
        """Return an exactly uniform permutation of 0, ..., n - 1."""
        rows = _row_count(n)
        while True:
            keys = self.words(rows)
            order = np.argsort(keys)
            ranked = keys[order]
            if not np.any(ranked[1:] == ranked[:-1]):  # a tie would favour some orders: start over
                return order.astype(np.int64, copy=False)

    def poisson_sample(self, n: int, rate: float) -> Indices:
        """Return, sorted, each of 0, ..., n - 1 independently with probability ``rate``.

        The gaps between chosen rows are geometric, P(gap >= k) = (1 - rate)**k, and are found as
        floor(log U / log(1 - rate)): work in proportion to rate * n. Rounding in float64 moves the
        log-probability of a sample by about n * 1e-15 at most.
        """
        rows, rate = _row_count(n), real("rate", rate)
        if not 0.0 < rate <= 1.0:
            raise ParameterError(f"rate must be above 0 and at most 1, got {rate!r}.")
        if rate == 1.0:
            return np.arange(rows, dtype=np.int64)
        parts, reached = [], -1.0
        while reached < rows:
            due = rate * (rows - reached)
            gaps = np.log(self.uniforms(min(int(due + 4.0 * math.sqrt(due)) + 8, 4 * _BLOCK)))
            with np.errstate(over="ignore"):
                gaps /= math.log1p(-rate)
            np.floor(np.minimum(gaps, rows, out=gaps), out=gaps)
            gaps += 1.0
            gaps[0] += reached
            chosen = np.cumsum(gaps)
            parts.append(chosen[chosen < rows].astype(np.int64))
            reached = float(chosen[-1])
        return np.concatenate(parts)

    def fixed_size_sample(self, n: int, size: int) -> Indices:
        """Return, sorted, an exactly uniform subset of ``size`` of the rows 0, ..., n - 1.

        It is the set of the first ``size`` different values among uniform integers, or, where
        more than half of the rows are asked for, the complement of such a set.
        """
        rows, size = _row_count(n), integer("size", size)
        if size > rows:
            raise ParameterError(f"size must be at most n = {rows}, got {size}.")
        wanted = min(size, rows - size)
        chosen = np.empty(0, dtype=np.int64)
        while chosen.size < wanted:  # never draws more than are missing, so never has to choose
            more = self.integers(rows, wanted - chosen.size)
            ranked = np.sort(np.concatenate((chosen, more)))
            chosen = ranked[np.diff(ranked, prepend=-1) > 0]
        if wanted == size:
            return chosen
        mask = np.ones(rows, dtype=np.bool_)
        mask[chosen] = False
        return np.flatnonzero(mask).astype(np.int64, copy=False)

    def _blocks(self, count: int) -> Iterator[tuple[int, Words]]:
        """Yield (start, words) over the next ``count`` words, in scratch that is overwritten."""
        scratch = np.empty(min(count, _BLOCK) + _SLACK, dtype=np.uint64)
        target = scratch.data.cast("B")
        for start in range(0, count, _BLOCK):
            size = min(_BLOCK, count - start)
            self._cipher.update_into(_ZEROS[: 8 * size], target)
            if sys.byteorder == "big":
                scratch.byteswap(inplace=True)
            yield start, scratch[:size]

    def _set_key(self, key: bytes) -> None:
        self._cipher = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        self._refuse_copy()

    def __repr__(self) -> str:
        return f"<Stream {self._purpose!r}: {'seeded' if self._reproducible else 'secure'}>"


def fresh_name() -> str:
    """Return 128 random bits as 32 hexadecimal digits: a name that nothing else has."""
    return os.urandom(16).hex()


def fresh_secret() -> str:
    """Return 256 random bits as 64 hexadecimal digits: a password that nobody can guess."""
    return os.urandom(_KEY_BYTES).hex()


def _check_bytes(kind: bytes, key: bytes) -> bytes:
    """Return what shows damage to a stored root."""
    return hashlib.blake2b(kind + key, digest_size=16, person=b"dpsco stored").digest()


def _key_of_seed(seed: int) -> bytes:
    """Return the root key of a seed."""
    number = integer("seed", seed, at_least=0, hint=_SEED_HINT)
    message = number.to_bytes((number.bit_length() + 7) // 8, "little")
    return hashlib.blake2b(message, digest_size=_KEY_BYTES, person=b"dpsco seed").digest()


def _row_count(n: int) -> int:
    """Return n, a number of rows from 1 to 2**53."""
    rows = integer("n", n)
    if rows > _MOST_ROWS:
        raise ParameterError(f"n must be at most 2**53, got {rows}.")
    return rows
