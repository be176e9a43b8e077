"""What every solver must keep, as checks that return what is wrong, in words.

They know nothing about any particular solver. Whoever writes one gets them for nothing; see
`tests/contracts`. All of them want made-up rows.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np
from scipy.special import chdtrc, gammaln, log_ndtr, ndtr, xlog1py, xlogy

from ..data.tables.table import from_arrays
from ..errors import DpscoError, LedgerError
from ..fit import outlook
from ..fit.run import load_plan
from ..kernels.rows import SparseRows
from ..privacy.accounting.composition import cost
from ..privacy.budget import Adjacency, ApproxDP
from ..privacy.mechanisms import (
    ClipQuantileRelease,
    FixedSizeGaussianRelease,
    GaussianRelease,
    PoissonGaussianRelease,
    PrefixSumRelease,
    StableGammaRelease,
    StableGaussianRelease,
)
from ..privacy.release import Release, flatten
from ..solvers.base import BasePlan
from .replay import FACTORS, Data, compare, noise, record, replay
from .work import counted

FALSE_ALARM = 1e-6  # of one test of the law of the noise


def check_plan(plan: BasePlan) -> list[str]:
    """Check that a plan is made of public values: JSON holds all of it, and so does its trace."""
    findings = []
    again = load_plan(plan.to_json())
    if again != plan or again.releases() != plan.releases() or str(again) != str(plan):
        findings.append("the plan does not survive JSON")
    if not plan.releases():
        findings.append("nothing is released, so nothing of the rows can be learnt")
    if plan.total_rounds != len(plan.trace()):
        findings.append(
            f"{plan.total_rounds} rounds are announced, the trace has {len(plan.trace())}"
        )
    numbers = [value for line in plan.trace() for value in (line.step, line.sigma)]
    if not all(math.isfinite(value) and value >= 0.0 for value in numbers):
        findings.append("the trace has step sizes or noise that are no numbers")
    for start, stop in [release.rows for release in flatten(plan.releases())]:
        if not 0 <= start < stop <= plan.n:
            findings.append(f"a release touches the rows {start} to {stop} of {plan.n}")
    return findings


def check_cost(plan: BasePlan) -> list[str]:
    """Check that the releases cost no more than the budget, by arithmetic of our own."""
    spent, allowed = plan.cost.against(plan.budget)
    findings = [] if spent <= allowed else [f"the plan costs {spent:.6g} of {allowed:.6g}"]
    listed, budget = flatten(plan.releases()), plan.budget
    clips = [each for each in listed if isinstance(each, ClipQuantileRelease)]
    findings += [problem for clip in clips for problem in _check_clip(clip, budget.adjacency)]
    releases = tuple(each for each in listed if each not in clips)  # below, of sums alone
    if not isinstance(budget, ApproxDP) or not releases:
        return findings
    if all(_squared_mu(release, budget.adjacency) is not None for release in releases):
        delta = max(_delta(budget.epsilon, mu) for mu in _row_mus(releases, budget.adjacency))
        if not delta <= budget.delta * (1 + 1e-6):
            findings.append(
                f"by closed form delta is {delta:.6g}, the budget has {budget.delta:.6g}"
            )
    elif budget.adjacency is Adjacency.REPLACE_ONE and all(map(_halves, releases)):
        both = [
            cost(releases, adjacency=adjacency).epsilon(budget.delta)
            for adjacency in (Adjacency.ZERO_OUT, Adjacency.REPLACE_ONE)
        ]
        if not both[1] >= 1.001 * both[0]:
            findings.append(f"replacing a row costs {both[1]:.6g}, removing it {both[0]:.6g}")
    attack = _attack(releases, budget)
    if not attack <= budget.delta:
        findings.append(f"an attack on one row shows delta {attack:.6g} of {budget.delta:.6g}")
    return findings


def check_rows(plan: BasePlan, data: Data) -> list[str]:
    """Check that what a solver reads obeys the plan's bounds, by measuring it again."""
    bounds = plan.problem.bounds
    table = from_arrays(*data) if isinstance(data, tuple) else data
    block = table.bounded(bounds, order="given").rows()
    rows = block.rows.matrix().toarray() if isinstance(block.rows, SparseRows) else block.rows
    largest = float(np.max(bounds.norm(np.asarray(rows, dtype=float)), initial=0.0))
    findings = []
    if not largest <= bounds.row_norm * (1 + 1e-12):
        findings.append(f"a row has norm {largest:.6g}, its bound is {bounds.row_norm:.6g}")
    if isinstance(bounds.label, (int, float)) and not np.all(np.abs(block.labels) <= bounds.label):
        findings.append(f"a label is larger than its bound {bounds.label:.6g}")
    return findings


