"""The catalogue of convex losses, each beside its formula in many digits.

A test that asks for the fixture ``case`` runs on all of them; a new loss needs one more entry.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from dpsco import losses
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


def _plus(t: Any) -> Any:
    return t if t > 0 else mp.mpf(0)


def _case(loss: MarginLoss, formula: Formula, joints: Any = lambda y: ()) -> Case:
    return Case(loss, formula, joints)


def _huber(threshold: float) -> Formula:
    h = mp.mpf(threshold)

    def formula(u: Any, y: Any) -> Any:
        r = abs(u - y)
        return r * r / 2 if r <= h else h * (r - h / 2)

    return formula


def _poisson(rate: float) -> Formula:
    top = mp.mpf(rate)

    def formula(u: Any, y: Any) -> Any:
        turn = mp.log(top)
        return (mp.exp(u) if u <= turn else top + top * (u - turn)) - y * u

    return formula


def _q_hinge(q: float) -> Case:
    return _case(losses.QHinge(q), lambda u, y: _plus(1 - y * u) ** mp.mpf(q), lambda y: (y,))


def _q_power(q: float) -> Case:
    return _case(losses.QPower(q), lambda u, y: abs(u - y) ** mp.mpf(q), lambda y: (y,))


def _pinball(a: float) -> Case:
    return _case(
        losses.Pinball(a),
        lambda u, y: max(mp.mpf(a) * (y - u), (mp.mpf(a) - 1) * (y - u)),
        lambda y: (y,),
    )


def _insensitive(e: float) -> Case:
    return _case(
        losses.EpsilonInsensitive(e),
        lambda u, y: _plus(abs(u - y) - mp.mpf(e)),
        lambda y: (y - e, y + e),
    )


def _pseudo(t: float) -> Case:
    return _case(
        losses.PseudoHuber(t),
        lambda u, y: mp.mpf(t) ** 2 * (mp.sqrt(1 + ((u - y) / mp.mpf(t)) ** 2) - 1),
    )


CATALOGUE = [
    _case(losses.Logistic(), lambda u, y: mp.log1p(mp.exp(-y * u))),
    _case(losses.Hinge(), lambda u, y: _plus(1 - y * u), lambda y: (y,)),
    *(_q_hinge(q) for q in (1.0, 1.001, 1.5, 2.0)),
    _case(losses.SquaredHinge(), lambda u, y: _plus(1 - y * u) ** 2, lambda y: (y,)),
    _case(
        losses.ModifiedHuber(),
        lambda u, y: _plus(1 - y * u) ** 2 if y * u >= -1 else -4 * y * u,
        lambda y: (y, -y),
    ),
    _case(losses.Squared(), lambda u, y: (u - y) ** 2 / 2),
    _case(losses.Absolute(), lambda u, y: abs(u - y), lambda y: (y,)),
    *(_q_power(q) for q in (1.0, 1.001, 1.3, 2.0)),
    *(_pinball(a) for a in (0.3, 0.95)),
    *(_insensitive(e) for e in (0.5, 0.0)),
    *(_case(losses.Huber(h), _huber(h), lambda y, h=h: (y - h, y + h)) for h in (0.7, 5.0)),
    *(_pseudo(t) for t in (0.7, 20.0)),
    *(
        _case(losses.Poisson(r), _poisson(r), lambda y, r=r: (float(mp.log(r)),))
        for r in (20.0, 0.2)
    ),
]
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
