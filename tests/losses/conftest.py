"""The catalogue of convex losses, each beside its formula in many digits.

A test that asks for the fixture ``case`` runs on all of them. Cases are found by presence: a file
``cases/<module>.py`` with a list CASES of (loss, formula of a margin and a label in mpmath, and
perhaps the margins where the formula changes). The loss of the page docs/add_loss.md is one.
"""

from __future__ import annotations

import atexit
import importlib.util
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from dpsco.losses import MarginLoss

Formula = Callable[[Any, Any], Any]
EPS = 2.0**-52


@dataclass(frozen=True)
class Case:
    """A loss, its formula in mpmath, and the margins where the formula changes."""

    loss: MarginLoss
    formula: Formula
    joints: Callable[[Any], tuple[Any, ...]] = lambda y: ()

    def labels(self, rng: np.random.Generator, size: int, bound: float = 3.0) -> np.ndarray:
        """Admissible labels, the extreme ones among them."""
        if self.loss.labels == "sign":
            return rng.choice([-1.0, 1.0], size)
        low = 0.0 if self.loss.labels == "count" else -bound
        found = rng.uniform(low, bound, size)
        found[: size // 8] = low
        found[size // 8 : size // 4] = bound
        return rng.permutation(found)

    def joint(self, rng: np.random.Generator, labels: np.ndarray) -> np.ndarray:
        """One of the joints for each label, or the label itself if there are none."""
        choices = [np.broadcast_to(joint, labels.shape) for joint in self.joints(labels)]
        table = np.stack(choices or [labels])
        return table[rng.integers(0, len(table), len(labels)), np.arange(len(labels))]

    def margins(self, rng: np.random.Generator, labels: np.ndarray) -> np.ndarray:
        """Margins of all sizes, many of them at, beside or near a joint."""
        size = len(labels)
        joint = self.joint(rng, labels)
        shift = 10.0 ** rng.uniform(-17, 1, size) * rng.choice([-1.0, 1.0], size)
        wide = rng.normal(size=size) * 10.0 ** rng.uniform(-3, 2, size)
        return np.choose(rng.integers(0, 4, size), [wide, joint, joint + shift, joint + shift])

    def mp(self, margin: float, label: float) -> Any:
        """The formula at two floats."""
        return self.formula(mp.mpf(float(margin)), mp.mpf(float(label)))


def _load(path: Path) -> list[Case]:
    """The cases of a Python file, or of the page that shows how a loss is added."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        section = text.split("## In the catalogue")[1]
        fence = re.compile(r"^```python\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)
        text = "\n".join(fence.findall(section))
    folder = Path(tempfile.mkdtemp(prefix="dpsco_cases_"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    file = folder / f"loss_cases_{path.stem}.py"  # a module, as pickles and Numba's cache want it
    file.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = sys.modules[file.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return [Case(*entry) for entry in module.CASES]


PAGE = Path(__file__).parents[2] / "docs" / "add_loss.md"
FILES = sorted((Path(__file__).parent / "cases").glob("*.py"))
CATALOGUE = [case for path in (*FILES, PAGE) for case in _load(path)]
SMOOTHABLE = [case for case in CATALOGUE if np.isfinite(case.loss.slope_bound(1.0, np.inf))]


@pytest.fixture(params=CATALOGUE, ids=lambda case: repr(case.loss))
def case(request: pytest.FixtureRequest) -> Case:
    """Every convex loss in turn."""
    return request.param


@pytest.fixture(params=SMOOTHABLE, ids=lambda case: repr(case.loss))
def smoothable(request: pytest.FixtureRequest) -> Case:
    """Every convex loss with bounded slope in turn."""
    return request.param


@pytest.fixture
def catalogue() -> list[Case]:
    """All cases at once."""
    return CATALOGUE
