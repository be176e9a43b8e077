"""Threads or processes of this machine: the reference that other engines are compared with.

Processes are begun afresh, not forked, so a program that uses them keeps what it runs under
``if __name__ == "__main__":``, as Python's own pools ask for. Threads need no such care, and are as
fast where rows are wide; decoding and clipping let each other run.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from _thread import start_new_thread
from collections.abc import Iterator, Mapping
from concurrent.futures import (
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    as_completed,
)
from concurrent.futures.process import BrokenProcessPool

from ....errors import ClusterError
from .adapters import count_in
from .work import answer

_ROUNDS = 4  # of slices for each worker: the task is shipped once for each of them
_BREAKS = 5  # pools that may die in a row before one of their slices is done


class LocalAdapter:
    """Workers of this machine.

    Args:
        workers: how many.
        processes: whether they are processes; else threads.
    """

    def __init__(self, workers: int, *, processes: bool) -> None:
        self._workers, self._processes = workers, processes
        self._pool: Executor | None = None

    @property
    def workers(self) -> int:
        """How many there are."""
        return self._workers

    def map(self, task: bytes, slices: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
        """Yield answers as they come; slices of a process that dies go to the next one."""
        waiting, breaks = dict(slices), 0
        while waiting:
            before = len(waiting)
            try:
                for name, message in self._answers(task, waiting):
                    del waiting[name]
                    yield name, message
            except BrokenProcessPool:
                self.close()
                breaks = 0 if len(waiting) < before else breaks + 1
                if breaks >= _BREAKS:
                    raise ClusterError(
                        f"{_BREAKS} times, all workers of this machine died before a slice was "
                        "done: is there enough memory for them, and does the program keep what it "
                        "runs under if __name__ == '__main__':? Use fewer ('local:1'), or threads "
                        "('threads')."
                    ) from None

    def close(self) -> None:
        """Stop the workers; `map` begins with new ones."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)

    def _answers(self, task: bytes, slices: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
        """Yield the answers of one pool of workers."""
        pool = self._opened()
        names = list(slices)
        size = -(-len(names) // (_ROUNDS * self._workers))
        chunks = [names[k : k + size] for k in range(0, len(names), size)]
        futures: dict[Future[list[bytes]], list[str]] = {
            pool.submit(_answers, task, [slices[name] for name in chunk]): chunk for chunk in chunks
        }
        try:
            for future in as_completed(futures):
                names = futures.pop(future)  # answers may be large: none is held any longer
                yield from zip(names, future.result(), strict=True)
        finally:
            for future in futures:
                future.cancel()

    def _opened(self) -> Executor:
        """Return the workers, begun when they are first needed."""
        if self._pool is None and self._processes:
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(
                self._workers, mp_context=context, initializer=_end_with_driver
            )
        elif self._pool is None:
            self._pool = ThreadPoolExecutor(self._workers, thread_name_prefix="dpsco worker")
        return self._pool


def connect(address: str) -> LocalAdapter:
    """Return the workers of an address such as "local", "local:4" or "threads:2"."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    count = count_in(address)
    processes = address.partition(":")[0] == "local"
    return LocalAdapter(count or cores or 1, processes=processes)


def _end_with_driver() -> None:
    """Let a worker end when the process that started it does, even if it was killed.

    Who interrupts a program at a terminal means the driver, which then lets its workers go.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    driver = multiprocessing.parent_process()

    def wait() -> None:
        if driver is not None:
            driver.join()
            os._exit(1)

    start_new_thread(wait, ())  # which holds nobody back from ending


def _answers(task: bytes, pieces: list[bytes]) -> list[bytes]:
    """Return the answers to some slices, in a worker."""
    return [answer(task, piece) for piece in pieces]
