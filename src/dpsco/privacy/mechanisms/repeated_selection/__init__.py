"""The best of a secret number of runs."""
