"""Rounds as a progress bar, in a terminal or a notebook: public numbers only.

How long a computation on private rows takes may tell of them, so the bar shows how many rounds are
done of how many, and neither times nor rates.
"""

from __future__ import annotations

import warnings
from typing import Any

from .. import _validate
from ..errors import MissingExtraError, ParameterError
from ..solvers.base import Progress

_FORMAT = "{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} rounds"


def as_progress(progress: Progress | bool | None, what: str = "fitting") -> Progress | None:
    """Return what a run calls after each round: True stands for a bar, False for nothing.

    Args:
        progress: a function of (rounds done, rounds in all), or whether there is a bar.
        what: stands before the bar.

    Raises:
        MissingExtraError: a bar is asked for, and tqdm is not installed.
    """
    if progress is None or progress is False:
        return None
    return Bar(what) if progress is True else progress


def checked_verbose(verbose: Any) -> bool:
    """Return whether a fit shows a bar; scikit-learn's numbers are taken too, 0 for none."""
    if isinstance(verbose, int) and verbose >= 0:
        return bool(verbose)
    raise ParameterError(
        f"verbose must be True or False, got {_validate.shown(verbose)}.", parameter="verbose"
    )


class Bar:
    """A bar of tqdm's, made with the first round and closed with the last."""

    def __init__(self, what: str) -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # tqdm's about widgets: it draws text without them
                from tqdm.auto import tqdm
        except ImportError:
            raise MissingExtraError(
                "a progress bar needs tqdm. Install it with: pip install 'dpsco[progress]'; or "
                "pass a function of (rounds done, rounds in all)."
            ) from None
        self._make, self._what = tqdm, what
        self._bar: Any = None

    def __call__(self, done: int, total: int) -> None:
        """Show that so many rounds are done; a smaller number than before begins anew."""
        if self._bar is not None and (done < self._bar.n or total != self._bar.total):
            self._close()
        if self._bar is None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._bar = self._make(total=total, desc=self._what, bar_format=_FORMAT)
        self._bar.update(done - self._bar.n)
        if done >= total:
            self._close()

    def _close(self) -> None:
        self._bar.close()
        self._bar = None
