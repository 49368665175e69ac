"""What learns: one file a learner, all with the same parts in the same order.

For the stable points: `rrm` and its relatives `regularised_rrm`, `proximal_rrm`, `averaged_rrm` and
`pooled_rrm`, `rgd`, `greedy_sgd`, `lazy_sgd`, and `ader`, which needs no path length. For the optimal
points: `zgd2`, `zgd` and `pbgd` from observed risks or losses, `perfgd` and `plug_in` from a declared
family of responses. `Learner` is the interface; `pp.testing.check_learner` checks one of your own.
"""

from performative.learners.ader import ader
from performative.learners.averaged_rrm import averaged_rrm
from performative.learners.greedy_sgd import greedy_sgd
from performative.learners.lazy_sgd import lazy_sgd
from performative.learners.learner import Learner
from performative.learners.pbgd import pbgd
from performative.learners.perfgd import perfgd
from performative.learners.plug_in import plug_in
from performative.learners.pooled_rrm import pooled_rrm
from performative.learners.proximal_rrm import proximal_rrm
from performative.learners.regularised_rrm import regularised_rrm
from performative.learners.rgd import rgd
from performative.learners.rrm import rrm
from performative.learners.zgd import zgd
from performative.learners.zgd2 import zgd2

__all__ = [
    "Learner",
    "ader",
    "averaged_rrm",
    "greedy_sgd",
    "lazy_sgd",
    "pbgd",
    "perfgd",
    "plug_in",
    "pooled_rrm",
    "proximal_rrm",
    "regularised_rrm",
    "rgd",
    "rrm",
    "zgd",
    "zgd2",
]
