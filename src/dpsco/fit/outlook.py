"""What to expect of a fit before anything is paid: its excess risk, with a band, and a verdict.

An outlook comes from the public task alone; no row is read. Excess risk is the mean loss of the
private model minus that of the best linear model without privacy, in units of the loss. It grows
with

    u = sqrt(P) / z,   z = n mu / sensitivity of a bound of 1,

P the number of weights (no more than rows: directions that no row has cost nothing) and z the rows
against the noise of one release that spends the whole budget. With K classes u is K/2 times as
large: a class is learnt from its own n/K rows. Zero weights lose F(0), and noise costs

    F(0) v / (1 + v),   v = (u / middle)^power,

that is a power of u while noise is small, and never more than what zero weights lose. A larger
budget or the weaker adjacency can only lower u, so no forecast ever contradicts another. Families
of losses have a middle, a power and a band of their own, fitted to a park of real tables with the
defaults (``python -m benchmarks.bands``): the band is the 10th to 90th percentile of what such
tables measured, for tables that the fit had not seen.

What there is to learn is private. A public base rate of the classes, or a public spread of the
labels, says what the best constant loses, and makes verdicts better; without one it is what tables
typically have. See docs/choosing.md for how often warnings were right.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .. import _validate
from .._display import Displayed
from ..data.labels import Scaled
from ..errors import AssumptionError, OutlookWarning, ParameterError
from ..losses.base import MarginLoss
from ..privacy.budget import Budget
from ..problem import Problem
from ..solvers import get
from ..solvers.base import BasePlan, emit_warnings
from ..task import Task, as_task

RESOLUTION = 0.003  # of the loss of zero weights: less excess than this was not told from none
WEAK = 0.5  # of what there is to learn: a warning
CLASS_LABELS = ("sign", "classes")  # kinds of labels that are classes


@dataclass(frozen=True)
class Family:
    """What was measured on real tables for losses of one kind."""

    middle: float  # u at which noise costs half of what zero weights lose
    power: float
    low: float  # the band in units of the expected excess: 10th percentile of the measured
    high: float  # and 90th
    constant: float  # what the best constant typically loses, as a share of what zero weights do
    learnable: float  # which share of that a linear model typically saves

    def at_stake(self, classes: int, constant: float | None = None) -> tuple[float, float]:
        """Return the constant's loss and what there is to learn, as shares of zero weights' loss.

        Both were measured for two classes. Of more there is more to tell apart: the share that is
        not to be learnt is taken to the power of K/2.
        """
        if constant is None:
            constant = _among(self.constant, classes)
        return constant, constant * _among(self.learnable, classes)


# -- calibration: what `python -m benchmarks.bands` prints -----------------------------------------

CLASSES = Family(middle=1.68, power=0.785, low=0.379, high=3.6, constant=0.739, learnable=0.227)
BOUNDED = Family(middle=3.25, power=0.995, low=0.349, high=2.77, constant=0.214, learnable=0.26)
SQUARED = Family(middle=8.16, power=0.948, low=0.379, high=3.25, constant=0.0995, learnable=0.357)

# Noise of a solver beside that of the one that auto takes: so many times as much u.
SOLVERS: Mapping[str, float] = {
    "acc_independent": 3.8,
    "acc_srgd": 2.1,
    "bolt_on_sgd": 8.7,
    "clipped_acsa": 4.1,
    "clipped_prox_sgd": 7,
    "clipped_sgd_sc": 6.8,
    "dp_ftrl": 2.1,
    "dp_sgd_output_unbounded": 3.8,
    "dp_sgd_single_epoch": 3.4,
    "noisy_gd_split_baseline": 31.7,
    "noisy_sgd_2019": 5.6,
    "phased_dp_sgd_unconstrained": 22.5,
    "phased_erm": 9.2,
    "phased_sgd": 16.4,
    "phased_sgd_gll": 8.6,
    "shuffled_truncated_mirror_descent": 24.3,
    "srg_online_to_batch": 2.5,
    "srg_sgd": 3,
}
# The same of solvers that the park did not measure, most for want of a bounded domain: on made-up
# tables, beside noisy_gd (``python -m benchmarks.predictions``).
OUTSIDE_PARK: Mapping[str, float] = {
    "dp_sgd_output": 2.3,
    "prox_guided_weakly_convex": 14,
    "strongly_convex_lp": 3.1,
}


def _among(share: float, classes: int) -> float:
    """Return what a share of two classes is among so many."""
    return float(1.0 - (1.0 - share) ** (classes / 2))


# -- outlooks --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outlook(Displayed):
    """What is to be expected of a fit; all losses are in units of the problem's loss."""

    shown_as: ClassVar[str] = "outlook"

    verdict: str  # "good", "weak", "constant" (no better than it), "hopeless" or "unknown"
    excess: float  # risk beyond that of the best model; NaN where nothing is predicted
    low: float  # 10th percentile of the excess; 0 where it is too small to be told from none
    high: float  # 90th percentile
    constant: float  # what the best constant loses: from a public fact, or typically
    typical: bool  # whether that is a typical value only
    facts: str  # the public numbers that decide, for sentences

    @property
    def promising(self) -> bool:
        """Whether noise leaves most of what can be learnt, or nothing is predicted."""
        return self.verdict in ("good", "unknown")

    @property
    def numbers(self) -> str:
        """The excess risk with its band, in words."""
        if math.isnan(self.excess):
            return "Nothing is predicted about the excess risk of this fit."
        band = f"{self.low:.2g} to {self.high:.2g}" if self.low else f"at most {self.high:.2g}"
        about = "about " if self.typical else ""
        return (
            f"Privacy is expected to cost {self.excess:.2g} in mean loss ({band}); the best "
            f"constant prediction loses {about}{self.constant:.2g}."
        )

    @property
    def sentence(self) -> str:
        """The verdict with its numbers."""
        advice = "More rows, fewer features or a larger epsilon help."
        start = {
            "weak": f"Weak: with {self.facts}, noise is expected to take more than half of what "
            "can be learnt.",
            "constant": f"With {self.facts}, expect a model no better than a constant prediction.",
            "hopeless": f"Noise exceeds what can be learnt: with {self.facts}, expect a model no "
            "better than a constant prediction, or worse.",
        }
        if self.verdict not in start:
            return self.numbers
        return f"{start[self.verdict]} {self.numbers} {advice}"

    def to_json(self) -> dict[str, Any]:
        """Return the outlook as JSON values."""
        known = not math.isnan(self.excess)
        return {
            "verdict": self.verdict,
            "excess": self.excess if known else None,
            "band": [self.low, self.high] if known else None,
            "constant_loss": self.constant if known else None,
            "sentence": self.sentence,
        }

    def _line(self) -> str:
        return f"{self.verdict}. {self.numbers}"

    def __str__(self) -> str:
        return self.sentence


