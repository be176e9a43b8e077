"""The logistic loss in many digits."""

import mpmath as mp

from dpsco import losses

CASES = [(losses.Logistic(), lambda u, y: mp.log1p(mp.exp(-y * u)))]
