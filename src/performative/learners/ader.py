r"""Ader, for stability without knowing how far the target will travel: step sizes run as experts.

Expert i takes gradient steps of its own length, $w^i_{t+1} = \Pi_\Theta(w^i_t - \eta_i g_t)$, on the
gradient at the deployed $\theta_t = \sum_i p^i_t w^i_t$, and a meta-learner shifts the weights p by
$\exp(-\alpha \langle g_t, w^i_t\rangle)$. One step η against comparators of path length P has regret
at most $(D^2 + 2DP)/(2\eta) + \eta G^2T/2$; the steps $2^{i-1} D/(G\sqrt T)$ are within a factor
of two of the best one for every P between 0 and DT.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from performative import _checks
from performative.learners.feedback import Problem
from performative.learners.learner import Learner
from performative.learners.zeroth_order import Needed
from performative.world.domains import Domain

Array = Any


class Experts(NamedTuple):
    """Step sizes, and the rate at which weight moves between them; fixed before the first round."""

    steps: Array
    rate: Array

    @staticmethod
    def of(diameter: float, gradient: float, rounds: int) -> Experts:
        """Experts for gradients of at most this size (their root mean square, if noisy)."""
        count = int(np.ceil(0.5 * np.log2(1 + 2 * rounds))) + 1
        steps = 2.0 ** np.arange(count) * diameter / (gradient * np.sqrt(rounds))
        return Experts(steps, np.asarray(np.sqrt(8.0 / rounds) / (diameter * gradient)))


class Crowd(NamedTuple):
    """Where the experts are, and the logarithms of their weights."""

    places: Array  # (expert, parameter)
    weights: Array

    @staticmethod
    def begin(experts: Experts, start: Array) -> Crowd:
        """All at the start; the weights 1/i(i+1) favour short steps."""
        i = jnp.arange(1, experts.steps.shape[0] + 1)
        places = jnp.broadcast_to(start, (i.shape[0], start.shape[0]))
        return Crowd(places, -jnp.log(i * (i + 1.0)))

    @property
    def theta(self) -> Array:
        """The weighted mean of the experts."""
        return jax.nn.softmax(self.weights) @ self.places

    def follow(self, experts: Experts, gradient: Array, domain: Domain) -> Crowd:
        """One round: weights by what each expert's place would have cost, then a step each."""
        weights = jax.nn.log_softmax(self.weights - experts.rate * (self.places @ gradient))
        moved = self.places - jnp.asarray(experts.steps)[:, None] * gradient
        return Crowd(jax.vmap(domain.projection)(moved), weights)


class Ader(Learner):
    gradient: Any  # G, as given
    experts: Experts | None  # once prepared
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

    def prepare(self, problem: Problem) -> Learner:
        diameter = problem.domain.diameter
        if not np.isfinite(diameter):
            raise ValueError("domain must be bounded for Ader; got one of infinite diameter.")
        size = self.gradient
        if size is None:  # with a minimum in Θ, no gradient is larger
            size = Needed("Ader", problem)("smoothness", "β_θ", "gradient") * diameter
        return dataclasses.replace(self, experts=Experts.of(diameter, size, problem.rounds))

    def init(self, problem: Problem, start: Array) -> Crowd:
        assert self.experts is not None
        return Crowd.begin(self.experts, start)

    def deploy(self, state: Crowd, key: Array) -> Array:
        return state.theta[None]

    def update(self, state: Crowd, feedback: Any) -> Crowd:
        assert self.experts is not None
        return state.follow(self.experts, feedback.gradient(state.theta), feedback.domain)


def ader(gradient: float | None = None, rows: int | None = None) -> Learner:
    r"""Adaptive gradient descent by experts, which needs no path length.

    Args:
        gradient: G, a bound on the gradients that will be seen; β_θ D unless given, which bounds them
            where each round's risk has its minimum in Θ.
        rows: None sees the population's gradient; a number, the average over that many sampled rows.

    >>> import performative as pp
    >>> world = pp.World(response=pp.responses.location(0.5, pp.Gaussian([1.0], 1.0)),
    ...                  loss=pp.losses.squared(), domain=pp.domains.ball(5.0), rounds=300)
    >>> run = pp.simulate(world, pp.learners.ader())
    >>> float(run.deployed.values[0, -1, 0, 0].round(2))  # the stable point
    2.0

    References:
        Zhang, Lu and Zhou, "Adaptive online learning in dynamic environments", NeurIPS 2018.
    """
    if gradient is not None:
        gradient = _checks.number("gradient", gradient, low=0.0, open_low=True)
    rows = None if rows is None else _checks.integer("rows", rows, low=1)
    return Ader(gradient, None, rows)
