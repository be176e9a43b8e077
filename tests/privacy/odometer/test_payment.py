"""Whoever interrupts a run hears whether it was paid."""

import sys

import numpy as np
import pytest

import dpsco as dp
from dpsco.estimators import PrivateGridSearch, PrivateLogisticRegression, PrivateMean
from dpsco.privacy.odometer import payment

RNG = np.random.default_rng(3)
X = RNG.uniform(-0.5, 0.5, (400, 3))
Y = np.where(X[:, 0] + 0.1 * RNG.standard_normal(400) > 0, 1.0, -1.0)
BUDGET = dp.ApproxDP(1.0, 1e-6)
PROBLEM = dp.Problem(loss=dp.losses.Logistic(), bounds=dp.Bounds(1.0, label="sign"))
notes = pytest.mark.skipif(sys.version_info < (3, 11), reason="exceptions have no notes")


def interrupt(*_, **__):
    raise KeyboardInterrupt


def note_of(call, problem=KeyboardInterrupt):
    with pytest.raises(problem) as caught:
        call()
    (note,) = caught.value.__notes__
    return note


def planned(solver="noisy_gd", **options):
    return dp.plan(PROBLEM, n=400, d=3, budget=BUDGET, solver=solver, options=options)


@pytest.fixture
def odometer(tmp_path):
    return dp.Odometer(tmp_path / "o", dp.ApproxDP(9.0, 1e-4))


@notes
def test_an_interrupted_run_says_that_it_was_paid(odometer):
    paid = (
        f"dpsco: nothing was returned, but the odometer {odometer.path} has paid (entry 1), and "
        "the entry stays: part of the run may have been released."
    )
    run = {"odometer": odometer, "progress": interrupt}
    assert note_of(lambda: dp.run(planned(rounds=3), (X, Y), **run)) == paid
    solve = {**run, "solver": "noisy_gd", "options": {"rounds": 3}}
    said = note_of(lambda: dp.solve(PROBLEM, (X, Y), BUDGET, **solve))
    assert said == paid.replace("entry 1", "entry 2")
    assert len(odometer.entries()) == 2


@notes
def test_with_a_checkpoint_it_says_how_to_go_on(odometer, tmp_path):
    path = tmp_path / "run"
    said = note_of(
        lambda: dp.run(
            planned("dp_ftrl", rounds=4),
            (X, Y),
            odometer=odometer,
            checkpoint=path,
            progress=interrupt,
        )
    )
    assert said.endswith(f"The same call goes on from {path}, and pays nothing again.")
    dp.run(planned("dp_ftrl", rounds=4), (X, Y), odometer=odometer, checkpoint=path)
    assert len(odometer.entries()) == 1


@pytest.mark.thorough
@notes
@pytest.mark.parametrize(
    "model",
    [
        PrivateLogisticRegression(epsilon=1.0, feature_norm=1.0, classes=[-1, 1]),
        PrivateLogisticRegression(epsilon=2.0, bounds="private", classes=[-1, 1]),
        PrivateLogisticRegression(epsilon=1.0, feature_norm=1.0, classes=[-1, 1], count_rows=True),
        PrivateMean(epsilon=1.0, feature_norm=1.0),
        PrivateGridSearch(
            PrivateLogisticRegression(epsilon=1.0, feature_norm=1.0, classes=[-1, 1]),
            {"alpha": [0.0, 0.1]},
        ),
    ],
    ids=["plain", "bounds", "count", "mean", "search"],
)
def test_interrupted_fits_say_it_too(model, odometer, monkeypatch):
    model.set_params(odometer=odometer)
    labels = Y.astype(int)
    monkeypatch.setattr("dpsco.privacy.ledger.Ledger._execute", interrupt)
    assert "has paid (entry 1), and the entry stays" in note_of(lambda: model.fit(X, labels))
    model.set_params(odometer=None)
    said = note_of(lambda: model.fit(X, labels))
    assert said == "dpsco: nothing was returned; no odometer was given."
    assert len(odometer.entries()) == 1


@notes
def test_before_and_in_the_middle_of_the_payment(odometer, monkeypatch):
    run = lambda: dp.run(planned(rounds=2), (X, Y), odometer=odometer)  # noqa: E731
    with monkeypatch.context() as patch:
        patch.setattr(dp.Odometer, "spend", interrupt)
        assert note_of(run).endswith("o may have paid: look at its entries.")
    with monkeypatch.context() as patch:
        patch.setattr("dpsco.privacy.ledger.cost", interrupt)
        assert note_of(run) == "dpsco: nothing was returned; nothing was paid."
    assert odometer.entries() == []


@notes
def test_errors_after_the_payment_say_it_and_those_before_say_nothing(odometer, monkeypatch):
    def fail(*_):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr("dpsco.privacy.ledger.Ledger._execute", fail)
        said = note_of(lambda: dp.run(planned(), (X, Y), odometer=odometer), MemoryError)
        assert "has paid (entry 1)" in said
        with pytest.raises(MemoryError) as caught:
            dp.run(planned(), (X, Y))
        assert not hasattr(caught.value, "__notes__")
    small = dp.Odometer(odometer.path.with_name("small"), dp.ApproxDP(0.1, 1e-6))
    with pytest.raises(dp.errors.BudgetError) as caught:
        dp.run(planned(), (X, Y), odometer=small)
    assert not hasattr(caught.value, "__notes__")
    assert dp.run(planned(), (X, Y), odometer=odometer).weights.shape == (3,)


def test_without_notes_an_interrupt_says_it_itself():
    class Old(KeyboardInterrupt):
        """As before Python 3.11."""

        add_note = property()

    problem = Old()
    payment._add_note(problem, "paid")
    assert str(problem) == "paid"

    class OldError(Exception):
        add_note = property()

    error = OldError("why")
    payment._add_note(error, "paid")
    assert (str(error), error.__notes__) == ("why", ["paid"])
