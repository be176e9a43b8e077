"""Mutated files and messages: each must be read, or refused with an error of dpsco, in short time.

`samples` writes honest ones of every kind, `mutations` and `databases` damage them, `reading` does
with them what a user would, and `__main__` counts, times and weighs it: ``make fuzz``.
"""
