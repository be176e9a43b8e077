"""Spark Connect: the workers of a Spark server that is there already.

A round is one job: a frame with a row per slice, over which `mapInArrow` runs a small function that
imports `work.answer` on the worker and hands it bytes. Results carry the names of their slices, so
it does not matter how Spark places tasks, nor whether it runs one again or twice (retries,
speculation). Nothing is installed or sent but bytes and that function: the Python of Spark's
workers must have the same dpsco with ``dpsco[parquet]``, the same minor version of Python as this
process, and the files under the same names.
"""

from __future__ import annotations

import socket
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Any
from urllib.parse import urlsplit

from ....errors import ClusterError, DpscoError, MissingExtraError, ParameterError
from ..arrow import pyarrow

REACH = 10.0
"""Seconds within which a server must take a connection."""

PATIENCE = 600.0
"""Seconds within which some slice must be done, or the workers are taken for lost."""

_PORT = 15002  # of servers, where an address has none
_TASKS = 4  # of Spark for each worker; each has one slice or several
_RETRIES = 5  # of the client, when a server is away for a moment: about 17 seconds
_PARALLELISM = "spark.sql.leafNodeDefaultParallelism"
_SCHEMA = "slice string, answer binary"
_UNLIKE = "PYTHON_VERSION_MISMATCH"  # how Spark calls workers of another Python


