"""The instances of the rate experiments have the excess that they claim; the runner judges."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpsco as dp

sys.path.insert(0, str(Path(__file__).parents[1]))  # benchmarks are not installed

from benchmarks import rounds_needed
from benchmarks.rates import __main__ as runner
from benchmarks.rates import few_round_instances, few_rounds, heavy_tails, instances
from benchmarks.rates.comparison import Comparison, Entrant, Found, grid
from benchmarks.rates.experiment import Experiment, Instance, slope

# -- known answers: the excess of zero weights ----------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "d", "known"),
    [
        ("absolute", 5, 0.2473),
        ("power", 5, 0.2278),
        ("huber", 5, 0.0657),
        ("absolute", 20, 0.0785),
        ("power", 20, 0.0648),
        ("huber", 20, 0.0202),
    ],
)
def test_e1_trivial(loss, d, known):
    assert instances.e1(loss, d).trivial == pytest.approx(known, abs=1e-4)


@pytest.mark.parametrize(
    ("d", "known"), [(5, 0.2295), (10, 0.1413), (20, 0.0849), (40, 0.0492), (80, 0.0273)]
)
def test_a_trivial(d, known):
    assert instances.a(d).trivial == pytest.approx(known, abs=6e-5)


def test_a_in_a_subspace_is_a_of_that_dimension():
    small, large = instances.a(5), instances.a(40, rank=5)
    assert large.trivial == pytest.approx(small.trivial, rel=1e-9)
    X, _ = large.draw(np.random.default_rng(0), 50)
    assert np.linalg.matrix_rank(X) == 5
    assert not large.problem.domain.bounded


def test_e2_on_its_axis_is_e2():
    """The minimum is found with one coordinate, the excess is computed with two."""
    instance = instances.e2(10)
    axis = [instance.excess(instances.unit(10, length)) for length in np.linspace(0, 5, 41)]
    assert min(axis) == pytest.approx(0.0, abs=2e-4)
    assert axis[0] == pytest.approx(instance.trivial, abs=1e-12)


def test_other_trivial_values():
    assert 1.0 - instances.e2(10).trivial == pytest.approx(0.432, abs=0.006)  # sampled: 6e4 rows
    assert instances.x2(20).trivial == pytest.approx(0.209, abs=5e-4)
    assert instances.u2(100).trivial == pytest.approx(0.1, rel=1e-12)
    assert few_round_instances.x4(20).trivial == pytest.approx(0.344, abs=1e-3)
    assert 4 * few_round_instances.x4_smoothness(20) == pytest.approx(0.222, abs=1e-3)
    assert few_round_instances.x6(20).trivial == pytest.approx(0.025, rel=1e-12)
    for instance in (instances.u1(10), instances.u1(10, "l2"), instances.logistic_sphere(10)):
        assert instance.trivial == instance.excess(np.zeros(10)) == pytest.approx(1.0, rel=1e-12)


# -- the excess is what a million fresh rows say ---------------------------------------------------

EVERY = {
    "e1 absolute": instances.e1("absolute", 5),
    "e1 power": instances.e1("power", 5),
    "e1 huber": instances.e1("huber", 5),
    "e2": instances.e2(6),
    "a": instances.a(5),
    "a rank": instances.a(9, rank=4),
    "u1": instances.u1(6),
    "u2": instances.u2(8),
    "logistic_sphere": instances.logistic_sphere(6),
    "x2": instances.x2(6),
    "x3": few_round_instances.x3(6, 0.3),
    "x4": few_round_instances.x4(6, radius=5.0),
    "x5": instances.x2(6, radius=2.0),
    "x6": few_round_instances.x6(6),
}
RELATIVE = {"u1", "logistic_sphere"}


def losses(instance, w, X, y):
    """Return each row's loss, by the library's own value."""
    loss = instance.problem.loss
    return loss.value(w, X) if y is None else loss.value(X @ w, y)


@pytest.mark.parametrize("name", EVERY)
def test_excess_agrees_with_fresh_rows(name):
    """Differences of risk between two points; five standard errors (false alarm 6e-7)."""
    instance = EVERY[name]
    rng = np.random.default_rng(3)
    X, y = instance.draw(rng, 200_000)
    w, v = rng.standard_normal((2, X.shape[1])) * 0.4
    gap = losses(instance, w, X, y) - losses(instance, v, X, y)
    claimed = instance.excess(w) - instance.excess(v)
    unit = 1.0
    if name in RELATIVE:  # the unit is the excess of zero weights; corners are sampled as well
        best = {"u1": instances.unit(6, 9.99)}.get(name, _dense(6))
        zero = np.zeros(6)
        unit = float(np.mean(losses(instance, zero, X, y) - losses(instance, best, X, y)))
    slack = 0.02 if name in RELATIVE else 0.0
    error = 5.0 * gap.std() / math.sqrt(len(gap))
    assert claimed * unit == pytest.approx(gap.mean(), abs=error + slack * unit)
    assert error < 0.01


def _dense(d):
    return np.where(np.arange(d) % 2 == 0, 1.0, -1.0) * 8.0 / math.sqrt(d)


@pytest.mark.thorough
@pytest.mark.parametrize("name", EVERY)
@given(seed=st.integers(0, 2**32 - 1), size=st.floats(0.0, 3.0))
@settings(max_examples=15, deadline=None)
def test_excess_is_never_negative(name, seed, size):
    instance = EVERY[name]
    d = instance.draw(np.random.default_rng(0), 1)[0].shape[1]
    direction = np.random.default_rng(seed).standard_normal(d)
    w = instance.problem.domain.project(size * direction / np.linalg.norm(direction))
    assert instance.excess(w) >= -1e-9


@pytest.mark.parametrize("name", EVERY)
def test_rows_are_drawn_within_the_bounds(name):
    instance = EVERY[name]
    X, y = instance.draw(np.random.default_rng(1), 500)
    bounds = instance.problem.bounds
    assert np.all(np.linalg.norm(X, axis=1) <= bounds.feature_norm * (1 + 1e-12))
    if isinstance(bounds.label, float):
        assert np.all(np.abs(y) <= bounds.label)


@pytest.mark.parametrize("name", ["ls_t6", "lasso_t6"])
def test_excess_of_heavy_tailed_rows_agrees_with_fresh_ones(name):
    """Differences of risk between two points; rows are never cut; six standard errors."""
    instance = {"ls_t6": heavy_tails.ls_t6(5, 4.0), "lasso_t6": heavy_tails.lasso_t6(8)}[name]
    rng = np.random.default_rng(3)
    X, y = instance.draw(rng, 300_000)
    w, v = rng.standard_normal((2, X.shape[1])) * 0.3
    gap = losses(instance, w, X, y) - losses(instance, v, X, y)
    penalty = instance.problem.penalty
    sampled = gap.mean() + penalty.value(w) - penalty.value(v)
    claimed = instance.excess(w) - instance.excess(v)
    assert claimed == pytest.approx(sampled, abs=6.0 * gap.std() / math.sqrt(len(gap)))
    assert np.linalg.norm(X, axis=1).max() < instance.problem.bounds.feature_norm
    assert instance.trivial == pytest.approx(instance.excess(np.zeros(X.shape[1])))


# -- the runner ------------------------------------------------------------------------------------


def experiment(**settings):
    given = {
        "name": "toy",
        "instance": instances.e1("huber", 5),
        "solver": "noisy_gd",
        "budget": dp.ApproxDP(1.0, 1e-6),
        "sizes": (1000, 2000, 4000),
        "repeats": 2,
        "options": {"rounds": 8},
        **settings,
    }
    return Experiment(**given)


def test_slope_of_a_power_law():
    assert slope({n: 3.0 * n**-0.75 for n in (100, 1000, 5000)}) == pytest.approx(-0.75)


def test_bands_are_judged():
    toy = experiment(slope=(-1.0, -0.5), excess={1000: (0.0, 0.1)})
    assert toy.problems({1000: 0.05, 2000: 0.03}) == []
    assert "excess 0.2 at n = 1000" in toy.problems({1000: 0.2, 2000: 0.12})[0]
    assert "slope -2.00" in toy.problems({1000: 0.05, 2000: 0.0125})[0]
    assert "slope" in toy.problems({1000: 0.05, 2000: 0.05})[0]


def test_a_single_run_above_its_limit_is_a_problem():
    toy = experiment(limit={1000: 0.1})
    assert toy.problems({1000: 0.05}, {1000: 0.1}) == []
    assert "a run at n = 1000 has excess 0.2" in toy.problems({1000: 0.05}, {1000: 0.2})[0]


def test_runner_prints_and_judges(capsys, monkeypatch):
    good = experiment(name="good", slope=(-3.0, -0.2), excess={4000: (0.0, 0.0657)})
    bad = experiment(name="bad", excess={1000: (0.0, 1e-9)}, sizes=(1000,))
    monkeypatch.setattr(runner, "experiments", lambda only: [good, bad])
    monkeypatch.setattr(runner, "comparisons", lambda only: [])
    assert runner.main([]) == 1
    shown = capsys.readouterr().out
    assert "as it should be" in shown
    assert "MISSED bad: excess" in shown
    assert "MISSED good" not in shown
    assert "2 experiments, 1 outside of their bands" in shown
    assert "zero weights have 0.06568" in shown
    assert runner.main(["--quick"]) == 0
    shown = capsys.readouterr().out
    assert "not judged" in shown
    assert "2 experiments, none judged" in shown
    assert "n    4,000" not in shown


def comparison(**bands):
    """Return more rounds beside fewer, with the band of the fewer."""
    few = tuple({"rounds": rounds} for rounds in (1, 2))
    entrants = (
        Entrant("many", "noisy_gd", ({"rounds": 16},)),
        Entrant("few", "noisy_gd", few, **bands),
    )
    huber = instances.e1("huber", 5)
    return Comparison("toy", huber, dp.ApproxDP(8.0, 1e-6), 2000, entrants, repeats=2)


def test_comparisons_take_each_entrants_best_setting():
    found = comparison().measure()
    assert found["few"].options == {"rounds": 2}
    assert found["few"].excess > found["many"].excess
    assert comparison(ratio=(1.0, math.inf)).problems(found) == []
    assert "few has" in comparison(ratio=(0.0, 1.0)).problems(found)[0]
    quick = comparison().measure(quick=True)
    assert quick["few"].options == {"rounds": 1}


def test_runner_prints_and_judges_comparisons(capsys, monkeypatch):
    monkeypatch.setattr(runner, "experiments", lambda only: [])
    monkeypatch.setattr(runner, "comparisons", lambda only: [comparison(ratio=(0.0, 1.0))])
    assert runner.main([]) == 1
    shown = capsys.readouterr().out
    assert "MISSED toy: few has" in shown
    assert "0 experiments and 1 comparisons, 1 outside of their bands" in shown
    assert runner.main(["--quick"]) == 0
    assert "not judged" in capsys.readouterr().out


def test_every_comparison_has_a_band_that_can_be_missed():
    keys, found = set(dp.solvers.registry()), list(runner.comparisons())
    assert found
    for item in found:
        assert {entrant.solver for entrant in item.entrants} <= keys
        assert all(entrant.ratio != (0.0, math.inf) for entrant in item.entrants[1:]), item.name
        even = {entrant.name: Found(1.0, 0.0, {}) for entrant in item.entrants}
        assert item.problems(even), item.name
    assert not list(runner.comparisons("no such"))


def test_grid_has_every_combination():
    assert grid(a=(1, 2), b=("x",)) == ({"a": 1, "b": "x"}, {"a": 2, "b": "x"})


def test_the_hard_family_is_as_hard_as_the_rate_at_every_n():
    hard = next(item for item in few_rounds.EXPERIMENTS if item.name.startswith("X3, d = 10"))
    for n in (1024, 65536):
        rate = few_rounds.alpha(n, 10, hard.budget)
        assert hard.at(n).trivial == pytest.approx(rate, rel=1e-12)
    assert few_rounds.alpha(10_000, 20, dp.ApproxDP(1.0, 1e-6)) == pytest.approx(0.013778668)


def test_rounds_needed_are_the_fewest_within_a_tenth_of_the_best():
    means = np.full(len(rounds_needed.ROUNDS), 2.0)
    means[4:] = 1.09
    means[-1] = 1.0
    assert rounds_needed.fewest(means) == rounds_needed.ROUNDS[4]


def test_runner_finds_the_families(capsys):
    assert {"experiment", "instances", "__main__"}.isdisjoint(runner.families())
    keys = set(dp.solvers.registry())
    assert {item.solver for item in runner.experiments()} <= keys
    assert runner.main(["--only", "no such solver"]) == 2
    assert "no such solver" in capsys.readouterr().err


def test_only_picks_a_solver_or_a_name(monkeypatch):
    class Family:
        EXPERIMENTS = (experiment(name="one"), experiment(name="two", solver="other"))

    monkeypatch.setattr(runner, "families", lambda: ["family"])
    monkeypatch.setattr(runner.importlib, "import_module", lambda name: Family)
    assert [item.name for item in runner.experiments("noisy_gd")] == ["one"]
    assert [item.name for item in runner.experiments("two")] == ["two"]
    assert len(list(runner.experiments())) == 2


def test_every_experiment_has_a_band_that_can_be_missed():
    for item in runner.experiments():
        assert isinstance(item.instance, Instance)
        measurable = set(item.excess) <= set(item.sizes)
        banded = bool(item.excess) or any(map(math.isfinite, item.slope))
        assert measurable, item.name
        assert banded, item.name
