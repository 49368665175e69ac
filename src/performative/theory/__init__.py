"""The paper's theorems for a given world: do their conditions hold, and what do they promise?

One file a learner, named as in `learners`; `case.py` is what they share, and `lemmas.py` has the
inequalities that the proofs are made of, both sides of each.
"""

from performative.theory import lemmas
from performative.theory.bounds import bound
from performative.theory.conditions import Conditions, conditions
from performative.theory.movement import target_moves
from performative.theory.rates import rate, slope
from performative.theory.surrogates import surrogates

__all__ = [
    "Conditions",
    "bound",
    "conditions",
    "lemmas",
    "rate",
    "slope",
    "surrogates",
    "target_moves",
]
