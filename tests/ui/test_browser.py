"""The local page in a real browser: every step by mouse and by keyboard alone, narrow and dark.

Needs Playwright and a chromium; without them the tests are skipped, but under CI they fail.
"""

import re
import threading
from pathlib import Path

import pytest

from dpsco.cli import main
from dpsco.models.plan import ModelPlan
from dpsco.privacy.budget import ApproxDP
from dpsco.privacy.odometer.odometer import Odometer
from dpsco.ui.columns import KINDS
from dpsco.ui.guard import Keys
from dpsco.ui.server import listening, make_server
from dpsco.ui.study import Study

from ..report.test_browser import COLLISIONS, CONTRAST, OVERFLOWS, TEXTS, browser, contrast
from .conftest import CANARY, ROWS, WORD, write_table

__all__ = ["browser"]  # a fixture

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::UserWarning")]

AXE = (Path(__file__).parent / "vendor" / "axe.min.js").read_text(encoding="utf-8")
SERIOUS = """async () => (await axe.run()).violations
  .filter(each => ['serious', 'critical'].includes(each.impact))
  .map(each => each.id + ': ' + each.nodes.map(node => node.html).join(' '))"""
WIDTHS, SCHEMES = (1280, 400), ("light", "dark")


class Recorder:
    """An application, and everything that it has answered."""

    def __init__(self, app):
        self.app, self.text = app, ""

    async def __call__(self, scope, receive, send):
        async def hear(message):
            self.text += str(message.get("headers", "")) + message.get("body", b"").decode()
            await send(message)

        await self.app(scope, receive, hear)


class Visit:
    """A running server, a browser's page, and all that went between them."""

    def __init__(self, browser, folder):
        self.table = write_table(folder / "rows.csv")
        self.odometer = Odometer(folder / "rows.odometer", ApproxDP(3.0, 1e-6))
        self.study = Study(folder / "out", self.odometer)
        self._listening = listening(0)
        listener = self._listening.__enter__()
        self.keys = Keys(listener.getsockname()[1])
        self.server = make_server(self.study, self.keys)
        self.server.config.app = self.answers = Recorder(self.server.config.app)
        self._thread = threading.Thread(target=self.server.run, kwargs={"sockets": [listener]})
        self._thread.start()
        self.context = browser.new_context(viewport={"width": 1280, "height": 900})
        self.addresses, self.complaints = [], []
        self.page = self.new_page()
        self.page.goto(self.keys.address)

    def new_page(self):
        page = self.context.new_page()
        page.on("request", lambda request: self.addresses.append(request.url))
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda problem: self.complaints.append(str(problem)))
        return page

    def close(self):
        self.context.close()
        self.server.should_exit = True
        self._thread.join(10)
        self._listening.__exit__(None, None, None)
        if self.study.fit is not None:
            self.study.fit.join()
        self.study.close()

    def check(self):
        """Refuse what is cut off, pale or without a name, in every width and scheme."""
        page = self.page
        page.wait_for_load_state()
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth") == width
            # Fields and boxes that may be scrolled are, and what is for screen readers is hidden.
            allowed = re.compile(r"INPUT|TEXTAREA|DIV.scroll|IMG|P.unseen")
            wide = [each for each in page.evaluate(OVERFLOWS) if not allowed.match(each)]
            assert wide == [], (page.url, width)
            assert page.evaluate(COLLISIONS) == []
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            texts = page.evaluate(TEXTS)
            pale = [each["text"] for each in texts if contrast(each) < CONTRAST]
            assert len(texts) > 10
            assert pale == [], (page.url, scheme)
        if page.evaluate("typeof axe") == "undefined":
            page.evaluate(AXE)
        assert page.evaluate(SERIOUS) == [], page.url
        page.set_viewport_size({"width": 1280, "height": 900})

    def declare(self):
        page = self.page
        page.fill("#path", str(self.table))
        page.click("text=Open")
        page.wait_for_selector("#columns")
        page.wait_for_load_state()  # with its scripts
        page.select_option("#kind-0", "number")
        page.fill("#low-0", "0")
        page.fill("#high-0", "100")
        page.select_option("#kind-1", "category")
        page.fill("#values-1", "state\nself")
        page.select_option("#kind-2", "flag")
        page.select_option("#kind-3", "label classes")
        page.fill("#values-3", "low\nhigh")

    def numbers(self):
        """Return what the page says of the band, the attack and the rest."""
        return [self.page.inner_text(f"#{name}") for name in ("band", "attack", "rest")]


