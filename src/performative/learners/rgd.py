r"""Repeated gradient descent, section 4.1 of the paper: one step on what the last model brought about.

$$\theta_{t+1} = \Pi_\Theta\big(\theta_t - \eta_t\, E_{z\sim D_t(\theta_t)}\nabla\ell(z, \theta_t)\big)
\tag{RGD}$$

The step of Theorem 4.1 follows α_t: the more of the data is exogenous, the longer it is.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from performative.learners.feedback import Problem
from performative.learners.learner import Learner
from performative.learners.steps import check_step, coupling, known, over_rounds

Array = Any


class RGD(Learner):
    step: Any  # what was given; once prepared, η_1 … η_T

    def prepare(self, problem: Problem) -> Learner:
        steps = theorem_steps(problem) if self.step is None else self.step
        return dataclasses.replace(self, step=over_rounds("step", steps, problem.rounds))

    def init(self, problem: Problem, start: Array) -> Array:
        return start

    def deploy(self, state: Array, key: Array) -> Array:
        return state[None]

    def update(self, state: Array, feedback: Any) -> Array:
        step = self.step[feedback.round - 1]
        return feedback.domain.projection(state - step * feedback.gradient(state))


def theorem_steps(problem: Problem) -> np.ndarray:
    r"""$\eta_t = \frac{\mu - x_t}{2(\beta_\theta^2 + x_t^2)}$ with $x_t = (1-\alpha_t)\epsilon\beta_z$."""
    convexity = known(problem, "strong_convexity")
    coupled = coupling(problem)
    if not np.all(coupled < convexity):
        raise ValueError(
            "step must be given in this world: Theorem 4.1 has no step unless (1 − α_t) ε β_z is "
            f"below μ in every round; got {coupled.max():.4g} and {convexity:.4g}."
        )
    smoothness = known(problem, "smoothness")
    return (convexity - coupled) / (2.0 * (smoothness**2 + coupled**2))


def rgd(step: Any = None) -> Learner:
    r"""Repeated gradient descent.

    Args:
        step: $\eta_t$: a number, one for each round, or a function of the round t = 1, 2, …; that of
            Theorem 4.1 unless given.

    >>> import performative as pp
    >>> world = pp.World(response=pp.responses.location(0.5, pp.Gaussian([1.0], 1.0)),
    ...                  loss=pp.losses.squared(), domain=pp.domains.ball(5.0), rounds=4)
    >>> pp.simulate(world, pp.learners.rgd(step=0.5)).deployed.values.ravel().tolist()
    [0.0, 0.5, 0.875, 1.15625]
    >>> pp.learners.rgd().prepare(pp.Session(world).problem).step.tolist()
    [0.2, 0.2, 0.2, 0.2]

    References:
        Mendler-Dünner, Perdomo, Zrnic and Hardt, "Stochastic optimization for performative
        prediction", NeurIPS 2020.
    """
    return RGD(check_step("step", step))
