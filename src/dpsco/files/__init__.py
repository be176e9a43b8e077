"""Files on disk: limits, reading, writing, commits of several at once."""
