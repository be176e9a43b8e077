"""The Poisson loss with a cap on the rate, in many digits."""

import mpmath as mp

from dpsco import losses


def poisson(rate):
    top, turn = mp.mpf(rate), mp.log(mp.mpf(rate))

    def formula(u, y):
        return (mp.exp(u) if u <= mp.log(top) else top + top * (u - mp.log(top))) - y * u

    return losses.Poisson(rate), formula, lambda y: (float(turn),)


CASES = [poisson(rate) for rate in (20.0, 0.2)]
