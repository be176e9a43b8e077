"""The matrices behind noisy prefix sums: coefficients, encoders, decoders, variances.

A mechanism for T rounds is a pair (encoder C, decoder B) with B C = A, the lower-triangular matrix
of ones. It releases B (C x + sigma z) = A x + sigma B z for iid standard normal z, so its
sensitivity to one row that moves one entry of x by at most 1 is the largest column norm of C.

All functions are pure, of public numbers only. Everything here is exact up to rounding: nothing is
approximated or estimated.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_FIXED_POINT = 1 << 256  # one, in the fixed-point arithmetic of `square_root`

# Decay and weight of each buffer, tuned for the least largest prefix error at the horizon.
BLT_DESIGNS: dict[int, tuple[tuple[float, ...], tuple[float, ...]]] = {
    16: ((0.95437919, 0.53168391), (0.27098364, 0.22718311)),
    64: ((0.98422988, 0.72709362), (0.17060803, 0.31025612)),
    256: ((0.99458318, 0.84466859), (0.10586540, 0.33330150)),
    1024: ((0.99897286, 0.97855999, 0.74328890), (0.04444045, 0.12054436, 0.31138666)),
    4096: ((0.99968204, 0.99100159, 0.82640138), (0.02552791, 0.09096777, 0.33149171)),
    16384: ((0.99989939, 0.99602721, 0.88127322), (0.01493802, 0.06823551, 0.32906041)),
}


class SquareRoot(NamedTuple):
    """Coefficients of the square root of A, a lower-triangular Toeplitz matrix. Read-only."""

    root: Array  # r_k of (1 - x)^(-1/2): 1, 1/2, 3/8, 5/16, ...
    inverse: Array  # q_k of (1 - x)^(1/2): 1, -1/2, -1/8, -1/16, ...
    energy: Array  # r_0^2 + ... + r_k^2


@lru_cache(maxsize=16)
def square_root(rounds: int) -> SquareRoot:
    """Return r_k, q_k and the running sum of r_k^2 for k < ``rounds``, each correctly rounded.

    r_0 = 1, r_k = r_{k-1} (1 - 1/(2k)) and q_k = r_k / (1 - 2k), in integers of 256 bits.
    """
    value, total = _FIXED_POINT, 0
    table = np.empty((3, rounds))
    for k in range(rounds):
        if k:
            value = value * (2 * k - 1) // (2 * k)
        total += value * value
        table[0, k] = value / _FIXED_POINT
        table[1, k] = value / ((1 - 2 * k) * _FIXED_POINT)
        table[2, k] = total / (_FIXED_POINT * _FIXED_POINT)
    table.setflags(write=False)
    return SquareRoot(*table)


def column_scales(rounds: int) -> Array:
    """Return the norm of each column of the square root of A: sqrt(sum_{k < rounds - t} r_k^2)."""
    scales: Array = np.sqrt(square_root(rounds).energy[::-1])
    return scales


def blt_design(rounds: int) -> tuple[Array, Array]:
    """Return decays and weights of the smallest design that covers ``rounds``, else the largest."""
    size = min((size for size in BLT_DESIGNS if size >= rounds), default=max(BLT_DESIGNS))
    decays, weights = BLT_DESIGNS[size]
    return np.array(decays), np.array(weights)


def blt_series(rounds: int) -> Array:
    """Return c_0 = 1, c_i = sum_j weight_j decay_j^(i-1) for i < ``rounds``."""
    decays, weights = blt_design(rounds)
    tail = weights @ decays[:, np.newaxis] ** np.arange(rounds - 1)
    return np.concatenate([[1.0], tail])


def blt_energy(rounds: int) -> float:
    """Return the sum of the squares of `blt_series`, in closed form (geometric sums)."""
    decays, weights = blt_design(rounds)
    logs = np.log1p(decays - 1.0)  # decays - 1 is exact: every decay is above a half
    pairs = logs[:, np.newaxis] + logs
    sums = np.expm1((rounds - 1) * pairs) / np.expm1(pairs)
    return math.fsum([1.0, *(np.outer(weights, weights) * sums).ravel().tolist()])


def inverse_series(series: Array, rounds: int) -> Array:
    """Return the first ``rounds`` coefficients of 1 / ``series``, whose first entry is 1."""
    inverse = np.zeros(rounds)
    inverse[0] = 1.0
    reverse = series[:0:-1].copy()  # c_m, ..., c_1
    for k in range(1, rounds):
        lags = min(k, reverse.size)
        inverse[k] = -(reverse[reverse.size - lags :] @ inverse[k - lags : k])
    return inverse


@lru_cache(maxsize=16)
def inverted_series(bands: int, rounds: int) -> Array:
    """Return the first ``rounds`` coefficients of 1/(q_0 + ... + q_{bands-1} x^(bands-1))."""
    series = inverse_series(square_root(bands).inverse, rounds)
    series.setflags(write=False)
    return series


def inverted_energy(bands: int, rounds: int) -> float:
    """Return the sum of the squares of `inverted_series`, rounded up.

    All terms of its recursion are positive, so that a coefficient is off by at most a relative
    (bands + 2) u for each of ``rounds`` steps, u = 2^-53.
    """
    series = inverted_series(bands, rounds)
    return math.fsum((series * series).tolist()) * (1.0 + 4.0 * rounds * (bands + 2) * 2.0**-53)


def lower_toeplitz(series: Array, rounds: int) -> Array:
    """Return the dense lower-triangular Toeplitz matrix with ``series`` (or zero) by lag."""
    padded = np.zeros(rounds)
    padded[: series.size] = series
    lags = np.subtract.outer(np.arange(rounds), np.arange(rounds))
    return np.where(lags >= 0, padded[np.abs(lags)], 0.0)


def normalised_encoder(rounds: int) -> Array:
    """Return the square root of A with each column divided by its norm."""
    return lower_toeplitz(square_root(rounds).root, rounds) / column_scales(rounds)


def normalised_decoder(rounds: int) -> Array:
    """Return A times the inverse of `normalised_encoder`."""
    steps = lower_toeplitz(square_root(rounds).inverse, rounds)
    decoder: Array = np.cumsum(column_scales(rounds)[:, np.newaxis] * steps, axis=0)
    return decoder


def normalised_variance(rounds: int) -> Array:
    """Return the squared row norms of `normalised_decoder` in memory linear in ``rounds``."""
    inverse, scales = square_root(rounds).inverse, column_scales(rounds)
    row, variance = np.zeros(rounds), np.empty(rounds)
    for t in range(rounds):
        row[: t + 1] += scales[t] * inverse[t::-1]
        variance[t] = row[: t + 1] @ row[: t + 1]
    return variance


def tree_levels(rounds: int, *, drop_root: bool) -> int:
    """Return how many nodes contain the first leaf: the squared sensitivity of either tree."""
    return rounds.bit_length() - int(drop_root)


def block_level(end: int, levels: int) -> int:
    """Return the level of the largest node that ends at leaf ``end`` (leaves count from 1)."""
    return min((end & -end).bit_length() - 1, levels - 1)


def prefix_blocks(length: int, levels: int) -> list[tuple[int, int]]:
    """Return the nodes (level, last leaf) whose disjoint union is leaves 1 to ``length``."""
    blocks = []
    while length:
        level = block_level(length, levels)
        blocks.append((level, length))
        length -= 1 << level
    return blocks


def tree_nodes(rounds: int, levels: int, *, every: bool) -> list[tuple[int, int]]:
    """Return the released nodes (level, last leaf) in the order of their draws.

    The plain tree releases one node a round, the largest that ends there; ``every`` adds the
    smaller ones, leaf first.
    """
    nodes = []
    for end in range(1, rounds + 1):
        top = block_level(end, levels)
        nodes += [(level, end) for level in range(0 if every else top, top + 1)]
    return nodes


def tree_encoder(rounds: int, levels: int, *, every: bool) -> Array:
    """Return the 0/1 matrix that says which leaves each node sums."""
    nodes = tree_nodes(rounds, levels, every=every)
    encoder = np.zeros((len(nodes), rounds))
    for row, (level, end) in enumerate(nodes):
        encoder[row, end - (1 << level) : end] = 1.0
    return encoder


def tree_decoder(rounds: int, levels: int, *, every: bool) -> Array:
    """Return the weights of the nodes in each prefix: one a block, or all nodes below the blocks.

    With ``every``, a node of level l below a block of level k weighs 2^l / (2^(k+1) - 1): the
    product of the weights w_l (1 - w_{l+1}) ... (1 - w_k), w_j = 2^j / (2^(j+1) - 1), telescopes.
    """
    column = {node: j for j, node in enumerate(tree_nodes(rounds, levels, every=every))}
    decoder = np.zeros((rounds, len(column)))
    for length in range(1, rounds + 1):
        for top, last in prefix_blocks(length, levels):
            if not every:
                decoder[length - 1, column[top, last]] = 1.0
                continue
            for level in range(top + 1):
                size = 1 << level
                ends = range(last - (1 << top) + size, last + 1, size)
                decoder[length - 1, [column[level, end] for end in ends]] = size / (
                    2 ** (top + 1) - 1
                )
    return decoder


def tree_variance(rounds: int, levels: int, *, every: bool) -> Array:
    """Return the variance of each prefix: blocks count 1 each, or 1 / (2 - 2^-level)."""
    worth = [1.0 / (2.0 - 0.5**level) if every else 1.0 for level in range(levels)]
    lengths = range(1, rounds + 1)
    return np.array([sum(worth[k] for k, _ in prefix_blocks(i, levels)) for i in lengths])
