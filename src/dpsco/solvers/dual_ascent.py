"""The minimiser of a clipped convex loss with a ridge, found within a certified distance.

    minimise  P(w) = 1/m sum_i phi_i(<w, x_i>) + ridge/2 ||w - centre||^2   over w in the domain,

phi_i with its slope cut to ``clip / ||x_i||``. Duals a_i, each a slope of phi_i at some place t_i,
and ``free = centre - 1/(ridge m) sum a_i x_i``, ``w = project(free)`` have the duality gap

    P(w) - D(a) = 1/m sum_i [phi_i(u_i) + phi_i*(a_i) - a_i u_i] <= 1/m sum_i (s_i - a_i)(u_i - t_i)

with u_i = <w, x_i> and s_i a slope at u_i (phi_i(t_i) >= phi_i(u_i) + s_i (t_i - u_i), and a_i is a
slope at t_i). So slopes alone certify: ``||w - minimiser||^2 <= 2 gap / ridge`` by strong
convexity. The domain is one more block of duals, maximised exactly by its projection.

Nothing else ends the loop: neither time nor a number of passes, since a point that is not certified
must not leave. It does end: exact cyclic ascent on a smooth function plus separable ones has an
error of O(1/passes) (Hong, Wang, Razaviyayn, Luo 2017, arXiv:1310.6957, Thm 1), the gap goes with
it, and `least_distance` keeps what is asked for above what rounding can hide. How long it takes
depends on the rows: a side channel.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..data.block import Block, Floats
from ..geometry.domains import Domain, WholeSpace
from ..kernels import compiler
from ..kernels.clipping import coefficients
from ..kernels.dual import Duals, dual_pass, twin_seconds
from ..kernels.slope import smoothed_slope
from ..kernels.sums import coefficients_sum, margins
from ..losses.base import MarginLoss
from ..privacy.summation import SUM_LEAF

USUAL_PASSES = 20  # for the choice between compiled loop and twin
_SLOPES = 2.0**-46  # bisections (2^-48), rounding of slopes and places
_UNIT = 2.0**-53


@dataclass(frozen=True)
class Regularised:
    """A mean of clipped losses plus ``ridge/2 ||w - centre||^2``, over a domain."""

    loss: MarginLoss
    domain: Domain  # the whole space, or one with an exact projection
    clip: float  # bound on the slope of a row times its norm, enforced
    ridge: float

    def minimise(
        self, block: Block, centre: Floats, *, distance: float, compiled: bool | None = None
    ) -> tuple[Floats, int]:
        """Return a point within ``distance`` of the minimiser, and the passes it took.

        Neither is private. ``distance`` must be at least `least_distance`.
        """
        slope, scale = self.loss.kernel(), 1.0 / (self.ridge * len(block))
        compiled = compiler.chosen(compiled, twin_seconds(USUAL_PASSES * len(block), slope))
        target = 0.25 * self.ridge * distance * distance  # half of the gap that suffices
        duals, pulled, free, passes = Duals.zeros(len(block)), centre, centre, 0
        while True:
            dual_pass(
                block.rows,
                block.labels,
                slope,
                free + (pulled - centre),
                duals,
                norms=block.norms,
                clip=self.clip,
                scale=scale,
                compiled=compiled,
            )
            # From the duals afresh, so that the steps' rounding does not pile up.
            free = centre - scale * coefficients_sum(block.rows, duals.values)
            weights = free if isinstance(self.domain, WholeSpace) else self.domain.project(free)
            pulled, passes = centre + (weights - free), passes + 1
            if self.gap(block, weights, duals) <= target:
                return weights, passes

    def gap(self, block: Block, weights: Floats, duals: Duals) -> float:
        """Return an upper bound on the duality gap at ``weights``; not private."""
        at = margins(block.rows, weights)
        found = smoothed_slope(self.loss.kernel(), at, block.labels)
        slopes = coefficients(found, block.norms, self.clip)
        far = np.abs(at - duals.places) + duals.widths
        return float(np.mean(np.abs(slopes - duals.values) * far))


def least_distance(*, clip: float, ridge: float, reach: float, d: int, steepness: float) -> float:
    """Return the least distance that a certificate in float64 can vouch for.

    ``reach`` bounds ||w|| and ||centre||, ``steepness`` the slopes times the rows' norms before
    they are cut (it counts for smoothed losses only, whose slopes are off by 2^-48 of their bound).

    A margin is off by (d + 2) u ||w|| ||x|| (u = 2^-53), a place by less than 2^-50 ||w|| ||x||, a
    dual by less than 2^-47 of its cap; a term of the gap is 2 clip/||x||-Lipschitz in the first
    two and 2 ||w|| ||x||-Lipschitz in the last, so the gap is off by at most ``2 clip error``. The
    error of the duals, and the rounding of their sum, move w by at most 2^-40 clip/ridge, which
    counts squared. Half of the gap is kept for both (`Regularised.minimise`), so that
    distance^2 >= 4 (2 clip error / ridge + moved^2).
    """
    loose = _SLOPES * max(1.0, steepness / clip)
    error = (2.0 * (d + 2) * _UNIT + loose) * reach
    moved = (loose + 2.0 * SUM_LEAF * _UNIT) * clip / ridge
    return math.sqrt(8.0 * clip * error / ridge + 4.0 * moved * moved)
