"""The pictures of a report: what each one shows, and what is said of it to who cannot see it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ..fit.choose import Candidate
from ..solvers.base import NOT_CALIBRATED, TraceLine
from .attack_roc import Odds
from .formatting import Markup, claim, percent, plain
from .svg import Bar, Point, bar_chart, line_chart, linear, logarithmic

_RATES = tuple(k / 1000 for k in range(10)) + tuple(k / 100 for k in range(1, 101))
_LEAST_DELTA = 1e-12
_MOST_POINTS = 200  # of a schedule that are drawn
_WIDE = 30.0  # largest over smallest value beyond which an axis is logarithmic
_MOST_BARS = 5  # the whole list is in a table
_LOW = 170.0  # the height of the small charts


def roc(odds: Odds) -> Markup:
    """Draw the most that any attack can detect against its false alarms."""
    points = [(rate, odds.power(rate)) for rate in _RATES]
    detected, right = percent(odds.power(0.05)), percent(odds.accuracy)
    return line_chart(
        points,
        linear("false alarms", 0.0, 1.0),
        y=linear("detected", 0.0, 1.0),
        name="roc",
        title="The best possible attack",
        description=(
            "Largest share detected against the share of false alarms. Guessing lies on the "
            "diagonal; no attack lies above the curve. At 5 % false alarms it detects at most "
            f"{detected}; the largest share of right answers is {right}."
        ),
        area=True,
        guide=((0.0, 0.0), (1.0, 1.0)),
    )


def privacy_curve(odds: Odds, mark: Point | None) -> Markup:
    """Draw delta against epsilon."""
    shown = _down_to(odds.points, _LEAST_DELTA)
    last = shown[-1][0]
    if mark is not None:
        last = max(last, mark[0])
    said = "" if mark is None else f" The certificate states epsilon {claim(mark[0])} at delta "
    said += "" if mark is None else f"{claim(mark[1], 3)}."
    label = "" if mark is None else f"ε {claim(mark[0])}, δ {claim(mark[1], 3)}"
    return line_chart(
        shown,
        linear("epsilon", 0.0, last * 1.04),
        y=logarithmic("delta", _LEAST_DELTA, 1.0, about=6),
        name="curve",
        title="The privacy curve",
        description=(
            f"Delta falls as epsilon grows, from {claim(shown[0][1], 3)} at epsilon 0 to "
            f"{claim(shown[-1][1], 3)} at epsilon {claim(shown[-1][0])}.{said}"
        ),
        mark=None if mark is None else (mark, label),
    )


def schedule(rounds: Sequence[TraceLine]) -> list[tuple[Markup, str]]:
    """Draw the step size and the noise by round, where there is any; each with a caption."""
    parts: tuple[tuple[str, str, Callable[[TraceLine], float]], ...] = (
        ("steps", "step size", lambda each: each.step),
        ("noise", "noise (sigma)", lambda each: each.sigma),
    )
    pictures = []
    for name, label, read in parts:
        points = [(float(each.round), read(each)) for each in _thinned(rounds)]
        if any(value > 0 for _, value in points):
            pictures.append((_by_round(points, name, label), f"{label.capitalize()} by round."))
    return pictures


def risks(ranked: Sequence[Candidate], chosen: str | None) -> Markup:
    """Draw the predicted excess of the first solvers and of the chosen one, as multiples."""
    unit, shown = first_risk(ranked), list(ranked[:_MOST_BARS])
    shown += [each for each in ranked[_MOST_BARS:] if each.solver == chosen]
    bars = [
        Bar(
            each.solver,
            each.risk / unit if math.isfinite(each.risk) else None,
            risk_text(each, unit) if math.isfinite(each.risk) else "not predicted",
            each.solver == chosen,
        )
        for each in shown
    ]
    first = f"First: {bars[0].name} with {bars[0].text}."
    count = f"{len(bars)} of {len(ranked)} solvers"
    used = "" if chosen is None else f" Used here: {chosen}."
    return bar_chart(
        bars,
        name="risks",
        title="Predicted excess by solver, as multiples of the first",
        description=f"{count}, shorter is predicted lower. {first}{used}",
    )


def first_risk(ranked: Sequence[Candidate]) -> float:
    """Return the predicted excess of the first solver of which any is predicted; 1 if of none."""
    return next((each.risk for each in ranked if 0.0 < each.risk < math.inf), 1.0)


def risk_text(candidate: Candidate, unit: float) -> str:
    """Return a predicted excess as so many times the ``unit``; a formula alone is marked."""
    risk = plain(candidate.risk / unit, 3)
    return risk if candidate.calibrated else f"{risk} ({NOT_CALIBRATED})"


def _by_round(points: Sequence[Point], name: str, label: str) -> Markup:
    values = [value for _, value in points]
    low, high = min(values), max(values)
    wide = low > 0 and high / low > _WIDE
    y = logarithmic(label, low, high) if wide else linear(label, 0.0, 1.1 * high, about=4)
    first, last = points[0], points[-1]
    steady = (
        f"{plain(low)} in every round"
        if low == high
        else (
            f"{plain(first[1])} in round {first[0]:.0f}, {plain(last[1])} in round {last[0]:.0f}, "
            f"between {plain(low)} and {plain(high)}"
        )
    )
    return line_chart(
        points,
        linear("round", first[0], last[0], about=4),
        y=y,
        name=name,
        title=f"{label.capitalize()} by round",
        description=f"{label.capitalize()}: {steady}.",
        height=_LOW,
    )


def _thinned(rounds: Sequence[TraceLine]) -> list[TraceLine]:
    """Return evenly spaced rounds, the first and the last among them."""
    count = min(len(rounds), _MOST_POINTS)
    if count < 2:
        return list(rounds)
    return [rounds[round(k * (len(rounds) - 1) / (count - 1))] for k in range(count)]


def _down_to(points: Sequence[Point], least: float) -> list[Point]:
    """Return the curve up to the first point at or below the least delta that is drawn."""
    shown: list[Point] = []
    for epsilon, delta in points:
        shown.append((epsilon, delta))
        if delta <= least:
            break
    return shown
