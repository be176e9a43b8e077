"""How estimators show themselves, beside what scikit-learn shows: the budget, always."""

from __future__ import annotations

import re
from typing import Any

from .._display import RENDERERS, renderer
from ..models.weights import Weights


class ShownEstimator:
    """An estimator that shows its weights and what they cost; stands before `BaseEstimator`.

    scikit-learn's setting ``display`` is heeded: with "text" there is no HTML.
    """

    epsilon: float

    def named_weights(self) -> Weights:
        """Return the weights by column, the largest first, with the noise that the plan knows of.

        Returns
        -------
        Weights
            ``items`` has the weights; ``about`` says how to read their noise.
        """
        raise NotImplementedError

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        shown: str = super().__repr__(N_CHAR_MAX)  # type: ignore[call-arg]
        if re.search(r"\bepsilon=", shown):
            return shown
        name, _, rest = shown.partition("(")
        return f"{name}(epsilon={self.epsilon!r}{'' if rest == ')' else ', '}{rest}"

    @property
    def _repr_html_(self) -> Any:
        _ = super()._repr_html_  # type: ignore[misc]  # is not there if scikit-learn shows text
        return self._fragment

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:
        bundle: dict[str, Any] = super()._repr_mimebundle_(**options)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] = self._fragment()
        return bundle

    def _fragment(self) -> str:
        return str(renderer(RENDERERS[0], "estimator")(self))

    def plot(self, ax: Any = None) -> Any:
        """Draw the weights with Matplotlib, with the noise that the plan knows of.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes to draw on; new ones by default.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.

        Raises
        ------
        MissingExtraError
            Matplotlib is not installed; the extra ``plot`` has it.
        """
        return renderer(RENDERERS[1], "estimator")(self, ax)
