"""
Where Frank-Wolfe pays: columns, dense and sparse rows
======================================================

Two private fits over the same l1 ball, of the same rows, with the same budget. Frank-Wolfe selects
one vertex of the ball in each round; its noise follows the largest *entry* of a row and grows with
the logarithm of the columns. Gradient descent adds Gaussian noise to every entry of the gradient;
its noise follows the *length* of a row. Which is ahead depends on the rows.
"""

# %%
# Rows and truth
# --------------
# Made-up rows with labels of -1 and 1; ten columns matter. Dense rows have an entry of -1 or 1 in
# every column, so their length grows with the columns. Sparse rows have at most twenty such
# entries: each of the ten columns that matter in three of ten rows, the others anywhere.

import warnings

import matplotlib.pyplot as plt
import numpy as np
from scipy.sparse import csr_array

import dpsco as dp
from dpsco.geometry import L2, LINF

N, FRESH, ACTIVE, ENTRIES = 4000, 4000, 10, 20
BUDGET = dp.ApproxDP(1.0, 1e-6)


def dense_rows(rng, n, d):
    """Return rows of -1 and 1."""
    return rng.choice([-1.0, 1.0], (n, d))


def sparse_rows(rng, n, d, entries=ENTRIES):
    """Return rows with at most twenty entries of -1 and 1, or so many."""
    active = rng.random((n, ACTIVE)) < 0.3
    others = rng.integers(ACTIVE, d, (n, entries))
    used = np.arange(entries) < (entries - active.sum(axis=1))[:, None]
    rows = np.concatenate([np.nonzero(active)[0], np.nonzero(used)[0]])
    columns = np.concatenate([np.nonzero(active)[1], others[used]])
    X = csr_array((rng.choice([-1.0, 1.0], len(rows)), (rows, columns)), shape=(n, d))
    X.sum_duplicates()
    X.data = np.clip(X.data, -1.0, 1.0)
    return X


# Of each kind: the columns, the size of a true weight, and the length of a row.
KINDS = {
    dense_rows: ((30, 100, 300, 1000), 0.75, np.sqrt),
    sparse_rows: ((50, 200, 1000, 5000), 2.0, lambda d: np.sqrt(ENTRIES)),
}

# %%
# Fits
# ----
# Logistic regression at epsilon 1. The radius of the ball is the right one, which nobody knows
# outside such an experiment. What is shown is the loss on fresh rows over that of zero weights: 1
# means that nothing was learned.


def draw(make, n, d, seed):
    """Return private rows, fresh rows and the truth."""
    _, size, _ = KINDS[make]
    rng = np.random.default_rng([d, seed])
    truth = np.zeros(d)
    truth[:ACTIVE] = size * rng.choice([-1.0, 1.0], ACTIVE)

    def rows(count):
        X = make(rng, count, d)
        chance = 1.0 / (1.0 + np.exp(-(X @ truth)))
        return X, np.where(rng.random(count) < chance, 1.0, -1.0)

    return rows(n), rows(FRESH), truth


def loss(fresh, weights):
    """Return the loss on fresh rows over that of zero weights."""
    X, y = fresh
    return np.logaddexp(0.0, -y * (X @ weights)).mean() / np.log(2.0)


def fitted(solver, make, n, d, seed, **options):
    """Return the loss of a private fit, or of the truth where no solver is named."""
    train, fresh, truth = draw(make, n, d, seed)
    if not solver:
        return loss(fresh, truth)
    gaussian = solver == "noisy_gd"  # bounds a row's length; the others bound its entries
    length = float(KINDS[make][2](d)) if gaussian else 1.0
    bounds = dp.Bounds(length, label="sign", norm=L2 if gaussian else LINF)
    ball = dp.domains.L1Ball(float(np.abs(truth).sum()))
    problem = dp.Problem(loss=dp.losses.Logistic(), bounds=bounds, domain=ball)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dp.errors.AccuracyWarning)
        fit = dp.solve(problem, train, BUDGET, solver=solver, options=options)
    return loss(fresh, fit.weights)


def mean(*setting, seeds=range(2), **options):
    """Return the mean loss of some seeds."""
    return float(np.mean([fitted(*setting, seed, **options) for seed in seeds]))


METHODS = {"noisy_gd": {}, "noisy_fw_gll": {"rounds": 25}, "": {}}
curves = {
    (make, name): [mean(name, make, N, d, **options) for d in sizes]
    for make, (sizes, _, _) in KINDS.items()
    for name, options in METHODS.items()
}

# %%
# How full the rows are
# ---------------------
# A thousand columns, more rows, and ten to a thousand entries in each: the ten columns that matter
# in three of ten rows as before, with true weights of the same size. Only the other entries become
# more, and with them the length of a row.

