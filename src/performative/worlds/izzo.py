"""Worlds of Izzo, Ying and Zou, "How to learn when data reacts to your model" (ICML 2021).

The four examples on which performative gradient descent is compared with retraining. In three of them
the loss is linear in the model, so that retraining jumps between the ends of the domain, and following
its gradient finds a stable point that earns nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from performative import _checks
from performative.world import domains, losses, responses
from performative.world.distributions import Gaussian, Mixture
from performative.worlds.known import (
    Classic,
    Known,
    Outside,
    linear,
    lowest,
    negative,
    unique,
    unmoved,
    zeros,
)

Array = Any

PAPER = "Izzo, Ying and Zou, How to learn when data reacts to your model, ICML 2021"


def square_root_mean(
    offset: float = 1.0,
    slope: float = 1.0,
    deviation: float = 1.0,
    rounds: int = 100,
    *,
    drift: Any = None,
    mixing: Any = None,
) -> Classic:
    r"""A mean that responds, but not linearly: the loss θz, $z \sim N(\sqrt{a_0 + a_1\theta}, \sigma^2)$.

    Θ = [−1, 1]. ∇DPR(θ, θ) is the mean, which is positive: the lower end is stable. The optimal point is
    inside: $PR' = 0$ at $\theta^{PO} = -2a_0/(3a_1)$. With an exogenous mean m_t, write
    $r = \sqrt{a_0 + a_1\theta}$; $PR' = 0$ becomes $3(1-\alpha)r^2 + 2\alpha m_t r - (1-\alpha)a_0 = 0$,
    which has one positive root, and PR' goes from − to + there.

    Args:
        offset, slope: a_0 ≥ a_1 > 0.
        deviation: σ.
        rounds: T.
        drift, mixing: P_t and α_t. With `mixing` alone, P is $N(\sqrt{a_0}, \sigma^2)$.

    >>> world = square_root_mean()
    >>> float(world.known.stable[0, 1, 0]), float(world.known.optimal[0, 0, 0])
    (-1.0, -0.666667)

    References:
        Izzo, Ying and Zou, "How to learn when data reacts to your model: performative gradient
        descent", ICML 2021, section 4.
    """
    slope = _checks.number("slope", slope, low=0.0, open_low=True)
    offset = _checks.number("offset", offset, low=slope)
    mean = _RootMean(offset, slope, _checks.number("deviation", deviation, low=0.0) ** 2)
    outside = Outside.of(drift, mixing, rounds, Gaussian([np.sqrt(offset)], mean.variance))
    pull, c = outside.alphas * outside.mean[:, 0], 1 - outside.alphas
    with np.errstate(divide="ignore", invalid="ignore"):
        root = -pull / c  # where the mean of the round vanishes
        inside = np.where(root >= 0, (root**2 - offset) / slope, np.nan)
        best = (-pull + np.sqrt(pull**2 + 3 * c**2 * offset)) / (3 * c)
        best = np.where(c > 0, (best**2 - offset) / slope, -np.inf * pull)
    ends = [pull + c * np.sqrt(offset - slope), pull + c * np.sqrt(offset + slope)]
    stable = np.stack(
        [
            np.where(np.abs(inside) < 1, inside, np.nan),
            np.where(ends[0] >= 0, -1.0, np.nan),
            np.where(ends[1] <= 0, 1.0, np.nan),
        ],
        axis=1,
    )
    return Classic(
        Known(
            PAPER,
            "the optimal point is inside, retraining ends at the boundary",
            stable[..., None],
            np.clip(best, -1.0, 1.0)[:, None, None],
        ),
        response=responses.custom(distribution=mean, dimension=1, parameters=1),
        outside=outside,
        loss=losses.margin(linear),
        domain=domains.box([-1.0], [1.0]),
        rounds=rounds,
    )


@dataclass(frozen=True)
class _RootMean:
    offset: float
    slope: float
    variance: float

    def __call__(self, theta: Array) -> Gaussian:
        return Gaussian(jnp.sqrt(self.offset + self.slope * theta), self.variance)


def two_groups(
    offsets: tuple[float, float] = (-0.5, 1.0),
    slopes: tuple[float, float] = (1.0, -0.3),
    deviations: tuple[float, float] = (1.0, 0.5),
    weight: float = 0.5,
    rounds: int = 100,
    *,
    drift: Any = None,
    mixing: Any = None,
) -> Classic:
    r"""Two groups that react in opposite ways: the loss θz, z from a mixture of two normal laws.

    $z \sim w N(a_0 + a_1\theta, \sigma_a^2) + (1-w) N(b_0 + b_1\theta, \sigma_b^2)$, Θ = [−1, 1]. With
    $k_i = w a_i + (1-w) b_i$, the mean is k_0 + k_1 θ = ∇DPR(θ, θ) and PR = k_0 θ + k_1 θ²: inside Θ,
    $\theta^{PS} = -k_0/k_1$ and $\theta^{PO} = -k_0/2k_1$. An exogenous part adds α m_t to the mean, and
    the k count 1−α times.

    Args:
        offsets: a_0, b_0.
        slopes: a_1, b_1.
        deviations: σ_a, σ_b.
        weight: w.
        rounds: T.
        drift, mixing: P_t and α_t. With `mixing` alone, P is D(0).

    >>> world = two_groups()
    >>> float(world.known.stable[0, 0, 0]), float(world.known.optimal[0, 0, 0])
    (-0.714286, -0.357143)

    References:
        Izzo, Ying and Zou, "How to learn when data reacts to your model: performative gradient
        descent", ICML 2021, section 4 (mixture of Gaussians).
    """
    pairs = (("offsets", offsets), ("slopes", slopes), ("deviations", deviations))
    for name, pair in pairs:
        if _checks.numbers(name, pair).shape != (2,):
            raise ValueError(f"{name} must be two numbers; got {_checks.shown(pair)}.")
    weight = _checks.number("weight", weight, low=0.0, high=1.0)
    a, b, deviation = (tuple(map(float, pair)) for _, pair in pairs)
    groups = _Groups(a, b, deviation, weight)
    outside = Outside.of(drift, mixing, rounds, unmoved(groups))
    share = np.array([weight, 1 - weight])
    c, pull = 1 - outside.alphas, outside.alphas * outside.mean[:, 0]
    constant, slope = c * (share @ offsets) + pull, c * (share @ slopes)
    return Classic(
        Known(
            PAPER,
            "two groups react in opposite ways: the optimal point is half the stable one",
            zeros(constant, slope, -1.0, 1.0),
            lowest(constant, 2 * slope, -1.0, 1.0),
        ),
        response=responses.custom(distribution=groups, dimension=1, parameters=1),
        outside=outside,
        loss=losses.margin(linear),
        domain=domains.box([-1.0], [1.0]),
        rounds=rounds,
    )


@dataclass(frozen=True)
class _Groups:
    offsets: tuple[float, ...]
    slopes: tuple[float, ...]
    deviations: tuple[float, ...]
    weight: float

    def __call__(self, theta: Array) -> Mixture:
        groups = zip(self.offsets, self.slopes, self.deviations, strict=True)
        parts = [Gaussian(offset + slope * theta, s**2) for offset, slope, s in groups]
        return Mixture(parts, np.array([self.weight, 1 - self.weight]))


def pricing(
    demand: Any = 6.5,
    sensitivity: float = 1.5,
    deviation: float = 1.0,
    highest: float = 5.0,
    dim: int = 5,
    rounds: int = 100,
    *,
    drift: Any = None,
    mixing: Any = None,
) -> Classic:
    r"""Prices θ for goods whose demand falls with the price.

    The loss is −θᵀz, $z \sim N(\mu - \varepsilon\theta, \sigma^2I)$, Θ = [0, R]^d. Coordinate by
    coordinate ∇DPR(θ, θ) = −(μ − εθ), and PR = −μᵀθ + ε|θ|²: $\theta^{PS} = \mu/\varepsilon$, the price
    at which nobody buys, and $\theta^{PO} = \mu/2\varepsilon$, both cut off at R. With an exogenous
    demand, μ and ε count 1−α times and α m_t is added to μ.

    Args:
        demand: μ ≥ 0, a number or one for each good.
        sensitivity: ε > 0.
        deviation: σ.
        highest: R.
        dim: d, how many goods.
        rounds: T.
        drift, mixing: P_t and α_t. With `mixing` alone, P is $N(\mu, \sigma^2I)$: customers who do
            not look at prices.

    >>> world = pricing(dim=1)
    >>> float(world.known.stable[0, 0, 0]), float(world.known.optimal[0, 0, 0])
    (4.333333, 2.166667)

    References:
        Izzo, Ying and Zou, "How to learn when data reacts to your model: performative gradient
        descent", ICML 2021, section 4 (pricing).
    """
    dim = _checks.integer("dim", dim, low=1)
    demand = _checks.numbers("demand", demand, ndim=(0, 1))
    if demand.ndim and demand.shape != (dim,):
        raise ValueError(f"demand must be a number or {dim} numbers; got shape {demand.shape}.")
    demand = np.broadcast_to(demand, (dim,)).astype(float)
    sensitivity = _checks.number("sensitivity", sensitivity, low=0.0, open_low=True)
    highest = _checks.number("highest", highest, low=0.0, open_low=True)
    base = Gaussian(demand, _checks.number("deviation", deviation, low=0.0) ** 2)
    outside = Outside.of(drift, mixing, rounds, base)
    a = outside.alphas[:, None]
    pull, slope = (1 - a) * demand + a * outside.mean, (1 - a) * sensitivity
    with np.errstate(divide="ignore", invalid="ignore"):
        stable = np.where(slope > 0, pull / slope, np.inf * pull)
    stable, optimal = (np.clip(price, 0.0, highest) for price in (stable, stable / 2))
    return Classic(
        Known(
            PAPER,
            "the stable price is twice the optimal one, and nobody buys",
            unique(stable),
            unique(optimal),
        ),
        response=responses.location(-sensitivity, base),
        outside=outside,
        loss=losses.margin(negative),
        domain=domains.box(0.0, highest * np.ones(dim)),
        rounds=rounds,
    )


def regression(
    slope: float = 5 / 3,
    sensitivity: float = 5 / 3,
    penalty: float = 10 / 3,
    feature_mean: float = 5 / 3,
    feature_deviation: float = 1.0,
    noise_variance: float = 61 / 30,
    half_width: float = 10.0,
    rounds: int = 100,
    *,
    drift: Any = None,
    mixing: Any = None,
) -> Classic:
    r"""A slope that follows the model: $y = (a_0 + a_1\theta)x + \xi$, squared loss with a penalty.

    With c = E x²: ∇DPR(θ, θ) = c((1−a_1)θ − a_0) + λθ and
    $PR = \frac{c}{2}(a_0 - (1-a_1)\theta)^2 + \frac{\lambda}{2}\theta^2$ + const, so that
    $\theta^{PS} = ca_0/(c(1-a_1) + \lambda)$ and
    $\theta^{PO} = (1-a_1)ca_0/((1-a_1)^2c + \lambda)$: without the penalty they are one, and with a
    reaction a_1 > 1 they lie on opposite sides of 0. An exogenous part adds α E x² to the curvature
    and α E xy to the pull, and c counts 1−α times.

    Args:
        slope: a_0.
        sensitivity: a_1.
        penalty: λ.
        feature_mean, feature_deviation: of x, which is normal.
        noise_variance: of ξ.
        half_width: B, Θ = [−B, B].
        rounds: T.
        drift, mixing: P_t, of rows (x, y), and α_t. With `mixing` alone, P is D(0).

    >>> world = regression()
    >>> float(world.known.stable[0, 0, 0]), float(world.known.optimal[0, 0, 0])
    (7.727273, -0.837438)

    References:
        Izzo, Ying and Zou, "How to learn when data reacts to your model: performative gradient
        descent", ICML 2021, section 4 (linear regression).
    """
    slope, react = _checks.number("slope", slope), _checks.number("sensitivity", sensitivity)
    mean = _checks.number("feature_mean", feature_mean)
    variance = _checks.number("feature_deviation", feature_deviation, low=0.0) ** 2
    noise = _checks.number("noise_variance", noise_variance, low=0.0)
    width = _checks.number("half_width", half_width, low=0.0, open_low=True)
    penalty = _checks.number("penalty", penalty, low=0.0)
    line = _Line(slope, react, mean, variance, noise)
    outside = Outside.of(drift, mixing, rounds, unmoved(line))
    a, theirs, cross = outside.alphas, outside.second[:, 0, 0], outside.second[:, 0, 1]
    c, rest = (1 - a) * (mean**2 + variance), 1 - react
    return Classic(
        Known(
            PAPER,
            "the slope follows the model; with a penalty, stable and optimal points differ",
            zeros(-c * slope - a * cross, c * rest + a * theirs + penalty, -width, width),
            lowest(
                -c * rest * slope - a * cross, c * rest**2 + a * theirs + penalty, -width, width
            ),
        ),
        response=responses.custom(distribution=line, dimension=2, parameters=1),
        outside=outside,
        loss=losses.squared(l2=penalty, labelled=True),
        domain=domains.box([-width], [width]),
        rounds=rounds,
    )


@dataclass(frozen=True)
class _Line:
    slope: float
    sensitivity: float
    mean: float
    variance: float
    noise: float

    def __call__(self, theta: Array) -> Gaussian:
        slope = self.slope + self.sensitivity * theta[0]
        lift = jnp.stack([jnp.ones(()), slope])
        covariance = self.variance * jnp.outer(lift, lift) + jnp.diag(jnp.array([0.0, self.noise]))
        return Gaussian(self.mean * lift, covariance)
