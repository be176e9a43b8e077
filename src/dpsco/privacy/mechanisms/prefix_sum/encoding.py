"""What a prefix-sum mechanism adds its noise to: the rows of C x, round by round.

The noisy prefix sums are a function of ``y = C x + sigma z``, C the encoder, x the batch sums. Only
y meets the private sums: each number of C x is rounded to the lattice, meets its own exact noise
and leaves as a multiple of the step; everything after it (`noise`, which turns z into C^-1 z
and turns y into C^-1 y in the same way) is floating-point arithmetic on numbers that have left.

C x is computed in floats, and every entry of C that is used is at least 0. If a term of a row of
C x passes through at most p roundings, the row is off by at most (p + 1) 2^-53 times that of C |x|,
and |C |x||_F <= sum_s |C e_s| |x_s| <= column_norm * bound * rows. Two neighbours are therefore at
most ``2^-52 (p + 1) rows`` farther apart, relative to ``column_norm * bound``: `encoding_slack`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from . import matrices

if TYPE_CHECKING:
    from .mechanism import PrefixMechanism

__all__ = ["Encoding", "encoding_slack"]

Array = NDArray[np.float64]
Encode = Callable[[int, Array, Array], list[Array]]  # round, batch sum, memory


class Encoding:
    """The private side of one run: batch sums in, rows of C x out. As secret as the rows."""

    def __init__(self, mechanism: PrefixMechanism, dimension: int) -> None:
        self._encode = _ENCODERS[mechanism.name](mechanism)
        self.memory = np.zeros((mechanism.memory_vectors(), dimension))

    def rows(self, t: int, total: Array) -> list[Array]:
        """Return the rows of C x that round t completes, in the order of the draws."""
        return self._encode(t, total, self.memory)


def encoding_slack(mechanism: PrefixMechanism, rows: int) -> float:
    """Return by how much the rounding of C x can move neighbours apart, relative to C's norm."""
    levels = mechanism.memory_vectors()  # of a tree: so many merges of so many blocks
    roundings = {
        "tree": levels * (levels + 1),
        "tree_honaker": levels * (levels + 1),
        "banded": mechanism.bands or 0,
        "bisr": mechanism.rounds * ((mechanism.bands or 0) + 2),
        "blt": 2 * mechanism.rounds + 8,
        "blt_cn": 2 * mechanism.rounds + 8,
    }.get(mechanism.name, mechanism.rounds)
    return 2.0**-52 * (roundings + 4) * rows


def _tree(description: PrefixMechanism) -> Encode:
    """The node that ends here: this batch and the smaller blocks before it."""
    levels = description.memory_vectors()

    def encode(t: int, total: Array, slots: Array) -> list[Array]:
        level = matrices.block_level(t + 1, levels)
        return [_merged(slots, level, total)]

    return encode


def _tree_honaker(description: PrefixMechanism) -> Encode:
    """All nodes that end here, leaf first."""
    levels = description.memory_vectors()

    def encode(t: int, total: Array, slots: Array) -> list[Array]:
        top = matrices.block_level(t + 1, levels)
        nodes = [total]
        for level in range(top):
            nodes.append(nodes[-1] + slots[level])
        slots[:top] = 0.0
        slots[top] = nodes[-1]
        return nodes

    return encode


def _merged(slots: Array, level: int, total: Array) -> Array:
    """Put the block of this level in place of all smaller ones, and return it."""
    block: Array = total + slots[:level].sum(axis=0)
    slots[:level] = 0.0
    slots[level] = block
    return block


def _toeplitz(description: PrefixMechanism) -> Encode:
    """sum_{s <= t} c_{t-s} x_s / scale_s; all x are kept."""
    rounds = description.rounds
    if description.exponent is None:
        series = matrices.square_root(rounds).root
    else:
        series = matrices.power_series(description.exponent, rounds)
    reverse = series[::-1].copy()
    normalised = description.name == "toeplitz_cn"
    scales = matrices.column_scales(rounds) if normalised else np.ones(rounds)

    def encode(t: int, total: Array, past: Array) -> list[Array]:
        past[t] = total / scales[t]
        return [reverse[rounds - 1 - t :] @ past[: t + 1]]

    return encode


def _banded(description: PrefixMechanism) -> Encode:
    """sum_{k < bands} r_k x_{t-k}; a ring keeps the last bands - 1 batch sums."""
    bands = description.bands or description.rounds
    reverse = matrices.square_root(bands).root[:0:-1].copy()

    def encode(t: int, total: Array, ring: Array) -> list[Array]:
        return [_with_ring(t, total, np.roll(reverse, t % max(reverse.size, 1)), ring, keep=total)]

    return encode


def _bisr(description: PrefixMechanism) -> Encode:
    """y_t = x_t - sum_{0 < k < bands} q_k y_{t-k}; a ring keeps the last bands - 1 rows y."""
    bands = description.bands or description.rounds
    reverse = -matrices.square_root(bands).inverse[:0:-1]

    def encode(t: int, total: Array, ring: Array) -> list[Array]:
        return [_with_ring(t, total, np.roll(reverse, t % max(reverse.size, 1)), ring, keep=None)]

    return encode


def _with_ring(t: int, total: Array, weights: Array, ring: Array, *, keep: Array | None) -> Array:
    """Return ``total`` plus the weighted past, and keep a vector (the result by default)."""
    if not weights.size:
        return total
    row: Array = total + weights @ ring
    ring[t % weights.size] = row if keep is None else keep
    return row


def _blt(description: PrefixMechanism) -> Encode:
    """y_t = x_t + sum_j weight_j s_j, then s_j <- decay_j s_j + x_t; x in units of the scale."""
    rounds, normalised = description.rounds, description.name == "blt_cn"
    decays, weights = matrices.blt_design(rounds)

    def encode(t: int, total: Array, buffers: Array) -> list[Array]:
        if normalised:
            total = total / matrices.blt_norms(rounds, np.array([float(rounds - t)]))
        row: Array = total + weights @ buffers
        buffers *= decays[:, np.newaxis]
        buffers += total
        return [row]

    return encode


_ENCODERS: dict[str, Callable[[PrefixMechanism], Encode]] = {
    "tree": _tree,
    "tree_honaker": _tree_honaker,
    "toeplitz": _toeplitz,
    "toeplitz_cn": _toeplitz,
    "banded": _banded,
    "bisr": _bisr,
    "blt": _blt,
    "blt_cn": _blt,
    "power": _toeplitz,
}
