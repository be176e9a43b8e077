"""Private rows within public bounds: tables, sources of clipped rows, and bounded queries on them.

| module            | holds                                                              |
|-------------------|--------------------------------------------------------------------|
| bounds, labels    | `Bounds`: the one place where rows and labels are clipped          |
| lengths           | norms of many rows with their error; rescaling that is exact       |
| block             | `Block`: a few clipped rows                                        |
| table, frames     | `from_arrays`, `from_frame`: raw tables, whose rows are not read   |
| arrays, columns   | what they read: arrays, lists, sparse matrices; columns of frames  |
| parquet, files    | `from_parquet`: rows on disk, read in chunks                       |
| origin            | which files a table's rows lie in, to know them again              |
| batches, chunks   | `from_batches`: rows from an iterator, seen once; what a chunk is  |
| shuffle, stream   | rows on disk, shuffled or in the given order                       |
| schema, encoder   | `Schema`, `TableEncoder`: columns to numbers, from public facts    |
| arrow, csvfile    | Arrow columns as arrays; `from_csv`                                |
| draft             | `draft_schema`: a schema from public rows                          |
| source            | `Source`: clipped rows in a fixed order, their sums                |
| queries, vertices | `ClippedGradient`, `ClippedDifference`, `VertexScores`             |
| histograms, units | row lengths and labels in public bins; rows in another unit         |
| objective         | `Objective`: the mean loss for a deterministic optimiser           |
"""

from .block import Block
from .bounds import Bounds
from .labels import Classes, Scaled
from .objective import Objective
from .queries import ClippedDifference, ClippedGradient, Query, VertexScores
from .schema.draft import draft_schema
from .schema.encoder import TableEncoder
from .schema.schema import (
    Category,
    ClassLabel,
    Flag,
    Hashed,
    Ignore,
    Number,
    NumberLabel,
    Schema,
    SignLabel,
)
from .source import MemorySource, Source
from .tables.batches import from_batches
from .tables.csvfile import from_csv
from .tables.frames import from_frame
from .tables.parquet import from_parquet
from .tables.table import Table, from_arrays
from .vertices import VertexSet

__all__ = [
    # bounds
    "Bounds",
    "Classes",
    "Scaled",
    # tables
    "Table",
    "from_arrays",
    "from_frame",
    "from_parquet",
    "from_csv",
    "from_batches",
    # columns to numbers
    "TableEncoder",
    "Schema",
    "Number",
    "Category",
    "Hashed",
    "Flag",
    "Ignore",
    "NumberLabel",
    "ClassLabel",
    "SignLabel",
    "draft_schema",
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
