"""The report in a real browser: nothing loaded, nothing cut off, everything readable.

Needs Playwright and a chromium; without them the tests are skipped, but under CI they fail.
"""

import dataclasses
import itertools
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from dpsco import report
from dpsco.data import Category, ClassLabel, Schema
from dpsco.fit.choose import Candidate, Recommendation
from dpsco.models import LinearModel, Provenance, SavedModel
from dpsco.models.diagnostics import diagnose

from .conftest import page, solved
from .test_notebook import CASES as RESULTS

WIDTHS = (360, 768, 1440)
SCHEMES = ("light", "dark")
CONTRAST = 4.5  # WCAG 2.1, AA, for text of ordinary size
SMALLEST = 8.5  # pixels, of text in charts on a telephone
ARGUMENTS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync "
    "--disable-background-networking --disable-component-update"
)
# Every piece of text with its colour over the colours behind it, outermost first.
TEXTS = """() => {
  const found = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const text = walk.currentNode.textContent.trim();
    const element = walk.currentNode.parentElement;
    if (!text || ['TITLE', 'title', 'desc', 'STYLE'].includes(element.tagName)) continue;
    const drawn = element instanceof SVGElement;
    const style = getComputedStyle(element);
    const behind = [];
    for (let at = element; at; at = at.parentElement)
      behind.unshift(getComputedStyle(at).backgroundColor);
    const size = parseFloat(style.fontSize) *
      (drawn ? element.ownerSVGElement.getScreenCTM().a : 1);
    found.push({text, size, colour: drawn ? style.fill : style.color, behind});
  }
  return found;
}"""
# Elements that stick out of the window, and boxes whose content is cut off or has to be scrolled.
OVERFLOWS = """() => [...document.querySelectorAll('body *')].filter(each => {
  if (each.closest('.skip') || each instanceof SVGElement && each.tagName !== 'svg') return false;
  const box = each.getBoundingClientRect();
  const inside = each.clientWidth > 0 && getComputedStyle(each).display !== 'inline';
  return box.right > innerWidth + 1 || box.left < -1 ||
    inside && each.scrollWidth > each.clientWidth + 1;
}).map(each => `${each.tagName}.${each.getAttribute('class')}: ${each.textContent.slice(0, 40)}`)"""
# Text of charts that overlaps other text, or leaves its chart.
COLLISIONS = """() => [...document.querySelectorAll('svg')].flatMap(chart => {
  const texts = [...chart.querySelectorAll('text')].filter(each => each.textContent.trim());
  const boxes = texts.map(each => each.getBoundingClientRect());
  const frame = chart.getBoundingClientRect();
  const bad = [];
  boxes.forEach((a, i) => {
    if (a.left < frame.left - 2 || a.right > frame.right + 2 || a.bottom > frame.bottom + 2)
      bad.push('leaves its chart: ' + texts[i].textContent);
    boxes.slice(i + 1).forEach((b, k) => {
      const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (across > 1 && down > 3)
        bad.push(`${texts[i].textContent} over ${texts[i + 1 + k].textContent}`);
    });
  });
  return bad;
})"""


def unavailable(reason):
    """Skip, or fail where a browser must be there."""
    if os.environ.get("CI"):
        pytest.fail(f"the report must be tested in a browser under CI: {reason}")
    pytest.skip(f"the report is not tested in a browser: {reason}")


@pytest.fixture(scope="module")
def browser():
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        unavailable("install Playwright (pip install playwright).")
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        unavailable("install chromium (apt-get install chromium).")
    with sync_playwright() as started:
        opened = started.chromium.launch(executable_path=path, args=ARGUMENTS.split())
        yield opened
        opened.close()


EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)><b style='color:red'>" + "x" * 300
NAMES = ("bolt_on_sgd", "dp_sgd_poisson", "phased_sgd", "forged", "full")


