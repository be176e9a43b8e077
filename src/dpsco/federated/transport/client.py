"""A party's side: it asks the coordinator for work, answers, and asks again, until the run is over.

The party opens the connection, so it needs no port of its own. It believes the coordinator's
certificate alone, sends its token in a header, reads no more of an answer than a request of its
plan can have, and follows nobody elsewhere. A connection that breaks is tried again, less and less
often, for as long as `patience` allows; a refusal ends the party's run at once, and is said.
"""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ..._validate import shown
from ...errors import DpscoError, LedgerError, MissingExtraError, ParameterError
from ...files import limits as _limits
from ...files.reading import parse_json
from ...privacy.certificate import Certificate
from ...privacy.release import flatten
from ...solvers.base import Result
from ..messages import Request, most_bytes
from ..silo import Party
from ..worker import AnsweredError
from .gathering import printable
from .rates import Bucket, pauses
from .tls import check_address, handshake_problem, split_url

if TYPE_CHECKING:
    import httpx

_HOLD = 60.0  # seconds for an answer; the server holds a question for 20
_CONNECT = 10.0
_BUSY = (429, 502, 503, 504)  # not refusals: ask again
_MOST_HANGUPS = 3
_MOST_REFUSAL = 10_000  # bytes


class RefusedError(LedgerError):
    """The coordinator does not want this party, or its answer."""


class LateError(LedgerError):
    """The coordinator takes no such answer any more: the round is over without it."""


class UnknownError(LedgerError):
    """The coordinator does not know the party: it was started anew."""


class RunEndedError(LedgerError):
    """The coordinator says that the run is over."""


