"""The steps of the page: what is typed is checked, what is shown is public, a fit is paid once."""

import json
import logging
import threading
from datetime import datetime

import pyarrow as pa
import pytest
from pyarrow import parquet

import dpsco as dp
from dpsco.cli import main
from dpsco.errors import DataError, OdometerError
from dpsco.files import disk
from dpsco.models.plan import ModelPlan
from dpsco.privacy.budget import ApproxDP
from dpsco.privacy.odometer.odometer import Odometer
from dpsco.ui import fitting
from dpsco.ui.guard import Keys
from dpsco.ui.preview import Facts
from dpsco.ui.study import Study

from .conftest import CANARY, COLUMNS, ROWS, WORD, Client

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # of weak outlooks of small tables


def spent(client):
    return len(client.study.odometer.entries())


# -- the whole path --------------------------------------------------------------------------------


@pytest.mark.slow
def test_from_a_table_to_a_report(client, table, study, caplog, capfd):
    """One path through all steps; no answer, file name, log line or address holds a canary."""
    caplog.set_level(logging.DEBUG)
    assert client.get("/").headers["location"] == "/table"
    assert "No row has been read." in client.get("/table").text
    client.declare(table)
    assert client.get("/").headers["location"] == "/epsilon"
    assert f"{ROWS} were counted" in client.get("/epsilon").text
    client.choose("1")
    assert "No row has been read." in client.get("/fit").text
    assert client.fit(purpose="plan beds", person="A. Smith").headers["location"] == "/fit"
    assert client.wait() == "done"
    assert client.get("/fit/progress").headers["hx-redirect"] == "/report"
    assert client.get("/").headers["location"] == "/report"
    page = client.get("/report").text
    assert "Rows were read by the fit alone." in page
    (entry,) = study.odometer.entries()
    assert (entry.purpose, entry.person) == ("plan beds", "A. Smith")
    assert entry.model == json.loads((study.folder / "model.json").read_text())["digest"]
    assert "plan beds, A. Smith" in client.get("/odometer").text
    for name in ("model.json", "certificate.json", "report.html", "plan.json", "schema.json"):
        answer = client.get(f"/files/{name}")
        assert answer.headers["content-disposition"] == f'attachment; filename="{name}"'
        assert answer.text == (study.folder / name).read_text()
    report = client.get("/report/page")
    assert "sandbox" in report.headers["content-security-policy"]
    assert report.text.startswith("<!doctype html>")
    saved = dp.models.SavedModel.load(study.folder / "model.json")
    assert saved.verify().ok
    assert spent(client) == 1
    said = "".join([*client.heard, caplog.text, *capfd.readouterr()])
    assert len(said) > 50_000
    assert WORD not in said
    assert f"{CANARY:.2f}"[:6] not in said


def test_the_plan_is_that_of_the_command_line(client, table, study, tmp_path):
    """Byte for byte, with the schema that the page wrote and the same facts."""
    client.declare(table)
    own = tmp_path / "plan.json"
    facts = ["--schema", str(study.folder / "schema.json"), "--n", str(ROWS), "-o", str(own)]
    for epsilon, more in (("0.7", {}), ("2", {"delta": "1e-5", "model": "svc"})):
        client.choose(epsilon, **more)
        flags = [word for name, value in more.items() for word in (f"--{name}", value)]
        assert main(["plan", *facts, "--epsilon", epsilon, *flags, "--force"]) == 0
        assert (study.folder / "plan.json").read_bytes() == own.read_bytes()


def test_the_plan_protects_whom_the_odometer_protects(table, tmp_path):
    unit = dp.privacy.Unit(3, "person")
    budget = ApproxDP(3.0, 1e-6, adjacency="zero_out", unit=unit)
    study = Study(tmp_path / "out", Odometer(tmp_path / "people.odometer", budget))
    Client(study, Keys(4321)).declare(table)
    plan = study.preview(Facts(1.0)).planned.fit
    assert plan.budget.adjacency is budget.adjacency
    assert plan.budget.unit == unit
    study.close()


