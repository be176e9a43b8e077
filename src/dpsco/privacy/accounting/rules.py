"""What one execution of each release costs a row that it touches: one small rule a class.

Here, and only here, a row's bound becomes a distance between neighbours: the adjacency's factor and
the rounding of floating-point sums are applied once. A release without a rule is refused.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ...errors import AssumptionError
from ..budget import Adjacency
from ..lattice import SLACK, TILT_SHARE
from ..mechanisms import random_hits
from ..mechanisms.objective_perturbation import check as perturbation_check
from ..mechanisms.objective_perturbation import loss as perturbation
from ..mechanisms.prefix_sum.encoding import encoding_slack
from ..mechanisms.releases import (
    FixedSizeGaussianRelease,
    GaussianRelease,
    GeneralizedGaussianRelease,
    ObjectivePerturbationRelease,
    PoissonGaussianRelease,
    PrefixSumRelease,
    Release,
    SelectionRelease,
    ShuffledRelease,
    StableGammaRelease,
    StableGaussianRelease,
    WithReplacementRelease,
)
from ..summation import rounding_slack
from . import amplification, gaussian, pld, renyi

_STABLE_SLACK = 1e-9  # relative: rounding of the few operations behind a stated sensitivity
_SAMPLED_UP_TO = 20.0  # distance in standard deviations beyond which sampling is not credited


@dataclass(frozen=True)
class Profile:
    """A privacy curve that holds for a release by itself; some compose with Gaussian releases.

    ``beside(mu)`` is the curve where Gaussian releases of distance ``mu``, taken together, touch
    the same rows too: their loss L ~ N(mu^2/2, mu^2) is independent of the release's own noise, so
    delta is at most E delta(epsilon - L), for adaptive choices as well (Zhu, Dong, Wang 2022,
    arXiv:2106.08567, Thm 10).
    """

    delta: Callable[[float], float]
    epsilon: Callable[[float], float] | None = None  # where it is known better than by inverting
    beside: Callable[[float], Profile] | None = None


@dataclass(frozen=True)
class Charge:
    """What one execution costs a row, in each currency that is proved for the release."""

    mu: float | None = None  # exact distance of two Gaussians
    rho: float | None = None  # zCDP
    curve: renyi.Curve | None = None  # Renyi divergences
    pure: float = math.inf  # pure epsilon
    pld: pld.Loss | None = None  # recipe for a privacy loss distribution
    alone: Profile | None = None  # valid if no other such release, and it only once, touches a row
    together: Callable[[int], Charge] | None = None  # k rows at once, where that is known directly
    check: perturbation_check.Check | None = None  # a second computation, valid where ``alone`` is


def _gaussian(release: GaussianRelease, adjacency: Adjacency) -> Charge:
    reach = _reach(release, adjacency)
    if release.diameter is not None and adjacency is Adjacency.REPLACE_ONE:
        reach *= release.diameter / (2 * release.bound)
    return _gaussian_charge(reach / release.sigma)


def _prefix_sum(release: PrefixSumRelease, adjacency: Adjacency) -> Charge:
    _refuse_add_remove(release, adjacency)
    mechanism = release.mechanism
    encoded = 1 + encoding_slack(mechanism, release.row_count)
    reach = _reach(release, adjacency) * encoded * mechanism.column_norm
    return _gaussian_charge(reach / release.sigma)


def _generalized_gaussian(release: GeneralizedGaussianRelease, adjacency: Adjacency) -> Charge:
    # |.|_r^2 is 2(r-1)-smooth in l_r, so a shift s costs rho = (r-1) |s|_r^2 / (2 sigma^2).
    shift = _reach(release, adjacency) / release.sigma
    return _zcdp_charge(0.5 * (release.norm - 1) * shift * shift)


def _selection(release: SelectionRelease, adjacency: Adjacency) -> Charge:
    e0 = _up(_distance(release, adjacency) / release.scale)
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
        alone=Profile(
            lambda eps: amplification.shuffled_delta(eps, release.row_count, local),
            lambda delta: amplification.shuffled_epsilon(delta, release.row_count, local),
        ),
    )


def _stable_gaussian(release: StableGaussianRelease, adjacency: Adjacency) -> Charge:
    return _gaussian_charge(_stable_reach(release, adjacency) / release.sigma)


def _stable_gamma(release: StableGammaRelease, adjacency: Adjacency) -> Charge:
    # | |z|_2 - |z + s|_2 | <= |s|_2, so the densities' ratio is at most e^(|s|/scale).
    e0 = _up(_stable_reach(release, adjacency) / release.scale)
    return Charge(rho=e0 * e0 / 2, curve=renyi.pure(e0), pure=e0, pld=pld.PureLoss(e0))


def _random_hits(release: WithReplacementRelease, adjacency: Adjacency) -> Charge:
    _stable_adjacency(release, adjacency)
    sigma = release.sigma / (1 + _STABLE_SLACK)
    # The lattice moves iterates that differ by SLACK hit: as much as this much more drift does.
    lattice = 1.5 * SLACK * release.hit / math.sqrt(release.steps)

    def profile(mu: float) -> Profile:
        def delta(epsilon: float) -> float:
            return random_hits.delta(
                epsilon,
                hit=release.hit,
                drift=release.drift + lattice,
                steps=release.steps,
                rows=release.row_count,
                sigma=sigma,
                beside=mu,
            )

        return Profile(delta, beside=lambda more: profile(_together(mu, more)))

    return Charge(alone=profile(0.0))


def _objective_perturbation(
    release: ObjectivePerturbationRelease, adjacency: Adjacency, rows: int = 1
) -> Charge:
    # Inexact minimisers lie within ``distance`` of exact ones on both sides, whatever the rows.
    # Their tilt is rounded, which moves them by TILT_SHARE distance, and so is what leaves.
    lattices = TILT_SHARE + TILT_SHARE / 2
    output = _up(2 * release.distance * (1 + _STABLE_SLACK + lattices) / release.output_sigma)
    parts = rows * adjacency.factor  # gradients that appear or vanish, each in its own span
    directions, span = release.directions, release.span or 1
    if directions != "general" and span == 1 and parts <= 2:
        directions = "glm" if parts == 1 else "pair"
    elif directions == "glm":
        directions = "subspace"
    wide = directions == "general"
    loss = perturbation.Loss(
        m=_up(rows * _distance(release, adjacency) / release.sigma),
        curvature=release.curvature,
        floor=release.floor,
        rank=release.rank,
        directions=directions,
        dimensions=(release.dimension or 1) if wide else parts * span,
        output=output,
        rows=rows,
        span=None if wide else span,
    )
    return Charge(
        rho=loss.rho,
        curve=loss.rdp,
        alone=_perturbed(loss),
        together=lambda count: _objective_perturbation(release, adjacency, count),
        check=perturbation_check.Check(release, replaced=adjacency.factor == 2, rows=rows),
    )


def _perturbed(loss: perturbation.Loss) -> Profile:
    """Return the curve of a perturbed minimiser; Gaussian releases add to its output's noise."""

    def beside(mu: float) -> Profile:
        return _perturbed(dataclasses.replace(loss, output=_together(loss.output, mu)))

    return Profile(loss.delta, beside=beside)


