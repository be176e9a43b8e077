"""The mean of private rows: one noisy sum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .. import _validate
from ..data.bounds import Bounds
from ..errors import ParameterError
from ..fit.run import plan, run
from ..losses.vector import SquaredDistance
from ..models.private_bounds import fit_with_private_bounds
from ..problem import Problem
from .base import PrivateEstimator, described
from .inputs import training_table
from .repeated import warn_if_repeated

Floats = NDArray[np.float64]

_ONE_SUM = {"rounds": 1, "step": 1.0, "momentum": 0.0}  # descent of the squared distance, at once


@described
@dataclass(eq=False, repr=False, kw_only=True)
class PrivateMean(PrivateEstimator):
    """The mean of the rows under differential privacy.

    Args:
        centre: a public guess of the mean, a number or one a feature; ``feature_norm`` bounds the
            distance from it.

    >>> model = PrivateMean(1.0, feature_norm=5.0, centre=40.0)
    >>> bool(abs(model.fit(np.full((5000, 1), 42.0)).mean_[0] - 42.0) < 0.1)
    True
    """

    centre: float | Sequence[float] = 0.0

    _attributes_text: ClassVar[str] = "mean_: (features,).\n"

    def fit(self, X: Any, y: Any = None) -> PrivateMean:
        """Estimate the mean of private rows.

        Args:
            X: (rows, features): an array, a list, a sparse matrix, a pandas or Polars frame. A row
                with a hole counts as one at the centre.
            y: ignored.

        Raises:
            ParameterError: a bound is missing or a parameter out of range.
            BudgetError: the odometer does not allow it. Nothing was read or released.
        """
        warn_if_repeated(self)
        self._forget_estimates()
        problem = Problem(loss=SquaredDistance(), bounds=Bounds(self._bound()))
        table = training_table(self, X, shift=-self._centre())
        budget, unit = self._budget(table.n), 1.0
        how: Any = {"solver": "noisy_gd", "options": {**_ONE_SUM, "clip": self._bound()}}
        sources: Any = {"randomness": self._randomness(), "odometer": self._odometer()}
        if self.bounds == "private":
            result, scales = fit_with_private_bounds(
                problem, table, budget, share=self.bounds_share, **how, **sources
            )
            unit = self.feature_norm_ = scales.feature
        else:
            result = run(
                plan(problem, n=table.n, d=table.d, budget=budget, **how), table, **sources
            )
        self.mean_ = unit * result.weights + self._centre()
        self.certificate_, self.plan_ = result.certificate, result.plan
        return self

    def _bound(self) -> float:
        """Return the bound on a row's distance from the centre: 1 where its unit is estimated."""
        _validate.choice("bounds", self.bounds, ("declared", "private"))
        if (self.feature_norm is None) == (self.bounds == "private"):
            return 1.0 if self.feature_norm is None else self.feature_norm
        raise ParameterError(
            "PrivateMean needs feature_norm, the largest distance of a row from the centre, or "
            'bounds="private", which estimates it, but not both. Rows farther away are moved to '
            "it. Take it from what is publicly known, never from the private rows."
        )

    def _centre(self) -> Floats:
        """Return the centre, one number or one a feature."""
        centre = np.atleast_1d(np.asarray(self.centre, dtype=float))
        if centre.ndim > 1 or not np.isfinite(centre).all():
            raise ParameterError(
                "centre must be a number, or one a feature, all finite; got "
                f"{_validate.shown(self.centre)}."
            )
        return centre
