"""The registry: a family is found because its file is there, and nothing is listed by hand."""

import subprocess
import sys

import pytest

import dpsco as dp
from dpsco import solvers
from dpsco.errors import ParameterError
from dpsco.solvers import listing
from dpsco.solvers.base import MeasuredRange

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
    after = list(solvers.registry())
    assert [key for key in after if key != "newcomer"] == before
    assert solvers.get("newcomer").order <= solvers.get(after[-1]).order
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


def task(n, d, epsilon=1.0, loss=None):
    loss = loss or dp.losses.Logistic()
    problem = dp.Problem(loss=loss, bounds=dp.Bounds(1.0, label="sign"))
    return dp.Task(problem, n=n, d=d, budget=dp.ApproxDP(epsilon, 1e-6, adjacency="zero_out"))


def test_a_range_covers_its_ends_and_nothing_beyond():
    mu = 0.2367043807  # of epsilon 1, delta 1e-6, to ten digits
    measured = MeasuredRange((300, 1000), (5, 20), (0.2, 0.24), signal=3.0)
    assert measured.covers(task(300, 5))
    assert measured.covers(task(1000, 20))
    for n, d in ((299, 5), (1001, 5), (300, 4), (300, 21)):
        assert not measured.covers(task(n, d))
    assert not measured.covers(task(1000, 5, epsilon=0.8))
    assert not measured.covers(task(1000, 5, epsilon=1.1))
    narrow = MeasuredRange((1, 1000), (1, 100), (0.0, 1.0), signal=1000 * mu * (1 - 1e-6) / 10)
    assert narrow.covers(task(1000, 10))  # z = 1000 mu, of 10 weights
    assert not narrow.covers(task(1000, 11))
    assert not narrow.covers(task(999, 10))


def test_a_mean_lies_within_every_range():
    mean = dp.Problem(loss=dp.losses.SquaredDistance(), bounds=dp.Bounds(1.0))
    wide = dp.Task(mean, n=100, d=10**6, budget=dp.ApproxDP(1.0, 1e-6))
    assert [key for key, solver in solvers.registry().items() if solver.suits(wide)] == SUITABLE


SUITABLE = ["noisy_gd", "approx_objective_perturbation", "approx_objective_perturbation_sc"]


@pytest.mark.parametrize("epsilon", [0.03, 1.0, 16.0])
@pytest.mark.parametrize("n", [300, 10**4, 10**6])
@pytest.mark.parametrize("d", [1, 1000, 10**6])
def test_no_specialist_is_suitable_and_steps_always_are(n, d, epsilon):
    """Objective perturbation only with five rows above the noise for each weight."""
    made = task(n, d, epsilon)
    suitable = [key for key, solver in solvers.registry().items() if solver.suits(made)]
    clear = made.signal >= 5 * d and d <= 10**4
    assert suitable == (SUITABLE if clear else SUITABLE[:1])


def test_listings_say_where_a_solver_is_chosen():
    assert "300 to 1e+06 rows; 1 to 1e+06 weights" in listing.page("noisy_gd")
    assert "least 5 times the weights" in listing.page("approx_objective_perturbation")
    assert "where rows come once" in listing.page("acc_srgd")
    assert "by name only" in listing.page("bolt_on_sgd")
    records = {record["key"]: record["range"] for record in listing.records()}
    assert records["noisy_gd"]["rows"] == [300, 1e6]
    assert records["bolt_on_sgd"] is None
