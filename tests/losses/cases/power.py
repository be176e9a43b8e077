"""Powers of the residual in many digits."""

import mpmath as mp

from dpsco import losses


def q_power(q):
    return losses.QPower(q), lambda u, y: abs(u - y) ** mp.mpf(q), lambda y: (y,)


CASES = [
    (losses.Absolute(), lambda u, y: abs(u - y), lambda y: (y,)),
    *(q_power(q) for q in (1.0, 1.001, 1.3, 2.0)),
]
