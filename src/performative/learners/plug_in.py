r"""The two-stage plug-in: explore, fit a declared family of responses, then minimise the fitted risk.

In the first rounds models from around the start are deployed. The family declared is *location*: the
share 1−α_t of the data that responds moves by Aθ, and the rest stays,

$$E_t z = (1-\alpha_t)(A\theta_t + m) + \alpha_t p,$$

fitted by least squares over the rounds. From then on the minimiser of
$(1-\alpha_t) E\,\ell(e + \hat A\theta + \hat m, \theta) + \alpha_t E\,\ell(e + \hat p, \theta)$ is
deployed, e being the rows' distances from their fitted means. With a constant α_t, p cannot be told
from m, and is taken to be equal.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from performative import _checks
from performative.learners.feedback import Problem
from performative.learners.learner import Learner
from performative.learners.perfgd import moving
from performative.targets.solve import Memory, solve
from performative.world.domains import Domain

Array = Any


class Fit(NamedTuple):
    """The fitted response: its matrix A, and the means m and p at θ = 0."""

    matrix: Array
    responding: Array
    exogenous: Array

    def mean(self, theta: Array, alpha: Array) -> Array:
        """E z of a round."""
        return (1 - alpha) * (self.matrix @ theta + self.responding) + alpha * self.exogenous


class State(NamedTuple):
    theta: Array
    models: Array  # (explored round, parameter)
    rows: Array  # (explored round, row, column); once fitted, distances from the fitted means
    fit: Fit
    memory: Memory
    played: Array


class PlugIn(Learner):
    explore: Any  # rounds
    spread: Any
    alphas: Array | None  # these two once prepared
    domain: Domain | None
    sample: int = eqx.field(static=True)

    feedback: ClassVar[str] = "samples"
    randomised: ClassVar[bool] = True

    @property
    def rows(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.sample

    @property
    def name(self) -> str:
        return f"plug-in ({self.sample} rows)"

    def prepare(self, problem: Problem) -> Learner:
        least = problem.parameters + 2
        explore = self.explore
        if explore is None:
            explore = max(min(4 * least, problem.rounds // 2), least)
        if not least <= explore < problem.rounds:
            raise ValueError(
                f"explore must be at least {least} rounds, two more than there are parameters, and "
                f"fewer than the world's {problem.rounds}; got {explore}."
            )
        spread = self.spread
        if spread is None:
            spread = 0.25 * problem.domain.diameter
            if not np.isfinite(spread):
                raise ValueError("spread must be given for a domain that is unbounded; got None.")
        # The last round's successor is never played; its α is anybody's.
        alphas = np.append(problem.alphas, problem.alphas[-1])
        return dataclasses.replace(
            self,
            explore=np.asarray(explore),
            spread=np.asarray(spread),
            alphas=alphas,
            domain=problem.domain,
        )

    def init(self, problem: Problem, start: Array) -> State:
        p, d, kept = problem.parameters, problem.dimension, int(self.explore)
        fit = Fit(jnp.zeros((d, p)), jnp.zeros(d), jnp.zeros(d))
        models, rows = jnp.zeros((kept, p)), jnp.zeros((kept, self.sample, d))
        return State(start, models, rows, fit, Memory.empty(p), jnp.zeros((), jnp.int64))

    def deploy(self, state: State, key: Array) -> Array:
        assert self.domain is not None
        dice = jax.random.normal(key, state.theta.shape) / np.sqrt(state.theta.shape[0])
        around = self.domain.projection(state.theta + self.spread * dice)
        return jnp.where(state.played < state.models.shape[0], around, state.theta)[None]

    def update(self, state: State, feedback: Any) -> State:
        last, t = state.models.shape[0], feedback.round
        stages = [
            (t <= last, self._explored),
            (t == last, self._fitted),
            (t >= last, self._minimised),
        ]
        state = state._replace(played=state.played + 1)
        for now, stage in stages:
            state = jax.lax.cond(now, lambda s, f=stage: f(s, feedback), lambda s: s, state)
        return state

    def _explored(self, state: State, feedback: Any) -> State:
        models = state.models.at[feedback.round - 1].set(feedback.deployed[0])
        rows = state.rows.at[feedback.round - 1].set(feedback.rows[0])
        return state._replace(models=models, rows=rows)

    def _fitted(self, state: State, feedback: Any) -> State:
        kept = state.models.shape[0]
        alphas = jnp.asarray(self.alphas)[:kept]
        moves = moving(feedback.loss, state.rows.shape[2])
        fit = fit_location(state.models, alphas, moves * jnp.mean(state.rows, axis=1))
        means = jax.vmap(fit.mean)(state.models, alphas)
        state = state._replace(rows=state.rows - means[:, None], fit=fit)
        risks = jax.lax.map(self._risk(state, feedback), state.models)
        return state._replace(theta=state.models[jnp.argmin(risks)])

    def _minimised(self, state: State, feedback: Any) -> State:
        risk = self._risk(state, feedback)
        found = solve(jax.grad(risk), jax.hessian(risk), feedback.domain, state.theta, state.memory)
        better = risk(found.point) <= risk(state.theta)  # a fitted risk need not be convex
        theta = jnp.where(better, found.point, state.theta)
        return state._replace(theta=theta, memory=found.memory)

    def _risk(self, state: State, feedback: Any) -> Any:
        """The fitted risk of the round to come."""
        alpha, fit = jnp.asarray(self.alphas)[feedback.round], state.fit
        distances = state.rows.reshape(-1, state.rows.shape[2])
        losses = jax.vmap(feedback.loss.value, (0, None))

        def risk(theta: Array) -> Array:
            responding = jnp.mean(losses(distances + fit.matrix @ theta + fit.responding, theta))
            exogenous = jnp.mean(losses(distances + fit.exogenous, theta))
            return (1 - alpha) * responding + alpha * exogenous

        return risk


def fit_location(models: Array, alphas: Array, means: Array) -> Fit:
    """Least squares of the rounds' means; what they leave open is taken to be zero."""
    middle = jnp.mean(alphas)
    columns = [
        (1 - alphas)[:, None] * models,
        jnp.ones((len(alphas), 1)),
        (alphas - middle)[:, None],
    ]
    found = jnp.linalg.pinv(jnp.concatenate(columns, axis=1), rtol=1e-10) @ means
    matrix, level, apart = found[:-2].T, found[-2], found[-1]  # apart = p − m
    responding = level - middle * apart
    return Fit(matrix, responding, responding + apart)


