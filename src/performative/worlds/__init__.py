"""Ready-made worlds: the two of the paper's experiments, and those of the literature."""

from performative.worlds.brown import geometric_decay
from performative.worlds.credit import credit
from performative.worlds.izzo import pricing, regression, square_root_mean, two_groups
from performative.worlds.known import Classic, Known
from performative.worlds.mendler_duenner import gaussian_mean
from performative.worlds.miller import (
    performative_labels,
    scale_family,
    self_fulfilling,
    worst_stable_point,
)
from performative.worlds.perdomo import biased_coin, feedback_loop, oscillation
from performative.worlds.quadratic import quadratic
from performative.worlds.strategic import strategic_classification

__all__ = [
    "credit",
    "quadratic",
    "biased_coin",
    "feedback_loop",
    "oscillation",
    "worst_stable_point",
    "scale_family",
    "performative_labels",
    "self_fulfilling",
    "square_root_mean",
    "two_groups",
    "pricing",
    "regression",
    "gaussian_mean",
    "geometric_decay",
    "strategic_classification",
    "Classic",
    "Known",
]
