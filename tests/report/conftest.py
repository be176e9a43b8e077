"""Real runs for reports, small and made once, and a parser that keeps what a page says."""

from functools import cache
from html.parser import HTMLParser

import numpy as np
import pytest

import dpsco as dp
from dpsco import report
from dpsco.privacy import Randomness

N, D = 600, 4
TIGHT = dp.ApproxDP(1.0, 1 / N**2)
FREE = dp.Problem(loss=dp.losses.Logistic(), bounds=dp.Bounds(1.0, label="sign"))
BALL = dp.Problem(
    loss=dp.losses.Logistic(),
    bounds=dp.Bounds(1.0, label="sign"),
    domain=dp.domains.L2Ball(5.0),
)
CASES = {
    "noisy_gd": (FREE, TIGHT, {"rounds": 30}),
    "approx_objective_perturbation": (FREE, TIGHT, {}),
    "dp_sgd_poisson": (FREE, dp.ApproxDP(2.0, 1e-6, adjacency="zero_out"), {"epochs": 2}),
    "bolt_on_sgd": (BALL, dp.PureDP(1.0), {}),
    "phased_sgd": (BALL, dp.ApproxDP(8.0, 1e-6, unit=dp.Unit(3, "person")), {}),
}
SEEDED = "dp_sgd_poisson"
UTILITY = report.Utility(
    {"accuracy": 0.8412, "log loss": 0.3622},
    on="2,000 public test rows",
    baselines={"most frequent class": {"accuracy": 0.7601}, "not private": {"accuracy": 0.853}},
)
CREATED = "16 November 2026"


@cache
def solved(key):
    """Return the result of a small run."""
    problem, budget, options = CASES[key]
    corners = np.array([[1.0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, -1]])
    X = np.tile(corners, (N // D, 1)) * np.linspace(0.2, 1.0, N)[:, None]
    y = np.where(X[:, 0] > X[:, 1], 1.0, -1.0)
    randomness = Randomness.seeded(3) if key == SEEDED else None
    return dp.solve(problem, (X, y), budget, solver=key, options=options, randomness=randomness)


@cache
def page(key):
    """Return the full report of a small run."""
    found = solved(key)
    problem, budget, _ = CASES[key]
    return report.render(
        found.certificate,
        plan=found.plan,
        recommendation=dp.recommend(problem, N, D, budget),
        utility=UTILITY,
        title=f"Report on {key}",
        created=CREATED,
    )


class Page(HTMLParser):
    """The elements of a page in their order, and its text."""

    VOID = ("meta", "link", "br", "wbr")

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.words, self.comments = [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "wbr":  # a place to break a word, which is no gap in it
            self.words.append("\0")
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"<{tag}> is closed out of turn"

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_comment(self, data):
        self.comments.append(data)

    def handle_data(self, data):
        if not {"style", "title"} & set(self.open):
            self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).replace(" \0 ", "").split())

    def all(self, *names):
        return [attributes for tag, attributes in self.tags if tag in names]


@pytest.fixture(params=sorted(CASES))
def key(request):
    return request.param
