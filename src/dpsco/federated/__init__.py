"""Federated learning: a coordinator, workers, and two messages per round.

The coordinator sends points down, each worker sends one clipped sum up, once in a run. Who carries
the messages is not decided here: an engine calls `Worker.answer` where the rows are and hands what
comes back, or its sum, to the `Coordinator`.

| module      | holds                                                                      |
|-------------|----------------------------------------------------------------------------|
| coordinator | `Coordinator`: rounds, noise through a ledger, the result                  |
| worker      | `Worker`: answers one task of a run from its own rows                      |
| messages    | `Task`, `Answer`: what travels, exact as JSON                              |
| fixed_point | `FixedPoint`: contributions as integers, sums modulo a power of two        |
| masking     | `masked`: a secure aggregation, simulated in one process                   |
| helper      | `NoiseHelper`: noise against the coordinator itself                        |
| trust       | `Trust`: who has to be believed, in sentences for the certificate          |
| agreement   | what all sides must hold in common: the plan                               |
| protection  | whom a run protects: rows or workers                                       |
| attendance  | who has answered, kept with the rounds                                     |
| collection  | what a round takes: each worker once, no vector that is too long           |
"""

from .agreement import fingerprint
from .collection import fits_clip
from .coordinator import Coordinator
from .fixed_point import FixedPoint
from .helper import NoiseHelper
from .masking import masked
from .messages import Answer, Task
from .protection import protected
from .trust import Trust
from .worker import Worker

__all__ = [
    # the two sides
    "Coordinator",
    "Worker",
    # what travels
    "Task",
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
