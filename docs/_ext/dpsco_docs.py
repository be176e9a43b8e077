"""What the site makes itself: reference pages, solvers' heads, the command line, and the gate.

The hand-written pages are plain Markdown that also reads well outside the site. When Sphinx reads
them, this extension adds what is known better by the code: the head of a solver's page from its
module and its entry in the registry, and every command's help. The build fails if a public name has
no page or no docstring, or if a solver has no page.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from unittest import mock

import dpsco_api
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective
from sphinx.util.nodes import make_refnode

ROOT = Path(__file__).parents[2]
PROJECT = {
    "changelog": "CHANGELOG.md",
    "security": "SECURITY.md",
    "contributing": "CONTRIBUTING.md",
}
# Pages whose tables name what the reference explains: the names of which package.
LINKED = {
    "estimators": "dpsco.estimators",
    "losses": "dpsco.losses",
    "geometry": "dpsco.geometry.domains",
}
HEADER = ("Paper", "Guarantee", "Rate", "Needs", "Symbols")
GREEK = {"alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "eta": "η"}
GREEK |= {"kappa": "κ", "lambda": "λ", "mu": "μ", "rho": "ρ", "sigma": "σ", "tau": "τ"}
GREEK |= {"Delta": "Δ", "Phi": "Φ"}
SIGNS = {"<=": "≤", ">=": "≥", "->": "→", "||": "‖", "sqrt": "√"}
# Code, a letter with its index, a power, a sign: what a header's plain text writes in ASCII.
SYMBOL = re.compile(
    rf"(`[^`]+`|(?<![\w`])(?:{'|'.join(GREEK)}|[A-Za-z])(?:_[A-Za-z0-9]{{1,3}})?(?!\w)"
    r"|\^(?:\([^()]*\)|-?[A-Za-z0-9.]+(?:/\d)?)|<=|>=|->|\|\||\bsqrt\b)"
)


# The gate


def solver_problems(keys: Iterable[str], folder: Path) -> list[str]:
    """Return a sentence for each solver without a page and each page without a solver."""
    pages = {page.stem: page for page in folder.glob("*.md")}
    known = set(keys)
    problems = [
        f"the solver {key} has no page {folder.name}/{key}.md" for key in known - set(pages)
    ]
    problems += [f"{folder.name}/{name}.md is no solver's page" for name in set(pages) - known]
    for name, page in pages.items():
        if page.read_text(encoding="utf-8").split("\n", 1)[0] != f"# {name}":
            problems.append(f"{folder.name}/{name}.md must begin with '# {name}'")
    return sorted(problems)


def refuse(problems: list[str]) -> None:
    """Stop the build if there is anything to complain about."""
    if problems:
        raise ExtensionError("the documentation has gaps:\n  " + "\n  ".join(problems))


def check_files(app: Sphinx) -> None:
    """Compare solvers with their pages and packages with the reference, before anything is read."""
    from dpsco.solvers import registry

    problems = solver_problems(registry(), Path(app.srcdir) / "solvers")
    refuse(problems + [f"{name} is not in the reference" for name in dpsco_api.unlisted()])


def check_names(app: Sphinx, env: Any) -> None:
    """Compare public names with what Sphinx has found a place for, after everything was read."""
    documented = env.get_domain("py").objects
    refuse(dpsco_api.missing(dpsco_api.entries(app.config.dpsco_packages), documented))


# Pages that are written from code


def write_pages(app: Sphinx) -> None:
    """Write the reference and the project's own papers into the source folder."""
    source = Path(app.srcdir)
    dpsco_api.write(source / "api", app.config.dpsco_packages, introduction)
    folder = source / "project"
    folder.mkdir(exist_ok=True)
    for name, file in PROJECT.items():
        text = (ROOT / file).read_text(encoding="utf-8").replace("](docs/", "](../")
        _keep(folder / f"{name}.md", _moved(text, "", ""))
    links = "\n".join(PROJECT)
    _keep(folder / "index.md", f"# Project\n\n```{{toctree}}\n:maxdepth: 1\n\n{links}\n```\n")


def introduction(package: str) -> str:
    """Return what a package's docstring says before its table of modules."""
    text = inspect.cleandoc(importlib.import_module(package).__doc__ or "")
    prose = text.partition("\n|")[0].strip()
    return "\n\n".join(dpsco_api.literal(part) for part in prose.split("\n\n"))


