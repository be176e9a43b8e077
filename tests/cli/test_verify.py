"""``verify`` and ``report``: honest files pass, changed and forged ones do not."""

import json

import pytest

from dpsco.errors import MissingExtraError
from dpsco.models.file import _digest as model_digest
from dpsco.privacy.accounting import pld
from dpsco.privacy.certificate import _digest


def rewrite(path, change, *, digest=None):
    """Change a JSON file, and forge its digest if asked to."""
    record = json.loads(path.read_text())
    change(record)
    if digest is not None:
        del record["digest"]
        record["digest"] = digest(record)
    path.write_text(json.dumps(record))


def claim_less(record):
    record["claims"]["epsilon"] = 0.1


@pytest.fixture
def copy(model, tmp_path):
    """A copy of the model file, to be damaged."""
    path = tmp_path / "model.json"
    path.write_text(model.read_text())
    return path


def test_verify_accepts_an_honest_certificate(certificate, dpsco):
    pytest.importorskip("dp_accounting")
    code, out, _ = dpsco("verify", certificate)
    assert code == 3
    assert out.startswith("NOT TIED: epsilon 2 at delta")
    assert "it is not tied to a run" in out
    assert "PLD gives epsilon" in out


def test_verify_accepts_a_model(model, dpsco):
    code, out, _ = dpsco("verify", "--single", model)
    assert code == 0
    assert out.startswith("VALID: epsilon 2 at delta")
    assert json.loads(model.read_text())["digest"] in out
    assert "it is not a signature" in out


def test_a_fit_states_the_digest_that_verify_shows(home, make, dpsco, capsys, tmp_path):
    capsys.readouterr()
    assert make.fit(home, tmp_path / "m.json", "--solver", "noisy_gd", "--option", "rounds=2") == 0
    stated = capsys.readouterr().out.splitlines()[-1].split()
    shown = json.loads(dpsco("verify", "--single", "--json", tmp_path / "m.json")[1])
    assert stated == ["digest:", shown["digest"]]


def without_plan(record):
    record["plan"] = None


def test_verify_says_of_a_file_without_a_plan_that_nothing_ties_it(copy, dpsco):
    rewrite(copy, without_plan, digest=model_digest)
    code, out, _ = dpsco("verify", "--single", copy)
    assert code == 3
    assert out.startswith("NOT TIED: epsilon 2 at delta")
    assert "VALID" not in out
    record = json.loads(dpsco("verify", "--single", "--json", copy)[1])
    assert (record["verdict"], record["valid"], record["digest"]) == ("not tied", True, None)


def test_verify_never_says_more_of_a_consistent_forgery_than_that_its_parts_agree(
    home, make, model, dpsco, tmp_path
):
    """Weights of a fit at epsilon 9 in the file of one at epsilon 2: the digest tells them apart
    from what the fit stated, and nothing else can."""
    loud, copy = tmp_path / "loud.json", tmp_path / "forged.json"
    options = ["--seed", 5, "--solver", "noisy_gd", "--option", "rounds=2"]
    data = ["fit", home / "people.csv", "--schema", home / "schema.json", "--epsilon", 9]
    assert dpsco(*data, *options, "-o", loud)[0] == 0
    copy.write_text(model.read_text())
    weights = json.loads(loud.read_text())["coef"]
    rewrite(copy, lambda record: record.update(coef=weights), digest=model_digest)
    code, out, _ = dpsco("verify", "--single", copy)
    assert code == 0
    assert "not a signature: compare it with the one stated by the person who ran the fit" in out
    assert json.loads(loud.read_text())["digest"] not in out
    assert json.loads(model.read_text())["digest"] not in out


def test_verify_compares_the_plan_with_the_weights(copy, dpsco):

    def widen(record):
        record["plan"]["task"]["d"] += 1

    rewrite(copy, widen, digest=model_digest)
    code, out, _ = dpsco("verify", "--single", copy)
    assert code == 1
    assert out.startswith("NOT VALID")


def test_verify_json(certificate, model, dpsco):
    code, out, _ = dpsco("verify", "--json", "--single", certificate)
    result = json.loads(out)
    assert code == 3
    assert (result["verdict"], result["valid"], result["digest"]) == ("not tied", True, None)
    assert result["epsilon"] <= 2.0
    assert result["second_accountant"] == "skipped"
    tied = json.loads(dpsco("verify", "--json", "--single", model)[1])
    assert tied["verdict"] == "valid"
    assert {**result, "verdict": "valid", "digest": tied["digest"]} == tied