def text_of(name):
    """Return the report of a real run, or of a certificate with evil text that does not hold."""
    if name == "full":
        return full()
    if name != "forged":
        return page(name)
    true = solved("noisy_gd").certificate
    forged = dataclasses.replace(true, numeric=EVIL, enforced=(EVIL,), versions={EVIL: EVIL})
    utility = report.Utility({EVIL: 0.5}, on=EVIL, baselines={"b" * 60: {EVIL: 0.4}})
    return report.render(forged, title=EVIL, utility=utility)


def full():
    """Return a report with all that may be unfolded, as long as each part gets."""
    found, words = solved("noisy_gd"), "a sentence of a usual length about this very fit; " * 4
    columns = [
        Category(f"a column with a long name {k}", ("no", "yes", "maybe"), source=words[:90])
        for k in range(10)
    ]
    schema = Schema(tuple(columns), ClassLabel("ill", ("no", "yes"), source="the form"))
    rng = np.random.default_rng(0)
    model = LinearModel("logistic", rng.normal(size=(1, 30)), np.ones(1), classes=("no", "yes"))
    facts = Provenance(**{each.name: words for each in dataclasses.fields(Provenance)})
    saved = SavedModel(model, found.certificate, found.plan, schema, provenance=facts)
    diagnostics = diagnose(model, rng.normal(size=(500, 30)), rng.integers(0, 2, 500))
    utility = report.Utility(
        {"accuracy": 0.84, "log-loss": 0.3, "AUC": 0.9},
        on="500 public rows",
        errors=diagnostics.spread,
        diagnostics=diagnostics,
    )
    return report.render(found.certificate, plan=found.plan, model=saved, utility=utility)


class Visit:
    """An opened page, and whatever it asked for or complained about."""

    def __init__(self, browser, path):
        self.page = browser.new_page(viewport={"width": 1440, "height": 900})
        self.requests, self.complaints = [], []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda problem: self.complaints.append(str(problem)))
        self.page.on("dialog", lambda dialog: self.complaints.append(dialog.message))
        self.url = Path(path).as_uri()
        self.page.goto(self.url)

    def resize(self, width):
        self.page.set_viewport_size({"width": width, "height": 900})

    def media(self, media="screen", scheme="light"):
        self.page.emulate_media(media=media, color_scheme=scheme)


@pytest.fixture(scope="module", params=NAMES)
def opened(request, browser, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / f"{request.param}.html"
    path.write_text(text_of(request.param), encoding="utf-8")
    visit = Visit(browser, path)
    yield visit
    visit.page.close()


@pytest.fixture
def visit(opened):
    """Return the page as it was at first: wide, light, on a screen, nothing unfolded."""
    opened.resize(1440)
    opened.media()
    opened.page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = false; })")
    return opened


def parse(colour):
    """Return red, green, blue and opacity of a computed colour."""
    numbers = [float(number) for number in re.findall(r"[\d.]+", colour)]
    return (*numbers[:3], numbers[3] if len(numbers) > 3 else 1.0)


def over(colour, ground):
    return tuple(a * colour[3] + b * (1 - colour[3]) for a, b in zip(colour, ground, strict=False))


def luminance(colour):
    parts = [part / 255 for part in colour[:3]]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(item):
    ground = (255.0, 255.0, 255.0)
    for behind in item["behind"]:
        ground = over(parse(behind), ground)
    light, dark = sorted(
        (luminance(over(parse(item["colour"]), ground)), luminance(ground)), reverse=True
    )
    return (light + 0.05) / (dark + 0.05)


def test_contrast_is_computed_as_wcag_says():
    white, clear = "rgb(255, 255, 255)", "rgba(0, 0, 0, 0)"
    assert contrast({"colour": "rgb(0, 0, 0)", "behind": [white, clear]}) == pytest.approx(21.0)
    grey = {"colour": "rgb(118, 118, 118)", "behind": [white]}
    assert contrast(grey) == pytest.approx(4.54, abs=0.01)
    half = {"colour": "rgba(0, 0, 0, 0.5)", "behind": [white]}
    assert contrast(half) == pytest.approx(3.98, abs=0.03)


