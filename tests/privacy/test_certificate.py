"""Certificates: complete, honest, tamper-evident, and safe to load from anybody."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import hashlib
import json
import math
import re
import sys
import time
from functools import cache

import numpy as np
import pytest

from dpsco import __version__
from dpsco.errors import CertificateError, MissingExtraError
from dpsco.privacy import certificate as module
from dpsco.privacy.accounting.composition import Cost, cost
from dpsco.privacy.budget import GDP, ZCDP, Adjacency, ApproxDP, PureDP, Unit
from dpsco.privacy.certificate import CURVE_DELTAS, Certificate, Claims
from dpsco.privacy.certificate_text import rounded_up
from dpsco.privacy.ledger import Ledger
from dpsco.privacy.mechanisms import (
    ClipQuantileRelease,
    FadingSelectionRelease,
    FixedSizeGaussianRelease,
    GaussianRelease,
    GeneralizedGaussianRelease,
    ObjectivePerturbationRelease,
    PoissonGaussianRelease,
    PrefixSumRelease,
    RepeatedSelectionRelease,
    SelectionRelease,
    ShuffledRelease,
    ShuffledSequenceRelease,
    StableGammaRelease,
    StableGaussianRelease,
    WithReplacementRelease,
)
from dpsco.privacy.mechanisms.prefix_sum.mechanism import MECHANISMS, mechanism
from dpsco.privacy.mechanisms.repeated_selection.profile import Runs
from dpsco.privacy.mechanisms.selection import SELECTION_NOISES
from dpsco.privacy.randomness import Randomness
from dpsco.privacy.release import RELEASE_KINDS, flatten

ROWS = (10, 60)
PERSON = Unit(3, "person")

PLANS = {
    "gaussian": (
        [GaussianRelease(1.0, 20.0, rows=(0, 50)), GaussianRelease(1.0, 9.5, rows=(40, 90))],
        ApproxDP(3.0, 1e-6),
    ),
    "gaussian, zero_out": (
        [GaussianRelease(0.5, 20.0, rows=ROWS, count=7)],
        ZCDP(1.0, adjacency="zero_out"),
    ),
    "generalized_gaussian": (
        [GeneralizedGaussianRelease(1.0, 30.0, 3.5, rows=ROWS, count=2)],
        ApproxDP(4.0, 1e-5, unit=PERSON),
    ),
    "gumbel": ([SelectionRelease(1.0, 12.0, 8, rows=ROWS, count=4)], PureDP(1.0)),
    "fading": (
        [FadingSelectionRelease((0.2, 1.0), (30, ROWS[1]), 12.0, 8, rows=ROWS)],
        ApproxDP(2.0, 1e-6),
    ),
    "laplace": ([SelectionRelease(1.0, 12.0, 8, "laplace", rows=ROWS)], ApproxDP(2.0, 1e-6)),
    "prefix_sum": (
        [PrefixSumRelease(1.0, 30.0, mechanism("tree", rounds=4, drop_root=True), rows=ROWS)],
        GDP(1.0, unit=PERSON),
    ),
    "banded": (
        [PrefixSumRelease(1.0, 30.0, mechanism("banded", rounds=9, bands=3), rows=ROWS)],
        GDP(1.0, adjacency="zero_out"),
    ),
    "power": (
        [PrefixSumRelease(1.0, 30.0, mechanism("power", rounds=9, exponent=0.75), rows=ROWS)],
        GDP(1.0, adjacency="zero_out"),
    ),
    "blt_cn": (
        [PrefixSumRelease(1.0, 30.0, mechanism("blt_cn", rounds=9), rows=ROWS)],
        GDP(1.0, adjacency="zero_out"),
    ),
    "poisson_gaussian": (
        [PoissonGaussianRelease(1.0, 2.0, 0.3, "conjectured", rows=ROWS, count=2)],
        ApproxDP(5.0, 1e-6),
    ),
    "fixed_size_gaussian": (
        [FixedSizeGaussianRelease(1.0, 3.0, 15, rows=ROWS, count=2)],
        ApproxDP(5.0, 1e-6),
    ),
    "shuffled": ([ShuffledRelease(1.0, 5.0, rows=ROWS)], ApproxDP(5.0, 1e-6)),
    "shuffled_sequence": (
        [ShuffledSequenceRelease(1.0, 5.0, 7, rows=ROWS)],
        ApproxDP(5.0, 1e-6, adjacency="zero_out"),
    ),
    "clip_quantile": (
        [
            ClipQuantileRelease(8.0, 45, 41, 0.001, rows=ROWS),
            GaussianRelease(1.0, 9.5, rows=ROWS, count=3),
        ],
        ApproxDP(3.0, 1e-6),
    ),
    "clip_quantile, gdp": (
        [ClipQuantileRelease(8.0, 45, 41, rows=ROWS), GaussianRelease(1.0, 9.5, rows=ROWS)],
        GDP(1.0, adjacency="zero_out"),
    ),
    "stable_gaussian": (
        [
            StableGaussianRelease(0.5, 4.0, "replace_one", "First, of 2022", rows=(0, 20)),
            StableGaussianRelease(0.25, 4.0, "replace_one", "Second, of 2020", rows=(15, 30)),
        ],
        ApproxDP(3.0, 1e-6),
    ),
    "stable_gamma": (
        [StableGammaRelease(0.5, 4.0, "zero_out", "First, of 2022", rows=ROWS)],
        PureDP(1.0, adjacency="zero_out"),
    ),
    "with_replacement": (
        [WithReplacementRelease(0.1, 0.01, 40, 1.5, "replace_one", "First, of 2022", rows=ROWS)],
        ApproxDP(3.0, 1e-6),
    ),
    "objective_perturbation": (
        [ObjectivePerturbationRelease(1.0, 6.0, 0.25, 10.0, 1, "glm", 1e-3, 0.02, rows=ROWS)],
        ApproxDP(3.0, 1e-6, adjacency="zero_out"),
    ),
    "repeated_selection": (
        [
            RepeatedSelectionRelease(
                ((GaussianRelease(1.0, 9.0, rows=ROWS),),), Runs.named("geometric", 5.0), rows=ROWS
            )
        ],
        ApproxDP(3.0, 1e-6),
    ),
}
EVERY_PLAN = pytest.mark.parametrize("name", PLANS)
ENFORCED = ("rows are clipped to norm 1", "labels are clipped to [-1, 1]")
TRUSTED = ("the loss is convex",)


@cache
def honest(name):
    planned, budget = PLANS[name]
    return written(planned, budget)


def written(planned, budget, *, randomness=None):
    """A certificate as a ledger writes it, without running the releases."""
    ledger = Ledger(planned, budget, randomness=randomness, enforced=ENFORCED, trusted=TRUSTED)
    ledger._due.clear()
    return ledger.close()


def digest(record):
    """The digest of a record, as an attacker would recompute it: written from the format alone."""
    content = {name: value for name, value in record.items() if name != "digest"}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def forged(record):
    return {**record, "digest": digest(record)}


def record_of(name):
    return copy.deepcopy(honest(name).to_json())


# --- Content -----------------------------------------------------------------------------


def test_every_kind_of_release_is_covered_here():
    kinds = {release.kind for planned, _ in PLANS.values() for release in planned}
    assert kinds == set(RELEASE_KINDS)


@pytest.mark.thorough
@EVERY_PLAN
def test_json_states_everything(name):
    certificate, (planned, budget) = honest(name), PLANS[name]
    record = certificate.to_json()
    assert set(record) == {
        "schema", "trust_model", "budget", "claims", "releases", "enforced", "trusted",
        "randomness", "numeric", "versions", "digest",
    }  # fmt: skip
    true = cost(planned, adjacency=budget.adjacency, unit=budget.unit)
    delta = getattr(budget, "delta", 1e-6)
    assert record["schema"] == "dpsco.certificate/1"
    assert record["trust_model"].startswith("central")
    assert record["budget"]["kind"] == budget.kind
    assert record["budget"]["adjacency"] == budget.adjacency.value
    assert record["budget"]["unit"] == {"rows": budget.unit.rows, "name": budget.unit.name}
    assert record["claims"]["delta"] == delta
    assert record["claims"]["epsilon"] == true.epsilon(delta)
    assert record["claims"]["mu"] == true.mu
    assert record["claims"]["rho"] == true.rho
    curve = {point["delta"]: point["epsilon"] for point in record["claims"]["curve"]}
    assert curve == {d: true.epsilon(d) for d in CURVE_DELTAS}
    assert len(record["releases"]) == len(planned)
    for written_release, release in zip(record["releases"], planned, strict=True):
        assert written_release["kind"] == release.kind
        assert written_release["rows"] == list(release.rows)
        assert written_release["count"] == release.count
        names = {"kind", *(field.name for field in dataclasses.fields(release))}
        assert set(written_release) == names
    assert record["enforced"] == list(ENFORCED)
    assert record["trusted"][:1] == list(TRUSTED)
    assert "AES-256" in record["randomness"]["description"]
    assert record["randomness"]["reproducible"] is False
    assert record["numeric"] == (
        "float64" if name in ("generalized_gaussian", "stable_gamma") else "exact"
    )
    assert record["versions"]["dpsco"] == __version__
    assert record["versions"]["numpy"] == np.__version__
    assert set(record["versions"]) == {
        "dpsco", "python", "numpy", "scipy", "cryptography", "dp-accounting"
    }  # fmt: skip
    assert record["digest"] == digest(record)


@pytest.mark.thorough
@EVERY_PLAN
def test_text_states_everything(name):
    certificate = honest(name)
    record, text = certificate.to_json(), str(certificate)
    claims, unit = record["claims"], record["budget"]["unit"]
    shown = [
        f"epsilon {rounded_up(claims['epsilon'])} at delta {claims['delta']:.3g}",
        f"adjacency {record['budget']['adjacency']}",
        f"one {unit['name']}" if unit["rows"] == 1 else f"{unit['rows']} rows a {unit['name']}",
        type(certificate.budget).__name__,
        record["trust_model"],
        record["randomness"]["description"],
        f"numeric     {record['numeric']}",
        *record["enforced"],
        *record["trusted"],
        *(f"{package} {version}" for package, version in record["versions"].items()),
    ]
    shown += [f"{k} {rounded_up(claims[k])}" for k in ("mu", "rho") if claims[k] is not None]
    shown += [f"{rounded_up(p['epsilon'], 4)} at {p['delta']:.0e}" for p in claims["curve"][::2]]
    for release in record["releases"]:
        start, stop = release["rows"]
        shown.append(f"{release['count']} x {release['kind']} on rows {start}..{stop - 1}")
        for field, value in release.items():
            if isinstance(value, float):
                shown.append(f"{field} {value:.6g}")
            elif field in ("noise", "pair", "size", "candidates"):
                shown.append(f"{field} {value}")
        if "mechanism" in release:
            rule = release["mechanism"]
            shown.append(f"{rule['name']}, {rule['rounds']} rounds")
    assert [words for words in shown if words not in text] == []
    assert "mu" in text or claims["mu"] is None


def test_nothing_enforced_or_trusted_is_said():
    plan = [GaussianRelease(1.0, 9.0, rows=ROWS)]
    ledger = Ledger(plan, ZCDP(1.0))
    ledger.gaussian(np.zeros(2), bound=1.0, sigma=9.0, rows=ROWS)
    certificate = ledger.close()
    assert certificate.enforced == certificate.trusted == ()
    assert len(re.findall(r"(enforced|trusted) +nothing", str(certificate))) == 2


def test_a_seeded_run_is_marked_and_a_secure_one_is_not():
    planned, budget = PLANS["gaussian"]
    seeded = written(planned, budget, randomness=Randomness.seeded(3))
    record = seeded.to_json()
    assert record["randomness"]["reproducible"] is True
    assert "not private" in record["randomness"]["description"]
    assert any("seed" in note for note in record["trusted"])
    assert "not private" in str(seeded)
    assert seeded.verify(cross_check=False).ok
    secure = str(honest("gaussian"))
    assert "seed" not in secure
    assert "not private" not in secure


@pytest.mark.thorough
def test_the_conjectured_pair_is_listed_as_trusted_where_it_is_used():
    def trusts(pair, adjacency):
        plan = [
            PoissonGaussianRelease(1.0, 2.0, 0.3, pair, rows=ROWS),
            GaussianRelease(1.0, 20.0, rows=ROWS),
        ]
        notes = written(plan, ApproxDP(9.0, 1e-6, adjacency=adjacency)).trusted
        return any("antipodal" in note for note in notes)

    assert trusts("conjectured", "replace_one")
    assert not trusts("proved", "replace_one")
    assert not trusts("conjectured", "zero_out")  # there the pair is not used


def test_only_laws_that_are_not_exact_have_a_float_caveat():
    exact = [GaussianRelease(1.0, 20.0, rows=ROWS), SelectionRelease(1.0, 12.0, 8, rows=ROWS)]
    mixed = [*exact, GeneralizedGaussianRelease(1.0, 30.0, 3.0, rows=ROWS)]
    for plan, numeric in ((exact, "exact"), (mixed, "float64")):
        certificate = written(plan, ZCDP(1.0))
        assert certificate.numeric == numeric
        assert any("float64" in note for note in certificate.trusted) == (numeric == "float64")


def test_an_infinite_epsilon_is_left_out_of_the_curve(monkeypatch):
    """Some bounds have a floor in delta; JSON has no infinity, and verify() cannot compare it."""

    class Short(Cost):
        def epsilon(self, delta):
            return math.inf if delta < 1e-8 else super().epsilon(delta)

    monkeypatch.setattr(module, "cost", lambda *args, **options: Short(cost(*args, **options).rows))
    planned, budget = PLANS["gaussian, zero_out"]
    spent = module.cost(planned, adjacency=budget.adjacency)
    certificate = Certificate.of(
        budget,
        flatten(planned),
        spent,
        randomness="secure",
        reproducible=False,
        enforced=(),
        trusted=(),
    )
    assert [delta for delta, _ in certificate.claims.curve] == [
        d for d in CURVE_DELTAS if d >= 1e-8
    ]
    assert Certificate.from_json(certificate.to_json()) == certificate
    assert certificate.verify(cross_check=False).ok


# --- Round trip and honest verification --------------------------------------------------


@pytest.mark.thorough
@EVERY_PLAN
def test_round_trip_and_verification(name, tmp_path):
    certificate = honest(name)
    path = tmp_path / "certificate.json"
    certificate.save(path)
    loaded = Certificate.load(path)
    assert loaded == certificate
    assert loaded.to_json() == certificate.to_json()
    assert str(loaded) == str(certificate)
    assert json.loads(path.read_text(encoding="utf-8")) == certificate.to_json()
    verification = loaded.verify()
    assert verification.problems == ()
    assert verification.ok
    assert str(verification).startswith("NOT TIED")
    expected = {"gaussian": "PLD", "poisson_gaussian": "no second", "gumbel": "RDP"}
    assert expected.get(name, "") in verification.cross_check
    assert loaded.verify(cross_check=False).cross_check == "skipped"


def test_the_numbers_are_those_of_the_releases_and_not_of_the_claims():
    certificate = honest("gaussian")
    lying = dataclasses.replace(
        certificate, claims=dataclasses.replace(certificate.claims, epsilon=0.1, mu=0.01)
    )
    assert lying.epsilon(1e-6) == certificate.epsilon(1e-6) == certificate.claims.epsilon
    assert lying.mu == certificate.mu == certificate.claims.mu
    assert lying.delta(1.0) == certificate.delta(1.0)
    verification = lying.verify(cross_check=False)
    assert str(verification).startswith("NOT VALID")
    assert len(verification.problems) == 2


def test_a_certificate_over_its_budget_is_not_valid():
    certificate = honest("gaussian")
    spent = certificate.claims.epsilon
    for factor, ok in ((1.0, True), (1 - 1e-12, False)):
        budget = ApproxDP(spent * factor, 1e-6)
        assert dataclasses.replace(certificate, budget=budget).verify().ok is ok


def test_a_disagreeing_second_accountant_is_a_problem(monkeypatch):
    certificate = honest("gaussian")

    def doubled(spent, delta):
        opinion = original(spent, delta)
        return dataclasses.replace(opinion, second=2 * opinion.second)

    original = module.second_accountant
    assert certificate.verify().ok
    monkeypatch.setattr(module, "second_accountant", doubled)
    assert "second accountant disagrees" in certificate.verify().problems[0]
    assert certificate.verify(cross_check=False).ok


def test_a_missing_accountant_is_not_a_verdict(monkeypatch):
    def absent(*_, **__):
        raise MissingExtraError("install it")

    certificate = dataclasses.replace(honest("poisson_gaussian"))
    monkeypatch.setattr(module, "cost", absent)
    with pytest.raises(MissingExtraError, match="install"):
        certificate.verify()


# --- Tampering ---------------------------------------------------------------------------


def walk(value, path=()):
    """Yield (path, leaf or list) over the whole record."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from walk(item, (*path, name))
        return
    yield path, value
    if isinstance(value, list):
        for i, item in enumerate(value):
            yield from walk(item, (*path, i))