@pytest.mark.parametrize("json_", [False, True])
def test_verify_fails_on_an_edited_certificate(certificate, dpsco, json_):
    rewrite(certificate, claim_less)
    code, out, err = dpsco("verify", certificate, *(["--json"] if json_ else []))
    assert (code, err) == (1, "")
    assert "changed after it was written" in out
    assert json.loads(out)["valid"] is False if json_ else out.startswith("NOT VALID")


def test_verify_fails_on_a_forged_claim(certificate, dpsco):
    rewrite(certificate, claim_less, digest=_digest)
    code, out, _ = dpsco("verify", "--single", certificate)
    assert code == 1
    assert out.startswith("NOT VALID")


def test_verify_fails_on_an_edited_model(copy, dpsco):
    rewrite(copy, lambda record: record["coef"][0].__setitem__(0, 17.0))
    code, out, _ = dpsco("verify", copy)
    assert code == 1
    assert "changed after it was written" in out


def test_verify_fails_on_a_model_with_a_forged_certificate(copy, dpsco):
    def forge(record):
        claim_less(record["certificate"])
        del record["certificate"]["digest"]
        record["certificate"]["digest"] = _digest(record["certificate"])

    rewrite(copy, forge, digest=model_digest)
    code, out, _ = dpsco("verify", "--single", copy)
    assert code == 1
    assert "epsilon is claimed to be 0.1" in out


def test_verify_fails_on_a_model_whose_plan_released_more(copy, dpsco, home, make, tmp_path):
    # An honest certificate of a cheaper run, put into the file of a dearer one.
    cheap = tmp_path / "cheap.json"
    options = ["--seed", 3, "--solver", "noisy_gd", "--option", "rounds=3"]
    assert make.fit(home, tmp_path / "m.json", *options, "--certificate", cheap) == 0

    def swap(record):
        record["certificate"] = json.loads(cheap.read_text())

    rewrite(copy, swap, digest=model_digest)
    code, out, _ = dpsco("verify", "--single", copy)
    assert code == 1
    assert "plan has releases that its certificate does not list" in out
    assert json.loads(dpsco("verify", "--single", "--json", copy)[1])["valid"] is False


@pytest.mark.parametrize(
    ("certified", "planned"),
    [([], ["--adjacency", "zero_out"]), (["--rows-per-person", 2], [])],
    ids=["adjacency", "unit"],
)
def test_verify_fails_on_a_model_whose_plan_protects_others(
    dpsco, home, make, tmp_path, certified, planned
):
    """A plan of the certified releases that says it is for other neighbours, or for one row."""
    copy, other = tmp_path / "copy.json", tmp_path / "other.json"
    options = ["--seed", 1, "--solver", "noisy_gd"]
    assert make.fit(home, copy, *options, *certified) == 0
    assert make.fit(home, other, *options, *planned) == 0
    theirs = json.loads(other.read_text())["plan"]["task"]["budget"]

    def swap(record):
        record["plan"]["task"]["budget"] = theirs

    rewrite(copy, swap, digest=model_digest)
    code, out, _ = dpsco("verify", "--single", copy)
    assert code == 1
    assert out.startswith("NOT VALID")
    assert "plan protects others than its certificate says" in out
    record = json.loads(dpsco("verify", "--single", "--json", copy)[1])
    assert record["valid"] is False


@pytest.mark.thorough
def test_the_second_number_of_a_perturbed_minimiser_agrees(dpsco, home, make, tmp_path):
    path = tmp_path / "m.json"
    assert make.fit(home, path, "--solver", "approx_objective_perturbation") == 0
    code, out, _ = dpsco("verify", path)
    assert code == 0
    assert "second accountant: a second integration of the privacy loss gives epsilon " in out
    assert "agrees with " in out
    said = json.loads(dpsco("verify", "--json", path)[1])["second_accountant"]
    assert said in out


@pytest.mark.parametrize(
    "content",
    [None, "", "{}", "[1, 2]", '{"schema": "other"}', "\x00\x01", '{"schema": ["a"]}'],
    ids=["absent", "empty", "object", "list", "other", "bytes", "odd"],
)
def test_verify_refuses_other_files(tmp_path, refused, content):
    path = tmp_path / "file.json"
    if content is not None:
        path.write_text(content)
    refused("verify", path)


