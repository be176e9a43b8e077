"""A coordinator behind HTTPS: parties come with their tokens, ask for work, and answer.

| request           | with                     | returns                                           |
|-------------------|--------------------------|---------------------------------------------------|
| POST /v1/agree    | the party's `Terms`      | its name, run and round; 422: the terms differ    |
| GET /v1/request   |                          | a `Request`; 204: ask again; 410: the run is over |
| POST /v1/answer   | an `Answer`              | 204: it is taken; 409: too late; 422: why not     |
| POST /v1/abstain  | a round                  | 204: the party counts as zero in it               |
| GET /v1/result    |                          | weights and certificate, once the run is over     |

Before anything is read of a message, its sender has shown a certificate and a token. A body is read
up to the length that an answer of this plan can have, for so many seconds, one of each party at a
time. A connection that asks nothing is closed, and of each party one question waits for work. What
a refusal says is dpsco's own words; of an error that nobody foresaw, nothing is told.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ...errors import DpscoError, LedgerError, MissingExtraError, ParameterError
from ...files import limits as _limits
from ...files.reading import parse_json
from ...solvers.base import Result
from ..messages import most_bytes
from ..terms import Terms
from .gathering import (
    Gathering,
    NotAgreedError,
    RunOverError,
    StoppedError,
    refusal,
)
from .rates import Bucket
from .tls import check_address
from .tokens import Tokens

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request as HttpRequest
    from starlette.responses import Response

_HOLD = 20.0  # seconds that a question for work waits for an answer
_HEAD = 15.0  # seconds in which a connection must ask something
_GLANCE = 0.05  # seconds between two looks whether there is work
_UPLOAD = 600.0  # seconds that a body may take
_LINGER = 30.0  # seconds after the end in which parties may ask for the result
_MORE = 1024  # numbers of an answer besides the weights': the cells of a search, a count
_MISSING = "a coordinator that listens needs {}. Install it: pip install 'dpsco[federated]'."

_STATUS = (  # the first kind that fits
    (RunOverError, 410),
    (StoppedError, 503),
    (NotAgreedError, 428),
    (LedgerError, 409),
    (DpscoError, 422),
)
_EXPECTED = (410, 428, 429, 503)  # in an honest run, or too many to be told each time

Handler = Callable[["HttpRequest", str], Awaitable["Response"]]


class _RefusedError(Exception):
    """What a request is answered with, before or instead of its handler."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


