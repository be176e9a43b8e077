"""Regressors: least squares, losses that outliers disturb less, and quantiles."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from .. import _validate
from ..data.tables.table import Table
from ..errors import DataError, ParameterError
from ..models.linear import LinearModel
from ..privacy.odometer.odometer import Odometer
from .base import PrivateLinearModel
from .inputs import row_weights, scored_labels


class PrivateRegressor(RegressorMixin, PrivateLinearModel):  # type: ignore[misc]
    """A linear regressor with a declared range of labels."""

    label_range: tuple[float, float] | None
    label_spread: float | None
    coef_: NDArray[np.float64]
    intercept_: float
    label_range_: tuple[float, float]

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return the predicted label of each row.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            One number per row, within the label range.
        """
        rows = self._rows(X)
        return self.model_.predict(rows)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the coefficient of determination on rows that are yours to look at.

        The result is not private: do not publish it for private rows.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            The rows.
        y : array-like of shape (n_samples,)
            The labels.
        sample_weight : array-like of shape (n_samples,), optional
            How much each row counts. By default all count alike.

        Returns
        -------
        float
            R^2, at most 1; 0 for predictions as good as the mean of the labels.

        Raises
        ------
        DataError
            A shape or type cannot be used, or a label is missing or not finite. The message
            quotes no entry.
        """
        predicted = self.predict(X)
        labels = scored_labels(y, len(predicted), text=False)
        if not np.isfinite(labels).all():
            raise DataError("y contains NaN, infinity, or a label that is no number.")
        weights = row_weights(sample_weight, len(predicted))
        return float(r2_score(labels, predicted, sample_weight=weights))

    def _label_rule(self) -> dict[str, Any]:
        return {"label_range": self.label_range}

    def _label_facts(self) -> dict[str, Any]:
        return {"label_spread": self.label_spread}

    def _publish(self, model: LinearModel) -> None:
        self.coef_, self.intercept_ = model.coef[0], float(model.intercept[0])
        if self.label_range is None and model.label_range is not None:  # it was estimated
            self.label_range_ = model.label_range


class PrivateLinearRegression(PrivateRegressor):
    """Least squares regression under differential privacy.

    One row can pull a least squares fit as far as its residual is large, so the noise must hide the
    largest possible residual. `PrivateHuberRegressor` and `PrivateAbsoluteRegressor` limit that
    pull and usually predict better.

    Parameters
    ----------
    feature_norm : float, optional
        The largest Euclidean norm of a row of ``X``; longer rows are scaled down to it. Declare it
        from public knowledge, never from the rows. By default it is found.
    label_range : tuple of float (low, high), optional
        The range of the labels. Labels outside are clipped to it, and so are predictions. Declare
        it from public knowledge, never from the rows. By default it is found.
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
    fit_intercept : bool, default=True
        Whether the model has an intercept.
    alpha : float, default=0.0
        Strength of the penalty ``alpha / 2 * ||weights||**2``, intercept included.
    radius : float, optional
        The largest Euclidean norm of the weights. The default is no limit.
    scale : float, optional
        A guess of the norm of good weights. It affects accuracy, never privacy.
    label_spread : float, optional
        The standard deviation of the labels, if that is public. It sharpens the warnings before a
        fit and changes nothing else.
    bounds : {"auto", "declared"}, default="auto"
        ``"auto"`` finds the bounds that are not declared, for part of the budget; ``"declared"``
        refuses to fit without them.
    bounds_share : float, optional
        Which part of the budget is spent on bounds and units. The default is a rule: 3 % for the
        units of declared rows, 10 % for columns of which nothing is declared and 3 % for a range
        of labels; 25 % and 5 % below 5,000 rows.
    units : {"auto", "declared"}, default="auto"
        In which units rows are measured. ``"auto"`` finds a centre and a typical length of rows,
        or of columns of which nothing is declared, where that pays; ``"declared"`` takes rows as
        they are.
    count_rows : bool, default=False
        Whether to release a noisy count of the rows that had a usable label and usable entries. It
        costs at most 1 % of the budget.
    solver : str, default="auto"
        A key of `dpsco.solvers`. ``"auto"`` takes the solver with the least predicted risk; for
        streams and checkpoints, the most reliable solver that reads each row once.
    calibration : {"tight", "conjectured", "paper"}, default="tight"
        How noise is calibrated: ``"tight"`` uses the least noise that is proved to suffice,
        ``"conjectured"`` also bounds that rest on numerical evidence, ``"paper"`` the constants of
        the solver's paper.
    options : mapping of str to object, optional
        Settings of the solver, such as ``{"rounds": 50}``.
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
    coef_ : ndarray of shape (n_features,)
        The weights, in units of the label.
    intercept_ : float
        The intercept, in units of the label; zero if ``fit_intercept=False``.
    certificate_ : Certificate
        What the fit costs in privacy. Hand it on with the model.
    plan_ : BasePlan
        Everything that was decided before a row was read.
    model_ : LinearModel
        The model without scikit-learn; `save` writes it to a file.
    n_features_in_ : int
        The number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        The names of the features, if ``X`` has them.
    feature_norm_ : float
        A typical length of rows, in their own units; only if ``feature_norm`` was not declared.
    feature_centre_ : ndarray of shape (n_features,)
        The centre from which rows were measured; 0 in declared units.
    feature_scale_ : ndarray of shape (n_features,)
        By what each column was divided; 1 in declared units.
    units_ : str
        In which units rows were measured, and why.
    label_range_ : tuple of float (low, high)
        The range that was found; only if ``label_range`` was not declared.
    rows_counted_ : RowCount
        The noisy count of usable rows; only with ``count_rows=True``.

    Examples
    --------
    >>> import numpy as np
    >>> import dpsco as dp
    >>> X = np.linspace(-1, 1, 4000)[:, None]
    >>> y = 5 + 3 * X[:, 0]
    >>> model = dp.PrivateLinearRegression(feature_norm=1.0, label_range=(0, 10))
    >>> bool(abs(model.fit(X, y).predict([[1.0]])[0] - 8) < 2)
    True
    """

    _model_name: ClassVar[str] = "linear"

    def __init__(
        self,
        *,
        feature_norm: float | None = None,
        label_range: tuple[float, float] | None = None,
        epsilon: float = 1.0,
        delta: float | None = None,
        adjacency: Literal["replace_one", "zero_out"] = "replace_one",
        rows_per_person: int = 1,
        fit_intercept: bool = True,
        alpha: float = 0.0,
        radius: float | None = None,
        scale: float | None = None,
        label_spread: float | None = None,
        bounds: Literal["auto", "declared"] = "auto",
        bounds_share: float | None = None,
        units: Literal["auto", "declared"] = "auto",
        count_rows: bool = False,
        solver: str = "auto",
        calibration: Literal["tight", "conjectured", "paper"] = "tight",
        options: Mapping[str, Any] | None = None,
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
            fit_intercept=fit_intercept,
            alpha=alpha,
            radius=radius,
            scale=scale,
            bounds=bounds,
            bounds_share=bounds_share,
            units=units,
            count_rows=count_rows,
            solver=solver,
            calibration=calibration,
            options=options,
            odometer=odometer,
            random_state=random_state,
            verbose=verbose,
        )
        self.label_range = label_range
        self.label_spread = label_spread


class PrivateLasso(PrivateRegressor):
    """Least squares with few large weights under differential privacy.

    The sum of the weights' sizes is at most ``radius``. Where few of many columns matter, that
    keeps most of the noise out: its price grows with the logarithm of the number of columns. It
    takes sparse rows of up to a million columns. The radius is in units of labels and features, so
    both bounds must be declared.

    Parameters
    ----------
    feature_norm : float
        The largest Euclidean norm of a row of ``X``; longer rows are scaled down to it. Required:
        declare it from public knowledge, never from the rows.
    label_range : tuple of float (low, high)
        The range of the labels. Labels outside are clipped to it, and so are predictions. Required:
        declare it from public knowledge, never from the rows.
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
    fit_intercept : bool, default=True
        Whether the model has an intercept.
    alpha : float, default=0.0
        Strength of the penalty ``alpha / 2 * ||weights||**2``, intercept included.
    radius : float
        The largest sum of the weights' sizes, in units of label / feature, intercept included.
        Required: a guess that is three times too large costs little.
    sparsify : int, optional
        Keep the weights of so many columns, the largest, and make all others 0. It costs nothing.
    select_columns : int, optional
        Choose so many columns first, privately and for 30 % of the budget, and fit on them. It can
        pay where rows are many and very many columns do not matter; not on text.
    label_spread : float, optional
        The standard deviation of the labels, if that is public. It sharpens the warnings before a
        fit and changes nothing else.
    bounds : {"auto", "declared"}, default="auto"
        ``"auto"`` finds the bounds that are not declared, for part of the budget; ``"declared"``
        refuses to fit without them.
    bounds_share : float, optional
        Which part of the budget is spent on bounds and units. The default is a rule: 3 % for the
        units of declared rows, 10 % for columns of which nothing is declared and 3 % for a range
        of labels; 25 % and 5 % below 5,000 rows.
    units : {"auto", "declared"}, default="auto"
        In which units rows are measured. ``"auto"`` finds a centre and a typical length of rows,
        or of columns of which nothing is declared, where that pays; ``"declared"`` takes rows as
        they are.
    count_rows : bool, default=False
        Whether to release a noisy count of the rows that had a usable label and usable entries. It
        costs at most 1 % of the budget.
    solver : str, default="auto"
        A key of `dpsco.solvers`. ``"auto"`` takes the solver with the least predicted risk; for
        streams and checkpoints, the most reliable solver that reads each row once.
    calibration : {"tight", "conjectured", "paper"}, default="tight"
        How noise is calibrated: ``"tight"`` uses the least noise that is proved to suffice,
        ``"conjectured"`` also bounds that rest on numerical evidence, ``"paper"`` the constants of
        the solver's paper.
    options : mapping of str to object, optional
        Settings of the solver, such as ``{"rounds": 50}``.
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
    coef_ : ndarray of shape (n_features,)
        The weights, in units of the label.
    intercept_ : float
        The intercept, in units of the label; zero if ``fit_intercept=False``.
    certificate_ : Certificate
        What the fit costs in privacy. Hand it on with the model.
    plan_ : BasePlan
        Everything that was decided before a row was read.
    model_ : LinearModel
        The model without scikit-learn; `save` writes it to a file.
    n_features_in_ : int
        The number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        The names of the features, if ``X`` has them.
    feature_centre_ : ndarray of shape (n_features,)
        The centre from which rows were measured; 0 in declared units.
    feature_scale_ : ndarray of shape (n_features,)
        By what each column was divided; 1 in declared units.
    units_ : str
        In which units rows were measured, and why.
    rows_counted_ : RowCount
        The noisy count of usable rows; only with ``count_rows=True``.
    selected_columns_ : ndarray of shape (select_columns,)
        The columns that were chosen, in order; only with ``select_columns``.

    Examples
    --------
    >>> import numpy as np
    >>> import dpsco as dp
    >>> X = np.sign(np.sin(np.outer(np.arange(20_000) + 0.5, np.arange(1, 51))))
    >>> y = X[:, 7] - X[:, 30]
    >>> model = dp.PrivateLasso(feature_norm=50**0.5, label_range=(-2, 2), radius=2.0, sparsify=2)
    >>> np.flatnonzero(model.fit(X, y).coef_).tolist()
    [7, 30]
    """

    _model_name: ClassVar[str] = "lasso"

    def __init__(
        self,
        *,
        feature_norm: float | None = None,
        label_range: tuple[float, float] | None = None,
        epsilon: float = 1.0,
        delta: float | None = None,
        adjacency: Literal["replace_one", "zero_out"] = "replace_one",
        rows_per_person: int = 1,
        fit_intercept: bool = True,
        alpha: float = 0.0,
        radius: float | None = None,
        sparsify: int | None = None,
        select_columns: int | None = None,
        label_spread: float | None = None,
        bounds: Literal["auto", "declared"] = "auto",
        bounds_share: float | None = None,
        units: Literal["auto", "declared"] = "auto",
        count_rows: bool = False,
        solver: str = "auto",
        calibration: Literal["tight", "conjectured", "paper"] = "tight",
        options: Mapping[str, Any] | None = None,
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
            fit_intercept=fit_intercept,
            alpha=alpha,
            radius=radius,
            bounds=bounds,
            bounds_share=bounds_share,
            units=units,
            count_rows=count_rows,
            solver=solver,
            calibration=calibration,
            options=options,
            odometer=odometer,
            random_state=random_state,
            verbose=verbose,
        )
        self.label_range = label_range
        self.label_spread = label_spread
        self.sparsify = sparsify
        self.select_columns = select_columns


class PrivateSimplexRegressor(PrivateRegressor):
    """Least squares with weights of a given sum, none below 0, under differential privacy.

    For mixtures: shares of a portfolio, weights of forecasts that are combined. There is no
    intercept. The noise's price grows with the logarithm of the number of columns. Weights are in
    units of labels and features, so both bounds must be declared.

    Parameters
    ----------
    feature_norm : float
        The largest Euclidean norm of a row of ``X``; longer rows are scaled down to it. Required:
        declare it from public knowledge, never from the rows.
    label_range : tuple of float (low, high)
        The range of the labels. Labels outside are clipped to it, and so are predictions. Required:
        declare it from public knowledge, never from the rows.
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
    total : float, default=1.0
        The sum of the weights.
    label_spread : float, optional
        The standard deviation of the labels, if that is public. It sharpens the warnings before a
        fit and changes nothing else.
    bounds : {"auto", "declared"}, default="auto"
        ``"auto"`` finds the bounds that are not declared, for part of the budget; ``"declared"``
        refuses to fit without them.
    bounds_share : float, optional
        Which part of the budget is spent on bounds and units. The default is a rule: 3 % for the
        units of declared rows, 10 % for columns of which nothing is declared and 3 % for a range
        of labels; 25 % and 5 % below 5,000 rows.
    units : {"auto", "declared"}, default="auto"
        In which units rows are measured. ``"auto"`` finds a centre and a typical length of rows,
        or of columns of which nothing is declared, where that pays; ``"declared"`` takes rows as
        they are.
    count_rows : bool, default=False
        Whether to release a noisy count of the rows that had a usable label and usable entries. It
        costs at most 1 % of the budget.
    solver : str, default="auto"
        A key of `dpsco.solvers`. ``"auto"`` takes the solver with the least predicted risk; for
        streams and checkpoints, the most reliable solver that reads each row once.
    calibration : {"tight", "conjectured", "paper"}, default="tight"
        How noise is calibrated: ``"tight"`` uses the least noise that is proved to suffice,
        ``"conjectured"`` also bounds that rest on numerical evidence, ``"paper"`` the constants of
        the solver's paper.
    options : mapping of str to object, optional
        Settings of the solver, such as ``{"rounds": 50}``.
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
    coef_ : ndarray of shape (n_features,)
        The weights, in units of the label.
    intercept_ : float
        Zero.
    certificate_ : Certificate
        What the fit costs in privacy. Hand it on with the model.
    plan_ : BasePlan
        Everything that was decided before a row was read.
    model_ : LinearModel
        The model without scikit-learn; `save` writes it to a file.
    n_features_in_ : int
        The number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        The names of the features, if ``X`` has them.
    feature_centre_ : ndarray of shape (n_features,)
        The centre from which rows were measured; 0 in declared units.
    feature_scale_ : ndarray of shape (n_features,)
        By what each column was divided; 1 in declared units.
    units_ : str
        In which units rows were measured, and why.
    rows_counted_ : RowCount
        The noisy count of usable rows; only with ``count_rows=True``.

    Examples
    --------
    >>> import numpy as np
    >>> import dpsco as dp
    >>> X = np.sin(np.outer(np.arange(20_000), np.arange(1, 6)))
    >>> y = X @ [0.75, 0.25, 0.0, 0.0, 0.0]
    >>> model = dp.PrivateSimplexRegressor(feature_norm=5**0.5, label_range=(-1, 1))
    >>> weights = model.fit(X, y).coef_
    >>> bool(weights[0] > 0.6), round(float(weights.sum()), 9)
    (True, 1.0)
    """

    _model_name: ClassVar[str] = "simplex"

    def __init__(
        self,
        *,
        feature_norm: float | None = None,
        label_range: tuple[float, float] | None = None,
        epsilon: float = 1.0,
        delta: float | None = None,
        adjacency: Literal["replace_one", "zero_out"] = "replace_one",
        rows_per_person: int = 1,
        total: float = 1.0,
        label_spread: float | None = None,
        bounds: Literal["auto", "declared"] = "auto",
        bounds_share: float | None = None,
        units: Literal["auto", "declared"] = "auto",
        count_rows: bool = False,
        solver: str = "auto",
        calibration: Literal["tight", "conjectured", "paper"] = "tight",
        options: Mapping[str, Any] | None = None,
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
            units=units,
            count_rows=count_rows,
            solver=solver,
            calibration=calibration,
            options=options,
            odometer=odometer,
            random_state=random_state,
            verbose=verbose,
        )
        self.label_range = label_range
        self.label_spread = label_spread
        self.total = total

    def _size(self) -> tuple[str, float | None]:
        return "total", _validate.positive("total", self.total)

    def _table(self, X: Any, y: Any) -> Table:
        table = super()._table(X, y)
        if table.d == 1:
            raise ParameterError(
                "weights of a given sum leave nothing to fit with n_features=1: two columns or "
                "more are needed. PrivateLinearRegression fits one."
            )
        return table


class PrivateHuberRegressor(PrivateRegressor):
    """Huber regression under differential privacy.

    The loss is squared for small residuals and absolute for large ones. This limits how far one
    row can pull the fit, so less noise is needed than for least squares.

    Parameters
    ----------
    feature_norm : float, optional
        The largest Euclidean norm of a row of ``X``; longer rows are scaled down to it. Declare it
        from public knowledge, never from the rows. By default it is found.
    label_range : tuple of float (low, high), optional
        The range of the labels. Labels outside are clipped to it, and so are predictions. Declare
        it from public knowledge, never from the rows. By default it is found.
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
    threshold : float, optional
        The residual where the loss turns from squared to absolute, in units of the label. The
        default is a twentieth of the label range.
    fit_intercept : bool, default=True
        Whether the model has an intercept.
    alpha : float, default=0.0
        Strength of the penalty ``alpha / 2 * ||weights||**2``, intercept included.
    radius : float, optional
        The largest Euclidean norm of the weights. The default is no limit.
    scale : float, optional
        A guess of the norm of good weights. It affects accuracy, never privacy.
    label_spread : float, optional
        The standard deviation of the labels, if that is public. It sharpens the warnings before a
        fit and changes nothing else.
    bounds : {"auto", "declared"}, default="auto"
        ``"auto"`` finds the bounds that are not declared, for part of the budget; ``"declared"``
        refuses to fit without them.
    bounds_share : float, optional
        Which part of the budget is spent on bounds and units. The default is a rule: 3 % for the
        units of declared rows, 10 % for columns of which nothing is declared and 3 % for a range
        of labels; 25 % and 5 % below 5,000 rows.
    units : {"auto", "declared"}, default="auto"
        In which units rows are measured. ``"auto"`` finds a centre and a typical length of rows,
        or of columns of which nothing is declared, where that pays; ``"declared"`` takes rows as
        they are.
    count_rows : bool, default=False
        Whether to release a noisy count of the rows that had a usable label and usable entries. It
        costs at most 1 % of the budget.
    solver : str, default="auto"
        A key of `dpsco.solvers`. ``"auto"`` takes the solver with the least predicted risk; for
        streams and checkpoints, the most reliable solver that reads each row once.
    calibration : {"tight", "conjectured", "paper"}, default="tight"
        How noise is calibrated: ``"tight"`` uses the least noise that is proved to suffice,
        ``"conjectured"`` also bounds that rest on numerical evidence, ``"paper"`` the constants of
        the solver's paper.
    options : mapping of str to object, optional
        Settings of the solver, such as ``{"rounds": 50}``.
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
    coef_ : ndarray of shape (n_features,)
        The weights, in units of the label.
    intercept_ : float
        The intercept, in units of the label; zero if ``fit_intercept=False``.
    certificate_ : Certificate
        What the fit costs in privacy. Hand it on with the model.
    plan_ : BasePlan
        Everything that was decided before a row was read.
    model_ : LinearModel
        The model without scikit-learn; `save` writes it to a file.
    n_features_in_ : int
        The number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        The names of the features, if ``X`` has them.
    feature_norm_ : float
        A typical length of rows, in their own units; only if ``feature_norm`` was not declared.
    feature_centre_ : ndarray of shape (n_features,)
        The centre from which rows were measured; 0 in declared units.
    feature_scale_ : ndarray of shape (n_features,)
        By what each column was divided; 1 in declared units.
    units_ : str
        In which units rows were measured, and why.
    label_range_ : tuple of float (low, high)
        The range that was found; only if ``label_range`` was not declared.
    rows_counted_ : RowCount
        The noisy count of usable rows; only with ``count_rows=True``.

    Examples
    --------
    >>> import numpy as np
    >>> import dpsco as dp
    >>> X = np.linspace(-1, 1, 4000)[:, None]
    >>> y = 5 + 3 * X[:, 0]
    >>> model = dp.PrivateHuberRegressor(feature_norm=1.0, label_range=(0, 10))
    >>> bool(abs(model.fit(X, y).predict([[1.0]])[0] - 8) < 1)
    True
    """

    _model_name: ClassVar[str] = "huber"
    _settings: ClassVar[tuple[str, ...]] = ("threshold",)

    def __init__(
        self,
        *,
        feature_norm: float | None = None,
        label_range: tuple[float, float] | None = None,
        epsilon: float = 1.0,
        delta: float | None = None,
        adjacency: Literal["replace_one", "zero_out"] = "replace_one",
        rows_per_person: int = 1,
        threshold: float | None = None,
        fit_intercept: bool = True,
        alpha: float = 0.0,
        radius: float | None = None,
        scale: float | None = None,
        label_spread: float | None = None,
        bounds: Literal["auto", "declared"] = "auto",
        bounds_share: float | None = None,
        units: Literal["auto", "declared"] = "auto",
        count_rows: bool = False,
        solver: str = "auto",
        calibration: Literal["tight", "conjectured", "paper"] = "tight",
        options: Mapping[str, Any] | None = None,
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
            fit_intercept=fit_intercept,
            alpha=alpha,
            radius=radius,
            scale=scale,
            bounds=bounds,
            bounds_share=bounds_share,
            units=units,
            count_rows=count_rows,
            solver=solver,
            calibration=calibration,
            options=options,
            odometer=odometer,
            random_state=random_state,
            verbose=verbose,
        )
        self.label_range = label_range
        self.label_spread = label_spread
        self.threshold = threshold


class PrivateQuantileRegressor(PrivateRegressor):
    """Quantile regression under differential privacy.

    The prediction lies above the given part of the labels: above half of them for the median.

    Parameters
    ----------
    feature_norm : float, optional
        The largest Euclidean norm of a row of ``X``; longer rows are scaled down to it. Declare it
        from public knowledge, never from the rows. By default it is found.
    label_range : tuple of float (low, high), optional
        The range of the labels. Labels outside are clipped to it, and so are predictions. Declare
        it from public knowledge, never from the rows. By default it is found.
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
    quantile : float, default=0.5
        The quantile to predict, between 0 and 1; 0.5 is the median.
    fit_intercept : bool, default=True
        Whether the model has an intercept.
    alpha : float, default=0.0
        Strength of the penalty ``alpha / 2 * ||weights||**2``, intercept included.
    radius : float, optional
        The largest Euclidean norm of the weights. The default is no limit.
    scale : float, optional
        A guess of the norm of good weights. It affects accuracy, never privacy.
    label_spread : float, optional
        The standard deviation of the labels, if that is public. It sharpens the warnings before a
        fit and changes nothing else.
    bounds : {"auto", "declared"}, default="auto"
        ``"auto"`` finds the bounds that are not declared, for part of the budget; ``"declared"``
        refuses to fit without them.
    bounds_share : float, optional
        Which part of the budget is spent on bounds and units. The default is a rule: 3 % for the
        units of declared rows, 10 % for columns of which nothing is declared and 3 % for a range
        of labels; 25 % and 5 % below 5,000 rows.
    units : {"auto", "declared"}, default="auto"
        In which units rows are measured. ``"auto"`` finds a centre and a typical length of rows,
        or of columns of which nothing is declared, where that pays; ``"declared"`` takes rows as
        they are.
    count_rows : bool, default=False
        Whether to release a noisy count of the rows that had a usable label and usable entries. It
        costs at most 1 % of the budget.
    solver : str, default="auto"
        A key of `dpsco.solvers`. ``"auto"`` takes the solver with the least predicted risk; for
        streams and checkpoints, the most reliable solver that reads each row once.
    calibration : {"tight", "conjectured", "paper"}, default="tight"
        How noise is calibrated: ``"tight"`` uses the least noise that is proved to suffice,
        ``"conjectured"`` also bounds that rest on numerical evidence, ``"paper"`` the constants of
        the solver's paper.
    options : mapping of str to object, optional
        Settings of the solver, such as ``{"rounds": 50}``.
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
    coef_ : ndarray of shape (n_features,)
        The weights, in units of the label.
    intercept_ : float
        The intercept, in units of the label; zero if ``fit_intercept=False``.
    certificate_ : Certificate
        What the fit costs in privacy. Hand it on with the model.
    plan_ : BasePlan
        Everything that was decided before a row was read.
    model_ : LinearModel
        The model without scikit-learn; `save` writes it to a file.
    n_features_in_ : int
        The number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        The names of the features, if ``X`` has them.
    feature_norm_ : float
        A typical length of rows, in their own units; only if ``feature_norm`` was not declared.
    feature_centre_ : ndarray of shape (n_features,)
        The centre from which rows were measured; 0 in declared units.
    feature_scale_ : ndarray of shape (n_features,)
        By what each column was divided; 1 in declared units.
    units_ : str
        In which units rows were measured, and why.
    label_range_ : tuple of float (low, high)
        The range that was found; only if ``label_range`` was not declared.
    rows_counted_ : RowCount
        The noisy count of usable rows; only with ``count_rows=True``.

    Examples
    --------
    >>> import numpy as np
    >>> import dpsco as dp
    >>> X = np.linspace(-1, 1, 4000)[:, None]
    >>> y = 5 + 3 * X[:, 0]
    >>> model = dp.PrivateQuantileRegressor(feature_norm=1.0, label_range=(0, 10), quantile=0.9)
    >>> bool(np.mean(y <= model.fit(X, y).predict(X)) > 0.6)
    True
    """

    _model_name: ClassVar[str] = "quantile"
    _settings: ClassVar[tuple[str, ...]] = ("quantile",)

    def __init__(
        self,
        *,
        feature_norm: float | None = None,
        label_range: tuple[float, float] | None = None,
        epsilon: float = 1.0,
        delta: float | None = None,
        adjacency: Literal["replace_one", "zero_out"] = "replace_one",
        rows_per_person: int = 1,
        quantile: float = 0.5,
        fit_intercept: bool = True,
        alpha: float = 0.0,
        radius: float | None = None,
        scale: float | None = None,
        label_spread: float | None = None,
        bounds: Literal["auto", "declared"] = "auto",
        bounds_share: float | None = None,
        units: Literal["auto", "declared"] = "auto",
        count_rows: bool = False,
        solver: str = "auto",
        calibration: Literal["tight", "conjectured", "paper"] = "tight",
        options: Mapping[str, Any] | None = None,
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
            fit_intercept=fit_intercept,
            alpha=alpha,
            radius=radius,
            scale=scale,
            bounds=bounds,
            bounds_share=bounds_share,
            units=units,
            count_rows=count_rows,
            solver=solver,
            calibration=calibration,
            options=options,
            odometer=odometer,
            random_state=random_state,
            verbose=verbose,
        )
        self.label_range = label_range
        self.label_spread = label_spread
        self.quantile = quantile


class PrivateAbsoluteRegressor(PrivateRegressor):
    """Least absolute deviations regression under differential privacy.

    Use it if the mean absolute error matters, or if some labels are far from the others.

    Parameters
    ----------
    feature_norm : float, optional
        The largest Euclidean norm of a row of ``X``; longer rows are scaled down to it. Declare it
        from public knowledge, never from the rows. By default it is found.
    label_range : tuple of float (low, high), optional
        The range of the labels. Labels outside are clipped to it, and so are predictions. Declare
        it from public knowledge, never from the rows. By default it is found.
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
    fit_intercept : bool, default=True
        Whether the model has an intercept.
    alpha : float, default=0.0
        Strength of the penalty ``alpha / 2 * ||weights||**2``, intercept included.
    radius : float, optional
        The largest Euclidean norm of the weights. The default is no limit.
    scale : float, optional
        A guess of the norm of good weights. It affects accuracy, never privacy.
    label_spread : float, optional
        The standard deviation of the labels, if that is public. It sharpens the warnings before a
        fit and changes nothing else.
    bounds : {"auto", "declared"}, default="auto"
        ``"auto"`` finds the bounds that are not declared, for part of the budget; ``"declared"``
        refuses to fit without them.
    bounds_share : float, optional
        Which part of the budget is spent on bounds and units. The default is a rule: 3 % for the
        units of declared rows, 10 % for columns of which nothing is declared and 3 % for a range
        of labels; 25 % and 5 % below 5,000 rows.
    units : {"auto", "declared"}, default="auto"
        In which units rows are measured. ``"auto"`` finds a centre and a typical length of rows,
        or of columns of which nothing is declared, where that pays; ``"declared"`` takes rows as
        they are.
    count_rows : bool, default=False
        Whether to release a noisy count of the rows that had a usable label and usable entries. It
        costs at most 1 % of the budget.
    solver : str, default="auto"
        A key of `dpsco.solvers`. ``"auto"`` takes the solver with the least predicted risk; for
        streams and checkpoints, the most reliable solver that reads each row once.
    calibration : {"tight", "conjectured", "paper"}, default="tight"
        How noise is calibrated: ``"tight"`` uses the least noise that is proved to suffice,
        ``"conjectured"`` also bounds that rest on numerical evidence, ``"paper"`` the constants of
        the solver's paper.
    options : mapping of str to object, optional
        Settings of the solver, such as ``{"rounds": 50}``.
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
    coef_ : ndarray of shape (n_features,)
        The weights, in units of the label.
    intercept_ : float
        The intercept, in units of the label; zero if ``fit_intercept=False``.
    certificate_ : Certificate
        What the fit costs in privacy. Hand it on with the model.
    plan_ : BasePlan
        Everything that was decided before a row was read.
    model_ : LinearModel
        The model without scikit-learn; `save` writes it to a file.
    n_features_in_ : int
        The number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        The names of the features, if ``X`` has them.
    feature_norm_ : float
        A typical length of rows, in their own units; only if ``feature_norm`` was not declared.
    feature_centre_ : ndarray of shape (n_features,)
        The centre from which rows were measured; 0 in declared units.
    feature_scale_ : ndarray of shape (n_features,)
        By what each column was divided; 1 in declared units.
    units_ : str
        In which units rows were measured, and why.
    label_range_ : tuple of float (low, high)
        The range that was found; only if ``label_range`` was not declared.
    rows_counted_ : RowCount
        The noisy count of usable rows; only with ``count_rows=True``.

    Examples
    --------
    >>> import numpy as np
    >>> import dpsco as dp
    >>> X = np.linspace(-1, 1, 4000)[:, None]
    >>> y = 5 + 3 * X[:, 0]
    >>> model = dp.PrivateAbsoluteRegressor(feature_norm=1.0, label_range=(0, 10))
    >>> bool(abs(model.fit(X, y).predict([[1.0]])[0] - 8) < 1)
    True
    """

    _model_name: ClassVar[str] = "absolute"

    def __init__(
        self,
        *,
        feature_norm: float | None = None,
        label_range: tuple[float, float] | None = None,
        epsilon: float = 1.0,
        delta: float | None = None,
        adjacency: Literal["replace_one", "zero_out"] = "replace_one",
        rows_per_person: int = 1,
        fit_intercept: bool = True,
        alpha: float = 0.0,
        radius: float | None = None,
        scale: float | None = None,
        label_spread: float | None = None,
        bounds: Literal["auto", "declared"] = "auto",
        bounds_share: float | None = None,
        units: Literal["auto", "declared"] = "auto",
        count_rows: bool = False,
        solver: str = "auto",
        calibration: Literal["tight", "conjectured", "paper"] = "tight",
        options: Mapping[str, Any] | None = None,
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
            fit_intercept=fit_intercept,
            alpha=alpha,
            radius=radius,
            scale=scale,
            bounds=bounds,
            bounds_share=bounds_share,
            units=units,
            count_rows=count_rows,
            solver=solver,
            calibration=calibration,
            options=options,
            odometer=odometer,
            random_state=random_state,
            verbose=verbose,
        )
        self.label_range = label_range
        self.label_spread = label_spread


class PrivateSVR(PrivateRegressor):
    """Linear support vector regression under differential privacy.

    Residuals below a width cost nothing; larger ones cost their distance from the width.

    Parameters
    ----------
    feature_norm : float, optional
        The largest Euclidean norm of a row of ``X``; longer rows are scaled down to it. Declare it
        from public knowledge, never from the rows. By default it is found.
    label_range : tuple of float (low, high), optional
        The range of the labels. Labels outside are clipped to it, and so are predictions. Declare
        it from public knowledge, never from the rows. By default it is found.
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
    width : float, optional
        The largest residual that costs nothing, in units of the label. The default is a fortieth of
        the label range.
    fit_intercept : bool, default=True
        Whether the model has an intercept.
    alpha : float, default=0.0
        Strength of the penalty ``alpha / 2 * ||weights||**2``, intercept included.
    radius : float, optional
        The largest Euclidean norm of the weights. The default is no limit.
    scale : float, optional
        A guess of the norm of good weights. It affects accuracy, never privacy.
    label_spread : float, optional
        The standard deviation of the labels, if that is public. It sharpens the warnings before a
        fit and changes nothing else.
    bounds : {"auto", "declared"}, default="auto"
        ``"auto"`` finds the bounds that are not declared, for part of the budget; ``"declared"``
        refuses to fit without them.
    bounds_share : float, optional
        Which part of the budget is spent on bounds and units. The default is a rule: 3 % for the
        units of declared rows, 10 % for columns of which nothing is declared and 3 % for a range
        of labels; 25 % and 5 % below 5,000 rows.
    units : {"auto", "declared"}, default="auto"
        In which units rows are measured. ``"auto"`` finds a centre and a typical length of rows,
        or of columns of which nothing is declared, where that pays; ``"declared"`` takes rows as
        they are.
    count_rows : bool, default=False
        Whether to release a noisy count of the rows that had a usable label and usable entries. It
        costs at most 1 % of the budget.
    solver : str, default="auto"
        A key of `dpsco.solvers`. ``"auto"`` takes the solver with the least predicted risk; for
        streams and checkpoints, the most reliable solver that reads each row once.
    calibration : {"tight", "conjectured", "paper"}, default="tight"
        How noise is calibrated: ``"tight"`` uses the least noise that is proved to suffice,
        ``"conjectured"`` also bounds that rest on numerical evidence, ``"paper"`` the constants of
        the solver's paper.
    options : mapping of str to object, optional
        Settings of the solver, such as ``{"rounds": 50}``.
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
    coef_ : ndarray of shape (n_features,)
        The weights, in units of the label.
    intercept_ : float
        The intercept, in units of the label; zero if ``fit_intercept=False``.
    certificate_ : Certificate
        What the fit costs in privacy. Hand it on with the model.
    plan_ : BasePlan
        Everything that was decided before a row was read.
    model_ : LinearModel
        The model without scikit-learn; `save` writes it to a file.
    n_features_in_ : int
        The number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        The names of the features, if ``X`` has them.
    feature_norm_ : float
        A typical length of rows, in their own units; only if ``feature_norm`` was not declared.
    feature_centre_ : ndarray of shape (n_features,)
        The centre from which rows were measured; 0 in declared units.
    feature_scale_ : ndarray of shape (n_features,)
        By what each column was divided; 1 in declared units.
    units_ : str
        In which units rows were measured, and why.
    label_range_ : tuple of float (low, high)
        The range that was found; only if ``label_range`` was not declared.
    rows_counted_ : RowCount
        The noisy count of usable rows; only with ``count_rows=True``.

    Examples
    --------
    >>> import numpy as np
    >>> import dpsco as dp
    >>> X = np.linspace(-1, 1, 4000)[:, None]
    >>> y = 5 + 3 * X[:, 0]
    >>> model = dp.PrivateSVR(feature_norm=1.0, label_range=(0, 10))
    >>> bool(abs(model.fit(X, y).predict([[1.0]])[0] - 8) < 1)
    True
    """

    _model_name: ClassVar[str] = "epsilon_insensitive"
    _settings: ClassVar[tuple[str, ...]] = ("width",)

    def __init__(
        self,
        *,
        feature_norm: float | None = None,
        label_range: tuple[float, float] | None = None,
        epsilon: float = 1.0,
        delta: float | None = None,
        adjacency: Literal["replace_one", "zero_out"] = "replace_one",
        rows_per_person: int = 1,
        width: float | None = None,
        fit_intercept: bool = True,
        alpha: float = 0.0,
        radius: float | None = None,
        scale: float | None = None,
        label_spread: float | None = None,
        bounds: Literal["auto", "declared"] = "auto",
        bounds_share: float | None = None,
        units: Literal["auto", "declared"] = "auto",
        count_rows: bool = False,
        solver: str = "auto",
        calibration: Literal["tight", "conjectured", "paper"] = "tight",
        options: Mapping[str, Any] | None = None,
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
            fit_intercept=fit_intercept,
            alpha=alpha,
            radius=radius,
            scale=scale,
            bounds=bounds,
            bounds_share=bounds_share,
            units=units,
            count_rows=count_rows,
            solver=solver,
            calibration=calibration,
            options=options,
            odometer=odometer,
            random_state=random_state,
            verbose=verbose,
        )
        self.label_range = label_range
        self.label_spread = label_spread
        self.width = width
