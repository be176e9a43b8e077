"""From releases to their cost: epsilon(delta), delta(epsilon), mu and the whole curve.

One rule composes everything: a release costs only the rows that it touches, so the releases that
touch a row are composed, and the cost of a run is that of its worst row. Gaussian releases compose
in closed form and exactly. For other mixtures every bound that applies is computed (Renyi, pure,
PLD, shuffling) and the best one counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ... import _validate
from ...errors import AssumptionError
from ...files.limits import MOST_RELEASES
from ..budget import GDP, ZCDP, Adjacency, ApproxDP, Budget, PureDP, Unit
from ..release import Composition, Release, flatten, registered
from . import gaussian, pld, renyi
from .privacy_loss import (
    PrivacyLoss,
    PrivacyLosses,
    Profile,
    group_delta,
    lone_profile,
    together,
)
from .renyi import randomised_response_delta
from .sensitivity import refuse_add_remove

Range = tuple[int, int]

_MOST_MEMBERS = 2_000_000  # of all sets of releases together: about a second
_MOST_GROUPS = 256  # kinds of rows of one run: each is composed by itself, in milliseconds
_MOST_PAIRINGS = 64  # rows of several runs that are composed one by one
_NUMERICAL = (pld.PoissonLoss, pld.SampledLoss, pld.RepeatedLoss)  # no Renyi curve of their own
_MOST_RESPONSES = 1_000_000  # randomised responses whose exact composition is summed


def cost(
    releases: Release | Composition | Iterable[Release | Composition],
    *,
    adjacency: Adjacency | str = Adjacency.REPLACE_ONE,
    unit: Unit | None = None,
) -> Cost:
    """Return what the releases cost the worst row (or the worst unit of several rows).

    >>> from dpsco.privacy import GaussianRelease
    >>> one = cost(GaussianRelease(1.0, 10.0, rows=(0, 100)), adjacency="zero_out")
    >>> twice = cost(GaussianRelease(1.0, 10.0, rows=(0, 100), count=4), adjacency="zero_out")
    >>> round(one.mu, 6), round(twice.mu, 6)
    (0.1, 0.2)
    """
    adjacency = Adjacency.parse(adjacency)
    unit = unit or Unit()
    flat = flatten(releases)
    if not flat:
        return Cost((RowCost(()),), unit.rows, alike=True)
    if len(flat) > MOST_RELEASES:
        raise AssumptionError(
            f"{len(flat):,} different releases are more than the {MOST_RELEASES:,} that are "
            "accounted for. Use fewer, larger batches."
        )
    parts = (part for each in flat for part in (each, *each.inner()))
    if adjacency is Adjacency.ADD_REMOVE and len({part.rows for part in parts}) > 1:
        raise AssumptionError(
            "under add_remove every release must touch the same rows, because a row more or less "
            "moves the others between batches. Use adjacency='zero_out' or 'replace_one'."
        )
    flat = _in_pieces(flat, adjacency)  # from here on each release has one bound for all its rows
    losses = _privacy_losses(flat, adjacency)
    ranges = [release.rows for release in flat]
    if all(item.mu is not None for item, _ in losses):
        worst = RowCost(_worst_gaussian(losses, ranges))
        return Cost((worst,), unit.rows, alike=len(set(ranges)) == 1)
    touching = largest_groups(ranges)
    groups = {  # rows that the same losses fall on cost the same
        tuple(sorted((id(losses[i][0]), losses[i][1]) for i in group)): group for group in touching
    }
    if len(groups) > _MOST_GROUPS:
        raise AssumptionError(
            f"the releases fall on {len(groups):,} different kinds of rows, and at most "
            f"{_MOST_GROUPS} are accounted for one by one. Let them touch the same rows."
        )
    rows = (RowCost(tuple(losses[i] for i in group)) for group in groups.values())
    return Cost(tuple(rows), unit.rows, alike=len(touching) == 1)


def compose(costs: Sequence[Cost], *, unit: Unit | None = None) -> Cost:
    """Return the cost of several runs on one table, each of which may order the rows its own way.

    The worst row of one run may be the worst of every other, so all pairings are composed; where
    they would be too many, every row is taken to bear all that any row of the run bears.
    """
    combined: list[PrivacyLosses] = [()]
    for run in costs:
        groups = [row.losses for row in run.rows]
        if len(combined) * len(groups) > _MOST_PAIRINGS:
            groups = [_union(groups)]
        combined = [before + group for before in combined for group in groups]
    alike = all(run.alike for run in costs)
    return Cost(tuple(RowCost(losses) for losses in combined), (unit or Unit()).rows, alike)


@dataclass(frozen=True)
class Cost:
    """What a run costs, every number rounded up.

    ``rows`` has one entry for each set of releases that some row is touched by; ``unit_rows`` rows
    are protected together, by group privacy or all at once. ``alike`` says that all releases touch
    the same rows: rows of one unit cannot be touched by one release here and another there.
    """

    rows: tuple[RowCost, ...]
    unit_rows: int = 1
    alike: bool = False

    @property
    def mu(self) -> float | None:
        """The exact Gaussian parameter, or None if some release is not Gaussian."""
        return self._worst([row.mu for row in self.rows], self.unit_rows)

    @property
    def gdp(self) -> float | None:
        """A Gaussian parameter that is proved; exact where ``mu`` is known."""
        return self._worst([row.gdp for row in self.rows], self.unit_rows)

    @property
    def rho(self) -> float | None:
        """The zCDP parameter, or None if some release has none."""
        group = self._worst([row.rho for row in self.rows], self.unit_rows**2)
        direct = self._together.rho if self._together else None  # then a group has one too
        return group if group is None or direct is None else min(group, direct)

    @property
    def pure_epsilon(self) -> float:
        """The pure epsilon; infinite if some release is never purely private."""
        return self.unit_rows * max(row.pure for row in self.rows)

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon proved at ``delta``."""
        delta = _validate.probability("delta", delta)
        if self.unit_rows == 1:
            return max(row.epsilon(delta) for row in self.rows)
        return min(bound.epsilon(delta) for bound in self._unit_bounds())

    def delta(self, epsilon: float) -> float:
        """Return the smallest delta proved at ``epsilon``."""
        epsilon = _validate.non_negative("epsilon", epsilon)
        if self.unit_rows == 1:
            return max(row.delta(epsilon) for row in self.rows)
        return min(bound.delta(epsilon) for bound in self._unit_bounds())

    def curve(self, deltas: Sequence[float]) -> list[tuple[float, float]]:
        """Return pairs (delta, epsilon)."""
        return [(delta, self.epsilon(delta)) for delta in deltas]

    def satisfies(self, budget: Budget) -> bool:
        """Say whether the cost is within the budget; not even rounding may exceed it."""
        spent, allowed = self.against(budget)
        return spent <= allowed

    def against(self, budget: Budget) -> tuple[float, float]:
        """Return what is spent and what is allowed, in the budget's own notion of privacy."""
        if isinstance(budget, ApproxDP):
            return self.epsilon(budget.delta), budget.epsilon
        if isinstance(budget, PureDP):
            return self.pure_epsilon, budget.epsilon
        if isinstance(budget, ZCDP):
            return math.inf if self.rho is None else self.rho, budget.rho
        if isinstance(budget, GDP):
            return math.inf if self.gdp is None else self.gdp, budget.mu
        raise AssumptionError(f"no rule to check a budget of type {type(budget).__name__}.")

    def _unit_bounds(self) -> list[Bound]:
        """Return the bounds of a unit, whose rows may be touched by different releases.

        Each one covers every mixture of rows: a parameter that all rows have, at its worst, scaled
        to the unit; the worst row's delta at each epsilon, through group privacy; all rows at once.
        """
        if self.mu is not None:
            return [_gaussian_bound(self.mu)]  # exact, so nothing else can be better
        bounds = [_inverted(self._group_delta)]
        if self.rho is not None:
            bounds.append(_renyi_bound(renyi.zcdp(self.rho)))
        if self.pure_epsilon < math.inf:
            bounds.append(_pure_bound(self.pure_epsilon))
        return bounds + (self._together.bounds if self._together else [])

    def _group_delta(self, epsilon: float) -> float:
        """Return delta of k rows by group privacy, from the worst row's at epsilon/k."""
        worst = max(row.delta(epsilon / self.unit_rows) for row in self.rows)
        return group_delta(worst, epsilon, self.unit_rows)

    @cached_property
    def _together(self) -> RowCost | None:
        """What all rows of a unit cost at once, if the same releases touch every row."""
        single = self.rows[0].losses if self.alike and self.unit_rows > 1 else ()
        losses = together(single, self.unit_rows)
        return RowCost(losses) if losses else None

    @staticmethod
    def _worst(values: list[float | None], factor: int) -> float | None:
        known = [value for value in values if value is not None]
        return factor * max(known) if len(known) == len(values) else None


