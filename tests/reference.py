"""The worlds of the library once more, slowly, exactly and independently: the acceptance oracle.

Only NumPy, SciPy and mpmath are used, nothing of `performative`. A law is `Normal` or `Rows`, a
world is two of them mixed in every round, and every minimiser is found by a method that needs
nothing but gradients and projections. `random_world` draws a description in plain numbers, from
which both this module (`World.of`) and the library (`build`) make the same world.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import mpmath
import numpy as np
from scipy import special

Array = np.ndarray


@dataclass(frozen=True)
class Normal:
    """N(mean, cov)."""

    mean: Array
    cov: Array

    def moved(self, shift: Array, spread: Array) -> Normal:
        return Normal(self.mean + shift, spread @ self.cov @ spread.T)

    def moments(self) -> tuple[Array, Array]:
        return self.mean, self.cov


@dataclass(frozen=True)
class Rows:
    """Finitely many rows with weights."""

    rows: Array
    weights: Array

    @property
    def mean(self) -> Array:
        return self.weights @ self.rows

    def moved(self, shift: Array, spread: Array) -> Rows:
        return Rows(shift + self.mean + (self.rows - self.mean) @ spread.T, self.weights)

    def moments(self) -> tuple[Array, Array]:
        centred = self.rows - self.mean
        return self.mean, (centred.T * self.weights) @ centred


Law = Normal | Rows

# A loss has, row by row: its value, gradient and Hessian in θ, its slope in z and the mixed
# derivative ∂²ℓ/∂θ∂z; under a Normal: the expectations of value, gradient and Hessian, and the
# derivatives ("dot") of the first two along a direction (d mean, d cov).


class Squared:
    """ℓ(z, θ) = |z − θ|²/2."""

    def row_value(self, z: Array, theta: Array) -> Array:
        return 0.5 * ((z - theta) ** 2).sum(1)

    def row_gradient(self, z: Array, theta: Array) -> Array:
        return theta - z

    def row_hessian(self, z: Array, theta: Array) -> Array:
        return np.broadcast_to(np.eye(len(theta)), (len(z), len(theta), len(theta)))

    def row_slope(self, z: Array, theta: Array) -> Array:
        return z - theta

    def row_cross(self, z: Array, theta: Array) -> Array:
        return -self.row_hessian(z, theta)

    def normal_value(self, mean: Array, cov: Array, theta: Array) -> float:
        return 0.5 * (np.sum((mean - theta) ** 2) + np.trace(cov))

    def normal_gradient(self, mean: Array, cov: Array, theta: Array) -> Array:
        return theta - mean

    def normal_hessian(self, mean: Array, cov: Array, theta: Array) -> Array:
        return np.eye(len(theta))

    def normal_value_dot(self, mean, cov, theta, d_mean, d_cov) -> float:
        return (mean - theta) @ d_mean + 0.5 * np.trace(d_cov)

    def normal_gradient_dot(self, mean, cov, theta, d_mean, d_cov) -> Array:
        return -d_mean

    def curvature(self, mean: Array, cov: Array) -> float:
        return 1.0


def logistic_derivatives(u: Array) -> tuple[Array, Array, Array, Array, Array]:
    """log(1 + e^−u) and its first four derivatives."""
    p, q = special.expit(u), special.expit(-u)
    w = p * q
    return np.logaddexp(0.0, -u), -q, w, w * (q - p), w * (1.0 - 6.0 * w)


_NODES = np.linspace(-12.0, 12.0, 2001)
_WEIGHTS = np.exp(-0.5 * _NODES**2)
_WEIGHTS /= _WEIGHTS.sum()


def logistic_moments(a: float, variance: float) -> tuple[float, ...]:
    """E φ⁽ᵏ⁾(u) for u ~ N(a, variance), k = 0 … 4: trapezoid rule, 2001 nodes on ±12 deviations."""
    u = a + np.sqrt(max(variance, 0.0)) * _NODES
    return tuple(float(_WEIGHTS @ values) for values in logistic_derivatives(u))


@functools.cache
def precise_logistic_moments(a: float, std: float) -> tuple[float, ...]:
    """E φ⁽ᵏ⁾(u) for u ~ N(a, std²), k = 0 … 4, integrated by mpmath with 30 digits."""

    def integrand(k: int, x: mpmath.mpf) -> mpmath.mpf:
        u = a + std * x
        p = 1 / (1 + mpmath.exp(-u))
        w = p * (1 - p)
        value = (mpmath.log1p(mpmath.exp(-u)), p - 1, w, w * (1 - 2 * p), w * (1 - 6 * w))[k]
        return value * mpmath.npdf(x)

    with mpmath.workdps(30):
        pieces = list(range(-14, 15, 2))
        moments = [mpmath.quad(functools.partial(integrand, k), pieces) for k in range(5)]
        return tuple(float(moment) for moment in moments)


@dataclass(frozen=True)
class Logistic:
    """ℓ(z, θ) = log(1 + exp(−θ·z)) + l2|θ|²/2."""

    l2: float = 0.0

    def row_value(self, z: Array, theta: Array) -> Array:
        return np.logaddexp(0.0, -z @ theta) + 0.5 * self.l2 * theta @ theta

    def row_gradient(self, z: Array, theta: Array) -> Array:
        return -special.expit(-z @ theta)[:, None] * z + self.l2 * theta

    def row_hessian(self, z: Array, theta: Array) -> Array:
        w = logistic_derivatives(z @ theta)[2]
        return np.einsum("n,ni,nj->nij", w, z, z) + self.l2 * np.eye(len(theta))

    def row_slope(self, z: Array, theta: Array) -> Array:
        return -special.expit(-z @ theta)[:, None] * theta

    def row_cross(self, z: Array, theta: Array) -> Array:
        _, first, second, _, _ = logistic_derivatives(z @ theta)
        return first[:, None, None] * np.eye(len(theta)) + np.einsum(
            "n,ni,j->nij", second, z, theta
        )

    def normal_value(self, mean: Array, cov: Array, theta: Array) -> float:
        return (
            logistic_moments(theta @ mean, theta @ cov @ theta)[0] + 0.5 * self.l2 * theta @ theta
        )

    def normal_gradient(self, mean: Array, cov: Array, theta: Array) -> Array:
        v = cov @ theta
        _, f1, f2, _, _ = logistic_moments(theta @ mean, theta @ v)
        return f1 * mean + f2 * v + self.l2 * theta

    def normal_hessian(self, mean: Array, cov: Array, theta: Array) -> Array:
        v = cov @ theta
        _, _, f2, f3, f4 = logistic_moments(theta @ mean, theta @ v)
        mixed = np.outer(mean, v)
        return (
            f2 * (cov + np.outer(mean, mean)) + f3 * (mixed + mixed.T) + f4 * np.outer(v, v)
            + self.l2 * np.eye(len(theta))
        )  # fmt: skip

    def normal_value_dot(self, mean, cov, theta, d_mean, d_cov) -> float:
        _, f1, f2, _, _ = logistic_moments(theta @ mean, theta @ cov @ theta)
        return f1 * (theta @ d_mean) + 0.5 * f2 * (theta @ d_cov @ theta)

    def normal_gradient_dot(self, mean, cov, theta, d_mean, d_cov) -> Array:
        v = cov @ theta
        _, f1, f2, f3, f4 = logistic_moments(theta @ mean, theta @ v)
        da, dv = theta @ d_mean, theta @ d_cov @ theta
        return (
            (f2 * da + 0.5 * f3 * dv) * mean + f1 * d_mean + (f3 * da + 0.5 * f4 * dv) * v
            + f2 * d_cov @ theta
        )  # fmt: skip

    def curvature(self, mean: Array, cov: Array) -> float:
        return self.l2 + 0.25 * np.linalg.eigvalsh(cov + np.outer(mean, mean))[-1]


@dataclass(frozen=True)
class Labelled:
    """What the two losses on rows (x, y) share: the intercept, the penalty, the score x·w + b."""

    l2: float = 0.0
    intercept: bool = False
    penalise_intercept: bool = False

    def design(self, z: Array) -> Array:
        """x, with a column of ones behind it if there is an intercept."""
        x = z[:, :-1]
        return np.hstack([x, np.ones((len(x), 1))]) if self.intercept else x

    def penalty(self, p: int) -> Array:
        diagonal = np.full(p, self.l2)
        if self.intercept and not self.penalise_intercept:
            diagonal[-1] = 0.0
        return diagonal

    def slopes(self, theta: Array) -> Array:
        """The parameters that multiply features."""
        return theta[:-1] if self.intercept else theta


class LabelledSquared(Labelled):
    """ℓ((x, y), θ) = (y − x·w − b)²/2 + penalty."""

    def row_value(self, z: Array, theta: Array) -> Array:
        return (
            0.5 * (z[:, -1] - self.design(z) @ theta) ** 2
            + 0.5 * self.penalty(len(theta)) @ theta**2
        )

    def row_gradient(self, z: Array, theta: Array) -> Array:
        x = self.design(z)
        return -(z[:, -1] - x @ theta)[:, None] * x + self.penalty(len(theta)) * theta

    def row_hessian(self, z: Array, theta: Array) -> Array:
        x = self.design(z)
        return np.einsum("ni,nj->nij", x, x) + np.diag(self.penalty(len(theta)))

    def row_slope(self, z: Array, theta: Array) -> Array:
        residual = z[:, -1] - self.design(z) @ theta
        return residual[:, None] * np.append(-self.slopes(theta), 1.0)

    def row_cross(self, z: Array, theta: Array) -> Array:
        x = self.design(z)
        residual = z[:, -1] - x @ theta
        to_feature = np.zeros((len(theta), z.shape[1]))
        to_feature[: z.shape[1] - 1, : z.shape[1] - 1] = np.eye(z.shape[1] - 1)
        direction = np.append(-self.slopes(theta), 1.0)
        return -np.einsum("ni,j->nij", x, direction) - residual[:, None, None] * to_feature

    def normal_second_moment(self, mean: Array, cov: Array) -> Array:
        """E c c' for c = (x, [1,] y)."""
        second = cov + np.outer(mean, mean)
        if not self.intercept:
            return second
        k = len(mean) - 1
        return np.insert(np.insert(second, k, mean, 0), k, np.insert(mean, k, 1.0), 1)

    def normal_second_moment_dot(self, mean, cov, d_mean, d_cov) -> Array:
        d_second = d_cov + np.outer(d_mean, mean) + np.outer(mean, d_mean)
        if not self.intercept:
            return d_second
        k = len(mean) - 1
        return np.insert(np.insert(d_second, k, d_mean, 0), k, np.insert(d_mean, k, 0.0), 1)

    def normal_value(self, mean: Array, cov: Array, theta: Array) -> float:
        v = np.append(-theta, 1.0)
        return (
            0.5 * v @ self.normal_second_moment(mean, cov) @ v
            + 0.5 * self.penalty(len(theta)) @ theta**2
        )

    def normal_gradient(self, mean: Array, cov: Array, theta: Array) -> Array:
        v = np.append(-theta, 1.0)
        return -(self.normal_second_moment(mean, cov) @ v)[:-1] + self.penalty(len(theta)) * theta

    def normal_hessian(self, mean: Array, cov: Array, theta: Array) -> Array:
        return self.normal_second_moment(mean, cov)[:-1, :-1] + np.diag(self.penalty(len(theta)))

    def normal_value_dot(self, mean, cov, theta, d_mean, d_cov) -> float:
        v = np.append(-theta, 1.0)
        return 0.5 * v @ self.normal_second_moment_dot(mean, cov, d_mean, d_cov) @ v

    def normal_gradient_dot(self, mean, cov, theta, d_mean, d_cov) -> Array:
        v = np.append(-theta, 1.0)
        return -(self.normal_second_moment_dot(mean, cov, d_mean, d_cov) @ v)[:-1]

    def curvature(self, mean: Array, cov: Array) -> float:
        second = self.normal_second_moment(mean, cov)[:-1, :-1]
        return self.l2 + np.linalg.eigvalsh(second)[-1]


