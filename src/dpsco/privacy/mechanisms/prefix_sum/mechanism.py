"""Correlated Gaussian noise for the prefix sums of a stream in which every row acts once.

Setting    T rounds; each row is in the batch of exactly one round, where it moves the batch sum by
           at most `bound`. The T noisy prefix sums are wanted, one after the other.
Paper      Choquette-Choo, Ganesh, Thakurta 2025, Lemma 8 (tree); Honaker 2015 (tree_honaker);
           Fichtenberger, Henzinger, Upadhyay 2022 (toeplitz); Dvijotham, McMahan, Pillutla,
           Steinke, Thakurta 2024 (buffered linear Toeplitz, blt); Kalinin, McKenna, Upadhyay,
           Lampert 2025 (banded inverse square root, bisr).
How        Noise meets C x, C the encoder (:mod:`.encoding`); what leaves is decoded by C^-1
           (:mod:`.noise`).
Guarantee  With sigma = sensitivity * column_norm / mu and increments u_t = x_t + sigma * next(),
           the whole transcript (u_0, ..., u_{T-1}) is mu-GDP, also when x_t depends on earlier u
           and when the public bound changes from round to round (sigma then follows it).
Needs      T fixed beforehand; one participation per row; no round twice with the same noise.
Symbols    Chat, Chat^{-1} z, N_t, T, colnorm -> encoder, increments, prefix noise, rounds,
           column_norm.

| name         | column norm squared      | draws              | vectors held | remark          |
|--------------|--------------------------|--------------------|--------------|-----------------|
| tree         | levels = bit length of T | T                  | levels       | for comparison  |
| tree_honaker | levels                   | 2T - bits set in T | levels       | for comparison  |
| toeplitz     | sum of r_k^2, k < T      | T                  | T            |                 |
| toeplitz_cn  | 1, in every column       | T                  | T            | the default     |
| banded       | sum of r_k^2, k < bands  | T                  | bands - 1    | for comparison  |
| bisr         | of 1/(q_k, k < bands)    | T                  | bands - 1    | for comparison  |
| blt          | closed form              | T                  | 2 or 3       |                 |
| blt_cn       | 1, in every column       | T                  | 2 or 3       | for large T     |
| power        | of (1 - x)^(-exponent)   | T                  | T            | an expert's own |

With `drop_root` (either tree, T = 2^h) the node that covers everything is left out and the last
prefix is the sum of the two halves: one level less, one draw less for tree_honaker.
`blt` and `blt_cn` use the smallest tuned design that covers T, and the design for 16384 rounds
beyond. Column norms are computed for the actual T, so privacy always holds; accuracy slowly
degrades there. In the `_cn` mechanisms every column of the encoder is divided by its own norm, so
that every round has the same mu: never a larger error than without, for a T known beforehand.
`power` has independent increments for exponent 0, is `toeplitz` for 1/2, and has independent noise
on each prefix sum for 1.

Order of draws: rounds in order; tree_honaker draws the nodes completed by a round leaf first, then
upwards; every other mechanism draws one vector per round.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .... import _validate
from ....errors import ParameterError
from ....files.limits import MOST_PRODUCTS, MOST_ROUNDS, MOST_TERMS
from . import matrices
from .noise import Draw, NoiseStream

__all__ = ["MECHANISMS", "NEEDS", "PrefixMechanism", "mechanism"]

Array = NDArray[np.float64]

_TREES = ("tree", "tree_honaker")
_BANDED = ("banded", "bisr")
_APPENDING = ("toeplitz", "toeplitz_cn", "power")  # all vectors are held, one more per round
_NORMALISED = ("toeplitz_cn", "blt_cn")
MECHANISMS = (*_TREES, "toeplitz", "toeplitz_cn", *_BANDED, "blt", "blt_cn", "power")
NEEDS = {"banded": "bands", "bisr": "bands", "power": "exponent"}  # what a name alone leaves open
_EXACT = 2**14  # rounds up to which `error_bound` is the error itself
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
    exponent: float | None = None  # power: a of the encoder (1 - x)^-a, from 0 to 1

    def __post_init__(self) -> None:
        _validate.choice("name", self.name, MECHANISMS)
        hint = "It is the fixed number of prefix sums, one per batch."
        rounds = _validate.integer("rounds", self.rounds, at_most=MOST_ROUNDS, hint=hint)
        object.__setattr__(self, "rounds", rounds)
        object.__setattr__(self, "bands", _checked_bands(self.name, self.rounds, self.bands))
        _check_drop_root(self.name, self.rounds, self.drop_root)
        object.__setattr__(self, "exponent", _checked_exponent(self.name, self.exponent))
        _check_work(self.name, self.rounds, self.bands)

    @property
    def column_norm(self) -> float:
        """Largest column norm of the encoder, rounded up: the sensitivity to a row of bound 1."""
        if self.name == "blt":
            return (
                float(matrices.blt_norms(self.rounds, np.array([float(self.rounds)]))[0])
                * _ROUND_UP
            )
        if self.name in _TREES:
            square = float(self._levels)
        elif self.name in _NORMALISED:
            square = 1.0
        elif self.name == "bisr":
            square = matrices.inverted_energy(self._terms, self.rounds)
        elif self.exponent is not None:
            square = matrices.power_energy(self.exponent, self.rounds)
        else:
            square = float(matrices.square_root(self._terms).energy[-1])
        return math.sqrt(square) * _ROUND_UP

    def draws(self) -> int:
        """Return the number of fresh Gaussian vectors that the whole stream uses."""
        if self.name == "tree_honaker":
            return 2 * self.rounds - self.rounds.bit_count() - int(self.drop_root)
        return self.rounds

    def memory_vectors(self) -> int:
        """Return how many vectors the stream holds between rounds, of noisy and of exact rows."""
        if self.name in _TREES:
            return self._levels
        if self.name in _BANDED:
            return self._terms - 1
        buffered = self.name in ("blt", "blt_cn")
        return matrices.blt_design(self.rounds)[0].size if buffered else self.rounds

    def changed_rows(self, t: int) -> range:
        """Return which of the vectors that are held round t may change."""
        held = self.memory_vectors()
        if self.name in _BANDED:  # a ring
            return range(t % held, t % held + 1) if held else range(0)
        return range(t, t + 1) if held == self.rounds and self.name in _APPENDING else range(held)

    def prefix_std(self) -> Array:
        """Return the exact standard deviation of the noise on each prefix, in units of sigma."""
        if self.name in _TREES:
            every = self.name == "tree_honaker"
            variance = matrices.tree_variance(self.rounds, self._levels, every=every)
        elif self.name in _NORMALISED:
            variance = matrices.scaled_variance(self._inverse_series(), self._scales())
        else:
            variance = np.cumsum(self._prefix_series() ** 2)
        return np.sqrt(variance)

    def error_max(self) -> float:
        """Return the largest prefix error, in units of sensitivity / mu (e_max)."""
        return self.column_norm * float(self.prefix_std().max())

    def error_rms(self) -> float:
        """Return the root mean square prefix error, in units of sensitivity / mu (e_rms)."""
        return self.column_norm * math.sqrt(float(np.mean(self.prefix_std() ** 2)))

    def error_bound(self) -> float:
        """Return `error_max`, or for more than 2^14 rounds a bound on it that is found quickly.

        It is exact for the trees, 'toeplitz', 'bisr' and 'power' at any number of rounds.
        """
        return self.column_norm * math.sqrt(_variance_bound(self))

    def encoder(self) -> Array:
        """Return C, draws x rounds: what one unit contribution in round t adds to each node."""
        if self.name in _TREES:
            every = self.name == "tree_honaker"
            return matrices.tree_encoder(self.rounds, self._levels, every=every)
        encoder = matrices.lower_toeplitz(self._series(), self.rounds)
        return encoder / self._scales() if self.name in _NORMALISED else encoder

    def decoder(self) -> Array:
        """Return B, rounds x draws: the prefix noise is B z; B C is lower triangular of ones."""
        if self.name in _TREES:
            every = self.name == "tree_honaker"
            return matrices.tree_decoder(self.rounds, self._levels, every=every)
        if self.name in _NORMALISED:
            return matrices.scaled_decoder(self._inverse_series(), self._scales())
        return matrices.lower_toeplitz(self._prefix_series(), self.rounds)

    def start(self, draw: Draw) -> NoiseStream:
        """Return a new noise stream; ``draw()`` gives one fresh standard normal vector a call."""
        return NoiseStream(self, draw)

    @property
    def _levels(self) -> int:
        """Nodes above the first leaf, for the trees."""
        return matrices.tree_levels(self.rounds, drop_root=self.drop_root)

    @property
    def _terms(self) -> int:
        """Coefficients of the square root, or of its inverse, that are used."""
        return self.rounds if self.bands is None else self.bands

    def _scales(self) -> Array:
        """Norms of the encoder's columns before normalisation, for toeplitz_cn and blt_cn."""
        if self.name == "blt_cn":
            return matrices.blt_norms(self.rounds, np.arange(self.rounds, 0.0, -1.0))
        return matrices.column_scales(self.rounds)

    def _series(self) -> Array:
        """First column of the encoder before normalisation, for all but the trees."""
        if self.name in ("blt", "blt_cn"):
            return matrices.blt_series(self.rounds)
        if self.name == "bisr":
            return matrices.inverted_series(self._terms, self.rounds)
        if self.exponent is not None:
            return matrices.power_series(self.exponent, self.rounds)
        return matrices.square_root(self._terms).root

    def _inverse_series(self, terms: int | None = None) -> Array:
        """First column of the encoder's inverse before normalisation, or its first ``terms``."""
        if self.name == "toeplitz_cn":
            return matrices.square_root(self.rounds).inverse
        terms = self.rounds if terms is None else terms
        if self.name in ("blt", "blt_cn"):
            return matrices.blt_inverse(self.rounds, terms)
        return matrices.inverse_series(self._series(), terms)

    def _prefix_series(self, terms: int | None = None) -> Array:
        """First column of the decoder, or its first ``terms``, for all but trees and the `_cn`."""
        if self.name == "toeplitz":  # the square root of A is its own decoder
            return self._series()
        if self.exponent is not None:
            return matrices.power_series(1.0 - self.exponent, self.rounds)
        if self.name == "bisr":  # sums of the first q_k are r_k, and no more are added
            root = matrices.square_root(self._terms).root
            return np.pad(root, (0, self.rounds - root.size), mode="edge")
        series: Array = np.cumsum(self._inverse_series(terms))
        return series


