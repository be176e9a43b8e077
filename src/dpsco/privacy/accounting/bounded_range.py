"""Releases of bounded range: their privacy curve, alone and beside Gaussian releases.

A release has the range e0 if, for any two neighbours, the logarithm of the likelihood ratio P/Q of
its outcome lies in an interval of length e0: such is the exponential mechanism, whose normaliser
shifts all ratios alike (Dong, Durfee, Rogers 2019, arXiv:1909.13830).

Alone     Let the ratio r = P/Q lie in [e^(t-e0), e^t]. delta(eps) = E_Q (r - e^eps)_+ is convex in
          r and E_Q r = 1, so it is largest where r takes the two ends only: then
          P(r = e^t) = (e^e0 - e^t)/(e^e0 - 1). The largest over t has t = (e0 + eps)/2 and is

              f(eps) = (1 - e^((eps-e0)/2))^2 / (1 - e^-e0)    for |eps| <= e0,

          0 above, and 1 - e^eps below. f is the same with P and Q exchanged.
Beside    Gaussian releases of distance mu on the same rows have the loss L ~ N(mu^2/2, mu^2), and
          delta is at most E f(eps - L) (Zhu, Dong, Wang 2022, arXiv:2106.08567, Thm 10; a largest
          of curves is the curve of some pair). Each term of f is an exponential, so its mean over a
          window of L is a difference of normal tails.
"""

from __future__ import annotations

import math

from scipy.special import log_ndtr

from . import gaussian
from .privacy_loss import Profile, combined_mu

_ROUNDING = 2.0**-42  # relative: logarithms of tails down to e^-700, and what is subtracted

_MOST = 500.0  # a range beyond hides nothing, and its exponentials overflow


def profile(range_epsilon: float, beside: float = 0.0) -> Profile:
    """Return the privacy curve, Gaussian releases of distance ``beside`` on the same rows."""
    return Profile(
        lambda epsilon: delta(epsilon, range_epsilon, beside),
        beside=lambda more: profile(range_epsilon, combined_mu(beside, more)),
    )


def delta(epsilon: float, range_epsilon: float, beside: float = 0.0) -> float:
    """Return delta at ``epsilon`` >= 0, rounded up.

    >>> round(delta(0.5, 1.0), 6), delta(1.0, 1.0)
    (0.077405, 0.0)
    """
    e0 = range_epsilon
    if beside == 0.0:
        if epsilon >= e0:
            return 0.0
        return math.expm1((epsilon - e0) / 2) ** 2 / -math.expm1(-e0) * (1 + _ROUNDING)
    # Pure privacy shifts the curve; of use where the range is too small for differences of floats.
    shifted = gaussian.delta(epsilon - e0, beside) if epsilon >= e0 else 1.0
    both = _beside(epsilon, e0, beside) if e0 < _MOST else 1.0
    return max(min(1.0, shifted, both), 5e-324)


def _beside(epsilon: float, e0: float, mu: float) -> float:
    """Return E f(epsilon - L), L ~ N(mu^2/2, mu^2)."""
    low, high = epsilon - e0, epsilon + e0

    def tail(least: float, power: float, factor: float) -> float:
        """Return E e^(factor - power L) over L > least."""
        shift = factor - power * (1.0 - power) * mu * mu / 2
        z = (least - (0.5 - power) * mu * mu) / mu
        return math.exp(min(shift + float(log_ndtr(-z)), 700.0))

    terms = [
        (sign, tail(low, power, factor), tail(high, power, factor))
        for sign, power, factor in ((1.0, 0.0, 0.0), (-2.0, 0.5, low / 2), (1.0, 1.0, low))
    ]
    window = math.fsum(sign * (above - beyond) for sign, above, beyond in terms)
    size = math.fsum(abs(sign) * (above + beyond) for sign, above, beyond in terms)
    certain = tail(high, 0.0, 0.0) - tail(high, 1.0, epsilon)
    slack = _ROUNDING * (size / -math.expm1(-e0) + 2 * tail(high, 0.0, 0.0))
    return window / -math.expm1(-e0) + certain + slack
