"""How well a model predicts: exact numbers about public rows, or noisy means of private ones.

`measure` looks at rows that may be seen. `measure_privately` releases noisy means, pays for them
and returns their certificate: one Gaussian release of a sum. A row adds a vector of parts that lie
in [0, 1], so its norm is at most the root of their number, which is the bound that the noise is
made for; a row whose label is missing or not declared adds zeros. The sum is divided by the public
number of rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._validate import shown
from ..data.schema.schema import Label, SignLabel
from ..data.source import UNCHOSEN
from ..data.tables.arrays import raw_rows
from ..data.tables.table import Table
from ..errors import AssumptionError, DataError, ParameterError
from ..kernels.pairwise import sum_rows
from ..kernels.rows import SparseRows
from ..losses.quantile import Pinball
from ..privacy.budget import Adjacency, Budget
from ..privacy.certificate import Certificate
from ..privacy.ledger import BudgetSpender, Ledger
from ..privacy.mechanisms import GaussianRelease, gaussian_sigma
from ..privacy.randomness import Randomness
from ..solvers.base import BasePlan
from .linear import LinearModel
from .scoring import ModelScores

Floats = NDArray[np.float64]
Values = dict[str, float]

LOSS_CAP = 5.0
"""A row's log-loss counts up to here where it is released with noise."""

PINBALL, LARGEST = "pinball loss", "always the largest class"
_NO_QUANTILE = "The file has no plan, so it is not known which quantile the model estimates."
_NO_BASELINE = "No baseline: the best constant guess is not public, others say little."


@dataclass(frozen=True)
class Metrics:
    """Numbers about a model on some rows, beside those of a model that looks at no feature."""

    rows: int  # that were counted
    values: Values
    baseline: Values  # empty where none is public
    baseline_is: str
    about: str = ""  # how to read them, a sentence
    errors: Values | None = None  # twice the standard deviation of the noise, where there is noise
    certificate: Certificate | None = None

    def to_json(self) -> dict[str, Any]:
        """Return JSON values; what is not defined is null."""
        plain = {name: _finite(getattr(self, name)) for name in ("values", "baseline")}
        record: dict[str, Any] = {"rows": self.rows, **plain, "baseline_is": self.baseline_is}
        if self.about:
            record["about"] = self.about
        if self.errors is not None:
            record["two_sigma"] = _finite(self.errors)
        return record

    def __str__(self) -> str:
        lines = [f"{'':<14}{'model':>14}{self.baseline_is if self.baseline else '':>28}".rstrip()]
        for name, value in self.values.items():
            note = "" if self.errors is None else f"  +- {self.errors[name]:.2g} (noise)"
            other = f"{_shown(self.baseline[name]):>28}" if self.baseline else ""
            lines.append(f"{name:<14}{_shown(value):>14}{other}{note}")
        return "\n".join([*lines, self.about] if self.about else lines)


def quantile_of(plan: BasePlan | None) -> float | None:
    """Return the quantile that a plan's model estimates; None for other models, and no plan."""
    loss = None if plan is None else plan.problem.loss
    return loss.quantile if isinstance(loss, Pinball) else None


def measure(
    model: LinearModel, X: Any, labels: Floats, *, quantile: float | None = None
) -> Metrics:
    """Return plain metrics.

    Args:
        model: predicts.
        X: (rows, d), whatever `from_arrays` takes.
        labels: numbers; or for classes their places 0, 1, ... in the declared order. Rows with
            another label, or NaN, are left out, and so are rows with an entry that is missing or
            not finite.
        quantile: that a quantile model estimates; where it is not known, it is measured as a model
            of the middle.
    """
    X, labels = usable(model, X, labels)
    known = np.isfinite(labels)
    count = int(known.sum())
    if count == 0:
        raise ParameterError("no row has a label that can be used, so nothing can be measured.")
    X, labels = X[np.flatnonzero(known)], labels[known]
    if model.classes is None:
        metrics = _measure_numbers(model.predict(X), labels, quantile)
        unknown = model.name == "quantile" and quantile is None
        return replace(metrics, about=_NO_QUANTILE) if unknown else metrics
    return _measure_classes(model, X, labels.astype(np.int64))


