"""All that a learner may be shown.

Before the first round, a `Problem`: what the theorems assume known. After each deployment, one kind
of feedback, the one the learner declares, and nothing else: asking for more is an error.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from performative import _checks
from performative.world.distributions import Empirical, Noise
from performative.world.domains import Domain
from performative.world.expectations import Ladder, choose, expect
from performative.world.losses import Loss
from performative.world.rounds import Round

Array = Any

KINDS = ("population", "samples", "risk")
"""What a learner can declare."""


class Problem(NamedTuple):
    """What a learner knows before the first round."""

    rounds: int
    alphas: np.ndarray
    parameters: int
    loss: Loss
    domain: Domain


class UndeclaredFeedback(AttributeError, TypeError):
    """A learner asked for feedback that it had not declared."""


class Feedback:
    """What every learner sees: the round, its arms, the loss and the domain."""

    kind = ""
    shows: tuple[str, ...] = ()

    def __init__(self, here: Round, deployed: Array):
        self.round, self.deployed = here.number, deployed
        self.loss, self.domain = here.loss, here.domain

    def __getattr__(self, name: str) -> Any:
        wanted = [kind.kind for kind in (Population, Samples, Risk) if name in kind.shows]
        hint = f"; it must declare feedback={wanted[0]!r}" if wanted else ""
        raise UndeclaredFeedback(
            f"feedback must be what the learner declares, {self.kind!r}; got a request for "
            f"{name!r}, which that does not show{hint}."
        )


class Population(Feedback):
    """DPR_t(·, θ_t): exact expectations on the deployed model's data, held fixed."""

    kind = "population"
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


class Risk(Feedback):
    """PR_t of each deployed arm, and nothing about the data."""

    kind = "risk"
    shows = ("risks",)

    def __init__(self, here: Round, deployed: Array, populated: Array):
        super().__init__(here, deployed)
        self.risks = jnp.stack(
            [
                here.decoupled_risk(arm, shaped)
                for arm, shaped in zip(deployed, populated, strict=True)
            ]
        )


def _of_arm(noise: Noise, arm: int) -> Noise:
    return Noise(noise.normals[arm], noise.uniforms[arm], noise.key[arm])


def check_kind(name: str, kind: Any) -> str:
    """`kind` if it is a kind of feedback."""
    return _checks.choice(name, kind, KINDS)
