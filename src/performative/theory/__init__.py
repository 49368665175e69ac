"""The paper's theorems for a given world: do their conditions hold, and what do they promise?

One file a learner, named as in `learners`; `case.py` is what they share, and `lemmas.py` has the
inequalities that the proofs are made of, both sides of each.
"""

from performative.theory import lemmas
from performative.theory.bounds import bound

__all__ = ["bound", "lemmas"]
