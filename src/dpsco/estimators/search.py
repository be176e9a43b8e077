"""Tuning within one budget: the best of a secret number of fits, each of a random candidate.

Every run draws a candidate, fits it on one part of the rows, and scores it on the rest with noise;
the run with the best noisy score is what leaves. How many runs there were stays secret, which is
what makes it cheap (Liu, Talwar 2019; Papernot, Steinke 2022): see
`dpsco.privacy.mechanisms.repeated_selection`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.model_selection import ParameterGrid, ParameterSampler
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from .. import _validate
from ..data.labels import Scaled
from ..errors import ParameterError
from ..models.linear import LinearModel
from ..privacy.budget import ApproxDP, Budget
from ..privacy.mechanisms.repeated_selection.ledger import Best, best_of_runs
from ..privacy.mechanisms.repeated_selection.profile import Runs
from ..privacy.odometer.odometer import Odometer
from ..privacy.odometer.payment import told
from .base import PrivateEstimator, PrivateLinearModel
from .inputs import training_table
from .repeated import warn_if_repeated
from .search_plan import Search, plan_search

_FIXED = (
    "epsilon", "delta", "adjacency", "rows_per_person", "bounds", "bounds_share", "odometer",
    "random_state", "classes", "label_range", "count_rows",
)  # fmt: skip
_PUBLIC_SEED = 0  # of candidates that are drawn


class PrivateGridSearch(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Choose an estimator's parameters and fit it, all within one privacy budget.

    The number of fits is random and secret, so that the whole search costs little more than one
    fit, and not as much as all of them. Nothing is told of fits that were not chosen. The rows are
    split once, at random and in secret, into a part that is fitted and a part that scores: a row
    pays for one of the two.

    Args:
        estimator: an estimator of dpsco with its bounds; its own epsilon and delta are not used.
        param_grid: names of parameters and the values to try, as in scikit-learn's GridSearchCV: a
            dictionary of lists, or a list of such dictionaries. Values with a method ``rvs`` are
            distributions, from which ``n_candidates`` are drawn before any row is read, the same
            ones in every search.
        epsilon: privacy budget of the whole search.
        delta: its second part; None means 1/n^2.
        mean_runs: how many fits there are in the mean; above 1. Each one costs time.
        distribution: of the number of fits: "geometric", "poisson" (more evenly many, and dearer),
            or "logarithmic" (cheaper, often only one).
        validation_fraction: part of the rows that scores.
        scoring: "accuracy" for classifiers, "neg_mean_absolute_error" for regressors, which is the
            default.
        n_candidates: how many are drawn where there are distributions.
        odometer: an `Odometer`, or its path: pays for the search out of a shared budget.
        random_state: None for secure noise. An integer makes the search reproducible, and its
            certificate says so.

    Attributes:
        best_estimator_: the fitted estimator that was chosen, with the search's epsilon, delta and
            certificate.
        best_params_: its parameters.
        best_index_: its place among ``candidates_``.
        best_score_: its score on held-out rows, with noise; the best of several, so a little high.
        candidates_: every candidate, public.
        certificate_: what the whole search cost, fit and choice and score.
        plan_: of the chosen fit, by itself: its budget is that of one run, and less than what the
            search costs, which only ``certificate_`` tells.

    >>> X = np.array([[0.1, 0.9], [0.8, 0.2]] * 500)
    >>> y = np.array(["no", "yes"] * 500)
    >>> from dpsco.estimators import PrivateLogisticRegression
    >>> model = PrivateLogisticRegression(feature_norm=1.0, classes=["no", "yes"])
    >>> search = PrivateGridSearch(model, {"alpha": [0.0, 0.01]}, epsilon=2.0).fit(X, y)
    >>> sorted(search.best_params_), search.certificate_.verify().ok
    (['alpha'], True)
    """

    def __init__(
        self,
        estimator: PrivateLinearModel,
        param_grid: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        epsilon: float = 1.0,
        delta: float | None = None,
        mean_runs: float = 10.0,
        distribution: str = "geometric",
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

    def fit(self, X: Any, y: Any) -> PrivateGridSearch:
        """Search on private rows.

        Args:
            X: (rows, features), as the estimator's own `fit` takes them.
            y: one label a row.

        Returns:
            The search itself; predictions are those of ``best_estimator_``.

        Raises:
            ParameterError: a parameter is out of range, or must not be searched over.
            AssumptionError: no noise brings some candidate within the budget.
            BudgetError: the odometer does not allow it. Nothing was read or released.
        """
        if y is None:
            raise ParameterError(
                "PrivateGridSearch requires y to be passed, but the target y is None."
            )
        warn_if_repeated(self)
        wallet = self._wallet()
        params, candidates = self._candidates()
        table = training_table(self, X, y)
        search = plan_search(
            candidates,
            (table.n, table.d),
            fraction=_validate.probability("validation_fraction", self.validation_fraction),
            budget=_approximate(wallet._budget(table.n)),
            runs=Runs.named(self.distribution, self.mean_runs),
        )
        for made in search.plans:  # no row is read, and nothing paid, before all are fine
            table.check(made.problem.bounds)
        randomness, odometer = wallet._randomness(), wallet._odometer()
        with told(odometer):
            ledger = search.ledger(randomness, odometer)
            best = best_of_runs(ledger, search.attempts(table, randomness), search.release)
            self.certificate_ = ledger.close()
        self.candidates_, self.best_index_ = params, best.alternative
        self.best_params_ = params[best.alternative]
        self._adopt(candidates[best.alternative], search, best)
        return self

    def _adopt(self, chosen: PrivateLinearModel, search: Search, best: Best[LinearModel]) -> None:
        """Turn the chosen candidate into a fitted estimator with the search's certificate."""
        label = search.plans[best.alternative].problem.bounds.label
        error = 0.5 - best.score / search.held_out  # from 0 to 1, but for the noise
        width = label.high - label.low if isinstance(label, Scaled) else 1.0
        self.best_score_ = float(-width * error if isinstance(label, Scaled) else 1.0 - error)
        self.plan_ = search.plans[best.alternative]
        chosen.set_params(epsilon=self.epsilon, delta=self.delta)  # what it cost, not the run's
        chosen.model_, chosen.certificate_, chosen.plan_ = best.value, self.certificate_, self.plan_
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self, name):
                setattr(chosen, name, getattr(self, name))
        chosen._publish(best.value)
        self.best_estimator_ = chosen
        if hasattr(chosen, "classes_"):
            self.classes_ = chosen.classes_

    def _wallet(self) -> PrivateEstimator:
        """Return an estimator with the search's budget, and the adjacency of the one to tune."""
        if not isinstance(self.estimator, PrivateLinearModel):
            raise ParameterError(
                "PrivateGridSearch tunes linear models of dpsco.estimators, got "
                f"{type(self.estimator).__name__}. Whatever else is fitted on the rows, such as a "
                "scaler, would not be private; fixed transformations can stand before the search "
                "in a Pipeline."
            )
        kind = "accuracy" if hasattr(self.estimator, "classes") else "neg_mean_absolute_error"
        if self.scoring not in (None, kind):
            raise ParameterError(
                f"{type(self.estimator).__name__} is scored by {kind!r}, got "
                f"{_validate.shown(self.scoring)}. A score must be a mean of bounded errors, one "
                "a row. Leave scoring out."
            )
        if self.estimator.bounds != "declared":
            raise ParameterError(
                "PrivateGridSearch needs declared bounds, got bounds="
                f"{self.estimator.bounds!r}: estimate them once, before, and declare them."
            )
        if self.estimator.count_rows:
            raise ParameterError(
                "PrivateGridSearch releases nothing but its best candidate, so it counts no rows. "
                "Leave count_rows=True out."
            )
        for name in ("odometer", "random_state"):
            if getattr(self.estimator, name) is not None:
                raise ParameterError(
                    f"the estimator has its own {name}, which a search would not use. Give it to "
                    f"the search: PrivateGridSearch(..., {name}=...)."
                )
        return PrivateEstimator(
            self.epsilon,
            delta=self.delta,
            adjacency=self.estimator.adjacency,
            rows_per_person=self.estimator.rows_per_person,
            odometer=self.odometer,
            random_state=self.random_state,
        )

    def _candidates(self) -> tuple[list[dict[str, Any]], list[PrivateLinearModel]]:
        """Return the parameters of all candidates, and estimators with them."""
        grids = [self.param_grid] if isinstance(self.param_grid, Mapping) else self.param_grid
        names = {name for grid in grids for name in grid}
        for name in sorted(names & set(_FIXED)):
            raise ParameterError(
                f"{name} must be the same for all candidates, since it says what is protected or "
                "how scores compare. Set it on the estimator, or on the search."
            )
        if any(hasattr(value, "rvs") for grid in grids for value in grid.values()):
            drawn = _validate.integer("n_candidates", self.n_candidates)
            # Candidates are published, so that they must not come from the seed of the noise.
            sampler = ParameterSampler(self.param_grid, drawn, random_state=_PUBLIC_SEED)
            params = [dict(each) for each in sampler]
        else:
            params = [dict(each) for each in ParameterGrid(self.param_grid)]
        return params, [clone(self.estimator).set_params(**each) for each in params]

    @available_if(lambda self: hasattr(self.estimator, "predict"))  # type: ignore[untyped-decorator]
    def predict(self, X: Any) -> NDArray[Any]:
        """Return the predictions of the chosen estimator."""
        check_is_fitted(self, "best_estimator_")
        return np.asarray(self.best_estimator_.predict(X))

    @available_if(lambda self: hasattr(self.estimator, "predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return each row's probability of each class."""
        check_is_fitted(self, "best_estimator_")
        return np.asarray(self.best_estimator_.predict_proba(X))

    @available_if(lambda self: hasattr(self.estimator, "decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return the chosen estimator's scores."""
        check_is_fitted(self, "best_estimator_")
        return np.asarray(self.best_estimator_.decision_function(X))

    def score(self, X: Any, y: Any) -> float:
        """Return the chosen estimator's score on rows of the caller's own."""
        check_is_fitted(self, "best_estimator_")
        return float(self.best_estimator_.score(X, y))

    def save(self, path: str | Path) -> None:
        """Write the chosen model with the search's certificate as a JSON file."""
        check_is_fitted(self, "best_estimator_")
        self.best_estimator_.save(path)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
        tags.target_tags, tags.input_tags = inner.target_tags, inner.input_tags
        tags.non_deterministic = self.random_state is None
        return tags


def _approximate(budget: Budget) -> ApproxDP:
    """Return the budget; noisy scores need a delta."""
    if isinstance(budget, ApproxDP):
        return budget
    raise ParameterError(
        "PrivateGridSearch adds Gaussian noise to scores, which needs delta > 0, got delta=0. "
        "Leave delta out: it is then 1/n^2."
    )
