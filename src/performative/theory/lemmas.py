r"""The inequalities that the proofs are made of, as functions that give both sides.

Lemmas A.1 to A.5, Lemma 3.1 and the one-step lemmas of gradient descent (C.1), greedy SGD (D.1) and
lazy SGD (E.1); Proposition 3.4 is in `movement.py`. Each returns a `Sides`: `left ≤ right` is the claim,
and `slack` how far it is from equality.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from performative import _checks
from performative.learners.steps import over_rounds
from performative.targets.stable import stable_points
from performative.world.constants import Constants, is_distance
from performative.world.distributions import Distribution, Empirical, wasserstein
from performative.world.world import World

Array = Any


class Sides(NamedTuple):
    """Both sides of an inequality, left ≤ right, one entry a round where there are several."""

    left: Any
    right: Any

    @property
    def slack(self) -> Any:
        """right − left."""
        return self.right - self.left

    def holds(self, rtol: float = 1e-9, atol: float = 1e-12) -> bool:
        """Whether left ≤ right up to rounding; some of these hold with equality."""
        scale = np.maximum(np.abs(self.left), np.abs(self.right))
        return bool(np.all(np.asarray(self.slack) >= -(atol + rtol * scale)))


def telescope(errors: Any, factors: Any, moves: Any) -> Sides:
    r"""Lemma A.1: $\sum_{t\le T}(1-\gamma_t)F_t \le F_1 - \gamma_T F_T + \sum_{t<T}\Delta_t$.

    It follows from $F_{t+1} \le \gamma_t F_t + \Delta_t$, which the arguments must satisfy.

    >>> telescope([1.0, 0.75], [0.5, 0.5], [0.25])
    Sides(left=0.875, right=0.875)
    """
    errors, factors, moves = (
        _checks.numbers(n, v, ndim=1) for n, v in _named(errors, factors, moves)
    )
    if np.any(errors[1:] > factors[:-1] * errors[:-1] + moves + 1e-12 * (1 + errors[1:])):
        raise ValueError("errors must satisfy F_{t+1} ≤ γ_t F_t + Δ_t in every round.")
    left = np.sum((1 - factors) * errors)
    right = errors[0] - factors[-1] * errors[-1] + np.sum(moves)
    return Sides(float(left), float(right))


def _named(errors: Any, factors: Any, moves: Any) -> list[tuple[str, Any]]:
    return [("errors", errors), ("factors", factors), ("moves", moves)]


def sublinear(first: float, alpha: float, h: float, m: float, t0: float, rounds: int) -> Sides:
    r"""Lemma A.2: $F_{t+1} = (1-\frac{\alpha}{t+t_0})F_t + H(t+t_0)^{-m-1}$ stays below $S(t+t_0)^{-m}$.

    $S = \max(F_1(1+t_0)^m, H/(\alpha-m))$, for $0 \le m < \alpha \le 1 + t_0$.
    """
    if not (0 <= m < alpha <= 1 + t0 and t0 > 0):
        raise ValueError(
            f"m, alpha, t0 must have 0 ≤ m < α ≤ 1 + t0; got {m:g}, {alpha:g}, {t0:g}."
        )
    t = np.arange(1, _checks.integer("rounds", rounds, low=1) + 1)
    left = np.empty(rounds)
    left[0] = first
    for i in range(rounds - 1):
        late = t[i] + t0
        left[i + 1] = (1 - alpha / late) * left[i] + h * late ** (-m - 1)
    return Sides(left, max(first * (1 + t0) ** m, h / (alpha - m)) * (t + t0) ** -m)


def unroll(c: float, r: float, rounds: int) -> Sides:
    r"""Lemma A.3: $\sum_{t\le T} c^{T-t}t^{-r} \le \frac{c^{T(1-2^{-1/r})} + 2T^{-r}}{1-c}$."""
    c = _checks.number("c", c, low=0.0, high=1.0, open_low=True, open_high=True)
    r = _checks.number("r", r, low=0.0, open_low=True)
    t = np.arange(1.0, _checks.integer("rounds", rounds, low=1) + 1)
    left = np.sum(c ** (rounds - t) * t**-r)
    right = (c ** (rounds * (1 - 2 ** (-1 / r))) + 2 * float(rounds) ** -r) / (1 - c)
    return Sides(float(left), float(right))


def mixing(
    a: float, b: float, q1: Distribution, r1: Distribution, q2: Distribution, r2: Distribution
) -> Sides:
    r"""Lemma A.4: the Wasserstein distance of $(1-a)Q_1 + aR_1$ and $(1-b)Q_2 + bR_2$.

    At most $(1-a)W_1(Q_1,Q_2) + aW_1(R_1,R_2) + |a-b|\,W_1(Q_2,R_2)$. For `Empirical` rows of one
    column, for which all four distances are exact.
    """
    for name, data in (("q1", q1), ("r1", r1), ("q2", q2), ("r2", r2)):
        _checks.instance(name, data, Empirical, "a pp.Empirical")
        if data.dimension != 1:
            raise ValueError(f"{name} must have one column; got {data.dimension}.")
    first, second = _mixed_rows(a, q1, r1), _mixed_rows(b, q2, r2)
    right = (1 - a) * wasserstein(q1, q2).value + a * wasserstein(r1, r2).value
    right += abs(a - b) * wasserstein(q2, r2).value
    return Sides(wasserstein(first, second).value, right)


def _mixed_rows(share: float, first: Any, second: Any) -> Empirical:
    rows = np.concatenate([first.points + first.offset, second.points + second.offset])
    return Empirical(rows, np.concatenate([(1 - share) * first.weights, share * second.weights]))


def inherited_slope(world: World, theta: Any, other: Any) -> Sides:
    r"""Lemma A.5: $PR_t$ is $L_t$-Lipschitz with $L_t = (1-\alpha_t)\epsilon L_z + L_\theta$."""
    theta, other = world.check_models("theta", theta), world.check_models("other", other)
    rounds = np.arange(1, world.rounds + 1)
    left = np.abs(world.risk(rounds, theta) - world.risk(rounds, other))
    apart = np.linalg.norm(theta - other, axis=-1)
    return Sides(left, Constants(world).lipschitz_rounds * apart)


def retraining_contracts(world: World, deployed: Any, stable: xr.DataArray | None = None) -> Sides:
    r"""Lemma 3.1 along a run of RRM: $\|\theta_{t+1}-\theta_t^{PS}\| \le \gamma_t\|\theta_t-\theta_t^{PS}\|$.

    Args:
        world: any world.
        deployed: the models of a run, (round, parameter).
        stable: the stable points, found unless given.
    """
    gamma = Constants(world).contraction
    before, after = _around(world, deployed, stable)
    return Sides(after, gamma[:-1] * before)


def descent_contracts(
    world: World, deployed: Any, steps: Any, stable: xr.DataArray | None = None
) -> Sides:
    r"""Lemma C.1 along a run of RGD, with its step before the movement of the target is added.

    $\gamma_t = 1 - \eta_t(\mu-x_t) + \eta_t^2(\beta_\theta^2+x_t^2)$, $x_t = (1-\alpha_t)\epsilon\beta_z$.
    """
    constants = Constants(world)
    x, eta = constants.coupling, over_rounds("steps", steps, world.rounds)
    mu, beta = constants.strong_convexity.value, constants.smoothness.value
    factor = 1 - eta * (mu - x) + eta**2 * (beta**2 + x**2)
    before, after = _around(world, deployed, stable)
    return Sides(after, factor[:-1] * before)


def _around(
    world: World, deployed: Any, stable: xr.DataArray | None
) -> tuple[np.ndarray, np.ndarray]:
    """‖θ_t − θ_t^PS‖ and ‖θ_{t+1} − θ_t^PS‖, t = 1 … T−1."""
    points = (stable_points(world, progress=False) if stable is None else stable).values
    models = world.check_models("deployed", deployed)
    if models.shape != points.shape:
        raise ValueError(
            f"deployed must have the shape {points.shape} of the stable points; got {models.shape}."
        )
    before = np.linalg.norm(models[:-1] - points[:-1], axis=1)
    return before, np.linalg.norm(models[1:] - points[:-1], axis=1)


def greedy_step(
    world: World, t: int, theta: Any, step: float, stable: xr.DataArray | None = None
) -> Sides:
    r"""Lemma D.1 before the target moves, for one step of greedy SGD from a model.

    $E\|\theta-\eta\nabla\ell(Z,\theta)-\theta_t^{PS}\|^2
    \le \gamma'_t\|\theta-\theta_t^{PS}\|^2 + \eta^2\sigma^2$, with
    $\gamma'_t = 1 - 2\eta(\mu-x_t) + \eta^2C_V^2(1+\gamma_t)^2$. For the squared loss on rows z, whose left
    side is exact, and a stable point inside the domain: the projection, which only brings a model
    nearer, is left out.
    """
    theta, constants = world.check_model("theta", theta), Constants(world)
    t, step = int(world.check_rounds(t)), _checks.number("step", step)
    points = stable_points(world, progress=False) if stable is None else stable
    error = theta - points.values[t - 1]
    x, gamma = constants.coupling[t - 1], constants.contraction[t - 1]
    mu, growth = constants.strong_convexity.value, constants.noise_growth.value
    factor = 1 - 2 * step * (mu - x) + (step * growth * (1 + gamma)) ** 2
    right = factor * (error @ error) + step**2 * constants.noise.value
    return Sides(_after_one_row(world, t, theta, theta, error, step), float(right))


def lazy_step(world: World, t: int, theta: Any, deployed: Any, step: float) -> Sides:
    r"""Lemma E.1: one inner step of lazy SGD, towards the minimiser on data that stand still.

    $E\|\varphi-\eta\nabla\ell-\theta_D\|^2
    \le (1-2\eta\mu+\eta^2C_V^2)\|\varphi-\theta_D\|^2 + \eta^2\sigma^2$; for the squared loss on rows z.
    """
    theta, deployed = world.check_model("theta", theta), world.check_model("deployed", deployed)
    constants, step = Constants(world), _checks.number("step", step)
    mean = np.asarray(world.distribution(t, deployed).mean)
    error = theta - world.domain.project(mean / (1 + float(world.loss.l2)))
    mu, growth = constants.strong_convexity.value, constants.noise_growth.value
    factor = 1 - 2 * step * mu + (step * growth) ** 2
    right = factor * (error @ error) + step**2 * constants.noise.value
    return Sides(_after_one_row(world, t, theta, deployed, error, step), float(right))


def _after_one_row(
    world: World, t: int, theta: np.ndarray, deployed: np.ndarray, error: np.ndarray, step: float
) -> float:
    """E‖error − η∇ℓ(Z, θ)‖² with ∇ℓ = (1+λ)θ − Z, exactly."""
    if not is_distance(world.loss):
        raise ValueError("world must have the squared loss on rows z for an exact left side.")
    data = world.distribution(t, deployed)
    mean = (1 + float(world.loss.l2)) * theta - np.asarray(data.mean)
    spread = float(np.trace(np.asarray(data.covariance)))
    return float(np.sum((error - step * mean) ** 2) + step**2 * spread)
