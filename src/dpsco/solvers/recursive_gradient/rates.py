"""How many rounds, how long steps, which clip: schedules of the few-round solvers.

Pure functions of public numbers. Privacy holds for any values, since every contribution is clipped;
they decide accuracy alone. The published schedules are those of Choquette-Choo, Ganesh, Thakurta
2025, for reproduction: their constants ask for sample sizes that nobody has.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...errors import AssumptionError
from ...privacy.mechanisms.prefix_sum.mechanism import PrefixMechanism

ROUNDS = 2.0  # times sqrt(M R/(L alpha)); with BETA the best of a grid on three problems
BETA = 0.25  # times (L/R) T^2 alpha
INDEPENDENT = 0.25  # times T^1.5 V/R, for independent noise; the best of a grid likewise
PLAIN = 4.0  # times as many rounds where steps are not accelerated
FEWEST, SMALLEST_BATCH = 4, 32
TRUST_REGION_FACTOR = (
    12.0  # times the clip: what a typical row may add in a round by how far the point moves
)
SHORT_TRUST_REGION_FACTOR = (
    8.0  # for online to batch, which takes no y step that could set it right
)
TURNS, LOW_NOISE = (
    4.0,
    16.0,
)  # how fast gradients turn, how faint noise is, before a clip is widened
STEP_BOOST = (0.5, 0.5)  # beta falls with this power of the share of rounds, to this part; measured
HASTE_INDEPENDENT = (0.25, 0.7)  # the same for independent noise, which bears less


@dataclass(frozen=True)
class Scales:
    """The public numbers that schedules are made of."""

    n: int  # rows
    size: int  # weights
    gradient: float  # L: what a row contributes at most
    smoothness: float  # M: of the mean loss over the population, or a bound on it
    distance: float  # R: from the start to good weights
    price: float  # noise of a single release over its bound: 2/mu, or 1/mu for zero-out

    @property
    def alpha(self) -> float:
        """1/sqrt(n) + price sqrt(d)/n: what sampling and noise cost, in units of L R."""
        return 1 / math.sqrt(self.n) + self.price * math.sqrt(self.size) / self.n

    def spread(self, rounds: int) -> float:
        """Return V, the deviation of a batch's mean with independent noise."""
        batch = self.n // rounds
        noise = self.price * math.sqrt(self.size) / batch
        return self.gradient * math.sqrt(1 / batch + noise * noise)


def best_rounds(scales: Scales) -> int:
    """Return the least T at which acceleration gets below what sampling and noise cost."""
    wanted = ROUNDS * math.sqrt(
        scales.smoothness * scales.distance / (scales.gradient * scales.alpha)
    )
    return within(wanted, scales.n)


