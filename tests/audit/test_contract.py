"""The checks of the contract see small slips, one at a time."""

import dataclasses
import json
import math

import numpy as np
import pytest

import dpsco as dp
from dpsco.audit import contract
from dpsco.privacy import lattice
from dpsco.privacy.mechanisms import (
    FixedSizeGaussianRelease,
    GaussianRelease,
    PoissonGaussianRelease,
    PrefixSumRelease,
    StableGaussianRelease,
)
from dpsco.privacy.mechanisms.prefix_sum import mechanism as prefix_sums
from dpsco.solvers import registry
from dpsco.solvers.base import TraceLine
from dpsco.solvers.engine import carry_out
from dpsco.solvers.serialization import encode

N = 50
PROBLEM = dp.Problem(
    loss=dp.losses.Hinge(), bounds=dp.Bounds(1.0, label="sign"), domain=dp.domains.L2Ball(2.0)
)
BUDGET = dp.ApproxDP(1.0, 1e-5)
RNG = np.random.default_rng(6)
X = RNG.standard_normal((N, 2))
DATA = (X, np.where(X[:, 0] > 0, 1.0, -1.0))


@pytest.fixture(scope="module")
def plan():
    options = {"rounds": 5}
    return dp.plan(PROBLEM, n=N, d=2, budget=BUDGET, solver="noisy_gd", options=options)


def test_clean_solver_passes(plan):
    assert contract.check_plan(plan) == []
    assert contract.check_cost(plan) == []
    assert contract.check_rows(plan, DATA) == []
    assert contract.check_ledger(plan, DATA) == []
    assert contract.check_noise(plan, DATA, seeds=range(8)) == []


def test_plan_slips_are_seen(plan, monkeypatch):
    kind = type(plan)
    with monkeypatch.context() as patch:
        patch.setattr(kind, "total_rounds", property(lambda _: 4))
        assert "4 rounds are announced, the trace has 5" in contract.check_plan(plan)
    with monkeypatch.context() as patch:
        patch.setattr(kind, "trace", lambda _: (TraceLine(1, (0, N), math.nan, 1.0),) * 5)
        assert "no numbers" in contract.check_plan(plan)[0]
    far = GaussianRelease(plan.clip, plan.sigma, rows=(0, N + 1), count=5)
    with monkeypatch.context() as patch:
        patch.setattr(kind, "releases", lambda _: (far,))
        assert "touches the rows 0 to 51 of 50" in contract.check_plan(plan)[0]
    with monkeypatch.context() as patch:
        patch.setattr(kind, "to_json", other_tail)
        assert contract.check_plan(plan) == ["the plan does not survive JSON"]


def other_tail(plan):
    other = {f.name: encode(getattr(plan, f.name)) for f in dataclasses.fields(plan)}
    return json.dumps({**other, "tail": plan.tail + 1})


def with_releases(plan, *releases):
    """Return a plan that claims other releases."""

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Other(type(plan)):
        def releases(self):
            return releases

    values = {f.name: getattr(plan, f.name) for f in dataclasses.fields(plan)}
    return Other(**values)


MU = BUDGET.mu_per_row()
TREE = prefix_sums.mechanism("tree", rounds=8)


@pytest.mark.parametrize(
    "release",
    [
        GaussianRelease(1.0, 2.0 / MU * (1 + 1e-6), rows=(0, N)),
        GaussianRelease(1.0, 4.0 / MU * (1 + 1e-6), rows=(0, N), count=4),
        PrefixSumRelease(1.0, 2.0 / MU * TREE.column_norm * (1 + 1e-6), TREE, rows=(0, N)),
        StableGaussianRelease(1.0, 1.0 / MU * (1 + 1e-6), "replace_one", "a theorem", rows=(0, N)),
    ],
    ids=["single", "four", "prefix", "stable"],
)
def test_closed_form_is_sharp(plan, release):
    """What just fits passes; a thousandth less noise does not, whatever the accountant says."""
    fits = with_releases(plan, release)
    less = with_releases(plan, dataclasses.replace(release, sigma=release.sigma * 0.999))
    assert contract.check_cost(fits) == []
    assert any("closed form" in line for line in contract.check_cost(less))


