"""What one execution of a release costs a row, in each notion of privacy that is proved for it.

And what several rows cost at once: directly where a release says so, else by group privacy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from . import gaussian, pld, renyi

_UP = 1 + 2.0**-50  # more than a few operations can have rounded down
_MOST_TOGETHER = 10_000  # rows: laws of more directions take seconds, and hide nothing


def round_up(value: float) -> float:
    """Round up by more than the few operations before can have rounded down."""
    return value * _UP


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


class SecondComputation(Protocol):
    """The cost of a release once more, by another derivation."""

    def epsilon(self, delta: float) -> tuple[float, float]:
        """Return what encloses epsilon at ``delta``."""

    @property
    def rho(self) -> float:
        """The zCDP parameter."""

    def in_group(self, rows: int, beside: float) -> SecondComputation:
        """Return that of ``rows`` rows at once, Gaussian releases of distance ``beside`` too."""


@dataclass(frozen=True)
class PrivacyLoss:
    """What one execution costs a row, in each notion of privacy that is proved for the release."""

    mu: float | None = None  # exact distance of two Gaussians
    gdp: float | None = None  # distance of Gaussians that are told apart as well, or better
    rho: float | None = None  # zCDP
    curve: renyi.Curve | None = None  # Renyi divergences
    pure: float = math.inf  # pure epsilon
    pld: pld.Loss | None = None  # recipe for a privacy loss distribution
    alone: Profile | None = None  # valid if no other such release, and it only once, touches a row
    together: Callable[[int], PrivacyLoss] | None = None  # k rows at once, if known directly
    check: SecondComputation | None = None  # valid where ``alone`` is


PrivacyLosses = tuple[tuple[PrivacyLoss, int], ...]  # with how often each falls on a row


def gaussian_loss(mu: float) -> PrivacyLoss:
    """Return the loss of a Gaussian release, ``mu`` the sensitivity over sigma."""
    mu = min(round_up(mu), gaussian.LARGEST_MU)
    rho = round_up(0.5 * mu * mu)
    return PrivacyLoss(mu=mu, rho=rho, curve=renyi.zcdp(rho), pld=pld.GaussianLoss(mu))


def zcdp_loss(rho: float) -> PrivacyLoss:
    """Return the loss of a release that is rho-zCDP."""
    rho = round_up(rho)
    return PrivacyLoss(rho=rho, curve=renyi.zcdp(rho), pld=pld.ZcdpLoss(rho))


def pure_loss(epsilon: float) -> PrivacyLoss:
    """Return the loss of a purely private release."""
    rho = epsilon * epsilon / 2
    return PrivacyLoss(rho=rho, curve=renyi.pure(epsilon), pure=epsilon, pld=pld.PureLoss(epsilon))


def combined_mu(mu: float, other: float) -> float:
    """Return the distance of two independent Gaussian releases, one beside the other."""
    return round_up(math.hypot(mu, other)) if mu and other else mu or other


def lone_profile(losses: Iterable[tuple[PrivacyLoss, int]]) -> Profile | None:
    """Return the curve of the one release that is known by its curve, Gaussian ones beside it.

    None if there are two such releases, if it happens twice, or if it does not compose.
    """
    others, squares = [], []
    for loss, count in losses:
        if loss.mu is None:
            others.append((loss.alone, count))
        else:
            squares.append(count * loss.mu * loss.mu)
    if len(others) != 1 or others[0][0] is None or others[0][1] != 1:
        return None
    alone = others[0][0]
    if not squares:
        return alone
    return None if alone.beside is None else alone.beside(round_up(math.sqrt(math.fsum(squares))))


def together(losses: PrivacyLosses, k: int) -> PrivacyLosses:
    """Return what ``k`` rows cost at once; nothing if no release says it better than a group.

    All of the rows must be touched by the same releases, or by fewer. The other releases cost k
    times their mu, k^2 times their rho (Bun, Steinke 2016, Prop 27), k times their pure epsilon.
    """
    if k > _MOST_TOGETHER or all(item.together is None for item, _ in losses):
        return ()
    if any(item.together is None and item.rho is None for item, _ in losses):
        return ()
    return tuple(
        (item.together(k) if item.together else _group(item, k), count) for item, count in losses
    )


def _group(item: PrivacyLoss, k: int) -> PrivacyLoss:
    assert item.rho is not None
    rho = k * k * item.rho * _UP
    mu = None if item.mu is None else k * item.mu * _UP
    return PrivacyLoss(mu=mu, rho=rho, curve=renyi.zcdp(rho), pure=k * item.pure * _UP)


def group_delta(delta: float, epsilon: float, k: int) -> float:
    """Return delta of ``k`` rows at ``epsilon``, ``delta`` that of one row at epsilon/k.

    It is ``delta (e^epsilon - 1)/(e^(epsilon/k) - 1)``.
    """
    share = epsilon / k
    if share == 0.0 or delta == 0.0:
        return min(1.0, delta * k)
    ratio = math.expm1(-epsilon) / math.expm1(-share)  # the rest is e^(epsilon - share)
    log_total = math.log(delta) + math.log(ratio) + epsilon - share
    slack = 2.0**-50 * (epsilon + abs(math.log(delta)) + 4)
    return 1.0 if log_total + slack >= 0 else math.exp(log_total + slack)
