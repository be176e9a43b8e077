"""Private bounds: planned before data, one certificate for all of it, right about the scale."""

import dataclasses
import json
import math

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

import dpsco as dp
from dpsco.audit.replay import Recording, RecordingLedger, compare, noise
from dpsco.data import Scaled, from_arrays
from dpsco.data.histograms import LabelHistogram, NormHistogram
from dpsco.errors import AssumptionError, BudgetError, DataError, LedgerError, ParameterError
from dpsco.fit import run as api
from dpsco.models import private_bounds
from dpsco.models.private_bounds import (
    STANDS_OUT,
    JointPlan,
    Scales,
    choose,
    estimate,
    execute,
    fit_with_private_bounds,
    fitting,
    label_ends,
    plan_bounds,
    plan_with_bounds,
    row_unit,
    run_with_bounds,
)

N, D = 5000, 4
BUDGET = dp.ApproxDP(1.0, 1.0 / N**2)
SIGNS = dp.Problem(loss=dp.losses.Logistic(), bounds=dp.Bounds(1.0, label="sign", intercept=0.5))
NUMBERS = dp.Problem(
    loss=dp.losses.Huber(0.1), bounds=dp.Bounds(1.0, label=Scaled(-1, 1), intercept=0.5)
)


def rows(n=N, *, scale=1.0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, D))
    y = np.where(X @ [2.0, -1.0, 1.0, 0.0] + 0.5 * rng.standard_normal(n) > 0, 1.0, -1.0)
    return X * scale, y


def prices(n=N, *, scale=1.0, seed=0):
    X, _ = rows(n, seed=seed)
    noise = np.random.default_rng(seed + 1).standard_normal(n)
    return X * scale, 300.0 + 40.0 * (X @ [1.0, -0.5, 0.5, 0.0]) + 5.0 * noise


def plan(problem=SIGNS, *, n=N, budget=BUDGET, solver="noisy_gd", **more):
    return plan_with_bounds(problem, n=n, d=D, budget=budget, solver=solver, **more)


def seeded(seed=1):
    return dp.Randomness.seeded(seed)


class Untouchable(dp.data.Table):
    """A table that fails the test when its rows are looked at."""

    def __init__(self, n=N):
        super().__init__(n, D, np.dtype(float), "number")

    def _source(self, bounds, shuffle):
        raise AssertionError("rows were touched")


# -- from counts to bounds -------------------------------------------------------------------------


COUNTS = st.lists(st.floats(min_value=0.0, max_value=1e6), min_size=2, max_size=60)
QUANTILES = st.floats(min_value=0.55, max_value=1.0)


@given(COUNTS, QUANTILES)
def test_the_chosen_bin_is_the_quantile_of_what_stands_out(counts, quantile):
    seen = np.where(np.array(counts) > STANDS_OUT, counts, 0.0)
    chosen = choose(counts, 1.0, quantile)
    if not seen.any():
        assert counts[chosen] == max(counts)
        return
    slack = 1e-9 * seen.sum()
    assert seen[chosen + 1 :].sum() <= (1.0 - quantile) * seen.sum() + slack
    assert seen[chosen:].sum() > (1.0 - quantile) * seen.sum() - slack
    assert seen[chosen] > 0.0


@given(COUNTS, QUANTILES, st.data())
def test_rows_above_never_lower_the_choice_and_rows_below_never_raise_it(counts, quantile, data):
    chosen = choose(counts, 1.0, quantile)
    if not max(counts) > STANDS_OUT:
        return
    place = data.draw(st.integers(0, len(counts) - 1))
    more = np.array(counts)
    more[place] += data.draw(st.floats(min_value=0.0, max_value=1e6))
    moved = choose(more, 1.0, quantile)
    assert moved >= chosen if place > chosen else moved <= chosen


