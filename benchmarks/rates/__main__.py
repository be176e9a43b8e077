"""Run the experiments of every family: ``make bench-rates``, ``python -m benchmarks.rates``.

Prints excess risk against n with its standard error, the slope, the bands, and a verdict; then the
comparisons of solvers on the same tables, as ratios. The exit code is 1 if a band is missed.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import math
import pkgutil
import sys
import time
from collections.abc import Iterator, Sequence

from .comparison import Comparison
from .experiment import Experiment, slope, summary

QUICK_SIZES, QUICK_REPEATS = 2, 2
_HELPERS = {"__main__", "comparison", "experiment", "few_round_instances", "instances"}


def families() -> list[str]:
    """Return the names of the modules that hold experiments."""
    package = importlib.import_module(__package__ or "benchmarks.rates")
    names = [module.name for module in pkgutil.iter_modules(package.__path__)]
    return sorted(set(names) - _HELPERS)


def experiments(only: str | None = None) -> Iterator[Experiment]:
    """Yield every experiment, or those of one solver or with some words in their name."""
    package = __package__ or "benchmarks.rates"
    for family in families():
        for experiment in importlib.import_module(f"{package}.{family}").EXPERIMENTS:
            if only is None or only == experiment.solver or only in experiment.name:
                yield experiment


def comparisons(only: str | None = None) -> Iterator[Comparison]:
    """Yield every comparison, or those that a solver wins or with some words in their name."""
    package = __package__ or "benchmarks.rates"
    for family in families():
        module = importlib.import_module(f"{package}.{family}")
        for comparison in getattr(module, "COMPARISONS", ()):
            if only is None or only == comparison.entrants[0].solver or only in comparison.name:
                yield comparison


def run(experiment: Experiment, *, quick: bool = False) -> list[str]:
    """Print one experiment's measurements; return what lies outside of its bands.

    A quick run takes the smallest sizes with few repetitions and judges nothing.
    """
    sizes = sorted(experiment.sizes)[: QUICK_SIZES if quick else None]
    if quick:
        repeats = min(experiment.repeats, QUICK_REPEATS)
        experiment = dataclasses.replace(experiment, repeats=repeats)
    print(f"{experiment.name}: {experiment.solver} on {experiment.instance.name}")
    trivial, budget = experiment.instance.trivial, experiment.budget.to_json()
    spent = ", ".join(f"{name} {budget[name]}" for name in budget if name != "unit")
    print(f"  {spent}; {experiment.repeats} repeats; zero weights have {trivial:.4g}")
    measured: dict[int, float] = {}
    largest: dict[int, float] = {}
    for n in sizes:
        start = time.perf_counter()
        found = experiment.runs(n)
        measured[n], error = summary(found)
        largest[n] = max(found)
        low, high = experiment.excess.get(n, (-math.inf, math.inf))
        band = f"[{low:g}, {high:g}]" if n in experiment.excess else ""
        seconds = time.perf_counter() - start
        print(f"  n {n:>8,}  excess {measured[n]:.3e} +- {error:.1e}  {band:<22}{seconds:6.1f} s")
    problems = [] if quick else experiment.problems(measured, largest)
    if len(measured) > 1:
        print(f"  slope {slope(measured):+.2f}  {experiment.slope if not quick else ''}")
    verdict = "not judged" if quick else "; ".join(problems) or "as it should be"
    print(f"  {verdict}\n")
    return problems


def compare(comparison: Comparison, *, quick: bool = False) -> list[str]:
    """Print one comparison; return the ratios outside of their bands.

    A quick one runs every entrant once, with the first of its settings, and judges nothing.
    """
    print(f"{comparison.name}: {comparison.instance.name}, n = {comparison.n:,}")
    start = time.perf_counter()
    measured = comparison.measure(quick=quick)
    first = measured[comparison.entrants[0].name]
    for entrant in comparison.entrants:
        found = measured[entrant.name]
        low, high = entrant.ratio
        band = f"[{low:g}, {high:g}]" if entrant is not comparison.entrants[0] else ""
        ratio = found.excess / first.excess
        print(
            f"  {entrant.name:<44}{found.excess:.3e} +- {found.error:.1e}{ratio:>8.2f} x  "
            f"{band:<13}{found.options}"
        )
    problems = [] if quick else comparison.problems(measured)
    verdict = "not judged" if quick else "; ".join(problems) or "as it should be"
    print(f"  {verdict} ({time.perf_counter() - start:.0f} s)\n")
    return problems


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for and return the exit code."""
    parser = argparse.ArgumentParser(prog="benchmarks.rates", description=__doc__)
    parser.add_argument("--only", metavar="KEY", help="a solver's key, or part of a name")
    parser.add_argument("--quick", action="store_true", help="smallest sizes, no verdicts")
    options = parser.parse_args(arguments)
    chosen = list(experiments(options.only))
    paired = list(comparisons(options.only))
    if not chosen and not paired:
        print(f"no experiment is called {options.only!r}", file=sys.stderr)
        return 2
    missed = {item.name: found for item in chosen if (found := run(item, quick=options.quick))}
    for pair in paired:
        if found := compare(pair, quick=options.quick):
            missed[pair.name] = found
    for name, problems in missed.items():
        print(f"MISSED {name}: {'; '.join(problems)}")
    outcome = "none judged" if options.quick else f"{len(missed)} outside of their bands"
    also = f" and {len(paired)} comparisons" if paired else ""
    print(f"{len(chosen)} experiments{also}, {outcome}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
