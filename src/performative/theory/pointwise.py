"""Remark 2.1: what holds for the expected risk may fail for the loss of a single row.

Along segments between two models, the quotient (∇ℓ(b) − ∇ℓ(a))·(b − a)/‖b − a‖² is followed into the half
where it is smallest, or largest; a kink is found like that, where no second derivative sees it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from performative._precision import double
from performative.world.distributions import Noise
from performative.world.world import World

Array = Any

ROWS, SEGMENTS, HALVINGS = 64, 16, 18


class Pointwise(NamedTuple):
    """The least and the largest curvature of the loss of a single row, among those looked at."""

    least: float
    largest: float


def pointwise(world: World) -> Pointwise:
    """Curvature of ℓ(z, ·) over rows that the world brings about, a lower bound on its extent."""
    rng = np.random.default_rng(0)
    reach = world.domain.draw(rng, 2 * SEGMENTS, world.parameters)
    rounds = np.linspace(1, world.rounds, 4).round().astype(int)
    found = [_extremes(world.at(int(t)), reach, i) for i, t in enumerate(rounds)]
    return Pointwise(min(f[0] for f in found), max(f[1] for f in found))


@double
def _extremes(here: Any, ends: np.ndarray, seed: int) -> tuple[float, float]:
    least, largest = _compiled(here, ends[:SEGMENTS], ends[SEGMENTS:], seed)
    return float(least), float(largest)


@jax.jit
def _compiled(here: Any, first: Array, second: Array, seed: Array) -> tuple[Array, Array]:
    data = here.distribution(first[0])
    rows = data.rows(Noise.draw(jax.random.key(seed), ROWS, data.dimension))
    slope = jax.grad(here.loss.value, argnums=1)

    def extreme(row: Array, a: Array, b: Array, sign: float) -> Array:
        def quotient(a: Array, b: Array) -> Array:
            gap = b - a
            return sign * (slope(row, b) - slope(row, a)) @ gap / (gap @ gap)

        def halve(_: Any, ends: Any) -> Any:
            a, b = ends
            middle = 0.5 * (a + b)
            left = quotient(a, middle) >= quotient(middle, b)
            return jnp.where(left, a, middle), jnp.where(left, middle, b)

        return sign * quotient(*jax.lax.fori_loop(0, HALVINGS, halve, (a, b)))

    def every(sign: float) -> Array:
        one = lambda row, a, b: extreme(row, a, b, sign)  # noqa: E731
        return jax.vmap(jax.vmap(one, (None, 0, 0)), (0, None, None))(rows, first, second)

    return jnp.min(every(-1.0)), jnp.max(every(1.0))
