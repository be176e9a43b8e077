"""Recordings, replays, distances and the standardised noise of every kind of release."""

import dataclasses
import math

import numpy as np
import pytest

import dpsco as dp
from dpsco.audit import Event, compare, declared_sensitivity, noise, record, replay
from dpsco.audit.replay import RecordingLedger
from dpsco.errors import LedgerError
from dpsco.privacy import Adjacency
from dpsco.privacy.mechanisms import (
    FixedSizeGaussianRelease,
    GaussianRelease,
    GeneralizedGaussianRelease,
    ObjectivePerturbationRelease,
    PoissonGaussianRelease,
    PrefixSumRelease,
    SelectionRelease,
    StableGammaRelease,
    StableGaussianRelease,
    WithReplacementRelease,
)
from dpsco.privacy.mechanisms.prefix_sum import mechanism as prefix_sums

N, D = 40, 600
ROWS = {"rows": (0, N)}
STABLE = {"adjacency": "replace_one", "theorem": "a theorem", **ROWS}
REPLACE, ZERO = Adjacency.REPLACE_ONE, Adjacency.ZERO_OUT

PERTURBED = ObjectivePerturbationRelease(
    1.0, 9.0, 0.25, 5.0, 1, "glm", distance=1e-6, output_sigma=1.0, **ROWS
)
HITS = WithReplacementRelease(0.1, 0.02, 30, 5.0, **STABLE)
PREFIX = {name: prefix_sums.mechanism(name, rounds=8) for name in ("toeplitz_cn", "tree")}


def make(rounds=3):
    problem = dp.Problem(
        loss=dp.losses.Hinge(),
        bounds=dp.Bounds(1.0, label="sign"),
        domain=dp.domains.L2Ball(2.0),
    )
    options = {"rounds": rounds, "smoothing": 0.0}
    budget = dp.ApproxDP(2.0, 1e-4)
    return dp.plan(problem, n=N, d=2, budget=budget, solver="noisy_gd", options=options)


RNG = np.random.default_rng(4)
X = RNG.standard_normal((N, 2))
Y = np.where(X[:, 0] > 0, 1.0, -1.0)


@pytest.fixture(scope="module")
def recording():
    return record(make(), (X, Y), seed=5)


def flipped(row):
    y = Y.copy()
    y[row] = -y[row]
    return X, y


# -- record, replay, compare -----------------------------------------------------------------------


def test_a_recording_is_the_run(recording):
    run = dp.run(make(), (X, Y), order="given", randomness=dp.Randomness.seeded(5))
    assert np.array_equal(run.weights, recording.weights)
    assert [event.release.kind for event in recording.events] == ["gaussian"] * 3
    assert recording.rounds == ((1, 3), (2, 3), (3, 3))


def test_replay_answers_from_the_recording(recording):
    again = replay(recording, flipped(0))
    for one, other in zip(recording.events, again.events, strict=True):
        assert np.array_equal(one.outputs[0], other.outputs[0])
    moved = np.linalg.norm(recording.events[0].inputs[0] - again.events[0].inputs[0])
    length = min(1.0, np.linalg.norm(X[0]))
    assert moved == pytest.approx(2.0 * length, rel=1e-6)  # the hinge has slope 1 at zero
    assert compare(recording, again, row=0) == []


def test_two_rows_are_no_neighbours(recording):
    y = Y.copy()
    y[:3] = -y[:3]
    found = compare(recording, replay(recording, (X, y)))
    assert "release 1 (gaussian) moves by" in found[0]


def edited(recording, number=0, **changes):
    events = list(recording.events)
    events[number] = dataclasses.replace(events[number], **changes)
    return dataclasses.replace(recording, events=tuple(events))


@pytest.mark.parametrize(("size", "seen"), [(0.999, False), (1.001, True), (math.nan, True)])
def test_distance_is_compared_with_what_is_declared(recording, size, seen):
    release = recording.events[1].release
    move = np.array([size * 2.0 * release.bound, 0.0])
    other = edited(recording, 1, inputs=[recording.events[1].inputs[0] + move])
    assert bool(compare(recording, other)) == seen


def test_rows_that_a_release_does_not_touch_move_it_by_nothing(recording):
    part = dataclasses.replace(recording.events[0].release, rows=(0, 10))
    one = edited(recording, release=part)
    other = edited(one, inputs=[recording.events[0].inputs[0] + 1e-12])
    assert compare(one, other, row=5) == []
    assert len(compare(one, other, row=10)) == 1


