"""What one execution of each release costs a row that it touches: one small rule a class.

Here, and only here, a row's bound becomes a distance between neighbours: the adjacency's factor and
the rounding of floating-point sums are applied once. A release without a rule is refused.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..errors import AssumptionError
from . import gaussian, pld, renyi
from .budget import Adjacency
from .releases import (
    DiscreteGaussianRelease,
    FixedSizeGaussianRelease,
    GaussianRelease,
    GeneralizedGaussianRelease,
    PoissonGaussianRelease,
    PrefixSumRelease,
    Release,
    SelectionRelease,
    ShuffledRelease,
)
from .summation import rounding_slack

_SAMPLED_UP_TO = 20.0  # distance in standard deviations beyond which sampling is not credited


@dataclass(frozen=True)
class Charge:
    """What one execution costs a row, in each currency that is proved for the release."""

    mu: float | None = None  # exact distance of two Gaussians
    rho: float | None = None  # zCDP
    curve: renyi.Curve | None = None  # Renyi divergences
    pure: float = math.inf  # pure epsilon
    pld: pld.Loss | None = None  # recipe for a privacy loss distribution
    shuffled: tuple[int, float] | None = None  # reports and local mu; only if alone on its rows


def _gaussian(release: GaussianRelease, adjacency: Adjacency) -> Charge:
    return _gaussian_charge(_reach(release, adjacency) / release.sigma)


def _prefix_sum(release: PrefixSumRelease, adjacency: Adjacency) -> Charge:
    _refuse_add_remove(release, adjacency)
    reach = _reach(release, adjacency) * release.mechanism.column_norm
    return _gaussian_charge(reach / release.sigma)


def _discrete_gaussian(release: DiscreteGaussianRelease, adjacency: Adjacency) -> Charge:
    # Canonne, Kamath, Steinke 2020, Thm 4: the zCDP of the continuous Gaussian; sums are exact.
    shift = adjacency.sensitivity(release.bound) / release.sigma
    return _zcdp_charge(0.5 * shift * shift)


def _generalized_gaussian(release: GeneralizedGaussianRelease, adjacency: Adjacency) -> Charge:
    # |.|_r^2 is 2(r-1)-smooth in l_r, so a shift s costs rho = (r-1) |s|_r^2 / (2 sigma^2).
    shift = _reach(release, adjacency) / release.sigma
    return _zcdp_charge(0.5 * (release.norm - 1) * shift * shift)


def _selection(release: SelectionRelease, adjacency: Adjacency) -> Charge:
    e0 = _up(_reach(release, adjacency) / release.scale)
    if release.noise == "gumbel":  # bounded range, hence an eighth; the others are pure DP only
        return Charge(rho=e0 * e0 / 8, curve=renyi.bounded_range(e0), pure=e0, pld=pld.PureLoss(e0))
    return Charge(rho=e0 * e0 / 2, curve=renyi.pure(e0), pure=e0, pld=pld.PureLoss(e0))


def _poisson_gaussian(release: PoissonGaussianRelease, adjacency: Adjacency) -> Charge:
    if release.rate == 1.0:
        return _gaussian_charge(_reach(release, adjacency) / release.sigma)
    reach = _up(_reach(release, adjacency) / release.sigma)
    if reach > _SAMPLED_UP_TO:
        return _unsampled(reach)
    if adjacency is not Adjacency.REPLACE_ONE:
        return Charge(pld=pld.PoissonLoss(reach, release.rate, replace_one=False))
    if release.pair == "conjectured":
        return Charge(pld=pld.PoissonLoss(reach / 2, release.rate, replace_one=True))
    return Charge(pld=pld.SampledLoss(reach, release.rate))


def _fixed_size_gaussian(release: FixedSizeGaussianRelease, adjacency: Adjacency) -> Charge:
    _refuse_add_remove(release, adjacency)
    if release.size == release.row_count:
        return _gaussian_charge(_reach(release, adjacency) / release.sigma)
    # A row that is drawn takes the place of another one: two bounds apart, also for zero-out.
    reach = _up(_reach(release, Adjacency.REPLACE_ONE) / release.sigma)
    if reach > _SAMPLED_UP_TO:
        return _unsampled(reach)
    population = (release.size, release.row_count)
    return Charge(pld=pld.SampledLoss(reach, release.size / release.row_count, population))


def _shuffled(release: ShuffledRelease, adjacency: Adjacency) -> Charge:
    _refuse_add_remove(release, adjacency)
    # Hiding among the others' reports compares any two inputs, whatever the adjacency.
    local = _up(_reach(release, Adjacency.REPLACE_ONE) / release.sigma)
    unshuffled = _gaussian_charge(_reach(release, adjacency) / release.sigma)
    return Charge(
        rho=unshuffled.rho,
        curve=unshuffled.curve,
        pld=unshuffled.pld,
        shuffled=(release.row_count, local),
    )


_RULES: dict[type[Release], Callable[[Any, Adjacency], Charge]] = {
    GaussianRelease: _gaussian,
    PrefixSumRelease: _prefix_sum,
    DiscreteGaussianRelease: _discrete_gaussian,
    GeneralizedGaussianRelease: _generalized_gaussian,
    SelectionRelease: _selection,
    PoissonGaussianRelease: _poisson_gaussian,
    FixedSizeGaussianRelease: _fixed_size_gaussian,
    ShuffledRelease: _shuffled,
}


def charge(release: Release, adjacency: Adjacency) -> Charge:
    """Return what one execution of ``release`` costs a row; refuse classes without an entry."""
    rule = _RULES.get(type(release))
    if rule is None:
        raise AssumptionError(
            f"no accountant knows {type(release).__name__}: its privacy cost is unproved here. "
            "Use a record of dpsco.privacy.releases."
        )
    return rule(release, adjacency)


def _reach(release: Any, adjacency: Adjacency) -> float:
    """Return the distance between neighbouring float64 sums, rounding included."""
    return adjacency.sensitivity(release.bound) * (1 + rounding_slack(release.row_count))


def _gaussian_charge(mu: float) -> Charge:
    mu = min(_up(mu), gaussian.LARGEST_MU)
    rho = _up(0.5 * mu * mu)
    return Charge(mu=mu, rho=rho, curve=renyi.zcdp(rho), pld=pld.GaussianLoss(mu))


def _unsampled(reach: float) -> Charge:
    """Return what the release costs without the secrecy of its sample, which never hurts.

    No ``mu``: more noise does not scale this charge, it leads back to the sampled one.
    """
    return dataclasses.replace(_gaussian_charge(reach), mu=None)


def _zcdp_charge(rho: float) -> Charge:
    rho = _up(rho)
    return Charge(rho=rho, curve=renyi.zcdp(rho), pld=pld.ZcdpLoss(rho))


def _refuse_add_remove(release: Release, adjacency: Adjacency) -> None:
    if adjacency is Adjacency.ADD_REMOVE:
        raise AssumptionError(
            f"{type(release).__name__} needs a public number of rows, and under add_remove a row "
            "more or less would move all later rows to other batches. Use adjacency='zero_out' "
            "(same noise, number of rows public) or 'replace_one'."
        )


def _up(value: float) -> float:
    """Round up by more than the few operations before can have rounded down."""
    return value * (1 + 2.0**-50)
