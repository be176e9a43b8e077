"""The sides of a run, from the files that people name: what a command line and an app both need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..data.schema.encoder import TableEncoder
from ..data.schema.schema import Schema
from ..data.tables.table import Table
from ..data.tables.table_file import open_file, private_table
from ..errors import DataError, ParameterError
from ..files import limits as _limits
from ..files.reading import read_bytes
from ..fit.run import load_plan
from ..solvers.base import Progress
from .pairwise_masks import PairwiseMasks, Roster, load_key
from .silo import HelpingSilo, Party, Silo
from .terms import Agreement


def load_agreement(plan: Path, roster: Path | None = None) -> Agreement:
    """Return what all sides have in common.

    Raises:
        DataError: a file cannot be read, or is something else.
        AssumptionError, ParameterError: parties cannot run the plan, or it is for no model.
    """
    text = read_bytes(plan, what="the plan", most=_limits.PLAN.size, error=DataError)
    try:
        result: Any = load_plan(text)  # the agreement refuses one that parties cannot run
    except ParameterError as problem:
        raise DataError(f"{plan}: {problem}") from None
    agreement = Agreement(result, None if roster is None else Roster.load(roster))
    _ = agreement.config  # refuses a plan without a model
    return agreement


def open_party(
    agreement: Agreement,
    *,
    name: str,
    journal: Path,
    table: Path | None = None,
    schema: Schema | None = None,
    mask_key: Path | None = None,
    helper: bool = False,
    progress: Progress | None = None,
) -> Party:
    """Return who takes part: with the rows of a table, or as a noise helper without any.

    Args:
        agreement: of all sides.
        name: of the party.
        journal: where it writes down what it has answered.
        table, schema: its rows; not of a helper.
        mask_key: its private key, where the agreement has a roster.
        helper: whether it has no rows.
        progress: is called while rows are read.

    Raises:
        DataError: a file cannot be read, or does not fit the plan.
        ParameterError: something is missing, or there is too much.
    """
    masks = _masks(agreement, name, mask_key)
    if helper:
        if table is not None or masks is None:
            raise ParameterError("a helper has a roster and a mask key, and no table.")
        return HelpingSilo(agreement, name=name, masks=masks, journal=journal)
    if table is None or schema is None:
        raise ParameterError(
            f"{name!r} takes part with rows: give a table and the schema of its columns, or let it "
            "be a helper."
        )
    rows = _table(agreement, table, schema, progress)
    return Silo(rows, agreement, name=name, masks=masks, journal=journal)


def _masks(agreement: Agreement, name: str, key: Path | None) -> PairwiseMasks | None:
    """Return a party's masks, where the agreement has a roster."""
    if (agreement.roster is None) != (key is None):
        raise ParameterError("a roster and a mask key go together: pass both, or none.")
    if agreement.roster is None or key is None:
        return None
    return PairwiseMasks(name, agreement.roster, load_key(key))


def _table(agreement: Agreement, path: Path, schema: Schema, progress: Progress | None) -> Table:
    """Return private rows, in the order of their file."""
    agreement.check_schema(schema)
    file = open_file(path, schema, label=True)
    return private_table(file, TableEncoder(schema), order="given", progress=progress)
