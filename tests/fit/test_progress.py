"""Progress bars: silent unless asked for, public numbers only, no times."""

import io
import sys

import numpy as np
import pytest

import dpsco as dp
from dpsco.errors import MissingExtraError, ParameterError
from dpsco.fit import progress

X = np.random.default_rng(0).uniform(-0.5, 0.5, (300, 2))
Y = np.where(X[:, 0] > 0, 1.0, -1.0)
TASK = dp.Task(
    dp.Problem(loss=dp.losses.Logistic(), bounds=dp.Bounds(1.0, label="sign")),
    n=300,
    d=2,
    budget=dp.ApproxDP(1.0, 1e-6),
)


@pytest.fixture
def plan():
    return dp.plan(TASK, solver="noisy_gd", options={"rounds": 12})


def test_a_bar_says_rounds_and_no_times(plan, capsys):
    pytest.importorskip("tqdm")
    dp.run(plan, (X, Y), progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert "noisy_gd: 100%" in err
    assert "12/12 rounds" in err
    assert "it/s" not in err
    assert "00:0" not in err


@pytest.mark.parametrize("quiet", [None, False])
def test_nothing_is_shown_by_default(plan, capsys, quiet):
    dp.run(plan, (X, Y), progress=quiet)
    dp.PrivateSVC(feature_norm=1.0, classes=[-1, 1]).fit(X, Y)
    assert capsys.readouterr() == ("", "")


def test_solve_and_estimators_have_it(capsys):
    pytest.importorskip("tqdm")
    dp.solve(TASK.problem, (X, Y), TASK.budget, solver="noisy_gd", progress=True)
    assert "noisy_gd: 100%" in capsys.readouterr().err
    dp.PrivateSVC(feature_norm=1.0, classes=[-1, 1], verbose=True).fit(X, Y)
    assert "PrivateSVC: 100%" in capsys.readouterr().err
    dp.PrivateMean(feature_norm=1.0, verbose=True).fit(X)
    assert "PrivateMean: 100%" in capsys.readouterr().err


def test_a_search_never_shows_how_many_fits_it_makes(capsys):
    """Their number is random and secret."""
    pytest.importorskip("tqdm")
    model = dp.PrivateSVC(feature_norm=1.0, classes=[-1, 1], solver="noisy_gd", verbose=True)
    dp.PrivateGridSearch(model, {"alpha": [0.0, 0.1]}, epsilon=2.0, mean_runs=3.0).fit(X, Y)
    assert capsys.readouterr() == ("", "")


def test_a_bar_changes_no_weight(plan):
    pytest.importorskip("tqdm")
    seeds = {"randomness": dp.Randomness.seeded(1)}
    shown = dp.run(plan, (X, Y), progress=True, **seeds)
    seeds = {"randomness": dp.Randomness.seeded(1)}
    assert np.array_equal(shown.weights, dp.run(plan, (X, Y), **seeds).weights)


def test_two_runs_are_two_bars(monkeypatch):
    pytest.importorskip("tqdm")
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    bar = progress.Bar("x")
    for total in (2, 3):
        for done in range(1, total + 1):
            bar(done, total)
    assert "2/2" in stream.getvalue()
    assert "3/3" in stream.getvalue()


def test_tqdm_is_optional_and_refused_before_a_row_is_read(plan, monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(MissingExtraError, match=r"dpsco\[progress\]"):
        dp.run(plan, object(), progress=True)


@pytest.mark.parametrize("wrong", ["yes", -1, 1.5, None])
def test_verbose_is_a_flag(wrong):
    with pytest.raises(ParameterError, match="verbose must be True or False"):
        dp.PrivateSVC(feature_norm=1.0, classes=[-1, 1], verbose=wrong).fit(X, Y)


def test_progress_that_cannot_be_called_is_refused(plan):
    with pytest.raises(ParameterError, match="progress must be a function"):
        dp.run(plan, (X, Y), progress=3)
