r"""Targets in closed form: squared loss, and data that only move.

The equation of a target is then linear, F(θ) = M_t θ + F(0), and only the response's part of M_t is no
multiple of the identity:

$$M_t = (1+\lambda) I + (1-\alpha_t) N.$$

One Schur decomposition of N serves all rounds. What it gives is checked against the fixed-point equation,
boundary included; rounds that do not pass are left to Newton's method.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg

from performative.world.rounds import Round
from performative.world.world import World

Array = Any
Field = Callable[[Round, Array], Array]

BLOCK = 2048


class Linear(NamedTuple):
    """The equations of all rounds of a world: N = Q T Qᴴ with T triangular, and the moduli of M_t."""

    vectors: np.ndarray  # Q
    triangle: np.ndarray  # T
    identity: float  # 1 + λ
    modulus: np.ndarray  # over rounds: the smallest eigenvalue of M_t's symmetric part

    @staticmethod
    def of(world: World, derivative: Field) -> Linear | None:
        """None where a target's equation is not linear."""
        here = world.at(1)
        if not here.is_quadratic:
            return None
        identity = 1.0 + float(world.loss.l2)
        here = dataclasses.replace(here, alpha=np.zeros(()))
        square = np.asarray(_derivative(derivative, here, np.zeros(world.parameters)))
        responding = square - identity * np.eye(world.parameters)
        schur: Any = scipy.linalg.schur(responding, output="complex")
        triangle, vectors = schur
        lowest = np.linalg.eigvalsh(0.5 * (responding + responding.T))[0]
        return Linear(vectors, triangle, identity, identity + (1.0 - world.alphas) * lowest)

    def solve(self, alphas: np.ndarray, constant: np.ndarray) -> np.ndarray:
        """The θ of every round with M_t θ + F(0) = 0: back substitution, all rounds at a time."""
        # einsum and not a matrix product: the threads of BLAS would wait for those of this package.
        weight = 1.0 - alphas
        right = -np.einsum("ti,ik->kt", constant, self.vectors.conj())
        solved = np.empty(right.shape, complex)
        for k in reversed(range(len(right))):
            known = weight * np.einsum("it,i->t", solved[k + 1 :], self.triangle[k, k + 1 :])
            solved[k] = (right[k] - known) / (self.identity + weight * self.triangle[k, k])
        return np.real(np.einsum("kt,jk->tj", solved, self.vectors))


def find(
    world: World, linear: Linear, field: Field, rounds: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Points of some rounds, and how far the fixed-point equation is from holding there."""
    points, defects = [], []
    size = BLOCK if world.rounds >= BLOCK else 64 * int(np.ceil(world.rounds / 64))
    for i in range(0, len(rounds), size):
        some = rounds[i : i + size]
        padded = np.concatenate([some, np.repeat(some[-1:], size - len(some))])
        moving, still = eqx.partition(world.at(padded), world.moving())
        zeros = np.zeros((size, world.parameters))
        constant = np.asarray(_check(field, moving, still, zeros)[0])
        there = linear.solve(world.alphas[padded - 1], constant)
        _, point, defect = _check(field, moving, still, there)
        points.append(np.asarray(point)[: len(some)])
        defects.append(np.asarray(defect)[: len(some)])
    return np.concatenate(points), np.concatenate(defects)


@functools.partial(jax.jit, static_argnums=0)
def _derivative(derivative: Field, here: Round, theta: Array) -> Array:
    return derivative(here, theta)


@functools.partial(jax.jit, static_argnums=0)
def _check(field: Field, moving: Any, still: Round, points: Array) -> tuple[Array, Array, Array]:
    """F, the projected step from each point, and the numerator of its certificate (with s = 1)."""

    def one(part: Any, theta: Array) -> tuple[Array, Array, Array]:
        here = eqx.combine(part, still)
        slope = field(here, theta)
        point = here.domain.projection(theta - slope)
        change = jnp.linalg.norm(field(here, point) - slope)
        return slope, point, change + jnp.linalg.norm(theta - point)

    return jax.vmap(one)(moving, points)
