"""The secure generator: known answers, laws with power, and noise that never repeats."""

from __future__ import annotations

import copy
import hashlib
import itertools
import math
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from scipy.special import gammaincc, kolmogorov, ndtr

from dpsco.errors import ParameterError, RandomnessError
from dpsco.privacy.randomness import Randomness, Stream, fresh_name

FALSE_ALARM = 1e-6  # of each statistical test below
GOLDEN = ["-0x1.d543fc413446ep-1", "-0x1.bbf61d3c5f58bp-1"]  # of this code; equal on every machine


def stream(seed: int = 1) -> Stream:
    return Randomness.seeded(seed).child("test")


def ks_p_value(levels: np.ndarray) -> float:
    """Kolmogorov-Smirnov of values that should be uniform on (0, 1) (asymptotic)."""
    size, ranked = levels.size, np.sort(levels)
    above = np.arange(1, size + 1) / size - ranked
    below = ranked - np.arange(size) / size
    return float(kolmogorov(math.sqrt(size) * max(above.max(), below.max())))


def chi_square_p_value(counts: np.ndarray, expected: np.ndarray) -> float:
    return float(gammaincc((counts.size - 1) / 2, np.sum((counts - expected) ** 2 / expected) / 2))


def test_words_are_the_keystream_of_aes_256_ctr() -> None:
    key = bytes(range(32))
    ours = Stream(key, purpose="test", reproducible=True).words(40_000)
    cipher = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
    assert ours.astype("<u8").tobytes() == cipher.update(bytes(8 * 40_000))


def test_keys_of_seed_and_child_are_as_documented() -> None:
    root = hashlib.blake2b(b"\x07", digest_size=32, person=b"dpsco seed").digest()
    message = (1).to_bytes(8, "little") + b"noise"
    key = hashlib.blake2b(message, key=root, digest_size=32, person=b"dpsco child").digest()
    expected = Stream(key, purpose="noise", reproducible=True).words(5)
    parent = Randomness.seeded(7)
    parent.child("noise")
    np.testing.assert_array_equal(parent.child("noise").words(5), expected)


def test_words_do_not_depend_on_how_they_are_asked_for() -> None:
    whole, parts = stream().words(50_001), stream()
    sizes = (0, 1, 2, 7, 16_384, 16_385, 17_222)
    np.testing.assert_array_equal(np.concatenate([parts.words(size) for size in sizes]), whole)


def test_normals_do_not_depend_on_how_they_are_asked_for() -> None:
    whole, parts = stream().normals(40_000), stream()
    pieces = [parts.normals(shape).ravel() for shape in (2, (3, 4), (0, 5), 16_386, 23_600)]
    np.testing.assert_array_equal(np.concatenate(pieces), whole)
    np.testing.assert_array_equal(stream().normals(20_001), whole[:20_001])
    np.testing.assert_array_equal(stream().normals((4, 5)), whole[:20].reshape(4, 5))
    assert stream().normals(()).shape == ()


def test_seeded_streams_are_reproducible() -> None:
    first, second, other = stream(3), stream(3), stream(4)
    np.testing.assert_array_equal(first.normals(9), second.normals(9))
    np.testing.assert_array_equal(first.fixed_size_sample(99, 7), second.fixed_size_sample(99, 7))
    np.testing.assert_array_equal(first.permutation(99), second.permutation(99))
    assert not np.array_equal(stream(3).normals(9), other.normals(9))
    values = Randomness.seeded(7).child("golden").normals(2).tolist()
    assert [value.hex() for value in values] == GOLDEN


def test_normals_follow_the_normal_law_with_power() -> None:
    sample = stream().normals((200, 200)).ravel()
    assert ks_p_value(ndtr(sample)) > FALSE_ALARM
    assert ks_p_value(ndtr(sample / 1.1)) < FALSE_ALARM
    assert ks_p_value(ndtr(sample / 0.9)) < FALSE_ALARM


def test_uniforms_follow_the_uniform_law_with_power() -> None:
    sample = stream().uniforms(40_000)
    assert ks_p_value(sample) > FALSE_ALARM
    assert ks_p_value(sample * 0.9) < FALSE_ALARM
    assert ks_p_value(sample * 2.0**32 % 1.0) > FALSE_ALARM  # the lower bits are random too