class LabelledLogistic(Labelled):
    """ℓ((x, y), θ) = log(1 + exp(−y(x·w + b))) + penalty; rows only, for y x is no Gaussian."""

    def row_value(self, z: Array, theta: Array) -> Array:
        margin = z[:, -1] * (self.design(z) @ theta)
        return np.logaddexp(0.0, -margin) + 0.5 * self.penalty(len(theta)) @ theta**2

    def row_gradient(self, z: Array, theta: Array) -> Array:
        x, y = self.design(z), z[:, -1]
        return (
            -(y * special.expit(-y * (x @ theta)))[:, None] * x + self.penalty(len(theta)) * theta
        )

    def row_hessian(self, z: Array, theta: Array) -> Array:
        x, y = self.design(z), z[:, -1]
        w = y**2 * logistic_derivatives(y * (x @ theta))[2]
        return np.einsum("n,ni,nj->nij", w, x, x) + np.diag(self.penalty(len(theta)))

    def row_slope(self, z: Array, theta: Array) -> Array:
        score, y = self.design(z) @ theta, z[:, -1]
        first = -special.expit(-y * score)
        return np.hstack([(first * y)[:, None] * self.slopes(theta), (first * score)[:, None]])

    def row_cross(self, z: Array, theta: Array) -> Array:
        """Only the columns of x: no response of these tests moves a label of this loss."""
        x, y = self.design(z), z[:, -1]
        _, first, second, _, _ = logistic_derivatives(y * (x @ theta))
        cross = np.zeros((len(z), len(theta), z.shape[1]))
        k = z.shape[1] - 1
        cross[:, :, :k] = np.einsum("n,ni,j->nij", second * y**2, x, self.slopes(theta))
        cross[:, :k, :k] += (first * y)[:, None, None] * np.eye(k)
        return cross

    def curvature(self, mean: Array, cov: Array) -> float:
        second = (cov + np.outer(mean, mean))[:-1, :-1]
        if self.intercept:
            second = np.block([[second, mean[:-1, None]], [mean[None, :-1], np.ones((1, 1))]])
        return self.l2 + 0.25 * np.linalg.eigvalsh(second)[-1]


