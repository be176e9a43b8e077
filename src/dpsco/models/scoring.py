"""A model asked about rows that lie elsewhere: what each is off by, as a sum, or its prediction.

Workers of a cluster know these records by name, and build them from numbers alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..data.block import Block, Floats, matrix
from ..data.bounds import Bounds
from ..data.queries import Query
from ..data.tables.cluster.messages import RowMap
from ..errors import ParameterError
from .linear import LinearModel

if TYPE_CHECKING:
    from ..data.labels import LabelRule
    from ..data.source import Source

_WHOLE = 1e100  # no row of an encoder is longer: rows are measured as they are


@dataclass(frozen=True, eq=False)
class ModelScores(Query):
    """How well a public model does on each row: parts within [0, 1], zeros where there is no label.

    The parts are those of `dpsco.models.measure_privately`.

    Args:
        model: that is measured.
        quantile: that it estimates, if it does.
    """

    model: LinearModel
    quantile: float | None = None

    @property
    def names(self) -> list[str]:
        """What the parts are."""
        from .evaluate import parts

        return parts(self.model, np.zeros((0, self.model.d)), np.zeros(0), self.quantile)[0]

    @property
    def size(self) -> int:
        """The number of parts."""
        return len(self.names)

    @property
    def bound(self) -> float:
        """The root of how many parts can be 1 at once, rounded up."""
        from .evaluate import most

        return math.nextafter(math.sqrt(most(self.model, self.names)), math.inf)

    @property
    def diameter(self) -> float:
        """Parts lie in [0, 1]: two rows differ by sqrt(2) bounds, and by 1 in each part."""
        widest = max(self.bound, math.nextafter(math.sqrt(self.size), math.inf))
        return min(math.nextafter(math.sqrt(2.0) * self.bound, math.inf), widest)

    @property
    def enforced(self) -> tuple[str, ...]:
        """The bound."""
        return (f"a row adds a vector of norm at most {self.bound:g}: parts in [0, 1]",)

    @property
    def trusted(self) -> tuple[str, ...]:
        """Nothing."""
        return ()

    def bounds(self, label: LabelRule) -> Bounds:
        """Return bounds that leave rows as they are, with labels as an encoder makes them."""
        return Bounds(_WHOLE, label=label if self.model.classes else self.model.label_range)

    def sum(self, block: Block) -> Floats:
        """Return the sum over a leaf."""
        from .evaluate import parts

        labels = block.labels
        if self.model.classes is not None and len(self.model.classes) == 2:
            labels = (labels + 1.0) / 2.0
        with np.errstate(all="ignore"):  # a warning could tell something of the rows
            known = np.where(block.present, labels, np.nan)
            rows = parts(self.model, matrix(block.rows), known, self.quantile)[1]
        return np.asarray(rows.sum(axis=0), dtype=float)

    def check(self, source: Source) -> None:
        """Refuse rows of another width, or rows that were shortened."""
        bounds = source.bounds
        facts = (source.d, bounds.intercept, bounds.feature_norm)
        if facts != (self.model.d, None, _WHOLE):
            raise ParameterError(
                f"ModelScores is for rows of {self.model.d} features within ModelScores.bounds, "
                f"got {source.d} columns within {bounds}."
            )


@dataclass(frozen=True, eq=False)
class Predictions(RowMap):
    """What a model says of each row: its class's place or number, and chances if it has any.

    Args:
        model: that predicts.
    """

    model: LinearModel

    def columns(self, rows: Any) -> list[NDArray[Any]]:
        """Return the columns of some rows."""
        model, X = self.model, matrix(rows)
        if model.classes is None:
            return [np.asarray(model.predict(X), dtype=float)]
        places = np.asarray(model.places(X), dtype=np.int64)
        return [places, *([model.probabilities(X)] if model.odds else [])]

    def named(self, columns: list[NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Return columns by the names under which they are written."""
        classes = self.model.classes
        if classes is None:
            return {"prediction": columns[0]}
        result = {"prediction": np.asarray(classes)[columns[0]]}
        if self.model.odds:
            for value, column in zip(classes, columns[1].T, strict=True):
                result[f"probability {value}"] = column
        return result
