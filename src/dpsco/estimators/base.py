"""What all estimators share: parameters, the fit, and what it leaves behind.

Constructors only store (they are those of dataclasses), `fit` checks, plans from public facts, and
carries the plan out.
"""

from __future__ import annotations

import inspect
import textwrap
import warnings
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from .. import _validate
from ..data.counts import RowCount
from ..data.labels import Scaled
from ..data.tables.batches import BatchTable
from ..data.tables.table import Order, Table
from ..errors import AccuracyWarning, ParameterError
from ..fit.choose import choose
from ..fit.run import plan, run
from ..models.config import ModelConfig, configure
from ..models.file import SavedModel
from ..models.linear import LinearModel
from ..models.private_bounds import fit_with_private_bounds
from ..models.row_counts import plan_with_count, run_with_count
from ..models.spec import MODELS
from ..privacy.budget import Budget, fit_budget
from ..privacy.odometer.odometer import Odometer
from ..privacy.randomness import Randomness
from ..solvers import get, registry
from ..solvers.base import Result, emit_warnings
from ..task import Task
from .inputs import given_table, rows_to_predict, training_table
from .repeated import warn_if_repeated

Estimator = TypeVar("Estimator", bound="PrivateEstimator")

_SHARED = """epsilon: privacy budget of one fit.
delta: its second part; None means 1/n^2, and 0 pure differential privacy.
adjacency: what one person may change: "replace_one" (a row), or "zero_out" (its presence, at a
    public number of rows).
rows_per_person: how many rows one person may have.
feature_norm: largest Euclidean length of a row's features; longer rows are shortened. It is
    declared, never read off the rows.
bounds: "declared", or "private": a part of the budget is spent on estimating what is not declared.
bounds_share: which part of the budget that is; the estimates are `feature_norm_`, `label_range_`.
odometer: an `Odometer`, or its path: pays for the fit out of a shared budget.
random_state: None for secure noise. An integer makes the fit reproducible, and its certificate
    says so: whoever knows it can take the noise away, and so can whoever sees a second fit with it
    on other rows. For tests and made-up rows only.
"""
_LINEAR = """radius: bound on the length of the weights; None for none.
alpha: strength of the penalty ``alpha / 2 ||weights||^2``, intercept included.
scale: a guess of the length of good weights; privacy does not depend on it.
fit_intercept: whether the model has one.
solver: a key of `dpsco.solvers`, or "auto": the best by predicted risk; of one pass for streams
    and for fits with a checkpoint.
calibration: "tight", "conjectured" or "paper".
options: settings of the solver's own, such as {"rounds": 50}.
count_rows: whether a small part of the budget, 1 % at most, buys a noisy count of the rows that had
    a usable label and usable entries: `rows_counted_`. See `dpsco.models.row_counts`.
"""
_FITTED = """certificate_: what the fit cost, to be handed on with the model.
plan_: everything that was decided before a row was read.
"""


def described(kind: type[Estimator]) -> type[Estimator]:
    """Complete a class's text: parameters that all have before its own, attributes at the end."""
    text = inspect.cleandoc(kind.__doc__ or "")
    text, example = (*text.split("\n>>> ", 1), "")[:2]
    head, _, own = text.partition("Args:\n")
    shared = _SHARED + (_LINEAR if issubclass(kind, PrivateLinearModel) else "")
    parameters = textwrap.indent(shared + kind._labels_text, "    ") + own.rstrip() + "\n"
    attributes = textwrap.indent(kind._attributes_text + _FITTED, "    ")
    parts = [head.rstrip(), "Args:\n" + parameters, "Attributes:\n" + attributes]
    kind.__doc__ = "\n\n".join(part.rstrip() for part in parts)
    kind.__doc__ += f"\n\n>>> {example}" if example else ""
    return kind


@dataclass(eq=False, repr=False)
class PrivateEstimator(BaseEstimator):  # type: ignore[misc]
    """The parameters and the budget of every estimator."""

    epsilon: float = 1.0
    _: KW_ONLY
    delta: float | None = None
    adjacency: str = "replace_one"
    rows_per_person: int = 1
    feature_norm: float | None = None
    bounds: str = "declared"
    bounds_share: float = 0.1
    odometer: Odometer | str | Path | None = None
    random_state: int | None = None

    _labels_text: ClassVar[str] = ""  # for `described`: the parameters about labels
    _attributes_text: ClassVar[str] = ""  # and the attributes of a fitted one

    def _budget(self, n: int) -> Budget:
        """Return the budget of a fit on n rows."""
        return fit_budget(
            n,
            epsilon=self.epsilon,
            delta=self.delta,
            adjacency=self.adjacency,
            rows_per_person=self.rows_per_person,
        )

    def _randomness(self) -> Randomness:
        """Return secure randomness, or what the seed says."""
        if self.random_state is None:
            return Randomness.secure()
        try:
            return Randomness.seeded(self.random_state)
        except ParameterError:
            raise ParameterError(
                "random_state must be None (secure noise) or a non-negative integer, got "
                f"{self.random_state!r}."
            ) from None

    def _forget_estimates(self) -> None:
        """Remove what an earlier fit estimated: this one may have declared bounds."""
        for name in ("feature_norm_", "label_range_", "rows_counted_"):
            self.__dict__.pop(name, None)

    def _odometer(self) -> Odometer | None:
        """Return what pays for the fit."""
        if isinstance(self.odometer, (str, Path)):
            return Odometer(self.odometer)
        return self.odometer

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.non_deterministic = self.random_state is None
        return tags


