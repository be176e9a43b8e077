"""The tables of a folder: one ``.npz`` each, with rows, labels and what is declared about them.

``X`` has rows of l2 norm at most 1; ``y`` has the labels; ``meta`` is JSON text, either ``{"task":
"classes", "classes": K}`` with labels 0..K-1 or ``{"task": "number", "range": [low, high]}``.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

METRIC = {"class": "ll", "absolute": "mae", "squared": "rmse"}  # of each kind of fit
LEAST = 1e-9  # probability that the log-loss takes for granted


@dataclass(frozen=True)
class Table:
    """Rows with their labels, and the public facts."""

    name: str
    X: np.ndarray
    y: np.ndarray
    classes: int  # 0 for numbers
    ends: tuple[float, float]  # of the labels; (0, 0) for classes

    @property
    def kinds(self) -> tuple[str, ...]:
        """Which fits there are of such labels."""
        return ("class",) if self.classes else ("absolute", "squared")

    def split(self, number: int) -> Split:
        """Return 80 % of the rows to train on and 20 % to test on."""
        order = np.random.default_rng(1000 + number).permutation(len(self.X))
        cut = int(0.8 * len(self.X))
        train, test = order[:cut], order[cut:]
        return Split(self, self.X[train], self.y[train], self.X[test], self.y[test])

    def shortened(self, rows: int | None) -> Table:
        """Return a table of so many random rows, always the same ones."""
        if rows is None or rows >= len(self.X):
            return self
        order = np.random.default_rng(zlib.crc32(self.name.encode())).permutation(len(self.X))
        return Table(self.name, self.X[order[:rows]], self.y[order[:rows]], self.classes, self.ends)


@dataclass(frozen=True)
class Split:
    """Rows to train on and rows to test on."""

    table: Table
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray

    def score_classes(self, probabilities: np.ndarray) -> float:
        """Return the mean log-loss of probabilities, one column per class."""
        floored = np.maximum(probabilities, LEAST)
        right = floored[np.arange(len(floored)), self.y_test.astype(int)]
        return float(-np.mean(np.log(right / floored.sum(axis=1))))

    def score_numbers(self, predicted: np.ndarray, kind: str) -> float:
        """Return the mean absolute error or the root of the mean square, within the range."""
        error = np.clip(np.nan_to_num(predicted), *self.table.ends) - self.y_test
        return float(np.mean(np.abs(error)) if kind == "absolute" else np.sqrt(np.mean(error**2)))


@lru_cache(maxsize=2)
def load(path: Path) -> Table:
    """Return a table of the folder."""
    with np.load(path, allow_pickle=False) as file:
        X, y, meta = file["X"].astype(float), file["y"], json.loads(str(file["meta"]))
    if meta["task"] == "classes":
        return Table(path.stem, X, y.astype(int), int(meta["classes"]), (0.0, 0.0))
    low, high = map(float, meta["range"])
    return Table(path.stem, X, y.astype(float), 0, (low, high))


def names(folder: Path) -> list[str]:
    """Return the tables of a folder."""
    return sorted(path.stem for path in folder.glob("*.npz"))


def halves(folder: Path) -> dict[str, list[str]]:
    """Return which tables are for choosing rules and which for checking them.

    Tables of two classes, of more, and of numbers are split apart, each by a hash of the name: the
    same two halves always, whatever the results.
    """
    groups: dict[str, list[str]] = {}
    for name in names(folder):
        with np.load(folder / f"{name}.npz", allow_pickle=False) as file:
            meta = json.loads(str(file["meta"]))
        many = "many" if meta.get("classes", 0) > 2 else "two"
        groups.setdefault("number" if meta["task"] == "number" else many, []).append(name)
    parts: dict[str, list[str]] = {"choose": [], "check": []}
    for group in groups.values():
        ranked = sorted(group, key=lambda name: zlib.crc32(f"dpsco{name}".encode()))
        parts["choose"] += ranked[::2]
        parts["check"] += ranked[1::2]
    return {half: sorted(part) for half, part in parts.items()}
