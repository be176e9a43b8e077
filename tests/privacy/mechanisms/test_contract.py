"""What every registered kind of release must keep: one example each, the same questions for all."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

from dpsco.errors import AssumptionError, DpscoError, ParameterError
from dpsco.privacy.accounting.composition import cost
from dpsco.privacy.budget import Adjacency, ApproxDP
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
    Runs,
    SelectionRelease,
    ShuffledRelease,
    ShuffledSequenceRelease,
    StableGammaRelease,
    StableGaussianRelease,
    WithReplacementRelease,
    mechanism,
)
from dpsco.privacy.randomness import Randomness
from dpsco.privacy.release import RELEASE_KINDS, Release, check_lattice, flatten, register

ROWS = (40, 140)
STABLE = {"adjacency": "zero_out", "theorem": "A theorem, of 2022", "rows": ROWS}
EXAMPLES = {
    release.kind: release
    for release in (
        GaussianRelease(1.0, 8.0, rows=ROWS),
        GeneralizedGaussianRelease(1.0, 8.0, 4.0, rows=ROWS),
        SelectionRelease(1.0, 8.0, 6, rows=ROWS),
        ClipQuantileRelease(8.0, 90, 41, rows=ROWS),
        FadingSelectionRelease((0.25, 1.0), (90, 140), 8.0, 6, rows=ROWS),
        PrefixSumRelease(1.0, 8.0, mechanism("banded", rounds=4, bands=2), rows=ROWS),
        PoissonGaussianRelease(1.0, 8.0, 0.5, rows=ROWS),
        FixedSizeGaussianRelease(1.0, 8.0, 50, rows=ROWS),
        ShuffledRelease(1.0, 8.0, rows=ROWS),
        ShuffledSequenceRelease(1.0, 8.0, 25, rows=ROWS),
        StableGaussianRelease(1.0, 8.0, **STABLE),
        StableGammaRelease(1.0, 8.0, **STABLE),
        WithReplacementRelease(0.1, 0.01, 30, 8.0, **STABLE),
        ObjectivePerturbationRelease(
            1.0, 8.0, 0.25, 3.0, 2, "subspace", 1e-9, 1e-7, span=4, rows=ROWS
        ),
        RepeatedSelectionRelease(
            ((GaussianRelease(1.0, 8.0, rows=ROWS),),), Runs.named("geometric", 3.0), rows=ROWS
        ),
    )
}
every = pytest.mark.parametrize("kind", RELEASE_KINDS)

COUNTED_ROWS_PRIVATE = {  # the number of rows need not be public
    "gaussian",
    "generalized_gaussian",
    "selection",
    "clip_quantile",
    "poisson_gaussian",
    "objective_perturbation",
    "repeated_selection",
}
MOVED_ALIKE = {"clip_quantile"}  # scores are no sums: an emptied row moves them as far
ONE_ADJACENCY = {"stable_gaussian", "stable_gamma", "with_replacement"}
SAMPLED_OUT = {"fixed_size_gaussian"}  # a row takes the place of another one, also for zero-out
ONCE = {"with_replacement"}  # known by its curve alone
RESUMED = {  # not skipped
    "prefix_sum",
    "shuffled_sequence",
    "objective_perturbation",
    "repeated_selection",
}


def test_every_kind_has_an_example():
    assert set(EXAMPLES) == set(RELEASE_KINDS)
    assert all(type(release) is RELEASE_KINDS[kind] for kind, release in EXAMPLES.items())


@every
def test_json_brings_the_record_back(kind):
    for release in (EXAMPLES[kind], dataclasses.replace(EXAMPLES[kind], count=5)):
        back = Release.from_json(json.loads(json.dumps(release.to_json(), allow_nan=False)))
        assert back == release
        assert type(back) is type(release)
        assert hash(back) == hash(release)


@every
def test_json_of_other_fields_is_refused(kind):
    record = EXAMPLES[kind].to_json()
    for name in record:
        with pytest.raises(ParameterError):
            Release.from_json({key: value for key, value in record.items() if key != name})
    with pytest.raises(ParameterError, match=kind):
        Release.from_json({**record, "more": 1})


@every
def test_a_sentence_names_kind_rows_and_count(kind):
    release = dataclasses.replace(EXAMPLES[kind], count=3)
    sentence = release.sentence()
    assert sentence.startswith(f"3 x {kind} on rows 40..139: ")
    assert sentence.isprintable()
    assert not re.search(r"[<>{}]|None|Release\(|\b0x", sentence)
    noise = getattr(release, "sigma", getattr(release, "scale", None))
    assert noise is None or f"{noise:g}" in sentence
    assert sentence != EXAMPLES[kind].sentence()


@every
def test_a_summary_is_a_phrase_of_its_own(kind):
    summary = RELEASE_KINDS[kind].summary
    assert summary[:1].isupper()
    assert not summary.endswith(".")
    assert sum(other.summary == summary for other in RELEASE_KINDS.values()) == 1


@every
def test_a_kind_is_in_the_documentation(kind):
    page = Path(__file__).parents[3] / "docs" / "mechanisms.md"
    assert f"`{kind}`" in page.read_text(encoding="utf-8")


@every
def test_a_count_is_repetition(kind):
    release = EXAMPLES[kind]
    counted = dataclasses.replace(release, count=3)
    assert flatten([release] * 3) == (counted,)
    whole, single = (cost(each, adjacency="zero_out") for each in (counted, release))
    if kind in ONCE:
        with pytest.raises(AssumptionError, match="once"):
            whole.epsilon(1e-6)
        return
    assert whole.epsilon(1e-6) == cost([release] * 3, adjacency="zero_out").epsilon(1e-6)
    assert whole.epsilon(1e-6) > single.epsilon(1e-6)
    for name, power in (("mu", 0.5), ("rho", 1.0), ("pure_epsilon", 1.0)):
        one, three = getattr(single, name), getattr(whole, name)
        assert (one is None) == (three is None)
        assert one is None or one == three == math.inf or math.isclose(three, 3**power * one)


@every
def test_add_remove_is_paid_for_or_refused(kind):
    release = EXAMPLES[kind]
    if kind in COUNTED_ROWS_PRIVATE:
        assert cost(release, adjacency="add_remove").epsilon(1e-6) > 0
    else:
        with pytest.raises(AssumptionError, match="public number of rows"):
            cost(release, adjacency="add_remove")


def scaled_cost(kind, noise, adjacency):
    """Return what a kind costs with ``noise`` times the noise of its example."""
    release = EXAMPLES[kind]
    field = "scale" if hasattr(release, "scale") else "sigma"
    scaled = dataclasses.replace(release, **{field: noise * getattr(release, field)})
    return cost(scaled, adjacency=adjacency)


@every
def test_a_replaced_row_is_two_removed_ones(kind):
    """Twice the noise hides a row that is replaced as well as one that is emptied."""
    release = EXAMPLES[kind]
    if kind in ONE_ADJACENCY:
        with pytest.raises(AssumptionError, match="zero_out neighbours"):
            cost(release, adjacency="replace_one")
    elif kind in SAMPLED_OUT | MOVED_ALIKE:
        replaced, emptied = (cost(release, adjacency=a) for a in ("replace_one", "zero_out"))
        assert replaced.epsilon(1e-6) == emptied.epsilon(1e-6)
    elif kind in {"gaussian", "generalized_gaussian", "selection", "prefix_sum"}:
        replaced, emptied = (
            scaled_cost(kind, 2.0, "replace_one"),
            scaled_cost(kind, 1.0, "zero_out"),
        )
        assert math.isclose(replaced.epsilon(1e-6), emptied.epsilon(1e-6), rel_tol=1e-9)
    else:  # more than one thing changes with the neighbours
        replaced, emptied = (cost(release, adjacency=a) for a in ("replace_one", "zero_out"))
        assert replaced.epsilon(1e-6) > emptied.epsilon(1e-6)


@every
def test_the_place_of_the_rows_costs_nothing(kind):
    release = EXAMPLES[kind]
    moved = release.at_first_row()
    assert moved.row_count == release.row_count
    one, other = (each.privacy_loss(Adjacency.ZERO_OUT) for each in (release, moved))
    assert (one.mu, one.rho, one.pure) == (other.mu, other.rho, other.pure)
    for loss in (one, other):
        assert loss.alone is not None or loss.pld is not None


@every
def test_a_derived_class_is_unknown(kind):
    """Whoever changes a record's meaning in a subclass has no accountant, and no file."""
    fields = {item.name for item in dataclasses.fields(EXAMPLES[kind])}
    derived = dataclasses.make_dataclass("Derived", [], bases=(RELEASE_KINDS[kind],), frozen=True)(
        **{name: getattr(EXAMPLES[kind], name) for name in fields}
    )
    with pytest.raises(AssumptionError, match="no accountant knows Derived"):
        cost(derived, adjacency="zero_out")
    assert type(Release.from_json(derived.to_json())) is RELEASE_KINDS[kind]
    with pytest.raises(TypeError, match="a kind of its own"):
        register(type(derived))
    assert RELEASE_KINDS[kind] is type(EXAMPLES[kind])