def outlook(
    problem: Problem | Task,
    n: int | None = None,
    d: int | None = None,
    budget: Budget | None = None,
    *,
    solver: str | None = None,
    base_rate: float | Sequence[float] | None = None,
    label_spread: float | None = None,
) -> Outlook:
    """Return what is to be expected of a fit, from public facts.

    Args:
        problem: a `Task`; or a `Problem`, whose task has the next arguments.
        n, d, budget: as in `Task`, if a problem is given.
        solver: a key of the registry; by default the one that ``"auto"`` takes. Of one that is not
            calibrated nothing good is predicted.
        base_rate: how common the classes are, if that is public: the share of either of two
            classes, or the share of every class.
        label_spread: the standard deviation of the labels, if that is public.

    Raises:
        ParameterError: a rate or spread is out of range, or not one of such labels.

    >>> import dpsco as dp
    >>> problem = dp.Problem(loss=dp.losses.Logistic(), bounds=dp.Bounds(1.0, label="sign"))
    >>> outlook(problem, n=50_000, d=20, budget=dp.ApproxDP(1.0, 1e-9)).verdict
    'good'
    >>> outlook(problem, n=353, d=20, budget=dp.ApproxDP(0.1, 1e-5)).promising
    False
    """
    task = as_task(problem, n=n, d=d, budget=budget)
    shares, spread = class_shares(task, base_rate), spread_in_units(task, label_spread)
    family, zero = family_of(task), task.constants.value_at_zero
    if family is None or not 0.0 < zero < math.inf:
        return _unknown(task)
    try:
        u = noise_ratio(task) * noise_of(solver)
    except AssumptionError:  # pure privacy: no release of Gaussian noise to compare with
        return _unknown(task)
    excess = zero * share_lost(family, u)
    least = RESOLUTION * zero
    measured = solver is None or get(solver).measured is not None
    low = family.low * excess
    typical = shares is None and spread is None
    constant = None if typical else _constant_loss(task, shares, spread) / zero
    constant, learnable = family.at_stake(class_count(task), constant)
    verdict = verdict_of(excess / zero, constant, learnable)
    if verdict == "good" and not measured:
        return _unknown(task)  # what noise costs others is the least that it costs this one
    return Outlook(
        verdict=verdict,
        excess=excess,
        low=low if low >= least else 0.0,
        high=max(family.high * excess, least),
        constant=constant * zero,
        typical=typical,
        facts=_facts(task),
    )


def noise_of(solver: str | None) -> float:
    """Return how many times the noise of the solver that auto takes another one has."""
    return SOLVERS.get(solver or "", OUTSIDE_PARK.get(solver or "", 1.0))


def noise_ratio(task: Task) -> float:
    """Return u = sqrt(P)/z, K/2 times as much for K classes.

    Raises:
        AssumptionError: the budget cannot be spent on Gaussian noise.
    """
    sensitivity = task.budget.adjacency.sensitivity(1.0)
    z = task.n * task.budget.mu_per_row() / sensitivity
    return class_count(task) / 2 * math.sqrt(min(task.n_weights, task.n)) / z


