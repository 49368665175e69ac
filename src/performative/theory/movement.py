r"""Proposition 3.4: how far the stable point moves from each round to the next.

$$\Delta_t \le \frac{\beta_z}{\mu-x_t}\Big(\alpha_t W(P_t,P_{t+1})
+ |\alpha_t-\alpha_{t+1}|\, W(D(\theta_{t+1}^{PS}),P_{t+1})\Big), \qquad x_t = (1-\alpha_t)\epsilon\beta_z$$

What the proof needs of β_z and W is only that β_z W bounds how far the two expected gradients are
apart. For data of one shape that is β_z times the distance of the means; for normal data of different
spread, W₂ and a root mean square; for rows, W₁ and the largest row.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import scipy.linalg
import xarray as xr

from performative import _checks
from performative._precision import to_numpy
from performative.targets.stable import stable_points
from performative.theory.lemmas import Sides
from performative.world.constants import Constants, is_distance
from performative.world.distributions import Distribution, Empirical, Gaussian, wasserstein
from performative.world.losses import Margin
from performative.world.responses import Lagged
from performative.world.rigorous import Bounds
from performative.world.world import World


def target_moves(world: World, stable: xr.DataArray | None = None) -> Sides:
    r"""Both sides of Proposition 3.4, t = 1 … T−1.

    The right side is +∞ where $x_t$ is not below μ, and for pairs of distributions whose gradients
    are not known to be near each other (a drift of mixtures, a response of one's own).

    >>> import performative as pp
    >>> sides = pp.theory.target_moves(pp.worlds.quadratic(dim=2, rounds=50))
    >>> sides.holds(), sides.left.shape
    (True, (49,))
    """
    _checks.instance("world", world, World, "a pp.World")
    points = (stable_points(world, progress=False) if stable is None else stable).values
    constants, alphas = Constants(world), world.alphas
    room = constants.strong_convexity.value - constants.coupling[:-1]
    drifting, apart = _gradient_distances(world, constants, points)
    way = _times(alphas[:-1], drifting) + _times(np.abs(np.diff(alphas)), apart)
    right = np.where(room > 0, way / np.where(room > 0, room, 1.0), np.inf)
    return Sides(np.linalg.norm(np.diff(points, axis=0), axis=1), right)


def _times(weights: np.ndarray, distances: np.ndarray) -> np.ndarray:
    return np.where(weights > 0, np.maximum(weights, 1e-300) * distances, 0.0)


def _gradient_distances(
    world: World, constants: Constants, points: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """β_z W for P_t and P_{t+1}, and for D(θ_{t+1}^PS) and P_{t+1}."""
    exogenous, count = world.at(slice(None)).exogenous, world.rounds - 1
    nothing, unknown = np.zeros(count), np.full(count, np.inf)
    response: Any = world.response
    response = response.response if isinstance(response, Lagged) else response
    if exogenous is None:
        return (nothing, nothing) if world.map is None else (unknown, unknown)
    if is_distance(world.loss):
        return _of_means(exogenous, response, points)
    bounds = constants.bounds
    if bounds is None:
        return unknown if exogenous.rounds is not None else nothing, unknown
    if not world.loss.labelled and _one_shape(exogenous, response):
        beta = constants.data_smoothness.value
        near, far = _of_means(exogenous, response, points)
        return beta * near, beta * far
    drifts = [
        exogenous if exogenous.rounds is None else exogenous.take(t) for t in range(count + 1)
    ]
    near = nothing
    if exogenous.rounds is not None:
        near = [_apart(bounds, drifts[t], drifts[t + 1]) for t in range(count)]
    if response is None:
        return np.array(near), nothing
    there = [_data(response, point) for point in points[1:]]
    return np.array(near), np.array([_apart(bounds, there[t], drifts[t + 1]) for t in range(count)])


def _of_means(
    exogenous: Distribution, response: Any, points: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Distances of the means."""
    means = np.broadcast_to(exogenous.mean, (len(points), exogenous.dimension))
    near = np.linalg.norm(np.diff(means, axis=0), axis=1)
    if response is None:
        return near, np.zeros(len(points) - 1)
    moved = np.array([_data(response, point).mean for point in points[1:]])
    return near, np.linalg.norm(moved.reshape(-1, means.shape[1]) - means[1:], axis=1)


def _one_shape(exogenous: Distribution, response: Any) -> bool:
    """Whether all data are normal with one covariance, so that they differ by a movement."""
    if not isinstance(exogenous, Gaussian):
        return False
    shapes = np.concatenate([np.atleast_3d(exogenous.covariance.T).T, _shape_of(response)])
    scale = 1e-12 * max(float(np.abs(shapes).max()), 1e-300)
    return bool(np.all(np.abs(shapes - shapes[0]) <= scale)) and not np.isnan(shapes).any()


def _shape_of(response: Any) -> np.ndarray:
    if response is None:
        return np.zeros((0, 1, 1))
    base = response.base
    square = (
        base.covariance if isinstance(base, Gaussian) else np.full_like(base.covariance, np.nan)
    )
    return square[None]


def _data(response: Any, theta: np.ndarray) -> Distribution:
    with jax.enable_x64(True):
        return to_numpy(response.at(theta))


def _apart(bounds: Bounds, first: Distribution, second: Distribution) -> float:
    """A bound on how far E ∇ℓ under two distributions are apart, for any model of the domain."""
    if isinstance(first, Gaussian) and isinstance(second, Gaussian) and not bounds.loss.labelled:
        return bounds.data_smoothness_at(np.sqrt(bounds.largest("square"))) * _bures(first, second)
    if isinstance(first, Empirical) and isinstance(second, Empirical):
        if isinstance(bounds.loss, Margin):
            first, second = _signed(bounds.loss, first), _signed(bounds.loss, second)
        longest = max(_longest(bounds.loss, first), _longest(bounds.loss, second))
        label = max(np.abs(_rows(data)[:, -1]).max() for data in (first, second))
        return bounds.data_smoothness_at(longest, float(label)) * wasserstein(first, second).value
    return np.inf


def _bures(first: Gaussian, second: Gaussian) -> float:
    """W₂ of two normal distributions."""
    root = np.real(scipy.linalg.sqrtm(first.covariance))
    cross = np.real(scipy.linalg.sqrtm(root @ second.covariance @ root))
    spread = np.trace(first.covariance) + np.trace(second.covariance) - 2 * np.trace(cross)
    return float(np.hypot(np.linalg.norm(first.mean - second.mean), np.sqrt(max(spread, 0.0))))


def _rows(data: Empirical) -> np.ndarray:
    return np.asarray(data.points + data.offset)


def _signed(loss: Any, data: Empirical) -> Empirical:
    """Rows (x, y) as y(x, 1), through which alone the loss of the margin sees them."""
    if not loss.labelled:
        return data
    rows = _rows(data)
    features = rows[:, :-1]
    if loss.intercept:
        features = np.column_stack([features, np.ones(len(rows))])
    return Empirical(rows[:, -1:] * features, data.weights)


def _longest(loss: Any, data: Empirical) -> float:
    """The largest norm of what the loss weighs."""
    rows = _rows(data)
    features = rows[:, :-1] if loss.labelled and not isinstance(loss, Margin) else rows
    extra = float(loss.intercept and not isinstance(loss, Margin))
    return float(np.sqrt(np.max(np.sum(features**2, axis=1) + extra)))
