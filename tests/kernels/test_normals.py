"""Box-Muller from words: the two implementations agree, and both give the normal law."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
from scipy.special import kolmogorov, ndtr

from dpsco.errors import ParameterError
from dpsco.kernels import compiler, normals

FALSE_ALARM = 1e-6  # of each statistical test below

MARKS = (0, 2**53, 2**61, 2**62, 2**63, 2**63 + 2**62, 2**64 - 1025, 2**64 - 1)
EDGES = [(mark + step) % 2**64 for mark in MARKS for step in (-1, 0, 1)]


@pytest.fixture(scope="module")
def words() -> np.ndarray:
    """Every pair of edge words, then random ones; more than one block of the reference."""
    pairs = np.array([(w, v) for w in EDGES for v in EDGES], dtype=np.uint64)
    rng = np.random.default_rng(20240501)
    return np.concatenate((pairs.reshape(-1), rng.integers(2**64, size=200_000, dtype=np.uint64)))


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A process that has made no normals yet and has no wish in its environment."""
    monkeypatch.delenv("DPSCO_COMPILED", raising=False)
    monkeypatch.setattr(normals, "_served", 0)
    return monkeypatch


def reference(words: np.ndarray) -> np.ndarray:
    out = np.full(words.size, np.nan)
    normals._numpy_normals(words, out)
    return out


def stated_map(words: np.ndarray) -> np.ndarray:
    """The map of the module's text with the platform's logarithm, cosine and sine."""
    w, v = words[::2], words[1::2]
    radius = np.sqrt(-2.0 * np.log((w.astype(np.float64) + 1.0) / 2.0**64))
    signed = (v << np.uint64(2)).view(np.int64)
    angle = (signed + 0.5) * (math.pi / 4 / 2.0**63)
    sign = np.where(v >> np.uint64(63), -1.0, 1.0)
    exchange = (v >> np.uint64(62)) % 2 == 1
    cos, sin = sign * radius * np.cos(angle), sign * radius * np.sin(angle)
    first, second = np.where(exchange, sin, cos), np.where(exchange, cos, sin)
    return np.stack((first, second), axis=1).reshape(-1)


def ks_p_value(sample: np.ndarray, scale: float = 1.0) -> float:
    """Kolmogorov-Smirnov against the normal law with this scale (asymptotic)."""
    size, levels = sample.size, ndtr(np.sort(sample) / scale)
    above = np.arange(1, size + 1) / size - levels
    below = levels - np.arange(size) / size
    return float(kolmogorov(math.sqrt(size) * max(above.max(), below.max())))


def test_compiled_loop_and_reference_agree_bit_for_bit(words: np.ndarray) -> None:
    pytest.importorskip("numba")
    loop = normals._compiled_loop(normals._pair_loop, "none(words, out)")
    assert loop is not None
    out = np.full(words.size, np.nan)
    loop(words, out)
    assert np.max(np.abs(out - reference(words))) < 1e-12
    np.testing.assert_array_equal(out.view(np.uint64), reference(words).view(np.uint64))


def test_reference_is_the_stated_map(words: np.ndarray) -> None:
    np.testing.assert_allclose(reference(words), stated_map(words), rtol=0, atol=1e-14)


def test_tail_reaches_as_far_as_stated(words: np.ndarray) -> None:
    values = reference(words)
    assert np.isfinite(values).all()
    assert np.abs(values).max() == pytest.approx(math.sqrt(128 * math.log(2)), abs=1e-12)
    assert np.abs(values).max() == np.abs(reference(np.zeros(2, np.uint64))).max()


