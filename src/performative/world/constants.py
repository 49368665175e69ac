"""The constants of the paper's assumptions, for a given world: value, and how far to trust it.

A constant is *rigorous* (it bounds what it should, over the whole domain and all rounds), *computed*
(found numerically where it was looked for), or a *surrogate* (an estimate).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from performative import _checks
from performative._precision import double
from performative.world.distributions import Distribution, Empirical, Gaussian, Mixture, Noise
from performative.world.domains import Domain
from performative.world.losses import Loss, Margin, Squared, logistic_link
from performative.world.measured import Measured
from performative.world.responses import Lagged, Location, LocationScale, Response
from performative.world.rigorous import Bounds, LabelledSquared, SignedSquared, bounds_of

if TYPE_CHECKING:
    from performative.world.rounds import Round
    from performative.world.world import World

Array = Any


class Constant(NamedTuple):
    """A number, whether it is rigorous, computed or a surrogate, and where it comes from."""

    value: float
    kind: str
    why: str


REACH = 8.0
"""In an unbounded domain, quadrature is made for models up to this norm."""

UNKNOWN = Constant(float(np.inf), "surrogate", "not known for this loss and response")
TRUST = ("rigorous", "computed", "surrogate")


def least_trusted(constants: Iterable[Constant]) -> str:
    """The kind of what is made of several constants."""
    return max((constant.kind for constant in constants), key=TRUST.index, default=TRUST[0])


def _unknown(world: World) -> Constant:
    if np.isfinite(world.domain.diameter):
        return UNKNOWN
    return UNKNOWN._replace(why="not bounded on an unbounded domain")


def _times(rounds: np.ndarray, factor: float) -> np.ndarray:
    """A product over rounds, where nothing times infinity is nothing."""
    return np.where(rounds > 0, np.maximum(rounds, 1e-300) * factor, 0.0)


class Constants:
    """All constants of a world's theorems, each found when it is first asked for.

    Args:
        world: any world.

    >>> import performative as pp
    >>> constants = Constants(pp.worlds.quadratic(dim=3, rounds=4))
    >>> round(constants.sensitivity.value, 12), constants.smoothness.value
    (0.3, 1.0)
    """

    def __init__(self, world: World):
        self._world = world

    @functools.cached_property
    def bounds(self) -> Bounds | None:
        """What is proved for this loss and response; None if nothing is."""
        return bounds_of(self._world)

    @functools.cached_property
    def measured(self) -> Measured | None:
        """What is found numerically instead."""
        return Measured.of(self._world)

    def _proved(self, value: float, why: str) -> Constant:
        if not np.isfinite(value):
            return _unknown(self._world)
        kind = "surrogate" if self._world.rung == "monte carlo" else "rigorous"
        return Constant(float(value), kind, why)

    def _found(self, name: str) -> Constant:
        value = np.nan if self.measured is None else float(getattr(self.measured, name)())
        if self.measured is None or not np.isfinite(value):
            return _unknown(self._world)
        exact = self._world.rung != "monte carlo" and self._world.pathwise
        return Constant(value, "computed" if exact else "surrogate", self.measured.where)

    def _either(self, name: str, why: str) -> Constant:
        """A constant from what is proved, else from what was found."""
        if self.bounds is None:
            return self._found(name)
        return self._proved(getattr(self.bounds, name)(), why)

    def _per_movement(self, name: str, symbol: str) -> Constant:
        """What is found per unit of the deployed model, per unit by which the data move instead."""
        found, per_unit = self._found(name), self.sensitivity
        if found.value == np.inf or not 0 < per_unit.value < np.inf:
            return _unknown(self._world)
        kind = found.kind if per_unit.kind == "rigorous" else "surrogate"
        return Constant(found.value / per_unit.value, kind, f"{symbol}, {found.why}, over ε")

    @functools.cached_property
    def sensitivity(self) -> Constant:
        """ε of the response."""
        world = self._world
        known = response_sensitivity(world.response) if world.map is None else UNKNOWN
        if known is not UNKNOWN:
            return known
        if world.response is not None:
            return _paired_sensitivity(
                world.response.at, world.dimension, world.parameters, world.domain
            )
        some = sorted({1, (1 + world.rounds) // 2, world.rounds})
        found = [
            _paired_sensitivity(
                world.at(t).distribution, world.dimension, world.parameters, world.domain
            )
            for t in some
        ]
        worst = max(found)
        return worst._replace(why=f"{worst.why}, in rounds {', '.join(map(str, some))}")

    @functools.cached_property
    def strong_convexity(self) -> Constant:
        """μ of the risk in θ, for all data that the world can bring about."""
        known = strong_convexity(self._world)
        if known.value > 0:
            return known
        found = self._found("strong_convexity")
        return known if found.value == np.inf else found

    @functools.cached_property
    def smoothness(self) -> Constant:
        """β_θ: how far the gradient moves per unit by which the model judged moves."""
        if is_distance(self._world.loss):
            return Constant(1.0 + float(self._world.loss.l2), "rigorous", "squared loss")
        return self._either("smoothness", "second moment of the data")

    @functools.cached_property
    def data_smoothness(self) -> Constant:
        """β_z: how far E ∇ℓ moves per unit by which the data move."""
        if is_distance(self._world.loss):
            return Constant(1.0, "rigorous", "squared loss")
        if self.bounds is not None:
            return self._proved(self.bounds.data_smoothness(), "data that only move")
        return self._per_movement("coupling", "ε β_z")

    @functools.cached_property
    def lipschitz(self) -> Constant:
        """L: the largest ‖∇PR_t‖ over the domain and all rounds."""
        return self._either("lipschitz", "moments over the domain")

    @functools.cached_property
    def lipschitz_judged(self) -> Constant:
        """L_θ of Lemma A.5: the largest gradient of DPR_t in the model judged."""
        return self._either("lipschitz_judged", "moments over the domain")

    @functools.cached_property
    def lipschitz_data(self) -> Constant:
        """L_z of Lemma A.5: how far E ℓ moves per unit by which the data move."""
        if self.bounds is None:
            return self._per_movement("through_data", "ε L_z")
        return self._proved(self.bounds.lipschitz_data(), "data that only move")

    @functools.cached_property
    def lipschitz_rounds(self) -> np.ndarray:
        """L_t = (1−α_t) ε L_z + L_θ of every round, Lemma A.5."""
        responding = _times(1.0 - self._world.alphas, self.sensitivity.value)
        return _times(responding, self.lipschitz_data.value) + self.lipschitz_judged.value

    @functools.cached_property
    def noise(self) -> Constant:
        """σ² of E‖∇ℓ(z, θ)‖² ≤ σ² + C_V²‖θ − θ*‖²."""
        if self.bounds is None:
            return self._found("noise")
        return self._proved(self.bounds.noise()[0], "moments over the domain")

    @functools.cached_property
    def noise_growth(self) -> Constant:
        """C_V of E‖∇ℓ(z, θ)‖² ≤ σ² + C_V²‖θ − θ*‖²."""
        if self.bounds is None:
            return self.noise._replace(value=0.0) if self.noise.value < np.inf else self.noise
        return self._proved(self.bounds.noise()[1], "moments over the domain")

    @functools.cached_property
    def loss_scale(self) -> Constant:
        """F: the largest root mean square of the loss, √E ℓ², which the theorems need no more than."""
        return self._either("loss_scale", "sup √E ℓ²")

    @functools.cached_property
    def risk_smoothness(self) -> Constant:
        """The largest ‖∇²PR_t‖ over the domain and all rounds."""
        return self._either("risk_smoothness", "curvature of loss and data")

    @functools.cached_property
    def risk_convexities(self) -> np.ndarray:
        """μ′ of every round: strong convexity of PR_t; negative where PR_t may not be convex."""
        return self._convexities[0]

    @functools.cached_property
    def risk_convexity(self) -> Constant:
        """μ′: the least of all rounds."""
        values, kind, why = self._convexities
        return Constant(float(np.min(values)), kind, why)

    @functools.cached_property
    def _convexities(self) -> tuple[np.ndarray, str, str]:
        if isinstance(self.bounds, SignedSquared):
            exact = self._proved(0.0, "curvature of a quadratic risk")
            return self.bounds.risk_convexities(), exact.kind, exact.why
        if self.bounds is None:
            found = self._found("risk_convexity")
            least = -np.inf if found.value == np.inf else found.value
            return np.full(self._world.rounds, least), found.kind, found.why
        values = self.strong_convexity.value - 2.0 * self.coupling
        used = self.strong_convexity, self.response_strength
        return values, least_trusted(used), "μ − 2(1−α) ε β_z, Proposition 5.1"

    @functools.cached_property
    def diameter(self) -> Constant:
        """D, the diameter of the domain."""
        return Constant(self._world.domain.diameter, "rigorous", "of the domain")

    @functools.cached_property
    def inradius(self) -> Constant:
        """r, the radius of the largest ball about 0 inside the domain."""
        return Constant(self._world.domain.inradius, "rigorous", "of the domain")

    @functools.cached_property
    def alpha_min(self) -> Constant:
        """The least α_t of all rounds."""
        return Constant(float(np.min(self._world.alphas)), "rigorous", "of the mixing")

    @functools.cached_property
    def response_strength(self) -> Constant:
        """ε β_z: how far ∇_θ DPR moves per unit by which the deployed model moves, where α_t = 0."""
        used = self.sensitivity, self.data_smoothness
        if np.all(self._world.alphas == 1) or used[0].value == 0:
            return Constant(0.0, used[0].kind, "nothing responds")
        trust = least_trusted(used)
        if trust != TRUST[0] and self.bounds is None and not is_distance(self._world.loss):
            return self._found("coupling")
        return Constant(used[0].value * used[1].value, trust, "ε β_z")

    @functools.cached_property
    def coupling(self) -> np.ndarray:
        """(1−α_t) ε β_z of every round: how far the gradient follows the deployed model."""
        if self.response_strength.value == 0:
            return np.zeros(self._world.rounds)
        return _times(1.0 - self._world.alphas, self.response_strength.value)

    @functools.cached_property
    def contraction(self) -> np.ndarray:
        """γ_t = (1−α_t) ε β_z / μ of every round."""
        convexity = self.strong_convexity.value
        if convexity <= 0:
            return np.full(self._world.rounds, np.inf)
        return self.coupling / convexity


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
    if is_distance(loss):
        return Constant(1.0 + float(loss.l2), "rigorous", "squared loss")
    if isinstance(loss, Margin) and loss.link is not logistic_link:
        return UNKNOWN._replace(value=0.0, why="the convexity of the margin function is not known")
    if isinstance(loss, Margin):
        return Constant(penalised, "rigorous", "the penalty on every parameter")
    bounds = bounds_of(world)
    if isinstance(bounds, LabelledSquared):
        return Constant(bounds.strong_convexity(), "rigorous", "second moment of the features")
    if isinstance(loss, Squared):
        return Constant(penalised, "rigorous", "the penalty on every parameter")
    return UNKNOWN._replace(value=0.0, why="the convexity of a custom loss is not known")


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
        used += [response_sensitivity(world.response), _responding_smoothness(world)]
        strength = used[1].value * used[2].value
        values = values - np.where(response > 0, times * response, 0.0) * min(strength, 1e300)
    rigorous = all(c.kind == "rigorous" for c in used) and world.rung != "monte carlo"
    return values, "rigorous" if rigorous else "surrogate"


def _responding_smoothness(world: World) -> Constant:
    """β_z over the data that respond alone, which is all that monotonicity needs."""
    if is_distance(world.loss):
        return Constant(1.0, "rigorous", "squared loss")
    bounds = bounds_of(world)
    if bounds is None or not np.isfinite(value := bounds.data_smoothness(responding=True)):
        return UNKNOWN
    return Constant(value, "rigorous", "data that only move")


def is_distance(loss: Loss) -> bool:
    """Whether the loss is ½‖z − θ‖², whose curvature is the same for all data."""
    return isinstance(loss, Squared) and not loss.labelled


@double
def sensitivity(
    response: Response,
    domain: Domain,
    n: int = 4096,
    pairs: int = 64,
    seed: int = 0,
    *,
    loss: Loss | None = None,
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
        loss: of the world, which says what of a row is a label and whether there is an intercept;
            unless given, models have an entry for each column, as with signed rows.

    >>> import performative as pp
    >>> response = pp.responses.location([[0.3]], pp.Gaussian([0.0], 1.0))
    >>> round(pp.sensitivity(response, pp.domains.ball(1.0)).value, 6)
    0.3
    """
    _checks.instance("response", response, Response, "a response (pp.responses.…)")
    _checks.instance("domain", domain, Domain, "a domain (pp.domains.…)")
    n, pairs = _checks.integer("n", n, low=2), _checks.integer("pairs", pairs, low=1)
    seed = _checks.integer("seed", seed, low=0)
    if loss is None:
        loss = Squared(False, False, False, np.zeros(()))
    _checks.instance("loss", loss, Loss, "a loss (pp.losses.…)")
    response = response.for_loss(loss)
    parameters = response.parameters or loss.parameters(response.dimension) or response.dimension
    return _paired_sensitivity(
        response.at, response.dimension, parameters, domain, n=n, pairs=pairs, seed=seed
    )


