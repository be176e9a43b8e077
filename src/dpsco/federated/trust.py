"""Who has to be believed in a federated run, in sentences that go into its certificate."""

from __future__ import annotations

import enum
from typing import Any

from .. import _validate


class Trust(str, enum.Enum):
    """What the coordinator gets to see, and so towards whom privacy holds.

    ``trusted_coordinator``: it sees every worker's sum. Privacy holds towards everybody else.
    ``secure_aggregation``: it sees the exact sum of each batch and nothing smaller. Privacy holds
    towards everybody else.
    ``noise_helpers``: it sees sums that hold the noise of every helper. Privacy holds towards
    everybody else, and towards the coordinator too if at least one helper is honest.
    """

    TRUSTED_COORDINATOR = "trusted_coordinator"
    SECURE_AGGREGATION = "secure_aggregation"
    NOISE_HELPERS = "noise_helpers"

    @classmethod
    def parse(cls, value: Any) -> Trust:
        """Return the trust model named by ``value``; refuse unknown names."""
        if isinstance(value, cls):
            return value
        return cls(_validate.choice("trust", value, {member.value for member in cls}))

    @property
    def masked(self) -> bool:
        """Whether only sums over a whole round reach the coordinator."""
        return self is not Trust.TRUSTED_COORDINATOR

    @property
    def model(self) -> str:
        """The certificate's line on trust."""
        return _MODELS[self]

    def trusted(self, unit: str, *, once: bool = True) -> tuple[str, ...]:
        """Return what is taken on trust.

        Args:
            unit: whom the run protects, "row" or "worker".
            once: whether a worker takes part in one round of the run, or in every round.
        """
        rounds = "one round of the run" if once else "every round of the run, with the same rows,"
        attendance = _ONCE[unit].format(rounds=rounds)
        return (_WORKERS.format(unit=unit), attendance, _PUBLIC, *_COORDINATOR[self])


_MODELS = {
    Trust.TRUSTED_COORDINATOR: (
        "trusted coordinator: it sees the exact sum of every worker and adds the noise; privacy "
        "holds towards everybody else"
    ),
    Trust.SECURE_AGGREGATION: (
        "secure aggregation: the coordinator sees the exact sum of each batch and adds the noise; "
        "privacy holds towards everybody else, not towards the coordinator"
    ),
    Trust.NOISE_HELPERS: (
        "secure aggregation with noise helpers: the coordinator sees noisy sums and adds noise of "
        "its own; privacy holds towards everybody else, and towards the coordinator if at least "
        "one helper is honest"
    ),
}
CAVEAT = (
    "if the coordinator was interrupted, it went on from its checkpoint with the round that was "
    "open, and with no other answers to a round that was closed; nobody who sees the output has "
    "read the checkpoint, or has resumed an old copy of it with other answers"
)
"""What a run rests on that has a checkpoint: its open round may be collected anew, from others."""

_WORKERS = (
    "every worker clips as stated under 'enforced': one that does not can spoil the weights, and "
    "loses the protection of its own rows, not that of a {unit} elsewhere"
)
_ONCE = {
    "row": (
        "a row is held by one worker; each worker takes part in {rounds} and once in "
        "it, under a name that nobody else can use"
    ),
    "worker": (
        "nobody is behind two workers; each takes part in {rounds} and once in it, "
        "under a name that nobody else can use"
    ),
}
COINS = (
    "every worker draws the coin of each {unit} anew in each round, with the probability that the "
    "plan states, and keeps it to itself; it answers whatever the coins say"
)
"""What a run on secret samples rests on: workers draw them, each for itself."""
_PUBLIC = "who holds which rows, who is asked and who answers was decided without looking at rows"
_COORDINATOR = {
    Trust.TRUSTED_COORDINATOR: (
        "the coordinator keeps the workers' sums to itself, and nobody else reads them on their "
        "way",
    ),
    Trust.SECURE_AGGREGATION: (
        "the coordinator keeps the exact sum of each batch to itself",
        "the secure aggregation shows the coordinator the sum of a round, once, and nothing else",
    ),
    Trust.NOISE_HELPERS: (
        "the coordinator keeps the sum of each batch, as noisy as the helpers made it, to itself",
        "towards the coordinator: one helper at least follows the protocol and keeps its noise to "
        "itself, and the secure aggregation shows the coordinator the sum over workers and helpers "
        "of a round, once, and nothing else",
    ),
}