@given(COUNTS, QUANTILES, st.integers(0, 20))
def test_rows_of_twice_the_length_have_twice_the_unit(counts, quantile, shift):
    def padded(k):
        return [*[0.0] * (k + 1), *counts[:40], *[0.0] * (80 - k - len(counts[:40]))]

    first, second = (row_unit(padded(k), 1.0, quantile) for k in (0, shift))
    if max(counts[:40]) > STANDS_OUT:
        assert second == first * 2.0**shift


def norm_counts(**bins):
    """Return exact counts of lengths by the exponent of their bin: m3 is 2^-3, p2 is 2^2."""
    counts = np.zeros(NormHistogram().size)
    for name, count in bins.items():
        counts[{"m": -1, "p": 1}[name[0]] * int(name[1:]) + 40] = count
    return counts


def test_rows_of_length_zero_do_not_hide_the_others():
    assert row_unit(norm_counts(m40=9000, p3=100), 1.0) == 8.0
    assert row_unit(norm_counts(m40=9000), 1.0) == 2.0**-40
    assert row_unit(norm_counts(p40=900), 1.0) == 2.0**40


def test_few_long_rows_do_not_move_the_unit():
    assert row_unit(norm_counts(p2=960, p9=40), 1.0, 0.95) == 4.0
    assert row_unit(norm_counts(p2=960, p9=60), 1.0, 0.95) == 2.0**9


def label_counts(labels):
    query = LabelHistogram()
    y = np.asarray(labels, dtype=float)
    table = from_arrays(np.ones((len(y), 1)), y)
    return table.bounded(query.bounds(dp.Bounds(1.0, label=1.0))).sum(query)


@pytest.mark.parametrize(
    ("labels", "ends"),
    [
        (np.linspace(260, 500, 1000), (256.0, 512.0)),
        (-np.linspace(260, 500, 1000), (-512.0, -256.0)),
        (np.linspace(-9, 9, 1000), (-16.0, 16.0)),
        (np.linspace(0, 1000, 1000), (0.0, 1024.0)),  # the lowest octaves are left out by count
        (-np.linspace(0, 1000, 1000), (-1024.0, 0.0)),
        (np.linspace(-10, 1000, 1000), (0.0, 1024.0)),
        (np.linspace(-300, 1000, 1000), (-512.0, 1024.0)),
        (np.zeros(1000), (-(2.0**-40), 2.0**-40)),
        (np.full(1000, 1e30), (2.0**39, 2.0**40)),
        (np.r_[np.full(970, 3.0), np.full(30, 1e9)], (0.0, 2.0**30)),
        (np.r_[np.full(980, 3.0), np.full(20, 1e9)], (2.0, 4.0)),
    ],
)
def test_ranges_of_labels(labels, ends):
    found = label_ends(label_counts(labels), 1.0, 0.95)
    assert found == ends
    assert found[0] < found[1]


def test_negated_labels_have_the_negated_range():
    rng = np.random.default_rng(0)
    for offset in (-50.0, -1.0, 0.0, 0.3, 200.0):
        counts = label_counts(offset + 10.0 * rng.standard_normal(2000))
        low, high = label_ends(counts, 3.0, 0.95)
        assert label_ends(counts[::-1], 3.0, 0.95) == (-high, -low)


def wrong_choices(n, sigma, times=4000):
    """Count units that are off by more than one octave, for rows spread over three of them."""
    exact = norm_counts(p0=0.2 * n, p1=0.5 * n, p2=0.3 * n)
    rng = np.random.default_rng(7)
    wrong = 0
    for _ in range(times):
        unit = row_unit(exact + sigma * rng.standard_normal(len(exact)), sigma)
        wrong += not 2.0 <= unit <= 8.0
    return wrong