def check_replay(
    plan: BasePlan, data: Data, neighbours: Mapping[str, Data], *, row: int | None = None
) -> list[str]:
    """Check that nothing but the releases looks at the rows; see `dpsco.audit.replay`.

    Args:
        plan: of the solver.
        data: rows and labels.
        neighbours: the same but for one row, by name. For zero-out, ``data`` has a null row there.
        row: which one.
    """
    first = record(plan, data)
    findings = []
    for name, other in neighbours.items():
        try:
            problems = compare(first, replay(first, other), row=row)
        except (DpscoError, ArithmeticError) as problem:
            problems = [f"{type(problem).__name__}: {problem}"]
        findings += [f"{name}: {problem}" for problem in problems]
    return findings


def check_work(plan: BasePlan, data: Data, neighbours: Mapping[str, Data]) -> list[str]:
    """Check that a run computes the same amount on all neighbours, or ends at stated milestones.

    Given the same noisy answers. Where a plan has milestones, the number of Hessians must be one
    that they allow, and all other work must follow from it.

    Args:
        plan: of the solver.
        data: rows and labels.
        neighbours: the same but for one row, by name.
    """
    with counted() as work:
        first = record(plan, data)
    seen = {work["hessians"]: dict(work)}
    allowed = {0}
    for stops in plan.milestones:
        allowed = {done + stop for done in allowed for stop in stops}
    findings = [] if work["hessians"] in allowed else [f"{work['hessians']} Hessians: no milestone"]
    for name, other in neighbours.items():
        with counted() as work:
            replay(first, other)
        usual = seen.setdefault(work["hessians"], dict(work)) if plan.milestones else dict(seen[0])
        if work["hessians"] not in allowed or dict(work) != usual:
            findings.append(f"{name}: the work is {dict(work)}, elsewhere {usual}")
    return findings


def check_messages(plan: BasePlan, data: Data, neighbours: Mapping[str, Data]) -> list[str]:
    """Check that a fit says the same on all neighbours, its outlook included.

    Arguments as in `check_work`.
    """

    def said(rows: Data) -> list[str]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            outlook.warn(plan, stacklevel=1)
            record(plan, rows)
        return [str(each.message) for each in caught]

    usual = said(data)
    return [
        f"{name}: it says {message!r}, elsewhere {usual}"
        for name, other in neighbours.items()
        if (message := said(other)) != usual
    ]


def check_ledger(plan: BasePlan, data: Data) -> list[str]:
    """Check that a run executes its plan, reports its rounds, and ends at finite weights."""
    try:
        run = record(plan, data)
    except LedgerError as problem:
        return [str(problem)]
    findings = []
    executed = Counter(event.release for event in run.events)
    if executed != {each.once(): each.count for each in flatten(plan.releases())}:
        findings.append("executed and planned releases differ")
    if not run.rounds or run.rounds[-1][0] != run.rounds[-1][1]:
        findings.append(f"progress ended at {run.rounds[-1:]}")
    if [done for done, _ in run.rounds] != sorted(done for done, _ in run.rounds):
        findings.append("progress went backwards")
    if run.weights.shape != (plan.task.n_weights,) or not np.all(np.isfinite(run.weights)):
        findings.append(f"the weights are no {plan.task.n_weights} finite numbers")
    return findings


def check_noise(plan: BasePlan, data: Data, *, seeds: Iterable[int]) -> list[str]:
    """Check the size of the noise, and that no two releases and no two runs share any."""
    runs = [record(plan, data, seed=seed) for seed in seeds]
    drawn = np.concatenate([noise(run) for run in runs])
    if not len(drawn):
        return []
    findings = []
    if len(np.unique(drawn)) < len(drawn):
        findings.append("noise appears twice")
    # The sum of squares is chi-square; the two tails share the false alarms.
    square, count = float(drawn @ drawn), len(drawn)
    upper = float(chdtrc(count, square))
    if not FALSE_ALARM / 2 <= upper <= 1 - FALSE_ALARM / 2:
        findings.append(
            f"the noise has {math.sqrt(square / count):.3f} times the size that it must have "
            f"({count} numbers)"
        )
    return findings


