"""Every command has a page of help, with examples that the parser accepts."""

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest

from dpsco import cli


def pages(parser, path=()):
    """Yield every command with its parser."""
    yield " ".join(path), parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                yield from pages(inner, (*path, name))


PAGES = dict(pages(cli.parser()))
WANTED = {
    "", "demo", "schema", "schema draft", "schema check", "plan", "recommend", "rounds", "solvers",
    "fit", "predict", "evaluate", "verify", "report", "completion", "odometer", "shuffle", "ui",
    "odometer create", "odometer show",
    "federated", "federated serve", "federated join", "federated token", "federated roster",
}  # fmt: skip


def test_all_commands_are_there():
    assert set(PAGES) == WANTED


@pytest.mark.parametrize("name", sorted(WANTED), ids=lambda name: name or "dpsco")
def test_help(name, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "90")
    assert cli.main([*name.split(), "--help"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"usage: dpsco {name}".rstrip())
    if name != "schema":  # its actions have their own
        assert "examples:" in shown
    assert max(map(len, shown.splitlines())) <= 110


def test_examples_are_accepted(capsys):
    lines = []
    for page in PAGES.values():
        text = (page.epilog or "").replace("\\\n", " ")
        lines += [line for line in text.splitlines() if re.match(r"\s*dpsco [a-z]", line)]
    assert len(lines) > 25
    for line in lines:
        _, *words = shlex.split(line, comments=True)
        options = cli.parser().parse_args(words)
        assert callable(options.run), line


def test_every_command_runs_a_function():
    for name, page in PAGES.items():
        groups = any(isinstance(a, argparse._SubParsersAction) for a in page._actions)
        assert groups == (page.get_default("run") is None), name


def test_every_argument_has_help():
    for name, page in PAGES.items():
        for action in page._actions:
            required = action.option_strings and not action.required
            assert action.help or not required, (name, action)
            assert action.help != argparse.SUPPRESS


def test_settings_and_options_are_numbers_or_text():
    page = PAGES["plan"]
    words = ["--n", "5", "--epsilon", "1"]
    given = ["--option", "rounds=5", "--option", "clip=0.5", "--option", "kind=word=two"]
    options = page.parse_args([*words, *given, "--setting", "power=2"])
    assert dict(options.option) == {"rounds": 5, "clip": 0.5, "kind": "word=two"}
    assert isinstance(options.option[0][1], int)
    assert dict(options.setting) == {"power": 2}


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_completion_knows_commands_flags_and_files(shell, capsys):
    pytest.importorskip("shtab")
    assert cli.main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for word in ("evaluate", "epsilon", "odometer"):
        assert word in script


def test_bash_completes_a_flag():
    pytest.importorskip("shtab")
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("needs bash")
    program = """
source /dev/stdin <<< "$SCRIPT"
COMP_WORDS=(dpsco verify --js); COMP_CWORD=2
_shtab_dpsco
echo "${COMPREPLY[@]}"
"""
    script = subprocess.run(
        [sys.executable, "-m", "dpsco", "completion", "bash"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    shown = subprocess.run(
        [bash, "-c", program], env={**os.environ, "SCRIPT": script}, capture_output=True, text=True
    )
    assert shown.stdout.split() == ["--json"], shown.stderr
