"""Small dense linear algebra in plain array operations, for compiled code.

A batch of LAPACK calls waits for the same threads that XLA runs compiled programs on, so that two
programs at a time can wait for each other for ever; these routines call nothing, and run on a GPU as
they are. They are made for the size of a model, some tens of parameters.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

Array = Any


def inverse(matrix: Array) -> Array:
    """The inverse, by Gauss–Jordan elimination with row pivoting; not finite if there is none."""
    size = matrix.shape[0]
    columns = jnp.arange(size)

    def eliminate(i: Array, both: Array) -> Array:
        candidates = jnp.where(columns >= i, jnp.abs(both[:, i]), -1.0)
        pivot = jnp.argmax(candidates)
        chosen = both[pivot]
        both = both.at[pivot].set(both[i])
        row = chosen / chosen[i]
        others = both - jnp.outer(both[:, i], row)
        return jnp.where((columns == i)[:, None], row, others)

    both = jnp.concatenate([matrix, jnp.eye(size)], axis=1)
    return jax.lax.fori_loop(0, size, eliminate, both)[:, size:]


def cholesky(matrix: Array) -> Array:
    """L with L Lᵀ = matrix, also for a matrix that is only semidefinite."""
    size = matrix.shape[0]
    rows = jnp.arange(size)
    smallest = 1e-14 * jnp.max(jnp.diag(matrix))

    def next_column(j: Array, lower: Array) -> Array:
        column = matrix[:, j] - lower @ lower[j]
        pivot = column[j]
        column = jnp.where(rows >= j, column, 0.0)
        safe = jnp.where(pivot > smallest, pivot, 1.0)
        column = jnp.where(pivot > smallest, column / jnp.sqrt(safe), 0.0)
        return lower.at[:, j].set(column)

    return jax.lax.fori_loop(0, size, next_column, jnp.zeros_like(matrix))