Loss = Squared | Logistic | LabelledSquared | LabelledLogistic


@dataclass(frozen=True)
class Ball:
    radius: float

    def project(self, theta: Array) -> Array:
        norm = np.linalg.norm(theta)
        return theta if norm <= self.radius else theta * (self.radius / norm)

    def slack(self, theta: Array) -> float:
        return self.radius - float(np.linalg.norm(theta))


@dataclass(frozen=True)
class Box:
    lower: Array
    upper: Array

    def project(self, theta: Array) -> Array:
        return np.clip(theta, self.lower, self.upper)

    def slack(self, theta: Array) -> float:
        return float(min(np.min(theta - self.lower), np.min(self.upper - theta)))


@dataclass(frozen=True)
class Simplex:
    """θ ≥ 0 and Σθ = scale."""

    scale: float = 1.0

    def project(self, theta: Array) -> Array:
        ordered = np.sort(theta)[::-1]
        excess = (np.cumsum(ordered) - self.scale) / np.arange(1, len(theta) + 1)
        return np.maximum(theta - excess[np.nonzero(ordered > excess)[0][-1]], 0.0)

    def slack(self, theta: Array) -> float:
        return float(np.min(theta))


@dataclass(frozen=True)
class L1Ball:
    radius: float

    def project(self, theta: Array) -> Array:
        if np.abs(theta).sum() <= self.radius:
            return theta
        return np.sign(theta) * Simplex(self.radius).project(np.abs(theta))

    def slack(self, theta: Array) -> float:
        return self.radius - float(np.abs(theta).sum())


