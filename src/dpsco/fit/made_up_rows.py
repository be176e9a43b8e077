"""Rows made up from the public facts of a task, to rehearse on: what noise does to such rows.

Features point in all directions, or come from a schema; a linear model explains the labels in part.
The shares of classes and the spread of numbers are the public ones. Real rows are not like this.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data.labels import Classes, Scaled
from ..losses.base import MarginLoss
from ..privacy.randomness import Stream
from ..task import Task
from .outlook import CLASS_LABELS, class_count, class_shares, spread_in_units

Floats = NDArray[np.float64]

_MADE_UP = 20_000  # rows to draw from and to measure on, at most
_MARGINS = 1.3  # standard deviation of made-up margins: as much to learn as on a typical table
_SIGNAL = 0.5  # share of the variance of made-up labels that a linear model explains


def made_up_rows(task: Task, draws: Stream, features: Any = None, **facts: Any) -> tuple[Any, Any]:
    """Return X and y; y is None where the loss has no labels.

    Args:
        task: says how many, and within which bounds.
        draws: public randomness.
        features: X, or a function of a number of rows and ``draws`` that returns it.
        facts: what is public of the labels, as in `dpsco.outlook`.
    """
    bounds, count = task.problem.bounds, min(max(task.n, 1000), _MADE_UP)
    if features is None:  # long in all directions: the bound cuts them, in whatever norm
        features = draws.normals((count, task.d)) * bounds.feature_norm
    X = features(count, draws) if callable(features) else features
    if task.problem.loss.labels == "none":
        return X, None
    rows = X.toarray() if hasattr(X, "toarray") else np.asarray(X, dtype=float)
    weights = draws.normals((task.d, max(class_count(task) - 1, 1)))
    scores = rows @ weights
    scores -= scores.mean(axis=0)
    scores /= np.maximum(scores.std(axis=0), 1e-12)
    if task.problem.loss.labels in CLASS_LABELS:
        return X, _made_up_classes(task, scores, draws, facts.get("base_rate"))
    return X, _made_up_numbers(task, scores[:, 0], draws, facts.get("label_spread"))


def _made_up_classes(task: Task, scores: Floats, draws: Stream, base_rate: Any) -> Any:
    """Return classes with the shares that are public; equal ones if none are."""
    rule, count = task.problem.bounds.label, class_count(task)
    shares = class_shares(task, base_rate) or (1.0 / count,) * count
    values = rule.values if isinstance(rule, Classes) else (-1, 1)
    utilities = np.column_stack([np.zeros(len(scores)), _MARGINS * scores])
    utilities -= np.log(-np.log(draws.uniforms(utilities.size).reshape(utilities.shape)))
    offsets = np.log(np.maximum(shares, 1e-12))
    for _ in range(60):  # until the shares are those: a fixed point of the offsets
        places = np.argmax(utilities + offsets, axis=1)
        reached = np.bincount(places, minlength=count) / len(places)
        offsets += 0.5 * np.log(np.maximum(shares, 1e-6) / np.maximum(reached, 1e-6))
    return np.asarray(values)[np.argmax(utilities + offsets, axis=1)]


def _made_up_numbers(task: Task, scores: Floats, draws: Stream, label_spread: Any) -> Floats:
    """Return numbers with the spread that is public, within the declared range."""
    rule, loss = task.problem.bounds.label, task.problem.loss
    signal, noise = np.sqrt(_SIGNAL), np.sqrt(1.0 - _SIGNAL)
    labels = signal * scores + noise * draws.normals(len(scores))
    spread = spread_in_units(task, label_spread)
    labels *= task.label_bound / 3.0 if spread is None else spread
    if loss.labels == "count" or not isinstance(loss, MarginLoss):
        labels = np.round(np.abs(labels))
    if isinstance(rule, Scaled):
        labels = labels * rule.unit + 0.5 * (rule.low + rule.high)
        return np.asarray(np.clip(labels, rule.low, rule.high))
    return np.asarray(np.clip(labels, -task.label_bound, task.label_bound))
