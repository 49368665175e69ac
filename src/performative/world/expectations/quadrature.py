r"""Third rung: a loss of the margin u under normal data is a one-dimensional integral.

With z ~ N(μ, Σ) and u = wᵀz + c, the expectation is $F_0(a, v) = E\,\varphi(a + \sqrt v X)$,
a = wᵀμ + c, v = wᵀΣw, X standard normal. By Price's theorem $\partial F_k/\partial a = F_{k+1}$ and
$\partial F_k/\partial v = F_{k+2}/2$, which holds at v = 0 too: all derivatives, of every order, follow from
that one rule, and θ = 0 is an ordinary point. The trapezoid rule converges geometrically here
(Gauss–Hermite does not: the logistic loss has poles at iπ).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from performative.world.distributions import Distribution, Gaussian
from performative.world.losses import Loss, Margin

Array = Any

REACH = 8.25
"""The rule covers [-REACH, REACH] standard deviations: what is left out is below 2e-16."""


def applies(loss: Loss, distribution: Distribution) -> bool:
    return isinstance(loss, Margin) and isinstance(distribution, Gaussian)


def nodes_for(deviation: float) -> int:
    """How many nodes give 1e-12 for margins with this standard deviation.

    The logistic function has poles at distance π from the real line, so the error of step h is about
    exp(−2π²/(h·deviation)); the step below makes that exp(−40).
    """
    step = min(0.35, 2 * np.pi**2 / (40.0 * max(deviation, 1e-9)))
    return 16 * int(np.ceil((1 + 2 * REACH / step) / 16))


@functools.cache
def rule(nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of the trapezoid rule for a standard normal variable."""
    points = np.linspace(-REACH, REACH, nodes)
    density = np.exp(-0.5 * points**2)
    return points, density / density.sum()


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1, 2))
def moment(
    link: Callable[[int, Array], Array], k: int, nodes: int, mean: Array, variance: Array
) -> Array:
    """F_k: the expectation of the k-th derivative of φ at a normal margin."""
    points, weights = rule(nodes)
    margins = mean + jnp.sqrt(jnp.maximum(variance, 0.0)) * points
    return link(k, margins) @ weights


@moment.defjvp
def _price(link: Any, k: int, nodes: int, primals: Any, tangents: Any) -> tuple[Array, Array]:
    (mean, variance), (mean_dot, variance_dot) = primals, tangents
    slope = moment(link, k + 1, nodes, mean, variance) * mean_dot
    spread = 0.5 * moment(link, k + 2, nodes, mean, variance) * variance_dot
    return moment(link, k, nodes, mean, variance), slope + spread


def margin_law(loss: Margin, distribution: Gaussian, theta: Array) -> tuple[Array, Array]:
    """Mean and variance of the margin."""
    direction = loss.direction(distribution.mean, theta)
    mean = loss.margins(distribution.mean, theta)
    return mean, direction @ distribution.covariance @ direction


def risk(loss: Margin, distribution: Gaussian, theta: Array, *, nodes: int, **_: Any) -> Array:
    mean, variance = margin_law(loss, distribution, theta)
    return moment(loss.link, 0, nodes, mean, variance) + loss.penalty(theta)


def gradient(loss: Margin, distribution: Gaussian, theta: Array, **tools: Any) -> Array:
    return jax.grad(lambda point: risk(loss, distribution, point, **tools))(theta)


def hessian(
    loss: Margin, distribution: Gaussian, theta: Array, *, nodes: int, **tools: Any
) -> Array:
    if loss.labelled:
        return jax.hessian(lambda point: risk(loss, distribution, point, nodes=nodes))(theta)
    # The second derivative of F_0, written out: jax.hessian would spend d³ on Σ times the identity.
    mean, covariance = distribution.mean, distribution.covariance
    pull = covariance @ theta
    law = (mean @ theta, theta @ pull)
    second, third, fourth = (moment(loss.link, k, nodes, *law) for k in (2, 3, 4))
    mixed = jnp.outer(mean, pull)
    square = second * (covariance + jnp.outer(mean, mean)) + third * (mixed + mixed.T)
    return square + fourth * jnp.outer(pull, pull) + jax.hessian(loss.penalty)(theta)
