"""Results as figures of Matplotlib, which is optional: the extra ``plot`` has it.

`RENDERERS` says which function draws which kind; each takes the result and axes, or None for new
ones, and returns the axes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..errors import MissingExtraError
from ..fit.choose import Recommendation
from ..fit.forecast import Forecast
from ..fit.outlook import Outlook, outlook
from ..fit.tradeoff import Tradeoff
from ..fit.weight_noise import weight_noise
from ..models.file import SavedModel
from ..models.weights import Weights, named_weights, weights_of
from ..privacy import certificate_text
from ..privacy.certificate import Certificate, Verification
from ..privacy.odometer.odometer import Odometer
from ..solvers.base import BasePlan, Result
from . import charts
from .charts import odds_of
from .formatting import safe

_MOST_BARS = 12
_RATES = tuple(k / 200 for k in range(201))


def plan(value: BasePlan, ax: Any) -> Any:
    """Draw the noise of each round, or what to expect of plans of a single one."""
    rounds = list(value.schedule()) if 1 < value.total_rounds <= 10_000 else []
    if not any(each.sigma for each in rounds):
        return expectation(outlook(value.task, solver=value.solver), ax)
    ax = _axes(ax)
    ax.plot([each.round for each in rounds], [each.sigma for each in rounds])
    ax.set(xlabel="round", ylabel="noise (sigma)")
    ax.set_ylim(bottom=0.0)
    return _titled(ax, f"{value.solver}: {certificate_text.amounts(value.budget)}")


def recommendation(value: Recommendation, ax: Any) -> Any:
    """Draw the predicted excess of solvers, as multiples of the first."""
    ax, unit = _axes(ax), charts.first_risk(value.ranked)
    shown = [each for each in value.ranked[:_MOST_BARS] if math.isfinite(each.risk)][::-1]
    ax.barh([each.solver for each in shown], [each.risk / unit for each in shown])
    ax.set(xlabel="predicted excess risk, as multiples of the first")
    return _titled(ax, "Solvers that apply, best first")


def expectation(value: Outlook, ax: Any) -> Any:
    """Draw the expected excess risk with its band, and what the best constant loses."""
    ax = _axes(ax)
    if not math.isnan(value.excess):
        below, above = value.excess - value.low, value.high - value.excess
        ax.errorbar([value.excess], [0], xerr=[[max(below, 0.0)], [max(above, 0.0)]], fmt="o")
        ax.axvline(value.constant, linestyle="--", label="best constant prediction")
        ax.legend()
    ax.set(xlabel="excess risk, with the band of eight in ten real tables", yticks=[])
    return _titled(ax, value.verdict)


def forecast(value: Forecast, ax: Any) -> Any:
    """Draw the least excess by the number of rounds, and that of each solver."""
    ax = _axes(ax)
    for key in value.defaults:
        ax.plot(
            value.rounds,
            [value.at(rounds, key).excess for rounds in value.rounds],
            marker=".",
            label=key,
        )
    ax.set(xlabel="rounds", ylabel="excess risk", xscale="log", yscale="log")
    ax.legend()
    return _titled(ax, "What fewer rounds cost")


def tradeoff(value: Tradeoff, ax: Any) -> Any:
    """Draw the expected excess of what "auto" takes against epsilon, with its band."""
    ax = _axes(ax)
    points = [point for point in value.chosen if not math.isnan(point.excess)]
    epsilons = [point.epsilon for point in points]
    ax.plot(epsilons, [point.excess for point in points], marker="o", label="expected")
    ax.fill_between(
        epsilons, [point.low for point in points], [point.high for point in points], alpha=0.2
    )
    if points:
        ax.axhline(
            points[0].constant, linestyle="--", color="grey", label="best constant prediction"
        )
        ax.legend()
    ax.set(xlabel="epsilon", ylabel="excess risk", xscale="log")
    return _titled(ax, "Accuracy against privacy")


def certificate(value: Certificate, ax: Any) -> Any:
    """Draw the most that any attack can detect against its false alarms."""
    ax, odds = _axes(ax), odds_of(value)
    ax.plot([0, 1], [0, 1], linestyle="--", color="grey", label="guessing")
    if odds is not None:
        ax.plot(_RATES, [odds.power(rate) for rate in _RATES], label="best possible attack")
    ax.set(xlabel="false alarms", ylabel="detected", xlim=(0, 1), ylim=(0, 1))
    ax.legend(loc="lower right")
    return _titled(ax, certificate_text.spent(value))


def verification(value: Verification, ax: Any) -> Any:
    """Draw the attack curve of a certificate under what its verification says."""
    ax = certificate(value.certificate, ax)
    return _titled(ax, f"{value.verdict}: {certificate_text.spent(value.certificate)}")


def result(value: Result, ax: Any) -> Any:
    """Draw the weights of a run, largest first, with their noise."""
    by_place = weights_of(value.weights.reshape(-1), weight_noise(value.plan), 1.0)
    return _weights(by_place, ax, certificate_text.spent(value.certificate))


def saved_model(value: SavedModel, ax: Any) -> Any:
    """Draw the weights of a model, largest first, with their noise."""
    by_name = named_weights(value.model, value.plan, value.names)
    return _weights(by_name, ax, certificate_text.spent(value.certificate))


def weights(value: Weights, ax: Any) -> Any:
    """Draw the largest weights with their noise."""
    return _weights(value, ax, f"The largest of {len(value):,} weights")


def estimator(value: Any, ax: Any) -> Any:
    """Draw the weights of a fitted estimator, largest first, with their noise."""
    return _weights(value.named_weights(), ax, certificate_text.spent(value.certificate_))


def odometer(value: Odometer, ax: Any) -> Any:
    """Draw what was spent after each entry, beside what there is."""
    from ..privacy.accounting.composition import compose, cost

    ax, prices, spent = _axes(ax), [], [0.0]
    for entry in value.entries():
        prices.append(cost(entry.releases, adjacency=value.budget.adjacency))
        spent.append(compose(prices, unit=value.budget.unit).against(value.budget)[0])
    allowed = value.cost().against(value.budget)[1]
    ax.step(range(len(spent)), spent, where="post", marker="o")
    ax.axhline(allowed, linestyle="--", color="grey", label="budget")
    ax.set(xlabel="entries", ylabel=f"{next(iter(value.budget.amounts()))} spent")
    ax.set_ylim(0.0, 1.08 * allowed)
    ax.legend()
    return _titled(ax, certificate_text.amounts(value.budget))


def _weights(shown_weights: Weights, ax: Any, title: str) -> Any:
    ax = _axes(ax)
    shown = shown_weights.largest(_MOST_BARS)[::-1]
    noise = [each.noise for each in shown]
    places = list(range(len(shown)))
    ax.errorbar(
        [each.value for each in shown],
        places,
        xerr=None if None in noise else noise,
        fmt="o",
        capsize=3,
    )
    ax.axvline(0.0, linestyle="--", color="grey")
    ax.set_yticks(places, [_name(charts.weight_name(each)) for each in shown])
    about = shown_weights.about
    known = about is not None and about.sigma is not None
    ax.set(xlabel="weight ± one standard deviation of the noise" if known else "weight")
    return _titled(ax, title)


def _name(name: str) -> str:
    """Return a name that there is room for beside an axis."""
    return _plain(name if len(name) <= 40 else f"{name[:39]}…")


def _plain(words: str) -> str:
    """Return text without signs of a formula, which Matplotlib would typeset."""
    return safe(words).replace("$", r"\$")


def _titled(ax: Any, title: str) -> Any:
    ax.set_title(_plain(title), fontsize=10)
    return ax


def _axes(ax: Any) -> Any:
    """Return the axes, or new ones."""
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError:
        raise MissingExtraError(
            "plot() needs Matplotlib. Install it with: pip install 'dpsco[plot]'. Without it a "
            "notebook draws results by themselves, and a report does."
        ) from None
    _, ax = pyplot.subplots(layout="constrained")
    return ax


RENDERERS: dict[str, Callable[[Any, Any], Any]] = {
    "plan": plan,
    "recommendation": recommendation,
    "outlook": expectation,
    "forecast": forecast,
    "tradeoff": tradeoff,
    "certificate": certificate,
    "verification": verification,
    "result": result,
    "model": saved_model,
    "weights": weights,
    "odometer": odometer,
    "estimator": estimator,
}
