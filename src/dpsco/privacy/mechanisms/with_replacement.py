"""Averaged SGD on rows that are sampled with replacement: a mixture over their participation.

The drawn indices do not depend on the data, so given them the release is Gaussian with a distance
D(indices) between neighbours, and by joint convexity of the hockey-stick divergence

    delta(epsilon) <= E delta_Gauss(epsilon; D/sigma).

A row that takes part in step s of T moves the average of the iterates before each step by at most
``shift (T - s)/T``, and the other steps add at most ``(2/3) drift sqrt(T)`` (Wang, Lei, Ying, Zhang
2022, the recursion behind Thm 7). The law of K, the sum of (T - s)/T over independent draws of
probability 1/n, is computed by direct convolution, each term rounded up to a bucket: all numbers
are positive, so nothing cancels and delta may be as small as 1e-29.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc

from ... import _validate
from ..._validate import store
from ...errors import AssumptionError
from ...files.limits import MOST_COUNT
from ..accounting import gaussian
from ..accounting.privacy_loss import PrivacyLoss, Profile, combined_mu
from ..accounting.sensitivity import STABLE_SLACK, check_stated_adjacency
from ..budget import Adjacency
from ..lattice import SLACK
from ..randomness import Stream
from ..release import Release, register
from .gaussian import GaussianNoise
from .stable import check_theorem

Array = NDArray[np.float64]

_MOST_BUCKETS = 400
_MOST_WORK = 1e9  # additions of a convolution: about a second
_MOST_DRAWS = 2000.0  # mean number of steps in which a row takes part
_TAIL = 1e-40  # probability beyond which draws are not followed, and called certain disclosure
_DROPPED = 1e-30  # probability of large values that are called certain disclosure too
_UP = 1 + 1e-9  # relative error of some ten thousand products and sums, generously
_FINEST = 500  # values are merged that differ by less than this part of themselves


@register
@dataclass(frozen=True)
class WithReplacementRelease(GaussianNoise, Release):
    """The average of ``steps`` SGD iterates, rows drawn i.i.d. and in secret, plus N(0, sigma^2 I).

    Given the drawn indices, neighbours move the average of the iterates before each step by at
    most ``participation_shift * K + (2/3) drift sqrt(steps) [K > 0]``, K the sum of
    (steps - s)/steps over the steps s that drew the row: a step on the row moves the iterate by
    ``participation_shift``, any other step takes a distance D to at most sqrt(D^2 + drift^2).
    """

    kind: ClassVar[str] = "with_replacement"
    summary: ClassVar[str] = "The outcome of steps on secretly drawn rows, with Gaussian noise"
    stream_name: ClassVar[str] = "random_hits"  # an older name of the kind: seeds keep their noise
    moved_by: ClassVar[str] = "participation_shift"
    participation_shift: float  # how far one participation of the row moves the iterate
    drift: float
    steps: int
    sigma: float
    adjacency: str
    theorem: str

    def __post_init__(self) -> None:
        super().__post_init__()
        check_theorem(self)
        shift = _validate.positive("participation_shift", self.participation_shift)
        store(self, "participation_shift", shift)
        store(self, "drift", _validate.non_negative("drift", self.drift))
        store(self, "steps", _validate.integer("steps", self.steps, at_least=2, at_most=MOST_COUNT))

    def privacy_loss(self, adjacency: Adjacency) -> PrivacyLoss:
        """Return the curve of the mixture, which Gaussian releases may stand beside."""
        check_stated_adjacency(self, adjacency)
        return PrivacyLoss(alone=self._profile(0.0))

    def _profile(self, beside: float) -> Profile:
        """Return the curve, Gaussian releases of distance ``beside`` on the same rows."""
        sigma = self.sigma / (1 + STABLE_SLACK)
        # The lattice moves iterates that differ by SLACK shifts: as much as this drift does.
        lattice = 1.5 * SLACK * self.participation_shift / math.sqrt(self.steps)

        def delta_of(epsilon: float) -> float:
            return delta(
                epsilon,
                participation_shift=self.participation_shift,
                drift=self.drift + lattice,
                steps=self.steps,
                rows=self.row_count,
                sigma=sigma,
                beside=beside,
            )

        return Profile(delta_of, beside=lambda more: self._profile(combined_mu(beside, more)))

    def caveats(self, adjacency: Adjacency) -> tuple[str, ...]:
        """Return that the drawn rows are a secret."""
        return ("the rows drawn at the steps stay secret",)

    def draw_rows(self, stream: Stream) -> NDArray[np.int64]:
        """Return the row of each step."""
        return self.rows[0] + stream.integers(self.row_count, self.steps)


def delta(
    epsilon: float,
    *,
    participation_shift: float,
    drift: float,
    steps: int,
    rows: int,
    sigma: float,
    beside: float = 0.0,
) -> float:
    """Return delta at ``epsilon`` of the noisy average, rounded up.

    Gaussian releases of distance ``beside`` on the same rows are, given the indices, one Gaussian
    with the average; they cost something also where the row is never drawn.
    """
    values, masses, lost = participation_law(rows, steps)
    moved = participation_shift * values + (2.0 / 3.0) * drift * math.sqrt(steps)
    parts = masses * gaussian.delta_grid(epsilon, np.hypot(moved / sigma, beside) * _UP)
    never = gaussian.delta(epsilon, beside * _UP)
    return min(1.0, (math.fsum(parts) + never) * _UP + lost)


@lru_cache(maxsize=16)
def participation_law(rows: int, steps: int) -> tuple[Array, Array, float]:
    """Return values, their probabilities and the probability of larger ones, of K > 0.

    The values are rounded up and the probabilities too, so that any expectation of an increasing
    function that is at most 1 is at most ``sum(p f(value)) + lost``.
    """
    if steps / rows > _MOST_DRAWS:
        raise AssumptionError(
            f"sampling with replacement is accounted for up to {_MOST_DRAWS:.0f} expected draws of "
            f"a row, got {steps} steps on {rows} rows. Use fewer steps, or passes in one fixed "
            "order (StableGaussianRelease with stability.sgd_sensitivity)."
        )
    most = _most_draws(steps, 1.0 / rows)
    buckets = _bucket_count(rows, steps, most)
    law = np.zeros(buckets * most + 1)
    law[0] = 1.0
    lost = float(bdtrc(most, steps, 1.0 / rows))  # each draw counts 1 at most
    first = 0  # the step s contributes ceil(buckets (steps - s)/steps) buckets
    for bucket in range(1, buckets + 1):
        last = min(steps - 1, bucket * steps // buckets)
        terms, missing = _binomial(last - first, 1.0 / rows)
        law = _with_participation(law, terms, bucket)
        lost += missing
        first = last
    beyond = np.cumsum(law[::-1])[::-1]  # the probability of a value and all larger ones
    last_value = max(2, int(np.searchsorted(-beyond, -_DROPPED)))
    lost += float(np.sum(law[last_value:]))
    values = np.arange(last_value) / buckets * (1 + 2.0**-50)
    return (*_merged(values[1:], law[1:last_value] * _UP), lost * _UP + 1e-300)


def _with_participation(law: Array, terms: Array, shift: int) -> Array:
    """Return the law after ``k`` draws of weight ``shift`` with probability ``terms[k]``."""
    result: Array = law * terms[0]
    for k in range(1, len(terms)):
        if k * shift >= len(law):
            break  # beyond the largest value: counted in the tail of the number of draws
        result[k * shift :] += terms[k] * law[: len(law) - k * shift]
    return result


def _binomial(draws: int, probability: float) -> tuple[Array, float]:
    """Return P(Bin = k) for k = 0, 1, ... and the probability of what is left out."""
    if draws == 0:
        return np.ones(1), 0.0
    if probability == 1.0:
        return np.concatenate([np.zeros(draws), np.ones(1)]), 0.0
    most = _most_draws(draws, probability)
    terms = np.empty(most + 1)
    terms[0] = math.exp(draws * math.log1p(-probability))
    odds = probability / (1.0 - probability)
    for k in range(most):
        terms[k + 1] = terms[k] * odds * (draws - k) / (k + 1)
    return terms, float(bdtrc(most, draws, probability)) if most < draws else 0.0


def _most_draws(draws: int, probability: float) -> int:
    """Return a number of draws that is exceeded with probability _TAIL at most."""
    most = min(draws, int(draws * probability) + 1)
    while most < draws and bdtrc(most, draws, probability) > _TAIL:
        most += 1
    return most


def _bucket_count(rows: int, steps: int, most: int) -> int:
    """Return how many buckets the work allows; fewer are coarser, never unsafe."""
    buckets = min(_MOST_BUCKETS, steps)
    while buckets > 16:
        terms = _most_draws(-(-steps // buckets), 1.0 / rows) + 1
        if buckets * (buckets * most) * terms <= _MOST_WORK:
            break
        buckets = max(16, buckets * 3 // 4)
    return buckets


def _merged(values: Array, masses: Array) -> tuple[Array, Array]:
    """Return fewer values, each group of close ones at its largest; drop what has no mass."""
    first = [0]
    while first[-1] < len(values):  # values are multiples of the first one
        first.append(first[-1] + max(1, (first[-1] + 1) // _FINEST))
    starts = np.array(first[:-1])
    grouped = np.add.reduceat(masses, starts)
    largest = values[np.append(starts[1:], len(values)) - 1]
    return largest[grouped > 0], grouped[grouped > 0]