@double
def _paired_sensitivity(
    at: Callable[[Array], Distribution],
    dimension: int,
    parameters: int,
    domain: Domain,
    n: int = 4096,
    pairs: int = 64,
    seed: int = 0,
) -> Constant:
    rng = np.random.default_rng(seed)
    ends = domain.draw(rng, 2 * pairs, parameters)
    first, second = ends[:pairs], ends[pairs:]
    near = np.arange(pairs) % 2 == 0
    second = np.where(near[:, None], first + 0.01 * (second - first), second)
    noise = Noise.draw(jax.random.key(seed), n, dimension)

    def ratio(here: Array, there: Array) -> Array:
        gap = at(here).rows(noise) - at(there).rows(noise)
        return jax.numpy.mean(jax.numpy.linalg.norm(gap, axis=1)), jax.numpy.linalg.norm(
            here - there
        )

    moved, apart = (
        np.asarray(part) for part in jax.lax.map(lambda pair: ratio(*pair), (first, second))
    )
    value = float(np.max(moved / np.maximum(apart, 1e-300)))
    return Constant(value, "surrogate", f"paired samples: {pairs} pairs of models, {n} rows each")


def largest_deviation(world: World) -> float:
    """The largest standard deviation that a margin can have over the domain, in any round."""
    everything, domain = world.at(slice(None)), world.domain
    radius = domain.radius if np.isfinite(domain.radius) else REACH
    parts: list[float] = []
    for source in (everything.response, everything.exogenous):
        if isinstance(source, Lagged):
            source = source.response
        base = source.base if isinstance(source, (Location, LocationScale)) else source
        if isinstance(base, Distribution):
            stretch = 1.0
            if isinstance(source, LocationScale):
                norms = np.linalg.norm(source.scales, 2, axis=(1, 2))
                stretch += radius * float(np.linalg.norm(norms))
            parts += [stretch * deviation for deviation in _deviations(base)]
    if world.is_own:  # a response or map of one's own: look at it
        parts += [1.5 * deviation for deviation in _deviations_seen(world)]
    return radius * max(parts, default=0.0)


