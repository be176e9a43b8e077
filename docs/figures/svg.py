"""A small kit for the drawings: boxes, arrows, plots. Colours are the page's, by name.

On the site a drawing is part of its page and takes its colours, light or dark; elsewhere (an
editor, a code host) the colours below serve, and a dark setting of the reader is followed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

HERE = Path(__file__).parent
# name: light, dark; the site has the same in docs/_static/dpsco.css
COLOURS = {
    "ink": ("#14212e", "#eaf1f7"),
    "dim": ("#4a5a69", "#b3c1ce"),
    "paper": ("#ffffff", "#12181f"),
    "edge": ("#c9d1d9", "#3a4653"),
    "public": ("#e8f1f6", "#16303b"),
    "public-edge": ("#6d9bb0", "#4f8aa3"),
    "private": ("#fdf0e6", "#35261a"),
    "private-edge": ("#c98a50", "#a9743f"),
    "a": ("#17617c", "#6fc3df"),
    "b": ("#b8354a", "#f0a5ae"),
    "c": ("#4f7a35", "#a5d08a"),
    "d": ("#8a6200", "#e7c06a"),
    "grid": ("#dde3e8", "#2b3540"),
}
FONT = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"
Points = Sequence[tuple[float, float]]


def _style(used: str) -> str:
    """Return rules for the colours that a drawing uses: fill and stroke by class."""
    rules: list[list[str]] = [[], []]
    for name, pair in COLOURS.items():
        for kind, short in (("fill", "f"), ("stroke", "s")):
            if f"fig-{short}-{name}" in used:
                for side, colour in enumerate(pair):
                    rule = f".fig-{short}-{name}{{{kind}:var(--fig-{name},{colour})}}"
                    rules[side].append(rule)
    dark = "".join(rules[1])
    return "".join(rules[0]) + f"@media (prefers-color-scheme:dark){{{dark}}}"


def write(name: str, width: float, height: float, title: str, parts: Sequence[str]) -> None:
    """Write a drawing beside this file."""
    card = (
        '<rect class="fig-f-paper fig-s-edge" x="0.5" y="0.5" '
        f'width="{width - 1:g}" height="{height - 1:g}" rx="8"/>'
    )
    body = "\n".join([card, *parts])
    head = (
        f'<marker id="fig-{name}-head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto-start-reverse"><path class="fig-f-dim" d="M0 0L8 4L0 8z"/>'
        "</marker>"
    )
    body = body.replace("url(#head)", f"url(#fig-{name}-head)")
    text = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img" '
        f'font-family="{FONT}" font-size="14">\n<title>{escape(title)}</title>\n'
        f"<style>{_style(body + head)}</style>\n<defs>{head}</defs>\n{body}\n</svg>\n"
    )
    (HERE / f"{name}.svg").write_text(text, encoding="utf-8")


def number(value: float) -> str:
    """Return a coordinate in tenths."""
    return f"{round(value, 1):g}"


def text(
    x: float, y: float, said: str, *, colour: str = "ink", anchor: str = "start", **more: object
) -> str:
    """Return a line of text; ``bold=True`` and ``size=12`` are understood."""
    extra = ' font-weight="600"' if more.get("bold") else ""
    extra += f' font-size="{more["size"]}"' if "size" in more else ""
    return (
        f'<text class="fig-f-{colour}" x="{number(x)}" y="{number(y)}" '
        f'text-anchor="{anchor}"{extra}>{escape(said)}</text>'
    )


def box(
    x: float, y: float, width: float, height: float, lines: Sequence[str], kind: str = "public"
) -> str:
    """Return a box with a name and lines below it."""
    parts = [
        f'<rect class="fig-f-{kind} fig-s-{kind}-edge" x="{number(x)}" y="{number(y)}" '
        f'width="{number(width)}" height="{number(height)}" rx="6" stroke-width="1.3"/>'
    ]
    top = y + height / 2 - 9 * (len(lines) - 1) + 5
    for k, line in enumerate(lines):
        colour, bold = ("ink", True) if k == 0 else ("dim", False)
        parts.append(
            text(
                x + width / 2,
                top + 18 * k,
                line,
                colour=colour,
                anchor="middle",
                bold=bold,
                size=13 if k else 14,
            )
        )
    return "".join(parts)


def arrow(x: float, y: float, to_x: float, to_y: float, *, both: bool = False) -> str:
    """Return an arrow."""
    start = ' marker-start="url(#head)"' if both else ""
    return (
        f'<path class="fig-s-dim" d="M{number(x)} {number(y)}L{number(to_x)} {number(to_y)}" '
        f'stroke-width="1.5" fill="none" marker-end="url(#head)"{start}/>'
    )


def path(
    points: Points, colour: str, *, width: float = 2, dash: str = "", close: bool = False
) -> str:
    """Return a line through points."""
    line = "M" + "L".join(f"{number(x)} {number(y)}" for x, y in points) + ("Z" if close else "")
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<path class="fig-s-{colour}" d="{line}" fill="none" stroke-width="{width:g}"{dashed}/>'


def area(points: Points, colour: str, opacity: float = 0.15) -> str:
    """Return a shaded shape."""
    line = "M" + "L".join(f"{number(x)} {number(y)}" for x, y in points) + "Z"
    return f'<path class="fig-f-{colour}" d="{line}" fill-opacity="{opacity:g}"/>'


def dot(x: float, y: float, colour: str, radius: float = 3.5) -> str:
    """Return a dot."""
    return f'<circle class="fig-f-{colour}" cx="{number(x)}" cy="{number(y)}" r="{radius:g}"/>'


def ring(
    x: float, y: float, radius: float, colour: str, *, dash: str = "", fill: bool = False
) -> str:
    """Return a circle, perhaps shaded."""
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    inside = (
        f'class="fig-s-{colour} fig-f-{colour}" fill-opacity="0.12"'
        if fill
        else f'class="fig-s-{colour}" fill="none"'
    )
    place = f'cx="{number(x)}" cy="{number(y)}" r="{number(radius)}"'
    return f'<circle {inside} {place} stroke-width="1.8"{dashed}/>'


@dataclass(frozen=True)
class Plot:
    """A rectangle with two axes."""

    left: float
    top: float
    width: float
    height: float
    x: tuple[float, float]
    y: tuple[float, float]
    log: bool = False  # the x axis

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Return where a point is drawn."""
        low, high = self.x
        share = math.log(x / low) / math.log(high / low) if self.log else (x - low) / (high - low)
        up = (y - self.y[0]) / (self.y[1] - self.y[0])
        return self.left + share * self.width, self.top + (1 - up) * self.height

    def line(self, points: Points, colour: str, **more: object) -> str:
        """Return a line through points."""
        return path([self.at(*point) for point in points], colour, **more)  # type: ignore[arg-type]

    def axes(
        self,
        name_x: str,
        name_y: str,
        ticks_x: Sequence[float],
        ticks_y: Sequence[float],
        form: str = "g",
    ) -> list[str]:
        """Return the grid, its numbers and the names of the axes."""
        parts = []
        bottom = self.top + self.height
        for tick in ticks_x:
            x, _ = self.at(tick, self.y[0])
            parts.append(path([(x, self.top), (x, bottom)], "grid", width=1))
            parts.append(text(x, bottom + 18, f"{tick:g}", colour="dim", anchor="middle", size=12))
        for tick in ticks_y:
            _, y = self.at(self.x[0], tick)
            parts.append(path([(self.left, y), (self.left + self.width, y)], "grid", width=1))
            parts.append(
                text(self.left - 8, y + 4, f"{tick:{form}}", colour="dim", anchor="end", size=12)
            )
        parts.append(
            text(self.left + self.width / 2, bottom + 38, name_x, anchor="middle", size=13)
        )
        parts.append(text(self.left, self.top - 12, name_y, size=13))
        return parts
