"""The epsilon-insensitive loss in many digits."""

import mpmath as mp

from dpsco import losses


def plus(t):
    return t if t > 0 else mp.mpf(0)


def insensitive(e):
    formula = lambda u, y: plus(abs(u - y) - mp.mpf(e))  # noqa: E731
    return losses.EpsilonInsensitive(e), formula, lambda y: (y - e, y + e)


CASES = [insensitive(e) for e in (0.5, 0.0)]
