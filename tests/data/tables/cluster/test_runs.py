"""A run is the same bits whoever sums, whatever is lost on the way, and is paid for once."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import dpsco as dp
from dpsco.data.tables.cluster.adapters import adapter_of
from dpsco.data.tables.cluster.local import LocalAdapter
from dpsco.errors import ClusterError, ParameterError

from .conftest import BOUNDS, OPTIONS, make_plan

# What Dask leaves behind when its workers are killed is not ours to close.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
PATIENCE = 240.0  # seconds for a process to start, or to end


def seeded():
    return dp.Randomness.seeded(7)


def run(folder, plan, cluster, *, table=None, **more):
    """Run a plan on a cluster's rows."""
    options = {"label": "y", "slice_rows": 8192} | (table or {})
    with dp.data.from_cluster(folder, cluster=cluster, **options) as rows:
        return dp.run(plan, rows, order="given", randomness=seeded(), **more)


@pytest.fixture(scope="module")
def alone(folder):
    """The plans, and the weights of one process."""
    plans = {key: make_plan(key, **options) for key, options in OPTIONS.items()}
    rows = dp.data.from_parquet(folder, label="y")
    return {
        key: (plan, dp.run(plan, rows, order="given", randomness=seeded()).weights.tobytes())
        for key, plan in plans.items()
    }


@pytest.fixture(scope="module")
def processes():
    """Two processes, which several tests use."""
    adapter = adapter_of("local:2")
    yield adapter
    adapter.close()


@pytest.fixture(scope="module")
def dask():
    """A Dask cluster of one worker, and its adapter."""
    try:
        import distributed  # noqa: F401
    except ImportError:
        if os.environ.get("CI"):
            pytest.fail("the Dask adapter must be tested under CI: pip install 'dpsco[dask]'")
        pytest.skip("the Dask adapter is not tested: pip install 'dpsco[dask]'")
    adapter = adapter_of("dask:1")
    yield adapter
    adapter.close()


@pytest.mark.parametrize("solver", OPTIONS)
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_threads_end_at_the_bits_of_one_process(folder, alone, solver, workers):
    plan, expected = alone[solver]
    assert run(folder, plan, f"threads:{workers}").weights.tobytes() == expected


@pytest.mark.slow
@pytest.mark.parametrize("solver", OPTIONS)
def test_processes_end_at_the_bits_of_one_process(folder, alone, processes, solver):
    plan, expected = alone[solver]
    assert run(folder, plan, processes).weights.tobytes() == expected


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 3])
def test_the_number_of_processes_moves_no_bit(folder, alone, workers):
    plan, expected = alone["noisy_gd"]
    assert run(folder, plan, f"local:{workers}").weights.tobytes() == expected


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_dask_ends_at_the_bits_of_one_process(folder, alone, dask, workers):
    client = dask._client
    client.cluster.scale(workers)
    client.wait_for_workers(workers, timeout=PATIENCE)
    assert dask.workers == workers
    for plan, expected in alone.values():
        assert run(folder, plan, dask).weights.tobytes() == expected


@pytest.mark.slow
def test_a_cluster_that_is_there_is_joined_and_left(folder, alone, monkeypatch):
    """By its address; also with tasks so large that they are sent to each worker once."""
    import distributed

    from dpsco.data.tables.cluster import dask as module

    plan, expected = alone["noisy_fw_gll"]
    monkeypatch.setattr(module, "_INLINE", 0)
    cluster = distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0"
    )
    with cluster:
        for scheme in ("tcp", "dask"):
            address = cluster.scheduler_address.replace("tcp", scheme, 1)
            assert run(folder, plan, address).weights.tobytes() == expected
        assert len(cluster.workers) == 1