# -- step 1 ----------------------------------------------------------------------------------------


def test_what_is_typed_about_columns_becomes_a_schema(client, table, study):
    client.declare(table)
    schema = dp.data.Schema.load(study.folder / "schema.json")
    assert [column.kind for column in schema.items] == ["number", "category", "flag", "classes"]
    assert schema.columns[1].other
    assert json.loads(schema.to_json())["columns"][0]["range"] == [0, 100]


def test_a_schema_file_can_be_edited(client, study, tmp_path):
    """What no form shows is kept; what it shows can be changed."""
    table = tmp_path / "all.csv"
    table.write_text("age,work,owner,born,told,code,income\n50,state,1,1990-02-03,a b,x,low\n" * 9)
    record = {
        "version": 1,
        "decimal": ".",
        "columns": [
            {"name": "age", "kind": "number", "range": [0, 9.5], "missing": "indicator",
             "source": "a form"},
            {"name": "work", "kind": "category", "values": ["state", "self"],
             "labels": {"0": "self"}},
            {"name": "owner", "kind": "ignore", "source": "nobody asks"},
            {"name": "born", "kind": "date", "range": ["1900-01-01", "2020-01-01"],
             "unit": "month", "order": "dmy"},
            {"name": "told", "kind": "text", "buckets": 16, "ngrams": [1, 1], "most": 9},
            {"name": "code", "kind": "hashed", "buckets": 8, "signed": True},
        ],
        "label": {"name": "income", "kind": "classes", "values": ["low", "high"]},
    }  # fmt: skip
    path = tmp_path / "own.json"
    path.write_text(json.dumps(record))
    answer = client.post("/table", {"path": str(table), "origin": "schema", "other": str(path)})
    assert answer.status == 303
    fields = {
        "kind-0": "number", "low-0": "0", "high-0": "120", "missing-0": "indicator",
        "source-0": "a law", "kind-1": "category", "values-1": "state\nself", "kind-2": "ignore",
        "kind-3": "date", "low-3": "1900-01-01", "high-3": "2025-01-01", "unit-3": "month",
        "kind-4": "text", "buckets-4": "32", "kind-5": "hashed", "buckets-5": "8",
        "signed-5": "on", "kind-6": "label classes", "values-6": "low\nhigh",
    }  # fmt: skip
    assert client.columns(fields).status == 303
    record["columns"][0] |= {"range": [0, 120], "source": "a law"}
    record["columns"][3]["range"][1] = "2025-01-01"
    record["columns"][4]["buckets"] = 32
    assert json.loads((study.folder / "schema.json").read_text()) == record


def test_a_public_sample_drafts_the_schema(client, table, tmp_path):
    sample = tmp_path / "made-up.csv"
    sample.write_text("age,work,owner,income\n" + "".join(f"{k},state,1,low\n" for k in range(50)))
    fields = {"path": str(table), "origin": "sample", "other": str(sample)}
    assert client.post("/table", fields).status == 303
    page = client.get("/table").text
    assert 'name="high-0" value="50"' in page
    assert WORD not in page


def test_a_first_line_that_may_be_a_row_is_not_shown(client, tmp_path):
    path = tmp_path / "headless.csv"
    path.write_text(f"{CANARY},{WORD}\n1,b\n")
    answer = client.post("/table", {"path": str(path), "origin": "names"})
    assert answer.status == 422
    assert "may be a row" in answer.alert
    assert WORD not in answer.text
    assert str(CANARY) not in answer.text


def test_types_of_parquet_begin_the_schema(client, tmp_path):
    columns = {
        "age": [1, 2],
        "work": ["a", "b"],
        "born": [datetime(1990, 1, 1)] * 2,
        "owner": [True, False],
        "odd": [[1], [2]],
    }
    path = tmp_path / "rows.parquet"
    parquet.write_table(pa.table(columns), path)
    assert client.post("/table", {"path": str(path), "origin": "names"}).status == 303
    kinds = [form.kind for form in client.study.forms]
    assert kinds == ["number", "category", "date", "flag", "ignore"]


