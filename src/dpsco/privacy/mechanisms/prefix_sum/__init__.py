"""Correlated noise for prefix sums."""
