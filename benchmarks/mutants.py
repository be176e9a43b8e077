"""Which share of small planted errors do the tests catch?

python -m benchmarks.mutants [--checkout PATH] [--count 200] [--seed 1] [--rooms privacy solvers]

Plants one error at a time (another comparison, sign or number, ``and`` for ``or``, no return value)
in a copy of the checkout, and runs the tests that mirror or import the changed module, then the
contracts of every solver on one problem, then the golden sample where there is one. Tests that are
marked slow or fail without a planted error are left out. An error that ends in a time-out counts as
caught; one that changes nothing (a faster path, an equal bound) cannot be told from one that is
missed, so that the share is a lower bound.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib
import os
import random
import re
import resource
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

COMPARE = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ARITHMETIC = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Pow: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
}
STEMS = {"__init__", "base"}  # names that say nothing about what a test is for
CPU_SECONDS = 60


def changed(node: ast.AST) -> ast.AST | None:
    """Return a node with another meaning, or None if there is nothing to change."""
    new = copy.deepcopy(node)
    if isinstance(new, ast.Compare) and type(new.ops[0]) in COMPARE:
        new.ops[0] = COMPARE[type(new.ops[0])]()
    elif isinstance(new, ast.BinOp) and type(new.op) in ARITHMETIC and not _text(new):
        new.op = ARITHMETIC[type(new.op)]()
    elif isinstance(new, ast.BoolOp):
        new.op = ast.Or() if isinstance(new.op, ast.And) else ast.And()
    elif isinstance(new, ast.UnaryOp) and isinstance(new.op, ast.Not):
        return new.operand
    elif isinstance(new, ast.Constant) and type(new.value) in (int, float):
        new.value = new.value + 1 if isinstance(new.value, int) else new.value * 1.25 + 0.01
    elif isinstance(new, ast.Constant) and isinstance(new.value, bool):
        new.value = not new.value
    elif isinstance(new, ast.Return) and new.value is not None and not _none(new.value):
        new.value = ast.Constant(None)
    else:
        return None
    return new


def _text(node: ast.BinOp) -> bool:
    parts = (node.left, node.right)
    return any(isinstance(p, (ast.JoinedStr, ast.List, ast.Tuple)) or _string(p) for p in parts)


def _string(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def places(tree: ast.Module) -> list[ast.AST]:
    """Return the nodes in functions that can be changed, without messages and annotations."""
    skipped: set[int] = set()
    inside: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Raise, ast.Assert, ast.JoinedStr)):
            skipped |= {id(part) for part in ast.walk(node)}
        if isinstance(node, ast.FunctionDef):
            inside |= {id(part) for statement in node.body for part in ast.walk(statement)}
            if node.name in ("__repr__", "__str__"):
                skipped |= {id(part) for part in ast.walk(node)}
        if isinstance(node, ast.AnnAssign):
            skipped |= {id(part) for part in ast.walk(node.annotation)}
    return [
        node
        for node in ast.walk(tree)
        if id(node) in inside - skipped and changed(node) is not None
    ]


class Planter(ast.NodeTransformer):
    """Replaces one node by another."""

    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self.new if node is self.old else self.generic_visit(node)


class Mutant:
    """One planted error: where it stands, and the text of the file with it."""

    def __init__(self, path: Path, number: int) -> None:
        self.path, tree = path, ast.parse(path.read_text(encoding="utf-8"))
        old = places(tree)[number]
        new = changed(old)
        assert new is not None
        self.line, self.kind = old.lineno, type(old).__name__
        self.shown = f"{ast.unparse(old)[:48]!r} -> {ast.unparse(new)[:48]!r}"
        self.text = ast.unparse(ast.fix_missing_locations(Planter(old, new).visit(tree)))


def chosen(checkout: Path, rooms: list[str], count: int, seed: int) -> list[tuple[Path, int]]:
    """Return a random sample of places, spread over the rooms by how many places they have."""
    everywhere = []
    for room in rooms:
        for path in sorted((checkout / "src" / "dpsco" / room).rglob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            everywhere += [(path, number) for number in range(len(places(tree)))]
    return random.Random(seed).sample(everywhere, min(count, len(everywhere)))


def tests_of(path: Path, checkout: Path) -> list[str]:
    """Return the tests that mirror a module or import it, at most four files."""
    relative = path.relative_to(checkout / "src" / "dpsco").with_suffix("")
    folder, stem = checkout / "tests" / relative.parent, relative.name
    dotted = re.escape(".".join(relative.parts[:-1]))
    pattern = re.compile(rf"dpsco\.{dotted}\.{stem}\b|from dpsco\.{dotted} import .*\b{stem}\b")
    while not folder.exists():
        folder = folder.parent
    mirrored = [p for p in (folder / f"test_{stem}.py",) if p.exists()]
    mirrored += sorted((checkout / "tests").rglob(f"test_{relative.parent.name}.py"))[:1]
    using = [
        p
        for p in sorted(folder.rglob("test_*.py"))
        if stem not in STEMS and pattern.search(p.read_text(encoding="utf-8"))
    ]
    if not mirrored and not using:
        using = sorted(folder.glob("test_*.py"))
    return list(dict.fromkeys(str(p.relative_to(checkout)) for p in [*mirrored, *using][:4]))


CONTRACTS = ["tests/contracts/test_contract.py", "-k", "logistic-ball-replace_one"]
GOLDEN = ["tests/golden/test_same_bits.py", "-k", "solver_returns and not noisy_sgd_2020"]


def stages(path: Path, checkout: Path) -> list[list[str]]:
    golden = [GOLDEN] if (checkout / GOLDEN[0]).exists() else []
    return [tests_of(path, checkout), CONTRACTS, *golden]


def passes(home: Path, selection: list[str], left_out: list[str], log: Path) -> bool:
    """Whether tests pass, in a child that has the heavy imports already."""
    child = os.fork()
    if child == 0:
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(out, 1)
        os.dup2(out, 2)
        code = 70
        try:
            os.chdir(home)
            resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
            sys.path.insert(0, str(home / "src"))
            os.environ["PYTHONPATH"] = str(home / "src")
            import pytest

            flags = ["-x", "-q", "-m", "not slow", "-p", "no:cacheprovider", "-p", "no:xdist"]
            flags += [f"--deselect={name}" for name in left_out]
            code = int(pytest.main([*flags, *selection]))
        except BaseException as problem:
            print(repr(problem))
        finally:
            sys.stdout.flush()
            os._exit(code)
    return os.waitpid(child, 0)[1] == 0


def failing(home: Path, selections: list[list[str]], log: Path) -> list[str]:
    """Return the tests that fail without a planted error."""
    names: list[str] = []
    for selection in selections:
        for _ in range(20):
            if passes(home, selection, names, log):
                break
            more = re.findall(r"^(?:FAILED|ERROR) (\S+)", log.read_text(), flags=re.MULTILINE)
            if not more:
                print("no baseline:", selection)
                break
            names += more
    return names


def preload() -> None:
    """Import what the tests need and what no planted error changes."""
    sys.dont_write_bytecode = True
    for name in ("numpy", "scipy.special", "scipy.stats", "scipy.optimize", "scipy.integrate"):
        importlib.import_module(name)
    for name in ("mpmath", "pytest"):
        importlib.import_module(name)


def room_of(path: Path, package: Path) -> str:
    parts = path.relative_to(package).parts
    if parts[0] == "solvers" and len(parts) == 2:
        return "solvers (engine and single files)"
    return "/".join(parts[:2]) if len(parts) > 2 else parts[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--checkout", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--rooms", nargs="+", default=["privacy", "solvers"])
    arguments = parser.parse_args()
    preload()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "checkout"
        ignore = shutil.ignore_patterns(".git", ".venv*", "__pycache__", "_build", ".mypy_cache")
        shutil.copytree(arguments.checkout, home, ignore=ignore)
        measure(home, arguments, Path(folder) / "log.txt")


def measure(home: Path, arguments: argparse.Namespace, log: Path) -> None:
    package = home / "src" / "dpsco"
    sample = chosen(home, arguments.rooms, arguments.count, arguments.seed)
    selections = {tuple(s): s for path, _ in sample for s in stages(path, home)}
    left_out = failing(home, list(selections.values()), log)
    if left_out:
        print("left out, as they fail without a planted error:", *left_out, sep="\n  ")
    total, caught, by_stage = Counter[str](), Counter[str](), Counter[int]()
    started = time.monotonic()
    for path, number in sample:
        if time.monotonic() - started > 60 * arguments.minutes:
            print(f"stopped after {arguments.minutes} minutes")
            break
        mutant, original, times = Mutant(path, number), path.read_bytes(), path.stat()
        path.write_text(mutant.text, encoding="utf-8")
        stage = next(
            (k for k, s in enumerate(stages(path, home)) if not passes(home, s, left_out, log)),
            None,
        )
        path.write_bytes(original)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        room = room_of(path, package)
        total[room] += 1
        caught[room] += stage is not None
        by_stage[-1 if stage is None else stage] += 1
        word = "MISSED" if stage is None else f"stage {stage + 1}"
        print(f"{word:<8}{path.relative_to(package)}:{mutant.line} {mutant.shown}", flush=True)
    for room in sorted(total):
        print(f"{room:<44}{caught[room]:4} of {total[room]:4}")
    names = {0: "own tests", 1: "contracts", 2: "golden", -1: "missed"}
    print(", ".join(f"{names[k]} {v}" for k, v in sorted(by_stage.items(), reverse=True)))
    print(f"caught {sum(caught.values())} of {sum(total.values())}")


if __name__ == "__main__":
    main()