def test_the_fields_of_a_column_follow_its_kind(client, table):
    client.post("/table", {"path": str(table), "origin": "names"})
    assert 'name="low-0"' in client.post("/columns/0", {"kind-0": "number"}).text
    text = client.post("/columns/0", {"kind-0": "category", "values-0": "a\n<b>"}).text
    assert "a\n&lt;b&gt;</textarea>" in text
    assert client.post("/columns/0", {"kind-0": "flag"}).text.strip() == ""
    for place in ("99", "-1", "x", "9" * 9):
        assert client.post(f"/columns/{place}", {}).status == 404


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"path": ""}, "the path is empty"),
        ({"path": "/nowhere/rows.csv"}, "There is no table /nowhere/rows.csv"),
        ({"path": "\0"}, "There is no table"),
        ({"path": "/dev/null"}, "use .csv"),
        ({"origin": "schema", "other": ""}, "the path is empty"),
        ({"origin": "schema", "other": "/nowhere.json"}, "/nowhere.json"),
        ({"origin": "sample", "other": "/nowhere.csv"}, "/nowhere.csv"),
    ],
)
def test_a_table_that_cannot_be_opened_is_a_sentence(client, table, fields, sentence):
    answer = client.post("/table", {"path": str(table), "origin": "names", **fields})
    assert answer.status == 422
    assert sentence in answer.alert
    assert client.study.table is None


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"kind-0": ""}, "column &#39;age&#39;, kind is not chosen"),
        ({"kind-0": "nonsense"}, "kind is not chosen"),
        ({"low-0": ""}, "lowest value is empty"),
        ({"low-0": "low"}, "must be a number"),
        ({"low-0": "100"}, "low &lt; high"),
        ({"values-1": ""}, "at least 1 value"),
        ({"kind-3": "ignore"}, "none is"),
        ({"kind-2": "label sign"}, "2 are"),
        ({"kind-2": "hashed", "buckets-2": "many"}, "whole number"),
        ({"kind-2": "hashed", "buckets-2": "0"}, "must be"),
    ],
)
def test_a_schema_that_is_none_is_a_sentence(client, table, changes, sentence):
    client.post("/table", {"path": str(table), "origin": "names"})
    answer = client.columns({**COLUMNS, **changes})
    assert answer.status == 422
    assert sentence.lower() in answer.alert.lower()
    assert client.study.schema is None
    assert not (client.study.folder / "schema.json").exists()


def test_columns_of_a_table_that_another_tab_has_replaced_are_refused(client, table, tmp_path):
    client.declare(table)
    fields = {**COLUMNS, "version": client.study.version}
    other = tmp_path / "other.csv"
    other.write_text("weight,a,b,c\n1,2,3,4\n")
    client.post("/table", {"path": str(other), "origin": "names"})
    answer = client.post("/columns", fields)
    assert "another table was opened" in answer.alert.lower()
    assert client.study.schema is None
    assert [form.kind for form in client.study.forms] == [""] * 4


def test_the_table_itself_is_no_public_sample(client, table):
    fields = {"path": str(table), "origin": "sample", "other": str(table)}
    answer = client.post("/table", fields)
    assert "the table itself" in answer.alert
    assert WORD not in answer.text


def test_a_part_of_the_table_is_no_public_sample(client, tmp_path):
    """The table is a folder, and the sample one of its files, or a folder with a link to it."""
    rows, links = tmp_path / "rows", tmp_path / "links"
    for folder in (rows, links):
        folder.mkdir()
    parquet.write_table(pa.table({"age": [CANARY], "income": ["low"]}), rows / "a.parquet")
    (links / "b.parquet").symlink_to(rows / "a.parquet")
    for other in (rows / "a.parquet", links / "b.parquet", links):
        fields = {"path": str(rows), "origin": "sample", "other": str(other)}
        answer = client.post("/table", fields)
        assert "the public rows are the table itself" in answer.alert.lower()
    assert str(CANARY) not in "".join(client.heard)


