"""The odometer as a picture: one bar, a piece for each entry, and what is left."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from ..report.formatting import Markup, claim, plain, safe

_WIDTH, _HEIGHT = 600.0, 34.0
_LEAST = 2.0  # width of the smallest piece that is drawn
_TONES = 4  # of entries, in turn
_MOST = 60  # pieces; older entries are drawn as one


@dataclass(frozen=True)
class Piece:
    """A part of the bar."""

    name: str
    amount: float
    kind: str  # "spent", "next" or "left"


def pieces(totals: Sequence[float], allowed: float) -> list[Piece]:
    """Return the parts of a bar: what each entry has added, and what is left.

    Args:
        totals: what was spent after each entry.
        allowed: the whole budget.
    """
    first = max(0, len(totals) - _MOST)
    parts = [Piece(f"entries 1 to {first}", totals[first - 1], "spent")] if first else []
    before = totals[first - 1] if first else 0.0
    for number, total in enumerate(totals[first:], first + 1):
        parts.append(Piece(f"entry {number}", max(total - before, 0.0), "spent"))
        before = max(total, before)
    return [*parts, Piece("left", max(allowed - before, 0.0), "left")]


def whole(spent: float, allowed: float, following: float | None = None) -> list[Piece]:
    """Return the parts of a bar: what was spent in all, with a fit to come, and what is left."""
    parts = [Piece("spent", min(spent, allowed), "spent")]
    if following is not None:
        parts.append(Piece("this fit", max(min(following, allowed) - spent, 0.0), "next"))
    rest = allowed - max(spent, following or 0.0)
    return [*parts, Piece("left", max(rest, 0.0), "left")]


def stacked_bar(parts: Sequence[Piece], *, name: str, title: str) -> Markup:
    """Return a bar as inline SVG, coloured by the style sheet, with a description in words.

    >>> bar = stacked_bar(pieces([1.0], 3.0), name="odometer", title="Spent")
    >>> bar.count("<rect"), "left 2" in bar
    (2, True)
    """
    whole = sum(part.amount for part in parts) or 1.0
    drawings, across, tone = [], 0.0, 0
    for part in parts:
        width = part.amount / whole * _WIDTH
        width = max(width, _LEAST) if part.amount > 0 else 0.0
        width = min(width, _WIDTH - across)
        if width <= 0.0:
            continue
        kind = f"piece {part.kind}"
        if part.kind == "spent":
            kind, tone = f"{kind} tone-{tone % _TONES}", tone + 1
        drawings.append(
            f'<rect class="{kind}" x="{across:.1f}" y="0" width="{width:.1f}" '
            f'height="{_HEIGHT:g}"><title>{_text(_said(part))}</title></rect>'
        )
        across += width
    words = ", ".join(_said(part) for part in parts if part.amount > 0)
    return Markup(
        f'<svg class="stack" role="img" viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" '
        f'preserveAspectRatio="none" aria-labelledby="{name}-title {name}-desc">'
        f'<title id="{name}-title">{_text(title)}</title>'
        f'<desc id="{name}-desc">{_text(words)}.</desc>{"".join(drawings)}</svg>'
    )


def down(amount: float) -> str:
    """Return what is left, never more than there is.

    >>> down(0.99999), down(-1.0), down(0.12345)
    ('0.9999', '0', '0.1234')
    """
    if amount <= 0.0:
        return "0"
    size = 10.0 ** (3 - math.floor(math.log10(amount)))
    return plain(math.floor(amount * size) / size)


def _said(part: Piece) -> str:
    amount = down(part.amount) if part.kind == "left" else claim(part.amount, 3)
    return f"{part.name} {amount}"


def _text(text: str) -> str:
    return escape(safe(text), quote=True)