def test_noise_rarely_leads_astray(monkeypatch):
    # Of 81 bins 78 are empty; each stands out with probability 3.4e-6, and then must still be more
    # than a twentieth of the rows: below 2.7e-4 in all, at the smallest n that a plan accepts.
    # 4000 tables have more than 9 such choices with probability below 1e-6 (Poisson of mean 1.07).
    sigma = plan_bounds(dp.ApproxDP(1.0, 1e-6), n=1000).sigma
    smallest = math.ceil(4 * STANDS_OUT * sigma)
    assert wrong_choices(smallest, sigma) <= 9
    assert wrong_choices(5000, sigma) == 0
    # The threshold is what it takes: with a lower one noise is believed.
    monkeypatch.setattr(private_bounds.reading, "STANDS_OUT", 2.5)
    assert wrong_choices(smallest, sigma) > 100


# -- plans -----------------------------------------------------------------------------------------

BUDGETS = [
    BUDGET,
    dp.ApproxDP(3.0, 1e-6, adjacency="zero_out"),
    dp.ApproxDP(4.0, 1e-6, unit=dp.Unit(3, "person")),
    dp.ZCDP(0.05),
    dp.GDP(0.4),
]


@pytest.mark.parametrize("budget", BUDGETS, ids=lambda b: f"{b.kind}-{b.adjacency.value}")
@pytest.mark.parametrize("labels", [False, True])
def test_histograms_get_their_share(budget, labels):
    made = plan_bounds(budget, n=N, share=0.2, labels=labels)
    own = dp.privacy.cost(made.releases(), adjacency=budget.adjacency, unit=budget.unit)
    mu = budget.mu_per_row() * budget.unit.rows
    assert own.mu**2 == pytest.approx(0.2 * mu**2, rel=1e-6)
    assert len(made.releases()) == 1 + labels
    # Computed once more: k rows of a unit, each of two bins apart under replace-one.
    factor = {"replace_one": math.sqrt(2.0)}.get(budget.adjacency.value, 1.0)
    assert made.sigma == pytest.approx(
        factor * budget.unit.rows * math.sqrt(1 + labels) / (mu * math.sqrt(0.2)), rel=1e-5
    )
    rest = made.rest()
    assert type(rest) is type(budget)
    assert (rest.adjacency, rest.unit) == (budget.adjacency, budget.unit)
    left = rest.mu_per_row() * rest.unit.rows
    assert left**2 == pytest.approx(0.8 * mu**2, rel=1e-6)


@pytest.mark.parametrize("budget", BUDGETS, ids=lambda b: f"{b.kind}-{b.adjacency.value}")
def test_gaussian_plans_spend_the_whole_budget_and_no_more(budget):
    joint = plan(budget=budget)
    spent, allowed = joint.cost.against(budget)
    assert 0.99999 * allowed <= spent <= allowed


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("solver", "least"),
    [
        ("phased_sgd", 0.99999),
        ("dp_ftrl", 0.99999),
        ("phased_erm", 0.99999),
        ("approx_objective_perturbation", 0.99),  # not Gaussian: given less until it fits
        ("noisy_sgd_2019", 0.99),
    ],
)
def test_other_solvers_stay_within_the_budget(solver, least):
    problem = dataclasses.replace(SIGNS, domain=dp.domains.L2Ball(5.0))
    joint = plan(problem, solver=solver)
    spent, allowed = joint.cost.against(BUDGET)
    assert least * allowed <= spent <= allowed
    assert joint.fit.solver == solver
    result, _ = run_with_bounds(joint, rows(), randomness=seeded())
    assert result.certificate.epsilon(BUDGET.delta) <= 1.0
    assert set(dp.privacy.release.flatten(joint.releases())) == set(result.certificate.releases)


def test_releases_that_no_accountant_composes_are_refused(monkeypatch):
    def refuse(self):
        raise AssumptionError("no accountant covers this mixture.")

    monkeypatch.setattr(JointPlan, "cost", property(refuse))
    with pytest.raises(AssumptionError, match=r"noisy_gd cannot be combined .*Declare"):
        plan(solver="noisy_gd")


