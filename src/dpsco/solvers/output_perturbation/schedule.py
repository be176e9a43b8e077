"""Plans of output-perturbed SGD: passes, steps and noise of the three solvers."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass

from ... import _validate
from ...errors import AssumptionError, ParameterError
from ...privacy.accounting.calibration import calibrate
from ...privacy.budget import PureDP
from ...privacy.mechanisms import WithReplacementRelease
from ...task import Task
from ..common.smoothing import nonsmooth
from . import published, rates
from .run import RECURSION, Plan, surrogate_task

SAMPLINGS = ("permutation", "with_replacement")


@dataclass(frozen=True)
class _Draft:
    """The settings of a plan, before defaults are filled in."""

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
        """Whether steps descend the Moreau envelope of a nonsmooth loss: unless told otherwise."""
        chosen = self.smoothing is not None or self.step is not None
        drawn = self.sampling == "with_replacement" or self.task.calibration == "paper"
        return nonsmooth(self.task) and not chosen and not drawn

    def steps(self) -> int:
        """Return how many steps, from the number of passes."""
        batches = self.task.n // self.batch
        if self.passes is not None:
            return _validate.integer("passes", self.passes) * batches
        usual = rates.SMOOTH_PASSES if self.envelope else rates.default_passes(self.task)
        return usual * batches

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
        plan = Plan(
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
                lambda s: dataclasses.replace(plan, sigma=s).releases(), self.task.budget
            )
        # Noise longer than the domain is wide: projecting would shrink the signal with it.
        length = sigma * (
            task.n_weights if isinstance(self.task.budget, PureDP) else task.n_weights**0.5
        )
        project = length <= task.radius if self.project is None else bool(self.project)
        return dataclasses.replace(plan, sigma=sigma, project=project)


def plan_bounded(
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

    Steps on a nonsmooth loss descend its Moreau envelope, as sharp as the step allows without
    expansion; ``smoothing=0`` descends the loss itself, as the paper does.
    """
    draft = _Draft(
        "dp_sgd_output", task, passes, step, sampling,
        project=project, smoothing=smoothing,
    )  # fmt: skip
    bound = _gradient_bound(task, clip)
    if task.calibration == "paper":
        return _published(draft, published.bounded, lambda _: bound)
    return _tight(draft, lambda _: bound)


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
    draft = _Draft(
        "dp_sgd_output_unbounded", task, passes, step, sampling,
        project=False, smoothing=0.0 if unclipped and smoothing is None else smoothing,
    )  # fmt: skip
    bound = _gradient_bound(task, clip)
    if not (unclipped or task.calibration == "paper"):
        return _tight(draft, lambda _: bound)
    if clip is not None or not rates.never_negative(task):
        raise AssumptionError(
            f"{draft.key} bounds its gradients by Lemma 20, which needs a loss of the catalogue "
            f"that is never negative, and no clip; got {task.problem.loss!r} and clip={clip!r}. "
            "Use calibration='tight' without unclipped=True."
        )
    if task.calibration == "paper":
        return _published(draft, published.unbounded, None)
    return _tight(draft, lambda s: rates.unclipped(task, steps=draft.steps(), step=s))


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
    draft = _Draft(
        "bolt_on_sgd", task, passes, step,
        batch=_validate.integer("batch", batch),
        output=_validate.choice("output", output, ("average", "last")),
        project=project,
    )  # fmt: skip
    if draft.batch > task.n:
        raise ParameterError(f"batch must be at most n = {task.n}, got {batch}.", parameter="batch")
    bound = _gradient_bound(task, clip)
    constant = _bolt_on(draft, bound, decay=bool(decay))
    if decay is None and task.ridge > 0.0 and draft.batch == 1 and step is None:
        decaying = _bolt_on(draft, bound, decay=True)
        return decaying if decaying.risk < constant.risk else constant
    return constant


def _gradient_bound(task: Task, clip: float | None) -> float:
    """Return the user's clip, if the loss's own bound is not less; or the default."""
    if clip is None:
        return task.gradient_bound(None)
    return min(task.lipschitz, _validate.positive("clip", clip))


