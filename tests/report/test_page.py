"""The page: complete, honest about what does not hold, and safe whatever a certificate says."""

import base64
import dataclasses
import hashlib
import itertools
import json
import math
import re
import sys
from datetime import datetime, timezone
from functools import partial

import numpy as np
import pytest

import dpsco as dp
from dpsco import report
from dpsco.data.counts import RowCount
from dpsco.errors import MissingExtraError, ParameterError
from dpsco.fit.choose import Candidate, Recommendation
from dpsco.models import LinearModel, Provenance, SavedModel, diagnose, measure_privately
from dpsco.models.diagnostics import Diagnostics
from dpsco.privacy import certificate as certificates
from dpsco.privacy.accounting.attack_roc import Odds
from dpsco.privacy.certificate import Certificate, Claims
from dpsco.privacy.certificate_text import rounded_up
from dpsco.privacy.mechanisms import GaussianRelease, RepeatedSelectionRelease
from dpsco.privacy.mechanisms.repeated_selection.profile import Runs
from dpsco.privacy.release import RELEASE_KINDS
from dpsco.report import charts, view
from dpsco.report import text as words
from dpsco.report.formatting import claim, percent
from dpsco.solvers.base import BasePlan, TraceLine

from .conftest import CASES, CREATED, SEEDED, UTILITY, Page, page, solved

EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\" onload='x' \u202e\x00 {{ 7*7 }}"


FIELDS = [each.name for each in dataclasses.fields(Provenance)]


def forged(key="noisy_gd", **changes):
    """Return a certificate with changed content and a digest that matches."""
    record = json.loads(json.dumps(solved(key).certificate.to_json()))
    record.update(changes)
    del record["digest"]
    return Certificate.from_json({**record, "digest": certificates._digest(record)})


def section(text, name):
    """Return the text of one section."""
    (found,) = re.findall(rf'<section id="{name}".*?</section>', text, flags=re.DOTALL)
    return Page(found).text


@pytest.mark.thorough
def test_every_section_is_there_in_order(key):
    found = Page(page(key))
    names = [each["id"] for each in found.all("section")]
    assert names == [
        *("summary", "provenance", "meaning", "weights", "utility", "declared", "trust", "limits"),
        *("sign", "curve", "released", "plan", "solvers", "check", "glossary"),
    ]
    links = [each["href"] for each in found.all("a")]
    assert links == ["#main", *(f"#{name}" for name in names)]
    assert not found.open  # every element is closed


@pytest.mark.thorough
def test_headings_are_in_order(key):
    levels = [int(tag[1]) for tag, _ in Page(page(key)).tags if re.fullmatch(r"h\d", tag)]
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


def test_the_page_is_accessible(key):
    found = Page(page(key))
    (root,) = found.all("html")
    assert root["lang"] == "en"
    assert all(each.get("scope") in ("col", "row") for each in found.all("th"))
    assert len(found.all("caption")) == len(found.all("table")) >= 6
    assert len(found.all("svg")) >= 3
    identifiers = [each["id"] for _, each in found.tags if "id" in each]
    assert len(identifiers) == len(set(identifiers))
    for each in [attributes for _, attributes in found.tags if "aria-labelledby" in attributes]:
        assert set(each["aria-labelledby"].split()) <= set(identifiers)
    assert all(each["role"] == "img" for each in found.all("svg"))


