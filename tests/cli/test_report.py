"""The report and the card on the command line: what was stated, measured and paid."""

import json

import pytest

from dpsco.models import SavedModel

pytest.importorskip("jinja2")
EVIL = "<script>alert(1)</script>"
FACTS = {"purpose": "from the file", "date": "2026-11-19", "intended_use": "plan beds & wards"}


@pytest.fixture
def facts(tmp_path):
    path = tmp_path / "facts.json"
    path.write_text(json.dumps(FACTS))
    return path


def test_a_fit_states_what_it_is_for(home, make, tmp_path, facts, dpsco):
    odometer, model, report = (tmp_path / name for name in ("o", "m.json", "r.html"))
    assert dpsco("odometer", "create", odometer, "--epsilon", 9, "--delta", 1e-5)[0] == 0
    stated = ["--purpose", EVIL, "--owner", "the clinic", "--provenance", facts]
    more = ["--odometer", odometer, "--report", report, "--solver", "noisy_gd"]
    assert make.fit(home, model, *stated, *more) == 0
    known = SavedModel.load(model).provenance.to_json()
    place = known.pop("odometer")
    assert place.startswith("entry 1 of 1 in o; spent in all: epsilon ")
    assert known == {**FACTS, "purpose": EVIL, "owner": "the clinic"}  # a flag before the file
    text = report.read_text()
    for words in ("the clinic", "plan beds &amp; wards", "entry 1 of 1 in o", "2026-11-19"):
        assert words in text
    assert EVIL not in text


def test_a_bad_provenance_is_refused_before_anything_is_paid(home, tmp_path, refused):
    table, schema = home / "people.csv", home / "schema.json"
    command = ["fit", table, "--schema", schema, "--epsilon", 1, "-o", tmp_path / "m.json"]
    (tmp_path / "facts.json").write_text('{"who": "me"}')
    assert "provenance" in refused(*command, "--provenance", tmp_path / "facts.json")
    assert "--owner must be text" in refused(*command, "--owner", " ")


def test_a_report_measures_public_rows(home, model, tmp_path, dpsco):
    report = tmp_path / "r.html"
    assert dpsco("report", model, "-o", report, "--test-public", home / "fresh.csv")[0] == 0
    text = report.read_text()
    for words in ("300 public rows", "uncertain by", "chart-calibration", "Rows: true class"):
        assert words in text


def test_residuals_of_numbers(home, regression, tmp_path, dpsco):
    report = tmp_path / "r.html"
    assert dpsco("report", regression, "-o", report, "--test-public", home / "costs.csv")[0] == 0
    assert "chart-residuals" in report.read_text()


@pytest.mark.parametrize(("paid", "words"), [(True, "carry noise"), (False, "nothing protects")])
def test_a_report_takes_what_was_evaluated(home, model, tmp_path, dpsco, paid, words):
    spend = ["--epsilon", 1] if paid else []
    out = dpsco("evaluate", model, home / "fresh.csv", "--json", *spend)[1]
    (tmp_path / "e.json").write_text(out)
    report = tmp_path / "r.html"
    assert dpsco("report", model, "-o", report, "--evaluation", tmp_path / "e.json")[0] == 0
    text = report.read_text()
    assert "300 private rows" in text
    assert words in text
    assert ("two standard deviations of the noise" in text) == paid
    assert ('<p class="warning" role="note">These rows are private' in text) == (not paid)


def test_a_card_is_markdown_with_the_same_facts(home, model, tmp_path, facts, dpsco):
    card = tmp_path / "README.md"
    more = ["--format", "card", "--provenance", facts, "--test-public", home / "fresh.csv"]
    assert dpsco("report", model, "-o", card, *more, "--title", "Beds")[0] == 0
    text = card.read_text()
    assert "\n# Beds\n" in text
    assert "plan beds" in text
    assert "| accuracy |" in text
    assert "<" not in text.replace(r"\<", "")


def test_wrong_evaluations_are_refused(home, model, certificate, tmp_path, refused):
    (tmp_path / "e.json").write_text('{"private": true}')
    report = ["report", model, "-o", tmp_path / "r.html"]
    assert "evaluate --json" in refused(*report, "--evaluation", tmp_path / "e.json")
    public = ["report", certificate, "-o", tmp_path / "r.html", "--test-public", home / "fresh.csv"]
    assert "needs a model file with a schema" in refused(*public)


def test_the_place_in_an_odometer_is_stated(certificate, tmp_path, dpsco):
    assert dpsco("odometer", "create", tmp_path / "o", "--epsilon", 9, "--delta", 1e-5)[0] == 0
    report = tmp_path / "r.html"
    assert dpsco("report", certificate, "-o", report, "--odometer", tmp_path / "o")[0] == 0
    assert "none of the 0 entries in o" in report.read_text()