@pytest.mark.parametrize(
    "budget", [dp.privacy.PureDP(3.0), dp.privacy.ZCDP(0.5), dp.privacy.GDP(1.0)]
)
def test_odometers_of_every_kind_are_shown(table, tmp_path, budget):
    """Also one that cannot pay: Gaussian noise is never pure."""
    study = Study(tmp_path / "out", Odometer(tmp_path / "any.odometer", budget))
    client = Client(study, Keys(4321))
    client.declare(table)
    client.choose("0.5")
    for path in ("/table", "/epsilon", "/fit", "/odometer"):
        assert client.get(path).status == 200
    if budget.kind == "pure_dp":
        assert "does not allow" in client.get("/fit").text
    study.close()


def test_a_schema_that_does_not_fit_is_a_sentence(client, table, tmp_path):
    path = tmp_path / "other.json"
    schema = dp.data.Schema((dp.data.Number("weight", 0, 1),), dp.data.SignLabel("y"))
    schema.save(path)
    answer = client.post("/table", {"path": str(table), "origin": "schema", "other": str(path)})
    assert answer.status == 422
    assert "does not match the schema" in answer.alert
    assert WORD not in answer.text


# -- step 2 ----------------------------------------------------------------------------------------


def figure(text, name):
    return text.split(f'id="{name}">')[1].split("</span>")[0]


def test_epsilon_moves_utility_attack_and_what_is_left(client, table):
    client.declare(table)
    texts = [client.get(f"/epsilon/numbers?epsilon={each}").text for each in ("0.5", "1", "2")]
    for name in ("band", "attack", "rest"):
        assert len({figure(text, name) for text in texts}) == 3, name
    attacks = [float(figure(text, "attack").split()[0]) for text in texts]
    assert attacks == sorted(attacks)
    lefts = [float(figure(text, "rest").split()[1]) for text in texts]
    assert lefts == sorted(lefts, reverse=True)
    assert spent(client) == 0


def test_the_picture_shows_the_chosen_epsilon(client, table):
    client.declare(table)
    answer = client.get("/epsilon/curve.svg?epsilon=0.7")
    assert answer.headers["content-type"].startswith("image/svg+xml")
    assert ">0.7</text>" in answer.text


@pytest.mark.slow
def test_a_rehearsal_costs_nothing_and_reads_no_row(client, table):
    client.declare(table)
    table.unlink()  # whoever opened it now would fail
    answer = client.post("/epsilon/rehearse", {"epsilon": "1"})
    assert "Rehearsed 5 times on made-up rows at ε 1: excess risk" in answer.text
    assert spent(client) == 0
    assert not (client.study.folder / "plan.json").exists()
    assert "must be positive" in client.post("/epsilon/rehearse", {"epsilon": "0"}).text
    assert client.study._stage.acquire(blocking=False)
    assert (
        "a rehearsal is running" in client.post("/epsilon/rehearse", {"epsilon": "1"}).text.lower()
    )


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"epsilon": "0"}, "must be positive"),
        ({"epsilon": "-1"}, "must be positive"),
        ({"epsilon": "much"}, "must be a number"),
        ({"epsilon": "nan"}, "must be a number"),
        ({"epsilon": ""}, "is empty"),
        ({"epsilon": "1e999"}, "must be positive and finite"),
        ({"epsilon": "1", "delta": "2"}, "delta"),
        ({"epsilon": "1", "base_rate": "7"}, "base rate"),
        ({"epsilon": "1", "model": "huber"}, "huber"),
        ({"epsilon": "1", "model": "<b>"}, "model"),
    ],
)
def test_an_epsilon_that_is_none_is_a_sentence(client, table, fields, sentence):
    client.declare(table)
    answer = client.post("/epsilon", fields)
    assert answer.status == 422
    assert sentence in answer.alert.lower()
    query = "&".join(f"{key}={value}" for key, value in fields.items())
    assert sentence in client.get(f"/epsilon/numbers?{query}").text.lower()
    assert client.study.choice is None
    assert spent(client) == 0