class Line:
    """The connection of one party to its coordinator: four questions, each asked until answered.

    Args:
        url: https://HOST:PORT of the coordinator.
        token: the party's word.
        tls: from `client_context`.
        plain: speak HTTP, on this machine alone.
        patience: seconds without an answer after which it gives up.
        say: is called with sentences about public events.

    Raises:
        ParameterError: the address is none, or there is no TLS.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        tls: ssl.SSLContext | None = None,
        plain: bool = False,
        patience: float = 3600.0,
        say: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        try:
            import httpx
        except ImportError:
            raise MissingExtraError(
                "joining a run needs httpx. Install it: pip install 'dpsco[federated]'."
            ) from None
        scheme, host = split_url(url)
        check_address(host, secure=scheme == "https", plain=plain)
        if scheme == "https" and tls is None:
            raise ParameterError("https needs the authority of the coordinator's certificate: ca.")
        self._say, self._patience, self._pauses = say, patience, pauses()
        self._rate = Bucket(rate=50.0, size=100)  # whatever the coordinator asks for
        self._heard, self._hangups = False, 0  # whether it has ever said anything
        self._client = httpx.Client(
            base_url=url,
            headers={"authorization": f"Bearer {token}", "accept-encoding": "identity"},
            verify=True if tls is None else tls,
            timeout=httpx.Timeout(_HOLD, connect=_CONNECT),
            follow_redirects=False,
            trust_env=False,  # no proxy, and no certificates, of somebody's environment
        )

    def ask(self, method: str, path: str, *, most: int, body: str | None = None) -> bytes | None:
        """Return what the coordinator says, at most so many bytes; None: nothing now.

        Raises:
            LedgerError: it does not answer, or what it says is too long.
            UnknownError: it was started anew, and wants to compare terms first.
            LateError: the answer belongs to a round that is over.
            RefusedError: it says why not.
            RunEndedError: the run is over.
        """
        import httpx

        deadline, attempt, told = time.monotonic() + self._patience, 0, False
        while True:
            try:
                status, content = self._once(method, path, most, body)
            except httpx.TransportError as problem:
                reason = self._explained(problem)
            else:
                if status not in _BUSY:
                    return self._meaning(status, content)
                reason = "the coordinator is busy"
            if time.monotonic() > deadline:
                raise LedgerError(
                    f"no answer of the coordinator for {self._patience:g} seconds: {reason}."
                )
            if not told:
                self._say(f"{reason}; trying again")
                told = True
            time.sleep(self._pauses[min(attempt, len(self._pauses) - 1)])
            attempt += 1

    def close(self) -> None:
        """Hang up."""
        self._client.close()

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _once(self, method: str, path: str, most: int, body: str | None) -> tuple[int, bytes]:
        """Ask once; return the status and what was said, up to its limit."""
        while not self._rate.take():
            time.sleep(self._pauses[0])
        content = None if body is None else body.encode()
        with self._client.stream(method, path, content=content) as response:
            self._heard = True
            limit = most if response.is_success else _MOST_REFUSAL
            said = bytearray()
            for chunk in response.iter_raw():
                said += chunk
                if len(said) > limit:
                    raise LedgerError(
                        f"the coordinator sends more than the {limit:,} bytes that this plan takes."
                    )
            return response.status_code, bytes(said)

    def _meaning(self, status: int, content: bytes) -> bytes | None:
        """Return what was said, or raise it."""
        if status == 204:
            return None
        if status == 200:
            return content
        reason = _reason(status, content)
        error = {409: LateError, 410: RunEndedError, 428: UnknownError}.get(status, RefusedError)
        raise error(f"the coordinator refuses: {reason}.")

    def _explained(self, problem: httpx.TransportError) -> str:
        """Return why there is no connection; raise what no retry would change.

        A server that does not take a client's certificate says so after the client's handshake, and
        asyncio's hangs up before that is sent.
        """
        import httpx

        if trouble := handshake_problem(problem):
            raise RefusedError(f"no secure connection to the coordinator: {trouble}.") from None
        if isinstance(problem, (httpx.RemoteProtocolError, httpx.ReadError)) and not self._heard:
            self._hangups += 1
            if self._hangups >= _MOST_HANGUPS:
                raise RefusedError(
                    "the coordinator hangs up without a word: it does not take this party's "
                    "certificate, or speaks no HTTPS. Pass a certificate by the authority that it "
                    "knows as its client CA."
                ) from None
        return f"no connection to the coordinator ({type(problem).__name__})"


def join(party: Party, line: Line, *, say: Callable[[str], None] = lambda text: None) -> Result:
    """Answer a run's requests until it is over; return its result, which everybody gets.

    Args:
        party: a `Silo`, or a helper without rows.
        line: to the coordinator.
        say: is called with sentences about public events.

    Raises:
        AssumptionError: the coordinator asks for something that the party has not agreed to.
        LedgerError: the coordinator does not answer, refuses, or has stopped the run.
    """
    plan = party.agreement.plan
    most = min(most_bytes(plan.task.n_weights, 2), _limits.MESSAGE.size)
    _greet(party, line)
    say(f"{party.name} has joined the run")
    late = -1
    while True:
        try:
            text = line.ask("GET", "/v1/request", most=most)
            if text is None:
                continue
            request = Request.from_json(text)
            if _answered(party, line, request, say):
                say(f"answered round {request.round + 1} of {plan.total_rounds}")
        except LateError as problem:
            if late == request.round:
                raise
            say(str(problem))
            late = request.round
        except UnknownError:
            _greet(party, line)
        except RunEndedError:
            return _result(party, line)


def _answered(party: Party, line: Line, request: Request, say: Callable[[str], None]) -> bool:
    """Return whether a request was answered; one that was answered in a lost process is not.

    Whoever does not answer says so, or the others would wait.
    """
    try:
        answer = party.answer(request)
    except DpscoError as problem:
        line.ask("POST", "/v1/abstain", most=0, body=json.dumps({"round": request.round}))
        if not isinstance(problem, AnsweredError):
            raise
        say(f"abstains from round {request.round + 1}: {problem}")
        return False
    line.ask("POST", "/v1/answer", most=0, body=answer.to_json())
    return True


def _greet(party: Party, line: Line) -> None:
    """Compare terms with the coordinator, and whom it takes this party for."""
    terms, limits = party.agreement.terms.to_json(), _limits.AGREEMENT
    text = line.ask("POST", "/v1/agree", most=limits.size, body=terms)
    record = parse_json(text or b"", what="the greeting", limits=limits, error=LedgerError)
    name = record.get("party") if isinstance(record, dict) else None
    if name != party.name:
        raise RefusedError(
            f"the token is not that of {party.name!r}: the coordinator takes this party for "
            f"{shown(name)}. Pass the party's own token."
        )


def _result(party: Party, line: Line) -> Result:
    """Return the result of a run that is over, with the certificate of this party's own plan."""
    plan, what = party.agreement.plan, "the result"
    text = line.ask("GET", "/v1/result", most=_limits.MODEL.size)
    record = parse_json(text, what=what, limits=_limits.MODEL, error=LedgerError)
    try:
        certificate = Certificate.from_json(record["certificate"])
        weights = np.array(record["weights"], dtype=np.float64)
        if weights.shape != (plan.task.n_weights,):
            raise ValueError("it has another number of weights than the plan")
    except (DpscoError, LookupError, TypeError, ValueError):
        raise LedgerError("the coordinator's result cannot be read.") from None
    if (certificate.budget, certificate.releases) != (plan.budget, flatten(plan.releases())):
        raise LedgerError("the coordinator's certificate is not one of this party's plan.")
    return Result(weights, certificate, plan, plan.trace())


def _reason(status: int, content: bytes) -> str:
    """Return why, as the coordinator says it, in printable words of bounded length."""
    what, limits = "a refusal", _limits.AGREEMENT
    try:
        reason = parse_json(content, what=what, limits=limits, error=LedgerError)["refused"]
    except (DpscoError, LookupError, TypeError):
        reason = f"HTTP status {status}"
    return printable(str(reason))[:500].rstrip(".")
