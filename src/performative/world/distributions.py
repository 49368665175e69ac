"""What data can be distributed like: `Gaussian`, `Empirical` rows, or a `Mixture` of those.

A distribution knows its mean, its covariance, how to move (`shifted`, `spread`), and how to turn
standard noise into rows, so that different distributions can share their random numbers. One with a
leading round axis is a sequence, P_1 … P_T. It knows nothing of losses, models or worlds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.special

from performative import _checks, _linear
from performative._precision import double, is_traced

Array = Any


class Noise(eqx.Module):
    """Standard random numbers for n rows: the same noise gives every distribution its draw."""

    normals: Array  # (n, d)
    uniforms: Array  # (n, 2): which component, which row
    key: Array  # raw key data, for samplers that draw by themselves

    @staticmethod
    def draw(key: Array, n: int, dimension: int) -> Noise:
        # One batch of random bits is turned into normals and uniforms: cheaper than two draws.
        bits = jax.random.bits(key, (n, dimension + 2), jnp.uint64)
        uniforms = ((bits >> 11).astype(jnp.float64) + 0.5) * 2.0**-53
        normals = jnp.sqrt(2.0) * jax.scipy.special.erfinv(2.0 * uniforms[:, :dimension] - 1.0)
        return Noise(normals, uniforms[:, dimension:], jax.random.key_data(key))


class Distribution(eqx.Module):
    """What all distributions offer: `mean`, `covariance`, `sample`, and movement."""

    if TYPE_CHECKING:

        @property
        def mean(self) -> Any: ...

        @property
        def covariance(self) -> Any: ...

    @property
    def dimension(self) -> int:
        """Length of one row."""
        raise NotImplementedError

    @property
    def rounds(self) -> int | None:
        """T for a sequence P_1 … P_T, None for a single distribution."""
        raise NotImplementedError

    def moving(self) -> Any:
        """The same tree with True at every leaf that has a leading round axis."""
        raise NotImplementedError

    def shifted(self, shift: Array) -> Distribution:
        """Every row moved by `shift`."""
        raise NotImplementedError

    def spread(self, matrix: Array) -> Distribution:
        """Every row's distance from the mean multiplied by `matrix`."""
        raise NotImplementedError

    def rows(self, noise: Noise) -> Array:
        """The rows that this noise stands for; pure, to be traced."""
        raise NotImplementedError

    def take(self, index: Any) -> Distribution:
        """The distribution of one round (an int), or the sequence of some."""
        return jax.tree.map(lambda leaf, moves: leaf[index] if moves else leaf, self, self.moving())

    @double
    def sample(self, n: int, seed: int = 0) -> np.ndarray:
        """`n` rows, the same for the same seed."""
        n = _checks.integer("n", n, low=1)
        if self.rounds is not None:
            raise ValueError("sample needs one round of a sequence; pick it with .take(round - 1).")
        key = jax.random.key(_checks.integer("seed", seed, low=0))
        return self.rows(Noise.draw(key, n, self.dimension))


def _raw(kind: type, **fields: Any) -> Any:
    """A module from its fields, with no validation: for values that are being traced."""
    module = object.__new__(kind)
    for name, value in fields.items():
        object.__setattr__(module, name, value)
    return module