@dataclass(frozen=True)
class Halfspace:
    """normal·θ ≤ offset."""

    normal: Array
    offset: float

    def project(self, theta: Array) -> Array:
        excess = max(self.normal @ theta - self.offset, 0.0)
        return theta - excess / (self.normal @ self.normal) * self.normal

    def slack(self, theta: Array) -> float:
        return float(self.offset - self.normal @ theta)


Domain = Ball | Box | Simplex | L1Ball | Halfspace


def minimise(
    gradient: Callable[[Array], Array], domain: Domain, start: Array, curvature: float
) -> Array:
    """The minimiser of a convex function whose Hessian is at most `curvature`.

    Accelerated projected gradient with restarts, until steps stop shrinking at rounding level.
    """
    theta = momentum = domain.project(start)
    weight, smallest, stalled = 1.0, np.inf, 0
    for _ in range(100_000):
        new = domain.project(momentum - gradient(momentum) / curvature)
        step = float(np.linalg.norm(new - theta))
        if (momentum - new) @ (new - theta) > 0.0:
            weight = 1.0
        following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * weight**2))
        momentum = new + (weight - 1.0) / following * (new - theta)
        theta, weight = new, following
        stalled = 0 if step < 0.5 * smallest else stalled + 1
        smallest = min(smallest, step)
        if step == 0.0 or (smallest < 1e-13 and stalled > 30):
            return theta
    raise RuntimeError("no convergence")


def box_quadratic(hessian: Array, linear: Array, box: Box) -> Array:
    """argmin θ'Hθ/2 − linear·θ over a box, H positive definite, by trying all 3^d active sets."""
    d = len(linear)
    best: tuple[float, Array] | None = None
    for sides in itertools.product((-1, 0, 1), repeat=d):
        side = np.array(sides)
        theta = np.where(side < 0, box.lower, box.upper).astype(float)
        free = side == 0
        if free.any():
            right = linear[free] - hessian[np.ix_(free, ~free)] @ theta[~free]
            theta[free] = np.linalg.solve(hessian[np.ix_(free, free)], right)
        if np.any(theta < box.lower - 1e-12) or np.any(theta > box.upper + 1e-12):
            continue
        value = 0.5 * theta @ hessian @ theta - linear @ theta
        if best is None or value < best[0]:
            best = value, theta
    assert best is not None
    return best[1]


