"""How pages are shown: outputs below their code, formulas, drawings, and links that lead somewhere.

The pages stay plain Markdown. Their code runs before Sphinx reads them, once (`dpsco_blocks`).
Formulas become MathML when the site is built, so that a page needs neither a script nor a network,
and a formula that cannot be read fails the build. Drawings become part of their page, so that they
follow its colours. When all is written, every link inside the site is followed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import dpsco_blocks
from docutils import nodes
from docutils.utils.math import MathError, latex2mathml
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

log = logging.getLogger(__name__)
REPORT = "report_example.html"


# Outputs


def run_pages(app: Sphinx) -> None:
    """Carry out the pages whose outputs are not stored, in a process of its own."""
    pages = _pages_with_code(app)
    missing = [page for page in pages if dpsco_blocks.stored(page) is None]
    if pages:
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
        call = [sys.executable, dpsco_blocks.__file__, *map(str, missing)]
        done = subprocess.run(call, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ExtensionError(f"a page's code does not run\n{done.stderr}")


def _pages_with_code(app: Sphinx) -> list[Path]:
    """Return the pages of this site that have code to carry out."""
    source = Path(app.srcdir)
    if source != dpsco_blocks.DOCS:  # a small site of the tests
        return []
    return [page for page in dpsco_blocks.pages() if dpsco_blocks.has_code(page)]


def outdated(app: Sphinx, env: Any, *_: set[str]) -> list[str]:
    """Return the pages whose outputs were made anew since they were read."""
    seen = env.dpsco_outputs = getattr(env, "dpsco_outputs", {})
    now = {str(page): dpsco_blocks.stored(page) for page in _pages_with_code(app)}
    env.dpsco_outputs = now
    names = [page for page, outputs in now.items() if seen.get(page) != outputs]
    return [env.path2doc(name) for name in names]


def add_outputs(app: Sphinx, name: str, source: list[str]) -> None:
    """Put the outputs of a page below its blocks, before anything else is added to it."""
    page = Path(app.env.doc2path(name))
    if page in _pages_with_code(app):
        source[0] = dpsco_blocks.with_outputs(source[0], dpsco_blocks.stored(page) or [])


class CodeOutput(SphinxDirective):
    """What a block printed."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return the text, set apart from code."""
        text = "\n".join(self.content)
        shown = nodes.literal_block(text, text, language="text")
        return [nodes.container("", shown, classes=["code-output"])]


class HtmlOutput(SphinxDirective):
    """What a notebook would show of a block's last expression."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return the page's part as it is."""
        shown = nodes.raw("", "\n".join(self.content), format="html")
        return [nodes.container("", shown, classes=["code-output", "html"])]


class ReportExample(SphinxDirective):
    """The report of the demonstration: a window on it, and a link; its content is the caption."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return a figure with a frame."""
        up = "../" * self.env.docname.count("/")
        caption = escape(" ".join(self.content))
        frame = (
            f'<figure class="report"><iframe src="{up}{REPORT}" title="A privacy report" '
            f'loading="lazy"></iframe><figcaption>{caption} <a href="{up}{REPORT}">Open the whole '
            "report</a></figcaption></figure>"
        )
        return [nodes.raw("", frame, format="html")]


def add_report(app: Sphinx, error: Exception | None) -> None:
    """Put the report beside the pages."""
    if error is None and app.builder.name == "html" and _pages_with_code(app):
        shutil.copyfile(dpsco_blocks.report(), Path(app.outdir) / REPORT)


# Formulas


def _mathml(node: nodes.Element, *, block: bool) -> str:
    """Return a formula as MathML; one that cannot be read is a warning, and so fails the build."""
    try:
        return str(latex2mathml.tex2mathml(node.astext(), as_block=block))
    except MathError as error:
        log.warning("a formula that cannot be read: %s (%s)", node.astext(), error, location=node)
        return f"<code>{escape(node.astext())}</code>"


def visit_math(translator: Any, node: nodes.Element) -> None:
    """Write a formula in a line."""
    translator.body.append(_mathml(node, block=False))
    raise nodes.SkipNode


def visit_displaymath(translator: Any, node: nodes.Element) -> None:
    """Write a formula on lines of its own."""
    translator.body.append(f'<div class="math">{_mathml(node, block=True)}</div>')
    raise nodes.SkipNode


# Drawings


class InlineDrawings(SphinxPostTransform):
    """Drawings of `figures/` become part of the page; elsewhere they are images as any other."""

    default_priority = 5  # before images are gathered
    formats = ("html",)

    def run(self, **_: Any) -> None:
        """Replace images by what their files hold."""
        for image in list(self.document.findall(nodes.image)):
            uri = image.get("uri", "")
            if re.search(r"(^|/)figures/[\w-]+\.svg$", uri):
                file = self._file(uri)
                text = re.sub(r"<\?xml.*?\?>|<!--.*?-->", "", file.read_text("utf-8")).strip()
                alt = escape(image.get("alt", ""), quote=True)
                text = re.sub(r"<svg ", f'<svg aria-label="{alt}" ', text, count=1)
                image.replace_self(
                    nodes.raw("", f'<span class="drawing">{text}</span>', format="html")
                )
                self.env.note_dependency(str(file), docname=self.env.docname)

    def _file(self, uri: str) -> Path:
        """Return the file of an image, which is named relative to its page or to the source."""
        source, page = Path(self.env.srcdir), Path(self.env.doc2path(self.env.docname)).parent
        return next(path for path in (source / uri, page / uri) if path.is_file())


# Links


class _Links(HTMLParser):
    """The targets that a page links to, and the places in it that a link may name."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.targets: set[str] = set()
        self.places: set[str] = {"", "top"}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag links to, and what it is called."""
        for name, value in attrs:
            if value and (name == "id" or (tag == "a" and name == "name")):
                self.places.add(value)
            elif value and name in ("href", "src") and tag != "link":
                self.targets.add(value)


def dead_links(folder: Path) -> Iterator[str]:
    """Yield a sentence for each link inside a built site that leads nowhere."""
    pages = (path for path in folder.rglob("*.html") if "_static" not in path.parts)
    found = {path.resolve(): _Links(path.read_text("utf-8")) for path in pages}
    for path, page in found.items():
        for target in sorted(page.targets):
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not file.exists():
                yield f"{path.relative_to(folder.resolve())}: {target} is not there"
            elif file in found and unquote(parts.fragment) not in found[file].places:
                yield f"{path.relative_to(folder.resolve())}: {target} names no place"


def check_links(app: Sphinx, error: Exception | None) -> None:
    """Fail the build if a link leads nowhere."""
    if error is None and app.builder.name == "html" and _pages_with_code(app):
        _refuse(dead_links(Path(app.outdir)))


def _refuse(problems: Iterable[str]) -> None:
    if listed := list(problems):
        raise ExtensionError("links lead nowhere:\n  " + "\n  ".join(listed[:50]))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register everything."""
    app.add_directive("code-output", CodeOutput)
    app.add_directive("html-output", HtmlOutput)
    app.add_directive("report-example", ReportExample)
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_displaymath, None))
    app.add_post_transform(InlineDrawings)
    app.connect("builder-inited", run_pages, priority=90)
    app.connect("env-get-outdated", outdated)
    app.connect("source-read", add_outputs, priority=100)
    app.connect("build-finished", add_report, priority=400)
    app.connect("build-finished", check_links)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