class Gaussian(Distribution):
    r"""The normal distribution $N(m, \Sigma)$, or a sequence of them.

    Args:
        mean: shape (d,), or (T, d) for a sequence over rounds.
        cov: a number or a vector of d variances (diagonal), or a matrix (d, d), or (T, d, d).

    >>> import performative as pp
    >>> pp.Gaussian([0.0, 1.0], 0.25).covariance.tolist()
    [[0.25, 0.0], [0.0, 0.25]]
    """

    mean: Array
    covariance: Array
    factor: Array  # covariance = factor @ factor.T

    def __init__(self, mean: Any, cov: Any):
        if is_traced(mean, cov):
            self.mean = jnp.asarray(mean)
            self.covariance = _as_matrix(jnp, jnp.asarray(cov), self.mean.shape[-1])
            self.factor = None  # made when a row is drawn
            return
        self.mean = _checks.numbers("mean", mean, ndim=(1, 2))
        d = self.mean.shape[-1]
        if self.mean.size == 0:
            raise ValueError(f"mean must not be empty; got shape {self.mean.shape}.")
        cov = _checks.numbers("cov", cov, ndim=(0, 1, 2, 3))
        if (cov.ndim >= 1 and cov.shape[-1] != d) or (cov.ndim >= 2 and cov.shape[-2] != d):
            raise ValueError(
                f"cov must fit the {d} entries of mean: a number, ({d},), ({d}, {d}) or "
                f"(T, {d}, {d}); got shape {cov.shape}."
            )
        if cov.ndim == 3 and self.mean.ndim == 1:
            self.mean = np.broadcast_to(self.mean, (cov.shape[0], d)).copy()
        if cov.ndim == 3 and cov.shape[0] != self.mean.shape[0]:
            raise ValueError(
                f"cov must have as many rounds as mean, {self.mean.shape[0]}; got {cov.shape[0]}."
            )
        self.covariance = _as_matrix(np, cov, d)
        self.factor = covariance_factor(self.covariance)

    @property
    def dimension(self) -> int:
        return self.mean.shape[-1]

    @property
    def rounds(self) -> int | None:
        if self.mean.ndim == 2:
            return self.mean.shape[0]
        return None

    def moving(self) -> Gaussian:
        matrix_moves = self.covariance.ndim == 3
        factor_moves = None if self.factor is None else matrix_moves
        return _raw(
            Gaussian, mean=self.mean.ndim == 2, covariance=matrix_moves, factor=factor_moves
        )

    def shifted(self, shift: Array) -> Gaussian:
        return _raw(
            Gaussian, mean=self.mean + shift, covariance=self.covariance, factor=self.factor
        )

    def spread(self, matrix: Array) -> Gaussian:
        covariance = matrix @ self.covariance @ matrix.T
        factor = None if self.factor is None else matrix @ self.factor
        return _raw(Gaussian, mean=self.mean, covariance=covariance, factor=factor)

    def rows(self, noise: Noise) -> Array:
        factor = self.factor
        if factor is None:
            factor = _linear.cholesky(self.covariance)
        return self.mean + noise.normals @ factor.T


def _as_matrix(xp: Any, cov: Array, d: int) -> Array:
    if cov.ndim == 0:
        return cov * xp.eye(d)
    if cov.ndim == 1:
        return xp.diag(cov)
    return cov


def covariance_factor(covariance: np.ndarray) -> np.ndarray:
    """F with F Fᵀ = covariance; refuses what is not symmetric positive semidefinite."""
    scale = max(float(np.abs(covariance).max(initial=0.0)), np.finfo(float).tiny)
    asymmetry = float(np.abs(covariance - np.swapaxes(covariance, -1, -2)).max(initial=0.0))
    if asymmetry > 1e-8 * scale:
        raise ValueError(f"cov must be symmetric; got entries that differ by {asymmetry:.3g}.")
    values, vectors = np.linalg.eigh(covariance)
    if values.min(initial=0.0) < -1e-8 * scale:
        raise ValueError(
            f"cov must be positive semidefinite; got an eigenvalue of {values.min():.3g}."
        )
    try:
        return np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        return vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]


