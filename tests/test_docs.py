"""Every Python example in the documentation runs as printed, one page after the other."""

import re
from pathlib import Path

import pytest

PAGES = sorted((Path(__file__).parents[1] / "docs").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples_run(page, capsys):
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    names = {}
    for block in blocks:  # later blocks of a page use what earlier ones made
        exec(compile(block, page.name, "exec"), names)
    if blocks:
        assert capsys.readouterr().out


def test_every_page_is_reachable():
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    assert PAGES
    for page in PAGES:
        assert f"docs/{page.name}" in readme


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
