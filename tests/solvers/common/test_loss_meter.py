"""The loss that released gradients tell, and a clip that follows it."""

import dataclasses
import math

import numpy as np
import pytest

import dpsco as dp
from dpsco.data.queries import InUnits
from dpsco.errors import AssumptionError, LedgerError, ParameterError
from dpsco.models.config import configure
from dpsco.models.plan import plan_model
from dpsco.solvers import noisy_gd
from dpsco.solvers.common import loss_meter, refits

BUDGET = dp.ApproxDP(1.0, 1e-6)


def problem(classes=2, intercept=0.3, **settings):
    loss, label = dp.losses.Logistic(), "sign"
    if classes > 2:
        loss, label = dp.losses.Softmax(classes), dp.data.Classes(*range(classes))
    bounds = dp.Bounds(1.0, label=label, intercept=intercept)
    return dp.Problem(loss=loss, bounds=bounds, **settings)


def plan(n=4000, d=6, budget=BUDGET, of=None, **options):
    options = {"follow": True, **options}
    return dp.plan(of or problem(), n=n, d=d, budget=budget, solver="noisy_gd", options=options)


def table(rng, n, classes, *, apart=1.0, shares=None):
    """Rows around one centre for each class, and the numbers of the classes."""
    y = rng.choice(classes, size=n, p=shares)
    X = apart * 3.0 * np.eye(6)[y] + rng.standard_normal((n, 6)) / 2
    return X / np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True)), y


def labels(y, classes):
    return np.where(y == 1, 1.0, -1.0) if classes == 2 else y


def followed(fit_plan, X, y, seed=1):
    """Return the stepper before the last round, and the losses of the rows on its way."""
    task, loss = fit_plan.task, fit_plan.problem.loss
    rows = np.hstack([X, np.full((len(X), 1), 0.3)])
    rng, stepper, losses = np.random.default_rng(seed), noisy_gd.DescentStepper(fit_plan), []
    source = dp.data.from_arrays(X, y).bounded(task.problem.bounds)
    for _ in range(fit_plan.rounds - 1):
        if hasattr(loss, "classes"):
            losses.append(float(np.mean(loss.value(stepper.weights, rows, y.astype(float)))))
        else:
            losses.append(float(np.mean(loss.value(rows @ stepper.weights, y))))
        total = source.sum(stepper.query(), 0, len(X))
        stepper.update(total + fit_plan.sigma * rng.standard_normal(len(total)))
    return stepper, losses


@pytest.mark.parametrize("classes", [2, 4])
def test_the_meter_reads_the_loss_of_the_rows(classes):
    rng = np.random.default_rng(0)
    X, y = table(rng, 4000, classes, apart=0.2)
    y = labels(y, classes)
    fit_plan = plan(of=problem(classes), clip=2.0)  # a clip that cuts nothing
    errors = []
    for seed in range(8):
        stepper, losses = followed(fit_plan, X, y, seed)
        read = losses[0] + stepper.reading[0]
        errors.append((read - losses[-1]) / math.sqrt(stepper.reading[1]))
        assert losses[-1] < 0.9 * losses[0]
    assert abs(np.mean(errors)) < 0.8  # standard deviations, which are small:
    assert 0.3 < np.sqrt(np.mean(np.square(errors))) < 1.7
    assert math.sqrt(stepper.reading[1]) < 0.1 * losses[0]


def test_the_clip_shrinks_where_rows_are_told_apart_and_steps_lengthen():
    rng = np.random.default_rng(1)
    X, y = table(rng, 8000, 3)
    fit_plan = plan(n=8000, of=problem(3))
    stepper, _ = followed(fit_plan, X, y)
    (part,) = stepper.part
    assert loss_meter.LEAST <= part < 0.7
    assert fit_plan.room == 1.0  # noise is the limit, in units of the clip
    assert stepper._lengthened(stepper._meter) == pytest.approx(fit_plan.step / part)
    assert isinstance(stepper.query(), InUnits)
    assert stepper.query().bound == 1.0
    assert stepper.query().unit == pytest.approx(part * fit_plan.clip)


