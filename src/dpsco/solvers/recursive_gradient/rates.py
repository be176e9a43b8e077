"""How many rounds, how long steps, which clip: formulas of the recursive-gradient solvers.

Pure functions of public numbers. Privacy holds for any values, since every contribution is clipped;
they decide accuracy alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

ROUNDS = 2.0  # times sqrt(M R/(L alpha)); with BETA the best of a grid on three problems
BETA = 0.25  # times (L/R) T^2 alpha
INDEPENDENT = 0.25  # times T^1.5 V/R, for independent noise; the best of a grid likewise
PLAIN = 4.0  # times as many rounds where steps are not accelerated
FEWEST, SMALLEST_BATCH = 4, 32
TRUST_REGION_FACTOR = 12.0  # times the clip: what a typical row may add by the point's move
SHORT_TRUST_REGION_FACTOR = 8.0  # for online to batch, which takes no y step to set it right
TURNS = 4.0  # how often gradients turn before a clip is widened
LOW_NOISE = 16.0  # how faint noise is before a clip is widened
STEP_BOOST = (0.5, 0.5)  # beta falls with this power of the share of rounds, to this part; measured
INDEPENDENT_STEP_BOOST = (0.25, 0.7)  # the same for independent noise, which bears less


@dataclass(frozen=True)
class Scales:
    """The public numbers that schedules are made of."""

    n: int  # rows
    size: int  # weights
    gradient: float  # L: what a row contributes at most
    smoothness: float  # M: of the mean loss over the population, or a bound on it
    distance: float  # R: from the start to good weights
    noise_multiplier: float  # noise of a single release over its bound: 2/mu; zero-out: 1/mu

    @property
    def alpha(self) -> float:
        """1/sqrt(n) + z sqrt(d)/n, z the noise multiplier: their cost, in units of L R."""
        return 1 / math.sqrt(self.n) + self.noise_multiplier * math.sqrt(self.size) / self.n

    def gradient_std(self, rounds: int) -> float:
        """Return V, the deviation of a batch's mean with independent noise."""
        batch = self.n // rounds
        noise = self.noise_multiplier * math.sqrt(self.size) / batch
        return self.gradient * math.sqrt(1 / batch + noise * noise)


def best_rounds(scales: Scales) -> int:
    """Return the least T at which acceleration gets below what sampling and noise cost."""
    rounds = ROUNDS * math.sqrt(
        scales.smoothness * scales.distance / (scales.gradient * scales.alpha)
    )
    return within(rounds, scales.n)


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
    deviation = scales.gradient * (
        1 / math.sqrt(batch) + scales.noise_multiplier * math.sqrt(scales.size) / batch
    )
    return max(scales.smoothness, INDEPENDENT * math.pow(rounds, 1.5) * deviation / scales.distance)


def widened(scales: Scales) -> float:
    """Return the clip: L, or more where gradients turn over within R/4 and noise is faint.

    M R/L says how many times over a row's gradient may turn on the way, and so how much is cut.
    Noise of the wider clip stays below a sixteenth of what sampling costs.
    """
    turns = scales.smoothness * scales.distance / scales.gradient
    faint = math.sqrt(scales.n / scales.size) / scales.noise_multiplier
    return scales.gradient * max(1.0, min(turns / TURNS, faint / LOW_NOISE))


def boosted_step(beta: float, rounds: int, enough: int, boost: tuple[float, float]) -> float:
    """Return the inverse step for fewer rounds than are enough: longer steps, within limits.

    The smoothness bounds the curvature at its worst. Where slopes are bounded the curvature falls
    along the way, and steps that would not bear the worst beat steps that do not arrive.
    """
    power, least = boost
    return beta * max(least, math.pow(min(1.0, rounds / enough), power))


def recursive_excess(scales: Scales, rounds: int, beta: float, error: float) -> float:
    """Return the excess risk to expect of accelerated steps on noisy prefix sums.

    2 beta R^2/(T (T+1)) + R (4/3 L/sqrt(n) + 2 z L e sqrt(d)/n) + (L^2/B + 2 d (z L e/B)^2
    /(T+1))/beta, with z the noise multiplier and e the largest prefix error of the mechanism. The
    theorem has the diameter in the place of the second R, for it follows the z steps wherever they
    may be, and beta >= 2 M.
    """
    batch, noise = scales.n / rounds, scales.noise_multiplier * scales.gradient * error
    left = 2 * beta * scales.distance**2 / (rounds * (rounds + 1))
    drift = 4 / 3 * scales.gradient / math.sqrt(scales.n)
    drift += 2 * noise * math.sqrt(scales.size) / scales.n
    jitter = scales.gradient**2 / batch + 2 * scales.size * (noise / batch) ** 2 / (rounds + 1)
    return left + scales.distance * drift + jitter / beta


def independent_excess(scales: Scales, rounds: int, beta: float) -> float:
    """Return the bound for independent noise: 2 beta R^2/(T (T+1)) + (2T+1) V^2/(3 beta)."""
    left = 2 * beta * scales.distance**2 / (rounds * (rounds + 1))
    return left + (2 * rounds + 1) * scales.gradient_std(rounds) ** 2 / (3 * beta)


def best_independent_rounds(scales: Scales) -> int:
    """Return the T of least bound for independent noise."""
    most = max(1, scales.n // SMALLEST_BATCH)
    candidates = np.unique(np.geomspace(min(FEWEST, most), min(most, 4096), 200).astype(int))
    bounds = [
        independent_excess(scales, int(rounds), independent_beta(scales, int(rounds)))
        for rounds in candidates
    ]
    return int(candidates[int(np.argmin(bounds))])