@pytest.mark.slow
def test_dask_workers_without_dpsco_say_so_and_live(few_rows, dask, tmp_path, monkeypatch):
    """What a worker cannot unpickle ends it: a cluster of others must not lose its workers."""
    import distributed

    from dpsco.data.tables.cluster import dask as module

    (tmp_path / "dpsco").mkdir()
    (tmp_path / "dpsco" / "__init__.py").write_text("raise ImportError")
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with distributed.LocalCluster(
        n_workers=0, host="127.0.0.1", dashboard_address="127.0.0.1:0"
    ) as cluster:
        address = cluster.scheduler_address
        adapter = adapter_of(address)

        def check():
            dp.data.from_cluster(few_rows, label="y", cluster=adapter).check(BOUNDS, order="given")

        monkeypatch.setattr(module, "REACH", 0.5)
        with pytest.raises(ClusterError, match=f"{address} has no workers"):
            check()
        command = [sys.executable, "-m", "dask", "worker", address, "--no-dashboard"]
        environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
        worker = subprocess.Popen(command, env=environment, **quiet)
        try:
            monkeypatch.setattr(module, "REACH", PATIENCE)
            with pytest.raises(ClusterError, match="cannot import this dpsco"):
                check()
            assert worker.poll() is None
            assert len(cluster.scheduler.workers) == 1
        finally:
            worker.terminate()
            worker.wait(PATIENCE)
            adapter.close()


@pytest.mark.slow
def test_a_dask_cluster_of_this_machine_is_closed_to_others(dask):
    """Whoever reaches a scheduler runs code as its user, and reads the rows."""
    import distributed

    address = dask._client.scheduler.address
    assert address.startswith("tls://127.0.0.1:")
    stranger = distributed.Security.temporary()
    for target, keys in ((address, stranger), (address.replace("tls", "tcp"), None)):
        with pytest.raises(OSError):  # noqa: PT011 - of Dask's own words
            distributed.Client(target, security=keys, timeout=2, set_as_default=False)


# -- workers that die, answers that are lost, repeated or damaged ----------------------------------


@pytest.mark.slow
def test_a_killed_process_moves_no_bit(folder, alone, processes, tmp_path):
    """One is killed in each of two rounds; the run is paid for once."""
    plan, expected = alone["noisy_gd"]
    killed = []

    def kill(done, total):
        if done == 2 and len(killed) < 2:
            killed.append(next(iter(processes._pool._processes)))
            os.kill(killed[-1], signal.SIGKILL)

    odometer = dp.Odometer(tmp_path / "odometer", plan.budget)
    table = {"progress": kill, "slice_rows": 4096}
    result = run(folder, plan, processes, table=table, odometer=odometer)
    assert result.weights.tobytes() == expected
    assert len(killed) == 2
    assert len(odometer.entries()) == 1


DRIVER = """
import os, sys, time
import dpsco as dp
from dpsco.data.tables.cluster.adapters import adapter_of

if __name__ == "__main__":
    adapter = adapter_of("local:2")
    with dp.data.from_cluster(sys.argv[1], label="y", cluster=adapter) as table:
        table.check(dp.Bounds(2.0, label="sign"), order="given")
    print(*adapter._pool._processes, flush=True)
    time.sleep(60)
"""