def test_uniforms_stay_inside_the_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    edges = np.array([0, 2**64 - 1, 2**64 - 1024, 2**64 - 1025], dtype=np.uint64)
    s = stream()
    monkeypatch.setattr(s, "words", lambda count: edges)
    values = s.uniforms(4)
    assert values.min() == 2.0**-65
    assert values.max() == 1.0 - 2.0**-53


def test_integers_are_uniform_with_power() -> None:
    sample = stream().integers(20, 40_000)
    counts = np.bincount(sample, minlength=20)
    assert sample.dtype == np.int64
    assert chi_square_p_value(counts, np.full(20, 2000.0)) > FALSE_ALARM
    skewed = np.full(20, 2000.0)
    skewed[:10] *= 1.1
    skewed[10:] *= 0.9
    assert chi_square_p_value(counts, skewed) < FALSE_ALARM


def test_integers_reject_the_unfair_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """With high = 3 * 2**61 a plain remainder would favour two thirds three to two."""
    high = 3 * 2**61
    sample = stream().integers(high, 20_000)
    counts = np.bincount(sample // 2**61, minlength=3)
    assert chi_square_p_value(counts, np.full(3, 20_000 / 3)) > FALSE_ALARM
    assert chi_square_p_value(counts, np.array([7500.0, 7500.0, 5000.0])) < FALSE_ALARM
    words = iter([np.array([2**64 - 1, 2**64 - 2], np.uint64), np.array([8], np.uint64)])
    s = stream()
    monkeypatch.setattr(s, "words", lambda count: next(words))
    np.testing.assert_array_equal(s.integers(5, 2), [4, 3])


def test_integers_at_the_ends_of_their_range() -> None:
    np.testing.assert_array_equal(stream().integers(1, 4), np.zeros(4))
    wide = stream().integers(2**63, 1000)
    assert 0 <= wide.min() < 2**62 < wide.max()
    assert stream().integers(5, 0).size == 0


def test_permutation_is_uniform_over_all_orders() -> None:
    s, orders = stream(), dict.fromkeys(itertools.permutations(range(4)), 0)
    for _ in range(4800):
        orders[tuple(s.permutation(4).tolist())] += 1
    counts = np.array(list(orders.values()))
    assert chi_square_p_value(counts, np.full(24, 200.0)) > FALSE_ALARM
    biased = np.where(np.array(list(orders))[:, 0] == 0, 300.0, 200.0)
    assert chi_square_p_value(counts, biased * 4800 / biased.sum()) < FALSE_ALARM


def test_permutation_starts_over_after_a_tie(monkeypatch: pytest.MonkeyPatch) -> None:
    draws = iter([np.array([5, 1, 5], np.uint64), np.array([9, 2, 4], np.uint64)])
    s = stream()
    monkeypatch.setattr(s, "words", lambda count: next(draws))
    np.testing.assert_array_equal(s.permutation(3), [1, 2, 0])


def test_permutation_is_one() -> None:
    order = stream().permutation(10_000)
    np.testing.assert_array_equal(np.sort(order), np.arange(10_000))
    np.testing.assert_array_equal(stream().permutation(1), [0])


def test_fixed_size_sample_is_uniform_over_all_subsets() -> None:
    for n, size in ((6, 2), (5, 3), (6, 3)):
        s, subsets = stream(), dict.fromkeys(itertools.combinations(range(n), size), 0)
        for _ in range(3000):
            subsets[tuple(s.fixed_size_sample(n, size).tolist())] += 1
        counts = np.array(list(subsets.values()))
        assert chi_square_p_value(counts, np.full(counts.size, 3000 / counts.size)) > FALSE_ALARM
        biased = np.where(np.array(list(subsets))[:, 0] == 0, 1.5, 1.0)
        assert chi_square_p_value(counts, biased * 3000 / biased.sum()) < FALSE_ALARM


@pytest.mark.parametrize(
    ("n", "size"), [(1, 1), (9, 9), (1000, 1), (10**12, 50), (1000, 999), (1000, 500)]
)
def test_fixed_size_sample_has_its_size(n: int, size: int) -> None:
    rows = stream().fixed_size_sample(n, size)
    assert (rows.dtype, rows.size) == (np.int64, size)
    assert np.all(np.diff(rows) > 0)
    assert 0 <= rows[0] <= rows[-1] < n


@pytest.mark.parametrize("rate", [0.002, 0.3, 0.9])
def test_poisson_sample_chooses_each_row_alike(rate: float) -> None:
    """Counts of each row over many samples; a rate wrong by a tenth is rejected."""
    n, s = 40, stream()
    rounds = int(8000 / rate)
    rows = s.poisson_sample(n * rounds, rate)  # many rounds in one: rows are independent
    counts = np.bincount(rows % n, minlength=n)

    def p_value(claimed: float) -> float:
        mean, variance = rounds * claimed, rounds * claimed * (1 - claimed)
        return float(gammaincc(n / 2, np.sum((counts - mean) ** 2 / variance) / 2))

    assert p_value(rate) > FALSE_ALARM
    assert p_value(rate * 1.1) < FALSE_ALARM
    assert p_value(rate * 0.9) < FALSE_ALARM


def test_poisson_samples_of_few_rows_have_the_product_law() -> None:
    """All eight subsets of three rows, from samples short enough to end at once."""
    s, rate, rounds = stream(), 0.3, 4000
    counts = np.zeros(8)
    for _ in range(rounds):
        counts[np.sum(1 << s.poisson_sample(3, rate))] += 1

    def law(p: float) -> np.ndarray:
        chosen = np.array([bin(subset).count("1") for subset in range(8)])
        return rounds * p**chosen * (1 - p) ** (3 - chosen)

    assert chi_square_p_value(counts, law(rate)) > FALSE_ALARM
    assert chi_square_p_value(counts, law(rate * 1.1)) < FALSE_ALARM


def test_poisson_sample_at_its_edges() -> None:
    np.testing.assert_array_equal(stream().poisson_sample(7, 1), np.arange(7))
    nearly = stream().poisson_sample(100_000, 1.0 - 2.0**-53)
    np.testing.assert_array_equal(nearly, np.arange(100_000))
    for rate in (1e-18, 5e-324):
        assert stream().poisson_sample(1000, rate).size == 0
    far = stream().poisson_sample(2**53, 1e-13)
    assert 700 < far.size < 1100  # 901 expected, deviation 30
    rows = stream().poisson_sample(300_000, 0.5)  # several blocks of gaps
    assert np.all(np.diff(rows) > 0)
    assert 0 <= rows[0] < 100 < 299_900 < rows[-1] < 300_000


def all_different(draws: list[np.ndarray]) -> bool:
    words = np.concatenate(draws)
    return np.unique(words).size == words.size


def test_children_never_share_words() -> None:
    roots = [Randomness.secure(), Randomness.secure(), *map(Randomness.seeded, (0, 1, 2**200))]
    purposes = ("noise", "noise", "", "rows", "é\ud800")
    draws = [root.child(p).words(8) for root in roots for _ in range(100) for p in purposes]
    assert all_different(draws)


def test_same_seed_and_purpose_differ_by_counter_only() -> None:
    first, second = Randomness.seeded(5), Randomness.seeded(5)
    a, b = first.child("noise").words(8), first.child("noise").words(8)
    assert all_different([a, b])
    np.testing.assert_array_equal(a, second.child("noise").words(8))
    np.testing.assert_array_equal(b, second.child("noise").words(8))
    assert all_different([a, Randomness.seeded(5).child("other").words(8)])


def test_threads_share_a_root_and_a_stream_safely() -> None:
    root = Randomness.seeded(11)
    shared = root.child("shared")
    with ThreadPoolExecutor(8) as pool:
        own = list(pool.map(lambda _: root.child("own").words(16), range(400)))
        from_one = list(pool.map(lambda _: shared.words(16), range(400)))
    assert all_different([*own, *from_one])
    with ThreadPoolExecutor(2) as pool, shared._lock:
        late = [pool.submit(shared.words, 1), pool.submit(shared.normals, 1)]
        assert not wait(late, timeout=0.05).done
    expected = Randomness.seeded(11).child("shared").words(400 * 16)
    np.testing.assert_array_equal(np.sort(np.concatenate(from_one)), np.sort(expected))


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda thing: pickle.loads(pickle.dumps(thing))]
)
def test_copies_never_repeat(duplicate) -> None:  # type: ignore[no-untyped-def]
    root = Randomness.secure()
    other = duplicate(root)
    assert isinstance(other, Randomness)
    assert not other.reproducible
    assert all_different([r.child("noise").words(8) for r in (root, other, duplicate(root))])
    for thing in (Randomness.seeded(1), Randomness.seeded(1).child("x"), root.child("x")):
        with pytest.raises(RandomnessError, match="Make a root in each worker"):
            duplicate(thing)


