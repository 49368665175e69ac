"""Time-varying maps D_t(θ) that are no mixture of a response and a drift.

The paper's regret notions are defined for any D_t(θ); `pp.World(map=…)` takes one from here in place
of response, drift and mixing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx

from performative import _checks
from performative.world.distributions import Distribution, Sampled
from performative.world.responses import sampler_or_distribution

Array = Any


class Map(eqx.Module):
    """A user's D_t(θ)."""

    function: Callable = eqx.field(static=True)
    draws: bool = eqx.field(static=True)
    dimension: int = eqx.field(static=True)
    parameters: int | None = eqx.field(static=True)

    def at(self, t: Array, theta: Array) -> Distribution:
        """D_t(θ); pure, to be traced."""
        if not self.draws:
            return self.function(t, theta)
        return Sampled(_AtRound(self.function), self.dimension, (t, theta))


class _AtRound:
    """A sampler of (key, t, theta, n) as one of (key, (t, theta), n); equal if the function is."""

    def __init__(self, function: Callable):
        self.function = function

    def __call__(self, key: Array, known: tuple[Array, Array], n: int) -> Array:
        return self.function(key, *known, n)

    def __hash__(self) -> int:
        return hash(self.function)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _AtRound) and self.function == other.function


def custom(
    sampler: Callable | None = None,
    *,
    distribution: Callable | None = None,
    dimension: int,
    parameters: int | None = None,
    backend: str = "jax",
) -> Map:
    """A map of your own: a sampler, or a function that gives the distribution itself.

    Args:
        sampler: ``sampler(key, t, theta, n)`` in jax.numpy, returning n rows; with
            ``backend="numpy"``, ``sampler(rng, t, theta, n)`` with a NumPy generator.
        distribution: ``distribution(t, theta)`` in jax.numpy, returning a `Gaussian`, `Empirical`
            or `Mixture`; then expectations stay exact where the loss allows.
        dimension: length of one row.
        parameters: length of a model, where the loss does not tell.
        backend: "jax" or "numpy".
    """
    function = sampler_or_distribution(sampler, distribution, backend, dimension)
    count = None if parameters is None else _checks.integer("parameters", parameters, low=1)
    return Map(function, sampler is not None, dimension, count)
