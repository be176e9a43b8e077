"""Who may speak with the local page: this browser, from this page, by this name.

A page on 127.0.0.1 can be asked by every web page that is open in a browser, and by every user of
the machine. So a request needs the cookie that a secret address has given out; its ``Host`` must be
this server's (a foreign name that leads here is an attack by DNS); and what changes anything needs
this server's ``Origin`` and a token that only its own pages hold.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ..privacy.randomness import fresh_name

START = "/start"
MOST_BYTES = 4 << 20  # of a form
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": POLICY,
    "referrer-policy": "same-origin",  # with no-referrer, a browser would send no Origin either
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
"""Of every response, unless it has its own."""

_SITES = ("same-origin", "none")
"""From where a browser may say that a request comes: this page, or its user. Browsers take other
ports of 127.0.0.1, which may be anybody's, for the same site, and send them cookies."""

_SENTENCES = {
    400: "The request is not one that this page sends.",
    403: "This page belongs to whoever started it. Open the address that dpsco ui has printed.",
    405: "The page can be read, and its forms sent; nothing else.",
    413: "The form is too large.",
    421: "This server answers to its own address alone.",
}


@dataclass(frozen=True)
class Keys:
    """What a browser must know, made anew whenever a page is started.

    Args:
        port: of the server.
    """

    port: int
    token: str = field(default_factory=lambda: fresh_name() + fresh_name(), repr=False)
    session: str = field(default_factory=lambda: fresh_name() + fresh_name(), repr=False)
    form: str = field(default_factory=lambda: fresh_name() + fresh_name(), repr=False)

    @property
    def host(self) -> str:
        """What ``Host`` must say."""
        return f"127.0.0.1:{self.port}"

    @property
    def origin(self) -> str:
        """What ``Origin`` must say."""
        return f"http://{self.host}"

    @property
    def cookie(self) -> str:
        """The cookie's name: browsers share cookies between ports."""
        return f"dpsco_ui_{self.port}"

    @property
    def address(self) -> str:
        """The address to open: whoever knows it may use the page."""
        return f"{self.origin}{START}?token={self.token}"

    def set_cookie(self) -> str:
        """Return the header that gives the cookie out."""
        return f"{self.cookie}={self.session}; Path=/; HttpOnly; SameSite=Strict"


def same(text: str | None, secret: str) -> bool:
    """Return whether a text is the secret, in a time that does not tell where it differs."""
    return text is not None and hmac.compare_digest(text.encode(), secret.encode())


class Guard:
    """Lets through what `Keys` allow, and gives every response its headers.

    Args:
        app: what is guarded.
        keys: of this server.
    """

    def __init__(self, app: Any, keys: Keys) -> None:
        self._app, self._keys = app, keys

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        if scope["type"] != "http":  # nothing else is offered
            return
        status = self._refusal(scope)
        if status:
            await _refuse(send, status)
            return
        await self._app(scope, receive, _with_headers(send))

    def _refusal(self, scope: Any) -> int:
        """Return the status of a refusal; 0 if there is no reason for one."""
        keys, headers = self._keys, scope["headers"]
        if _only(headers, b"host") != keys.host:
            return 421
        method, path = scope["method"], scope["path"]
        if method not in ("GET", "HEAD", "POST"):
            return 405
        if method != "POST" and path == START:  # which compares the token
            return 0
        if (_only(headers, b"sec-fetch-site") or "none") not in _SITES:
            return 403
        if not same(_cookie(headers, keys.cookie), keys.session):
            return 403
        if method == "POST":
            return self._wrong_form(headers)
        return 0

    def _wrong_form(self, headers: Any) -> int:
        """Return the status of a refusal of a form, by its headers."""
        if _only(headers, b"origin") != self._keys.origin:
            return 403
        kind = (_only(headers, b"content-type") or "").partition(";")[0].strip().lower()
        if kind != "application/x-www-form-urlencoded":
            return 400
        length = _only(headers, b"content-length") or ""
        if not (length.isascii() and length.isdigit()):
            return 400
        return 413 if len(length) > 9 or int(length) > MOST_BYTES else 0


def _only(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> str | None:
    """Return a header that is there once; None if it is not, or stands twice."""
    values = [value for key, value in headers if key.lower() == name]
    return values[0].decode("latin-1") if len(values) == 1 else None


def _cookie(headers: Iterable[tuple[bytes, bytes]], name: str) -> str | None:
    """Return the value of a cookie; other programs on this machine may have set any others."""
    for key, value in headers:
        if key.lower() == b"cookie":
            pairs = (part.strip().partition("=") for part in value.decode("latin-1").split(";"))
            for each, _, content in pairs:
                if each == name:
                    return content
    return None


def _with_headers(send: Any) -> Any:
    """Return a channel that adds the headers that a response has not."""

    async def forward(message: Any) -> None:
        if message["type"] == "http.response.start":
            headers = list(message.get("headers", ()))
            present = {key.decode("latin-1").lower() for key, _ in headers}
            headers += [
                (key.encode(), value.encode())
                for key, value in HEADERS.items()
                if key not in present
            ]
            message = {**message, "headers": headers}
        await send(message)

    return forward


async def _refuse(send: Any, status: int) -> None:
    """Answer with a sentence, and nothing of the request."""
    body = (_SENTENCES[status] + "\n").encode()
    headers = {**HEADERS, "content-type": "text/plain; charset=utf-8"}
    headers |= {"content-length": str(len(body)), "connection": "close"}
    lines = [(key.encode(), value.encode()) for key, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": lines})
    await send({"type": "http.response.body", "body": body})
