"""Privacy loss distributions through dp-accounting: sampled and mixed releases, cross-checks.

The only module that imports dp-accounting. It speaks to it in one convention, because the library's
accountants read the same event differently: under REPLACE_ONE its PLD doubles the sensitivity of a
Gaussian by itself and its RDP does not. We divide by the true distance between neighbours first
and ask under ADD_OR_REMOVE_ONE. REPLACE_ONE is passed in two places only, each tested: the
antipodal pair of Poisson sampling (PLD, per-row norm), and samples without replacement (RDP, true
distance).
"""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import AssumptionError, MissingExtraError
from . import gaussian
from .amplification import sampled_delta

Array = NDArray[np.float64]

_FINEST = 4e-6  # below this step, rounding in double precision can break a composition
_POINTS = (250, 25)  # of the grid in a standard deviation: for few releases, and for many, where
_FEW = 10  # their errors average out: epsilon comes out up to 2e-4 too large
_MOST_STEPS = 10_000_000
_MOST_POINTS = 5_000_000  # of the composed grid: 70 bytes each while it is composed
_MOST_PROFILE = 250_000  # of one profile's grid, on each side of 0: about two seconds
_CLT_FROM = 1.0  # up to this distance, many sampled releases look like a Gaussian of equal spread
_SPARSE = 1000  # compositions from which the library certainly leaves its sparse form
_PARTS = ("_pmf_remove", "_pmf_add")  # names of the library's insides
_FIELDS = ("_probs", "_lower_loss", "_discretization", "_infinity_mass")


@dataclass(frozen=True)
class GaussianLoss:
    """N(0, 1) against N(mu, 1)."""

    mu: float

    @property
    def spread(self) -> float:
        """Standard deviation of the privacy loss."""
        return self.mu

    @property
    def max_loss(self) -> float:
        """Where the profile ends."""
        return _sampled_max_loss(self.mu, 1.0)


@dataclass(frozen=True)
class PoissonLoss:
    """A Gaussian sum over a Poisson sample; ``mu`` is one row's bound in standard deviations."""

    mu: float
    rate: float
    replace_one: bool  # the antipodal (conjectured) pair, else add/remove

    @property
    def spread(self) -> float:
        """Standard deviation of the privacy loss, in the limit of many releases."""
        if not self.replace_one:
            return _sampled_spread(self.mu, self.rate)
        # of log(1 - q + q e^(mu x - mu^2/2)) less the same at -x, x normal, to first order in q
        square = self.mu * self.mu
        return min(2 * self.mu, self.rate * math.sqrt(4 * math.sinh(min(square, 700.0))))

    @property
    def max_loss(self) -> float:
        """Where the profile ends."""
        return _sampled_max_loss(self.mu, self.rate)


@dataclass(frozen=True)
class SampledLoss:
    """The symmetric profile of :func:`amplification.sampled_delta`; ``mu`` is the distance.

    ``population`` is (size, rows) for samples without replacement, which Renyi bounds cover too.
    """

    mu: float
    rate: float
    population: tuple[int, int] | None = None

    @property
    def spread(self) -> float:
        """Standard deviation of the privacy loss, in the limit of many releases."""
        return _sampled_spread(self.mu, self.rate)

    @property
    def max_loss(self) -> float:
        """Where the profile ends."""
        return _sampled_max_loss(self.mu, self.rate)


@dataclass(frozen=True)
class PureLoss:
    """Any release that is purely epsilon-DP: dominated by randomised response."""

    epsilon: float

    @property
    def spread(self) -> float:
        """Standard deviation of randomised response's privacy loss, from above."""
        return self.epsilon

    @property
    def max_loss(self) -> float:
        """Where the profile ends."""
        return self.epsilon


@dataclass(frozen=True)
class RangeLoss:
    """A release of bounded range: the profile of `dpsco.privacy.accounting.bounded_range`."""

    epsilon: float

    @property
    def spread(self) -> float:
        """Standard deviation of a Gaussian loss with the same rho."""
        return self.epsilon / 2

    @property
    def max_loss(self) -> float:
        """Where the profile ends."""
        return self.epsilon


