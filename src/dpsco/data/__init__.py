"""Private rows within public bounds: tables, sources of clipped rows, and bounded queries on them.

| module            | holds                                                              |
|-------------------|--------------------------------------------------------------------|
| bounds, labels    | `Bounds`: the one place where rows and labels are clipped          |
| lengths           | norms of many rows with their error; rescaling that is exact       |
| block             | `Block`: a few clipped rows                                        |
| table, frames     | `from_arrays`, `from_frame`: raw tables, whose rows are not read   |
| source            | `Source`: clipped rows in a fixed order, their sums                |
| queries, vertices | `ClippedGradient`, `ClippedDifference`, `VertexScores`             |
| objective         | `Objective`: the mean loss for a deterministic optimiser           |
"""

from .block import Block
from .bounds import Bounds
from .frames import from_frame
from .labels import Classes
from .objective import Objective
from .queries import ClippedDifference, ClippedGradient, Query, VertexScores
from .source import MemorySource, Source
from .table import Table, from_arrays
from .vertices import VertexSet

__all__ = [
    # bounds
    "Bounds",
    "Classes",
    # tables
    "Table",
    "from_arrays",
    "from_frame",
    # clipped rows
    "Source",
    "MemorySource",
    "Block",
    # what is asked of them
    "Query",
    "ClippedGradient",
    "ClippedDifference",
    "VertexScores",
    "VertexSet",
    "Objective",
]
