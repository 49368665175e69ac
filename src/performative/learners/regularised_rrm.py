r"""Regularised retraining: repeated risk minimisation held back by a penalty of the learner's own.

$$\theta_{t+1} = \arg\min_{\theta\in\Theta} E_{z\sim D_t(\theta_t)}\,\ell(z, \theta)
+ \frac{\lambda}{2}\|\theta - c\|^2$$

The penalty lowers the contraction factor from εβ_z/μ to εβ_z/(μ+λ) and moves what the iteration
converges to. It is not part of the world's loss: regret is measured without it.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from performative import _checks
from performative.learners.feedback import Problem
from performative.learners.learner import Learner
from performative.learners.rrm import RRM, State
from performative.targets.solve import Field, solve

Array = Any


class RegularisedRRM(RRM):
    strength: Array
    center: Array

    @property
    def name(self) -> str:
        return f"regularised {super().name}"

    def prepare(self, problem: Problem) -> Learner:
        center = np.broadcast_to(self.center, (problem.parameters,)).copy()
        return dataclasses.replace(self, center=center)

    def update(self, state: State, feedback: Any) -> State:
        return retrain(state, feedback, self.strength, self.center)


def retrain(state: State, feedback: Any, strength: Array, center: Array) -> State:
    """The minimiser of the risk on the deployed model's data, pulled towards `center`."""
    identity = np.eye(len(state.theta))
    gradient: Field = lambda theta: feedback.gradient(theta) + strength * (theta - center)  # noqa: E731
    hessian: Field = lambda theta: feedback.hessian(theta) + strength * identity  # noqa: E731
    found = solve(gradient, hessian, feedback.domain, state.theta, state.memory)
    return State(found.point, found.memory)


def regularised_rrm(strength: float = 1.0, center: Any = 0.0, rows: int | None = None) -> Learner:
    r"""Repeated risk minimisation with a penalty λ‖θ − c‖²/2 of the learner's own.

    Args:
        strength: λ.
        center: c, a number or one for each parameter.
        rows: None minimises the population's risk; a number retrains on that many sampled rows.

    >>> import performative as pp
    >>> world = pp.World(response=pp.responses.location(-1.5, pp.Gaussian([1.0], 1.0)),
    ...                  loss=pp.losses.squared(), domain=pp.domains.ball(5.0), rounds=5)
    >>> pp.simulate(world, pp.learners.regularised_rrm(2.0)).deployed.values.ravel().round(3).tolist()
    [0.0, 0.333, 0.167, 0.25, 0.208]
    >>> pp.simulate(world, pp.learners.rrm()).deployed.values.ravel().round(3).tolist()  # diverges
    [0.0, 1.0, -0.5, 1.75, -1.625]

    References:
        Perdomo, Zrnic, Mendler-Dünner and Hardt, "Performative prediction", ICML 2020.
    """
    strength = _checks.number("strength", strength, low=0.0)
    center = _checks.numbers("center", center, ndim=(0, 1))
    rows = None if rows is None else _checks.integer("rows", rows, low=1)
    return RegularisedRRM(rows, np.asarray(strength), center)
