"""Draws the figures of the documentation: `python docs/figures/draw.py [NAME ...]`.

They are committed, so that pages can be read without a build; a test draws them again, except
`accuracy`, which fits for a minute, and compares.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.special import ndtr, ndtri

sys.path.insert(0, str(Path(__file__).parent))
import svg
from svg import Plot, area, arrow, box, dot, path, ring, text

DECLARED = ("what is declared", "loss, domain, bounds", "rows n, features d", "epsilon, delta")


def pipeline() -> None:
    """From public facts and private rows to a model with a certificate."""
    parts = [
        text(20, 30, "public: decided before a row is read", colour="a", bold=True),
        text(20, 214, "private", colour="d", bold=True),
        box(20, 48, 178, 92, DECLARED),
        arrow(198, 94, 228, 94),
        box(232, 62, 158, 64, ("plan", "rounds, noise, cost")),
        arrow(311, 126, 311, 232),
        arrow(390, 94, 578, 94),
        text(484, 84, "what it will cost", colour="dim", anchor="middle", size=12),
        box(20, 228, 138, 66, ("rows", "a table, a stream"), "private"),
        arrow(158, 261, 192, 261),
        text(175, 250, "clip", colour="dim", anchor="middle", size=12),
        box(196, 236, 232, 50, ("run", "bounded sums of clipped rows"), "private"),
        arrow(428, 261, 456, 261, both=True),
        box(460, 228, 122, 66, ("ledger", "adds the noise")),
        arrow(560, 226, 598, 205),
        box(582, 62, 158, 64, ("certificate", "what was released")),
        arrow(661, 170, 661, 130),
        box(602, 174, 138, 46, ("model", "noisy weights")),
        path([(10, 184), (560, 184)], "edge", width=1.2, dash="5 5"),
        arrow(661, 62, 661, 40),
        text(661, 30, "anybody: verify", anchor="middle", bold=True),
    ]
    svg.write(
        "pipeline",
        760,
        312,
        "The path of a fit: a plan is made of public facts; rows reach the model through "
        "clipped sums and noise alone",
        parts,
    )


def clipping() -> None:
    """Rows longer than the bound are pulled back to it."""
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((26, 2)) * [62, 45] + [18, -8]
    bound, centres = 92.0, ((185.0, 172.0), (560.0, 172.0))
    parts = []
    for k, (x, y) in enumerate(centres):
        parts.append(ring(x, y, bound, "a", fill=True))
        parts.append(path([(x - 4, y), (x + 4, y)], "dim", width=1.2))
        parts.append(path([(x, y - 4), (x, y + 4)], "dim", width=1.2))
        for row in rows:
            length = float(np.hypot(*row))
            clipped = row * min(1.0, bound / length)
            if k == 0 or length <= bound:
                parts.append(dot(x + row[0], y + row[1], "b" if length > bound else "ink"))
            else:
                parts.append(
                    path(
                        [(x + row[0], y + row[1]), (x + clipped[0], y + clipped[1])],
                        "b",
                        width=1.1,
                        dash="3 3",
                    )
                )
                parts.append(dot(x + clipped[0], y + clipped[1], "b"))
    parts += [
        text(185, 30, "rows as they are", anchor="middle", bold=True),
        text(560, 30, "rows as the fit sees them", anchor="middle", bold=True),
        arrow(335, 172, 410, 172),
        text(372, 162, "clip", anchor="middle", size=13),
        text(
            380,
            340,
            "No row is longer than the declared bound: that is how much one row can do. A "
            "null row is at the centre.",
            colour="dim",
            anchor="middle",
            size=13,
        ),
    ]
    svg.write(
        "clipping",
        760,
        358,
        "Clipping: rows longer than the bound are scaled down to it, all others stay as they are",
        parts,
    )


WORLDS = "What leaves the table, seen along the direction of your row (epsilon 1 at delta 1e-6)."


def worlds() -> None:
    """What a certificate's mu means: two normal distributions."""
    from dpsco.privacy import ApproxDP

    mu = ApproxDP(1.0, 1e-6).mu_per_row()
    plot = Plot(40, 46, 680, 190, (-3.6, 3.9), (0.0, 0.43))
    grid = np.linspace(-3.6, 3.9, 121)
    parts = []
    for shift, colour in ((0.0, "a"), (mu, "b")):
        points = [
            (float(x), float(math.exp(-((x - shift) ** 2) / 2) / math.sqrt(2 * math.pi)))
            for x in grid
        ]
        corners = [plot.at(-3.6, 0.0), *(plot.at(*point) for point in points), plot.at(3.9, 0.0)]
        parts += [area(corners, colour), plot.line(points, colour)]
    top = plot.at(0, 0.42)[1]
    parts += [
        path([plot.at(-3.6, 0), plot.at(3.9, 0)], "dim", width=1.2),
        arrow(plot.at(0, 0)[0], top, plot.at(mu, 0)[0], top, both=True),
        text(plot.at(mu / 2, 0)[0], top - 8, f"mu = {mu:.2f}", anchor="middle", size=13),
        text(
            plot.at(-1.15, 0)[0],
            plot.at(0, 0.3)[1],
            "with another row in its place",
            colour="a",
            anchor="end",
            bold=True,
        ),
        text(plot.at(mu + 1.15, 0)[0], plot.at(0, 0.3)[1], "with your row", colour="b", bold=True),
        text(380, 266, WORLDS, colour="dim", anchor="middle", size=12),
        text(
            380,
            284,
            f"Whoever guesses from it which of the two it was is right {ndtr(mu / 2):.1%} of the "
            "time at best.",
            colour="dim",
            anchor="middle",
            size=12,
        ),
    ]
    svg.write(
        "worlds",
        760,
        302,
        f"Two normal distributions, shifted by mu = {mu:.2f}: the output with your row and "
        f"with another row in its place",
        parts,
    )


