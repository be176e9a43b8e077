"""Model cards: the facts of the report as Markdown, everything from a file as text."""

import dataclasses
import re

import numpy as np
import pytest

from dpsco import report
from dpsco.data import Category, ClassLabel, Number, Schema
from dpsco.models import LinearModel, Provenance, SavedModel
from dpsco.models.diagnostics import Bin, Diagnostics

from .conftest import CREATED, UTILITY, solved

EVIL = "<script>x</script> | a `b` [c](http://d) www.e.f\n# g \u202e\x00"
FACTS = Provenance(**{each.name: f"the {each.name}" for each in dataclasses.fields(Provenance)})


def card(**changes):
    found = solved("noisy_gd")
    facts = {"plan": found.plan, "utility": UTILITY, "created": CREATED, "provenance": FACTS}
    return report.card(found.certificate, **{**facts, **changes})


def test_a_card_has_the_facts_of_the_report():
    text = card()
    assert text.startswith("---\nlibrary_name: dpsco\n")
    titles = [line[3:] for line in text.splitlines() if line.startswith("## ")]
    assert titles == [
        *("Uses", "Privacy", "The model", "Evaluation", "Data, as declared"),
        *("Enforced by the program", "Taken on trust", "What is not covered", "Provenance"),
    ]
    for name, value in FACTS.to_json().items():
        assert value.replace("_", r"\_") in text, name
    certificate = solved("noisy_gd").certificate
    assert certificate.to_json()["digest"] in text
    assert all(note in text for note in certificate.enforced)
    assert "| accuracy | 0.8412 |" in text
    assert "| Best attack is right | at most" in text
    assert text.count("Expected excess risk") == 1
    assert text.count("Privacy is expected to cost ") == 1


def test_a_certificate_is_enough():
    text = report.card(solved("noisy_gd").certificate)
    assert "Not evaluated." in text
    assert "| Purpose | not stated |" in text
    assert "## The model" not in text


def test_hostile_text_stays_text():
    model = LinearModel("logistic", np.zeros((1, 2)), np.zeros(1), classes=(EVIL, "b"))
    columns = Category(EVIL, (EVIL,), source=EVIL), Number("n" + EVIL, 0, 1)
    label = ClassLabel("l" + EVIL, (EVIL, "b"), source=EVIL)
    certificate = dataclasses.replace(
        solved("noisy_gd").certificate, enforced=(EVIL,), trusted=(EVIL,), versions={EVIL: EVIL}
    )
    saved = SavedModel(model, certificate, schema=Schema(columns, label))
    evil = Provenance(**dict.fromkeys(FACTS.to_json(), EVIL))
    utility = report.Utility({EVIL: 0.5}, on=EVIL, baselines={EVIL: {EVIL: 0.4}})
    text = card(plan=None, model=saved, utility=utility, title=EVIL, provenance=evil)
    assert text.count(r"\<script\>") > 20
    for letters in ("<script", "\u202e", "\x00", "](", "www.e", "http://", "`b`"):
        assert not re.search(rf"(?<!\\){re.escape(letters)}", text), letters
    titles = [line for line in text.splitlines() if line.startswith("#")]
    assert len(titles) == 10  # the heading and the sections, none of them from the text
    widths = [line.replace(r"\|", "").count("|") for line in text.splitlines() if line[:1] == "|"]
    assert all(width >= 3 for width in widths)


def test_diagnostics_are_in_it():
    diagnostics = Diagnostics({"accuracy": 0.02}, ((40, 10), (5, 45)), (Bin(9, 0.1, 0.2, 0, 1),))
    utility = dataclasses.replace(UTILITY, errors=diagnostics.spread, diagnostics=diagnostics)
    text = card(utility=utility)
    assert "| 1 | 40 (80%) | 10 (20%) | 50 |" in text
    assert "| accuracy | 0.8412 | ± 0.02 |" in text


@pytest.mark.parametrize("letter", list("\\`*_{}[]#|<>~$&@"))
def test_marks_are_escaped(letter):
    from dpsco.report.card import _text

    assert _text(f"a{letter}b") == f"a\\{letter}b"
