"""What a unit of several rows costs: directly where a release says so, else by group privacy."""

from __future__ import annotations

import math

from . import renyi
from .privacy_loss import PrivacyLoss, PrivacyLosses

_UP = 1 + 2.0**-50
_MOST_TOGETHER = 10_000  # rows: laws of more directions take seconds, and hide nothing


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
