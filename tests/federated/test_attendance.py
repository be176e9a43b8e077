"""Attendance: who has answered is part of a run's state."""

import pytest

from dpsco.errors import ParameterError
from dpsco.federated.agreement import stepper_of
from dpsco.federated.attendance import AttendedRun
from dpsco.privacy.ledger import Ledger


def begun(plan):
    return AttendedRun(plan, stepper_of(plan), Ledger(plan.releases(), plan.budget))


def test_names_are_part_of_the_state(setting):
    plan = setting.plan("dp_sgd_single_epoch")
    first = begun(plan)
    first.attend(["a", "b"])
    second = begun(plan)
    second.resume(1, first.state())
    assert [second.attended(name) for name in ("a", "b", "c")] == [True, True, False]


def test_a_state_that_does_not_say_who_has_answered_is_refused(setting):
    plan = setting.plan("dp_sgd_single_epoch")
    state = begun(plan).state()
    del state["answered"]
    with pytest.raises(ParameterError, match="which workers have answered"):
        begun(plan).resume(1, state)
