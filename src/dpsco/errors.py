"""Every exception and warning that dpsco raises on purpose.

A message has four parts: who needs what, what was given, what to pass, what else would work. It is
raised before any row is read, or it does not depend on the rows.
"""

from __future__ import annotations


class DpscoError(Exception):
    """Base class of all deliberate refusals."""


class ParameterError(DpscoError, ValueError):
    """An argument has the wrong type or lies outside its range."""


class AssumptionError(DpscoError, ValueError):
    """A theorem is asked for something that its conditions do not cover."""


class BudgetError(DpscoError):
    """The requested releases would cost more privacy than the budget allows."""


class LedgerError(DpscoError, RuntimeError):
    """Executed releases differ from the planned ones: nothing may be returned."""


class RandomnessError(DpscoError, RuntimeError):
    """A generator was used in a way that could repeat noise."""


class CertificateError(DpscoError, ValueError):
    """A certificate is damaged, was altered, or claims less privacy loss than its releases cost."""


class OdometerError(DpscoError, RuntimeError):
    """The record of spent budget cannot be read or written."""


class CheckpointError(DpscoError, RuntimeError):
    """A checkpoint cannot be read or written, or belongs to another run."""


class MissingExtraError(DpscoError, ImportError):
    """An optional dependency is needed; the message names the extra to install."""


class DataError(DpscoError, ValueError):
    """A table or file does not have the shape, columns or types that were declared."""


class PrivacyCostWarning(UserWarning):
    """Something costs more privacy than its caller may think."""


class AccuracyWarning(UserWarning):
    """Public facts say that a fit will hardly learn anything, whatever the rows are."""
