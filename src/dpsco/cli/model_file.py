"""Model files and certificates as they come from others: damaged, changed, or honest."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import DataError, ParameterError
from ..files import limits as _limits
from ..files.reading import read_json
from ..models import SavedModel
from ..models.file import SCHEMA as MODEL
from ..privacy.certificate import SCHEMA as CERTIFICATE
from .arguments import written


def read_model(path: Path) -> SavedModel:
    """Return the model in a file.

    Raises:
        DataError: it cannot be read, is no model, is damaged, or was changed.
        CertificateError: its certificate is not valid.
    """
    record = read_record(path)
    if record["schema"] != MODEL:
        raise DataError(f"{path} is a certificate without its model.")
    try:
        return as_model(record)
    except DataError as problem:
        raise DataError(f"the model {path} is not valid: {problem}") from None


def with_writing(saved: SavedModel, options: argparse.Namespace) -> SavedModel:
    """Return a model whose schema reads files that are written as flags say.

    Raises:
        ParameterError: flags, and no schema.
    """
    if saved.schema is not None:
        return replace(saved, schema=written(options, saved.schema))
    flags = {"--sep": options.sep, "--encoding": options.encoding, "--decimal": options.decimal}
    for flag, value in flags.items():
        if value is not None:
            raise ParameterError(f"{flag} goes with the schema of a model, and this one has none.")
    return saved


def as_model(record: dict[str, Any]) -> SavedModel:
    """Return the model that a record holds; refuse one that was changed after it was written."""
    try:
        return SavedModel.from_json(record)
    except (ArithmeticError, RecursionError):
        raise DataError("a number in it is too large, or its parts are nested too deep.") from None


def read_record(path: Path) -> dict[str, Any]:
    """Return a file that says it is a certificate or a model; refuse others.

    Raises:
        DataError: it cannot be read, or is something else.
    """
    record = read_json(path, what="the model or certificate", limits=_limits.MODEL, error=DataError)
    if not isinstance(record, dict) or record.get("schema") not in (MODEL, CERTIFICATE):
        raise DataError(f"{path} is neither a certificate nor a model of dpsco.")
    return record
