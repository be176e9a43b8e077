"""The site's own extension: every public name and every solver has a page, or the build fails.

The whole site is built apart from the tests (`make docs`); here the gate is shown to close.
"""

import ast
import importlib
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("sphinx", reason="the site needs the extra 'docs'")

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLES = sorted((DOCS / "gallery").glob("*.py"))


@pytest.fixture
def api(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS / "_ext"))
    return importlib.import_module("dpsco_api")


@pytest.fixture
def site(api):
    return importlib.import_module("dpsco_docs")


PLANTED = '''"""A package for the gate."""
__all__ = [
    # things to use
    "known",
    "ModelSpec",
]


def known():
    """Return nothing."""


class ModelSpec:
    """A class * with a star."""
'''


@pytest.fixture
def planted(tmp_path, monkeypatch):
    """A package with two documented names, as a module that can be imported."""
    (tmp_path / "planted_package.py").write_text(PLANTED, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("planted_package")
    sys.modules.pop("planted_package")


def described(folder):
    """Return the names that the written pages describe."""
    text = "\n".join(page.read_text(encoding="utf-8") for page in folder.glob("*.rst"))
    return set(re.findall(r"^\.\. (?:auto\w+|py:module):: (\S+)", text, flags=re.MULTILINE))


def test_every_public_name_gets_a_page(api, site, tmp_path):
    pages = api.write(tmp_path / "api", api.PACKAGES, site.introduction)
    found = list(api.entries())
    assert {"dpsco.plan", "dpsco.losses.Logistic", "dpsco.ApproxDP"} <= {e.path for e in found}
    assert api.missing(found, described(tmp_path / "api")) == []
    listed = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    for entry in found:
        assert f"`{entry.name} <" in listed


def test_every_page_of_the_reference_is_in_a_table_of_contents(api, site, tmp_path):
    pages = api.write(tmp_path / "api", api.PACKAGES, site.introduction)
    trees = "\n".join(page.read_text(encoding="utf-8").split("toctree::")[-1] for page in pages)
    linked = set(re.findall(r"^   (?:\S+ <)?([\w.-]+)>?$", trees, flags=re.MULTILINE))
    assert {page.stem for page in pages} - linked == {"index"}


def test_pages_differ_by_more_than_case(api, site, tmp_path):
    pages = api.write(tmp_path / "api", api.PACKAGES, site.introduction)
    assert {"dpsco.privacy.cost", "dpsco.privacy.Cost-"} <= {page.stem for page in pages}
    assert len({page.stem.lower() for page in pages}) == len(pages)


def test_pages_that_nobody_needs_any_more_are_removed(api, site, tmp_path):
    (tmp_path / "dpsco.Old.rst").write_text("Old", encoding="utf-8")
    api.write(tmp_path, ("dpsco.errors",), site.introduction)
    assert not (tmp_path / "dpsco.Old.rst").exists()
    assert (tmp_path / "dpsco.errors.DataError.rst").exists()


def test_a_name_without_page_or_words_is_found(api, planted):
    found = list(api.entries(["planted_package"]))
    assert [(entry.group, entry.name) for entry in found] == [
        ("things to use", "known"),
        ("things to use", "ModelSpec"),
    ]
    every = {"planted_package.known", "planted_package.ModelSpec"}
    assert api.missing(found, every) == []
    assert api.missing(found, every - {"planted_package.ModelSpec"}) == [
        "planted_package.ModelSpec has no page"
    ]
    planted.known.__doc__ = None
    assert api.missing(found, every) == ["planted_package.known has no docstring"]


def test_a_name_that_is_explained_elsewhere_needs_no_page_of_its_own(api):
    found = list(api.entries(["dpsco.privacy", "dpsco"]))
    home = api.homes(found)
    assert home["dpsco.ApproxDP"] == "dpsco.privacy.ApproxDP"
    assert home["dpsco.domains"] == "dpsco.geometry.domains"
    assert home["dpsco.plan"] == "dpsco.plan"
    problems = api.missing(found, set(home.values()) - {"dpsco.privacy.ApproxDP"})
    assert problems == ["dpsco.privacy.ApproxDP has no page", "dpsco.ApproxDP has no page"]


def test_a_new_package_must_be_listed(api, monkeypatch):
    assert api.unlisted() == []
    rest = tuple(name for name in api.PACKAGES if name != "dpsco.losses")
    monkeypatch.setattr(api, "PACKAGES", rest)
    assert api.unlisted() == ["dpsco.losses"]


def test_names_made_in_another_way_are_listed_all_the_same(api):
    module = ModuleType("made")
    module.__all__ = ["a", "b"]
    module.__file__ = __file__
    sys.modules["made"] = module
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(api.inspect, "getsource", lambda _: '__all__ = [\n    "a",\n]\n')
            assert api.grouped(module) == [("", ["a", "b"])]
    finally:
        del sys.modules["made"]


def test_solvers_and_pages_match(site, tmp_path):
    from dpsco.solvers import registry

    assert site.solver_problems(registry(), DOCS / "solvers") == []
    folder = tmp_path / "solvers"
    folder.mkdir()
    (folder / "one.md").write_text("# one\n", encoding="utf-8")
    (folder / "two.md").write_text("# Two\n", encoding="utf-8")
    assert site.solver_problems(["one", "two", "three"], folder) == [
        "solvers/two.md must begin with '# two'",
        "the solver three has no page solvers/three.md",
    ]
    assert site.solver_problems(["two"], folder)[0] == "solvers/one.md is no solver's page"


def test_headers_are_read_in_parts(site):
    from dpsco.solvers import family, registry

    text = "Title.\n\nPaper      A 2020,\n           Thm 1.\nRate       x  y.\nOther      z.\n"
    text += "\nRead `a`, then `b`.\n"
    assert site.header(text) == {"Paper": "A 2020, Thm 1.", "Rate": "x  y. Other      z."}
    for key in registry():
        assert tuple(site.header(family(key).__doc__)) == site.HEADER


def test_headers_are_shown_as_in_print(site):
    text = "`mu_x` E[F(w) - F*] <= R^2/(2 h) + sqrt(d) sigma_1 n^(-1/2); noisy_gd -> mu-GDP"
    parts = site.symbols(text)
    assert "".join(part.astext() for part in parts) == (
        "mu_x E[F(w) - F*] ≤ R2/(2 h) + √(d) σ1 n-1/2; noisy_gd → μ-GDP"
    )
    kinds = [part.tagname for part in parts if part.tagname != "#text"]
    assert kinds == ["literal", "superscript", "subscript", "superscript"]


def test_every_command_has_its_help_on_the_site(site):
    from dpsco.cli import parser

    text = site.command_reference()
    names = re.findall(r"^### dpsco (.+)$", text, flags=re.MULTILINE)
    chosen = next(action for action in parser()._actions if action.dest == "command")
    assert {name.split()[0] for name in names} == set(chosen.choices)
    assert {"fit", "schema draft", "schema check"} <= set(names)
    assert text.count("usage: dpsco ") >= len(names)


@pytest.mark.parametrize(
    ("prose", "rst"),
    [
        ("a * b and |x|", r"a \* b and \|x\|"),
        ("`ModelSpec`, ``a * b``, a*", r"`ModelSpec`, ``a * b``, a\*"),
        ("coef_, a_b and x_.", r"coef\_, a_b and x\_."),
        ("`x_` and x_", r"`x_` and x\_"),
    ],
)
def test_prose_means_itself(api, prose, rst):
    assert api.literal(prose) == rst


def test_entries_of_numpydoc_keep_their_names(site):
    lines = ["coef_ : ndarray of shape (1, n)", "    The weights_ of it.", ">>> coef_ : int"]
    site.as_rst(None, "class", "name", None, None, lines)
    assert lines == [
        "coef_ : ndarray of shape (1, n)",
        "    The weights\\_ of it.",
        ">>> coef_ : int",
    ]


def test_links_to_the_project_lead_to_its_copies(site):
    text = "[a](../SECURITY.md#what) [b](data.md)"
    assert site._moved(text, "../", "project/") == "[a](project/security.md#what) [b](data.md)"


def test_tables_lead_to_the_reference(site):
    table = "| `PrivateSVC` | `PrivateMean` |\n| `Other()` | x |\n"
    assert site.linked(table, "dpsco.estimators") == (
        "| {py:obj}`PrivateSVC <dpsco.estimators.PrivateSVC>` | `PrivateMean` |\n"
        "| `Other()` | x |\n"
    )
    for page, package in site.LINKED.items():
        text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
        assert site.linked(text, package).count("{py:obj}`") >= 9


@pytest.fixture
def small_site(site, tmp_path, planted):
    """Return a function that builds a site of one package and stubs of the solvers' pages."""
    from sphinx.application import Sphinx

    from dpsco.solvers import registry

    source = tmp_path / "source"
    (source / "solvers").mkdir(parents=True)
    (source / "index.rst").write_text("Small\n=====\n", encoding="utf-8")
    for key in registry():
        (source / "solvers" / f"{key}.md").write_text(f"# {key}\n\nText.\n", encoding="utf-8")

    def build():
        extensions = ["myst_parser", "sphinx.ext.autodoc", "dpsco_docs"]
        settings = {"extensions": extensions, "dpsco_packages": ["planted_package"]}
        folders = (source, None, tmp_path / "out", tmp_path / "trees", "dummy")
        app = Sphinx(*folders, confoverrides=settings, status=None, warning=None, freshenv=True)
        app.build()
        return app

    return build


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")  # Sphinx's and its extensions' own
def test_the_build_fails_with_a_gap(site, api, small_site, tmp_path, planted, monkeypatch):
    from sphinx.errors import ExtensionError

    app = small_site()
    head = app.env.get_doctree("solvers/noisy_gd").astext()
    assert "Full-batch gradient descent" in head
    assert "μ-GDP with μ = √(rounds / batches)" in head
    assert "momentum" in head
    assert "planted_package.ModelSpec" in app.env.get_domain("py").objects

    write = api._name_page
    monkeypatch.setattr(
        api, "_name_page", lambda e: "ModelSpec\n====\n" if e.name == "ModelSpec" else write(e)
    )
    with pytest.raises(ExtensionError, match=r"planted_package\.ModelSpec has no page"):
        small_site()
    monkeypatch.undo()
    monkeypatch.syspath_prepend(str(DOCS / "_ext"))
    (tmp_path / "source" / "solvers" / "dp_ftrl.md").unlink()
    with pytest.raises(ExtensionError, match="the solver dp_ftrl has no page"):
        small_site()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_gallery_examples_stand_alone(path):
    """They have a title, draw something, name no file of one machine, and use no seeded noise."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    title, rule = ast.get_docstring(tree).splitlines()[:2]
    assert path.stem.startswith("plot_")
    assert set(rule) == {"="}
    assert len(rule) == len(title)
    assert "plt.show()" in text
    assert not re.search(r"[\"'(]/\w|https?://|urlopen|seeded\(", text)
    assert "random_state=0)" not in re.sub(r"(train_test_split|sample)\(.*?\)", "", text)


def test_the_gallery_has_what_was_promised():
    stems = " ".join(path.stem for path in EXAMPLES)
    for topic in ("tutorial", "adult", "heavy_tails", "house_prices", "few_rounds", "solvers"):
        assert topic in stems


DRAWINGS = ("pipeline", "clipping", "worlds", "attack", "solver_map", "federated")
DRAWINGS += ("few_rounds", "geometry", "odometer", "one_round", "tradeoff")


@pytest.fixture
def draw(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(DOCS / "figures"))
    module = importlib.import_module("draw")
    monkeypatch.setattr(module.svg, "HERE", tmp_path)
    return module


def test_drawings_are_those_that_the_script_draws(draw, tmp_path):
    """All but the measured one, which takes a minute; numbers in them come from the package."""
    assert set(DRAWINGS) | {"accuracy"} == set(draw.DRAWINGS)
    draw.main(DRAWINGS)
    for name in DRAWINGS:
        text = (DOCS / "figures" / f"{name}.svg").read_text(encoding="utf-8")
        assert (tmp_path / f"{name}.svg").read_text(encoding="utf-8") == text, name


def test_drawings_take_the_colours_of_the_page(draw):
    """By the style sheet on the site, light and dark; by the drawing itself elsewhere."""
    style = (DOCS / "_static" / "dpsco.css").read_text(encoding="utf-8")
    for name, (light, dark) in draw.svg.COLOURS.items():
        assert f"--fig-{name}: {light};" in style
        assert f"--fig-{name}: {dark};" in style
    for path in (DOCS / "figures").glob("*.svg"):
        text = path.read_text(encoding="utf-8")
        assert "prefers-color-scheme" in text
        assert "<title" in text
        assert not re.search(r'="#[0-9a-f]{3,6}"', text), f"{path.name}: a colour of its own"


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.stem)
def test_pictures_are_described(page):
    text = page.read_text(encoding="utf-8")
    for alt, file in re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", text):
        assert len(alt) > 20, file
        assert (DOCS / file).is_file()