def _keep(path: Path, text: str) -> None:
    """Write a file unless it says so already, in which case Sphinx need not read it again."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def _moved(text: str, up: str, folder: str) -> str:
    """Return a page's text with links to the project's papers led to their copies on the site."""
    for name, file in PROJECT.items():
        text = text.replace(f"]({up}{file}", f"]({folder}{name}.md")
    return text


# What is added to hand-written pages


def complete(app: Sphinx, name: str, source: list[str]) -> None:
    """Add to a page what the code knows better."""
    if name.startswith(("api/", "project/", "examples/")):
        return
    source[0] = re.sub(r"^```\n(?=(dpsco|pip|make) )", "```sh\n", source[0], flags=re.MULTILINE)
    depth = name.count("/")
    text = _moved(source[0], "../" * (depth + 1), "../" * depth + "project/")
    if name.startswith("solvers/"):
        title, _, rest = text.partition("\n")
        text = f"{title}\n\n```{{solver-head}} {name.partition('/')[2]}\n```\n{rest}"
    elif name == "solvers":
        pages = "\n".join(f"solvers/{page.stem}" for page in _pages(app, "solvers"))
        text += f"\n```{{toctree}}\n:hidden:\n\n{pages}\n```\n"
    elif name == "cli":
        text += command_reference()
    if name in LINKED:
        text = linked(text, LINKED[name])
    source[0] = text


def linked(text: str, package: str) -> str:
    """Lead the names in the first column of a page's tables to what the reference says of them."""
    found = list(dpsco_api.entries([package]))
    home = dpsco_api.homes(dpsco_api.entries())
    paths = {entry.name: home[entry.path] for entry in found}

    def link(code: re.Match[str]) -> str:
        path = paths.get(code.group(2))
        return f"{{py:obj}}`{code.group(1)} <{path}>`" if path else code.group(0)

    def row(cell: re.Match[str]) -> str:
        return re.sub(r"`((\w+)(?:\([^`<>]*\))?)`", link, cell.group(0))

    return re.sub(r"^\| [^|\n]*`[^|\n]*\|", row, text, flags=re.MULTILINE)


def _pages(app: Sphinx, folder: str) -> list[Path]:
    return sorted((Path(app.srcdir) / folder).glob("*.md"))


def header(text: str) -> dict[str, str]:
    """Return the parts of a solver module's header, each as one line; a blank line ends a part."""
    found: dict[str, list[str]] = {}
    part: list[str] = []
    for line in inspect.cleandoc(text).splitlines():
        if (start := re.match(r"([A-Z][a-z]+) {2,}(\S.*)", line)) and start.group(1) in HEADER:
            part = found.setdefault(start.group(1), [])
            line = start.group(2)
        elif not line:
            part = []
        part.append(line.strip())
    return {name: " ".join(filter(None, lines)) for name, lines in found.items()}


class SolverHead(SphinxDirective):
    """What a solver is, from its entry in the registry and the header of its family."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return one sentence and a table."""
        from dpsco.solvers import family, get
        from dpsco.solvers.base import NOT_CALIBRATED

        solver = get(self.arguments[0])
        module = family(solver.key)
        said = header(module.__doc__ or "")
        if tuple(said) != HEADER:
            raise ExtensionError(f"{module.__name__} needs a header with {', '.join(HEADER)}")
        needs = ", ".join(need.name for need in solver.needs) or "nothing"
        rows = {
            "Paper": f"{solver.paper}; {solver.reference}",
            "For": solver.setting,
            "Guarantee": said["Guarantee"],
            "Rate": said["Rate"],
            "Needs": needs,
            "Rounds": solver.rounds,
            "Gradients": solver.cost,
            "Options": list(solver.options) or "none",
            "Calibration": list(solver.calibrations),
            "Measured": solver.factors or NOT_CALIBRATED,
            "Symbols": said["Symbols"],
            "In words": f"Needs {said['Needs']}",
            "Papers": said["Paper"],
        }
        return [nodes.paragraph("", solver.summary, classes=["lead"]), _table(rows)]


def _table(rows: dict[str, str | list[str]]) -> nodes.table:
    """Return a table of two columns, names and texts; a list becomes a row of code words."""
    table = nodes.table(classes=["solver-head"])
    group = nodes.tgroup(cols=2)
    group += [nodes.colspec(colwidth=15), nodes.colspec(colwidth=85)]
    body = nodes.tbody()
    for name, text in rows.items():
        words = nodes.paragraph()
        for i, word in enumerate([text] if isinstance(text, str) else text):
            words += nodes.Text(" ") if i else nodes.Text("")
            words += symbols(word) if isinstance(text, str) else nodes.literal("", word)
        cells = (nodes.entry("", nodes.paragraph("", name)), nodes.entry("", words))
        body += nodes.row("", *cells)
    group += body
    table += group
    return table


