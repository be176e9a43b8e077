"""What the faces of dpsco return on fixed seeds: estimators, searches, streams, workers, rankings.

``python tests/golden/same_faces.py FILE`` records them; `test_same_bits` compares a run with the
record that is kept beside this file.
"""

import itertools
import json
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

import dpsco as dp
from dpsco.federated import Coordinator, Worker

N, D, SEED = 400, 3, 11
RNG = np.random.default_rng(20)
X = RNG.uniform(-0.5, 0.5, size=(N, D))
SCORE = X @ [3.0, -2.0, 0.5] + 0.2 * RNG.normal(size=N)
SIGN = np.where(SCORE > 0, 1.0, -1.0)
WORD = np.where(SCORE > 0, "yes", "no")
COLOUR = np.array(["red", "green", "blue"])[np.digitize(SCORE, [-0.4, 0.4])]
PROBLEM = dp.Problem(
    loss=dp.losses.Logistic(),
    bounds=dp.Bounds(1.0, label="sign", intercept=0.5),
    domain=dp.domains.L2Ball(5.0),
)
ORDER = "given"
BUDGET = dp.ApproxDP(2.0, 1e-6)
ROUND_SOLVERS = (
    *("acc_srgd", "acc_independent", "srg_sgd", "srg_online_to_batch"),
    *("dp_ftrl", "dp_sgd_single_epoch"),
)
TWO = {"feature_norm": 1.0, "classes": ["no", "yes"]}
REAL = {"feature_norm": 1.0, "label_range": (-3, 3)}
ESTIMATORS = {
    "logistic": ("PrivateLogisticRegression", TWO, WORD),
    "logistic three classes": (
        "PrivateLogisticRegression",
        {"feature_norm": 1.0, "classes": ["red", "green", "blue"]},
        COLOUR,
    ),
    "logistic counts": ("PrivateLogisticRegression", {**TWO, "count_rows": True}, WORD),
    "logistic private bounds": (
        "PrivateLogisticRegression",
        {"classes": ["no", "yes"], "bounds": "private"},
        WORD,
    ),
    "logistic noisy_gd": ("PrivateLogisticRegression", {**TWO, "solver": "noisy_gd"}, WORD),
    "logistic phased_sgd": ("PrivateLogisticRegression", {**TWO, "solver": "phased_sgd"}, WORD),
    "svc": ("PrivateSVC", TWO, WORD),
    "linear": ("PrivateLinearRegression", REAL, SCORE),
    "linear private bounds": ("PrivateLinearRegression", {"bounds": "private"}, SCORE),
    "huber": ("PrivateHuberRegressor", REAL, SCORE),
    "quantile": ("PrivateQuantileRegressor", {**REAL, "quantile": 0.8}, SCORE),
    "absolute": ("PrivateAbsoluteRegressor", REAL, SCORE),
    "svr": ("PrivateSVR", REAL, SCORE),
    "mean": ("PrivateMean", {"feature_norm": 1.0}, None),
    "mean private bounds": ("PrivateMean", {"bounds": "private"}, None),
}


def hexes(values):
    """Return numbers as text that keeps every bit."""
    return [float(value).hex() for value in np.ravel(values)]


def paid(certificate):
    """Return the releases and the cost of a certificate."""
    releases = [
        {k: v for k, v in record.items() if k != "theorem"}
        for record in certificate.to_json()["releases"]
    ]
    return {"releases": releases, "epsilon": float(certificate.claims.epsilon).hex()}


def estimator(name):
    """Return what a seeded estimator learns and pays."""
    kind, settings, y = ESTIMATORS[name]
    model = getattr(dp, kind)(epsilon=2.0, random_state=SEED, **settings)
    model.fit(X, y)
    learnt = ("coef_", "intercept_", "mean_", "feature_norm_", "label_range_", "n_rows_usable_")
    values = [getattr(model, name) for name in learnt if hasattr(model, name)]
    return {
        "weights": hexes(np.concatenate([np.ravel(v) for v in values])),
        **paid(model.certificate_),
    }