def test_steps_wait_for_those_before(client):
    assert "Finish step 1 first" in client.get("/epsilon").text
    assert "Choose epsilon first" in client.get("/fit").text
    assert "Fit first" in client.get("/report").text
    assert "no schema yet" in client.post("/epsilon", {"epsilon": "1"}).alert
    assert "no plan yet" in client.fit().alert
    assert "name one first" in client.columns(COLUMNS).alert
    assert client.get("/report/page").status == 404
    assert client.get("/files/model.json").status == 404


# -- step 3 ----------------------------------------------------------------------------------------


def test_many_clicks_pay_once(client, table, held):
    """Ten at a time, from as many tabs."""
    client.declare(table)
    client.choose()
    digest, answers = client.digest, []
    threads = [
        threading.Thread(target=lambda: answers.append(client.fit(digest))) for _ in range(10)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [answer.status for answer in answers] == [303] * 10
    page = client.get("/fit").text
    assert "The fit is running" in page
    assert 'name="agreed"' not in page
    held.set()
    assert client.wait() == "done"
    assert spent(client) == 1
    assert client.fit(digest).headers["location"] == "/fit"
    assert spent(client) == 1


def test_a_running_fit_settles_everything(client, table, held):
    client.declare(table)
    client.choose()
    client.fit()
    for answer in (
        client.post("/table", {"path": str(table), "origin": "names"}),
        client.columns(COLUMNS),
        client.post("/epsilon", {"epsilon": "2"}),
    ):
        assert answer.status == 422
        assert "settled" in answer.alert
    held.set()
    assert client.wait() == "done"
    assert client.study.choice.facts.epsilon == 1.0


def test_a_plan_that_another_tab_has_changed_is_not_paid_for(client, table):
    client.declare(table)
    client.choose("1")
    stale = client.digest
    client.choose("2")
    answer = client.fit(stale)
    assert "changed in another tab" in answer.alert
    assert client.study.fit is None
    assert spent(client) == 0


def test_a_fit_over_budget_is_refused(client, table, odometer):
    client.declare(table)
    client.choose("2.5")
    digest = client.digest
    odometer.spend(client.study.choice.planned.releases(), label="elsewhere")
    page = client.get("/fit").text
    assert "does not allow this fit" in page
    assert 'name="digest"' not in page
    answer = client.fit(digest)
    assert answer.status == 422
    assert "Nothing was recorded or released" in answer.alert
    assert client.study.fit is None
    assert spent(client) == 1


def test_a_fit_has_to_be_confirmed(client, table):
    client.declare(table)
    client.choose()
    assert "nothing was spent" in client.post("/fit", {"digest": client.digest}).alert
    assert client.study.fit is None


def test_a_table_that_has_changed_stops_the_fit_before_it_pays(client, table):
    client.declare(table)
    client.choose()
    digest = client.digest
    table.write_text("".join(table.read_text().splitlines(keepends=True)[:200]))
    client.fit(digest)
    assert client.wait() == "failed"
    page = client.get("/fit").text
    assert "has changed since the plan was made" in page
    assert "Nothing was spent." in page
    assert spent(client) == 0
    client.declare(table)  # so it may be tried again


def full_disk(monkeypatch, *names):
    """Let writing to files of these names fail as on a full disk."""
    before = disk.write

    def write(handle, content):
        import os

        target = os.readlink(f"/proc/self/fd/{handle}")
        if any(f".{name}." in target for name in names):
            raise OSError(28, "No space left on device")
        before(handle, content)

    monkeypatch.setattr("dpsco.files.writing.write", write)


@pytest.mark.parametrize(
    ("name", "path", "fields"),
    [
        ("schema.json", "/columns", COLUMNS),
        ("plan.json", "/epsilon", {"epsilon": "1"}),
    ],
)
def test_a_full_disk_before_the_fit_is_a_sentence(client, table, monkeypatch, name, path, fields):
    client.declare(table)
    full_disk(monkeypatch, name)
    answer = client.post(path, {"version": client.study.version, **fields})
    assert answer.status == 422
    assert "No space left on device" in answer.alert
    assert spent(client) == 0


def test_a_full_disk_when_the_fit_begins_spends_nothing(client, table, monkeypatch):
    client.declare(table)
    client.choose()
    digest = client.digest
    full_disk(monkeypatch, "run.json")
    client.fit(digest)
    assert client.wait() == "failed"
    assert "No space left on device" in client.get("/fit").text
    assert "Nothing was spent." in client.get("/fit").text
    assert spent(client) == 0


def test_a_full_disk_after_the_fit_loses_nothing(client, table, monkeypatch, quick_report):
    client.declare(table)
    client.choose()
    digest = client.digest
    with monkeypatch.context() as patch:
        full_disk(patch, "model.json")
        client.fit(digest)
        assert client.wait() == "done"
        page = client.get("/report").text
        assert "No space left on device" in page
        assert not (client.study.folder / "model.json").exists()
        model = client.get("/files/model.json").text
    assert client.post("/report/write").status == 303
    assert (client.study.folder / "model.json").read_text() == model
    assert "could not be written" not in client.get("/report").text
    assert spent(client) == 1


def test_an_error_that_quotes_rows_is_not_shown(client, table, monkeypatch):
    def quoting(*args, **how):
        raise RuntimeError(WORD)

    client.declare(table)
    client.choose()
    digest = client.digest
    monkeypatch.setattr(ModelPlan, "run", quoting)
    client.fit(digest)
    assert client.wait() == "failed"
    page = client.get("/fit").text
    assert "RuntimeError" in page
    assert WORD not in page
    monkeypatch.setattr(Odometer, "totals", quoting)
    answer = client.get("/odometer")
    assert answer.status == 500
    assert WORD not in answer.text


# -- step 4 ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_names_are_printed_in_the_report(client, table, study):
    """The model's file and its digest stay; what was said is there after a restart, too."""
    client.declare(table)
    client.choose()
    client.fit(purpose="plan beds")
    assert client.wait() == "done"
    model = (study.folder / "model.json").read_bytes()
    said = {"owner": "the <clinic>", "approver": "B. Jones", "limits": "no\r\ntriage"}
    assert client.post("/report/sign", said).headers["location"] == "/report#sign"
    report = (study.folder / "report.html").read_text()
    for text in ("the &lt;clinic&gt;", "B. Jones", "plan beds", "entry 1 of 1"):
        assert text in report
    assert client.get("/report/page").text == report
    assert 'value="B. Jones"' in client.get("/report").text
    assert (study.folder / "model.json").read_bytes() == model
    study.close()
    again = Study(study.folder, study.odometer)
    assert 'value="B. Jones"' in Client(again, client.keys).get("/report").text
    again.close()
    answer = client.post("/report/sign", {"owner": "x" * 3000})
    assert "at most 2,000 letters" in answer.alert


def test_sources_stand_in_the_schema(client, table, study):
    client.declare(table)
    columns = json.loads((study.folder / "schema.json").read_text())["columns"]
    assert columns[0]["source"] == "the form has two digits"
    assert "source" not in columns[1]


# -- what outlives the process ---------------------------------------------------------------------


def test_a_fit_that_was_paid_and_lost_is_not_run_again(client, table, study, odometer, monkeypatch):
    """The process dies after the payment: its folder says so, and pays for nothing more."""

    def dying(self, table, *, odometer, **how):
        odometer.spend(self.releases())
        raise SystemExit  # ends the thread as a crash ends the process

    client.declare(table)
    client.choose()
    digest = client.digest
    with monkeypatch.context() as patch:
        patch.setattr(ModelPlan, "run", dying)
        patch.setattr(threading, "excepthook", lambda *_: None)
        client.fit(digest)
        study.fit.join()
    study.close()
    again = Study(study.folder, odometer)
    assert again.broken
    other = Client(again, client.keys)
    assert "not run again" in other.get("/fit").text
    assert "not run again" in other.fit(digest).alert
    assert "settled" in other.post("/table", {"path": str(table), "origin": "names"}).alert
    assert spent(other) == 1
    again.close()
    elsewhere = Odometer(odometer.path.with_name("other.odometer"), odometer.budget)
    with pytest.raises(DataError, match="another odometer"):
        Study(study.folder, elsewhere)


def test_a_note_of_a_fit_that_was_not_paid_for_is_forgotten(study, odometer):
    study.close()
    note = {"schema": "dpsco.ui-run/1", "run": "x", "odometer": odometer.identity}
    (study.folder / "run.json").write_text(json.dumps(note))
    again = Study(study.folder, odometer)
    assert not again.broken
    assert not (study.folder / "run.json").exists()
    again.close()


def test_a_folder_with_a_model_shows_its_report(client, table, study, odometer, quick_report):
    client.declare(table)
    client.choose()
    client.fit()
    assert client.wait() == "done"
    study.close()
    again = Study(study.folder, odometer)
    other = Client(again, client.keys)
    assert other.get("/").headers["location"] == "/report"
    assert other.get("/files/model.json").text == (study.folder / "model.json").read_text()
    assert "settled" in other.fit("x").alert
    again.close()


@pytest.mark.parametrize("name", ["schema.json", "plan.json", "report.html", "model.json"])
def test_files_of_ones_own_are_not_replaced(odometer, tmp_path, name):
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / name).write_text("mine")
    with pytest.raises(DataError, match=f"would replace: {name}"):
        Study(folder, odometer)
    assert [path.name for path in folder.iterdir()] == [name]
    (folder / name).unlink()
    Study(folder, odometer).close()
    (folder / "schema.json").write_text("of the page")  # which has used the folder by now
    Study(folder, odometer).close()


