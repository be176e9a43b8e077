"""Every example and command of the documentation works as printed, one page after the other."""

import importlib
import inspect
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS / "_ext"))
code = importlib.import_module("dpsco_blocks")
blocks, commands = code.blocks, code.commands
PAGES = code.pages()  # what is written by hand; the build of the site adds folders of its own
MAX_WORDS = 1_500  # of a page; more is two pages


@pytest.mark.slow
@pytest.mark.parametrize("page", [*filter(code.has_code, PAGES)], ids=lambda page: page.stem)
def test_examples_run(page):
    """Blocks of Python run, and so do lines of a console, in the order of the page.

    What they print is kept for the site, which then need not run them once more.
    """
    outputs = code.run_and_store(page)
    assert code.stored(page) == outputs
    assert any(outputs)


def test_every_block_that_prints_has_an_output():
    """Only blocks that run print anything, and one that prints nothing all the same is refused."""
    for page in PAGES:
        for language, text in blocks(page):
            assert language in code.RUNS or not code.PRINTS.search(text), f"{page.name}: {text}"
    with pytest.raises(RuntimeError, match="prints something and has no output"):
        code.carry_out([("python", "for word in ():\n    print(word)\n")], "page.md")
    with pytest.raises(RuntimeError, match="dpsco verify"):
        code.carry_out([("console", "$ dpsco verify no-such-file.json\n")], "page.md")


def test_outputs_stand_below_their_blocks():
    page = [("python", "a = 1\nprint(a)\n"), ("", "dpsco help\n"), ("python", "a + 1\n")]
    text = "".join(f"```{language}\n{block}```\n" for language, block in page)
    outputs = code.carry_out(page, "page.md")
    assert outputs == [{"text": "1\n"}, {}, {"text": "2\n"}]
    drawn = code.with_outputs(text, [{"html": "<div>\n\n<b>1</b></div>\n"}, {}, {}])
    assert "``````{html-output}\n<div>\n\n<b>1</b></div>\n``````\n" in drawn
    shown = code.with_outputs(text, outputs)
    assert re.findall(r"code-output}\n(.*)\n", shown) == ["1", "2"]
    assert shown.index("print(a)") < shown.index("code-output") < shown.index("dpsco help")


