"""The decoder of a prefix-sum mechanism, C^-1, round by round, in bounded memory.

Of standard normals it makes the noise of a run; of noisy rows ``C x + sigma z`` it makes the noisy
increments ``x + sigma C^-1 z``, from numbers that have left and nothing else.

What the mechanisms are, and what they cost, says :mod:`.mechanism`. Each has one step here: from
the round, a fresh Gaussian vector and the memory it makes the noise increment of the round.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from ....errors import ParameterError, RandomnessError
from . import matrices

if TYPE_CHECKING:
    from .mechanism import PrefixMechanism

Array = NDArray[np.float64]
Draw = Callable[[], Array]
Step = Callable[[int, Array, Draw, Array], Array]  # round, first draw, more draws, memory


class NoiseStream:
    """The noise of one run, round by round. Stateful; never copied, pickled or forked.

    Made by `PrefixMechanism.start`. It keeps ``memory_vectors()`` vectors of past noise: they are
    as secret as the rows.
    """

    def __init__(self, mechanism: PrefixMechanism, draw: Draw) -> None:
        if getattr(mechanism, "name", None) not in _STEPS:
            raise ParameterError(
                f"mechanism must be a PrefixMechanism, got {mechanism!r}.", parameter="mechanism"
            )
        if not callable(draw):
            raise ParameterError(
                f"draw must be a function without arguments, got {draw!r}.", parameter="draw"
            )
        self.mechanism = mechanism
        self._draw = draw
        self._step = _STEPS[mechanism.name](mechanism)
        self._memory: Array | None = None  # made at the first draw, which tells the length
        self._position = 0
        self._drawn = 0
        self._busy = False
        self._process = os.getpid()

    @property
    def position(self) -> int:
        """Rounds done so far: the number of increments handed out."""
        return self._position

    def next(self) -> Array:
        """Return the noise increment of this round for sigma = 1: N_t - N_{t-1}, N_{-1} = 0.

        Raises RandomnessError past the horizon, in another process, or after a round that failed.
        """
        self._check_usable()
        self._busy = True  # stays so if anything below raises: a broken round is never repeated
        first = self._fresh()
        if self._memory is None:
            self._memory = np.zeros((self.mechanism.memory_vectors(), first.size))
        increment = self._step(self._position, first, self._fresh, self._memory)
        self._position += 1
        self._busy = False
        return increment

    @property
    def drawn(self) -> int:
        """Vectors drawn so far."""
        return self._drawn

    @property
    def memory(self) -> Array:
        """The vectors that are held, not copied; of no columns before the first round."""
        empty = np.zeros((self.mechanism.memory_vectors(), 0))
        return empty if self._memory is None else self._memory

    def restore(self, position: int, drawn: int, memory: Array) -> None:
        """Go on after so many rounds and draws, from what was held then."""
        self._check_usable()
        self._position, self._drawn, self._memory = position, drawn, memory

    def _check_usable(self) -> None:
        """Refuse whatever could repeat noise."""
        if self._process != os.getpid():
            raise RandomnessError("A noise stream must stay in the process that started it.")
        if self._busy:
            raise RandomnessError(
                "The noise stream was interrupted in a round, or is used by two threads at once; "
                "it cannot go on. Start a new run, with its own budget."
            )
        if self._position >= self.mechanism.rounds:
            raise RandomnessError(
                f"The noise stream has only {self.mechanism.rounds} rounds and all are used. "
                "Plan more rounds beforehand; noise is never repeated."
            )

    def _fresh(self) -> Array:
        """Draw one vector and copy it, so that the caller's buffer may be used again."""
        vector = np.array(self._draw(), dtype=np.float64)
        length = vector.size if self._memory is None else self._memory.shape[1]
        if vector.shape != (length,) or length == 0 or not np.isfinite(vector).all():
            raise RandomnessError(
                "draw() must return a finite vector, of one length throughout the run; "
                f"got shape {vector.shape}."
            )
        self._drawn += 1
        return vector

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        """Refuse copy, deepcopy and pickle: two copies would hand out the same noise."""
        raise RandomnessError("A noise stream cannot be copied or pickled: it would repeat noise.")


