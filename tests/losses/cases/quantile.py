"""The pinball loss in many digits."""

import mpmath as mp

from dpsco import losses


def pinball(quantile):
    a = mp.mpf(quantile)
    formula = lambda u, y: max(a * (y - u), (a - 1) * (y - u))  # noqa: E731
    return losses.Pinball(quantile), formula, lambda y: (y,)


CASES = [pinball(quantile) for quantile in (0.3, 0.95)]
