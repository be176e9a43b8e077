"""Damage to SQLite files: pages, tables, types, contents."""

from __future__ import annotations

import contextlib
import json
import random
import sqlite3
from pathlib import Path

from .mutations import LONG, damage, mutate, text_of

_VALUES = (None, -1, 0, 2**62, 1e308, b"", b"\xff\xfe", "text", LONG, "\x00", "[" * 100_000)
_VIEWS = (
    "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT {} FROM c",
    "SELECT {} FROM (SELECT zeroblob(900000000) AS x)",
)


def damaged(path: Path, rng: random.Random, words: list[str]) -> None:
    """Damage the file in one way."""
    if rng.random() < 0.35:
        _pages(path, rng)
        return
    with (
        contextlib.suppress(sqlite3.Error, MemoryError),
        contextlib.closing(sqlite3.connect(path)) as database,
    ):
        tables = [name for (name,) in database.execute(_TABLES)]
        if not tables:
            return
        name = rng.choice(tables)
        columns = [row[1] for row in database.execute(f"PRAGMA table_info({name})")]
        rng.choice(_CHANGES)(database, name, columns, rng, words)
        database.commit()


_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"


def _pages(path: Path, rng: random.Random) -> None:
    """Change, lose or exchange bytes and pages; or put something else in the file's place."""
    content = path.read_bytes()
    kind, size = rng.randrange(5), 4096
    pages = len(content) // size
    if kind == 0 or pages < 2:
        content = damage(content, rng)
    elif kind == 1:  # the header, or that of a page
        found = bytearray(content)
        base = size * rng.randrange(pages)
        for _ in range(rng.choice((1, 4, 16))):
            found[base + rng.randrange(min(112, size))] = rng.randrange(256)
        content = bytes(found)
    elif kind == 2:
        one, two = rng.randrange(pages), rng.randrange(pages)
        found = bytearray(content)
        page = content[size * one : size * (one + 1)]
        found[size * two : size * (two + 1)] = page
        content = bytes(found)
    elif kind == 3:
        content = content[: rng.randrange(len(content))]
    else:
        content = rng.choice((b"", b"\x00", b"not a database" * 100, content[:100] * 50))
    path.write_bytes(content)


def _value(database, name, columns, rng, words):  # type: ignore[no-untyped-def]
    column = rng.choice(columns)
    database.execute(f"UPDATE {name} SET {column} = ?", (rng.choice(_VALUES),))


def _content(database, name, columns, rng, words):  # type: ignore[no-untyped-def]
    """Change the JSON text in a cell, if there is one."""
    for column in rng.sample(columns, len(columns)):
        row = database.execute(f"SELECT rowid, {column} FROM {name} LIMIT 1").fetchone()
        if row is None or not isinstance(row[1], str) or row[1][:1] not in "[{":
            continue
        changed = text_of(mutate(json.loads(row[1]), rng, words), rng)
        changed = changed.encode("utf-8", "replace").decode()
        database.execute(f"UPDATE {name} SET {column} = ? WHERE rowid = ?", (changed, row[0]))
        return


def _large(database, name, columns, rng, words):  # type: ignore[no-untyped-def]
    column, size = rng.choice(columns), rng.choice((10**5, 10**7, 6 * 10**7))
    database.execute(f"UPDATE {name} SET {column} = zeroblob({size})")


def _rows(database, name, columns, rng, words):  # type: ignore[no-untyped-def]
    if rng.random() < 0.5:
        database.execute(f"DELETE FROM {name}")
        return
    marks = ", ".join("?" for _ in columns)
    values = [tuple(rng.choice(_VALUES) for _ in columns) for _ in range(rng.choice((1, 100)))]
    database.executemany(f"INSERT OR REPLACE INTO {name} VALUES ({marks})", values)


def _tables(database, name, columns, rng, words):  # type: ignore[no-untyped-def]
    """Drop, rename or rebuild a table; put a view or a trigger in its way."""
    kind = rng.randrange(6)
    if kind == 0:
        database.execute(f"DROP TABLE {name}")
    elif kind == 1:
        database.execute(f"ALTER TABLE {name} RENAME TO other")
    elif kind == 2:
        database.execute(f"ALTER TABLE {name} RENAME COLUMN {columns[0]} TO another")
    elif kind == 3:
        database.execute(f"DROP TABLE {name}")
        cells = ", ".join(f"x AS {column}" for column in columns)
        database.execute(f"CREATE VIEW {name} AS {rng.choice(_VIEWS).format(cells)}")
    elif kind == 4:
        event = rng.choice(("INSERT", "UPDATE", "DELETE"))
        body = rng.choice((f"DELETE FROM {name}", "SELECT length(zeroblob(900000000))"))
        database.execute(f"CREATE TRIGGER t AFTER {event} ON {name} BEGIN {body}; END")
    else:
        database.execute(f"DROP TABLE {name}")
        rest = ", ".join(f"{column} BLOB" for column in columns[1:])
        made = f"{columns[0]} AS (zeroblob(900000000)){', ' if rest else ''}{rest}"
        database.execute(f"CREATE TABLE {name} ({made or 'x'})")
        if rest:
            nulls = ", ".join("NULL" for _ in columns[1:])
            database.execute(f"INSERT INTO {name} VALUES ({nulls})")


def _settings(database, name, columns, rng, words):  # type: ignore[no-untyped-def]
    """Make the file one of another kind."""
    pragma = rng.choice(
        ("user_version = 99", "application_id = 7", "journal_mode = WAL", "encoding = 'UTF-16'")
    )
    database.execute(f"PRAGMA {pragma}").fetchall()


_CHANGES = (
    _value,
    _value,
    _content,
    _content,
    _content,
    _large,
    _rows,
    _tables,
    _tables,
    _settings,
)