@dataclass(frozen=True)
class ZcdpLoss:
    """A release known only to be rho-zCDP; Renyi accounting alone covers it."""

    rho: float

    @property
    def spread(self) -> float:
        """Standard deviation of a Gaussian loss with the same rho."""
        return math.sqrt(2 * self.rho)

    @property
    def max_loss(self) -> float:
        """Where the profile of that Gaussian loss ends."""
        return _sampled_max_loss(self.spread, 1.0)


@dataclass(frozen=True)
class RepeatedLoss:
    """The best of a random number of runs.

    ``points`` returns epsilons from 0 on, and bounds on delta there in both directions. ``rho`` is
    the zCDP of a run, where Renyi accounting covers it, and ``shape`` that of the truncated
    negative binomial law, infinite for Poisson.
    """

    points: Callable[[], tuple[Array, Array]]
    rho: float | None
    mean: float
    shape: float

    @property
    def spread(self) -> float:
        """About the standard deviation of the loss: delta is 1e-6 at some 5 of a Gaussian one."""
        epsilons, deltas = self.points()
        return float(epsilons[min(int(np.sum(deltas > 1e-6)), len(deltas) - 1)]) / 5

    @property
    def max_loss(self) -> float:
        """Where the profile ends."""
        return float(self.points()[0][-1])


Loss = GaussianLoss | PoissonLoss | SampledLoss | PureLoss | RangeLoss | ZcdpLoss | RepeatedLoss


@dataclass(frozen=True)
class Composed:
    """Several losses, each with the number of times it is incurred by one row."""

    losses: tuple[tuple[Loss, int], ...]

    def epsilon(self, delta: float) -> float:
        """Return epsilon at ``delta``: from the PLD, or from Renyi bounds where that is loose."""
        return _epsilon(self.losses, delta)

    def _numerical(self, delta: float) -> float:
        """Return epsilon, computed anew."""
        mu = math.sqrt(sum(count * loss.spread**2 for loss, count in self.losses))
        limit = gaussian.epsilon(delta, mu)  # of many small releases
        value = self.pld_epsilon(delta - self.rounding) if delta > self.rounding else math.inf
        if value > 2 * limit:
            value = min(value, self.rdp_epsilon(delta))
        sampled = [a.mu for a, _ in self.losses if isinstance(a, (PoissonLoss, SampledLoss))]
        if sampled and max(sampled) <= _CLT_FROM and value < 0.3 * limit:
            raise AssumptionError(
                f"the numerical accountant broke down: epsilon {value:.3g} at delta {delta:.3g} "
                f"where the limit of many releases is {limit:.3g}. Use fewer, larger samples."
            )
        return value

    def delta(self, epsilon: float) -> float:
        """Return delta at ``epsilon`` from the PLD (1 where only Renyi bounds apply)."""
        if self._distribution is None:
            return 1.0
        return min(1.0, float(self._distribution.get_delta_for_epsilon(epsilon)) + self.rounding)

    @property
    def rounding(self) -> float:
        """By how much the transforms of a composition can make delta too small (measured: 1/7)."""
        steps = sum(count for _, count in self.losses)
        return 0.0 if steps == 1 else 2.0**-52 * (64 + 2 * steps)

    def pld_epsilon(self, delta: float) -> float:
        """Return epsilon from the composed distribution, as is; infinite where there is none."""
        if self._distribution is None:
            return math.inf
        return epsilon_for_delta(self._distribution, delta)

    def rdp_epsilon(self, delta: float) -> float:
        """Return epsilon from Renyi accounting; infinite where it does not cover the losses."""
        dp, relation = _library(), _rdp_relation(self.losses)
        if relation is None:
            return math.inf
        accountant = dp.rdp.RdpAccountant(neighboring_relation=relation)
        with _quiet():
            try:
                for loss, count in self.losses:
                    accountant.compose(_rdp_event(loss), count)
                return float(accountant.get_epsilon(delta))
            except (ValueError, ArithmeticError):  # noise beyond what its logarithms can tell
                return math.inf

    @property
    def _distribution(self) -> Any:
        """The composed distribution; None where the losses have none or its grid is too fine."""
        if any(isinstance(loss, ZcdpLoss) for loss, _ in self.losses):
            return None
        step = self._step()
        too_fine = any(step > loss.spread / 4 for loss, _ in self.losses)
        if too_fine or max(count for _, count in self.losses) > _MOST_STEPS:
            return None
        square = sum(count * loss.spread**2 for loss, count in self.losses)
        if (20 * math.sqrt(square) + square) / step > _MOST_POINTS:
            return None
        return _composition(self.losses, step)

    def _step(self) -> float:
        """Return the grid step, fine against the smallest loss so that rounding up costs little."""
        points = _POINTS[sum(count for _, count in self.losses) > _FEW]
        largest = max(loss.max_loss for loss, _ in self.losses)  # a coarser grid is as valid
        return max(
            min(loss.spread for loss, _ in self.losses) / points, largest / _MOST_PROFILE, _FINEST
        )