def test_answers_count_in_the_clip_that_they_were_asked_with():
    """So noise moves the weights as far in every round, and refits know no such clip."""
    rng = np.random.default_rng(10)
    X, y = table(rng, 8000, 3)
    made = plan(n=8000, of=problem(3), refit=0.1)
    source = dp.data.from_arrays(X, y).bounded(made.problem.bounds)
    stepper, units = noisy_gd.DescentStepper(made), []
    for _ in range(made.rounds - 1):
        query, weights, before = stepper.query(), stepper.weights, stepper.velocity.copy()
        kept = made.momentum_at(len(units))
        answer = source.sum(query, 0, 8000) + made.sigma * rng.standard_normal(query.size)
        stepper.update(answer)
        units.append(query.unit)
        velocity = kept * before + (1 - made.momentum) * answer * query.unit / 8000
        assert stepper.velocity == pytest.approx(velocity, rel=1e-9, abs=1e-12)
        move = velocity + 0.5 * kept * (velocity - before)
        move *= made.step / (1 - made.momentum) * made.clip / query.unit
        assert weights - stepper.weights == pytest.approx(move, rel=1e-9, abs=1e-12)
    assert min(units) < 0.7 * made.clip == 0.7 * max(units)
    stepper.update(answer)  # the last one: the refit begins, at rest
    query = stepper.query()
    answer = source.sum(query, 0, 8000)
    stepper.update(answer)
    assert stepper.velocity == pytest.approx((1 - refits.MOMENTUM) * query.lift(answer) / 8000)


@pytest.mark.parametrize("shares", [None, [0.04, 0.96]])
def test_the_clip_stays_where_nothing_is_learnt(shares):
    """Also where the loss falls far below that of even classes, as the constant's does."""
    rng = np.random.default_rng(2)
    X, y = table(rng, 8000, 2, shares=shares)
    X = rng.permutation(X)
    stepper, losses = followed(plan(n=8000), X, labels(y, 2))
    assert stepper.part[0] == 1.0
    if shares is not None:
        assert losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_the_loss_that_is_left_bounds_the_curvature(classes):
    """No rows curve more than the meter says at their mean loss, in units of the largest."""
    rng = np.random.default_rng(11)
    meter = loss_meter.LossMeter(plan(of=problem(classes)).task, 0.0, 1.0, 100)
    largest = 0.25 if classes == 2 else 0.5
    shares = []
    for sure in (0.1, 1.0, 3.0, 10.0, 30.0, 100.0):
        scores = sure * rng.standard_normal((300, classes))
        scores -= np.log(np.exp(scores).sum(axis=1, keepdims=True))
        chances = np.exp(scores)
        own = np.where(rng.random(300) < 0.97, np.argmax(scores, axis=1), 0)
        loss = -scores[np.arange(300), own]
        if classes == 2:
            curved = chances[:, 0] * chances[:, 1]
        else:
            hessians = np.eye(classes) * chances[:, :, None]
            hessians -= chances[:, :, None] * chances[:, None, :]
            curved = np.linalg.eigvalsh(hessians)[:, -1]
        for rows in (slice(None), loss <= np.median(loss), slice(0, 1)):
            meter.reading[0] = loss[rows].mean() - math.log(classes)
            assert curved[rows].mean() / largest <= meter.curvature() * (1 + 1e-12)
            shares.append(meter.curvature())
    meter.reading[0] = math.nan
    assert meter.curvature() == 1.0
    assert min(shares) == loss_meter.LEAST_CURVATURE
    assert max(shares) == 1.0


