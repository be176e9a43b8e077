"""A progress bar on a terminal, for what takes longer than a second."""

from __future__ import annotations

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TextIO

_PATIENCE = 1.0  # seconds before anything is shown
_PAUSE = 0.1  # seconds between two pictures
_TICK = 0.5  # seconds between two looks at the clock
_WIDTH = 30


class Bar:
    """A bar that shows how much of a known amount is done: rounds, rows; public numbers only.

    Use it as a context manager and call it with (done, total). Nothing is printed where ``stream``
    is no terminal, nor in the first second. How long a computation on private rows takes is shown
    only if ``timing`` asks for it: the time left, and until the first call the seconds.
    """

    def __init__(self, what: str, stream: TextIO | None = None, *, timing: bool = False) -> None:
        self._what, self._stream = what, sys.stderr if stream is None else stream
        self._timing = timing
        self._started = self._shown = time.monotonic()
        self._visible = self._called = False
        self._text, self._part = f"{what} ...", ""
        self._lock, self._end = threading.Lock(), threading.Event()
        self._watcher: ThreadPoolExecutor | None = None

    def __call__(self, done: int, total: int) -> None:
        """Show the bar anew, if it is time."""
        self._called, self._part = True, ""
        now = time.monotonic()
        if not self._is_time(now):
            return
        share = min(1.0, done / total) if total else 1.0
        left = (now - self._started) * (1.0 - share) / share if share else 0.0
        bar = ("#" * round(_WIDTH * share)).ljust(_WIDTH)
        ahead = f", {left:.0f} s left" if self._timing else ""
        self._text = f"{self._what} [{bar}] {100 * share:3.0f} %{ahead}"
        self._draw(self._text)

    def part(self, done: int, total: int) -> None:
        """Show how much is done of the sum that a round waits for."""
        self._part = f", {done:,} of {total:,} slices"
        if self._is_time(time.monotonic()):
            self._draw(self._text + self._part)

    def tick(self) -> None:
        """Show that something is done, as long as nothing else is known."""
        passed = time.monotonic() - self._started
        if not self._called and passed >= _PATIENCE and self._terminal():
            seconds = f" {passed:.0f} s" if self._timing else ""
            self._draw(f"{self._what} ...{seconds}{self._part}")

    def _is_time(self, now: float) -> bool:
        waited = now - self._started >= _PATIENCE and now - self._shown >= _PAUSE
        return waited and self._terminal()

    def _terminal(self) -> bool:
        try:
            return self._stream.isatty()
        except (AttributeError, ValueError):
            return False

    def _draw(self, text: str) -> None:
        with self._lock:
            self._shown, self._visible = time.monotonic(), True
            self._stream.write(f"\r\x1b[K{text}")
            self._stream.flush()

    def _watch(self) -> None:
        while not self._end.wait(_TICK):
            self.tick()

    def __enter__(self) -> Bar:
        if self._terminal():
            self._watcher = ThreadPoolExecutor(1, thread_name_prefix="dpsco progress")
            self._watcher.submit(self._watch)
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        if self._watcher is not None:
            self._watcher.shutdown()
        if self._visible:
            self._draw("")