@lru_cache(maxsize=64)
def _variance_bound(mechanism: PrefixMechanism) -> float:
    """Return the largest variance of a prefix, or for many rounds a bound on it.

    banded  (1 - x) C(x) = 1 - D(x) with coefficients of D that are not negative and add up to 1,
            since those of C fall. A term of the decoder 1 / (1 - D) is thus a mean of the `bands`
            terms before it, and none after is above the largest of these.
    blt     C has c_k^2 <= c_{k-1} c_{k+1}, so that all coefficients of 1 / C but the first are
            negative (Kaluza 1928) and the terms of the decoder, their sums, fall.
    _cn     With scales s_0 >= s_1 >= ..., row t of the decoder is s_t B_t + sum_{i < t}
            (s_i - s_{i+1}) B_i, B_i the rows without: its norm is at most s_0 times their largest.
    """
    rounds, name = mechanism.rounds, mechanism.name
    if name in _TREES:
        levels, every = mechanism._levels, name == "tree_honaker"
        return matrices.largest_tree_variance(rounds, levels, every=every)
    if rounds > _EXACT and name in _NORMALISED:
        return PrefixMechanism(name.removesuffix("_cn"), rounds).error_bound() ** 2
    if rounds > _EXACT and name in ("banded", "blt"):
        window = mechanism.bands or 1
        terms = min(rounds, max(_EXACT, 2 * window))  # fewer operations than the run itself takes
        return matrices.held_variance(mechanism._prefix_series(terms), window, rounds)
    return float(np.max(mechanism.prefix_std())) ** 2


