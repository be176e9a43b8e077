"""`make oldest` tests what pyproject.toml promises: every dependency at its lower bound."""

import os
import re
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
BOUNDS = dict(re.findall(r'"([A-Za-z0-9_-]+)>=([0-9.]+)"', PROJECT))  # as the Makefile finds them


def dependencies():
    """Return what dpsco and its extras ask for, as it stands between quotes."""
    start, end = PROJECT.index("\ndependencies = "), PROJECT.index("[project.scripts]")
    quoted = re.findall(r'"([^"\n]+)"', PROJECT[start:end])
    return [each for each in quoted if re.search(r"[<>=~!]", each)]


def test_every_dependency_has_a_lower_bound_that_is_pinned():
    found = dependencies()
    assert {"numpy>=1.26", "pyarrow>=15", "numba>=0.60", "cryptography>=42"} <= set(found)
    for each in found:
        name, bound = re.fullmatch(r"([A-Za-z0-9_-]+)>=([0-9.]+)", each).groups()
        assert BOUNDS[name] == bound
    pinned = re.search(r"grep -oE '(.*?)' pyproject\.toml", (ROOT / "Makefile").read_text())
    assert sorted(set(re.findall(pinned[1], PROJECT))) == sorted(
        {f'"{name}>={bound}"' for name, bound in BOUNDS.items()}
    )


@pytest.mark.skipif("DPSCO_OLDEST" not in os.environ, reason="for make oldest")
@pytest.mark.parametrize(
    "name", sorted({each.split(">=")[0] for each in dependencies()} & set(BOUNDS))
)
def test_what_is_installed_is_the_lower_bound(name):
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        pytest.skip("not needed for tests")
    bound = BOUNDS[name]
    assert version == bound or re.fullmatch(rf"{re.escape(bound)}(\.0)+", version)
