"""Time of the privacy core: calibration, accounting, certificate, import.

python -m benchmarks.core
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from dpsco.privacy import ApproxDP, GaussianRelease, Ledger, cost, gaussian_sigma

ROWS = (0, 10_000)


def main() -> None:
    budgets = iter(ApproxDP(1 + i / 1000, 1e-6) for i in range(10_000))  # never the same twice
    one = ApproxDP(1.0, 1e-6)
    distinct = [GaussianRelease(1.0, 100.0 + i, rows=ROWS) for i in range(1000)]
    sigma = gaussian_sigma(one, bound=1.0, rows=ROWS, count=1000)

    def run() -> None:
        ledger = Ledger(GaussianRelease(1.0, sigma, rows=ROWS, count=1000), one)
        for _ in range(1000):
            ledger.gaussian([0.0] * 10, bound=1.0, sigma=sigma, rows=ROWS)
        ledger.close()

    print("privacy core, wall time, median (least)")
    report(
        "calibrate 1000 composed Gaussians",
        lambda: gaussian_sigma(next(budgets), bound=1.0, rows=ROWS, count=1000),
        "target < 1 ms",
    )
    report("cost of 1000 different Gaussians", lambda: cost(distinct).epsilon(1e-6))
    report("ledger: 1000 releases of 10 numbers", run, repeats=5)
    imports()


def report(name: str, action: Callable[[], object], note: str = "", repeats: int = 100) -> None:
    action()
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        action()
        times.append(time.perf_counter() - started)
    middle, least = statistics.median(times), min(times)
    print(f"  {name:<40}{1e3 * middle:9.3f} ms ({1e3 * least:.3f})  {note}")


def imports() -> None:
    """Compare the import of dpsco, and of its whole core, with NumPy and scipy.special."""
    programs = {
        "NumPy + scipy.special": "import numpy, scipy.special",
        "import dpsco": "import numpy, scipy.special, dpsco",
        "import dpsco.privacy": "import numpy, scipy.special, dpsco.privacy",
    }
    times: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(7):
        for name, program in programs.items():
            started = time.perf_counter()
            subprocess.run([sys.executable, "-c", program], check=True)
            times[name].append(time.perf_counter() - started)
    base = min(times["NumPy + scipy.special"])
    print("import, wall time of a fresh process, least of 7")
    for name, values in times.items():
        more = f"  +{1e3 * (min(values) - base):.0f} ms" if name != "NumPy + scipy.special" else ""
        print(f"  {name:<40}{1e3 * min(values):9.0f} ms{more}")


if __name__ == "__main__":
    main()