def mechanism(
    name: str = "toeplitz_cn",
    *,
    rounds: int,
    bands: int | None = None,
    drop_root: bool = False,
    exponent: float | None = None,
) -> PrefixMechanism:
    """Return the description of a mechanism for ``rounds`` prefix sums.

    name       one of MECHANISMS; the default has the least error of all here
    rounds     horizon, at least 1, fixed before the run
    bands      for 'banded' and 'bisr', from 1 (independent increments) to rounds (as 'toeplitz')
    drop_root  for the trees, if rounds is a power of two: one level less
    exponent   for 'power', from 0 (independent increments) to 1 (independent prefix sums)

    Raises ParameterError when an argument is out of range or does not belong to the mechanism.

    >>> noise = mechanism(rounds=4)
    >>> stream = noise.start(lambda: np.ones(1))  # in earnest: fresh Gaussian vectors
    >>> [round(float(stream.next()[0]), 6) for _ in range(4)]
    [1.219951, 0.589624, 0.419263, 0.3125]
    >>> round(noise.error_max(), 3), round(mechanism("tree", rounds=4).error_max(), 3)
    (1.369, 2.449)
    """
    return PrefixMechanism(name, rounds, bands, drop_root, exponent)


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
        raise ParameterError(
            f"bands must be at most rounds = {rounds}, got {number}. {hint}", parameter="bands"
        )
    return number


