"""The command line as a user meets it: one line for an error, exit codes, a fast start."""

import io
import os
import re
import subprocess
import sys

import pytest

from dpsco import cli
from dpsco.cli import entry, terminal


@pytest.mark.parametrize("module", ["dpsco", "dpsco.cli"])
def test_module_entry_point(module):
    shown = subprocess.run(
        [sys.executable, "-m", module, "--version"], capture_output=True, text=True, check=True
    )
    assert shown.stdout.startswith("dpsco ")


def run_into(file, *arguments):
    """Run the command with its output, buffered as it is for users, going to a file."""
    buffered = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    return subprocess.run(
        [sys.executable, "-m", "dpsco", *map(str, arguments)],
        stdout=file, stderr=subprocess.PIPE, text=True, check=False, env=buffered,
    )  # fmt: skip


@pytest.mark.thorough
def test_a_reader_that_goes_away_is_no_error(certificate):
    reader, writer = os.pipe()
    os.close(reader)
    try:
        for arguments in (["verify", "--single", certificate], ["--help"]):
            done = run_into(writer, *arguments)
            assert (done.returncode, done.stderr) == (141, "")
    finally:
        os.close(writer)


@pytest.mark.thorough
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_told(certificate):
    with open("/dev/full", "w") as full:
        done = run_into(full, "verify", "--single", certificate)
    assert done.returncode == 2
    assert done.stderr == "dpsco verify: cannot write the output: No space left on device.\n"


def test_help_is_fast_and_loads_nothing_heavy():
    program = """
import sys, time
started = time.process_time()
from dpsco import cli
code = cli.main(["--help"])
heavy = {"numpy", "scipy", "sklearn", "pyarrow", "jinja2", "numba", "dp_accounting", "pandas"}
print(code, sorted(heavy & set(sys.modules)), time.process_time() - started < 0.25)
"""
    shown = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert shown.stdout.splitlines()[-1] == "0 [] True"


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["fit"],
        ["plan", "--n", "many"],
        ["plan", "--n", "99", "--schema", "s.json", "--epsilon", "1", "--adj", "zero_out"],
        ["schema"],
    ],
    ids=["unknown", "missing", "type", "abbreviated", "action"],
)
def test_wrong_arguments_are_one_line(arguments, capsys):
    assert cli.main(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("dpsco")
    assert shown.err.count("\n") == 1
    assert "--help`" in shown.err


def test_bare_dpsco_shows_the_help(capsys):
    assert cli.main([]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("usage: dpsco")
    assert shown.err == ""


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["fitt"], "'fit'"),
        (["schema", "drat"], "'draft'"),
        (["plan", "--epsilom", "1"], "'--epsilon'"),
        (["verify", "m.json", "--jsn"], "'--json'"),
        (["plan", "--n", "9", "--epsilon", "1", "--adjacency", "zero-out"], "'zero_out'"),
        (["solvers", "noisy_dg"], "'noisy_gd'"),
        (["plan", "--n", "9", "--d", "2", "--epsilon", "1", "--model", "hubr"], "'huber'"),
    ],
)
def test_what_was_probably_meant(arguments, meant, capsys):
    assert cli.main(arguments) == 2
    assert f"Did you mean {meant}?" in capsys.readouterr().err


def test_colours_are_for_terminals_alone(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert terminal.paint("no", "bad", Terminal()) == "\x1b[1;31mno\x1b[0m"
    assert terminal.paint("no", "bad", io.StringIO()) == "no"
    monkeypatch.setenv("NO_COLOR", "1")
    assert terminal.paint("no", "bad", Terminal()) == "no"
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert terminal.paint("no", "bad", Terminal()) == "no"


@pytest.mark.parametrize("rich", [True, False], ids=["Rich", "plain"])
def test_tables_have_the_same_cells_with_and_without_rich(rich, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    if rich:
        pytest.importorskip("rich")
    else:
        monkeypatch.setitem(sys.modules, "rich.console", None)
    monkeypatch.setattr(sys, "stdout", shown := Terminal())
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.delenv("NO_COLOR", raising=False)
    terminal.table(("key", "says"), [("a[b]", "some words " * 8)])
    text = re.sub(r"\x1b\[[0-9;]*m", "", shown.getvalue())
    assert text.split() == ["key", "says", "a[b]", *(["some", "words"] * 8)]
    assert max(map(len, text.splitlines())) <= 60


def broken(message):
    def run(*_):
        raise message

    return run


def test_an_unforeseen_error_shows_no_value(monkeypatch, capsys):
    from dpsco.solvers import listing

    monkeypatch.setattr(listing, "table", broken(RuntimeError("the row 31337")))
    monkeypatch.delenv("DPSCO_DEBUG", raising=False)
    assert cli.main(["solvers", "--long"]) == 70
    shown = capsys.readouterr()
    assert "31337" not in shown.err + shown.out
    assert shown.err.startswith("dpsco solvers: an error of dpsco's own (RuntimeError)")
    monkeypatch.setenv("DPSCO_DEBUG", "1")
    with pytest.raises(RuntimeError, match="31337"):
        cli.main(["solvers", "--long"])


def test_an_interrupt_is_no_traceback(monkeypatch, capsys):
    from dpsco.solvers import listing

    monkeypatch.setattr(listing, "table", broken(KeyboardInterrupt()))
    assert cli.main(["solvers", "--long"]) == 130
    assert capsys.readouterr().err == "dpsco solvers: interrupted. Nothing was written.\n"


def test_messages_are_one_line(capsys):
    assert entry._refuse("dpsco", "two\nlines", 2) == 2
    assert capsys.readouterr().err == "dpsco: two lines\n"
