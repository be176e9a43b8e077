"""How large a file may be, and how much work its numbers may ask for: all limits in one place.

A file is an input like any other. Whoever opens one must get an answer or a refusal within about
two seconds and half a gigabyte, whatever it says; so every number that decides how long a loop or
an array is has a limit, which is checked before. Limits follow the work, as measured on one core,
and lie beyond what plans, tables and models of that size can be run with.
"""

from __future__ import annotations

from dataclasses import dataclass

_MIB = 2**20

# -- files and messages ----------------------------------------------------------------------------


@dataclass(frozen=True)
class JsonLimits:
    """What JSON text may hold: each part is checked before the next one is looked at."""

    size: int  # bytes
    values: int = 4_000_000  # numbers, texts: 60 bytes each in memory, at most
    containers: int = 500_000  # objects and lists: 300 bytes each
    depth: int = 64  # of lists and objects within each other; our own files have 12
    any_number: bool = False  # whether whoever asks looks at the size of numbers, and names them


PLAN = JsonLimits(32 * _MIB)  # an ellipsoid of 1,000 weights takes 20 MiB
CERTIFICATE = JsonLimits(32 * _MIB)  # 100,000 releases take 20 MiB
SCHEMA = JsonLimits(32 * _MIB, any_number=True)  # two million categories of 14 letters
MODEL = JsonLimits(512 * _MIB, values=30_000_000)  # 20 million coefficients
MESSAGE = JsonLimits(512 * _MIB, values=400, containers=20)  # two points of 24 million numbers
TASK = JsonLimits(64 * _MIB, any_number=True)  # the head of a cluster's message: a schema is in it
AGREEMENT = JsonLimits(_MIB, values=10_000, containers=100)  # names, keys and terms of a run
JOURNAL = JsonLimits(64 * _MIB, values=4_000, containers=20)  # a line of it is a message's head
STORED = JsonLimits(32 * _MIB)  # a text in an odometer or a checkpoint

# -- numbers ---------------------------------------------------------------------------------------

MOST_ROWS = 10**15
"""Rows that a plan or a release may speak of: their number is exact as float64, with room."""

MOST_WEIGHTS = 50_000_000
"""Weights of a plan, and columns of an encoded table: a vector of them takes 400 MB."""

MOST_COUNT = 10**18
"""How often a release may be repeated; accountants that cannot compose so many refuse sooner."""

MOST_ROUNDS = 10_000_000
"""Rounds, steps on samples, or passes of a plan."""

MOST_BATCHES = 1_000_000
"""Batches of one pass: each takes a pair of row numbers, 150 bytes."""

MOST_PHASES = 64
"""Phases that halve the rows: more than any table has."""

MOST_TERMS = 1_000_000
"""Coefficients of a prefix-sum mechanism."""

MOST_PRODUCTS = 10**9
"""Products of such coefficients, where its norm or its error takes more than one each."""

MOST_MEMBERS = 256
"""Parties of a masked sum: each draws a mask with every other one."""

MESSAGE_HEAD = 32 * 2**10
"""Bytes of a message besides its vectors: names of 256 parties take most of them."""

MOST_RELEASES = 50_000
"""Different releases of a plan, a certificate or a spend: each takes 20 microseconds and 1 kB."""