# -- arithmetic ------------------------------------------------------------------------------------


def _squared_mu(release: Release, adjacency: Adjacency) -> float | None:
    """Return mu^2 of one execution, if it is a Gaussian shift; written out once more on purpose."""
    factor = FACTORS[adjacency]
    if isinstance(release, GaussianRelease):
        return (factor * release.bound / release.sigma) ** 2
    if isinstance(release, PrefixSumRelease):
        column = float(np.max(np.linalg.norm(release.mechanism.encoder(), axis=0)))
        return (factor * release.bound * column / release.sigma) ** 2
    if isinstance(release, StableGaussianRelease):
        return (release.sensitivity / release.sigma) ** 2
    return None


def _row_mus(releases: Iterable[Release], adjacency: Adjacency) -> list[float]:
    """Return the mu that each row pays, a number for each stretch of rows."""
    listed = list(releases)
    edges = sorted({release.rows[0] for release in listed})
    squares = [
        sum(
            release.count * (_squared_mu(release, adjacency) or 0.0)
            for release in listed
            if release.rows[0] <= edge < release.rows[1]
        )
        for edge in edges
    ]
    return [math.sqrt(square) for square in squares]


def _delta(epsilon: float, mu: float) -> float:
    """Return delta of mu-GDP (Dong, Roth, Su 2019, Cor 2.13)."""
    first = float(log_ndtr(-epsilon / mu + mu / 2))
    second = epsilon + float(log_ndtr(-epsilon / mu - mu / 2))
    return math.exp(first) * -math.expm1(second - first)


def _check_clip(release: ClipQuantileRelease, adjacency: Adjacency) -> list[str]:
    """Check that a clip is charged for two tables that its exact law tells apart the best.

    Up to half of the grid the count is at its target, and one row above from there on. The row at
    the bottom goes: it is emptied, or replaced by one that is longer than all clips.
    """
    if not 0 < release.target < release.row_count:
        return []
    counts = np.zeros(release.candidates)
    counts[0], counts[release.candidates // 2] = release.target, 1.0
    gone = counts - (np.arange(release.candidates) == 0)
    spread = float(np.ptp(release.scores(counts) - release.scores(gone))) / release.scale
    charged = cost(release.once(), adjacency=adjacency).pure_epsilon
    if spread <= charged * (1 + 1e-9):
        return []
    return [f"a clip costs {charged:.6g}, and two tables show {spread:.6g}"]


def _attack(releases: Iterable[Release], budget: ApproxDP) -> float:
    """Return a delta that sampled sums cannot beat: what the sum of all answers tells of one row.

    All other rows are null. The row adds +bound, or -bound (0 for zero-out) in its neighbour, each
    time that it is drawn; the sum of the answers is then a binomial mixture of Gaussians, and every
    threshold on it bounds delta from below.
    """
    listed = list(releases)
    kinds = (PoissonGaussianRelease, FixedSizeGaussianRelease)
    if len(listed) != 1 or not isinstance(release := listed[0], kinds):
        return 0.0
    if isinstance(release, PoissonGaussianRelease):
        rate = release.rate
    else:
        rate = release.size / release.row_count
    spread = 12.0 * math.sqrt(release.count * rate) + 30.0  # what lies outside counts as missed
    likely = release.count * rate + np.array([-spread, spread])
    draws = np.arange(max(0, int(likely[0])), min(release.count, int(likely[1])) + 1)
    chance = np.exp(
        gammaln(release.count + 1)
        - gammaln(draws + 1)
        - gammaln(release.count - draws + 1)
        + xlogy(draws, rate)
        + xlog1py(release.count - draws, -rate)
    )
    deviation = release.sigma * math.sqrt(release.count)
    other = 1.0 - FACTORS[budget.adjacency]  # of the bound: -1, or 0
    reached = (np.outer([1.0, other], draws) * release.bound / deviation)[:, :, None]
    tails = ndtr(reached - np.linspace(-10.0, float(reached.max()) + 10.0, 400)) * chance[:, None]
    first, second = tails.sum(axis=1)
    second = second + max(0.0, 1.0 - float(chance.sum()))
    return float(np.max(first - math.exp(budget.epsilon) * second))


def _halves(release: Release) -> bool:
    """Return whether removing a row is half of replacing it, by what the record says."""
    fixed = (FixedSizeGaussianRelease, StableGaussianRelease, StableGammaRelease)
    return hasattr(release, "bound") and not isinstance(release, fixed)
