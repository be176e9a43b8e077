"""What the columns of a table mean, declared before it is read."""
