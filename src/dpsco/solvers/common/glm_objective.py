"""Tilted objectives for certified minimisation: gradients with a bound on their own rounding.

    J(w) = 1/n sum_i f(w; z_i) + <linear, w> + ridge/2 ||w - centre||^2

Nothing here is private: only a mechanism that accounts for minimisers may read it. No values of J
are offered: clipping the slope of a margin loss keeps it convex, but its antiderivative has no
closed form, and gradients alone certify a minimiser.

Every row of a margin loss enters as ``psi(u) = clip(phi'(u), +- clip / ||x||)``, the derivative of
a convex function with no larger curvature, so ``|psi| ||x|| <= clip`` holds by construction.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...data.block import Block
from ...data.labels import require_labels
from ...data.objective import Objective
from ...data.source import MemorySource, Source
from ...geometry.norms import L2
from ...kernels.pairwise import SUM_LEAF, PairwiseSum
from ...kernels.rows import SparseRows
from ...kernels.slope import Slope
from ...losses.vector import VectorLoss

Floats = NDArray[np.float64]
Leaf = tuple[Any, Floats, Floats]  # rows (dense float or SciPy sparse), labels, largest slopes

UNIT = 2.0**-53  # rounding of one operation
SLOPE_ERROR = 2.0**-46  # of a computed slope, relative to its bound; bisection leaves 2^-48
_LEAF_BYTES = 1 << 19  # rows that stay in the second-level cache between their two products
_ALIGNED = 20  # weights up to which a row may lie along a step
_BELOW = 1.0 - 2.0**-50


class Slopes(Protocol):
    """What an objective asks of a loss of one margin."""

    @property
    def labels(self) -> str:
        """Which labels it takes."""

    @property
    def name(self) -> str:
        """For messages."""

    def kernel(self) -> Slope:
        """Return the slopes as the loops take them."""

    def slope(self, margin: ArrayLike, label: ArrayLike) -> Floats:
        """Return the slopes."""

    def slope_bound(self, label: float, margin: float) -> float:
        """Return a bound on them."""


class Tilted(Protocol):
    """What a certified minimiser asks of an objective."""

    @property
    def size(self) -> int:
        """The number of weights."""

    @property
    def strong_convexity(self) -> float:
        """A lower bound on the curvature of J: the ridge."""

    @property
    def smoothness(self) -> float:
        """An upper bound on it."""

    def gradient(self, weights: Floats) -> Floats:
        """Return the gradient of J, up to `rounding`."""

    def steepest(self, weights: Floats) -> float:
        """Return a bound on the gradient's length that no row has a say in."""

    def hessian(self, weights: Floats, spread: float) -> Floats:
        """Return about the Hessian of J, or what stands for it within ``spread`` of the weights."""

    def hessian_product(self, weights: Floats, spread: float) -> Callable[[Floats], Floats]:
        """Return a function that multiplies a vector by it."""

    def rounding(self, weights: Floats) -> float:
        """Return a bound on the l2 error of the computed gradient."""


