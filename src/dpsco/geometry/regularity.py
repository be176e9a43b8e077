"""Regular norms: the exponents and the constant that make an l_p geometry, 1 <= p <= 2, smooth.

The square of the dual norm l_q is smooth only up to a factor that grows with q. Replacing q by
``r = max(2, min(q, 2 ln d))`` costs at most a factor e and keeps the constant logarithmic in d:

    ||x + y||_r^2 <= ||x||_r^2 + <gradient, y> + (r - 1) ||y||_r^2,
    (kappa / 2) ||w||_pbar^2 is 1-strongly convex in ||.||_p,   kappa = (r - 1) d^(2 (1/r - 1/q)),

with pbar = r / (r - 1). The second holds since half the squared l_pbar norm is (pbar - 1)-strongly
convex in l_pbar and ``||w||_p <= d^(1/r - 1/q) ||w||_pbar``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .._validate import integer, real
from ..errors import ParameterError
from .norms import Lp


@dataclass(frozen=True)
class Regularity:
    """The exponents of l_p in R^d, 1 <= p <= 2.

    >>> found = Regularity(1.0, 200)
    >>> round(found.r, 4), round(found.pbar, 4), round(found.kappa, 4)
    (10.5966, 1.1042, 26.0864)
    """

    p: float
    d: int

    def __post_init__(self) -> None:
        p = real("p", self.p)
        if not 1.0 <= p <= 2.0:
            raise ParameterError(
                f"Regularity needs p from 1 to 2, got {p!r}. For p above 2 work in l_2: "
                "||w||_2 <= d^(1/2 - 1/p) ||w||_p."
            )
        object.__setattr__(self, "p", p)
        object.__setattr__(self, "d", integer("d", self.d))

    @property
    def q(self) -> float:
        """The dual exponent, p / (p - 1)."""
        return math.inf if self.p == 1.0 else self.p / (self.p - 1.0)

    @property
    def r(self) -> float:
        """The smoothing exponent, at most q: gradients are measured in l_r."""
        return max(2.0, min(self.q, 2.0 * math.log(self.d)))

    @property
    def capped(self) -> bool:
        """Whether r lies below q, so that pbar lies above p."""
        return self.r < self.q

    @property
    def pbar(self) -> float:
        """The conjugate of r: the exponent of the potential; p itself unless r was capped."""
        return self.r / (self.r - 1.0) if self.capped else self.p

    @property
    def stretch(self) -> float:
        """sup ||w||_p / ||w||_pbar = d^(1/r - 1/q), at most sqrt(e).

        The l_p ball of radius R lies in the l_pbar ball of radius R, which reaches to R * stretch.
        """
        return float(self.d ** (1.0 / self.r - 1.0 / self.q)) if self.capped else 1.0

    @property
    def kappa(self) -> float:
        """(r - 1) d^(2 (1/r - 1/q)): the factor of the potential."""
        return (self.r - 1.0) * self.stretch**2

    @property
    def norm(self) -> Lp:
        """The norm of the weights, l_p."""
        return Lp(self.p)

    @property
    def potential_norm(self) -> Lp:
        """The norm of the potential, l_pbar."""
        return Lp(self.pbar)

    @property
    def smooth_norm(self) -> Lp:
        """The norm of gradients whose square is 2 (r - 1)-smooth, l_r."""
        return Lp(self.r)
