"""One file for a model and the encoder in front of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ..errors import ParameterError
from .base import PrivateLinearModel
from .encoder import TableEncoder, encoder_before
from .search import PrivateGridSearch


def save(model: Any, path: str | Path) -> None:
    """Write a fitted model, with the encoder in front of it, to one JSON file.

    `dpsco.models.SavedModel.load` reads the file, and so do ``dpsco predict``, ``dpsco evaluate``
    and ``dpsco verify``. With an encoder it holds the schema, so that they take the table as it is.

    Args:
        model: a linear model of dpsco, a `PrivateGridSearch`, or a scikit-learn `Pipeline` of a
            `TableEncoder` and one of these.
        path: of the file, which is replaced if it exists.

    Raises:
        ParameterError: the pipeline has another step, or the model cannot be saved.
        DataError: the schema does not fit the model, or the file cannot be written.
    """
    estimator, encoder = _parts(model)
    estimator.save(path, encoder=encoder)


def _parts(model: Any) -> tuple[PrivateLinearModel, TableEncoder | None]:
    """Return the fitted linear model, and the encoder in front of it."""
    if isinstance(model, Pipeline):
        before = encoder_before(model.steps[:-1])
        estimator, inner = _parts(model.steps[-1][1])
        if before is not None and inner is not None:
            raise ParameterError("a pipeline has two encoders, one after the other: leave one out.")
        return estimator, before or inner
    if isinstance(model, PrivateGridSearch):
        check_is_fitted(model, "best_estimator_")
        return _parts(model.best_estimator_)
    if isinstance(model, PrivateLinearModel):
        return model, None
    raise ParameterError(
        f"save takes a linear model of dpsco, a search of one, or a pipeline that ends in one; got "
        f"{type(model).__name__}."
    )
