"""Public tables with fixed preprocessing, for comparisons with other software.

Numbers go to [0, 1] by a fixed range (some after a logarithm), categories to one column each, a
constant column is added, and rows are scaled to l2 norm at most 1. Files are Parquet, in the folder
that the environment variable DPSCO_DATA names. Pictures of digits ("mnist14") are averaged to 14 x
14 pixels in [0, 1], and then treated likewise.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class Number:
    """A numeric column with its declared range; ``log`` for columns that spread over decades."""

    low: float
    high: float
    log: bool = False

    def encode(self, values: np.ndarray) -> np.ndarray:
        """Return the values within [0, 1]."""
        clipped = np.clip(np.nan_to_num(values.astype(float), nan=self.low), self.low, self.high)
        if self.log:
            return np.log1p(clipped - self.low) / np.log1p(self.high - self.low)
        return (clipped - self.low) / (self.high - self.low)


@dataclass(frozen=True)
class Spec:
    """How a file becomes features and labels."""

    file: str
    target: str
    numbers: dict[str, Number]
    categories: tuple[str, ...]
    label_range: tuple[float, float] | None = None  # None: two classes
    positive: object = 1  # the class that counts as +1
    rows: int | None = None  # a fixed random sample of so many rows

    @property
    def unit(self) -> float:
        """What one unit of the scaled label is worth."""
        return 1.0 if self.label_range is None else (self.label_range[1] - self.label_range[0]) / 2


def _plain(**ranges: tuple[float, float]) -> dict[str, Number]:
    return {name: Number(*ends) for name, ends in ranges.items()}


def _logs(**ranges: tuple[float, float]) -> dict[str, Number]:
    return {name: Number(*ends, log=True) for name, ends in ranges.items()}


SPECS = {
    "adult": Spec(
        "adult",
        "income",
        _plain(age=(17, 90), education_num=(1, 16))
        | _logs(capital_gain=(0, 1e5), capital_loss=(0, 5000))
        | _plain(hours_per_week=(0, 99)),
        (
            *("workclass", "education", "marital_status", "occupation", "relationship"),
            *("race", "sex", "native_country"),
        ),
    ),
    "bank": Spec(
        "bank_marketing",
        "y",
        _plain(age=(18, 95), balance=(-8000, 110000), day=(1, 31))
        | _logs(duration=(0, 5000), campaign=(1, 64))
        | _plain(pdays=(-1, 900))
        | _logs(previous=(0, 300)),
        (
            *("job", "marital", "education", "default", "housing", "loan", "contact"),
            *("month", "poutcome"),
        ),
    ),
    "covtype": Spec(
        "covertype",
        "Cover_Type",
        _plain(
            Elevation=(1800, 3900),
            Aspect=(0, 360),
            Slope=(0, 70),
            Horizontal_Distance_To_Hydrology=(0, 1500),
            Vertical_Distance_To_Hydrology=(-200, 650),
            Horizontal_Distance_To_Roadways=(0, 7500),
            Hillshade_9am=(0, 255),
            Hillshade_Noon=(0, 255),
            Hillshade_3pm=(0, 255),
            Horizontal_Distance_To_Fire_Points=(0, 7500),
        ),
        ("Wilderness_Area", "Soil_Type"),
        positive=2,
        rows=100_000,
    ),
    "california": Spec(
        "california_housing",
        "median_house_value",
        _plain(longitude=(-125, -114), latitude=(32, 42), housing_median_age=(0, 52))
        | _logs(
            total_rooms=(0, 40000),
            total_bedrooms=(0, 7000),
            population=(0, 40000),
            households=(0, 7000),
        )
        | _plain(median_income=(0, 15)),
        ("ocean_proximity",),
        label_range=(0, 500001),
    ),
    "bike": Spec(
        "bike_sharing",
        "cnt",
        _plain(temp=(0, 1), atemp=(0, 1), hum=(0, 1), windspeed=(0, 1), yr=(0, 1)),
        ("season", "mnth", "hr", "holiday", "weekday", "workingday", "weathersit"),
        label_range=(0, 1000),
    ),
    "diamonds": Spec(
        "diamonds",
        "price",
        _plain(carat=(0, 5), depth=(40, 80), table=(40, 100), x=(0, 12), y=(0, 12), z=(0, 12)),
        ("cut", "color", "clarity"),
        label_range=(0, 20000),
    ),
    "insurance": Spec(
        "medical_insurance",
        "charges",
        _plain(age=(18, 65), bmi=(10, 55), children=(0, 5)),
        ("sex", "smoker", "region"),
        label_range=(0, 65000),
    ),
}

DIGITS = "mnist14"  # ten classes, from mnist.npz
DIGIT_ROWS = 30_000  # a fixed random sample


def classes(name: str) -> int:
    """Return how many classes a table has; 0 for numbers."""
    if name == DIGITS:
        return 10
    return 2 if SPECS[name].label_range is None else 0


def available() -> bool:
    """Return whether the folder of tables is there."""
    return Path(os.environ.get("DPSCO_DATA", "missing")).is_dir()


@lru_cache(maxsize=2)
def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return features and labels: -1 and 1 for two classes, 0 to 9 for digits, or in [-1, 1]."""
    if name == DIGITS:
        return _digits()
    import pandas as pd

    spec = SPECS[name]
    frame = pd.read_parquet(Path(os.environ["DPSCO_DATA"]) / f"{spec.file}.parquet")
    columns = [rule.encode(frame[c].to_numpy())[:, None] for c, rule in spec.numbers.items()]
    for c in spec.categories:
        codes = frame[c].astype("category").cat.codes.to_numpy()
        columns.append(np.eye(codes.max() + 1)[codes])
    X = np.hstack([*columns, np.ones((len(frame), 1))])
    target = frame[spec.target].to_numpy()
    if spec.label_range is None:
        y = np.where(target == spec.positive, 1.0, -1.0)
    else:
        low, high = spec.label_range
        y = 2 * (np.clip(target.astype(float), low, high) - low) / (high - low) - 1
    if spec.rows is not None and len(X) > spec.rows:
        kept = np.random.default_rng(12345).choice(len(X), spec.rows, replace=False)
        X, y = X[kept], y[kept]
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    return np.ascontiguousarray(X), y


def _digits() -> tuple[np.ndarray, np.ndarray]:
    """Return pictures of digits as rows, and the digits."""
    with np.load(Path(os.environ["DPSCO_DATA"]) / "mnist.npz") as file:
        pictures, y = file["X"], file["y"].astype(float)
    kept = np.random.default_rng(12345).choice(len(y), DIGIT_ROWS, replace=False)
    X = pictures[kept].reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4)).reshape(-1, 196) / 255.0
    X = np.hstack([X, np.ones((len(X), 1))])
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    return np.ascontiguousarray(X), y[kept]


def split(name: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return training and test rows: 80 % and 20 %, by seed."""
    X, y = load(name)
    order = np.random.default_rng(seed).permutation(len(X))
    cut = int(0.8 * len(X))
    return X[order[:cut]], y[order[:cut]], X[order[cut:]], y[order[cut:]]
