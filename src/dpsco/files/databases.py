"""SQLite files as others may have left them: nothing in one may run, and no value is without limit.

A database can hold code: a view, a trigger or a computed column runs when a table of its name is
read or written, for as long and with as much memory as it likes. So a file's tables must be exactly
the ones that dpsco makes.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from .._validate import shown

_LIMIT_LENGTH = 0  # SQLITE_LIMIT_LENGTH
_LENGTH = 512 * 2**20  # bytes of one value: a vector of the most weights that a plan may have


def harden(database: sqlite3.Connection) -> None:
    """Let a connection believe nothing of the file that it need not."""
    if hasattr(database, "setlimit"):  # Python 3.11 and newer
        database.setlimit(_LIMIT_LENGTH, _LENGTH)
    for setting in ("trusted_schema = OFF", "cell_size_check = ON"):
        database.execute(f"PRAGMA {setting}")


def foreign_part(database: sqlite3.Connection, tables: Iterable[str]) -> str | None:
    """Return what in a file is not one of some tables, in words; None if all of it is.

    Args:
        database: open.
        tables: the statements that make them. Further plain tables are never read and may stay.
    """
    known = {_name(statement): _plain(statement) for statement in tables}
    rows = database.execute("SELECT type, name, sql FROM sqlite_master LIMIT 1000").fetchall()
    for kind, name, statement in rows:
        if kind not in ("table", "index"):
            return f"it has a {shown(kind)}, {shown(name)}"
        if kind == "table" and name in known and _plain(statement) != known[name]:
            return f"its table {name!r} is made otherwise"
    return None


def _plain(statement: object) -> str:
    """Return a statement as SQLite keeps it."""
    return str(statement).replace("IF NOT EXISTS ", "").strip()


def _name(statement: str) -> str:
    """Return the name of the table that a statement makes."""
    return _plain(statement).removeprefix("CREATE TABLE ").split()[0].split("(")[0]