def within(rounds: float, n: int) -> int:
    """Return a whole number of rounds: at least 4, but batches of at least 32 rows."""
    return min(max(math.ceil(rounds), FEWEST), max(1, n // SMALLEST_BATCH))


def recursive_beta(scales: Scales, rounds: int) -> float:
    """Return the inverse step for prefix sums with correlated noise."""
    rate = scales.gradient / scales.distance * scales.alpha
    return max(scales.smoothness, BETA * rate * rounds * rounds)


def independent_beta(scales: Scales, rounds: int) -> float:
    """Return the inverse step for gradients with independent noise."""
    batch = scales.n // rounds
    spread = scales.gradient * (
        1 / math.sqrt(batch) + scales.price * math.sqrt(scales.size) / batch
    )
    return max(scales.smoothness, INDEPENDENT * math.pow(rounds, 1.5) * spread / scales.distance)


def widened(scales: Scales) -> float:
    """Return the clip: L, or more where gradients turn over within R/4 and noise is faint.

    M R/L says how many times over a row's gradient may turn on the way, and so how much is cut.
    Noise of the wider clip stays below a sixteenth of what sampling costs.
    """
    turns = scales.smoothness * scales.distance / scales.gradient
    faint = math.sqrt(scales.n / scales.size) / scales.price
    return scales.gradient * max(1.0, min(turns / TURNS, faint / LOW_NOISE))


def boosted_step(beta: float, rounds: int, enough: int, haste: tuple[float, float]) -> float:
    """Return the inverse step for fewer rounds than are enough: longer steps, within limits.

    The smoothness bounds the curvature at its worst. Where slopes are bounded the curvature falls
    along the way, and steps that would not bear the worst beat steps that do not arrive.
    """
    power, least = haste
    return beta * max(least, math.pow(min(1.0, rounds / enough), power))


def recursive_excess(scales: Scales, rounds: int, beta: float, error: float) -> float:
    """Return the excess risk to expect of accelerated steps on noisy prefix sums.

    2 beta R^2/(T (T+1)) + R (4/3 L/sqrt(n) + 2 price L e sqrt(d)/n) + (L^2/B + 2 d (price L e/B)^2
    /(T+1))/beta, with e the largest prefix error of the mechanism. The theorem has the diameter in
    the place of the second R, for it follows the z steps wherever they may be, and beta >= 2 M.
    """
    batch, noise = scales.n / rounds, scales.price * scales.gradient * error
    left = 2 * beta * scales.distance**2 / (rounds * (rounds + 1))
    drift = 4 / 3 * scales.gradient / math.sqrt(scales.n)
    drift += 2 * noise * math.sqrt(scales.size) / scales.n
    jitter = scales.gradient**2 / batch + 2 * scales.size * (noise / batch) ** 2 / (rounds + 1)
    return left + scales.distance * drift + jitter / beta


def independent_excess(scales: Scales, rounds: int, beta: float) -> float:
    """Return the bound for independent noise: 2 beta R^2/(T (T+1)) + (2T+1) V^2/(3 beta)."""
    left = 2 * beta * scales.distance**2 / (rounds * (rounds + 1))
    return left + (2 * rounds + 1) * scales.spread(rounds) ** 2 / (3 * beta)


def best_independent_rounds(scales: Scales) -> int:
    """Return the T of least bound for independent noise."""
    most = max(1, scales.n // SMALLEST_BATCH)
    candidates = np.unique(np.geomspace(min(FEWEST, most), min(most, 4096), 200).astype(int))
    bounds = [
        independent_excess(scales, int(rounds), independent_beta(scales, int(rounds)))
        for rounds in candidates
    ]
    return int(candidates[int(np.argmin(bounds))])


def largest_error(mechanism: PrefixMechanism) -> float:
    """Return the largest prefix error e; for very long streams a bound on it."""
    if mechanism.rounds > 2**14 and mechanism.name in ("toeplitz", "toeplitz_cn"):
        return landau(mechanism.rounds)
    return mechanism.error_bound()


def landau(rounds: float) -> float:
    """Return an upper bound on the largest prefix error of the Toeplitz mechanisms."""
    return 1.0663 + math.log(rounds) / math.pi


# -- as published ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Published:
    """A schedule of the paper."""

    rounds: int
    beta: float
    clip: float


def general(
    n: int, gradient: float, smoothness: float, radius: float, rounds: int | None = None
) -> Published:
    """Return the schedule of Thm 14; by default with batches of sqrt(n) rows, its largest.

    ``radius`` is half of the domain's diameter D; c_M = M D/L.

    Raises:
        AssumptionError: so few rounds make batches of more than sqrt(n) rows.
    """
    most = math.isqrt(n)
    batch = most if rounds is None else n // rounds
    if batch > most:
        raise AssumptionError(
            f"schedule='paper_general' has batches of at most sqrt(n) rows; {rounds} rounds make "
            f"batches of {batch} rows, sqrt(n) is {most}. Ask for at least {n // (most + 1) + 1} "
            "rounds; schedule='default' takes any number."
        )
    ratio = smoothness * 2 * radius / gradient
    beta = (16 * ratio + 8) * gradient * n**1.5 / (radius * batch**2)
    return Published(rounds or n // batch, beta, (8 * ratio + 4) * gradient)


def realizable(
    n: int, size: int, gradient: float, radius: float, epsilon: float, delta: float
) -> Published:
    """Return the schedule of Eq. 19, with logarithms of base 2 where the paper names none.

    Raises:
        AssumptionError: it asks for more rounds than there are rows.
    """
    factor = 4 * math.sqrt(2) * math.log2(n) ** 1.5
    factor *= math.sqrt(math.log(2 * n / delta)) * math.log(2.5 / delta)
    rounds = math.ceil(factor * n**0.25)
    if rounds > n:
        raise AssumptionError(
            f"schedule='paper_realizable' asks for {rounds:,} rounds, but there are {n:,} rows "
            f"(its constant c_DP is {factor:,.0f}). It needs more than a million rows at least; "
            "schedule='default' is made for real tables."
        )
    beta = factor**2 * gradient / radius * max(1.0, math.sqrt(size) / (epsilon * math.sqrt(n)))
    return Published(rounds, beta, factor * gradient)


def tree_sigma(rounds: int, sensitivity: float, epsilon: float, delta: float) -> float:
    """Return the noise of a tree's node, on sums of rows, by Lemma 8 as published.

    The lemma's mu = epsilon/sqrt(2 log(2.5/delta)) suffices up to epsilon of about 7 to 10; plans
    are checked by the accountant.
    """
    levels = 1 + math.ceil(math.log2(rounds))
    return sensitivity * math.sqrt(2 * levels * math.log(2.5 / delta)) / epsilon
