"""Plans that all sides can agree on, and what tells them apart."""

import dataclasses

import pytest

import dpsco as dp
from dpsco.data.queries import InUnits
from dpsco.errors import AssumptionError, ParameterError
from dpsco.federated import Coordinator, FixedPoint, NoiseHelper, Worker, fingerprint, protected
from dpsco.federated.agreement import checked
from dpsco.losses import CustomLoss
from dpsco.privacy.mechanisms import ClipQuantileRelease
from dpsco.privacy.mechanisms.prefix_sum.mechanism import mechanism
from dpsco.solvers.noisy_gd import DescentStepper


def test_every_side_checks_the_plan(setting):
    good = setting.plan()
    encoding = FixedPoint.choose(good)
    other = dp.plan(setting.problem, n=120, d=4, budget=dp.ApproxDP(2.0, 1e-6), solver="phased_erm")
    quiet = dataclasses.replace(good, sigma=good.sigma / 2)
    crowd = setting.plan(unit=dp.Unit(3, "worker"))
    budget = dp.ApproxDP(2.0, 1e-6, adjacency="add_remove")
    hidden = dataclasses.replace(good, task=dataclasses.replace(good.task, budget=budget))
    for plan, error, words in [
        (other, ParameterError, "round by round, got phased_erm.*acc_srgd"),
        ("plan", ParameterError, "round by round"),
        (quiet, AssumptionError, "budget"),
        (crowd, AssumptionError, "counts as one"),
        (hidden, AssumptionError, "acc_srgd does not apply"),
        (dataclasses.replace(good, solver="dp_ftrl"), ParameterError, "dp_ftrl does not run"),
        (setting.plan(unit=dp.Unit(1, "Workers")), AssumptionError, "named 'Workers'"),
        (_refitted(), AssumptionError, "gradients alone.*Leave out refit"),
    ]:
        for side in (
            lambda plan: Coordinator(plan),
            lambda plan: Worker(setting.rows(0, 9), plan, name="w"),
            lambda plan: NoiseHelper(plan, name="h", encoding=encoding),
        ):
            with pytest.raises(error, match=words):
                side(plan)


def _refitted():
    """A plan whose last rounds ask for no gradients of weights, which no message can carry."""
    problem = dp.Problem(loss=dp.losses.Logistic(), bounds=dp.Bounds(1.0, label="sign"))
    budget, options = dp.ApproxDP(2.0, 1e-6), {"refit": 0.1}
    return dp.plan(problem, n=120, d=4, budget=budget, solver="noisy_gd", options=options)


def test_whom_a_plan_protects(setting):
    assert protected(setting.plan()) == "row"
    assert protected(setting.plan(unit=dp.Unit(5, "person"))) == "row"  # by group privacy
    assert protected(setting.plan(unit=dp.Unit(1, "worker"))) == "worker"


@pytest.mark.parametrize("name", ["Worker", "workers", " worker", "WORKERS ", "worker\n"])
def test_names_that_only_look_like_worker_are_refused(setting, name):
    """They would protect one row while the certificate speaks of one Worker."""
    with pytest.raises(AssumptionError, match="would protect one row"):
        protected(setting.plan(unit=dp.Unit(1, name)))


@pytest.mark.parametrize("call", [fingerprint, protected])
def test_what_is_no_plan_is_refused_in_words(setting, call):
    budget = dp.ApproxDP(2.0, 1e-6)
    other = dp.plan(setting.problem, n=120, d=4, budget=budget, solver="phased_erm")
    for wrong in ("x", None, other):
        with pytest.raises(ParameterError, match="round by round"):
            call(wrong)


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


def own_loss_plan(setting, clip=1.0):
    own = CustomLoss(
        lambda margin, label: (margin - label) ** 2 / 2,
        lambda margin, label: margin - label,
        labels="sign",
        slope_bound=float("inf"),
        convex=True,
    )
    problem = dataclasses.replace(setting.problem, loss=own)
    options, budget = {"rounds": 2, "clip": clip}, dp.ApproxDP(1.0, 1e-6)
    return dp.plan(problem, n=40, d=4, budget=budget, solver="dp_ftrl", options=options)


def test_plans_with_a_loss_of_ones_own_have_one_too(setting):
    made = [own_loss_plan(setting, clip) for clip in (1.0, 1.0, 0.5)]
    assert fingerprint(made[0]) == fingerprint(made[1]) != fingerprint(made[2])


@pytest.mark.parametrize("own", [False, True])
def test_every_field_of_a_plan_counts(setting, own):
    """Also with a user's own code in it, of which only the name is known."""
    plan = own_loss_plan(setting) if own else setting.plan("dp_ftrl", rounds=2)
    wide = dataclasses.replace(plan.problem, domain=dp.domains.L2Ball(6.0))
    tighter = dataclasses.replace(plan.budget, delta=1e-7)
    changes = [
        {"task": dataclasses.replace(plan.task, problem=wide)},
        {"task": dataclasses.replace(plan.task, budget=tighter)},
        {"mechanism": mechanism("tree", rounds=2)},
        *(
            {item.name: getattr(plan, item.name) * (1 + 2**-52)}
            for item in dataclasses.fields(plan)
            if isinstance(getattr(plan, item.name), float)
        ),
    ]
    others = [dataclasses.replace(plan, **change) for change in changes]
    assert len(others) > 5
    assert len({fingerprint(each) for each in (plan, *others)}) == len(others) + 1


@pytest.mark.parametrize("tracked", [False, True])
def test_clips_that_a_run_finds_are_refused(monkeypatch, tracked):
    """Workers answer with clipped gradients alone."""
    problem = dp.Problem(loss=dp.losses.Logistic(), bounds=dp.Bounds(1.0, label="sign"))
    plan = dp.plan(problem, n=400, d=3, budget=dp.ApproxDP(1.0, 1e-6), solver="noisy_gd")
    kind, noisy = type(plan), plan.releases()[0]
    clip = ClipQuantileRelease(1e3, 300, 41, rows=(0, 400))
    if tracked:
        honest = DescentStepper.query
        monkeypatch.setattr(DescentStepper, "query", lambda self: InUnits(honest(self)))
    else:
        monkeypatch.setattr(kind, "releases", lambda plan: (clip, noisy))
    with pytest.raises(ParameterError, match=r"Give clip=|options=\{'clip'"):
        checked(plan)
