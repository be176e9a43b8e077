"""Plans of a single epoch: one noisy sum per batch, each row in one batch, the batches in order.

Beside them stands which correlated noise they take by default, and how large its errors are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from ... import _validate
from ...errors import ParameterError
from ...files.limits import MOST_BATCHES, MOST_RELEASES
from ...privacy.mechanisms import GaussianRelease, PrefixSumRelease
from ...privacy.mechanisms.prefix_sum.mechanism import NEEDS, PrefixMechanism, mechanism
from ...privacy.release import Release
from ...task import Task
from ..engine import EnginePlan, Rows, part_of

NOISE_BYTES = 2**28  # of past noise, and as many of past sums: beyond, the buffered mechanism


@dataclass(frozen=True, kw_only=True)
class BatchPlan(EnginePlan):
    """A plan of one noisy sum for each of ``rounds`` batches, from public facts only."""

    points: ClassVar[int] = 2  # a difference of gradients, at most

    rounds: int  # batches, each row in one of them
    clip: float  # l2 bound on what a row adds to its batch's sum, enforced
    sigma: float  # noise on a batch's sum, per coordinate; with a mechanism: of its unit noise
    mechanism: PrefixMechanism | None = None  # of the prefix sums; None: independent noise

    def __post_init__(self) -> None:
        """Refuse too many rounds, and noise for another number of them: a file may hold any."""
        most = MOST_RELEASES if self.mechanism is None else MOST_BATCHES
        hint = "Every round is a release of its own." if self.mechanism is None else ""
        _validate.integer("rounds", self.rounds, at_most=most, hint=hint)
        if isinstance(self.mechanism, PrefixMechanism) and self.mechanism.rounds != self.rounds:
            raise ParameterError(
                f"a plan of {self.rounds} rounds has noise for {self.mechanism.rounds} of them. "
                "Make the plan anew with dpsco.plan(...)."
            )

    def batches(self) -> tuple[Rows, ...]:
        """Return the rows of each batch: n/rounds of them, the first ones one more if need be."""
        check_rounds(self.rounds, self.n)
        return tuple(part_of((0, self.n), self.rounds, t) for t in range(self.rounds))

    def batch_size(self, t: int) -> int:
        """Return the number of rows of batch t: what its sum is divided by."""
        start, stop = part_of((0, self.n), self.rounds, t)
        return stop - start

    def releases(self) -> tuple[Release, ...]:
        """Return one noisy sum per batch, or the stream of noisy prefix sums."""
        if self.mechanism is not None:
            return (PrefixSumRelease(self.clip, self.sigma, self.mechanism, rows=(0, self.n)),)
        return tuple(GaussianRelease(self.clip, self.sigma, rows=rows) for rows in self.batches())


def check_rounds(rounds: int, n: int) -> int:
    """Return the number of rounds; refuse more than rows."""
    if _validate.integer("rounds", rounds) > n:
        raise ParameterError(
            f"rounds must be at most n = {n}, one row per batch; got {rounds}.", parameter="rounds"
        )
    return int(rounds)


def chosen_mechanism(
    noise: str | PrefixMechanism | None, rounds: int, task: Task
) -> PrefixMechanism:
    """Return the mechanism that was asked for; by default the best one whose past noise fits."""
    if isinstance(noise, PrefixMechanism):
        if noise.rounds != rounds:
            raise ParameterError(
                f"the noise is made for {noise.rounds} rounds, the plan has {rounds}."
            )
        return noise
    if noise is None:
        noise = "toeplitz_cn" if rounds * task.n_weights * 8 <= NOISE_BYTES else "blt_cn"
    if isinstance(noise, str) and noise in NEEDS:
        value = 0.5 if noise == "power" else min(8, rounds)
        raise ParameterError(
            f"noise={noise!r} needs {NEEDS[noise]}, which a name does not give. Pass a mechanism, "
            f"such as options={{'noise': dpsco.privacy.mechanism({noise!r}, rounds={rounds}, "
            f"{NEEDS[noise]}={value})}}; 'toeplitz_cn' and 'blt_cn' need nothing more."
        )
    return mechanism(noise, rounds=rounds)


def largest_error(stream: PrefixMechanism) -> float:
    """Return the largest prefix error e; for very long streams a bound on it."""
    if stream.rounds > 2**14 and stream.name in ("toeplitz", "toeplitz_cn"):
        return landau(stream.rounds)
    return stream.error_bound()


def landau(rounds: float) -> float:
    """Return an upper bound on the largest prefix error of the Toeplitz mechanisms."""
    return 1.0663 + math.log(rounds) / math.pi