def test_nothing_is_asked_of_the_network(visit):
    visit.page.wait_for_load_state("load")
    assert visit.requests in ([visit.url], [visit.url, "data:,"])
    assert visit.complaints == []


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_overflows(visit, width):
    visit.resize(width)
    visit.page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    assert visit.page.evaluate("document.documentElement.scrollWidth") == width
    assert visit.page.evaluate(OVERFLOWS) == []
    assert visit.page.evaluate(COLLISIONS) == []


@pytest.mark.parametrize(
    ("media", "scheme"), [("screen", "light"), ("screen", "dark"), ("print", "dark")]
)
def test_all_text_is_readable(visit, media, scheme):
    visit.resize(360 if media == "screen" else 680)
    visit.media(media, scheme)
    texts = visit.page.evaluate(TEXTS)
    assert len(texts) > 150
    assert [(each["text"], contrast(each)) for each in texts if contrast(each) < CONTRAST] == []
    assert [(each["text"], each["size"]) for each in texts if each["size"] < SMALLEST] == []


def test_dark_is_dark_and_print_is_light(visit):
    found = {}
    for media in ("screen", "print"):
        for scheme in SCHEMES:
            visit.media(media, scheme)
            colour = visit.page.evaluate(
                "getComputedStyle(document.documentElement).backgroundColor"
            )
            found[media, scheme] = luminance(parse(colour))
    assert found["screen", "light"] > 0.85
    assert found["screen", "dark"] < 0.02
    assert found["print", "light"] == found["print", "dark"] == pytest.approx(1.0)


def test_every_chart_has_a_name_and_a_description(visit):
    charts = visit.page.evaluate(
        """[...document.querySelectorAll('svg')].map(chart => ({
          said: chart.getAttribute('aria-labelledby').split(' ')
            .map(each => document.getElementById(each).textContent.trim().length),
          width: chart.getBoundingClientRect().width,
        }))"""
    )
    assert len(charts) >= 2
    for chart in charts:
        assert len(chart["said"]) == 2
        assert min(chart["said"]) > 5
        assert chart["width"] > 200


def test_headings_are_in_order_for_a_screen_reader(visit):
    levels = visit.page.evaluate(
        "[...document.querySelectorAll('h1,h2,h3,h4')].map(each => Number(each.tagName[1]))"
    )
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b <= a + 1 for a, b in itertools.pairwise(levels))
    assert visit.page.evaluate("document.documentElement.lang") == "en"


def test_the_skip_link_is_the_first_stop_and_works(visit):
    visit.page.goto(visit.url)
    visit.page.keyboard.press("Tab")
    assert visit.page.evaluate("document.activeElement.className") == "skip"
    assert visit.page.locator(".skip").bounding_box()["x"] >= 0
    visit.page.keyboard.press("Enter")
    assert visit.page.evaluate("document.activeElement.id") == "main"


def test_folded_parts_unfold_and_only_then_are_printed(visit):
    folded = visit.page.locator("section > details")
    counts = {"forged": 4, "full": 6}
    assert folded.count() == next((n for name, n in counts.items() if name in visit.url), 6)
    for number in range(folded.count()):
        title = folded.nth(number).locator("> summary")
        hidden = folded.nth(number).locator("> :not(summary)").first
        assert not hidden.is_visible()
        visit.media("print")
        assert not title.is_visible()
        visit.media()
        title.click()
        assert hidden.is_visible()
        visit.media("print")
        assert hidden.is_visible()
        visit.media()
        title.click()
        assert not hidden.is_visible()