def _tight(draft: _Draft, clip: Callable[[float], float]) -> Plan:
    """Return a plan whose step is given, or minimises the predicted risk."""
    _validate.choice("sampling", draft.sampling or "permutation", SAMPLINGS)
    task, steps, step = draft.task, draft.steps(), draft.step
    if draft.envelope:
        return _enveloped(draft, clip(task.initial_distance), steps)
    if draft.smoothing:
        return _with_smoothing(draft, clip)
    if step is None:
        if draft.sampling == "with_replacement":
            sigma = _mixture(draft, steps)
        else:
            sigma = rates.closed_form(task, passes=steps // task.n)
        step, _ = rates.best_step(task, steps=steps, clip=clip, sigma=sigma)
    if not math.isfinite(limit := clip(_validate.positive("step", step))):
        raise AssumptionError(
            f"{draft.key} with unclipped=True bounds its gradients by Lemma 20, which needs step * "
            f"smoothness <= 1 on {draft.task.problem.loss!r}; got step={step:.6g}. Take a shorter "
            "step, pass a clip, or leave unclipped out."
        )
    return draft.finish(steps=steps, step=step, clip=limit, sigma=None)


def _enveloped(draft: _Draft, clip: float, steps: int) -> Plan:
    """Return a plan on the envelope that is just smooth enough for its steps to expand nothing.

    With b = 2/(step X^2) the envelope lies L0^2/(2b) = step G^2/4 below the loss, half of what the
    steps themselves cost; the noise then has no part that grows with the steps.
    """
    task, step = draft.task, _free_step(draft, clip, steps, extra=0.5)
    step = min(step, 0.5 / task.ridge) if task.ridge > 0.0 else step
    sharp = 2.0 * (1 - 1e-6) / (rates.inner_step(task, step) * task.feature_bound**2)
    return draft.finish(steps=steps, step=step, clip=clip, sigma=None, smoothing=sharp)


def _with_smoothing(draft: _Draft, clip: Callable[[float], float]) -> Plan:
    """Return the plan on the envelope of the user's smoothing."""
    if not nonsmooth(draft.task):
        raise ParameterError(f"smoothing is for nonsmooth losses, not {draft.task.problem.loss!r}.")
    smooth = _validate.positive("smoothing", draft.smoothing)
    task = surrogate_task(draft.task, smooth)
    inner = _tight(dataclasses.replace(draft, task=task, smoothing=None), clip)
    return draft.finish(
        steps=inner.steps, step=inner.step, clip=inner.clip, sigma=None, smoothing=smooth
    )


def _mixture(draft: _Draft, steps: int) -> Callable[[float, float], float]:
    """Return sigma(step, clip) for random rows: that of the shifts, and that of the drift."""
    task, budget = draft.task, draft.task.budget
    kind = budget.adjacency.value
    shifts = calibrate(
        lambda s: WithReplacementRelease(1.0, 0.0, steps, s, kind, RECURSION, rows=(0, task.n)),
        budget,
    )
    share = 2.0 / 3.0 * math.sqrt(steps) * rates.unit_noise(budget, task.n_weights)

    def sigma(step: float, clip: float) -> float:
        a = rates.expansion(task, step, clip)
        return budget.adjacency.factor * step * clip * shifts + share * a

    return sigma


def _published(
    draft: _Draft,
    schedule: Callable[..., published.Published],
    clip: Callable[[float], float] | None,
) -> Plan:
    """Return the published plan: rows with replacement, classical noise."""
    if draft.sampling == "permutation" or draft.step is not None:
        raise AssumptionError(
            f"{draft.key} with calibration='paper' draws rows with replacement and has its own "
            "step size; leave sampling and step out, or use calibration='tight'."
        )
    steps = None if draft.passes is None else draft.steps()
    paper = schedule(draft.task, steps)
    if clip is None:
        never = rates.unclipped(draft.task, steps=paper.steps, step=paper.step)
        bound = min(paper.gradient, never)
    else:
        bound = clip(paper.step)
    draft = dataclasses.replace(draft, sampling="with_replacement")
    return draft.finish(steps=paper.steps, step=paper.step, clip=bound, sigma=paper.sigma)


def _bolt_on(draft: _Draft, clip: float, *, decay: bool) -> Plan:
    """Return a plan with constant steps, or with steps 1/(ridge t)."""
    task, steps, step = draft.task, draft.steps(), draft.step
    if decay and (task.ridge == 0.0 or draft.batch > 1 or step is not None):
        raise AssumptionError(
            "bolt_on_sgd with decay=True needs a ridge, penalty=losses.L2Penalty(strength), "
            f"batch=1 and no step of its own; got {task.problem.penalty!r}, batch={draft.batch}, "
            f"step={step!r}. Use decay=False, or dp_sgd_output."
        )
    passes, longest = steps // (draft.task.n // draft.batch), rates.longest_smooth(task)
    if decay:
        step = (1 - 1e-9) / (task.smoothness * (1 + 1e-9) + task.ridge)
    elif step is None:
        step = min(_free_step(draft, clip, steps), longest)
    step = _validate.positive("step", step)
    if not step <= longest:
        raise AssumptionError(
            f"bolt_on_sgd needs step * smoothness <= 2 (a privacy condition), that is a step of at "
            f"most {longest:.6g}; got {step!r}. Leave step out, or use dp_sgd_output."
        )
    sigma = None
    if draft.task.calibration == "paper":
        sigma = published.bolt_on(
            task,
            step=step,
            clip=clip,
            decay=decay,
            passes=passes,
            batch=draft.batch,
        )
    return draft.finish(steps=steps, step=step, clip=clip, sigma=sigma, decay=decay)


def _free_step(draft: _Draft, clip: float, steps: int, *, extra: float = 0.0) -> float:
    """Return R/(G sqrt(T (1 + extra + 2 sqrt(2/pi) Delta_1/mu))), Delta_1 = Delta/(step G)."""
    task, passes = draft.task, draft.steps() // (draft.task.n // draft.batch)
    shifts = passes if draft.output == "last" else (passes + 1) / 2
    moved = draft.task.budget.adjacency.factor * shifts / draft.batch
    noise = moved * rates.unit_noise(draft.task.budget, task.n_weights)
    return task.initial_distance / (clip * math.sqrt(steps * (1 + extra + 2 * rates.GAUSS * noise)))


def smooth_risk(task: Task) -> float:
    """Return the predicted excess risk of bolt_on_sgd, whose steps expand nothing."""
    return rates.risk(task, longest=rates.longest_smooth(task))


def gradients(task: Task) -> float:
    """Return how many gradients of a row a run takes by default."""
    return float(rates.default_passes(task) * task.n)
