"""How often somebody may ask: so many times at once, and so many times a second after that."""

from __future__ import annotations

import threading
import time


class Bucket:
    """Drops that come back at a steady rate; each request takes one.

    >>> bucket = Bucket(rate=1.0, size=2)
    >>> [bucket.take() for _ in range(3)]
    [True, True, False]
    """

    def __init__(self, *, rate: float, size: int) -> None:
        self._rate, self._size = rate, float(size)
        self._level, self._time = float(size), time.monotonic()
        self._lock = threading.Lock()

    def take(self) -> bool:
        """Return whether there was one left."""
        with self._lock:
            now = time.monotonic()
            self._level = min(self._size, self._level + (now - self._time) * self._rate)
            self._time = now
            if self._level < 1.0:
                return False
            self._level -= 1.0
            return True


def pauses(first: float = 0.25, longest: float = 15.0) -> list[float]:
    """Return how long to wait before each retry: twice as long each time, up to a limit.

    >>> pauses(1.0, 5.0)
    [1.0, 2.0, 4.0, 5.0]
    """
    result = [first]
    while 2 * result[-1] < longest:
        result.append(2 * result[-1])
    return [*result, longest]