def run_script(tmp_path: Path, script: str) -> list[str]:
    """Run a script in a process of its own: forking this one, with its threads, is unsafe."""
    path = tmp_path / "script.py"
    path.write_text(script)
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


FORK = """
import os, signal
from dpsco.errors import RandomnessError
from dpsco.privacy.randomness import Randomness

root, seeded = Randomness.secure(), Randomness.seeded(3)
stream, seeded_stream = root.child("noise"), seeded.child("noise")
stream.words(3)

def in_child(job):
    read, write = os.pipe()
    if os.fork() == 0:
        signal.alarm(10)  # waits for a lock for ever? then end here
        os.write(write, job().encode())
        os._exit(0)
    os.close(write)
    os.wait()
    return os.read(read, 4096).decode()

def draw():
    words = [*stream.words(4), *stream.words(4), *root.child("noise").words(4)]
    return " ".join(map(str, words))

def refused():
    count = 0
    for job in (lambda: seeded.child("x"), lambda: seeded_stream.normals(2),
                lambda: seeded_stream.words(1), lambda: seeded_stream.permutation(3)):
        try:
            job()
        except RandomnessError as error:
            count += "forked" in str(error)
    return f"refused:{count}"

with stream._lock, root._lock:  # a child that waited for its parent's locks would hang
    print(in_child(draw))
print(in_child(draw), in_child(draw), in_child(lambda: in_child(draw)), draw())
print(in_child(refused), *seeded_stream.words(1))
"""


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
def test_forked_processes_never_repeat(tmp_path: Path) -> None:
    *words, refused, parents_own = run_script(tmp_path, FORK)
    assert len(words) == len(set(words)) == 5 * 12
    assert refused == "refused:4"
    assert int(parents_own) == Randomness.seeded(3).child("noise").words(1)[0]


