"""The progress bar: only on a terminal, only after a second, and it cleans up."""

import io

import pytest

from dpsco.cli import progress
from dpsco.cli.progress import Bar


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test moves."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_nothing_in_the_first_second(clock):
    screen = Terminal()
    with Bar("fitting", screen) as bar:
        clock[0] += 0.9
        bar(9, 10)
    assert screen.getvalue() == ""


@pytest.mark.parametrize("timing", [False, True])
def test_time_is_shown_only_if_asked_for(clock, timing):
    screen = Terminal()
    with Bar("fitting", screen, timing=timing) as bar:
        clock[0] += 3.0
        bar.tick()
        assert screen.getvalue().endswith("fitting ... 3 s" if timing else "fitting ...")
        clock[0] += 3.0
        bar(1, 4)
    assert (" s left" in screen.getvalue()) == timing


def test_the_bar(clock):
    screen = Terminal()
    with Bar("fitting", screen, timing=True) as bar:
        clock[0] += 2.0
        bar(1, 4)
        first = screen.getvalue()
        assert "fitting [########                      ]  25 %, 6 s left" in first
        clock[0] += 0.05
        bar(2, 4)
        assert screen.getvalue() == first  # not more than ten pictures a second
        clock[0] += 0.1
        bar(4, 4)
        assert "100 %, 0 s left" in screen.getvalue()
    assert screen.getvalue().endswith("\r\x1b[K")


def test_slices_of_a_round_are_shown_until_it_ends(clock):
    screen = Terminal()
    with Bar("fitting", screen) as bar:
        clock[0] += 0.5
        bar.part(1, 4)
        assert screen.getvalue() == ""
        clock[0] += 1.0
        bar.part(2, 4)
        assert screen.getvalue().endswith("fitting ..., 2 of 4 slices")
        clock[0] += 1.0
        bar(1, 2)
        assert screen.getvalue().endswith(" 50 %")
        clock[0] += 0.05
        bar.part(1, 4)
        assert screen.getvalue().endswith(" 50 %")
        clock[0] += 0.1
        bar.part(3, 4)
        assert screen.getvalue().endswith(" 50 %, 3 of 4 slices")


def test_no_terminal_no_bar(clock):
    for stream in (io.StringIO(), None):
        with Bar("fitting", stream) as bar:
            clock[0] += 5.0
            bar(1, 2)
        assert stream is None or stream.getvalue() == ""
    closed = io.StringIO()
    closed.close()
    with Bar("fitting", closed) as bar:
        clock[0] += 5.0
        bar(0, 0)


def test_the_seconds_count_until_something_is_known(clock):
    screen = Terminal()
    with Bar("fitting", screen, timing=True) as bar:
        bar.tick()
        assert screen.getvalue() == ""
        clock[0] += 3.0
        bar.tick()
        assert screen.getvalue().endswith("fitting ... 3 s")
        bar(0, 4)
        shown = screen.getvalue()
        clock[0] += 3.0
        bar.tick()
        assert screen.getvalue() == shown
    with Bar("fitting", io.StringIO()) as bar:
        clock[0] += 3.0
        bar.tick()
        assert not bar._visible


def test_a_thread_watches_the_clock(monkeypatch):
    monkeypatch.setattr(progress, "_TICK", 0.001)
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    screen = Terminal()
    with Bar("fitting", screen, timing=True):
        for _ in range(500):
            if screen.getvalue():
                break
            progress.time.sleep(0.01)
    assert "fitting ... 0 s" in screen.getvalue()
