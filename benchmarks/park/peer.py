"""The peer in hindsight: full-batch DP-GD whose clip and step were tuned for free.

Every clip and step of a grid is run on a pilot split, twice, and the pair of the least mean test
loss is used on all other splits. Nobody pays for that search, so this peer is better than any
that a user could run: no worse than it is a strong claim. Its noise is calibrated by the same
accountant to the same budget as ours, its momentum is a heavy ball's, and the units are the
declared ones. That and the middle of the grid are `noisy_gd`'s as it was when the protocol was
frozen, so that the peer does not move when our defaults do.

All settings and draws are columns of one matrix of weights: a round is two matrix products.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

import dpsco as dp
from dpsco.losses.vector import VectorLoss
from dpsco.privacy.mechanisms import gaussian_sigma
from dpsco.task import Task

from .tables import Split

CLIPS = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)
STEPS = (1 / 4, 1 / 2, 1.0, 2.0, 4.0)
ROUNDS = 100
MOMENTUM = 0.9
PILOT, PILOT_DRAWS = 99, 2  # the split that settings are tuned on, and how often each is run
CELLS = 1 << 18  # numbers of a block of scores: what a cache holds


@dataclass(frozen=True)
class Schedule:
    """What is multiplied by the grid, and what all settings share."""

    clip: float
    step: float
    smoothing: tuple[float, ...]  # curvature of the envelope by round; zeros for smooth losses
    tail: int  # how many of the last iterates are averaged

    def step_at(self, round: int, feature: float) -> float:
        """Return the step of a round before the grid's factor."""
        sharp = self.smoothing[round]
        return min(self.step, 1.0 / (sharp * feature**2)) if sharp else self.step


