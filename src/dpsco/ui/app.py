"""The pages and forms of the local page, by address.

A page that changes something answers with another page to go to, so that a reload sends nothing
again; what is refused is shown on the same page, with what was typed. Forms are read here and not
by Starlette, within a limit, and nothing of them is logged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib import resources
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from ..errors import DpscoError, describe
from ..models import Provenance
from ..report import tradeoff_svg
from . import views
from .fitting import FILES, REPORT, in_words
from .guard import MOST_BYTES, START, Guard, Keys, same
from .preview import Facts
from .study import Study

if TYPE_CHECKING:
    import jinja2
    from starlette.requests import Request
    from starlette.responses import Response

Typed = Mapping[str, str]

_HERE = "dpsco.ui"
_TYPES = {"css": "text/css", "js": "text/javascript", "txt": "text/plain"}
_STATIC = ("ui.css", "ui.js", "htmx.min.js", "htmx.LICENSE.txt")
_MOST_FIELDS = 50_000
_WORDS = {"base_rate": "the base rate", "label_spread": "the spread of the label"}
# The report brings its own style, which its own policy names by digest; both policies hold.
_REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; sandbox"
)


class Pages:
    """What answers each address; the methods run in threads, so that a plan delays no other page.

    Args:
        study: the state.
        keys: of this server.
    """

    def __init__(self, study: Study, keys: Keys) -> None:
        self.study, self.keys = study, keys
        self._templates = _environment()

    # -- reading -----------------------------------------------------------------------------------

    def home(self, typed: Typed) -> Response:
        """Lead to the step that comes next."""
        return _go(f"/{views.STEPS[self.study.step - 1][0]}")

    def table(self, typed: Typed) -> Response:
        """Show step 1."""
        return self._page("table", views.table(self.study))

    def epsilon(self, typed: Typed) -> Response:
        """Show step 2, or what is missing for it."""
        return self._epsilon_page(self._facts())

    def numbers(self, typed: Typed) -> Response:
        """Return what an epsilon would mean, as a part of the page of step 2."""
        try:
            preview = self.study.preview(Facts.typed(typed))
        except DpscoError as problem:
            return self._part("numbers", {"numbers": None, "reason": _told(problem)})
        return self._part("numbers", {"numbers": views.numbers(preview, self.study)})

    def curve(self, typed: Typed) -> Response:
        """Return the trade-off as a picture."""
        try:
            drawing = tradeoff_svg(self.study.curve(Facts.typed(typed)))
        except DpscoError as problem:
            return self._problem(_told(problem), 404)
        headers = {"content-security-policy": _REPORT_POLICY}
        return _respond(drawing, kind="image/svg+xml", headers=headers)

    def fit(self, typed: Typed) -> Response:
        """Show step 3."""
        return self._page("fit", views.fit(self.study))

    def progress(self, typed: Typed) -> Response:
        """Return how far the fit is; when it is over, the page that comes next."""
        fit = self.study.fit
        if fit is None or fit.state != "running":
            place = "/report" if self.study.model is not None else "/fit"
            return _respond("", headers={"hx-redirect": place})
        return self._part("progress", views.progress(self.study))

    def report(self, typed: Typed) -> Response:
        """Show step 4."""
        return self._page("report", views.report(self.study))

    def report_page(self, typed: Typed) -> Response:
        """Return the report itself."""
        text = self.study.files().get(REPORT)
        if text is None:
            return self._problem("There is no report yet.", 404)
        return _respond(text, headers={"content-security-policy": _REPORT_POLICY})

    def odometer(self, typed: Typed) -> Response:
        """Show what was spent, entry by entry."""
        return self._page("odometer", views.odometer(self.study))

    def file(self, typed: Typed, name: str = "") -> Response:
        """Return a file of the fit, to be kept."""
        text = self.study.files().get(name) if name in FILES else None
        if text is None:
            return self._problem("There is no such file.", 404)
        kind = "text/html" if name == REPORT else "application/json"
        disposition = {"content-disposition": f'attachment; filename="{name}"'}
        return _respond(text, kind=kind, headers={**disposition, **_sandboxed(name)})

    # -- changing ----------------------------------------------------------------------------------

    def open_table(self, typed: Typed) -> Response:
        """Take a table and the beginning of its schema."""
        entries = {name: typed.get(name, "") for name in ("path", "origin", "other")}
        path = views.typed_path(entries["path"])
        try:
            if path is None:
                raise DpscoError("Say where the table is: the path is empty.")
            origin = entries["origin"] if entries["origin"] in ("schema", "sample") else "names"
            self.study.open_table(path, origin, views.typed_path(entries["other"]))
        except (DpscoError, OSError, ValueError) as problem:
            return self._page("table", views.table(self.study, entries), problem)
        return _go("/table#columns")

    def column(self, typed: Typed, place: str = "") -> Response:
        """Return the fields of one column, whose kind has been changed."""
        forms = self.study.forms
        number = int(place) if place.isascii() and place.isdigit() and len(place) < 7 else -1
        if not 0 <= number < len(forms):
            return self._problem("There is no such column.", 404)
        form = forms[number].filled(number, typed)
        return self._part("fields", {"column": form, "place": number})

    def set_columns(self, typed: Typed) -> Response:
        """Take the schema."""
        try:
            self.study.set_columns(typed, typed.get("version", ""))
        except (DpscoError, OSError) as problem:
            return self._page("table", views.table(self.study), problem)
        return _go("/epsilon")

    def choose(self, typed: Typed) -> Response:
        """Take an epsilon."""
        try:
            self.study.choose(Facts.typed(typed))
        except (DpscoError, OSError) as problem:
            return self._epsilon_page(self._facts(), problem, typed)
        return _go("/fit")

    def rehearse(self, typed: Typed) -> Response:
        """Return what fits on made-up rows measured, as a part of the page of step 2."""
        try:
            point = self.study.rehearse(Facts.typed(typed))
        except DpscoError as problem:
            return self._part("rehearsal", {"point": None, "reason": _told(problem)})
        return self._part("rehearsal", {"point": views.rehearsal(point)})

    def begin(self, typed: Typed) -> Response:
        """Start the fit; whoever sends the form again is led to the fit that runs."""
        try:
            if typed.get("agreed") != "on":
                raise DpscoError("Confirm that the budget may be spent; nothing was spent.")
            said = {name: typed.get(name, "").strip()[:200] for name in ("purpose", "person")}
            self.study.begin(typed.get("digest", ""), **said)
        except (DpscoError, OSError) as problem:
            return self._page("fit", views.fit(self.study), problem)
        return _go("/fit")

    def sign(self, typed: Typed) -> Response:
        """Put what people say of the model into the report."""
        entries = {name: typed.get(name, "").replace("\r\n", "\n").strip() for name in views.SAID}
        try:
            said = Provenance(**{name: text or None for name, text in entries.items()})
            self.study.sign(self.study.provenance.updated(said))
        except (DpscoError, OSError) as problem:
            return self._page("report", {**views.report(self.study), "said": entries}, problem)
        return _go("/report#sign")

    def write(self, typed: Typed) -> Response:
        """Write the files of the fit again."""
        self.study.write()
        return _go("/report")

    # -- parts -------------------------------------------------------------------------------------

    def enter(self, token: str) -> Response:
        """Give out the cookie to whoever knows the token, and lead to an address without it."""
        if not same(token, self.keys.token):
            return self._problem("This address is not the one that dpsco ui has printed.", 403)
        return _go("/", headers={"set-cookie": self.keys.set_cookie()})

    def _facts(self) -> Facts:
        choice = self.study.choice
        return Facts() if choice is None else choice.facts

    def _epsilon_page(
        self, facts: Facts, problem: Exception | None = None, typed: Typed | None = None
    ) -> Response:
        """Return step 2 with the numbers of an epsilon, if there are any."""
        shown = views.epsilon(self.study, facts, dict(typed) if typed else None)
        shown["numbers"] = None
        if self.study.schema is not None:
            try:
                shown["numbers"] = views.numbers(self.study.preview(facts), self.study)
            except DpscoError as reason:
                problem = problem or reason
        return self._page("epsilon", shown, problem)

    def _page(
        self, name: str, values: Mapping[str, Any], problem: Exception | None = None
    ) -> Response:
        """Return a whole page; with a problem it says so first."""
        shown = {**views.frame(self.study, name), **values, "csrf": self.keys.form, "reason": ""}
        shown["problem"] = "" if problem is None else _told(problem)
        text = self._templates.get_template(f"{name}.html").render(shown)
        return _respond(text, status=200 if problem is None else 422)

    def _part(self, name: str, values: Mapping[str, Any]) -> Response:
        """Return a part of a page."""
        template = self._templates.get_template(f"_{name}.html")
        return _respond(template.render({"reason": "", **values}))

    def _problem(self, sentence: str, status: int) -> Response:
        """Return a page that says what is wrong, and nothing else."""
        text = self._templates.get_template("problem.html").render(sentence=sentence)
        return _respond(text, status=status)


def application(study: Study, keys: Keys) -> Any:
    """Return the ASGI application, guarded."""
    from starlette.applications import Starlette
    from starlette.routing import Route

    pages = Pages(study, keys)
    reading: dict[str, Callable[..., Response]] = {
        "/": pages.home,
        "/table": pages.table,
        "/epsilon": pages.epsilon,
        "/epsilon/numbers": pages.numbers,
        "/epsilon/curve.svg": pages.curve,
        "/fit": pages.fit,
        "/fit/progress": pages.progress,
        "/report": pages.report,
        "/report/page": pages.report_page,
        "/odometer": pages.odometer,
        "/files/{name}": pages.file,
        "/static/{name}": _static,
    }
    changing: dict[str, Callable[..., Response]] = {
        "/table": pages.open_table,
        "/columns": pages.set_columns,
        "/columns/{place}": pages.column,
        "/epsilon": pages.choose,
        "/epsilon/rehearse": pages.rehearse,
        "/fit": pages.begin,
        "/report/sign": pages.sign,
        "/report/write": pages.write,
    }
    routes = [Route(START, partial(_start, pages), methods=["GET"])]
    routes += [Route(path, _reader(pages, page), methods=["GET"]) for path, page in reading.items()]
    routes += [
        Route(path, _taker(pages, page), methods=["POST"]) for path, page in changing.items()
    ]
    handlers = {404: partial(_unknown, pages), 405: partial(_unknown, pages)}
    return Guard(Starlette(routes=routes, exception_handlers=handlers), keys)


# -- between Starlette and the pages ---------------------------------------------------------------


async def _start(pages: Pages, request: Request) -> Response:
    return pages.enter(request.query_params.get("token", ""))


async def _unknown(pages: Pages, request: Request, problem: Exception) -> Response:
    return pages._problem("There is no such page.", getattr(problem, "status_code", 404))


def _reader(pages: Pages, page: Callable[..., Response]) -> Callable[[Request], Any]:
    """Return what answers a request that changes nothing."""

    async def endpoint(request: Request) -> Response:
        return await _answer(pages, page, dict(request.query_params), request)

    return endpoint


def _taker(pages: Pages, page: Callable[..., Response]) -> Callable[[Request], Any]:
    """Return what answers a form, if one of our own pages has sent it."""

    async def endpoint(request: Request) -> Response:
        typed = await _form(request)
        if typed is None or not same(typed.get("csrf"), pages.keys.form):
            return pages._problem("This form is not from a page of this server: reload it.", 403)
        return await _answer(pages, page, typed, request)

    return endpoint


async def _answer(
    pages: Pages, page: Callable[..., Response], typed: Typed, request: Request
) -> Response:
    """Run a page in a thread; of an error that nobody foresaw nothing but its type is told."""
    from starlette.concurrency import run_in_threadpool

    try:
        return await run_in_threadpool(page, typed, **request.path_params)
    except Exception as problem:
        sentence = in_words(problem)
        return pages._problem(sentence[0].upper() + sentence[1:], 500)


async def _form(request: Request) -> Typed | None:
    """Return the fields of a form; None if it is none, or too large."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_BYTES:
            return None
    try:
        pairs = parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            encoding="utf-8",
            errors="strict",
            max_num_fields=_MOST_FIELDS,
        )
    except ValueError:
        return None
    return dict(pairs)


