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

FINE, GOOD_ENOUGH = 3e-14, 1e-13
"""Iterations aim at FINE, relative to the size of θ; what is above GOOD_ENOUGH is not solved."""


class Memory(NamedTuple):
    """The inverse derivative of the last problem, and its scale s; zeros before the first."""

    inverse: Array
    scale: Array

    @staticmethod
    def empty(parameters: int) -> Memory:
        return Memory(jnp.zeros((parameters, parameters)), jnp.zeros(()))


class Place(NamedTuple):
    """A model, F there, and the relative size of θ − Π(θ − sF(θ))."""

    theta: Array
    slope: Array
    size: Array


class Solution(NamedTuple):
    """A point of the domain, and the numerator of its certificate (in units of the gradient)."""

    point: Array
    defect: Array
    memory: Memory


def solve(
    field: Field, derivative: Field, domain: Domain, start: Array, memory: Memory
) -> Solution:
    """The root of the fixed-point equation near `start`; pure, to be traced."""
    first = _place(domain, start, field(start), memory.scale)
    place, memory = _with_kept_inverse(field, domain, first, memory)
    unsolved = (place.size > GOOD_ENOUGH) | (memory.scale == 0.0)
    place, memory = _newton(field, derivative, domain, place, unsolved, memory)
    point = domain.projection(place.theta - memory.scale * place.slope)
    gap = jnp.linalg.norm(place.theta - point) / memory.scale
    return Solution(point, jnp.linalg.norm(field(point) - place.slope) + gap, memory)


def _place(domain: Domain, theta: Array, slope: Array, scale: Array) -> Place:
    gap = theta - domain.projection(theta - scale * slope)
    size = jnp.linalg.norm(gap) / (1.0 + jnp.linalg.norm(theta))
    return Place(theta, slope, jnp.nan_to_num(size, nan=jnp.inf))


def _with_kept_inverse(
    field: Field, domain: Domain, first: Place, memory: Memory
) -> tuple[Place, Memory]:
    """Broyden's method from the inverse of an earlier problem: no derivative, no factorisation."""
    scale = memory.scale

    def proceed(state: Any) -> Array:
        place, _, ratio, count = state
        return (place.size > FINE) & (ratio < 0.5) & (count < 16)

    def step(state: Any) -> Any:
        place, inverse, _, count = state
        gap = place.theta - domain.projection(place.theta - scale * place.slope)
        move = -(inverse @ gap)
        theta = place.theta + move
        slope = field(theta)
        ahead = _place(domain, theta, slope, scale)
        seen = inverse @ (theta - domain.projection(theta - scale * slope) - gap)
        along = move @ seen
        usable = (ahead.size < place.size) & (jnp.abs(along) > 1e-2 * (move @ move))
        change = jnp.outer((move - seen) / jnp.where(usable, along, 1.0), move @ inverse)
        inverse = inverse + jnp.where(usable, change, 0.0)
        return _better(ahead, place), inverse, ahead.size / place.size, count + 1

    ratio = jnp.where(scale > 0.0, 0.0, jnp.inf)
    place, inverse, _, _ = jax.lax.while_loop(proceed, step, (first, memory.inverse, ratio, 0))
    return place, Memory(inverse, scale)


def _better(ahead: Place, place: Place) -> Place:
    return jax.tree.map(lambda new, old: jnp.where(ahead.size < place.size, new, old), ahead, place)


def _newton(
    field: Field, derivative: Field, domain: Domain, first: Place, needed: Array, memory: Memory
) -> tuple[Place, Memory]:
    """Newton's method on θ − Π(θ − sF(θ)), with a shorter and a plain step to fall back on."""
    identity = jnp.eye(first.theta.shape[0])

    def proceed(state: Any) -> Array:
        place, _, stuck, count = state
        return (place.size > FINE) & (stuck < 2) & (count < 60)

    def step(state: Any) -> Any:
        place, _, stuck, count = state
        square = derivative(place.theta)
        scale = 1.0 / jnp.maximum(jnp.linalg.norm(square), 1e-12)
        scale = jnp.where(jnp.isfinite(scale), scale, 1.0)
        place = _place(domain, place.theta, place.slope, scale)
        forward = place.theta - scale * place.slope
        gap = place.theta - domain.projection(forward)
        face = domain.projection_derivative(forward)
        inverse = _linear.inverse(identity - face @ (identity - scale * square))
        inverse = jnp.where(jnp.all(jnp.isfinite(inverse)), inverse, identity)
        moves = jnp.stack([inverse @ gap, 0.25 * (inverse @ gap), gap])

        def after(move: Array) -> Place:
            theta = domain.projection(place.theta - move)
            return _place(domain, theta, field(theta), scale)

        candidates = jax.vmap(after)(moves)
        best = jax.tree.map(lambda leaf: leaf[jnp.argmin(candidates.size)], candidates)
        stuck = jnp.where(best.size < 0.9 * place.size, 0, stuck + 1)
        return _better(best, place), Memory(inverse, scale), stuck, count + 1

    # A place of infinite size is never good enough: Newton's method then takes at least one step.
    first = first._replace(size=jnp.where(needed, jnp.inf, 0.0))
    place, memory, _, _ = jax.lax.while_loop(proceed, step, (first, memory, 0, 0))
    return place, memory
