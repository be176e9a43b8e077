"""
Quantile regression on house prices
===================================

A range is often more useful than a number: below which price do nine in ten houses of such a
district sell? Quantile regression answers it, and its loss suits privacy: no row can pull harder
than its slope, however extreme its price.
"""

# %%
# The rows
# --------
# Districts with their median income and median house value, as in the census table of California.
# If the environment variable ``DPSCO_DATA`` names a folder with ``california_housing.parquet``, it
# is read. Otherwise the districts are **made up**: incomes and prices follow a simple model of our
# own with about the same spread, and say nothing about the true table.

import os
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import dpsco as dp
from dpsco.data import Number, NumberLabel, Schema, TableEncoder

COLUMNS = ["median_income", "housing_median_age", "latitude", "median_house_value"]


def made_up_districts(n=20_640, seed=0):
    """Return made-up districts: prices rise with income, and spread with it."""
    rng = np.random.default_rng(seed)
    income = np.clip(rng.lognormal(1.24, 0.47, n), 0.5, 15.0)
    age = np.clip(rng.normal(29, 12.6, n), 1, 52)
    latitude = np.where(rng.random(n) < 0.55, rng.normal(34.0, 0.5, n), rng.normal(37.7, 0.9, n))
    centre = 20_000 + 42_000 * income + 700 * age
    price = centre * rng.lognormal(0.0, 0.32, n)
    values = (income, age, latitude, np.clip(price, 15_000, 500_001))
    return pd.DataFrame(dict(zip(COLUMNS, values, strict=True)))


real = Path(os.environ.get("DPSCO_DATA", ".")) / "california_housing.parquet"
houses = pd.read_parquet(real)[COLUMNS] if real.is_file() else made_up_districts()
print("real" if real.is_file() else "made up", houses.shape)
houses.describe().round(1)

# %%
# What is public
# --------------
# Ranges that anybody may write down: the census caps values at 500,001 dollars and incomes at 15
# (tens of thousands of dollars).

schema = Schema(
    (
        Number("median_income", 0, 15),
        Number("housing_median_age", 0, 52),
        Number("latitude", 32, 42),
    ),
    label=NumberLabel("median_house_value", 0, 500_001),
)
encoder = TableEncoder(schema)
X, y = encoder.features(houses), houses["median_house_value"].to_numpy()

# %%
# Three fits, one budget
# ----------------------
# Each quantile is a fit of its own, so together they cost more than one. An odometer keeps the
# account: its budget is fixed first, and a fit that would exceed it is refused before a row is
# read.

account = Path(tempfile.mkdtemp()) / "houses.odometer"
odometer = dp.Odometer(account, dp.ApproxDP(epsilon=1.0, delta=1e-8))

QUANTILES = (0.1, 0.5, 0.9)
models = {
    quantile: dp.PrivateQuantileRegressor(
        feature_norm=encoder.feature_norm,
        label_range=(schema.label.low, schema.label.high),
        epsilon=0.5,
        delta=1e-9,
        quantile=quantile,
        odometer=odometer,
    ).fit(X, y)
    for quantile in QUANTILES
}

# %%
# Three fits at epsilon 0.5 cost less together than 1.5: Gaussian releases add up in squares, and
# the account composes them exactly.

spent = odometer.cost().epsilon(1e-8)
print(f"{len(odometer.entries())} fits, together epsilon {spent:.3f} at delta 1e-8")

# %%
# The picture
# -----------
# The lines are predictions for a district of median age and latitude, drawn over a few of the
# districts (which could not be shown if they were private).

grid = pd.DataFrame({"median_income": np.linspace(0.5, 10, 80)})
grid["housing_median_age"], grid["latitude"] = 29.0, 35.6
lines = {quantile: models[quantile].predict(encoder.features(grid)) for quantile in QUANTILES}

some = houses.sample(1_500, random_state=0)
figure, axes = plt.subplots()
axes.scatter(some["median_income"], some["median_house_value"] / 1e3, s=5, color="0.75", zorder=1)
axes.fill_between(
    grid["median_income"], lines[0.1] / 1e3, lines[0.9] / 1e3, alpha=0.18, linewidth=0, zorder=2
)
for quantile, colour in zip(QUANTILES, ("C0", "C1", "C0"), strict=True):
    axes.plot(grid["median_income"], lines[quantile] / 1e3, color=colour, zorder=3)
    axes.annotate(
        f"{quantile:.0%}",
        (10, lines[quantile][-1] / 1e3),
        xytext=(4, 0),
        textcoords="offset points",
        va="center",
        color=colour,
    )
axes.set_xlim(0, 10.6)
axes.set_xlabel("median income of the district (10,000 dollars)")
axes.set_ylabel("median house value (1,000 dollars)")
axes.set_title("Private quantiles of house values, epsilon 0.5 each")
plt.show()

# %%
# Do they cover what they should? The share of districts below each line, a look at private rows
# that only their holder may take:

for quantile, model in models.items():
    print(f"{quantile:.0%} quantile: {np.mean(y <= model.predict(X)):.1%} of the values lie below")
