"""Checks that a solver keeps its promise: replay on neighbours, and bugs that checks must catch.

Read in this order:

| module       | holds                                                                           |
|--------------|---------------------------------------------------------------------------------|
| replay       | `record` a run, `replay` it on a neighbour, `compare` the two, `noise` of a run |
| work         | `counted`: what runs compute on the rows while a block lasts                    |
| contract     | what every solver must pass, made of the two                                    |
| planted      | `BUGS`: deliberate privacy bugs, and `planted`, which plants one in a solver    |
| gap          | `fw_gap`: the Frank-Wolfe gap of weights, on public rows or paid for            |
| stationarity | how far weights are from a stationary point, on public rows or paid for         |

Nothing here is private but `fw_gap` with a budget: a recording holds what the rows gave before the
noise. Audit with made-up rows.
"""

from .gap import FrankWolfeGap, fw_gap
from .planted import BUGS, Bug, planted
from .replay import Event, Recording, compare, declared_sensitivity, noise, record, replay
from .stationarity import ProxStationarity, prox_stationarity
from .work import counted

__all__ = [
    "record",
    "replay",
    "compare",
    "noise",
    "declared_sensitivity",
    "Recording",
    "Event",
    "counted",
    "prox_stationarity",
    "ProxStationarity",
    "planted",
    "BUGS",
    "Bug",
    "fw_gap",
    "FrankWolfeGap",
]