def test_steps_lengthen_where_rows_are_told_apart_and_noise_leaves_room():
    rng = np.random.default_rng(12)
    X, y = table(rng, 8000, 3)
    of, large = problem(3), dp.ApproxDP(50.0, 1e-6)
    fit_plan = plan(n=8000, of=of, budget=large, rounds=100)
    assert fit_plan.room > 2.0
    assert plan(n=8000, of=of, budget=large, rounds=100, follow=False).room == 1.0
    assert plan(n=8000, of=of, budget=large, rounds=100, step=0.1).room == 1.0
    stepper, losses = followed(fit_plan, X, y)
    assert losses[-1] < 0.1 * losses[0]
    assert stepper._meter.curvature() < 0.4
    assert stepper._lengthened(stepper._meter) > 2.0 * fit_plan.step
    assert stepper._lengthened(stepper._meter) <= fit_plan.longest_step(stepper._meter.curvature())
    tight = dataclasses.replace(fit_plan, room=1.0)
    assert losses[-1] < 0.9 * followed(tight, X, y)[1][-1]


def test_followed_fits_lose_less_where_rows_are_told_apart():
    rng = np.random.default_rng(3)
    X, y = table(rng, 8000, 3)
    rows = np.hstack([X, np.full((len(X), 1), 0.3)])

    def lost(follow):
        fit_plan = plan(n=8000, of=problem(3), follow=follow)
        runs = [dp.run(fit_plan, (X, y), randomness=dp.Randomness.seeded(s)) for s in range(3)]
        loss = fit_plan.problem.loss
        return np.mean([loss.value(r.weights, rows, y.astype(float)).mean() for r in runs])

    assert lost(True) < 0.9 * lost(False)


@pytest.mark.parametrize("refit", [0.0, 0.1])
@pytest.mark.parametrize("adjacency", ["zero_out", "replace_one"])
@pytest.mark.parametrize(
    "budget", [dp.ApproxDP(1.0, 1e-6), dp.ZCDP(0.05), dp.GDP(0.3)], ids=["dp", "zcdp", "gdp"]
)
def test_following_costs_what_the_descent_costs(budget, adjacency, refit):
    budget = dataclasses.replace(budget, adjacency=adjacency)
    fit_plan = plan(budget=budget, refit=refit)
    alone = plan(budget=budget, refit=refit, follow=False)
    ours, theirs = fit_plan.releases()[0], alone.releases()[0]
    assert (ours.bound, ours.count) == (1.0, theirs.count)
    assert ours.sigma == pytest.approx(theirs.sigma / theirs.bound, rel=1e-9)
    amount, allowed = fit_plan.cost.against(budget)
    assert 0.9999 * allowed < amount <= allowed
    assert "noise is in units of that clip" in " ".join(fit_plan.enforced)
    assert "noise is in units" not in " ".join(alone.enforced)


def test_a_clip_that_does_not_move_changes_rounding_alone():
    """Where noise drowns the meter the fit is that of a clip that stays."""
    rng = np.random.default_rng(4)
    X, y = table(rng, 300, 2)
    budget = dp.ApproxDP(0.1, 1e-6)
    weights = [
        dp.run(
            plan(n=300, budget=budget, follow=follow),
            (X, labels(y, 2)),
            randomness=dp.Randomness.seeded(5),
        ).weights
        for follow in (True, False)
    ]
    assert np.allclose(*weights, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("norm", "column"), [(1e100, 1e-100), (1e-100, 1e100)])
@pytest.mark.parametrize("clip", [None, 4e-100, 1e100])
def test_no_unit_is_too_large_for_the_meter(norm, column, clip):
    bounds = dp.Bounds(norm, label="sign", intercept=column)
    made = plan(n=300, of=dp.Problem(loss=dp.losses.Logistic(), bounds=bounds), clip=clip, rounds=9)
    X, y = table(np.random.default_rng(8), 300, 2)
    result = dp.run(made, (norm * X, labels(y, 2)), randomness=dp.Randomness.seeded(9))
    assert np.all(np.isfinite(result.weights))


