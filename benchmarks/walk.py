"""How long the house is to walk: functions and files of a fit, lines, fragments.

python -m benchmarks.walk [SOURCE]

Counts what `sys.setprofile` sees of the package in two fits, each in a process of its own, and what
the source itself shows. SOURCE is the folder that holds ``dpsco``, by default this checkout's; give
another checkout's to compare.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent / "src"

FIT = """
import numpy as np
import dpsco as dp
rng = np.random.default_rng(0)
X = rng.uniform(-0.5, 0.5, size=(2000, 3))
y = np.where(X[:, 0] > 0, "yes", "no")

def walk():
    dp.PrivateLogisticRegression(
        epsilon=1.0, feature_norm=1.0, classes=["no", "yes"], solver="noisy_gd"
    ).fit(X, y)
"""

COMMAND = """
import json, os, tempfile
import numpy as np
from dpsco.cli import main
folder = tempfile.mkdtemp()
rng = np.random.default_rng(0)
rows = rng.uniform(-1, 1, size=(2000, 2))
with open(os.path.join(folder, "rows.csv"), "w") as file:
    file.write("a,b,label\\n")
    for a, b in rows:
        file.write(f"{a:.3f},{b:.3f},{'yes' if a > b else 'no'}\\n")
schema = {
    "version": 1,
    "columns": [{"name": name, "kind": "number", "range": [-1, 1]} for name in "ab"],
    "label": {"name": "label", "kind": "classes", "values": ["no", "yes"]},
}
with open(os.path.join(folder, "schema.json"), "w") as file:
    json.dump(schema, file)
place = {name: os.path.join(folder, name) for name in ("rows.csv", "schema.json", "m.json", "c")}

def walk():
    code = main(["fit", place["rows.csv"], "--schema", place["schema.json"], "--epsilon", "1",
                 "--solver", "acc_srgd", "--checkpoint", place["c"], "-o", place["m.json"]])
    assert code == 0, code
"""

PROFILE = """
import importlib, json, os, pkgutil, sys
for module in pkgutil.walk_packages(dpsco.__path__, "dpsco."):  # imports are not a part of the path
    if "__main__" not in module.name:
        importlib.import_module(module.name)
seen = set()
root = os.path.dirname(os.path.abspath(dpsco.__file__)) + os.sep

def watch(frame, event, argument):
    code = frame.f_code
    if event == "call" and code.co_filename.startswith(root):
        if code.co_name[0] != "<" and "__module__" not in code.co_names[:2]:
            seen.add((code.co_filename[len(root):], code.co_firstlineno, code.co_name))

sys.setprofile(watch)
walk()
sys.setprofile(None)
print("\\n" + json.dumps(sorted(seen)))
"""


def walked(source: Path, program: str) -> list[tuple[str, int, str]]:
    """Return (file, line, function) of everything that a program's `walk` enters."""
    environment = {**os.environ, "PYTHONPATH": str(source), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, "-c", f"import dpsco\n{program}{PROFILE}"],
        env=environment,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return [tuple(entry) for entry in json.loads(done.stdout.splitlines()[-1])]


def importers(package: Path) -> dict[str, set[str]]:
    """Return for each module which others import it; folders' ``__init__`` do not count."""
    modules = {name_of(path, package): path for path in sorted(package.rglob("*.py"))}
    users: dict[str, set[str]] = {name: set() for name in modules}
    for name, path in modules.items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for target in imported(tree, name, path.name == "__init__.py"):
            if target in users and target != name and path.name != "__init__.py":
                users[target].add(name)
    return users


def name_of(path: Path, package: Path) -> str:
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(tree: ast.Module, name: str, is_folder: bool) -> set[str]:
    """Return what a module imports, as dotted names that may be modules."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            parts = name.split(".")
            up = node.level - is_folder
            base = parts[: len(parts) - up] if node.level else []
            home = ".".join([*base, *([node.module] if node.module else [])])
            names |= {home} | {f"{home}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names


def report(source: Path) -> None:
    package = source / "dpsco"
    for title, program in (
        ("PrivateLogisticRegression(...).fit, noisy_gd", FIT),
        ("dpsco fit, acc_srgd, checkpoint", COMMAND),
    ):
        seen = walked(source, program)
        files = Counter(file for file, _, _ in seen)
        rooms = Counter(file.split("/")[0] for file, _, _ in seen)
        print(f"{title:<46}{len(seen):5} functions in {len(files)} files")
        print("   " + ", ".join(f"{room} {count}" for room, count in rooms.most_common()))
    paths = sorted(package.rglob("*.py"))
    print(f"{'lines of src':<46}{sum(len(p.read_text().splitlines()) for p in paths):5}")
    print(f"{'modules (without __init__)':<46}{sum(p.name != '__init__.py' for p in paths):5}")
    print(f"{'files at the top':<46}{len(list(package.glob('*.py'))):5}")
    users = importers(package)
    folders = {name_of(p, package) for p in paths if p.name == "__init__.py"}
    single = [name for name, by in users.items() if len(by) == 1 and name not in folders]
    print(f"{'modules that one other module imports':<46}{len(single):5}")


if __name__ == "__main__":
    report(Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else HERE)
