"""First rung: the squared loss needs the mean and the covariance of the data, and nothing else."""

from __future__ import annotations

from typing import Any

import jax

from performative.world.distributions import Distribution, Empirical, Gaussian
from performative.world.losses import Loss, Squared

Array = Any


def applies(loss: Loss, distribution: Distribution) -> bool:
    return isinstance(loss, Squared) and isinstance(distribution, (Gaussian, Empirical))


def risk(loss: Squared, distribution: Any, theta: Array, **_: Any) -> Array:
    return loss.expected(distribution.mean, distribution.covariance, theta)


def gradient(loss: Squared, distribution: Any, theta: Array, **_: Any) -> Array:
    return jax.grad(lambda point: risk(loss, distribution, point))(theta)


def hessian(loss: Squared, distribution: Any, theta: Array, **_: Any) -> Array:
    return jax.hessian(lambda point: risk(loss, distribution, point))(theta)