class Desk:
    """The questions of a party, for one run; every one of them ends in a `Response`.

    Args:
        gathering: the run.
        tokens: who may speak for whom.
    """

    def __init__(self, gathering: Gathering, tokens: Tokens) -> None:
        self._gathering, self._tokens = gathering, tokens
        task = gathering.coordinator.plan.task
        self._most = min(most_bytes(task.n_weights + _MORE, 1), _limits.MESSAGE.size)
        self._rates = {name: Bucket(rate=100.0, size=200) for name in gathering.parties}
        self._strangers = Bucket(rate=2.0, size=20)
        self._uploads: set[str] = set()
        self._waiting: dict[str, object] = {}  # the last question for work, by party

    def app(self) -> Starlette:
        """Return the application, for any ASGI server that does TLS."""
        from starlette.applications import Starlette
        from starlette.routing import Route

        routes = (
            ("/v1/agree", self._agree, "POST"),
            ("/v1/request", self._ask, "GET"),
            ("/v1/answer", self._answer, "POST"),
            ("/v1/abstain", self._abstain, "POST"),
            ("/v1/result", self._result, "GET"),
        )
        return Starlette(
            routes=[Route(path, self._guarded(do), methods=[verb]) for path, do, verb in routes]
        )

    def _guarded(self, handler: Handler) -> Callable[[HttpRequest], Awaitable[Response]]:
        """Return a handler that knows who asks, and whose every failure is a short answer."""
        from starlette.responses import JSONResponse

        async def guarded(http: HttpRequest) -> Response:
            party = ""
            try:
                party = self._party(http)
                return await handler(http, party)
            except _RefusedError as refused:
                status, reason = refused.status, refused.reason
            except DpscoError as problem:
                status, reason = _status(problem), str(problem)
            except Exception as problem:  # of a text that nobody has looked at: it is not told
                status, reason = 500, refusal(problem)
            if status not in _EXPECTED:
                self._gathering.say(f"refused {party or 'a stranger'}: {reason}")
            return JSONResponse({"refused": reason}, status_code=status)

        return guarded

    def _party(self, http: HttpRequest) -> str:
        """Return who asks; refuse who has no token, or asks too often."""
        scheme, _, word = http.headers.get("authorization", "").partition(" ")
        party = self._tokens.party(word.strip()) if scheme.lower() == "bearer" else None
        if party is None or party not in self._rates:
            status = 401 if self._strangers.take() else 429
            raise _RefusedError(status, "this token is not one of this run")
        if not self._rates[party].take():
            raise _RefusedError(429, "too many requests: wait a second")
        return party

    async def _agree(self, http: HttpRequest, party: str) -> Response:
        from starlette.responses import JSONResponse

        terms = Terms.from_json(await self._body(http, party, _limits.AGREEMENT.size))
        self._gathering.agree(party, terms)
        coordinator = self._gathering.coordinator
        rounds = coordinator.plan.total_rounds
        record = {"run": coordinator.run, "round": coordinator.round, "rounds": rounds}
        return JSONResponse({"party": party, **record})

    async def _ask(self, http: HttpRequest, party: str) -> Response:
        from starlette.responses import Response

        deadline, question = time.monotonic() + _HOLD, object()
        self._waiting[party] = question  # one before it, of a connection that was lost, ends
        while (request := self._gathering.ask(party)) is None:
            over = time.monotonic() > deadline or self._waiting[party] is not question
            if over or await http.is_disconnected():
                return Response(status_code=204)
            await asyncio.sleep(_GLANCE)
        text = await asyncio.to_thread(request.to_json)
        return Response(text, media_type="application/json")

    async def _answer(self, http: HttpRequest, party: str) -> Response:
        from starlette.responses import Response

        body = await self._body(http, party, self._most)
        await asyncio.to_thread(self._gathering.take, party, body)
        return Response(status_code=204)

    async def _abstain(self, http: HttpRequest, party: str) -> Response:
        from starlette.responses import Response

        body = await self._body(http, party, _limits.AGREEMENT.size)
        limits, what = _limits.AGREEMENT, "this message"
        record = parse_json(body, what=what, limits=limits, error=ParameterError)
        if not isinstance(record, dict) or type(record.get("round")) is not int:
            raise ParameterError("who abstains says from which round.")
        self._gathering.abstain(party, record["round"])
        return Response(status_code=204)

    async def _result(self, http: HttpRequest, party: str) -> Response:
        from starlette.responses import JSONResponse

        result = self._gathering.result
        if result is None:
            raise _RefusedError(409, "the run is not over")
        weights = [float(number) for number in result.weights]
        return JSONResponse({"weights": weights, "certificate": result.certificate.to_json()})

    async def _body(self, http: HttpRequest, party: str, most: int) -> bytes:
        """Return a body, read up to a length, in a time, one of a party at a time."""
        length = http.headers.get("content-length", "0")
        if not length.isdecimal() or len(length) > 12 or int(length) > most:
            raise _RefusedError(413, f"a message of this run has at most {most:,} bytes")
        if party in self._uploads:
            raise _RefusedError(429, "one message at a time")
        self._uploads.add(party)
        try:
            return await asyncio.wait_for(self._read(http, most), _UPLOAD)
        except (asyncio.TimeoutError, TimeoutError):  # the same from Python 3.11 on
            raise _RefusedError(408, "the message took too long") from None
        finally:
            self._uploads.discard(party)

    async def _read(self, http: HttpRequest, most: int) -> bytes:
        """Return a body; stop where it is longer than it may be, whatever its head has said."""
        content = bytearray()
        async for chunk in http.stream():
            content += chunk
            if len(content) > most:
                raise _RefusedError(413, f"a message of this run has at most {most:,} bytes")
        return bytes(content)


def _status(problem: DpscoError) -> int:
    """Return the HTTP status of a refusal."""
    return next(status for kind, status in _STATUS if isinstance(problem, kind))


