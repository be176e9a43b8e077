"""The path of a fit: plan, choose, run, forecast, checkpoints."""
