"""Private rows within public bounds: tables, sources of clipped rows, and bounded queries on them.

Read in this order, which is that of a row on its way into a sum:

| room           | holds                                                                      |
|----------------|----------------------------------------------------------------------------|
| tables/        | where rows come from: arrays, files, streams, a cluster. Rows stay unread  |
| schema/        | what columns mean, declared before they are read; columns to numbers       |
| labels         | what a label may be, and what is made of those that may not                |
| bounds         | `Bounds`: the one place where rows and labels are clipped                  |
| row_norms      | norms of many rows with their rounding error; rescaling that is exact      |
| records        | public records as JSON and back, for files and messages                    |
| block          | `Block`: a few clipped rows, the only form in which rows reach a query     |
| source         | `Source`: clipped rows in a fixed order, and their sums                    |
| parallel_sum   | how leaves of rows are summed, by one thread or several: the same bits     |
| queries        | `Query`: what one row adds, never more than its bound; clipped gradients   |
| gradient_norms | how many gradients are how long, for clips that a run finds                |
| transformed    | gradients bounded by a user's rule and a clip                              |
| scores         | `ScoreGradient`: what a row says of the scale of scores and the intercepts |
| vertices       | `VertexSet`: candidates for a selection, and `VertexScores`, their query   |
| histograms     | row norms, labels, columns in public bins, for bounds learnt privately     |
| counts         | how many rows are present and filled in                                    |
| contributions  | what each single row adds, for workers that round rows one by one          |
| moments        | sums of rows and of their squares, for units that are learnt privately     |
| units          | `Units`: how raw rows are measured before they are clipped                 |
| objective      | `Objective`: the mean loss, for a deterministic optimiser; not private     |
| prediction     | rows to predict: the caller's own, so that an error may say what is wrong  |
"""

from .block import Block
from .bounds import Bounds
from .gradient_norms import GradientNorms, TrackedGradient
from .labels import Classes, Scaled
from .objective import Objective
from .queries import ClippedCoordinates, ClippedDifference, ClippedGradient, InUnits, Query
from .schema.draft import draft_schema
from .schema.encoder import TableEncoder
from .schema.schema import (
    Category,
    ClassLabel,
    Date,
    Flag,
    Hashed,
    Ignore,
    Number,
    NumberLabel,
    Schema,
    SignLabel,
    Text,
)
from .scores import ScoreGradient
from .source import MemorySource, Source
from .tables.batches import from_batches
from .tables.cluster.table import from_cluster
from .tables.csvfile import from_csv
from .tables.frames import from_frame
from .tables.parquet import from_parquet
from .tables.shuffled_files import shuffle_files
from .tables.table import Table, from_arrays
from .vertices import VertexScores, VertexSet

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
    "shuffle_files",
    "from_cluster",
    # columns to numbers
    "TableEncoder",
    "Schema",
    "Number",
    "Date",
    "Category",
    "Hashed",
    "Text",
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
    "ClippedCoordinates",
    "ClippedGradient",
    "ClippedDifference",
    "InUnits",
    "GradientNorms",
    "ScoreGradient",
    "TrackedGradient",
    "VertexScores",
    "VertexSet",
    "Objective",
]
