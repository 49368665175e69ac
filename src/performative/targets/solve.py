r"""One fixed-point equation and one certificate, for every inner problem and every target.

Retraining, stable points and optimal points all ask for a θ in Θ with

$$\theta = \Pi_\Theta(\theta - s F(\theta)), \qquad s > 0,$$

where F is the gradient of the decoupled risk at fixed data, at the data of θ itself, or of the
performative risk. `solve` applies Newton's method to the difference of the two sides, which is right
on the boundary as well as inside, and keeps the inverse it has made for the next, similar problem.
Where that gets stuck, the linearised problem is solved by splitting, which does not in a monotone one.

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

FINE, GOOD_ENOUGH, STUCK = 3e-14, 1e-13, 1e-9
"""Iterations aim at FINE, relative to the size of θ; what is above GOOD_ENOUGH is not solved, and what
is above STUCK is not for the want of digits."""

TRIES, PATIENCE = 2, 3000
"""How often Newton's method begins, and how many steps help it in between."""


class Memory(NamedTuple):
    """The inverse derivative of the last problem, and its scale s; zeros before the first."""

    inverse: Array
    scale: Array

    @staticmethod
    def empty(parameters: int) -> Memory:
        return Memory(jnp.zeros((parameters, parameters)), jnp.zeros(()))


class Place(NamedTuple):
    """A model, F there, and the length of θ − Π(θ − sF(θ)), by which progress is judged."""

    theta: Array
    slope: Array
    gap: Array

    @property
    def size(self) -> Array:
        """The same relative to the size of θ, which says when to stop.

        It would be no measure of progress: a model thrown far away has a small one.
        """
        return self.gap / (1.0 + jnp.linalg.norm(self.theta))


class Solution(NamedTuple):
    """A point of the domain, and the numerator of its certificate (in units of the gradient)."""

    point: Array
    defect: Array
    memory: Memory


def solve(
    field: Field, derivative: Field, domain: Domain, start: Array, memory: Memory
) -> Solution:
    """The root of the fixed-point equation near `start`; pure, to be traced."""
    field, derivative = jax.jit(field), jax.jit(derivative)  # traced once, used in many places
    first = _place(domain, start, field(start), memory.scale)
    place, memory = _with_kept_inverse(field, domain, first, memory)

    def unsolved(state: Any) -> Array:
        place, memory, tries = state
        return ((place.size > GOOD_ENOUGH) | (memory.scale == 0.0)) & (tries < TRIES)

    def attempt(state: Any) -> Any:
        place, memory, square = _newton(field, derivative, domain, state[0], state[1])
        tries = jnp.where(place.size > STUCK, state[2] + 1, TRIES)
        return _linearised(field, square, domain, place, memory), memory, tries

    place, memory, _ = jax.lax.while_loop(unsolved, attempt, (place, memory, jnp.asarray(0)))
    point = domain.projection(place.theta - memory.scale * place.slope)
    gap = jnp.linalg.norm(place.theta - point) / memory.scale
    return Solution(point, jnp.linalg.norm(field(point) - place.slope) + gap, memory)


def _place(domain: Domain, theta: Array, slope: Array, scale: Array) -> Place:
    gap = jnp.linalg.norm(theta - domain.projection(theta - scale * slope))
    return Place(theta, slope, jnp.nan_to_num(gap, nan=jnp.inf))


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
        usable = (ahead.gap < place.gap) & (jnp.abs(along) > 1e-2 * (move @ move))
        change = jnp.outer((move - seen) / jnp.where(usable, along, 1.0), move @ inverse)
        inverse = inverse + jnp.where(usable, change, 0.0)
        return _better(ahead, place), inverse, ahead.gap / place.gap, count + 1

    ratio = jnp.where(scale > 0.0, 0.0, jnp.inf)
    place, inverse, _, _ = jax.lax.while_loop(proceed, step, (first, memory.inverse, ratio, 0))
    return place, Memory(inverse, scale)


def _better(ahead: Place, place: Place) -> Place:
    return jax.tree.map(lambda new, old: jnp.where(ahead.gap < place.gap, new, old), ahead, place)


def _newton(
    field: Field, derivative: Field, domain: Domain, first: Place, memory: Memory
) -> tuple[Place, Memory, Array]:
    """Newton's method on θ − Π(θ − sF(θ)), with a shorter and a plain step to fall back on.

    Also the derivative of F where it ended, which is dear to compile a second time.
    """
    identity = jnp.eye(first.theta.shape[0])

    def proceed(state: Any) -> Array:
        place, _, stuck, count, _ = state
        return (place.size > FINE) & (stuck < 2) & (count < 60)

    def step(state: Any) -> Any:
        place, _, stuck, count, _ = state
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
        best = jax.tree.map(lambda leaf: leaf[jnp.argmin(candidates.gap)], candidates)
        stuck = jnp.where(best.gap < 0.9 * place.gap, 0, stuck + 1)
        return _better(best, place), Memory(inverse, scale), stuck, count + 1, square

    # An infinite gap is never good enough: Newton's method then takes at least one step.
    first = first._replace(gap=jnp.asarray(jnp.inf))
    begun = (first, memory, 0, 0, jnp.zeros_like(memory.inverse))
    place, memory, _, _, square = jax.lax.while_loop(proceed, step, begun)
    return place, memory, square


def _linearised(field: Field, square: Array, domain: Domain, place: Place, memory: Memory) -> Place:
    """The problem made linear where Newton's method got stuck, as it can between faces of the domain.

    Solved by splitting (Douglas and Rachford): projections and a resolvent in turn converge wherever
    F is monotone, whatever the domain. Where the steps do not shrink, it is not, and they end.
    """
    identity = jnp.eye(place.theta.shape[0])
    constant = place.slope - square @ place.theta
    # Fastest at one over the geometric mean of the extreme eigenvalues.
    length = jnp.linalg.norm(_linear.inverse(square)) / jnp.linalg.norm(square)
    length = jnp.sqrt(jnp.nan_to_num(length, nan=1.0, posinf=1.0))
    resolvent = _linear.inverse(identity + length * square)

    def proceed(state: Any) -> Array:
        _, change, shrinks, count = state
        return (change > FINE) & shrinks & (count < PATIENCE)

    def step(state: Any) -> Any:
        z, change, _, count = state
        theta = domain.projection(z)
        move = resolvent @ (2.0 * theta - z - length * constant) - theta
        size = jnp.linalg.norm(move) / (1.0 + jnp.linalg.norm(theta))
        return z + move, size, size <= change * (1.0 + 1e-9), count + 1

    change = jnp.where(place.size > STUCK, jnp.inf, 0.0)
    begun = (place.theta - length * place.slope, change, jnp.asarray(True), 0)
    theta = domain.projection(jax.lax.while_loop(proceed, step, begun)[0])
    return _better(_place(domain, theta, field(theta), memory.scale), place)
