"""What all estimators share: the parameters of privacy, and the fit of a linear model.

Constructors only store. `fit` checks, makes a plan from public facts, and carries it out; whatever
has to be decided on the way is decided in `dpsco.fit`, `dpsco.models` and `dpsco.privacy`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from .. import _validate
from ..data.counts import RowCount
from ..data.tables.batches import BatchTable
from ..data.tables.table import Order, Table
from ..data.units import Units
from ..errors import AccuracyWarning, OutlookWarning, ParameterError
from ..fit.outlook import warn
from ..fit.progress import as_progress, checked_verbose
from ..fit.tradeoff import AUTO
from ..models.columns import checked_columns, plan_on_columns, run_on_columns
from ..models.config import ModelConfig, configure
from ..models.file import SavedModel, schema_of
from ..models.linear import LinearModel
from ..models.plan import ModelPlan, plan_model
from ..models.spec import MODELS
from ..models.table_units import TableCoefficients, table_coefficients
from ..models.weights import Weights, named_weights
from ..privacy.budget import Budget, fit_budget
from ..privacy.certificate import Certificate
from ..privacy.odometer.odometer import Odometer
from ..privacy.randomness import Randomness
from ..solvers.base import BasePlan, Progress, Result
from ..task import Task
from .display import ShownEstimator
from .inputs import labelled_table, rows_to_predict, training_table
from .repeated import warn_if_repeated

if TYPE_CHECKING:
    from ..data.prediction import PredictionRows
    from .encoder import TableEncoder

Self = TypeVar("Self", bound="PrivateLinearModel")

_FEATURES_TOO = "feature_norm (and label_range) must be declared"
_ESTIMATES = (
    "feature_norm_",
    "feature_centre_",
    "feature_scale_",
    "label_range_",
    "rows_counted_",
    "units_",
    "selected_columns_",
)


class PrivateEstimator(ShownEstimator, BaseEstimator):  # type: ignore[misc]
    """The parameters that say what is protected, and how much of it is spent."""

    certificate_: Certificate
    plan_: BasePlan
    n_features_in_: int
    feature_names_in_: NDArray[Any]
    feature_norm_: float

    def __init__(
        self,
        *,
        feature_norm: float | None,
        epsilon: float,
        delta: float | None,
        adjacency: Literal["replace_one", "zero_out"],
        rows_per_person: int,
        bounds: Literal["auto", "declared"],
        bounds_share: float | None,
        odometer: Odometer | str | Path | None,
        random_state: int | None,
        verbose: bool,
    ) -> None:
        self.feature_norm = feature_norm
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.rows_per_person = rows_per_person
        self.bounds = bounds
        self.bounds_share = bounds_share
        self.odometer = odometer
        self.random_state = random_state
        self.verbose = verbose

    def _budget(self, n: int) -> Budget:
        """Return the budget of a fit on n rows."""
        return fit_budget(
            n,
            epsilon=self.epsilon,
            delta=self.delta,
            adjacency=self.adjacency,
            rows_per_person=self.rows_per_person,
        )

    def _progress(self) -> Progress | None:
        """Return the bar of a fit, if one is to be shown."""
        return as_progress(checked_verbose(self.verbose), f"{type(self).__name__}")

    def _column_names(self) -> tuple[str, ...] | None:
        """Return the names of the features, if the rows had them."""
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else tuple(map(str, names))

    def _forget_estimates(self) -> None:
        """Remove what an earlier fit estimated: this one may have declared bounds."""
        for name in _ESTIMATES:
            self.__dict__.pop(name, None)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.non_deterministic = self.random_state is None
        return tags


class PrivateLinearModel(PrivateEstimator):
    """A linear model of `dpsco.models`, fitted with a solver of `dpsco.solvers`."""

    model_: LinearModel
    rows_counted_: RowCount
    feature_centre_: NDArray[np.float64]
    feature_scale_: NDArray[np.float64]
    units_: str
    selected_columns_: NDArray[np.int64]

    _model_name: ClassVar[str]  # a key of `dpsco.models.MODELS`
    _settings: ClassVar[tuple[str, ...]] = ()  # parameters that are settings of that model

    def __init__(
        self,
        *,
        feature_norm: float | None,
        epsilon: float,
        delta: float | None,
        adjacency: Literal["replace_one", "zero_out"],
        rows_per_person: int,
        fit_intercept: bool = False,
        alpha: float = 0.0,
        radius: float | None = None,
        scale: float | None = None,
        bounds: Literal["auto", "declared"],
        bounds_share: float | None,
        units: Literal["auto", "declared"],
        count_rows: bool,
        solver: str,
        calibration: Literal["tight", "conjectured", "paper"],
        options: Mapping[str, Any] | None,
        odometer: Odometer | str | Path | None,
        random_state: int | None,
        verbose: bool,
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
        self.fit_intercept = fit_intercept
        self.alpha = alpha
        self.radius = radius
        self.scale = scale
        self.units = units
        self.count_rows = count_rows
        self.solver = solver
        self.calibration = calibration
        self.options = options

    def fit(
        self: Self,
        X: Any,
        y: Any = None,
        *,
        order: Literal["shuffled", "given"] | None = None,
        checkpoint: str | Path | None = None,
    ) -> Self:
        """Fit the model on private rows.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features), or Table
            The rows. Incomplete rows are ignored. A table of `dpsco.data`, such as
            `from_parquet` or `from_batches` returns, brings its own labels.
        y : array-like of shape (n_samples,), optional
            The labels; leave them out if ``X`` is a table. Rows of a class that was not declared
            are ignored. Numbers outside ``label_range`` are clipped.
        order : {"shuffled", "given"}, optional
            ``"shuffled"`` shuffles the rows. ``"given"`` keeps their order, which must not depend
            on what the rows contain. By default, tables of `from_batches` keep their order and
            all other rows are shuffled.
        checkpoint : str or Path, optional
            A file from which an interrupted fit continues, on the same rows. Keep it secret until
            the fit is complete. Not every solver can keep one; ``solver="auto"`` takes one
            that can.

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
            ``X`` or ``y`` has a shape or type that cannot be used, or a stream has more or fewer
            rows than it declared. There is no model.
        """
        warn_if_repeated(self)
        self._forget_estimates()
        table = self._table(X, y)
        if order is None:
            order = "given" if isinstance(table, BatchTable) else "shuffled"
        _validate.choice("bounds", self.bounds, ("auto", "declared", "private"))
        _validate.flag("count_rows", self.count_rows)
        sparsity = self._columns("sparsify", table.d)
        count = self._columns("select_columns", table.d)
        if count is None:
            model, result = self._fit(table, order, checkpoint)
        else:
            model, result = self._fit_columns(table, order, checkpoint, count)
        if sparsity is not None:  # of public numbers: it costs nothing
            model = model.sparsified(sparsity)
        self.model_, self.certificate_, self.plan_ = model, result.certificate, result.plan
        self._publish(model)
        return self

    def save(self, path: str | Path, *, encoder: TableEncoder | None = None) -> None:
        """Write the model with its certificate to a JSON file.

        `dpsco.models.SavedModel.load` reads the file, and so do ``dpsco predict`` and
        ``dpsco verify``.

        Parameters
        ----------
        path : str or Path
            The file, which is replaced if it exists.
        encoder : TableEncoder, optional
            What has made the rows of the fit. With its schema inside, the file serves tables as
            they are; `dpsco.save` finds it in a pipeline.

        Raises
        ------
        DataError
            The schema does not fit the model, or the file cannot be written.
        """
        check_is_fitted(self, "model_")
        names = self._column_names()
        schema = None
        if encoder is not None:
            inner = encoder.table_encoder
            schema, names = schema_of(self.model_, inner), inner.feature_names
        SavedModel(
            self.model_,
            self.certificate_,
            self.plan_,
            schema,
            None if names is None else tuple(map(str, names)),
            getattr(self, "rows_counted_", None),
        ).save(path)

    def named_weights(self) -> Weights:
        """Return the weights by column, the largest first, with the noise that the plan knows of.

        Returns
        -------
        Weights
            ``items`` has the weights; ``about`` says how to read their noise.
        """
        check_is_fitted(self, "model_")
        return named_weights(self.model_, self.plan_, self._column_names())

    def table_coefficients(self, encoder: TableEncoder) -> TableCoefficients:
        """Return the coefficients in the units of the table: per year, and not per range of years.

        Parameters
        ----------
        encoder : TableEncoder
            What has made the rows of the fit.

        Returns
        -------
        TableCoefficients
            Names, coefficients and intercepts; ``print`` shows them.
        """
        check_is_fitted(self, "model_")
        return table_coefficients(self.model_, encoder.table_encoder)

    def _table(self, X: Any, y: Any) -> Table:
        """Return the private rows with their labels."""
        if isinstance(X, Table):
            return labelled_table(self, X, y)
        if y is None:
            raise ParameterError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        return training_table(self, X, y)

    def _fit(
        self, table: Table, order: Order, checkpoint: str | Path | None
    ) -> tuple[LinearModel, Result]:
        """Plan from public facts, with units and a count of the rows if they are to be; run it."""
        if self.count_rows and (checkpoint is not None or table.once):
            raise ParameterError(
                "count_rows=True reads the rows once more than the fit does, so it goes neither "
                "with a checkpoint nor with rows that come once. Leave it out."
            )
        missing = () if self.bounds == "declared" else self._missing()
        plan = self._plan(
            missing,
            n=table.n,
            d=table.d,
            budget=self._budget(table.n),
            solver=self.solver,
            # Chunks that can begin anew serve every solver, but each pass fetches all of them.
            single_epoch=isinstance(table, BatchTable) or checkpoint is not None,
            sums=table.sums_only,
            reread=not table.once and checkpoint is None,
            sparse=table.sparse,
        )
        # What is public of labels is in their own units, which may be yet to be found.
        facts = {} if "labels" in missing else self._label_facts()
        warn(plan.fit, stacklevel=3, **facts)  # whoever called fit
        if plan.warning:
            warnings.warn(plan.warning, OutlookWarning, stacklevel=3)
        outcome = plan.run(
            table,
            order=order,
            # A fit that continues takes its secure randomness from the checkpoint.
            randomness=None if self.random_state is None else fit_randomness(self.random_state),
            odometer=open_odometer(self.odometer),
            progress=self._progress(),
            checkpoint=checkpoint,
        )
        if outcome.count is not None:
            self._publish_count(outcome.count)
        self._publish_units(plan.units, outcome.units, table.d)
        return outcome.model, outcome.result

    def _plan(self, missing: Sequence[str], **facts: Any) -> ModelPlan:
        """Return the plan of a fit; the facts are those of `plan_model` about rows and budget."""
        return plan_model(
            self._unit_config(missing),
            calibration=self.calibration,
            options=self.options,
            count_rows=bool(self.count_rows),
            units=self.units,
            units_share=self.bounds_share,
            missing=missing,
            **facts,
        )

    def _rehearsal(
        self, table: Table, X: Any, y: Any, n: int, prefer: str
    ) -> tuple[ModelConfig, Budget, Callable[[Task, str], ModelPlan]]:
        """Return what `dpsco.rehearse` needs: units to measure in, a budget, what plans the fits.

        Bounds that nobody declared are read off the public rows, for the measurement alone.
        """
        if self._columns("select_columns", table.d) is not None:
            raise ParameterError(
                "select_columns cannot be rehearsed: its columns differ from fit to fit. Rehearse "
                "the model on fewer columns instead.",
                parameter="select_columns",
            )
        missing = () if self.bounds == "declared" else self._missing()
        norm, rule = self.feature_norm, self._label_rule()
        if "features" in missing:
            norm = float(np.sqrt(np.max(np.asarray(X * X).sum(axis=1))))
        if "labels" in missing:
            rule = {"label_range": (float(np.min(y)), float(np.max(y)))}

        def planner(task: Task, key: str) -> ModelPlan:
            facts = {"n": task.n, "d": task.d, "budget": task.budget, "sparse": table.sparse}
            solver = self.solver if key == AUTO else key
            return self._plan(missing, solver=solver, prefer=prefer, **facts)

        return self._config_with(norm, rule), self._budget(n), planner

    def _fit_columns(
        self, table: Table, order: Order, checkpoint: str | Path | None, count: int
    ) -> tuple[LinearModel, Result]:
        """Plan a choice of columns and a fit on them from public facts; run it."""
        if self.count_rows or checkpoint is not None or table.once:
            raise ParameterError(
                "select_columns reads the rows before the fit does, so it goes neither with "
                "count_rows=True, nor with a checkpoint, nor with rows that come once. Leave one "
                "of them out.",
                parameter="select_columns",
            )
        config = self._unit_config(() if self.bounds == "declared" else self._missing())
        plan = plan_on_columns(
            config,
            count,
            n=table.n,
            d=table.d,
            budget=self._budget(table.n),
            solver=self.solver,
            calibration=self.calibration,
            options=self.options,
        )
        warn(plan.fit, stacklevel=3, **self._label_facts())  # whoever called fit
        result, chosen = run_on_columns(
            plan,
            table,
            order=order,
            randomness=None if self.random_state is None else fit_randomness(self.random_state),
            odometer=open_odometer(self.odometer),
            progress=self._progress(),
        )
        self.selected_columns_ = chosen
        self._publish_units("rows are measured in the declared units", None, table.d)
        return config.model(result.weights).spread(chosen, table.d), result

    def _missing(self) -> tuple[str, ...]:
        """Return of what nobody declared a bound, so that it is found."""
        features = ("features",) if self.feature_norm is None else ()
        labels = ("labels",) if self._label_rule().get("label_range", True) is None else ()
        return features + labels

    def _unit_config(self, missing: Sequence[str]) -> ModelConfig:
        """Return the public side of the model, with bounds of 1 for those that are found."""
        spec = MODELS[self._model()]
        name, size = self._size()
        if missing and spec.shape != "l2":
            spec.domain(size, unit=1.0)  # refuses what is no radius
            raise ParameterError(
                f"{name} is in units of features and labels, so {_FEATURES_TOO} for a "
                f"{spec.name} model: nobody can say how large weights are in units that are yet to "
                "be found.",
                parameter="feature_norm" if "features" in missing else "label_range",
            )
        lengths = spec.lengths if "labels" in missing else ()
        for name in ("radius", "scale", *lengths) if missing else ():
            if getattr(self, name) is not None:
                raise ParameterError(
                    f"{name} is in units of features or labels, which are yet to be found. Leave "
                    f"out {name}, or declare the bounds.",
                    parameter=name,
                )
        rule = {"label_range": (-1, 1)} if "labels" in missing else self._label_rule()
        return self._config_with(1.0 if "features" in missing else self.feature_norm, rule)

    def _config(self) -> ModelConfig:
        """Return the public side of the model, as declared."""
        return self._config_with(self.feature_norm, self._label_rule())

    def _config_with(
        self, feature_norm: float | None, label_rule: Mapping[str, Any]
    ) -> ModelConfig:
        """Return the public side of the model with these bounds."""
        return configure(
            self._model(),
            feature_norm=feature_norm,
            intercept=self.fit_intercept,
            radius=self._size()[1],
            alpha=self.alpha,
            scale=self.scale,
            settings={name: getattr(self, name) for name in self._settings},
            **label_rule,
        )

    def _model(self) -> str:
        """Return the key of the model in `dpsco.models.MODELS`."""
        return self._model_name

    def _columns(self, name: str, d: int) -> int | None:
        """Return a parameter that says how many columns, if the estimator has it and it is set."""
        value = getattr(self, name, None)
        return None if value is None else checked_columns(name, value, d)

    def _size(self) -> tuple[str, float | None]:
        """Return the parameter that bounds the weights, and its value."""
        return "radius", self.radius

    def _label_rule(self) -> dict[str, Any]:
        """Return what is declared about labels, as `configure` takes it."""
        raise NotImplementedError

    def _label_facts(self) -> dict[str, Any]:
        """Return what is public of the labels beside that, as `dpsco.outlook` takes it."""
        return {}

    def _publish(self, model: LinearModel) -> None:
        """Set the attributes that users of scikit-learn look for."""
        raise NotImplementedError

    def _publish_count(self, count: RowCount | None) -> None:
        """Keep what was released about the number of rows, and warn if it is low."""
        assert count is not None  # a plan that cannot count is refused before
        self.rows_counted_ = count
        if count.warning:
            warnings.warn(count.warning, AccuracyWarning, stacklevel=4)  # whoever called fit

    def _publish_units(self, sentence: str, units: Units | None, d: int) -> None:
        """Keep in which units rows were measured."""
        if units is None:
            units = Units(np.ones(1))
        elif self.feature_norm is None:
            self.feature_norm_ = float(np.sqrt(np.mean(np.square(units.scale))))
        centre = 0.0 if units.centre is None else units.centre
        self.feature_centre_ = np.array(np.broadcast_to(centre, (d,)))
        self.feature_scale_ = np.array(np.broadcast_to(units.scale, (d,)))
        self.units_ = sentence

    def _rows(self, X: Any) -> PredictionRows:
        """Return rows to predict."""
        check_is_fitted(self, "model_")
        return rows_to_predict(self, X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def fit_randomness(random_state: int | None) -> Randomness:
    """Return secure randomness, or that of the seed."""
    if random_state is None:
        return Randomness.secure()
    try:
        return Randomness.seeded(random_state)
    except ParameterError:
        raise ParameterError(
            f"random_state must be None (secure noise) or a non-negative integer, got "
            f"{random_state!r}.",
            parameter="random_state",
        ) from None


def open_odometer(odometer: Odometer | str | Path | None) -> Odometer | None:
    """Return the odometer, opened if it was given by its path."""
    return Odometer(odometer) if isinstance(odometer, (str, Path)) else odometer
