"""Choose parameters and fit, all within one privacy budget."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.model_selection import ParameterGrid, ParameterSampler
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ... import _validate
from ...data.tables.table import Table
from ...errors import ParameterError
from ...models.linear import LinearModel
from ...models.weights import Weights
from ...privacy.budget import ApproxDP, fit_budget
from ...privacy.certificate import Certificate
from ...privacy.mechanisms.repeated_selection.best_of_runs import Best, best_of_runs
from ...privacy.mechanisms.repeated_selection.profile import Runs
from ...privacy.odometer.odometer import Odometer
from ...privacy.odometer.payment import told
from ...solvers.base import BasePlan
from ..base import PrivateLinearModel, fit_randomness, open_odometer
from ..display import ShownEstimator
from ..encoder import TableEncoder, encoder_before
from ..inputs import training_table
from ..repeated import warn_if_repeated
from .plan import Search, plan_search
from .scoring import scoring_for

Self = TypeVar("Self", bound="PrivateGridSearch")

_FIXED = (
    "epsilon", "delta", "adjacency", "rows_per_person", "bounds", "bounds_share", "odometer",
    "random_state", "classes", "label_range", "count_rows",
)  # fmt: skip
_PUBLIC_SEED = 0  # of candidates that are drawn


class PrivateGridSearch(ShownEstimator, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Choose an estimator's parameters and fit it, all within one privacy budget.

    The number of fits is random and secret, so the whole search costs little more than one fit.
    Fits that were not chosen stay secret. The rows are split once, at random and in secret: one
    part is fitted, the other part scores.

    Parameters
    ----------
    estimator : estimator of dpsco, or Pipeline
        The linear model to tune, with its bounds declared: all candidates are fitted in the
        declared units. Its own ``epsilon`` and ``delta`` are not used. A pipeline has a
        `TableEncoder` before the model, whose parameters are then named ``step__parameter``.
    param_grid : mapping of str to sequence, or sequence of such mappings
        The parameters to tune and the values to try, as in `sklearn.model_selection.GridSearchCV`.
        Values with a method ``rvs`` are distributions: ``n_candidates`` candidates are drawn
        before a row is read, the same ones in every search.
    epsilon : float, default=1.0
        The privacy budget of the whole search.
    delta : float, optional
        The second part of the budget. The default is ``1 / n**2`` for n rows.
    mean_runs : float, default=10.0
        The mean number of fits, above 1.
    distribution : {"geometric", "poisson", "logarithmic"}, default="geometric"
        The distribution of the number of fits. ``"poisson"`` stays closer to the mean and leaves
        less budget for each fit; ``"logarithmic"`` leaves more and often fits only once.
    validation_fraction : float, default=0.2
        The part of the rows that scores.
    scoring : str, optional
        Of a classifier ``"accuracy"`` (default), ``"balanced_accuracy"``, ``"neg_log_loss"`` (of a
        logistic regression; a row counts 5 at most) or ``"roc_auc"`` (of two classes); of a
        regressor ``"neg_mean_absolute_error"`` (default), or of a quantile
        ``"neg_mean_pinball_loss"``.
    n_candidates : int, default=20
        How many candidates are drawn if ``param_grid`` has distributions.
    odometer : Odometer, str or Path, optional
        An `Odometer`, or the path of one. The search is paid from this shared budget, or refused.
    random_state : int, optional
        The default is secure noise. An integer makes the search reproducible; the certificate says
        so. Use it for tests and made-up rows only.

    Attributes
    ----------
    best_estimator_ : estimator of dpsco, or Pipeline
        The chosen candidate, fitted; it has the search's epsilon, delta and certificate.
    best_params_ : dict
        The parameters of the chosen candidate.
    best_index_ : int
        The position of the chosen candidate in ``candidates_``.
    best_score_ : float
        The noisy score of the chosen candidate on held-out rows. It is the best of several noisy
        scores, so it is slightly too high.
    candidates_ : list of dict
        The parameters of all candidates, which are public.
    certificate_ : Certificate
        What the whole search costs in privacy: fits, scores and the choice.
    plan_ : BasePlan
        The plan of the chosen fit. Its budget is that of one run and less than the search costs;
        only ``certificate_`` says what was spent.
    classes_ : ndarray of shape (n_classes,)
        The declared classes; only of a classifier.
    n_features_in_ : int
        The number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        The names of the features, if ``X`` has them.

    References
    ----------
    Liu and Talwar (2019), "Private selection from private candidates", arXiv:1811.07971.

    Papernot and Steinke (2022), "Hyperparameter tuning with Renyi differential privacy",
    arXiv:2110.03620.

    Examples
    --------
    >>> import numpy as np
    >>> import dpsco as dp
    >>> X = np.array([[0.1, 0.9], [0.8, 0.2]] * 500)
    >>> y = np.array(["no", "yes"] * 500)
    >>> model = dp.PrivateLogisticRegression(feature_norm=1.0, classes=["no", "yes"])
    >>> search = dp.PrivateGridSearch(model, {"alpha": [0.0, 0.01]}, epsilon=2.0).fit(X, y)
    >>> sorted(search.best_params_)
    ['alpha']
    >>> search.certificate_.verify().ok
    True
    """

    best_estimator_: PrivateLinearModel | Pipeline
    best_params_: dict[str, Any]
    best_index_: int
    best_score_: float
    candidates_: list[dict[str, Any]]
    certificate_: Certificate
    plan_: BasePlan
    classes_: NDArray[Any]
    n_features_in_: int
    feature_names_in_: NDArray[Any]

    def __init__(
        self,
        estimator: PrivateLinearModel | Pipeline,
        param_grid: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        epsilon: float = 1.0,
        delta: float | None = None,
        mean_runs: float = 10.0,
        distribution: Literal["geometric", "poisson", "logarithmic"] = "geometric",
        validation_fraction: float = 0.2,
        scoring: str | None = None,
        n_candidates: int = 20,
        odometer: Odometer | str | Path | None = None,
        random_state: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.epsilon = epsilon
        self.delta = delta
        self.mean_runs = mean_runs
        self.distribution = distribution
        self.validation_fraction = validation_fraction
        self.scoring = scoring
        self.n_candidates = n_candidates
        self.odometer = odometer
        self.random_state = random_state

    def fit(self: Self, X: Any, y: Any) -> Self:
        """Search on private rows.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            The rows. Incomplete rows are ignored.
        y : array-like of shape (n_samples,)
            The labels.

        Returns
        -------
        Self
            The fitted search, which predicts with ``best_estimator_``.

        Raises
        ------
        ParameterError
            A parameter is out of range, or must not be searched over.
        AssumptionError
            No noise brings some candidate within the budget.
        BudgetError
            The odometer refuses. Nothing was read or released.
        DataError
            ``X`` or ``y`` has a shape or type that cannot be used.
        """
        if y is None:
            raise ParameterError(
                "PrivateGridSearch requires y to be passed, but the target y is None."
            )
        warn_if_repeated(self)
        encoder, model = self._parts()
        _check_model(model)
        scoring = scoring_for(model, self.scoring)
        params, candidates = self._candidates(model)
        _check_bounds(candidates)
        if encoder is not None:
            encoder = clone(encoder).fit(X)
        table = training_table(self, X if encoder is None else encoder.transform(X), y)
        search = plan_search(
            candidates,
            (table.n, table.d),
            fraction=_validate.probability("validation_fraction", self.validation_fraction),
            budget=self._budget(model, table.n),
            scoring=scoring,
            runs=Runs.named(self.distribution, self.mean_runs),
        )
        for plan in search.plans:  # no row is read, and nothing paid, before all are fine
            table.check(plan.problem.bounds)
        self._adopt(params, candidates, search, self._search(search, table))
        if encoder is not None:
            self._put_behind(encoder)
        return self

    def named_weights(self) -> Weights:
        """Return the weights of the best estimator by column, the largest first.

        Returns
        -------
        Weights
            ``items`` has the weights; ``about`` says how to read their noise.
        """
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.named_weights()

    def _search(self, search: Search, table: Table) -> Best[LinearModel]:
        """Pay for the search, make its runs, and return the best."""
        randomness, odometer = fit_randomness(self.random_state), open_odometer(self.odometer)
        with told(odometer):
            ledger = search.ledger(randomness, odometer)
            best = best_of_runs(ledger, search.attempts(table, randomness), search.release)
            self.certificate_ = ledger.close()
        return best

    def _adopt(
        self,
        params: list[dict[str, Any]],
        candidates: list[PrivateLinearModel],
        search: Search,
        best: Best[LinearModel],
    ) -> None:
        """Turn the chosen candidate into a fitted estimator with the search's certificate."""
        self.candidates_, self.best_index_ = params, best.alternative
        self.best_params_ = params[best.alternative]
        self.plan_ = search.plans[best.alternative]
        self.best_score_ = search.mean_score(best)
        chosen = candidates[best.alternative]
        chosen.set_params(epsilon=self.epsilon, delta=self.delta)  # what it cost, not the run's
        chosen.model_, chosen.certificate_, chosen.plan_ = best.value, self.certificate_, self.plan_
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self, name):
                setattr(chosen, name, getattr(self, name))
        chosen._publish(best.value)
        self.best_estimator_ = chosen
        if hasattr(chosen, "classes_"):
            self.classes_ = chosen.classes_

    def _put_behind(self, encoder: TableEncoder) -> None:
        """Put the chosen model into a pipeline behind the encoder of the search."""
        (*_, (name, _)), chosen = self.estimator.steps, self.best_estimator_
        before = next(key for key, step in self.estimator.steps if isinstance(step, TableEncoder))
        self.best_estimator_ = Pipeline([(before, encoder), (name, chosen)])
        for attribute in ("n_features_in_", "feature_names_in_"):
            self.__dict__.pop(attribute, None)
            if hasattr(encoder, attribute):
                setattr(self, attribute, getattr(encoder, attribute))

    def _budget(self, model: PrivateLinearModel, n: int) -> ApproxDP:
        """Return the budget of a search on n rows; noisy scores need a delta."""
        budget = fit_budget(
            n,
            epsilon=self.epsilon,
            delta=self.delta,
            adjacency=model.adjacency,
            rows_per_person=model.rows_per_person,
        )
        if isinstance(budget, ApproxDP):
            return budget
        raise ParameterError(
            "PrivateGridSearch adds Gaussian noise to scores, which needs delta > 0, got delta=0. "
            "Leave delta out: it is then 1/n^2."
        )

    def _parts(self) -> tuple[TableEncoder | None, PrivateLinearModel]:
        """Return the encoder of a pipeline, if there is one, and the model."""
        if isinstance(self.estimator, Pipeline):
            return encoder_before(self.estimator.steps[:-1]), self.estimator.steps[-1][1]
        return None, self.estimator

    def _candidates(
        self, model: PrivateLinearModel
    ) -> tuple[list[dict[str, Any]], list[PrivateLinearModel]]:
        """Return the parameters of all candidates, and models with them."""
        grids = [self.param_grid] if isinstance(self.param_grid, Mapping) else self.param_grid
        names = {name for grid in grids for name in grid}
        own = self._own_names(names)
        if self.scoring == "neg_mean_pinball_loss" and "quantile" in own.values():
            raise ParameterError(
                "pinball losses of different quantiles do not compare: set one quantile on the "
                "estimator, or leave scoring out."
            )
        for name in sorted(set(own.values()) & set(_FIXED)):
            raise ParameterError(
                f"{name} must be the same for all candidates, since it says what is protected or "
                "how scores compare. Set it on the estimator, or on the search."
            )
        if any(hasattr(value, "rvs") for grid in grids for value in grid.values()):
            count = _validate.integer("n_candidates", self.n_candidates)
            # Candidates are published, so that they must not come from the seed of the noise.
            sampler = ParameterSampler(self.param_grid, count, random_state=_PUBLIC_SEED)
            params = [dict(each) for each in sampler]
        else:
            params = [dict(each) for each in ParameterGrid(self.param_grid)]
        renamed = [{own[name]: value for name, value in each.items()} for each in params]
        return params, [clone(model).set_params(**each) for each in renamed]

    def _own_names(self, names: Iterable[str]) -> dict[str, str]:
        """Return the model's own name of each parameter: of a pipeline without its step."""
        if not isinstance(self.estimator, Pipeline):
            return {name: name for name in names}
        prefix = f"{self.estimator.steps[-1][0]}__"
        for name in names:
            if not name.startswith(prefix):
                raise ParameterError(
                    f"{name} cannot be tuned: a search over a pipeline tunes its model, by names "
                    f"such as {prefix}alpha. The schema is public, and all candidates share it."
                )
        return {name: name.removeprefix(prefix) for name in names}

    @available_if(lambda self: hasattr(self.estimator, "predict"))  # type: ignore[untyped-decorator]
    def predict(self, X: Any) -> NDArray[Any]:
        """Return the predictions of the chosen estimator.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            One prediction per row.
        """
        return np.asarray(self._chosen().predict(X))

    @available_if(lambda self: hasattr(self.estimator, "predict_proba"))  # type: ignore[untyped-decorator]
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
        return np.asarray(self._chosen().predict_proba(X))

    @available_if(lambda self: hasattr(self.estimator, "decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return the scores of rows by the chosen estimator.

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
        return np.asarray(self._chosen().decision_function(X))

    def score(self, X: Any, y: Any) -> float:
        """Return the chosen estimator's score on rows that are yours to look at.

        The result is not private: do not publish it for private rows.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            The rows.
        y : array-like of shape (n_samples,)
            The labels.

        Returns
        -------
        float
            The accuracy of a classifier, or R^2 of a regressor.
        """
        return float(self._chosen().score(X, y))

    def save(self, path: str | Path) -> None:
        """Write the chosen model with the search's certificate to a JSON file.

        Parameters
        ----------
        path : str or Path
            The file, which is replaced if it exists.
        """
        from ..saving import save  # which knows searches

        save(self, path)

    def _chosen(self) -> Any:
        """Return the chosen estimator."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
        tags.target_tags, tags.input_tags = inner.target_tags, inner.input_tags
        tags.non_deterministic = self.random_state is None
        return tags


def _check_model(model: Any) -> None:
    """Refuse a model that cannot be tuned, or has what only the search may have."""
    if not isinstance(model, PrivateLinearModel):
        raise ParameterError(
            "PrivateGridSearch tunes linear models of dpsco.estimators, got "
            f"{type(model).__name__}. Whatever else is fitted on the rows, such as a scaler, would "
            "not be private; fixed transformations can stand before the search in a Pipeline."
        )
    if model.count_rows:
        raise ParameterError(
            "PrivateGridSearch releases nothing but its best candidate, so it counts no rows. "
            "Leave count_rows=True out."
        )
    for name in ("odometer", "random_state"):
        if getattr(model, name) is not None:
            raise ParameterError(
                f"the estimator has its own {name}, which a search would not use. Give it to "
                f"the search: PrivateGridSearch(..., {name}=...)."
            )


def _check_bounds(candidates: Sequence[PrivateLinearModel]) -> None:
    """Refuse candidates without declared bounds: a search releases nothing but its best run."""
    missing = {part for candidate in candidates for part in candidate._missing()}
    names = {"features": "feature_norm", "labels": "label_range"}
    bounds = " and ".join(name for part, name in names.items() if part in missing)
    verb = "is" if len(missing) == 1 else "are"
    if bounds:
        raise ParameterError(
            f"PrivateGridSearch needs declared bounds, and {bounds} {verb} missing: a search "
            "releases nothing but its best candidate, so it finds no bounds in the rows. Declare "
            "them on the estimator, or fit it without a search."
        )
