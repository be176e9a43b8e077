"""Classifiers: logistic regression and support vectors, for two classes or more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin

from .. import _validate
from ..models.linear import LinearModel
from ..privacy.odometer.odometer import Odometer
from .base import PrivateLinearModel
from .inputs import row_weights, scored_labels


class PrivateClassifier(ClassifierMixin, PrivateLinearModel):  # type: ignore[misc]
    """A linear classifier with declared classes."""

    classes: Sequence[Any] | NDArray[Any] | None
    base_rate: float | Sequence[float] | None
    coef_: NDArray[np.float64]
    intercept_: NDArray[np.float64]
    classes_: NDArray[Any]

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return the scores of rows.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            For two classes one score per row, above zero for the second class. For more classes
            one score per row and class.
        """
        rows = self._rows(X)
        return self.model_.decision(rows)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the predicted class of each row.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            One of the declared classes per row.
        """
        rows = self._rows(X)
        return self.model_.predict(rows)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy on rows that are yours to look at.

        The result is not private: do not publish it for private rows. A label that is missing or
        no class counts as a wrong prediction.

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
            The part of the rows whose class is predicted correctly.

        Raises
        ------
        DataError
            A shape or type cannot be used. The message quotes no entry.
        """
        predicted = self.predict(X)
        labels = scored_labels(y, len(predicted), text=predicted.dtype.kind == "U")
        correct = np.asarray(predicted == labels, dtype=float)
        return float(np.average(correct, weights=row_weights(sample_weight, len(correct))))

    def _label_rule(self) -> dict[str, Any]:
        return {"classes": self.classes}

    def _label_facts(self) -> dict[str, Any]:
        return {"base_rate": self.base_rate}

    def _publish(self, model: LinearModel) -> None:
        self.classes_ = np.asarray(model.classes)
        self.coef_, self.intercept_ = model.coef, model.intercept


class PrivateLogisticRegression(PrivateClassifier):
    """Logistic regression under differential privacy, for two or more classes.

    More than two classes are fitted as one multinomial model, within the same budget.

    Parameters
    ----------
    feature_norm : float, optional
        The largest Euclidean norm of a row of ``X``; longer rows are scaled down to it. Declare it
        from public knowledge, never from the rows. By default it is found.
    classes : sequence of str, int, float or bool
        Every label that may occur, two or more. Required: classes are declared, never read from the
        rows. A row with another label is ignored.
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
    penalty : {"l2", "l1"}, default="l2"
        How ``radius`` measures weights: by their Euclidean norm, or by the sum of their sizes
        (intercept included), which suits many columns of which few matter. The latter needs a
        radius and declared bounds.
    radius : float, optional
        The largest norm of the weights, see ``penalty``. The default is no limit.
    sparsify : int, optional
        Keep the weights of so many columns, the largest, and make all others 0. It costs nothing.
    select_columns : int, optional
        Choose so many columns first, privately and for 30 % of the budget, and fit on them. It can
        pay where rows are many and very many columns do not matter; not on text.
    scale : float, optional
        A guess of the norm of good weights. It affects accuracy, never privacy.
    base_rate : float or sequence of float, optional
        How common the classes are, if that is public: the share of either of two classes, or the
        share of every class. It sharpens the warnings before a fit and changes nothing else.
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
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        The weights; one row for two classes, otherwise one row per class.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        The intercepts; zero if ``fit_intercept=False``.
    classes_ : ndarray of shape (n_classes,)
        The declared classes.
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
    rows_counted_ : RowCount
        The noisy count of usable rows; only with ``count_rows=True``.
    selected_columns_ : ndarray of shape (select_columns,)
        The columns that were chosen, in order; only with ``select_columns``.

    Examples
    --------
    >>> import numpy as np
    >>> import dpsco as dp
    >>> X = np.array([[0.1, 0.9], [0.8, 0.2]] * 500)
    >>> y = np.array(["no", "yes"] * 500)
    >>> model = dp.PrivateLogisticRegression(feature_norm=1.0, classes=["no", "yes"], epsilon=1.0)
    >>> model.fit(X, y).predict([[0.9, 0.1]]).tolist()
    ['yes']
    >>> model.certificate_.verify().ok
    True
    """

    _model_name: ClassVar[str] = "logistic"

    def __init__(
        self,
        *,
        feature_norm: float | None = None,
        classes: Sequence[Any] | NDArray[Any] | None = None,
        epsilon: float = 1.0,
        delta: float | None = None,
        adjacency: Literal["replace_one", "zero_out"] = "replace_one",
        rows_per_person: int = 1,
        fit_intercept: bool = True,
        alpha: float = 0.0,
        penalty: Literal["l2", "l1"] = "l2",
        radius: float | None = None,
        sparsify: int | None = None,
        select_columns: int | None = None,
        scale: float | None = None,
        base_rate: float | Sequence[float] | None = None,
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
        self.classes = classes
        self.base_rate = base_rate
        self.penalty = penalty
        self.sparsify = sparsify
        self.select_columns = select_columns

    def _model(self) -> str:
        _validate.choice("penalty", self.penalty, ("l2", "l1"))
        return "sparse_logistic" if self.penalty == "l1" else self._model_name

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each class for each row.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            The probabilities, in the order of ``classes_``.
        """
        rows = self._rows(X)
        return self.model_.probabilities(rows)

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the logarithm of the probability of each class for each row.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            The logarithms of `predict_proba`.
        """
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))


