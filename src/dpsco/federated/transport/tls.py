"""Certificates of both sides, and the one exception: plain HTTP between processes of one machine.

A server shows its certificate and asks for one of the client, by an authority that the operator has
named; a client knows the server's authority and nothing else. TLS 1.3 alone. A handshake that fails
is said on the server's side too, where asyncio would keep it to itself.
"""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ...errors import DataError, ParameterError
from .rates import Bucket


def server_context(
    cert: str | Path,
    key: str | Path,
    client_ca: str | Path,
    *,
    say: Callable[[str], None] = lambda sentence: None,
) -> ssl.SSLContext:
    """Return the server's side: who it is, and whose certificates it takes of clients.

    Raises:
        DataError: a file cannot be read, or holds something else.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    _load(context, cert, key, client_ca)
    context.sslobject_class = _told(say)
    return context


def client_context(
    ca: str | Path, cert: str | Path | None = None, key: str | Path | None = None
) -> ssl.SSLContext:
    """Return the client's side: whom it believes to be the server, and who it is.

    Args:
        ca: the authority of the server's certificate, in PEM; no other is believed.
        cert: the client's own certificate.
        key: its private key.

    Raises:
        DataError: a file cannot be read, or holds something else.
        ParameterError: one of ``cert`` and ``key`` is missing.
    """
    if (cert is None) != (key is None):
        raise ParameterError("cert and key go together: pass both, or none.")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # checks the host's name as well
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    _load(context, cert, key, ca)
    return context


def check_address(host: str, *, secure: bool, plain: bool) -> None:
    """Refuse HTTP without TLS, unless it stays on this machine and was asked for.

    Raises:
        ParameterError: it would leave the machine, or was not asked for; or both were asked for.
    """
    if secure and plain:
        raise ParameterError("plain HTTP and certificates exclude each other: leave one out.")
    if secure:
        return
    if not plain:
        raise ParameterError(
            "a federated run needs TLS: exact sums travel. Pass the certificates; or, to try it "
            "out on one machine, ask for plain HTTP."
        )
    if not is_loopback(host):
        raise ParameterError(
            f"plain HTTP stays on this machine, and {host} is none of its own addresses. Use "
            "127.0.0.1, or TLS."
        )


def is_loopback(host: str) -> bool:
    """Return whether an address is this machine's own and nobody else's; names are not believed.

    >>> [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "10.0.0.1")]
    [True, True, False, False]
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def split_url(url: str) -> tuple[str, str]:
    """Return scheme and host of a server's address.

    Raises:
        ParameterError: it is no http or https address, or holds more than host and port.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:  # no port
        host = None
    more = not host or parts.path not in ("", "/") or parts.query or parts.fragment
    if more or parts.username is not None or parts.scheme not in ("http", "https"):
        raise ParameterError("the address of a coordinator is https://HOST:PORT and nothing else.")
    return parts.scheme, str(host)


def handshake_problem(problem: BaseException) -> str:
    """Return what went wrong between two certificates, in words; empty if it was something else."""
    reason: BaseException | None = problem
    while reason is not None:
        if isinstance(reason, ssl.SSLError):
            return _sentence(reason)
        reason = reason.__cause__ or reason.__context__
    return ""


def _load(context: ssl.SSLContext, cert: Any, key: Any, authority: Any) -> None:
    """Load files; say which one is wrong."""
    path = cert
    try:
        if cert is not None:
            context.load_cert_chain(cert, key, password=_no_password)
        path = authority
        context.load_verify_locations(authority)
    except (OSError, ValueError) as problem:  # SSLError is one of them
        what = getattr(problem, "strerror", None) or "no certificate and key in PEM that fit"
        what = what if not isinstance(problem, ssl.SSLError) else "no certificate in PEM that fits"
        raise DataError(f"cannot use {path} for TLS: {what}.") from None


def _no_password() -> str:
    raise ValueError("the key has a password")


def _told(say: Callable[[str], None]) -> type[ssl.SSLObject]:
    """Return the class of a server's connections, which says why one was refused."""

    lines = Bucket(rate=1.0, size=20)  # anybody can connect and fail, as often as they like

    class Told(ssl.SSLObject):
        def do_handshake(self) -> None:
            try:
                super().do_handshake()
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                raise
            except ssl.SSLError as problem:
                if lines.take():
                    say(f"refused a connection: {_sentence(problem)}")
                raise

    return Told


def _sentence(problem: ssl.SSLError) -> str:
    """Return a TLS error without the library's file names and numbers."""
    if isinstance(problem, ssl.SSLCertVerificationError):
        return f"the certificate of the other side is not valid ({problem.verify_message})"
    words = (problem.reason or type(problem).__name__).lower().replace("_", " ")
    return f"the TLS handshake failed ({words})"