def measure_privately(
    model: LinearModel,
    X: Any,
    labels: Floats,
    budget: Budget,
    *,
    quantile: float | None = None,
    odometer: BudgetSpender | None = None,
    randomness: Randomness | None = None,
) -> Metrics:
    """Return noisy metrics of private rows, with a certificate of what they cost.

    Args:
        model, X, labels, quantile: as in `measure`.
        budget: what may be spent.
        odometer: pays out of a shared budget.
        randomness: secure by default.

    Raises:
        AssumptionError: the adjacency is add_remove, under which n is not public.
        BudgetError: the odometer has not enough left; nothing is released.
        ParameterError: the model is of numbers, and knows no range.
    """
    _check_adjacency(budget)
    query = ModelScores(model, quantile)
    with np.errstate(all="ignore"):  # a warning could tell something of the rows
        rows = parts(model, X, labels, quantile)[1]
    return _measured(
        query,
        lambda: sum_rows(rows),
        len(labels),
        budget,
        odometer=odometer,
        randomness=randomness,
    )


def measure_table(
    model: LinearModel,
    table: Table,
    budget: Budget,
    *,
    quantile: float | None = None,
    odometer: BudgetSpender | None = None,
    randomness: Randomness | None = None,
) -> Metrics:
    """Return noisy metrics of a table's rows, wherever they lie; otherwise as `measure_privately`.

    Args:
        model, budget, quantile, odometer, randomness: as in `measure_privately`.
        table: of rows that an encoder makes, with labels.

    Raises:
        DataError: the table has other columns or labels than the model.
    """
    _check_adjacency(budget)
    query = ModelScores(model, quantile)
    if table.encoded is None or table.d != model.d:
        raise DataError(
            f"the model is for encoded rows of {model.d} numbers with labels, and the table is "
            f"{table!r}. Make it with encoder=TableEncoder(schema), of the model's schema."
        )
    rule = table.encoded.rule
    classes = (-1, 1) if rule == "sign" else table.encoded.classes
    if classes != (None if model.classes is None else tuple(model.classes)):
        raise DataError(
            f"the model predicts {_labels_in_words(model.classes)}, and the table's labels are "
            f"{_labels_in_words(classes)}. Make it with the model's own schema, in which classes "
            "stand in the model's order."
        )
    bounds = query.bounds(rule)
    table.check(bounds, order="given")  # a sum does not depend on the order
    return _measured(
        query,
        lambda: table.bounded(bounds, order="given", copy=False).sum(query),
        table.n,
        budget,
        trusted=[each for each in table.trusted("given") if each != UNCHOSEN],
        odometer=odometer,
        randomness=randomness,
    )


def _labels_in_words(classes: Sequence[Any] | None) -> str:
    """Return what labels are; classes are public."""
    return "numbers" if classes is None else f"the classes {shown(list(classes))}"


def _check_adjacency(budget: Budget) -> None:
    """Refuse a budget under which the number of rows is not public."""
    if budget.adjacency is Adjacency.ADD_REMOVE:
        raise AssumptionError(
            "metrics are means over a public number of rows, which add_remove would have to hide. "
            "Use replace_one or zero_out."
        )


def _measured(
    query: ModelScores,
    total: Callable[[], Floats],
    n: int,
    budget: Budget,
    *,
    trusted: Sequence[str] = (),
    odometer: BudgetSpender | None = None,
    randomness: Randomness | None = None,
) -> Metrics:
    """Release a sum of parts with noise, and return what it says."""
    model, names, bound, diameter = query.model, query.names, query.bound, query.diameter
    rows = (0, n)
    sigma = gaussian_sigma(budget, bound=bound, rows=rows, diameter=diameter)
    exact = total()  # before anything is paid for
    ledger = Ledger(
        GaussianRelease(bound, sigma, diameter, rows=rows),
        budget,
        randomness=randomness,
        enforced=query.enforced,
        trusted=trusted,
        odometer=odometer,
        label="evaluate",
    )
    noise = {"bound": bound, "sigma": sigma, "diameter": diameter}
    means = ledger.gaussian(exact, rows=rows, **noise) / n
    certificate = ledger.close()
    noisy = dict(zip(names, map(float, means), strict=True))
    if model.classes is None:
        return _noisy_numbers(model, noisy, 2.0 * sigma / n, n, certificate, query.quantile)
    return _noisy_classes(model, noisy, 2.0 * sigma / n, n, certificate)