@lru_cache(maxsize=2)  # hundreds of megabytes each, at most: a curve asks for the same one
def _composition(losses: tuple[tuple[Loss, int], ...], step: float) -> Any:
    """Return the distribution of all releases on the grid, pessimistic; None if it is too long."""
    total = None
    for loss, count in losses:
        part = _single(loss, step)
        if _composed_points(part, count) > _MOST_POINTS:
            return None
        part = dense(part, count).self_compose(count) if count > 1 else part
        total = part if total is None else total.compose(part)
    return total


def _single(loss: Loss, step: float) -> Any:
    """Return the distribution of one release on the grid, pessimistic."""
    dp = _library()
    build = dp.pld.privacy_loss_distribution
    if isinstance(loss, GaussianLoss):
        return build.from_gaussian_mechanism(1.0 / loss.mu, value_discretization_interval=step)
    if isinstance(loss, PoissonLoss):
        relations = dp.NeighboringRelation
        relation = relations.REPLACE_ONE if loss.replace_one else relations.ADD_OR_REMOVE_ONE
        return build.from_gaussian_mechanism(
            1.0 / loss.mu,
            sampling_prob=loss.rate,
            value_discretization_interval=step,
            neighboring_relation=relation,
        )
    if isinstance(loss, (SampledLoss, RangeLoss)):
        return _from_profile(loss, step)
    if isinstance(loss, RepeatedLoss):
        return _from_points(*loss.points(), step)
    if isinstance(loss, PureLoss):
        parameters = dp.pld.common.DifferentialPrivacyParameters(loss.epsilon, 0.0)
        return build.from_privacy_parameters(parameters, value_discretization_interval=step)
    raise AssumptionError(f"no privacy loss distribution for {loss!r}.")


def _from_profile(loss: SampledLoss | RangeLoss, step: float) -> Any:
    """Return the pessimistic connect-the-dots distribution of a symmetric profile."""
    from dp_accounting.pld import pld_pmf

    last = max(2, math.ceil(loss.max_loss / step))
    grid = np.arange(-last, last + 1)
    epsilons = np.asarray(grid * step, dtype=np.float64)
    if isinstance(loss, RangeLoss):
        deltas = range_deltas(epsilons, loss.epsilon)
    else:
        deltas = sampled_delta(epsilons, loss.rate, loss.mu)
    deltas = np.minimum.accumulate(deltas)
    mass = pld_pmf.create_pmf_pessimistic_connect_dots(step, grid, deltas)
    return _library().pld.privacy_loss_distribution.PrivacyLossDistribution(mass)


def range_deltas(epsilons: Array, range_epsilon: float) -> Array:
    """Return the profile of a bounded range at epsilons of any sign, rounded up."""
    inner = np.expm1(np.minimum(epsilons - range_epsilon, 0.0) / 2) ** 2
    inside = inner / -math.expm1(-range_epsilon) * (1 + 2.0**-42)
    below = epsilons <= -range_epsilon
    return np.asarray(np.where(below, -np.expm1(np.minimum(epsilons, 0.0)), inside))