def test_a_class_without_a_kind_is_not_registered():
    known = dict(RELEASE_KINDS)
    with pytest.raises(TypeError, match="a kind of its own"):
        register(Release)
    with pytest.raises(AssumptionError, match="no accountant knows Release"):
        cost(Release(rows=ROWS))
    assert known == RELEASE_KINDS


@every
def test_what_leaves_lies_on_the_lattice_that_is_checked_beforehand(kind):
    release, size = EXAMPLES[kind], 5
    lattices = release.lattices(size)
    assert all(math.frexp(step)[0] == 0.5 for _, step in lattices)
    if not hasattr(release, "draw_noisy") or not lattices:
        return
    exact = np.random.default_rng(3).normal(size=(2, size) if kind == "shuffled" else size)
    steps = (lattices[-1][1],) if kind == "prefix_sum" else ()
    noisy = release.draw_noisy(Randomness.seeded(4).child("test"), exact, *steps)
    assert noisy.shape == exact.shape
    scaled = noisy / lattices[-1][1]
    assert np.array_equal(scaled, np.rint(scaled))
    sigma = lattices[-1][0]
    assert 0.05 * sigma < np.abs(noisy - exact).max() < 6 * sigma + 2 * np.abs(exact).max()


@every
def test_too_much_noise_is_refused_beforehand(kind):
    release = EXAMPLES[kind]
    if not release.lattices(1):
        return
    huge = dataclasses.replace(release, sigma=1e30)
    with pytest.raises(ParameterError, match=r"2\*\*48"):
        check_lattice([huge], 1)
    check_lattice([release], 1)


@every
def test_caveats_say_where_a_law_is_not_exact(kind):
    release = EXAMPLES[kind]
    for adjacency in Adjacency:
        notes = release.caveats(adjacency)
        assert len(set(notes)) == len(notes)
        assert release.exact_law != any("float64" in note for note in notes)
    assert release.exact_law == (kind not in {"generalized_gaussian", "stable_gamma"})


@pytest.mark.thorough
@every
def test_a_kind_of_one_stream_can_be_skipped(kind):
    release = EXAMPLES[kind]
    ledger = Ledger(release, ApproxDP(1e9, 1e-6, adjacency="zero_out"))
    if kind in RESUMED:
        with pytest.raises(ParameterError, match=f"{kind} release cannot be skipped"):
            ledger.skip(release)
        with pytest.raises(DpscoError, match="not executed"):
            ledger.close()
    else:
        ledger.skip(release)
        assert ledger.close().releases == (release,)
