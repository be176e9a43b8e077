"""SGD whose average is released once, with noise for the stability of the whole walk.

Paper      Wang, Lei, Ying, Zhang 2022 (ACHA), Alg 1 and Thms 7-10; Wu, Li, Kumar, Chaudhuri, Jha,
           Naughton 2017 (arXiv:1606.04722), Algs 1-2, for bolt_on_sgd.
Guarantee  neighbours move the average by Delta at most, so it is Delta/sigma-GDP. Delta: the
           recursion behind Thm 7, D <- sqrt(D^2 + a^2) on shared rows, D + 2 eta G on the other.
Rate       E[F(w) - F*] <= R^2/(2 eta T) + eta G^2/2 + G sigma sqrt(2/pi), plus 2 G R/sqrt(n) for
           T > n: the noise enters through a margin, so that d does not appear.
Needs      convex loss of one margin, rows bounded in l2, n public; bolt_on_sgd: a smooth loss.
Symbols    R, G, L, T, K, eta, lambda -> distance, clip, smoothness, steps, passes, step, ridge.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass

from ... import _validate
from ...errors import AssumptionError, ParameterError
from ...privacy.accounting.calibration import calibrate
from ...privacy.budget import PureDP
from ...privacy.mechanisms.releases import WithReplacementRelease
from ...task import Task
from .. import needs
from ..base import Measured, Solver
from ..common.smoothing import nonsmooth, smoothed
from . import published
from . import rates as schedules
from .trajectory import RECURSION, Plan, run

SAMPLINGS = ("permutation", "with_replacement")


@dataclass(frozen=True)
class _Request:
    """What was asked for, before defaults are filled in."""

    key: str
    task: Task
    passes: int | None
    step: float | None
    sampling: str | None = None
    batch: int = 1
    output: str = "average"
    project: bool | None = None
    smoothing: float | None = None

    @property
    def envelope(self) -> bool:
        """Whether to walk on the Moreau envelope of a loss with a kink: unless told otherwise."""
        asked = self.smoothing is not None or self.step is not None
        drawn = self.sampling == "with_replacement" or self.task.calibration == "paper"
        return nonsmooth(self.task) and not asked and not drawn

    def steps(self, published: int | None = None) -> int:
        """Return how many steps, from the number of passes."""
        if self.passes is None and published is not None:
            return published
        batches = self.task.n // self.batch
        if self.passes is None and self.envelope:
            return schedules.SMOOTH_PASSES * batches
        if self.passes is None:
            return schedules.default_passes(self.task) * batches
        return _validate.integer("passes", self.passes) * batches

    def finish(
        self,
        *,
        steps: int,
        step: float,
        clip: float,
        sigma: float | None,
        decay: bool = False,
        smoothing: float = 0.0,
    ) -> Plan:
        """Return the plan; noise that is not given is the least for the budget."""
        task = self.task
        made = Plan(
            solver=self.key,
            task=task,
            sampling=self.sampling or "permutation",
            steps=steps,
            step=_validate.positive("step", step),
            decay=decay,
            batch=self.batch,
            clip=clip,
            output="last" if decay else self.output,
            sigma=1.0 if sigma is None else sigma,
            project=False,
            smoothing=smoothing,
        )
        if steps < 2:
            raise ParameterError(
                f"{self.key} needs at least 2 steps (the first iterate knows no row), got {steps}. "
                "Pass more passes, or a smaller batch."
            )
        if sigma is None:
            sigma = calibrate(
                lambda s: dataclasses.replace(made, sigma=s).releases(), self.task.budget
            )
        # Noise longer than the domain is wide: projecting would shrink the signal with it.
        length = sigma * (
            task.n_weights if isinstance(self.task.budget, PureDP) else task.n_weights**0.5
        )
        project = length <= task.radius if self.project is None else bool(self.project)
        return dataclasses.replace(made, sigma=sigma, project=project)


def plan(
    task: Task,
    *,
    sampling: str | None = None,
    passes: int | None = None,
    step: float | None = None,
    clip: float | None = None,
    project: bool | None = None,
    smoothing: float | None = None,
) -> Plan:
    """Return a plan of dp_sgd_output: the step minimises the header's bound on a grid.

    A loss with a kink is walked on through its Moreau envelope, as sharp as the step allows
    without expansion; ``smoothing=0`` walks on the loss itself, as the paper does.
    """
    asked = _Request(
        "dp_sgd_output", task, passes, step, sampling,
        project=project, smoothing=smoothing,
    )  # fmt: skip
    bound = _gradient_bound(task, clip)
    if task.calibration == "paper":
        return _published(asked, published.bounded, lambda _: bound)
    return _tight(asked, lambda _: bound)


def plan_unbounded(
    task: Task,
    *,
    sampling: str | None = None,
    passes: int | None = None,
    step: float | None = None,
    clip: float | None = None,
    unclipped: bool = False,
    smoothing: float | None = None,
) -> Plan:
    """Return a plan of dp_sgd_output_unbounded; ``smoothing`` as in dp_sgd_output.

    ``unclipped`` takes the clip that never acts on a loss >= 0, by the norm bound of Lemma 20; so
    does calibration="paper".
    """
    asked = _Request(
        "dp_sgd_output_unbounded", task, passes, step, sampling,
        project=False, smoothing=0.0 if unclipped and smoothing is None else smoothing,
    )  # fmt: skip
    bound = _gradient_bound(task, clip)
    if not (unclipped or task.calibration == "paper"):
        return _tight(asked, lambda _: bound)
    if clip is not None or not schedules.never_negative(task):
        raise AssumptionError(
            f"{asked.key} bounds its gradients by Lemma 20, which needs a loss of the catalogue "
            f"that is never negative, and no clip; got {task.problem.loss!r} and clip={clip!r}. "
            "Use calibration='tight' without unclipped=True."
        )
    if task.calibration == "paper":
        return _published(asked, published.unbounded, None)
    return _tight(asked, lambda s: schedules.unclipped(task, steps=asked.steps(), step=s))


def plan_bolt_on(
    task: Task,
    *,
    passes: int | None = None,
    step: float | None = None,
    clip: float | None = None,
    batch: int = 1,
    output: str = "average",
    decay: bool | None = None,
    project: bool | None = None,
) -> Plan:
    """Return a plan of bolt_on_sgd.

    ``decay`` takes steps 1/(ridge t) and the last iterate; by default if the problem has a ridge
    and the predicted risk is less that way.
    """
    asked = _Request(
        "bolt_on_sgd", task, passes, step,
        batch=_validate.integer("batch", batch),
        output=_validate.choice("output", output, ("average", "last")),
        project=project,
    )  # fmt: skip
    if asked.batch > task.n:
        raise ParameterError(f"batch must be at most n = {task.n}, got {batch}.")
    bound = _gradient_bound(task, clip)
    made = _bolt_on(asked, bound, decay=bool(decay))
    if decay is None and task.ridge > 0.0 and asked.batch == 1 and step is None:
        other = _bolt_on(asked, bound, decay=True)
        made = other if other.risk < made.risk else made
    return made


def _gradient_bound(task: Task, clip: float | None) -> float:
    """Return the clip that was asked for, if the loss's own bound is not less; or its default."""
    if clip is None:
        return task.gradient_bound(None)
    return min(task.lipschitz, _validate.positive("clip", clip))