def _from_points(epsilons: Array, deltas: Array, step: float) -> Any:
    """Return the pessimistic distribution of a profile that is bounded at a few points.

    A profile is convex in e^epsilon, so that it is below the convex hull of bounds on it, at the
    points and between them. Epsilons below 0 follow by duality, since the bounds hold both ways.
    """
    from dp_accounting.pld import pld_pmf

    shrink = np.exp(-epsilons[:0:-1])
    mirrored = -np.expm1(-epsilons[:0:-1]) + shrink * deltas[:0:-1]
    x = np.concatenate([[0.0], shrink, np.exp(epsilons)])
    corners = hull(x, np.concatenate([[1.0], mirrored, deltas]))
    last = max(2, math.ceil(epsilons[-1] / step))
    grid = np.arange(-last, last + 1)
    profile = np.minimum.accumulate(np.interp(np.exp(grid * step), *corners))
    mass = pld_pmf.create_pmf_pessimistic_connect_dots(step, grid, np.minimum(profile, 1.0))
    return _library().pld.privacy_loss_distribution.PrivacyLossDistribution(mass)


def hull(x: Array, y: Array) -> tuple[Array, Array]:
    """Return the corners of the largest convex function below points, x rising."""
    corners: list[tuple[float, float]] = []
    for c, z in zip(x.tolist(), y.tolist(), strict=True):
        while len(corners) > 1:
            (a, u), (b, v) = corners[-2:]
            if (v - u) / (b - a) < (z - v) / (c - b):
                break
            corners.pop()
        corners.append((c, z))
    return np.array([a for a, _ in corners]), np.array([u for _, u in corners])


def _rdp_relation(losses: Sequence[tuple[Loss, int]]) -> Any:
    """Return the relation under which the RDP accountant reads all of the losses right, or None."""
    relations = _library().NeighboringRelation
    sampled = [loss for loss, _ in losses if isinstance(loss, SampledLoss)]
    poisson = [loss for loss, _ in losses if isinstance(loss, PoissonLoss)]
    best = [loss for loss, _ in losses if isinstance(loss, RepeatedLoss)]
    if any(isinstance(loss, (PureLoss, RangeLoss)) for loss, _ in losses):
        return None
    if any(loss.rho is None for loss in best) or (best and (sampled or poisson)):
        return None
    if any(loss.replace_one for loss in poisson) or any(not a.population for a in sampled):
        return None
    if sampled:
        return None if poisson else relations.REPLACE_ONE
    return relations.ADD_OR_REMOVE_ONE


def _rdp_event(loss: Loss) -> Any:
    dp = _library()
    if isinstance(loss, GaussianLoss):
        return dp.GaussianDpEvent(1.0 / loss.mu)
    if isinstance(loss, ZcdpLoss):
        return dp.ZCDpEvent(loss.rho)
    if isinstance(loss, RepeatedLoss) and loss.rho is not None:
        return dp.dp_event.RepeatAndSelectDpEvent(dp.ZCDpEvent(loss.rho), loss.mean, loss.shape)
    if isinstance(loss, PoissonLoss):
        return dp.PoissonSampledDpEvent(loss.rate, dp.GaussianDpEvent(1.0 / loss.mu))
    if isinstance(loss, SampledLoss) and loss.population:
        size, rows = loss.population
        return dp.SampledWithoutReplacementDpEvent(rows, size, dp.GaussianDpEvent(1.0 / loss.mu))
    raise AssumptionError(f"no Renyi event for {loss!r}.")


def _sampled_spread(mu: float, rate: float) -> float:
    """Return the spread of many sampled releases, at most that of the release without sampling."""
    return min(mu, rate * math.sqrt(math.expm1(min(mu * mu, 700.0))))


