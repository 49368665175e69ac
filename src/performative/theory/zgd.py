r"""Theorem 5.3: the expected optimality regret of ZGD, on the arms that are deployed.

The display of `zgd2.py` with G² = d²F²/δ². The proof needs F for E ℓ² ≤ F² alone, so that F here is
the largest root mean square of the loss: normal data have one, and no bound on the loss itself.
"""

from __future__ import annotations

import numpy as np

from performative.theory.case import Case
from performative.theory.zgd2 import display, estimate_of, tight_display

THEOREM = "Theorem 5.3"
TARGET = "optimal"


def paper(case: Case) -> np.ndarray:
    """The theorem, for every horizon."""
    return display(case, estimate_of(case).size(case.world.parameters, case.learner.delta))


def tight(case: Case) -> np.ndarray:
    """Without F in the price of shrinking the domain; the noise of the estimate still needs it."""
    return tight_display(case, estimate_of(case).size(case.world.parameters, case.learner.delta))