def attack() -> None:
    """The best attack against Gaussian noise, by epsilon."""
    from dpsco.privacy import ApproxDP

    plot = Plot(70, 46, 330, 330, (0.0, 1.0), (0.0, 1.0))
    parts = plot.axes("false alarms", "detected", (0, 0.25, 0.5, 0.75, 1), (0, 0.25, 0.5, 0.75, 1))
    parts.append(plot.line([(0, 0), (1, 1)], "dim", width=1.2, dash="5 5"))
    rates = [0.0, *np.geomspace(1e-6, 1e-2, 60), *np.linspace(0.015, 1, 120)]
    table = []
    for epsilon, colour in ((0.1, "c"), (1.0, "a"), (3.0, "d"), (8.0, "b")):
        mu = ApproxDP(epsilon, 1e-6).mu_per_row()
        points = [
            (float(rate), float(ndtr(ndtri(rate) + mu)) if 0 < rate < 1 else float(rate))
            for rate in rates
        ]
        parts.append(plot.line(points, colour))
        table.append((epsilon, colour, mu))
    parts += [
        text(440, 66, "epsilon", bold=True),
        text(520, 66, "right answers", bold=True),
        text(630, 66, "at 1 % alarms", bold=True),
    ]
    for k, (epsilon, colour, mu) in enumerate(table):
        y = 98 + 32 * k
        parts += [path([(440, y - 5), (462, y - 5)], colour, width=3), text(470, y, f"{epsilon:g}")]
        parts += [
            text(520, y, f"at most {ndtr(mu / 2):.1%}"),
            text(630, y, f"{ndtr(ndtri(0.01) + mu):.1%} found"),
        ]
    y = 98 + 32 * len(table)
    parts += [
        path([(440, y - 5), (462, y - 5)], "dim", width=1.2, dash="5 5"),
        text(470, y, "guessing"),
        text(570, y, "50 %"),
        text(630, y, "1 % found"),
    ]
    parts += [
        text(440, 300 + 18 * k, line, colour="dim", size=13)
        for k, line in enumerate(
            (
                "No attack lies above its curve, whatever it",
                "knows about everybody else. Gaussian noise,",
                "delta 1e-6; a certificate draws its own.",
            )
        )
    ]
    svg.write(
        "attack",
        760,
        430,
        "The best possible attack: detected against false alarms at epsilon 0.1, 1, 3 and 8",
        parts,
    )