@pytest.mark.thorough
def test_sampling_with_replacement_shares_the_budget_with_histograms():
    problem = dataclasses.replace(SIGNS, domain=dp.domains.L2Ball(5.0))
    options = {"sampling": "with_replacement"}
    joint = plan(problem, solver="dp_sgd_output", options=options)
    assert any(isinstance(a, dp.privacy.WithReplacementRelease) for a in joint.releases())
    spent, allowed = joint.cost.against(BUDGET)
    assert 0.97 * allowed <= spent <= allowed


@pytest.mark.thorough
def test_auto_keeps_the_solver_it_chose_first():
    joint = plan(solver="auto")
    assert joint.fit.solver == plan(solver=joint.fit.solver).fit.solver
    assert joint.cost.satisfies(BUDGET)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"budget": dp.PureDP(1.0)}, AssumptionError, "Gaussian noise.*Declare the bounds"),
        ({"budget": 1.0}, ParameterError, "need a budget"),
        ({"problem": "logistic"}, ParameterError, "need a Problem"),
        ({"share": 0.0}, ParameterError, "share"),
        ({"share": 1.0}, ParameterError, "share"),
        ({"quantile": 0.5}, ParameterError, "quantile"),
        ({"quantile": 1.1}, ParameterError, "quantile"),
        ({"features": False}, ParameterError, "something to estimate"),
        ({"n": 300}, AssumptionError, r"300 rows are too few .*takes \d+ rows"),
        ({"labels": True}, ParameterError, "labels within"),
        (
            {"problem": dp.Problem(loss=SIGNS.loss, bounds=dp.Bounds(2.0, label="sign"))},
            ParameterError,
            "rows of length 1",
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_refusals(change, error, words):
    with pytest.raises(error, match=words):
        plan(**change)


def test_the_refusal_names_the_number_of_rows_that_suffices():
    budget = dp.ApproxDP(1.0, 1e-6)
    with pytest.raises(AssumptionError) as refusal:
        plan_bounds(budget, n=100)
    need = int(str(refusal.value).split("takes ")[1].split(" rows")[0])
    assert plan_bounds(budget, n=need).n == need
    with pytest.raises(AssumptionError):
        plan_bounds(budget, n=need - 1)


def test_plans_are_public_and_printable():
    made = plan(NUMBERS, labels=True)
    assert made == plan(NUMBERS, labels=True)
    text = str(made)
    assert "histograms of row lengths and labels" in text
    assert "plan of noisy_gd" in text
    record = json.loads(json.dumps(made.bounds.to_json()))
    assert record["sigma"] == made.bounds.sigma
    assert record["labels"] is True


@pytest.mark.parametrize(
    "change",
    [
        {"n": N - 1},
        {"norm": dp.geometry.L1},
        {"budget": dp.ApproxDP(1, 1e-6, adjacency="zero_out")},
    ],
    ids=["rows", "norms", "adjacencies"],
)
def test_parts_that_do_not_belong_together(change):
    made = plan()
    with pytest.raises(ParameterError, match="different"):
        JointPlan(bounds=dataclasses.replace(made.bounds, **change), fit=made.fit)


def test_a_plan_with_too_little_noise_is_not_run():
    made = plan()
    cheap = dataclasses.replace(made.bounds, sigma=made.bounds.sigma / 2)
    with pytest.raises(BudgetError, match="cost"):
        run_with_bounds(JointPlan(bounds=cheap, fit=made.fit), Untouchable())


# -- runs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exponent", [-30, -3, 17, 30])
def test_a_power_of_two_changes_the_unit_and_no_bit_of_the_weights(exponent):
    made, (X, y) = plan(options={"rounds": 10}), rows()
    first, here = run_with_bounds(made, (X, y), randomness=seeded())
    second, there = run_with_bounds(made, (X * 2.0**exponent, y), randomness=seeded())
    assert there.feature == here.feature * 2.0**exponent
    assert np.array_equal(first.weights, second.weights)


def test_the_fit_is_that_of_the_declared_bounds():
    """Where noise does not matter: the weights that the found bounds would have had, declared."""
    data, plenty = prices(scale=100.0), dp.ApproxDP(1e6, 1e-4)
    found, scales = fit_with_private_bounds(
        NUMBERS, data, plenty, labels=True, solver="noisy_gd", randomness=seeded()
    )
    declared = scales.bounds(NUMBERS.bounds)
    assert declared == dp.Bounds(512.0, label=Scaled(128.0, 512.0), intercept=256.0)
    problem = dataclasses.replace(NUMBERS, bounds=declared)
    reference = dp.solve(problem, data, plenty, solver="noisy_gd", randomness=seeded(2))
    assert found.weights / scales.feature == pytest.approx(reference.weights, rel=1e-4, abs=1e-7)


def test_all_kinds_of_tables_give_the_same():
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    made, (X, y) = plan(options={"rounds": 5}), rows(scale=1e4)
    names = list("abcd")
    tables = {
        "array": (X, y),
        "table": from_arrays(X, y),
        "fortran": (np.asfortranarray(X), y),
        "pandas": (pd.DataFrame(X, columns=names), pd.Series(y)),
        "polars": (pl.DataFrame(X, schema=names), pl.Series(y)),
        "sparse": (scipy.sparse.csr_array(X), y),
    }
    first, unit = run_with_bounds(made, tables["array"], randomness=seeded())
    for name, data in tables.items():
        found, scales = run_with_bounds(made, data, randomness=seeded())
        assert scales == unit, name
        assert found.weights == pytest.approx(first.weights, rel=1e-9), name
    ints, scales = run_with_bounds(made, (np.round(X).astype(np.int64), y), randomness=seeded())
    assert scales == unit
    assert ints.weights == pytest.approx(first.weights, abs=1e-3)


def test_files_are_divided_as_they_are_read(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    X, y = rows(scale=1e4)
    columns = {name: X[:, k] for k, name in enumerate("abcd")}
    parquet.write_table(pa.table({**columns, "y": y}), tmp_path / "rows.parquet")
    made = plan(options={"rounds": 4})
    found = [
        run_with_bounds(made, table, order="given", randomness=seeded())
        for table in (from_arrays(X, y), dp.data.from_parquet(tmp_path / "rows.parquet", label="y"))
    ]
    assert found[0][1] == found[1][1] == Scales(2.0**15)
    assert np.array_equal(found[0][0].weights, found[1][0].weights)
    secret = dp.data.from_parquet(tmp_path / "rows.parquet", label="y", spill=tmp_path)
    shuffled, _ = run_with_bounds(made, secret, randomness=seeded())
    memory, _ = run_with_bounds(made, (X, y), randomness=seeded())
    assert shuffled.weights == pytest.approx(memory.weights, abs=1e-9)  # full passes: any order


def test_wild_rows_do_not_matter():
    made, (X, y) = plan(options={"rounds": 5}), rows()
    X[:9] = np.array([[np.nan], [np.inf], [-np.inf], [1e308], [-1e308], [0], [5e-324], [1e30], [1]])
    result, scales = run_with_bounds(made, (X, y), randomness=seeded())
    assert scales == Scales(4.0)
    assert np.all(np.isfinite(result.weights))
    nothing, _ = run_with_bounds(made, (np.full((N, D), np.nan), y), randomness=seeded())
    assert np.all(np.isfinite(nothing.weights))


def test_the_certificate_covers_histograms_and_fit():
    made = plan(NUMBERS, labels=True)
    result, _ = run_with_bounds(made, prices())
    certificate = result.certificate
    assert certificate.verify(cross_check=False).problems == ()
    assert certificate.epsilon(BUDGET.delta) == made.cost.epsilon(BUDGET.delta) <= 1.0
    assert certificate.budget == BUDGET
    counts = {(r.kind, r.sigma): r.count for r in certificate.releases}
    assert counts[("gaussian", made.bounds.sigma)] == 2
    assert counts[("gaussian", made.fit.sigma)] == made.fit.rounds
    assert sum("bin of a public histogram" in line for line in certificate.enforced) == 2
    assert not certificate.reproducible
    assert result.plan is made.fit


def test_an_odometer_pays_once_and_for_all_of_it(tmp_path):
    odometer = dp.Odometer(tmp_path / "spent", dp.ApproxDP(1.1, BUDGET.delta))
    made = plan()
    for data, error in [
        (Untouchable(N - 1), DataError),
        ("rows", ParameterError),
        (from_arrays(*rows()).bounded(SIGNS.bounds), ParameterError),
        ((rows()[0],), DataError),
    ]:
        with pytest.raises(error):
            run_with_bounds(made, data, odometer=odometer)
    assert odometer.entries() == []
    run_with_bounds(made, rows(), odometer=odometer)
    (entry,) = odometer.entries()
    assert entry.releases == dp.privacy.release.flatten(made.releases())
    assert "noisy_gd" in entry.label
    with pytest.raises(BudgetError):
        run_with_bounds(made, Untouchable(), odometer=odometer)


def test_what_is_no_plan_or_table_is_refused():
    with pytest.raises(ParameterError, match="plan_with_bounds"):
        run_with_bounds(plan().fit, rows())
    with pytest.raises(ParameterError, match="raw rows"):
        fit_with_private_bounds(SIGNS, "rows", BUDGET)
    made = plan_bounds(BUDGET, n=N)
    short = from_arrays(*rows(N - 1)).bounded(made.bounds(SIGNS.bounds))
    with pytest.raises(DataError, match=f"for {N} rows"):
        estimate(made, short, dp.Ledger(made.releases(), BUDGET))


def test_a_ledger_that_is_open_for_the_plan_runs_it_on_its_own_rows_only():
    made = plan().fit
    ledger = dp.Ledger(made.releases(), BUDGET, randomness=seeded())
    source = from_arrays(*rows()).bounded(SIGNS.bounds, order="given")
    with pytest.raises(DataError, match="the source's rows are within"):
        api.execute(
            made, from_arrays(*rows()).bounded(dp.Bounds(2.0, label="sign", intercept=0.5)), ledger
        )
    result = api.execute(made, source, ledger)
    again = dp.run(made, source, randomness=seeded())
    assert np.array_equal(result.weights, again.weights)
    assert result.trace == made.trace()
    with pytest.raises(LedgerError, match="closed"):
        api.execute(made, source, ledger)


def test_progress_and_defaults():
    seen = []
    result, scales = fit_with_private_bounds(
        SIGNS,
        rows(),
        BUDGET,
        solver="noisy_gd",
        options={"rounds": 3},
        progress=lambda done, total: seen.append((done, total)),
    )
    assert seen == [(1, 3), (2, 3), (3, 3)]
    assert scales == Scales(4.0)
    assert result.plan.budget == plan_bounds(BUDGET, n=N).rest()


def test_a_label_range_alone():
    problem = dataclasses.replace(
        NUMBERS, bounds=dataclasses.replace(NUMBERS.bounds, feature_norm=3.0)
    )
    result, scales = fit_with_private_bounds(
        problem, prices(), BUDGET, features=False, labels=True, solver="noisy_gd"
    )
    assert scales == Scales(1.0, (128.0, 512.0))
    assert len({r.sigma for r in result.certificate.releases}) == 2


# -- replay on neighbours --------------------------------------------------------------------------

ROW = 17


def record(joint, data, script=None, seed=0):
    """Run histograms and fit through a ledger that remembers."""
    ledger = RecordingLedger(joint.releases(), joint.bounds.budget, randomness=seeded(0))
    ledger, rounds = ledger.reopened(seed, script), []
    result, scales = execute(
        joint,
        from_arrays(*data),
        ledger,
        order="given",
        progress=lambda done, total: rounds.append((done, total)),
    )
    return Recording(
        joint.fit, seed, result.weights, tuple(ledger.events), result.certificate, tuple(rounds)
    ), scales


def neighbours(X, y):
    far = {
        "zero": 0.0,
        "huge": 1e300,
        "long": 1e7,
        "short": 1e-9,
        "hole": np.nan,
        "endless": np.inf,
    }
    for name, value in far.items():
        other = X.copy()
        other[ROW] = value
        yield name, (other, y)
    other = X.copy()
    other[ROW] *= -4.0
    yield "octaves", (other, y)
    for value in (np.nan, 1e12, -1e12, 0.0):
        labels = y.copy()
        labels[ROW] = value
        yield f"label {value}", (X, labels)


def tipping(joint):
    """Return a table in which the exact counts are one row away from other scales."""
    X, y = prices(600)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    far = np.arange(100, 100 + math.floor(STANDS_OUT * joint.bounds.sigma))
    X[far], y[far] = 1000.0 * X[far], 1e6
    return X, y


def tipped(X, y):
    X, y = X.copy(), y.copy()
    yield "label", (X, np.where(np.arange(len(y)) == ROW, 1e6, y))
    X[ROW] *= 1000.0
    yield "length", (X, y)


def problems(joint, data, others=neighbours):
    first, scales = record(joint, data)
    found = []
    for name, other in others(*data):
        second, again = record(joint, other, script=first.events)
        found += [f"{name}: {line}" for line in compare(first, second, row=ROW)]
        found += [f"{name}: other scales"] * (again != scales)
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("solver", ["noisy_gd", "phased_sgd"])
@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
def test_nothing_but_the_releases_looks_at_the_rows(solver, adjacency):
    budget = dp.ApproxDP(2.0, 1e-5, adjacency=adjacency)
    problem = dataclasses.replace(NUMBERS, domain=dp.domains.L2Ball(2.0))
    options = {"rounds": 3} if solver == "noisy_gd" else None
    joint = plan(problem, n=600, budget=budget, solver=solver, labels=True, options=options)
    X, y = prices(600)
    if adjacency == "zero_out":
        X[ROW] = np.nan
    assert problems(joint, (X, y)) == []


def small():
    return plan(NUMBERS, n=600, budget=dp.ApproxDP(2.0, 1e-5), labels=True, options={"rounds": 3})


def reading_exact_counts(part):
    """Return an estimate that releases the histograms, but reads one scale off the exact ones."""

    def bug(plan, source, ledger):
        released = estimate(plan, source, ledger)
        unit = row_unit(source.sum(NormHistogram()), plan.sigma, plan.quantile)
        ends = label_ends(source.sum(LabelHistogram()), plan.sigma, plan.quantile)
        return dataclasses.replace(released, **{part: {"feature": unit, "label": ends}[part]})

    return bug


def weighted(self, block, *, compiled=None):
    """Add a row's length, not 1."""
    places = self.places(block)[block.present]
    lengths = block.norms[block.present]
    return np.bincount(places, lengths, minlength=self.size).astype(float)


def cumulative(self, block, *, compiled=None):
    """Add a 1 to every bin from a row's own on."""
    counts = np.bincount(self.places(block)[block.present], minlength=self.size)
    return np.cumsum(counts).astype(float)


@pytest.mark.parametrize(
    ("where", "name", "bug", "words"),
    [
        (fitting, "estimate", reading_exact_counts("feature"), "length: other scales"),
        (fitting, "estimate", reading_exact_counts("label"), "label: other scales"),
        (NormHistogram, "sum", weighted, "more than"),
        (LabelHistogram, "sum", weighted, "more than"),
        (NormHistogram, "sum", cumulative, "more than"),
    ],
    ids=["exact unit", "exact range", "weighted lengths", "weighted labels", "cumulative"],
)
def test_planted_bugs_are_caught(where, name, bug, words, monkeypatch):
    joint = small()
    data = tipping(joint)
    assert problems(joint, data, tipped) == []
    monkeypatch.setattr(where, name, bug)
    assert any(words in line for line in problems(joint, data, tipped))


def test_noise_has_the_planned_size():
    """Over 40 runs 9680 bins; a scale that is 10 % wrong is rejected, false alarms are 1e-6."""
    joint, data = small(), prices(600)
    first, _ = record(joint, data)
    drawn = []
    for seed in range(40):
        ledger = RecordingLedger(joint.releases(), joint.bounds.budget, randomness=seeded(0))
        ledger = ledger.reopened(seed, None)
        source = from_arrays(*data).bounded(joint.bounds.bounds(NUMBERS.bounds), order="given")
        estimate(joint.bounds, source, ledger)
        drawn.append(noise(dataclasses.replace(first, events=tuple(ledger.events))))
    values = np.concatenate(drawn)
    assert len(values) == 40 * (81 + 161)
    assert len(np.unique(values)) == len(values)

    def accepted(scale):  # the mean square has standard deviation sqrt(2 / count)
        return abs(np.mean((values * scale) ** 2) - 1.0) <= 4.9 * math.sqrt(2.0 / len(values))

    assert accepted(1.0)
    assert not accepted(1.1)
    assert not accepted(0.9)


# -- accuracy --------------------------------------------------------------------------------------


def accuracy(weights, constant, data):
    X, y = data
    return np.mean(np.where(X @ weights[:-1] + weights[-1] * constant > 0, 1.0, -1.0) == y)


@pytest.mark.thorough
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("heavy", [False, True], ids=["normal", "heavy"])
def test_classes_are_told_as_well_as_with_declared_bounds(scale, heavy):
    X, y = rows(scale=scale)
    test = rows(20_000, scale=scale, seed=99)
    if heavy:
        X *= np.random.default_rng(3).pareto(2.0, size=(N, 1)) + 1.0
    longest = float(np.quantile(np.linalg.norm(X, axis=1), 0.95))
    bounds = dp.Bounds(longest, label="sign", intercept=longest / 2)
    declared = dp.solve(
        dataclasses.replace(SIGNS, bounds=bounds),
        (X, y),
        BUDGET,
        solver="noisy_gd",
        randomness=seeded(),
    )
    found, scales = fit_with_private_bounds(
        SIGNS, (X, y), BUDGET, solver="noisy_gd", randomness=seeded()
    )
    assert longest / 2 <= scales.feature <= 4 * longest
    reference = accuracy(declared.weights, longest / 2, test)
    weights = found.weights / scales.feature
    assert reference > 0.9
    assert accuracy(weights, scales.feature / 2, test) >= reference - 0.015


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_numbers_are_predicted_as_well_as_the_noise_of_the_labels_allows(scale):
    X, y = prices(scale=scale)
    test_rows, wanted = prices(20_000, scale=scale, seed=99)
    found, scales = fit_with_private_bounds(
        NUMBERS, (X, y * 1e-3), BUDGET, labels=True, solver="noisy_gd", randomness=seeded()
    )
    rule = Scaled(*scales.label)
    assert scales.label == (0.125, 0.5)
    weights = found.weights / scales.feature
    scores = test_rows @ weights[:-1] + weights[-1] * scales.feature / 2
    error = np.mean(np.abs(1e3 * (rule.centre + rule.unit * scores) - wanted))
    assert error < 1.15 * 5.0 * math.sqrt(2 / math.pi)  # of the labels' own noise
    assert error < 0.15 * np.mean(np.abs(wanted - np.median(wanted)))


def test_a_hidden_number_of_rows_is_refused():
    budget = dp.ApproxDP(1.0, 1e-6, adjacency="add_remove")
    with pytest.raises(dp.errors.AssumptionError, match="add_remove"):
        plan_bounds(budget, n=5000)


def test_the_certificate_says_that_the_order_of_a_stream_is_trusted():
    joint = plan()
    for order, said in (("shuffled", False), ("given", True)):
        result, _ = run_with_bounds(joint, rows(), order=order, randomness=seeded())
        trusted = " ".join(result.certificate.trusted)
        assert ("not chosen by looking at them" in trusted) is said
