"""How much of a round is exogenous: α_t, the weight of P_t in D_t(θ).

Each factory gives a `Mixing`, which the world asks for α_1 … α_T once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from performative import _checks


class Mixing(NamedTuple):
    """A schedule of α_t: either a formula or recorded values, and the words that describe it."""

    recorded: np.ndarray | None
    exponent: float
    start: float
    described: str

    def alphas(self, rounds: int) -> np.ndarray:
        """α_1 … α_T."""
        if self.recorded is None:
            return self.start * np.arange(1, rounds + 1) ** -self.exponent
        if len(self.recorded) < rounds:
            raise ValueError(
                f"alphas must have at least one entry for each of the {rounds} rounds; "
                f"got {len(self.recorded)}."
            )
        return self.recorded[:rounds].copy()


def constant(alpha: float) -> Mixing:
    """The same α in every round; 0 is performative prediction, 1 a world that does not respond.

    >>> import performative as pp
    >>> pp.mixing.constant(0.25).alphas(3).tolist()
    [0.25, 0.25, 0.25]
    """
    alpha = _checks.number("alpha", alpha, low=0.0, high=1.0)
    return Mixing(None, 0.0, alpha, f"constant({alpha:g})")


def polynomial(b: float, a0: float = 1.0) -> Mixing:
    r"""$\alpha_t = a_0 t^{-b}$.

    >>> import performative as pp
    >>> pp.mixing.polynomial(1.0).alphas(4).tolist()
    [1.0, 0.5, 0.3333333333333333, 0.25]
    """
    b = _checks.number("b", b, low=0.0)
    a0 = _checks.number("a0", a0, low=0.0, high=1.0)
    return Mixing(None, b, a0, f"polynomial(b={b:g}, a0={a0:g})")


def recorded(alphas: Any) -> Mixing:
    """Given values, one for each round."""
    alphas = _checks.numbers("alphas", alphas, ndim=1)
    if alphas.size == 0 or alphas.min() < 0 or alphas.max() > 1:
        far = (
            "nothing"
            if alphas.size == 0
            else _checks.plain(max(alphas, key=lambda a: abs(a - 0.5)))
        )
        raise ValueError(f"alphas must be in [0, 1]; got {far}.")
    return Mixing(alphas, 0.0, 1.0, "recorded")