def leaf_rows(columns: int) -> int:
    """Return how many dense rows are summed in one go."""
    return max(32, min(1024, _LEAF_BYTES // (8 * columns)))


def gradient_rounding(
    *,
    rows: int,
    columns: int,
    clip: float,
    curvature: float,
    tilt: float,
    ridge: float,
    max_norm: float,
    classes: int = 1,
    dense: bool = True,
    steepness: float = 0.0,
) -> float:
    """Return how far, in l2, a computed gradient of J can lie from the exact one.

    With gamma_k = k u / (1 - k u), in any order of summation (Higham 2002, sec. 3.1 and 4.2): a
    margin is off by gamma_columns ||x|| ||w||, which moves a row's gradient by curvature *
    gamma_columns ||w||; a slope by `SLOPE_ERROR`; a leaf's sum by gamma_leaf times the sum of the
    lengths, at most clip each; leaves are added pairwise; the public terms by a few roundings.

    Args:
        rows, columns: of the table.
        clip, curvature: bounds on a row's gradient and Hessian.
        tilt: the norm of the linear term.
        ridge: of the quadratic term.
        max_norm: a bound on ||w|| and on the centre's norm.
        classes: scores of a row.
        dense: whether rows are dense; sparse ones and vector losses are summed in larger leaves.
        steepness: what the error of a slope is relative to, if longer than the clip; times ||x||.
    """
    leaf = leaf_rows(columns) if dense and classes == 1 else SUM_LEAF
    margins = curvature * _gamma(columns + 2) * max_norm
    slopes = SLOPE_ERROR * max(classes * clip, steepness)
    sums = _gamma(min(rows, leaf) + math.ceil(math.log2(rows + 1)) + 4) * clip
    public = 8 * UNIT * (tilt + 2 * ridge * max_norm + clip)
    return 1.01 * (margins + slopes + sums + public)


def steepness(loss: Slopes, *, feature: float, label: float) -> float:
    """Return what the error of a computed slope is relative to, times ||x||; 0: to the slope.

    Bisection leaves a share of the loss's bound, however hard the slope is cut afterwards, and the
    slope of a count is a difference of numbers as large as the label.
    """
    kernel = loss.kernel()
    if kernel.smoothing > 0.0:
        return kernel.bound * feature
    return loss.slope_bound(label, 0.0) * feature if loss.labels == "count" else 0.0


def _gamma(count: int) -> float:
    return count * UNIT / (1 - count * UNIT)


class GlmObjective:
    """J for a loss of one margin whose slope is clipped; see the module's head."""

    def __init__(
        self,
        source: Source,
        loss: Slopes,
        *,
        clip: float,
        curvature: float,
        linear: Floats,
        ridge: float,
        centre: Floats,
        steepness: float = 0.0,
    ) -> None:
        require_labels(loss, source.bounds.label)
        self._steepness = steepness
        self._source, self._loss, self._clip, self._curvature = source, loss, clip, curvature
        self._linear, self._ridge, self._centre = linear, ridge, centre
        self._in_memory: list[Leaf] | None = None
        self._dense = True
        if isinstance(source, MemorySource):
            self._in_memory = list(self._split(source.rows()))

    @property
    def size(self) -> int:
        """The number of weights."""
        return self._source.d

    @property
    def strong_convexity(self) -> float:
        """The ridge."""
        return self._ridge

    @property
    def smoothness(self) -> float:
        """The rows' curvature and the ridge."""
        return self._curvature + self._ridge

    def gradient(self, weights: Floats) -> Floats:
        """Return the gradient of J."""
        total = PairwiseSum()
        with np.errstate(all="ignore"):
            for rows, labels, limit in self._leaves():
                total.add(rows.T @ self._slopes(rows @ weights, labels, limit))
            mean = total.result() / self._source.n
        return np.asarray(mean + self._linear + self._ridge * (weights - self._centre))

    def steepest(self, weights: Floats) -> float:
        """Return a bound on the gradient's length: the clip and the public terms."""
        tilt, away = np.linalg.norm(self._linear), np.linalg.norm(weights - self._centre)
        return (self._clip + float(tilt) + self._ridge * float(away)) * (1 + 1e-9)

    def hessian(self, weights: Floats, spread: float) -> Floats:
        """Return the Hessian of J, with the rows' mean curvatures within ``spread``."""
        total = self._ridge * np.eye(self.size)
        with np.errstate(all="ignore"):
            for rows, labels, limit in self._leaves():
                curvature = self._curvatures(rows @ weights, labels, limit, spread)
                root = np.sqrt(curvature / self._source.n)
                if isinstance(rows, np.ndarray):
                    scaled = rows * root[:, None]
                    total += scaled.T @ scaled
                else:
                    scaled = rows.multiply(root[:, None]).tocsr()
                    total += (scaled.T @ scaled).toarray()
        return total

    def hessian_product(self, weights: Floats, spread: float) -> Callable[[Floats], Floats]:
        """Return a function that multiplies a vector by that Hessian."""
        with np.errstate(all="ignore"):
            curvatures = [
                self._curvatures(rows @ weights, labels, limit, spread)
                for rows, labels, limit in self._leaves()
            ]

        def product(vector: Floats) -> Floats:
            total = np.zeros(self.size)
            with np.errstate(all="ignore"):
                for (rows, _, _), curvature in zip(self._leaves(), curvatures, strict=True):
                    total += rows.T @ (curvature * (rows @ vector))
            return np.asarray(total / self._source.n + self._ridge * vector)

        return product

    def rounding(self, weights: Floats) -> float:
        """Return a bound on the l2 error of `gradient`."""
        norm = max(float(np.linalg.norm(weights)), float(np.linalg.norm(self._centre)))
        return gradient_rounding(
            rows=self._source.n,
            columns=self.size,
            clip=self._clip,
            curvature=self._curvature,
            tilt=float(np.linalg.norm(self._linear)),
            ridge=self._ridge,
            max_norm=norm * (1 + 1e-9),
            dense=self._dense,
            steepness=self._steepness,
        )

    def _slopes(self, margins: Floats, labels: Floats, limit: Floats) -> Floats:
        """Return the clipped slopes; one that is not finite counts as 0, a rule for its row."""
        slopes = np.clip(self._loss.slope(margins, labels), -limit, limit)
        slopes[~np.isfinite(slopes)] = 0.0
        return slopes

    def _curvatures(self, margins: Floats, labels: Floats, limit: Floats, spread: float) -> Floats:
        """Return the mean curvatures over the margins that weights within ``spread`` give.

        Slopes that are clipped or jump change their curvature at once. Its value at one
        margin says little of the next step, and Newton's method then takes three times the steps.
        """
        # spread ||x||, of which a row sees the less the more directions there are to move in.
        wide = spread * self._clip / limit / max(1.0, math.sqrt(self.size / _ALIGNED))
        ahead = self._slopes(margins + wide, labels, limit)
        curvature = (ahead - self._slopes(margins - wide, labels, limit)) / (2.0 * wide)
        return np.where(np.isfinite(curvature), np.maximum(curvature, 0.0), 0.0)

    def _leaves(self) -> Iterator[Leaf]:
        """Yield the rows, a leaf at a time: kept if they are in memory anyway."""
        if self._in_memory is not None:
            yield from self._in_memory
            return
        for block in self._source.blocks():
            yield from self._split(block)

    def _split(self, block: Block) -> Iterator[Leaf]:
        """Yield a block in leaves, each with the largest slope that its rows may have."""
        norms = block.norms_in(L2)
        with np.errstate(all="ignore"):
            limit = np.where(norms > 0.0, self._clip / norms * _BELOW, np.inf)
        sparse = isinstance(block.rows, SparseRows)
        self._dense = not sparse
        step = SUM_LEAF if sparse else leaf_rows(block.d)
        for start in range(0, len(block), step):
            part = slice(start, start + step)
            rows = block.rows[part]
            matrix = (
                rows.matrix().astype(np.float64)
                if isinstance(rows, SparseRows)
                else np.asarray(rows, dtype=np.float64)
            )
            yield matrix, block.labels[part], limit[part]


class VectorObjective:
    """J for a vector loss with the bounds that hold on the whole space: nothing is clipped."""

    def __init__(
        self,
        source: Source,
        loss: VectorLoss,
        *,
        clip: float,
        curvature: float,
        linear: Floats,
        ridge: float,
        centre: Floats,
        classes: int,
    ) -> None:
        terms: dict[str, Any] = {"linear": linear, "ridge": ridge, "centre": centre}
        self._inner: Objective = source.objective(loss, **terms)
        self._n, self._columns, self._classes = source.n, source.d, classes
        self._clip, self._curvature, self._ridge = clip, curvature, ridge
        self._tilt = float(np.linalg.norm(linear))
        self._centre = float(np.linalg.norm(centre))

    @property
    def size(self) -> int:
        """The number of weights."""
        return self._inner.size

    @property
    def strong_convexity(self) -> float:
        """The ridge."""
        return self._ridge

    @property
    def smoothness(self) -> float:
        """The rows' curvature and the ridge."""
        return self._curvature + self._ridge

    def gradient(self, weights: Floats) -> Floats:
        """Return the gradient of J."""
        return self._inner.gradient(weights)

    def steepest(self, weights: Floats) -> float:
        """Return a bound on the gradient's length: the loss's own and the public terms."""
        away = float(np.linalg.norm(weights)) + self._centre
        return (self._clip + self._tilt + self._ridge * away) * (1 + 1e-9)

    def hessian(self, weights: Floats, spread: float) -> Floats:
        """Return the Hessian of J; vector losses are smooth, whatever the spread."""
        return self._inner.hessian(weights)

    def hessian_product(self, weights: Floats, spread: float) -> Callable[[Floats], Floats]:
        """Return a function that multiplies a vector by that Hessian."""
        return lambda vector: self._inner.hessian_product(weights, vector)

    def rounding(self, weights: Floats) -> float:
        """Return a bound on the l2 error of `gradient`."""
        return gradient_rounding(
            rows=self._n,
            columns=self._columns,
            clip=self._clip,
            curvature=self._curvature,
            tilt=self._tilt,
            ridge=self._ridge,
            max_norm=max(float(np.linalg.norm(weights)), self._centre) * (1 + 1e-9),
            classes=self._classes,
        )
