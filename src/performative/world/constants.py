"""The constants of the paper's assumptions, for a given world: value, and how far to trust it.

A constant is *rigorous* (it bounds what it should, over the whole domain and all rounds), *computed*
(found numerically where it was looked for), or a *surrogate* (an estimate).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from performative import _checks
from performative._precision import double
from performative.world.distributions import Distribution, Empirical, Gaussian, Mixture, Noise
from performative.world.domains import Domain
from performative.world.losses import Margin, Squared, logistic_link
from performative.world.responses import Lagged, Location, LocationScale, Response

if TYPE_CHECKING:
    from performative.world.world import World

Array = Any


class Constant(NamedTuple):
    """A number, whether it is rigorous, computed or a surrogate, and where it comes from."""

    value: float
    kind: str
    why: str


UNKNOWN = Constant(float(np.inf), "surrogate", "not known for this loss and response")


def response_sensitivity(response: Response | None) -> Constant:
    """ε: W1(D(θ), D(θ′)) ≤ ε‖θ − θ′‖."""
    if response is None:
        return Constant(0.0, "rigorous", "nothing responds")
    if isinstance(response, Lagged):
        return response_sensitivity(response.response)
    if isinstance(response, Location):
        norm = float(np.linalg.norm(response.matrix, 2))
        return Constant(norm, "rigorous", "operator norm of the matrix")
    if isinstance(response, LocationScale):
        # The same z0 under two models differs by AΔ + (Σ Δ_k S_k)(z0 − m), whose mean square is a
        # quadratic form in Δ, and W1 ≤ W2.
        covariance = response.base.covariance
        spread = np.einsum("kij,jl,mil->km", response.scales, covariance, response.scales)
        form = response.matrix.T @ response.matrix + spread
        value = float(np.sqrt(np.linalg.eigvalsh(form)[-1]))
        return Constant(value, "rigorous", "mean square movement of a row")
    return UNKNOWN


def strong_convexity(world: World) -> Constant:
    """μ: strong convexity of the risk in θ."""
    loss = world.loss
    penalised = float(loss.l2) * float(np.min(loss.penalised(world.parameters)))
    if isinstance(loss, Squared) and not loss.labelled:
        return Constant(1.0 + float(loss.l2), "rigorous", "squared loss")
    if isinstance(loss, Margin) and loss.link is not logistic_link:
        return UNKNOWN._replace(value=0.0, why="the convexity of the margin function is not known")
    if isinstance(loss, (Margin, Squared)):
        return Constant(penalised, "rigorous", "the penalty on every parameter")
    return UNKNOWN._replace(value=0.0, why="the convexity of a custom loss is not known")


def data_smoothness(world: World) -> Constant:
    """β_z, in the form the proofs use: how far E ∇ℓ moves per unit by which the data move.

    For data that only move (`location`, `strategic`), which is where the worlds of the paper live.
    """
    loss, rounds = world.loss, world.at(1)
    if isinstance(loss, Squared) and not loss.labelled:
        return Constant(1.0, "rigorous", "squared loss")
    response = rounds.response
    response = response.response if isinstance(response, Lagged) else response
    if not isinstance(response, Location) or not np.isfinite(world.domain.radius):
        return UNKNOWN
    radius = world.domain.radius
    base = response.base
    reach = float(np.linalg.norm(response.matrix, 2)) * radius
    if isinstance(loss, Margin) and loss.link is logistic_link:
        general = 1.0 + 0.25 * radius * _mean_norm(base, reach, loss.intercept)
        if isinstance(base, Gaussian) and not loss.labelled:
            # E σ(−u) is largest without spread, and |σ''| ≤ 1/(6√3).
            mean = float(np.linalg.norm(base.mean)) + reach
            top = float(np.linalg.eigvalsh(base.covariance)[-1])
            direct = 1.0 / (1.0 + np.exp(-mean * radius))
            value = direct + radius * (mean / 4 + top * radius / (6 * np.sqrt(3)))
            return Constant(min(value, general), "rigorous", "normal data that only move")
        return Constant(general, "rigorous", "data that only move")
    if isinstance(loss, Squared):
        size = _mean_norm(base, reach, loss.intercept)
        value = radius * size + size + radius * size
        return Constant(value, "rigorous", "data that only move")
    return UNKNOWN


def _mean_norm(base: Distribution, reach: float, intercept: bool) -> float:
    second = float(np.trace(base.covariance) + np.sum(np.square(base.mean)))
    return float(np.sqrt(second + intercept)) + reach


def monotonicity(world: World, times: float = 1.0) -> tuple[np.ndarray, str]:
    """μ − times·(1−α_t) ε β_z for every round, and how far to trust it.

    Once, it is how strongly the equation of the stable points is monotone; twice, how convex PR_t is
    (Proposition 5.1), for data that only move and losses that are convex in the data.
    """
    convexity = strong_convexity(world)
    if world.map is not None:
        return np.full(world.rounds, -np.inf), "surrogate"
    used = [convexity]
    values = np.full(world.rounds, convexity.value)
    response = 1.0 - world.alphas
    if np.any(response > 0):
        used += [response_sensitivity(world.response), data_smoothness(world)]
        strength = used[1].value * used[2].value
        values = values - np.where(response > 0, times * response, 0.0) * min(strength, 1e300)
    rigorous = all(c.kind == "rigorous" for c in used) and world.rung != "monte carlo"
    return values, "rigorous" if rigorous else "surrogate"


@double
def sensitivity(
    response: Response, domain: Domain, n: int = 4096, pairs: int = 64, seed: int = 0
) -> Constant:
    """ε of any response, estimated from paired samples.

    Rows are drawn on the same noise at two models, and their mean distance per unit of model is an
    upper bound on W1 for that pair; the largest over random pairs, near and far, is returned. It
    covers the pairs that were tried, and so is a surrogate for the supremum over the domain.

    Args:
        response: any of `pp.responses`.
        domain: where the pairs of models are drawn from.
        n: rows for each model.
        pairs: how many pairs.
        seed: of rows and pairs.

    >>> import performative as pp
    >>> response = pp.responses.location([[0.3]], pp.Gaussian([0.0], 1.0))
    >>> round(pp.sensitivity(response, pp.domains.ball(1.0)).value, 6)
    0.3
    """
    _checks.instance("response", response, Response, "a response (pp.responses.…)")
    _checks.instance("domain", domain, Domain, "a domain (pp.domains.…)")
    n, pairs = _checks.integer("n", n, low=2), _checks.integer("pairs", pairs, low=1)
    response = response.for_loss(Squared(False, False, False, np.zeros(())))  # rows as they are
    parameters = response.parameters or response.dimension
    rng = np.random.default_rng(_checks.integer("seed", seed, low=0))
    ends = domain.draw(rng, 2 * pairs, parameters)
    first, second = ends[:pairs], ends[pairs:]
    near = np.arange(pairs) % 2 == 0
    second = np.where(near[:, None], first + 0.01 * (second - first), second)
    noise = Noise.draw(jax.random.key(seed), n, response.dimension)

    def ratio(here: Array, there: Array) -> Array:
        gap = response.at(here).rows(noise) - response.at(there).rows(noise)
        return jax.numpy.mean(jax.numpy.linalg.norm(gap, axis=1)), jax.numpy.linalg.norm(
            here - there
        )

    moved, apart = (
        np.asarray(part) for part in jax.lax.map(lambda pair: ratio(*pair), (first, second))
    )
    value = float(np.max(moved / np.maximum(apart, 1e-300)))
    return Constant(value, "surrogate", f"paired samples: {pairs} pairs of models, {n} rows each")


def largest_deviation(round_: Any, domain: Domain, parameters: int) -> float:
    """The largest standard deviation that a margin can have over the domain."""
    radius = domain.radius if np.isfinite(domain.radius) else 8.0
    parts: list[float] = []
    for source in (round_.response, round_.exogenous):
        if isinstance(source, Lagged):
            source = source.response
        base = source.base if isinstance(source, (Location, LocationScale)) else source
        if isinstance(base, Distribution):
            stretch = 1.0
            if isinstance(source, LocationScale):
                norms = np.linalg.norm(source.scales, 2, axis=(1, 2))
                stretch += radius * float(np.linalg.norm(norms))
            parts += [stretch * deviation for deviation in _deviations(base)]
    if not parts:  # a response or map of one's own: look at it
        points = [domain.center(parameters), *domain.draw(np.random.default_rng(0), 32, parameters)]
        for point in points:
            data = round_.distribution(point)
            parts += [1.5 * deviation for deviation in _deviations(data)]
    return radius * max(parts, default=0.0)


def _deviations(distribution: Distribution) -> list[float]:
    if isinstance(distribution, Mixture):
        return [value for part in distribution.components for value in _deviations(part)]
    if not isinstance(distribution, (Gaussian, Empirical)):
        return []
    top = np.linalg.eigvalsh(np.asarray(distribution.covariance))[..., -1].max()
    return [float(np.sqrt(max(top, 0.0)))]