class Empirical(Distribution):
    """The distribution that puts its mass on given rows: real data as it is.

    Args:
        rows: shape (n, d), or (T, n, d) for a sequence over rounds.
        weights: shape (n,), nonnegative, summing to one; equal weights unless given.

    >>> import performative as pp
    >>> pp.Empirical([[0.0], [1.0]], weights=[0.25, 0.75]).mean.tolist()
    [0.75]
    """

    points: Array  # (n, d) or (T, n, d)
    weights: Array  # (n,)
    offset: Array  # (d,): all rows are moved by it
    point_mean: Array
    covariance: Array

    def __init__(self, rows: Any, weights: Any = None):
        traced = is_traced(rows, weights)
        xp = jnp if traced else np
        points = jnp.asarray(rows) if traced else _checks.numbers("rows", rows, ndim=(2, 3))
        n = points.shape[-2]
        if points.size == 0:
            raise ValueError(f"rows must not be empty; got shape {points.shape}.")
        if weights is None:
            weights = np.full(n, 1.0 / n)
        elif not traced:
            weights = _probabilities("weights", weights, n, "rows", ndim=1)
        self.points = points
        self.weights = xp.asarray(weights)
        self.offset = np.zeros(points.shape[-1])
        self.point_mean = xp.einsum("n,...nd->...d", self.weights, points)
        centred = points - self.point_mean[..., None, :]
        weighted = centred * self.weights[:, None]
        self.covariance = xp.swapaxes(weighted, -1, -2) @ centred

    @property
    def mean(self) -> Array:
        return self.point_mean + self.offset

    @property
    def dimension(self) -> int:
        return self.points.shape[-1]

    @property
    def rounds(self) -> int | None:
        if self.points.ndim == 3:
            return self.points.shape[0]
        return None

    def moving(self) -> Empirical:
        moves = self.points.ndim == 3
        return _raw(
            Empirical,
            points=moves,
            weights=False,
            offset=False,
            point_mean=moves,
            covariance=moves,
        )

    def shifted(self, shift: Array) -> Empirical:
        # The rows themselves are not copied: 30,000 of them would be, at every evaluation.
        return self._with(offset=self.offset + shift)

    def spread(self, matrix: Array) -> Empirical:
        return self._with(
            points=self.point_mean + (self.points - self.point_mean) @ matrix.T,
            covariance=matrix @ self.covariance @ matrix.T,
        )

    def rows(self, noise: Noise) -> Array:
        n = self.points.shape[0]
        last = jnp.searchsorted(jnp.cumsum(self.weights), noise.uniforms[:, 1], side="right")
        return jnp.asarray(self.points)[jnp.minimum(last, n - 1)] + self.offset

    def _with(self, **changes: Any) -> Empirical:
        return _raw(Empirical, **{**vars(self), **changes})


def _probabilities(
    name: str, weights: Any, count: int, of_what: str, ndim: int | tuple[int, ...]
) -> np.ndarray:
    weights = _checks.numbers(name, weights, ndim=ndim)
    if weights.shape[-1:] != (count,):
        raise ValueError(
            f"{name} must have one entry for each of the {count} {of_what}; "
            f"got shape {weights.shape}."
        )
    if weights.min() < 0:
        raise ValueError(f"{name} must not be negative; got {weights.min():g}.")
    totals = weights.sum(axis=-1)
    if np.abs(totals - 1.0).max() > 1e-9:
        worst = np.ravel(totals)[np.argmax(np.abs(np.ravel(totals) - 1.0))]
        raise ValueError(f"{name} must sum to one; got a sum of {_checks.plain(worst)}.")
    return weights


class Mixture(Distribution):
    r"""A mixture $\sum_i w_i Q_i$: each row comes from one of the components.

    Args:
        components: distributions of the same dimension.
        weights: shape (k,), or (T, k) for weights that change over rounds.

    >>> import performative as pp
    >>> half = pp.Mixture([pp.Gaussian([-1.0], 1.0), pp.Gaussian([1.0], 1.0)], [0.5, 0.5])
    >>> half.covariance.tolist()
    [[2.0]]
    """

    components: tuple[Distribution, ...]
    weights: Array

    def __init__(self, components: Sequence[Distribution], weights: Any):
        _checks.instance("components", components, (list, tuple), "a list of distributions")
        components = tuple(components)
        if not components:
            raise ValueError("components must hold at least one distribution; got none.")
        for component in components:
            _checks.instance(
                "components", component, Distribution, "distributions (pp.Gaussian, …)"
            )
        sizes = {component.dimension for component in components}
        if len(sizes) > 1:
            raise ValueError(f"components must have one dimension; got {sorted(sizes)}.")
        if not is_traced(weights):
            weights = _probabilities("weights", weights, len(components), "components", (1, 2))
        self.components = components
        self.weights = weights
        lengths = {n for n in (c.rounds for c in components) if n is not None}
        lengths |= {weights.shape[0]} if weights.ndim == 2 else set()
        if len(lengths) > 1:
            raise ValueError(f"components must have one number of rounds; got {sorted(lengths)}.")

    @property
    def mean(self) -> Array:
        return sum(
            _column(w) * c.mean for w, c in zip(self._columns(), self.components, strict=True)
        )

    @property
    def covariance(self) -> Array:
        mean, total = self.mean, 0.0
        for weight, part in zip(self._columns(), self.components, strict=True):
            gap = part.mean - mean
            between = gap[..., :, None] * gap[..., None, :]
            total = total + _column(_column(weight)) * (part.covariance + between)
        return total

    def _columns(self) -> list[Array]:
        return [self.weights[..., i] for i in range(len(self.components))]

    @property
    def dimension(self) -> int:
        return self.components[0].dimension

    @property
    def rounds(self) -> int | None:
        if self.weights.ndim == 2:
            return self.weights.shape[0]
        return next((c.rounds for c in self.components if c.rounds is not None), None)

    def moving(self) -> Mixture:
        parts = tuple(component.moving() for component in self.components)
        return _raw(Mixture, components=parts, weights=self.weights.ndim == 2)

    def shifted(self, shift: Array) -> Mixture:
        parts = tuple(component.shifted(shift) for component in self.components)
        return _raw(Mixture, components=parts, weights=self.weights)

    def spread(self, matrix: Array) -> Mixture:
        centre = self.mean
        parts = tuple(
            part.spread(matrix).shifted(matrix @ (part.mean - centre) - (part.mean - centre))
            for part in self.components
        )
        return _raw(Mixture, components=parts, weights=self.weights)

    def rows(self, noise: Noise) -> Array:
        last = len(self.components) - 1
        weights = jnp.asarray(self.weights)  # a user's are NumPy's, which no tracer can index
        edges = jnp.cumsum(weights)
        choice = noise.uniforms[:, 0]
        chosen = jnp.minimum(jnp.searchsorted(edges, choice, side="right"), last)
        # What the choice leaves of its uniform number is uniform again: a component that is a
        # mixture itself chooses with it.
        rest = (choice - (edges - weights)[chosen]) / jnp.maximum(weights[chosen], 1e-300)
        uniforms = jnp.asarray(noise.uniforms).at[:, 0].set(jnp.clip(rest, 0.0, 1.0))
        inner = Noise(noise.normals, uniforms, noise.key)
        result = self.components[last].rows(inner)
        for i, component in enumerate(self.components[:last]):
            result = jnp.where((chosen == i)[:, None], component.rows(inner), result)
        return result