def _sampled_max_loss(mu: float, rate: float) -> float:
    """Return where a profile is below 1e-30: beyond 12 standard deviations of the noise."""
    return math.log1p(rate * math.expm1(min(mu * (12 + mu / 2), 700.0)))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep remarks about Renyi orders, which no caller can act on, off the screen."""
    logger = logging.getLogger("absl")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


@lru_cache(maxsize=1)
def _library() -> Any:
    """Import dp-accounting on first use and check that it is new enough."""
    try:
        import dp_accounting
        import dp_accounting.pld.common
        import dp_accounting.pld.privacy_loss_distribution
        import dp_accounting.rdp
    except ImportError:
        raise MissingExtraError(
            "sampled or mixed releases and the second accountant need dp-accounting. "
            "Install it with: pip install 'dpsco[accounting]'"
        ) from None
    version = metadata.version("dp-accounting")
    if tuple(int(part) for part in version.split(".")[:2]) < (0, 6):
        raise MissingExtraError(
            f"dpsco needs dp-accounting 0.6 or newer, found {version} (another package may hold "
            "attrs back). Install it with: pip install 'dpsco[accounting]'"
        )
    return dp_accounting


@lru_cache(maxsize=4096)
def _epsilon(losses: tuple[tuple[Loss, int], ...], delta: float) -> float:
    """Return the epsilon of a composition; a plan, its ledger and its reader ask for the same.

    The key holds no distribution: of those only the last ones are kept.
    """
    return Composed(losses)._numerical(delta)


# -- the library's slow loops, by arrays -----------------------------------------------------------
#
# The results are the library's own, up to the rounding of its exponentials. Where its insides are
# others than known here, its own functions are used.


def dense(distribution: Any, count: int) -> Any:
    """Return a distribution in the form that ``count`` compositions need.

    To find out which one that is, the library computes size**count: for a million compositions a
    number of millions of digits, which takes seconds.
    """
    if count < _SPARSE:
        return distribution
    parts: list[Any] = [getattr(distribution, name, None) for name in _PARTS]
    if not all(hasattr(part, "to_dense_pmf") and part.size > 1 for part in parts):
        return distribution
    remove, add = parts
    return type(distribution)(remove.to_dense_pmf(), None if add is remove else add.to_dense_pmf())


def _composed_points(distribution: Any, count: int) -> int:
    """Return how many points ``count`` compositions have as the library bounds them, or 0.

    Its bounds get loose where there are very many.
    """
    sizes = []
    for part in dict.fromkeys(getattr(dense(distribution, _SPARSE), name, None) for name in _PARTS):
        probs = getattr(part, "_probs", None)
        if probs is None or count < _SPARSE:
            continue
        low, high = _library().pld.common.compute_self_convolve_bounds(probs, count, 1e-15)
        sizes.append(int(high - low))
    return max(sizes, default=0)


def epsilon_for_delta(distribution: Any, delta: float) -> float:
    """Return the least epsilon at ``delta``, of the worse of both directions."""
    parts: list[Any] = [getattr(distribution, name, None) for name in _PARTS]
    if not all(hasattr(part, name) for part in parts for name in _FIELDS):
        return float(distribution.get_epsilon_for_delta(delta))
    if parts[0] is parts[1]:
        parts = parts[:1]
    return max(_least_epsilon(part, delta) for part in parts)


def _least_epsilon(part: Any, delta: float) -> float:
    """Return where the hockey-stick divergence of a discrete loss falls to ``delta``.

    From the largest loss down, masses are added up until the divergence at the next loss would be
    above: there epsilon follows from the masses above it.
    """
    probs, lower, step, infinite = (getattr(part, name) for name in _FIELDS)
    if infinite > delta:
        return math.inf
    masses = np.asarray(probs, dtype=float)[::-1]
    losses = np.full(len(masses), -step)
    losses[0] = (lower + len(masses) - 1) * step
    losses = np.cumsum(losses)  # rounded as the library rounds them
    with np.errstate(all="ignore"):
        upper = np.cumsum(np.concatenate([[infinite], masses]))
        less = np.cumsum(np.concatenate([[0.0], np.exp(-losses) * masses]))
        crossed = (upper[:-1] > delta) & (less[:-1] > 0)
        crossed &= np.log((upper[:-1] - delta) / less[:-1]) >= losses
        certain = (upper[1:] >= delta) & (less[1:] == 0)  # exp(-loss) counts as nothing
    ends = [int(np.argmax(each)) if each.any() else len(masses) for each in (crossed, certain)]
    if ends[1] < ends[0]:
        return max(0.0, float(losses[ends[1]]))
    above, below = float(upper[ends[0]]), float(less[ends[0]])
    if above <= below + delta:
        return 0.0
    return math.log((above - delta) / below) if below > 0 else math.inf
