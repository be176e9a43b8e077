"""Stable vectors: what they cost, how they are drawn, what is refused, the theorem they name.

Statistical tests have fixed seeds and a false-alarm rate of FALSE_ALARM each, and reject a scale
that is wrong by 10%.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from scipy import stats

from dpsco.errors import AssumptionError, BudgetError, LedgerError, ParameterError
from dpsco.privacy.accounting.calibration import calibrate
from dpsco.privacy.accounting.composition import cost
from dpsco.privacy.budget import ApproxDP, PureDP
from dpsco.privacy.certificate import Certificate
from dpsco.privacy.lattice import SLACK
from dpsco.privacy.ledger import Ledger
from dpsco.privacy.mechanisms import (
    GaussianRelease,
)
from dpsco.privacy.randomness import Randomness

from .conftest import (
    ROWS,
    ZERO,
    accepts,
    drawn,
    gamma,
    perturbed,
    stable,
)

STABLE = {"gaussian": stable, "gamma": gamma, "with_replacement": drawn}
every_stable = pytest.mark.parametrize("build", STABLE.values(), ids=STABLE)


def test_a_stable_gaussian_costs_its_sensitivity_once():
    """The adjacency is in the number: no factor is applied again."""
    for adjacency in ("replace_one", "zero_out"):
        found = cost(stable(0.5, 4.0, adjacency), adjacency=adjacency)
        assert math.isclose(found.mu, 0.125 * (1 + SLACK), rel_tol=2e-9)
        assert found.mu > 0.125 * (1 + SLACK)
    twice = cost([stable(), stable(0.25, rows=(0, 200))], adjacency="zero_out")
    assert math.isclose(twice.mu, math.hypot(0.125, 0.0625) * (1 + SLACK), rel_tol=2e-9)
    phases = [stable(rows=(0, 10)), stable(0.25, rows=(10, 20))]
    assert math.isclose(cost(phases, adjacency="zero_out").mu, 0.125 * (1 + SLACK), rel_tol=2e-9)


def test_a_stable_gamma_is_purely_private():
    found = cost(gamma(count=3), adjacency="zero_out")
    assert math.isclose(found.pure_epsilon, 0.375 * (1 + SLACK), rel_tol=2e-9)
    assert math.isclose(found.rho, 3 * 0.125**2 / 2 * (1 + SLACK) ** 2, rel_tol=1e-8)
    noise = calibrate(lambda s: gamma(0.5, s), PureDP(0.2, adjacency="zero_out"))
    assert math.isclose(noise, 2.5, rel_tol=2e-6)


@every_stable
def test_another_adjacency_is_refused(build):
    with pytest.raises(AssumptionError, match=r"zero_out neighbours.*replace_one"):
        cost(build())
    with pytest.raises(AssumptionError, match=r"replace_one neighbours.*zero_out"):
        cost(build(adjacency="replace_one"), adjacency="zero_out")
    for adjacency in ("zero_out", "replace_one"):
        with pytest.raises(AssumptionError, match="public number of rows"):
            cost(build(adjacency=adjacency), adjacency="add_remove")
    with pytest.raises(ParameterError, match="add_remove has none"):
        build(adjacency="add_remove")
    with pytest.raises(AssumptionError, match="neighbours"):
        Ledger([build()], ApproxDP(9.0, 1e-6))


@every_stable
@pytest.mark.parametrize("wrong", ["", "   ", 7, None, "x" * 201], ids=repr)
def test_a_theorem_is_named(build, wrong):
    with pytest.raises(ParameterError, match="theorem"):
        build(theorem=wrong)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["gaussian", "gamma"])
def test_stable_noise_has_its_law(kind):
    size, draws = 3, 8000
    release = dataclasses.replace(STABLE[kind](), count=draws)
    ledger = Ledger(release, ZERO, randomness=Randomness.seeded(4))
    exact = np.array([5.0, -1.0, 2.0])
    noise = np.array([ledger.stable(exact, release.once()) for _ in range(draws)]) - exact
    assert ledger.close().releases == (release,)
    lengths = np.linalg.norm(noise, axis=1)
    law = stats.chi(size) if kind == "gaussian" else stats.gamma(size)
    assert accepts(lengths / 4.0, law.cdf)
    for wrong in (0.9, 1.1):
        assert not accepts(lengths / (4.0 * wrong), law.cdf)
    # A coordinate of a uniform direction in three dimensions is uniform on [-1, 1].
    for k in range(size):
        assert accepts(noise[:, k] / lengths, stats.uniform(-1, 2).cdf)
    assert abs(np.corrcoef(lengths, noise[:, 0] / lengths)[0, 1]) < 5 / math.sqrt(draws)


def test_stable_releases_must_be_planned():
    ledger = Ledger([stable(count=2)], ZERO)
    for wrong in (np.zeros((2, 2)), 3.0):
        with pytest.raises(ParameterError, match="takes a vector"):
            ledger.stable(wrong, stable())
    with pytest.raises(ParameterError, match="StableGaussianRelease or StableGammaRelease"):
        ledger.stable([1.0], GaussianRelease(1.0, 1.0, rows=ROWS))
    assert ledger.stable([1.0, 2.0], stable(count=2)).shape == (2,)
    ledger.stable([1.0], stable())
    with pytest.raises(LedgerError, match="already executed"):
        ledger.stable([1.0], stable())
    other = Ledger([stable()], ZERO)
    with pytest.raises(LedgerError, match="not planned"):
        other.stable([1.0], stable(sigma=4.0 + 1e-12))
    with pytest.raises(LedgerError, match="broken"):
        other.stable([1.0], stable())
    with pytest.raises(BudgetError):
        Ledger([stable()], ApproxDP(0.1, 1e-6, adjacency="zero_out"))


@pytest.mark.parametrize(
    ("release", "theorem"),
    [
        (stable(), "First, of 2022"),
        (gamma(), "First, of 2022"),
        (drawn(), "First, of 2022"),
        (perturbed(), "Redberg, Koskela, Wang 2023"),
    ],
    ids=lambda value: getattr(value, "kind", ""),
)
def test_certificates_name_the_theorem(release, theorem, tmp_path):
    budget = ApproxDP(5.0, 1e-6, adjacency="zero_out")
    ledger = Ledger([release], budget)
    ledger._due.clear()
    certificate = ledger.close()
    lines = [line for line in str(certificate).splitlines() if "rests on" in line]
    assert len(lines) == 1
    assert theorem in lines[0]
    certificate.save(tmp_path / "c.json")
    loaded = Certificate.load(tmp_path / "c.json")
    assert loaded == certificate
    assert loaded.verify().ok
    secret = any("stay secret" in note for note in certificate.trusted)
    assert secret == (release.kind == "with_replacement")


def test_other_certificates_rest_on_nothing_else():
    ledger = Ledger([GaussianRelease(1.0, 9.0, rows=ROWS)], ApproxDP(5.0, 1e-6))
    ledger._due.clear()
    assert "rests on" not in str(ledger.close())
