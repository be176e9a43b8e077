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


def power_series(exponent: float, rounds: int) -> Array:
    """Return the coefficients of (1 - x)^(-exponent): c_0 = 1, c_k = c_{k-1} (k - 1 + exponent)/k.

    A coefficient takes k sums, quotients and products of numbers of one sign, so that it is off by
    at most a relative 3 k u, u = 2^-53, and by underflow.
    """
    k = np.arange(1.0, rounds)
    return np.concatenate([[1.0], np.cumprod((k - 1.0 + exponent) / k)])


def power_energy(exponent: float, rounds: int) -> float:
    """Return the sum of the squares of `power_series`, rounded up.

    Its terms are off by at most a relative (6 k + 1) u, their exact sum is rounded once.
    """
    series = power_series(exponent, rounds)
    return math.fsum((series * series).tolist()) * (1.0 + 8.0 * rounds * 2.0**-53)


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


def blt_inverse(rounds: int, terms: int) -> Array:
    """Return the first ``terms`` coefficients of 1 / `blt_series`, buffer by buffer as a stream."""
    decays, weights = (values.tolist() for values in blt_design(rounds))
    inverse, buffers = [1.0], [1.0 for _ in decays]
    for _ in range(terms - 1):
        inverse.append(-sum(w * b for w, b in zip(weights, buffers, strict=True)))
        buffers = [d * b + inverse[-1] for d, b in zip(decays, buffers, strict=True)]
    return np.array(inverse)


def blt_norms(rounds: int, lengths: Array) -> Array:
    """Return the norm of the first so many terms of `blt_series`, rounded up, for each length.

    In closed form, by geometric sums: the square is 1 + sum_{a,b} w_a w_b (1 - x^(length - 1)) /
    (1 - x) with x = decay_a decay_b. Every step has positive terms and keeps a relative error of a
    few u = 2^-53: in all below 64 u of what is added to 1, with library functions off by four
    units in the last place. 256 u are put on top, which covers the last sum and the root as well,
    since what is added is above 0.1. A length of 1 has the norm 1 exactly.
    """
    decays, weights = blt_design(rounds)
    logs = np.log1p(decays - 1.0)  # decays - 1 is exact: every decay is above a half
    pairs = np.add.outer(logs, logs).ravel()
    shares = np.outer(weights, weights).ravel() / np.expm1(pairs)
    tail = np.expm1(np.multiply.outer(lengths - 1.0, pairs)) @ shares
    norms: Array = np.sqrt(1.0 + tail * (1.0 + 2.0**-45))
    return norms


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


def scaled_decoder(inverse: Array, scales: Array) -> Array:
    """Return A times the inverse of an encoder whose columns were divided by ``scales``.

    ``inverse`` is the first column of the inverse of the encoder as it was before.
    """
    steps = lower_toeplitz(inverse, scales.size)
    decoder: Array = np.cumsum(scales[:, np.newaxis] * steps, axis=0)
    return decoder


def scaled_variance(inverse: Array, scales: Array) -> Array:
    """Return the squared row norms of `scaled_decoder` in memory linear in the rounds.

    A row is the one before and a shifted copy of ``inverse``. No products of BLAS: its threads
    take ten times as long for vectors of this size.
    """
    rounds = scales.size
    reverse = inverse[::-1].copy()
    row, work, variance = np.zeros(rounds), np.empty(rounds), np.empty(rounds)
    for t in range(rounds):
        now, part = row[: t + 1], work[: t + 1]
        np.multiply(reverse[rounds - 1 - t :], scales[t], out=part)
        now += part
        np.multiply(now, now, out=part)
        variance[t] = part.sum()
    return variance


def held_variance(prefix: Array, window: int, rounds: int) -> float:
    """Return a bound on the variance of the last of ``rounds`` prefixes, from the first few terms.

    ``prefix`` holds terms of the first column of a decoder of which no later one is above the
    largest of the last ``window``.
    """
    later = float(np.max(prefix[-window:])) ** 2
    return math.fsum((prefix * prefix).tolist()) + (rounds - prefix.size) * later


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
    """Return the weights of the nodes in each prefix: one per block, or all nodes below the blocks.

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
    lengths = np.arange(1, rounds + 1)
    variance = np.zeros(rounds)
    for level in range(levels):
        tops = level == levels - 1  # of the largest blocks a dropped root leaves two
        blocks = lengths >> level if tops else lengths >> level & 1
        variance += blocks * _block_variance(level, every=every)
    return variance


def largest_tree_variance(rounds: int, levels: int, *, every: bool) -> float:
    """Return the maximum of `tree_variance`, without going through all prefixes.

    A shorter prefix than ``rounds`` lacks one of its bits, at the first place where they differ;
    it has at most every bit below.
    """
    lengths = [rounds, *((rounds >> k << k) - 1 for k in range(rounds.bit_length()))]
    return max(
        math.fsum(_block_variance(level, every=every) for level, _ in prefix_blocks(length, levels))
        for length in lengths
        if length > 0
    )


def _block_variance(level: int, *, every: bool) -> float:
    """Return the variance of the estimate of a block."""
    return 1.0 / (2.0 - 0.5**level) if every else 1.0
