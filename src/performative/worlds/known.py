"""What all worlds of the literature share: closed forms that a computation can be held against.

They are ordinary worlds with one thing more, `known`: the stable and optimal points of every round
as formulas give them, whatever the drift. Most of them have one parameter, a gradient that is linear
in the model and a quadratic risk, and then two lines of algebra hold with the boundary included.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from performative import _checks
from performative._precision import double
from performative.world import domains, drifts, losses, responses
from performative.world.distributions import Distribution, Gaussian
from performative.world.domains import Domain
from performative.world.drifts import Drift
from performative.world.losses import Loss
from performative.world.mixing import Mixing
from performative.world.responses import Response
from performative.world.world import World


class Known(NamedTuple):
    """What a paper says about its world.

    Attributes:
        reference: where it stands.
        says: what is to be seen in it.
        stable: all stable points, (round, solution, parameter), with NaN where a round has fewer;
            where every point between two is one, those two. None if there is no closed form.
        optimal: all optimal points, likewise.
    """

    reference: str
    says: str
    stable: np.ndarray | None
    optimal: np.ndarray | None


class Classic(World):
    """A world of the literature: a `World` that also knows its answers."""

    known: Known

    def __init__(
        self,
        known: Known,
        *,
        response: Response,
        outside: Outside,
        loss: Loss,
        domain: Domain,
        rounds: int,
    ):
        super().__init__(
            response=response,
            drift=outside.drift,
            mixing=outside.mixing,
            loss=loss,
            domain=domain,
            rounds=rounds,
        )
        self.known = known


class Outside(NamedTuple):
    """The exogenous part of all rounds: α_t, E z and E zzᵀ."""

    drift: Drift | None
    mixing: Mixing | None
    alphas: np.ndarray  # (T,)
    mean: np.ndarray  # (T, d)
    second: np.ndarray  # (T, d, d)

    @staticmethod
    def of(drift: Any, schedule: Any, rounds: int, indifferent: Distribution) -> Outside:
        """From what a user gives; with a schedule alone, P is D(0): people who never heard of it."""
        rounds, d = _checks.integer("rounds", rounds, low=1), indifferent.dimension
        if drift is not None:
            _checks.instance("drift", drift, Drift, "a drift (pp.drifts.…)")
            if schedule is None:
                raise ValueError("mixing must be given with a drift; got None.")
        if schedule is None:
            alphas = np.zeros(rounds)
            return Outside(None, None, alphas, np.zeros((rounds, d)), np.zeros((rounds, d, d)))
        _checks.instance("mixing", schedule, Mixing, "a mixing schedule (pp.mixing.…)")
        drift = drifts.fixed(indifferent) if drift is None else drift
        sequence = drift.sequence(rounds, d)
        mean = np.broadcast_to(sequence.mean, (rounds, d))
        second = sequence.covariance + mean[:, :, None] * mean[:, None, :]
        return Outside(drift, schedule, schedule.alphas(rounds), mean, second)


def zeros(constant: Any, slope: Any, lower: float, upper: float) -> np.ndarray:
    """All stable points on [lower, upper] where ∇DPR(θ, θ) = constant + slope·θ: (T, 3, 1).

    Such a point is inside, where that is zero, or at an end, where it points outward.

    >>> zeros([-1.0, -1.0], [1.0, -0.5], -5.0, 5.0)[:, :, 0].tolist()
    [[1.0, nan, nan], [-2.0, -5.0, 5.0]]
    """
    constant, slope = np.broadcast_arrays(np.asarray(constant, float), np.asarray(slope, float))
    with np.errstate(divide="ignore", invalid="ignore"):
        inside = -constant / slope + 0.0  # no −0.0
    inside = np.where((slope != 0) & (lower < inside) & (inside < upper), inside, np.nan)
    at_lower = np.where(constant + slope * lower >= 0, lower, np.nan)
    at_upper = np.where(constant + slope * upper <= 0, upper, np.nan)
    return np.stack([inside, at_lower, at_upper], axis=-1)[..., None]


def lowest(linear: Any, quadratic: Any, lower: float, upper: float) -> np.ndarray:
    """All minimisers of linear·θ + quadratic·θ²/2 on [lower, upper]: (T, 3, 1).

    >>> lowest([-1.0, 0.0], [1.0, -1.0], -5.0, 5.0)[:, :, 0].tolist()
    [[1.0, nan, nan], [nan, -5.0, 5.0]]
    """
    stationary = zeros(linear, quadratic, lower, upper)
    linear, quadratic = (np.asarray(c, float)[..., None, None] for c in (linear, quadratic))
    value = linear * stationary + 0.5 * quadratic * stationary**2
    best = np.nanmin(value, axis=-2, keepdims=True)
    return np.where(value <= best + 1e-14 * (1 + np.abs(best)), stationary, np.nan)


@double
def unmoved(distribution: Callable[[Any], Distribution]) -> Distribution:
    """D(0) of a response with one parameter, in plain numbers."""
    return distribution(np.zeros(1))


def linear(u: Any) -> Any:
    """The loss θᵀz, as a function of that margin."""
    return u


def negative(u: Any) -> Any:
    """The loss −θᵀz."""
    return -u


def unique(points: np.ndarray) -> np.ndarray:
    """One solution a round: (T, p) as (T, 1, p)."""
    return points[:, None, :]


def moving_mean(
    reference: str,
    says: str,
    *,
    sensitivity: float,
    offset: float,
    deviation: float,
    half_width: float,
    rounds: int,
    drift: Any,
    schedule: Any,
    rate: float | None = None,
) -> Classic:
    r"""Squared loss and $z \sim N(\mu + \varepsilon\theta, \sigma^2)$ on [−B, B], where much begins.

    With $e = (1-\alpha)\varepsilon$, $M = (1-\alpha)\mu + \alpha m_t$: retraining is θ ← M + eθ cut off
    at ±B, so ∇DPR(θ, θ) = θ − M − eθ, and
    $PR = \frac{1-\alpha}{2}(\mu - (1-\varepsilon)\theta)^2 + \frac{\alpha}{2}(\theta - m_t)^2$ + const.
    """
    sensitivity = _checks.number("sensitivity", sensitivity)
    offset = _checks.number("offset", offset)
    variance = _checks.number("deviation", deviation, low=0.0) ** 2
    width = _checks.number("half_width", half_width, low=0.0, open_low=True)
    base = Gaussian([offset], variance)
    outside = Outside.of(drift, schedule, rounds, base)
    a, m, r = outside.alphas, outside.mean[:, 0], 1.0 - sensitivity
    stable = zeros(-(1 - a) * offset - a * m, 1 - (1 - a) * sensitivity, -width, width)
    optimal = lowest(-(1 - a) * r * offset - a * m, (1 - a) * r**2 + a, -width, width)
    response = responses.location(sensitivity, base)
    return Classic(
        Known(reference, says, stable, optimal),
        response=response if rate is None else responses.lagged(response, rate),
        outside=outside,
        loss=losses.squared(),
        domain=domains.box(-width, width),
        rounds=rounds,
    )
