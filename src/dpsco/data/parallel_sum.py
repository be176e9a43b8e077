"""Sums over leaves of rows, by several threads where that pays, with the bits of a single one.

Rows come in groups of whole leaves. A group hands out any run of its rows, and whoever has to clip
them first does it in the thread that sums them. Those of a group may be worked on at once, and all
of a group are done before the next group is asked for. Threads take several leaves at a time, for
each step lets the others run and waiting for them costs; sums are handed out in order, and in such
runs that they add up as single leaves would, so that it does not matter who computed them.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..kernels.compiler import implementation
from ..kernels.pairwise import SUM_LEAF, runs
from ..kernels.sums import WHOLE
from .block import Block, Floats

if TYPE_CHECKING:
    from .queries import Query

MOST_THREADS = 8
AT_ONCE = 1 << 22  # bytes of rows that one thread sums at a time, if a leaf has no more
WIDE = 1 << 17  # numbers of a sum, of which each thread holds but one
WORTHWHILE = 1 << 16  # rows: their sum takes a few milliseconds, threads a few tenths of one


@dataclass(frozen=True)
class Group:
    """Rows of whole leaves; the last of a range may be shorter."""

    count: int  # rows
    rows: Callable[[slice], Block]  # some of them, in one piece


@dataclass(frozen=True)
class Run:
    """The sum of some leaves that were combined pairwise."""

    count: int  # rows
    leaves: int  # a power of two, aligned; or all that there are
    total: Floats


def leaf_sums(query: Query, groups: Iterator[Group], count: int, compiled: bool) -> Iterator[Run]:
    """Yield the sums over all rows, in order, a run of leaves at a time.

    Args:
        query: says what a row contributes.
        groups: of ``count`` rows in all.
        count: of rows, for the choice of threads.
        compiled: whether compiled loops sum (and clip), which let other threads run.
    """

    def summed(group: Group, start: int, leaves: int) -> Run:
        # A warning or error could tell something of the rows.
        with np.errstate(all="ignore"), implementation(compiled=compiled):
            block = group.rows(slice(start, min(start + leaves * SUM_LEAF, group.count)))
            return Run(len(block), leaves, query.sum(block))

    threads, first = _threads(query, count, compiled), 0
    if threads == 1:
        for group in groups:
            leaves = -(-group.count // SUM_LEAF)
            most = _most_leaves(query)
            # All rows at once are combined as their runs would be, and save the calls of each.
            whole = group.count == count and leaves <= most
            for start, size in [(0, leaves)] if whole else _parts(first, leaves, most):
                yield summed(group, start, size)
            first += leaves
        return
    most = WHOLE // SUM_LEAF if query.size < WIDE else 1  # a run keeps a sum for each level
    with ThreadPoolExecutor(threads, thread_name_prefix="dpsco sums") as pool:
        for group in groups:
            leaves = -(-group.count // SUM_LEAF)
            waiting: deque[Future[Run]] = deque()  # few: a sum may have a million numbers
            for part in _parts(first, leaves, most):
                waiting.append(pool.submit(summed, group, *part))
                if len(waiting) > threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
            first += leaves


def _parts(first: int, leaves: int, most: int) -> Iterator[tuple[int, int]]:
    """Yield where each run of a group begins, and of how many leaves it is."""
    start = 0
    for size in runs(first, leaves, most):
        yield start, size
        start += SUM_LEAF * size


def _most_leaves(query: Query) -> int:
    """Return how many leaves one thread sums at a time: the more, the narrower the rows.

    Only some queries combine several leaves pairwise; others get one.
    """
    if not query.pairwise:
        return 1
    room = AT_ONCE // (8 * SUM_LEAF * query.size)
    return 1 << min(max(room, 1).bit_length(), (WHOLE // SUM_LEAF).bit_length()) - 1


def _threads(query: Query, count: int, compiled: bool) -> int:
    """Return how many threads sum, from public facts.

    Only losses of a margin, whose loops let others run and which sum several leaves pairwise, and
    only those of dpsco: code of a user's own may not bear to be called by two threads at once.
    """
    own = query.pairwise and not query.trusted
    if not (compiled and own and count >= WORTHWHILE):
        return 1
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(available or 1, MOST_THREADS)
