"""Same seeds, same bits: solvers and faces return what they returned when the record was made.

Releases and costs are compared to 1e-12, words and counts exactly. Weights are compared to
`TOLERANCE` of the largest: another machine may round a product otherwise, and a sum that then falls
to the next point of the release's lattice moves a weight by about a millionth of the noise. On one
machine every bit is equal, and so are the bits of rows that differ in their last place.

After a change on purpose: ``python tests/golden/same_bits.py tests/golden/same_bits.json``,
likewise ``same_faces``, and say in the changelog what changed.
"""

import importlib.util
import json
import math
import os
import warnings
from pathlib import Path

import numpy as np
import pytest

from dpsco.solvers import registry

HERE = Path(__file__).parent
TOLERANCE = 1e-5


def load(name):
    """Return a script beside this file as a module, and its record."""
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module, json.loads((HERE / f"{name}.json").read_text())


BITS, BITS_RECORD = load("same_bits")
FACES, FACES_RECORD = load("same_faces")
CASES = {name: case for name, *case in BITS.cases()}


def of_solver(key):
    """Return the names of a solver's cases."""
    return [name for name, case in CASES.items() if case[0] == key]


def sample(key):
    """Return a solver's first case that is not refused, and its variant if it has one."""
    accepted = [name for name in of_solver(key) if "refused" not in BITS_RECORD[name]]
    return [*accepted[:1], *(name for name in accepted[1:] if name.endswith("variant"))][:2]


def outcome(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return json.loads(json.dumps(BITS.outcome(*CASES[name])))


def equal(new, old):
    """Whether JSON values agree: numbers to 1e-12, everything else exactly."""
    if isinstance(old, dict):
        return (
            isinstance(new, dict)
            and list(new) == list(old)
            and equal(list(new.values()), list(old.values()))
        )
    if isinstance(old, list):
        return len(new) == len(old) and all(map(equal, new, old))
    if isinstance(old, float) and isinstance(new, (int, float)):
        return math.isclose(new, old, rel_tol=1e-12)
    return type(new) is type(old) and new == old


def numbers(case):
    return np.array([float.fromhex(value) for value in case.get("weights", [])])


def same(new, old):
    """Whether an outcome is the recorded one."""
    weights, before = numbers(new), numbers(old)
    if weights.shape != before.shape or ("epsilon" in old) != ("epsilon" in new):
        return False
    if weights.size and np.abs(weights - before).max() > TOLERANCE * np.abs(before).max():
        return False
    if "epsilon" in old and not equal(*(float.fromhex(case["epsilon"]) for case in (new, old))):
        return False
    rest = [
        {k: v for k, v in case.items() if k not in ("weights", "epsilon")} for case in (new, old)
    ]
    return equal(*rest)


def needs_same_accountant(key):
    """Skip solvers on secret samples: the noise that dp-accounting finds depends on its version."""
    records = (BITS_RECORD[name].get("releases", []) for name in of_solver(key))
    kinds = {release["kind"] for releases in records for release in releases}
    if "DPSCO_OLDEST" in os.environ and kinds & {"poisson_gaussian", "fixed_size_gaussian"}:
        pytest.skip("recorded with another version of dp-accounting")


@pytest.mark.parametrize("key", registry())
def test_a_solver_returns_what_it_did(key):
    needs_same_accountant(key)
    assert [name for name in sample(key) if not same(outcome(name), BITS_RECORD[name])] == []


@pytest.mark.slow
@pytest.mark.parametrize("key", registry())
def test_a_solver_returns_what_it_did_on_every_case(key):
    differ = [name for name in of_solver(key) if not same(outcome(name), BITS_RECORD[name])]
    assert differ == []


@pytest.mark.parametrize(
    ("name", "function", "arguments"), [pytest.param(*case, id=case[0]) for case in FACES.cases()]
)
def test_a_face_returns_what_it_did(name, function, arguments):
    assert same(json.loads(json.dumps(FACES.outcome(function, arguments))), FACES_RECORD[name])


def test_the_record_covers_every_solver():
    assert set(CASES) == set(BITS_RECORD)
    assert {name for name, *_ in FACES.cases()} == set(FACES_RECORD)
    for key in registry():
        assert sample(key), key


def test_the_comparison_sees_a_change():
    """Weights off by 1e-4, noise off by 1e-11, another cost, a refusal: all differ."""
    old = BITS_RECORD["acc_srgd logistic-ball replace"]
    assert same(old, old)
    near = {**old, "weights": [(float.fromhex(w) + 1e-7).hex() for w in old["weights"]]}
    far = {**old, "weights": [(float.fromhex(w) * 1.0001).hex() for w in old["weights"]]}
    noise = [{**old["releases"][0], "sigma": old["releases"][0]["sigma"] * (1 + 1e-11)}]
    assert same(near, old)
    assert not same(far, old)
    assert not same({**old, "releases": noise}, old)
    assert not same({**old, "releases": []}, old)
    assert not same({**old, "epsilon": (1.9999).hex()}, old)
    assert not same({"refused": "AssumptionError"}, old)


@pytest.mark.slow
@pytest.mark.parametrize("key", registry())
def test_the_comparison_sees_another_seed(key, monkeypatch):
    seeded = BITS.dp.Randomness.seeded
    monkeypatch.setattr(BITS.dp.Randomness, "seeded", lambda seed: seeded(seed + 1))
    if not sample(key):
        pytest.skip("it takes none of the problems")
    first = sample(key)[0]
    assert not same(outcome(first), BITS_RECORD[first])
