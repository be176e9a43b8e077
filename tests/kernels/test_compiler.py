"""When a loop is compiled, with which flags, and where its machine code is kept."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from dpsco.kernels import clipping, compiler, normals, sgd, sparse, sums
from dpsco.kernels.slope import Slope, two_argument


def hinge(margin, label, first, second):
    return -label * (label * margin < 1.0)


def run(program: str, **environment: str) -> str:
    found = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return found.stdout.strip()


SMALL = """
import sys
import numpy as np
from dpsco.kernels.sgd import sgd_pass
from dpsco.kernels.slope import Slope
from dpsco.kernels.sums import slope_sum
def hinge(margin, label, first, second):
    return -label * (label * margin < 1.0)
X, y = np.ones((1000, 3)), np.ones(1000)
sgd_pass(X, y, Slope(hinge), np.zeros(3), 0.1)
slope_sum(X, y, y, Slope(hinge), np.zeros(3), 1.0)
print("numba" in sys.modules)
"""


def test_small_jobs_do_not_load_the_compiler():
    environment = {"DPSCO_COMPILED": ""}
    assert run(SMALL, **environment) == "False"


def test_a_few_hundred_thousand_steps_count_as_small(monkeypatch):
    monkeypatch.delenv("DPSCO_COMPILED", raising=False)
    monkeypatch.setattr(compiler, "_installed", lambda: True)

    def serves(n, d):
        rows, labels, weights = np.zeros((n, d)), np.zeros(n), np.zeros(d)
        rest = (None, np.inf, 0.0, 1.0, None)  # no clip or ridge; a ball
        job = sgd.Job(rows, labels, Slope(hinge), weights, 0.1, *rest)
        return compiler.use_compiled(job.reference_seconds())

    assert not serves(200_000, 3)
    assert serves(1_000_000, 3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("loop", "flags"),
    [
        (lambda: sgd._dense_loop("float64"), {"reassoc", "contract", "nsz", "arcp"}),
        (lambda: sums._loop("dense margins", "float32"), {"reassoc", "contract", "nsz", "arcp"}),
        (lambda: sums._loop("sparse margins", "float64"), {"contract"}),
        (lambda: sums._loop("sparse sum", "float64"), {"contract"}),
        (lambda: sparse.lazy_loop("float64"), {"contract"}),
        (clipping._compiled, None),
        (lambda: normals._compiled_loop(normals._pair_loop, "none(words, out)"), None),
        (lambda: normals._compiled_loop(normals._round_loop, "none(out, float, flags)"), None),
    ],
)
def test_flags_and_signatures_are_fixed(loop, flags):
    pytest.importorskip("numba")
    compiled = loop()
    options = compiled.targetoptions
    assert (set(options["fastmath"]) if options["fastmath"] else None) == flags
    assert options["nogil"]
    assert options["error_model"] == "numpy"
    assert len(compiled.signatures) == 1
    assert not compiled._can_compile  # no other type of argument ever compiles a second version


def test_one_signature_serves_writable_and_read_only_arrays():
    pytest.importorskip("numba")
    loop = sums._loop("dense margins", "float64")
    X, w, out = np.ones((4, 2)), np.ones(2), np.empty(4)
    for flag in (True, False):
        X.flags.writeable = flag
        w.flags.writeable = flag
        loop(X, w, out)
        np.testing.assert_array_equal(out, 2.0)
    assert len(loop.signatures) == 1


def test_names_on_disk_follow_the_source(tmp_path):
    source = tmp_path / "part.py"
    names = set()
    for text in ("one", "two", "one"):
        source.write_text(text)
        names.add(compiler._stamped(hinge, (str(source),)).__qualname__)
    assert len(names) == 2
    assert all(name.startswith("hinge_") for name in names)
    assert hinge.__qualname__ == "hinge"


PROGRAM = """
import numpy as np
from dpsco.kernels.compiler import implementation
from dpsco.kernels.sums import margins
with implementation(compiled=True):
    print(margins(np.ones((3, 2)), np.ones(2)).tolist())
"""


@pytest.mark.slow
def test_machine_code_is_kept_on_disk(tmp_path):
    pytest.importorskip("numba")
    assert run(PROGRAM, NUMBA_CACHE_DIR=str(tmp_path)) == "[2.0, 2.0, 2.0]"
    first = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nb[ci]")}
    assert len(first) == 2
    run(PROGRAM, NUMBA_CACHE_DIR=str(tmp_path))
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nb[ci]")} == first


def test_without_a_place_for_a_cache_loops_are_compiled_anyway(monkeypatch):
    numba = pytest.importorskip("numba")
    original = numba.njit

    def refuse(*args, cache=False, **options):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return original(*args, **options)

    monkeypatch.setattr(numba, "njit", refuse)
    loop = compiler.compile_loop(sums._dense_margins, "none(float64 rows, floats, out)", flags=())
    out = np.empty(3)
    loop(np.ones((3, 2)), np.ones(2), out)
    np.testing.assert_array_equal(out, 2.0)


def test_functions_that_do_not_compile_are_left_to_python():
    pytest.importorskip("numba")
    assert compiler.scalar_function(two_argument(lambda m, y: float(str(m - y)))) is None
    assert compiler.scalar_function(np.vectorize(lambda m, y, a, b: m)) is None
    compiled = compiler.scalar_function(two_argument(lambda m, y: m - y))
    assert compiled.ctypes(3.0, 1.0, 0.0, 0.0) == 2.0
    assert compiler.scalar_function(hinge) is compiler.scalar_function(hinge)
    assert compiler.scalar_function(hinge).ctypes(0.0, 1.0, 0.0, 0.0) == -1.0


def test_a_function_compiled_by_its_user_is_taken_as_it_is():
    numba = pytest.importorskip("numba")
    ready = numba.njit(lambda m, y: 3.0 * m - y)
    assert compiler.scalar_function(two_argument(ready)).ctypes(1.0, 1.0, 0.0, 0.0) == 2.0
