"""Tilted objectives for certified minimisation: gradients with a bound on their own rounding.

    J(w) = 1/n sum_i f(w; z_i) + <linear, w> + ridge/2 ||w - centre||^2

Nothing here is private: only a mechanism that accounts for minimisers may read it. No values of J
are offered: clipping the slope of a margin loss keeps it convex, but its antiderivative has no
closed form, and gradients alone certify a minimiser.

Every row of a margin loss enters as ``psi(u) = clip(phi'(u), +- clip / ||x||)``, the derivative of
a convex function with no larger curvature, so ``|psi| ||x|| <= clip`` holds by construction.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
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
Leaf = tuple[Any, Floats, Floats]  # rows (dense or SciPy sparse), labels, largest slopes

UNIT = 2.0**-53  # rounding of one operation
SLOPE_ERROR = 2.0**-46  # of a computed slope, relative to its bound; bisection leaves 2^-48
_LEAF_BYTES = 1 << 22  # rows that stay in a cache between their two products
_SINGLE_RANGE = (1e-20, 1e20)  # of curvature: squares of rows beyond leave the range of float32
_SINGLE_CONDITION = 1e5  # up to which rounding to single precision leaves a Hessian of use
_SINGLE_FLOPS = 1e7  # products of a Hessian from which on it saves time
_SINGLE_WEIGHTS = 300  # whose eigenvalues cost little beside the Hessian
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


def leaf_rows(columns: int) -> int:
    """Return how many dense rows are summed in one go."""
    return max(32, min(SUM_LEAF, _LEAF_BYTES // (8 * columns)))


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


class Tilted(ABC):
    """J as a certified minimiser asks for it; a subclass sums over the rows.

    Args:
        source: of the rows.
        clip, curvature: bounds on a row's gradient and Hessian.
        linear, ridge, centre: the public terms of J.
        classes, steepness: as `gradient_rounding` takes them.
    """

    _dense = True  # whether rows are summed in the small leaves of dense ones

    def __init__(
        self,
        source: Source,
        *,
        clip: float,
        curvature: float,
        linear: Floats,
        ridge: float,
        centre: Floats,
        classes: int = 1,
        steepness: float = 0.0,
    ) -> None:
        self._source, self._clip, self._curvature = source, clip, curvature
        self._linear, self._ridge, self._centre = linear, ridge, centre
        self._classes, self._steepness = classes, steepness

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of weights."""

    @property
    def strong_convexity(self) -> float:
        """A lower bound on the curvature of J: the ridge."""
        return self._ridge

    @property
    def smoothness(self) -> float:
        """An upper bound on it: the rows' curvature and the ridge."""
        return self._curvature + self._ridge

    @property
    def single(self) -> bool:
        """Whether `hessian` is right in single precision only."""
        return False

    @property
    def divisible(self) -> int:
        """How many rows there are, if J can be made of a `part` of them; else 0."""
        return 0

    def part(self, rows: int) -> Tilted:
        """Return J with the mean over the first ``rows`` rows; of all if it is not divisible."""
        return self

    def rough(self) -> Tilted:
        """Return J with products in single precision where these save time; else J itself.

        For points and models on the way to a minimiser, of which nothing is certified.
        """
        return self

    @abstractmethod
    def gradient(self, weights: Floats) -> Floats:
        """Return the gradient of J, up to `rounding`."""

    @abstractmethod
    def steepest(self, weights: Floats) -> float:
        """Return a bound on the gradient's length that no row has a say in."""

    @abstractmethod
    def hessian(self, weights: Floats, spread: float) -> Floats:
        """Return about the Hessian of J, or what stands for it within ``spread`` of the weights."""

    @abstractmethod
    def hessian_product(self, weights: Floats, spread: float) -> Callable[[Floats], Floats]:
        """Return a function that multiplies a vector by it."""

    def rounding(self, weights: Floats) -> float:
        """Return a bound on the l2 error of the computed gradient."""
        norm = max(float(np.linalg.norm(weights)), float(np.linalg.norm(self._centre)))
        return gradient_rounding(
            rows=self._source.n,
            columns=self._source.d,
            clip=self._clip,
            curvature=self._curvature,
            tilt=float(np.linalg.norm(self._linear)),
            ridge=self._ridge,
            max_norm=norm * (1 + 1e-9),
            classes=self._classes,
            dense=self._dense,
            steepness=self._steepness,
        )