def solver_map() -> None:
    """Which solver, by a few questions."""
    rows: Sequence[tuple[str, str, str]] = (
        ("Only a mean?", "l2_clip_mean_oracle, PrivateMean", "one noisy mean"),
        ("Rows come once, or rounds cost much?", "acc_srgd", "one pass, tens of rounds"),
        ("Pure epsilon, no delta?", "bolt_on_sgd", "one noisy vector"),
        (
            "Few of very many columns matter?",
            "noisy_gd over an l1 ball",
            'PrivateLasso, penalty="l1"',
        ),
        ("Millions of rows, few passes?", "dp_sgd_poisson", "secret samples"),
        (
            "Few columns, many rows, smooth loss?",
            "approx_objective_perturbation",
            "solved to the end, fast",
        ),
        ("None of these?", "noisy_gd", "full passes, clipping alone"),
    )
    parts = [text(30, 34, "Ask from top to bottom; the first yes decides.", colour="dim", size=13)]
    for k, (question, solver, why) in enumerate(rows):
        y = 52 + 58 * k
        last = k == len(rows) - 1
        parts.append(box(20, y, 340, 40, (question,), "private"))
        parts.append(arrow(360, y + 20, 416, y + 20))
        parts.append(text(386, y + 14, "yes", colour="dim", anchor="middle", size=12))
        parts.append(box(420, y - 1, 320, 44, (solver, why)))
        if not last:
            parts.append(arrow(175, y + 40, 175, y + 57))
            parts.append(text(188, y + 53, "no", colour="dim", size=12))
    svg.write(
        "solver_map",
        760,
        52 + 58 * len(rows) + 4,
        "Which solver: seven questions, the first yes decides",
        parts,
    )


def federated() -> None:
    """The two messages of a round."""
    xs = (120.0, 470.0, 570.0, 670.0)
    parts = [box(40, 20, 160, 46, ("coordinator", "plan, ledger, noise"))]
    for k, x in enumerate(xs[1:]):
        parts.append(box(x - 44, 20, 88, 46, (f"worker {k + 1}", "its own rows"), "private"))
    parts += [path([(x, 66), (x, 330)], "edge", width=1.5, dash="4 4") for x in xs]
    for turn, y in enumerate((104.0, 204.0)):
        parts.append(text(24, y + 26, f"round {turn + 1}", colour="dim", size=12))
        for x in xs[1:]:
            parts.append(arrow(126, y, x - 6, y))
            parts.append(arrow(x, y + 44, 126, y + 44))
            parts.append(dot(x, y, "private-edge"))
        parts.append(
            text(290, y - 8, "question: weights, clip, which batch", anchor="middle", size=13)
        )
        parts.append(text(290, y + 36, "masked sum of clipped gradients", anchor="middle", size=13))
        parts.append(
            text(
                130,
                y + 70,
                "total, unmasked: add noise, take a step",
                colour="a",
                anchor="start",
                size=13,
                bold=True,
            )
        )
    parts.append(
        text(
            380,
            322,
            "Rows never leave a worker. With secure aggregation nobody sees one worker's "
            "sum; only the total, with noise, is released.",
            colour="dim",
            anchor="middle",
            size=12,
        )
    )
    svg.write(
        "federated",
        760,
        346,
        "Federated learning: in each round the coordinator asks, each worker answers with a "
        "masked sum, the noisy total is released",
        parts,
    )


