r"""One fixed-point equation and one certificate, for every inner problem and every target.

Retraining, stable points and optimal points all ask for a θ in Θ with

$$\theta = \Pi_\Theta(\theta - s F(\theta)), \qquad s > 0,$$

where F is the gradient of the decoupled risk at fixed data, at the data of θ itself, or of the
performative risk. `solve` applies Newton's method to the difference of the two sides, which is right
on the boundary as well as inside, and keeps the inverse it has made for the next, similar problem.

The certificate needs one number, m, with which F is strongly monotone. For p = Π(θ − sF(θ)),

$$\|p - \theta^*\| \le \frac{\|F(p) - F(\theta)\| + \|\theta - p\|/s}{m}.$$

(The projection gives (θ − sF(θ) − p)ᵀ(θ* − p) ≤ 0, and monotonicity F(p)ᵀ(p − θ*) ≥ m‖p − θ*‖².)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from performative import _linear
from performative.world.domains import Domain

Array = Any
Field = Callable[[Array], Array]

FINE, GOOD_ENOUGH = 1e-14, 3e-14
"""Iterations aim at FINE, relative to the size of θ; what is above GOOD_ENOUGH is not solved."""


class Memory(NamedTuple):
    """The inverse derivative of the last problem, and its scale s; zeros before the first."""

    inverse: Array
    scale: Array

    @staticmethod
    def empty(parameters: int) -> Memory:
        return Memory(jnp.zeros((parameters, parameters)), jnp.zeros(()))


class Solution(NamedTuple):
    """A point of the domain, and the numerator of its certificate (in units of the gradient)."""

    point: Array
    defect: Array
    memory: Memory


def solve(
    field: Field, derivative: Field, domain: Domain, start: Array, memory: Memory
) -> Solution:
    """The root of the fixed-point equation near `start`; pure, to be traced."""
    theta, size = _with_kept_inverse(field, domain, start, memory)
    unsolved = (size > GOOD_ENOUGH) | (memory.scale == 0.0)
    theta, memory = _newton(field, derivative, domain, theta, unsolved, memory)
    slope = field(theta)
    point = domain.projection(theta - memory.scale * slope)
    gap = jnp.linalg.norm(theta - point) / memory.scale
    return Solution(point, jnp.linalg.norm(field(point) - slope) + gap, memory)


def _with_kept_inverse(
    field: Field, domain: Domain, start: Array, memory: Memory
) -> tuple[Array, Array]:
    """Steps with the inverse of an earlier problem: no derivative, no factorisation."""

    def residual(theta: Array) -> tuple[Array, Array]:
        gap = theta - domain.projection(theta - memory.scale * field(theta))
        return gap, _relative(gap, theta)

    def proceed(state: Any) -> Array:
        _, _, size, ratio, count = state
        return (size > FINE) & (ratio < 0.5) & (count < 16)

    def step(state: Any) -> Any:
        theta, gap, size, _, count = state
        ahead = theta - memory.inverse @ gap
        gap_ahead, size_ahead = residual(ahead)
        better = size_ahead < size
        theta = jnp.where(better, ahead, theta)
        gap = jnp.where(better, gap_ahead, gap)
        return theta, gap, jnp.where(better, size_ahead, size), size_ahead / size, count + 1

    gap, size = residual(start)
    ratio = jnp.where(memory.scale > 0.0, 0.0, jnp.inf)
    theta, _, size, _, _ = jax.lax.while_loop(proceed, step, (start, gap, size, ratio, 0))
    return theta, size


def _newton(
    field: Field, derivative: Field, domain: Domain, start: Array, needed: Array, memory: Memory
) -> tuple[Array, Memory]:
    """Newton's method on θ − Π(θ − sF(θ)), with a shorter and a plain step to fall back on."""
    identity = jnp.eye(start.shape[0])

    def proceed(state: Any) -> Array:
        _, _, size, stuck, count = state
        return (size > FINE) & (stuck < 2) & (count < 60)

    def step(state: Any) -> Any:
        theta, _, _, stuck, count = state
        slope, square = field(theta), derivative(theta)
        scale = 1.0 / jnp.maximum(jnp.linalg.norm(square), 1e-12)
        scale = jnp.where(jnp.isfinite(scale), scale, 1.0)
        forward = theta - scale * slope
        gap = theta - domain.projection(forward)
        face = domain.projection_derivative(forward)
        inverse = _linear.inverse(identity - face @ (identity - scale * square))
        inverse = jnp.where(jnp.all(jnp.isfinite(inverse)), inverse, identity)
        move = inverse @ gap
        candidates = jnp.stack([theta - move, theta - 0.25 * move, theta - gap])
        candidates = jax.vmap(domain.projection)(candidates)

        def size_at(point: Array) -> Array:
            rest = point - domain.projection(point - scale * field(point))
            return jnp.nan_to_num(_relative(rest, point), nan=jnp.inf)

        sizes = jax.vmap(size_at)(candidates)
        before = _relative(gap, theta)
        best = jnp.argmin(sizes)
        ahead = jnp.where(sizes[best] < before, candidates[best], theta)
        size = jnp.minimum(sizes[best], before)
        stuck = jnp.where(sizes[best] < 0.9 * before, 0, stuck + 1)
        return ahead, Memory(inverse, scale), size, stuck, count + 1

    size = jnp.where(needed, jnp.inf, 0.0)
    theta, memory, _, _, _ = jax.lax.while_loop(proceed, step, (start, memory, size, 0, 0))
    return theta, memory


def _relative(gap: Array, theta: Array) -> Array:
    return jnp.linalg.norm(gap) / (1.0 + jnp.linalg.norm(theta))
