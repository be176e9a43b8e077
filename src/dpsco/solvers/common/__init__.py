"""What several families share: clips, smoothing, passes over rows, certified minimisation, phases."""