def _static(typed: Typed, name: str = "") -> Response:
    """Return a file of the page itself."""
    if name == "report.css":
        home = resources.files("dpsco.report") / "templates" / "style.css"
    elif name in _STATIC:
        home = resources.files(_HERE) / "static" / name
    else:
        return _respond("There is no such file.\n", status=404, kind="text/plain")
    return _respond(home.read_text(encoding="utf-8"), kind=_TYPES[name.rpartition(".")[2]])


def _environment() -> jinja2.Environment:
    import jinja2

    from ..report.formatting import safe

    def clean(value: Any) -> Any:
        return value if hasattr(value, "__html__") else safe(value)

    return jinja2.Environment(
        loader=jinja2.PackageLoader(_HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=clean,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _respond(
    text: str, *, status: int = 200, kind: str = "text/html", headers: Typed | None = None
) -> Response:
    from starlette.responses import Response

    return Response(text, status_code=status, media_type=kind, headers=dict(headers or {}))


def _go(place: str, headers: Typed | None = None) -> Response:
    """Lead to another page, which is then read."""
    return _respond("", status=303, headers={"location": place, **(headers or {})})


def _sandboxed(name: str) -> dict[str, str]:
    return {"content-security-policy": _REPORT_POLICY} if name == REPORT else {}


def _told(problem: Exception) -> str:
    """Return what is wrong as a sentence of the page, in the words of its fields."""
    if isinstance(problem, DpscoError):
        sentence = describe(problem, lambda name: _WORDS.get(name, name.replace("_", " ")))
    elif isinstance(problem, ValueError):  # a path with a NUL
        sentence = "this is no path."
    else:
        sentence = in_words(problem)
    return sentence[0].upper() + sentence[1:] if sentence else "Nothing was done."
