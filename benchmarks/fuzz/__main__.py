"""Read mutated files by the thousand: ``python -m benchmarks.fuzz --cases 10000``.

Every case must end well or in an error of dpsco that quotes little, within 2 seconds of processor
time and 500 MB. Exit code 1 if one does not.
"""

from __future__ import annotations

import argparse
import collections
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from .reading import SHARES
from .worker import run_cases

CHUNK = 250
ROOT = Path(__file__).resolve().parents[2]  # whence `python -m benchmarks` runs


def numbers(cases: int, first: int = 0) -> list[tuple[str, int]]:
    """Return which cases to run: kinds in their shares."""
    whole = sum(SHARES.values())
    return [
        (kind, first + k) for kind, share in SHARES.items() for k in range(cases * share // whole)
    ]


def spread(cases: int, *, first: int = 0, workers: int = 1) -> list[dict[str, object]]:
    """Run cases in processes of their own, a chunk each; one that dies is a failure."""
    from concurrent.futures import ThreadPoolExecutor

    chosen = numbers(cases, first)
    chunks = [chosen[start : start + CHUNK] for start in range(0, len(chosen), CHUNK)]
    with ThreadPoolExecutor(workers) as pool:
        return [outcome for found in pool.map(_chunk, chunks) for outcome in found]


def _chunk(cases: list[tuple[str, int]]) -> list[dict[str, object]]:
    """Run some cases in another process; after one that kills it, go on with the next."""
    done: list[dict[str, object]] = []
    while len(done) < len(cases):
        left = cases[len(done) :]
        command = [sys.executable, "-m", "benchmarks.fuzz", "--worker", json.dumps(left)]
        found = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
        died = " ".join(found.stderr.split())[:300]
        new = [json.loads(line) for line in found.stdout.splitlines() if line.startswith("{")]
        done += new
        if len(new) < len(left):
            kind, number = left[len(new)]
            done.append({"kind": kind, "number": number, "fault": f"process died: {died}",
                         "error": "", "seconds": 0.0, "megabytes": 0.0})  # fmt: skip
    return done


def main() -> int:
    """Run the cases and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        with tempfile.TemporaryDirectory() as folder:
            run_cases(json.loads(options.worker), Path(folder))
        return 0
    found = spread(options.cases, first=options.first, workers=options.workers)
    print(report(found))
    return 1 if any(outcome["fault"] for outcome in found) else 0


def report(found: list[dict[str, object]]) -> str:
    """Return counts, faults, and the dearest cases."""
    lines = []
    for kind in SHARES:
        own = [outcome for outcome in found if outcome["kind"] == kind]
        errors = collections.Counter(str(outcome["error"]) or "read" for outcome in own)
        words = ", ".join(f"{name} {times}" for name, times in errors.most_common())
        lines.append(f"{kind:<12}{len(own):>6}  {words}")
    faults = [outcome for outcome in found if outcome["fault"]]
    lines.append(f"{len(found)} cases, {len(faults)} faults")
    lines += [f"  {o['kind']} {o['number']}: {o['fault']}" for o in faults]
    for unit in ("seconds", "megabytes"):
        dear = sorted(found, key=lambda outcome: -float(str(outcome[unit])))[:5]
        words = ", ".join(f"{o['kind']} {o['number']} {float(str(o[unit])):.2f}" for o in dear)
        lines.append(f"most {unit}: {words}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
