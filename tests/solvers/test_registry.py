"""The registry: a family is found because its file is there, and nothing is listed by hand."""

import subprocess
import sys

import pytest

from dpsco import solvers
from dpsco.errors import ParameterError

FAMILY = """
from dataclasses import replace
from dpsco.solvers.noisy_gd import SOLVERS as OTHERS
SOLVERS = (replace(OTHERS[0], key={key!r}, order=1),)
"""


@pytest.fixture
def add(tmp_path, monkeypatch):
    """A function that puts a family into the package, for one test."""

    def write(name, key):
        (tmp_path / f"{name}.py").write_text(FAMILY.format(key=key))
        solvers.families.cache_clear()
        solvers.registry.cache_clear()

    monkeypatch.setattr(solvers, "__path__", [*solvers.__path__, str(tmp_path)])
    yield write
    for name in [name for name in sys.modules if name.startswith("dpsco.solvers.zz_")]:
        del sys.modules[name]
        delattr(solvers, name.rpartition(".")[2])
    solvers.families.cache_clear()
    solvers.registry.cache_clear()


def test_a_file_in_the_folder_is_a_family(add):
    before = list(solvers.registry())
    add("zz_family", "newcomer")
    assert list(solvers.registry()) == [*before, "newcomer"]  # by name, and this one is the last
    assert solvers.get("newcomer").key == "newcomer"
    assert solvers.family("newcomer").__name__ == "dpsco.solvers.zz_family"


def test_two_solvers_with_one_key_are_an_error(add):
    add("zz_again", "phased_erm")
    with pytest.raises(RuntimeError, match="two solvers have the key 'phased_erm'"):
        solvers.registry()


def test_the_order_is_declared_then_by_name():
    keys = list(solvers.registry())
    assert keys[0] == "noisy_gd"
    names = [solvers.family(key).__name__ for key in keys[1:]]
    assert names == sorted(names)


def test_an_unknown_key_is_refused_with_all_that_are_known():
    with pytest.raises(ParameterError, match=r"'auto' or one of acc_independent, .*'nonsense'"):
        solvers.get("nonsense")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("imported", "most"),
    [("dpsco", set()), ("dpsco.solvers", set()), ("dpsco.solvers.phased_erm", {"phased_erm"})],
)
def test_importing_is_cheap(imported, most):
    """Neither the package nor a family imports the other families."""
    families = {module.__name__.rpartition(".")[2] for module in solvers.families()}
    program = f"import sys, {imported}; print(*sys.modules)"
    shown = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    assert families & {name.removeprefix("dpsco.solvers.") for name in shown.split()} == most
