"""What a Flower app does before anybody is asked; Flower itself is not needed."""

import pytest

import dpsco as dp
from dpsco.errors import BudgetError
from dpsco.federated.transport.flower_app import carry_out

from .conftest import SILOS


class NobodyError(Exception):
    """The run has begun, and asks for nodes."""


class Grid:
    def get_node_ids(self):
        raise NobodyError


def test_an_odometer_pays_before_anybody_is_asked(trial):
    files = {name: trial.folder / f"flower.{name}" for name in ("odometer", "output")}
    settings = {"plan": trial.folder / "plan.json", "parties": " ".join(SILOS), **files}
    odometer = dp.Odometer(files["odometer"], dp.ApproxDP(1.2, 1e-8))
    with pytest.raises(NobodyError):
        carry_out(Grid(), settings)
    assert len(odometer.entries()) == 1
    with pytest.raises(BudgetError):
        carry_out(Grid(), settings)
    assert len(odometer.entries()) == 1
