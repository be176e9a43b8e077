"""The schedule of Lowy, Razaviyayn 2023, Algorithm 3 and Theorem 10, with its mistakes corrected.

Noise is computed last, from whole numbers of rounds; a phase takes twice the logarithm that the
proof divides by; constants hidden in the paper are 1. It is here for reproduction: its first phase
at p = 2 takes more than 1e9 gradients already at a thousand rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

SCHEDULES = ("decoupled", "paper", "theorem_20")
THEOREM_20 = 4.0  # times r_2k: what replaces the moment of the supremum for many rows


@dataclass(frozen=True)
class Phase:
    """One phase of Algorithm 3."""

    rows: int
    rounds: int
    clip: float
    step: float
    strength: float  # lambda
    radius: float  # of W_i about the last phase's point


@dataclass(frozen=True)
class Facts:
    """What Theorem 10 asks for."""

    n: int
    size: int
    mu: float
    distance: float  # D0
    diameter: float  # of the domain; may be infinite
    moment: float  # of order 2k: r~
    second: float  # r, of order 2
    lipschitz: float  # L_f; infinite: r stands in for it, and nothing is cut off
    order: float  # k
    power: float  # p


def phases(facts: Facts) -> tuple[Phase, ...]:
    """Return the phases of Algorithm 3, the last of which has one row."""
    levels = facts.n.bit_length() - 1
    whole = 1 << levels
    eta = first_step(facts, whole)
    return tuple(_phase(facts, whole >> i, eta / 4.0**i, whole) for i in range(1, levels + 1))


def first_step(facts: Facts, whole: int) -> float:
    """Return eta, before it is divided by 4^i."""
    d, mu, k, p = facts.size, facts.mu, facts.order, facts.power
    share = (k - 1.0) / k
    slope = facts.lipschitz if math.isfinite(facts.lipschitz) else facts.second
    log = math.log(whole)
    rate = 1.0 / math.sqrt(whole) + math.pow(math.sqrt(d * log) / (mu * whole), share)
    least = min(1.0 / slope, math.pow(mu / math.sqrt(d), share) / facts.moment)
    excess = facts.moment * facts.distance * whole**2 / facts.second * least * rate
    noisy = math.pow(mu * whole / math.sqrt(d * log), share)
    moves = min(
        1.0 / (facts.second * whole ** ((p - 1.0) / 2.0)),
        1.0 / slope,
        noisy / (facts.moment * whole ** (p / 2.0)),
    )
    return float(min(excess, facts.distance / whole ** (p / 2.0) * moves))


def _phase(facts: Facts, rows: int, step: float, whole: int) -> Phase:
    """Return a phase of so many rows."""
    d, mu, k = facts.size, facts.mu, facts.order
    power = float(rows) ** facts.power
    strength = 1.0 / (step * power)
    clip = facts.moment * math.pow(mu * rows / math.sqrt(d * math.log(whole)), 1.0 / k)
    ratio = facts.distance * mu * rows / (2.0 * math.sqrt(d) * clip * step * power)
    rounds = math.ceil(power * max(2.0, 4.0 * math.log(ratio)))
    slope = facts.lipschitz
    radius = min(facts.diameter, 2.0 * slope / strength) if math.isfinite(slope) else math.inf
    return Phase(rows, rounds, clip, step, strength, radius)
