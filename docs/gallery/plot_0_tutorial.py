"""
Tutorial: real data, end to end
===============================

From a table of real rows to a model that may be published: declare what is public, see what a
budget buys, fit, measure, look at the weights, share the model with its certificate. The task is a
classic one: is a text message spam?
"""

# %%
# The rows
# --------
# dpsco comes with 5,160 text messages of the SMS Spam Collection by Almeida, Gómez Hidalgo and
# Yamakami (2011), which may be used for all purposes. The texts are not kept: a row has the length
# of a message, a few counts, and which of 41 words are in it. We treat 4,000 messages as private,
# and measure on the other 1,160, which the fit does not see.

from importlib import resources
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

import dpsco as dp
from dpsco.data import Schema, TableEncoder

folder = Path(str(resources.files("dpsco.cli"))) / "demo_data"
private = pd.read_parquet(folder / "messages.parquet")
fresh = pd.read_parquet(folder / "fresh_messages.parquet")
print(
    len(private), "private messages,", len(fresh), "fresh ones,", private.shape[1] - 1, "features"
)
private.iloc[:3, [0, 1, 2, 5, 13, 15, -1]]

# %%
# Declare what is public
# ----------------------
# A schema names the columns, their ranges and the classes, from general knowledge. The encoder
# scales each column into [-1, 1] and clips what lies outside. (To be honest: the list of words and
# the bound below were picked among three of each by trying them on all messages; the results lay
# within about one percent.)

schema = Schema.load(folder / "schema.json")
encoder = TableEncoder(schema)
print(schema.label)
print(
    encoder.width, "features; the schema allows rows up to length", round(encoder.feature_norm, 2)
)

# %%
# That bound is much larger than most rows, which hold a few of the words each. Noise grows with the
# bound, so we declare 2: a row of four words. The rare longer rows are scaled down to it.

FEATURE_NORM = 2.0

# %%
# See what a budget buys
# ----------------------
# Before any row is read, `dpsco.outlook` says what excess risk to expect: by how much the mean
# log-loss will exceed that of the best linear model without privacy.

problem = dp.Problem(
    loss=dp.losses.Logistic(), bounds=encoder.bounds(feature_norm=FEATURE_NORM, intercept=0.6)
)
for epsilon in (0.1, 0.3, 1.0, 3.0):
    budget = dp.ApproxDP(epsilon, 1e-7)
    outlook = dp.outlook(problem, n=len(private), d=encoder.width, budget=budget)
    print(f"epsilon {epsilon}: {outlook}")

# %%
# The same beside what an attack could find out; a notebook draws it.

task = dp.Task(problem, len(private), encoder.width, dp.ApproxDP(1.0, 1e-7))
dp.tradeoff(task, epsilons=(0.1, 0.3, 1, 3))

# %%
# Fit
# ---
# One call. The plan, with all of its noise, is made before the rows are touched.


def fit(epsilon):
    """Return a private model of the messages."""
    model = dp.PrivateLogisticRegression(
        feature_norm=FEATURE_NORM, classes=schema.label.values, epsilon=epsilon, delta=1e-7
    )
    return model.fit(encoder.features(private), private[schema.label.name])


model = fit(1.0)
print(model.plan_.solver, "in", model.plan_.total_rounds, "rounds")

# %%
# Measure
# -------
# The fresh messages are public here, so these numbers may be, too. If yours are private rows, a
# score on them is one more release: `dpsco.models.measure_privately` pays for it.

X, y = encoder.features(fresh), fresh[schema.label.name]
plain = LogisticRegression(max_iter=2_000)
plain.fit(encoder.features(private), private[schema.label.name])
print(f"private, epsilon 1:      {model.score(X, y):.3f}")
print(f"not private:             {plain.score(X, y):.3f}")
print(f"always the larger class: {y.value_counts(normalize=True).max():.3f}")

# %%
# How much privacy costs
# ----------------------
# Noise is random, so one fit says little. Five fits at each epsilon show the trend and the spread.

epsilons = (0.3, 1.0, 3.0, 10.0)
scores = np.array([[fit(epsilon).score(X, y) for _ in range(5)] for epsilon in epsilons])

figure, axes = plt.subplots()
axes.fill_between(epsilons, scores.min(1), scores.max(1), alpha=0.2)
axes.plot(epsilons, np.median(scores, 1), "o-", label="private: median and range of five")
axes.axhline(plain.score(X, y), ls="--", color="C2", label="not private")
axes.axhline(y.value_counts(normalize=True).max(), ls=":", color="C5", label="larger class")
axes.set(
    xscale="log", xlabel="epsilon (smaller is more private)", title="Accuracy on fresh messages"
)
axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
axes.legend()
plt.show()

# %%
# Look at the weights
# -------------------
# The weights are noisy, and may be read like any others. The largest make sense: digits and words
# of advertising make a message look like spam. Small ones may be noise alone.

weights = pd.Series(model.coef_.ravel(), index=encoder.feature_names)
largest = weights.reindex(weights.abs().sort_values().index)[-12:]
figure, axes = plt.subplots()
axes.barh(largest.index, largest, color=np.where(largest > 0, "C1", "C0"))
axes.set(title="The twelve largest weights", xlabel=f"towards {model.classes_[1]}")
plt.show()

# %%
# Share the model
# ---------------
# The file holds the weights, the plan and the certificate. Whoever gets it can recompute what it
# costs: `dpsco verify model.json` does it in a terminal.

print(model.certificate_)
model.certificate_.verify()

# %%
# Where next: :doc:`/start` has the same path in a terminal, :doc:`/certificate` explains what the
# certificate promises, and :doc:`/bounds` how to choose bounds on data of your own.
