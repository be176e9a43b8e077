"""Charts: values land where they belong, text is escaped, everything is labelled."""

import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsco.report import svg
from dpsco.report.formatting import plain
from dpsco.report.svg import Bar, bar_chart, line_chart, linear, logarithmic

EVIL = "<script>alert('1')</script>&\"\x00\u202e"


def chart(points, x=None, y=None, **settings):
    text = line_chart(
        points,
        x or linear("x", 0.0, 10.0),
        y=y or linear("y", 0.0, 1.0),
        name="c",
        title="T",
        description="D",
        **settings,
    )
    return ET.fromstring(text)


def path(element, kind):
    (found,) = element.findall(f"path[@class='{kind}']")
    return [tuple(map(float, pair.split())) for pair in re.split("[MLZ]", found.get("d")) if pair]


def test_points_land_where_they_belong():
    drawn = path(chart([(0.0, 0.0), (5.0, 0.5), (10.0, 1.0)]), "curve")
    left, right = svg._LEFT, svg.WIDTH - svg._RIGHT
    top, bottom = svg._TOP, svg.HEIGHT - svg._BOTTOM
    assert drawn == [
        (left, bottom),
        pytest.approx(((left + right) / 2, (top + bottom) / 2), abs=0.01),
        (right, top),
    ]


def test_the_height_moves_the_floor_alone():
    tall, low = (path(chart([(0.0, 0.0), (10.0, 1.0)], height=h), "curve") for h in (240, 170))
    assert tall[0][1] - low[0][1] == 70
    assert tall[1] == low[1]


def test_logarithmic_axes_are_logarithmic():
    axis = logarithmic("delta", 1e-12, 1.0, about=6)
    assert [axis.share(10.0**-k) for k in (12, 6, 0)] == pytest.approx([0.0, 0.5, 1.0])
    assert axis.share(0.0) == 0.0  # a pure guarantee ends at the floor
    assert [text for _, text in axis.ticks] == [
        "10⁻¹²",
        "10⁻¹⁰",
        "10⁻⁸",
        "10⁻⁶",
        "10⁻⁴",
        "0.01",
        "1",
    ]


def test_values_beyond_the_axis_stay_at_its_ends():
    assert linear("x", 0.0, 1.0).share(7.0) == 1.0
    assert linear("x", 0.0, 1.0).share(-7.0) == 0.0


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_linear_ticks_are_few_and_inside(low, size):
    axis = linear("x", low, low + size)
    slack = 1e-6 * size + 1e-9 * abs(low)
    assert len(axis.ticks) <= 11
    assert all(axis.low - slack <= value <= axis.high + slack for value, _ in axis.ticks)


@pytest.mark.parametrize("axis", [linear("x", 2.0, 2.0), linear("x", 0.0, 0.0)])
def test_an_empty_range_is_widened(axis):
    assert axis.high > axis.low
    assert axis.ticks


@pytest.mark.parametrize("value", [1e-300, 3.0, 1e300])
def test_extreme_ranges_are_drawn(value):
    drawn = path(chart([(0.0, 0.0), (value, 1.0)], x=linear("x", 0.0, value)), "curve")
    assert drawn[1] == (svg.WIDTH - svg._RIGHT, svg._TOP)
    assert logarithmic("y", value, value).high > value * 0.999


def test_the_area_lies_between_the_curve_and_the_guide():
    drawn = chart([(0.0, 0.0), (5.0, 1.0), (10.0, 1.0)], area=True, guide=[(0.0, 0.0), (10.0, 1.0)])
    curve, guide, area = (path(drawn, kind) for kind in ("curve", "guide", "area"))
    assert area == [*curve, *reversed(guide)]
    kinds = [part.get("class") for part in drawn if part.get("class") in ("area", "curve", "guide")]
    assert kinds == ["area", "guide", "curve"]


@pytest.mark.parametrize(("x", "anchor"), [(1.0, "start"), (9.0, "end")])
def test_the_mark_is_labelled_where_there_is_room(x, anchor):
    drawn = chart([(0.0, 1.0), (10.0, 0.0)], mark=((x, 1 - x / 10), "here"))
    (label,) = [part for part in drawn.iter("text") if part.text == "here"]
    (dot,) = drawn.findall("circle[@class='mark']")
    assert label.get("text-anchor") == anchor
    assert (float(label.get("x")) < float(dot.get("cx"))) == (anchor == "end")


def test_few_points_have_dots_and_many_have_none():
    few, many = [(k, 0.5) for k in range(5)], [(k / 10, 0.5) for k in range(100)]
    assert len(chart(few).findall("circle")) == 5
    assert not chart(many).findall("circle")


def test_all_text_is_escaped():
    charts = [
        bar_chart([Bar(EVIL, 1.0, EVIL)], name="b", title=EVIL, description=EVIL),
        line_chart(
            [(0.0, 0.0), (1.0, 1.0)],
            linear(EVIL, 0.0, 1.0),
            y=linear(EVIL, 0.0, 1.0),
            name="l",
            title=EVIL,
            description=EVIL,
            mark=((0.5, 0.5), EVIL),
        ),
    ]
    for text, times in zip(charts, (4, 5), strict=True):
        assert "<script" not in text
        assert text.count("&lt;script&gt;alert(&#x27;1&#x27;)") == times
        assert "\x00" not in text
        assert "\u202e" not in text
        assert text.__html__() == text


def test_every_chart_is_labelled():
    drawn = chart([(0.0, 0.0), (1.0, 1.0)])
    assert drawn.get("role") == "img"
    assert drawn.get("aria-labelledby").split() == ["chart-c-title", "chart-c-desc"]
    assert [(part.tag, part.get("id"), part.text) for part in drawn[:2]] == [
        ("title", "chart-c-title", "T"),
        ("desc", "chart-c-desc", "D"),
    ]


def test_bars_are_in_proportion():
    bars = [Bar("a", 1.0, "1"), Bar("b", 4.0, "4", chosen=True), Bar("c", None, "not predicted")]
    drawn = ET.fromstring(bar_chart(bars, name="b", title="T", description="D"))
    widths = {
        part.get("class"): float(part.get("width"))
        for part in drawn.iter("rect")
        if part.get("class") != "rail"
    }
    assert widths == {"bar": svg.WIDTH / 4, "bar chosen": svg.WIDTH}
    assert [part.text for part in drawn.iter("text")] == ["a", "1", "b", "4", "c", "not predicted"]


def test_no_bars_and_bars_of_nothing_are_no_error():
    for bars in ([], [Bar("a", 0.0, plain(0.0))], [Bar("a", None, "none")]):
        assert ET.fromstring(bar_chart(bars, name="b", title="T", description="D")) is not None