@pytest.mark.slow
def test_workers_end_with_a_killed_driver(few_rows, tmp_path):
    script = tmp_path / "driver.py"
    script.write_text(DRIVER)
    command = [sys.executable, str(script), str(few_rows)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as driver:
        workers = [int(number) for number in driver.stdout.readline().split()]
        assert workers
        driver.kill()

    def alive(number):
        try:
            return "Z" not in Path(f"/proc/{number}/stat").read_text().rpartition(")")[2][:3]
        except FileNotFoundError:
            return False

    end = time.monotonic() + PATIENCE
    while any(map(alive, workers)) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(map(alive, workers))


@pytest.mark.slow
def test_a_killed_dask_worker_moves_no_bit(folder, alone, dask, tmp_path):
    plan, expected = alone["noisy_gd"]
    client, killed = dask._client, []
    client.cluster.scale(2)
    client.wait_for_workers(2, timeout=PATIENCE)

    def kill(done, total):
        if done == 2 and len(killed) < 2:
            killed.append(next(iter(client.run(os.getpid).values())))
            os.kill(killed[-1], signal.SIGKILL)

    odometer = dp.Odometer(tmp_path / "odometer", plan.budget)
    table = {"progress": kill, "slice_rows": 4096}
    result = run(folder, plan, dask, table=table, odometer=odometer)
    assert result.weights.tobytes() == expected
    assert len(killed) == 2
    assert len(odometer.entries()) == 1


class Careless(LocalAdapter):
    """Loses, repeats and damages answers, and mixes in those of earlier tasks."""

    def __init__(self):
        super().__init__(1, processes=False)
        self.calls, self.earlier = 0, {}

    def map(self, task, slices):
        self.calls += 1
        for place, (name, message) in enumerate(super().map(task, slices)):
            kind = (place + self.calls) % 5
            if kind == 0:
                continue  # lost
            if kind == 1:
                yield name, message[:-1]  # cut
                yield name, message[:60] + bytes([message[60] ^ 1]) + message[61:]
                yield name, "text"
                continue
            if kind == 2 and self.earlier:
                yield name, next(iter(self.earlier.values()))  # of another task or slice
            yield name, message
            yield name, message
            self.earlier[name] = message


@pytest.mark.parametrize("solver", OPTIONS)
def test_each_slice_counts_once(folder, alone, solver):
    plan, expected = alone[solver]
    careless, traces = Careless(), []
    table = {"watch": traces.append, "slice_rows": 4096}
    assert run(folder, plan, careless, table=table).weights.tobytes() == expected
    assert sum(trace.repeated for trace in traces) > len(traces)


class Silent(LocalAdapter):
    """Answers a few times, and then never."""

    def __init__(self, answers):
        super().__init__(1, processes=False)
        self.left = answers

    def map(self, task, slices):
        for pair in super().map(task, slices):
            if self.left == 0:
                return
            self.left -= 1
            yield pair


@pytest.mark.parametrize(
    ("solver", "answers", "left"),
    [
        ("noisy_gd", 3 + 2 * 8 + 3, "5 of 8"),  # the shards, two rounds, a bit of the third
        ("dp_sgd_poisson", 3 + 2 * 3 + 1, "^some"),  # of a secret sample, whose size nobody says
        ("dp_ftrl", 3 + 2 * 2 + 1, "1 of 2"),  # of correlated noise
    ],
)
def test_what_never_comes_stops_the_run_and_it_goes_on(
    folder, alone, tmp_path, solver, answers, left
):
    """Rounds before stay in checkpoint and odometer; other workers finish with the same bits."""
    plan, expected = alone[solver]
    odometer = dp.Odometer(tmp_path / "odometer", plan.budget)
    keep = {"checkpoint": tmp_path / "checkpoint", "odometer": odometer}
    with pytest.raises(ClusterError, match=f"^{left} slices have no answer that counts"):
        run(folder, plan, Silent(answers), **keep)
    (entry,) = odometer.entries()
    assert run(folder, plan, "threads:2", **keep).weights.tobytes() == expected
    assert list(odometer.entries()) == [entry]


def test_a_stopped_driver_goes_on_where_it_was(folder, alone, tmp_path):
    """Also with the rows of one process, which are the same sums."""
    plan, expected = alone["dp_ftrl"]

    def stop(done, total):
        if done == 2:
            raise KeyboardInterrupt

    odometer = dp.Odometer(tmp_path / "odometer", plan.budget)
    keep = {"checkpoint": tmp_path / "checkpoint", "odometer": odometer}
    with pytest.raises(KeyboardInterrupt):
        run(folder, plan, "threads:2", progress=stop, **keep)
    rows = dp.data.from_parquet(folder, label="y")
    result = dp.run(plan, rows, order="given", **keep)
    assert result.weights.tobytes() == expected
    assert len(odometer.entries()) == 1


def test_a_shuffle_of_groups_goes_on_in_its_order(folder, tmp_path):
    plan = make_plan("dp_ftrl", **OPTIONS["dp_ftrl"])

    def fit(**more):
        with dp.data.from_cluster(
            folder, label="y", cluster="threads:2", shuffle="groups"
        ) as table:
            return dp.run(plan, table, **more)

    def stop(done, total):
        if done == 2:
            raise KeyboardInterrupt

    whole = fit(randomness=seeded()).weights.tobytes()
    keep = {"checkpoint": tmp_path / "checkpoint"}
    with pytest.raises(KeyboardInterrupt):
        fit(randomness=seeded(), progress=stop, **keep)
    assert fit(**keep).weights.tobytes() == whole


# -- the faces -------------------------------------------------------------------------------------


def test_estimators_fit_a_cluster(folder):
    how = {"feature_norm": 2.0, "classes": (-1, 1), "epsilon": 1.0, "random_state": 3}
    how |= {"solver": "noisy_gd", "options": {"rounds": 3}}
    with dp.data.from_cluster(folder, label="y", cluster="threads:2") as table:
        there = dp.PrivateLogisticRegression(**how).fit(table, order="given")
    here = dp.PrivateLogisticRegression(**how)
    here.fit(dp.data.from_parquet(folder, label="y"), order="given")
    assert there.coef_.tobytes() == here.coef_.tobytes()
    assert any("workers read the rows" in each for each in there.certificate_.trusted)


def test_private_bounds_are_found_there(folder):
    """Units and bounds are sums too."""
    how = {"classes": (-1, 1), "epsilon": 1.0, "random_state": 3, "count_rows": True}
    how |= {"solver": "noisy_gd", "options": {"rounds": 3}}
    with dp.data.from_cluster(folder, label="y", cluster="threads:2") as table:
        there = dp.PrivateLogisticRegression(bounds="private", **how).fit(table, order="given")
    here = dp.PrivateLogisticRegression(bounds="private", **how)
    here.fit(dp.data.from_parquet(folder, label="y"), order="given")
    assert there.coef_.tobytes() == here.coef_.tobytes()


def test_auto_takes_a_solver_of_sums(folder):
    problem = dp.Problem(loss=dp.losses.Logistic(), bounds=BOUNDS)
    with dp.data.from_cluster(folder, label="y", cluster="threads:2") as table:
        budget, options = dp.ApproxDP(1.0, 1e-7), {"rounds": 3}
        result = dp.solve(problem, table, budget, order="given", options=options)
    assert result.plan.solver == "noisy_gd"


@pytest.mark.parametrize("solver", ["approx_objective_perturbation", "phased_sgd"])
def test_solvers_of_single_rows_are_refused(folder, solver):
    with pytest.raises(ParameterError, match=r"needs the rows themselves.*solver='noisy_gd'"):
        run(folder, make_plan(solver), "threads:1")


def test_rows_that_are_few_leave_workers_idle(few_rows):
    plan = make_plan(n=11_000, rounds=2)
    rows = dp.data.from_parquet(few_rows, label="y")
    right = dp.run(plan, rows, order="given", randomness=seeded()).weights
    assert run(few_rows, plan, "threads:64").weights.tobytes() == right.tobytes()


def test_what_fails_while_a_cluster_closes_takes_no_result_with_it():
    """Dask raises KeyError at the end if a worker has died and it knows of two ends of it."""
    from dpsco.data.tables.cluster.dask import DaskAdapter

    Status = pytest.importorskip("distributed").Status

    class Part:
        status = Status.closing

        def close(self):
            raise KeyError("tls://127.0.0.1:1")

    client, cluster = Part(), Part()
    DaskAdapter(client, cluster).close()
    assert cluster.status is Status.closed


def test_local_workers_are_as_many_as_asked_for():
    assert adapter_of("local:3").workers == 3
    assert adapter_of("threads:5").workers == 5
    assert adapter_of("local").workers >= 1
