"""Releases that rest on a theorem: one example of each, and what their tests share."""

from __future__ import annotations

import math

from scipy import integrate, stats

from dpsco.privacy.budget import ApproxDP
from dpsco.privacy.mechanisms import (
    ObjectivePerturbationRelease,
    StableGammaRelease,
    StableGaussianRelease,
    WithReplacementRelease,
)

FALSE_ALARM = 1e-6
ROWS = (100, 150)
ZERO = ApproxDP(1e9, 1e-6, adjacency="zero_out")


def stable(sensitivity=0.5, sigma=4.0, adjacency="zero_out", **change):
    facts = {"theorem": "First, of 2022", "rows": ROWS, **change}
    return StableGaussianRelease(sensitivity, sigma, adjacency, **facts)


def gamma(sensitivity=0.5, scale=4.0, adjacency="zero_out", **change):
    facts = {"theorem": "First, of 2022", "rows": ROWS, **change}
    return StableGammaRelease(sensitivity, scale, adjacency, **facts)


def drawn(sigma=2.0, adjacency="zero_out", **change):
    facts = {
        "participation_shift": 0.1,
        "drift": 0.01,
        "steps": 40,
        "theorem": "First, of 2022",
        "rows": ROWS,
    }
    return WithReplacementRelease(**{**facts, **change}, sigma=sigma, adjacency=adjacency)


def perturbed(sigma=9.0, **change):
    facts = {"bound": 1.0, "curvature": 0.25, "floor": 10.0, "rank": 1, "directions": "glm",
             "distance": 1e-9, "output_sigma": 1e-3, "rows": ROWS, **change}  # fmt: skip
    return ObjectivePerturbationRelease(sigma=sigma, **facts)


def largest_m(delta_of, delta):
    """Return the largest m with ``delta_of(m) <= delta``, by bisection on the predicate."""
    low, high = 1e-12, 1.0
    while delta_of(high) <= delta:
        low, high = high, 2 * high
    while high / low > 1 + 1e-12:
        middle = math.sqrt(low * high)
        if delta_of(middle) <= delta:
            low = middle
        else:
            high = middle
    return low


def accepts(values, law):
    return stats.kstest(values, law).pvalue > FALSE_ALARM


def composed_delta(profile, epsilon, mu):
    """E delta(epsilon - L), L ~ N(mu^2/2, mu^2), by quadrature: what composition must not beat."""

    def inner(v):
        left = epsilon - 0.5 * mu * mu - mu * v
        if left >= 0:
            return profile(left) * stats.norm.pdf(v)
        # Both orders of two neighbours have the curve, so a negative epsilon has one as well.
        return (1 - math.exp(left) + math.exp(left) * profile(-left)) * stats.norm.pdf(v)

    found, _ = integrate.quad(inner, -9, 12, limit=400, epsabs=0, epsrel=1e-9)
    return found