class GlmObjective(Tilted):
    """J for a loss of one margin whose slope is clipped; see the module's head."""

    def __init__(self, source: Source, loss: Slopes, **terms: Any) -> None:
        super().__init__(source, **terms)
        require_labels(loss, source.bounds.label)
        self._loss = loss
        self._rows = source.n  # of which the mean is taken
        self._in_memory: list[Leaf] | None = None
        if isinstance(source, MemorySource):
            self._in_memory = list(self._split(source.rows()))

    @property
    def size(self) -> int:
        """The number of weights."""
        return self._source.d

    @property
    def divisible(self) -> int:
        """The rows."""
        return self._rows

    def part(self, rows: int) -> GlmObjective:
        """Return J with the mean over the first ``rows`` rows."""
        few = copy.copy(self)
        few._rows = rows
        if self._in_memory is not None:
            few._in_memory = list(_first(self._in_memory, rows))
        return few

    def rough(self) -> GlmObjective:
        """Return J with rows in single precision, where Hessians are and the rows can be had so."""
        rows = self._source.rows().single() if self.single else None
        if rows is None:
            return self
        assert self._in_memory is not None  # or Hessians were in double precision
        rough, start, leaves = copy.copy(self), 0, []
        for _, labels, limit in self._in_memory:
            leaves.append((rows[start : start + len(labels)], labels, limit))
            start += len(labels)
        rough._in_memory = leaves
        return rough

    @property
    def single(self) -> bool:
        """Whether Hessians are summed in single precision: large ones, far from singular."""
        first = self._in_memory[0][0] if self._in_memory is not None else None
        if not isinstance(first, np.ndarray):
            return False
        if first.dtype == np.float32:  # rows of `rough`
            return True
        far = self.smoothness <= _SINGLE_CONDITION * self.strong_convexity
        large = self._rows * self.size**2 >= _SINGLE_FLOPS and self.size <= _SINGLE_WEIGHTS
        within = _SINGLE_RANGE[0] <= self.smoothness <= _SINGLE_RANGE[1]
        return far and large and within

    def gradient(self, weights: Floats) -> Floats:
        """Return the gradient of J."""
        total = PairwiseSum()
        with np.errstate(all="ignore"):
            for rows, labels, limit in self._leaves():
                slopes = self._slopes(_product(rows, weights), labels, limit)
                total.add(_product(rows.T, slopes))
            mean = total.result() / self._rows
        return np.asarray(mean + self._linear + self._ridge * (weights - self._centre))

    def steepest(self, weights: Floats) -> float:
        """Return a bound on the gradient's length: the clip and the public terms."""
        tilt, away = np.linalg.norm(self._linear), np.linalg.norm(weights - self._centre)
        return (self._clip + float(tilt) + self._ridge * float(away)) * (1 + 1e-9)

    def hessian(self, weights: Floats, spread: float) -> Floats:
        """Return the Hessian of J, with the rows' mean curvatures within ``spread``."""
        total = self._ridge * np.eye(self.size)
        kind: type = np.float32 if self.single else np.float64
        with np.errstate(all="ignore"):
            for rows, labels, limit in self._leaves():
                margins = _product(rows, weights)
                root = np.sqrt(self._curvatures(margins, labels, limit, spread) / self._rows)
                if isinstance(rows, np.ndarray):
                    # Bounded by the curvature, while rows may leave the range of float32.
                    scaled: Any = (rows * root.astype(rows.dtype)[:, None]).astype(kind, copy=False)
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
            return np.asarray(total / self._rows + self._ridge * vector)

        return product

    def _slopes(self, margins: Floats, labels: Floats, limit: Floats) -> Floats:
        """Return the clipped slopes; one that is not finite counts as 0, a rule for its row."""
        slopes = np.maximum(self._loss.slope(margins, labels), -limit)
        np.minimum(slopes, limit, out=slopes)
        return np.where(np.isfinite(slopes), slopes, 0.0)

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
        for block in self._source.blocks(0, self._rows):
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


def _product(rows: Any, vector: Floats) -> Floats:
    """Return rows times a vector, to the precision of the rows."""
    return np.asarray(rows @ vector.astype(rows.dtype, copy=False), dtype=np.float64)


def _first(leaves: list[Leaf], count: int) -> Iterator[Leaf]:
    """Yield leaves of the first ``count`` rows."""
    for rows, labels, limit in leaves:
        if count <= 0:
            return
        yield rows[:count], labels[:count], limit[:count]
        count -= len(labels)


class VectorObjective(Tilted):
    """J for a vector loss with the bounds that hold on the whole space: nothing is clipped."""

    def __init__(self, source: Source, loss: VectorLoss, **terms: Any) -> None:
        super().__init__(source, **terms)
        self._inner: Objective = source.objective(
            loss, linear=self._linear, ridge=self._ridge, centre=self._centre
        )

    @property
    def size(self) -> int:
        """The number of weights."""
        return self._inner.size

    def gradient(self, weights: Floats) -> Floats:
        """Return the gradient of J."""
        return self._inner.gradient(weights)

    def steepest(self, weights: Floats) -> float:
        """Return a bound on the gradient's length: the loss's own and the public terms."""
        away = float(np.linalg.norm(weights)) + float(np.linalg.norm(self._centre))
        tilt = float(np.linalg.norm(self._linear))
        return (self._clip + tilt + self._ridge * away) * (1 + 1e-9)

    def hessian(self, weights: Floats, spread: float) -> Floats:
        """Return the Hessian of J; vector losses are smooth, whatever the spread."""
        return self._inner.hessian(weights)

    def hessian_product(self, weights: Floats, spread: float) -> Callable[[Floats], Floats]:
        """Return a function that multiplies a vector by that Hessian."""
        return lambda vector: self._inner.hessian_product(weights, vector)
