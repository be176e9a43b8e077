"""
Adult, end to end
=================

From a table of people to a classifier that may be published: declare what is public, fit at
epsilon 1, look at the certificate, save the model. The task is the classic one of the Adult table:
does somebody earn more than 50,000 dollars a year?
"""

# %%
# The rows
# --------
# The census table cannot be shipped with the package. If the environment variable ``DPSCO_DATA``
# names a folder with ``adult.parquet``, it is read; otherwise this page uses **made-up people**:
# the same columns and about the same shares, with incomes drawn from a simple model of our own.
# The numbers below are then about them, and say nothing about the census.

import os
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

import dpsco as dp
from dpsco.data import Category, ClassLabel, Number, Schema, TableEncoder

MARITAL = ("Married-civ-spouse", "Never-married", "Divorced", "Separated", "Widowed")
MAX_FLOPS = ("Private", "Self-emp-not-inc", "Local-gov", "State-gov", "Self-emp-inc", "Federal-gov")
JOBS = (
    *("Prof-specialty", "Craft-repair", "Exec-managerial", "Adm-clerical", "Sales"),
    *("Other-service", "Machine-op-inspct", "Transport-moving", "Handlers-cleaners"),
)
COLUMNS = ["age", "education_num", "hours_per_week", "capital_gain", "marital_status"]
COLUMNS += ["workclass", "occupation", "sex", "income"]


def made_up_people(n=48_842, seed=0):
    """Return a made-up table in the shape of Adult."""
    rng = np.random.default_rng(seed)
    age = np.clip(17 + rng.gamma(2.6, 8.3, n), 17, 90).astype(int)
    schooling = np.clip(np.round(rng.normal(10.1, 2.5, n)), 1, 16).astype(int)
    married = rng.random(n) < np.clip((age - 18) / 40, 0.02, 0.62)
    other = rng.choice(MARITAL[1:], n, p=(0.60, 0.26, 0.07, 0.07))
    sex = np.where(rng.random(n) < np.where(married, 0.85, 0.55), "Male", "Female")
    hours = np.clip(np.round(rng.normal(40.4, 12, n)), 1, 99).astype(int)
    job = rng.integers(0, len(JOBS), n)
    job = np.where((schooling > 12) & (rng.random(n) < 0.6), rng.choice([0, 2], n), job)
    gain = np.where(rng.random(n) < 0.08, np.minimum(rng.lognormal(8.6, 1.0, n), 99_999), 0)
    score = 2.2 * married + 0.33 * (schooling - 10) + 0.03 * (hours - 40)
    score += 0.03 * np.minimum(age - 38, 20) + 0.9 * np.isin(job, [0, 2]) + 0.4 * (gain > 5_000) * 5
    earns = score - 3.1 + rng.logistic(size=n) > 0
    return pd.DataFrame(
        {
            "age": age,
            "education_num": schooling,
            "hours_per_week": hours,
            "capital_gain": gain.astype(int),
            "marital_status": np.where(married, MARITAL[0], other),
            "workclass": rng.choice(MAX_FLOPS, n, p=(0.74, 0.08, 0.07, 0.04, 0.04, 0.03)),
            "occupation": np.array(JOBS)[job],
            "sex": sex,
            "income": earns.astype(int),
        }
    )


real = Path(os.environ.get("DPSCO_DATA", ".")) / "adult.parquet"
people = pd.read_parquet(real)[COLUMNS] if real.is_file() else made_up_people()
print("real" if real.is_file() else "made up", people.shape)
people.head()

# %%
# What is public
# --------------
# A schema states what anybody may know without looking at a row: ranges, categories, the classes.
# Values outside are clipped, or counted as "other". The encoder is made from the schema alone, so
# it cannot learn anything from the rows.

schema = Schema(
    (
        Number("age", 17, 90),
        Number("education_num", 1, 16),
        Number("hours_per_week", 0, 99),
        Number("capital_gain", 0, 20_000),
        Category("marital_status", MARITAL, other=True),
        Category("workclass", MAX_FLOPS, other=True),
        Category("occupation", JOBS, other=True),
        Category("sex", ("Female", "Male")),
    ),
    label=ClassLabel("income", (0, 1)),
)
encoder = TableEncoder(schema)
print(f"{encoder.width} features, no row longer than {encoder.feature_norm:.2f}")

# %%
# The fit
# -------
# One third of the rows is held back to see how good the model is. We keep the accuracy on them to
# ourselves: to publish it would be one more release.

train, test = train_test_split(people, test_size=1 / 3, random_state=0)
X, y = encoder.features(train), train["income"].to_numpy()
X_test, y_test = encoder.features(test), test["income"].to_numpy()

public = {"feature_norm": encoder.feature_norm, "classes": [0, 1]}
model = dp.PrivateLogisticRegression(epsilon=1.0, **public).fit(X, y)
print(f"accuracy {model.score(X_test, y_test):.3f}, solver {model.plan_.solver}")
print(model.certificate_)

# %%
# What privacy costs in accuracy
# ------------------------------
# We make three fits at each epsilon, each with its own noise. On private rows this picture would
# cost privacy: all these fits together would have to be paid for.

plain = LogisticRegression(max_iter=1_000).fit(X, y).score(X_test, y_test)
trivial = max(y_test.mean(), 1 - y_test.mean())
epsilons = np.array([0.01, 0.03, 0.1, 0.3, 1.0, 3.0])


def accuracy(epsilon):
    """Fit with fresh noise, and return the accuracy on held-back rows."""
    return dp.PrivateLogisticRegression(epsilon=epsilon, **public).fit(X, y).score(X_test, y_test)


scores = np.array([[accuracy(epsilon) for _ in range(3)] for epsilon in epsilons])

figure, axes = plt.subplots()
axes.fill_between(epsilons, scores.min(axis=1), scores.max(axis=1), alpha=0.25, linewidth=0)
axes.semilogx(epsilons, scores.mean(axis=1), "o-", label="private (mean and range of 3 fits)")
axes.axhline(plain, color="C2", linestyle="--", label=f"not private: {plain:.3f}")
axes.axhline(trivial, color="0.5", linestyle=":", label=f"always the larger class: {trivial:.3f}")
axes.set_xticks(epsilons, labels=[f"{epsilon:g}" for epsilon in epsilons])
axes.minorticks_off()
axes.set_xlabel("epsilon (smaller is more private)")
axes.set_ylabel("accuracy on held-back rows")
axes.set_title(f"{len(train):,} rows, {encoder.width} features, delta = 1/n²")
axes.legend(loc="center right")
plt.show()

# %%
# The whole guarantee
# -------------------
# A pair (epsilon, delta) is one point of a curve. The certificate holds the whole curve: for every
# delta it says which epsilon holds.

deltas = np.logspace(-14, -1, 30)
figure, axes = plt.subplots()
axes.semilogx(deltas, [model.certificate_.epsilon(delta) for delta in deltas])
budget = model.certificate_.budget
axes.plot(budget.delta, budget.epsilon, "o", color="C1", label="the budget")
axes.set_xlabel("delta")
axes.set_ylabel("epsilon")
axes.set_ylim(bottom=0)
axes.set_title("One fit, every pair that holds for it")
axes.legend()
plt.show()

# %%
# Share it
# --------
# The model file is JSON with the certificate inside, and contains no code. Anybody who receives it
# can recompute the guarantee with ``dpsco verify adult-model.json``, or in Python:

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "adult-model.json"
    model.save(path)
    received = dp.models.SavedModel.load(path)

print(received.certificate.verify())
print(f"accuracy {np.mean(received.predict(X_test) == y_test):.3f}")
