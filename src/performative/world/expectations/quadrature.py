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

WIDEST = 900.0
"""The rule is refined up to margins of this standard deviation; beyond, it is too coarse."""

FINEST, SMOOTH = 2**13, 1e-11
"""For a link of a user's own: at most so many nodes, and the error they should come down to."""


def applies(loss: Loss, distribution: Distribution) -> bool:
    return isinstance(loss, Margin) and isinstance(distribution, Gaussian)


def nodes_for(deviation: float) -> int:
    """How many nodes give 1e-12 for margins with this standard deviation.

    The logistic function has poles at distance π from the real line, so the error of step h is about
    exp(−2π²/(h·deviation)); the step below makes that exp(−40).
    """
    step = min(0.35, 2 * np.pi**2 / (40.0 * np.clip(deviation, 1e-9, WIDEST)))
    return 16 * int(np.ceil((1 + 2 * REACH / step) / 16))


def nodes_for_link(link: Callable[[int, Array], Array], deviation: float) -> tuple[int, float]:
    """How many nodes a link of a user's own takes, and the relative error that is left.

    The error is measured on Stein's identity, E φ⁽ᵏ⁾(a + sX) X = s E φ⁽ᵏ⁺¹⁾(a + sX) for k = 0 … 3. It
    fails where the rule is too coarse or does not reach far enough, and where the link has a kink:
    the derivatives of expectations are then not the expectations of derivatives.
    """
    deviation = float(np.clip(deviation, 1e-3, WIDEST))
    furthest = 3.0 + 3.0 * deviation
    means = np.linspace(-furthest, furthest, int(np.clip(2 * furthest / deviation, 9, 401)))
    errors = np.asarray(_stein_errors(link, means, deviation))
    # Nothing finer than what brings the error down to what is wanted, or to what can be had.
    chosen = np.flatnonzero(errors <= max(SMOOTH, 2.0 * errors.min()))[0]
    error = float(errors[chosen])
    nodes = max(nodes_for(deviation), FINEST >> (len(errors) - 1 - chosen))
    return nodes, error if error > SMOOTH else 0.0


@functools.partial(jax.jit, static_argnums=0)
def _stein_errors(link: Any, means: Array, deviation: Array) -> Array:
    """By how much the identity fails, of its size, for 64, 128, … FINEST steps."""
    points = np.linspace(-REACH, REACH, FINEST + 1)
    rules = []
    for steps in 2 ** np.arange(6, int(np.log2(FINEST)) + 1):
        weights = np.zeros(FINEST + 1)
        weights[:: FINEST // steps] = np.exp(-0.5 * points[:: FINEST // steps] ** 2)
        rules.append(weights / weights.sum())
    weights = np.stack(rules, axis=1)

    def at(mean: Array) -> tuple[Array, Array]:
        margins = mean + deviation * points
        values = [link(k, margins) for k in range(5)]
        terms = jnp.stack([value * points for value in values[:4]])
        slopes = deviation * jnp.stack(values[1:])
        return (terms - slopes) @ weights, jnp.abs(terms) @ weights + jnp.abs(slopes) @ weights

    gaps, sizes = jax.lax.map(at, means)
    gap, size = jnp.max(jnp.abs(gaps), axis=0), jnp.max(sizes, axis=0)
    return jnp.max(jnp.nan_to_num(jnp.where(gap == 0.0, 0.0, gap / size), nan=jnp.inf), axis=0)


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


def outermost(loss: Margin, distribution: Gaussian, theta: Array) -> Array:
    """The size of the loss a little beyond where the rule ends: of what it leaves out, and rounds."""
    mean, variance = margin_law(loss, distribution, theta)
    ends = mean + jnp.sqrt(jnp.maximum(variance, 0.0)) * jnp.array([-1.25, 1.25]) * REACH
    return jnp.max(jnp.abs(loss.link(0, ends)))


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