WORKERS = """
import multiprocessing, sys
from dpsco.privacy.randomness import Randomness

ROOT = Randomness.secure()

def inherited(_):
    return ROOT.child("noise").words(4).tolist()

def sent(root):
    return root.child("noise").words(4).tolist()

if __name__ == "__main__":
    draws = [ROOT.child("noise").words(4).tolist()]
    if sys.platform != "win32":
        with multiprocessing.get_context("fork").Pool(2) as pool:
            draws += pool.map(inherited, range(6), chunksize=1)
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        draws += pool.map(inherited, range(2), chunksize=1)
        draws += pool.map(sent, [ROOT] * 4, chunksize=1)
    print(*(word for draw in draws for word in draw))
"""


@pytest.mark.thorough
def test_workers_get_different_noise(tmp_path: Path) -> None:
    words = run_script(tmp_path, WORKERS)
    assert len(words) == len(set(words)) >= 4 * 7


def test_description_and_repr() -> None:
    secure, seeded = Randomness.secure(), Randomness.seeded(123456789)
    assert (secure.reproducible, seeded.reproducible) == (False, True)
    assert all(phrase in secure.description for phrase in ("AES-256", "operating system"))
    assert ["not private" in root.description for root in (secure, seeded)] == [False, True]
    key = seeded._Randomness__key  # type: ignore[attr-defined]
    for thing in (secure, seeded, seeded.child("rows")):
        text = repr(thing) + str(thing)
        assert not any(secret in text for secret in (repr(key), key.hex(), "123456789"))
    assert "'rows'" in repr(seeded.child("rows"))


@pytest.mark.parametrize("seed", [-1, 1.5, b"7", True, math.nan, None])
def test_wrong_seeds_and_purposes_are_refused(seed: object) -> None:
    with pytest.raises(ParameterError):
        Randomness.seeded(seed)  # type: ignore[arg-type]
    with pytest.raises(ParameterError):
        Randomness.secure().child(seed)  # type: ignore[arg-type]


