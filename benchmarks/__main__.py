"""Every benchmark, one after the other: ``make bench``."""

from . import core, loops, noise, one_pass, parquet, speed

for part in (core, noise, loops, one_pass, parquet, speed):
    part.main()
    print()