class SparkAdapter:
    """Workers of a Spark server.

    Args:
        address: such as ``sc://host:15002``, with the parameters of Spark's own addresses.
        patience: seconds without any answer, after which workers are taken for lost.
    """

    def __init__(self, address: str, *, patience: float = PATIENCE) -> None:
        self._address, self._patience = address, patience
        self._name = address.partition(";")[0].rstrip("/")  # what follows may be a token
        self._session: Any = None
        self._tasks = 0  # for which the session is set up
        self._workers = self._count_workers()

    @property
    def workers(self) -> int:
        """Spark's default parallelism: about the cores of its workers."""
        return self._workers

    def map(self, task: bytes, slices: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
        """Yield answers as they come; what a job that failed had not done is left out."""
        items: SimpleQueue[Any] = SimpleQueue()
        frame, waiting = self._frame(task, slices), set(slices)
        reader = ThreadPoolExecutor(1, thread_name_prefix="dpsco spark")
        reader.submit(_collect, frame, items)
        try:
            while (item := self._next(items)) is not None:
                if isinstance(item, BaseException):
                    waiting.clear()
                    self._give_up(item)
                    return
                name, message = item
                if not message:
                    raise ClusterError(
                        f"the workers of {self._name} cannot import dpsco of this version. Install "
                        "the same dpsco[parquet] for the Python that Spark's workers run "
                        "(spark.pyspark.python, or PYSPARK_PYTHON where the server was started)."
                    )
                waiting.discard(name)
                yield name, message
        finally:
            if waiting:
                self._interrupt()
            reader.shutdown(wait=not waiting)  # it tells the server that all has come

    def close(self) -> None:
        """Leave the server, which goes on."""
        session, self._session = self._session, None
        if session is not None:
            with suppress(Exception):  # the server is gone, or has forgotten the session
                _reach(self._address, self._name)
                session.stop()

    def _next(self, items: SimpleQueue[Any]) -> Any:
        """Return the next answer, a failure, or None at the end."""
        try:
            return items.get(timeout=self._patience)
        except Empty:
            raise ClusterError(
                f"no worker of {self._name} has answered for {self._patience:g} seconds. Does the "
                "server have executors, and room for one more job?"
            ) from None

    def _frame(self, task: bytes, slices: Mapping[str, bytes]) -> Any:
        """Return the answers to all slices as a frame that nobody has computed yet."""
        pa = pyarrow()
        rows = pa.table(
            {
                "slice": pa.array(list(slices), pa.string()),
                "message": pa.array(list(slices.values()), pa.binary()),
            }
        )
        tasks = min(len(slices), _TASKS * self._workers)
        with _explained(self._name):
            session = self._connected()
            if tasks != self._tasks:
                session.conf.set(_PARALLELISM, str(tasks))
                self._tasks = tasks
            return session.createDataFrame(rows).mapInArrow(_answering(task), _SCHEMA)

    def _connected(self) -> Any:
        """Return a session of this adapter's own; a new one after a failure."""
        if self._session is None:
            _reach(self._address, self._name)
            self._session, self._tasks = _session(self._address), 0
        return self._session

    def _count_workers(self) -> int:
        """Return into how many partitions Spark cuts what has no other reason."""
        with _explained(self._name):
            from pyspark.sql.connect.functions import spark_partition_id

            numbers = self._connected().range(1 << 14)
            return int(numbers.select(spark_partition_id()).distinct().count())

    def _give_up(self, problem: BaseException) -> None:
        """Refuse what would fail again; otherwise the driver asks again, in a new session."""
        self.close()
        if _UNLIKE in str(problem):
            raise ClusterError(
                f"the workers of {self._name} run another version of Python than this process. "
                "Start the server with PYSPARK_PYTHON set to the same minor version."
            )
        _reach(self._address, self._name)

    def _interrupt(self) -> None:
        """Stop what is still computed for nobody."""
        if self._session is not None:
            with suppress(Exception):
                self._session.interruptAll()


def connect(address: str) -> SparkAdapter:
    """Return the workers of a Spark Connect server, such as "sc://host:15002".

    Raises:
        ClusterError: nothing answers there.
        MissingExtraError: PySpark's client is not installed.
        ParameterError: the address has no host.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns of versions of pandas, which is not used
            import pyspark.sql.connect.session  # noqa: F401
    except ImportError:
        raise MissingExtraError(
            "an address sc://host:port needs PySpark's client. Install it with: "
            "pip install 'dpsco[spark]'. Workers of this machine need nothing more: 'local:4'."
        ) from None
    return SparkAdapter(address)


def _session(address: str) -> Any:
    """Return a new session at a server, which gives up soon where that goes away."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pyspark.sql import SparkSession
        from pyspark.sql.connect.client.retries import DefaultPolicy

        session = SparkSession.builder.remote(address).create()
    session.client.set_retry_policies([DefaultPolicy(max_retries=_RETRIES)])
    return session


def _reach(address: str, name: str) -> None:
    """Refuse a server that takes no connection: Spark's client would try for ten minutes.

    Raises:
        ClusterError: it takes none.
        ParameterError: the address has no host, or no number as its port.
    """
    parts = urlsplit(address.partition(";")[0])
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if parts.scheme != "sc" or not host:
        raise ParameterError(
            f"cluster: {name} names no Spark server. Write sc://host:15002.", parameter="cluster"
        )
    try:
        socket.create_connection((host, port or _PORT), timeout=REACH).close()
    except OSError:
        raise ClusterError(
            f"nothing answers at {name}. Is the Spark Connect server there "
            "(sbin/start-connect-server.sh), and is this its port? For workers of this machine "
            "use 'local'."
        ) from None


def _answering(task: bytes) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return what a worker runs: it travels by value, so that a worker without dpsco can say so."""

    def answers(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        work: Any
        try:
            from dpsco.data.tables.cluster import work
        except ImportError:
            work = None
        for batch in batches:
            for name, piece in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                message = b"" if work is None else work.answer(task, piece)
                columns = [pa.array([name], pa.string()), pa.array([message], pa.binary())]
                yield pa.RecordBatch.from_arrays(columns, names=["slice", "answer"])

    return answers


def _collect(frame: Any, target: SimpleQueue[Any]) -> None:
    """Put the rows of a frame as they come, then None or what went wrong, in a thread."""
    try:
        for row in frame.toLocalIterator():
            target.put((row[0], bytes(row[1])))
    except Exception as problem:  # of many libraries; whoever waits decides what it means
        target.put(problem)
    else:
        target.put(None)


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Say in our words that a server does not answer; its own may quote what was shipped."""
    try:
        yield
    except DpscoError:
        raise
    except Exception as problem:  # of Spark, of gRPC, of Arrow
        raise ClusterError(
            f"the Spark server {name} does not do what it is asked for ({type(problem).__name__}). "
            "Is it Spark 4 with Spark Connect, and is the token of the address right?"
        ) from None
