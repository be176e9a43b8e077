"""Charts as inline SVG: lines, bars and intervals, coloured by the page's style, labelled for all.

Every chart has a title and a description, which browsers read aloud. All text is escaped here,
because the page takes the result as it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape

from .formatting import Markup, plain, safe

WIDTH, HEIGHT = 340.0, 240.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 44.0, 14.0, 26.0, 42.0
_BAR, _ROW = 9.0, 36.0  # height of a bar, and of the line that holds its name and itself
_NARROW = 30.0  # height of the line of an interval
_LONGEST = 34  # letters of a name that a chart has room for

Point = tuple[float, float]


@dataclass(frozen=True)
class Axis:
    """A named range of values, with ticks."""

    label: str
    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    log: bool = False
    length: float = WIDTH - _LEFT - _RIGHT  # as drawn

    def share(self, value: float) -> float:
        """Return where the value lies between the ends, from 0 to 1; values beyond stay there."""
        low, high = self.low, self.high
        if self.log:
            value = max(value, low)  # zero lies below every power of ten
            value, low, high = math.log10(value), math.log10(low), math.log10(high)
        return min(max((value - low) / (high - low), 0.0), 1.0)


def linear(label: str, low: float, high: float, *, about: int = 5) -> Axis:
    """Return a linear axis whose ticks are round numbers.

    >>> [text for _, text in linear("x", 0.0, 1.0).ticks]
    ['0', '0.2', '0.4', '0.6', '0.8', '1']
    """
    if not high > low:
        high = low + (abs(low) or 1.0)
    raw = (high - low) / about
    size = 10.0 ** math.floor(math.log10(raw))
    step = min((m * size for m in (1, 2, 2.5, 5, 10)), key=lambda s: abs(s - raw))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    ticks = tuple((k * step, plain(round(k * step, 12), 3)) for k in range(first, last + 1))
    return Axis(label, low, high, ticks)


def logarithmic(label: str, low: float, high: float, *, about: int = 5) -> Axis:
    """Return a logarithmic axis from a power of ten to another, with powers of ten as ticks.

    >>> [text for _, text in logarithmic("delta", 1e-6, 1.0, about=3).ticks]
    ['10⁻⁶', '10⁻⁴', '0.01', '1']
    """
    first, last = math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9)
    last = max(last, first + 1)
    stride = max(1, math.ceil((last - first) / about))
    ticks = tuple((10.0**k, plain(10.0**k, 3)) for k in range(first, last + 1, stride))
    return Axis(label, 10.0**first, 10.0**last, ticks, log=True)


def line_chart(
    points: Sequence[Point],
    x: Axis,
    *,
    y: Axis,
    name: str,
    title: str,
    description: str,
    area: bool = False,
    guide: Sequence[Point] = (),
    mark: tuple[Point, str] | None = None,
    spans: Sequence[tuple[float, float, float]] = (),
    height: float = HEIGHT,
) -> Markup:
    """Return a chart of a line over its grid.

    Args:
        points: the line, from left to right.
        x, y: the axes.
        name: an identifier, unique on the page.
        title, description: what a reader who cannot see it is told.
        area: whether the space between the line and the guide (or the bottom) is shaded.
        guide: a second, dashed line.
        mark: a point with a label.
        spans: upright lines (x, low, high): how uncertain a point of the line is.
        height: of the chart, where the width is WIDTH.
    """
    y = replace(y, length=height - _TOP - _BOTTOM)
    parts = _grid(x, y)
    if area:
        floor = list(guide) or [(points[0][0], y.low), (points[-1][0], y.low)]
        parts.append(f'<path class="area" d="{_path([*points, *reversed(floor)], x, y)}Z"/>')
    if guide:
        parts.append(f'<path class="guide" d="{_path(guide, x, y)}"/>')
    parts.append(f'<path class="curve" d="{_path(points, x, y)}"/>')
    for across, low, high in spans:
        place = _across(across, x)
        parts.append(
            f'<path class="whisker" d="M{place:.1f} {_down(low, y):.1f}V{_down(high, y):.1f}"/>'
        )
    if len(points) <= 24 and not area:
        parts += [_dot(point, x, y, "dot", 2.6) for point in points]
    if mark is not None:
        parts += _marked(mark[0], mark[1], x, y)
    return drawing(parts, WIDTH, height, name, title, description)


@dataclass(frozen=True)
class Line:
    """One of several lines in a panel; a band lies between two more."""

    points: Sequence[Point]
    kind: str = "curve"  # classes of the style sheet
    dots: bool = True
    band: tuple[Sequence[Point], Sequence[Point]] | None = None  # its lower and upper end


def panel(lines: Sequence[Line], x: Axis, *, y: Axis, height: float = HEIGHT) -> list[str]:
    """Return several lines over one grid, without the element around them."""
    y = replace(y, length=height - _TOP - _BOTTOM)
    parts = _grid(x, y)
    for line in lines:
        if line.band is not None:
            low, high = line.band
            parts.append(f'<path class="area" d="{_path([*high, *reversed(low)], x, y)}Z"/>')
    for line in lines:
        parts.append(f'<path class="{line.kind}" d="{_path(line.points, x, y)}"/>')
        kind = line.kind.replace("curve", "dot")
        parts += [_dot(point, x, y, kind, 3.2) for point in line.points if line.dots]
    return parts


def caption(x: float, y: float, text: str, kind: str = "tick") -> str:
    """Return a line of text that begins at a place."""
    return _label(x, y, text, "start", kind)


def standalone(
    parts: Sequence[str], width: float, height: float, *, name: str, title: str, description: str
) -> Markup:
    """Return a drawing as a file of its own: it brings its colours, for light and dark pages."""
    text = drawing([f"<style>{STYLE}</style>", *parts], width, height, name, title, description)
    return Markup(text.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1))


# The colours of a page's style sheet, for a drawing that stands alone.
STYLE = """
.chart { --ink: #1c232e; --muted: #565f6e; --line: #dcdad2; --accent: #1d5c8a; --soft: #dbe8f2;
  --card: #ffffff; font: 11.5px system-ui, "Segoe UI", Roboto, Arial, sans-serif; }
@media (prefers-color-scheme: dark) {
  .chart { --ink: #e7eaef; --muted: #a8b1bd; --line: #333c47; --accent: #84bdeb; --soft: #21394d;
    --card: #1a2027; } }
.chart .paper { fill: var(--card); }
.chart text { fill: var(--ink); }
.chart .tick, .chart .axis-name { fill: var(--muted); font-size: 11px; }
.chart .heading { font-size: 13px; font-weight: 600; }
.chart .grid { stroke: var(--line); stroke-width: .7; fill: none; }
.chart .axis { stroke: var(--muted); stroke-width: 1; fill: none; }
.chart .curve { stroke: var(--accent); stroke-width: 2; fill: none; stroke-linejoin: round; }
.chart .curve.other { stroke: var(--muted); stroke-width: 1.4; }
.chart .dash1 { stroke-dasharray: 7 3; } .chart .dash2 { stroke-dasharray: 2 3; }
.chart .dash3 { stroke-dasharray: 9 3 2 3; } .chart .dash4 { stroke-dasharray: 4 4; }
.chart .guide { stroke: var(--muted); stroke-width: 1.3; stroke-dasharray: 5 4; fill: none; }
.chart .area { fill: var(--soft); }
.chart .dot { fill: var(--accent); } .chart .dot.other { fill: var(--muted); }
.chart .dot.ring { fill: var(--card); stroke: var(--ink); stroke-width: 1.6; }
"""


@dataclass(frozen=True)
class Bar:
    """One bar: its name, its length (None where there is none), what is written beside it."""

    name: str
    value: float | None
    text: str
    chosen: bool = False


def bar_chart(
    bars: Sequence[Bar], *, name: str, title: str, description: str, longest: float = 0.0
) -> Markup:
    """Return horizontal bars from zero, each under its name; ``longest`` is what fills the rail."""
    longest = max(longest, *(bar.value for bar in bars if bar.value), 0.0) or 1.0
    parts = []
    for k, bar in enumerate(bars):
        top = k * _ROW
        kind = "bar chosen" if bar.chosen else "bar"
        written = "name chosen" if bar.chosen else "name"
        title_of_bar = _text(_cut(bar.name))
        parts.append(f'<text class="{written}" x="0" y="{top + 15:g}">{title_of_bar}</text>')
        parts.append(
            f'<text class="value" x="{WIDTH:g}" y="{top + 15:g}" text-anchor="end">'
            f"{_text(bar.text)}</text>"
        )
        parts.append(_rectangle("rail", WIDTH, top + 21))
        if bar.value is not None:
            parts.append(_rectangle(kind, max(bar.value / longest * WIDTH, 2.0), top + 21))
    return drawing(parts, WIDTH, max(len(bars), 1) * _ROW, name, title, description)


@dataclass(frozen=True)
class Interval:
    """One value with an interval around it, or none, and what is written beside it."""

    name: str
    value: float
    text: str
    low: float | None = None
    high: float | None = None


def interval_chart(
    intervals: Sequence[Interval], *, name: str, title: str, description: str
) -> Markup:
    """Return values as dots on a common axis with zero, each under its name, with whiskers."""
    ends = [end for each in intervals for end in (each.value, each.low, each.high)]
    values = [0.0, *(end for end in ends if end is not None)]
    low, high = min(values), max(values)
    width = (high - low) or 1.0
    axis = Axis("", low - 0.02 * width, high + 0.02 * width, ())
    parts, height = [], max(len(intervals), 1) * _NARROW
    zero = axis.share(0.0) * WIDTH
    for k, each in enumerate(intervals):
        top = k * _NARROW
        place, line = axis.share(each.value) * WIDTH, top + 21
        parts.append(f'<text class="name" x="0" y="{top + 12:g}">{_text(_cut(each.name))}</text>')
        parts.append(
            f'<text class="value" x="{WIDTH:g}" y="{top + 12:g}" text-anchor="end">'
            f"{_text(each.text)}</text>"
        )
        parts.append(f'<path class="grid" d="M0 {line:g}H{WIDTH:g}"/>')
        parts.append(f'<path class="axis" d="M{zero:.1f} {line - 5:g}V{line + 5:g}"/>')
        if each.low is not None and each.high is not None:
            first, last = (axis.share(end) * WIDTH for end in (each.low, each.high))
            parts.append(f'<path class="whisker" d="M{first:.1f} {line:g}H{last:.1f}"/>')
        parts.append(f'<circle class="dot" cx="{place:.1f}" cy="{line:g}" r="3.2"/>')
    return drawing(parts, WIDTH, height, name, title, description)


def _cut(name: str) -> str:
    """Return a name that a chart has room for."""
    return name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"


def _rectangle(kind: str, width: float, top: float) -> str:
    return f'<rect class="{kind}" x="0" y="{top:g}" width="{width:.1f}" height="{_BAR:g}" rx="2"/>'


def _grid(x: Axis, y: Axis) -> list[str]:
    """Return the grid, the ticks' labels and the axes' names."""
    left, right, top, bottom = _LEFT, _LEFT + x.length, _TOP, _TOP + y.length
    parts = []
    for value, text in y.ticks:
        h = _down(value, y)
        parts.append(f'<path class="grid" d="M{left:g} {h:.1f}H{right:g}"/>')
        parts.append(_label(left - 7, h + 4, text, "end"))
    for value, text in x.ticks:
        across = _across(value, x)
        parts.append(f'<path class="grid" d="M{across:.1f} {top:g}V{bottom:g}"/>')
        parts.append(_label(across, bottom + 17, text, "middle"))
    parts.append(f'<path class="axis" d="M{left:g} {top:g}V{bottom:g}H{right:g}"/>')
    parts.append(_label((left + right) / 2, bottom + 36, x.label, "middle", "axis-name"))
    parts.append(_label(0, 12, y.label, "start", "axis-name"))
    return parts


def _marked(point: Point, label: str, x: Axis, y: Axis) -> list[str]:
    """Return a point and its label, on the side where there is room."""
    across, down = _across(point[0], x), _down(point[1], y)
    # The curves here fall: to the right the space above is free, to the left the one below.
    if across > _LEFT + 0.45 * x.length:
        place = _label(across - 8, min(down + 16, _TOP + y.length - 6), label, "end", "mark-name")
    else:
        place = _label(across + 8, max(down - 8, _TOP + 12), label, "start", "mark-name")
    return [_dot(point, x, y, "mark", 5.0), place]


def _dot(point: Point, x: Axis, y: Axis, kind: str, radius: float) -> str:
    return (
        f'<circle class="{kind}" cx="{_across(point[0], x):.1f}" '
        f'cy="{_down(point[1], y):.1f}" r="{radius:g}"/>'
    )


def _label(x: float, y: float, text: str, anchor: str, kind: str = "tick") -> str:
    return (
        f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{_text(text)}</text>'
    )


def _across(value: float, axis: Axis) -> float:
    return _LEFT + axis.share(value) * axis.length


def _down(value: float, axis: Axis) -> float:
    return _TOP + (1.0 - axis.share(value)) * axis.length


def _path(points: Sequence[Point], x: Axis, y: Axis) -> str:
    return "M" + "L".join(f"{_across(a, x):.2f} {_down(b, y):.2f}" for a, b in points)


def drawing(
    parts: Sequence[str], width: float, height: float, name: str, title: str, description: str
) -> Markup:
    """Return the element, with what a screen reader says about it."""
    name = f"chart-{name}"  # apart from the page's own identifiers
    return Markup(
        f'<svg class="chart" role="img" viewBox="0 0 {width:g} {height:g}" '
        f'aria-labelledby="{name}-title {name}-desc">'
        f'<title id="{name}-title">{_text(title)}</title>'
        f'<desc id="{name}-desc">{_text(description)}</desc>{"".join(parts)}</svg>'
    )


def _text(text: str) -> str:
    return escape(safe(text), quote=True)