def few_rounds() -> None:
    """One pass over the rows in eight rounds, with noise that is shared by running sums."""
    parts = [text(30, 34, "rows, in the given order: each one is read once", bold=True)]
    width, count = 86.0, 8
    for k in range(count):
        x = 30 + k * (width + 1.5)
        parts.append(box(x, 48, width, 42, (f"batch {k + 1}",), "private"))
        parts.append(arrow(x + width / 2, 92, x + width / 2, 124))
        parts.append(box(x, 128, width, 42, (f"round {k + 1}",)))
    parts.append(
        text(
            30,
            204,
            "noise of running sums, by a binary tree (the simplest way)",
            bold=True,
        )
    )
    for level, size in enumerate((8, 4, 2, 1)):
        y = 218 + 20 * level
        for k in range(0, count, size):
            x = 30 + k * (width + 1.5)
            kind = "a" if (k // size) % 2 == 0 else "grid"
            place = f'x="{x:g}" y="{y:g}" width="{size * (width + 1.5) - 3:g}" height="14"'
            parts.append(f'<rect class="fig-f-{kind}" {place} rx="3" fill-opacity="0.75"/>')
    parts.append(
        text(
            380,
            318,
            "The sum of the first seven rounds holds three noisy pieces (4 + 2 + 1), not "
            "seven; the first eight hold one.",
            colour="dim",
            anchor="middle",
            size=12,
        )
    )
    svg.write(
        "few_rounds",
        760,
        340,
        "One pass in few rounds: rows are cut into batches, each round asks one of them, "
        "and running sums share their noise",
        parts,
    )


def geometry() -> None:
    """Unit balls, the projection of a point, and the vertex a linear function picks."""
    parts, size = [], 72.0
    point, gradient = np.array([1.15, 0.75]), np.array([-0.9, -0.45])
    spots = (("L2Ball", 110.0), ("L1Ball", 290.0), ("LInfBall", 470.0), ("Simplex", 650.0))
    for name, x in spots:
        y = 150.0
        if name == "Simplex":
            y = 186.0

        def at(v: Sequence[float], x: float = x, y: float = y) -> tuple[float, float]:
            return x + size * float(v[0]), y - size * float(v[1])

        if name == "L2Ball":
            parts.append(ring(x, y, size, "a", fill=True))
            near, far = point / np.linalg.norm(point), -gradient / np.linalg.norm(gradient)
        else:
            corners = {
                "L1Ball": [(1, 0), (0, 1), (-1, 0), (0, -1)],
                "LInfBall": [(1, 1), (-1, 1), (-1, -1), (1, -1)],
                "Simplex": [(1, 0), (0, 1)],
            }[name]
            if name == "Simplex":
                parts.append(path([at((-0.15, 0)), at((1.3, 0))], "edge", width=1.2))
                parts.append(path([at((0, -0.15)), at((0, 1.3))], "edge", width=1.2))
            parts += [area([at(c) for c in corners], "a", 0.12)] if len(corners) > 2 else []
            parts.append(path([at(c) for c in corners], "a", close=len(corners) > 2))
            near = np.clip(point, -1, 1) if name == "LInfBall" else point - (point.sum() - 1) / 2
            far = max(corners, key=lambda c: -float(np.dot(c, gradient)))
        parts.append(path([at(point), at(near)], "b", width=1.4, dash="4 3"))
        parts += [dot(*at(point), "b"), dot(*at(near), "b", 5), dot(*at(far), "c", 6)]
        parts.append(text(x if name != "Simplex" else x + 20, 34, name, anchor="middle", bold=True))
    parts += [
        dot(60, 262, "b", 5),
        text(74, 267, "projection: the nearest point of the domain", size=13),
        dot(410, 262, "c", 6),
        text(424, 267, "linear minimiser: where <g, w> is least; a vertex", size=13),
    ]
    svg.write(
        "geometry",
        790,
        284,
        "Domains: an l2 ball, an l1 ball, an l_inf ball and a simplex, each with a "
        "projection and a linear minimiser",
        parts,
    )


def odometer() -> None:
    """Several fits under one budget."""
    from dpsco.privacy import ApproxDP
    from dpsco.privacy.accounting import gaussian

    fits = (("first model", 0.6), ("second", 0.6), ("third", 0.6), ("fourth", 0.9))
    total, delta = 1.2, 1e-6
    mus, ends = 0.0, []
    for _, epsilon in fits:
        mus += ApproxDP(epsilon, 1e-7).mu_per_row() ** 2
        ends.append(gaussian.epsilon(delta, math.sqrt(mus)))
    plot = Plot(40, 60, 680, 46, (0.0, 1.5), (0.0, 1.0))
    before, parts = 0.0, [text(40, 34, f"budget: epsilon {total:g} at delta {delta:g}", bold=True)]
    for (name, epsilon), end, colour in zip(fits, ends, ("a", "c", "d", "b"), strict=True):
        corners = [plot.at(before, 0), plot.at(before, 1), plot.at(end, 1), plot.at(end, 0)]
        paid = end <= total
        parts.append(area(corners, colour, 0.55 if paid else 0.1))
        parts.append(path(corners, colour, width=1.4, dash="" if paid else "4 4", close=True))
        middle = plot.at((before + end) / 2, 0)[0]
        parts.append(text(middle, 130, name, anchor="middle", size=13))
        parts.append(
            text(
                middle,
                148,
                f"epsilon {epsilon:g}" + ("" if paid else ": refused"),
                colour="dim",
                anchor="middle",
                size=12,
            )
        )
        before = end if paid else before
    x = plot.at(total, 0)[0]
    parts += [
        path([(x, 48), (x, 118)], "ink", width=2),
        text(x, 42, f"{total:g}", anchor="middle", size=12),
    ]
    parts.append(
        text(
            380,
            180,
            "Composed fits cost less than the sum of their epsilons. One that would exceed "
            "the budget is refused before a row is read.",
            colour="dim",
            anchor="middle",
            size=12,
        )
    )
    svg.write(
        "odometer",
        760,
        200,
        "An odometer: three fits are paid from one budget, a fourth is refused",
        parts,
    )


def one_round() -> None:
    """What happens between two versions of the weights."""
    steps = (
        ("gradients", "one per row", "private"),
        ("clip", "to the bound", "private"),
        ("sum", "over the batch", "private"),
        ("ledger", "adds noise", "public"),
        ("step", "new weights", "public"),
    )
    parts = []
    for k, (name, what, kind) in enumerate(steps):
        x = 24 + 146 * k
        parts.append(box(x, 40, 118, 58, (name, what), kind))
        if k < len(steps) - 1:
            parts.append(arrow(x + 118, 69, x + 144, 69))
    parts += [
        path([(667, 98), (667, 132), (83, 132)], "dim", width=1.5),
        arrow(83, 132, 83, 102),
        text(
            380, 126, "the next round, with the new weights", colour="dim", anchor="middle", size=12
        ),
        text(24, 26, "private rows pass through", colour="d", bold=True, size=13),
        text(462, 26, "noisy from here on: may be seen", colour="a", bold=True, size=13),
    ]
    svg.write(
        "one_round",
        760,
        150,
        "One round: gradients are clipped and summed, the ledger adds noise, the weights "
        "take a step",
        parts,
    )


EPSILONS, SEEDS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0), 10


