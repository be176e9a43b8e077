"""Mutated files and messages of every kind: read, or refused in words, within time and memory.

The fast tier of ``make fuzz``: 1,500 cases with fixed seeds, about half a minute. The runner itself
is shown to notice raw errors, long quotes, slow and large cases.
"""

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))  # benchmarks are not installed

from benchmarks.fuzz import __main__ as runner
from benchmarks.fuzz import worker
from benchmarks.fuzz.mutations import LONG

from dpsco.errors import DataError

CASES = 1500


def busy(fault):
    """Whether a case took at most twice its time: tests share the cores, `make fuzz` does not."""
    time = re.fullmatch(r"takes ([0-9.]+) s", fault)
    return time is not None and float(time[1]) <= 2 * worker.SECONDS


@pytest.mark.thorough
def test_mutated_files_are_read_or_refused():
    found = runner.spread(CASES)
    assert len(found) >= CASES - len(runner.SHARES)
    faults = [outcome for outcome in found if outcome["fault"] and not busy(outcome["fault"])]
    assert not faults, runner.report(found)
    for kind in runner.SHARES:  # neither is everything refused, nor is nothing
        own = [outcome for outcome in found if outcome["kind"] == kind]
        assert 0.03 * len(own) < sum(not outcome["error"] for outcome in own) < 0.7 * len(own), kind


def raised(error):
    def todo():
        raise error

    return todo


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("todo", "fault"),
    [
        (raised(KeyError("x")), "raw KeyError"),
        (raised(RecursionError()), "raw RecursionError"),
        (raised(MemoryError()), "raw MemoryError"),
        (raised(DataError(f"got {LONG}")), "quotes"),
        (lambda: sum(range(2 * 10**8)), "takes"),
        (lambda: bytearray(b"x" * (600 * 2**20)), "takes"),
        (raised(DataError("short")), ""),
        (lambda: None, ""),
    ],
)
def test_the_runner_notices(todo, fault, monkeypatch):
    monkeypatch.setattr(worker, "SECONDS", 1.0)
    found = worker.judged(todo)["fault"]
    assert found.startswith(fault) if fault else found == ""