def mixture(components: Sequence[Distribution], weights: Array) -> Mixture:
    """A `Mixture` of traced parts, with no validation."""
    return _raw(Mixture, components=tuple(components), weights=weights)


def _column(value: Array) -> Array:
    return value[..., None]


class Sampled(Distribution):
    """Whatever a user's sampler draws at one model: rows can be drawn, nothing else is known."""

    sampler: Callable[[Array, Array, int], Array] = eqx.field(static=True)
    size: int = eqx.field(static=True)
    theta: Array

    @property
    def mean(self) -> Array:
        raise ValueError("mean must be estimated for a sampler of your own: sample it.")

    @property
    def covariance(self) -> Array:
        raise ValueError("covariance must be estimated for a sampler of your own: sample it.")

    @property
    def dimension(self) -> int:
        return self.size

    @property
    def rounds(self) -> int | None:
        return None

    def moving(self) -> Sampled:
        still = jax.tree.map(lambda _: False, self.theta)
        return _raw(Sampled, sampler=self.sampler, size=self.size, theta=still)

    def rows(self, noise: Noise) -> Array:
        key = jax.random.wrap_key_data(jnp.asarray(noise.key))
        return self.sampler(key, self.theta, noise.normals.shape[0])


class W1(NamedTuple):
    """A Wasserstein-1 distance: `value` is exact, or an upper bound; `how` says why."""

    value: float
    exact: bool
    how: str


def wasserstein(p: Distribution, q: Distribution) -> W1:
    r"""The Wasserstein-1 distance of `p` and `q`, or an upper bound that says it is one.

    >>> import performative as pp
    >>> pp.wasserstein(pp.Gaussian([0.0, 0.0], 1.0), pp.Gaussian([3.0, 4.0], 1.0))
    W1(value=5.0, exact=True, how='equal shapes: the distance of the means')
    """
    for name, side in (("p", p), ("q", q)):
        _checks.instance(
            name, side, (Gaussian, Empirical, Mixture), "a Gaussian, Empirical or Mixture"
        )
        if side.rounds is not None:
            raise ValueError(
                f"{name} must be a single distribution; got a sequence of {side.rounds}."
            )
    if p.dimension != q.dimension:
        raise ValueError(f"q must have p's dimension, {p.dimension}; got {q.dimension}.")
    if isinstance(p, Mixture) or isinstance(q, Mixture):
        return _between_mixtures(p, q)
    gap = float(np.linalg.norm(p.mean - q.mean))
    if _same_shape(p, q):
        return W1(gap, True, "equal shapes: the distance of the means")
    if isinstance(p, Gaussian) and isinstance(q, Gaussian):
        return _between_gaussians(p, q, gap)
    if isinstance(p, Empirical) and isinstance(q, Empirical):
        exact = _between_rows(p, q)
        if exact is not None:
            return exact
    spread = float(np.trace(p.covariance) + np.trace(q.covariance))
    return W1(float(np.hypot(gap, np.sqrt(spread))), False, "upper bound: independent coupling")


