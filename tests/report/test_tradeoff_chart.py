"""The picture of a trade-off: well-formed, self-contained, said in words."""

import xml.etree.ElementTree as ET

import pytest

import dpsco as dp
from dpsco.report import tradeoff_svg

PROBLEM = dp.Problem(loss=dp.losses.Logistic(), bounds=dp.Bounds(1.0, label="sign"))
APPROX, PURE = dp.ApproxDP(1.0, 1e-7), dp.PureDP(1.0)


@pytest.mark.parametrize(
    ("budget", "epsilons", "solvers"),
    [
        (APPROX, (0.1, 0.3, 1.0, 3.0), None),
        (APPROX, 1.0, "auto"),
        (APPROX, (0.5, 1.0), ["noisy_gd", "acc_srgd", "dp_ftrl"]),
        (APPROX, [0.01 * k for k in range(1, 31)], "auto"),
        (PURE, (0.1, 1.0), None),
    ],
)
def test_it_is_a_file_of_its_own(budget, epsilons, solvers):
    curve = dp.tradeoff(dp.Task(PROBLEM, 3_000, 20, budget), epsilons, solvers=solvers)
    text = tradeoff_svg(curve)
    root = ET.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert "prefers-color-scheme: dark" in text
    for outside in ("http", "url(", "<script", "href", "nan", "inf"):
        assert outside not in text.replace("http://www.w3.org/2000/svg", "")
    words = "".join(root.itertext())
    for point in curve.chosen:
        assert f"Epsilon {point.epsilon:g}:" in words or len(curve.points) > 20
    assert all(key in words for key in curve.solvers)


def test_lines_follow_the_points():
    curve = dp.tradeoff(dp.Task(PROBLEM, 3_000, 20, APPROX), (0.1, 1.0), solvers="auto")
    dots = [
        (float(each.get("cx")), float(each.get("cy")))
        for each in ET.fromstring(tradeoff_svg(curve)).iter("{http://www.w3.org/2000/svg}circle")
    ]
    (few, more), (low, high) = dots[:2], dots[2:]
    assert few[0] < more[0]
    assert few[1] < more[1]  # the loss falls: downwards is larger in SVG
    assert low[1] > high[1]  # and attacks rise


def test_a_narrow_page_has_one_panel_below_the_other():
    curve = dp.tradeoff(dp.Task(PROBLEM, 3_000, 20, APPROX), (0.1, 1.0), solvers="auto")
    sizes = [
        tuple(map(float, ET.fromstring(tradeoff_svg(curve, stacked=each)).get("viewBox").split()))
        for each in (False, True)
    ]
    (*_, wide, low), (*_, narrow, high) = sizes
    assert narrow < 400 < wide
    assert high > 1.8 * low - 100


def test_nothing_but_a_margin_is_left_below_the_legend():
    curve = dp.tradeoff(dp.Task(PROBLEM, 3_000, 20, APPROX), (0.1, 1.0))
    root = ET.fromstring(tradeoff_svg(curve))
    height = float(root.get("viewBox").split()[3])
    legend = [group for group in root if group.get("transform", "").startswith("translate(0 ")][-1]
    down = float(legend.get("transform").split()[1].rstrip(")"))
    lowest = max(float(text.get("y")) for text in legend if text.tag.endswith("text"))
    assert 10 < height - down - lowest < 24
