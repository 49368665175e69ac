r"""Averaged retraining: repeated risk minimisation that goes a part of the way.

$$\theta_{t+1} = (1-w)\,\theta_t + w \arg\min_{\theta\in\Theta} E_{z\sim D_t(\theta_t)}\,\ell(z, \theta)$$

Its fixed points are the stable points. Where retraining overshoots, swinging from side to side, a
part of the way converges.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from performative import _checks
from performative.learners.learner import Learner
from performative.learners.rrm import RRM, State

Array = Any


class AveragedRRM(RRM):
    weight: Array

    @property
    def name(self) -> str:
        return f"averaged {super().name}"

    def update(self, state: State, feedback: Any) -> State:
        retrained = super().update(state, feedback)
        theta = state.theta + self.weight * (retrained.theta - state.theta)
        return State(theta, retrained.memory)


def averaged_rrm(weight: float = 0.5, rows: int | None = None) -> Learner:
    r"""Repeated risk minimisation, averaged with the last model.

    Args:
        weight: w in (0, 1]; 1 is RRM.
        rows: None minimises the population's risk; a number retrains on that many sampled rows.

    >>> import performative as pp
    >>> world = pp.World(response=pp.responses.location(-1.5, pp.Gaussian([1.0], 1.0)),
    ...                  loss=pp.losses.squared(), domain=pp.domains.ball(5.0), rounds=5)
    >>> pp.simulate(world, pp.learners.averaged_rrm(0.5)).deployed.values.ravel().round(3).tolist()
    [0.0, 0.5, 0.375, 0.406, 0.398]

    References:
        Mann, "Mean value methods in iteration", Proceedings of the AMS 1953.
    """
    weight = _checks.number("weight", weight, low=0.0, high=1.0, open_low=True)
    rows = None if rows is None else _checks.integer("rows", rows, low=1)
    return AveragedRRM(rows, np.asarray(weight))
