"""One round of a world, as pure functions: what compiled code works with.

A `Round` holds all that D_t(θ), PR_t and DPR_t depend on, in one immutable tree, so that rounds,
runs and worlds of one structure can be stacked and mapped over. It knows one t and nothing of
learners. `World` is its public face; its methods add validation and double precision.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from performative._precision import require_double
from performative.world.distributions import Distribution, Mixture, Noise, mixture
from performative.world.domains import Domain
from performative.world.expectations import Ladder, expect, monte_carlo, quadrature
from performative.world.losses import Loss, Squared
from performative.world.maps import Map
from performative.world.responses import Lagged, Location, Response

Array = Any


class Reference(NamedTuple):
    """A target, as the other side of a regret."""

    target: Array
    value: Array  # PR_t(target); for a quadratic PR_t, its gradient with the data held fixed
    moved: Array | None  # for a quadratic PR_t, what movement of the responding data adds


class Round(eqx.Module):
    """Round t of a world; θ is the model judged, θ′ (`deployed`) the model that shapes the data."""

    number: Array
    alpha: Array
    response: Response | None
    exogenous: Distribution | None
    map: Map | None
    loss: Loss
    domain: Domain
    draws: Noise | None
    ladder: Ladder = eqx.field(static=True)
    pathwise: bool = eqx.field(static=True)  # may derivatives go through the data?
    difference: float = eqx.field(static=True)  # else the step of central differences

    def distribution(self, deployed: Array) -> Mixture:
        """D_t(θ′) = (1−α_t) D(θ′) + α_t P_t."""
        if self.map is not None:
            return mixture([self.map.at(self.number, deployed)], jnp.ones(1))
        parts, weights = [], []
        if self.response is not None:
            parts.append(self.response.at(deployed))
            weights.append(1.0 - self.alpha)
        if self.exogenous is not None:
            parts.append(self.exogenous)
            weights.append(self.alpha)
        if len(parts) == 1:
            weights = [1.0]
        return mixture(parts, jnp.stack([jnp.asarray(w, jnp.float64) for w in weights]))

    def decoupled_risk(self, theta: Array, deployed: Array) -> Array:
        """DPR_t(θ, θ′)."""
        return self._expect("risk", theta, deployed)

    def gradient(self, theta: Array, deployed: Array) -> Array:
        """∇_θ DPR_t(θ, θ′), the data held fixed."""
        return self._expect("gradient", theta, deployed)

    def hessian(self, theta: Array, deployed: Array) -> Array:
        """∇²_θ DPR_t(θ, θ′), the data held fixed."""
        return self._expect("hessian", theta, deployed)

    def _expect(self, what: str, theta: Array, deployed: Array) -> Array:
        require_double(theta)
        data = self.distribution(deployed)
        return expect(what, self.ladder, self.loss, data, theta, self.draws)

    def risk(self, theta: Array) -> Array:
        """PR_t(θ)."""
        return self.decoupled_risk(theta, theta)

    def gradient_response(self, theta: Array, deployed: Array) -> Array:
        """J: how ∇_θ DPR_t(θ, θ′) changes with θ′."""
        return self.along_deployed(lambda model: self.gradient(theta, model), deployed)

    def total_gradient(self, theta: Array) -> Array:
        """∇PR_t(θ): through the loss and through the data."""
        if self.pathwise:
            return jax.grad(self.risk)(theta)
        through_data = self.along_deployed(lambda model: self.decoupled_risk(theta, model), theta)
        return self.gradient(theta, theta) + through_data

    def total_hessian(self, theta: Array) -> Array:
        """∇²PR_t(θ)."""
        square = self.along_deployed(self.total_gradient, theta)
        return 0.5 * (square + square.T)

    def along_deployed(self, function: Callable[[Array], Array], deployed: Array) -> Array:
        """The derivative of `function` in the deployed model.

        Automatic where the data move smoothly with the model, else by central differences on common
        draws; the derivative is the last axis.
        """
        if self.pathwise:
            return jax.jacfwd(function)(deployed)
        steps = self.difference * jnp.eye(deployed.shape[0])
        ahead = jax.vmap(lambda step: function(deployed + step))(steps)
        behind = jax.vmap(lambda step: function(deployed - step))(steps)
        return jnp.moveaxis(ahead - behind, 0, -1) / (2.0 * self.difference)

    def settle(self, population: Array, arms: Array) -> Array:
        """The next state of a lagged population, from its state and the models deployed."""
        assert isinstance(self.response, Lagged)
        rate = self.response.rate
        return (1.0 - rate) * population + rate * jnp.mean(arms, axis=0)

    def reference(self, target: Array) -> Reference:
        """What `excess` needs to know of a target; independent of who is compared with it."""
        if not self.is_quadratic:
            return Reference(target, self.risk(target), None)
        data = self.distribution(target)
        gaps = [weight * (part.mean - target) for weight, part in _weighted(data)]
        pull = self.loss.l2 * target - sum(gaps)
        return Reference(target, pull, None if self._location is None else gaps[0])

    def excess(self, theta: Array, populated_by: Array, reference: Reference) -> Array:
        """The risk of θ on the data of `populated_by`, less PR_t(target): one round's regret.

        For the squared loss and data that only move, the two risks are not subtracted: their
        difference is exactly quadratic, and keeps its digits however close the models are.
        """
        if not self.is_quadratic:
            return self.decoupled_risk(theta, populated_by) - reference.value
        # One sum over the coordinates: in a scan, five small dot products would cost five calls.
        gap, location = theta - reference.target, self._location
        terms = gap * (reference.value + 0.5 * (1.0 + self.loss.l2) * gap)
        if location is not None:
            moved = location.move(populated_by - reference.target)
            weight = 1.0 if self.exogenous is None else 1.0 - self.alpha
            terms = terms + moved * (reference.moved + weight * (0.5 * moved - gap))
        return jnp.sum(terms)

    @property
    def is_quadratic(self) -> bool:
        """Whether PR_t is exactly quadratic: squared loss, and data that only move with the model."""
        moves_only = self.response is None or self._location is not None
        signed = isinstance(self.loss, Squared) and not self.loss.labelled
        return signed and moves_only and self.map is None and self.ladder.names == ("closed form",)

    @property
    def _location(self) -> Location | None:
        response = self.response.response if isinstance(self.response, Lagged) else self.response
        return response if isinstance(response, Location) else None

    def rows(self, deployed: Array, noise: Noise) -> Array:
        """Rows from D_t(θ′), one for each row of noise."""
        return self.distribution(deployed).rows(noise)

    def risk_and_error(self, theta: Array, deployed: Array) -> tuple[Array, Array]:
        """DPR_t(θ, θ′) and its Monte Carlo standard error (0 on the exact rungs)."""
        value = self.decoupled_risk(theta, deployed)
        if "monte carlo" not in self.ladder.names:
            return value, jnp.zeros(())
        loss, draws = self.loss, self.draws
        assert draws is not None
        sampled = self._contributed(
            "monte carlo", deployed, lambda part: monte_carlo.values(loss, part, theta, draws)
        )
        return value, jnp.std(sampled, ddof=1) / jnp.sqrt(sampled.shape[0])

    def outermost(self, theta: Array, deployed: Array) -> Array:
        """The size of the loss where the quadrature ends."""
        loss: Any = self.loss
        return self._contributed(
            "quadrature", deployed, lambda part: quadrature.outermost(loss, part, theta)
        )

    def _contributed(self, rung: str, deployed: Array, function: Callable[[Any], Array]) -> Array:
        """The weighted sum of something over the components of D_t(θ′) that one rung serves."""

        def over(ladder: Ladder, data: Distribution) -> Any:
            if isinstance(data, Mixture):
                parts = [over(ladder.part(i), part) for i, part in enumerate(data.components)]
                return sum(w * part for w, part in zip(data.weights, parts, strict=True))
            return function(data) if ladder.rungs == rung else 0.0

        return over(self.ladder, self.distribution(deployed))


def _weighted(data: Mixture) -> zip:
    return zip(data.weights, data.components, strict=True)