def accuracy() -> None:
    """Accuracy against epsilon on the bundled messages, with the spread over ten fits."""
    from dpsco.cli.demo_fit import PLAIN, TRIVIAL, run
    from dpsco.privacy import ApproxDP
    from dpsco.privacy.randomness import Randomness

    bands = {}
    for epsilon in EPSILONS:
        fits = [
            run(epsilon=epsilon, randomness=Randomness.seeded(seed)).accuracy
            for seed in range(SEEDS)
        ]
        private = sorted(
            next(v for k, v in fit.items() if k not in (TRIVIAL, PLAIN)) for fit in fits
        )
        bands[epsilon] = (private[0], float(np.median(private)), private[-1])
        trivial, plain = fits[0][TRIVIAL], fits[0][PLAIN]
    plot = Plot(58, 46, 466, 270, (0.1, 10.0), (0.84, 1.0), log=True)
    right = plot.at(10.0, 1.0)[0]
    parts = plot.axes(
        "epsilon (smaller is more private)",
        "accuracy on fresh messages",
        EPSILONS,
        (0.84, 0.88, 0.92, 0.96, 1.0),
        ".0%",
    )
    low = [(epsilon, band[0]) for epsilon, band in bands.items()]
    high = [(epsilon, band[2]) for epsilon, band in bands.items()]
    parts.append(area([plot.at(*p) for p in [*low, *reversed(high)]], "a", 0.2))
    middle = [(epsilon, band[1]) for epsilon, band in bands.items()]
    parts.append(plot.line(middle, "a", width=2.5))
    parts += [dot(*plot.at(*point), "a", 4) for point in middle]
    labels = []  # baseline, words, colour: inside the plot, so that the drawing stays narrow
    for value, name, colour, down in (
        (plain, "not private", "c", -9),
        (trivial, "always the larger class", "dim", 19),
    ):
        parts.append(plot.line([(0.1, value), (10.0, value)], colour, dash="6 4"))
        labels.append((plot.at(1, value)[1] + down, f"{name}: {value:.1%}", colour))
    last = middle[EPSILONS.index(1.0)]
    labels.append((plot.at(1, 0.935)[1], f"private: median of {SEEDS} fits and their range;", "a"))
    labels.append((plot.at(1, 0.935)[1] + 20, f"{last[1]:.1%} at epsilon 1", "a"))
    for epsilon in EPSILONS:  # under each tick: what privacy buys
        odds = ndtr(ApproxDP(epsilon, 1 / 4_000**2).mu_per_row() / 2)
        x = plot.at(epsilon, 0.84)[0]
        parts.append(text(x, 388, f"{odds:.1%}", colour="b", anchor="middle", size=14, bold=True))
    labels.append((411, "how often the best attack is right, at most (a coin: 50%)", "b"))
    for y, words, colour in labels:
        bold = colour != "dim"
        parts.append(text(right, y, words, colour=colour, anchor="end", size=15, bold=bold))
    title = (
        "Accuracy against epsilon, and how often the best attack is right: is a text message spam?"
    )
    svg.write("accuracy", 560, 426, title, parts)


def tradeoff() -> None:
    """What `dp.tradeoff` says of 3,000 rows, as `dp.report.tradeoff_svg` draws it."""
    import dpsco as dp

    bounds = dp.Bounds(feature_norm=1.0, label=dp.data.Classes("no", "yes"), intercept=0.3)
    problem = dp.Problem(loss=dp.losses.Logistic(), bounds=bounds)
    task = dp.Task(problem, n=3_000, d=20, budget=dp.ApproxDP(1.0, 1e-7))
    curve = dp.tradeoff(task, (0.1, 0.3, 1, 3), base_rate=0.2)
    (svg.HERE / "tradeoff.svg").write_text(dp.report.tradeoff_svg(curve) + "\n", encoding="utf-8")


DRAWINGS = {
    drawing.__name__: drawing
    for drawing in (
        pipeline,
        clipping,
        worlds,
        attack,
        solver_map,
        federated,
        few_rounds,
        geometry,
        odometer,
        one_round,
        tradeoff,
        accuracy,
    )
}


def main(names: Sequence[str]) -> None:
    """Draw the figures that are named, or all."""
    for name in names or DRAWINGS:
        DRAWINGS[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
