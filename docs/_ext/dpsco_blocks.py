"""The code of the pages, carried out: what the site shows below it, and what the tests check.

A page's blocks of Python run in one namespace, in the order of the page and in a folder of their
own; lines of a console call dpsco there. What a block prints, and the value of its last expression,
are its output. Outputs are stored under a digest of the page's code and of the package: code runs
once, in the tests, or, where these did not run it, when the site is built.

Keys of noise come from a counter here instead of the operating system: a page that was not changed
then looks the same after the next build. Nothing else is different from a run of your own.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import hashlib
import io
import json
import os
import platform
import re
import shlex
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

DOCS = Path(__file__).parents[1]
STORE = DOCS / "_build" / "outputs"
FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
PRINTS = re.compile(r"^[^#\n]*\bprint\(", flags=re.MULTILINE)
RUNS = ("python", "console")  # languages of blocks that are carried out

Blocks = Sequence[tuple[str, str]]  # language, text
Output = dict[str, str]  # "text", and "html" where the last expression has such a form


def pages() -> list[Path]:
    """Return the pages that are written by hand; the build of the site adds folders of its own."""
    return sorted([*DOCS.glob("*.md"), *(DOCS / "solvers").glob("*.md")])


def blocks(page: Path) -> list[tuple[str, str]]:
    """Return a page's fenced blocks: their language and their text."""
    return FENCE.findall(page.read_text(encoding="utf-8"))


def commands(text: str, prompt: str = "") -> list[list[str]]:
    """Return the arguments of each line that calls dpsco."""
    lines = text.replace("\\\n", " ").splitlines()
    calls = (line.removeprefix(prompt) for line in lines if line.startswith(f"{prompt}dpsco "))
    return [shlex.split(call, comments=True)[1:] for call in calls]


# Carrying a page out


def carry_out(page: Sequence[tuple[str, str]], name: str) -> list[Output]:
    """Run a page's code in a folder of its own, and return an output for each block.

    Raises:
        RuntimeError: a command ends with another exit code than 0, or a block that prints something
            has no output. What a block of Python raises goes through.
    """
    names: dict[str, Any] = {"__name__": "__main__"}
    outputs: list[Output] = []
    with _own_folder() as folder, _same_keys(), warnings.catch_warnings():
        warnings.simplefilter("error")
        from dpsco.errors import OutlookWarning

        warnings.simplefilter("ignore", OutlookWarning)  # pages fit small tables
        for language, text in page:
            output: Output = {}
            if language == "python":
                output = _python(text, f"{name}, block {len(outputs) + 1}", names)
            elif language == "console":
                output = {"text": _console(text, name)}
            if language in RUNS and not output and PRINTS.search(text):
                raise RuntimeError(f"{name}: a block prints something and has no output:\n{text}")
            for kind in output:
                output[kind] = output[kind].replace(f"{folder}/", "")
            outputs.append(output)
    return outputs


def _python(text: str, name: str, names: dict[str, Any]) -> Output:
    """Run a block; return what it printed, and the value of its last expression."""
    tree = ast.parse(text, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, name, "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), name, "eval"), names)
    output = {"text": printed.getvalue()}
    if value is not None:
        if type(value).__module__.startswith("dpsco") and hasattr(value, "_repr_html_"):
            output["html"] = value._repr_html_()
        else:
            output["text"] += f"{value!r}\n"
    return {kind: said for kind, said in output.items() if said.strip()}


def _console(text: str, name: str) -> str:
    """Run the commands of a console; return them with what each one prints below it."""
    from dpsco.cli import main

    shown = []
    for call in re.split(r"^(?=\$ )", text, flags=re.MULTILINE):
        said = io.StringIO()
        for arguments in commands(call, prompt="$ "):
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                code = main(arguments)
            if code:
                raise RuntimeError(f"{name}: dpsco {' '.join(arguments)}\n{said.getvalue()}")
        shown.append(call + said.getvalue())
    return "\n".join(shown)  # a blank line between two commands


@contextlib.contextmanager
def _own_folder() -> Iterator[str]:
    """Work in an empty folder."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield folder
        finally:
            os.chdir(before)


@contextlib.contextmanager
def _same_keys() -> Iterator[None]:
    """Let noise have the keys of a counter, so that outputs stay as they are."""
    count = 0

    def bytes_of(size: int) -> bytes:
        nonlocal count
        count += 1
        return hashlib.shake_128(f"an output of the documentation, {count}".encode()).digest(size)

    with mock.patch.object(os, "urandom", bytes_of):
        yield


# The store


@cache
def _version() -> str:
    """Return a digest of all that outputs depend on beside the page: the package, this file."""
    digest = hashlib.sha256(platform.python_version().encode())
    source = DOCS.parent / "src" / "dpsco"
    for path in [Path(__file__), *sorted(source.rglob("*.py")), *sorted(source.rglob("*.html"))]:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _place(page: Path) -> Path:
    """Return where the outputs of a page as it is now are stored."""
    code = json.dumps([_version(), *(block for block in blocks(page) if block[0] in RUNS)])
    return STORE / f"{page.stem}-{hashlib.sha256(code.encode()).hexdigest()[:20]}.json"


def store(page: Path, outputs: list[Output]) -> None:
    """Keep the outputs of a page, and none of an older state of it."""
    STORE.mkdir(parents=True, exist_ok=True)
    for old in STORE.glob(f"{page.stem}-{'[0-9a-f]' * 20}.json"):
        old.unlink(missing_ok=True)
    draft = STORE / f".{page.stem}.{os.getpid()}"
    draft.write_text(json.dumps(outputs), encoding="utf-8")
    draft.replace(_place(page))


def stored(page: Path) -> list[Output] | None:
    """Return the outputs of a page as it is now, or None."""
    place = _place(page)
    return json.loads(place.read_text(encoding="utf-8")) if place.is_file() else None


def has_code(page: Path) -> bool:
    """Say whether there is anything to carry out."""
    return any(language in RUNS for language, _ in blocks(page))


def run_and_store(page: Path) -> list[Output]:
    """Carry a page out and keep its outputs."""
    outputs = carry_out(blocks(page), page.name)
    store(page, outputs)
    return outputs


def report() -> Path:
    """Return the report of the demonstration, as it is now."""
    place = STORE / f"report-{_version()[:20]}.html"
    if not place.is_file():
        with _own_folder(), _same_keys(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from dpsco.cli.demo_fit import run

            content = run().save(Path.cwd())["report"].read_bytes()
        STORE.mkdir(parents=True, exist_ok=True)
        for old in STORE.glob("report-*.html"):
            old.unlink(missing_ok=True)
        place.write_bytes(content)
    return place


# What a page looks like with its outputs


def with_outputs(text: str, outputs: Sequence[Output]) -> str:
    """Return a page's Markdown with each block's output below it."""
    rest = iter(outputs)

    def shown(fence: re.Match[str]) -> str:
        language, output = fence.group(1), next(rest)
        if language == "console":
            return f"``````console\n{output['text'].rstrip()}\n``````"
        parts = [fence.group(0)]
        if "text" in output:
            parts.append(f"``````{{code-output}}\n{output['text'].rstrip()}\n``````")
        if "html" in output:
            parts.append(f"``````{{html-output}}\n{output['html'].strip()}\n``````")
        return "\n\n".join(parts)

    return FENCE.sub(shown, text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out the pages that are named, and write the report that they show."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("pages", nargs="*", type=Path)
    for page in parser.parse_args(arguments).pages:
        run_and_store(page.resolve())
    report()
    return 0


if __name__ == "__main__":
    sys.exit(main())
