"""Made-up rows in files whose row groups are no whole leaves."""

import numpy as np
import pytest

import dpsco as dp

ROWS = (30_011, 9_999, 20_000)
BOUNDS = dp.Bounds(2.0, label="sign")
OPTIONS = {  # one of each way in which a round reads rows, and of each answer
    "noisy_gd": {"rounds": 4},
    "dp_sgd_poisson": {"epochs": 2, "rate": 0.3},
    "dp_ftrl": {"rounds": 5},
    "localized_clipped_subgradient": {"rounds": 2},  # in each of four phases
    "noisy_regularized_mirror_descent": {"rounds": 3, "p": 1.5},
    "noisy_fw_gll": {"rounds": 4},
}
ON_L1 = "noisy_fw_gll", "noisy_regularized_mirror_descent"


def write_rows(folder, *, rows=ROWS, group=7_000, d=5, seed=0, name="part"):
    """Write rows as Parquet files, and return their folder."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    generator = np.random.default_rng(seed)
    for number, count in enumerate(rows):
        columns = {f"x{j}": generator.normal(size=count) for j in range(d)}
        columns["y"] = np.sign(columns["x0"] + generator.normal(size=count))
        pq.write_table(pa.table(columns), folder / f"{name}{number}.parquet", row_group_size=group)
    return folder


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return write_rows(tmp_path_factory.mktemp("rows"))


@pytest.fixture
def few_rows(tmp_path):
    """Two small files of a test's own, which it may damage."""
    place = tmp_path / "rows"
    place.mkdir()
    return write_rows(place, rows=(6_000, 5_000), group=2_000)


def make_plan(solver="noisy_gd", *, n=60_010, loss=None, **options):
    """Return a plan for such rows."""
    ball = dp.domains.L1Ball(2.0) if solver in ON_L1 else dp.domains.L2Ball(5.0)
    loss = dp.losses.Logistic() if loss is None else loss
    problem = dp.Problem(loss=loss, domain=ball, bounds=BOUNDS)
    budget = dp.ApproxDP(1.0, 1e-7)
    return dp.plan(problem, n=n, d=5, budget=budget, solver=solver, options=options)
