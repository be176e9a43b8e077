"""Every exception and warning that dpsco raises on purpose.

A message has four parts: who needs what, what was given, what to pass, what else would work. It is
raised before any row is read, or it does not depend on the rows.

A refusal knows which parameter it is about. Its text is for Python; another face (a command line, a
form) calls parameters by other names, and `describe` puts those in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType


class DpscoError(Exception):
    """Base class of all deliberate refusals."""


class _RefusalError(DpscoError, ValueError):
    """A refusal that may name a parameter.

    Args:
        message: what is wrong; where a parameter is named, it begins with that name.
        parameter: the name of the parameter, as Python spells it.
        hint: what to do about it, in the words of Python; printed after the message.
    """

    def __init__(self, message: str = "", *, parameter: str | None = None, hint: str = "") -> None:
        super().__init__(f"{message} {hint}" if hint else message)
        self.message, self.parameter, self.hint = message, parameter, hint


class ParameterError(_RefusalError):
    """An argument has the wrong type or lies outside its range."""


class AssumptionError(_RefusalError):
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


class ClusterError(DpscoError, RuntimeError):
    """Workers of a cluster cannot be reached, do not answer, or are of another version."""


class PrivacyCostWarning(UserWarning):
    """Something costs more privacy than its caller may think."""


class AccuracyWarning(UserWarning):
    """Public facts say that a fit will hardly learn anything, whatever the rows are."""


class OutlookWarning(AccuracyWarning):
    """Real tables of such a size and budget lost most of what there is to learn to noise."""


def describe(
    error: Exception,
    name: Callable[[str], str],
    *,
    hints: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Return what an error says, in the words of a face.

    Args:
        error: any error; only one that knows its parameter is worded anew.
        name: how the face calls a parameter: a flag, a keyword, a field of JSON.
        hints: the face's own advice on a parameter, in place of that for Python.

    >>> def flag(parameter: str) -> str:
    ...     return "--" + parameter.replace("_", "-")
    >>> error = ParameterError("feature_norm must be positive, got 0.", parameter="feature_norm")
    >>> str(error)
    'feature_norm must be positive, got 0.'
    >>> describe(error, flag, hints={"feature_norm": "A schema computes it."})
    '--feature-norm must be positive, got 0. A schema computes it.'
    """
    parameter = getattr(error, "parameter", None)
    if not isinstance(error, _RefusalError) or parameter is None:
        return str(error)
    if error.message.startswith(parameter):
        message = name(parameter) + error.message.removeprefix(parameter)
    else:
        message = f"{name(parameter)}: {error.message}"
    hint = hints.get(parameter, error.hint)
    return f"{message} {hint}" if hint else message
