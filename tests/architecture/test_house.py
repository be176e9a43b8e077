"""The house can be walked: folders say what they hold, variables are nouns, few files at the top.

Each rule is shown to catch a planted violation.
"""

import ast
import re
from pathlib import Path

import pytest

from dpsco.solvers import families

SOURCE = Path(__file__).parents[2] / "src" / "dpsco"
MODULES = sorted(SOURCE.rglob("*.py"))
FOLDERS = sorted({path.parent for path in MODULES if path.parent != SOURCE})
PAGE = SOURCE.parents[1] / "docs" / "architecture.md"
SPINE = re.findall(r"^\| \d+ \| (`.+?`) \| `(.+?)` \|", PAGE.read_text(), re.MULTILINE)
PARTICIPLES = {"found", "made", "asked", "given", "kept", "going"}
ROOMS = sorted({path.relative_to(SOURCE).parts[0] for path in MODULES})


def unnamed(docstring, contents):
    """Return the contents of a folder that its docstring does not name."""
    words = set(re.findall(r"\w+", docstring or ""))
    return [name for name in contents if name not in words]


def contents(folder):
    """Return a folder's modules and folders; `_name` counts as private and may go unnamed.

    So may a family of solvers: the registry finds it because it is there, and lists it.
    """
    names = {path.stem for path in folder.glob("*.py")} - {"__init__", "__main__"}
    names |= {path.name for path in FOLDERS if path.parent == folder}
    if folder == SOURCE / "solvers":
        names -= {module.__name__.rpartition(".")[2] for module in families()}
    return sorted(name for name in names if not name.startswith("_"))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_folder_says_what_it_holds(folder):
    """Its docstring names every module, in the order in which to read them."""
    text = (folder / "__init__.py").read_text(encoding="utf-8")
    assert unnamed(ast.get_docstring(ast.parse(text)), contents(folder)) == []


def test_a_module_without_a_word_is_seen():
    assert unnamed("Read `base`, then `steps`.", ["base", "run", "steps"]) == ["run"]


def variables(tree):
    """Yield (line, name) of everything that is assigned, iterated over, or taken as a parameter."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg


@pytest.mark.parametrize("room", ROOMS)
def test_variables_are_nouns(room):
    """A name says what a value is, not what happened to it."""
    participles = [
        f"{path.relative_to(SOURCE)}:{line} {name}"
        for path in MODULES
        if path.relative_to(SOURCE).parts[0] == room
        for line, name in variables(ast.parse(path.read_text(encoding="utf-8")))
        if name in PARTICIPLES
    ]
    assert not participles, "\n".join(participles)


@pytest.mark.parametrize(
    "line", ["found = 1", "for made in x: pass", "def f(asked): pass", "(kept := 2)"]
)
def test_a_participle_is_seen(line):
    assert {name for _, name in variables(ast.parse(line))} & PARTICIPLES


def definitions(tree, prefix=""):
    """Yield the names of functions, classes and methods, as ``Class.method``."""
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield prefix + node.name
        if isinstance(node, ast.ClassDef):
            yield from definitions(node, f"{node.name}.")


@pytest.mark.parametrize(("names", "file"), SPINE, ids=[names for names, _ in SPINE])
def test_the_page_shows_functions_where_they_are(names, file):
    """The spine of a fit in docs/architecture.md, and every file that the page names."""
    known = set(definitions(ast.parse((SOURCE / file).read_text(encoding="utf-8"))))
    assert set(re.findall(r"`(.+?)`", names)) <= known


def test_the_page_names_files_that_exist():
    assert len(SPINE) > 10
    for name in re.findall(r"`([a-z_/]+\.py)`", PAGE.read_text(encoding="utf-8")):
        assert (SOURCE / name).exists() or (SOURCE.parents[1] / name).exists(), name


def test_few_files_at_the_top():
    assert len(list(SOURCE.glob("*.py"))) <= 8


def unnamed_parameters(tree):
    """Yield (line, name) of refusals that begin with a parameter's name and do not carry it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "ParameterError":
            text = re.match(r"\w+\(\s*f?\"([a-z_]+) must\b", ast.unparse(node).replace("'", '"'))
            if text and not any(keyword.arg == "parameter" for keyword in node.keywords):
                yield node.lineno, text[1]


@pytest.mark.parametrize("room", ["estimators", "federated", "fit", "models", "solvers"])
def test_refusals_carry_their_parameter(room):
    """Else a command line or a form could not call it by the name that its user knows."""
    assert [
        f"{path.relative_to(SOURCE)}:{line} {name}"
        for path in MODULES
        if path.relative_to(SOURCE).parts[0] == room
        for line, name in unnamed_parameters(ast.parse(path.read_text(encoding="utf-8")))
    ] == []


def test_a_refusal_without_its_parameter_is_seen():
    lines = 'ParameterError(f"n must be {x}.")\nParameterError("d must be 1.", parameter="d")'
    assert list(unnamed_parameters(ast.parse(lines))) == [(1, "n")]
