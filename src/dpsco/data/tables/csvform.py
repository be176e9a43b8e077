"""How a CSV file is written: its separator, its encoding, and whether it is compressed.

All of it is public and known before a byte is read: from the schema, or by the file's name. Bytes
that the encoding does not know never raise: the entry that they stand in counts as missing.
"""

from __future__ import annotations

import codecs
import gzip
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..schema.schema import UTF8, Schema

_ENDINGS = (".csv", ".tsv")
_PACKED = ".gz"
UNDECODED = "\ufffd".encode()
"""What stands for bytes that the encoding does not know, as UTF-8."""


@dataclass(frozen=True)
class CsvForm:
    """How the text of a file is cut into lines and entries."""

    separator: str = ","
    encoding: str = UTF8
    packed: bool = False

    @classmethod
    def of(cls, path: str | Path, schema: Schema | None = None) -> CsvForm:
        """Return the form of a file: as a schema declares it, or by the file's name."""
        name = Path(path).name.lower()
        plain = name.removesuffix(_PACKED)
        separator = None if schema is None else schema.separator
        encoding = None if schema is None else schema.encoding
        return cls(
            separator or ("\t" if plain.endswith(".tsv") else ","),
            encoding or UTF8,
            plain != name,
        )

    @property
    def transcoded(self) -> bool:
        """Whether the bytes of the file are not those that its reader sees."""
        return self.encoding != UTF8

    def binary(self, path: str | Path) -> Any:
        """Open a file as bytes of UTF-8, whatever it is written in."""
        raw: Any = gzip.open(path) if self.packed else open(path, "rb")  # noqa: SIM115
        return io.BufferedReader(_Utf8(raw, self.encoding), 1 << 20) if self.transcoded else raw

    def stream(self, path: str | Path) -> Any:
        """Open a file as Arrow reads it: by its own means, unless the encoding needs Python's."""
        import pyarrow as pa

        if self.transcoded:
            return self.binary(path)
        return pa.input_stream(str(path), compression="gzip" if self.packed else None)

    def text(self, path: str | Path) -> Any:
        """Open a file as text; bytes that are no UTF-8 are half surrogate pairs."""
        encoding = UTF8 if self.transcoded else "utf-8-sig"
        return io.TextIOWrapper(
            self.binary(path), encoding=encoding, errors="surrogateescape", newline=""
        )


class _Utf8(io.RawIOBase):
    """The bytes of a file as UTF-8."""

    def __init__(self, raw: Any, encoding: str) -> None:
        self._raw, self._rest = raw, b""
        self._decoder = codecs.getincrementaldecoder(encoding)("replace")
        self._ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest and not self._ended:
            piece = self._raw.read(1 << 18)
            self._ended = not piece
            self._rest = self._decoder.decode(piece, self._ended).encode()
        count = min(len(buffer), len(self._rest))
        buffer[:count], self._rest = self._rest[:count], self._rest[count:]
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


def is_csv(path: str | Path) -> bool:
    """Return whether a path is that of a CSV file, by its name.

    >>> is_csv("a.csv"), is_csv("A.TSV.gz"), is_csv("a.parquet")
    (True, True, False)
    """
    return Path(path).name.lower().removesuffix(_PACKED).endswith(_ENDINGS)