def test_rows_compose_where_they_overlap(plan):
    sigma = 2.0 / MU * (1 + 1e-6)
    apart = [GaussianRelease(1.0, sigma, rows=rows) for rows in ((0, 25), (25, 50))]
    assert contract.check_cost(with_releases(plan, *apart)) == []
    across = [GaussianRelease(1.0, sigma, rows=rows) for rows in ((0, 26), (25, 50))]
    assert any("closed form" in line for line in contract.check_cost(with_releases(plan, *across)))


@pytest.mark.parametrize(
    ("release", "limit"),
    [
        # Everyone is drawn each time: a Gaussian of distance 2 bound sqrt(count) / sigma.
        (PoissonGaussianRelease(1.0, 1.0, 1.0, rows=(0, N), count=4), 1.0),
        (FixedSizeGaussianRelease(1.0, 1.0, N, rows=(0, N), count=4), 1.0),
    ],
    ids=["poisson", "fixed"],
)
def test_attack_on_everyone_is_the_gaussian(release, limit):
    sigma = 4.0 / MU
    found = contract._attack([dataclasses.replace(release, sigma=sigma)], BUDGET)
    assert found == pytest.approx(BUDGET.delta, rel=0.01)
    assert found <= BUDGET.delta * limit


def test_attack_never_beats_the_accountant(plan):
    for rate, sigma, count in ((0.1, 1.5, 20), (0.5, 6.0, 10), (0.02, 1.0, 50)):
        release = PoissonGaussianRelease(1.0, sigma, rate, rows=(0, N), count=count)
        for adjacency in ("replace_one", "zero_out"):
            budget = dp.ApproxDP(1.0, 1e-5, adjacency=adjacency)
            proved = dp.privacy.cost([release], adjacency=budget.adjacency).delta(1.0)
            assert 0.0 < contract._attack([release], budget) <= proved


def test_run_slips_are_seen(plan, monkeypatch):
    entry = registry()["noisy_gd"]

    def instead(change):
        def run(plan, source, ledger, progress):
            return change(carry_out(entry, plan, source, ledger, progress))

        return instead_by(run)

    def instead_by(run):
        return dataclasses.replace(entry, run=run, stepper=None)

    monkeypatch.setitem(registry(), "noisy_gd", instead(lambda w: w[:1]))
    assert "no 2 finite numbers" in contract.check_ledger(plan, DATA)[0]
    monkeypatch.setitem(registry(), "noisy_gd", instead(lambda w: w * np.nan))
    assert "no 2 finite numbers" in contract.check_ledger(plan, DATA)[0]

    def backwards(plan, source, ledger, progress):
        return carry_out(entry, plan, source, ledger, lambda done, total: progress(6 - done, total))

    monkeypatch.setitem(registry(), "noisy_gd", instead_by(backwards))
    assert len(contract.check_ledger(plan, DATA)) == 2

    def silent(plan, source, ledger, progress):
        return carry_out(entry, plan, source, ledger, lambda done, total: None)

    monkeypatch.setitem(registry(), "noisy_gd", instead_by(silent))
    assert "progress ended" in contract.check_ledger(plan, DATA)[0]


def test_law_of_the_noise_has_power(plan, monkeypatch):
    """240 numbers: the false alarm is 1e-6, and noise 40 % too small or too large is seen."""
    drawn = lattice.rounded_normals
    for scale, seen in ((0.6, True), (1.4, True), (1.0, False)):
        with monkeypatch.context() as patch:
            patch.setattr(lattice, "rounded_normals", lambda w, n, by, s=scale: drawn(w, n, by * s))
            found = contract.check_noise(plan, DATA, seeds=range(24))
        assert bool(found) == seen
        assert all("240 numbers" in line for line in found)


def test_runs_that_share_noise_are_seen(plan):
    assert contract.check_noise(plan, DATA, seeds=[1, 1]) == ["noise appears twice"]


def test_labels_beyond_their_bound_are_seen(monkeypatch):
    problem = dp.Problem(loss=dp.losses.Absolute(), bounds=dp.Bounds(1.0, label=1.0))
    made = dp.plan(problem, n=N, d=2, budget=BUDGET, solver="noisy_gd")
    data = (X, np.full(N, 5.0))
    assert contract.check_rows(made, data) == []
    apply = dp.Bounds.apply

    def raw(self, X, y=None, *rest, **more):
        return dataclasses.replace(apply(self, X, y, *rest, **more), labels=np.array(y))

    monkeypatch.setattr(dp.Bounds, "apply", raw)
    assert "a label is larger" in contract.check_rows(made, data)[0]
