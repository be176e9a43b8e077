"""The model file: JSON text with coefficients, certificate, plan and schema. Nothing in it runs."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .. import _validate
from .._display import Displayed
from ..data.counts import RowCount
from ..data.prediction import PredictionRows, prediction_rows
from ..data.schema.columns import from_library, number_rows, open_frame
from ..data.schema.encoder import TableEncoder
from ..data.schema.schema import ClassLabel, NumberLabel, Schema, SignLabel
from ..data.units import Units
from ..errors import CertificateError, DataError, DpscoError, ParameterError
from ..files import limits as _limits
from ..files.reading import read_json
from ..files.writing import write_text
from ..fit.run import load_plan
from ..privacy.certificate import Certificate, Verification
from ..privacy.certificate_text import spent
from ..privacy.mechanisms import GaussianRelease, StableGammaRelease, StableGaussianRelease
from ..privacy.release import Composition, Release, flatten
from ..solvers.base import BasePlan
from .config import config_of
from .linear import LinearModel
from .provenance import Provenance
from .table_units import TableCoefficients, table_coefficients
from .units.planning import plan_units

SCHEMA = "dpsco.model/1"

_DAMAGE = (DpscoError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError)


@dataclass(frozen=True)
class SavedModel(Displayed):
    """A fitted model with all that is known about it; `save` writes it, `load` reads it."""

    shown_as: ClassVar[str] = "model"

    model: LinearModel
    certificate: Certificate
    plan: BasePlan | None = None  # None where it holds a user's own code
    schema: Schema | None = None  # how a table becomes rows; None for rows of numbers
    feature_names: tuple[str, ...] | None = None
    rows_counted: RowCount | None = (
        None  # about how many rows the fit learnt from, if it counted them
    )
    provenance: Provenance | None = None  # what it is for, and who answers for it

    def _line(self) -> str:
        return f"{self.model.name} model of {self.model.d:,} features, {spent(self.certificate)}"

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names of the columns that the weights speak of, as the schema encodes them."""
        if self.feature_names is not None or self.schema is None:
            return self.feature_names
        return TableEncoder(self.schema).feature_names

    def rows(self, table: Any) -> Any:
        """Return the rows of a table as the model reads them.

        Args:
            table: a data frame with the schema's columns, where there is a schema, or with the
                columns that the model was fitted on; or rows of numbers.

        Raises:
            DataError: columns are missing, or of another type or number; or, without a schema to
                say what it stands for, an entry is missing or not finite. No entry is quoted.
        """
        return self._read(table).rows

    def _read(self, table: Any) -> PredictionRows:
        if not from_library(table):
            return prediction_rows(table)
        if self.schema is not None:
            return prediction_rows(TableEncoder(self.schema).features(table))
        if self.feature_names is None:
            raise DataError("the model was fitted on rows of numbers without names; pass an array.")
        frame = open_frame(table, "the model")
        names = {str(name): name for name in frame.columns}
        absent = [repr(name) for name in self.feature_names if name not in names]
        if absent:
            raise DataError(
                f"the table has no column {', '.join(absent[:20])}, which the model was fitted on; "
                f"it has {', '.join(map(repr, list(names)[:20]))}. Rename its columns."
            )
        return prediction_rows(number_rows(frame, [names[name] for name in self.feature_names]))

    def predict(self, table: Any) -> NDArray[Any]:
        """Return the predicted class or number of each row."""
        return self.model.predict(self._read(table))

    def probabilities(self, table: Any) -> NDArray[np.float64]:
        """Return each row's probability of each class."""
        return self.model.probabilities(self._read(table))

    def coefficients(self) -> TableCoefficients:
        """Return the coefficients in the units of the schema's table.

        Raises:
            DataError: the model has no schema to say what the units are.
        """
        if self.schema is None:
            raise DataError(
                "the model has no schema, so that its coefficients are in the units of the rows "
                "that it was fitted on: see model.coef."
            )
        return table_coefficients(self.model, TableEncoder(self.schema))

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values, with a digest of everything else at the end."""
        model = self.model
        content: dict[str, Any] = {
            "schema": SCHEMA,
            "model": model.name,
            "coef": model.coef.tolist(),
            "intercept": model.intercept.tolist(),
            "classes": None if model.classes is None else list(model.classes),
            "label_range": None if model.label_range is None else list(model.label_range),
            "feature_names": None if self.feature_names is None else list(self.feature_names),
            "table": None if self.schema is None else json.loads(self.schema.to_json()),
            "plan": _plan_record(self.plan),
            "certificate": self.certificate.to_json(),
        }
        if model.units is not None:
            content["units"] = model.units.to_json()
        if self.rows_counted is not None:
            content["rows_counted"] = self.rows_counted.to_json()
        if self.provenance is not None:
            content["provenance"] = self.provenance.to_json()
        return {**content, "digest": _digest(content)}

    def save(self, path: str | Path) -> None:
        """Write the model file, whole or not at all.

        Raises:
            DataError: it cannot be written.
        """
        write_text(path, json.dumps(self.to_json(), indent=1, allow_nan=False) + "\n")

    def verify(self, *, cross_check: bool = True) -> Verification:
        """Recompute the certificate, and compare it with the weights and the plan beside it.

        Args:
            cross_check: whether to ask dp-accounting as well.

        Returns:
            The outcome: "VALID" if there is a plan and all three agree, "NOT TIED" if the plan
            holds a user's own code and is not there to compare with, "NOT VALID" if one contradicts
            another. Whoever writes a file can forge all three: compare its digest with the one
            that whoever ran the fit has stated.
        """
        verification = self.certificate.verify(cross_check=cross_check)
        problems = (*verification.problems, *_contradictions(self))
        tied = self.plan is not None and _plan_record(self.plan) is not None
        digest = self.to_json()["digest"] if tied else None
        return replace(verification, problems=problems, digest=digest)

    @classmethod
    def load(cls, path: str | Path) -> SavedModel:
        """Read a model file.

        Raises:
            DataError: it cannot be read, is damaged, or was changed after it was written.
            CertificateError: its certificate is not valid.
        """
        record = read_json(path, what="the model", limits=_limits.MODEL, error=DataError)
        try:
            return cls.from_json(record)
        except DataError as problem:
            raise DataError(f"the model {path} is not valid: {problem}") from None

    @classmethod
    def from_json(cls, record: Any) -> SavedModel:
        """Rebuild a model; refuse one that is incomplete or was changed after writing."""
        if not isinstance(record, dict) or record.get("schema") != SCHEMA:
            raise DataError(f"it is no model file of dpsco ({SCHEMA}).")
        content = {name: value for name, value in record.items() if name != "digest"}
        try:
            if record.get("digest") != _digest(content):
                raise DataError("it was damaged, or changed after it was written (digest).")
            return _from_content(content)
        except (DataError, CertificateError):
            raise
        except _DAMAGE as problem:
            why = _validate.reason(problem)
            raise DataError(f"a part of it is missing or has another type: {why}") from None


def schema_of(model: LinearModel, encoder: TableEncoder) -> Schema:
    """Return an encoder's schema for the file of a model, with its label as the model has it.

    Raises:
        DataError: the encoder makes other rows, or the schema's label is another one.
    """
    if encoder.width != model.d:
        raise DataError(
            f"the model was fitted on rows of {model.d} features, the encoder makes rows of "
            f"{encoder.width}: save it with the encoder that has made its rows."
        )
    schema = encoder.schema
    label, classes = schema.label, model.classes
    if label is None:
        return schema
    if isinstance(label, ClassLabel) and classes is not None:
        values = [value.item() if isinstance(value, np.generic) else value for value in classes]
        if set(values) == set(label.values):
            return replace(schema, label=replace(label, values=tuple(values)))
    if isinstance(label, SignLabel) and classes is not None and set(classes) == {-1, 1}:
        return schema
    if isinstance(label, NumberLabel) and classes is None:
        return schema
    raise DataError(
        "the label of the encoder's schema is not what the model predicts: declare the same "
        "classes, or a number for a regression."
    )


def _from_content(content: dict[str, Any]) -> SavedModel:
    classes, ends = content["classes"], content["label_range"]
    model = LinearModel(
        content["model"],
        _numbers("coef", content["coef"]),
        _numbers("intercept", content["intercept"]),
        None if classes is None else tuple(classes),
        None if ends is None else (float(ends[0]), float(ends[1])),
        _units(content.get("units")),
    )
    names, table, plan = content["feature_names"], content["table"], content["plan"]
    counted, provenance = content.get("rows_counted"), content.get("provenance")
    schema = None if table is None else Schema.from_json(json.dumps(table))
    width = model.d if names is None else len(names)
    if schema is not None:
        width = TableEncoder(schema).width
    if width != model.d:
        raise DataError(f"it has coefficients for {model.d} features, but declares {width}.")
    loaded = None if plan is None else load_plan(json.dumps(plan))
    if loaded is not None:
        _check_plan(model, loaded)
    return SavedModel(
        model,
        Certificate.from_json(content["certificate"]),
        loaded,
        schema,
        None if names is None else tuple(map(str, names)),
        None if counted is None else RowCount.from_json(counted),
        None if provenance is None else Provenance.from_json(provenance),
    )


def _units(record: Any) -> Units | None:
    """Return the units of the rows of the fit, where they were found."""
    if record is None:
        return None
    centre = None if record["centre"] is None else _numbers("centre", record["centre"])
    return Units(
        _numbers("scale", record["scale"]), centre, _validate.positive("cut", record["cut"])
    )


def _check_plan(model: LinearModel, plan: BasePlan) -> None:
    """Refuse a plan of other rows, or of another model."""
    if plan.d < _used(model) or plan.d > model.d:  # a fit may be of columns that were chosen
        raise DataError(
            f"it has coefficients for {model.d} features, but its plan is for {plan.d}."
        )
    config = config_of(plan)
    if config is not None and (config.name, config.classes) != (model.name, model.classes):
        raise DataError(f"it is a {model.name} model, but its plan is for another {config.name}.")


def _numbers(name: str, values: Any) -> NDArray[np.float64]:
    """Return lists of numbers as an array; NumPy would take texts and nulls for numbers, too."""
    array = np.array(values)
    if array.dtype.kind not in "iuf":
        raise DataError(f"its {name} must be lists of numbers, equally long.")
    return array.astype(float)


def _contradictions(saved: SavedModel) -> list[str]:
    """Return a sentence where a model, its plan and its certificate contradict each other."""
    if saved.plan is None:
        return []
    listed, planned_fit = (
        _executions(saved.certificate.releases),
        _executions(saved.plan.releases()),
    )
    for release in saved.certificate.releases:  # one of several fits that were tried
        for alternative in getattr(release, "alternatives", ()):
            listed |= _executions(alternative)
    if planned_fit - listed:
        return ["the model's plan has releases that its certificate does not list"]
    stated, planned = saved.certificate.budget, saved.plan.budget
    if (stated.adjacency, stated.unit) != (planned.adjacency, planned.unit):
        return ["the model's plan protects others than its certificate says"]
    if saved.plan.d != saved.model.d and not _of_columns(saved, listed - planned_fit):
        return [f"the model has {saved.model.d} features, its plan is for {saved.plan.d}"]
    missing = _missing_beside(saved, listed - planned_fit)
    if missing:
        return [missing]
    return []


def _of_columns(saved: SavedModel, others: Counter[Release]) -> bool:
    """Return whether the fit was of columns that a release before it has chosen."""
    assert saved.plan is not None
    charged = any(isinstance(release, GaussianRelease) for release in others)
    return charged and _used(saved.model) <= saved.plan.d < saved.model.d


def _used(model: LinearModel) -> int:
    """Return how many columns have a weight."""
    return int(np.count_nonzero(model.coef.any(axis=0)))


def _executions(releases: Iterable[Release | Composition]) -> Counter[Release]:
    """Return how often each release is made."""
    return Counter({release.once(): release.count for release in flatten(releases)})


def _missing_beside(saved: SavedModel, others: Counter[Release]) -> str:
    """Return what is missing of the releases before the fit: units, and a count of rows."""
    plan = saved.plan
    config = None if plan is None else config_of(plan)
    search = None if config is None else config.units
    mapped = search is not None and search.features != "declared"
    if mapped != (saved.model.units is not None):
        return "the model's plan finds other units than the model has"
    if plan is not None and search is not None:
        norm = plan.problem.bounds.norm
        units = plan_units(plan.budget, n=plan.n, d=plan.d, search=search, norm=norm)
        if _executions(units.releases()) - others:
            return "the model's plan finds units by releases that its certificate does not list"
    counts = (StableGaussianRelease, StableGammaRelease)
    if saved.rows_counted is not None and not any(isinstance(one, counts) for one in others):
        return "the model counts its rows by a release that its certificate does not list"
    return ""


def _plan_record(plan: BasePlan | None) -> Any:
    """Return the plan as JSON values; None where it holds a user's own code."""
    if plan is None:
        return None
    try:
        return json.loads(plan.to_json())
    except ParameterError:
        return None


def _digest(content: dict[str, Any]) -> str:
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()