@dataclass(eq=False, repr=False, kw_only=True)
class PrivateLinearModel(PrivateEstimator):
    """A linear model of one of the kinds of `dpsco.models`."""

    radius: float | None = None
    alpha: float = 0.0
    scale: float | None = None
    fit_intercept: bool = True
    solver: str = "auto"
    calibration: str = "tight"
    options: Mapping[str, Any] | None = None
    count_rows: bool = False

    _kind: ClassVar[str]
    _settings: ClassVar[tuple[str, ...]] = ()  # parameters that are settings of the kind

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        order: Order | None = None,
        checkpoint: str | Path | None = None,
    ) -> Any:
        """Fit the model on private rows.

        Args:
            X: (rows, features): an array, a list, a sparse matrix, a pandas or Polars frame. A row
                with a hole counts as nothing. Or a table of `dpsco.data` with its labels inside,
                such as that of `from_batches`, whose rows are seen once, or of `from_parquet`.
            y: one label a row, unless X is a table. A class that was not declared makes its row
                count as nothing; a number outside ``label_range`` is clipped.
            order: "shuffled" shuffles the rows; "given" keeps their order, which must then not have
                been chosen by looking at them. Rows of `from_batches` come in their order, all
                others are shuffled by default.
            checkpoint: a file from which a fit that was killed goes on, on the same rows; for
                solvers of one pass. It is secret while the fit lasts.

        Returns:
            The estimator, with `coef_`, `intercept_`, `certificate_` and `plan_`.

        Raises:
            ParameterError: a bound is missing or a parameter out of range.
            BudgetError: the odometer does not allow it. Nothing was read or released.
            DataError: a stream has more or fewer rows than it declared. No model is made.
        """
        given = isinstance(X, Table)
        if y is None and not given:
            raise ParameterError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        warn_if_repeated(self)
        self._forget_estimates()
        table = given_table(self, X, y) if given else training_table(self, X, y)
        if order is None:
            order = "given" if isinstance(table, BatchTable) else "shuffled"
        model, result = self._fit(table, order, checkpoint)
        self.model_: LinearModel = model
        self.certificate_, self.plan_ = result.certificate, result.plan
        self._publish(model)
        return self

    def save(self, path: str | Path) -> None:
        """Write the model with its certificate as a JSON file; `dpsco.models.SavedModel` reads it.

        Args:
            path: of the file, which is replaced if it is there.
        """
        check_is_fitted(self, "model_")
        names = getattr(self, "feature_names_in_", None)
        labelled = None if names is None else tuple(map(str, names))
        counted = getattr(self, "rows_counted_", None)
        SavedModel(self.model_, self.certificate_, self.plan_, None, labelled, counted).save(path)

    def _fit(
        self, table: Table, order: Order, checkpoint: str | Path | None
    ) -> tuple[LinearModel, Result]:
        """Plan from public facts, and carry the plan out."""
        _validate.choice("bounds", self.bounds, ("declared", "private"))
        _validate.flag("count_rows", self.count_rows)
        if self.bounds == "private":
            if order != "shuffled" or checkpoint is not None:
                raise ParameterError(
                    'bounds="private" reads the rows more than once, shuffled. Declare '
                    "the bounds of a stream, and of a fit with a checkpoint."
                )
            return self._fit_with_private_bounds(table)
        setup = self._setup()
        if self.count_rows:
            return self._fit_and_count(setup, table, order, checkpoint)
        facts: Any = {"n": table.n, "d": table.d, "budget": self._budget(table.n)}
        facts |= {"calibration": self.calibration, "options": self.options}
        solver, problem = self.solver, setup.problem()
        once = isinstance(table, BatchTable)
        if solver == "auto" and (once or checkpoint is not None):
            task = Task(problem, table.n, table.d, facts["budget"], self.calibration)
            solver = choose(task, single_epoch=True, options=self.options)
        made = plan(problem, solver=solver, **facts)
        if once and get(solver).single_epoch is None:
            others = [key for key, entry in registry().items() if entry.single_epoch is not None]
            raise ParameterError(
                f"{solver} reads rows more than once, and those of an iterator come once. Use "
                f"solver='auto', or one of {', '.join(others)}."
            )
        emit_warnings(made, stacklevel=3)  # whoever called fit
        result = run(
            made,
            table,
            order=order,
            # A fit that goes on takes its secure randomness from the checkpoint.
            randomness=None if self.random_state is None else self._randomness(),
            odometer=self._odometer(),
            checkpoint=checkpoint,
        )
        return setup.model(result.weights), result

    def _fit_and_count(
        self, setup: ModelConfig, table: Table, order: Order, checkpoint: str | Path | None
    ) -> tuple[LinearModel, Result]:
        """Plan the fit with a count of the rows beside it, and carry both out."""
        if checkpoint is not None or table.once:
            raise ParameterError(
                "count_rows=True reads the rows once more than the fit does, so it goes neither "
                "with a checkpoint nor with rows that come once. Leave it out."
            )
        made = plan_with_count(
            setup.problem(),
            n=table.n,
            d=table.d,
            budget=self._budget(table.n),
            solver=self.solver,
            calibration=self.calibration,
            options=self.options,
        )
        emit_warnings(made.fit, stacklevel=4)  # whoever called fit
        sources: Any = {"randomness": self._randomness(), "odometer": self._odometer()}
        result, counted = run_with_count(made, table, order=order, **sources)
        self._note_count(counted, stacklevel=5)
        return setup.model(result.weights), result

    def _note_count(self, counted: RowCount | None, *, stacklevel: int) -> None:
        """Keep what was released about the number of rows, and say so if it is low."""
        assert counted is not None  # a plan that cannot count is refused before
        self.rows_counted_ = counted
        if counted.warning:
            warnings.warn(counted.warning, AccuracyWarning, stacklevel=stacklevel)

    def _fit_with_private_bounds(self, table: Table) -> tuple[LinearModel, Result]:
        """Spend a part of the budget on the bounds that are not declared, then fit."""
        rule = self._label_rule()
        features, labels = self.feature_norm is None, rule.get("label_range", True) is None
        self._refuse_units(labels)
        unit = self._setup_at(
            1.0 if features else self.feature_norm, {"label_range": (-1, 1)} if labels else rule
        )
        if not (features or labels):
            raise ParameterError(
                "all bounds are declared, so there is nothing to estimate: leave out "
                'bounds="private".'
            )
        result, scales = fit_with_private_bounds(
            unit.problem(),
            table,
            self._budget(table.n),
            features=features,
            labels=labels,
            share=self.bounds_share,
            solver=self.solver,
            calibration=self.calibration,
            options=self.options,
            randomness=self._randomness(),
            odometer=self._odometer(),
            count_rows=bool(self.count_rows),
        )
        if self.count_rows:
            self._note_count(scales.counted, stacklevel=5)
        self.feature_norm_ = scales.feature if features else self.feature_norm
        if labels:
            ends = Scaled(*scales.label, centred=self.fit_intercept)  # type: ignore[misc]
            self.label_range_ = (ends.low, ends.high)
            unit = replace(unit, bounds=replace(unit.bounds, label=ends))
        model = unit.model(result.weights)
        return replace(model, coef=model.coef / (scales.feature if features else 1.0)), result

    def _refuse_units(self, labels: bool) -> None:
        """Refuse what is given in units that are not known yet."""
        given = [name for name in ("radius", "scale") if getattr(self, name) is not None]
        if labels:
            lengths = MODELS[self._kind].lengths
            given += [name for name in lengths if getattr(self, name) is not None]
        if given:
            raise ParameterError(
                f'{given[0]} is in units of features or labels, which bounds="private" has yet to '
                f"find. Leave out {given[0]}, or declare the bounds."
            )

    def _setup(self) -> ModelConfig:
        """Return the public side of the model, as declared."""
        return self._setup_at(self.feature_norm, self._label_rule())

    def _setup_at(self, feature_norm: float | None, label_rule: Mapping[str, Any]) -> ModelConfig:
        """Return the public side of the model with these bounds."""
        return configure(
            self._kind,
            feature_norm=feature_norm,
            intercept=self.fit_intercept,
            radius=self.radius,
            alpha=self.alpha,
            scale=self.scale,
            settings={name: getattr(self, name) for name in self._settings},
            **label_rule,
        )

    def _label_rule(self) -> dict[str, Any]:
        """Return what is declared of labels, as `configure` takes it."""
        raise NotImplementedError

    def _publish(self, model: LinearModel) -> None:
        """Set the attributes that scikit-learn's users look for."""
        raise NotImplementedError

    def _rows(self, X: Any) -> Any:
        """Return rows to predict."""
        check_is_fitted(self, "model_")
        return rows_to_predict(self, X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
