"""Rules about the code itself. Each is shown to catch a planted violation."""

import ast
import inspect
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


LAWS = re.compile(
    r"\b(with_gaussian|gaussian_steps|rounded_normals|noisy_argmin|norm_gamma|gamma)\(|"
    r"\bgeneralized_gaussian\(stream|(?<!\.thread)\.start\(|\.normals\("
)
DRAWING = re.compile(r"\.draw_\w+\(")
# Of a public set; halves noise on purpose; made-up rows.
PUBLIC = {"geometry/width.py", "audit/planted.py", "fit/made_up_rows.py"}


def users(pattern):
    return {
        path.relative_to(SOURCE).as_posix()
        for path in MODULES
        if pattern.search(path.read_text(encoding="utf-8"))
    }


def test_only_mechanisms_hold_laws_of_noise():
    """Words, lattice, mechanisms: whoever else wants noise must ask the ledger."""
    foundations = {f"privacy/{name}.py" for name in ("randomness", "rounded_normals", "lattice")}
    others = users(LAWS) - foundations - PUBLIC
    assert all(name.startswith("privacy/mechanisms/") for name in others), others


def test_only_the_ledger_asks_a_record_to_draw():
    """The ledger, and what it holds open: samples, streams of prefix sums, runs of a selection."""
    opened = ("prefix_sum/streams", "repeated_selection/best_of_runs")
    allowed = {"privacy/ledger.py"}
    assert users(DRAWING) == allowed | {f"privacy/mechanisms/{name}.py" for name in opened}


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        (LAWS, "    noise = stream.normals(3)"),
        (LAWS, "    total = with_gaussian(stream.words, total, sigma, step)"),
        (LAWS, "    index = noisy_argmin(stream.words, scores, scale, 'gumbel')"),
        (LAWS, "    noise = mechanism.start(draw)"),
        (LAWS, "    length = gamma.gamma(stream, 3.0, 1)"),
        (LAWS, "    noise = generalized_gaussian(stream, 3, 4.0, 1.0)"),
        (DRAWING, "    answer = release.draw_noisy(stream, total)"),
        (DRAWING, "    rows = PoissonGaussianRelease(1.0, 1.0, 0.5, rows=rows).draw_rows(stream)"),
    ],
)
def test_noise_outside_the_ledger_is_noticed(pattern, line, tmp_path, monkeypatch):
    """A solver that draws by itself is an offender under the rule."""
    offender = tmp_path / "solvers" / "careless.py"
    offender.parent.mkdir()
    offender.write_text(f"def run(stream):\n{line}\n", encoding="utf-8")
    monkeypatch.setattr(sys.modules[__name__], "SOURCE", tmp_path)
    monkeypatch.setattr(sys.modules[__name__], "MODULES", [offender])
    assert users(pattern) == {"solvers/careless.py"}


def test_every_draw_is_known_to_the_rule():
    """A record's verbs that take a stream begin with ``draw_``, so that the rule sees their use."""
    from dpsco.privacy.release import RELEASE_KINDS

    for kind in RELEASE_KINDS.values():
        for name, method in inspect.getmembers(kind, inspect.isfunction):
            if "stream" in inspect.signature(method).parameters:
                assert name.startswith("draw_"), f"{kind.__name__}.{name}"


def test_accounting_knows_no_mechanism():
    pattern = re.compile(r"^\s*(from|import) .*\bmechanisms\b", re.MULTILINE)
    assert not [name for name in users(pattern) if name.startswith("privacy/accounting/")]
    assert pattern.search("from ..mechanisms.gaussian import GaussianRelease")


def test_functions_stay_small():
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                assert node.end_lineno - node.lineno < 60, f"{path}: {node.name}"


@pytest.mark.thorough
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
