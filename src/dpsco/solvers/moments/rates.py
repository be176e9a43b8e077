"""How many batches, which threshold, which error: formulas of the one-pass solvers.

Pure functions of public numbers, which decide accuracy alone. Lengths are those of gradients;
``noise`` is z, the standard deviation of the noise on a sum in units of the threshold, so that the
mean over s rows has noise z C/s per coordinate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MOST_ACSA_BATCHES = 400
AVERAGE_LOSS = (16.0, 72.0, 4.0)  # of the bound of `clipped_sgd_sc`: start, noise, bias


@dataclass(frozen=True)
class Scales:
    """The public numbers that schedules are made of."""

    n: int  # rows
    size: int  # weights
    distance: float  # D0: from the start to good weights
    smoothness: float  # beta: of the population risk
    strong_convexity: float  # mu_sc: likewise; 0 where there is none
    noise: float  # z: of one release that spends the whole budget
    mu: float  # that budget, as mu-GDP of a row

    @property
    def condition(self) -> float:
        """kappa."""
        return self.smoothness / self.strong_convexity

    @property
    def snr(self) -> float:
        """n mu/sqrt(d), the paper's unit of a sum's signal."""
        return self.n * self.mu / math.sqrt(self.size)

    @property
    def most_batches(self) -> int:
        """K_max = n/(z sqrt(d)): in more batches each one has more noise than its threshold."""
        return max(1, math.floor(self.n / (self.noise * math.sqrt(self.size))))

    @property
    def most_split_batches(self) -> int:
        """The same for batches that share the budget: noise grows with its root, too."""
        return max(1, math.floor(math.pow(0.5 * self.most_batches, 2.0 / 3.0)))

    def variance(self, batches: float, threshold: float, moment: float) -> float:
        """Return Sigma^2 = d sigma^2 + r_2^2/s of a batch's mean, for batches of floor(n/K)."""
        rows = max(1, self.n // int(batches))
        return self.size * (self.noise * threshold / rows) ** 2 + moment * moment / rows


# -- clipped_acsa ----------------------------------------------------------------------------------


def acsa_eta(scales: Scales, rounds: int, square: float) -> float:
    """Return the eta of least bound, at least 2 beta; ``square`` is Sigma^2 + B^2."""
    return max(2.0 * scales.smoothness, acsa_spread(rounds, square) / scales.distance)


def acsa_spread(rounds: int, square: float) -> float:
    """Return the eta of least bound times D0, where beta does not matter."""
    return math.sqrt(square * (2 * rounds + 1) * rounds * (rounds + 1) / 12.0)


def acsa_bound(scales: Scales, rounds: int, eta: float, square: float, bias: float = 0.0) -> float:
    """Return U = 2 eta D0^2/(T (T+1)) + (Sigma^2 + B^2)(2T+1)/(6 eta) + B D0."""
    start = 2.0 * eta * scales.distance**2 / (rounds * (rounds + 1))
    return start + square * (2 * rounds + 1) / (6.0 * eta) + bias * scales.distance


def best_acsa_rounds(scales: Scales, threshold: float, moment: float) -> int:
    """Return the T of least bound without bias."""

    def bound(rounds: int) -> float:
        square = scales.variance(rounds, threshold, moment)
        return acsa_bound(scales, rounds, acsa_eta(scales, rounds, square), square)

    return min(range(1, min(scales.n, MOST_ACSA_BATCHES) + 1), key=bound)


def paper_acsa_rounds(scales: Scales, moment: float, order: float) -> int:
    """Return the T of Thm 29, at least 1 and at most n: beta may be 0."""
    ratio, k = scales.smoothness * scales.distance / moment, order
    noisy = math.pow(ratio, 2 * k / (5 * k - 1)) * math.pow(scales.snr, (2 * k - 2) / (5 * k - 1))
    return max(1, min(scales.n, math.ceil(min(noisy, math.sqrt(ratio) * math.pow(scales.n, 0.25)))))


# -- clipped_sgd_sc --------------------------------------------------------------------------------


def averaging_schedule(rounds: int, a: float, g: float) -> tuple[Floats, Floats]:
    """Return the steps and the weights of the average for T+1 updates, T = ``rounds``.

    The schedule whose existence Lemma 32 asserts; a = mu_sc/2 and g = beta + mu_sc/2. Weights
    belong to the points after the updates.

    >>> steps, weights = averaging_schedule(6, 0.5, 1.5)
    >>> steps.round(8)[3:].tolist(), weights.round(8)[3:].tolist()
    ([0.66666667, 0.57142857, 0.5, 0.44444444], [0.15652174, 0.21304348, 0.27826087, 0.35217391])
    """
    t = np.arange(rounds + 1, dtype=float)
    if rounds <= g / a:
        weights = np.exp(-(t - rounds) * math.log1p(-a / g)) if a < g else (t == rounds) * 1.0
        return np.full(rounds + 1, 1.0 / g), weights / weights.sum()
    half, ks = math.ceil(rounds / 2), 2.0 * g / a
    late = np.maximum(ks + t - half, ks)
    steps = np.where(t < half, 1.0 / g, 2.0 / (a * late))
    weights = np.where(t < half, 0.0, late * late)
    return steps, weights / weights.sum()


def sgd_bound(scales: Scales, rounds: int, square: float, bias: float) -> float:
    """Return 16 g D0^2 exp(-mu T/(4 g)) + 72 Sigma^2/(mu T) + 4 B^2/mu."""
    strong = scales.strong_convexity
    g = scales.smoothness + strong / 2.0
    first, second, third = AVERAGE_LOSS
    start = first * g * scales.distance**2 * math.exp(-strong * rounds / (4.0 * g))
    return start + second * square / (strong * rounds) + third * bias**2 / strong


def sgd_rounds(scales: Scales) -> int:
    """Return T = kappa ln(n mu/sqrt(d)), at most K_max - 1."""
    needed = math.ceil(scales.condition * math.log(max(math.e, scales.snr)))
    return max(1, min(needed, scales.most_batches - 1))


def paper_sgd_rounds(scales: Scales, moment: float, order: float) -> int:
    """Return the T of Thm 33; the theorem does not keep T + 1 below n."""
    strong = scales.strong_convexity
    gain = strong * scales.smoothness * (scales.distance / moment) ** 2
    inner = scales.n + math.pow(scales.snr, 2 * (order - 1) / order)
    return max(1, math.ceil(4.0 * scales.condition * math.log(max(math.e, gain * inner))))


# -- clipped_prox_sgd ------------------------------------------------------------------------------


def prox_bound(scales: Scales, rounds: int, gap: float, square: float) -> float:
    """Return (1 - 1/kappa)^T Delta + (B^2 + Sigma^2)/(2 mu), for steps 1/beta."""
    left = math.pow(max(0.0, 1.0 - 1.0 / scales.condition), rounds) * gap
    return left + square / (2.0 * scales.strong_convexity)


def prox_rounds(scales: Scales, share: float) -> int:
    """Return T = share kappa ln(n mu/sqrt(d)), from 2 to K_max."""
    needed = math.ceil(share * scales.condition * math.log(max(math.e, scales.snr)))
    return max(2, min(needed, max(2, scales.most_batches)))


def paper_prox_rounds(
    scales: Scales, gap: float, moment: float, order: float, threshold: object
) -> int:
    """Return the T of Thm 38, a fixed point: threshold, bias and noise depend on T themselves.

    ``threshold`` is a function of T. On a cycle the larger T is taken.
    """
    assert callable(threshold)
    rounds, seen = 2, [2]
    for _ in range(100):
        clip = threshold(rounds)
        bias = math.pow(moment / clip, order - 1.0) * moment / (order - 1.0)
        noise = scales.size * (scales.noise * clip * rounds / scales.n) ** 2
        square = bias**2 + noise + moment**2 * rounds / scales.n
        ratio = gap * scales.strong_convexity / square
        following = max(2, 2 * math.ceil(scales.condition * math.log(max(1.0, ratio))))
        if following == rounds:
            return rounds
        if following in seen:
            return max(seen[seen.index(following) :])
        seen.append(following)
        rounds = following
    return rounds


# -- the baseline ----------------------------------------------------------------------------------


def split_rounds(scales: Scales) -> int:
    """Return T = (mu + beta)^2/(mu beta) ln n of the baseline."""
    total = scales.strong_convexity + scales.smoothness
    rate = total * total / (scales.strong_convexity * scales.smoothness)
    return max(1, math.ceil(rate * math.log(max(2, scales.n))))


def split_bound(scales: Scales, square: float) -> float:
    """Return beta (1/mu + 1/beta)^2 G^2, what noise leaves of the baseline."""
    return scales.smoothness * (1 / scales.strong_convexity + 1 / scales.smoothness) ** 2 * square


def kamath_corrected_bound(
    *,
    n: int,
    d: int,
    epsilon: float,
    condition: float,
    order: float = 2.0,
    coordinate_moment: float = 1.0,
    strong_convexity: float = 1.0,
    variant: str = "rederived",
) -> float:
    """Return the excess risk of Kamath, Liu, Zhang 2022 for smooth strongly convex losses.

    Logarithms are dropped. "rederived" follows from the paper's own oracle, "printed" is its
    equation (3), which does not. ``coordinate_moment`` is gamma^(1/k).

    >>> args = {"n": 100_000, "d": 10, "epsilon": 1.0, "condition": 10.0}
    >>> round(kamath_corrected_bound(**args), 6)
    0.11
    >>> round(kamath_corrected_bound(**args, variant="printed"), 6)
    0.416228
    """
    power, scale = (2 * order - 2) / order, coordinate_moment**2 * d / strong_convexity
    if variant == "printed":
        private = math.pow(math.sqrt(d) * condition**3 / (epsilon * n), power)
        return scale * (condition**3 / n + private)
    private = math.pow(math.sqrt(d) * condition**1.5 / (epsilon * n), power)
    return scale * (condition**2 / n + condition * private)
