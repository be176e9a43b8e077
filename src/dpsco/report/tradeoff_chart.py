"""The picture of a trade-off: what noise costs, and what an attacker gains, against epsilon."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..fit.tradeoff import FORECAST, Tradeoff, TradeoffPoint
from .formatting import Markup, percent, plain
from .svg import WIDTH, Axis, Line, Point, caption, drawing, linear, logarithmic, panel, standalone

_GAP, _HEIGHT, _HEAD, _ROW, _MARGIN = 44.0, 270.0, 34.0, 18.0, 16.0
_MOST_TICKS = 7  # epsilons that are written below the axis
_MOST_SOLVERS = 5  # lines that can be told apart
_NARROW = 0.1  # the least range of the attack's axis


def tradeoff_svg(
    tradeoff: Tradeoff, *, measured: Tradeoff | None = None, stacked: bool = False
) -> str:
    """Return a trade-off as a self-contained SVG, readable on light and dark pages.

    First the expected excess risk with its range, and what the best constant loses; then the proven
    bound on attacks.

    Args:
        tradeoff: of `dpsco.tradeoff` or `dpsco.rehearse`.
        measured: the same budgets, rehearsed: rings on the forecast.
        stacked: one panel below the other, for narrow pages.

    >>> import dpsco as dp
    >>> problem = dp.Problem(loss=dp.losses.Logistic(), bounds=dp.Bounds(1.0, label="sign"))
    >>> task = dp.Task(problem, n=3_000, d=20, budget=dp.ApproxDP(1.0, 1e-7))
    >>> tradeoff_svg(dp.tradeoff(task)).startswith("<svg ")
    True
    """
    x, others = _epsilons(tradeoff), _others(tradeoff)
    legend = _legend(tradeoff, others, measured)
    losses = _losses(tradeoff, others, x, measured)
    attacks = panel(_attacks(tradeoff, others), x, y=_odds(tradeoff), height=_HEIGHT)
    across, down = (0.0, _HEAD + _HEIGHT + _ROW) if stacked else (WIDTH + _GAP, 0.0)
    width = WIDTH + across + 2 * _MARGIN
    bottom = _MARGIN + _HEAD + _HEIGHT + down
    height = bottom + _ROW * len(legend) / 2 + _MARGIN  # a line is a mark and its words
    parts = [
        f'<rect class="paper" width="{width:g}" height="{height:g}"/>',
        *_titled("What the model loses", losses, _MARGIN, _MARGIN),
        *_titled("What an attacker gains", attacks, _MARGIN + across, _MARGIN + down),
        *_shifted(legend, bottom),
    ]
    return str(
        standalone(
            parts,
            width,
            height,
            name="tradeoff",
            title="Accuracy against privacy",
            description=_description(tradeoff),
        )
    )


def _titled(title: str, parts: Sequence[str], across: float, down: float) -> list[str]:
    """Return a panel below its title, at a place."""
    return _shifted([caption(0, 0, title, "heading"), *_shifted(parts, 14)], down + 14, across)


def tradeoff_panels(tradeoff: Tradeoff) -> tuple[Markup, Markup]:
    """Return the two panels as drawings for a page, which stand below one another if need be."""
    x, others = _epsilons(tradeoff), _others(tradeoff)
    attack = panel(_attacks(tradeoff, others), x, y=_odds(tradeoff), height=_HEIGHT)
    parts = (
        ("losses", "What the model loses", _losses(tradeoff, others, x, None)),
        ("attacks", "What an attacker gains", attack),
    )
    loss, gain = (
        drawing(each, WIDTH, _HEIGHT, name, title, _description(tradeoff))
        for name, title, each in parts
    )
    return loss, gain


def _losses(
    tradeoff: Tradeoff, others: Sequence[str], x: Axis, measured: Tradeoff | None
) -> list[str]:
    """Draw the excess of what "auto" takes with its range; a sentence where none is predicted."""
    points = [point for point in tradeoff.chosen if not math.isnan(point.excess)]
    if not points:
        return [caption(0, 40, "Nothing is predicted about the excess risk of these fits.")]
    constant = points[0].constant
    top, least = _largest(tradeoff, constant), _least(tradeoff)
    y = logarithmic("expected excess risk", least, top, about=6)
    curve = Line(
        [(point.epsilon, point.excess) for point in points],
        band=(
            [(point.epsilon, max(point.low, y.low)) for point in points],
            [(point.epsilon, point.high) for point in points],
        ),
    )
    lines = [curve]
    for k, key in enumerate(others):
        own = [point for point in tradeoff.points if point.solver == key]
        if any(point.excess != tradeoff.at(point.epsilon).excess for point in own):
            known = [(point.epsilon, point.excess) for point in own if point.excess > 0.0]
            lines.append(Line(known, _other(k)))
    rings = () if measured is None else measured.chosen
    lines += [Line([(point.epsilon, point.excess)], "curve ring") for point in rings]
    if math.isfinite(constant):
        lines.append(Line([(x.low, constant), (x.high, constant)], "guide", dots=False))
    return panel(lines, x, y=y, height=_HEIGHT)


def _attacks(tradeoff: Tradeoff, others: Sequence[str]) -> list[Line]:
    """Return the lines of the bound on attacks: the other solvers, then what "auto" takes."""
    lines = []
    for k, key in enumerate(others):
        own = [point for point in tradeoff.points if point.solver == key]
        lines.append(Line(_right(own), _other(k)))
    return [*lines, Line(_right(tradeoff.chosen))]


def _other(k: int) -> str:
    """Return the classes of the line of the k-th other solver."""
    return f"curve other dash{k % _MOST_SOLVERS}"


def _right(points: Sequence[TradeoffPoint]) -> list[Point]:
    return [(point.epsilon, point.attack_accuracy) for point in points]


def _others(tradeoff: Tradeoff) -> list[str]:
    """Return the solvers that get a line of their own beside what "auto" takes."""
    chosen = {(point.epsilon, point.solver) for point in tradeoff.chosen}
    return [
        key
        for key in tradeoff.solvers
        if any(
            (point.epsilon, key) not in chosen for point in tradeoff.points if point.solver == key
        )
    ][:_MOST_SOLVERS]


def _epsilons(tradeoff: Tradeoff) -> Axis:
    """Return the axis of epsilons, logarithmic, with a tick at each if they are few."""
    values = tradeoff.epsilons
    if len(values) > _MOST_TICKS:
        stride = math.ceil(len(values) / _MOST_TICKS)
        shown = values[::stride]
    else:
        shown = values
    low, high = values[0] / 1.2, values[-1] * 1.2
    ticks = tuple((value, plain(value, 3)) for value in shown)
    return Axis("epsilon: smaller is more private", low, high, ticks, log=True)


def _odds(tradeoff: Tradeoff) -> Axis:
    """Return the axis of right answers, from guessing upwards, in per cent."""
    most = max(point.attack_accuracy for point in tradeoff.points)
    top = min(1.0, max(0.5 + _NARROW, math.ceil(20 * most) / 20))
    axis = linear("right answers of the best possible attack, at most", 0.5, top)
    ticks = tuple((value, f"{100 * value:.3g} %") for value, _ in axis.ticks)
    return Axis(axis.label, axis.low, axis.high, ticks)


def _largest(tradeoff: Tradeoff, constant: float) -> float:
    highs = [point.high for point in tradeoff.chosen if not math.isnan(point.high)]
    highs += [point.excess for point in tradeoff.points if not math.isnan(point.excess)]
    return max([*highs, *([constant] if math.isfinite(constant) else [])])


def _least(tradeoff: Tradeoff) -> float:
    """Return the least positive end of a range, or a tenth of the least excess without one."""
    known = [point for point in tradeoff.points if not math.isnan(point.excess)]
    values = [point.low for point in known if point.low > 0.0]
    values += [point.excess for point in known if point.excess > 0.0]
    return min(values, default=1e-3)


def _legend(tradeoff: Tradeoff, others: Sequence[str], measured: Tradeoff | None) -> list[str]:
    """Return what lines and areas mean, a line each; both panels share it."""
    first, names = tradeoff.chosen[0], {point.solver for point in tradeoff.chosen}
    taken = ", ".join(sorted(names)) if len(names) < 3 else f"{len(names)} solvers"
    about = "about " if first.typical else ""
    band = {FORECAST: "where eight of ten real tables lay"}.get(
        tradeoff.basis, f"where most of {first.repeats} fits on {tradeoff.basis} lay"
    )
    rows = [("curve", f"{tradeoff.choice}: {taken}")]
    if not math.isnan(first.excess):
        rows.append(("area", band))
    if math.isfinite(first.constant):
        rows.append(
            ("guide", f"the best constant prediction loses {about}{plain(first.constant, 2)}")
        )
    rows += [(_other(k), key) for k, key in enumerate(others)]
    if measured is not None:
        count, basis = measured.points[0].repeats, measured.basis
        rows.append(("ring", f"the mean of {count} fits, measured on {basis}"))
    parts = []
    for k, (kind, text) in enumerate(rows):
        down = 12 + k * _ROW
        mark = f'<path class="{kind}" d="M44 {down:g}H72"/>'
        if kind == "area":
            mark = f'<rect class="area" x="44" y="{down - 6:g}" width="28" height="12"/>'
        if kind == "ring":
            mark = f'<circle class="dot ring" cx="58" cy="{down:g}" r="3.2"/>'
        parts.append(mark)
        parts.append(caption(80, down + 4, text))
    return parts


def _shifted(parts: Sequence[str], down: float, across: float = 0.0) -> list[str]:
    return [f'<g transform="translate({across:g} {down:g})">', *parts, "</g>"]


def _description(tradeoff: Tradeoff) -> str:
    """Return the picture in words, for those who cannot see it."""
    sentences = []
    for point in tradeoff.chosen:
        loss = "nothing is predicted about the loss"
        if not math.isnan(point.excess):
            loss = f"excess risk {point.excess:.2g}, at most {point.high:.2g}"
        sentences.append(
            f"Epsilon {plain(point.epsilon, 3)}: {loss}; an attack is right in at most "
            f"{percent(point.attack_accuracy)} of cases."
        )
    return " ".join(sentences)
