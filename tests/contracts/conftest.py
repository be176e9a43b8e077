"""Problems, rows and neighbours on which every solver of the registry is tested.

A test that asks for ``case`` runs for every solver, on the first problems that its needs admit, for
both adjacencies. Nothing has to be written for a new solver.
"""

from dataclasses import dataclass
from functools import cache
from itertools import islice

import numpy as np
import pytest

import dpsco as dp
from dpsco.errors import AssumptionError
from dpsco.solvers import registry

N, D = 60, 3
LOSSES, DOMAINS = dp.losses, dp.domains
CLASSES = dp.data.Classes(["a", "b", "c"])

PROBLEMS = {
    "logistic-ball": dp.Problem(
        loss=LOSSES.Logistic(),
        bounds=dp.Bounds(1.0, label="sign"),
        domain=DOMAINS.L2Ball(3.0),
    ),
    "huber-free": dp.Problem(loss=LOSSES.Huber(0.5), bounds=dp.Bounds(2.0, label=1.5)),
    "absolute-ball": dp.Problem(
        loss=LOSSES.Absolute(),
        bounds=dp.Bounds(1.0, label=1.5),
        domain=DOMAINS.L2Ball(1.0),
    ),
    "hinge-free": dp.Problem(
        loss=LOSSES.Hinge(), bounds=dp.Bounds(1.0, label="sign", intercept=0.5)
    ),
    "hinge-l1": dp.Problem(
        loss=LOSSES.Hinge(),
        bounds=dp.Bounds(3.0, label="sign"),
        domain=DOMAINS.L1Ball(2.0),
    ),
    "huber-ball": dp.Problem(
        loss=LOSSES.Huber(0.3),
        bounds=dp.Bounds(1.0, label=1.3),
        domain=DOMAINS.L2Ball(1.0),
    ),
    "ridge-logistic": dp.Problem(
        loss=LOSSES.Logistic(),
        bounds=dp.Bounds(1.0, label="sign"),
        penalty=LOSSES.L2Penalty(0.05),
    ),
    "squared-free": dp.Problem(loss=LOSSES.Squared(), bounds=dp.Bounds(1.0, label=1.0)),
    "mean-l1": dp.Problem(
        loss=LOSSES.SquaredDistance(), bounds=dp.Bounds(1.0), domain=DOMAINS.L1Ball(1.0)
    ),
    "softmax-ball": dp.Problem(
        loss=LOSSES.Softmax(3),
        bounds=dp.Bounds(1.0, label=CLASSES),
        domain=DOMAINS.L2Ball(3.0),
    ),
    "logistic-l1": dp.Problem(
        loss=LOSSES.Logistic(),
        bounds=dp.Bounds(1.0, label="sign", norm=dp.geometry.LINF),
        domain=DOMAINS.L1Ball(2.0),
    ),
    "softmax-free": dp.Problem(
        loss=LOSSES.Softmax(3), bounds=dp.Bounds(1.0, label=CLASSES, intercept=0.3)
    ),
}
# Contracts do not depend on the length of a run; among 60 rows nobody hides.
SHORT = {"rounds": 16, "passes": 4, "epochs": 2, "secret_order": False}
VARIANTS = {  # other releases than by default, on the first problem that fits
    "dp_sgd_output": [{"sampling": "with_replacement"}],
    "dp_sgd_output_unbounded": [{"sampling": "with_replacement"}],
    "bolt_on_sgd": [{"batch": 5}],
    "dp_ftrl": [{"noise": "tree"}],
    "truncated_batched_mirror_descent": [{"batches": True}],
    "clipped_reg_subgradient": [{"clip": "tracked"}],
    "clipped_sgd_sc": [{"clip": "tracked"}],
    "clipped_acsa": [{"oracle": "coordinate_clip", "clip": 0.3}],
    # It splits its budget over rounds: with more of them half the noise would still be enough.
    "noisy_gd_split_baseline": [{"oracle": "l2_clip", "rounds": 2}],
    "acc_srgd": [{"noise": "tree", "certified": True}],
    "srg_sgd": [{"noise": "blt"}],
    "srg_online_to_batch": [{"noise": "tree_honaker", "certified": True}],
    "poly_sfw": [{"variance_reduction": False}],
    "noisy_sfw_lp": [{"follow_steps": False, "output": "last"}],
    "noisy_regularized_mirror_descent": [{"schedule": "balanced"}],
    "strongly_convex_lp": [{"mode": "localized", "rounds": 4}],
    "prox_guided_weakly_convex": [{"blocks": 5, "answer": 3}],
    "noisy_gd": [{"refit": 0.3, "follow": True}, {"batches": 4}],
}
MOST = {"replace_one": 3, "zero_out": 2}  # problems for each solver
BUDGETS = {
    adjacency: dp.ApproxDP(3.0, 1e-4, adjacency=adjacency)
    for adjacency in ("replace_one", "zero_out")
}


