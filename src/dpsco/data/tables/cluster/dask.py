"""Dask: a cluster of this machine for one run, or one that is there already.

A slice is a pure task whose key says the task and the slice, so that the scheduler may run it
again elsewhere whenever a worker is lost: who gets there first does not matter. What travels are
bytes; Dask's workers need the same dpsco installed, and the files under the same names.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from itertools import count
from queue import Empty, SimpleQueue
from typing import Any

from ...._validate import shown
from ....errors import ClusterError, MissingExtraError
from ....files.packing import digest
from .adapters import count_in
from .work import answer

REACH = 10.0
"""Seconds within which a scheduler must answer."""

PATIENCE = 600.0
"""Seconds within which some slice must be done, or the workers are taken for lost."""

_INLINE = 1 << 18  # bytes of a task that travel with every slice; larger ones go to workers once
_LOST = ("KilledWorker", "CancelledError", "FutureCancelledError", "FuturesCancelledError")
_RETRIES = 3  # by the scheduler itself; the driver asks again for what is still missing


class DaskAdapter:
    """Workers of a Dask cluster.

    Args:
        client: of ``distributed``; connected.
        cluster: that was started for this adapter, if any.
        patience: seconds without any answer, after which workers are taken for lost.
    """

    def __init__(self, client: Any, cluster: Any = None, *, patience: float = PATIENCE) -> None:
        self._client, self._cluster, self._patience = client, cluster, patience
        self._calls = count()
        self._able: set[str] = set()  # workers that have dpsco

    @property
    def workers(self) -> int:
        """Threads of all workers that are there."""
        return max(sum(map(int, self._client.nthreads().values())), 1)

    def map(self, task: bytes, slices: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
        """Yield answers as they come; a slice whose worker was lost is left out."""
        with _explained():
            self._require_workers()
            futures = self._submitted(task, slices)
        done: SimpleQueue[Any] = SimpleQueue()
        for future in futures:
            future.add_done_callback(done.put)
        try:
            yield from self._arriving(done, futures)
        finally:
            waiting = [future for future in futures if not future.done()]
            if waiting and self._client.status == "running":
                self._client.cancel(waiting, force=True)

    def close(self) -> None:
        """Leave the cluster, and end it if it was started here.

        Nothing that fails here may take a result with it that is paid for: parts may be gone
        already, and Dask stumbles over workers that have died (KeyError) once all are closed.
        """
        for part in (self._client, self._cluster):
            if part is not None:
                with suppress(Exception):
                    part.close()
        if self._cluster is not None and self._cluster.status.name == "closing":
            self._cluster.status = type(self._cluster.status).closed  # or Dask says it is left open

    def _require_workers(self) -> None:
        """Wait for a worker where there is none, but not for long; refuse any without dpsco.

        A worker of Dask that is sent what it cannot import ends, with all that it does for others.
        So each is asked by a function of Python's own, once.
        """
        workers = set(self._client.nthreads())
        if not workers:
            try:
                self._client.wait_for_workers(1, timeout=REACH)
            except (asyncio.TimeoutError, TimeoutError):  # the same from Python 3.11 on
                address = self._client.scheduler.address
                raise ClusterError(
                    f"the Dask cluster at {address} has no workers. Start some (dask worker "
                    f"{address}), or use workers of this machine: 'dask' or 'local'."
                ) from None
            workers = set(self._client.nthreads())
        if workers <= self._able:
            return
        options = {"workers": list(workers - self._able), "on_error": "return"}
        answers = self._client.run(import_module, answer.__module__, **options)
        for worker, result in answers.items():
            if isinstance(result, ImportError):
                raise ClusterError(
                    f"the worker {worker} of the Dask cluster cannot import this dpsco. "
                    "Install the same dpsco[parquet] for the Python that its workers run."
                )
            if not isinstance(result, Exception):  # else it is lost, and others do its slices
                self._able.add(worker)

    def _submitted(self, task: bytes, slices: Mapping[str, bytes]) -> dict[Any, str]:
        """Return the slices' names by their futures."""
        common: Any = task
        if len(task) > _INLINE:
            common = self._client.scatter(task, broadcast=True, hash=False)
        # Slices that are asked for again are done again: nobody takes an old result for a new one.
        label = f"dpsco-{digest(task).hex()}-{next(self._calls)}-"
        return {
            self._client.submit(answer, common, piece, key=label + name, retries=_RETRIES): name
            for name, piece in slices.items()
        }

    def _arriving(
        self, done: SimpleQueue[Any], futures: dict[Any, str]
    ) -> Iterator[tuple[str, bytes]]:
        """Yield the answers of futures as they are done, those that wait together at once."""
        left = len(futures)
        while left:
            try:
                batch = [done.get(timeout=self._patience)]
            except Empty:
                raise ClusterError(
                    f"no worker of the Dask cluster has answered for {self._patience:g} seconds. "
                    "Are its workers there, and do they have dpsco and the files?"
                ) from None
            while not done.empty():
                batch.append(done.get())
            left -= len(batch)
            for future in batch:
                _check_failure(future)
            finished = [future for future in batch if future.status == "finished"]
            with _explained():
                messages = self._client.gather(finished, errors="skip")
            names = [futures.pop(each) for each in finished]  # workers may forget their answers
            batch, finished = [], []
            if len(messages) == len(names):  # else some were lost just now: all come again
                yield from zip(names, messages, strict=True)


def connect(address: str) -> DaskAdapter:
    """Return the workers of "dask", "dask:4", or of a scheduler such as "tcp://host:8786".

    Raises:
        ClusterError: nobody answers there.
        MissingExtraError: Dask is not installed.
    """
    try:
        import distributed
    except ImportError:
        raise MissingExtraError(
            f"the address {shown(address)} needs Dask. Install it with: pip install 'dpsco[dask]'. "
            "Workers of this machine need nothing more: 'local:4'."
        ) from None
    engine: Any = distributed
    scheme, _, rest = address.partition(":")
    if scheme != "dask":
        with _explained(address):
            return DaskAdapter(engine.Client(address, timeout=REACH, set_as_default=False))
    if rest.startswith("//"):
        return connect(f"tcp:{rest}")
    # Whoever reaches a scheduler may run code as its user: other users of this machine must not.
    cluster = engine.LocalCluster(
        n_workers=count_in(address),
        threads_per_worker=1,
        host="127.0.0.1",
        protocol="tls://",
        security=engine.Security.temporary(),
        dashboard_address="127.0.0.1:0",  # a free port of this machine alone
        silence_logs=logging.CRITICAL,
    )
    return DaskAdapter(engine.Client(cluster, set_as_default=False), cluster)


def _check_failure(future: Any) -> None:
    """Refuse what would fail again; what was lost with its worker is asked for again."""
    if future.status != "error":
        return
    kind = type(future.exception()).__name__
    if kind not in _LOST:
        raise ClusterError(
            f"a worker of the Dask cluster cannot run slices ({kind}). Its workers need the same "
            "dpsco and Python as this process, with dpsco[parquet]."
        )


@contextmanager
def _explained(address: str = "") -> Iterator[None]:
    """Say in our words that a cluster does not answer; its own may quote what was shipped."""
    try:
        yield
    except (OSError, asyncio.TimeoutError, RuntimeError, ValueError) as problem:
        if isinstance(problem, ClusterError):
            raise
        where = f" at {address}" if address else ""
        raise ClusterError(
            f"the Dask cluster{where} does not answer ({type(problem).__name__}). Is its scheduler "
            "there, and does it have workers? For workers of this machine use 'dask' or 'local'."
        ) from None
