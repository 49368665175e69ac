"""What learns: one file a learner, all with the same parts in the same order.

`Learner` is the interface; `pp.testing.check_learner` checks one of your own.
"""

from performative.learners.learner import Learner
from performative.learners.rrm import rrm

__all__ = ["Learner", "rrm"]
