"""What a unit of several rows costs: directly where a release says so, else by group privacy."""

from __future__ import annotations

import math

from . import renyi
from .rules import Charge

_UP = 1 + 2.0**-50
_MOST_TOGETHER = 10_000  # rows: laws of more directions take seconds, and hide nothing


def together(charges: tuple[tuple[Charge, int], ...], k: int) -> tuple[tuple[Charge, int], ...]:
    """Return what ``k`` rows cost at once; nothing if no release says it better than a group.

    All of the rows must be touched by the same releases, or by fewer. The other releases cost k
    times their mu, k^2 times their rho (Bun, Steinke 2016, Prop 27), k times their pure epsilon.
    """
    if k > _MOST_TOGETHER or all(item.together is None for item, _ in charges):
        return ()
    if any(item.together is None and item.rho is None for item, _ in charges):
        return ()
    return tuple(
        (item.together(k) if item.together else _group(item, k), count) for item, count in charges
    )


def _group(item: Charge, k: int) -> Charge:
    assert item.rho is not None
    rho = k * k * item.rho * _UP
    mu = None if item.mu is None else k * item.mu * _UP
    return Charge(mu=mu, rho=rho, curve=renyi.zcdp(rho), pure=k * item.pure * _UP)


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