def test_outputs_are_made_anew_when_code_changes(tmp_path, monkeypatch):
    monkeypatch.setattr(code, "STORE", tmp_path / "outputs")
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(1)\n```\n", encoding="utf-8")
    assert code.stored(page) is None
    assert code.run_and_store(page) == code.stored(page) == [{"text": "1\n"}]
    page.write_text("Words.\n\n```python\nprint(1)\n```\n", encoding="utf-8")
    assert code.stored(page) is not None
    page.write_text("```python\nprint(2)\n```\n", encoding="utf-8")
    assert code.stored(page) is None


def words(page):
    """Return how many words a page has outside its code, numbers not counted."""
    prose = code.FENCE.sub("", page.read_text(encoding="utf-8"))
    return sum(bool(re.search(r"[A-Za-z]", word)) for word in prose.split())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pages_are_short(page):
    assert words(page) <= MAX_WORDS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_exist(page):
    """Each command that a page shows has these options; files need not be there."""
    from dpsco.cli import parser

    for language, text in blocks(page):
        if language == "":
            for arguments in commands(text):
                assert parser().parse_args(arguments).command == arguments[0]


def test_commands_are_found_and_wrong_ones_refused():
    from dpsco.cli import parser

    found = commands("dpsco verify a.json  # a comment\nother\ndpsco fit x.csv \\\n  -o m.json\n")
    assert found == [["verify", "a.json"], ["fit", "x.csv", "-o", "m.json"]]
    with pytest.raises(SystemExit):
        parser().parse_args(["verify", "a.json", "--no-such-option"])
    shown = [call for page in PAGES for _, text in blocks(page) for call in commands(text)]
    run = [call for page in PAGES for _, text in blocks(page) for call in commands(text, "$ ")]
    assert {"fit", "verify", "schema", "plan", "odometer"} <= {call[0] for call in shown}
    assert {"fit", "verify", "schema", "plan", "predict", "odometer"} <= {call[0] for call in run}


def links(page):
    """Return the Markdown files that a page links to."""
    found = re.findall(r"\]\(\s*([^)#:\s]+\.md)", page.read_text(encoding="utf-8"))
    return [(page.parent / target).resolve() for target in found]


def test_links_lead_somewhere():
    for page in [ROOT / "README.md", *PAGES]:
        for target in links(page):
            assert target.is_file(), f"{page.name}: {target.name}"


def test_every_page_is_reachable():
    """A reader finds every page by links alone, from the README and from the site's first page."""
    for first in (ROOT / "README.md", DOCS / "index.md"):
        seen, todo = set(), [first]
        while todo:
            page = todo.pop()
            if page not in seen:
                seen.add(page)
                todo += [target for target in links(page) if target.is_file()]
        assert [page.name for page in PAGES if page not in seen and page != DOCS / "index.md"] == []
    assert PAGES


def test_every_solver_has_a_page_and_every_page_a_solver():
    from dpsco.solvers import registry

    pages = {page.stem for page in PAGES if page.parent.name == "solvers"}
    assert pages == set(registry())
    linked = {
        target.stem for target in links(DOCS / "solvers.md") if target.parent.name == "solvers"
    }
    assert linked == pages


@pytest.mark.parametrize(
    ("page", "module", "kinds"),
    [
        ("losses", "losses", ("MarginLoss", "VectorLoss", "Penalty")),
        ("geometry", "domains", ("Domain",)),
    ],
)
def test_every_loss_and_domain_has_an_entry(page, module, kinds):
    import dpsco

    home = getattr(dpsco, module)
    text = next(path for path in PAGES if path.stem == page).read_text(encoding="utf-8")
    bases = tuple(getattr(home, kind) for kind in kinds)
    for name in home.__all__:
        kind = getattr(home, name)
        if isinstance(kind, type) and issubclass(kind, bases) and kind not in bases:
            assert re.search(rf"\b{name}\b", text), f"{name} is missing in docs/{page}.md"


def test_every_estimator_has_an_entry():
    import dpsco.estimators

    text = (DOCS / "estimators.md").read_text(encoding="utf-8")
    for name in dpsco.estimators.__all__:
        assert re.search(rf"\b{name}\b", text), f"{name} is missing in docs/estimators.md"


def test_every_command_has_an_entry():
    from dpsco.cli import parser

    text = (DOCS / "cli.md").read_text(encoding="utf-8")
    chosen = next(action for action in parser()._actions if action.dest == "command")
    for name in chosen.choices:
        assert f"`dpsco {name}" in text, f"dpsco {name} is missing in docs/cli.md"


def test_every_parameter_of_the_estimators_has_an_entry():
    from dpsco import estimators

    for name in estimators.__all__:
        page = "tuning.md" if name == "PrivateGridSearch" else "estimators.md"
        text, kind = (DOCS / page).read_text(encoding="utf-8"), getattr(estimators, name)
        for parameter in inspect.signature(kind).parameters:
            assert f"`{parameter}`" in text, f"{name}: {parameter} is missing"


FORMULA = re.compile(r"(?<![\\`$])\$\$?([^$`]+?)\$\$?(?![\d$])")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_formulas_are_formulas(page):
    """Each can be read, and its brackets close; what is written in ASCII stays in code."""
    maths = pytest.importorskip("docutils.utils.math.latex2mathml")
    prose = re.sub(r"`[^`\n]+`", "", code.FENCE.sub("", page.read_text(encoding="utf-8")))
    for formula in FORMULA.findall(prose):
        assert maths.tex2mathml(formula)
        for pair in ("()", "{}", "[]"):
            assert formula.count(pair[0]) == formula.count(pair[1]), formula
        assert formula.count(r"\lVert") == formula.count(r"\rVert")
    if page.parent.name == "solvers":
        text = re.sub(r"^    .*$", "", FORMULA.sub("", prose), flags=re.MULTILINE)
        assert "sqrt(" not in text