def _tree_step(description: PrefixMechanism) -> Step:
    """One node a round: it replaces the smaller blocks that it covers (slots 0 to level - 1)."""
    levels = description.memory_vectors()

    def step(t: int, first: Array, draw: Draw, slots: Array) -> Array:
        return _merge(slots, matrices.block_level(t + 1, levels), first)

    return step


def _honaker_step(description: PrefixMechanism) -> Step:
    """All nodes that end here: each is averaged with the sum of its halves, weight by variance."""
    levels = description.memory_vectors()

    def step(t: int, first: Array, draw: Draw, slots: Array) -> Array:
        top, estimate = matrices.block_level(t + 1, levels), first
        for level in range(1, top + 1):
            own = 2.0**level / (2.0 ** (level + 1) - 1.0)
            estimate = own * draw() + (1.0 - own) * (slots[level - 1] + estimate)
        return _merge(slots, top, estimate)

    return step


def _merge(slots: Array, level: int, block: Array) -> Array:
    """Put ``block`` in place of all smaller ones; return the change of the sum of the slots."""
    increment: Array = block - slots[:level].sum(axis=0)
    slots[:level] = 0.0
    slots[level] += block  # the slot was empty, except for the second half of a dropped root
    return increment


def _toeplitz_step(description: PrefixMechanism) -> Step:
    """Scale_t * sum_{j <= t} q_{t-j} z_j; all z are kept. The scale is 1 unless normalised."""
    rounds = description.rounds
    if description.exponent is None:
        reverse = matrices.square_root(rounds).inverse[::-1].copy()
    else:
        reverse = matrices.power_series(-description.exponent, rounds)[::-1].copy()
    normalised = description.name == "toeplitz_cn"
    scales = matrices.column_scales(rounds) if normalised else np.ones(rounds)

    def step(t: int, first: Array, draw: Draw, past: Array) -> Array:
        past[t] = first
        increment: Array = scales[t] * (reverse[rounds - 1 - t :] @ past[: t + 1])
        return increment

    return step


def _banded_step(description: PrefixMechanism) -> Step:
    """z_t - sum_{0 < k < bands} r_k zeta_{t-k}; a ring keeps the last bands - 1 increments."""
    bands = description.bands or description.rounds
    reverse = matrices.square_root(bands).root[:0:-1].copy()  # r_{bands-1}, ..., r_1

    def step(t: int, first: Array, draw: Draw, ring: Array) -> Array:
        if not reverse.size:
            return first
        increment: Array = first - np.roll(reverse, t % reverse.size) @ ring
        ring[t % reverse.size] = increment
        return increment

    return step


def _bisr_step(description: PrefixMechanism) -> Step:
    """sum_{k < bands} q_k z_{t-k}; a ring keeps the last bands - 1 draws."""
    bands = description.bands or description.rounds
    reverse = matrices.square_root(bands).inverse[:0:-1].copy()  # q_{bands-1}, ..., q_1

    def step(t: int, first: Array, draw: Draw, ring: Array) -> Array:
        if not reverse.size:
            return first
        increment: Array = first + np.roll(reverse, t % reverse.size) @ ring
        ring[t % reverse.size] = first
        return increment

    return step


def _blt_step(description: PrefixMechanism) -> Step:
    """zeta_t = z_t - sum_j weight_j s_j, then s_j <- decay_j s_j + zeta_t.

    Normalised, the increment is zeta_t times the norm of the encoder's column t, which is computed
    when it is needed: memory does not grow with the rounds.
    """
    rounds, normalised = description.rounds, description.name == "blt_cn"
    decays, weights = matrices.blt_design(rounds)

    def step(t: int, first: Array, draw: Draw, buffers: Array) -> Array:
        increment: Array = first - weights @ buffers
        buffers *= decays[:, np.newaxis]
        buffers += increment
        if normalised:
            increment *= matrices.blt_norms(rounds, np.array([float(rounds - t)]))
        return increment

    return step


_STEPS: dict[str, Callable[[PrefixMechanism], Step]] = {
    "tree": _tree_step,
    "tree_honaker": _honaker_step,
    "toeplitz": _toeplitz_step,
    "toeplitz_cn": _toeplitz_step,
    "banded": _banded_step,
    "bisr": _bisr_step,
    "blt": _blt_step,
    "blt_cn": _blt_step,
    "power": _toeplitz_step,
}
