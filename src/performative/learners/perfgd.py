r"""Performative gradient descent: follow the gradient through the data too, with a model of how they move.

$$\nabla PR(\theta) = E_{z\sim D(\theta)}\nabla\ell(z,\theta) + \nabla_2, \qquad
\nabla_2 = A^\top E\,\nabla_z\ell(z,\theta) \quad\text{or}\quad
\nabla_2 = A^\top\Sigma^{-1}E\,\ell(z,\theta)(z-f(\theta)),$$

where f(θ) is the mean of the data and A = df/dθ. The first form (reparameterised) is for data that
only move; the second (score) for normal data, and needs no derivative in z. A is given, or estimated
from how the means of past rounds differ. Where a part α_t of the rows does not respond, A counts
1−α_t times, and the two parts are taken to look alike, since nobody sees which row is whose.
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
from performative.learners.steps import check_step, over_rounds
from performative.world.domains import Domain
from performative.world.losses import Loss, Squared

Array = Any

FORMS = ("reparameterised", "score")


class State(NamedTuple):
    """The model, and what past rounds say about the response: weighted sums over x = ((1−α)φ, 1)."""

    theta: Array
    regressors: Array  # Σ x xᵀ
    products: Array  # Σ x f̂ᵀ


class PerfGD(Learner):
    step: Any
    response: Array | None  # A, if it is known
    memory: Array
    perturbation: Array
    alphas: Array | None  # these two once prepared
    domain: Domain | None
    form: str = eqx.field(static=True)
    sample: int = eqx.field(static=True)

    feedback: ClassVar[str] = "samples"
    randomised: ClassVar[bool] = True

    @property
    def rows(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.sample

    @property
    def name(self) -> str:
        return f"PerfGD({self.form}, {self.sample} rows)"

    def prepare(self, problem: Problem) -> Learner:
        response, columns = self.response, problem.dimension
        if response is not None:
            if response.ndim == 0:
                response = float(response) * np.eye(columns, problem.parameters)
            if response.shape != (columns, problem.parameters):
                raise ValueError(
                    f"response must have shape ({columns}, {problem.parameters}) in this world; got "
                    f"{response.shape}."
                )
        step = over_rounds("step", self.step, problem.rounds)
        return dataclasses.replace(
            self, step=step, response=response, alphas=problem.alphas, domain=problem.domain
        )

    def init(self, problem: Problem, start: Array) -> State:
        size = problem.parameters + 1
        return State(start, jnp.zeros((size, size)), jnp.zeros((size, problem.dimension)))

    def deploy(self, state: State, key: Array) -> Array:
        # A response can only be seen in models that differ.
        dice = jax.random.normal(key, state.theta.shape)
        assert self.domain is not None
        return self.domain.projection(state.theta + self.perturbation * dice)[None]

    def update(self, state: State, feedback: Any) -> State:
        phi, rows, loss = feedback.deployed[0], feedback.rows[0], feedback.loss
        share = 1.0 - jnp.asarray(self.alphas)[feedback.round - 1]
        state, slope = self._learn(state, share * phi, jnp.mean(rows, axis=0))
        slope = share * moving(loss, rows.shape[1])[:, None] * slope
        through_data = _THROUGH_DATA[self.form](loss, rows, phi, slope)
        gradient = feedback.gradient(phi) + through_data
        step = jnp.asarray(self.step)[feedback.round - 1]
        return state._replace(theta=feedback.domain.projection(state.theta - step * gradient))

    def _learn(self, state: State, moved: Array, mean: Array) -> tuple[State, Array]:
        """Least squares of past means on (1−α)φ, older rounds counting less; A is its slope."""
        known = jnp.append(moved, 1.0)
        regressors = self.memory * state.regressors + jnp.outer(known, known)
        products = self.memory * state.products + jnp.outer(known, mean)
        state = State(state.theta, regressors, products)
        if self.response is not None:
            return state, jnp.asarray(self.response)
        # The first few rounds do not tell the response: what they leave open counts as zero.
        center = regressors[:-1, -1] / regressors[-1, -1]
        spread = regressors[:-1, :-1] - regressors[-1, -1] * jnp.outer(center, center)
        covariance = products[:-1] - jnp.outer(center, products[-1])
        ridge = RIDGE * (jnp.trace(spread) / spread.shape[0] + self.perturbation**2)
        return state, jnp.linalg.solve(
            spread + (ridge + 1e-300) * jnp.eye(len(moved)), covariance
        ).T


RIDGE = 1e-3
"""Relative to how far past models differ."""


def moving(loss: Loss, columns: int) -> np.ndarray:
    """One for every column that can move, zero for a label that is one of two classes."""
    mask = np.ones(columns)
    if loss.labelled and not isinstance(loss, Squared):
        mask[-1] = 0.0
    return mask


def _reparameterised(loss: Loss, rows: Array, theta: Array, slope: Array) -> Array:
    by_row = jax.vmap(jax.grad(loss.value), (0, None))(rows, theta)
    return slope.T @ jnp.mean(by_row, axis=0)


def _score(loss: Loss, rows: Array, theta: Array, slope: Array) -> Array:
    losses = jax.vmap(loss.value, (0, None))(rows, theta)
    apart = rows - jnp.mean(rows, axis=0)
    covariance = apart.T @ apart
    ridge = 1e-9 * (jnp.trace(covariance) + 1e-300) * jnp.eye(rows.shape[1])
    return slope.T @ jnp.linalg.solve(covariance + ridge, apart.T @ (losses - jnp.mean(losses)))


_THROUGH_DATA = {"reparameterised": _reparameterised, "score": _score}


def perfgd(
    step: Any = 0.1,
    rows: int = 100,
    form: str = "reparameterised",
    *,
    response: Any = None,
    memory: float = 50.0,
    perturbation: float = 0.1,
) -> Learner:
    r"""Performative gradient descent.

    Args:
        step: η, a number, an array over rounds or a function of the round.
        rows: how many rows are sampled in a round.
        form: of the part of the gradient that goes through the data, "reparameterised" or "score".
        response: A, of shape (columns, parameters), or a number for that multiple of the identity, where
            it is known: that of the data that respond; estimated from past rounds unless given.
        memory: how many rounds the estimate looks back, about.
        perturbation: standard deviation of what is added to the model that is deployed, so that there
            is something to estimate the response from; 0 for none.

    >>> import performative as pp
    >>> world = pp.World(response=pp.responses.location(0.5, pp.Gaussian([1.0], 0.04)),
    ...                  loss=pp.losses.squared(l2=0.5), domain=pp.domains.ball(5.0), rounds=200)
    >>> run = pp.simulate(world, pp.learners.perfgd(step=0.5), start=[0.5])
    >>> float(run.deployed.values[0, -50:].mean().round(1))  # optimal is 2/3, stable would be 1
    0.7

    References:
        Izzo, Ying and Zou, "How to learn when data reacts to your model: performative gradient descent",
        ICML 2021.
    """
    if step is None:
        raise ValueError("step must be given: no theorem of the paper chooses it; got None.")
    if response is not None:
        response = _checks.numbers("response", response, ndim=(0, 2))
    memory = _checks.number("memory", memory, low=1.0, open_low=True)
    return PerfGD(
        check_step("step", step),
        response,
        np.asarray(1.0 - 1.0 / memory),
        np.asarray(_checks.number("perturbation", perturbation, low=0.0)),
        None,
        None,
        _checks.choice("form", form, FORMS),
        _checks.integer("rows", rows, low=2),
    )
