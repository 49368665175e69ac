"""Second rung: the weighted sum over the rows of an `Empirical`, exact for that population.

For a loss of the margin the sums are matrix products; they are written out because they are the
whole cost of a world of 30,000 rows.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from performative.world.distributions import Distribution, Empirical
from performative.world.losses import Loss, Margin

Array = Any


def applies(loss: Loss, distribution: Distribution) -> bool:
    return isinstance(distribution, Empirical)


def risk(loss: Loss, distribution: Empirical, theta: Array, **_: Any) -> Array:
    if isinstance(loss, Margin):
        margins = _margins(loss, distribution, theta)
        return distribution.weights @ loss.link(0, margins) + loss.penalty(theta)
    rows = distribution.points + distribution.offset
    return distribution.weights @ jax.vmap(loss.value, (0, None))(rows, theta)


def gradient(loss: Loss, distribution: Empirical, theta: Array, **_: Any) -> Array:
    return jax.grad(lambda point: risk(loss, distribution, point))(theta)


def hessian(loss: Loss, distribution: Empirical, theta: Array, **_: Any) -> Array:
    if not isinstance(loss, Margin):
        return jax.hessian(lambda point: risk(loss, distribution, point))(theta)
    curvature = distribution.weights * loss.link(2, _margins(loss, distribution, theta))
    points, offset = distribution.points, distribution.offset
    if loss.labelled:  # y² = 1: the label drops out
        points, offset = points[:, :-1], offset[:-1]
    # Σ c (x + o)(x + o)ᵀ without a moved copy of the rows.
    first = curvature @ points
    total = jnp.sum(curvature)
    square = (points * curvature[:, None]).T @ points
    square += (
        jnp.outer(first, offset) + jnp.outer(offset, first) + total * jnp.outer(offset, offset)
    )
    if loss.intercept:
        moved = (first + total * offset)[:, None]
        square = jnp.block([[square, moved], [moved.T, jnp.reshape(total, (1, 1))]])
    return square + jax.hessian(loss.penalty)(theta)


def _margins(loss: Margin, distribution: Empirical, theta: Array) -> Array:
    if not loss.labelled:
        return distribution.points @ theta + distribution.offset @ theta
    weights = theta[:-1] if loss.intercept else theta
    labels = distribution.points[:, -1]
    score = distribution.points[:, :-1] @ weights + distribution.offset[:-1] @ weights
    return labels * (score + theta[-1] if loss.intercept else score)
