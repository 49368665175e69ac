r"""Proximal retraining: repeated risk minimisation that stays near the last model.

$$\theta_{t+1} = \arg\min_{\theta\in\Theta} E_{z\sim D_t(\theta_t)}\,\ell(z, \theta)
+ \frac{\lambda}{2}\|\theta - \theta_t\|^2$$

Its fixed points are the stable points, whatever λ is: λ = 0 is RRM, a large λ a gradient step of
length 1/λ.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from performative import _checks
from performative.learners.learner import Learner
from performative.learners.regularised_rrm import retrain
from performative.learners.rrm import RRM, State

Array = Any


class ProximalRRM(RRM):
    strength: Array

    @property
    def name(self) -> str:
        return f"proximal {super().name}"

    def update(self, state: State, feedback: Any) -> State:
        return retrain(state, feedback, self.strength, state.theta)


def proximal_rrm(strength: float = 1.0, rows: int | None = None) -> Learner:
    r"""Repeated risk minimisation with a penalty λ‖θ − θ_t‖²/2 on how far the model moves.

    Args:
        strength: λ.
        rows: None minimises the population's risk; a number retrains on that many sampled rows.

    >>> import performative as pp
    >>> world = pp.World(response=pp.responses.location(-1.5, pp.Gaussian([1.0], 1.0)),
    ...                  loss=pp.losses.squared(), domain=pp.domains.ball(5.0), rounds=5)
    >>> pp.simulate(world, pp.learners.proximal_rrm(1.0)).deployed.values.ravel().round(3).tolist()
    [0.0, 0.5, 0.375, 0.406, 0.398]

    References:
        Drusvyatskiy and Xiao, "Stochastic optimization with decision-dependent distributions",
        Mathematics of Operations Research 2023.
    """
    strength = _checks.number("strength", strength, low=0.0)
    rows = None if rows is None else _checks.integer("rows", rows, low=1)
    return ProximalRRM(rows, np.asarray(strength))
