"""What was declared: every kind of column, label and bound, in words that a signer can check."""

import numpy as np
import pytest

import dpsco as dp
from dpsco import report
from dpsco.data.schema.schema import (
    Category,
    ClassLabel,
    Flag,
    Hashed,
    Ignore,
    Number,
    NumberLabel,
    Schema,
    SignLabel,
)
from dpsco.models import LinearModel, SavedModel
from dpsco.report.assumptions import MOST_COLUMNS, declared, minimised

from .conftest import Page, solved
from .test_page import EVIL, section

COLUMNS = (
    Number("age", 0, 120),
    Number("income", -5, 1e6, missing="indicator"),
    Number("height", 50, 250, missing=170),
    Category("work", ("office", "farm"), other=True),
    Category("code", tuple(range(20))),
    Hashed("town", 4096),
    Flag("owner"),
    Ignore("id"),
    Ignore(""),
)
CERTIFICATE = solved("noisy_gd").certificate


def rows(*columns, label=None):
    return declared(Schema(columns or COLUMNS, label), None, CERTIFICATE)


def test_every_kind_of_column():
    assert [each[:3] for each in rows()["columns"]] == [
        ("age", "0 to 120", "clipped; missing: the middle"),
        ("income", "-5 to 1,000,000", "clipped; missing: a column of its own"),
        ("height", "50 to 250", "clipped; missing: 170"),
        ("work", "one of 2: office, farm", "a category of its own"),
        (
            "code",
            "one of 20: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, ...",
            "counts as missing",
        ),
        ("town", "anything, hashed into 4,096 columns", "missing: none of them"),
        ("owner", "yes or no", "counts as missing"),
    ]
    assert rows()["unread"] == "id, (no name)"


@pytest.mark.parametrize(
    ("label", "shown"),
    [
        (None, None),
        (SignLabel("y"), ("y", "-1 or 1", "left out")),
        (ClassLabel("y", ("no", "yes")), ("y", "one of 2: no, yes", "left out")),
        (NumberLabel("y", 0, 0.5), ("y", "0 to 0.5", "clipped, or left out if missing")),
    ],
    ids=["none", "sign", "classes", "number"],
)
def test_every_kind_of_label(label, shown):
    assert rows(label=label)["label"] == shown


@pytest.mark.parametrize(
    ("label", "shown"),
    [
        ("sign", "-1 or 1"),
        (2.0, "-2 to 2"),
        ((0.0, 5.0), "0 to 5"),
        (dp.data.Classes("a", "b"), "one of 2: a, b"),
        (dp.data.Scaled(0.0, 500.0), "0 to 500"),
    ],
    ids=str,
)
def test_labels_of_a_plan_without_a_schema(label, shown):
    loss = dp.losses.Logistic() if shown in ("-1 or 1", "one of 2: a, b") else dp.losses.Huber(0.1)
    problem = dp.Problem(loss=loss, bounds=dp.Bounds(1.5, label=label))
    plan = dp.plan(problem, n=900, d=3, budget=dp.ApproxDP(1.0, 1e-6), solver="noisy_gd")
    found = declared(None, plan, CERTIFICATE)
    assert found["label"][:2] == ("", shown)
    assert found["norm"].startswith("at most 1.5 in the l2 norm, else the row is shortened to it")


def test_bounds_that_a_release_may_have_estimated_are_not_called_declared():
    found = solved("noisy_gd")
    assert "estimated" not in declared(None, found.plan, found.certificate)["norm"]
    other = solved("phased_sgd").certificate
    assert "(declared, or estimated by a release" in declared(None, found.plan, other)["norm"]


def test_nothing_is_made_up():
    assert declared(None, None, CERTIFICATE) is None


def page_with(*columns, label):
    model = LinearModel("logistic", np.zeros((1, 4)), np.zeros(1), classes=("no", "yes"))
    found = solved("noisy_gd")
    saved = SavedModel(model, found.certificate, schema=Schema(columns, label))
    return report.render(found.certificate, model=saved)


