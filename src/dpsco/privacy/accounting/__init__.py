"""What releases cost."""
