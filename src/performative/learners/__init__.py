"""What learns: one file a learner, all with the same parts in the same order.

`Learner` is the interface; `pp.testing.check_learner` checks one of your own.
"""

from performative.learners.greedy_sgd import greedy_sgd
from performative.learners.lazy_sgd import lazy_sgd
from performative.learners.learner import Learner
from performative.learners.rgd import rgd
from performative.learners.rrm import rrm
from performative.learners.zgd import zgd
from performative.learners.zgd2 import zgd2

__all__ = ["Learner", "greedy_sgd", "lazy_sgd", "rgd", "rrm", "zgd", "zgd2"]
