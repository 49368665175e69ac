"""Performatively stable points θ_t^PS: models that are optimal for the data they bring about.

Section 2 of the paper. θ_t^PS solves ∇_θ DPR_t(θ, θ′) = 0 at θ′ = θ, up to the boundary of the domain;
Newton's method needs H + J, the derivative through the loss and through the data, and no contraction:
it finds stable points that retraining runs away from.
"""

from __future__ import annotations

import xarray as xr

from performative import _checks
from performative.targets.points import Kind, find_all
from performative.world import constants
from performative.world.world import World

STABLE = Kind(
    name="stable",
    field=lambda here, theta: here.gradient(theta, theta),
    derivative=lambda here, theta: (
        here.hessian(theta, theta) + here.gradient_response(theta, theta)
    ),
    curvature=lambda here, theta: here.hessian(theta, theta),
    value=lambda here, theta, solution: here.decoupled_risk(theta, solution),
    modulus=constants.monotonicity,
)


def stable_points(world: World, progress: bool | None = None) -> xr.DataArray:
    """θ_t^PS for every round, with a certificate and a status each.

    Args:
        world: any world.
        progress: whether to show a progress bar after two seconds; None where somebody can see it.

    Returns:
        (round, parameter). Coordinates over rounds: `status`, `certificate` and `residual`, how far
        the equation is from holding. The status is "certified" (the only stable point, and it is
        within the certificate, by the constants of the world), "local" (solved, and many starts
        found no other; the certificate estimates the distance to this solution to first order),
        "not unique", "not a minimiser" or "unsolved". Attributes say the largest certificate, the
        rung of the expectations and the flagged rounds.

    >>> import performative as pp
    >>> world = pp.World(response=pp.responses.location(0.5, pp.Gaussian([1.0], 1.0)),
    ...                  loss=pp.losses.squared(), domain=pp.domains.ball(5.0), rounds=1)
    >>> pp.stable_points(world).values.round(12).tolist()
    [[2.0]]
    """
    _checks.instance("world", world, World, "a pp.World")
    return find_all(world, STABLE, progress)
