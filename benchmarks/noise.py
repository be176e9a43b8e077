"""Standard normals: the secure stream against NumPy's PCG64, in CPU time.

Run as ``python -m benchmarks.noise``. The sources take turns and the least of the rounds counts, so
that other load on the machine disturbs the ratios little. Targets, in units of PCG64: the compiled
loop at most 0.6, the NumPy twin at most 4.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import numpy as np

from dpsco.kernels.normals import compiled_available
from dpsco.privacy.randomness import Randomness

COUNT = 10_000_000
ROUNDS = 5
TARGETS = {"secure stream, compiled": 0.6, "secure stream, NumPy twin": 4.0}
BASE = "NumPy PCG64"


def measure(count: int = COUNT, rounds: int = ROUNDS) -> dict[str, float]:
    """Return the least CPU seconds of each source for ``count`` normals."""
    pcg64 = np.random.Generator(np.random.PCG64())
    stream = Randomness.secure().child("benchmark")
    sources: dict[str, Callable[[], object]] = {BASE: lambda: pcg64.standard_normal(count)}
    if compiled_available():
        sources["secure stream, compiled"] = lambda: _with_switch("1", stream.normals, count)
    sources["secure stream, NumPy twin"] = lambda: _with_switch("0", stream.normals, count)
    if compiled_available():
        _with_switch("1", stream.normals, 2)  # import and compile before the clock runs
    best = dict.fromkeys(sources, float("inf"))
    for _ in range(rounds):
        for name, draw in sources.items():
            start = time.process_time()
            draw()
            best[name] = min(best[name], time.process_time() - start)
    return best


def _with_switch(value: str, draw: Callable[[int], object], count: int) -> None:
    """Draw with DPSCO_COMPILED set to ``value``, and put the environment back."""
    before = os.environ.get("DPSCO_COMPILED")
    os.environ["DPSCO_COMPILED"] = value
    try:
        draw(count)
    finally:
        if before is None:
            del os.environ["DPSCO_COMPILED"]
        else:
            os.environ["DPSCO_COMPILED"] = before


def main() -> None:
    """Print the table."""
    seconds = measure()
    print(f"{COUNT:,} standard normals, CPU time, least of {ROUNDS} rounds")
    print(f"{'source':<28}{'ns each':>9}{'ratio':>8}{'target':>9}")
    for name, least in seconds.items():
        ratio, target = least / seconds[BASE], TARGETS.get(name)
        verdict = "" if target is None else f"<= {target}{'' if ratio <= target else '  MISSED'}"
        print(f"{name:<28}{least / COUNT * 1e9:>9.2f}{ratio:>8.2f}{verdict:>9}")
    if not compiled_available():
        print("The compiled loop is not available: Numba is absent or DPSCO_COMPILED=0.")


if __name__ == "__main__":
    main()
