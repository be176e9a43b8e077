"""Federated learning: a coordinator, workers that keep their rows, and two messages per round.

The coordinator sends points down, each worker sends one clipped sum up: once in a run, or in every
round, as the plan says. Who carries the messages is not decided here: a transport calls
`Worker.answer` where the rows are and hands what comes back, or its sum, to the `Coordinator`.

Read in this order:

| module      | holds                                                                      |
|-------------|----------------------------------------------------------------------------|
| messages    | `Request`, `Answer`: what travels, exact as JSON                           |
| coordinator | `Coordinator`: rounds, noise through a ledger, the result                  |
| worker      | `Worker`: answers requests from its own rows, draws secret samples         |
| attendance  | who has answered, kept with the rounds                                     |
| collection  | what a round takes: each worker once, no vector that is too long           |
| agreement   | what all sides must hold in common: the plan                               |
| protection  | whom a run protects: rows or workers; which plans workers can answer       |
| trust       | `Trust`: who has to be believed, in sentences for the certificate          |
| fixed_point | `FixedPoint`: sums modulo a power of two; `Grid`: rows as bounded integers |
| masking     | `masked`: a secure aggregation, simulated in one process                   |
| helper      | `NoiseHelper`: noise against the coordinator itself                        |
"""

from .agreement import fingerprint
from .collection import fits_clip
from .coordinator import Coordinator
from .fixed_point import FixedPoint
from .helper import NoiseHelper
from .masking import masked
from .messages import Answer, Request
from .protection import protected
from .trust import Trust
from .worker import Worker

__all__ = [
    # the two sides
    "Coordinator",
    "Worker",
    # what travels
    "Request",
    "Answer",
    "fits_clip",
    # sums that nobody sees in parts
    "FixedPoint",
    "masked",
    "NoiseHelper",
    # what holds, and for whom
    "Trust",
    "protected",
    "fingerprint",
]
