"""Results in a notebook: each public one has a line, a fragment and a figure; nothing gets out."""

import dataclasses
import inspect
import re
import typing
from functools import cache

import numpy as np
import pytest

import dpsco as dp
from dpsco._display import Displayed
from dpsco.errors import MissingExtraError
from dpsco.report import notebook, plots
from dpsco.report.fragments import STYLE

from .conftest import FREE, Page, solved

EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\" onload='x' \u202e\x00 {{ 7*7 }}"
TASK = dp.Task(FREE, n=5000, d=4, budget=dp.ApproxDP(1.0, 1e-8))
RNG = np.random.default_rng(0)
X, Y = RNG.uniform(-0.4, 0.4, (600, 3)), RNG.choice(["no", "yes"], 600)


@cache
def odometer(folder):
    total = dp.Odometer(f"{folder}/{'<b>x'}.odometer", dp.ApproxDP(4.0, 1e-6))
    for label in (EVIL, "second"):
        total.spend(solved("noisy_gd").certificate.releases, label=label)
    return total


@cache
def fitted():
    return dp.PrivateLogisticRegression(feature_norm=1.0, classes=["no", "yes"]).fit(X, Y)


CASES = {
    "BasePlan": lambda folder: dp.plan(TASK, solver="noisy_gd"),
    "Recommendation": lambda folder: dp.recommend(TASK),
    "Outlook": lambda folder: dp.outlook(TASK),
    "Forecast": lambda folder: dp.forecast(TASK, rounds=[4, 16]),
    "Tradeoff": lambda folder: dp.tradeoff(TASK, (0.3, 1.0)),
    "Certificate": lambda folder: solved("noisy_gd").certificate,
    "Verification": lambda folder: solved("noisy_gd").certificate.verify(),
    "Result": lambda folder: solved("noisy_gd"),
    "Odometer": odometer,
    "SavedModel": lambda folder: dp.models.SavedModel(
        fitted().model_, fitted().certificate_, fitted().plan_, None, ("a", EVIL, "$c_1$")
    ),
    "Weights": lambda folder: fitted().named_weights(),
    "estimator": lambda folder: fitted(),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("odometer")


@pytest.fixture(params=sorted(CASES))
def shown(request, folder):
    return CASES[request.param](folder)


def results():
    """Return every class that a public function or class of `dpsco` hands out."""
    found = set()
    for name in dp.__all__:
        item = getattr(dp, name)
        if inspect.isfunction(item):
            found |= handed_out(item)
        elif inspect.isclass(item) and not issubclass(item, Displayed):
            continue
        elif inspect.isclass(item):
            found.add(item)
            for _, method in inspect.getmembers(item, inspect.isfunction):
                found |= handed_out(method)
    return {each for each in found if each.__module__.startswith("dpsco")}


def handed_out(function):
    """Return the class that a function says it returns, if it is one of a result."""
    try:
        kind = typing.get_type_hints(function).get("return")
    except NameError:
        return set()
    large = inspect.isclass(kind) and dataclasses.is_dataclass(kind)
    return {kind} if large else set()


SMALL = {"Entry", "Expected", "Cost", "TradeoffPoint", "Candidate"}
"""Parts of results that are shown within them, and records of two or three numbers."""


def test_every_public_result_shows_itself():
    """Whoever adds a public function that returns a new class of results is told here."""
    names = {each.__name__ for each in results()} - SMALL
    assert names >= {"BasePlan", "Certificate", "Outlook", "Recommendation", "Result", "Tradeoff"}
    assert names <= set(CASES)
    for each in results():
        assert issubclass(each, Displayed) or each.__name__ in SMALL, each


def test_a_result_without_a_face_is_noticed():
    @dataclasses.dataclass
    class Bare:
        value: float

    def function() -> Bare:
        return Bare(1.0)

    function.__annotations__["return"] = Bare
    assert handed_out(function) == {Bare}
    assert not issubclass(Bare, Displayed)


def test_every_kind_has_its_renderers():
    kinds = {each.shown_as for each in Displayed.__subclasses__()} | {"estimator"}
    assert kinds == set(notebook.RENDERERS) == set(plots.RENDERERS)


def test_a_line_is_short_and_no_dump(shown):
    line = repr(shown)
    assert len(line) < 400
    assert "\n" not in line
    assert not re.search(r"array\(|\d\.\d{9}|Release\(|Problem\(", line)
    assert line.startswith(("<", "Private"))


def test_plans_of_solvers_have_the_line_too():
    for key in ("noisy_gd", "phased_sgd"):
        plan = solved(key).plan
        assert repr(plan).startswith(f"<Plan: {key} on 600 rows of 4 features")
        assert dataclasses.replace(plan) == plan  # it is still a dataclass


def test_a_fragment_is_whole_and_stands_alone(shown):
    text = shown._repr_html_()
    found = Page(text)
    assert not found.open
    assert not found.all("script", "iframe", "object", "embed", "img", "form", "base", "link")
    assert not re.search(r"https?:|url\(|@import|javascript:", text)
    assert not [name for _, each in found.tags for name in each if name.startswith("on")]
    assert not [each for _, each in found.tags if "style" in each]
    assert STYLE in text
    assert text.count("<style") == 1  # and that one speaks of the fragment alone
    assert "prefers-color-scheme:dark" in text
    assert not re.search(r"\d\.\d{7}", found.text)  # no raw float


def test_the_style_stays_within_the_fragment():
    rules = re.sub(r"@media[^{]*\{(.*?\})\}", r"\1", STYLE)
    selectors = [each for rule in re.findall(r"([^{}]+)\{", rules) for each in rule.split(",")]
    assert len(selectors) > 30
    assert all(each.strip().startswith(".dpsco-card") for each in selectors)


def test_charts_have_names_of_their_own(shown):
    other = dp.recommend(TASK)._repr_html_()
    identifiers = re.findall(r' id="([^"]+)"', shown._repr_html_())
    assert len(identifiers) == len(set(identifiers))
    if not isinstance(shown, type(dp.recommend(TASK))):
        assert not set(identifiers) & set(re.findall(r' id="([^"]+)"', other))
    for each in re.findall(r'aria-labelledby="([^"]+)"', shown._repr_html_()):
        assert set(each.split()) <= set(identifiers)


def test_hostile_names_are_text(folder):
    for name in ("Odometer", "SavedModel"):
        text = CASES[name](folder)._repr_html_()
        assert not Page(text).all("script", "img")
        assert "<b>x" not in text
        assert "&lt;script&gt;alert(1)" in text
        assert "<script" not in text
        assert "\u202e" not in text
        assert "\x00" not in text
        assert not Page(text).open


def test_a_damaged_odometer_says_so(tmp_path):
    total = dp.Odometer(tmp_path / "o", dp.ApproxDP(1.0, 1e-6))
    assert "epsilon spent" in Page(total._repr_html_()).text
    (tmp_path / "o").write_bytes(b"")
    assert "emptied or cut" in Page(total._repr_html_()).text
    assert repr(total).startswith("<Odometer: ")  # reads nothing


def test_a_forged_certificate_is_shown_without_odds():
    from dpsco.privacy.mechanisms import GaussianRelease

    true = solved("noisy_gd").certificate
    forged = dataclasses.replace(
        true, releases=(GaussianRelease(1e145, 1.0, rows=(0, 5)),), enforced=(EVIL,)
    )
    unit = dp.Unit(2, EVIL)
    named = dataclasses.replace(true, budget=dataclasses.replace(true.budget, unit=unit))
    assert "\u202e" not in repr(named)
    assert "<script" not in named._repr_html_()
    text = forged._repr_html_()
    assert "no finite cost" in Page(text).text
    assert "<script" not in text
    assert "NOT VALID" in Page(forged.verify()._repr_html_()).text


def test_nothing_of_a_row_is_shown(folder):
    canary = 0.123456789
    rows = np.full((600, 3), canary)
    model = dp.PrivateSVC(feature_norm=1.0, classes=["no", "yes"]).fit(rows, Y)
    for text in (repr(model), model._repr_html_()):
        assert "0.1234" not in text


def test_the_budget_is_always_shown():
    for each in (dp.PrivateMean(), dp.PrivateSVC(classes=[0, 1], epsilon=0.25), fitted()):
        assert "epsilon=" in repr(each)
        assert "epsilon" in Page(each._repr_html_()).text
    assert repr(dp.PrivateMean()) == "PrivateMean(epsilon=1.0)"
    assert repr(dp.PrivateMean(epsilon=2.0)) == "PrivateMean(epsilon=2.0)"


def test_scikit_learns_setting_is_heeded():
    from sklearn import config_context

    assert "text/html" in fitted()._repr_mimebundle_()
    assert fitted()._repr_mimebundle_()["text/html"] == fitted()._repr_html_()
    with config_context(display="text"):
        assert not hasattr(fitted(), "_repr_html_")
        assert list(fitted()._repr_mimebundle_()) == ["text/plain"]


def test_weights_of_an_estimator_by_name():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["age", "dose", "x"])
    model = dp.PrivateLogisticRegression(feature_norm=1.0, classes=["no", "yes"]).fit(frame, Y)
    items = model.named_weights().items
    assert {each.column: each.value for each in items} == dict(
        zip(frame.columns, model.coef_[0], strict=True)
    )
    assert [abs(each.value) for each in items] == sorted(
        (abs(w.value) for w in items), reverse=True
    )
    assert "dose" in Page(model._repr_html_()).text


@pytest.fixture
def axes():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    yield pyplot.subplots()[1]
    pyplot.close("all")


def test_a_figure_has_something_in_it(shown, axes):
    assert shown.plot(axes) is axes
    axes.figure.canvas.draw()
    assert axes.lines or axes.patches or axes.collections
    assert axes.get_title()


def test_a_figure_makes_its_own_axes(axes):
    assert dp.outlook(TASK).plot() is not axes


def test_matplotlib_is_optional(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "matplotlib.pyplot", raising=False)
    with pytest.raises(MissingExtraError, match=r"dpsco\[plot\]"):
        dp.outlook(TASK).plot()


def test_importing_dpsco_draws_nothing():
    import subprocess
    import sys

    program = (
        "import sys, dpsco; from dpsco.privacy import Certificate; "
        "assert 'dpsco.report' not in sys.modules and 'matplotlib' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
