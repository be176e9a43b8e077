"""The command line as a user meets it: output, files, exit codes."""

import json
import subprocess
import sys

import pytest

from dpsco import cli, demo
from dpsco.errors import MissingExtraError
from dpsco.privacy import pld


@pytest.fixture(scope="module")
def outcome():
    return demo.run()


@pytest.fixture
def certificate(outcome, tmp_path):
    return outcome.save(tmp_path)[1]


def test_demo_learns_within_its_budget(outcome):
    trivial, private, plain = outcome.accuracy.values()
    assert trivial < 0.55
    assert private > 0.85
    assert plain - private < 0.02
    assert outcome.certificate.epsilon(1 / demo.ROWS**2) <= 1.0
    assert outcome.certificate.budget.epsilon == 1.0
    assert not outcome.certificate.reproducible


def test_demo_on_the_grid_learns_too():
    outcome = demo.run(numeric="grid")
    assert outcome.certificate.numeric == "grid"
    assert outcome.accuracy["private, epsilon 1"] > 0.85


def test_tiny_budget_costs_accuracy(outcome):
    # The noise is real: at epsilon 0.001 little can be learnt from 20,000 rows.
    assert demo.run(epsilon=0.001).accuracy["private, epsilon 0.001"] < 0.8


def test_demo_command_writes_what_it_says(tmp_path, capsys):
    assert cli.main(["demo", "--output", str(tmp_path), "--single"]) == 0
    shown = capsys.readouterr().out
    assert "private, epsilon 1" in shown
    assert "VALID" in shown
    assert str(tmp_path / "certificate.json") in shown
    assert len((tmp_path / "weights.csv").read_text().split()) == demo.FEATURES


def test_verify_accepts_an_honest_certificate(certificate, capsys):
    pytest.importorskip("dp_accounting")
    assert cli.main(["verify", str(certificate)]) == 0
    shown = capsys.readouterr().out
    assert "VALID" in shown
    assert "PLD gives epsilon" in shown


def test_verify_json(certificate, capsys):
    assert cli.main(["verify", "--json", "--single", str(certificate)]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["valid"] is True
    assert result["epsilon"] <= 1.0
    assert result["second_accountant"] == "skipped"


def test_verify_rejects_an_edited_certificate(certificate, capsys):
    record = json.loads(certificate.read_text())
    record["claims"]["epsilon"] = 0.1
    certificate.write_text(json.dumps(record))
    assert cli.main(["verify", str(certificate)]) == 2
    assert "changed after it was written" in capsys.readouterr().err


def test_verify_rejects_a_forged_claim(certificate, capsys):
    from dpsco.privacy.certificate import _digest

    record = json.loads(certificate.read_text())
    record["claims"]["epsilon"] = 0.1
    del record["digest"]
    certificate.write_text(json.dumps({**record, "digest": _digest(record)}))
    assert cli.main(["verify", "--single", str(certificate)]) == 1
    assert "NOT VALID" in capsys.readouterr().out


@pytest.mark.parametrize("content", [None, "", "{}", "[1, 2]", '{"schema": "other"}', "\x00\x01"])
def test_verify_refuses_unreadable_files(tmp_path, capsys, content):
    path = tmp_path / "file.json"
    if content is not None:
        path.write_text(content)
    assert cli.main(["verify", str(path)]) == 2
    assert capsys.readouterr().err.startswith("dpsco verify: ")


def test_verify_without_dp_accounting_says_what_to_install(certificate, capsys, monkeypatch):
    def absent():
        raise MissingExtraError("Install it with: pip install 'dpsco[accounting]'")

    monkeypatch.setattr(pld, "_library", absent)
    assert cli.main(["verify", str(certificate)]) == 2
    assert "pip install 'dpsco[accounting]'" in capsys.readouterr().err


def test_bad_epsilon_is_a_clear_refusal(tmp_path, capsys):
    assert cli.main(["demo", "--epsilon", "-1", "--output", str(tmp_path / "no")]) == 2
    assert "epsilon must be positive" in capsys.readouterr().err
    assert not (tmp_path / "no").exists()


def test_module_entry_point():
    shown = subprocess.run(
        [sys.executable, "-m", "dpsco.cli", "--version"], capture_output=True, text=True, check=True
    )
    assert shown.stdout.startswith("dpsco ")
