"""The judge of tables: halves, resuming, the peer's budget and its agreement with noisy_gd."""

import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest

import dpsco as dp
from dpsco.privacy.accounting.composition import cost
from dpsco.privacy.mechanisms import GaussianRelease, gaussian_sigma
from dpsco.solvers import noisy_gd

sys.path.insert(0, str(Path(__file__).parents[1]))  # benchmarks are not installed

from benchmarks.park import __main__ as park
from benchmarks.park import judge, peer, reference, summary, tables

N, D = 400, 3


@pytest.fixture
def folder(tmp_path):
    """Two made-up tables, one of three classes and one of numbers."""
    rng = np.random.default_rng(5)
    X = rng.uniform(-1, 1, (N, D)) / math.sqrt(D)
    scores = X @ rng.normal(size=(D, 3)) * 6 + rng.gumbel(size=(N, 3)) / 2
    meta = {"flowers": {"task": "classes", "classes": 3}, "prices": {"task": "number"}}
    meta["prices"]["range"] = [-1.0, 3.0]
    labels = {"flowers": scores.argmax(axis=1), "prices": np.clip(1 + scores[:, 0] / 3, -1, 3)}
    for name, y in labels.items():
        np.savez(tmp_path / f"{name}.npz", X=X.astype("f4"), y=y, meta=json.dumps(meta[name]))
    return tmp_path


def one(folder, name, number=0):
    return tables.load(folder / f"{name}.npz").split(number)


def task_for(split, kind, epsilon, adjacency):
    return judge.task_of(split.table, kind, len(split.X), epsilon, adjacency)


def test_a_split_is_the_same_always_and_leaves_no_row_out(folder):
    split = one(folder, "prices")
    assert len(split.X) == 0.8 * N
    assert len(split.X_test) == 0.2 * N
    assert sorted([*split.y, *split.y_test]) == sorted(split.table.y)
    assert np.array_equal(split.X, one(folder, "prices").X)
    assert not np.array_equal(split.X, one(folder, "prices", 1).X)


def test_halves_do_not_depend_on_other_groups(folder):
    parts = tables.halves(folder)
    assert parts == {"choose": ["flowers", "prices"], "check": []}  # the first of each group
    (folder / "flowers.npz").unlink()
    assert tables.halves(folder)["choose"] == ["prices"]


@pytest.mark.thorough
def test_references(folder):
    """Least squares beats the mean, and a shift of the labels moves nothing."""
    for name in ("flowers", "prices"):
        split = one(folder, name)
        for kind in split.table.kinds:
            best, constant = reference.not_private(split, kind), reference.constant(split, kind)
            assert 0.0 <= best < 0.7 * constant, kind
    split = one(folder, "prices")
    middle = np.median(split.y)
    assert reference.constant(split, "absolute") == pytest.approx(
        np.mean(np.abs(split.y_test - middle))
    )


def test_the_peer_has_exactly_the_budget(folder):
    task = task_for(one(folder, "prices"), "squared", 1.0, "replace_one")
    clip = peer.schedule(task).clip / 4
    sigma = gaussian_sigma(task.budget, bound=clip, rows=(0, task.n), count=peer.ROUNDS)
    release = GaussianRelease(clip, sigma, rows=(0, task.n), count=peer.ROUNDS)
    spent = cost((release,), adjacency=task.budget.adjacency, unit=task.budget.unit)
    assert 0.999 < spent.epsilon(task.budget.delta) <= 1.0


@pytest.mark.parametrize(
    ("name", "kind"), [("flowers", "class"), ("prices", "absolute"), ("prices", "squared")]
)
def test_the_peer_without_factors_is_noisy_gd_of_heavy_balls(folder, name, kind, monkeypatch):
    """With so large a budget that noise is nothing both end at the same weights."""
    monkeypatch.setattr(noisy_gd.steps, "DAMPING", 0.0)
    monkeypatch.setattr(noisy_gd.schedule, "RISE", 0.0)
    split = one(folder, name)
    task = task_for(split, kind, 1e6, "zero_out")
    plan, ends = peer.schedule(task), []
    for clip in (1.0, 1 / 32):  # the second cuts nearly all rows
        options = {"rounds": 100, "clip": plan.clip * clip, "step": plan.step, "momentum": 0.9}
        options |= {"tail": plan.tail}
        if any(plan.smoothing):
            growth = plan.smoothing[-1] / plan.smoothing[0]
            options |= {"smoothing": plan.smoothing[0], "smoothing_growth": growth}
        own = dp.run(dp.plan(task, solver="noisy_gd", options=options), (split.X, split.y))
        (weights,) = peer._descend(split, kind, task, [(clip, 1.0, 7)])
        size = np.abs(own.weights).max()
        assert weights.ravel() == pytest.approx(own.weights, abs=3e-3 * size)
        ends.append(own.weights)
    assert np.abs(ends[0] - ends[1]).max() > 0.01 * size  # so the comparison has power


def test_comparisons():
    ours = {(s, d): 1.0 + 0.01 * d for s in range(3) for d in range(3)}
    worse = summary.compare({place: 1.2 * loss for place, loss in ours.items()}, ours)
    assert worse.ratio == pytest.approx(1.2)
    rng = np.random.default_rng(0)
    noisy = {place: loss * math.exp(0.02 * rng.normal()) for place, loss in ours.items()}
    assert not summary.compare(noisy, ours).worse
    lost = {place: 1.1 * loss for place, loss in noisy.items()}
    assert summary.compare(lost, ours).worse
    assert summary.compare(ours, lost).better
    assert summary.compare(ours, {}) is None


@pytest.mark.thorough
def test_run_resumes_and_is_summarised(folder, tmp_path, capsys):
    out = tmp_path / "out.jsonl"
    settings = ["--eps", "1", "--adj", "zero_out", "--splits", "2", "--draws", "1"]
    command = ["run", str(folder), "--out", str(out), *settings]
    park.main([*command, "--methods", "auto", "--tables", "prices"])
    first = out.read_text()
    out.write_text(first + '{"table": "cut off')
    park.main([*command, "--methods", "auto,noisy_gd,peer"])
    records = judge.read(out)
    keys = [judge._key(record) for record in records]
    assert len(keys) == len(set(keys))
    assert out.read_text().startswith(first)  # nothing was run twice
    fits = [record for record in records if record["method"] in ("auto", "noisy_gd", "peer")]
    assert len(fits) == 3 * 3 * 2  # kinds of fit, methods, splits
    park.main(["summary", str(out), "--folder", str(folder), "--reference", str(out)])
    shown = capsys.readouterr().out
    assert shown.count("| 1.000 |") == 3  # auto beside itself
    assert "of 1 |" in shown  # and beside the peer
    park.main(["summary", str(out), "--folder", str(folder), "--half", "check", "--markdown"])
    assert len(capsys.readouterr().out.splitlines()) == 2  # no table is there to check