def test_every_bit_counts() -> None:
    """Each of the 128 bits of a pair of small words moves its normals."""
    base = np.array([0x1234, 0x1234], dtype=np.uint64)
    seen = {tuple(reference(base))}
    for place in range(128):
        changed = base.copy()
        changed[place // 64] ^= np.uint64(1) << np.uint64(place % 64)
        seen.add(tuple(reference(changed)))
    assert len(seen) == 129


def test_longer_request_begins_with_the_shorter(words: np.ndarray) -> None:
    np.testing.assert_array_equal(reference(words)[:50], reference(words[:50]))


def test_law_is_standard_normal_with_power(words: np.ndarray) -> None:
    sample = reference(words[-100_000:])
    for part in (sample, sample[::2], sample[1::2]):
        assert ks_p_value(part) > FALSE_ALARM
        assert ks_p_value(part, scale=1.1) < FALSE_ALARM
        assert ks_p_value(part, scale=0.9) < FALSE_ALARM


def test_the_two_of_a_pair_are_independent(words: np.ndarray) -> None:
    """Rotated by 45 degrees a pair is again two normals; correlated ones would not be."""
    first, second = reference(words[-100_000:]).reshape(-1, 2).T
    for mixed in (first + second, first - second):
        assert ks_p_value(mixed / math.sqrt(2)) > FALSE_ALARM
    leaning = (first + (0.2 * first + math.sqrt(0.96) * second)) / math.sqrt(2)
    assert ks_p_value(leaning) < FALSE_ALARM
    squares = first**2 + second**2
    assert ks_p_value(np.sqrt(squares)) < FALSE_ALARM


@pytest.mark.parametrize(
    ("words", "out"),
    [
        (np.zeros(3, np.uint64), np.zeros(3)),
        (np.zeros(4, np.uint64), np.zeros(2)),
        (np.zeros(4, np.int64), np.zeros(4)),
        (np.zeros(4, np.uint64), np.zeros(4, np.float32)),
        (np.zeros(8, np.uint64)[::2], np.zeros(4)),
        (np.zeros((2, 2), np.uint64), np.zeros((2, 2))),
    ],
)
def test_wrong_arrays_are_refused(words: np.ndarray, out: np.ndarray) -> None:
    with pytest.raises(ParameterError):
        normals.normals_from_words(words, out)


def test_empty_request() -> None:
    normals.normals_from_words(np.empty(0, np.uint64), np.empty(0))
    normals._numpy_normals(np.empty(0, np.uint64), np.empty(0))


def test_loop_is_loaded_after_patience_only(patient: pytest.MonkeyPatch) -> None:
    calls = []
    patient.setattr(normals, "_compiled_loop", lambda *_: lambda w, out: calls.append(out.size))
    patient.setattr(normals, "COMPILE_THRESHOLD", 3 * (1000 + normals._CALL))
    words, out = np.zeros(1000, np.uint64), np.empty(1000)
    for _ in range(5):
        normals.normals_from_words(words, out)
    assert calls == [1000, 1000]


@pytest.mark.parametrize(("wish", "compiled"), [("0", 0), ("1", 1)])
def test_environment_decides(patient: pytest.MonkeyPatch, wish: str, compiled: int) -> None:
    calls = []
    patient.setattr(normals, "_compiled_loop", lambda *_: lambda w, out: calls.append(out.size))
    patient.setattr(normals, "_served", 0 if compiled else normals.COMPILE_THRESHOLD)
    patient.setenv("DPSCO_COMPILED", wish)
    normals.normals_from_words(np.zeros(2, np.uint64), np.empty(2))
    assert len(calls) == compiled
    if not compiled:
        assert not compiler.available()


def test_without_numba_the_reference_serves(patient: pytest.MonkeyPatch, words: np.ndarray) -> None:
    patient.setitem(sys.modules, "numba", None)
    patient.setenv("DPSCO_COMPILED", "1")
    normals._compiled_loop.cache_clear()
    try:
        assert not compiler.available()
        out = np.empty(words.size)
        normals.normals_from_words(words, out)
        np.testing.assert_array_equal(out, reference(words))
    finally:
        normals._compiled_loop.cache_clear()


def test_small_requests_do_not_import_numba(patient: pytest.MonkeyPatch) -> None:
    script = (
        "import sys; from dpsco.privacy.randomness import Randomness as R; "
        "R.secure().child('x').normals(100_000); sys.exit('numba' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