@pytest.mark.parametrize("field", ["path", "other"])
def test_a_home_of_nobody_is_no_path(client, table, field):
    fields = {"path": str(table), "origin": "schema", "other": "~nobody-of-this-name/schema.json"}
    answer = client.post("/table", {**fields, field: "~nobody-of-this-name/rows.csv"})
    assert answer.status == 422
    assert "~nobody-of-this-name" in answer.alert


def test_a_folder_has_one_page_at_a_time(study, odometer):
    with pytest.raises(DataError, match="another dpsco ui uses the folder"):
        Study(study.folder, odometer)


def test_one_payer_pays_once(odometer, tmp_path, client, table):
    client.declare(table)
    releases = client.study.preview(Facts(1.0)).planned.releases()
    payer = fitting.SinglePayer(odometer, "a-run", tmp_path)
    payer.spend(releases)
    twin = fitting.SinglePayer(odometer, "a-run", tmp_path)  # of another process
    for each in (payer, twin):
        with pytest.raises(dp.errors.BudgetError, match="paid for already"):
            each.spend(releases)
    assert len(odometer.entries()) == 1


def test_an_odometer_that_cannot_be_used_spends_nothing(client, table, monkeypatch):
    def full(self, *args, **how):
        raise OdometerError("cannot use the odometer: database or disk is full.")

    client.declare(table)
    client.choose()
    digest = client.digest
    monkeypatch.setattr(Odometer, "spend", full)
    client.fit(digest)
    assert client.wait() == "failed"
    assert "disk is full. Nothing was spent." in client.get("/fit").text
    assert client.study.fit.is_over