def _check_work(name: str, rounds: int, bands: int | None) -> None:
    """Refuse a mechanism whose norm or error would take long to compute, or much memory."""
    terms = 0 if name in (*_TREES, "blt", "blt_cn") else rounds
    if name == "banded":
        terms = bands or 0
    products = {"banded": 2 * terms * terms, "bisr": terms * ((bands or 0) + 1000)}.get(name, 0)
    if terms > MOST_TERMS or products > MOST_PRODUCTS:
        raise ParameterError(
            f"a {name} sum of {terms:,} terms is too long to compute its noise: at most "
            f"{MOST_TERMS:,} terms and {MOST_PRODUCTS:,} products of them are. Use 'blt_cn', or "
            "fewer rounds or bands."
        )


def _check_drop_root(name: str, rounds: int, drop_root: Any) -> None:
    """Refuse drop_root where there is no root above two halves."""
    if _validate.flag("drop_root", drop_root) and (
        name not in _TREES or rounds < 2 or rounds & (rounds - 1)
    ):
        raise ParameterError(
            "drop_root needs a tree whose rounds are a power of two, at least 2; got "
            f"{name!r} with rounds = {rounds}. Pass drop_root=False."
        )


def _checked_exponent(name: str, exponent: Any) -> float | None:
    """Return the exponent as a float for 'power'; refuse one for any other mechanism."""
    if name != "power":
        if exponent is not None:
            raise ParameterError(
                f"exponent belongs to 'power'; {name!r} takes none, got {exponent!r}. Leave it out."
            )
        return None
    hint = "'power' needs one from 0 to 1, of which 0.5 is 'toeplitz'."
    number = _validate.non_negative("exponent", exponent, hint=hint)
    if number > 1.0:
        raise ParameterError(
            f"exponent must be at most 1, got {number!r}. {hint}", parameter="exponent"
        )
    return number + 0.0  # minus zero is zero
