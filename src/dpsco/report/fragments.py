"""Pieces of HTML for a notebook: self-contained, escaped, without a script, light and dark.

A fragment brings its own style, under a class of its own, so that it neither takes from the page
around it nor gives to it. Charts are those of the report.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from html import escape

from .formatting import Markup, safe

Cell = object  # text, escaped here, or Markup

# Notebooks style tables themselves: a class that is said three times goes before that.
_STYLE = """
.dpsco-card{--page:#fff;--card:#fff;--ink:#1c232e;--muted:#565f6e;--line:#dcdad2;--accent:#1d5c8a;
--accent-soft:#dbe8f2;--good:#17603b;--bad:#9b1c1c;--warn:#5f4300;--warn-soft:#fcefcc;--rail:#eceae3;
background:var(--card);color:var(--ink);border:1px solid var(--line);border-radius:8px;
padding:12px 16px;margin:4px 0;max-width:860px;box-sizing:border-box;overflow-wrap:anywhere;
font:14px/1.45 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",Arial,sans-serif}
@media (prefers-color-scheme:dark){.dpsco-card{--page:#1a2027;--card:#1a2027;--ink:#e7eaef;
--muted:#a8b1bd;--line:#333c47;--accent:#84bdeb;--accent-soft:#21394d;--good:#85d6aa;--bad:#ffa59b;
--warn:#f6d98f;--warn-soft:#362a0c;--rail:#262e37}}
.dpsco-card *{box-sizing:border-box}
.dpsco-card .head{margin:0 0 6px;font-size:15px;font-weight:600;color:var(--ink)}
.dpsco-card .head span{color:var(--accent);font-size:12px;letter-spacing:.06em;
text-transform:uppercase;margin-right:8px}
.dpsco-card p{margin:4px 0;max-width:76ch;color:var(--ink)}
.dpsco-card .note{color:var(--muted);font-size:13px}
.dpsco-card .warn{background:var(--warn-soft);color:var(--warn);padding:6px 10px;border-radius:4px}
.dpsco-card .figures{display:flex;flex-wrap:wrap;gap:8px 26px;margin:6px 0 10px}
.dpsco-card .figures div{border-left:3px solid var(--accent);padding-left:10px}
.dpsco-card .figures b{display:block;font-size:20px;font-weight:600;
font-variant-numeric:lining-nums tabular-nums}
.dpsco-card .figures i{font-style:normal;color:var(--muted);font-size:12px}
.dpsco-card .pictures{display:flex;flex-wrap:wrap;gap:10px 26px}
.dpsco-card .pictures>*{flex:1 1 300px;max-width:400px;min-width:0}
.dpsco-card .wide{overflow-x:auto}
.dpsco-card.dpsco-card.dpsco-card table{border-collapse:collapse;font-size:13px;margin:4px 0;
color:var(--ink);background:none;border:0;width:auto;max-width:100%;table-layout:auto}
.dpsco-card.dpsco-card.dpsco-card tr{background:none;border:0}
.dpsco-card.dpsco-card.dpsco-card th,.dpsco-card.dpsco-card.dpsco-card td{text-align:left;
padding:3px 14px 3px 0;border:0;border-bottom:1px solid var(--line);font-weight:400;
color:var(--ink);vertical-align:top;white-space:normal;max-width:none}
.dpsco-card.dpsco-card.dpsco-card thead th{font-weight:600;color:var(--muted)}
.dpsco-card.dpsco-card.dpsco-card .n{text-align:right;font-variant-numeric:tabular-nums;
white-space:nowrap}
.dpsco-card code{font-size:12.5px;background:none;color:inherit;padding:0}
.dpsco-card details{margin-top:6px}
.dpsco-card summary{cursor:pointer;color:var(--accent)}
.dpsco-card .chart{display:block;width:100%;height:auto;max-width:400px;font-size:11.5px}
.dpsco-card .chart text{fill:var(--ink);font-variant-numeric:tabular-nums}
.dpsco-card .chart .tick,.dpsco-card .chart .axis-name{fill:var(--muted)}
.dpsco-card .chart .grid{stroke:var(--line);stroke-width:.7;fill:none}
.dpsco-card .chart .axis{stroke:var(--muted);stroke-width:1;fill:none}
.dpsco-card .chart .curve{stroke:var(--accent);stroke-width:2;fill:none;stroke-linejoin:round}
.dpsco-card .chart .curve.other{stroke:var(--muted);stroke-width:1.4}
.dpsco-card .wide .chart{max-width:760px}
.dpsco-card .chart .guide{stroke:var(--muted);stroke-width:1.3;stroke-dasharray:5 4;fill:none}
.dpsco-card .chart .area{fill:var(--accent-soft)}
.dpsco-card .chart .dot{fill:var(--accent)}
.dpsco-card .chart .mark{fill:var(--card);stroke:var(--accent);stroke-width:2.6}
.dpsco-card .chart .mark-name{font-weight:600}
.dpsco-card .chart .bar{fill:var(--accent);opacity:.55}
.dpsco-card .chart .bar.chosen{opacity:1}
.dpsco-card .chart .rail{fill:var(--rail)}
.dpsco-card .chart .curve.other{stroke:var(--muted);stroke-width:1.4}
.dpsco-card .chart .dot.other{fill:var(--muted)}
.dpsco-card .chart .dash1{stroke-dasharray:7 3}.dpsco-card .chart .dash2{stroke-dasharray:2 3}
.dpsco-card .chart .dash3{stroke-dasharray:9 3 2 3}
.dpsco-card .chart .dash4{stroke-dasharray:4 4}
.dpsco-card .chart .whisker{stroke:var(--ink);stroke-width:1.4;fill:none}
"""

STYLE = "".join(_STYLE.splitlines())


def card(kind: str, title: Cell, *parts: Markup | None) -> str:
    """Return a fragment: what it is, its title, and its parts in order."""
    head = f'<p class="head"><span>{text(kind)}</span>{text(title)}</p>'
    body = f"{head}{''.join(part for part in parts if part is not None)}"
    return f'<div class="dpsco-card"><style>{STYLE}</style>{_distinct(body)}</div>'


def figures(items: Iterable[tuple[str, str, str]]) -> Markup:
    """Return large numbers: each with its name before it and a note after it."""
    boxes = (
        f"<div><i>{text(name)}</i><b>{text(value)}</b><i>{text(note)}</i></div>"
        for name, value, note in items
    )
    return Markup(f'<div class="figures">{"".join(boxes)}</div>')


def facts(items: Iterable[tuple[str, Cell]]) -> Markup:
    """Return a table of names and values."""
    rows = "".join(f'<tr><th scope="row">{text(a)}</th><td>{text(b)}</td></tr>' for a, b in items)
    return Markup(f'<div class="wide"><table><tbody>{rows}</tbody></table></div>')


def table(head: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Markup:
    """Return a table whose first column names the row and whose other columns are numbers."""
    kinds = ["", *[' class="n"'] * (len(head) - 1)]
    titles = "".join(
        f'<th scope="col"{kind}>{text(name)}</th>' for kind, name in zip(kinds, head, strict=True)
    )
    lines = "".join(
        "<tr>"
        + "".join(f"<td{kind}>{text(cell)}</td>" for kind, cell in zip(kinds, row, strict=True))
        + "</tr>"
        for row in rows
    )
    return Markup(
        f'<div class="wide"><table><thead><tr>{titles}</tr></thead><tbody>{lines}</tbody></table>'
        "</div>"
    )


def paragraph(sentence: str, kind: str = "") -> Markup:
    """Return a sentence; ``kind`` is "note" or "warn"."""
    mark = f' class="{kind}"' if kind else ""
    return Markup(f"<p{mark}>{text(sentence)}</p>")


def pictures(*charts: Markup) -> Markup:
    """Return charts side by side where there is room."""
    return Markup(f'<div class="pictures">{"".join(charts)}</div>')


def folded(summary: str, *parts: Markup) -> Markup:
    """Return parts that are shown on demand."""
    return Markup(f"<details><summary>{text(summary)}</summary>{''.join(parts)}</details>")


def text(value: Cell) -> str:
    """Return text of unknown origin escaped, markup of our own as it is."""
    return str(value) if isinstance(value, Markup) else escape(safe(value), quote=True)


def _distinct(body: str) -> str:
    """Give the identifiers of charts a mark of the fragment: a notebook holds many of them."""
    mark = hashlib.sha256(body.encode()).hexdigest()[:8]
    # Texts are escaped, so a bare quotation mark stands in tags of our own alone.
    return re.sub(
        r'(id|aria-labelledby)="([^"]*)"',
        lambda match: f'{match[1]}="{match[2].replace("chart-", f"chart-{mark}-")}"',
        body,
    )
