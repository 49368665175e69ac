"""Last rung: an average over fixed common draws, for everything else, with its standard error.

The draws are made once for a world: the same noise serves every round, model and component, so that
differences are far less noisy than values, and a learner's objective does not jitter.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from performative.world.distributions import Distribution, Noise
from performative.world.losses import Loss

Array = Any


def applies(loss: Loss, distribution: Distribution) -> bool:
    return True


def values(loss: Loss, distribution: Distribution, theta: Array, draws: Noise) -> Array:
    """The loss at every draw."""
    return jax.vmap(loss.value, (0, None))(distribution.rows(draws), theta)


def risk(loss: Loss, distribution: Distribution, theta: Array, *, draws: Noise, **_: Any) -> Array:
    return jnp.mean(values(loss, distribution, theta, draws))


def gradient(loss: Loss, distribution: Distribution, theta: Array, **tools: Any) -> Array:
    return jax.grad(lambda point: risk(loss, distribution, point, **tools))(theta)


def hessian(loss: Loss, distribution: Distribution, theta: Array, **tools: Any) -> Array:
    return jax.hessian(lambda point: risk(loss, distribution, point, **tools))(theta)
