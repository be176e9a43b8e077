"""Measurements: each module prints a small table and is run with ``python -m``."""
