"""Several runs under one budget."""
