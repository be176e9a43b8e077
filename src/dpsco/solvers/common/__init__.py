"""What several families share: clips, smoothing, passes, certified minimisation, phases."""