@dataclass(frozen=True)
class Case:
    """A solver on a problem; plans and rows are made when they are asked for."""

    solver: str
    problem: str
    adjacency: str = "replace_one"
    variant: int = 0  # which of the solver's variants, counted from 1; 0: none

    @property
    def id(self):
        tail = f"-variant{self.variant}" if self.variant else ""
        return f"{self.solver}-{self.problem}-{self.adjacency}{tail}"

    @property
    def options(self):
        known = registry()[self.solver].options
        short = {name: value for name, value in SHORT.items() if name in known}
        return {**short, **(VARIANTS[self.solver][self.variant - 1] if self.variant else {})}

    @property
    def plan(self):
        made = attempt(self)
        if isinstance(made, str):
            pytest.skip(made)
        return made

    @property
    def data(self):
        return rows(self.problem)

    @property
    def nothing(self):
        """Rows that are all null."""
        return (np.full_like(self.data[0], np.nan), *self.data[1:])

    def compared(self, row, *kinds):
        """Return a table, and its neighbours at a row (all kinds by default).

        For zero-out the table has a null row.
        """
        X, label = self.data[0], None
        if PROBLEMS[self.problem].loss.labels == "real":
            label = far_label(-self.data[1], row)
        full = change(self.data, row, X[row] * 100.0, label)  # as large as the bounds allow
        found = {"full": full, **neighbours(full, row)}
        table = full if self.adjacency == "replace_one" else found["nan"]
        return table, {kind: found[kind] for kind in kinds or found}

    @property
    def lonely(self):
        """Return a table with one row that is not null, and a neighbour that turns it around.

        Nothing else pulls the two apart or together: what is declared is reached where it can be.
        """
        full = self._alone
        return full, {"flip": neighbours(full, 0)["flip"]}

    @property
    def decided(self):
        """Return a table with one row that is not null, and all its neighbours.

        Whatever a solver asks of all rows together, their sum, their largest norm, whether there
        are any, this one row decides; among many rows a single one seldom does.
        """
        found = {"full": self._alone, **neighbours(self._alone, 0)}
        return found["full" if self.adjacency == "replace_one" else "nan"], found

    @property
    def adversarial(self):
        """Return a table with equal rows, and 50 neighbours that tip it one way or the other."""
        X = np.tile(self.data[0][1] / 4, (N, 1))
        labels = [np.array([part[1]] * N) for part in self.data[1:]]
        table, found = (X, *labels), {}
        for row in (0, N // 4, N // 2, N - 1):
            found |= {f"{kind} {row}": data for kind, data in neighbours(table, row).items()}
        rng = np.random.default_rng(0)
        for k in range(max(10, 50 - len(found))):
            scale, label = 10.0 ** rng.integers(-9, 9), None
            if labels and labels[0].dtype.kind == "f" and not set(labels[0]) <= {-1.0, 1.0}:
                label = labels[0][0] + rng.choice([-1.0, 1.0]) * 10.0 ** rng.integers(-7, 1)
            row = int(rng.integers(N))
            found[f"random {k}"] = change(table, row, rng.standard_normal(D) * scale, label)
        return table, found

    @property
    def _alone(self):
        X, *labels = self.compared(0, "full")[1]["full"]
        return (np.where(np.arange(len(X))[:, None] == 0, X, np.nan), *labels)

    def dropped_class(self, row):
        """Return a table where one class has one member, and its neighbour that drops it."""
        if PROBLEMS[self.problem].loss.labels not in ("sign", "classes"):
            return None
        X, y = self.data[0], self.data[1].copy()
        y[:] = y[row]
        lonely = change((X, y), row, None, far_label(y, row))
        return lonely, {"drop a class": (X, y), "keep it": lonely}


@cache
def attempt(case):
    """Return the plan of a case, or why there is none."""
    try:
        return dp.plan(
            PROBLEMS[case.problem],
            n=N,
            d=D,
            budget=BUDGETS[case.adjacency],
            solver=case.solver,
            options=case.options,
        )
    except AssumptionError as refusal:
        return str(refusal)


def cases(solver, adjacency, *, every=False):
    """Return the first cases that a solver's needs admit, or every one."""
    needs, budget = registry()[solver], BUDGETS[adjacency]
    fitting = [
        Case(solver, name, adjacency)
        for name, problem in PROBLEMS.items()
        if not needs.refusals(dp.Task(problem, N, D, budget))
    ]
    chosen = fitting[: None if every else MOST[adjacency]]
    count = len(VARIANTS.get(solver, ())) if adjacency == "replace_one" else 0
    for number in range(1, count + 1):
        variants = (Case(solver, case.problem, adjacency, number) for case in fitting)
        planned = (variant for variant in variants if not isinstance(attempt(variant), str))
        chosen += islice(planned, 1)
    return chosen


def tiers(solver):
    """Return a solver's cases as parameters: its first is in the quick tier, the others are not."""
    first, *others = [case for kind in MOST for case in cases(solver, kind)]
    thorough = [pytest.param(case, id=case.id, marks=pytest.mark.thorough) for case in others]
    return [pytest.param(first, id=first.id), *thorough]


def pytest_generate_tests(metafunc):
    if "case" in metafunc.fixturenames:
        metafunc.parametrize("case", [param for key in registry() for param in tiers(key)])
    if "solver" in metafunc.fixturenames:
        metafunc.parametrize("solver", list(registry()))


@pytest.fixture
def planned():
    """A function from a solver to its cases that can be planned, both adjacencies by default."""

    def find(solver, *adjacencies, every=False):
        kinds = adjacencies or tuple(MOST)
        found = [case for kind in kinds for case in cases(solver, kind, every=every)]
        return [case for case in found if not isinstance(attempt(case), str)]

    return find


@pytest.fixture
def problems():
    return PROBLEMS


# -- rows ------------------------------------------------------------------------------------------


@cache
def rows(name, n=N, seed=5):
    """Return rows and labels for a problem, some of them outside of its bounds."""
    bounds, loss = PROBLEMS[name].bounds, PROBLEMS[name].loss
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, D)) * bounds.feature_norm * 0.7
    margin = X @ np.array([1.0, -0.5, 0.25]) / bounds.feature_norm
    if loss.labels == "none":
        return (X,)
    if loss.labels == "classes":
        return X, np.array(CLASSES.values)[np.digitize(margin, [-0.3, 0.3])]
    if loss.labels == "sign":
        return X, np.where(margin > 0, 1.0, -1.0) * np.where(rng.random(n) < 0.1, -1.0, 1.0)
    return X, margin + 0.2 * rng.standard_normal(n)