@dataclass(frozen=True)
class Bound:
    """A proved privacy curve, read in both directions."""

    epsilon: Callable[[float], float]
    delta: Callable[[float], float]


@dataclass(frozen=True)
class RowCost:
    """What all releases that touch one row cost it together."""

    losses: PrivacyLosses

    @cached_property
    def mu(self) -> float | None:
        """Exact Gaussian composition: the root of the sum of squares."""
        if any(item.mu is None for item, _ in self.losses):
            return None
        squares = math.fsum(
            count * (item.mu or 0.0) * (item.mu or 0.0) for item, count in self.losses
        )
        return math.sqrt(squares) * (1 + 2.0**-50)

    @cached_property
    def gdp(self) -> float | None:
        """The root of the sum of squares, whatever bounds are Gaussian."""
        parts = [(item.gdp if item.mu is None else item.mu, count) for item, count in self.losses]
        if any(part is None for part, _ in parts):
            return None
        squares = math.fsum(count * (part or 0.0) ** 2 for part, count in parts)
        return math.sqrt(squares) * (1 + 2.0**-50)

    @cached_property
    def rho(self) -> float | None:
        """The sum of the zCDP parameters."""
        if any(item.rho is None for item, _ in self.losses):
            return None
        total = math.fsum(count * (item.rho or 0.0) for item, count in self.losses)
        return total * (1 + 2.0**-50)

    @cached_property
    def pure(self) -> float:
        """The sum of the pure epsilons."""
        return sum(count * item.pure for item, count in self.losses) * (1 + 2.0**-50)

    @cached_property
    def curve(self) -> renyi.Curve | None:
        """The sum of the Renyi curves."""
        pairs = [(item.curve, count) for item, count in self.losses if item.curve]
        return renyi.compose(pairs) if len(pairs) == len(self.losses) else None

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon over all bounds that apply."""
        return min(bound.epsilon(delta) for bound in self.bounds)

    def delta(self, epsilon: float) -> float:
        """Return the smallest delta over all bounds that apply."""
        return min(bound.delta(epsilon) for bound in self.bounds)

    @cached_property
    def bounds(self) -> list[Bound]:
        """Every bound that covers all of the releases; refuse a mixture that none covers."""
        if self.mu is not None:
            return [_gaussian_bound(self.mu)]
        proved = []
        if self.pure < math.inf:
            proved += [_pure_bound(self.pure), *self._responses()]
        if self.curve is not None:
            proved.append(_renyi_bound(self.curve))
        if (alone := lone_profile(self.losses)) is not None:
            proved.append(_profile_bound(alone))
        return proved or [self.numerical()]

    def numerical(self) -> Bound:
        """Return the bound of the privacy loss distribution, from dp-accounting."""
        recipes = tuple((item.pld, count) for item, count in self.losses if item.pld is not None)
        mixed = any(isinstance(a, pld.ZcdpLoss) for a, _ in recipes)
        sampled = any(isinstance(a, _NUMERICAL) for a, _ in recipes)
        if len(recipes) < len(self.losses) or (mixed and sampled):
            raise AssumptionError(
                "no accountant covers this mixture on the same rows: sampled releases need a "
                "privacy loss distribution, and generalized Gaussian ones have none; "
                "an average over rows sampled with replacement goes with Gaussian releases, once. "
                "Let them touch different rows, or use Gaussian noise throughout."
            )
        composed = pld.Composed(recipes)
        return Bound(composed.epsilon, composed.delta)

    def _responses(self) -> list[Bound]:
        """Exact composition of equal purely private releases, each dominated by a coin."""
        sizes = {item.pure for item, _ in self.losses}
        total = sum(count for _, count in self.losses)
        if len(sizes) > 1 or not 2 <= total <= _MOST_RESPONSES:
            return []
        e0 = sizes.pop()
        return [_inverted(lambda eps: randomised_response_delta(eps, e0, total))]


def _gaussian_bound(mu: float) -> Bound:
    return Bound(lambda delta: gaussian.epsilon(delta, mu), lambda eps: gaussian.delta(eps, mu))


def _pure_bound(pure: float) -> Bound:
    return Bound(lambda _: pure, lambda eps: 0.0 if eps >= pure else 1.0)


def _renyi_bound(curve: renyi.Curve) -> Bound:
    return Bound(
        lambda delta: renyi.epsilon(curve, delta),
        lambda eps: max(math.exp(renyi.log_delta(curve, eps)), 5e-324),
    )


def _profile_bound(profile: Profile) -> Bound:
    if profile.epsilon is None:
        return _inverted(profile.delta)
    return Bound(profile.epsilon, profile.delta)


def _inverted(delta_of: Callable[[float], float]) -> Bound:
    return Bound(lambda delta: least_epsilon(delta_of, delta), delta_of)


def least_epsilon(delta_of: Callable[[float], float], delta: float) -> float:
    """Return the least epsilon whose delta is at most ``delta``, from above."""
    low, above = 0.0, delta_of(0.0)
    if above <= delta:
        return 0.0
    high, below = 1.0, delta_of(1.0)
    while not below <= delta:
        low, above, high = high, below, 2 * high
        below = delta_of(high)
        if high > 1e9:
            return math.inf
    share = 0.02  # how far from the interpolated root to look, as a share of the bracket
    while (width := high - low) > 1e-12 * high:
        guess = 0.5 * (low + high)
        if below > 0:  # log delta is nearly straight over a short bracket
            guess = low + width * math.log(above / delta) / math.log(above / below)
        near = max(share * width, 3e-13 * high)
        for point in (guess + near, guess - near, None):
            if point is None:
                point = 0.5 * (low + high) if high - low > 0.5 * width else low
            if low < point < high:
                value = delta_of(point)
                if value <= delta:
                    high, below = point, value
                else:
                    low, above = point, value
        share = 0.05 * share if high - low < 0.3 * width else 0.02
    return high


def _worst_gaussian(losses: list[tuple[PrivacyLoss, int]], ranges: list[Range]) -> PrivacyLosses:
    """Return the losses of the row with the largest sum of squares."""
    if len(set(ranges)) == 1:
        return tuple(losses)
    squares = [count * (item.mu or 0.0) ** 2 for item, count in losses]
    return tuple(losses[i] for i in heaviest_group(ranges, squares))


def _privacy_losses(
    flat: tuple[Release, ...], adjacency: Adjacency
) -> list[tuple[PrivacyLoss, int]]:
    """Return each release's privacy loss and count; equal ones on other rows share one object."""
    known: dict[Release, PrivacyLoss] = {}
    losses = []
    for release in flat:
        moved = release.once().at_first_row()
        if moved not in known:
            # A class that is no registered kind has no cost here, whatever it says of itself.
            rule = type(moved) if registered(moved) else Release
            known[moved] = rule.privacy_loss(moved, adjacency)
        losses.append((known[moved], release.count))
    return losses


