"""Ready-made worlds: the two of the paper's experiments."""

from performative.worlds.credit import credit
from performative.worlds.quadratic import quadratic

__all__ = ["credit", "quadratic"]
