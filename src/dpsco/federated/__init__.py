"""Federated learning: a coordinator, workers that keep their rows, and two messages per round.

The coordinator sends points down, each worker sends one clipped sum up: once in a run, or in every
round, as the plan says. Who carries the messages is not decided here, but in `transport`: it calls
`Worker.answer` where the rows are and hands what comes back, or its sum, to the `Coordinator`.

Read in this order:

| module         | holds                                                                      |
|----------------|----------------------------------------------------------------------------|
| messages       | `Request`, `Answer`: what travels, exact as JSON                           |
| coordinator    | `Coordinator`: rounds, noise through a ledger, the result                  |
| worker         | `Worker`: answers requests from its own rows, draws secret samples         |
| attendance     | who has answered, kept with the rounds                                     |
| collection     | what a round takes: each worker once, no vector that is too long           |
| agreement      | what all sides must hold in common: the plan                               |
| protection     | whom a run protects: rows or workers; which plans workers can answer       |
| trust          | `Trust`: who has to be believed, in sentences for the certificate          |
| fixed_point    | `FixedPoint`: sums modulo a power of two; `Grid`: rows as bounded integers |
| masking        | `masked`: a secure aggregation, simulated in one process                   |
| pairwise_masks | `PairwiseMasks`: the same between parties who never meet; `Roster`         |
| helper         | `NoiseHelper`: noise against the coordinator itself                        |
| journal        | what has to outlive a process                                              |
| terms          | `Agreement`: a plan and how sums are added, compared before a run          |
| silo           | `Silo`: a party with rows for every round                                  |
| sides          | both sides of a run, from files                                            |
| transport      | messages between processes: HTTPS, or Flower                               |
"""

from .agreement import fingerprint
from .collection import fits_clip
from .coordinator import Coordinator
from .fixed_point import FixedPoint
from .helper import NoiseHelper
from .masking import masked
from .messages import Answer, Request
from .pairwise_masks import PairwiseMasks, Roster
from .protection import protected
from .silo import Silo
from .terms import Agreement
from .trust import Trust
from .worker import Worker

__all__ = [
    # the two sides
    "Coordinator",
    "Worker",
    "Silo",
    # what travels
    "Request",
    "Answer",
    "fits_clip",
    # sums that nobody sees in parts
    "FixedPoint",
    "masked",
    "PairwiseMasks",
    "Roster",
    "NoiseHelper",
    # what holds, and for whom
    "Agreement",
    "Trust",
    "protected",
    "fingerprint",
]