def _in_pieces(flat: tuple[Release, ...], adjacency: Adjacency) -> tuple[Release, ...]:
    """Return the releases, those whose rows have different bounds in pieces of one bound each."""
    parts: list[Release] = []
    for release in flat:
        # A class that is no registered kind has no cost here, nor have pieces that it names.
        pieces = tuple(release.pieces()) if registered(release) else (release,)
        if pieces != (release,) and adjacency is Adjacency.ADD_REMOVE:
            refuse_add_remove(release, adjacency)
        parts += pieces
    return tuple(parts)


def _union(groups: list[PrivacyLosses]) -> PrivacyLosses:
    """Return every loss as often as the group that has it most often."""
    items = {id(item): item for group in groups for item, _ in group}
    most = dict.fromkeys(items, 0)
    for group in groups:
        own = dict.fromkeys(items, 0)
        for item, count in group:
            own[id(item)] += count
        most = {key: max(most[key], own[key]) for key in items}
    return tuple((items[key], count) for key, count in most.items())


# -- which releases touch a row together -----------------------------------------------------------
#
# One sweep over where they begin and end finds it. A release touches a half-open range of rows.
# Where some release begins a row is touched by more than the rows just before it, so only such rows
# can be the worst; and a set of releases is largest where the next thing to happen is that one of
# them ends.