def _tight(asked: _Request, clip: Callable[[float], float]) -> Plan:
    """Return a plan whose step is given, or minimises the predicted risk."""
    _validate.choice("sampling", asked.sampling or "permutation", SAMPLINGS)
    task, steps, step = asked.task, asked.steps(), asked.step
    if asked.envelope:
        return _enveloped(asked, clip(task.initial_distance), steps)
    if asked.smoothing:
        return _smoothed_as_asked(asked, clip)
    if step is None:
        if asked.sampling == "with_replacement":
            sigma = _mixture(asked, steps)
        else:
            sigma = schedules.closed_form(task, passes=steps // task.n)
        step, _ = schedules.best_step(task, steps=steps, clip=clip, sigma=sigma)
    if not math.isfinite(limit := clip(_validate.positive("step", step))):
        raise AssumptionError(
            f"{asked.key} with unclipped=True bounds its gradients by Lemma 20, which needs step * "
            f"smoothness <= 1 on {asked.task.problem.loss!r}; got step={step:.6g}. Take a shorter "
            "step, pass a clip, or leave unclipped out."
        )
    return asked.finish(steps=steps, step=step, clip=limit, sigma=None)


def _enveloped(asked: _Request, clip: float, steps: int) -> Plan:
    """Return a plan on the envelope that is just smooth enough for its steps to expand nothing.

    With b = 2/(step X^2) the envelope lies L0^2/(2b) = step G^2/4 below the loss, half of what the
    steps themselves cost; the noise then has no part that grows with the steps.
    """
    task, step = asked.task, _free_step(asked, clip, steps, extra=0.5)
    step = min(step, 0.5 / task.ridge) if task.ridge > 0.0 else step
    sharp = 2.0 * (1 - 1e-6) / (schedules.inner_step(task, step) * task.feature_bound**2)
    return asked.finish(steps=steps, step=step, clip=clip, sigma=None, smoothing=sharp)


def _smoothed_as_asked(asked: _Request, clip: Callable[[float], float]) -> Plan:
    """Return the plan of the envelope that was asked for."""
    if not nonsmooth(asked.task):
        raise ParameterError(
            f"smoothing is for losses with a kink, not {asked.task.problem.loss!r}."
        )
    smooth = _validate.positive("smoothing", asked.smoothing)
    problem = dataclasses.replace(asked.task.problem, loss=smoothed(asked.task, smooth))
    task = dataclasses.replace(asked.task, problem=problem)
    inner = _tight(dataclasses.replace(asked, task=task, smoothing=None), clip)
    return asked.finish(
        steps=inner.steps, step=inner.step, clip=inner.clip, sigma=None, smoothing=smooth
    )


def _mixture(asked: _Request, steps: int) -> Callable[[float, float], float]:
    """Return sigma(step, clip) for random rows: that of the hits, and that of the drift added."""
    task, budget = asked.task, asked.task.budget
    kind = budget.adjacency.value
    hits = calibrate(
        lambda s: WithReplacementRelease(1.0, 0.0, steps, s, kind, RECURSION, rows=(0, task.n)),
        budget,
    )
    share = 2.0 / 3.0 * math.sqrt(steps) * schedules.unit_noise(budget, task.n_weights)

    def sigma(step: float, clip: float) -> float:
        a = schedules.expansion(task, step, clip)
        return budget.adjacency.factor * step * clip * hits + share * a

    return sigma


def _published(
    asked: _Request,
    schedule: Callable[..., published.Published],
    clip: Callable[[float], float] | None,
) -> Plan:
    """Return the published plan: rows with replacement, classical noise."""
    if asked.sampling == "permutation" or asked.step is not None:
        raise AssumptionError(
            f"{asked.key} with calibration='paper' draws rows with replacement and has its own "
            "step size; leave sampling and step out, or use calibration='tight'."
        )
    steps = None if asked.passes is None else asked.steps()
    found = schedule(asked.task, steps)
    if clip is None:
        never = schedules.unclipped(asked.task, steps=found.steps, step=found.step)
        bound = min(found.gradient, never)
    else:
        bound = clip(found.step)
    asked = dataclasses.replace(asked, sampling="with_replacement")
    return asked.finish(steps=found.steps, step=found.step, clip=bound, sigma=found.sigma)


def _bolt_on(asked: _Request, clip: float, *, decay: bool) -> Plan:
    """Return a plan with constant steps, or with steps 1/(ridge t)."""
    task, steps, step = asked.task, asked.steps(), asked.step
    if decay and (task.ridge == 0.0 or asked.batch > 1 or step is not None):
        raise AssumptionError(
            "bolt_on_sgd with decay=True needs a ridge, penalty=losses.L2Penalty(strength), "
            f"batch=1 and no step of its own; got {task.problem.penalty!r}, batch={asked.batch}, "
            f"step={step!r}. Use decay=False, or dp_sgd_output."
        )
    passes, longest = steps // (asked.task.n // asked.batch), schedules.longest_smooth(task)
    if decay:
        step = (1 - 1e-9) / (task.smoothness * (1 + 1e-9) + task.ridge)
    elif step is None:
        step = min(_free_step(asked, clip, steps), longest)
    step = _validate.positive("step", step)
    if not step <= longest:
        raise AssumptionError(
            f"bolt_on_sgd needs step * smoothness <= 2 (a privacy condition), that is a step of at "
            f"most {longest:.6g}; got {step!r}. Leave step out, or use dp_sgd_output."
        )
    sigma = None
    if asked.task.calibration == "paper":
        sigma = published.bolt_on(
            task,
            step=step,
            clip=clip,
            decay=decay,
            passes=passes,
            batch=asked.batch,
        )
    return asked.finish(steps=steps, step=step, clip=clip, sigma=sigma, decay=decay)


def _free_step(asked: _Request, clip: float, steps: int, *, extra: float = 0.0) -> float:
    """Return R/(G sqrt(T (1 + extra + 2 sqrt(2/pi) Delta_1/mu))), Delta_1 = Delta/(step G)."""
    task, passes = asked.task, asked.steps() // (asked.task.n // asked.batch)
    hits = passes if asked.output == "last" else (passes + 1) / 2
    moved = asked.task.budget.adjacency.factor * hits / asked.batch
    noise = moved * schedules.unit_noise(asked.task.budget, task.n_weights)
    return task.initial_distance / (
        clip * math.sqrt(steps * (1 + extra + 2 * schedules.GAUSS * noise))
    )


def _smooth_risk(task: Task) -> float:
    return schedules.risk(task, longest=schedules.longest_smooth(task))


def _gradients(task: Task) -> float:
    return float(schedules.default_passes(task) * task.n)


_COMMON = (needs.GLM, needs.CONVEX, needs.EUCLIDEAN, needs.RIDGE, needs.FIXED_N, needs.at_least(2))
_BOUNDED = Solver(
    key="dp_sgd_output",
    summary="SGD over a bounded domain; one noisy release of the averaged iterate.",
    paper="Wang, Lei, Ying, Zhang 2022",
    reference="Alg 1, Thms 7(b), 8, 10",
    setting="convex loss of one margin, smooth or not; bounded domain",
    needs=(*_COMMON, needs.BOUNDED, needs.LIPSCHITZ, needs.GAUSSIAN),
    rounds="K passes",
    cost="K n gradients",
    plan=plan,
    run=run,
    risk=schedules.risk,
    gradients=_gradients,
    plan_type=Plan,
    calibrations=("tight", "paper"),
    measured=Measured(0.081, 0.1),
)

SOLVERS = (
    _BOUNDED,
    dataclasses.replace(
        _BOUNDED,
        key="dp_sgd_output_unbounded",
        summary="SGD without constraint; one noisy release of the averaged iterate.",
        reference="Alg 1, Thms 7(a), 8, 9",
        setting="convex loss of one margin, smooth or not; whole space",
        needs=(*_COMMON, needs.UNBOUNDED, needs.GAUSSIAN),
        plan=plan_unbounded,
        measured=Measured(0.15, 0.1),
    ),
    dataclasses.replace(
        _BOUNDED,
        key="bolt_on_sgd",
        summary="SGD on a smooth loss, noise bolted on at the end; also for pure privacy.",
        paper="Wu, Li, Kumar, Chaudhuri, Jha, Naughton 2017",
        reference="Algs 1, 2; Wang, Lei, Ying, Zhang 2022, Table 1",
        setting="smooth convex loss of one margin, perhaps a ridge; any domain",
        needs=(*_COMMON, needs.SMOOTH),
        plan=plan_bolt_on,
        measured=Measured(0.12, 0.12),
        risk=_smooth_risk,
    ),
)
