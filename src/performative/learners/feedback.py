"""All that a learner may be shown.

Before the first round, a `Problem`: what the theorems assume known. After each deployment, one kind
of feedback, the one the learner declares, and nothing else: asking for more is an error.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from performative import _checks
from performative.world.constants import Constants
from performative.world.distributions import Empirical, Noise
from performative.world.domains import Domain
from performative.world.expectations import Ladder, choose, expect
from performative.world.losses import Loss
from performative.world.rounds import Round

Array = Any

KINDS = ("population", "samples", "risk")
"""What a learner can declare."""

BLOCK = 64
"""Rows are drawn in blocks of so many, each with a key of its own."""


class Problem(NamedTuple):
    """What a learner knows before the first round."""

    rounds: int
    alphas: np.ndarray
    parameters: int
    loss: Loss
    domain: Domain
    constants: Constants
    dimension: int  # of a row of data


class UndeclaredFeedback(AttributeError, TypeError):
    """A learner asked for feedback that it had not declared."""


class Feedback:
    """What every learner sees: the round, its arms, the loss and the domain."""

    kind = ""
    declared = ""
    shows: tuple[str, ...] = ()

    def __init__(self, here: Round, deployed: Array):
        self.round, self.deployed = here.number, deployed
        self.loss, self.domain = here.loss, here.domain

    def __getattr__(self, name: str) -> Any:
        kinds = (Population, Samples, Stream, Risk)
        wanted = [kind.declared for kind in kinds if name in kind.shows]
        hint = f"; it must declare {wanted[0]}" if wanted else ""
        raise UndeclaredFeedback(
            f"feedback must be what the learner declares, {self.declared}; got a request for "
            f"{name!r}, which that does not show{hint}."
        )


class Population(Feedback):
    """DPR_t(·, θ_t): exact expectations on the deployed model's data, held fixed."""

    kind = "population"
    declared = "feedback='population'"
    shows = ("gradient", "hessian", "decoupled_risk")

    def __init__(self, here: Round, deployed: Array, populated: Array):
        super().__init__(here, deployed)
        self.__here, self.__populated = here, populated

    def decoupled_risk(self, theta: Array, arm: int = 0) -> Array:
        """DPR_t(θ, θ_t)."""
        return self.__here.decoupled_risk(theta, self.__populated[arm])

    def gradient(self, theta: Array, arm: int = 0) -> Array:
        """∇_θ DPR_t(θ, θ_t)."""
        return self.__here.gradient(theta, self.__populated[arm])

    def hessian(self, theta: Array, arm: int = 0) -> Array:
        """∇²_θ DPR_t(θ, θ_t)."""
        return self.__here.hessian(theta, self.__populated[arm])


class Samples(Feedback):
    """Rows drawn from each arm's data, and the averages that can be made of them."""

    kind = "samples"
    declared = "feedback='samples' and one number of rows"
    shows = ("rows", "gradient", "hessian", "decoupled_risk")

    def __init__(self, here: Round, deployed: Array, populated: Array, noise: Noise):
        super().__init__(here, deployed)
        arms = range(deployed.shape[0])
        drawn = [here.rows(populated[arm], _of_arm(noise, arm)) for arm in arms]
        self.rows = jnp.stack(drawn)  # (arm, n, column)

    def decoupled_risk(self, theta: Array, arm: int = 0) -> Array:
        """The average loss of θ over the rows of an arm."""
        return self._average("risk", theta, arm)

    def gradient(self, theta: Array, arm: int = 0) -> Array:
        """The average gradient of the loss at θ over the rows of an arm."""
        return self._average("gradient", theta, arm)

    def hessian(self, theta: Array, arm: int = 0) -> Array:
        """The average Hessian of the loss at θ over the rows of an arm."""
        return self._average("hessian", theta, arm)

    def _average(self, what: str, theta: Array, arm: int) -> Array:
        data = Empirical(self.rows[arm])
        return expect(what, Ladder(choose(self.loss, data)), self.loss, data, theta, None)


class Stream(Feedback):
    """Rows of each arm's data one after another, however many: they are never all in memory."""

    kind = "samples"
    declared = "feedback='samples' and an array of rows, one number a round"
    shows = ("fold",)

    def __init__(self, here: Round, deployed: Array, populated: Array, key: Array, count: Array):
        super().__init__(here, deployed)
        self.__here, self.__populated, self.__key = here, populated, key
        self.count = count

    def fold(self, function: Callable[[Any, Array, Array], Any], carry: Any, arm: int = 0) -> Any:
        """`carry = function(carry, row, j)` for the rows j = 1 … n(t) of an arm."""
        here, key = self.__here, arm_key(self.__key, arm)
        data = here.distribution(self.__populated[arm])

        def block(state: Any) -> Any:
            index, carry = state
            first = index * BLOCK
            rows = data.rows(block_noise(key, index, BLOCK, data.dimension))
            left = jnp.minimum(BLOCK, self.count - first)
            return index + 1, jax.lax.fori_loop(
                0, left, lambda i, carry: function(carry, rows[i], first + i + 1), carry
            )

        start = (jnp.zeros((), jnp.int64), carry)
        return jax.lax.while_loop(lambda state: state[0] * BLOCK < self.count, block, start)[1]


class Risk(Feedback):
    """PR_t of each deployed arm, and nothing about the data."""

    kind = "risk"
    declared = "feedback='risk'"
    shows = ("risks",)

    def __init__(self, here: Round, deployed: Array, populated: Array):
        super().__init__(here, deployed)
        self.risks = jnp.stack(
            [
                here.decoupled_risk(arm, shaped)
                for arm, shaped in zip(deployed, populated, strict=True)
            ]
        )


def arm_key(key: Array, arm: Any) -> Array:
    """The key of an arm's rows, from that of the round."""
    return jax.random.fold_in(key, arm + 1)


def block_noise(key: Array, index: Any, rows: int, dimension: int) -> Noise:
    """The first rows of a block of an arm's noise: the same however many there are."""
    return Noise.draw(jax.random.fold_in(key, index), rows, dimension)


def arm_noise(key: Array, arms: int, rows: int, dimension: int) -> Noise:
    """The noise of so many rows of each arm in one round, with an arm axis first."""
    return jax.vmap(lambda arm: _row_noise(arm_key(key, arm), rows, dimension))(jnp.arange(arms))


def _row_noise(key: Array, rows: int, dimension: int) -> Noise:
    whole, rest = divmod(rows, BLOCK)
    draw = functools.partial(block_noise, key, dimension=dimension)
    parts = []
    if whole:
        blocks = jax.vmap(functools.partial(draw, rows=BLOCK))(jnp.arange(whole))
        parts.append(jax.tree.map(lambda leaf: leaf.reshape(-1, leaf.shape[-1]), blocks))
    if rest:
        parts.append(draw(whole, rows=rest))
    normals, uniforms = (
        jnp.concatenate([getattr(part, name) for part in parts]) for name in ("normals", "uniforms")
    )
    return Noise(normals, uniforms, jax.random.key_data(key))


def _of_arm(noise: Noise, arm: int) -> Noise:
    return Noise(noise.normals[arm], noise.uniforms[arm], noise.key[arm])


def check_kind(name: str, kind: Any) -> str:
    """`kind` if it is a kind of feedback."""
    return _checks.choice(name, kind, KINDS)
