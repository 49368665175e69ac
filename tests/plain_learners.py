"""The paper's learners as plain NumPy loops, the other side of the tests: one world, one run.

A world is arrays: D(θ) = N(Aθ + m, Σ), P_t = N(m_t, Σ_P), squared or logistic loss. Logistic
expectations are made of the law of one row given its margin, on a grid far finer than needed.
Nothing of the library computes here; `Plain.of` only takes the arrays out of a world.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray

NODES = np.linspace(-12.0, 12.0, 1201)
MASS = np.exp(-0.5 * NODES**2)
MASS = MASS / MASS.sum()


@dataclass(frozen=True)
class Plain:
    matrix: Array
    mean: Array
    cov: Array
    means: Array
    drift_cov: Array
    alphas: Array
    logistic: bool
    l2: float
    project: Callable[[Array], Array]

    @staticmethod
    def of(world: Any, project: Callable[[Array], Array]) -> Plain:
        every = world.at(slice(None))
        base, drift = every.response.base, every.exogenous
        means = np.broadcast_to(drift.mean, (world.rounds, len(base.mean)))
        return Plain(
            every.response.matrix,
            base.mean,
            base.covariance,
            means,
            drift.covariance,
            world.alphas,
            hasattr(world.loss, "link"),
            float(world.loss.l2),
            project,
        )

    def parts(self, t: int, deployed: Array) -> Iterator[tuple[float, Array, Array]]:
        yield 1.0 - self.alphas[t], self.matrix @ deployed + self.mean, self.cov
        yield self.alphas[t], self.means[t], self.drift_cov

    def risk(self, t: int, theta: Array, deployed: Array) -> float:
        total = 0.5 * self.l2 * theta @ theta
        for weight, mean, cov in self.parts(t, deployed):
            if self.logistic:
                u = theta @ mean + np.sqrt(theta @ cov @ theta) * NODES
                total += weight * (MASS @ np.logaddexp(0.0, -u))
            else:
                total += weight * 0.5 * ((mean - theta) @ (mean - theta) + np.trace(cov))
        return total

    def gradient(self, t: int, theta: Array, deployed: Array) -> Array:
        total = self.l2 * theta
        for weight, mean, cov in self.parts(t, deployed):
            if not self.logistic:
                total = total + weight * (theta - mean)
                continue
            deviation = np.sqrt(theta @ cov @ theta)
            pull = 1.0 / (1.0 + np.exp(theta @ mean + deviation * NODES))
            row = mean * (MASS @ pull)
            if deviation > 0:  # E[z | u] = mean + Σθ (u − a)/s²
                row = row + cov @ theta * (MASS @ (pull * NODES)) / deviation
            total = total - weight * row
        return total

    def row_gradient(self, row: Array, theta: Array) -> Array:
        if self.logistic:
            return self.l2 * theta - row / (1.0 + np.exp(theta @ row))
        return (1.0 + self.l2) * theta - row

    def solve(self, field: Callable[[Array], Array], start: Array, step: float) -> Array:
        """The fixed point of θ ← Π(θ − s F(θ))."""
        theta = start
        for _ in range(10_000):
            ahead = self.project(theta - step * field(theta))
            if np.abs(ahead - theta).max() < 1e-15:
                break
            theta = ahead
        return theta

    @property
    def step(self) -> float:
        """A step at which `solve` converges fast for the worlds of the tests."""
        return 0.55 if self.logistic else 1.0 / (1.0 + self.l2)

    def stable(self) -> Array:
        """θ_t^PS of every round."""
        point, points = np.zeros(len(self.mean)), []
        for t in range(len(self.alphas)):
            point = self.solve(lambda theta, t=t: self.gradient(t, theta, theta), point, self.step)
            points.append(point)
        return np.array(points)

    def rrm(self, start: Array) -> Array:
        return self._play(
            start,
            lambda t, model: self.solve(
                lambda theta: self.gradient(t, theta, model), model, self.step
            ),
        )

    def rgd(self, start: Array, steps: Array) -> Array:
        return self._play(
            start,
            lambda t, model: self.project(model - steps[t] * self.gradient(t, model, model)),
        )

    def _play(self, start: Array, update: Callable[[int, Array], Array]) -> Array:
        models = [np.asarray(start, float)]
        for t in range(len(self.alphas) - 1):
            models.append(update(t, models[-1]))
        return np.array(models)

    def regret(self, models: Array) -> Array:
        """Cumulative, against the stable points."""
        points = self.stable()
        each = [
            self.risk(t, model, model) - self.risk(t, point, point)
            for t, (model, point) in enumerate(zip(models, points, strict=True))
        ]
        return np.cumsum(each)

    def rows(self, rng: np.random.Generator, t: int, deployed: Array, n: int) -> Array:
        """n rows from D_t(θ′)."""
        (_, here, cov), (alpha, there, drift_cov) = self.parts(t, deployed)
        own = rng.multivariate_normal(here, cov, n)
        others = rng.multivariate_normal(there, drift_cov, n)
        return np.where(rng.random((n, 1)) < alpha, others, own)

    def sgd(self, start: Array, rng: np.random.Generator, counts: Array, step: Any) -> Array:
        """Lazy SGD with steps `step(t, j)`; greedy SGD where all counts are one."""

        def update(t: int, model: Array) -> Array:
            inner = model
            for j, row in enumerate(self.rows(rng, t, model, int(counts[t])), 1):
                inner = self.project(inner - step(t + 1, j) * self.row_gradient(row, inner))
            return inner

        return self._play(start, update)


def box(width: float) -> Callable[[Array], Array]:
    return lambda theta: np.clip(theta, -width, width)


def ball(radius: float) -> Callable[[Array], Array]:
    return lambda theta: theta * min(1.0, radius / max(np.linalg.norm(theta), 1e-300))
