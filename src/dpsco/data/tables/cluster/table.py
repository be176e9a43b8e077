"""`from_cluster`: Parquet files that workers read, as a table for every solver that takes sums."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from numpy.typing import NDArray

from ...._validate import choice, integer
from ....errors import DataError, ParameterError
from ....kernels.pairwise import SUM_LEAF
from ....privacy.randomness import Randomness
from ...bounds import Bounds
from ...schema.encoder import TableEncoder
from ...schema.schema import Schema
from ...source import UNCHOSEN, Source
from ..origin import check_unchanged
from ..parquet import Footer, ParquetFiles, decoder_of
from ..stream import Decoder, StreamTable
from ..table import Order
from .adapters import Adapter, adapter_of
from .layout import Layout, planned
from .messages import Reading, RowMap, Task, check_loss, pack_task
from .source import ClusterSource, Gathering, Progress, Watch, slice_leaves, verify

_AHEAD = 4  # slices of predictions for each worker that may wait to be written
WORKERS = (
    "workers read the rows and see the weights of each round, and which rows are drawn for it: "
    "they, the network between them and whoever runs them are trusted as much as the process that "
    "releases"
)


def from_cluster(
    path: str | Path,
    *,
    cluster: str | Adapter = "local",
    features: Sequence[str] | None = None,
    label: str | None = None,
    encoder: TableEncoder | None = None,
    shuffle: Literal["groups"] | None = None,
    slice_rows: int | None = None,
    progress: Progress | None = None,
    watch: Watch | None = None,
) -> ClusterTable:
    """Return a table of Parquet files whose rows workers read, and never this process.

    Only footers are read here. Every worker must find the same files under the same names. A sum is
    the same bits as `from_parquet` gives with ``order="given"``, whoever works and however many.
    The workers are reached before anything is paid for, and let go by `ClusterTable.close`.

    Args:
        path: a file, a folder, or a pattern such as ``data/*.parquet``.
        cluster: whose workers: "local" or "local:4" for processes of this machine, "threads:4",
            "dask" or "dask:4" for a Dask cluster of this machine, "tcp://host:8786" for one that
            is there, "sc://host:15002" for a Spark Connect server.
        features, label, encoder: as in `from_parquet`.
        shuffle: "groups" lets ``order="shuffled"`` mean that row groups come in a random order,
            while the rows of one stay together; None refuses that order.
        slice_rows: most rows that a worker is sent at a time; by default from public numbers. No
            result depends on it.
        progress: called with (slices done, slices of this sum) where a sum is over all rows of a
            range; not for a sample, whose size is secret.
        watch: called with the `SumTrace` of each sum, which is secret; None keeps no times.

    Raises:
        DataError: a file cannot be read, or does not fit the columns. The message names it.
        ParameterError: an argument is out of range.
    """
    if encoder is not None and (features is not None or label is not None):
        raise ParameterError(
            "from_cluster takes features and label, or an encoder whose schema names them, not "
            "both. Leave out features and label."
        )
    if shuffle is not None:
        choice("shuffle", shuffle, ("groups",))
    leaves = None
    if slice_rows is not None:
        rows = integer("slice_rows", slice_rows, at_least=SUM_LEAF)
        leaves = 1 << (rows // SUM_LEAF).bit_length() - 1
    footers, layout = planned(path)
    decoder = decoder_of(footers, features, label, encoder)
    if layout.rows == 0:
        raise DataError(f"{path} has no rows.")
    names = getattr(decoder, "features", None)
    reading = Reading.of(names, label, encoder)
    return ClusterTable(
        str(path), footers, layout, decoder, reading, cluster,
        shuffle=shuffle, leaves=leaves, progress=progress, watch=watch,
    )  # fmt: skip


def to_predict(
    path: str | Path, schema: Schema, *, cluster: str | Adapter, progress: Progress | None = None
) -> ClusterTable:
    """Return a table of rows that are to be predicted: their label may be there, or not.

    Arguments and errors otherwise as in `from_cluster`.
    """
    footers, _ = planned(path)
    names = {name for footer in footers for name, _ in footer.columns}
    if schema.label is not None and schema.label.name not in names:
        schema = replace(schema, label=None)
    encoder = TableEncoder(schema)
    return from_cluster(path, cluster=cluster, encoder=encoder, progress=progress)


class ClusterTable(StreamTable):
    """Rows of Parquet files that workers read. Made by `from_cluster`; ``with`` closes it."""

    def __init__(
        self,
        name: str,
        footers: Sequence[Footer],
        layout: Layout,
        decoder: Decoder,
        reading: Reading,
        cluster: str | Adapter,
        *,
        shuffle: str | None,
        leaves: int | None,
        progress: Progress | None,
        watch: Watch | None,
    ) -> None:
        super().__init__(name, ParquetFiles(footers), decoder, None)
        self._layout, self._reading, self._cluster = layout, reading, cluster
        self._groups, self._leaves = shuffle == "groups", leaves
        self._progress, self._watch = progress, watch
        self._adapter: Adapter | None = None
        self._verified = False

    @property
    def sums_only(self) -> bool:
        """True: rows stay with the workers."""
        return True

    @property
    def shuffle(self) -> str:
        """How row groups are shuffled."""
        return f"{len(self._layout.parts)} row groups shuffled"

    def trusted(self, order: Order) -> tuple[str, ...]:
        """Return what a run takes on trust: the order, and the workers."""
        if order == "given":
            return (UNCHOSEN, WORKERS)
        groups = (
            f"{len(self._layout.parts)} row groups come in a random order, but up to "
            f"{self._layout.largest} rows of one stay together as they were written"
        )
        return (UNCHOSEN, groups, WORKERS)

    def check(self, bounds: Bounds, *, order: Order = "shuffled") -> None:
        """Refuse as every table does, and workers that do not answer or have other files."""
        super().check(bounds, order=order)
        if not self._verified:
            verify(self.adapter, self._layout, bounds, self._reading)
            self._verified = True
        check_unchanged(self._files.stamped)

    def check_loss(self, loss: Any) -> None:
        """Refuse a loss of the user's own: code is not sent."""
        check_loss(loss)

    def listen(self, progress: Progress) -> None:
        """Let somebody else hear of slices than `from_cluster` was told."""
        self._progress = progress

    @property
    def adapter(self) -> Adapter:
        """The workers, reached when they are first needed."""
        if self._adapter is None:
            self._adapter = adapter_of(self._cluster)
        return self._adapter

    def mapped(self, query: RowMap) -> Iterator[list[NDArray[Any]]]:
        """Yield what workers make of each row, as columns, slice by slice in the order of the rows.

        The rows are then the caller's own: what comes here is about each of them.

        Raises:
            ClusterError, DataError: workers do not answer, or cannot read a file.
        """
        bounds, rows = Bounds(1.0), self._layout.rows
        task = pack_task(Task(query, bounds, self._reading, compiled=False))
        most = self._leaves or slice_leaves(rows, self.adapter.workers, self._layout.largest)
        slices = list(self._layout.slices(0, rows, most))
        window = _AHEAD * self.adapter.workers
        for start in range(0, len(slices), window):
            part = slices[start : start + window]
            answers = Gathering(self.adapter, task, part, columns=True)
            for done, (_, answer) in enumerate(answers.in_order(), start + 1):
                yield answer.arrays
                if self._progress is not None:
                    self._progress(done, len(slices))

    def close(self) -> None:
        """Let workers go that were started for this table."""
        adapter, self._adapter = self._adapter, None
        if adapter is not None and isinstance(self._cluster, str):
            adapter.close()
        self._verified = False

    def __enter__(self) -> ClusterTable:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _check_shuffle(self) -> None:
        if not self._groups:
            raise ParameterError(
                f"order='shuffled' for {self._name} would have to move rows between machines. Use "
                "order='given' if the order in the files does not depend on the rows; make the "
                "table with shuffle='groups', which shuffles whole row groups; or write the files "
                "anew in a random order first: `dpsco shuffle`."
            )

    def _source(self, bounds: Bounds, shuffle: Randomness | None) -> Source:
        layout = self._layout
        if shuffle is not None:
            layout = layout.permuted(shuffle.child("order of the row groups"))
        most = self._decoder.most
        width = self._decoder.width
        entries = bounds.width(width) if most is None else min(bounds.width(width), most + 1)
        return ClusterSource(
            layout,
            self.adapter,
            self._reading,
            bounds,
            stamped=self._files.stamped,
            width=width,
            entries=entries,
            leaves=self._leaves,
            progress=self._progress,
            watch=self._watch,
        )
