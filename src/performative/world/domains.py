"""Where a model may live: Θ, its projection, its size, and its shrinking about the origin.

Projections are those of `optax.projections` onto convex sets (its spheres are none). A domain is given
in plain numbers and learns the number of parameters from the world.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax.projections

from performative import _checks
from performative._precision import double

Array = Any


class Domain(eqx.Module):
    """What all domains offer."""

    def of(self, parameters: int) -> Domain:
        """The domain for models of this length."""
        return self

    def projection(self, theta: Array) -> Array:
        """Π_Θ(θ) of one model; pure, to be traced."""
        raise NotImplementedError

    def projection_derivative(self, theta: Array) -> Array:
        """An element of the generalised Jacobian of the projection; pure, to be traced."""
        return jax.jacfwd(self.projection)(theta)

    @double
    def project(self, theta: Any) -> np.ndarray:
        """The nearest point of the domain; leading axes are many models.

        >>> import performative as pp
        >>> pp.domains.ball(1.0).project([3.0, 4.0]).tolist()
        [0.6, 0.8]
        """
        theta = _checks.numbers("theta", theta)
        if theta.ndim == 0:
            raise ValueError("theta must have at least one dimension; got a single number.")
        flat = theta.reshape(-1, theta.shape[-1])
        here = self.of(theta.shape[-1])
        return jax.vmap(here.projection)(flat).reshape(theta.shape)

    def contains(self, theta: Any, tolerance: float = 1e-9) -> bool:
        """Whether every model of `theta` lies in the domain, up to rounding."""
        theta = _checks.numbers("theta", theta)
        away = np.linalg.norm(self.project(theta) - theta, axis=-1)
        return bool(np.all(away <= tolerance * (1 + np.linalg.norm(theta, axis=-1))))

    def center(self, parameters: int) -> np.ndarray:
        """A point inside, where learners start unless told otherwise."""
        return self.of(parameters).project(np.zeros(parameters))

    def draw(self, rng: np.random.Generator, n: int, parameters: int) -> np.ndarray:
        """`n` points spread over the domain."""
        reach = self.radius if np.isfinite(self.radius) else 10.0
        directions = rng.normal(size=(n, parameters))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        return self.of(parameters).project(directions * reach * rng.random((n, 1)))

    @property
    def diameter(self) -> float:
        """D_Θ, the largest distance between two points."""
        raise NotImplementedError

    @property
    def inradius(self) -> float:
        """The radius of the largest ball about 0 inside the domain; 0 if there is none."""
        raise NotImplementedError

    @property
    def radius(self) -> float:
        """The largest norm of a point."""
        raise NotImplementedError

    def shrink(self, rho: float) -> Domain:
        """(1−ρ)Θ, for a domain that holds the origin."""
        rho = _checks.number("rho", rho, low=0.0, high=1.0)
        return jax.tree.map(lambda leaf: (1.0 - rho) * leaf, self)


class Ball(Domain):
    size: Array
    middle: Array

    def of(self, parameters: int) -> Domain:
        return Ball(self.size, _fitted("center", self.middle, parameters))

    def projection(self, theta: Array) -> Array:
        return self.middle + optax.projections.projection_l2_ball(theta - self.middle, self.size)

    def center(self, parameters: int) -> np.ndarray:
        return _fitted("center", self.middle, parameters).copy()

    @property
    def diameter(self) -> float:
        return 2.0 * float(self.size)

    @property
    def inradius(self) -> float:
        return max(float(self.size - np.linalg.norm(self.middle)), 0.0)

    @property
    def radius(self) -> float:
        return float(self.size + np.linalg.norm(self.middle))


def ball(radius: float, center: Any = 0.0) -> Domain:
    """The Euclidean ball.

    >>> import performative as pp
    >>> pp.domains.ball(2.0).diameter
    4.0
    """
    radius = _checks.number("radius", radius, low=0.0, open_low=True)
    return Ball(np.asarray(radius), _checks.numbers("center", center, ndim=(0, 1)))


class Box(Domain):
    lower: Array
    upper: Array

    def of(self, parameters: int) -> Domain:
        return Box(
            _fitted("lower", self.lower, parameters), _fitted("upper", self.upper, parameters)
        )

    def projection(self, theta: Array) -> Array:
        return optax.projections.projection_box(theta, self.lower, self.upper)

    def projection_derivative(self, theta: Array) -> Array:
        inside = (theta >= self.lower) & (theta <= self.upper)
        return jnp.diag(jnp.where(inside, 1.0, 0.0))

    def center(self, parameters: int) -> np.ndarray:
        return np.broadcast_to(0.5 * (self.lower + self.upper), (parameters,)).copy()

    def draw(self, rng: np.random.Generator, n: int, parameters: int) -> np.ndarray:
        return rng.uniform(self.lower, self.upper, size=(n, parameters))

    @property
    def diameter(self) -> float:
        return float(np.linalg.norm(_sides(self.upper - self.lower)))

    @property
    def inradius(self) -> float:
        return max(float(np.min(np.minimum(-self.lower, self.upper))), 0.0)

    @property
    def radius(self) -> float:
        return float(np.linalg.norm(_sides(np.maximum(np.abs(self.lower), np.abs(self.upper)))))


def _sides(values: np.ndarray) -> np.ndarray:
    if np.ndim(values) == 0:
        raise ValueError(
            "the size of a box given by two numbers depends on the number of parameters: "
            "ask box.of(parameters), or world.domain."
        )
    return values


def box(lower: Any, upper: Any) -> Domain:
    """All models between `lower` and `upper`, numbers or vectors.

    >>> import performative as pp
    >>> pp.domains.box(-1.0, [1.0, 3.0]).inradius
    1.0
    """
    lower = _checks.numbers("lower", lower, ndim=(0, 1))
    upper = _checks.numbers("upper", upper, ndim=(0, 1))
    if lower.ndim == upper.ndim == 1 and lower.shape != upper.shape:
        raise ValueError(
            f"lower and upper must have the same length; got {lower.size} and {upper.size}."
        )
    if np.any(lower > upper):
        raise ValueError(
            "lower must not be above upper; got "
            f"lower={_checks.shown(lower.tolist())} and upper={_checks.shown(upper.tolist())}."
        )
    lower, upper = np.broadcast_arrays(lower, upper)
    return Box(lower.copy(), upper.copy())


class Simplex(Domain):
    scale: Array
    count: int | None = eqx.field(static=True, default=None)

    def of(self, parameters: int) -> Domain:
        return Simplex(self.scale, parameters)

    def projection(self, theta: Array) -> Array:
        return _unless_a_point(optax.projections.projection_simplex, theta, self.scale)

    @property
    def diameter(self) -> float:
        return 0.0 if self.count == 1 else float(np.sqrt(2.0) * self.scale)

    @property
    def inradius(self) -> float:
        return 0.0

    @property
    def radius(self) -> float:
        return float(self.scale)


def simplex(scale: float = 1.0) -> Domain:
    """Nonnegative models whose entries sum to `scale`."""
    return Simplex(np.asarray(_checks.number("scale", scale, low=0.0, open_low=True)))


def _unless_a_point(projection: Any, theta: Array, size: Array) -> Array:
    """A projection that divides by the size, and 0 where the domain has been shrunk to the origin."""
    positive = size > 0
    return jnp.where(positive, projection(theta, jnp.where(positive, size, 1.0)), 0.0)


class L1Ball(Domain):
    size: Array
    count: int | None = eqx.field(static=True, default=None)

    def of(self, parameters: int) -> Domain:
        return L1Ball(self.size, parameters)

    def projection(self, theta: Array) -> Array:
        return _unless_a_point(optax.projections.projection_l1_ball, theta, self.size)

    @property
    def diameter(self) -> float:
        return 2.0 * float(self.size)

    @property
    def inradius(self) -> float:
        if self.count is None:
            raise ValueError(
                "the inradius of an l1 ball depends on the number of parameters: "
                "ask ball.of(parameters), or world.domain."
            )
        return float(self.size / np.sqrt(self.count))

    @property
    def radius(self) -> float:
        return float(self.size)


def l1_ball(radius: float) -> Domain:
    """Models whose absolute entries sum to at most `radius`."""
    return L1Ball(np.asarray(_checks.number("radius", radius, low=0.0, open_low=True)))


def linf_ball(radius: float) -> Domain:
    """Models whose entries are at most `radius` in absolute value: a box."""
    radius = _checks.number("radius", radius, low=0.0, open_low=True)
    return box(-radius, radius)


class Halfspace(Domain):
    normal: Array
    offset: Array

    def of(self, parameters: int) -> Domain:
        return Halfspace(_fitted("normal", self.normal, parameters), self.offset)

    def projection(self, theta: Array) -> Array:
        return optax.projections.projection_halfspace(theta, self.normal, self.offset)

    @property
    def diameter(self) -> float:
        return np.inf

    @property
    def inradius(self) -> float:
        return max(float(self.offset / np.linalg.norm(self.normal)), 0.0)

    @property
    def radius(self) -> float:
        return np.inf

    def shrink(self, rho: float) -> Domain:
        rho = _checks.number("rho", rho, low=0.0, high=1.0)
        return type(self)(self.normal, (1.0 - rho) * self.offset)


def halfspace(normal: Any, offset: float) -> Domain:
    """Models with normalᵀθ ≤ offset; unbounded, so theorems that need a diameter do not apply."""
    return Halfspace(_nonzero("normal", normal), np.asarray(_checks.number("offset", offset)))


class Hyperplane(Halfspace):
    def of(self, parameters: int) -> Domain:
        return Hyperplane(_fitted("normal", self.normal, parameters), self.offset)

    def projection(self, theta: Array) -> Array:
        return optax.projections.projection_hyperplane(theta, self.normal, self.offset)

    @property
    def inradius(self) -> float:
        return 0.0


def hyperplane(normal: Any, offset: float) -> Domain:
    """Models with normalᵀθ = offset; unbounded, so theorems that need a diameter do not apply."""
    return Hyperplane(_nonzero("normal", normal), np.asarray(_checks.number("offset", offset)))


class Unbounded(Domain):
    """A domain that holds the origin and rays from it, so that shrinking does not change it."""

    @property
    def diameter(self) -> float:
        return np.inf

    @property
    def inradius(self) -> float:
        return 0.0

    @property
    def radius(self) -> float:
        return np.inf

    def shrink(self, rho: float) -> Domain:
        _checks.number("rho", rho, low=0.0, high=1.0, open_high=True)
        return self


class Nonnegative(Unbounded):
    def projection(self, theta: Array) -> Array:
        return optax.projections.projection_non_negative(theta)

    def projection_derivative(self, theta: Array) -> Array:
        return jnp.diag(jnp.where(theta >= 0.0, 1.0, 0.0))


def nonnegative() -> Domain:
    """Models without negative entries; unbounded, so theorems that need a diameter do not apply.

    >>> import performative as pp
    >>> pp.domains.nonnegative().project([3.0, -4.0]).tolist()
    [3.0, 0.0]
    """
    return Nonnegative()


class Line(Unbounded):
    direction: Array

    def of(self, parameters: int) -> Domain:
        return Line(_fitted("direction", self.direction, parameters))

    def projection(self, theta: Array) -> Array:
        return optax.projections.projection_vector(theta, self.direction)


def line(direction: Any) -> Domain:
    """The multiples of one model: only its strength is learned.

    >>> import performative as pp
    >>> pp.domains.line([1.0, 1.0]).project([3.0, 1.0]).tolist()
    [2.0, 2.0]
    """
    return Line(_nonzero("direction", direction))


class Everywhere(Unbounded):
    def projection(self, theta: Array) -> Array:
        return theta

    @property
    def inradius(self) -> float:
        return np.inf


def everywhere() -> Domain:
    """All models; unbounded, so theorems that need a diameter do not apply."""
    return Everywhere()


def _nonzero(name: str, vector: Any) -> np.ndarray:
    vector = _checks.numbers(name, vector, ndim=1)
    if not np.any(vector):
        raise ValueError(f"{name} must not be zero; got zeros.")
    return vector


def _fitted(name: str, value: np.ndarray, parameters: int) -> np.ndarray:
    if np.ndim(value) == 1 and np.shape(value) != (parameters,):
        raise ValueError(
            f"{name} must have one entry for each of the {parameters} parameters; "
            f"got {np.size(value)}."
        )
    return np.broadcast_to(value, (parameters,)).copy()
