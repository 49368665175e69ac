r"""Repeated risk minimisation, section 3 of the paper: retrain on what the last model brought about.

$$\theta_{t+1} = \arg\min_{\theta\in\Theta} E_{z\sim D_t(\theta_t)}\,\ell(z, \theta) \tag{RRM}$$

The inner problem is solved exactly: for the squared loss the minimiser is the projected mean, for
all others Newton's method solves the fixed-point equation of `targets/solve.py`, boundary included.
Where that gets stuck, as it can on a few rows without a penalty, accelerated descent on the risk
brings it back.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from performative import _checks
from performative.learners.feedback import Problem
from performative.learners.learner import Learner
from performative.targets.solve import Memory, Solution, solve
from performative.world.losses import Squared

Array = Any

SOLVED, PATIENCE = 1e-9, 3000
"""What is not solved to this, relative to the size of θ, is descended on; in so many steps at most."""


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
        if self.sample is not None:  # a population has more rows than parameters
            found = _unstuck(feedback, theta, found)
        return State(found.point, found.memory)


def _unstuck(feedback: Any, start: Array, found: Solution) -> Solution:
    """The solution, or a better one where Newton's method was stuck."""

    def stuck(state: Any) -> Array:
        found, tried = state
        size = found.defect * found.memory.scale / (1.0 + jnp.linalg.norm(found.point))
        return ~(size <= SOLVED) & ~tried

    def again(state: Any) -> Any:
        found, _ = state
        near = _descend(feedback.decoupled_risk, feedback.gradient, feedback.domain, start)
        memory = Memory.empty(start.shape[0])
        new = solve(feedback.gradient, feedback.hessian, feedback.domain, near, memory)
        lower = feedback.decoupled_risk(new.point) < feedback.decoupled_risk(found.point)
        return jax.tree.map(lambda a, b: jnp.where(lower, a, b), new, found), jnp.asarray(True)

    return jax.lax.while_loop(stuck, again, (found, jnp.asarray(False)))[0]


class _Descent(NamedTuple):
    theta: Array
    ahead: Array  # where momentum has carried it
    momentum: Array
    step: Array
    slope: Array  # the size of the projected gradient
    count: Array


def _descend(risk: Any, gradient: Any, domain: Any, start: Array) -> Array:
    """Accelerated projected descent with backtracking and restarts: slow, but never stuck."""
    first = jnp.linalg.norm(gradient(start))

    def proceed(now: _Descent) -> Array:
        return (now.slope > 1e-8 * first) & (now.count < PATIENCE)

    def move(now: _Descent) -> _Descent:
        slope = gradient(now.ahead)
        theta = domain.projection(now.ahead - now.step * slope)
        gone = theta - now.ahead
        allowed = risk(now.ahead) + slope @ gone + 0.5 * (gone @ gone) / now.step
        accepted = risk(theta) <= allowed + 1e-15 * jnp.abs(allowed)
        momentum = 0.5 * (1.0 + jnp.sqrt(1.0 + 4.0 * now.momentum**2))
        # Momentum that leads uphill is dropped.
        uphill = gone @ (theta - now.theta) < 0.0
        carried = jnp.where(uphill, 0.0, (now.momentum - 1.0) / momentum)
        new = _Descent(
            theta,
            domain.projection(theta + carried * (theta - now.theta)),
            jnp.where(uphill, 1.0, momentum),
            1.2 * now.step,
            jnp.linalg.norm(gone) / now.step,
            now.count + 1,
        )
        shorter = now._replace(step=0.5 * now.step, count=now.count + 1)
        return jax.tree.map(lambda a, b: jnp.where(accepted, a, b), new, shorter)

    begun = _Descent(start, start, jnp.ones(()), jnp.ones(()), jnp.asarray(jnp.inf), jnp.asarray(0))
    return jax.lax.while_loop(proceed, move, begun).theta


def rrm(rows: int | None = None) -> Learner:
    r"""Repeated risk minimisation.

    Args:
        rows: None minimises the population's risk; a number retrains on that many sampled rows, as
            people do. (Rows that a plane separates have no minimiser without a penalty on an
            unbounded domain: the model is then merely large.)

    >>> import performative as pp
    >>> world = pp.World(response=pp.responses.location(0.5, pp.Gaussian([1.0], 1.0)),
    ...                  loss=pp.losses.squared(), domain=pp.domains.ball(5.0), rounds=4)
    >>> pp.simulate(world, pp.learners.rrm()).deployed.values.ravel().tolist()
    [0.0, 1.0, 1.5, 1.75]

    References:
        Perdomo, Zrnic, Mendler-Dünner and Hardt, "Performative prediction", ICML 2020.
    """
    return RRM(None if rows is None else _checks.integer("rows", rows, low=1))
