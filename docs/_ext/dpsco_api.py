"""The public names of dpsco, and a reference page for each.

A public name is one in ``__all__`` of a public package. Its page is written from that list, in the
list's own groups, before Sphinx reads anything; `missing` then says which names got none.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

# In the order of the reference; a name is explained under the first package that has it, and the
# top level, which repeats the names that most people need, comes last.
PACKAGES = (
    "dpsco.estimators",
    "dpsco.models",
    "dpsco.report",
    "dpsco.ui",
    "dpsco.privacy",
    "dpsco.problems",
    "dpsco.data",
    "dpsco.losses",
    "dpsco.geometry.domains",
    "dpsco.geometry",
    "dpsco.solvers",
    "dpsco.models.unit_rules",
    "dpsco.models.units",
    "dpsco.federated",
    "dpsco.federated.transport",
    "dpsco.solvers.base",
    "dpsco.fit.choose",
    "dpsco.fit.outlook",
    "dpsco.fit.forecast",
    "dpsco.audit",
    "dpsco.errors",
    "dpsco",
)
# Modules without a list of their own, of which users meet these names.
PARTS = {
    "dpsco.solvers.base": ("BasePlan", "Measured", "SingleEpoch", "Solver", "TraceLine"),
    "dpsco.fit.choose": ("Recommendation", "Candidate"),
    "dpsco.fit.forecast": ("Forecast", "Expected"),
    "dpsco.fit.outlook": ("Outlook",),
}
# Not promised to anybody; what is public of dpsco.fit is a name of dpsco, or listed above.
INTERNAL = {"dpsco.kernels", "dpsco.cli", "dpsco.cli.demo_fit", "dpsco.files", "dpsco.fit"}
# scikit-learn adds these to every class, with docstrings in a form of its own
_ROUTING = "set_fit_request, set_score_request, set_predict_request, get_metadata_routing"
SHOWN = {"dpsco.geometry.domains": "dpsco.domains"}  # what users call a package


@dataclass(frozen=True)
class Entry:
    """A public name: where it is listed, under which heading, and what it is."""

    package: str
    group: str
    name: str
    value: Any

    @property
    def path(self) -> str:
        """The full name."""
        return f"{self.package}.{self.name}"

    @property
    def kind(self) -> str:
        """What Sphinx calls such a thing."""
        if isinstance(self.value, ModuleType):
            return "module"
        if inspect.isclass(self.value):
            return "exception" if issubclass(self.value, BaseException) else "class"
        return "function" if callable(self.value) and hasattr(self.value, "__name__") else "data"

    @property
    def line(self) -> str:
        """The first sentence of its description; empty where it has none of its own."""
        if self.kind == "data":
            return ""
        return sentence(getattr(self.value, "__doc__", None) or "")


def sentence(text: str) -> str:
    """Return the first paragraph of a docstring as one line."""
    return " ".join(inspect.cleandoc(text).partition("\n\n")[0].split())


def grouped(module: ModuleType) -> list[tuple[str, list[str]]]:
    """Return a package's public names under the comments that head them in ``__all__``."""
    listed = list(getattr(module, "__all__", PARTS.get(module.__name__, ())))
    if not listed:  # a module of classes, such as the errors
        listed = [
            name
            for name, value in vars(module).items()
            if inspect.isclass(value) and value.__module__ == module.__name__
        ]
    found: list[tuple[str, list[str]]] = [("", [])]
    block = re.search(r"^__all__ = \[\n(.*?)^\]", inspect.getsource(module), re.DOTALL | re.M)
    for line in block.group(1).splitlines() if block else ():
        if heading := re.match(r"\s*# (.*)", line):
            found.append((heading.group(1), []))
        else:
            found[-1][1].extend(re.findall(r'"([^"]+)"', line))
    groups = [(title, names) for title, names in found if names]
    if sorted(name for _, names in groups for name in names) != sorted(listed):
        return [("", listed)]  # the list is made in another way: take it as it is
    return groups


def entries(packages: Sequence[str] = PACKAGES) -> Iterator[Entry]:
    """Yield every public name of the packages that exist."""
    for package in packages:
        spec = importlib.util.find_spec(package)
        if spec is None or spec.origin is None:  # not there, or a folder without code
            continue
        module = importlib.import_module(package)
        for group, names in grouped(module):
            for name in names:
                if not name.startswith("__"):
                    yield Entry(package, group, name, getattr(module, name))


def homes(found: Iterable[Entry]) -> dict[str, str]:
    """Return for every full name the one under which the same thing is explained."""
    first: dict[int, str] = {}
    result = {}
    for entry in found:
        shared = entry.kind in ("class", "exception", "function")
        result[entry.path] = first.setdefault(id(entry.value), entry.path) if shared else entry.path
        if entry.kind == "module":
            result[entry.path] = entry.value.__name__
    return result


def unlisted() -> list[str]:
    """Return public-looking packages of dpsco that the reference does not know."""
    import dpsco

    known = {*PACKAGES, *INTERNAL}
    return [
        info.name
        for info in pkgutil.iter_modules(dpsco.__path__, "dpsco.")
        if info.ispkg and info.name not in known and info.name.rpartition(".")[2][0] != "_"
    ]


