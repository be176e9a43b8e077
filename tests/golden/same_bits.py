"""What every solver returns on fixed seeds and tables: weights, releases, costs, schedules.

``python tests/golden/same_bits.py FILE`` records them; `test_same_bits` compares a run with the
record that is kept beside this file. Two runs on one machine agree to the last bit
(``python tests/golden/same_bits.py FILE --compare OTHER``); other machines may round products
otherwise, so the test allows for that.
"""

import argparse
import json
import warnings
from pathlib import Path

import numpy as np

import dpsco as dp
from dpsco.errors import AssumptionError, ParameterError
from dpsco.solvers import registry

N, D = 240, 4
CLASSES = dp.data.Classes(["a", "b", "c"])
PROBLEMS = {
    "logistic-ball": dp.Problem(
        loss=dp.losses.Logistic(),
        bounds=dp.Bounds(1.0, label="sign"),
        domain=dp.domains.L2Ball(3.0),
    ),
    "logistic-free": dp.Problem(
        loss=dp.losses.Logistic(), bounds=dp.Bounds(1.0, label="sign", intercept=0.5)
    ),
    "ridge-logistic": dp.Problem(
        loss=dp.losses.Logistic(),
        bounds=dp.Bounds(1.0, label="sign"),
        penalty=dp.losses.L2Penalty(0.05),
    ),
    "hinge-l1": dp.Problem(
        loss=dp.losses.Hinge(),
        bounds=dp.Bounds(3.0, label="sign"),
        domain=dp.domains.L1Ball(2.0),
    ),
    "absolute-ball": dp.Problem(
        loss=dp.losses.Absolute(), bounds=dp.Bounds(1.0, label=1.5), domain=dp.domains.L2Ball(1.0)
    ),
    "huber-free": dp.Problem(loss=dp.losses.Huber(0.5), bounds=dp.Bounds(2.0, label=1.5)),
    "squared-free": dp.Problem(loss=dp.losses.Squared(), bounds=dp.Bounds(1.0, label=1.0)),
    "softmax-ball": dp.Problem(
        loss=dp.losses.Softmax(3),
        bounds=dp.Bounds(1.0, label=CLASSES),
        domain=dp.domains.L2Ball(3.0),
    ),
    "logistic-l1": dp.Problem(
        loss=dp.losses.Logistic(),
        bounds=dp.Bounds(1.0, label="sign", norm=dp.geometry.LINF),
        domain=dp.domains.L1Ball(2.0),
    ),
    "mean": dp.Problem(loss=dp.losses.SquaredDistance(), bounds=dp.Bounds(1.0)),
}
BUDGETS = {
    "replace": dp.ApproxDP(2.0, 1e-5),
    "zero-out": dp.ApproxDP(2.0, 1e-5, adjacency="zero_out"),
    "pure": dp.PureDP(2.0),
    "zcdp": dp.ZCDP(0.5),
    "gdp": dp.GDP(0.7),
}
VARIANTS = {
    "noisy_gd": {"momentum": 0.5, "rounds": 12, "tail": 3},
    "dp_sgd_poisson": {"rate": 0.3, "epochs": 3.0},
    "dp_sgd_gradient": {"rounds": 12, "batch": 40},
    "dp_sgd_output": {"sampling": "with_replacement"},
    "bolt_on_sgd": {"batch": 5},
    "dp_ftrl": {"noise": "tree"},
    "truncated_batched_mirror_descent": {"batches": True, "rounds": 12},
    "heavy_tailed_coordinate_gd": {"clip": 0.2, "step": 0.5, "rounds": 12},
    "shuffled_truncated_mirror_descent": {"secret_order": False, "rounds": 4},
    "acc_srgd": {"noise": "tree", "certified": True},
    "srg_sgd": {"noise": "blt"},
    "srg_online_to_batch": {"noise": "tree_honaker", "certified": True},
    "noisy_regularized_mirror_descent": {"noise": "generalized", "p": 1.5, "rounds": 12},
    "strongly_convex_lp": {"mode": "localized", "rounds": 4},
    "prox_guided_weakly_convex": {"blocks": 5, "prox_multiplier": 0.5, "answer": 3},
    "l2_clip_mean_oracle": {"clip": 0.5},
}


def table(name):
    """Return made-up rows for a problem."""
    rng = np.random.default_rng(list(name.encode()))
    X = rng.normal(size=(N, D)) / 2
    score = X @ [1.0, -2.0, 0.5, 0.0] + 0.3 * rng.normal(size=N)
    kind = PROBLEMS[name].loss.labels
    if kind == "none":
        return (X,)
    if kind == "sign":
        return X, np.where(score > 0, 1.0, -1.0)
    if kind not in ("real", "count"):
        return X, np.array(["a", "b", "c"])[np.digitize(score, [-0.5, 0.5])]
    return X, score


def cases():
    """Yield (name, solver, problem, budget, calibration, options)."""
    for key, solver in registry().items():
        for problem in PROBLEMS:
            for budget in BUDGETS:
                yield f"{key} {problem} {budget}", key, problem, budget, "tight", {}
        for calibration in solver.calibrations[1:]:
            name = f"{key} logistic-ball replace {calibration}"
            yield name, key, "logistic-ball", "replace", calibration, {}
        if key in VARIANTS:
            for problem in ("logistic-ball", "absolute-ball", "huber-free", "mean"):
                name = f"{key} {problem} replace variant"
                yield name, key, problem, "replace", "tight", VARIANTS[key]


def outcome(key, problem, budget, calibration, options):
    """Return what a fit leaves behind, or the kind of its refusal."""
    rows = table(problem)
    try:
        plan = dp.plan(
            PROBLEMS[problem],
            n=N,
            d=D,
            budget=BUDGETS[budget],
            solver=key,
            calibration=calibration,
            options=options,
        )
    except (AssumptionError, ParameterError) as refusal:
        return {"refused": type(refusal).__name__}
    result = dp.run(plan, rows, randomness=dp.Randomness.seeded(7))
    certificate = result.certificate
    return {
        "weights": [float(value).hex() for value in result.weights],
        "releases": [
            {k: v for k, v in record.items() if k != "theorem"}
            for record in certificate.to_json()["releases"]
        ],
        "epsilon": float(certificate.claims.epsilon).hex(),
        "trace": [[*line.rows, line.step, line.sigma] for line in result.trace[:3]],
        "rounds": len(result.trace),
    }


def record():
    """Return the outcome of every case by its name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {name: outcome(*case) for name, *case in cases()}


def lines(record):
    """Return a record as JSON with one line per case."""
    cases = (
        f"{json.dumps(name)}:{json.dumps(case, separators=(',', ':'))}"
        for name, case in record.items()
    )
    return "{\n" + ",\n".join(cases) + "\n}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--compare", type=Path)
    arguments = parser.parse_args()
    if arguments.compare is None:
        arguments.file.write_text(lines(record()))
        return
    old, new = (json.loads(path.read_text()) for path in (arguments.file, arguments.compare))
    differ = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    print(f"{len(differ)} of {len(old)} cases differ", *differ, sep="\n  ")


if __name__ == "__main__":
    main()