def search(estimator, grid, y):
    """Return what a seeded search chooses and pays."""
    tuned = dp.PrivateGridSearch(estimator, grid, epsilon=2.0, mean_runs=4.0, random_state=SEED)
    tuned.fit(X, y)
    best = tuned.best_estimator_
    chosen = {"best": {name: str(value) for name, value in tuned.best_params_.items()}}
    return {"weights": hexes([*best.coef_.ravel(), *np.ravel(best.intercept_)]), **chosen}


def plan_of(solver):
    """Return a plan of six rounds."""
    options = {"rounds": 6}
    return dp.plan(PROBLEM, n=N, d=D, budget=BUDGET, solver=solver, options=options)


def chunks():
    """Yield the rows in uneven parts."""
    for start, stop in itertools.pairwise([0, 7, 130, 131, 300, N]):
        yield X[start:stop], SIGN[start:stop]


def streamed(solver, checkpoint):
    """Return a seeded run on a stream, with or without a checkpoint."""
    table = dp.data.from_batches(chunks(), n=N, d=D)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "run.ckpt" if checkpoint else None
        result = dp.run(
            plan_of(solver),
            table,
            order=ORDER,
            randomness=dp.Randomness.seeded(SEED),
            checkpoint=place,
        )
    return {"weights": hexes(result.weights), **paid(result.certificate)}


def federated(solver):
    """Return a seeded run of a coordinator with three workers in each round."""
    plan = plan_of(solver)
    coordinator = Coordinator(plan, randomness=dp.Randomness.seeded(SEED))
    while not coordinator.finished:
        request = coordinator.request()
        start, stop = plan.batches()[request.round]
        cuts = np.linspace(start, stop, 4).astype(int)
        workers = [
            Worker((X[a:b], SIGN[a:b]), plan, name=f"{request.round}/{a}")
            for a, b in itertools.pairwise(cuts)
        ]
        coordinator.receive([worker.answer(request) for worker in workers])
    result = coordinator.result()
    return {"weights": hexes(result.weights), **paid(result.certificate)}


def ranking(n, epsilon):
    """Return the order of the solvers and the risks that a recommendation predicts."""
    shown = dp.recommend(PROBLEM, n, 20, dp.ApproxDP(epsilon, 1e-8))
    return {
        "ranked": [each.solver for each in shown.ranked],
        "weights": hexes([each.risk for each in shown.ranked]),
        "refused": sorted(shown.refused),
    }


def forecasts(n):
    """Return what fewer rounds are expected to cost."""
    shown = dp.forecast(PROBLEM, n, 20, dp.ApproxDP(1.0, 1e-8))
    points = [f"{point.solver} {point.rounds}" for point in shown.points]
    return {"points": points, "weights": hexes([point.excess for point in shown.points])}


def cases():
    """Yield (name, function, arguments)."""
    for name in ESTIMATORS:
        yield f"estimator {name}", estimator, (name,)
    fast = {"solver": "noisy_gd", "options": {"rounds": 8}}
    classifier = dp.PrivateLogisticRegression(**TWO, **fast)
    regressor = dp.PrivateLinearRegression(**REAL, **fast)
    grid = {"alpha": [0.0, 0.1, 1000.0]}
    yield "search classifier", search, (classifier, grid, WORD)
    yield "search regressor", search, (regressor, grid, SCORE)
    for solver in ROUND_SOLVERS:
        yield f"stream {solver}", streamed, (solver, False)
        yield f"checkpoint {solver}", streamed, (solver, True)
        yield f"federated {solver}", federated, (solver,)
    for n, epsilon in itertools.product((500, 20_000, 1_000_000), (0.5, 4.0)):
        yield f"ranking {n} {epsilon}", ranking, (n, epsilon)
    for n in (2_000, 100_000):
        yield f"forecast {n}", forecasts, (n,)


def outcome(function, arguments):
    """Return the outcome of one case."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*arguments)


if __name__ == "__main__":
    record = {name: outcome(function, arguments) for name, function, arguments in cases()}
    cases = (
        f"{json.dumps(name)}:{json.dumps(case, separators=(',', ':'))}"
        for name, case in record.items()
    )
    Path(sys.argv[1]).write_text("{\n" + ",\n".join(cases) + "\n}\n")
