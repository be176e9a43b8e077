"""How results show themselves: a line at the prompt, a fragment in a notebook, a figure.

The rooms below `report` hold the results and say a line about each; `report` knows how to draw
them. So a result names what it is, and the renderer of that name is looked up when it is shown.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Callable

RENDERERS = "dpsco.report.notebook", "dpsco.report.plots"
"""The modules that draw: HTML fragments, and figures. Each has a `RENDERERS` of functions."""


class Displayed:
    """A result that shows itself; a subclass sets ``shown_as`` and writes ``_line``."""

    shown_as: ClassVar[str] = ""  # a key of the renderers

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__repr__" not in vars(cls):  # else a dataclass would write a dump of its fields
            cls.__repr__ = Displayed.__repr__  # type: ignore[method-assign]

    def _line(self) -> str:
        """Return what the result says, in a line or two."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._line()}>"

    def _repr_html_(self) -> str:
        return str(renderer(RENDERERS[0], self.shown_as)(self))

    def plot(self, ax: Any = None) -> Any:
        """Draw the result with Matplotlib, and return the axes.

        Args:
            ax: axes to draw on; new ones by default.

        Raises:
            MissingExtraError: Matplotlib is not installed; the extra ``plot`` has it.
        """
        return renderer(RENDERERS[1], self.shown_as)(self, ax)


def renderer(module: str, kind: str) -> Callable[..., Any]:
    """Return the function that draws results of a kind."""
    function: Callable[..., Any] = importlib.import_module(module).RENDERERS[kind]
    return function
