"""Plans that all sides can agree on, and what tells them apart."""

import dataclasses

import pytest

import dpsco as dp
from dpsco.errors import AssumptionError, ParameterError
from dpsco.federated import Coordinator, FixedPoint, NoiseHelper, Worker, fingerprint, protected
from dpsco.losses import CustomLoss


def test_every_side_checks_the_plan(setting):
    good = setting.plan()
    encoding = FixedPoint.choose(good)
    other = dp.plan(setting.problem, n=120, d=4, budget=dp.ApproxDP(2.0, 1e-6), solver="noisy_gd")
    quiet = dataclasses.replace(good, sigma=good.sigma / 2)
    crowd = setting.plan(unit=dp.Unit(3, "worker"))
    for plan, error, words in [
        (other, ParameterError, "one sum a batch, got noisy_gd.*acc_srgd"),
        ("plan", ParameterError, "one sum a batch"),
        (quiet, AssumptionError, "budget"),
        (crowd, AssumptionError, "counts as one"),
    ]:
        for side in (
            lambda plan: Coordinator(plan),
            lambda plan: Worker(setting.rows(0, 9), plan, name="w"),
            lambda plan: NoiseHelper(plan, name="h", encoding=encoding),
        ):
            with pytest.raises(error, match=words):
                side(plan)


def test_whom_a_plan_protects(setting):
    assert protected(setting.plan()) == "row"
    assert protected(setting.plan(unit=dp.Unit(5, "person"))) == "row"  # by group privacy
    assert protected(setting.plan(unit=dp.Unit(1, "worker"))) == "worker"


def test_fingerprints_tell_plans_apart(setting):
    plan = setting.plan()
    assert fingerprint(plan) == fingerprint(dp.load_plan(plan.to_json()))
    others = [
        setting.plan("dp_ftrl"),
        setting.plan(clip=plan.clip / 2),
        setting.plan(n=121),
        dataclasses.replace(plan, sigma=plan.sigma * (1 + 2**-52)),
        setting.plan(unit=dp.Unit(1, "worker")),
    ]
    assert len({fingerprint(each) for each in (plan, *others)}) == 6


def test_plans_with_a_loss_of_ones_own_have_one_too(setting):
    def made(clip):
        own = CustomLoss(
            lambda margin, label: (margin - label) ** 2 / 2,
            lambda margin, label: margin - label,
            labels="sign",
            slope_bound=float("inf"),
            convex=True,
        )
        problem = dataclasses.replace(setting.problem, loss=own)
        options = {"rounds": 2, "clip": clip}
        budget = dp.ApproxDP(1.0, 1e-6)
        return dp.plan(problem, n=40, d=4, budget=budget, solver="dp_ftrl", options=options)

    assert fingerprint(made(1.0)) == fingerprint(made(1.0)) != fingerprint(made(0.5))
