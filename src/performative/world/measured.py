"""Constants looked for numerically, where nothing is proved: a loss, response or map of one's own.

Derivatives are evaluated at many models, judged and deployed, over the domain and the rounds, then
around the worst of those, and the worst is taken. That is a lower bound on the true supremum, which is
why these constants are called *computed*, and *surrogates* where the expectations themselves are Monte
Carlo.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from performative._precision import double
from performative.world.distributions import Noise

Array = Any

POINTS, ROWS = 48, 2048
WORST, TURNS = 6, 3
"""So many of the worst are looked around, so many times, ever nearer."""


class Looks(NamedTuple):
    """Where to look: rounds, and a model judged and one deployed in each."""

    rounds: np.ndarray
    judged: np.ndarray
    deployed: np.ndarray


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
        spread = np.linspace(1, world.rounds, POINTS).round().astype(int)
        extreme = [np.argmin(world.alphas) + 1, np.argmax(world.alphas) + 1]
        rounds = np.concatenate([np.repeat(extreme, POINTS // 4), spread])[:POINTS]
        self.first = Looks(rng.permutation(rounds), models[:POINTS], models[POINTS:])

    @staticmethod
    def of(world: Any) -> Measured | None:
        """None for an unbounded domain, over which no search tells anything."""
        return Measured(world) if np.isfinite(world.domain.diameter) else None

    def _searched(self, values: Callable[[Looks], np.ndarray]) -> float:
        """The largest value: at the first looks, then around the worst of them."""
        looks, rng = self.first, np.random.default_rng(1)
        found = values(looks)
        for turn in range(TURNS):
            if not np.all(np.isfinite(found)):
                return np.inf
            worst = np.repeat(np.argsort(found)[-WORST:], POINTS // WORST)
            looks = Looks(*(part[worst] for part in looks))
            size = self.world.domain.diameter / np.sqrt(self.world.parameters) * 0.5 ** (turn + 1)
            looks = looks._replace(
                judged=self._around(rng, looks.judged, size),
                deployed=self._around(rng, looks.deployed, size),
            )
            found = values(looks)
        return float(np.max(found))

    def _around(self, rng: np.random.Generator, models: np.ndarray, size: float) -> np.ndarray:
        """Models near these, the first near each of the worst being itself."""
        moved = models + size * rng.normal(size=models.shape)
        stays = np.arange(POINTS)[:, None] % (POINTS // WORST) == 0
        return np.where(stays, models, self.world.domain.project(moved))

    def _at(self, what: str, looks: Looks, deployed: np.ndarray | None = None) -> np.ndarray:
        """A quantity of the models judged, on the data that others bring about where those are given."""
        models = [("theta", looks.judged)]
        if deployed is not None:
            models.append(("deployed", deployed))
        return np.asarray(self.world._evaluate(what, looks.rounds, *models))

    def _curvatures(self, looks: Looks) -> np.ndarray:
        if looks is self.first:
            return self._first_curvatures
        return np.linalg.eigvalsh(self._at("hessian", looks, looks.deployed))

    @functools.cached_property
    def _first_curvatures(self) -> np.ndarray:
        return np.linalg.eigvalsh(self._at("hessian", self.first, self.first.deployed))

    @functools.cached_property
    def _risk_curvatures(self) -> np.ndarray:
        # At the first looks alone: on many rows this takes as long as all the rest.
        return np.linalg.eigvalsh(self._at("total_hessian", self.first))

    def strong_convexity(self) -> float:
        return -self._searched(lambda looks: -self._curvatures(looks)[:, 0])

    def smoothness(self) -> float:
        return self._searched(lambda looks: np.abs(self._curvatures(looks)).max(axis=1))

    def coupling(self) -> float:
        """ε β_z: how far ∇_θ DPR moves per unit by which the deployed model moves."""

        def norms(looks: Looks) -> np.ndarray:
            moves = self._at("gradient_response", looks, looks.deployed)
            if not np.all(np.isfinite(moves)):  # of which there is no singular value
                return np.full(POINTS, np.inf)
            return self._per_response(looks, np.linalg.norm(moves, 2, axis=(-2, -1)))

        return self._searched(norms)

    def _per_response(self, looks: Looks, values: np.ndarray) -> np.ndarray:
        """Values that are proportional to 1 − α_t, at α_t = 0."""
        share = 1.0 - self.world.alphas[looks.rounds - 1]
        return np.where(share > 1e-9, values / np.maximum(share, 1e-9), 0.0)

    def lipschitz(self) -> float:
        return self._searched(
            lambda looks: np.linalg.norm(self._at("total_gradient", looks), axis=-1)
        )

    def lipschitz_judged(self) -> float:
        return self._searched(
            lambda looks: np.linalg.norm(self._at("gradient", looks, looks.deployed), axis=-1)
        )

    def through_data(self) -> float:
        """ε L_z: how far the risk moves with the data alone, per unit of the deployed model."""

        def norms(looks: Looks) -> np.ndarray:
            slopes = self._at("total_gradient", looks) - self._at("gradient", looks, looks.judged)
            return self._per_response(looks, np.linalg.norm(slopes, axis=-1))

        return self._searched(norms)

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
        return _second_moments(self.world, *self.first)


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
