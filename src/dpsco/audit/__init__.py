"""Checks that a solver keeps its promise: replay on neighbours, and bugs that checks must catch.

Read in this order:

| module       | holds                                                                           |
|--------------|---------------------------------------------------------------------------------|
| replay       | `record` a run, `replay` it on a neighbour, `compare` the two, `noise` of a run |
| work         | `counted`: what runs compute on the rows while a block lasts                    |
| contract     | what every solver must pass, made of the two                                    |
| planted      | `BUGS`: deliberate privacy bugs, and `planted`, which plants one in a solver    |
| stationarity | `fw_gap`, `prox_stationarity`: how far weights are from a stationary point, on  |
|              | public rows or paid for                                                         |

Nothing here is private but a stationarity with a budget: a recording holds what the rows gave
before the noise. Audit with made-up rows.
"""

from .planted import BUGS, Bug, planted
from .replay import Event, Recording, compare, declared_sensitivity, noise, record, replay
from .stationarity import FrankWolfeGap, ProxStationarity, fw_gap, prox_stationarity
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
    "planted",
    "BUGS",
    "Bug",
    "fw_gap",
    "FrankWolfeGap",
    "prox_stationarity",
    "ProxStationarity",
]
