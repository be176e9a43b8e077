"""The Huber loss and its smooth relative in many digits."""

import mpmath as mp

from dpsco import losses


def huber(threshold):
    h = mp.mpf(threshold)

    def formula(u, y):
        r = abs(u - y)
        return r * r / 2 if r <= h else h * (r - h / 2)

    return losses.Huber(threshold), formula, lambda y: (y - threshold, y + threshold)


def pseudo(threshold):
    t = mp.mpf(threshold)
    formula = lambda u, y: t**2 * (mp.sqrt(1 + ((u - y) / t) ** 2) - 1)  # noqa: E731
    return losses.PseudoHuber(threshold), formula


CASES = [*(huber(h) for h in (0.7, 5.0)), *(pseudo(t) for t in (0.7, 20.0))]
