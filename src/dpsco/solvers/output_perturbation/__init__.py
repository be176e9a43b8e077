"""A sequential pass of SGD over the rows, with noise on its output."""

from .schedule import SOLVERS as SOLVERS