def test_numbers_of_solvers_are_not_broken(browser, tmp_path):
    """Long names leave little room for powers of ten on a telephone."""
    ranked = tuple(
        Candidate(f"a_solver_of_a_{'very_' * k}long_name", 1.23e-9, 3.2e9) for k in (1, 9)
    )
    path = tmp_path / "long.html"
    found = Recommendation(ranked, {})
    path.write_text(report.render(solved("noisy_gd").certificate, recommendation=found))
    visit = Visit(browser, path)
    visit.page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    for width in WIDTHS:
        visit.resize(width)
        lines = visit.page.evaluate(
            """[...document.querySelectorAll('.names td.number')].map(each => {
              const text = document.createRange();
              text.selectNodeContents(each);
              return new Set([...text.getClientRects()].map(box => Math.round(box.top))).size;
            })"""
        )
        assert lines == [1] * 4
    visit.page.close()


def test_it_prints_on_a_few_pages_of_a4(visit):
    visit.media("print", "dark")
    printed = visit.page.pdf(prefer_css_page_size=True)
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= 4
    sizes = re.search(rb"/MediaBox\s*\[0 0 ([\d.]+) ([\d.]+)\]", printed).groups()
    assert tuple(map(float, sizes)) == pytest.approx((595.3, 841.9), abs=1.0)


def test_fragments_of_a_notebook_fit_and_are_readable(browser, tmp_path):
    """Every kind of result on one page, as wide as a notebook's output and as a telephone."""
    path, folder = tmp_path / "notebook.html", tmp_path / "odometer"
    folder.mkdir()
    shown = [make(folder)._repr_html_() for make in RESULTS.values()]
    # As notebooks style tables, which must not get through.
    foreign = (
        "<style>.jp tbody tr:nth-child(even) { background: #f5f5f5 } .jp td { color: #111 }"
        ".jp tr { text-align: right; max-width: 9px }</style>"
    )
    head = f"<!doctype html><title>n</title>{foreign}<body><div class='jp'>"
    path.write_text(head + "".join(shown), encoding="utf-8")
    visit = Visit(browser, path)
    for width in (400, 1280):
        visit.resize(width)
        visit.page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
        assert visit.page.evaluate("document.documentElement.scrollWidth") == width
        wide = [each for each in visit.page.evaluate(OVERFLOWS) if "wide" not in each]
        assert [each for each in wide if not each.startswith(("TABLE", "T", "svg"))] == []
        assert visit.page.evaluate(COLLISIONS) == []
    for scheme in SCHEMES:
        visit.media("screen", scheme)
        texts = visit.page.evaluate(TEXTS)
        assert [(each["text"], contrast(each)) for each in texts if contrast(each) < CONTRAST] == []
    assert visit.requests in ([visit.url], [visit.url, "data:,"])
    assert visit.complaints == []
    visit.page.close()


def test_a_page_with_faults_is_caught(browser, tmp_path):
    faulty = tmp_path / "faulty.html"
    faulty.write_text(
        "<!doctype html><body><p style='width:2000px'>wide</p><p style='color:#aaa'>pale</p>"
        "<svg width=100 height=50><text x=5 y=20>one</text><text x=8 y=20>two</text></svg>"
        "<img src='missing.png'>"
    )
    visit = Visit(browser, faulty)
    visit.resize(360)
    assert any("wide" in each for each in visit.page.evaluate(OVERFLOWS))
    assert visit.page.evaluate(COLLISIONS) == ["one over two"]
    poor = [each["text"] for each in visit.page.evaluate(TEXTS) if contrast(each) < CONTRAST]
    assert poor == ["pale"]
    assert len(visit.requests) == 2
    assert visit.complaints
    visit.page.close()


@pytest.mark.parametrize(
    ("ci", "outcome"), [("", pytest.skip.Exception), ("1", pytest.fail.Exception)]
)
def test_a_missing_browser_is_an_error_under_ci_alone(monkeypatch, ci, outcome):
    monkeypatch.setenv("CI", ci)
    with pytest.raises(outcome, match="install chromium"):
        unavailable("install chromium")
