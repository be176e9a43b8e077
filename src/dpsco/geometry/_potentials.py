"""Numerical parts of the mirror maps: duality map, divergence near equality, threshold, totals."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import ParameterError
from .norms import Lp

Floats = NDArray[np.float64]

LARGEST = float(np.finfo(float).max)
_SMALLEST = float(np.finfo(float).tiny)
_NEAR = 0.25  # relative change up to which power series replace differences
_TERMS = np.arange(2.0, 29.0)  # exponents of those series: 0.25**29 < 4e-18
_ENTROPY_SERIES = (-1.0) ** _TERMS / (_TERMS * (_TERMS - 1.0))
_ROUNDING = float(np.finfo(float).eps)
_MOST_ITERATIONS = 200


def vectors(**values: ArrayLike) -> tuple[Floats, ...]:
    """Return the named values as vectors of one length."""
    found = tuple(np.asarray(value, dtype=float) for value in values.values())
    shapes = {array.shape for array in found}
    if len(shapes) > 1 or found[0].ndim != 1 or found[0].size == 0:
        given = ", ".join(f"{name} {a.shape}" for name, a in zip(values, found, strict=True))
        raise ParameterError(f"a mirror map needs vectors of one length here, got {given}.")
    return found


def total(values: Floats) -> Floats:
    """Return the values with NaN as zero and infinity as the largest float."""
    if np.all(np.isfinite(values)):
        return values
    return np.nan_to_num(values, nan=0.0, posinf=LARGEST, neginf=-LARGEST)


def duality(vector: ArrayLike, exponent: float, factor: float) -> Floats:
    """Return factor * ||x||^(2 - p) sign(x) |x|^(p - 1) along the last axis, p the exponent.

    It is the gradient of factor / 2 * ||x||_p^2. Entries are divided by the largest first: the
    powers of a plain formula underflow, with p up to 14 at d = 1000.
    """
    x = np.asarray(vector, dtype=float)
    with np.errstate(over="ignore", under="ignore"):
        if exponent == 2.0:
            return np.asarray(factor * x)
        size = np.minimum(np.abs(x), LARGEST)
        top = np.max(size, axis=-1, keepdims=True, initial=0.0)
        size = size / np.where(top == 0.0, 1.0, top)
        norm = np.maximum(Lp(exponent)(size)[..., None], 1.0)  # below 1 only for the zero vector
        size = size ** (exponent - 1.0) * norm ** (2.0 - exponent)
        return np.asarray(np.copysign(np.minimum(factor * top, LARGEST) * size, x))


def half_square_bregman(v: Floats, w: Floats, p: float) -> float:
    """Return the divergence of ||.||_p^2 / 2 for entries of about 1, stable near v = w.

    With N = ||w||, M = ||v|| and F = sum |w_j|^p it is (M - N)^2 / 2 + N (M - N - <N', v - w>). The
    last bracket is N (b(1/p, rho) + E / (p F)), where rho = (sum |v_j|^p) / F - 1,
    b(a, t) = (1 + t)^a - 1 - a t, and E is the divergence of sum |.|^p, itself a sum of
    |w_j|^p b(p, (v_j - w_j) / w_j). Nothing of first order is left to cancel.
    """
    change = v - w
    if p == 2.0:
        return 0.5 * float(change @ change)
    norm, moved = float(Lp(p)(w)), float(Lp(p)(change))
    if moved > _NEAR * norm:
        other = float(Lp(p)(v))
        return 0.5 * other * other + 0.5 * norm * norm - float(duality(w, p, 1.0) @ v)
    size = np.abs(w)
    slopes = np.copysign(size ** (p - 1.0), w)
    relative = np.divide(change, w, out=np.full_like(w, math.inf), where=np.abs(w) > _SMALLEST)
    near = np.abs(relative) <= _NEAR
    series = size**p * _series(np.where(near, relative, 0.0), _binomials(p))
    plain = np.abs(v) ** p - size**p - p * slopes * change
    excess = float(np.sum(np.where(near, series, plain)))
    whole = float(np.sum(size**p))
    rho = (excess + p * float(slopes @ change)) / whole
    longer = norm * math.expm1(math.log1p(rho) / p)
    return 0.5 * longer * longer + norm * norm * (_curved(1.0 / p, rho) + excess / (p * whole))


def entropy_bregman(v: Floats, w: Floats) -> float:
    """Return sum (v log(v / w) - v + w) for w > 0, v >= 0, stable near v = w."""
    with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
        change = (v - w) / w
        near = np.abs(change) <= _NEAR
        series = w * _series(np.where(near, change, 0.0), _ENTROPY_SERIES)
        logs = np.where(v > 0.0, np.log(v) - np.log(w), 0.0)
        return float(np.sum(np.where(near, series, v * logs - v + w)))


def threshold(gap: Floats, r: float, target: float) -> float:
    """Return tau with tau * A^((2 - r) / r) B = target, s = (1 - gap / tau)_+.

    Here A = sum s^r and B = sum s^(r - 1), and the least gap is 0. The left side over tau
    increases from 1 to at most d^(2 / r), which brackets tau; Newton's method in log tau,
    bisection where it leaves the bracket.
    """
    target = max(target, _SMALLEST)
    low, high = target * len(gap) ** (-2.0 / r), min(1.0, target)
    tau = high
    for _ in range(_MOST_ITERATIONS):
        s = np.maximum(0.0, 1.0 - gap / tau)
        first, second = float(np.sum(s**r)), float(np.sum(s ** (r - 1.0)))
        third = float(np.sum(s[s > 0.0] ** (r - 2.0)))
        value = math.log(tau / target * first ** ((2.0 - r) / r) * second)
        if abs(value) <= _ROUNDING:
            break
        low, high = (low, tau) if value > 0.0 else (tau, high)
        slope = (2.0 - r) * second / first + (r - 1.0) * third / second
        moved = tau * math.exp(-value / slope)
        if not low < moved < high:
            moved = math.sqrt(low) * math.sqrt(high)
        if moved == tau or not low < moved < high:
            break
        tau = moved
    return tau


def _curved(a: float, t: float) -> float:
    """Return (1 + t)^a - 1 - a t."""
    if abs(t) <= _NEAR:
        return float(_series(np.array(t), _binomials(a)))
    return float((1.0 + t) ** a - 1.0 - a * t)


def _binomials(a: float) -> Floats:
    """Return the binomial coefficients of a over 2, 3, ..."""
    below = np.arange(_TERMS[-1])
    return np.asarray(np.cumprod((a - below) / (below + 1.0))[1:])


def _series(t: Floats, coefficients: Floats) -> Floats:
    """Return sum_k coefficients_k t^k over k = 2, 3, ..."""
    found = np.zeros_like(t)
    for coefficient in coefficients[::-1]:
        found = found * t + coefficient
    return np.asarray(found * t * t)
