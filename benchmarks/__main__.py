"""Every benchmark, one after the other: ``make bench``."""

from . import core, noise

for part in (core, noise):
    part.main()
    print()