def parts(
    model: LinearModel, X: Any, labels: Floats, quantile: float | None = None
) -> tuple[list[str], Floats]:
    """Return the names of the parts that a row adds, and the parts; rows without label add 0."""
    X, labels = usable(model, X, labels)
    known = np.isfinite(labels)
    if model.classes is None:
        low, high = _range_of(model)
        clipped = np.clip(np.where(known, labels, low), low, high)
        predicted = model.predict(X)
        if quantile is None:
            off = np.abs(predicted - clipped) / (high - low)
            names, columns = ["mae", "mse"], [off, off**2]
        else:
            names = ["pinball", "coverage"]
            columns = [
                pinball(predicted, clipped, quantile) / (high - low),
                (clipped <= predicted).astype(float),
            ]
    else:
        places = np.where(known, labels, 0).astype(np.int64)
        names, columns = ["accuracy"], [(model.places(X) == places).astype(float)]
        if model.odds:
            names.append("log-loss")
            columns.append(np.minimum(log_losses(model, X, places), LOSS_CAP) / LOSS_CAP)
        names += [f"class {k}" for k in range(len(model.classes))]
        columns += [(places == k).astype(float) for k in range(len(model.classes))]
    parts = np.clip(np.column_stack(columns), 0.0, 1.0)
    return names, np.where(known[:, None] & np.isfinite(parts), parts, 0.0)


def most(model: LinearModel, names: Sequence[str]) -> int:
    """Return how many of a row's parts can be 1 at once: of the classes one."""
    return len(names) - (0 if model.classes is None else len(model.classes) - 1)


def _noisy_numbers(
    model: LinearModel,
    noisy: Values,
    spread: float,
    n: int,
    certificate: Certificate,
    quantile: float | None,
) -> Metrics:
    """Return noisy means in the units of the label; the best constant is not public."""
    low, high = _range_of(model)
    width = high - low
    if quantile is not None:
        values = {PINBALL: noisy["pinball"] * width, "coverage": noisy["coverage"]}
        errors = {PINBALL: spread * width, "coverage": spread}
        about = f"{_NO_BASELINE} {_coverage(quantile)}"
        return Metrics(n, values, {}, "", about, errors, certificate)
    values = {"MAE": noisy["mae"] * width, "RMSE": _root(noisy["mse"]) * width}
    errors = {"MAE": spread * width}
    errors["RMSE"] = spread * width**2 / (2 * values["RMSE"]) if values["RMSE"] else math.nan
    about = f"{_NO_BASELINE} {_NO_QUANTILE}" if model.name == "quantile" else _NO_BASELINE
    return Metrics(n, values, {}, "", about, errors, certificate)


def _noisy_classes(
    model: LinearModel, noisy: Values, spread: float, n: int, certificate: Certificate
) -> Metrics:
    """Return noisy shares and losses, beside the largest noisy share."""
    assert model.classes is not None
    values, errors = {"accuracy": noisy["accuracy"]}, {"accuracy": spread}
    shares = [noisy[f"class {k}"] for k in range(len(model.classes))]
    baseline = {"accuracy": max(shares)}
    if "log-loss" in noisy:
        values["log-loss"], errors["log-loss"] = noisy["log-loss"] * LOSS_CAP, spread * LOSS_CAP
        baseline["log-loss"] = _entropy(shares)
    return Metrics(n, values, baseline, LARGEST, errors=errors, certificate=certificate)


def _measure_numbers(predicted: Floats, labels: Floats, quantile: float | None) -> Metrics:
    off = predicted - labels
    values: Values = {}
    baseline: Values = {}
    about = ""
    if quantile is not None:
        constant = np.full(len(labels), np.quantile(labels, quantile, method="inverted_cdf"))
        for scores, guess in ((values, predicted), (baseline, constant)):
            scores[PINBALL] = float(pinball(guess, labels, quantile).mean())
            scores["coverage"] = float((labels <= guess).mean())
        about = _coverage(quantile)
    values["MAE"], values["RMSE"] = float(np.abs(off).mean()), _root(float((off**2).mean()))
    baseline["MAE"] = float(np.abs(labels - np.median(labels)).mean())
    baseline["RMSE"] = _root(float(((labels - labels.mean()) ** 2).mean()))
    return Metrics(len(labels), values, baseline, "best constant", about)


