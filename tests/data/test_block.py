"""Blocks: slices share memory and norms, choices copy, nothing is shown."""

import numpy as np
import pytest
import scipy.sparse

from dpsco.data import Block, Bounds, from_arrays
from dpsco.data.block import SingleRows, join, take_rows, with_single
from dpsco.data.row_norms import upper_norms
from dpsco.geometry.norms import L1, L2, LINF, Lp


def make(sparse, n=50, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 6))
    X[rng.random(X.shape) < 0.5] = 0.0
    X[3], X[4, 2] = 0.0, np.nan
    y = rng.normal(size=n)
    bounds = Bounds(1.5, label=1.0, intercept=1.0)
    raw = scipy.sparse.csr_array(X) if sparse else X
    return from_arrays(raw, y).bounded(bounds, order="given").rows()


def dense(block):
    return block.rows if isinstance(block.rows, np.ndarray) else block.rows.matrix().toarray()


@pytest.mark.parametrize("sparse", [False, True])
def test_slices(sparse):
    block = make(sparse)
    part = block[10:30][5:15]
    assert len(part) == 10
    assert part.d == 7
    assert np.array_equal(dense(part), dense(block)[15:25])
    for name in ("labels", "norms", "present"):
        assert np.array_equal(getattr(part, name), getattr(block, name)[15:25])
    assert np.shares_memory(part.labels, block.labels)
    assert len(block[40:20]) == 0
    assert len(block[45:99]) == 5
    with pytest.raises(IndexError):
        block[::2]


@pytest.mark.parametrize("sparse", [False, True])
def test_choices_and_joins(sparse):
    block = make(sparse)
    order = np.array([4, 3, 3, 49, 0])
    taken = block.take(order)
    assert np.array_equal(dense(taken), dense(block)[order])
    assert np.array_equal(taken.labels, block.labels[order])
    assert np.array_equal(taken.norms, block.norms[order])
    assert np.array_equal(taken.present, block.present[order])
    assert not np.shares_memory(taken.labels, block.labels)
    whole = join([block[:7], block[7:7], block[7:30], block[30:]])
    assert np.array_equal(dense(whole), dense(block))
    assert np.array_equal(whole.present, block.present)
    assert len(take_rows(block.rows, np.array([], dtype=np.int64))) == 0


@pytest.mark.parametrize("sparse", [False, True])
def test_norms_in_other_norms_are_found_once(sparse, monkeypatch):
    block = make(sparse)
    assert block.norms_in(L2) is block.norms
    assert block.norms_in(Lp(2.0)) is block.norms
    wanted = {norm: upper_norms(block.rows, norm) for norm in (L1, LINF)}
    calls = []

    def counted(rows, norm):
        calls.append(len(rows))
        return upper_norms(rows, norm)

    monkeypatch.setattr("dpsco.data.block.upper_norms", counted)
    for start in (10, 0, 10):
        part = block[start : start + 10]
        assert np.array_equal(part.norms_in(L1), wanted[L1][start : start + 10])
    assert np.array_equal(block[5:15].norms_in(L1), wanted[L1][5:15])
    assert calls == [10, 10]
    assert np.array_equal(block[12:20][1:3].norms_in(LINF), wanted[LINF][13:15])
    assert np.array_equal(block[1:3].norms_in(LINF), wanted[LINF][1:3])
    assert np.array_equal(block.norms_in(LINF), wanted[LINF])
    for norm in (L1, LINF):
        assert np.all(block.norms_in(norm) >= norm(dense(block)))


def test_slices_in_single_precision_are_those_of_the_whole():
    whole = with_single(make(False, n=20))
    for outer in (whole, make(False, n=20)):
        part = with_single(outer[7:15])
        assert np.array_equal(part.single(), part.rows.astype(np.float32))
        inner = with_single(part[2:5])
        assert np.array_equal(inner.single(), inner.rows.astype(np.float32))
    shared = whole[7:15].single()
    assert np.shares_memory(with_single(whole[7:15]).single(), shared)
    assert np.array_equal(whole.single(), whole.rows.astype(np.float32))


def test_rows_in_single_precision_are_whole_whoever_asks_for_them_first(monkeypatch):
    """A thread that asks while another one is at work never sees what that has not written."""
    rows = np.arange(1.0, 13.0).reshape(4, 3)
    copy, empty, answers = np.copyto, np.empty, []
    singles = SingleRows(4, 3)

    def ask():
        with monkeypatch.context() as inner:
            inner.setattr(np, "copyto", copy)
            inner.setattr(np, "empty", empty)
            answers.append(singles.part(rows, 0).copy())

    def slow_empty(shape, dtype):
        ask()
        return np.full(shape, 77.0, dtype=dtype)

    def slow_copy(target, source, casting):
        copy(target[:, :1], source[:, :1], casting=casting)
        ask()
        copy(target, source, casting=casting)

    monkeypatch.setattr(np, "empty", slow_empty)
    monkeypatch.setattr(np, "copyto", slow_copy)
    answers.append(singles.part(rows, 0))
    assert len(answers) == 3
    assert all(np.array_equal(answer, rows) for answer in answers)


def test_the_text_of_a_block_shows_no_value():
    block = Block(np.full((2, 1), 123.25), np.full(2, 77.5), np.ones(2), np.ones(2, dtype=bool))
    assert repr(block) == str(block) == "<Block: 2 rows of 1 float64 numbers, dense>"
    assert "sparse" in repr(make(True))
