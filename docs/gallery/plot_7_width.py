"""
What a domain is worth: width against the number of columns
===========================================================

Noise on the d entries of a gradient costs about the square root of d if weights may lie anywhere in
a Euclidean ball. If they lie in an l1 ball or are shares of a whole, it costs about the square root
of its logarithm: so large is the *Gaussian width* of these sets. And rows that are short, because
they are sparse, need less noise whatever the domain.
"""

# %%
# Rows and truth
# --------------
# Made-up rows. The truth gives each of five columns a fifth of the weight, so it lies in all three
# domains: in the simplex, in the l1 ball of radius 1 and in the Euclidean ball of its own length.
# Dense rows have entries of -1 and 1, so their length grows with the columns. Sparse rows have
# twenty ones, ten of them in the first fifty columns, where the truth is.

import warnings

import matplotlib.pyplot as plt
import numpy as np
from scipy.sparse import csr_matrix

import dpsco as dp

N, ACTIVE = 4000, 5
DOMAINS = {
    "l2 ball": dp.domains.L2Ball(ACTIVE**-0.5),
    "l1 ball": dp.domains.L1Ball(1.0),
    "simplex": dp.domains.Simplex(),
}


def dense_rows(rng, d):
    """Return rows of -1 and 1, and their length."""
    return rng.choice([-1.0, 1.0], (N, d)), np.sqrt(d)


def sparse_rows(rng, d):
    """Return rows of twenty ones or fewer, and their length."""
    columns = np.hstack([rng.integers(0, 50, (N, 10)), rng.integers(50, d, (N, 10))])
    rows = np.repeat(np.arange(N), 20)
    X = csr_matrix((np.ones(20 * N), (rows, columns.ravel())), shape=(N, d))
    X.data[:] = 1.0
    return X, np.sqrt(20)


# %%
# Fits
# ----
# Least squares by `noisy_gd` at epsilon 4. What is shown is the mean squared distance of
# predictions from the true ones, over that of zero weights: 1 means that nothing was learned. It
# looks at the truth, which nobody has outside such an experiment.


def excess(domain, make, d, seed=0):
    """Return the excess of a private fit over that of zero weights."""
    rng = np.random.default_rng(seed)
    X, length = make(rng, d)
    truth = np.zeros(d)
    truth[:ACTIVE] = 1.0 / ACTIVE
    bounds = dp.Bounds(length, label=1.0)
    problem = dp.Problem(loss=dp.losses.Squared(), bounds=bounds, domain=domain)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dp.errors.AccuracyWarning)
        fit = dp.solve(problem, (X, X @ truth), dp.ApproxDP(4.0, 1e-6), solver="noisy_gd")
    return np.mean((X @ (fit.weights - truth)) ** 2) / np.mean((X @ truth) ** 2)


SIZES = {dense_rows: (60, 200, 600, 2000), sparse_rows: (60, 300, 2000, 20_000)}
curves = {
    (make, name): [excess(domain, make, d) for d in sizes]
    for make, sizes in SIZES.items()
    for name, domain in DOMAINS.items()
}

# %%
# The figure
# ----------
# On dense rows the noise itself grows with the rows' length, in every domain; the Euclidean ball
# pays the square root of d once more. On sparse rows the noise stays the same, and only the width
# of the domain is left to tell them apart.

figure, axes = plt.subplots(1, 3, figsize=(12, 3.6))
for axis, (make, sizes) in zip(axes[:2], SIZES.items(), strict=True):
    for name in DOMAINS:
        axis.loglog(sizes, curves[make, name], "o-", label=name)
    axis.set(
        title=make.__name__.replace("_", " "), xlabel="columns", ylabel="excess / zero weights"
    )
    axis.axhline(1.0, color="grey", linewidth=0.8)
sizes = np.logspace(1, 5, 30).astype(int)
for name, domain in DOMAINS.items():
    axes[2].loglog(sizes, [domain.gaussian_width(int(d)).value for d in sizes], label=name)
axes[2].set(title="Gaussian width", xlabel="columns")
axes[2].legend()
figure.tight_layout()
plt.show()

for (make, name), values in curves.items():
    print(f"{make.__name__:<12} {name:<8}", " ".join(f"{value:.3f}" for value in values))