def symbols(text: str) -> list[nodes.Node]:
    """Return a header's plain text with its letters, indices, powers and signs as in print."""
    parts: list[nodes.Node] = []
    for k, piece in enumerate(SYMBOL.split(text)):
        if k % 2 == 0 or piece in SIGNS:
            parts.append(nodes.Text(SIGNS.get(piece, piece)))
        elif piece.startswith("`"):
            parts.append(nodes.literal("", piece.strip("`")))
        elif piece.startswith("^"):
            power = re.sub(r"^\^\(?|\)$", "", piece)
            parts.append(nodes.superscript("", power))
        else:
            letter, _, index = piece.partition("_")
            parts.append(nodes.Text(GREEK.get(letter, letter)))
            parts += [nodes.subscript("", index)] if index else []
    return parts


def command_reference() -> str:
    """Return every command's help as Markdown."""
    parser = importlib.import_module("dpsco.cli").parser()
    lines = ["", "## Reference", "", "What `--help` says of each command.", ""]
    with mock.patch.dict(os.environ, {"COLUMNS": "96"}):  # how wide argparse writes
        for name, command in _commands(parser):
            lines += [f"### {name}", "", "```text", command.format_help().rstrip(), "```", ""]
    return "\n".join(lines)


def _commands(parser: Any) -> list[tuple[str, Any]]:
    """Return the parser's commands with their names, those with actions of their own last."""
    found = []
    for action in parser._actions:
        if isinstance(action.choices, dict):  # of other actions it is a list of values
            for child in action.choices.values():
                found += _commands(child) or [(child.prog, child)]
    return found


# Docstrings


def as_rst(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Turn the plain prose of docstrings into reStructuredText; examples stay as they are."""
    if what == "data" and inspect.cleandoc(type(thing).__doc__ or "").splitlines()[:1] == lines[:1]:
        lines.clear()  # what its class says is on the class's own page
    example = False
    for i, line in enumerate(lines):
        example = line.lstrip().startswith(">>>") or (example and bool(line.strip()))
        if not example:
            name, colon, kind = line.partition(" : ")  # an entry of numpydoc keeps its name
            entry = bool(colon) and name.strip().isidentifier()
            prose = dpsco_api.literal(kind if entry else line)
            lines[i] = f"{name}{colon}{prose}" if entry else prose


def short_name(app: Sphinx, env: Any, node: Any, child: Any) -> Any:
    """Lead a short name in backticks to the one public thing of that name, if there is one."""
    if node.get("refdomain") != "py":
        return None
    target = node["reftarget"].rpartition(".")[2] if "." in node["reftarget"] else node["reftarget"]
    objects = env.get_domain("py").objects
    known = {path for path in objects if path.rpartition(".")[2] == target}
    known = {path for path in known if objects[path].objtype != "method"} or known
    if len(known) != 1:
        return None
    found = objects[known.pop()]
    return make_refnode(app.builder, node["refdoc"], found.docname, found.node_id, child)


def plot_style(config: Any, name: Any) -> None:
    """Give every figure of the gallery the same quiet look."""
    import matplotlib as mpl

    mpl.rcdefaults()
    mpl.rcParams.update(
        {
            "figure.figsize": (7.2, 4.2),
            "figure.dpi": 110,
            "savefig.bbox": "tight",
            "font.size": 11,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "grid.alpha": 0.25,
            "axes.titlesize": 12,
            "axes.titlelocation": "left",
            "legend.frameon": False,
            "lines.linewidth": 2,
            "axes.prop_cycle": mpl.cycler(
                color=["#1f6f8b", "#d1495b", "#6a994e", "#edae49", "#5b4b8a", "#7a7a7a"]
            ),
        }
    )


def setup(app: Sphinx) -> dict[str, Any]:
    """Register everything."""
    app.add_config_value("dpsco_packages", dpsco_api.PACKAGES, "env")
    app.add_directive("solver-head", SolverHead)
    app.connect("builder-inited", check_files, priority=100)
    app.connect("builder-inited", write_pages, priority=110)  # before the gallery and autosummary
    app.connect("source-read", complete)
    app.connect("autodoc-process-docstring", as_rst, priority=100)  # before napoleon
    app.connect("missing-reference", short_name)
    app.connect("env-check-consistency", check_names)
    return {
        "version": "1",
        "env_version": 2,
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
