r"""Repeated risk minimisation, section 3 of the paper: retrain on what the last model brought about.

$$\theta_{t+1} = \arg\min_{\theta\in\Theta} E_{z\sim D_t(\theta_t)}\,\ell(z, \theta) \tag{RRM}$$

The inner problem is solved exactly: for the squared loss the minimiser is the projected mean, for
all others Newton's method solves the fixed-point equation of `targets/solve.py`, boundary included.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx

from performative import _checks
from performative.learners.feedback import Problem
from performative.learners.learner import Learner
from performative.targets.solve import Memory, solve
from performative.world.losses import Squared

Array = Any


class State(NamedTuple):
    theta: Array
    memory: Memory


class RRM(Learner):
    sample: int | None = eqx.field(static=True)

    @property
    def feedback(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return "population" if self.sample is None else "samples"

    @property
    def rows(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.sample or 1

    @property
    def randomised(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.sample is not None

    @property
    def name(self) -> str:
        return "RRM" if self.sample is None else f"RRM({self.sample} rows)"

    def init(self, problem: Problem, start: Array) -> State:
        return State(start, Memory.empty(problem.parameters))

    def deploy(self, state: State, key: Array) -> Array:
        return state.theta[None]

    def update(self, state: State, feedback: Any) -> State:
        theta, loss = state.theta, feedback.loss
        if isinstance(loss, Squared) and not loss.labelled:
            # The Hessian is (1 + λ) times the identity, so one gradient step is the minimiser.
            step = feedback.gradient(theta) / (1.0 + loss.l2)
            return State(feedback.domain.projection(theta - step), state.memory)
        found = solve(feedback.gradient, feedback.hessian, feedback.domain, theta, state.memory)
        return State(found.point, found.memory)


def rrm(rows: int | None = None) -> Learner:
    r"""Repeated risk minimisation.

    Args:
        rows: None minimises the population's risk; a number retrains on that many sampled rows, as
            people do.

    >>> import performative as pp
    >>> world = pp.World(response=pp.responses.location(0.5, pp.Gaussian([1.0], 1.0)),
    ...                  loss=pp.losses.squared(), domain=pp.domains.ball(5.0), rounds=4)
    >>> pp.simulate(world, pp.learners.rrm()).deployed.values.ravel().tolist()
    [0.0, 1.0, 1.5, 1.75]

    References:
        Perdomo, Zrnic, Mendler-Dünner and Hardt, "Performative prediction", ICML 2020.
    """
    return RRM(None if rows is None else _checks.integer("rows", rows, low=1))
