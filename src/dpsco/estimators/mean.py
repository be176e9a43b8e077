"""The mean of private rows: one noisy sum."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from .. import _validate
from ..data.bounds import Bounds
from ..errors import ParameterError
from ..fit.run import plan, run
from ..fit.weight_noise import weight_noise
from ..losses.vector import SquaredDistance
from ..models.unit_rules import search_for_raw
from ..models.units import fit_in_units
from ..models.weights import Weights, weights_of
from ..privacy.odometer.odometer import Odometer
from ..problem import Problem
from ..task import Task
from .base import PrivateEstimator, fit_randomness, open_odometer
from .inputs import training_table
from .repeated import warn_if_repeated

Floats = NDArray[np.float64]
Self = TypeVar("Self", bound="PrivateMean")

_ONE_SUM = {"rounds": 1, "step": 1.0, "momentum": 0.0}  # one exact step on the squared distance


class PrivateMean(PrivateEstimator):
    """The mean of rows under differential privacy.

    The mean is one noisy sum. A good guess of it, ``centre``, allows a smaller ``feature_norm``
    and so less noise.

    Parameters
    ----------
    feature_norm : float, optional
        The largest Euclidean distance of a row of ``X`` from ``centre``; rows farther away are
        moved towards it. Declare it from public knowledge, never from the rows. By default it is
        found.
    epsilon : float, default=1.0
        The privacy budget of one fit. A smaller budget means more privacy and more noise.
    delta : float, optional
        The second part of the budget. The default is ``1 / n**2`` for n rows; 0 asks for pure
        differential privacy.
    adjacency : {"replace_one", "zero_out"}, default="replace_one"
        What is hidden about a person: with ``"replace_one"`` everything that the row says, with
        ``"zero_out"`` whether the row is there at all. The latter needs half the noise and promises
        less.
    rows_per_person : int, default=1
        How many rows one person may have. They are protected together.
    centre : float or sequence of float, default=0.0
        A public guess of the mean: one number for all features, or one per feature.
    bounds : {"auto", "declared"}, default="auto"
        ``"auto"`` finds the bounds that are not declared, for part of the budget; ``"declared"``
        refuses to fit without them.
    bounds_share : float, optional
        Which part of the budget is spent on bounds and units. The default is a rule: 3 % for the
        units of declared rows, 10 % for columns of which nothing is declared and 3 % for a range
        of labels; 25 % and 5 % below 5,000 rows.
    odometer : Odometer, str or Path, optional
        An `Odometer`, or the path of one. The fit is paid from this shared budget, or refused.
    random_state : int, optional
        The default is secure noise. An integer makes the noise reproducible, as the certificate
        says. Use it for tests and made-up rows only: anybody who knows the integer can remove the
        noise, and so can anybody who sees fits of two tables with the same integer.
    verbose : bool, default=False
        Whether a fit shows a progress bar: rounds done of how many, which are public. It needs
        tqdm, which the extra ``progress`` has.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        The noisy mean.
    certificate_ : Certificate
        What the fit costs in privacy. Hand it on with the model.
    plan_ : BasePlan
        Everything that was decided before a row was read.
    n_features_in_ : int
        The number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        The names of the features, if ``X`` has them.
    feature_norm_ : float
        The distance that was found; only if ``feature_norm`` was not declared.

    Examples
    --------
    >>> import numpy as np
    >>> import dpsco as dp
    >>> model = dp.PrivateMean(feature_norm=5.0, centre=40.0, epsilon=1.0)
    >>> bool(abs(model.fit(np.full((5000, 1), 42.0)).mean_[0] - 42.0) < 0.1)
    True
    """

    mean_: NDArray[np.float64]

    def __init__(
        self,
        *,
        feature_norm: float | None = None,
        epsilon: float = 1.0,
        delta: float | None = None,
        adjacency: Literal["replace_one", "zero_out"] = "replace_one",
        rows_per_person: int = 1,
        centre: float | Sequence[float] | NDArray[Any] = 0.0,
        bounds: Literal["auto", "declared"] = "auto",
        bounds_share: float | None = None,
        odometer: Odometer | str | Path | None = None,
        random_state: int | None = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(
            feature_norm=feature_norm,
            epsilon=epsilon,
            delta=delta,
            adjacency=adjacency,
            rows_per_person=rows_per_person,
            bounds=bounds,
            bounds_share=bounds_share,
            odometer=odometer,
            random_state=random_state,
            verbose=verbose,
        )
        self.centre = centre

    def fit(self: Self, X: Any, y: Any = None) -> Self:
        """Estimate the mean of private rows.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            The rows. An incomplete row counts as one at the centre.
        y : object, optional
            Ignored.

        Returns
        -------
        Self
            The fitted estimator.

        Raises
        ------
        ParameterError
            A bound is missing, or a parameter is out of range.
        BudgetError
            The odometer refuses. Nothing was read or released.
        DataError
            ``X`` has a shape or type that cannot be used.
        """
        warn_if_repeated(self)
        self._forget_estimates()
        bound = self._bound()
        problem = Problem(loss=SquaredDistance(), bounds=Bounds(bound))
        centre = self._centre()
        table = training_table(self, X, shift=-centre)
        budget, unit = self._budget(table.n), 1.0
        how: Any = {"solver": "noisy_gd", "options": {**_ONE_SUM, "clip": bound}}
        helpers: Any = {
            "randomness": fit_randomness(self.random_state),
            "odometer": open_odometer(self.odometer),
            "progress": self._progress(),
        }
        if self.feature_norm is None:
            search = search_for_raw(
                n=table.n, d=table.d, budget=budget, units="declared", share=self.bounds_share
            )[0]
            result, answer = fit_in_units(problem, table, budget, search, **how, **helpers)
            unit = self.feature_norm_ = float(answer.units.scale[0])
        else:
            task = Task(problem, table.n, table.d, budget)
            result = run(plan(task, **how), table, **helpers)
        self.mean_ = result.weights * unit + centre
        self.certificate_, self.plan_ = result.certificate, result.plan
        return self

    def named_weights(self) -> Weights:
        """Return the mean of each column, the largest first, with the noise in it.

        Returns
        -------
        Weights
            ``items`` has the means; ``about`` says how to read their noise.
        """
        check_is_fitted(self, "mean_")
        unit = getattr(self, "feature_norm_", 1.0) if self.feature_norm is None else 1.0
        return weights_of(self.mean_, weight_noise(self.plan_), unit, self._column_names())

    def _bound(self) -> float:
        """Return the bound on a row's distance from the centre: 1 where its unit is estimated."""
        _validate.choice("bounds", self.bounds, ("auto", "declared", "private"))
        if self.feature_norm is None and self.bounds == "declared":
            raise ParameterError(
                "PrivateMean needs feature_norm, the largest distance of a row from the centre, or "
                'bounds="auto", which finds it. Rows farther away are moved to it. Take it from '
                "what is publicly known, never from the private rows.",
                parameter="feature_norm",
            )
        return 1.0 if self.feature_norm is None else self.feature_norm

    def _centre(self) -> Floats:
        """Return the centre: one number, or one per feature."""
        centre = np.atleast_1d(np.asarray(self.centre, dtype=float))
        if centre.ndim > 1 or not np.isfinite(centre).all():
            raise ParameterError(
                "centre must be a number, or one per feature, all finite; got "
                f"{_validate.shown(self.centre)}.",
                parameter="centre",
            )
        return centre
