"""Every example and command of the documentation works as printed, one page after the other."""

import inspect
import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
# What is written by hand; the build of the site adds folders of its own.
PAGES = sorted([*DOCS.glob("*.md"), *(DOCS / "solvers").glob("*.md")])
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)


def blocks(page):
    """Return a page's fenced blocks: their language and their text."""
    return FENCE.findall(page.read_text(encoding="utf-8"))


def commands(text, prompt=""):
    """Return the arguments of each line that calls dpsco."""
    lines = text.replace("\\\n", " ").splitlines()
    calls = (line.removeprefix(prompt) for line in lines if line.startswith(f"{prompt}dpsco "))
    return [shlex.split(call, comments=True)[1:] for call in calls]


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples_run(page, capsys, tmp_path, monkeypatch):
    """Blocks of Python run, and so do lines of a console, in the order of the page."""
    monkeypatch.chdir(tmp_path)
    names, ran = {}, 0
    for language, text in blocks(page):  # later blocks of a page use what earlier ones made
        if language == "python":
            exec(compile(text, page.name, "exec"), names)
            ran += 1
        elif language == "console":
            from dpsco.cli import main

            for arguments in commands(text, prompt="$ "):
                assert main(arguments) == 0, arguments
                ran += 1
    if ran:
        assert capsys.readouterr().out


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
    assert {"fit", "verify", "schema", "plan", "ledger"} <= {call[0] for call in shown}
    assert {"fit", "verify", "schema", "plan", "predict", "ledger"} <= {call[0] for call in run}


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
