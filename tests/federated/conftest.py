"""A small problem that all sides of a federated run agree on."""

import itertools

import numpy as np
import pytest

import dpsco as dp
from dpsco.federated import Worker

N, D = 120, 4


class Setting:
    """Rows, plans of one problem, and workers that hold the rows of one round."""

    def __init__(self):
        rng = np.random.default_rng(0)
        self.X = rng.normal(size=(N, D))
        self.y = np.sign(self.X[:, 0] + 0.3 * rng.normal(size=N))
        self.problem = dp.Problem(
            loss=dp.losses.Logistic(),
            bounds=dp.Bounds(2.0, label="sign", intercept=1.0),
            domain=dp.domains.L2Ball(5.0),
        )

    def plan(self, solver="acc_srgd", *, n=N, unit=None, **options):
        unit = {} if unit is None else {"unit": unit}
        return dp.plan(
            self.problem,
            n=n,
            d=D,
            budget=dp.ApproxDP(2.0, 1e-6, **unit),
            solver=solver,
            options={"rounds": 3, **options},
        )

    def rows(self, start, stop):
        return self.X[start:stop], self.y[start:stop]

    def workers(self, plan, round, count=1, **more):
        """Return workers that share the rows of a round."""
        start, stop = plan.batches()[round]
        cuts = np.linspace(start, stop, count + 1).astype(int)
        return [
            Worker(self.rows(a, b), plan, name=f"{round}/{a}", **more)
            for a, b in itertools.pairwise(cuts)
        ]


@pytest.fixture
def setting():
    return Setting()