def largest_groups(ranges: Sequence[Range]) -> list[tuple[int, ...]]:
    """Return the sets of releases that touch a row, without those contained in another set.

    >>> largest_groups([(0, 4), (2, 6), (4, 8)])
    [(0, 1), (1, 2)]

    Raises:
        AssumptionError: too many releases overlap to list the sets.
    """
    members = 0
    groups = []
    for _, active, grows in _sweep(ranges):
        if not grows:
            continue
        members += len(active)
        _check_members(members)
        groups.append(tuple(sorted(active)))
    return groups


def heaviest_group(ranges: Sequence[Range], weights: Sequence[float]) -> list[int]:
    """Return the releases that touch the row with the largest sum of weights, rounding aside."""
    squares = np.asarray(weights, dtype=float)
    starts, stops = np.array(ranges).T
    edges = np.unique(starts)
    steps = np.zeros(len(edges) + 1)
    np.add.at(steps, np.searchsorted(edges, starts), squares)
    np.add.at(steps, np.searchsorted(edges, stops), -squares)
    totals = np.cumsum(steps)[:-1]
    # Differences leave rounding behind, so every near-worst row is summed again exactly.
    near = set(edges[totals >= totals.max() * (1 - 1e-9)].tolist())
    best: tuple[float, list[int]] = (-math.inf, [])
    members = 0
    for row, active, _ in _sweep(ranges):
        if row in near:
            members += len(active)
            _check_members(members)
            total = math.fsum(weights[i] for i in active)
            if total > best[0]:
                best = (total, sorted(active))
    return best[1]


def _sweep(ranges: Sequence[Range]) -> Iterator[tuple[int, set[int], bool]]:
    """Yield each row where a release begins, the releases that touch it, and if some end next."""
    by_start = sorted(range(len(ranges)), key=lambda i: ranges[i][0])
    by_stop = sorted(range(len(ranges)), key=lambda i: ranges[i][1])
    active: set[int] = set()
    begun = ended = 0
    while begun < len(by_start):
        row = ranges[by_start[begun]][0]
        while ended < len(by_stop) and ranges[by_stop[ended]][1] <= row:
            active.discard(by_stop[ended])
            ended += 1
        while begun < len(by_start) and ranges[by_start[begun]][0] == row:
            active.add(by_start[begun])
            begun += 1
        next_start = ranges[by_start[begun]][0] if begun < len(by_start) else math.inf
        yield row, active, ranges[by_stop[ended]][1] <= next_start


def _check_members(members: int) -> None:
    if members > _MOST_MEMBERS:
        raise AssumptionError(
            f"so many releases overlap on different rows that their sets have more than "
            f"{_MOST_MEMBERS:,} members in all, the limit. Let them touch the same rows, or fewer."
        )
