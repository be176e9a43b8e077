"""How hard to clip gradients by default, from public facts."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..privacy.budget import Budget
from ..problem import Facts

Floats = NDArray[np.float64]

NEGLIGIBLE = 0.02  # of the loss at the start: noise below this is not worth a bias


FARTHEST = 1e100  # no weight is longer: queries refuse what is not finite


def finite(weights: Floats) -> Floats:
    """Return noisy weights as finite numbers, whatever the noise: post-processing."""
    return np.clip(np.nan_to_num(weights), -FARTHEST, FARTHEST)


def default_clip(facts: Facts, budget: Budget) -> float:
    """Return the loss's own bound where its noise hardly matters, else the bound at the start.

    The bound at the start cuts only rows that the model predicts worse than it did at the start
    (`Facts.start_gradient`); for the logistic loss it is half of the loss's own bound. It changes
    what is minimised, by as little as such rows are few, so it is used where noise costs more.
    """
    whole, start = facts.lipschitz, facts.start_gradient
    if not math.isfinite(whole) or start <= 0.0:
        return start if 0.0 < start < math.inf else facts.gradient_bound(None)
    reach = budget.adjacency.sensitivity(whole) / (facts.n * budget.mu_per_row())
    noise = facts.distance * reach * math.sqrt(facts.size)
    return whole if noise <= NEGLIGIBLE * facts.constants.value_at_zero else start
