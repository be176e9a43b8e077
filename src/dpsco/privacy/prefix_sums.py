"""Correlated Gaussian noise for the prefix sums of a stream in which every row acts once.

Setting    T rounds; each row is in the batch of exactly one round, where it moves the batch sum by
           at most `bound`. The T noisy prefix sums are wanted, one after the other.
Paper      Choquette-Choo, Ganesh, Thakurta 2025, Lemma 8 (tree); Honaker 2015 (tree_honaker);
           Fichtenberger, Henzinger, Upadhyay 2022 (toeplitz); Dvijotham, McMahan, Pillutla,
           Steinke, Thakurta 2024 (buffered linear Toeplitz, blt); Kalinin, McKenna, Upadhyay,
           Lampert 2025 (banded inverse square root, bisr).
Guarantee  With sigma = sensitivity * column_norm / mu and increments u_t = x_t + sigma * next(),
           the whole transcript (u_0, ..., u_{T-1}) is mu-GDP, also when x_t depends on earlier u
           and when the public bound changes from round to round (sigma then follows it).
Needs      T fixed beforehand; one participation a row; no round released twice with the same noise.
Symbols    Chat, Chat^{-1} z, N_t, T, colnorm -> encoder, increments, prefix noise, rounds,
           column_norm.

| name         | column norm squared      | draws              | vectors held | remark         |
|--------------|--------------------------|--------------------|--------------|----------------|
| tree         | levels = bit length of T | T                  | levels       | for comparison |
| tree_honaker | levels                   | 2T - bits set in T | levels       | for comparison |
| toeplitz     | sum of r_k^2, k < T      | T                  | T            |                |
| toeplitz_cn  | 1, in every column       | T                  | T            | the default    |
| banded       | sum of r_k^2, k < bands  | T                  | bands - 1    | for comparison |
| bisr         | of 1/(q_k, k < bands)    | T                  | bands - 1    | for comparison |
| blt          | closed form              | T                  | 2 or 3       | for large T    |

With `drop_root` (either tree, T = 2^h) the node that covers everything is left out and the last
prefix is the sum of the two halves: one level less, one draw less for tree_honaker.
`blt` uses the smallest tuned design that covers T, and the design for 16384 rounds beyond. Its
column norm is computed for the actual T, so privacy always holds; accuracy slowly degrades there.

Order of draws: rounds in order; tree_honaker draws the nodes completed by a round leaf first, then
upwards; every other mechanism draws one vector a round.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _validate
from ..errors import ParameterError
from . import prefix_matrices as matrices
from .prefix_noise import Draw, NoiseStream

__all__ = ["MECHANISMS", "PrefixMechanism", "mechanism"]

Array = NDArray[np.float64]

MECHANISMS = ("tree", "tree_honaker", "toeplitz", "toeplitz_cn", "banded", "bisr", "blt")
_TREES = ("tree", "tree_honaker")
_BANDED = ("banded", "bisr")
_ROUND_UP = 1.0 + 2.0**-50  # four units in the last place: covers the rounding of the norm itself


@dataclass(frozen=True)
class PrefixMechanism:
    """A public description of a prefix-sum mechanism: no data, no randomness.

    Noise is in units of sigma, one coordinate. The mechanism releases A x + sigma B z, where
    A = B C is the matrix of prefix sums, C the `encoder`, B the `decoder` and z standard normal.
    """

    name: str  # one of MECHANISMS
    rounds: int  # horizon T
    bands: int | None = None  # banded: non-zero diagonals of the encoder; bisr: of its inverse
    drop_root: bool = False  # trees only, rounds a power of two, at least 2

    def __post_init__(self) -> None:
        _validate.choice("name", self.name, MECHANISMS)
        hint = "It is the fixed number of prefix sums, one a batch."
        object.__setattr__(self, "rounds", _validate.integer("rounds", self.rounds, hint=hint))
        object.__setattr__(self, "bands", _checked_bands(self.name, self.rounds, self.bands))
        _check_drop_root(self.name, self.rounds, self.drop_root)

    @property
    def column_norm(self) -> float:
        """Largest column norm of the encoder, rounded up: the sensitivity to a row of bound 1."""
        if self.name in _TREES:
            square = float(self._levels)
        elif self.name == "toeplitz_cn":
            square = 1.0
        elif self.name == "blt":
            square = matrices.blt_energy(self.rounds)
        elif self.name == "bisr":
            square = matrices.inverted_energy(self.bands or self.rounds, self.rounds)
        else:
            square = float(matrices.square_root(self.bands or self.rounds).energy[-1])
        return math.sqrt(square) * _ROUND_UP

    def draws(self) -> int:
        """Return the number of fresh Gaussian vectors that the whole stream uses."""
        if self.name == "tree_honaker":
            return 2 * self.rounds - self.rounds.bit_count() - int(self.drop_root)
        return self.rounds

    def memory_vectors(self) -> int:
        """Return how many vectors of the length of a draw the stream holds between rounds."""
        if self.name in _TREES:
            return self._levels
        if self.name in _BANDED:
            return (self.bands or self.rounds) - 1
        return matrices.blt_design(self.rounds)[0].size if self.name == "blt" else self.rounds

    def prefix_std(self) -> Array:
        """Return the exact standard deviation of the noise on each prefix, in units of sigma."""
        if self.name in _TREES:
            every = self.name == "tree_honaker"
            variance = matrices.tree_variance(self.rounds, self._levels, every=every)
        elif self.name == "toeplitz_cn":
            variance = matrices.normalised_variance(self.rounds)
        else:
            variance = np.cumsum(self._prefix_series() ** 2)
        return np.sqrt(variance)

    def error_max(self) -> float:
        """Return the largest prefix error, in units of sensitivity / mu (e_max)."""
        return self.column_norm * float(self.prefix_std().max())

    def error_rms(self) -> float:
        """Return the root mean square prefix error, in units of sensitivity / mu (e_rms)."""
        return self.column_norm * math.sqrt(float(np.mean(self.prefix_std() ** 2)))

    def encoder(self) -> Array:
        """Return C, draws x rounds: what one unit contribution in round t adds to each node."""
        if self.name in _TREES:
            every = self.name == "tree_honaker"
            return matrices.tree_encoder(self.rounds, self._levels, every=every)
        if self.name == "toeplitz_cn":
            return matrices.normalised_encoder(self.rounds)
        return matrices.lower_toeplitz(self._series(), self.rounds)

    def decoder(self) -> Array:
        """Return B, rounds x draws: the prefix noise is B z; B C is lower triangular of ones."""
        if self.name in _TREES:
            every = self.name == "tree_honaker"
            return matrices.tree_decoder(self.rounds, self._levels, every=every)
        if self.name == "toeplitz_cn":
            return matrices.normalised_decoder(self.rounds)
        return matrices.lower_toeplitz(self._prefix_series(), self.rounds)

    def start(self, draw: Draw) -> NoiseStream:
        """Return a new noise stream; ``draw()`` gives one fresh standard normal vector a call."""
        return NoiseStream(self, draw)

    @property
    def _levels(self) -> int:
        """Nodes above the first leaf, for the trees."""
        return matrices.tree_levels(self.rounds, drop_root=self.drop_root)

    def _series(self) -> Array:
        """First column of the encoder, for toeplitz, banded, bisr and blt."""
        if self.name == "blt":
            return matrices.blt_series(self.rounds)
        if self.name == "bisr":
            return matrices.inverted_series(self.bands or self.rounds, self.rounds)
        return matrices.square_root(self.bands or self.rounds).root

    def _prefix_series(self) -> Array:
        """First column of the decoder, for toeplitz, banded, bisr and blt."""
        if self.name == "toeplitz":  # the square root of A is its own decoder
            return self._series()
        series: Array = np.cumsum(matrices.inverse_series(self._series(), self.rounds))
        return series


def mechanism(
    name: str = "toeplitz_cn", *, rounds: int, bands: int | None = None, drop_root: bool = False
) -> PrefixMechanism:
    """Return the description of a mechanism for ``rounds`` prefix sums.

    name       one of MECHANISMS; the default has the least error of all here
    rounds     horizon, at least 1, fixed before the run
    bands      for 'banded' and 'bisr', from 1 (independent increments) to rounds (as 'toeplitz')
    drop_root  for the trees, if rounds is a power of two: one level less

    Raises ParameterError when an argument is out of range or does not belong to the mechanism.

    >>> noise = mechanism(rounds=4)
    >>> stream = noise.start(lambda: np.ones(1))  # in earnest: fresh Gaussian vectors
    >>> [round(float(stream.next()[0]), 6) for _ in range(4)]
    [1.219951, 0.589624, 0.419263, 0.3125]
    >>> round(noise.error_max(), 3), round(mechanism("tree", rounds=4).error_max(), 3)
    (1.369, 2.449)
    """
    return PrefixMechanism(name, rounds, bands, drop_root)


def _checked_bands(name: str, rounds: int, bands: Any) -> int | None:
    """Return bands as an int for 'banded' and 'bisr'; refuse them for any other mechanism."""
    if name not in _BANDED:
        if bands is not None:
            raise ParameterError(
                f"bands belongs to 'banded' and 'bisr'; {name!r} takes none, got {bands!r}. "
                "Leave it out."
            )
        return None
    hint = f"{name!r} needs a number of bands from 1 to rounds = {rounds}; 'blt' needs none."
    number = _validate.integer("bands", bands, hint=hint)
    if number > rounds:
        raise ParameterError(f"bands must be at most rounds = {rounds}, got {number}. {hint}")
    return number


def _check_drop_root(name: str, rounds: int, drop_root: Any) -> None:
    """Refuse drop_root where there is no root above two halves."""
    if not isinstance(drop_root, bool):
        raise ParameterError(f"drop_root must be True or False, got {drop_root!r}.")
    if drop_root and (name not in _TREES or rounds < 2 or rounds & (rounds - 1)):
        raise ParameterError(
            "drop_root needs a tree whose rounds are a power of two, at least 2; got "
            f"{name!r} with rounds = {rounds}. Pass drop_root=False."
        )
