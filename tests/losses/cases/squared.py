"""The squared loss."""

from dpsco import losses

CASES = [(losses.Squared(), lambda u, y: (u - y) ** 2 / 2)]
