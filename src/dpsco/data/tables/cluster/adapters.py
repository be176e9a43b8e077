"""What an engine has to offer to run slices, and by which address it is found.

| address                          | who reads the rows                                          |
|----------------------------------|-------------------------------------------------------------|
| local, local:4                   | processes of this machine: as many as it has cores, or four |
| threads, threads:4               | threads of this process                                     |
| dask, dask:4                     | a Dask cluster of this machine, for this run                |
| tcp://host:8786, tls://host:8786 | the Dask cluster of that scheduler                          |
| sc://host:15002                  | a Spark Connect server that is there                        |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, Protocol, runtime_checkable

from ...._validate import shown
from ....errors import ParameterError

SCHEMES: dict[str, str] = {
    "local": "local",
    "threads": "local",
    "dask": "dask",
    "tcp": "dask",
    "tls": "dask",
    "sc": "spark",
}
"""The beginning of an address, and the module of this folder whose ``connect`` takes it."""


@runtime_checkable
class Adapter(Protocol):
    """Ships the bytes of slices to workers, and those of their answers back."""

    @property
    def workers(self) -> int:
        """How many slices are worked on at once, about; at least 1."""

    def map(self, task: bytes, slices: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
        """Yield ``(slice id, work.answer(task, slice))`` for each slice, as they come.

        In any order; an id may come twice, or not at all if its worker was lost. Closing the
        iterator gives up what is still waiting.

        Args:
            task: the same for all slices.
            slices: by their ids.

        Raises:
            ClusterError: no worker answers.
        """

    def close(self) -> None:
        """Let workers go that were started for this adapter; those of others stay."""


def adapter_of(cluster: Any) -> Adapter:
    """Return the adapter that an address names; an adapter is its own.

    Raises:
        ClusterError: nothing answers at that address.
        MissingExtraError: the engine is not installed.
        ParameterError: this is no address.
    """
    if isinstance(cluster, str):
        scheme, _, _ = cluster.partition(":")
        if scheme in SCHEMES:
            adapter: Adapter = import_module(f".{SCHEMES[scheme]}", __package__).connect(cluster)
            return adapter
    elif isinstance(cluster, Adapter):
        return cluster
    raise ParameterError(
        f"cluster must be an address that begins with {', '.join(SCHEMES)}; got {shown(cluster)}. "
        "For workers of this machine: 'local', or 'local:4' for four of them.",
        parameter="cluster",
    )


def count_in(address: str) -> int | None:
    """Return the number of workers that an address such as "local:4" asks for.

    Raises:
        ParameterError: there is something else behind the colon.
    """
    scheme, colon, count = address.partition(":")
    if not colon:
        return None
    if not (count.isascii() and count.isdecimal() and 1 <= int(count) <= MOST_WORKERS):
        raise ParameterError(
            f"cluster: {shown(address)} names no number of workers. Write {scheme}:4, with at "
            f"most {MOST_WORKERS}.",
            parameter="cluster",
        )
    return int(count)


MOST_WORKERS = 1024
