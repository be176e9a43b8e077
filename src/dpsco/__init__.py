"""dpsco: models fitted on private rows, with a certificate of the privacy they cost."""

from ._version import __version__

__all__ = ["__version__"]