def test_everything_else_must_be_equal(recording):
    other = dataclasses.replace(recording, weights=np.nextafter(recording.weights, 9.0))
    assert "weights differ" in compare(recording, other)[0]
    other = dataclasses.replace(recording, rounds=recording.rounds[:-1])
    assert "rounds" in compare(recording, other)[0]
    other = dataclasses.replace(recording, events=recording.events[:-1])
    assert "3 releases became 2" in compare(recording, other)[0]
    other = dataclasses.replace(recording, certificate=record(make(4), (X, Y)).certificate)
    assert "certificates" in compare(recording, other)[0]
    assert "moves by nan" in compare(recording, edited(recording, inputs=[np.zeros(3)]))[0]


def test_minus_zero_is_not_zero(recording):
    one = dataclasses.replace(recording, weights=np.array([0.0, 1.0]))
    other = dataclasses.replace(recording, weights=np.array([-0.0, 1.0]))
    assert len(compare(one, other)) == 1


def test_other_releases_cannot_be_replayed(recording):
    longer = dataclasses.replace(recording, plan=make(4))
    with pytest.raises(LedgerError, match="replayed, release 1 is"):
        replay(longer, (X, Y))
    short = dataclasses.replace(recording, events=recording.events[:2])
    with pytest.raises(LedgerError, match=r"release 3 is .* it was the end"):
        replay(short, (X, Y))


# -- what is declared ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("release", "replace", "zero"),
    [
        (GaussianRelease(1.5, 2.0, **ROWS), 3.0, 1.5),
        (PoissonGaussianRelease(1.5, 2.0, 0.1, **ROWS), 3.0, 1.5),
        (FixedSizeGaussianRelease(1.5, 2.0, 4, **ROWS), 3.0, 3.0),
        (PrefixSumRelease(1.5, 2.0, PREFIX["tree"], **ROWS), 3.0, 1.5),
        (SelectionRelease(1.5, 2.0, 4, **ROWS), 3.0, 1.5),
        (StableGaussianRelease(0.7, 2.0, **STABLE), 0.7, 0.7),
        (StableGammaRelease(0.7, 2.0, **STABLE), 0.7, 0.7),
        (PERTURBED, 0.4 + 2e-6, 0.2 + 2e-6),
    ],
    ids=lambda value: getattr(value, "kind", str(value)),
)
def test_reach(release, replace, zero):
    assert declared_sensitivity(Event(release), REPLACE) == pytest.approx(replace, rel=1e-12)
    assert declared_sensitivity(Event(release), ZERO) == pytest.approx(zero, rel=1e-12)


def test_sensitivity_with_replacement_depends_on_the_draws():
    drawn = np.full(30, 7)
    drawn[[2, 11]] = 3  # 27 and 18 of 30 iterates come after these steps
    event = Event(HITS, secret=drawn)
    drift = (2 / 3) * 0.02 * math.sqrt(30)
    assert declared_sensitivity(event, REPLACE, row=3) == pytest.approx(
        0.1 * (27 + 18) / 30 + drift
    )
    assert declared_sensitivity(event, REPLACE, row=4) == 0.0
    assert declared_sensitivity(event, REPLACE) == pytest.approx(
        declared_sensitivity(event, REPLACE, row=7)
    )


def test_norms_of_the_release_are_used():
    square = GeneralizedGaussianRelease(1.0, 2.0, 4.0, **ROWS)
    event, other = Event(square, [np.zeros(16)], [None]), Event(square, [np.ones(16)], [None])
    recording = record(make(), (X, Y))
    one = dataclasses.replace(recording, events=(event,))
    two = dataclasses.replace(recording, events=(other,))
    assert compare(one, two) == []  # 16 ** (1/4) = 2; the l2 norm would be 4
    choice = SelectionRelease(1.0, 2.0, 3, **ROWS)
    one = dataclasses.replace(recording, events=(Event(choice, [np.zeros(3)], [0]),))
    two = dataclasses.replace(recording, events=(Event(choice, [np.full(3, 9.0)], [0]),))
    assert compare(one, two) == []  # a shift common to all scores changes nothing


# -- noise -----------------------------------------------------------------------------------------


def opened(*releases):
    """Return a recording ledger for releases that a huge budget pays for."""
    budget = dp.ApproxDP(1e4, 0.5)
    return RecordingLedger(releases, budget).reopened(3, None)