def _deviations_seen(world: World) -> list[float]:
    """The deviations at some models, of a function that may do anything, in some rounds."""
    some = np.unique(np.linspace(1, world.rounds, 16).astype(int)) if world.map else np.ones(1, int)
    drawn = world.domain.draw(np.random.default_rng(0), 32, world.parameters)
    points = np.concatenate([world.domain.center(world.parameters)[None], drawn])
    rounds, points = np.repeat(some, len(points)), np.tile(points, (len(some), 1))
    moving, still = eqx.partition(world.at(rounds), world.moving())
    matrices = [np.asarray(matrix) for matrix in _covariances(moving, still, points)]
    tops = [np.linalg.eigvalsh(matrix)[..., -1].max() for matrix in matrices]
    return [float(np.sqrt(max(top, 0.0))) for top in tops]


@jax.jit
def _covariances(moving: Any, still: Round, points: Array) -> list[Array]:
    def one(part: Any, point: Array) -> list[Array]:
        return _of_normals(eqx.combine(part, still).distribution(point))

    return jax.vmap(one)(moving, points)


def _of_normals(distribution: Distribution) -> list[Array]:
    if isinstance(distribution, Mixture):
        return [matrix for part in distribution.components for matrix in _of_normals(part)]
    return [distribution.covariance] if isinstance(distribution, Gaussian) else []


def _deviations(distribution: Distribution) -> list[float]:
    if isinstance(distribution, Mixture):
        return [value for part in distribution.components for value in _deviations(part)]
    if not isinstance(distribution, (Gaussian, Empirical)):
        return []
    top = np.linalg.eigvalsh(np.asarray(distribution.covariance))[..., -1].max()
    return [float(np.sqrt(max(top, 0.0)))]