def test_the_table_is_on_the_page():
    text = section(page_with(*COLUMNS, label=ClassLabel("ill", ("no", "yes"))), "declared")
    assert "Label ill : one of 2: no, yes; otherwise left out." in text
    assert "column may hold otherwise age 0 to 120 clipped; missing: the middle" in text
    assert "Never read id, (no name)" in text
    assert "never from the private rows" in text


@pytest.mark.parametrize("count", [MOST_COLUMNS, MOST_COLUMNS + 1])
def test_many_columns_are_folded(count):
    text = page_with(*(Flag(f"c{k}") for k in range(count)), label=SignLabel("y"))
    folded = f"The {count} columns and what they may hold" in Page(text).text
    assert folded == (count > MOST_COLUMNS)
    assert f"c{count - 1} yes or no" in section(text, "declared")
    assert not Page(text).open


def test_names_of_a_schema_are_escaped():
    columns = Category(EVIL, (EVIL, "b")), Ignore("x" + EVIL)
    text = page_with(*columns, label=ClassLabel("l" + EVIL, (EVIL, "c")))
    assert not Page(text).all("script", "img")
    assert section(text, "declared").count("<script>alert(1)</script>") == 5
    assert "\u202e" not in text


def test_losses_and_penalties_in_words():
    bounds = dp.Bounds(1.0, label=1.0)
    lasso = dp.losses.L1Penalty(0.5)
    found = minimised(dp.Problem(loss=dp.losses.Huber(0.1), bounds=bounds, penalty=lasso))
    assert found == (
        "the mean Huber loss (threshold 0.1), with an l1 penalty of strength 0.5, over all weights"
    )
    ball = dp.domains.L1Ball(2.0, centre=[1.0, 0.0])
    found = minimised(dp.Problem(loss=dp.losses.Squared(), bounds=bounds, domain=ball))
    assert found.endswith("over weights of l1 norm at most 2, measured from a public point")
    net = dp.losses.ElasticNet(0.1, 0.2)
    box = dp.domains.Simplex()
    found = minimised(dp.Problem(loss=dp.losses.Absolute(), bounds=bounds, penalty=net, domain=box))
    assert "the mean absolute error, with the penalty ElasticNet" in found
    assert found.endswith("over weights in the domain Simplex")


def test_every_model_has_words_for_its_loss():
    from dpsco.models import MODELS
    from dpsco.report import text as words

    for kind in MODELS.values():
        for classes in (2, 3) if kind.classifies else (0,):
            assert kind.loss({}, unit=1.0, classes=classes).name in words.LOSSES


def test_units_that_were_found_are_named():
    config = dp.models.configure("logistic", feature_norm=3.0, classes=["a", "b"])
    facts = {"n": 20_000, "d": 4, "budget": dp.ApproxDP(1.0, 1e-9)}
    found = dp.models.plan_model(config, **facts)
    said = declared(None, found.fit, CERTIFICATE)["norm"]
    assert "at most 1 in the l2 norm in units that releases listed here have found" in said
    assert "before that at most 3, as declared" in said
    kept = dp.models.plan_model(config, units="declared", **facts)
    assert "at most 3 in the l2 norm, else" in declared(None, kept.fit, CERTIFICATE)["norm"]


def test_a_range_of_labels_that_was_found_is_not_called_declared():
    config = dp.models.configure("huber", feature_norm=1.0, label_range=(-1, 1))
    facts = {"n": 20_000, "d": 4, "budget": dp.ApproxDP(1.0, 1e-9)}
    plan = dp.models.plan_model(config, missing=("labels",), **facts).fit
    label = ("", "a range that releases listed here have found", "clipped, or left out if missing")
    assert declared(None, plan, CERTIFICATE)["label"] == label
    known = dp.models.plan_model(config, **facts).fit
    assert declared(None, known, CERTIFICATE)["label"] == ("", "-1 to 1", label[2])
