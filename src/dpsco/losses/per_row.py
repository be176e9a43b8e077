"""A user's own loss of whole rows, given by its gradient.

Nothing is known of it but what the clipping of vectors enforces, so it suits solvers that add noise
to clipped sums. Convexity does not survive that clipping; solvers that rest on it say so under
``trusted``, or refuse.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._validate import flag, integer
from ..errors import ParameterError
from ..kernels.rows import Rows, SparseRows
from .base import Constants, Floats, Hoelder
from .guarded import UserLoss, run_guarded
from .vector import FULL_RANK, Structure, VectorLoss

RowFunction = Callable[[Floats, Floats, Floats], Any]


class _Record(NamedTuple):
    """What a user has given."""

    gradient: RowFunction
    dimension: int | None
    value: RowFunction | None
    convex: bool
    features: int | None
    name: str


class PerRowLoss(UserLoss, VectorLoss):
    """A loss given by ``gradient(weights, X, y)``, which returns one gradient a row.

    X is a dense (rows, d) matrix, y has one label a row, the result is (rows, dimension).

    Args:
        gradient: the function; each row of its result may depend on that row and the weights alone.
        dimension: the number of weights; None for as many as features.
        value: the loss itself, ``value(weights, X, y)`` with one number per row.
        convex: whether the loss is convex in the weights, which nothing here can verify.
        features: d, where the functions work for one number of features only.
        name: for messages and plans.

    Raises:
        ParameterError: a function fails on public probe rows, or mixes them with each other.

    >>> loss = PerRowLoss(lambda w, X, y: (X @ w - y)[:, None] * X, name="least squares")
    >>> loss.gradients([1.0, 0.0], np.array([[2.0, 1.0]]), [1.0])
    array([[2., 1.]])
    """

    def __init__(
        self,
        gradient: RowFunction,
        *,
        dimension: int | None = None,
        value: RowFunction | None = None,
        convex: bool = False,
        features: int | None = None,
        name: str = "per-row loss",
    ) -> None:
        if not callable(gradient) or not (value is None or callable(value)):
            raise ParameterError("gradient and value must be functions of (weights, X, y).")
        convex = flag("convex", convex)
        size = None if dimension is None else integer("dimension", dimension)
        columns = None if features is None else integer("features", features)
        self._keep(_Record(gradient, size, value, convex, columns, str(name)), convex=convex)
        self._probe()

    _record: _Record

    @property
    def trusted(self) -> tuple[str, ...]:
        """What no check can prove."""
        said = (
            f"{self.name}: the gradient of a row depends on that row and the weights alone, to "
            "float64 rounding whatever rows are with it",
        )
        return (*said, f"{self.name}: convex in the weights") if self.convex else said

    @property
    def structure(self) -> Structure:
        """Nothing is known."""
        return Structure("general")

    def dimension(self, d: int) -> int:
        """Return the number of weights; refuse another number of features than was stated."""
        size, features = self._record.dimension, self._record.features
        if features is not None and d != features:
            raise ParameterError(f"{self.name} was made for {features} features, got {d}.")
        return d if size is None else size

    def gradients(self, weights: ArrayLike, X: Rows, y: ArrayLike | None = None) -> Floats:
        """Return the gradient of each row; NaN for a row on which the function fails."""
        return self._each_row("gradient", weights, X, y)

    def value(self, weights: ArrayLike, X: Rows, y: ArrayLike | None = None) -> Floats:
        """Return the loss of each row, if its function was given; NaN where it fails."""
        return self._each_row("value", weights, X, y)

    def _each_row(self, which: str, weights: ArrayLike, X: Rows, y: ArrayLike | None) -> Floats:
        """Call a function so that no row can raise an error: that would tell something of it."""
        if which == "value" and self._record.value is None:
            raise ParameterError(
                f"{self.name} has no value: pass value=... to PerRowLoss to report losses."
            )
        w, rows, labels = self._inputs(weights, X, y)
        try:
            return self._call(which, w, rows, labels)
        except ParameterError:
            values = np.full(_shape(which, w, rows), np.nan)
        for k in range(len(rows)):
            with contextlib.suppress(ParameterError):
                values[k] = self._call(which, w, rows[k : k + 1], labels[k : k + 1])[0]
        return values

    def _call(self, which: str, w: Floats, rows: Floats, labels: Floats) -> Floats:
        """Call a function once; refuse a failure and a result of the wrong shape or type."""
        function: Any = self._record.gradient if which == "gradient" else self._record.value
        shape = _shape(which, w, rows)
        owner = f"the {which} of {self.name}"
        # The function gets copies: what it does to its arguments must not reach the rows.
        claims = (w.copy(), rows.copy(), labels.copy())
        result = run_guarded(owner, lambda *parts: np.asarray(function(*parts)), *claims)
        if result.shape != shape or result.dtype.kind not in "fiub":
            raise ParameterError(
                f"{owner} must return real numbers of shape {shape}; got shape {result.shape} and "
                f"dtype {result.dtype}."
            )
        return np.asarray(result, dtype=float)

    def constants(
        self, *, feature: float, label: float = 1.0, radius: float = math.inf
    ) -> Constants:
        """Return that nothing is bounded: all bounds come from clipping."""
        return Constants(
            lipschitz=math.inf,
            smoothness=math.inf,
            strong_convexity=0.0,
            weak_convexity=0.0 if self.convex else math.inf,
            hoelder=Hoelder(0.0, math.inf),
            gradient_at_zero=math.inf,
            value_at_zero=math.inf,
            curvature=math.inf,
            hessian_rank=FULL_RANK,
            convex=self.convex,
        )

    def _inputs(
        self, weights: ArrayLike, X: Rows, y: ArrayLike | None
    ) -> tuple[Floats, Floats, Floats]:
        """Return copies of weights, rows (dense) and labels (zeros if none), of fitting shapes."""
        dense = np.array(X.dense() if isinstance(X, SparseRows) else X, dtype=float)
        if dense.ndim != 2:
            raise ParameterError(f"{self.name} needs rows as a matrix, got shape {dense.shape}.")
        w = np.array(weights, dtype=float)
        labels = np.zeros(len(dense)) if y is None else np.array(y, dtype=float)
        shapes = (self.dimension(dense.shape[1]),), (len(dense),)
        if (w.shape, labels.shape) != shapes:
            raise ParameterError(
                f"{self.name} needs {shapes[0][0]} weights and {len(dense)} labels, got shapes "
                f"{w.shape} and {labels.shape}."
            )
        return w, dense, labels

    def _probe(self) -> None:
        """Call the functions on rows of zeros, and on others to see that rows are not mixed."""
        features = self._record.features
        d = features or self._record.dimension or 3
        weights, rows, labels = np.zeros(self.dimension(d)), np.zeros((3, d)), np.zeros(3)
        hint = "" if features else f" It was probed with {d} features: pass features=... if wrong."
        for which in ("gradient",) if self._record.value is None else ("gradient", "value"):
            try:
                self._call(which, weights, rows, labels)
            except ParameterError as error:
                raise ParameterError(f"On three rows of zeros: {error}{hint}") from None
            self._refuse_mixing(which, len(weights), d)

    def _refuse_mixing(self, which: str, size: int, d: int) -> None:
        """Compare three public rows at once with each of them alone."""
        weights = np.linspace(0.1, 0.2, size)
        rows, labels = np.cos(np.arange(3.0 * d)).reshape(3, d), np.array([1.0, -1.0, 1.0])
        parts = [slice(0, 3), slice(0, 1), slice(1, 2), slice(2, 3)]
        try:
            values = [self._call(which, weights, rows[p], labels[p]) for p in parts]
        except ParameterError:  # not defined for these rows; zeros have been tried
            return
        if not np.allclose(values[0], np.concatenate(values[1:]), rtol=1e-6, equal_nan=True):
            raise ParameterError(
                f"{self.name} mixes rows: three public rows together give other results than one "
                "by one. Each row's result may depend on that row and the weights alone (no means "
                "over rows, no batch statistics); privacy rests on it."
            )


def _shape(which: str, w: Floats, rows: Floats) -> tuple[int, ...]:
    """Return the shape of gradients or values of some rows."""
    return (len(rows), len(w)) if which == "gradient" else (len(rows),)