@pytest.fixture
def visit(browser, tmp_path):
    visit = Visit(browser, tmp_path)
    yield visit
    visit.close()


@pytest.fixture
def gate(monkeypatch):
    """Hold fits in the middle of their rounds, until the event is set; without their report."""
    event, run = threading.Event(), ModelPlan.run

    def slow(self, table, *, progress, **how):
        def wait(done, total):
            progress(done, total)
            if 2 * done >= total:
                assert event.wait(30)

        return run(self, table, progress=wait, **how)

    monkeypatch.setattr(ModelPlan, "run", slow)
    monkeypatch.setattr("dpsco.ui.fitting.report_of", lambda saved: "<!doctype html>")
    yield event
    event.set()


def until(page, condition):
    """Wait for something; the page's policy lets no condition be evaluated in it."""
    for _ in range(400):
        if condition():
            return
        page.wait_for_timeout(25)
    raise AssertionError("it did not come")


def test_every_step_by_mouse(visit, gate, tmp_path):
    """The address loses its token; the slider moves three numbers; two clicks on Fit pay once; a
    reload and a second tab show the running fit; no canary goes through the wire."""
    page = visit.page
    assert page.url == f"{visit.keys.origin}/table"
    assert "No row has been read" in page.inner_text("#rows-read")
    visit.check()
    visit.declare()
    visit.check()
    page.click("text=Check and go on")
    page.wait_for_selector("#slider")
    page.wait_for_load_state()
    before = visit.numbers()
    page.focus("#slider")
    for _ in range(4):
        page.keyboard.press("ArrowLeft")
    until(page, lambda: visit.numbers()[0] != before[0])
    after = visit.numbers()
    assert all(a != b for a, b in zip(before, after, strict=True)), (before, after)
    assert page.input_value("#epsilon") == page.get_attribute("#slider", "aria-valuetext") == "0.6"
    assert "ε 0.6" in page.text_content("#said")
    page.click("text=Every epsilon at a glance")
    until(page, lambda: page.evaluate("document.getElementById('curve').naturalWidth"))
    visit.check()
    page.click("text=Take this epsilon")
    own = tmp_path / "plan.json"
    facts = ["--schema", str(visit.study.folder / "schema.json"), "--n", str(ROWS)]
    assert main(["plan", *facts, "--epsilon", "0.6", "-o", str(own)]) == 0
    assert (visit.study.folder / "plan.json").read_bytes() == own.read_bytes()
    visit.check()
    second = visit.new_page()
    second.goto(f"{visit.keys.origin}/fit")
    for tab in (page, second):
        tab.check("[name=agreed]")
    page.dblclick("button:has-text('Fit')")
    page.wait_for_selector("progress")
    second.click("button:has-text('Fit')")
    second.wait_for_selector("progress")
    second.close()
    page.reload()
    page.wait_for_selector("text=Paid for: entry 1")
    visit.check()
    assert not page.locator("[name=agreed]").count()
    gate.set()
    page.wait_for_url("**/report")
    assert len(visit.odometer.entries()) == 1
    visit.check()
    with page.expect_download() as download:
        page.click("text=model.json")
    assert (
        Path(download.value.path()).read_bytes() == (visit.study.folder / "model.json").read_bytes()
    )
    page.goto(f"{visit.keys.origin}/odometer")
    visit.check()
    quiet(visit)


def quiet(visit):
    """Nothing went elsewhere, nothing was complained about, no canary and no key was heard."""
    assert all(url.startswith(visit.keys.origin) for url in visit.addresses)
    assert visit.complaints == []
    said = "".join([*visit.addresses[1:], visit.answers.text])
    assert len(said) > 100_000
    assert WORD not in said
    assert str(CANARY)[:6] not in said
    assert visit.keys.token not in said
    assert said.count(visit.keys.session) == 1  # the cookie, once


def tab_to(page, selector):
    """Press Tab until an element has the focus, which must then be visible."""
    for _ in range(80):
        page.keyboard.press("Tab")
        if page.evaluate("each => document.activeElement.matches(each)", selector):
            outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert outline != "none", selector
            return
    raise AssertionError(f"Tab does not lead to {selector}")