def test_a_run_goes_on_where_it_stopped():
    rng = np.random.default_rng(6)
    X, y = table(rng, 4000, 3)
    fit_plan = plan(of=problem(3), refit=0.1)
    source = dp.data.from_arrays(X, y).bounded(fit_plan.problem.bounds)
    whole, rest = (noisy_gd.DescentStepper(fit_plan) for _ in range(2))
    for t in range(fit_plan.total_rounds):
        if t == fit_plan.rounds // 2:
            assert whole.part[0] < 1.0
            rest.restore(t, whole.state())
        answer = source.sum(whole.query(), 0, 4000)
        for stepper in (whole,) if t < fit_plan.rounds // 2 else (whole, rest):
            assert np.array_equal(source.sum(stepper.query(), 0, 4000), answer)
            stepper.update(answer)
    assert np.array_equal(whole.output(), rest.output())


def test_it_is_refused_where_the_loss_cannot_be_read_off():
    squares = dp.Problem(loss=dp.losses.Squared(), bounds=dp.Bounds(1.0, label=1.0, intercept=0.3))
    for of, words in (
        (squares, "log-loss"),
        (problem(domain=dp.domains.L2Ball(1.0)), "bounded"),
        (problem(penalty=dp.losses.L2Penalty(0.1)), "penalised"),
        (problem(intercept=None), "no intercept"),
    ):
        assert not loss_meter.follows_loss(dp.Task(of, 10**6, 6, BUDGET))
        with pytest.raises(AssumptionError, match=f"cannot be followed.*{words}"):
            plan(of=of)
    with pytest.raises(ParameterError, match="clip"):
        plan(clip=1e-100)
    with pytest.raises(ParameterError, match="follow must be True or False"):
        plan(follow=1.0)


def test_models_follow_from_a_signal_on_unless_options_are_given():
    config = configure("logistic", feature_norm=1.0, classes=[0, 1])

    def least(signal):
        return math.ceil(2 * signal / BUDGET.mu_per_row())  # replace-one counts twice

    few, many = least(loss_meter.LEAST_SIGNAL), least(refits.LEAST_SIGNAL)

    def fit(n=few, **settings):
        settings = {"n": n, "d": 4, "budget": BUDGET, "solver": "noisy_gd", **settings}
        return plan_model(config, **settings).fit

    assert (fit().follow, fit().refit_rounds) == (True, 0)
    assert (fit(n=many).follow, fit(n=many).refit_rounds) == (True, refits.ROUNDS)
    assert not fit(n=few - 1).follow
    assert not fit(options={"rounds": 60}).follow
    assert fit(solver="auto").follow
    assert not loss_meter.follows_loss(dp.Task(problem(), 10**6, 4, dp.PureDP(1.0)))
    assert not loss_meter.follows_loss(dp.Task(problem(), 10**6, 400, BUDGET))  # not measured


def test_federated_workers_are_not_asked_to_follow():
    from dpsco.federated.protection import rounds_of

    with pytest.raises(ParameterError, match="clips here as the run goes on"):
        rounds_of(plan())


class InGradients(noisy_gd.DescentStepper):
    """Planted: sums leave in the loss's own units, with noise for units of the clip."""

    def query(self):
        query = super().query()
        return query.gradient if isinstance(query, InUnits) else query


def test_a_planted_bug_is_caught(monkeypatch):
    rng = np.random.default_rng(7)
    X, y = table(rng, 300, 2)
    solver = dp.solvers.get("noisy_gd")
    monkeypatch.setitem(
        dp.solvers.registry(), "noisy_gd", dataclasses.replace(solver, stepper=InGradients)
    )
    with pytest.raises(LedgerError, match="its noise was planned for"):
        dp.run(plan(n=300), (X, labels(y, 2)), randomness=dp.Randomness.seeded(1))