def test_nothing_is_loaded_and_nothing_runs(key):
    text = page(key)
    found = Page(text)
    assert not found.all("script", "iframe", "object", "embed", "img", "form", "base")
    assert not re.search(r"https?:|url\(|@import|javascript:", text)
    assert not [name for _, each in found.tags for name in each if name.startswith("on")]
    assert not [each for _, each in found.tags if "style" in each]
    (style,) = re.findall(r"<style>(.*?)</style>", text, flags=re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    (policy,) = [each["content"] for each in found.all("meta") if "http-equiv" in each]
    assert policy.startswith(f"default-src 'none'; style-src 'sha256-{digest}';")


def test_the_headline_states_the_claims(key):
    certificate = solved(key).certificate
    text = section(page(key), "summary")
    assert text.startswith("Summary NOT TIED The cost was recomputed")
    assert "Nothing here ties it to weights." in text
    if key == "bolt_on_sgd":
        assert f"epsilon ε {claim(certificate.cost.pure_epsilon)} budget: ε 1, pure" in text
        assert "delta δ 0 none: pure privacy" in text
    else:
        assert f"epsilon ε {rounded_up(certificate.claims.epsilon, 4)} budget" in text
        assert f"delta δ {claim(certificate.claims.delta, 3)} 1 in" in text
    assert certificate.budget.adjacency.value in text
    who = "one person (up to 3 rows)" if key == "phased_sgd" else "one row"
    assert f"Protects {who}" in text
    assert key in text


def test_the_odds_are_those_of_the_curve(key):
    odds = Odds(solved(key).certificate.cost)
    text = section(page(key), "meaning")
    assert f"at most {percent(odds.accuracy)} of all cases" in text
    for rate, name in ((0.001, "0.1 %"), (0.01, "1 %"), (0.05, "5 %")):
        assert f"Detection at {name} false alarms {name} {percent(odds.power(rate))}" in text
    assert ("up to the slack" in text) == (key != "bolt_on_sgd")


def test_epsilon_at_several_deltas(key):
    certificate = solved(key).certificate
    text = section(page(key), "curve")
    for delta, epsilon in certificate.claims.curve:
        assert re.search(rf"{claim(delta)} 1 in [\d,]+( \w+)? {re.escape(claim(epsilon))}\b", text)


def test_releases_and_trust_are_listed(key):
    certificate = solved(key).certificate
    text = Page(page(key)).text
    for release in certificate.releases[:12]:
        assert release.sentence() in text
        assert release.summary in text
    for note in (*certificate.enforced, *certificate.trusted, certificate.randomness):
        assert note in text
    for name, version in certificate.versions.items():
        assert f"{name} {version}" in text
    assert certificate.to_json()["digest"] in text
    assert "pip install '.[accounting]' # in a checkout of dpsco dpsco verify certificate" in text
    assert "The certificate's own field digest must read as follows" in text
    assert "not what sha256sum says of the file" in text


def test_long_lists_of_releases_are_cut():
    many = tuple(GaussianRelease(1.0, 50.0, rows=(k, k + 1)) for k in range(40))
    made = with_releases(many, dp.ApproxDP(1.0, 1e-6))
    text = section(report.render(made), "released")
    assert text.count(" x gaussian on rows") == 12
    assert text.count(GaussianRelease.summary) == 1
    assert "and 28 more" in text


def with_releases(planned, budget):
    spent = certificates.cost(planned, adjacency=budget.adjacency, unit=budget.unit)
    return Certificate.of(
        budget,
        planned,
        spent,
        randomness="r",
        reproducible=False,
        enforced=(),
        trusted=(),
    )


@pytest.mark.thorough
def test_long_parts_are_folded(key):
    found = page(key)
    folded = re.findall("<summary>(?:<h2.*?>)?(.*?)(?:</h2>)?</summary>", found)
    apply = [each for each in folded if "apply" in each]
    assert len(apply) == 2
    settings = "Settings" if key == "approx_objective_perturbation" else "Schedule and settings"
    assert [each for each in folded if each not in apply] == [
        *("Other attacks", "The privacy curve", "What was released", "The plan", settings),
        *("Solvers compared", "How to check", "Glossary"),
    ]


@pytest.mark.thorough
def test_bars_do_not_repeat_the_table(key):
    problem, budget, _ = CASES[key]
    ranked = dp.recommend(problem, solved(key).plan.n, solved(key).plan.d, budget).ranked
    drawn = re.findall(r'<text class="name[^>]*>(\w+)<', page(key))
    assert len(drawn) <= 6
    assert set(drawn) == {each.solver for each in ranked[:5]} | {key}


def test_powers_in_the_glossary_are_raised():
    text = page("noisy_gd")
    assert "e^ε" not in text
    assert "at most by the factor e<sup>ε</sup>." in text


def test_what_the_second_accountant_proves_is_said():
    text = section(page("approx_objective_perturbation"), "check")
    assert "a second integration of the privacy loss gives epsilon " in text
    assert "agrees with " in text
    text = section(page("dp_sgd_poisson"), "check")
    assert "two independent" not in text
    assert "RDP gives a looser upper bound" in text or "no second accountant" in text


def test_every_kind_of_release_has_words():
    summaries = [kind.summary for kind in RELEASE_KINDS.values()]
    assert all(summaries)
    assert len(set(summaries)) == len(summaries)


@pytest.mark.thorough
def test_seeded_runs_are_marked_loudly(key):
    text = page(key)
    loud = "Reproducible: the guarantee holds only while the seed is secret"
    assert (loud in section(text, "summary")) == (key == SEEDED)
    assert ('<p class="warning" role="note">Reproducible' in text) == (key == SEEDED)


@pytest.mark.thorough
def test_the_plan_is_shown(key):
    made = solved(key).plan
    text = section(page(key), "plan")
    solver = dp.solvers.get(key)
    assert solver.summary in text
    assert solver.paper in text
    assert f"Rounds {len(made.trace()):,} " in text
    assert "belongs to another run" not in text
    own = {f.name for f in dataclasses.fields(made)} - {
        f.name for f in dataclasses.fields(BasePlan)
    }
    assert all(f" {name} " in text for name in own)


def test_schedules_are_drawn_where_there_is_something():
    assert 'id="chart-steps-title"' in page("noisy_gd")
    assert 'id="chart-noise-title"' in page("noisy_gd")
    assert 'id="chart-steps-title"' not in page("approx_objective_perturbation")  # a single round


def test_what_is_minimised_is_said_in_words(key):
    text = section(page(key), "plan")
    free = CASES[key][0].domain == dp.domains.WholeSpace()
    where = "all weights" if free else "weights of l2 norm at most 5"
    assert f"Minimises the mean logistic loss, without a penalty, over {where}" in text
    assert "Problem(" not in page(key)
    assert "Bounds(" not in page(key)


def test_one_round_has_no_table_of_rounds():
    text = section(page("approx_objective_perturbation"), "plan")
    assert "First and last rounds" not in text
    assert "none" not in text.split("Settings")[0]
    assert "First and last rounds" in section(page("noisy_gd"), "plan")


@pytest.mark.parametrize("step", [0.0, 0.5])
def test_steps_are_shown_where_there_are_any(monkeypatch, step):
    found = solved("noisy_gd")
    rounds = [TraceLine(t + 1, (0, 5), step, 3.0) for t in range(9)]
    monkeypatch.setattr(type(found.plan), "schedule", lambda _: iter(rounds))
    text = section(report.render(found.certificate, plan=found.plan), "plan")
    assert ("round rows step noise σ 1 0 to 4 0.5 3" in text) == (step > 0)
    assert ("round rows noise σ 1 0 to 4 3" in text) == (step == 0)


def test_first_and_last_rounds():
    text = section(page("noisy_gd"), "plan")
    table = text[text.index("noise σ") : text.index("Settings setting")]
    assert [int(k) for k in re.findall(r"(\d+) 0 to 599", table)] == [1, 2, 3, 28, 29, 30]
    assert "3 0 to 599" in table.split("and so on")[0]


@pytest.mark.parametrize(("count", "cut"), [(1, False), (7, False), (8, True), (5000, True)])
def test_tables_of_rounds_have_a_bounded_length(count, cut):
    rounds = [TraceLine(t + 1, (0, 5), 0.1 / (t + 1), 0.0) for t in range(count)]
    rows = view._ends(rounds, False)
    assert (None in rows) == cut
    assert len(rows) == min(count, 7)
    assert rows[0][0] == "1"
    assert rows[-1] == (f"{count:,}", "0 to 4", rows[-1][2], "none")


def test_long_schedules_are_cut(monkeypatch):
    monkeypatch.setattr(view, "MOST_ROUNDS", 10)
    found = solved("noisy_gd")
    text = section(report.render(found.certificate, plan=found.plan), "plan")
    assert "Rounds more than 10" in text
    assert "30 0 to 599" not in text


def test_charts_of_schedules():
    rounds = [TraceLine(t + 1, (0, 5), 0.5**t, 0.0) for t in range(1000)]
    ((drawing, caption),) = charts.schedule(rounds[:30])
    assert caption == "Step size by round."
    assert "1 in round 1, 1.863 × 10⁻⁹ in round 30" in drawing
    ((thin, _),) = charts.schedule(rounds)
    assert len(re.findall("L", thin)) == 199
    flat = [TraceLine(t + 1, (0, 5), 0.0, 3.0) for t in range(4)]
    ((drawing, caption),) = charts.schedule(flat)
    assert caption == "Noise (sigma) by round."
    assert "3 in every round" in drawing


def test_a_plan_of_another_run_is_called_so():
    found, other = solved("noisy_gd"), solved("phased_sgd")
    text = section(report.render(found.certificate, plan=other.plan), "summary")
    assert "belongs to another run" in text
    assert "belongs to another run" not in section(page("noisy_gd"), "summary")


@pytest.mark.parametrize(
    ("counts", "fits"), [((30, 30), True), ((30, 60), True), ((30, 29), False)]
)
def test_a_plan_may_be_a_part_of_the_run(counts, fits):
    planned, certified = (
        (GaussianRelease(1.0, 5.0, rows=(0, 9), count=count),) for count in counts
    )
    more = GaussianRelease(2.0, 5.0, rows=(0, 9))
    assert view._contained(planned, (*certified, more)) == fits


def test_a_plan_may_be_one_of_those_chosen_from():
    each = [(GaussianRelease(1.0, sigma, rows=(0, 9), count=3),) for sigma in (5.0, 6.0, 7.0)]
    chosen = RepeatedSelectionRelease(tuple(each[:2]), Runs.named("geometric", 3.0), rows=(0, 9))
    assert view._contained(each[1], (chosen,))
    assert not view._contained(each[2], (chosen,))
    made = with_releases((chosen,), dp.ApproxDP(9.0, 1e-5))
    found = view._released(made)
    assert found["rows"][0][0] == RepeatedSelectionRelease.summary
    assert found["theorems"] == [RepeatedSelectionRelease.theorem]


def test_only_a_certificate_is_needed():
    text = report.render(solved("noisy_gd").certificate, created=CREATED)
    names = [each["id"] for each in Page(text).all("section")]
    assert not {"declared", "plan", "utility", "solvers"} & set(names)
    assert "numbers computed from private rows" in text
    assert "<h1>Privacy report</h1>" in text


def test_utility_is_shown_with_its_baselines():
    text = section(page("noisy_gd"), "utility")
    assert "Measured on 2,000 public test rows." in text
    assert "measure this model most frequent class not private" in text
    assert "accuracy 0.8412 0.7601 0.853" in text
    assert "log loss 0.3622 – –" in text
    assert "cost no privacy" in text


@pytest.mark.parametrize("rows", ["public", "paid", "unpaid"])
def test_measuring_on_private_rows_is_said(rows):
    utility = report.Utility({"accuracy": 0.5}, on="held-out rows", rows=rows)
    text = report.render(solved("noisy_gd").certificate, utility=utility)
    assert words.MEASURED_ON[rows] in section(text, "utility")
    assert ('<p class="warning" role="note">These rows are private' in text) == (rows == "unpaid")


def test_what_was_paid_for_is_not_called_public():
    """Noisy metrics of private rows, and exact figures of these beside them."""
    model = LinearModel("logistic", np.ones((1, 2)), np.zeros(1), ("a", "b"))
    rows, places = np.ones((50, 2)), np.ones(50)
    paid = measure_privately(model, rows, places, dp.ApproxDP(1.0, 1e-6))
    utility = report.Utility.of(paid)
    assert (utility.rows, utility.on) == ("paid", "50 private rows")
    with pytest.raises(ParameterError, match="exact numbers"):
        report.Utility.of(paid, diagnostics=diagnose(model, rows, places))


def test_solvers_are_compared(key):
    problem, budget, _ = CASES[key]
    made = solved(key).plan
    found = dp.recommend(problem, made.n, made.d, budget)
    text = section(page(key), "solvers")
    assert f"{key} (used)" in text
    for each in found.ranked:
        assert each.solver in text
    for name, reasons in found.refused.items():
        assert f"{name} {'; '.join(reasons)}" in text


def test_the_bound_on_attacks_stands_beside_each_solver():
    result = solved("noisy_gd")
    task = result.plan.task
    ranking = dp.recommend(task).with_attacks(task, "noisy_gd")
    rows = section(report.render(result.certificate, recommendation=ranking), "solvers")
    bound = Odds(dp.plan(task, solver="noisy_gd").cost).accuracy
    assert ranking.attacks["noisy_gd"].accuracy == bound
    assert percent(bound) in rows
    assert "how often the best attack can be right" in rows
    plain = report.render(result.certificate, recommendation=dp.recommend(task))
    assert "how often the best attack can be right" not in plain


def test_solvers_without_prediction():
    found = Recommendation((Candidate("a", math.inf, 1e9), Candidate("b", 0.5, 10.0)), {})
    text = section(report.render(solved("noisy_gd").certificate, recommendation=found), "solvers")
    assert "a not predicted b 1" in text
    assert "a infinite 10⁹ b 1 10" in text
    assert "All that apply (2)" in text
    assert "do not apply" not in text
    bare = Recommendation((Candidate("a", 0.5, 10.0, calibrated=False),), {})
    text = section(report.render(solved("noisy_gd").certificate, recommendation=bare), "solvers")
    assert text.count("1 (not calibrated)") >= 2  # drawing and table
    none = Recommendation((), {"a": ("no",)})
    text = section(report.render(solved("noisy_gd").certificate, recommendation=none), "solvers")
    assert "No solver applies. 1 solver that does not apply" in text


def test_the_first_solver_is_not_called_the_lowest():
    ranked = Candidate("a_b", 1.0, 1.0), Candidate("c", 0.846, 1.0, measured=False)
    certificate = solved("noisy_gd").certificate
    page_of = partial(report.render, certificate)
    text = section(page_of(recommendation=Recommendation(ranked, {})), "solvers")
    assert "as multiples of the first" in text
    assert "First: a_b with 1." in text
    assert "a_b is first though others are predicted lower: measured facts go before" in text
    assert not re.search("lowest|of the best|are better", text, re.IGNORECASE)
    text = section(page_of(recommendation=Recommendation(ranked[:1], {})), "solvers")
    assert "predicted lower:" not in text


def test_the_chosen_solver_is_drawn_even_if_far_behind():
    ranked = tuple(Candidate(f"s{k}", 1.0 + k, 1.0) for k in range(30))
    drawing = charts.risks(ranked, "s25")
    assert re.findall(r'class="name[^>]*>(\w+)<', drawing) == [f"s{k}" for k in [*range(5), 25]]
    assert len(re.findall('class="bar chosen"', drawing)) == 1


MODEL = LinearModel("logistic", np.zeros((1, 4)), np.zeros(1), classes=("no", "yes"))


def test_the_model_is_described():
    certificate = solved("noisy_gd").certificate
    for model in (MODEL, SavedModel(MODEL, certificate)):
        text = section(report.render(certificate, model=model), "summary")
        assert "Fitted logistic regression, 4 features, 2 classes (no, yes)" in text
    price = LinearModel("huber", np.zeros((1, 9)), np.zeros(1), label_range=(0.0, 5e5))
    text = section(report.render(certificate, model=price), "summary")
    assert "Huber regression, 9 features, labels from 0 to 500,000" in text
    many = LinearModel("svc", np.zeros((50, 2)), np.zeros(50), classes=tuple(range(50)))
    assert "50 classes (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, ...)" in report.render(
        certificate, model=many
    )


def test_features_are_counted_once():
    found = solved("noisy_gd")
    for model, on in ((MODEL, "On 600 rows Solver"), (None, "On 600 rows of 4 features Solver")):
        text = section(report.render(found.certificate, plan=found.plan, model=model), "summary")
        assert on in text
        assert text.count("4 features") == 1


@pytest.mark.parametrize("adjacency", list(dp.Adjacency))
def test_neighbours_are_explained(adjacency):
    budget = dp.ApproxDP(5.0, 1e-6, adjacency=adjacency, unit=dp.Unit(2, "patient"))
    text = report.render(with_releases((GaussianRelease(1.0, 9.0, rows=(0, 5)),), budget))
    who = "one patient (up to 2 rows)"
    assert words.NEIGHBOURS[adjacency].format(who=who) in section(text, "summary")
    assert words.QUESTION[adjacency].format(who=who) in section(text, "meaning")
    assert len({words.NEIGHBOURS[each] for each in dp.Adjacency}) == 3


@pytest.mark.parametrize(
    ("budget", "shown"),
    [
        (dp.ApproxDP(5.0, 1e-6), "ε 5 at δ 10⁻⁶"),
        (dp.ZCDP(0.5), "ρ 0.5"),
        (dp.GDP(1.0), "μ 1"),
        (dp.PureDP(2.0), "ε 2, pure"),
    ],
)
def test_budgets_of_every_kind(budget, shown):
    assert view._budget(budget) == shown


def test_a_forged_certificate_cannot_write_into_the_page():
    record = json.loads(json.dumps(solved("noisy_gd").certificate.to_json()))
    evil = forged(
        trust_model=EVIL,
        enforced=[EVIL, {"a": EVIL}],
        trusted=[*record["trusted"], EVIL],
        randomness={"description": EVIL, "reproducible": False},
        numeric=EVIL,
        versions={EVIL: EVIL},
        budget={**record["budget"], "unit": {"rows": 1, "name": EVIL}},
    )
    utility = report.Utility({EVIL: 0.5}, on=EVIL, baselines={EVIL: {EVIL: 0.4}})
    recommendation = Recommendation((Candidate(EVIL, 1.0, 1.0),), {EVIL: (EVIL,)})
    model = dataclasses.replace(MODEL, classes=(EVIL, "b"))
    text = report.render(
        evil,
        title=EVIL,
        created=EVIL,
        utility=utility,
        recommendation=recommendation,
        model=model,
        provenance=Provenance(**dict.fromkeys(FIELDS, EVIL)),
    )
    found = Page(text)
    assert not found.all("script", "img")
    assert not found.comments
    assert "\x00" not in text
    assert "\u202e" not in text
    assert text.count("&lt;script&gt;alert(1)") >= 35
    assert "{{ 7*7 }}" in found.text  # nor is it a template
    assert not [name for _, each in found.tags for name in each if name.startswith("on")]
    clean = Page(report.render(solved("noisy_gd").certificate))
    assert {tag for tag, _ in found.tags} <= {tag for tag, _ in clean.tags} | {
        *("details", "summary", "rect", "figure", "figcaption"),
    }


def test_theorems_are_escaped():
    record = json.loads(json.dumps(solved("phased_sgd").certificate.to_json()))
    releases = [{**each, "theorem": EVIL} for each in record["releases"]]
    text = report.render(forged("phased_sgd", releases=releases))
    assert "&lt;script&gt;" in text
    assert not Page(text).all("script", "img")


def test_a_false_claim_is_shown_as_invalid():
    record = solved("noisy_gd").certificate.to_json()
    lying = forged(claims={**record["claims"], "epsilon": 0.01})
    text = report.render(lying)
    summary = section(text, "summary")
    assert summary.startswith("Summary NOT VALID Do not rely on this certificate")
    assert "epsilon is claimed to be 0.01, the releases give" in summary
    assert "epsilon ε (claimed) 0.01" in summary
    assert "the claims did not hold" in section(text, "check")
    assert 'class="summary invalid"' in text
    # What follows is recomputed, not believed, and no point of the picture is marked.
    odds = Odds(solved("noisy_gd").certificate.cost)
    assert f"at most {percent(odds.accuracy)} of all cases" in section(text, "meaning")
    assert "times as likely" not in section(text, "meaning")
    assert 'class="mark"' not in text
    assert 'class="mark"' in page("noisy_gd")


def test_a_false_curve_is_recomputed():
    record = json.loads(json.dumps(solved("noisy_gd").certificate.to_json()))
    curve = [{**point, "epsilon": 1e-3} for point in record["claims"]["curve"]]
    text = report.render(forged(claims={**record["claims"], "curve": curve}))
    true = solved("noisy_gd").certificate.claims.curve
    assert all(claim(epsilon) in section(text, "curve") for _, epsilon in true)
    assert "0.001" not in section(text, "curve").split("odds ε")[1].replace("0.001 1 in", "")


def test_releases_without_a_cost_are_no_error():
    release = GaussianRelease(1e145, 1.0, rows=(0, 5))
    claims = Claims(1.0, 1e-6, None, None, ())
    made = dataclasses.replace(solved("noisy_gd").certificate, releases=(release,), claims=claims)
    text = report.render(made)
    assert section(text, "summary").startswith("Summary NOT VALID")
    assert "no finite cost" in section(text, "curve")
    assert "no finite cost" in section(text, "summary")
    assert "best attack is right" not in section(text, "summary")
    assert 'id="meaning"' not in text
    assert "#meaning" not in text


def test_an_uncountable_mixture_is_no_error():
    record = json.loads(json.dumps(solved("noisy_gd").certificate.to_json()))
    budget = {**record["budget"], "adjacency": "add_remove"}
    releases = [{**record["releases"][0], "rows": [0, k]} for k in (3, 5)]
    text = report.render(forged(budget=budget, releases=releases))
    assert "cannot be accounted" in section(text, "summary")
    assert "no finite cost" in section(text, "curve")
    assert "no finite cost" in section(text, "summary")


def test_weak_privacy_is_drawn_and_said():
    budget = dp.ApproxDP(1e6, 1e-6)
    text = report.render(with_releases((GaussianRelease(1.0, 2e-2, rows=(0, 5)),), budget))
    assert "at most 100 % of all cases" in section(text, "meaning")
    assert "times as likely" not in section(text, "meaning")


def test_no_releases_cost_nothing():
    text = report.render(with_releases((), dp.ApproxDP(1.0, 1e-6)))
    assert "epsilon ε 0 budget" in section(text, "summary")
    assert "at most 50.1 % of all cases" in section(text, "meaning")


@pytest.mark.parametrize(
    ("epsilon", "shown"),
    [(0.0, "1.01"), (1.0, "2.72"), (math.log(2.0), "2.01"), (5.0, "149"), (8.0, "2,981")],
)
def test_factors_round_up(epsilon, shown):
    assert view._factor(epsilon) == shown
    assert view._factor(20.0) is None


def test_jinja2_is_optional(monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'dpsco\[report\]'"):
        report.render(solved("noisy_gd").certificate)


def test_dp_accounting_is_optional_where_the_releases_need_none(monkeypatch):
    record = solved("noisy_gd").certificate.to_json()

    def missing(*_, **__):
        raise MissingExtraError("install dpsco[accounting]")

    monkeypatch.setattr(certificates, "second_accountant", missing)
    text = report.render(Certificate.from_json(record))
    assert section(text, "summary").startswith("Summary NOT TIED")
    assert "Second accountant skipped" in section(text, "check")
    monkeypatch.setattr(certificates, "cost", missing)  # as of releases that need it
    with pytest.raises(MissingExtraError, match="accounting"):
        report.render(Certificate.from_json(record))


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"certificate": {}}, "certificate"),
        ({"plan": "noisy_gd"}, "plan"),
        ({"recommendation": {"ranked": []}}, "recommendation"),
        ({"utility": {"accuracy": 1.0}}, "utility"),
        ({"model": [1.0]}, "model"),
        ({"created": 5}, "created"),
        ({"provenance": {"purpose": "beds"}}, "provenance"),
    ],
)
def test_wrong_arguments_are_refused(wrong, name):
    given = {"certificate": solved("noisy_gd").certificate, **wrong}
    with pytest.raises(ParameterError, match=f"a report's {name} must be"):
        report.render(given.pop("certificate"), **given)