def drive(name):
    """Make one release of a kind through a recording ledger, and return its events."""
    exact = np.linspace(-3.0, 3.0, D)
    if name == "gaussian":
        ledger = opened(GaussianRelease(1.0, 4.0, **ROWS))
        ledger.gaussian(exact, bound=1.0, sigma=4.0, **ROWS)
    elif name == "stable_gaussian":
        release = StableGaussianRelease(1.0, 4.0, **STABLE)
        ledger = opened(release)
        ledger.stable(exact, release)
    elif name in PREFIX:
        ledger = opened(PrefixSumRelease(1.0, 4.0, PREFIX[name], **ROWS))
        sums = ledger.prefix_sum(D, bound=1.0, sigma=4.0, mechanism=PREFIX[name], **ROWS)
        for t in range(8):
            sums.add(exact * t, rows=(5 * t, 5 * t + 5))
    elif name == "poisson":
        ledger = opened(PoissonGaussianRelease(1.0, 4.0, 0.5, **ROWS))
        ledger.poisson(bound=1.0, sigma=4.0, rate=0.5, **ROWS).release(exact)
    elif name == "fixed_size":
        ledger = opened(FixedSizeGaussianRelease(1.0, 4.0, 7, **ROWS))
        ledger.fixed_size(bound=1.0, sigma=4.0, size=7, **ROWS).release(exact)
    elif name == "with_replacement":
        ledger = opened(HITS)
        ledger.with_replacement(HITS).release(exact)
    else:
        ledger = opened(PERTURBED)
        ledger.perturbed_minimiser(lambda tilt: exact - tilt, D, PERTURBED)
    ledger.close()
    return tuple(ledger.events)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("gaussian", D), ("stable_gaussian", D), ("toeplitz_cn", 8 * D), ("tree", 8 * D),
        ("poisson", D), ("fixed_size", D), ("with_replacement", D), ("perturbed", 2 * D),
    ],
)  # fmt: skip
def test_noise_is_standardised(name, count):
    """Mean and variance within 5.5 standard errors: a false alarm in 1e7; 600 numbers at least."""
    recording = dataclasses.replace(record(make(), (X, Y)), events=drive(name))
    drawn = noise(recording)
    assert drawn.shape == (count,)
    assert abs(drawn.mean()) < 5.5 / math.sqrt(count)
    assert abs(np.mean(drawn**2) - 1.0) < 5.5 * math.sqrt(2.0 / count)


@pytest.mark.thorough
def test_gamma_noise_is_standardised():
    release = StableGammaRelease(1.0, 4.0, **STABLE)
    recording, drawn = record(make(), (X, Y)), []
    first = RecordingLedger([release], dp.PureDP(1.0))
    for seed in range(400):
        ledger = first.reopened(seed, None)
        ledger.stable(np.arange(5.0), release)
        drawn.append(noise(dataclasses.replace(recording, events=tuple(ledger.events)))[0])
    assert abs(np.mean(drawn)) < 5.5 / math.sqrt(400)
    assert abs(np.mean(np.square(drawn)) - 1.0) < 5.5 * math.sqrt(2.0 / 400)


def test_other_secrets_cannot_be_replayed():
    release = PoissonGaussianRelease(1.0, 4.0, 0.5, **ROWS)
    event = drive("poisson")[0]
    other = dataclasses.replace(event, secret=event.secret[:-1])
    ledger = RecordingLedger([release], dp.ApproxDP(1e4, 0.5)).reopened(3, [other])
    with pytest.raises(LedgerError, match="another secret"):
        ledger.poisson(bound=1.0, sigma=4.0, rate=0.5, **ROWS)


def test_kinds_that_are_not_recorded_are_refused(monkeypatch):
    from dpsco.solvers import registry

    plan, entry = make(1), registry()["noisy_gd"]

    def around(plan, source, ledger, progress):
        release = plan.releases()[0]
        dp.Ledger.gaussian(
            ledger, np.zeros(2), bound=release.bound, sigma=release.sigma, rows=(0, N)
        )
        return np.zeros(2)

    replaced = dataclasses.replace(entry, run=around, stepper=None)
    monkeypatch.setitem(registry(), "noisy_gd", replaced)
    with pytest.raises(LedgerError, match="do not record"):
        record(plan, (X, Y))