def affine_fixed_points(matrix: Array, offset: Array, box: Box) -> list[Array]:
    """All θ = clip(matrix @ θ + offset) of a box, one for each of the 3^d active sets that has one.

    The stable points under the squared loss; a point that two active sets share counts once.
    """
    d, slope = len(offset), np.eye(len(offset)) - matrix
    found: list[Array] = []
    for sides in itertools.product((-1, 0, 1), repeat=d):
        side = np.array(sides)
        theta = np.where(side < 0, box.lower, box.upper).astype(float)
        free = side == 0
        if free.any():
            right = offset[free] - slope[np.ix_(free, ~free)] @ theta[~free]
            theta[free] = np.linalg.solve(slope[np.ix_(free, free)], right)
        fixed = np.linalg.norm(theta - box.project(matrix @ theta + offset)) < 1e-11
        if fixed and all(np.linalg.norm(theta - other) > 1e-9 for other in found):
            found.append(theta)
    return found


@dataclass(frozen=True)
class World:
    """D_t(θ') = (1 − α_t) D(θ') + α_t P_t.

    D(θ') moves `base` by matrix @ θ' and spreads it about its mean by I + Σ θ'_k scales[k].
    """

    base: Law
    matrix: Array
    drift: list[Law]
    alphas: Array
    loss: Any
    domain: Any
    scales: Array | None = None
    description: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def rounds(self) -> int:
        return len(self.alphas)

    @property
    def parameters(self) -> int:
        return self.matrix.shape[1]

    def spread(self, deployed: Array) -> Array:
        identity = np.eye(len(self.matrix))
        return (
            identity if self.scales is None else identity + np.tensordot(deployed, self.scales, 1)
        )

    def response(self, deployed: Array) -> Law:
        return self.base.moved(self.matrix @ deployed, self.spread(deployed))

    def components(self, t: int, deployed: Array) -> Iterator[tuple[float, Law]]:
        if not 1 <= t <= self.rounds:
            raise IndexError(t)
        alpha = self.alphas[t - 1]
        yield 1.0 - alpha, self.response(deployed)
        yield alpha, self.drift[t - 1]

    def _expectation(self, what: str, t: int, theta: Array, deployed: Array) -> Array:
        total: Any = 0.0
        for weight, law in self.components(t, deployed):
            if isinstance(law, Rows):
                per_row = getattr(self.loss, f"row_{what}")(law.rows, theta)
                total = total + weight * np.tensordot(law.weights, per_row, 1)
            else:
                total = total + weight * getattr(self.loss, f"normal_{what}")(
                    law.mean, law.cov, theta
                )
        return total

    def decoupled_risk(self, t: int, theta: Array, deployed: Array) -> float:
        return float(self._expectation("value", t, theta, deployed))

    def risk(self, t: int, theta: Array) -> float:
        return self.decoupled_risk(t, theta, theta)

    def gradient(self, t: int, theta: Array, deployed: Array) -> Array:
        return self._expectation("gradient", t, theta, deployed)

    def hessian(self, t: int, theta: Array, deployed: Array) -> Array:
        return self._expectation("hessian", t, theta, deployed)

    def _row_velocity(self) -> Array:
        """∂z/∂θ' of every row of the base, (n, d, p)."""
        assert isinstance(self.base, Rows)
        velocity = np.broadcast_to(self.matrix, (len(self.base.rows), *self.matrix.shape))
        if self.scales is None:
            return velocity
        return velocity + np.einsum("kij,nj->nik", self.scales, self.base.rows - self.base.mean)

    def _normal_velocity(self, deployed: Array) -> Iterator[tuple[Array, Array]]:
        """(∂ mean, ∂ cov)/∂θ'_k for k = 1 … p."""
        assert isinstance(self.base, Normal)
        for k in range(self.parameters):
            d_cov = np.zeros_like(self.base.cov)
            if self.scales is not None:
                half = self.scales[k] @ self.base.cov @ self.spread(deployed).T
                d_cov = half + half.T
            yield self.matrix[:, k], d_cov

    def response_gradient(self, t: int, theta: Array, deployed: Array) -> Array:
        """∂ DPR_t(θ, θ')/∂θ', the part of the total gradient that retraining does not see."""
        endogenous = 1.0 - self.alphas[t - 1]
        law = self.response(deployed)
        if isinstance(law, Rows):
            slope = self.loss.row_slope(law.rows, theta)
            return endogenous * np.einsum("n,nd,ndp->p", law.weights, slope, self._row_velocity())
        parts = [
            self.loss.normal_value_dot(law.mean, law.cov, theta, *velocity)
            for velocity in self._normal_velocity(deployed)
        ]
        return endogenous * np.array(parts)

    def cross(self, t: int, theta: Array, deployed: Array) -> Array:
        """J = ∂ ∇_θ DPR_t(θ, θ') / ∂θ'."""
        endogenous = 1.0 - self.alphas[t - 1]
        law = self.response(deployed)
        if isinstance(law, Rows):
            cross = self.loss.row_cross(law.rows, theta)
            return endogenous * np.einsum("n,nqd,ndp->qp", law.weights, cross, self._row_velocity())
        columns = [
            self.loss.normal_gradient_dot(law.mean, law.cov, theta, *velocity)
            for velocity in self._normal_velocity(deployed)
        ]
        return endogenous * np.stack(columns, 1)

    def total_gradient(self, t: int, theta: Array) -> Array:
        return self.gradient(t, theta, theta) + self.response_gradient(t, theta, theta)

    def curvature(self, t: int, deployed: Array) -> float:
        """A bound on the Hessian of DPR_t(·, θ') at every θ."""
        return sum(
            w * self.loss.curvature(*law.moments()) for w, law in self.components(t, deployed)
        )

    # What retraining does, and where it stays.

    def argmin(self, t: int, deployed: Array) -> Array:
        """argmin over the domain of DPR_t(·, θ')."""
        if isinstance(self.loss, Squared):
            mean = sum(w * law.mean for w, law in self.components(t, deployed))
            return self.domain.project(mean)
        return minimise(
            lambda theta: self.gradient(t, theta, deployed),
            self.domain,
            deployed,
            self.curvature(t, deployed),
        )

    def stable_point(self, t: int, start: Array | None = None, step: float | None = None) -> Array:
        """θ = argmin DPR_t(·, θ), by θ ← Π(θ − step ∇_θ DPR_t(θ, θ)), certified by one retraining.

        The default step 1/β suits a response so weak that retraining contracts; a small one finds
        the point wherever the gradient is a strongly monotone map.
        """
        theta = self.domain.project(np.zeros(self.parameters) if start is None else start)
        smallest, stalled = np.inf, 0
        for _ in range(100_000):
            size = 1.0 / self.curvature(t, theta) if step is None else step
            new = self.domain.project(theta - size * self.gradient(t, theta, theta))
            move = float(np.linalg.norm(new - theta))
            theta = new
            stalled = 0 if move < smallest else stalled + 1
            smallest = min(smallest, move)
            if move == 0.0 or (smallest < 1e-13 and stalled > 20):
                break
        residual = float(np.linalg.norm(self.argmin(t, theta) - theta))
        if not residual < 1e-11:
            raise RuntimeError(
                f"no stable point found in round {t}: retraining moves it by {residual}"
            )
        return theta

    def stable_points(self) -> Array:
        return np.stack([self.stable_point(t) for t in range(1, self.rounds + 1)])

    def risk_hessian(self, t: int, theta: Array) -> Array:
        """Hessian of PR_t, by central differences of the total gradient: exact if it is affine."""
        h = 1.0 if isinstance(self.loss, Squared) else 1e-4
        columns = [
            (self.total_gradient(t, theta + h * e) - self.total_gradient(t, theta - h * e))
            / (2.0 * h)
            for e in np.eye(self.parameters)
        ]
        return 0.5 * (np.stack(columns) + np.stack(columns).T)

    def optimal_point(self, t: int, starts: int = 4, seed: int = 0) -> Array:
        """argmin over the domain of PR_t.

        All active sets for the squared loss on a box; else projected gradient from several starts,
        each end certified by its projected-gradient residual, the best one returned.
        """
        p = self.parameters
        if isinstance(self.loss, Squared) and isinstance(self.domain, Box):
            hessian = self.risk_hessian(t, np.zeros(p))
            return box_quadratic(hessian, -self.total_gradient(t, np.zeros(p)), self.domain)
        rng = np.random.default_rng(seed)
        candidates = [np.zeros(p), *rng.normal(size=(starts - 1, p))]
        places = [self.domain.project(c) for c in [*candidates, *(3.0 * rng.normal(size=(8, p)))]]
        steepest = 1.2 * max(
            np.linalg.eigvalsh(self.risk_hessian(t, place))[-1] for place in places
        )
        found = []
        for start in candidates:
            theta = minimise(lambda x: self.total_gradient(t, x), self.domain, start, steepest)
            residual = theta - self.domain.project(theta - self.total_gradient(t, theta))
            assert np.linalg.norm(residual) < 1e-11
            found.append((self.risk(t, theta), theta))
        return min(found, key=lambda pair: pair[0])[1]

    def optimal_points(self) -> Array:
        return np.stack([self.optimal_point(t) for t in range(1, self.rounds + 1)])

    def rrm(self, start: Array) -> Array:
        """θ_1 = start, θ_{t+1} = argmin DPR_t(·, θ_t): the models deployed in rounds 1 … T."""
        deployed = [np.asarray(start, float)]
        for t in range(1, self.rounds):
            deployed.append(self.argmin(t, deployed[-1]))
        return np.stack(deployed)

    def excess_risk(self, t: int, theta: Array, target: Array) -> float:
        """PR_t(θ) − PR_t(target), the integral of the total gradient along the segment.

        No two risks are subtracted, so nothing cancels; exact for the squared loss.
        """
        nodes, weights = np.polynomial.legendre.leggauss(24)
        difference = theta - target
        slopes = [self.total_gradient(t, target + 0.5 * (1.0 + s) * difference) for s in nodes]
        return float(0.5 * weights @ np.array(slopes) @ difference)

    def regret(self, deployed: Array, targets: Array) -> Array:
        """Cumulative regret of `deployed` against `targets` after rounds 1 … T."""
        rounds = range(1, self.rounds + 1)
        return np.cumsum([self.excess_risk(t, deployed[t - 1], targets[t - 1]) for t in rounds])

    @staticmethod
    def of(description: dict[str, Any]) -> World:
        """The oracle's world of a description by `random_world`."""
        loss_kind, loss_options = description["loss"]
        domain_kind, domain_options = description["domain"]
        return World(
            base=_law(description["base"]),
            matrix=np.asarray(description["matrix"]),
            scales=None if description["scales"] is None else np.asarray(description["scales"]),
            drift=[
                _law(law) for law in _each_round(description["drift"], len(description["alphas"]))
            ],
            alphas=np.asarray(description["alphas"]),
            loss=_LOSSES[loss_kind](**loss_options),
            domain=_DOMAINS[domain_kind](**domain_options),
            description=description,
        )