WORDS = {
    "adjacency": [member.value for member in Adjacency],
    "kind": [*RELEASE_KINDS, "approx_dp", "pure_dp", "zcdp", "gdp"],
    "noise": SELECTION_NOISES,
    "pair": ["proved", "conjectured"],
    "name": MECHANISMS,
    "numeric": ["float64", "exact"],
}


def perturbed(path, value):
    """Other values for a leaf: every legal word, larger and smaller numbers, lists cut short."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, max(value - 1, 0)]
    if isinstance(value, float):
        return [1.1 * value, 0.9 * value, value * (1 + 1e-8), *([value / 4] * (path[-1] == "step"))]
    if value is None:
        return [0.5, 3]
    if isinstance(value, str):
        return [f"{value} indeed", "", *WORDS.get(path[-1], ())]
    return [value[1:], value[:-1], [*value, value[-1]], value[::-1]] if value else [["more"]]


def replaced(record, path, value):
    changed = copy.deepcopy(record)
    place = changed
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return changed


def tampered(record):
    """Yield (path, altered record) for every leaf and list and every change of it."""
    for path, value in list(walk(record)):
        for other in perturbed(path, value):
            if other != value or type(other) is not type(value):
                yield path, replaced(record, path, other)


@pytest.mark.thorough
@EVERY_PLAN
def test_any_change_is_noticed_at_loading(name):
    record = record_of(name)
    paths = set()
    for path, changed in tampered(record):
        with pytest.raises(CertificateError):
            Certificate.from_json(changed)
        paths.add(path)
    assert len(paths) > 55
    assert Certificate.from_json(record) == honest(name)


# What a forger who recomputes the digest can change unnoticed. Words about the run:
WORDING = {
    "trust_model",
    "budget.unit.name",
    "randomness.description",
    *(f"versions.{name}" for name in honest("gaussian").versions),
    "enforced",
    "enforced.*",
    "trusted",  # the solver's own notes; the caveats that the releases ask for must stay
    "trusted.*",
}
# Numbers on which the claims do not depend, or only by a bound that is met in either case:
AMOUNT = {"ApproxDP": "epsilon", "PureDP": "epsilon", "ZCDP": "rho", "GDP": "mu"}  # a larger budget
GRID = {  # which clips there are, and which is sought
    f"releases.*.{field}" for field in ("target", "candidates", "lowest", "per_octave", "tilt")
}
UNRELATED = {
    "gaussian": {"releases.*.rows.*", "releases"},  # other rows, as far as the overlap stays
    # add_remove costs the same, and a diameter counts where a row is replaced
    "gaussian, zero_out": {"releases.*.rows.*", "releases.*.diameter", "budget.adjacency"},
    "generalized_gaussian": {"releases.*.rows.*"},
    "gumbel": {"releases.*.rows.*", "releases.*.candidates"},
    "fading": {  # of old rows, which pay less; the last bound counts
        "releases.*.rows.*",
        "releases.*.candidates",
        "releases.*.bounds",
        "releases.*.bounds.*",
        "releases.*.stops.*",
    },
    "laplace": {"releases.*.rows.*", "releases.*.candidates", "releases.*.noise"},  # pure DP alike
    "prefix_sum": {"releases.*.rows.*", "releases.*.mechanism.name"},  # either tree: same levels
    "banded": {"releases.*.rows.*", "releases.*.mechanism.rounds"},  # the bands alone count
    "power": {"releases.*.rows.*"},  # rounds and exponent count
    "blt_cn": {  # every column has the norm 1, however many rounds, as those of toeplitz_cn
        "releases.*.rows.*",
        "releases.*.mechanism.name",
        "releases.*.mechanism.rounds",
    },
    "poisson_gaussian": {"releases.*.rows.*"},
    "fixed_size_gaussian": {"budget.adjacency"},  # zero_out is charged as replace_one
    "shuffled": {"releases.*.rows.*"},  # too few to hide among; see below
    "shuffled_sequence": {"releases.*.rows.*"},
    "clip_quantile": {"releases.*.rows.*", "releases", *GRID},
    "clip_quantile, gdp": {"releases.*.rows.*", "releases", "budget.adjacency", *GRID},
    "stable_gaussian": {"releases.*.rows.*", "releases", "releases.*.theorem"},  # a name is words
    "stable_gamma": {"releases.*.rows.*", "releases.*.theorem"},
    "with_replacement": {"releases.*.theorem"},  # the number of rows counts
    "objective_perturbation": {"releases.*.rows.*", "budget.adjacency"},  # add_remove alike
    "repeated_selection": {
        "releases.*.rows.*",
        "releases.*.alternatives",  # one of them twice is the same choice
        "releases.*.alternatives.*.*.rows.*",
    },
}
SLOW = {  # group privacy of a shuffle takes seconds
    ("shuffled", "budget.unit.rows"),
    ("shuffled_sequence", "budget.unit.rows"),
}


def generic(path):
    return ".".join("*" if isinstance(step, int) else step for step in path)


@cache
def known_cost(planned, adjacency, unit):
    return cost(planned, adjacency=adjacency, unit=unit)


known_epsilon = cache(Cost.epsilon)


@pytest.fixture
def quick(monkeypatch):
    """A short curve, and each cost once: most changes leave the releases as they are."""
    monkeypatch.setattr(module, "CURVE_DELTAS", (1e-3, 1e-6))
    monkeypatch.setattr(module, "cost", lambda *a, **k: known_cost(*a, **k))
    monkeypatch.setattr("dpsco.privacy.ledger.cost", lambda *a, **k: known_cost(*a, **k))
    monkeypatch.setattr(Cost, "epsilon", known_epsilon)


def survives(record):
    """Whether a forged record loads and verifies."""
    try:
        return Certificate.from_json(forged(record)).verify(cross_check=False).ok
    except CertificateError:
        return False


@pytest.mark.slow
@EVERY_PLAN
@pytest.mark.usefixtures("quick")
def test_a_forger_can_change_only_words_and_unrelated_numbers(name):
    planned, budget = PLANS[name]
    certificate = written(planned, budget)
    record = certificate.to_json()
    assert survives(record)
    amount = f"budget.{AMOUNT[type(budget).__name__]}"
    unnoticed = set()
    for path, changed in tampered(record):
        leaf = generic(path)
        if leaf == "digest" or (name, leaf) in SLOW or not survives(changed):
            continue
        unnoticed.add(leaf)
        if leaf == amount:
            assert changed["budget"][path[-1]] > record["budget"][path[-1]] * 0.89
            assert changed["budget"][path[-1]] >= certificate.cost.against(budget)[0]
        if leaf in ("releases", "claims.curve"):  # only their order
            assert sorted(map(str, changed[path[0]])) == sorted(map(str, record[path[0]]))
        if leaf.startswith("trusted"):
            assert set(record["trusted"]) - set(TRUSTED) <= set(changed["trusted"])
    assert unnoticed == WORDING | UNRELATED[name] | {amount, "claims.curve"}


@pytest.mark.usefixtures("quick")
def test_a_forger_cannot_pass_a_conjecture_or_floats_for_proved_or_exact():
    planned, budget = PLANS["poisson_gaussian"]
    record = written(planned, budget).to_json()
    _, *caveats = record["trusted"]
    assert len(caveats) == 2  # the conjectured pair, the numerical accountant
    for caveat in caveats:
        kept = [note for note in record["trusted"] if note != caveat]
        assert not survives({**record, "trusted": kept})
    floats = written(*PLANS["generalized_gaussian"]).to_json()
    own, caveat = floats["trusted"]
    assert "float64" in caveat
    assert not survives({**floats, "numeric": "exact"})
    assert not survives({**floats, "numeric": "exact", "trusted": [own]})
    seeded = written(planned, budget, randomness=Randomness.seeded(1)).to_json()
    assert survives(seeded)
    assert not survives({**seeded, "trusted": record["trusted"]})
    assert not survives(replaced(record, ("randomness", "reproducible"), True))


@pytest.mark.usefixtures("quick")
def test_a_forger_cannot_move_rows_where_the_cost_depends_on_them():
    record = written(*PLANS["gaussian"]).to_json()
    assert survives(replaced(record, ("releases", 1, "rows", 0), 49))
    assert not survives(replaced(record, ("releases", 1, "rows", 0), 50))  # no row in both
    shuffled = written([ShuffledRelease(1.0, 5.0, rows=(0, 2000))], ApproxDP(9.0, 1e-6)).to_json()
    for stop in (1900, 4000):
        assert not survives(replaced(shuffled, ("releases", 0, "rows", 1), stop))


@pytest.mark.usefixtures("quick")
def test_a_forger_cannot_add_to_the_curve_or_state_a_delta_twice():
    record = written(*PLANS["gaussian"]).to_json()
    curve = record["claims"]["curve"]
    lie = {"delta": curve[0]["delta"], "epsilon": curve[0]["epsilon"] / 10}
    for points in (
        [*curve, {"delta": 1e-30, "epsilon": 0.01}],  # a delta that is not recomputed
        [lie, *curve],  # the reader sees the first, a dictionary keeps the last
        [*curve, lie],
        [],
    ):
        assert not survives(replaced(record, ("claims", "curve"), points))
    assert survives(replaced(record, ("claims", "curve"), curve[::-1]))


def test_a_forger_cannot_choose_another_delta():
    """A true but flattering pair: epsilon 0 at delta 0.9."""
    certificate = honest("gaussian")
    flattering = Claims.of(certificate.cost, 0.9)
    assert flattering.epsilon < certificate.claims.epsilon
    verification = dataclasses.replace(certificate, claims=flattering).verify()
    assert any(problem.startswith("delta") for problem in verification.problems)


@pytest.mark.usefixtures("quick")
def test_unknown_fields_and_other_types_are_refused_even_when_forged():
    record = written(*PLANS["prefix_sum"]).to_json()
    places = [(), ("budget",), ("budget", "unit"), ("claims",), ("claims", "curve", 0)]
    places += [("releases", 0), ("releases", 0, "mechanism"), ("randomness",)]
    for place in places:
        with pytest.raises(CertificateError):
            Certificate.from_json(forged(replaced(record, (*place, "extra"), 1)))
    for path, value in (
        (("claims", "epsilon"), str(record["claims"]["epsilon"])),
        (("claims", "mu"), "small"),
        (("claims", "mu"), -1.0),
        (("claims", "rho"), [0.1]),
        (("claims", "delta"), 2**2000),
        (("claims", "curve"), {}),
        (("claims", "curve", 0, "epsilon"), None),
        (("releases", 0, "sigma"), 30),  # an integer is written as a float
        (("releases", 0, "count"), 1.0),
        (("releases", 0, "count"), True),
        (("releases", 0, "rows"), [10.0, 60]),
        (("releases", 0, "mechanism"), "tree"),
        (("releases", 0, "mechanism", "drop_root"), 1),
        (("randomness", "reproducible"), 0),
        (("trusted",), "nothing at all"),
        (("enforced",), {"a": 1}),
        (("versions",), [["dpsco", "1"]]),
        (("budget", "unit", "rows"), 3.0),
        (("releases",), record["releases"][0]),
    ):
        changed = forged(replaced(record, path, value))
        assert changed["digest"] != record["digest"]
        with pytest.raises(CertificateError):
            Certificate.from_json(changed)


def test_a_release_that_cannot_be_accounted_is_a_problem_and_no_exception():
    record = replaced(record_of("banded"), ("budget", "adjacency"), "add_remove")
    verification = Certificate.from_json(forged(record)).verify()
    assert not verification.ok
    assert "cannot be accounted" in verification.problems[0]


# --- Loading anything --------------------------------------------------------------------


def refused(tmp_path, content):
    """Load a file with this content; only CertificateError may come of it."""
    path = tmp_path / "file.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(CertificateError) as caught:
        Certificate.load(path)
    return str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b" \n",
        b"{}",
        b"[]",
        b"null",
        b"true",
        b"3",
        b'"certificate"',
        b'{"schema": "dpsco.certificate/1"}',
        b"epsilon = 1",
        b"\x00\x01\x02\xff\xfe",
        b"\x89PNG\r\n\x1a\n\x00\x00",
        "{}".encode("utf-16"),
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"schema": ' + b"9" * 5000 + b"}",
        b"cos\nsystem\n(S'echo'\ntR.",
    ],
    ids=lambda content: str(content[:12]),
)
def test_a_file_that_is_no_certificate_is_refused(tmp_path, content):
    refused(tmp_path, content)


def test_a_path_that_is_no_file_is_refused(tmp_path):
    for path in (tmp_path, tmp_path / "absent.json"):
        with pytest.raises(CertificateError, match="cannot read"):
            Certificate.load(path)


def test_a_truncated_file_is_refused(tmp_path):
    text = json.dumps(record_of("gaussian"), indent=2)
    for length in range(1, len(text) - 1, 37):
        assert "not JSON" in refused(tmp_path, text[:length])


def test_a_record_without_one_of_its_fields_is_refused():
    for name in ("gaussian", "prefix_sum"):
        record = record_of(name)
        for place in [(), ("budget",), ("budget", "unit"), ("claims",), ("releases", 0)]:
            item = record
            for step in place:
                item = item[step]
            for field in item:
                less = {key: value for key, value in item.items() if key != field}
                changed = replaced(record, place, less) if place else less
                if field != "digest":
                    changed = forged(changed)
                with pytest.raises(CertificateError):
                    Certificate.from_json(changed)


@pytest.mark.parametrize("schema", ["dpsco.certificate/2", "", None, 1, ["dpsco.certificate/1"]])
def test_another_schema_is_refused(schema):
    with pytest.raises(CertificateError, match="unknown schema"):
        Certificate.from_json(forged({**record_of("gaussian"), "schema": schema}))


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "-1.0"])
def test_numbers_that_are_none_are_refused_wherever_they_stand(tmp_path, literal):
    record = record_of("gaussian")
    numbers = [
        path for path, value in walk(record) if isinstance(value, (int, float)) and value != 0
    ]
    assert len(numbers) > 30
    for path in numbers:
        if path[-1] == "reproducible":
            continue
        changed = replaced(record, path, float(literal.replace("1e999", "Infinity")))
        text = json.dumps({**changed, "digest": digest(changed)})
        if "1e999" in literal:
            text = text.replace("Infinity", "1e999")
        assert literal in text
        refused(tmp_path, text)


def test_a_text_that_is_no_number_is_refused(tmp_path):
    for path in (("trust_model",), ("enforced", 0), ("versions", "numpy")):
        changed = replaced(record_of("gaussian"), path, math.nan)
        refused(tmp_path, json.dumps({**changed, "digest": digest(changed)}))


def test_a_field_given_twice_is_refused(tmp_path):
    """A reader would see the first value, json.loads the last."""
    record = record_of("gaussian")
    text = json.dumps(record)
    lie = text.replace('"epsilon": ', '"epsilon": 0.001, "epsilon": ', 1)
    assert json.loads(lie) == record
    assert "twice" in refused(tmp_path, lie)


HUGE = 10**18


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "path", "value"),
    [
        *((name, ("releases", 0, "count"), HUGE) for name in PLANS),
        ("gaussian", ("releases", 0, "count"), 10**400),
        ("gaussian", ("releases", 0, "rows"), [0, 10**400]),
        ("gaussian", ("releases", 0, "rows"), [0, HUGE]),
        ("gaussian", ("releases", 0, "sigma"), 1e-300),
        ("gaussian", ("releases", 0, "bound"), 1e300),
        ("gumbel", ("releases", 0, "candidates"), HUGE),
        ("fixed_size_gaussian", ("releases", 0, "rows"), [0, HUGE]),
        ("poisson_gaussian", ("releases", 0, "rate"), 1e-300),
        ("banded", ("releases", 0, "mechanism"), "long"),
        ("banded", ("releases", 0, "mechanism"), "wide"),
        ("power", ("releases", 0, "mechanism"), "power"),
        ("blt_cn", ("releases", 0, "mechanism"), "blt"),
        ("prefix_sum", ("releases", 0, "mechanism"), "toeplitz"),
        ("prefix_sum", ("releases", 0, "mechanism"), "tree"),
        ("gaussian", ("budget", "unit", "rows"), HUGE),
    ],
    ids=str,
)
@pytest.mark.usefixtures("quick")
def test_oversized_numbers_are_settled_quickly(name, path, value):
    record = written(*PLANS[name]).to_json()
    if path[-1] == "mechanism":
        rule = {"name": value, "rounds": HUGE, "bands": None, "drop_root": False}
        rule["exponent"] = 0.75 if value == "power" else None
        if value == "long":
            rule = {**rule, "name": "banded", "bands": HUGE // 2}
        if value == "wide":  # neither number is large, but their product is
            rule = {**rule, "name": "bisr", "rounds": 10**6, "bands": 10**6}
        value = rule
        record = replaced(record, ("releases", 0, "rows"), [0, HUGE])
    started = time.perf_counter()
    try:
        ok = Certificate.from_json(forged(replaced(record, path, value))).verify().ok
    except CertificateError:
        ok = False
    assert time.perf_counter() - started < 10.0
    assert not ok or (name, path[-1]) == ("gumbel", "candidates")


@pytest.mark.parametrize("name", ["toeplitz", "banded", "bisr", "power"])
def test_long_sums_are_refused_before_they_are_computed(name):
    """Two million terms would fit into memory, and a file may hold many of them."""
    record = written(*PLANS["prefix_sum"]).to_json()
    rule = {"name": name, "rounds": 2 * 10**6, "bands": None, "drop_root": False, "exponent": None}
    rule |= {"bands": 1_500_000} if name in ("banded", "bisr") else {}
    rule |= {"exponent": 0.75} if name == "power" else {}
    record = replaced(record, ("releases", 0, "rows"), [0, 10**7])
    record = replaced(record, ("releases", 0, "mechanism"), rule)
    with pytest.raises(CertificateError, match=f"a {name} sum of .* terms is too long"):
        Certificate.from_json(forged(record))


def test_a_forged_certificate_of_enormous_cost_is_settled_quickly():
    """Consistent claims, so that nothing is wrong: but no distribution of this size is built."""
    for planned in (
        [GaussianRelease(1.0, 5.0, rows=ROWS, count=HUGE)],
        [PrefixSumRelease(1.0, 1e-6, mechanism("tree", rounds=4), rows=ROWS)],
    ):
        certificate = written(planned, ApproxDP(1e300, 1e-6))
        started = time.perf_counter()
        verification = Certificate.from_json(certificate.to_json()).verify()
        assert verification.ok
        assert "above 100" in verification.cross_check
        assert time.perf_counter() - started < 5.0


EVENTS = []
DANGEROUS = ("exec", "compile", "import", "os.system", "subprocess.Popen", "pickle.find_class")


def watch(event, arguments):
    """An audit hook; it cannot be removed, so it listens only when told to."""
    if EVENTS and event in DANGEROUS:
        EVENTS.append(event)


def test_loading_executes_nothing(tmp_path):
    sys.addaudithook(watch)
    hostile = "__import__('os').system('echo')"
    record = record_of("gaussian")
    path = tmp_path / "certificate.json"
    path.write_text(json.dumps(record), encoding="utf-8")
    Certificate.load(path)
    try:
        EVENTS.append("start")
        Certificate.load(path)
        for place, value in list(walk(record)):
            if isinstance(value, str):
                with contextlib.suppress(CertificateError):
                    Certificate.from_json(forged(replaced(record, place, hostile)))
        with contextlib.suppress(CertificateError):
            Certificate.from_json(forged({**record, "__class__": hostile, "__reduce__": [hostile]}))
        assert EVENTS == ["start"]
        eval("1 + 1")  # the hook does listen
        assert len(EVENTS) > 1
    finally:
        EVENTS.clear()


@pytest.mark.parametrize("digits", [1, 4, 6])
@pytest.mark.parametrize(
    "value", [1e-300, 1.04e-9, 0.0999999999, 0.1234561, 0.5, 1, 9.99999999, 1e6]
)
def test_shown_numbers_are_never_below_the_claim(value, digits):
    shown = float(rounded_up(value, digits))
    assert value <= shown <= value * (1 + 10.0 ** (1 - digits) * 1.2)


def test_shown_text_has_no_control_characters():
    record = honest("gaussian").to_json()
    record["trust_model"] = "central\x1b[2J\nVALID: epsilon 0"
    shown = str(Certificate.from_json({**record, "digest": digest(record)}))
    assert "\x1b" not in shown
    assert "central?[2J?VALID" in shown