def share_lost(family: Family, u: float) -> float:
    """Return the expected excess, as a share of what zero weights lose."""
    v = math.pow(u / family.middle, family.power)
    return v / (1.0 + v)


def family_of(task: Task) -> Family | None:
    """Return what was measured for losses of this kind; None if nothing was."""
    loss = task.problem.loss
    if not task.constants.convex:
        return None
    if loss.labels in CLASS_LABELS:
        return CLASSES
    if loss.labels != "real" or not isinstance(loss, MarginLoss):
        return None
    bounded = math.isfinite(loss.slope_bound(task.label_bound, math.inf))
    return BOUNDED if bounded else SQUARED


def warn(plan: BasePlan, *, stacklevel: int, **facts: Any) -> None:
    """Emit what a plan warns of and a poor outlook, before a plan is run as soon as it is made.

    ``facts`` are those of `outlook` about labels.
    """
    emit_warnings(plan, stacklevel=stacklevel + 1)
    warn_of(outlook(plan.task, solver=plan.solver, **facts), stacklevel=stacklevel + 1)


def warn_of(expected: Outlook, *, stacklevel: int) -> None:
    """Emit a poor outlook."""
    if not expected.promising:
        warnings.warn(expected.sentence, OutlookWarning, stacklevel=stacklevel + 1)


def verdict_of(excess: float, constant: float, learnable: float) -> str:
    """Return what the excess means beside the constant's loss and what there is to learn."""
    if excess >= constant:
        return "hopeless"
    share = excess / learnable
    return "constant" if share >= 1.0 else "weak" if share >= WEAK else "good"


def _unknown(task: Task) -> Outlook:
    nothing = math.nan
    return Outlook("unknown", nothing, nothing, nothing, nothing, True, _facts(task))


def _facts(task: Task) -> str:
    """Return the number of rows and the budget."""
    name, value = next(iter(task.budget.amounts().items()))
    return f"n = {task.n:,} and {name} {value:g}"


def class_count(task: Task) -> int:
    """Return the number of classes; 2 for numbers, whose u has no such factor."""
    return int(getattr(task.problem.loss, "classes", 2))


# -- public facts about labels ---------------------------------------------------------------------


def class_shares(task: Task, base_rate: float | Sequence[float] | None) -> tuple[float, ...] | None:
    """Return the share of every class, checked."""
    if base_rate is None:
        return None
    classes = class_count(task)
    if task.problem.loss.labels not in CLASS_LABELS:
        raise ParameterError(
            "base_rate is for classes; for numbers pass label_spread.", parameter="base_rate"
        )
    values = base_rate if isinstance(base_rate, (Sequence, np.ndarray)) else (base_rate,)
    shares = [_validate.non_negative("base_rate", value) for value in values]
    if len(shares) == 1 and classes == 2:
        shares.append(1.0 - shares[0])
    if len(shares) != classes or min(shares) < 0.0 or abs(sum(shares) - 1.0) > 1e-3:
        raise ParameterError(
            f"base_rate must be {classes} shares that sum to 1"
            f"{', or one of them' if classes == 2 else ''}; got {_validate.shown(base_rate)}.",
            parameter="base_rate",
        )
    return tuple(shares)


def spread_in_units(task: Task, label_spread: float | None) -> float | None:
    """Return the standard deviation in the units that the loss sees, checked."""
    if label_spread is None:
        return None
    if task.problem.loss.labels in CLASS_LABELS:
        raise ParameterError(
            "label_spread is for numbers; for classes pass base_rate.", parameter="label_spread"
        )
    spread = _validate.positive("label_spread", label_spread)
    label = task.problem.bounds.label
    return spread / label.unit if isinstance(label, Scaled) else spread


def _constant_loss(task: Task, shares: tuple[float, ...] | None, spread: float | None) -> float:
    """Return what the best constant loses: of classes by their shares, of normal labels else."""
    loss = task.problem.loss
    if shares is not None and not isinstance(loss, MarginLoss):
        entropy = -sum(share * math.log(share) for share in shares if share > 0.0)
        return max(entropy / math.log(len(shares)), RESOLUTION) * task.constants.value_at_zero
    assert isinstance(loss, MarginLoss)
    margins = np.linspace(-8.0, 8.0, 641)
    if shares is not None:  # the second of two classes is +1
        values = shares[0] * loss.value(margins, -1.0) + shares[1] * loss.value(margins, 1.0)
        return max(float(np.min(values)), RESOLUTION * task.constants.value_at_zero)
    assert spread is not None
    nodes, weights = np.polynomial.hermite_e.hermegauss(32)
    labels = np.clip(spread * nodes, -task.label_bound, task.label_bound)
    mean = float(weights @ loss.value(np.zeros(len(nodes)), labels) / weights.sum())
    return max(mean, RESOLUTION * task.constants.value_at_zero)
