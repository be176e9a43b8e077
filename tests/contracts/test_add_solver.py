"""The solver of docs/add_solver.md: its file is a family, and keeps every contract.

The file goes into a folder of its own, which another process adds to the package's path. So it is
found as every family is, and the tests here see nothing of it.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KEY = "plain_gd"
# Wherever a test is written for every solver of the registry, or for every one with a stepper.
TESTS = [
    "tests/contracts",
    "tests/solvers/test_engine.py",
    "tests/fit/checkpoint",
    "tests/models/test_row_counts.py",
]
PROGRAM = """
import sys
import pytest
from dpsco import solvers

solvers.__path__.append(sys.argv[1])
sys.exit(pytest.main(sys.argv[2:]))
"""


def page():
    """Return the file that the page shows: its first block of Python."""
    text = (ROOT / "docs" / "add_solver.md").read_text(encoding="utf-8")
    return re.search(r"^```python\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE).group(1)


def outcome(folder, code, chosen, *tests):
    """Return how many tests of the solver passed and failed, and what pytest said."""
    (folder / f"{KEY}.py").write_text(code, encoding="utf-8")
    arguments = [*tests, "-q", "-p", "no:cacheprovider", "--tb=short", "-k", chosen]
    shown = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder), *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    counts = dict.fromkeys(("passed", "failed", "error"), 0)
    for number, word in re.findall(r"(\d+) (passed|failed|error)", shown.stdout):
        counts[word] = int(number)
    return counts["passed"], counts["failed"] + counts["error"], shown.stdout + shown.stderr


@pytest.mark.slow
def test_the_page_is_a_solver_that_keeps_every_contract(tmp_path):
    # The page in docs/solvers is what the how-to page itself stands for.
    chosen = f"{KEY} and not test_entry_has_a_page"
    passed, failed, text = outcome(tmp_path, page(), chosen, *TESTS)
    assert failed == 0, text
    assert passed > 100, text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("right", "wrong", "chosen"),
    [
        ("answer / plan.n", "answer / (plan.n + np.random.default_rng().integers(9))", "seeded"),
        ("self.sigma, rows", "0.9 * self.sigma, rows", "is_covered"),
        ("self.plan.clip)", "2.0 * self.plan.clip)", "ledger_equals_plan"),
    ],
)
def test_a_page_with_a_bug_fails(tmp_path, right, wrong, chosen):
    assert right in page()
    _, failed, text = outcome(
        tmp_path, page().replace(right, wrong), f"{KEY} and {chosen}", "tests/contracts"
    )
    assert failed > 0, text
