"""What may leave, one mechanism each."""
