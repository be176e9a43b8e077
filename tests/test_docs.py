"""Every Python example in the documentation runs as printed, one page after the other."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").rglob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples_run(page, capsys):
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    names = {}
    for block in blocks:  # later blocks of a page use what earlier ones made
        exec(compile(block, page.name, "exec"), names)
    if blocks:
        assert capsys.readouterr().out


def test_every_page_is_reachable():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    solvers = (ROOT / "docs" / "solvers.md").read_text(encoding="utf-8")
    assert PAGES
    for page in PAGES:
        if page.parent.name == "solvers":
            assert f"](solvers/{page.name})" in solvers
        else:
            assert f"docs/{page.name}" in readme


def test_every_solver_has_a_page_and_every_page_a_solver():
    from dpsco.solvers import registry

    pages = {page.stem for page in PAGES if page.parent.name == "solvers"}
    assert pages == set(registry())


def test_links_lead_somewhere():
    for page in [ROOT / "README.md", *PAGES]:
        for target in re.findall(r"\]\(\s*([^)#:\s]+\.md)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).is_file(), f"{page.name}: {target}"


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
