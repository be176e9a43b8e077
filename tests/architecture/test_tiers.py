"""The quick tier leaves evidence out, never a solver or a room."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = sorted(path.parent.name for path in (ROOT / "src" / "dpsco").glob("*/__init__.py"))
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
MARKED = re.compile(r"mark\.(slow|thorough)")


def quick_expression():
    """Return the selection of ``make quick``."""
    return re.search(r"^quick:.*\n.* -m '([^']+)'", MAKEFILE, re.MULTILINE).group(1)


def quick_tests(text):
    """Return the functions of a test file that carry no mark which leaves them out."""
    tree = ast.parse(text)
    if re.search(r"^pytestmark\b.*mark\.(slow|thorough)", text, re.MULTILINE):
        return []
    return [
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and node.name.startswith("test_")
        and not any(MARKED.search(ast.unparse(each)) for each in node.decorator_list)
    ]


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_is_in_the_quick_tier(room):
    files = [*(ROOT / "tests" / room).rglob("test_*.py"), *(ROOT / "tests").glob(f"test_{room}*")]
    assert any(quick_tests(path.read_text(encoding="utf-8")) for path in files)


def test_every_solver_is_in_the_quick_tier():
    """Its contracts on one problem, and its golden results."""
    from dpsco.solvers import registry

    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", quick_expression()]
    command += ["-p", "no:cacheprovider", "tests/contracts/test_contract.py", "tests/golden"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for key in registry():
        assert f"test_replay_wherever_the_neighbours_differ[{key}-" in listed, key
        assert f"test_ledger_equals_plan[{key}-" in listed, key
        assert f"test_a_solver_returns_what_it_did[{key}]" in listed, key


def test_marks_are_seen():
    text = "def test_a(): pass\n@pytest.mark.slow\ndef test_b(): pass\n"
    assert quick_tests(text) == ["test_a"]
    assert quick_tests(f"pytestmark = pytest.mark.thorough\n{text}") == []
    assert quick_expression() == "not slow and not thorough"
