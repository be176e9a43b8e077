"""Rules about the code itself. Each is shown to catch a planted violation."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "dpsco"
MODULES = sorted(SOURCE.rglob("*.py"))

GENERATORS = re.compile(
    r"default_rng|np\.random\.|numpy\.random|RandomState|random\.Random\(|^\s*import random|"
    r"^\s*from random|os\.urandom|^\s*(import|from) secrets|SystemRandom|algorithms\.AES|ChaCha20",
    re.MULTILINE,
)
ACCOUNTING = re.compile(
    r"^\s*(import|from) dp_accounting|import_module\(.dp_accounting", re.MULTILINE
)


def offenders(pattern, allowed):
    return [
        str(path.relative_to(SOURCE))
        for path in MODULES
        if path != SOURCE / allowed and pattern.search(path.read_text(encoding="utf-8"))
    ]


def test_only_randomness_creates_generators():
    assert offenders(GENERATORS, "privacy/randomness.py") == []


def test_only_pld_imports_dp_accounting():
    assert offenders(ACCOUNTING, "privacy/accounting/pld.py") == []


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        (GENERATORS, "rng = np.random.default_rng(0)"),
        (GENERATORS, "    import random"),
        (GENERATORS, "key = os.urandom(32)"),
        (GENERATORS, "from secrets import token_bytes"),
        (ACCOUNTING, "import dp_accounting"),
        (ACCOUNTING, "    from dp_accounting import pld"),
    ],
)
def test_the_rules_catch_a_violation(pattern, line):
    assert pattern.search(f"x = 1\n{line}\n")


def test_the_rules_see_the_allowed_uses():
    # If the one allowed file no longer matched, the pattern would have lost its meaning.
    assert GENERATORS.search((SOURCE / "privacy/randomness.py").read_text(encoding="utf-8"))
    assert ACCOUNTING.search((SOURCE / "privacy/accounting/pld.py").read_text(encoding="utf-8"))


def test_only_the_ledger_draws_noise():
    laws = "with_gaussian|gaussian_steps|rounded_normals|noisy_argmin"
    drawing = re.compile(rf"(mechanisms|float_laws)\.\w+\(|\.start\(|\b({laws})\(|\.normals\(")
    users = {
        str(path.relative_to(SOURCE))
        for path in MODULES
        if drawing.search(path.read_text(encoding="utf-8"))
    }
    # randomness makes the words, the next five laws of them, prefix_sums a stream of those,
    # width an estimate about a public set; whoever else wants noise must ask the ledger.
    builders = {"randomness", "mechanisms/float_laws", "rounded_normals", "lattice"}
    builders |= {"mechanisms/selection", "mechanisms/prefix_sum/mechanism"}
    builders |= {"ledger", "open_releases"}
    public = {"geometry/width.py", "audit/planted.py"}  # the latter halves noise on purpose
    assert users == public | {f"privacy/{name}.py" for name in builders}


def test_functions_stay_small():
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                assert node.end_lineno - node.lineno < 60, f"{path}: {node.name}"


def test_import_is_light():
    """`import dpsco` loads neither SciPy nor the heavy optional packages; the core no optimiser."""
    program = """
import sys
import dpsco
early = set(sys.modules)
import numpy, scipy.special  # what these load themselves is not ours to save
given = set(sys.modules)
import dpsco.privacy, dpsco.geometry, dpsco.losses, dpsco.data
late = set(sys.modules)
heavy = {"numba", "dp_accounting", "sklearn", "scipy.stats", "scipy.optimize"}
heavy |= {"pyarrow", "narwhals", "pandas", "polars", "scipy.sparse", "scipy.integrate"}
print(sorted(early & (heavy | {"numpy", "scipy"})), sorted((late - given) & heavy))
"""
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == ["[]", "[]"]


def test_every_public_name_resolves():
    import dpsco

    layers = (dpsco.privacy, dpsco.geometry, dpsco.domains, dpsco.losses, dpsco.data)
    for module in (dpsco, *layers):
        for name in module.__all__:
            assert getattr(module, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = dpsco.nonsense
    assert set(dpsco.__all__) == set(dir(dpsco))


HEADER = ("Paper", "Guarantee", "Rate", "Needs", "Symbols")


def header_of(text):
    """Return the header's keys in their order: words at the start of a line, then text."""
    words = re.findall(r"^([A-Z][a-z]+) {2,}\S", text or "", flags=re.MULTILINE)
    return tuple(word for word in words if word in HEADER)


def test_every_family_opens_with_its_header():
    from dpsco.solvers import families, family, registry

    for module in families():
        assert header_of(module.__doc__) == HEADER, module.__name__
    assert {family(key) for key in registry()} == set(families())
    assert header_of("Solver.\n\nPaper      X\nRate       Y\n") != HEADER
