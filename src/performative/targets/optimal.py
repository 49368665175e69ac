"""Performatively optimal points θ_t^PO: the models with the least performative risk.

Section 2 of the paper. Where PR_t is convex (Proposition 5.1, or the exact curvature of a quadratic
one) the certificate is global; elsewhere the search runs from many starts and says that it cannot
certify that nothing better exists.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from performative import _checks
from performative.targets.points import Kind, find_all
from performative.world import constants
from performative.world.losses import Margin, Squared, logistic_link
from performative.world.responses import Lagged, Location
from performative.world.world import World


def _convexity(world: World) -> tuple[np.ndarray, str]:
    """Proposition 5.1: data that only move, and a loss that is convex in them."""
    response: Any = world.response
    response = response.response if isinstance(response, Lagged) else response
    convex = isinstance(world.loss, Squared) or (
        isinstance(world.loss, Margin) and world.loss.link is logistic_link
    )
    if convex and isinstance(response, (Location, type(None))) and world.map is None:
        return constants.monotonicity(world, times=2.0)
    return np.full(world.rounds, -np.inf), "surrogate"


OPTIMAL = Kind(
    name="optimal",
    field=lambda here, theta: here.total_gradient(theta),
    derivative=lambda here, theta: here.total_hessian(theta),
    curvature=lambda here, theta: here.total_hessian(theta),
    value=lambda here, theta, solution: here.risk(theta),
    modulus=_convexity,
)


def optimal_points(world: World, progress: bool | None = None) -> xr.DataArray:
    """θ_t^PO for every round, with a certificate and a status each.

    Args:
        world: any world.
        progress: whether to show a progress bar after two seconds; None where somebody can see it.

    Returns:
        (round, parameter), labelled as `stable_points` is. "certified" means that PR_t is convex and
        the point is its minimum; "local", that the lowest of many starts was taken and that nothing
        certifies that no lower one exists.

    >>> import performative as pp
    >>> world = pp.World(response=pp.responses.location(0.5, pp.Gaussian([1.0], 1.0)),
    ...                  loss=pp.losses.squared(), domain=pp.domains.ball(5.0), rounds=1)
    >>> pp.optimal_points(world).values.round(12).tolist()
    [[2.0]]
    """
    _checks.instance("world", world, World, "a pp.World")
    return find_all(world, OPTIMAL, progress)