def _same_shape(p: Distribution, q: Distribution) -> bool:
    if isinstance(p, Gaussian) and isinstance(q, Gaussian):
        scale = max(np.abs(p.covariance).max(), 1e-300)
        return bool(np.abs(p.covariance - q.covariance).max() <= 1e-14 * scale)
    if isinstance(p, Empirical) and isinstance(q, Empirical):
        return (
            p.points.shape == q.points.shape
            and np.array_equal(p.weights, q.weights)
            and np.array_equal(p.points, q.points)
        )
    return False


def _between_gaussians(p: Gaussian, q: Gaussian, gap: float) -> W1:
    if p.dimension == 1:
        # W1 is the mean of |gap + spread·X|, X standard normal: a folded normal distribution.
        spread = abs(float(np.sqrt(p.covariance[0, 0]) - np.sqrt(q.covariance[0, 0])))
        ratio = gap / spread
        value = spread * np.sqrt(2 / np.pi) * np.exp(-(ratio**2) / 2)
        value += gap * (1 - 2 * scipy.special.ndtr(-ratio))
        return W1(float(value), True, "one dimension: the mean of a folded normal")
    root = _root(p.covariance)
    cross = _root(root @ q.covariance @ root)
    bures = float(np.trace(p.covariance + q.covariance - 2 * cross))
    return W1(float(np.hypot(gap, np.sqrt(max(bures, 0.0)))), False, "upper bound: W2 of Gaussians")


def _root(matrix: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


def _between_rows(p: Empirical, q: Empirical) -> W1 | None:
    import scipy.optimize  # slow to load, as the others
    import scipy.spatial.distance
    import scipy.stats

    rows_p, rows_q = p.points + p.offset, q.points + q.offset
    if p.dimension == 1:
        value = scipy.stats.wasserstein_distance(rows_p[:, 0], rows_q[:, 0], p.weights, q.weights)
        return W1(float(value), True, "one dimension: sorted rows")
    if rows_p.shape != rows_q.shape or not np.allclose(p.weights, q.weights, rtol=0, atol=1e-15):
        return None
    if len(rows_p) <= 1000 and np.ptp(p.weights) <= 1e-15:
        cost = scipy.spatial.distance.cdist(rows_p, rows_q)
        value = cost[scipy.optimize.linear_sum_assignment(cost)].mean()
        return W1(float(value), True, "optimal assignment of the rows")
    value = p.weights @ np.linalg.norm(rows_p - rows_q, axis=1)
    return W1(float(value), False, "upper bound: rows paired in their order")


def _between_mixtures(p: Distribution, q: Distribution) -> W1:
    """Move mass between components: an upper bound, exact where nothing has to move."""
    import scipy.optimize

    parts_p, weights_p = _parts(p)
    parts_q, weights_q = _parts(q)
    cost = np.array([[wasserstein(a, b).value for b in parts_q] for a in parts_p])
    k, m = cost.shape
    out_of = np.kron(np.eye(k), np.ones(m))
    into = np.kron(np.ones(k), np.eye(m))
    plan = scipy.optimize.linprog(
        cost.ravel(), A_eq=np.vstack([out_of, into]), b_eq=np.concatenate([weights_p, weights_q])
    )
    value = max(float(plan.fun), 0.0)
    if k == m == 1:
        return wasserstein(parts_p[0], parts_q[0])
    if value == 0.0:
        return W1(0.0, True, "equal mixtures: nothing has to move")
    return W1(value, False, "upper bound: transport between the components")


def _parts(p: Distribution) -> tuple[list[Distribution], np.ndarray]:
    if not isinstance(p, Mixture):
        return [p], np.ones(1)
    parts: list[Distribution] = []
    weights: list[float] = []
    for component, weight in zip(p.components, p.weights, strict=True):
        inner, inner_weights = _parts(component)
        parts += inner
        weights += list(weight * inner_weights)
    return parts, np.array(weights)
