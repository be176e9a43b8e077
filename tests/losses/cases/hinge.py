"""Hinge, its powers and the modified Huber loss in many digits."""

import mpmath as mp

from dpsco import losses


def plus(t):
    return t if t > 0 else mp.mpf(0)


def corner(y):
    return (y,)


def q_hinge(q):
    return losses.QHinge(q), lambda u, y: plus(1 - y * u) ** mp.mpf(q), corner


CASES = [
    (losses.Hinge(), lambda u, y: plus(1 - y * u), corner),
    *(q_hinge(q) for q in (1.0, 1.001, 1.5, 2.0)),
    (losses.SquaredHinge(), lambda u, y: plus(1 - y * u) ** 2, corner),
    (
        losses.ModifiedHuber(),
        lambda u, y: plus(1 - y * u) ** 2 if y * u >= -1 else -4 * y * u,
        lambda y: (y, -y),
    ),
]
