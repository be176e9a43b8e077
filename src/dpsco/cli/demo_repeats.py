"""The demonstration, repeated: what fits of several budgets reach, and how far they vary.

One fit says little: another draw of the noise gives another accuracy, and so would other fresh
messages. So every budget is fitted several times, and the table states both uncertainties. The
messages are public, hence free; on private rows every further fit has to be paid for.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..fit.rehearsal import PUBLIC, measured_point
from ..fit.tradeoff import AUTO, Tradeoff, TradeoffPoint, tradeoff_of
from ..privacy.accounting.composition import Cost
from ..privacy.budget import fit_budget
from ..privacy.randomness import Randomness
from ..report import tradeoff_svg
from ..solvers.base import BasePlan
from ..task import Task
from .demo_fit import PLAIN, TRIVIAL, Floats, Messages, not_private

EPSILONS = (0.3, 1.0, 3.0)
REPEATS = 10
BASE_RATE = 0.134  # of spam, as the collection's authors published it


@dataclass(frozen=True)
class Score:
    """How good one kind of model is on the fresh messages."""

    name: str
    accuracies: tuple[float, ...]  # by fit
    losses: tuple[float, ...]  # mean log-losses, by fit
    privacy: str

    @property
    def accuracy(self) -> float:
        """The mean over fits."""
        return float(np.mean(self.accuracies))

    @property
    def spread(self) -> float:
        """The standard deviation over fits: what the noise does."""
        return float(np.std(self.accuracies, ddof=1)) if len(self.accuracies) > 1 else 0.0


@dataclass(frozen=True)
class Comparison:
    """Fits of several budgets, beside no privacy and nothing learnt."""

    scores: tuple[Score, ...]
    rows: tuple[int, int]  # fitted on, measured on
    forecast: Tradeoff  # what was to be expected, before any fit
    measured: Tradeoff

    @property
    def error(self) -> float:
        """The standard error that so few fresh messages leave in any accuracy."""
        share = self.scores[-1].accuracy
        return math.sqrt(share * (1.0 - share) / self.rows[1])

    def __str__(self) -> str:
        repeats = len(self.scores[1].accuracies)
        lines = [
            f"Is a text message spam? Fitted on {self.rows[0]:,} messages; measured on "
            f"{self.rows[1]:,} others.",
            "",
            f"{'model':<28}{'accuracy':>10}{'':>10}  {'log-loss':>8}  privacy",
        ]
        for score in self.scores:
            spread = f"+- {100 * score.spread:.1f}" if len(score.accuracies) > 1 else ""
            lines.append(
                f"{score.name:<28}{100 * score.accuracy:>8.1f} %{spread:>10}  "
                f"{np.mean(score.losses):>8.3f}  {score.privacy}"
            )
        return "\n".join([*lines, "", *self._caveats(repeats)])

    def _caveats(self, repeats: int) -> list[str]:
        """Return what the differences mean, in lines."""
        error, plain = 100 * self.error, self.scores[-1]
        spread = f"+- is the standard deviation over {repeats} fits with fresh noise."
        sentences = [
            spread if repeats > 1 else "One fit of each: --repeats shows how far they vary.",
            f"The small number of fresh messages adds +- {error:.1f} % to every line: differences "
            f"below {2 * error:.1f} % mean nothing.",
        ]
        above = [each.name for each in self.scores[1:-1] if each.accuracy > plain.accuracy]
        if above:
            sentences.append(
                f"That {' and '.join(above)} came out above the model without privacy is "
                "chance, too."
            )
        sentences.append(
            "Fits were repeated because these messages are public. On private rows every further "
            "fit costs its epsilon again."
        )
        return textwrap.wrap(" ".join(sentences), 100)

    def picture(self) -> str:
        """Return the trade-off as SVG: what was expected, and what was measured."""
        return tradeoff_svg(self.forecast, measured=self.measured)


def compare(
    epsilons: Sequence[float] = EPSILONS,
    *,
    repeats: int = REPEATS,
    randomness: Randomness | None = None,
) -> Comparison:
    """Fit the bundled messages with several budgets, several times each.

    Args:
        epsilons: the budgets; delta is 1/n^2.
        repeats: fits of each.
        randomness: secure by default; tests seed it.
    """
    messages = Messages.load()
    X, y = messages.encoded(messages.private)
    Z, answers = messages.encoded(messages.fresh)
    rate = float(np.mean(y))
    constant = np.full(len(answers), math.log(rate / (1.0 - rate)))
    trivial = _score(TRIVIAL, [constant], answers, "nothing learnt")
    plain = _score(PLAIN, [not_private(X, y)(Z)], answers, "none")
    forecast = _forecast(messages, epsilons)
    scores, points = [], []
    for point in forecast.points:
        plan = messages.plan(point.epsilon)
        fits = (plan.run(messages.table, randomness=randomness) for _ in range(repeats))
        spent = f"epsilon {point.epsilon:g}, delta {point.delta:.3g}"
        name = f"private, epsilon {point.epsilon:g}"
        scores.append(_score(name, [fit.model.decision(Z) for fit in fits], answers, spent))
        points.append(_measured(point, scores[-1], trivial, plain))
    measured = replace(forecast, points=tuple(points))
    return Comparison((trivial, *scores, plain), (len(y), len(answers)), forecast, measured)


def _forecast(messages: Messages, epsilons: Sequence[float]) -> Tradeoff:
    """Return what is to be expected, before any fit."""
    n, d = len(messages.private), messages.encoder.width
    task = Task(messages.config.problem(), n, d, fit_budget(n, epsilon=max(epsilons)))

    def planner(task: Task, _: str) -> tuple[BasePlan, Cost]:
        plan = messages.plan(task.budget.amounts()["epsilon"])
        return plan.fit, plan.cost

    return tradeoff_of(task, epsilons, planner, solvers=AUTO, base_rate=BASE_RATE)


def _score(name: str, decisions: Sequence[Floats], answers: Floats, privacy: str) -> Score:
    """Return how good models are that scored the fresh messages like this."""
    signs = 2.0 * answers - 1.0
    accuracies = tuple(float(np.mean((scores > 0) == (answers > 0))) for scores in decisions)
    losses = tuple(float(np.mean(np.logaddexp(0.0, -signs * scores))) for scores in decisions)
    return Score(name, accuracies, losses, privacy)


def _measured(point: TradeoffPoint, score: Score, trivial: Score, plain: Score) -> TradeoffPoint:
    """Return a point of the forecast with what the fits lost."""
    constant, best = trivial.losses[0], plain.losses[0]
    return measured_point(point, np.array(score.losses) - best, constant, best, PUBLIC)
