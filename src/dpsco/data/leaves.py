"""Sums over leaves of rows, by several threads where that pays, with the bits of a single one.

A leaf is a function that returns its rows: who has to clip them first does it in the thread that
sums them, while they are in its cache. Leaves come in groups. Those of a group may be worked on at
once, and all of a group are done before the next group is asked for. Sums of leaves are handed out
in order, so that it does not matter who computed them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from ..losses.base import MarginLoss
from .block import Block, Floats

if TYPE_CHECKING:
    from .queries import Query

Leaf = Callable[[], Block]
Group = Sequence[Leaf]
MOST_THREADS = 8
WORTHWHILE = 1 << 16  # rows: their sum takes a few milliseconds, threads a few tenths of one


def leaf_sums(
    query: Query, groups: Iterator[Group], count: int, compiled: bool
) -> Iterator[tuple[int, Floats]]:
    """Yield the rows of each leaf, as a number, and their sum, in order.

    Args:
        query: says what a row contributes.
        groups: of leaves, ``count`` rows in all.
        count: of rows, for the choice of threads.
        compiled: whether the query's loops are compiled, and so let other threads run.
    """

    def summed(leaves: Group) -> list[tuple[int, Floats]]:
        found = []
        with np.errstate(all="ignore"):  # a warning or error could tell something of the rows
            for leaf in leaves:
                block = leaf()
                found.append((len(block), query.sum(block, compiled=compiled)))
        return found

    threads = _threads(query, count, compiled)
    if threads == 1:
        for group in groups:
            for leaf in group:
                yield from summed([leaf])
        return
    with ThreadPoolExecutor(threads, thread_name_prefix="dpsco sums") as pool:
        for group in groups:
            share = -(-len(group) // threads)
            parts = [group[k : k + share] for k in range(0, len(group), share)]
            waiting = [pool.submit(summed, part) for part in parts[1:]]
            found = [summed(parts[0]), *(each.result() for each in waiting)]
            for part in found:
                yield from part


def _threads(query: Query, count: int, compiled: bool) -> int:
    """Return how many threads sum, from public facts.

    Only losses of a margin, whose loops let others run, and only those of dpsco: code of a user's
    own may not bear to be called by two threads at once.
    """
    own = isinstance(getattr(query, "loss", None), MarginLoss) and not query.trusted
    if not (compiled and own and count >= WORTHWHILE):
        return 1
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(available or 1, MOST_THREADS)
