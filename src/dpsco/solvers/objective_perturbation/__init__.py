"""The minimiser of a randomly tilted objective, with noise on top."""

from .run import SOLVERS as SOLVERS
