"""Noise against the coordinator: persistent helpers whose noise is in every sum that it sees.

Each helper holds a root of its own and adds, as one more participant of the secure aggregation, the
noise of a whole run: full variance, correlated over rounds as the plan's mechanism says. A sum of
independent streams of noise holds each of them, so what the coordinator sees in all rounds is as
private as the helper's own run, as long as one helper is honest. The noise is rounded to the grid
of the integer sums, which is post-processing: rounding commutes with adding an integer. Noise of a
single sum is a multiple of a finer power of two, and exact. Correlated noise is continuous: if it
were made of multiples, their spacing and that of the grid would favour some integers.

Noise is not shared out among helpers, which would need all of them to be honest, nor made by the
workers, who come and go: correlated noise needs the same source in every round.
"""

from __future__ import annotations

import dataclasses
import threading
from typing import cast

import numpy as np

from ..errors import AssumptionError, LedgerError, ParameterError
from ..privacy.certificate import Certificate
from ..privacy.ledger import Ledger, PrefixNoise
from ..privacy.mechanisms import PoissonGaussianRelease, PrefixSumRelease
from ..privacy.randomness import Randomness
from ..privacy.release import NonCopyable
from ..solvers.engine import EnginePlan
from .agreement import agreed_encoding, checked, enforced, fingerprint, trusted
from .fixed_point import FixedPoint
from .messages import Answer, Floats, Request, check_name
from .pairwise_masks import PairwiseMasks
from .protection import rounds_of
from .trust import Trust


class NoiseHelper(NonCopyable):
    """The noise of one run, a round after the other, for a sum that others cannot look into.

    It answers each round once, in order, for the first run that asks. A round that is collected
    again has no second answer: two sums with one noise would give their difference away.

    Args:
        plan: the public plan of the run, which says how much noise that is.
        name: public, and no worker's.
        encoding: the one that was agreed on, with room for the helpers' noise.
        randomness: the helper's own secret; secure by default.
        masks: hide its noise from whoever adds it; None: that is the engine's business.

    Raises:
        AssumptionError, ParameterError: the plan is not one of a federated run; see `Coordinator`.
    """

    def __init__(
        self,
        plan: EnginePlan,
        *,
        name: str,
        encoding: FixedPoint,
        randomness: Randomness | None = None,
        masks: PairwiseMasks | None = None,
    ) -> None:
        trust = Trust.NOISE_HELPERS
        self.plan, self.name = checked(plan), check_name(name)
        self.encoding = cast(FixedPoint, agreed_encoding(plan, trust, encoding, helpers=1))
        self._ledger = Ledger(
            plan.releases(),
            plan.budget,
            randomness=randomness,
            enforced=enforced(plan, encoding),
            trusted=(*plan.trusted, *trusted(plan, trust, encoding)),
        )
        self._masks = masks
        self._size, self._rounds = plan.task.n_weights, rounds_of(plan)
        self._fingerprint = fingerprint(plan)
        self._stream: PrefixNoise | None = None
        self._run: str | None = None
        self._round = 0
        self._certificate: Certificate | None = None
        self._lock = threading.Lock()

    def answer(self, request: Request) -> Answer:
        """Return the helper's noise for a round, once.

        Raises:
            AssumptionError: the request belongs to another plan, clip, encoding or trust model.
            LedgerError: it belongs to another run, or is not of the next round.
            ParameterError: this is no request.
        """
        if not isinstance(request, Request):
            raise ParameterError(f"a helper answers a Request, got {type(request).__name__}.")
        with self._lock:
            self._check(request)
            self._run = request.run
            self._round += 1  # first: whatever happens below, this noise is used up
            vector = self.encoding.noise(self._noise(self._round - 1))
            if self._masks is not None:
                vector = self._masks.hide(vector, request)
            return Answer(run=request.run, round=request.round, worker=self.name, vector=vector)

    def certificate(self) -> Certificate:
        """Return what the coordinator can learn at most, if this helper is honest.

        Raises:
            LedgerError: rounds are missing; the helper can go on with them.
        """
        with self._lock:
            if self._round < len(self._rounds):
                raise LedgerError(
                    f"helper {self.name!r} is at round {self._round} of {len(self._rounds)}: its "
                    "certificate speaks of all of them."
                )
            if self._certificate is None:
                model = Trust.NOISE_HELPERS.model
                self._certificate = dataclasses.replace(self._ledger.close(), trust_model=model)
            return self._certificate

    def _check(self, request: Request) -> None:
        """Refuse a request that the noise does not cover."""
        planned = self._rounds[min(request.round, len(self._rounds) - 1)].release
        if (
            request.plan != self._fingerprint
            or request.trust is not Trust.NOISE_HELPERS
            or request.encoding != self.encoding
            or not request.clip <= planned.bound
            or request.size != self._size
        ):
            raise AssumptionError(
                f"helper {self.name!r} does not answer this request: its plan, trust model, "
                "encoding, clip or size is not the one agreed on."
            )
        masks = self._masks
        reason = masks.objection(request) if masks is not None else ""
        if reason or (masks is None and request.members is not None):
            raise AssumptionError(
                f"helper {self.name!r} does not answer this request: "
                f"{reason or 'it adds answers behind masks, and the helper has none'}."
            )
        if request.run != (self._run or request.run):
            raise LedgerError(f"helper {self.name!r} belongs to another run: make a new one.")
        if request.round != self._round or request.round >= len(self._rounds):
            raise LedgerError(
                f"helper {self.name!r} answers round {self._round} of {len(self._rounds)} next, "
                f"got a request of round {request.round}. No round has two answers."
            )

    def _noise(self, t: int) -> Floats:
        """Return the noise of a round: of its sum, or what it adds to that of the prefix sums."""
        round, nothing = self._rounds[t], np.zeros(self._size)
        release, rows = round.release, round.rows
        if isinstance(release, PrefixSumRelease):
            if self._stream is None or round.part == 0:
                self._stream = self._ledger.prefix_noise(
                    self._size,
                    bound=release.bound,
                    sigma=release.sigma,
                    mechanism=release.mechanism,
                    rows=release.rows,
                )
            return self._stream.next()
        if isinstance(release, PoissonGaussianRelease):  # of a sample that the workers draw
            sample = self._ledger.poisson(
                bound=release.bound,
                sigma=release.sigma,
                rate=release.rate,
                rows=rows,
                pair=release.pair,
            )
            return sample.release(nothing)
        return self._ledger.gaussian(nothing, bound=release.bound, sigma=release.sigma, rows=rows)

    def __repr__(self) -> str:
        return f"<NoiseHelper {self.name!r}: round {self._round} of {len(self._rounds)}>"
