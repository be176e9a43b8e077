"""What an editor shows: parameters, types and docstrings, from the source alone.

jedi reads the files and never imports them. It is what Jupyter and many editors complete with.
"""

import inspect
import subprocess
import sys
from pathlib import Path

import jedi
import pytest

import dpsco as dp
from dpsco import estimators

SOURCE = Path(dp.__file__).parents[1]
NAMED = pytest.mark.parametrize("name", estimators.__all__)


@pytest.fixture(scope="module")
def editor():
    project = jedi.Project(SOURCE, added_sys_path=[str(SOURCE)])

    def script(*lines):
        return jedi.Script("\n".join(["import dpsco as dp", *lines]), project=project)

    return script


@pytest.mark.thorough
def test_nothing_has_to_run():
    """The names come from the source: reading them imports no part of dpsco."""
    program = f"""
import sys
import jedi
project = jedi.Project({str(SOURCE)!r}, added_sys_path=[{str(SOURCE)!r}])
script = jedi.Script("import dpsco as dp\\ndp.PrivateSVC(", project=project)
print(script.get_signatures()[0].name, "dpsco" in sys.modules)
"""
    shown = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert shown.stdout.split() == ["PrivateSVC", "False"]


@pytest.mark.thorough
@NAMED
def test_parameters_with_types_and_defaults(editor, name):
    (signature,) = editor(f"dp.{name}(").get_signatures()
    real = list(inspect.signature(getattr(dp, name)).parameters.values())
    assert [shown.name for shown in signature.params] == [parameter.name for parameter in real]
    for shown, parameter in zip(signature.params, real, strict=True):
        text = shown.to_string()
        annotation, _, default = text.partition(": ")[2].partition("=")
        assert annotation.replace('"', "'") == parameter.annotation.replace('"', "'"), text
        if parameter.default is not parameter.empty:
            assert default.replace('"', "'") == repr(parameter.default), text


@NAMED
def test_docstrings(editor, name):
    (signature,) = editor(f"dp.{name}(").get_signatures()
    written = inspect.cleandoc(getattr(dp, name).__doc__)
    assert signature.docstring().endswith(written.rstrip())
    assert "Parameters\n----------" in written
    assert "Attributes\n----------" in written
    assert "Examples\n--------" in written


@pytest.mark.thorough
@NAMED
def test_fit_returns_the_estimator_itself(editor, name):
    (model,) = editor(f"model = dp.{name}().fit(X, y)", "model").infer()
    assert model.name == name
    (signature,) = editor(f"dp.{name}().fit(").get_signatures()
    assert signature.docstring(raw=True) == inspect.getdoc(getattr(dp, name).fit)


@pytest.mark.thorough
@NAMED
def test_attributes_and_methods_are_completed(editor, name):
    shown = {word.name for word in editor(f"dp.{name}().fit(X, y).").complete()}
    kind = getattr(dp, name)
    public = {word for word in dir(kind) if not word.startswith(("_", "set_"))}
    annotated = {word for base in kind.__mro__ for word in vars(base).get("__annotations__", {})}
    assert public | {word for word in annotated if not word.startswith("_")} <= shown


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("dp.PrivateSVC().fit(X, y).coef_", "ndarray"),
        ("dp.PrivateSVR().fit(X, y).predict(X)", "ndarray"),
        ("dp.PrivateSVR().fit(X, y).certificate_", "Certificate"),
        ("dp.PrivateMean().fit(X).mean_", "ndarray"),
        ("dp.PrivateLogisticRegression().fit(X, y).predict_proba(X)", "ndarray"),
        ("dp.PrivateLogisticRegression().rows_counted_", "RowCount"),
        ("dp.PrivateGridSearch(model, grid).fit(X, y).certificate_", "Certificate"),
        ("dp.PrivateHuberRegressor().score(X, y)", "float"),
    ],
)
def test_types_of_what_is_fitted(editor, expression, kind):
    assert kind in {shown.name for shown in editor(f"result = {expression}", "result").infer()}
