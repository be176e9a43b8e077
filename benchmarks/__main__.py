"""Every benchmark, one after the other: ``make bench``."""

from . import core, loops, noise, parquet

for part in (core, noise, loops, parquet):
    part.main()
    print()