@pytest.mark.parametrize(
    "wrong",
    [
        {"scores": 3},
        {"scores": {"a": "x"}},
        {"scores": {"a": math.nan}},
        {"baselines": [1]},
        {"baselines": {"b": {"a": None}}},
        {"rows": "secret"},
        {"rows": "paid", "diagnostics": Diagnostics({})},
    ],
    ids=str,
)
def test_wrong_utilities_are_refused(wrong):
    with pytest.raises(ParameterError):
        report.Utility(**{"scores": {"a": 1.0}, "on": "rows", **wrong})


def test_write_writes_the_page(tmp_path):
    found = solved("noisy_gd")
    problem, budget, _ = CASES["noisy_gd"]
    path = report.write(
        tmp_path / "r.html",
        found.certificate,
        plan=found.plan,
        recommendation=dp.recommend(problem, found.plan.n, found.plan.d, budget),
        utility=UTILITY,
        title="Report on noisy_gd",
        created=CREATED,
    )
    assert path.read_text(encoding="utf-8") == page("noisy_gd")


def test_times_are_written_out():
    moment = datetime(2026, 11, 16, 5, 30, tzinfo=timezone.utc)
    text = report.render(solved("noisy_gd").certificate, created=moment)
    assert "Written 16 November 2026, 05:30 UTC by dpsco" in text
    today = report.render(solved("noisy_gd").certificate)
    assert str(datetime.now(timezone.utc).year) in Page(today).text


@pytest.mark.parametrize(("count", "loud"), [(980.0, False), (3.0, True)])
def test_the_page_says_how_many_rows_counted(count, loud):
    found = solved("noisy_gd")
    weights = np.atleast_2d(found.weights[:-1])
    model = dp.models.LinearModel("logistic", weights, found.weights[-1:], (0, 1))
    counted = RowCount(count, 20.0, 1000)
    saved = dp.models.SavedModel(model, found.certificate, found.plan, rows_counted=counted)
    text = Page(report.render(found.certificate, plan=found.plan, model=saved)).text
    assert str(counted) in text
    assert ("no usable label" in text) == loud
