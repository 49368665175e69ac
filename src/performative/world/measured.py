"""Constants looked for numerically, where nothing is proved: a loss, response or map of one's own.

Derivatives are evaluated at many models, judged and deployed, over the domain and the rounds, and
the worst is taken. That is a lower bound on the true supremum, which is why these constants are called
*computed*, and *surrogates* where the expectations themselves are Monte Carlo.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from performative._precision import double
from performative.world.distributions import Noise

Array = Any

POINTS, ROWS = 48, 2048


class Measured:
    """The same constants as `rigorous.Bounds`, where they were looked for."""

    def __init__(self, world: Any):
        self.world = world
        self.where = f"the worst at {POINTS} models and rounds"
        rng = np.random.default_rng(0)
        models = world.domain.draw(rng, 2 * POINTS, world.parameters)
        far = models + 10 * world.domain.diameter * rng.normal(size=models.shape)
        models = np.where(rng.random((2 * POINTS, 1)) < 0.5, models, world.domain.project(far))
        models[0] = world.domain.center(world.parameters)
        self.judged, self.deployed = models[:POINTS], models[POINTS:]
        spread = np.linspace(1, world.rounds, POINTS).round().astype(int)
        extreme = [np.argmin(world.alphas) + 1, np.argmax(world.alphas) + 1]
        self.rounds = np.concatenate([np.repeat(extreme, POINTS // 4), spread])[:POINTS]
        self.rounds = rng.permutation(self.rounds)

    @staticmethod
    def of(world: Any) -> Measured | None:
        """None for an unbounded domain, over which no search tells anything."""
        return Measured(world) if np.isfinite(world.domain.diameter) else None

    def _at(self, what: str, *models: tuple[str, np.ndarray]) -> np.ndarray:
        return np.asarray(self.world._evaluate(what, self.rounds, *models))

    @functools.cached_property
    def _pair(self) -> tuple[tuple[str, np.ndarray], tuple[str, np.ndarray]]:
        return ("theta", self.judged), ("deployed", self.deployed)

    @functools.cached_property
    def _curvatures(self) -> np.ndarray:
        return np.linalg.eigvalsh(self._at("hessian", *self._pair))

    @functools.cached_property
    def _risk_curvatures(self) -> np.ndarray:
        return np.linalg.eigvalsh(self._at("total_hessian", self._pair[0]))

    def strong_convexity(self) -> float:
        return float(self._curvatures.min())

    def smoothness(self) -> float:
        return float(np.abs(self._curvatures).max())

    def coupling(self) -> float:
        """ε β_z: how far ∇_θ DPR moves per unit by which the deployed model moves."""
        moves = self._at("gradient_response", *self._pair)
        if not np.all(np.isfinite(moves)):  # of which there is no singular value
            return np.inf
        return self._per_response(np.linalg.norm(moves, 2, axis=(-2, -1)))

    def _per_response(self, values: np.ndarray) -> float:
        """The largest of values that are proportional to 1 − α_t, at α_t = 0."""
        share = 1.0 - self.world.alphas[self.rounds - 1]
        return float(np.max(np.where(share > 1e-9, values / np.maximum(share, 1e-9), 0.0)))

    def lipschitz(self) -> float:
        return float(np.linalg.norm(self._at("total_gradient", self._pair[0]), axis=-1).max())

    def lipschitz_judged(self) -> float:
        return float(np.linalg.norm(self._at("gradient", *self._pair), axis=-1).max())

    def through_data(self) -> float:
        """ε L_z: how far the risk moves with the data alone, per unit of the deployed model."""
        still = ("deployed", self.judged)
        slopes = self._at("total_gradient", self._pair[0])
        slopes = slopes - self._at("gradient", self._pair[0], still)
        return self._per_response(np.linalg.norm(slopes, axis=-1))

    def risk_smoothness(self) -> float:
        return float(np.abs(self._risk_curvatures).max())

    def risk_convexity(self) -> float:
        return float(self._risk_curvatures.min())

    def noise(self) -> float:
        """sup E‖∇ℓ‖²: on a bounded domain C_V can be 0."""
        return float(self._sampled[0].max())

    def loss_scale(self) -> float:
        return float(np.sqrt(self._sampled[1].max()))

    @functools.cached_property
    def _sampled(self) -> tuple[np.ndarray, np.ndarray]:
        """E‖∇ℓ‖² and E ℓ², from rows drawn at every point."""
        return _second_moments(self.world, self.rounds, self.judged, self.deployed)


@double
def _second_moments(world: Any, rounds: Any, judged: Any, deployed: Any) -> Any:
    noise = Noise.draw(jax.random.key(0), ROWS, world.dimension)
    found = []
    for t, theta, shapes in zip(rounds, judged, deployed, strict=True):
        found.append(_second_moment(world.at(int(t)), theta, shapes, noise))
    squares, values = zip(*found, strict=True)
    return np.asarray(squares), np.asarray(values)


@jax.jit
def _second_moment(here: Any, theta: Array, deployed: Array, noise: Noise) -> tuple[Array, Array]:
    rows, loss = here.rows(deployed, noise), here.loss
    slopes = jax.vmap(jax.grad(loss.value, argnums=1), (0, None))(rows, theta)
    values = jax.vmap(loss.value, (0, None))(rows, theta)
    return jnp.mean(jnp.sum(slopes**2, axis=1)), jnp.mean(values**2)