def schedule(task: Task) -> Schedule:
    """Return noisy_gd's clip and step for 100 rounds, as they were when the protocol was fixed."""
    feature, root = task.feature_bound, math.sqrt(task.n_weights)
    numbers = task.problem.loss.labels == "real"
    distance = (1.0 / 3.0 if numbers else 2.0) * root / feature
    clip = _clip(task, distance * root)
    single = gaussian_sigma(task.budget, bound=clip, rows=(0, task.n))
    time = distance * task.n / (single * root)
    ideal = time * (1.0 - MOMENTUM) / ROUNDS
    if math.isfinite(task.smoothness):
        longest = (1.0 + MOMENTUM) / task.smoothness
        tail = ROUNDS // (4 if ideal > longest else 2)
        return Schedule(clip, min(ideal, longest), (0.0,) * ROUNDS, tail)
    sharp = min(5.0, math.sqrt(ROUNDS / (1.0 - MOMENTUM)) / (distance * feature))
    last = min(0.125 * time / distance**2, ROUNDS / (2.0 * distance * feature))
    growth = max(4.0, last / sharp)
    late = [max(0.0, 2.0 * (t + 1) / ROUNDS - 1.0) for t in range(ROUNDS)]
    smoothing = tuple(sharp * growth**share for share in late)
    return Schedule(clip, min(ideal, 1.0 / (sharp * feature**2)), smoothing, ROUNDS // 4)


def _clip(task: Task, reach: float) -> float:
    """Return the loss's own bound where its noise is small, else that of a row at the start."""
    whole = task.lipschitz
    if math.isfinite(whole):
        sigma = task.budget.adjacency.sensitivity(whole) / (task.n * task.budget.mu_per_row())
        if reach * sigma <= 0.02 * task.constants.value_at_zero:
            return whole
    start, loss = task.start_gradient, task.problem.loss
    if isinstance(loss, VectorLoss):
        start = min(start, task.feature_bound * loss.settled(0.5))
    return start


@dataclass(frozen=True)
class Peer:
    """The tuned peer of one table, budget and kind of fit."""

    kind: str
    task: Task
    clip: float  # times the schedule's
    step: float

    def losses(self, split: Split, seeds: list[int]) -> list[float]:
        """Return the test losses of one run for each seed."""
        factors = [(self.clip, self.step, seed) for seed in seeds]
        return _scores(split, self.kind, _descend(split, self.kind, self.task, factors))


def tune(pilot: Split, kind: str, task: Task, seed: int) -> Peer:
    """Return the peer with the clip and step that did best on the pilot split."""
    pairs = [(clip, step) for clip in CLIPS for step in STEPS]
    factors = [(*pair, seed + draw) for pair in pairs for draw in range(PILOT_DRAWS)]
    scores = np.array(_scores(pilot, kind, _descend(pilot, kind, task, factors)))
    means = np.nan_to_num(scores, nan=np.inf).reshape(len(pairs), PILOT_DRAWS).mean(axis=1)
    return Peer(kind, task, *pairs[int(np.argmin(means))])


def _descend(
    split: Split, kind: str, task: Task, factors: list[tuple[float, float, int]]
) -> np.ndarray:
    """Return the weights of every column (clip factor, step factor, seed): columns x rows x K."""
    plan, count = schedule(task), len(factors)
    clips = np.array([plan.clip * clip for clip, _, _ in factors], dtype=np.float32)
    sigma = {
        clip: gaussian_sigma(task.budget, bound=plan.clip * clip, rows=(0, task.n), count=ROUNDS)
        for clip in {clip for clip, _, _ in factors}
    }
    noise = np.array([sigma[clip] for clip, _, _ in factors], dtype=np.float32)[:, None, None]
    steps = np.array([step for _, step, _ in factors], dtype=np.float32)[:, None, None]
    generators = [np.random.default_rng([seed, 15]) for _, _, seed in factors]
    rows, labels = _with_intercept(split.X, task), _labels(split, kind)
    width = split.table.classes if split.table.classes > 2 else 1
    weights = np.zeros((count, rows.shape[1], width), dtype=np.float32)
    velocity, average = np.zeros_like(weights), np.zeros_like(weights)
    query = _Query(kind, rows, labels, clips, width)
    for t in range(ROUNDS):
        answer = query.total(weights, plan.smoothing[t])
        for column, generator in enumerate(generators):
            shape = weights.shape[1:]
            answer[column] += noise[column] * generator.standard_normal(shape, np.float32)
        velocity = MOMENTUM * velocity + (1.0 - MOMENTUM) / task.n * answer
        step = plan.step_at(t, task.feature_bound) / (1.0 - MOMENTUM)
        weights = np.clip(np.nan_to_num(weights - step * steps * velocity), -1e15, 1e15)
        if t >= ROUNDS - plan.tail:
            average += weights / plan.tail
    return average


class _Query:
    """Sums of clipped gradients over all rows, for every column at once."""

    def __init__(
        self, kind: str, rows: np.ndarray, labels: np.ndarray, clips: np.ndarray, width: int
    ) -> None:
        self.kind, self.rows, self.labels, self.clips, self.width = kind, rows, labels, clips, width
        self.inverse = 1.0 / np.maximum(np.linalg.norm(rows, axis=1), 1e-12)
        self.block = max(64, CELLS // (len(clips) * width))

    def total(self, weights: np.ndarray, sharp: float) -> np.ndarray:
        """Return the sums: columns x features x classes."""
        count, features, width = weights.shape
        flat = np.ascontiguousarray(weights.transpose(1, 0, 2)).reshape(features, count * width)
        total = np.zeros_like(flat)
        for low in range(0, len(self.rows), self.block):
            rows = self.rows[low : low + self.block]
            labels = self.labels[low : low + self.block]
            limit = self.inverse[low : low + self.block, None] * self.clips
            with np.errstate(over="ignore", invalid="ignore"):
                slopes = self._slopes(rows @ flat, labels, limit, sharp)
            total += rows.T @ np.nan_to_num(slopes)
        return total.reshape(features, count, width).transpose(1, 0, 2).copy()

    def _slopes(
        self, scores: np.ndarray, labels: np.ndarray, limit: np.ndarray, sharp: float
    ) -> np.ndarray:
        """Return slopes in the scores; ``limit`` is how long they may be at most."""
        if self.width > 1:
            cube = scores.reshape(len(scores), -1, self.width)
            cube = np.exp(cube - cube.max(axis=2, keepdims=True))
            cube /= cube.sum(axis=2, keepdims=True)
            cube[np.arange(len(cube)), :, labels] -= 1.0
            length = np.sqrt(np.einsum("bsk,bsk->bs", cube, cube))
            cube *= np.minimum(1.0, limit / np.maximum(length, 1e-12))[:, :, None]
            return cube.reshape(scores.shape)
        if self.kind == "class":
            scores *= labels[:, None]
            np.exp(scores, out=scores)
            scores += 1.0
            return np.minimum(1.0 / scores, limit) * -labels[:, None]
        scores -= labels[:, None]
        if self.kind == "absolute":
            scores *= sharp
            limit = np.minimum(limit, 1.0)
        return np.clip(scores, -limit, limit)


def _scores(split: Split, kind: str, weights: np.ndarray) -> list[float]:
    """Return the test loss of every column."""
    column = np.full((len(split.X_test), 1), dp.models.config.INTERCEPT)
    rows = np.hstack([split.X_test, column])
    if kind == "class":
        return [split.score_classes(_probabilities(rows @ each)) for each in weights]
    low, high = split.table.ends
    unit, centre = (high - low) / 2, (high + low) / 2
    return [
        split.score_numbers(rows @ each[:, 0] * unit + centre, kind)
        for each in weights.astype(float)
    ]


def _probabilities(scores: np.ndarray) -> np.ndarray:
    """Return the classes' probabilities; a single score is that of the second of two."""
    if scores.shape[1] == 1:
        scores = np.hstack([np.zeros_like(scores), scores])
    exponential = np.exp(scores - scores.max(axis=1, keepdims=True))
    return exponential / exponential.sum(axis=1, keepdims=True)


def _with_intercept(X: np.ndarray, task: Task) -> np.ndarray:
    """Return rows within the bound, with the intercept's column."""
    bounds = task.problem.bounds
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    clipped = X * np.minimum(1.0, bounds.feature_norm / np.maximum(norms, 1e-12))
    column = np.full((len(X), 1), bounds.intercept)
    return np.ascontiguousarray(np.hstack([clipped, column]), dtype=np.float32)


def _labels(split: Split, kind: str) -> np.ndarray:
    """Return signs, class numbers, or numbers within [-1, 1]."""
    if kind == "class" and split.table.classes > 2:
        return split.y
    if kind == "class":
        return np.where(split.y == 1, 1.0, -1.0).astype(np.float32)
    low, high = split.table.ends
    scaled = 2.0 * (np.clip(split.y, low, high) - low) / (high - low) - 1.0
    return scaled.astype(np.float32)
