"""``plan``, ``recommend``, ``rounds`` and ``solvers``."""

import dataclasses
import json

import pytest

from dpsco import cli
from dpsco.models.row_counts import plan_with_count


def test_solvers_lists_one_line_each(capsys):
    from dpsco.solvers import registry

    assert cli.main(["solvers"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for key, solver in registry().items():
        (line,) = (line for line in lines if line.split(" ")[0] == key)
        assert line.split(maxsplit=1)[1] == solver.summary


def test_solvers_lists_every_one_within_100_columns(capsys):
    from dpsco.solvers import registry

    assert cli.main(["solvers", "--long"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 100
    firsts = {line.split("  ")[0] for line in lines}
    assert set(registry()) <= firsts
    words = " ".join(" ".join(lines).split())
    for title in ("solver, paper", "algorithm, theorems", "setting, needs", "rounds, cost"):
        assert title in words
    assert "n T gradients" in words


def test_solvers_as_json(capsys):
    from dpsco.solvers import registry

    assert cli.main(["solvers", "--json"]) == 0
    records = json.loads(capsys.readouterr().out)
    assert [record["key"] for record in records] == list(registry())
    wanted = {"key", "paper", "reference", "setting", "needs", "rounds", "cost"}
    assert all(wanted <= set(record) for record in records)
    assert cli.main(["solvers", "--json", "noisy_gd"]) == 0
    one = json.loads(capsys.readouterr().out)
    assert one == [record for record in records if record["key"] == "noisy_gd"]


def test_one_solver_in_full(capsys):
    from dpsco.solvers import registry

    for key, solver in registry().items():
        assert cli.main(["solvers", key]) == 0
        shown = capsys.readouterr().out
        assert max(map(len, shown.splitlines()[1:])) <= 100
        words = " ".join(shown.split())
        assert words.startswith(f"{key}: {solver.summary}")
        for need in solver.needs:
            assert need.name in words
        for option in solver.options:
            assert option in words


def test_unknown_solver(capsys):
    assert cli.main(["solvers", "nope"]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("dpsco solvers: solver must be 'auto' or one of ")


# -- plan, recommend -----------------------------------------------------------------------------

FACTS = ["--d", 5, "--feature-norm", 1, "--n", 20_000, "--epsilon", 1]
SPARSE = ["--classes", 2, "--model", "sparse_logistic", "--radius", 3]


def test_plan_says_what_will_happen(dpsco):
    code, out, err = dpsco("plan", *FACTS, "--classes", 2)
    assert (code, err) == (0, "")
    first, second, *_ = out.splitlines()
    assert first.startswith("Privacy is expected to cost ")
    assert second.startswith("That is the excess risk: how far the mean loss lies above ")
    assert out.count("excess risk") == 1  # one number, not two
    for words in ("plan: a logistic model by ", "sigma", "released:", "best linear model"):
        assert words in out
    assert "Problem(" not in out
    assert "delta 2.5e-09, replace_one" in out


def test_plan_says_what_units_take(dpsco):
    import dpsco as dp

    command = ["plan", *FACTS, "--classes", 2, "--delta", 1e-9]
    config = dp.models.configure("logistic", feature_norm=1.0, classes=[0, 1])
    whole = dp.models.plan_model(config, n=20_000, d=5, budget=dp.ApproxDP(1.0, 1e-9))
    units = whole.shared.units
    share, (sigma,) = units.search.total_share, units.sigmas
    lines = [line.strip() for line in dpsco(*command)[1].splitlines()]
    said = [line for line in lines if line.startswith("units: ")]
    assert said == [f"units: {100 * share:g} % of ApproxDP: epsilon 1, delta 1e-09; {whole.units}"]
    after = lines[lines.index(said[0]) + 1 :]
    assert after[0].split() == ["noise", f"{sigma:.4g}", "on", "rows"]
    assert [line.startswith("count of rows: ") for line in after[1:]] == [True]
    record = json.loads(dpsco(*command, "--json")[1])
    assert record["units_price"] == {"share": share, "noise": {"rows": sigma}}
    kept = [*command, "--units", "declared"]
    assert json.loads(dpsco(*kept, "--json")[1])["units_price"] is None
    assert "units: rows are measured in the declared units" in dpsco(*kept)[1]


def test_plan_is_the_librarys_own(dpsco, tmp_path):
    import dpsco as dp

    path = tmp_path / "plan.json"
    options = ["--solver", "noisy_gd", "--option", "rounds=7", "--adjacency", "zero_out"]
    options += ["--units", "declared"]
    start = ["plan", *FACTS, "--classes", "no,yes", "--delta", 1e-7, *options]
    command = [*start, "--no-count-rows", "-o", path]
    assert dpsco(*command)[0] == 0
    found = dp.load_plan(path.read_text())
    setup = dp.models.configure("logistic", feature_norm=1.0, classes=["no", "yes"])
    facts = {
        "n": 20_000,
        "d": 5,
        "budget": dp.ApproxDP(1.0, 1e-7, adjacency="zero_out"),
        "solver": "noisy_gd",
        "options": {"rounds": 7},
    }
    made = dp.plan(setup.problem(), **facts)
    assert found == dataclasses.replace(made, model=found.model)
    assert dpsco(*start, "-o", path, "--force")[0] == 0
    counted = plan_with_count(setup.problem(), **facts).fit
    assert dp.load_plan(path.read_text()) == dataclasses.replace(counted, model=found.model)
    code, out, _ = dpsco(*command[:-2], "--json")
    record = json.loads(out)
    assert code == 0
    assert record["plan"] == json.loads(found.to_json())
    assert (record["solver"], record["rounds"]) == ("noisy_gd", 7)
    seen = dp.outlook(made.problem, 20_000, 5, made.budget, solver="noisy_gd")
    assert record["predicted_excess"] == seen.excess
    assert record["excess_band"] == [seen.low, seen.high]
    assert (record["verdict"], record["outlook"]) == (seen.verdict, seen.sentence)
    fact = json.loads(dpsco(*command[:-2], "--json", "--base-rate", 0.02)[1])
    rare = dp.outlook(made.problem, 20_000, 5, made.budget, solver="noisy_gd", base_rate=0.02)
    assert fact["outlook"] == rare.sentence != seen.sentence
    assert record["noise"] == {"least": made.sigma, "most": made.sigma}


def test_plan_of_people_with_several_rows_needs_more_noise(dpsco):
    fixed = ["--solver", "noisy_gd", "--option", "rounds=50", "--option", "clip=0.5"]
    command = ["plan", *FACTS, "--classes", 2, *fixed, "--json"]
    one = json.loads(dpsco(*command)[1])["noise"]["least"]
    five = json.loads(dpsco(*command, "--rows-per-person", 5)[1])["noise"]["least"]
    assert five > 4.9 * one  # group privacy of Gaussian noise: five times


def test_plan_replaces_nothing_unasked(dpsco, refused, tmp_path):
    path = tmp_path / "plan.json"
    path.write_text("mine")
    assert "--force" in refused("plan", *FACTS, "--classes", 2, "-o", path)
    assert path.read_text() == "mine"
    assert dpsco("plan", *FACTS, "--classes", 2, "-o", path, "--force")[0] == 0


def test_a_fit_that_cannot_learn_is_called_so(dpsco):
    few = ["--d", 400, "--feature-norm", 1, "--n", 200, "--epsilon", 0.1, "--classes", 2]
    for name in ("plan", "recommend"):
        code, out, _ = dpsco(name, *few)
        assert code == 0
        assert "expect a model no better than a constant" in out
        assert "the constant." not in dpsco(name, *FACTS, "--classes", 2)[1]


def test_recommend_ranks_like_the_library(dpsco):
    import dpsco as dp

    facts = [*FACTS, "--label-range", 0, 500, "--model", "huber", "--setting", "threshold=20"]
    code, out, _ = dpsco("recommend", *facts, "--json")
    record = json.loads(out)
    assert code == 0
    setup = dp.models.configure(
        "huber", feature_norm=1.0, label_range=(0, 500), settings={"threshold": 20}
    )
    wanted = dp.recommend(setup.problem(), 20_000, 5, dp.ApproxDP(1.0, 1 / 20_000**2))
    assert record["best"] == wanted.best
    assert record["ranked"] == wanted.to_json()["ranked"]
    out = dpsco("recommend", *facts)[1]
    assert f"recommended: {wanted.best}" in out
    assert "Solvers go first where measurements cover the task, then by prediction." in out


def test_a_schema_says_it_all(dpsco, home):
    facts = ["--schema", home / "schema.json", "--n", 20_000, "--epsilon", 1]
    record = json.loads(dpsco("plan", *facts, "--json")[1])["plan"]
    assert (record["task"]["d"], record["task"]["problem"]["loss"]["type"]) == (5, "Logistic")
    assert record["model"]["value"]["units"]["feature_norm"] == pytest.approx(3**0.5)
    assert record["task"]["problem"]["bounds"]["feature_norm"] == 1.0
    declared = json.loads(dpsco("plan", *facts, "--units", "declared", "--json")[1])["plan"]
    assert declared["model"]["value"]["units"] is None
    assert declared["task"]["problem"]["bounds"]["feature_norm"] == pytest.approx(3**0.5)
    facts[1] = home / "costs.json"
    record = json.loads(dpsco("plan", *facts, "--json")[1])["plan"]
    assert record["task"]["problem"]["loss"]["type"] == "Huber"
    record = json.loads(dpsco("plan", *facts, "--model", "absolute", "--json")[1])["plan"]
    assert record["task"]["problem"]["loss"]["type"] == "Absolute"


def test_pure_privacy_is_delta_zero(dpsco):
    record = json.loads(dpsco("plan", *FACTS, "--classes", 2, "--delta", 0, "--json")[1])
    assert record["plan"]["task"]["budget"]["value"]["kind"] == "pure_dp"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--n", 9, "--epsilon", 1], "give --schema FILE"),
        (["--n", 9, "--epsilon", 1, "--d", 3, "--feature-norm", 1], "needs --classes"),
        (["--n", 9, "--epsilon", 1, "--d", 3, "--classes", 2], "--feature-norm is needed"),
        ([*FACTS, "--model", "huber"], "--label-range is needed"),
        ([*FACTS, "--model", "huber", "--classes", 2], "give --label-range"),
        ([*FACTS, "--classes", 2, "--label-range", 0, 1, "--model", "svc"], "no --label-range"),
        ([*FACTS, "--classes", 1], "at least two classes"),
        ([*FACTS, "--classes", 2, "--model", "nonsense"], "--model must be one of"),
        ([*FACTS, "--classes", 2, "--setting", "q=1"], "no setting 'q'"),
        ([*FACTS, *SPARSE, "--setting", "sparsify=0"], "sparsify must be at least 1, got 0"),
        ([*FACTS, *SPARSE, "--setting", "sparsify=1.5"], "sparsify must be an integer"),
        ([*FACTS, "--classes", 2, "--setting", "sparsify=1"], "no setting 'sparsify'"),
        ([*FACTS, "--classes", 2, "--delta", 2], "--delta must lie strictly between 0 and"),
        ([*FACTS[:-1], -1, "--classes", 2], "--epsilon must be positive"),
        ([*FACTS[:-1], "1,5", "--classes", 2], "'1,5' is no number; write it with a point"),
        ([*FACTS, "--n", "20,000", "--classes", 2], "'20,000' is no whole number; write it in"),
        (["--n", 1, *FACTS[:4], "--epsilon", 1, "--classes", 2], "no protection with n = 1 row"),
        (["--n", 0, *FACTS[:4], "--epsilon", 1, "--classes", 2], "--n must be at least 1, got 0"),
        ([*FACTS, "--classes", 2, "--rows-per-person", 0], "--rows-per-person must be at least 1"),
    ],
    ids=[
        "columns", "classes", "norm", "range", "other", "both", "one class", "model", "setting",
        "no weight", "part of a weight", "weights of a dense model",
        "delta", "epsilon", "comma", "comma in n", "one row", "no row", "rows per person",
    ],
)  # fmt: skip
def test_missing_and_wrong_facts(refused, arguments, words):
    for name in ("plan", "recommend"):
        text = refused(name, *arguments)
        assert words in text
        assert "PureDP" not in text


def test_plan_warns_of_odd_budgets(dpsco):
    odd = [*FACTS[:-1], 30, "--classes", 2, "--delta", 0.01]
    notes = [line for line in dpsco("plan", *odd)[1].splitlines() if line.startswith("note: ")]
    assert [("delta 0.01" in n, "epsilon 30" in n) for n in notes] == [(True, False), (False, True)]
    assert len(json.loads(dpsco("plan", *odd, "--json")[1])["warnings"]) == 2
    assert "note: " not in dpsco("plan", *FACTS, "--classes", 2)[1]


def test_wrong_solvers(refused):
    facts = [*FACTS, "--classes", 2]
    assert "--solver must be" in refused("plan", *facts, "--solver", "nope")
    assert "no option 'q'" in refused("plan", *facts, "--solver", "noisy_gd", "--option", "q=1")
    assert "NAME=VALUE" in refused("plan", *facts, "--option", "rounds")
    assert "NAME=VALUE" in refused("plan", *facts, "--option", "=3")


def test_a_problem_is_printed_as_it_is(refused):
    """Flags stand for arguments that are asked for, not for what Python prints."""
    options = ["--classes", 2, "--solver", "acc_srgd", "--option", "schedule=paper_realizable"]
    said = refused("plan", *FACTS, *options)
    assert "needs a bounded domain" in said
    assert "feature_norm=1" in said
    assert "--feature-norm=1" not in said


def test_a_schema_is_not_contradicted(refused, home):
    facts = ["--schema", home / "schema.json", "--n", 20_000, "--epsilon", 1]
    assert "the schema says what --d is" in refused("plan", *facts, "--d", 3)
    assert "--label-range" in refused("plan", *facts, "--label-range", 0, 1)
    assert "predicts numbers" in refused("plan", *facts, "--model", "linear")
    facts[1] = home / "costs.json"
    assert "predicts classes" in refused("recommend", *facts, "--model", "svc")


def test_the_models_that_help_lists_are_all(capsys):
    from dpsco.cli.arguments import MODELS
    from dpsco.models import MODELS as FOUND

    assert MODELS.split(", ") == list(FOUND)


# -- rounds --------------------------------------------------------------------------------------


def test_rounds_is_the_librarys_own_forecast(dpsco):
    import dpsco as dp

    command = ["rounds", *FACTS, "--classes", 2]
    code, out, err = dpsco(*command)
    setup = dp.models.configure("logistic", feature_norm=1.0, classes=[0, 1])
    wanted = dp.forecast(setup.problem(), 20_000, 5, dp.ApproxDP(1.0, 1 / 20_000**2))
    assert (code, out, err) == (0, f"{wanted}\n", "")
    more = ["--rounds", 8, 32, "--solver", "acc_srgd", "dp_ftrl", "--population-smoothness", 0.05]
    code, out, _ = dpsco(*command, *more, "--json")
    wanted = dp.forecast(
        setup.problem(),
        20_000,
        5,
        dp.ApproxDP(1.0, 1 / 20_000**2),
        rounds=[8, 32],
        solvers=["acc_srgd", "dp_ftrl"],
        population_smoothness=0.05,
    )
    assert (code, json.loads(out)) == (0, wanted.to_json())


def test_rounds_counts_the_rows_of_a_table(dpsco, home):
    facts = ["rounds", "--schema", home / "schema.json", "--epsilon", 1, "--json"]
    counted = json.loads(dpsco(*facts, "--data", home / "people.csv")[1])
    assert (counted["n"], counted["d"]) == (800, 5)
    assert counted == json.loads(dpsco(*facts, "--n", 800)[1])


def test_rounds_refuses_in_the_words_of_the_command_line(refused, home):
    facts = ["rounds", *FACTS, "--classes", 2]
    assert "--rounds must be at least 1" in refused(*facts, "--rounds", 0)
    assert "from 1 to n = 20000" in refused(*facts, "--rounds", 8, 20_001)
    assert "--solver must be one of" in refused(*facts, "--solver", "noisy_gd")
    assert "--population-smoothness must" in refused(*facts, "--population-smoothness", 0)
    assert "does not apply" in refused(*facts, "--delta", 0)
    assert "add_remove" in refused(*facts, "--adjacency", "add_remove")
    assert "with --data; not both" in refused(*facts, "--data", home / "people.csv")
    lacking = ["rounds", *FACTS[:4], "--epsilon", 1, "--classes", 2]
    assert "--n, or a table with --data" in refused(*lacking)
    assert "--data needs --schema" in refused(*lacking, "--data", home / "people.csv")


# -- several budgets -----------------------------------------------------------------------------


def test_several_epsilons_are_a_comparison(dpsco, tmp_path):
    many = [*FACTS, 0.1, "--classes", 2]  # epsilon 1 and 0.1
    code, out, err = dpsco("plan", *many, "--svg", tmp_path / "tradeoff.svg")
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 130
    assert 'The smallest epsilon with the verdict "good" is ' in out
    assert (tmp_path / "tradeoff.svg").read_text().startswith("<svg ")
    many += ["--solver", "noisy_gd", "--json"]
    record = json.loads(dpsco("plan", *many)[1])
    assert [point["solver"] for point in record["points"]] == ["noisy_gd"] * 2
    one = json.loads(dpsco("plan", *FACTS, "--classes", 2, *many[-3:])[1])
    same = record["points"][-1]
    assert (same["excess"], same["band"]) == (one["predicted_excess"], one["excess_band"])
    assert {name: same[name] for name in one["attack"]} == one["attack"]
    rare = json.loads(dpsco("plan", *many, "--base-rate", 0.02)[1])
    assert rare["points"][0]["constant_loss"] < record["points"][0]["constant_loss"]


def test_a_plan_file_is_of_one_epsilon(refused, tmp_path):
    path = tmp_path / "plan.json"
    said = refused("plan", *FACTS, 2, "--classes", 2, "-o", path)
    assert "-o writes one plan" in said
    assert "run again with that epsilon and -o" in said
    assert not path.exists()


@pytest.mark.parametrize("epsilon", ["0", "-1", "nan"])
def test_a_comparison_with_no_budget(refused, epsilon):
    assert "--epsilon must be" in refused("plan", *FACTS, epsilon, "--classes", 2)


def test_attacks_are_shown_and_can_be_weighed(dpsco):
    large = ["--d", 20, "--feature-norm", 1, "--n", 200_000, "--epsilon", 1, "--classes", 2]
    usual = json.loads(dpsco("plan", *large, "--json")[1])
    wary = json.loads(dpsco("plan", *large, "--prefer", "attack", "--json")[1])
    assert (usual["solver"], wary["solver"]) == ("approx_objective_perturbation", "noisy_gd")
    assert wary["attack"]["attack_accuracy"] < usual["attack"]["attack_accuracy"]
    assert "Proven: no attack is right about one row in more than" in dpsco("plan", *large)[1]
    record = json.loads(dpsco("recommend", *large, "--prefer", "attack", "--json")[1])
    assert record["best"] == "noisy_gd"
    ranked = [each["solver"] for each in record["ranked"] if each["calibrated"]]
    assert list(record["attacks"]) == ranked


def test_a_rehearsal_measures_for_free(dpsco, refused, home):
    import dpsco.cli.demo_fit as demo

    schema, rows = demo.HOME / "schema.json", demo.HOME / "fresh_messages.parquet"
    command = ["plan", "--schema", schema, "--n", 4000, "--feature-norm", 2, "--epsilon", 0.03, 3]
    code, out, err = dpsco(*command, "--rehearse", rows, "--repeats", 2)
    assert code == 0
    assert f"you declare that {rows} is public" in err
    assert "band: 10th to 90th percentile of 2 fits on public rows" in out
    made_up = dpsco(*command, "--rehearse", "--repeats", 2, "--json")[1]
    few, many = json.loads(made_up)["points"]
    assert few["basis"] == "made-up rows"
    assert many["excess"] < few["excess"]
    assert many["seconds"] > 0
    assert "add --rehearse" in refused(*command, "--repeats", 2)
    facts = ["plan", *FACTS, "--classes", 2, "--rehearse", rows]
    assert "give --schema FILE" in refused(*facts)