def missing(found: Iterable[Entry], documented: Iterable[str]) -> list[str]:
    """Return a sentence for each public name without a page, or without a word about it."""
    found, pages = list(found), set(documented)
    home = homes(found)
    problems = [f"{entry.path} has no page" for entry in found if home[entry.path] not in pages]
    problems += [
        f"{entry.path} has no docstring"
        for entry in found
        if entry.kind != "data" and not entry.line
    ]
    return problems


def docname(path: str, taken: Iterable[str]) -> str:
    """Return the page of a name; where names differ in case only, pages differ in more."""
    clash = any(other != path and other.lower() == path.lower() for other in taken)
    return f"{path}-" if clash and path.rpartition(".")[2][0].isupper() else path


def write(folder: Path, packages: Sequence[str], intro: Callable[[str], str]) -> list[Path]:
    """Write a page for each package and each name, and return all of them."""
    found = list(entries(packages))
    home = homes(found)
    pages: dict[str, str] = {}
    for package in dict.fromkeys(entry.package for entry in found):
        own = [entry for entry in found if entry.package == package]
        pages[package] = _package_page(own, home, {*home, *packages}, intro(package))
        for entry in own:
            if entry.kind != "module" and home[entry.path] == entry.path:
                pages[docname(entry.path, {*home, *packages})] = _name_page(entry)
    pages["index"] = _index(packages, found, intro)
    folder.mkdir(exist_ok=True)
    for name, text in pages.items():
        path = folder / f"{name}.rst"
        if not path.exists() or path.read_text(encoding="utf-8") != text:  # else Sphinx rereads it
            path.write_text(text, encoding="utf-8")
    kept = {folder / f"{name}.rst" for name in pages}
    for old in set(folder.glob("*.rst")) - kept:
        old.unlink()
    return sorted(kept)


def _title(text: str, mark: str = "=") -> str:
    return f"{text}\n{mark * len(text)}\n"


def _name_page(entry: Entry) -> str:
    lines = [_title(entry.name), f".. auto{entry.kind}:: {entry.path}"]
    if entry.kind == "class":
        lines += ["   :members:", "   :show-inheritance:"]
    if entry.package == "dpsco.estimators":  # what users call is mostly inherited there
        lines += ["   :inherited-members: BaseEstimator", "   :exclude-members: " + _ROUTING]
    if entry.kind == "data" and len(repr(entry.value)) > 60:
        lines += ["   :no-value:"]
    return "\n".join(lines) + "\n"


def _package_page(own: list[Entry], home: dict[str, str], taken: set[str], intro: str) -> str:
    """Return a package's page: its groups as tables, and the pages of its names below it."""
    package = own[0].package
    lines = [_title(SHOWN.get(package, package)), f".. py:module:: {package}", "", intro, ""]
    for group in dict.fromkeys(entry.group for entry in own):
        lines += [_title(group[:1].upper() + group[1:], "-")] if group else []
        lines += [".. list-table::", "   :widths: 30 70", "   :class: names", ""]
        for entry in (entry for entry in own if entry.group == group):
            role = "py:mod" if entry.kind == "module" else "py:obj"
            lines += [f"   * - :{role}:`{entry.name} <{home[entry.path]}>`"]
            lines += [f"     - {literal(entry.line)}"]
        lines.append("")
    mine = [
        entry.path for entry in own if entry.kind != "module" and home[entry.path] == entry.path
    ]
    lines += [".. toctree::", "   :hidden:", ""]
    lines += [f"   {docname(path, taken)}" for path in mine]
    return "\n".join(lines) + "\n"


def _index(packages: Sequence[str], found: list[Entry], intro: Callable[[str], str]) -> str:
    """Return the page above all packages, the top level first."""
    here = {entry.package for entry in found}
    order = [name for name in ("dpsco", *packages) if name in here]
    order = list(dict.fromkeys(order))
    lines = [_title("API reference"), "Every public name has a page; the build fails if not.", ""]
    lines += [".. list-table::", "   :widths: 30 70", "   :class: names", ""]
    for package in order:
        first = literal(sentence(importlib.import_module(package).__doc__ or ""))
        lines += [f"   * - :py:mod:`{SHOWN.get(package, package)} <{package}>`", f"     - {first}"]
    lines += ["", ".. toctree::", "   :hidden:", ""]
    lines += [f"   {SHOWN.get(package, package)} <{package}>" for package in order]
    return "\n".join(lines) + "\n"


_CODE = re.compile(r"(``[^`]*``|:[a-z:]+:`[^`]*`|`[^`]*`)")


def literal(line: str) -> str:
    """Return prose of a docstring as reStructuredText: stars, bars and tails mean themselves."""
    parts = _CODE.split(line)
    parts[::2] = [re.sub(r"([*|\\])|(?<=\w)(_)(?!\w)", r"\\\1\2", part) for part in parts[::2]]
    return "".join(parts)