def serve(
    gathering: Gathering,
    tokens: Tokens,
    *,
    host: str,
    port: int,
    tls: ssl.SSLContext | None = None,
    plain: bool = False,
    listener: socket.socket | None = None,
    finish: Callable[[Result], None] = lambda result: None,
) -> Result:
    """Listen until the run is over, and for a little longer, so that all parties hear of it.

    Args:
        gathering: the run.
        tokens: of its parties.
        host: an address of this machine.
        port: 0 takes any that is free, and says which.
        tls: from `server_context`.
        plain: speak HTTP, on this machine alone, to try it out.
        listener: of `listening`, which was opened before the run was paid for; None: open one.
        finish: is called with the result at once, before anybody else hears of it.

    Raises:
        DpscoError: the run failed.
        LedgerError: it was stopped; with a checkpoint it goes on later.
        ParameterError: there is no TLS, and plain HTTP is not possible or was not asked for.
    """
    check_address(host, secure=tls is not None, plain=plain)
    if set(tokens.digests) != set(gathering.parties):
        raise ParameterError("the parties of the run are others than those that have tokens.")
    with contextlib.ExitStack() as stack:
        listener = listener or stack.enter_context(listening(host, port))
        scheme, bound = "https" if tls is not None else "http", listener.getsockname()[1]
        name = f"[{host}]" if ":" in host else host
        gathering.say(f"listening on {scheme}://{name}:{bound} for {', '.join(gathering.parties)}")
        server = _uvicorn(Desk(gathering, tokens).app(), tls, 8 * len(gathering.parties) + 32)
        with ThreadPoolExecutor(1, thread_name_prefix="dpsco run") as threads:
            run = threads.submit(_carry_out, gathering, server, finish)
            try:
                asyncio.run(server.serve(sockets=[listener]))
            finally:
                gathering.stop()
            return run.result()


def _carry_out(gathering: Gathering, server: Any, finish: Callable[[Result], None]) -> Result:
    """Return the run's result, when the parties have heard of its end; stop the server then."""
    try:
        result = gathering.run()
        finish(result)
        deadline = time.monotonic() + _LINGER
        while not gathering.settled() and time.monotonic() < deadline and not server.should_exit:
            time.sleep(_GLANCE)
        time.sleep(0.5)  # for answers that are on their way
        return result
    finally:
        server.should_exit = True


@contextlib.contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """Listen on an address; refuse one that is not there or in use.

    Raises:
        MissingExtraError: the packages of a server are not installed.
        ParameterError: the address cannot be had.
    """
    missing = [name for name in ("starlette", "uvicorn") if find_spec(name) is None]
    if missing:
        raise MissingExtraError(_MISSING.format(" and ".join(missing)))
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
            listener.listen(128)
        except (OSError, OverflowError) as problem:
            why = getattr(problem, "strerror", None) or problem
            raise ParameterError(f"cannot listen on {host}:{port}: {why}.") from None
        yield listener


def _uvicorn(app: Any, tls: ssl.SSLContext | None, connections: int) -> Any:
    """Return the server; it keeps no log of who asks what, and says nothing of itself."""
    import uvicorn

    config = uvicorn.Config(
        app,
        loop="asyncio",
        http=_prompt(),
        ws="none",
        lifespan="off",
        access_log=False,
        log_level="error",
        log_config=None,
        server_header=False,
        limit_concurrency=connections,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=2,
    )
    config.load()
    config.ssl = tls
    return uvicorn.Server(config)


def _prompt() -> type[asyncio.Protocol]:
    """Return uvicorn's connections, closed where nothing is asked: they are counted, and limited.

    uvicorn itself waits without end for the first request, and for the rest of a head.
    """
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Prompt(H11Protocol):  # type: ignore[misc]
        _seen: Any = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self.loop.call_later(_HEAD, self._look)

        def _look(self) -> None:
            if self.transport.is_closing():
                return
            cycle = self.cycle
            now = cycle, cycle is None or cycle.response_complete
            if now[1] and (cycle is None or now == self._seen):
                self.transport.close()
                return
            self._seen = now
            self.loop.call_later(_HEAD, self._look)

    return Prompt