def choose(page, selector, kind):
    """Choose from a list with the arrow keys."""
    tab_to(page, selector)
    for _ in range(1 + list(KINDS).index(kind)):
        page.keyboard.press("ArrowDown")


def test_every_step_by_keyboard(visit, gate):
    """From the first page to the model, on a telephone, without a mouse."""
    page, keys = visit.page, visit.page.keyboard
    page.set_viewport_size({"width": 400, "height": 900})
    gate.set()
    tab_to(page, "#path")
    keys.type(str(visit.table))
    keys.press("Enter")
    page.wait_for_selector("#columns")
    page.wait_for_load_state()
    choose(page, "#kind-0", "number")
    page.wait_for_selector("#low-0")
    tab_to(page, "#low-0")
    keys.type("0")
    tab_to(page, "#high-0")
    keys.type("100")
    choose(page, "#kind-1", "category")
    page.wait_for_selector("#values-1")
    tab_to(page, "#values-1")
    keys.type("state\nself")
    choose(page, "#kind-2", "flag")
    choose(page, "#kind-3", "label classes")
    page.wait_for_selector("#values-3")
    tab_to(page, "#values-3")
    keys.type("low\nhigh")
    tab_to(page, "button.main")
    keys.press("Enter")
    page.wait_for_selector("#slider")
    page.wait_for_load_state()
    tab_to(page, "#epsilon")
    keys.press("Control+a")
    keys.type("9")
    page.wait_for_selector("text=The odometer does not allow this fit")
    tab_to(page, "button.main")
    keys.press("Enter")
    page.wait_for_url("**/fit")
    assert not page.locator("[name=agreed]").count()  # refused: over budget
    page.goto(f"{visit.keys.origin}/epsilon")
    tab_to(page, "#slider")
    keys.press("Home")
    page.wait_for_selector("text=ε 0.05, δ")
    keys.press("End")
    for _ in range(9):
        keys.press("ArrowLeft")
    until(page, lambda: float(page.input_value("#epsilon")) < 3.0)
    tab_to(page, "button.main")
    keys.press("Enter")
    page.wait_for_selector("[name=agreed]")
    tab_to(page, "[name=agreed]")
    keys.press("Space")
    tab_to(page, "button.main")
    keys.press("Enter")
    page.wait_for_url("**/report")
    assert len(visit.odometer.entries()) == 1


def test_what_is_wrong_has_the_focus(visit):
    page = visit.page
    page.fill("#path", "/nowhere/rows.csv")
    page.keyboard.press("Enter")
    page.wait_for_selector("#problem:focus")
    assert "There is no table" in page.inner_text("#problem")
    assert page.input_value("#path") == "/nowhere/rows.csv"
    visit.check()
    page.evaluate("document.querySelector('label[for=path]').remove()")  # a planted fault
    assert any("label" in each for each in page.evaluate(SERIOUS))


def test_a_problem_goes_when_it_is_mended(visit):
    visit.declare()
    page = visit.page
    page.click("text=Check and go on")
    page.fill("#epsilon", "0")
    page.click("text=Take this epsilon")
    page.wait_for_selector("#problem")
    page.wait_for_load_state()  # with its scripts
    page.fill("#epsilon", "1")
    page.wait_for_selector("#problem", state="detached")
    assert page.inner_text("#band")
    assert page.locator(".alert").count() == 0


def test_a_browser_without_the_key_sees_nothing(visit, browser):
    context = browser.new_context()
    page = context.new_page()
    for path in ("/table", "/start?token=wrong", "/static/ui.css"):
        assert page.goto(f"{visit.keys.origin}{path}").status == 403
    assert page.goto(f"http://localhost:{visit.keys.port}/table").status == 421
    context.close()
    foreign = visit.context.new_page()  # has the cookie, and is another site
    foreign.goto("data:text/html,<form method=post action='" + visit.keys.origin
                 + "/table'><input name=path value=/x><button>go</button></form>")  # fmt: skip
    foreign.click("button")
    foreign.wait_for_load_state()
    assert "belongs to whoever started it" in foreign.content()
    assert visit.study.table is None
