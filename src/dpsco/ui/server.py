"""The server of the local page: on 127.0.0.1 alone, until Ctrl-C.

A fit that has been paid for is not thrown away: the first Ctrl-C closes the page and waits for the
fit's end and its files; the second one gives it up, and says what that means.
"""

from __future__ import annotations

import contextlib
import socket
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

from ..errors import DataError, MissingExtraError
from .app import application
from .guard import Keys
from .study import Study

HOST = "127.0.0.1"
_GRACE = 2  # seconds for open requests, once the page is closed
_NEEDS = ("starlette", "uvicorn", "jinja2", "pyarrow", "narwhals")


def require() -> None:
    """Refuse where a package is missing.

    Raises:
        MissingExtraError: one is.
    """
    missing = [name for name in _NEEDS if find_spec(name) is None]
    if missing:
        raise MissingExtraError(
            f"dpsco ui needs {' and '.join(missing)}. Install it with: pip install 'dpsco[ui]'. "
            "The command line does the same without: dpsco plan, dpsco fit, dpsco report."
        )


def serve(study: Study, *, port: int = 0, say: Callable[[str], None] | None = None) -> bool:
    """Serve the page until a signal ends it.

    Args:
        study: the state.
        port: 0 for any that is free.
        say: hears the address, and what happens at the end; prints by default.

    Returns:
        Whether everything came to its end: False if a fit was given up.

    Raises:
        DataError: the port cannot be had.
        MissingExtraError: the extra is not installed.
    """
    say = _print if say is None else say
    require()
    with listening(port) as listener:
        keys = Keys(listener.getsockname()[1])
        say(
            f"Open this address in a browser on this machine. It is a key: show it to nobody.\n\n"
            f"  {keys.address}\n\nCtrl-C ends the page."
        )
        with contextlib.suppress(KeyboardInterrupt):  # uvicorn passes the signal on at its end
            make_server(study, keys).run(sockets=[listener])
    return _finish(study, say)


def make_server(study: Study, keys: Keys) -> Any:
    """Return a server that logs nothing: no address, and no error, whose text may quote rows."""
    import uvicorn

    return uvicorn.Server(
        uvicorn.Config(
            application(study, keys),
            log_config=None,
            log_level="critical",
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=_GRACE,
        )
    )


def _finish(study: Study, say: Callable[[str], None]) -> bool:
    """Wait for a fit that is running; say what is left of it."""
    fit = study.fit
    if fit is None:
        return True
    try:
        if fit.state == "running":
            say("The page is closed. A fit is running: it goes on to its end. Ctrl-C gives it up.")
            fit.join()
    except KeyboardInterrupt:
        say(f"The fit was given up. {fit.payer.aftermath}")
        return False
    if fit.state == "failed":
        say(f"The fit has failed: {fit.problem}")
    elif fit.unwritten:
        say(f"The files of the fit could not be written: {fit.unwritten} {fit.payer.aftermath}")
    else:
        say(f"The files of the fit are in {fit.folder}.")
    return fit.state == "done" and not fit.unwritten


@contextlib.contextmanager
def listening(port: int) -> Iterator[socket.socket]:
    """Open the port, for this machine alone."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        if sys.platform != "win32":  # there it would let another program listen too
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
        except OSError as problem:
            raise DataError(
                f"cannot listen on port {port}: {problem.strerror}. Leave --port out for any that "
                "is free."
            ) from None
        listener.listen(128)
        yield listener


def _print(text: str) -> None:
    with contextlib.suppress(OSError):  # a terminal that was closed must not end a paid fit
        print(text, flush=True)