class PrivateSVC(PrivateClassifier):
    """Linear support vector classification under differential privacy.

    More than two classes are fitted one against the rest, within the same budget.

    Parameters
    ----------
    feature_norm : float, optional
        The largest Euclidean norm of a row of ``X``; longer rows are scaled down to it. Declare it
        from public knowledge, never from the rows. By default it is found.
    classes : sequence of str, int, float or bool
        Every label that may occur, two or more. Required: classes are declared, never read from the
        rows. A row with another label is ignored.
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
    power : float, default=1.0
        The power of the hinge loss, from 1 (the hinge loss) to 2 (the squared hinge loss).
    fit_intercept : bool, default=True
        Whether the model has an intercept.
    alpha : float, default=0.0
        Strength of the penalty ``alpha / 2 * ||weights||**2``, intercept included.
    radius : float, optional
        The largest Euclidean norm of the weights. The default is no limit.
    scale : float, optional
        A guess of the norm of good weights. It affects accuracy, never privacy.
    base_rate : float or sequence of float, optional
        How common the classes are, if that is public: the share of either of two classes, or the
        share of every class. It sharpens the warnings before a fit and changes nothing else.
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
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        The weights; one row for two classes, otherwise one row per class.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        The intercepts; zero if ``fit_intercept=False``.
    classes_ : ndarray of shape (n_classes,)
        The declared classes.
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
    rows_counted_ : RowCount
        The noisy count of usable rows; only with ``count_rows=True``.

    Examples
    --------
    >>> import numpy as np
    >>> import dpsco as dp
    >>> X = np.array([[0.1, 0.9], [0.8, 0.2]] * 500)
    >>> y = np.array([0, 1] * 500)
    >>> model = dp.PrivateSVC(feature_norm=1.0, classes=[0, 1], epsilon=1.0).fit(X, y)
    >>> model.predict([[0.9, 0.1]]).tolist()
    [1]
    """

    _model_name: ClassVar[str] = "svc"
    _settings: ClassVar[tuple[str, ...]] = ("power",)

    def __init__(
        self,
        *,
        feature_norm: float | None = None,
        classes: Sequence[Any] | NDArray[Any] | None = None,
        epsilon: float = 1.0,
        delta: float | None = None,
        adjacency: Literal["replace_one", "zero_out"] = "replace_one",
        rows_per_person: int = 1,
        power: float = 1.0,
        fit_intercept: bool = True,
        alpha: float = 0.0,
        radius: float | None = None,
        scale: float | None = None,
        base_rate: float | Sequence[float] | None = None,
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
        self.classes = classes
        self.base_rate = base_rate
        self.power = power
