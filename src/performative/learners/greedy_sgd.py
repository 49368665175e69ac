r"""Greedy SGD, section 4.2 of the paper: one sample of each deployed model, one step.

$$\theta_{t+1} = \Pi_\Theta\big(\theta_t - \eta_t \nabla\ell(Z_t, \theta_t)\big), \qquad
Z_t\sim D_t(\theta_t) \tag{greedy SGD}$$

The steps of Proposition 4.2, η_t = 4/(A(t + t0)), are made of μ, the least α_t, ε β_z and C_V. With
a batch, the gradient is averaged over that many rows.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import equinox as eqx

from performative import _checks
from performative.learners.feedback import Problem
from performative.learners.learner import Learner
from performative.learners.steps import (
    Decreasing,
    check_step,
    coupling,
    decreasing,
    known,
    over_rounds,
)

Array = Any


class GreedySGD(Learner):
    step: Any  # what was given; once prepared, η_1 … η_T
    batch: int = eqx.field(static=True)

    feedback: ClassVar[str] = "samples"
    randomised: ClassVar[bool] = True

    @property
    def rows(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.batch

    @property
    def name(self) -> str:
        return "greedy SGD" if self.batch == 1 else f"greedy SGD ({self.batch} rows)"

    def prepare(self, problem: Problem) -> Learner:
        step = self.step
        if step is None:
            step = theorem_schedule(problem).steps(problem.rounds)
        return dataclasses.replace(self, step=over_rounds("step", step, problem.rounds))

    def init(self, problem: Problem, start: Array) -> Array:
        return start

    def deploy(self, state: Array, key: Array) -> Array:
        return state[None]

    def update(self, state: Array, feedback: Any) -> Array:
        step = self.step[feedback.round - 1]
        return feedback.domain.projection(state - step * feedback.gradient(state))


def theorem_schedule(problem: Problem) -> Decreasing:
    """A, B and t0 of Proposition 4.2; α_min is that of all rounds."""
    convexity = known(problem, "strong_convexity")
    coupled = float(coupling(problem).max())
    return decreasing(convexity, coupled, known(problem, "noise_growth"))


def greedy_sgd(step: Any = None, batch: int = 1) -> Learner:
    r"""Stochastic gradient descent that deploys after every step.

    Args:
        step: $\eta_t$: a number, one for each round, or a function of the round t = 1, 2, …; that of
            Proposition 4.2 unless given.
        batch: rows sampled in a round; their gradients are averaged.

    >>> import performative as pp
    >>> world = pp.worlds.quadratic(dim=2, b=1.0, rounds=3)
    >>> learner = pp.learners.greedy_sgd().prepare(pp.Session(world).problem)
    >>> (4 / learner.step).round(2).tolist()     # A (t + t0), here 1.6 (t + 5)
    [9.6, 11.2, 12.8]
    >>> pp.simulate(world, pp.learners.greedy_sgd(), runs=2).deployed.shape
    (2, 3, 1, 2)

    References:
        Mendler-Dünner, Perdomo, Zrnic and Hardt, "Stochastic optimization for performative
        prediction", NeurIPS 2020.
    """
    return GreedySGD(check_step("step", step), _checks.integer("batch", batch, low=1))
