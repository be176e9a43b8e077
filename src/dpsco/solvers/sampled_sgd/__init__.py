"""Noisy SGD on secret samples of the rows."""

from . import noisy_sgd, schedule

SOLVERS = (*schedule.SOLVERS, *noisy_sgd.SOLVERS)