MORE, WIDE, FILLS = 12_000, 1000, (10, 30, 100, 300, 1000)


def filled(entries):
    """Return a maker of rows of so many entries, as `draw` takes it."""

    def make(rng, n, d):
        return sparse_rows(rng, n, d, entries)

    KINDS[make] = ((WIDE,), 2.0, lambda d: np.sqrt(entries))
    return make


fuller = {name: [] for name in METHODS}
for entries in FILLS:
    make = filled(entries)
    for name, options in METHODS.items():
        fuller[name].append(mean(name, make, MORE, WIDE, **options))

# %%
# Which point of a run
# --------------------
# `poly_sfw` reads each row once, in a few batches. It may return its last point or a random one,
# and may ask each batch for differences of gradients (variance reduction) or for gradients alone.
# Dense rows of thirty columns, against the number of rows; means of four seeds, and of two above.

ROWS, FEW = (2000, 6000, 18_000), 30
CHOICES = [
    {"output": output, "variance_reduction": reduced}
    for output in ("last", "random")
    for reduced in (True, False)
]
points = {
    (options["output"], options["variance_reduction"]): [
        mean("poly_sfw", dense_rows, n, FEW, seeds=range(4), **options) for n in ROWS
    ]
    for options in CHOICES
}

# %%
# The figure
# ----------
# On dense rows gradient descent is ahead at thirty columns, and its loss grows with them; that of
# Frank-Wolfe changes far less, and the two cross. On sparse rows gradient descent is ahead at all
# sizes: there is no crossing. Of a thousand columns it is ahead until a row has a few hundred
# entries. Below, right, the last point is ahead of the random one, which with few rows is worse
# than zero weights. For the last point, variance reduction makes little difference at 18,000 rows.
# The noise is new each time this page is made, so numbers differ.


def crossing(sizes, one, other):
    """Return where two curves cross, or None; between sizes, straight lines in log columns."""
    gap = np.subtract(one, other)
    for i in np.flatnonzero(np.sign(gap[1:]) != np.sign(gap[:-1])):
        part = gap[i] / (gap[i] - gap[i + 1])
        return sizes[i] * (sizes[i + 1] / sizes[i]) ** part
    return None


def compare(axis, sizes, found, what):
    """Draw the curves of all methods, and where the first two cross."""
    for name in METHODS:
        axis.semilogx(sizes, found[name], "o-" if name else "k:", label=name or "the truth")
    place = crossing(sizes, found["noisy_gd"], found["noisy_fw_gll"])
    if place is not None:
        axis.axvline(place, color="grey", linestyle="--", linewidth=0.8)
        axis.annotate(f" crossing: {place:.0f}", (place, 0.42))
    axis.set(xlabel=what)


figure, axes = plt.subplots(2, 2, figsize=(10, 7.4))
axes = axes.ravel()
for axis, make in zip(axes, (dense_rows, sparse_rows), strict=False):
    compare(axis, KINDS[make][0], {name: curves[make, name] for name in METHODS}, "columns")
    axis.set(title=make.__name__.replace("_", " "))
compare(axes[2], FILLS, fuller, "entries of a row")
axes[2].set(title="a thousand columns")
axes[1].legend(loc="upper left")
axes[0].sharey(axes[1])
axes[2].sharey(axes[1])
for (output, reduced), values in points.items():
    style = "o-" if reduced else "s--"
    colour = "C2" if output == "last" else "C3"
    label = output + (", variance reduction" if reduced else ", plain")
    axes[3].semilogx(ROWS, values, style, color=colour, label=label)
axes[3].set(title="poly_sfw, thirty dense columns", xlabel="rows")
axes[3].set_xticks(ROWS, [f"{n:,}" for n in ROWS])
axes[3].minorticks_off()
axes[3].set_ylim(top=1.5 * max(map(max, points.values())))
axes[3].legend(loc="upper right")
for axis in axes[::2]:
    axis.set_ylabel("loss / zero weights")
for axis in axes:
    axis.axhline(1.0, color="grey", linewidth=0.8)
figure.tight_layout()
plt.show()

for (make, name), values in curves.items():
    cells = " ".join(f"{value:.3f}" for value in values)
    print(f"{make.__name__:<12} {name or 'the truth':<13}", cells)
for name, values in fuller.items():
    print(f"{'by entries':<12} {name or 'the truth':<13}", " ".join(f"{v:.3f}" for v in values))
for (output, reduced), values in points.items():
    cells = " ".join(f"{value:.3f}" for value in values)
    print(f"{output:<12} {'reduced' if reduced else 'plain':<13}", cells)