def change(data, row, features=None, label=None):
    """Return a copy of the data with another row."""
    X = data[0].copy()
    if features is not None:
        X[row] = features
    if len(data) == 1:
        return (X,)
    y = data[1].copy()
    if label is not None:
        y[row] = label
    return X, y


def far_label(y, row):
    """Return a label that is as far from a row's own as labels can be."""
    if y.dtype.kind == "U":
        return "a" if y[row] != "a" else "c"
    if set(np.unique(y)) <= {-1.0, 1.0}:
        return -y[row]
    return -1e3 if y[row] > 0 else 1e3


def neighbours(data, row):
    """Return neighbours that differ in one row, by what happens to it."""
    X, y = data[0], data[1] if len(data) == 2 else None
    other = (row + 7) % len(X)
    label = None if y is None else far_label(y, row)
    found = {
        "swap": change(data, row, X[other][::-1] - 1.0, label),
        "flip": change(data, row, None if y is not None else -X[row], label),
        "turn": change(data, row, -X[row]),
        "shift": change(data, row, X[row] + 0.3),
        "blow up": change(data, row, X[row] * 1e200, label),
        "zero": change(data, row, 0.0),
        "duplicate": change(data, row, X[other], None if y is None else y[other]),
        "nan": change(data, row, np.nan),
        "infinity": change(data, row, [np.inf, -np.inf, 1.0]),
    }
    if y is not None and y.dtype.kind == "f":
        found["nan label"] = change(data, row, None, np.nan)
        found["infinite label"] = change(data, row, None, -np.inf)
    elif y is not None:
        found["unknown class"] = change(data, row, None, "z")
    return found
