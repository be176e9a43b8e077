"""Sizes, strengths and lengths of phases: formulas of the localized solvers.

Pure functions of public numbers, which decide accuracy alone. ``noise`` is z, the standard
deviation of the noise on a sum that spends the whole budget, in units of the threshold.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

MOST_PHASES = 4
FEWEST_ROWS = 8
SHARE = 0.3  # c_lam, of the strength that the bound asks for; the best of three
GROWTH = 8.0  # of the strength from phase to phase; any growth above 4 sums up
ROUNDS = (16, 200, 1000)  # of a phase: at least, at most, at most on large tables
LARGE = 20_000  # rows from which on more rounds are worth their time
MAX_FLOPS = 2e10  # products that they may take: some seconds
SAMPLES = 2.0  # times sqrt(n): rows of a sample


@dataclass(frozen=True)
class Size:
    """The public numbers that phases are made of."""

    n: int  # rows
    size: int  # weights
    noise: float  # z
    mu: float  # the budget, as mu-GDP of a row

    @property
    def fewest(self) -> int:
        """The least rows of a phase: below, noise outweighs everything."""
        return max(FEWEST_ROWS, math.ceil(4.0 * math.sqrt(self.size) / self.mu))


def phase_sizes(scales: Size, most: int = MOST_PHASES) -> tuple[int, ...]:
    """Return n/2, n/4, ... rows while they suffice; the rest goes to the first phase.

    >>> phase_sizes(Size(1000, 10, 4.0, 0.5))
    (563, 250, 125, 62)
    """
    sizes = [scales.n >> i for i in range(1, most + 1) if scales.n >> i >= scales.fewest]
    if not sizes:
        return (scales.n,)
    return (scales.n - sum(sizes[1:]), *sizes[1:])


def phase_rounds(size: int, cap: int) -> int:
    """Return T_i = min(cap, max(16, n_i)).

    >>> [phase_rounds(n, 200) for n in (563, 125, 9)]
    [200, 125, 16]
    """
    return min(cap, max(ROUNDS[0], size))


def most_rounds(n: int, size: int) -> int:
    """Return the cap: more rounds on large tables, as far as they are affordable."""
    if n <= LARGE:
        return ROUNDS[1]
    return round(min(max(MAX_FLOPS / (float(n) * size), ROUNDS[1]), ROUNDS[2]))


def first_strength(scales: Size, rows: int, rounds: int, clip: float, length: float) -> float:
    """Return lambda_1 D0 = c sqrt(4 r^2/n_1 + 8 v^2), v^2 what a phase is off by."""
    spread = 4.0 * length**2 / rounds
    spread += 4.0 * scales.size * (scales.noise * clip / rows) ** 2
    return SHARE * math.sqrt(4.0 * length**2 / rows + 8.0 * spread)


def sample_size(rows: int) -> int:
    """Return m = 2 sqrt(n), from 16 to n."""
    return min(rows, max(16, math.ceil(SAMPLES * math.sqrt(rows))))


# -- stages of strongly convex problems ------------------------------------------------------------


def stage_sizes(n: int) -> tuple[int, ...]:
    """Return N_j = 2^(j-2) n/log2(n) for log2(log2(n)) stages; the rest goes to the last one.

    >>> stage_sizes(100), stage_sizes(1024), stage_sizes(3)
    ((7, 15, 78), (51, 102, 204, 667), (3,))
    """
    if n < 4:
        return (n,)
    stages = max(1, math.ceil(math.log2(math.log2(n))))
    sizes = [math.floor(2.0 ** (j - 2) * n / math.log2(n)) for j in range(1, stages)]
    return (*sizes, n - sum(sizes))


def merged(sizes: tuple[int, ...], fewest: int) -> tuple[int, ...]:
    """Return stages of at least so many rows: smaller ones join the next.

    >>> merged((7, 15, 78), 20), merged((3,), 20)
    ((22, 78), (3,))
    """
    result, small = [], 0
    for size in sizes:
        small += size
        if small >= fewest:
            result.append(small)
            small = 0
    if small:
        result[-1:] = [(result[-1] if result else 0) + small]
    return tuple(result)


def stage_rate(scales: Size, rows: int, order: float) -> float:
    """Return N^(-1/2) + (sqrt(d)/(mu N))^((k-1)/k): the excess of a stage over r D."""
    noisy = math.sqrt(scales.size) / (scales.mu * rows)
    return 1.0 / math.sqrt(rows) + math.pow(noisy, (order - 1.0) / order)


def excess(scales: Size, distance: float, length: float, order: float) -> float:
    """Return r D (1/sqrt(n) + (sqrt(d)/(mu n))^((k-1)/k)), Theorem 10 without logarithms."""
    return length * distance * stage_rate(scales, scales.n, order)
