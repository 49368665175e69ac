r"""Retraining on the pooled history: repeated risk minimisation on the data of all rounds so far.

$$\theta_{t+1} = \arg\min_{\theta\in\Theta} \frac1t \sum_{s\le t} E_{z\sim D_s(\theta_s)}\,\ell(z, \theta)$$

For the squared loss the sum is a quadratic function of θ and is kept as such; for other losses the
sampled rows of the last `window` rounds are kept.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from performative import _checks
from performative.learners.feedback import Problem
from performative.learners.learner import Learner
from performative.learners.rrm import RRM
from performative.targets.solve import Memory, solve
from performative.world.losses import Squared

Array = Any

MOST_NUMBERS = 2**24
"""Rows that are kept may hold at most so many numbers a run."""


class Sums(NamedTuple):
    """The pooled risk of a squared loss, times t: curvature and pull, ∇ = curvature θ − pull."""

    theta: Array
    memory: Memory
    curvature: Array
    pull: Array


class Rows(NamedTuple):
    """The rows of the last rounds, and how many rounds there are of them."""

    theta: Array
    memory: Memory
    kept: Array  # (round, row, column)
    count: Array


class PooledRRM(RRM):
    window: int | None = eqx.field(static=True)
    columns: int | None = eqx.field(static=True, default=None)
    exact: bool = eqx.field(static=True, default=False)

    @property
    def name(self) -> str:
        return f"pooled {super().name}"

    def prepare(self, problem: Problem) -> Learner:
        loss = problem.loss
        exact = isinstance(loss, Squared) and self.window is None
        if exact:
            return dataclasses.replace(self, exact=True)
        if self.sample is None:
            raise ValueError(
                "rows must be a number for this loss or with a window: the history of a population "
                "cannot be kept; got None."
            )
        window = min(self.window or problem.rounds, problem.rounds)
        columns = problem.dimension
        if window * self.sample * columns > MOST_NUMBERS:
            raise ValueError(
                f"window must be at most {MOST_NUMBERS // (self.sample * columns):,} rounds of "
                f"{self.sample:,} rows, to be kept in memory; got {window:,}."
            )
        return dataclasses.replace(self, window=window, columns=columns)

    def init(self, problem: Problem, start: Array) -> Any:
        d = problem.parameters
        memory = Memory.empty(d)
        if self.exact:
            return Sums(start, memory, jnp.zeros((d, d)), jnp.zeros(d))
        kept = jnp.zeros((self.window, self.sample, self.columns))
        return Rows(start, memory, kept, jnp.zeros((), jnp.int64))

    def update(self, state: Any, feedback: Any) -> Any:
        return self._by_sums(state, feedback) if self.exact else self._by_rows(state, feedback)

    def _by_sums(self, state: Sums, feedback: Any) -> Sums:
        # A squared loss has the same curvature everywhere: one point tells its gradient.
        curvature = feedback.hessian(state.theta)
        pull = curvature @ state.theta - feedback.gradient(state.theta)
        curvature, pull = state.curvature + curvature, state.pull + pull
        t = feedback.round
        found = solve(
            lambda theta: (curvature @ theta - pull) / t,
            lambda theta: curvature / t,
            feedback.domain,
            state.theta,
            state.memory,
        )
        return Sums(found.point, found.memory, curvature, pull)

    def _by_rows(self, state: Rows, feedback: Any) -> Rows:
        assert self.window is not None
        place = state.count % self.window
        kept = jax.lax.dynamic_update_index_in_dim(state.kept, feedback.rows[0], place, 0)
        count = state.count + 1
        used = jnp.repeat(jnp.arange(self.window) < count, kept.shape[1])
        weights = used / jnp.sum(used)
        flat, loss = kept.reshape(-1, kept.shape[-1]), feedback.loss

        def risk(theta: Array) -> Array:
            return weights @ jax.vmap(loss.value, (0, None))(flat, theta)

        gradient, hessian = jax.grad(risk), jax.hessian(risk)
        found = solve(gradient, hessian, feedback.domain, state.theta, state.memory)
        return Rows(found.point, found.memory, kept, count)


def pooled_rrm(rows: int | None = None, window: int | None = None) -> Learner:
    r"""Repeated risk minimisation on the pooled data of all rounds so far.

    Args:
        rows: None pools whole populations, for the squared loss; a number pools that many sampled rows a
            round.
        window: pool the last so many rounds; all of them unless given.

    >>> import performative as pp
    >>> world = pp.World(response=pp.responses.location(-1.5, pp.Gaussian([1.0], 1.0)),
    ...                  loss=pp.losses.squared(), domain=pp.domains.ball(5.0), rounds=5)
    >>> pp.simulate(world, pp.learners.pooled_rrm()).deployed.values.ravel().round(3).tolist()
    [0.0, 1.0, 0.25, 0.375, 0.391]

    References:
        Khorsandi, Gupta, Mofakhami, Lacoste-Julien and Gidel, "Tight lower bounds and improved
        convergence in performative prediction", 2024.
    """
    rows = None if rows is None else _checks.integer("rows", rows, low=1)
    window = None if window is None else _checks.integer("window", window, low=1)
    return PooledRRM(rows, window)