_LOSSES: dict[str, Callable[..., Loss]] = {
    "squared": Squared,
    "logistic": Logistic,
    "labelled squared": LabelledSquared,
    "labelled logistic": LabelledLogistic,
}
_DOMAINS: dict[str, Callable[..., Domain]] = {
    "ball": Ball,
    "box": Box,
    "simplex": Simplex,
    "l1_ball": L1Ball,
}


def _law(description: dict[str, Array]) -> Law:
    if "rows" in description:
        return Rows(np.asarray(description["rows"]), np.asarray(description["weights"]))
    return Normal(np.asarray(description["mean"]), np.asarray(description["cov"]))


def _each_round(description: dict[str, Array], rounds: int) -> Iterator[dict[str, Array]]:
    """One law a round: means or rows have a leading axis of rounds, the rest is shared."""
    moving, shared = ("rows", "weights") if "rows" in description else ("mean", "cov")
    for t in range(rounds):
        yield {moving: description[moving][t], shared: description[shared]}


def _covariance(rng: np.random.Generator, d: int, size: float = 1.0) -> Array:
    factor = rng.normal(size=(d, d)) * np.sqrt(size / d)
    return factor @ factor.T + 0.1 * np.eye(d)


def _matrix(rng: np.random.Generator, d: int, p: int, norm: float) -> Array:
    matrix = rng.normal(size=(d, p))
    return norm * matrix / np.linalg.norm(matrix, 2)