WRONG: dict[str, list[tuple[object, ...]]] = {
    "words": [(-1,), (2.0,), (None,)],
    "uniforms": [("3",), (True,)],
    "normals": [(-2,), ((3, -1),), ((3, 1.0),), ([3, 1],)],
    "integers": [(0, 3), (2**63 + 1, 3), (5.0, 3), (5, -1)],
    "permutation": [(0,), (2.5,), (2**53 + 1,)],
    "poisson_sample": [(9, r) for r in (0, -0.1, 1.0001, math.nan, math.inf, "0.5", True, [0.5])],
    "fixed_size_sample": [(10, 11), (10, 0), (10, 2.0), (-1, 1), (0, 0)],
}


@pytest.mark.parametrize(("method", "calls"), WRONG.items())
def test_wrong_arguments_are_refused(method: str, calls: list[tuple[object, ...]]) -> None:
    for arguments in calls:
        with pytest.raises(ParameterError):
            getattr(stream(), method)(*arguments)


# -- a root that is stored for a run that may be interrupted ---------------------------------------


@pytest.mark.parametrize("make", [Randomness.secure, lambda: Randomness.seeded(9)])
def test_a_restored_root_hands_out_the_same_streams(make) -> None:  # type: ignore[no-untyped-def]
    root = make()
    stored = root.stored()
    first, again = Randomness.restored(stored), Randomness.restored(stored)
    assert again.reproducible == root.reproducible
    assert again.description == root.description
    for purpose in ("rows", "noise", "noise"):
        words = [one.child(purpose).words(5).tolist() for one in (first, again)]
        assert words[0] == words[1]


@pytest.mark.parametrize("make", [Randomness.secure, lambda: Randomness.seeded(9)])
def test_a_stored_root_belongs_to_its_run(make) -> None:  # type: ignore[no-untyped-def]
    root = make()
    again = Randomness.restored(root.stored())
    for one in (root, again):  # neither may be stored for a second run
        with pytest.raises(RandomnessError, match="has been used"):
            one.stored()
    with pytest.raises(RandomnessError, match="was stored for a run"):
        root.child("noise")


def test_a_stored_secure_root_says_so() -> None:
    root = Randomness.secure()
    assert "checkpoint" not in root.description
    key = root.stored()[1:33]
    assert "which a checkpoint kept while the run lasted" in root.description
    assert key.hex() not in repr(root) + str(root) + repr(vars(root).keys())
    seeded = Randomness.seeded(1)
    said = seeded.description
    seeded.stored()
    assert seeded.description == said


@pytest.mark.parametrize("make", [Randomness.secure, lambda: Randomness.seeded(9)])
def test_a_used_root_is_not_stored(make) -> None:  # type: ignore[no-untyped-def]
    root = make()
    root.child("noise")
    with pytest.raises(RandomnessError, match="has been used"):
        root.stored()


@pytest.mark.parametrize("place", [0, 1, 20, 32, 33, 48])
def test_a_damaged_root_is_not_restored(place: int) -> None:
    stored = bytearray(Randomness.seeded(2).stored())
    stored[place] ^= 1
    with pytest.raises(RandomnessError, match="damaged"):
        Randomness.restored(bytes(stored))
    for wrong in (b"", bytes(49), bytes(stored[:-1])):
        with pytest.raises(RandomnessError, match="damaged"):
            Randomness.restored(wrong)


STORED_FORK = """
import os
from dpsco.errors import RandomnessError
from dpsco.privacy.randomness import Randomness

stored = Randomness.secure()
again = Randomness.restored(stored.stored())
stream = again.child("noise")
pid = os.fork()
if pid:
    assert os.waitpid(pid, 0)[1] == 0
else:
    refused = 0
    for draw in (lambda: stored.child("noise"), lambda: again.child("noise"),
                 lambda: stream.words(1), stored.stored):
        try:
            draw()
        except RandomnessError as problem:
            refused += "forked" in str(problem)
    print(refused, flush=True)
    os._exit(0)
"""


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
def test_a_stored_root_refuses_to_work_in_a_forked_process(tmp_path: Path) -> None:
    assert run_script(tmp_path, STORED_FORK) == ["4"]


def test_fresh_names_differ() -> None:
    names = {fresh_name() for _ in range(100)}
    assert len(names) == 100
    assert all(len(bytes.fromhex(name)) == 16 for name in names)