def test_verify_refuses_a_field_given_twice(certificate, refused):
    text = certificate.read_text()
    certificate.write_text(text.replace('"numeric"', '"numeric": "grid", "numeric"', 1))
    refused("verify", certificate)


def test_verify_without_dp_accounting_says_what_to_install(certificate, refused, monkeypatch):
    def absent():
        raise MissingExtraError("Install it with: pip install 'dpsco[accounting]'")

    monkeypatch.setattr(pld, "_library", absent)
    pld._epsilon.cache_clear()  # what other tests have asked for
    pld._composition.cache_clear()
    assert "pip install 'dpsco[accounting]'" in refused("verify", certificate)


def mutations(record, path=()):
    """Yield each place of a JSON record."""
    items = record.items() if isinstance(record, dict) else enumerate(record)
    for key, value in items:
        yield (*path, key)
        if isinstance(value, (dict, list)) and value:
            yield from mutations(value, (*path, key))


VALUES = (None, 10**400, "text", -1, [], {"type": "float"}, True, 1e308)


@pytest.mark.thorough
def test_no_damage_of_a_model_is_an_error_of_our_own(copy, dpsco):
    """Each field in turn is replaced by something odd, with a digest that fits."""
    text = copy.read_text()
    places = [place for place in mutations(json.loads(text)) if place != ("digest",)]
    places = places[::2]
    assert len(places) > 50
    faults = []
    for number, place in enumerate(places):
        inner = changed = json.loads(text)
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] = VALUES[number % len(VALUES)]
        del changed["digest"]
        try:
            changed["digest"] = model_digest(changed)
        except ValueError:
            continue
        copy.write_text(json.dumps(changed))
        code, _, err = dpsco("verify", "--single", copy)
        if code not in (0, 1, 2):
            faults.append((place, VALUES[number % len(VALUES)], err))
    assert faults == []


def test_report_of_a_model_and_of_a_certificate(model, certificate, dpsco, tmp_path):
    pytest.importorskip("jinja2")
    for source in (model, certificate):
        path = tmp_path / f"{source.stem}.html"
        code, out, _ = dpsco("report", source, "-o", path, "--title", "Our <report>")
        assert code == 0
        assert str(path) in out
        text = path.read_text()
        assert text.startswith("<!doctype html>")
        assert "Our &lt;report&gt;" in text
    assert "noisy_gd" in (tmp_path / "model.html").read_text()


def test_report_replaces_nothing_unasked(model, tmp_path, refused, dpsco):
    path = tmp_path / "report.html"
    path.write_text("mine")
    assert "--force" in refused("report", model, "-o", path)
    assert path.read_text() == "mine"
    assert dpsco("report", model, "-o", path, "--force")[0] == 0
    assert path.read_text() != "mine"
    assert "is read by this command" in refused("report", model, "-o", model, "--force")


def test_report_of_a_changed_model_is_refused(copy, tmp_path, refused):
    rewrite(copy, lambda record: record["coef"][0].__setitem__(0, 17.0))
    assert "changed after it was written" in refused("report", copy, "-o", tmp_path / "r.html")


@pytest.mark.slow
def test_models_of_other_ways_to_fit_hold(dpsco, tmp_path):
    """Private bounds and searches list more, or other, releases than the plan of the model."""
    pytest.importorskip("sklearn")
    import numpy as np

    import dpsco as dp
    from dpsco.estimators.search import PrivateGridSearch

    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = X[:, 0] > 0
    plain = dp.PrivateLogisticRegression(
        epsilon=2.0, classes=[False, True], solver="noisy_gd", random_state=1
    )
    plain.fit(X, y).save(tmp_path / "bounds.json")
    search = PrivateGridSearch(
        dp.PrivateLogisticRegression(feature_norm=3.0, classes=[False, True], solver="noisy_gd"),
        {"alpha": [0.0, 0.1]},
        epsilon=2.0,
        random_state=1,
    )
    search.fit(X, y).best_estimator_.save(tmp_path / "search.json")
    for name in ("bounds", "search"):
        code, out, err = dpsco("verify", "--single", tmp_path / f"{name}.json")
        assert (code, err) == (0, ""), out