_RULES: dict[type[Release], Callable[[Any, Adjacency], Charge]] = {
    GaussianRelease: _gaussian,
    PrefixSumRelease: _prefix_sum,
    GeneralizedGaussianRelease: _generalized_gaussian,
    SelectionRelease: _selection,
    PoissonGaussianRelease: _poisson_gaussian,
    FixedSizeGaussianRelease: _fixed_size_gaussian,
    ShuffledRelease: _shuffled,
    StableGaussianRelease: _stable_gaussian,
    StableGammaRelease: _stable_gamma,
    WithReplacementRelease: _random_hits,
    ObjectivePerturbationRelease: _objective_perturbation,
}


def charge(release: Release, adjacency: Adjacency) -> Charge:
    """Return what one execution of ``release`` costs a row; refuse classes without an entry."""
    rule = _RULES.get(type(release))
    if rule is None:
        raise AssumptionError(
            f"no accountant knows {type(release).__name__}: its privacy cost is unproved here. "
            "Use a record of dpsco.privacy.mechanisms.releases."
        )
    return rule(release, adjacency)


def lone_profile(charges: Iterable[tuple[Charge, int]]) -> Profile | None:
    """Return the curve of the one release that is known by its curve, Gaussian ones beside it.

    None if there are two such releases, if it happens twice, or if it does not compose.
    """
    found, squares = [], []
    for item, count in charges:
        if item.mu is None:
            found.append((item.alone, count))
        else:
            squares.append(count * item.mu * item.mu)
    if len(found) != 1 or found[0][0] is None or found[0][1] != 1:
        return None
    alone = found[0][0]
    if not squares:
        return alone
    return None if alone.beside is None else alone.beside(_up(math.sqrt(math.fsum(squares))))


def _together(mu: float, other: float) -> float:
    """Return the distance of two independent Gaussian releases, one beside the other."""
    return _up(math.hypot(mu, other)) if mu and other else mu or other


def _distance(release: Any, adjacency: Adjacency) -> float:
    """Return the distance between neighbouring float64 sums, rounding included."""
    return adjacency.sensitivity(release.bound) * (1 + rounding_slack(release.row_count))


def _reach(release: Any, adjacency: Adjacency) -> float:
    """Return the distance between neighbouring sums on the lattice of the release."""
    return _distance(release, adjacency) * (1 + SLACK)


def _stable_reach(
    release: StableGaussianRelease | StableGammaRelease, adjacency: Adjacency
) -> float:
    """Return the distance between neighbours, for the adjacency that it was proved under."""
    _stable_adjacency(release, adjacency)
    return release.sensitivity * (1 + _STABLE_SLACK) * (1 + SLACK)


def _stable_adjacency(release: Any, adjacency: Adjacency) -> None:
    """Refuse another adjacency than the one that the record's theorem was applied to."""
    _refuse_add_remove(release, adjacency)
    if release.adjacency != adjacency.value:
        raise AssumptionError(
            f"{type(release).__name__} states its distance between {release.adjacency} neighbours, "
            f"and the budget protects {adjacency.value} ones. Compute the sensitivity for "
            f"adjacency='{adjacency.value}', or pass a budget with adjacency="
            f"'{release.adjacency}'."
        )


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
