"""The pictures of a report: what each one shows, and what is said of it to who cannot see it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ..errors import DpscoError, MissingExtraError
from ..fit.choose import Candidate
from ..fit.forecast import Forecast
from ..fit.outlook import Outlook
from ..fit.weight_noise import WeightNoise
from ..models.diagnostics import Bin
from ..models.weights import Weight, Weights
from ..privacy.accounting.attack_roc import Odds
from ..privacy.certificate import CURVE_DELTAS, Certificate
from ..solvers.base import NOT_CALIBRATED, BasePlan, TraceLine
from .formatting import Markup, claim, percent, plain
from .svg import (
    Axis,
    Bar,
    Interval,
    Point,
    bar_chart,
    interval_chart,
    line_chart,
    linear,
    logarithmic,
)

_RATES = tuple(k / 1000 for k in range(10)) + tuple(k / 100 for k in range(1, 101))
_LEAST_DELTA = 1e-12
_MOST_POINTS = 200  # of a schedule that are drawn
_WIDE = 30.0  # largest over smallest value beyond which an axis is logarithmic
_MOST_BARS = 5  # the whole list is in a table
_LOW = 170.0  # the height of the small charts
MOST_WEIGHTS = 12  # that are drawn; the others are in a table


def odds_of(stated: Certificate | BasePlan) -> Odds | None:
    """Return the odds from recomputed costs, or None where forged releases have none."""
    try:
        odds = Odds(stated.cost)
        return odds if odds.points and odds.cost.epsilon(CURVE_DELTAS[0]) < math.inf else None
    except MissingExtraError:
        raise
    except (DpscoError, ArithmeticError, MemoryError):
        return None


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


def weights(shown: Weights) -> Markup:
    """Draw the largest weights by name, with the noise that the plan knows of as whiskers."""
    drawn = shown.largest(MOST_WEIGHTS)
    intervals = [
        Interval(
            weight_name(each),
            each.value,
            weight_text(each, shown.about),
            None if each.noise is None else each.value - each.noise,
            None if each.noise is None else each.value + each.noise,
        )
        for each in drawn
    ]
    count = f"The {len(drawn)} largest of {len(shown):,} weights"
    first = (
        f" The largest: {weight_name(drawn[0])}, {weight_text(drawn[0], shown.about)}."
        if drawn
        else ""
    )
    whiskers = (
        ""
        if shown.about is None or shown.about.sigma is None
        else (" Whiskers reach one standard deviation of the noise to each side.")
    )
    return interval_chart(
        intervals,
        name="weights",
        title="Weights by column",
        description=f"{count}; a short stroke marks zero.{first}{whiskers}",
    )


def weight_name(weight: Weight) -> str:
    """Return the name of a weight: its column, and the class that it speaks for."""
    return weight.column if weight.of is None else f"{weight.column} → {weight.of}"


def weight_text(weight: Weight, about: WeightNoise | None) -> str:
    """Return a weight, with its noise where that is exact."""
    exact = weight.noise is not None and about is not None and about.exact
    noise = f" ± {plain(weight.noise, 2)}" if exact and weight.noise is not None else ""
    return f"{plain(weight.value, 3)}{noise}"


def noise_name(about: WeightNoise | None) -> str:
    """Return what the noise of a weight is called in a table."""
    if about is None or about.sigma is None:
        return "noise (sd)"
    return "noise (sd)" if about.exact else "noise alone (sd)"


def calibration(bins: Sequence[Bin]) -> Markup:
    """Draw how often what was predicted came true, with what so many rows leave open."""
    points = [(each.predicted, each.value) for each in bins]
    return line_chart(
        points,
        linear("predicted probability", 0.0, 1.0),
        y=linear("observed share", 0.0, 1.0),
        name="calibration",
        title="Calibration",
        description="Observed share against predicted probability, in "
        f"{len(bins)} groups of rows. {_said(bins)}",
        guide=((0.0, 0.0), (1.0, 1.0)),
        spans=[(each.predicted, each.low, each.high) for each in bins],
    )


def residuals(bins: Sequence[Bin]) -> Markup:
    """Draw how far labels lay from predictions on average, with what so many rows leave open."""
    predicted = [each.predicted for each in bins]
    low, high = min(each.low for each in bins), max(each.high for each in bins)
    first, last = min(predicted), max(predicted)
    return line_chart(
        [(each.predicted, each.value) for each in bins],
        linear("prediction", first, last, about=4),
        y=linear("label minus prediction", min(low, 0.0), max(high, 0.0)),
        name="residuals",
        title="Residuals",
        description="Mean of label minus prediction against the prediction, in "
        f"{len(bins)} groups of rows. {_said(bins)}",
        guide=((first, 0.0), (last, 0.0)),
        spans=[(each.predicted, each.low, each.high) for each in bins],
    )


def _said(bins: Sequence[Bin]) -> str:
    """Return the ends of a figure of groups in words."""
    first, last = bins[0], bins[-1]
    return (
        f"From {plain(first.value, 2)} at {plain(first.predicted, 2)} to {plain(last.value, 2)} at "
        f"{plain(last.predicted, 2)}. Upright lines are two standard errors to each side."
    )


def expected(outlook: Outlook) -> Markup:
    """Draw the expected excess risk with its band, beside what the best constant loses."""
    about = "about " if outlook.typical else ""
    return interval_chart(
        [
            Interval(
                "expected excess risk",
                outlook.excess,
                f"{plain(outlook.excess, 2)} ({band(outlook)})",
                outlook.low,
                outlook.high,
            ),
            Interval(
                "best constant prediction loses",
                outlook.constant,
                f"{about}{plain(outlook.constant, 2)}",
            ),
        ],
        name="outlook",
        title="What to expect",
        description=f"{outlook.numbers} The whisker is the band in which eight of ten real tables "
        "lay; a short stroke marks zero.",
    )


def band(outlook: Outlook) -> str:
    """Return the band of an outlook in words."""
    if not outlook.low:
        return f"at most {plain(outlook.high, 2)}"
    return f"{plain(outlook.low, 2)} to {plain(outlook.high, 2)}"


def by_rounds(forecast: Forecast) -> Markup:
    """Draw the least excess of a single epoch against the number of rounds."""
    points = [(math.log2(rounds), forecast.at(rounds).excess) for rounds in forecast.rounds]
    values = [value for _, value in points]
    low, high = min(values), max(values)
    ticks = tuple((math.log2(rounds), f"{rounds:,}") for rounds in _spread(forecast.rounds, most=6))
    last = points[-1][0] if points[-1][0] > points[0][0] else points[0][0] + 1.0
    best = forecast.best
    return line_chart(
        points,
        Axis("rounds", points[0][0], last, ticks),
        y=logarithmic("excess risk", low, high),
        name="rounds",
        title="What fewer rounds cost",
        description="Least excess risk of any solver by the number of rounds: "
        f"{plain(best.excess, 2)} with {best.rounds:,} rounds of {best.solver}, {plain(high, 2)} "
        "at the worst number shown.",
        height=_LOW,
    )


def spends(entries: Sequence[tuple[str, float]], spent: float, allowed: float, unit: str) -> Markup:
    """Draw what entries of an odometer cost by themselves and together; the rail is the budget."""
    bars = [Bar(name, amount, claim(amount, 3)) for name, amount in entries[-_MOST_BARS:]]
    together = f"{claim(spent, 3)} of {plain(allowed, 3)}"
    bars.append(Bar("together", spent, together, chosen=True))
    return bar_chart(
        bars,
        name="spends",
        title=f"What was spent, as {unit}",
        description=f"The last {len(bars) - 1} of {len(entries)} entries, each by itself, and all "
        f"together: {together}. A full bar is the whole budget.",
        longest=allowed,
    )


def _spread(numbers: Sequence[int], most: int) -> list[int]:
    """Return some of the numbers, evenly spread, the last among them."""
    stride = max(1, math.ceil(len(numbers) / most))
    return list(numbers[::-1][::stride][::-1])


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