def plug_in(explore: int | None = None, rows: int = 100, *, spread: float | None = None) -> Learner:
    r"""Explore, fit how the data respond, then minimise the fitted performative risk.

    Args:
        explore: how many rounds to explore; 4(p+2) for p parameters, or half of
            them all if those are fewer, unless given.
        rows: how many rows are sampled in a round.
        spread: how far from the start to explore, as a root mean square; a quarter of the domain's
            diameter unless given.

    >>> import performative as pp
    >>> world = pp.World(response=pp.responses.location(0.5, pp.Gaussian([1.0], 1.0)),
    ...                  loss=pp.losses.squared(l2=0.5), domain=pp.domains.ball(5.0), rounds=40)
    >>> run = pp.simulate(world, pp.learners.plug_in(explore=30, rows=1000))
    >>> float(run.deployed.values[0, -1, 0, 0].round(1))  # optimal is 2/3, stable would be 1
    0.7

    References:
        Miller, Perdomo and Zrnic, "Outside the echo chamber: optimizing the performative risk", ICML
        2021; Lin and Zrnic, "Plug-in performative optimization", ICML 2024.
    """
    return PlugIn(
        None if explore is None else _checks.integer("explore", explore, low=1),
        None if spread is None else _checks.number("spread", spread, low=0.0, open_low=True),
        None,
        None,
        _checks.integer("rows", rows, low=2),
    )