def _labelled_rows(
    rng: np.random.Generator, shape: tuple[int, ...], features: int, binary: bool
) -> Array:
    x = rng.normal(size=(*shape, features)) + 0.3
    score = x @ (rng.normal(size=features)) + 0.5 + rng.normal(size=shape)
    return np.concatenate([x, (np.where(score > 0, 1.0, -1.0) if binary else score)[..., None]], -1)


def random_world(
    rng: np.random.Generator,
    loss: str = "logistic",
    domain: str = "ball",
    active: bool = False,
    components: str = "gaussian",
    d: int = 3,
    rounds: int = 6,
    scaled: bool = False,
    intercept: bool = False,
    penalise_intercept: bool = False,
    rows: int = 25,
) -> dict[str, Any]:
    """A description of a random world in plain numbers, for `World.of` and for `build`.

    `components` is "gaussian", "empirical" or "mixed" (rows that respond, a Gaussian drift); a
    labelled logistic world has rows only. `d` counts the parameters that multiply a feature. With
    `active` the domain is so small that every stable point lies on its boundary, else so large
    that none does (a simplex is all boundary). The first rounds have α = 1 and α = 0. The response
    is weak enough for retraining to contract and for PR_t to be convex.
    """
    labelled = loss.startswith("labelled")
    dimension, p = (d + 1, d + intercept) if labelled else (d, d)
    alphas = np.concatenate([[1.0, 0.0], rng.uniform(0.1, 0.9, rounds - 2)])
    matrix = _matrix(rng, dimension, p, {"squared": 0.5, "logistic": 0.15}.get(loss, 0.1))
    strategic = None
    if labelled:
        modifiable = list(range(0, d, 2))
        strategic = {"modifiable": modifiable, "strength": 0.1}
        matrix = np.zeros((dimension, p))
        matrix[modifiable, modifiable] = 0.1
    scales = 0.1 * rng.normal(size=(p, dimension, dimension)) / dimension if scaled else None

    weights = rng.dirichlet(np.full(rows, 2.0))
    if labelled and components == "empirical":
        binary = loss == "labelled logistic"
        base = {"rows": _labelled_rows(rng, (rows,), d, binary), "weights": weights}
        drift = {
            "rows": _labelled_rows(rng, (rounds, rows), d, binary),
            "weights": np.full(rows, 1 / rows),
        }
    else:
        means = rng.normal(size=(rounds, dimension)) / np.sqrt(dimension)
        gaussian = {"mean": rng.normal(size=dimension), "cov": _covariance(rng, dimension)}
        empirical = {
            "rows": rng.normal(size=(rows, dimension)) + gaussian["mean"],
            "weights": weights,
        }
        moving_rows = rng.normal(size=(rounds, rows, dimension)) + means[:, None]
        base = gaussian if components == "gaussian" else empirical
        if components == "empirical":
            drift = {"rows": moving_rows, "weights": np.full(rows, 1 / rows)}
        else:
            drift = {"mean": means, "cov": _covariance(rng, dimension)}

    options: dict[str, Any] = {}
    if loss != "squared":
        options["l2"] = 0.8 if loss == "logistic" else 0.3
    if labelled:
        options |= {"intercept": intercept, "penalise_intercept": penalise_intercept}

    description = {
        "matrix": matrix,
        "scales": scales,
        "strategic": strategic,
        "base": base,
        "drift": drift,
        "alphas": alphas,
        "loss": (loss, options),
        "domain": ("ball", {"radius": 1e6}),
    }
    free = World.of(description).stable_points()
    description["domain"] = (domain, _domain_options(domain, active, free))
    description["start"] = World.of(description).domain.project(np.full(p, 0.2))
    return description