def pinball(predicted: Floats, labels: Floats, quantile: float) -> Floats:
    """Return the pinball loss of each row."""
    return Pinball(quantile).value(predicted, labels)


def usable(model: LinearModel, X: Any, labels: Any) -> tuple[Any, Floats]:
    """Return rows that a model can read, and a label of NaN for each that does not count.

    What counts is a row of finite numbers whose label is a number, or the place of a class. No
    entry is refused: an error could tell something of a row.
    """
    rows, values = raw_rows(X), np.asarray(labels, dtype=float)
    if values.shape != (len(rows),):
        raise ParameterError(f"{len(rows)} rows need as many labels, got shape {values.shape}.")
    counts = np.isfinite(values)
    if model.classes is not None:
        counts = np.isin(values, np.arange(len(model.classes)))
    if isinstance(rows, SparseRows):
        matrix = rows.matrix()
        finite = np.isfinite(matrix.data)
        counts[np.repeat(np.arange(len(rows)), np.diff(matrix.indptr))[~finite]] = False
        matrix.data = np.where(finite, matrix.data, 0.0)
        return matrix, np.where(counts, values, np.nan)
    finite = np.isfinite(rows)
    counts &= finite.all(axis=1)
    return np.where(finite, rows, 0.0), np.where(counts, values, np.nan)


def _coverage(quantile: float) -> str:
    return f"coverage: the share of labels at or below the prediction; the aim is {quantile:g}."


def _measure_classes(model: LinearModel, X: Any, places: NDArray[np.int64]) -> Metrics:
    assert model.classes is not None
    counts = np.bincount(places, minlength=len(model.classes))
    values = {"accuracy": float((model.places(X) == places).mean())}
    baseline = {"accuracy": float(counts.max() / counts.sum())}
    if model.odds:
        values["log-loss"] = float(log_losses(model, X, places).mean())
        baseline["log-loss"] = _entropy(list(counts / counts.sum()))
    if len(model.classes) == 2:
        values["AUC"] = area_under_curve(model.decision(X), places == 1)
        baseline["AUC"] = 0.5
    return Metrics(len(places), values, baseline, LARGEST)


def area_under_curve(scores: Floats, positive: NDArray[np.bool_]) -> float:
    """Return the chance that a positive row scores above a negative one, ties counted half.

    NaN where one of them is missing.

    >>> area_under_curve(np.array([0.1, 0.4, 0.4, 0.9]), np.array([False, False, True, True]))
    0.875
    """
    ones = int(positive.sum())
    zeros = len(positive) - ones
    if not (ones and zeros):
        return math.nan
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2.0)[inverse.reshape(-1)]
    return float((ranks[positive].sum() - ones * (ones + 1) / 2) / (ones * zeros))


def log_losses(model: LinearModel, X: Any, places: NDArray[np.int64]) -> Floats:
    """Return the log-loss of each row."""
    chance = model.probabilities(X)[np.arange(len(places)), places]
    return np.asarray(-np.log(np.maximum(chance, np.finfo(float).tiny)))


def _range_of(model: LinearModel) -> tuple[float, float]:
    if model.label_range is None:
        raise ParameterError("noisy metrics of a regression need a model with a label range.")
    return model.label_range


def _entropy(shares: Sequence[float]) -> float:
    """Return the log-loss of a model that knows the classes' shares alone."""
    present = [min(share, 1.0) for share in shares if share > 0.0]
    return float(-sum(share * math.log(share) for share in present)) + 0.0


def _root(value: float) -> float:
    """Return the root of a mean square, which noise can make negative."""
    return math.sqrt(max(value, 0.0))


def _finite(values: Values) -> dict[str, float | None]:
    return {name: value if math.isfinite(value) else None for name, value in values.items()}


def _shown(value: float) -> str:
    return f"{value:.4g}" if math.isfinite(value) else "undefined"


def label_places(labels: Floats | None, label: Label | None) -> Floats:
    """Return an encoder's labels as `measure` reads them: signs become the places 0 and 1."""
    assert labels is not None  # the schema declares a label
    if not isinstance(label, SignLabel):
        return labels
    with np.errstate(invalid="ignore"):
        return np.where(np.abs(labels) == 1.0, (labels + 1.0) / 2.0, np.nan)