def _domain_options(domain: str, active: bool, free: Array) -> dict[str, Any]:
    """A domain that has all unconstrained stable points `free` outside (active), or all inside."""
    if domain == "box":
        if active:
            half = 0.6 * np.min(np.max(np.abs(free), 1)) * np.ones(free.shape[1])
            return {"lower": -half, "upper": 0.9 * half}
        return {
            "lower": -3.0 * np.max(np.abs(free), 0) - 1.0,
            "upper": 2.0 * np.max(np.abs(free), 0) + 1.0,
        }
    if domain == "simplex":
        return {"scale": 1.0}
    norms = np.abs(free).sum(1) if domain == "l1_ball" else np.linalg.norm(free, axis=1)
    return {"radius": float(0.6 * np.min(norms) if active else 3.0 * np.max(norms) + 1.0)}


def build(description: dict[str, Any], **options: Any) -> Any:
    """The same world out of the library's public factories."""
    import performative as pp

    def law(parts: dict[str, Array]) -> Any:
        if "rows" in parts:
            return pp.Empirical(parts["rows"], weights=parts["weights"])
        return pp.Gaussian(parts["mean"], parts["cov"])

    base = law(description["base"])
    if description["strategic"] is not None:
        response = pp.responses.strategic(base, **description["strategic"])
    elif description["scales"] is not None:
        response = pp.responses.location_scale(description["matrix"], description["scales"], base)
    else:
        response = pp.responses.location(description["matrix"], base)
    loss_kind, loss_options = description["loss"]
    name = loss_kind.removeprefix("labelled ")
    if loss_kind != name:
        loss_options = {"labelled": True, **loss_options}
    domain_kind, domain_options = description["domain"]
    return pp.World(
        response=response,
        drift=pp.drifts.recorded(law(description["drift"])),
        mixing=pp.mixing.recorded(description["alphas"]),
        loss=getattr(pp.losses, name)(**loss_options),
        domain=getattr(pp.domains, domain_kind)(**domain_options),
        rounds=len(description["alphas"]),
        **options,
    )
