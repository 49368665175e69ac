"""Worlds of Perdomo, Zrnic, Mendler-Dünner and Hardt, "Performative prediction" (ICML 2020).

A coin that reacts to its forecast, and the three ways in which repeated retraining fails: a reaction
stronger than the curvature, a loss that is not strongly convex, a loss that is not smooth.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from performative import _checks
from performative.world import domains, losses, responses
from performative.world.distributions import Empirical, Gaussian
from performative.worlds.known import (
    Classic,
    Known,
    Outside,
    linear,
    lowest,
    moving_mean,
    unmoved,
    zeros,
)

Array = Any

PAPER = "Perdomo, Zrnic, Mendler-Dünner and Hardt, Performative prediction, ICML 2020"

KINDS = ("not strongly convex", "not smooth")


def biased_coin(
    bias: float = 0.1,
    sensitivity: float = 0.3,
    rounds: int = 100,
    *,
    drift: Any = None,
    mixing: Any = None,
) -> Classic:
    r"""A coin that falls the way it is expected to: predicted frequency 1/2 + θx, squared loss.

    x is 1 or −1, and y = 1 with probability $\frac12 + \mu x + \varepsilon\theta x$, else 0; rows are
    (x, y − 1/2), Θ = [0, 1]. Since $E\,x(y - \frac12) = \mu + \varepsilon\theta$ and x² = 1,
    ∇DPR(θ, θ) = θ − μ − εθ and $PR = \frac18 - \theta(\mu + \varepsilon\theta) + \frac12\theta^2$, so
    that $\theta^{PS} = \mu/(1-\varepsilon)$ and $\theta^{PO} = \mu/(1-2\varepsilon)$ where those lie
    in Θ. An exogenous part adds its own E x², E x(y − 1/2).

    Args:
        bias: μ.
        sensitivity: ε; μ + ε must be at most 1/2.
        rounds: T.
        drift, mixing: P_t and α_t. With `mixing` alone, P is the coin that nobody forecasts.

    >>> world = biased_coin()
    >>> float(world.known.stable[0, 0, 0]), float(world.known.optimal[0, 0, 0])
    (0.142857, 0.25)

    References:
        Perdomo, Zrnic, Mendler-Dünner and Hardt, "Performative prediction", ICML 2020, Example 2.2.
    """
    bias = _checks.number("bias", bias, low=0.0, high=0.5)
    sensitivity = _checks.number("sensitivity", sensitivity, low=0.0, high=0.5 - bias)
    coin = _Coin(bias, sensitivity)
    outside = Outside.of(drift, mixing, rounds, unmoved(coin))
    a, square, cross = outside.alphas, outside.second[:, 0, 0], outside.second[:, 0, 1]
    curvature, pull = 1 - a + a * square, (1 - a) * bias + a * cross
    tilt = (1 - a) * sensitivity
    return Classic(
        Known(
            PAPER,
            "retraining converges, to a stable point that is not optimal",
            zeros(-pull, curvature - tilt, 0.0, 1.0),
            lowest(-pull, curvature - 2 * tilt, 0.0, 1.0),
        ),
        response=responses.custom(distribution=coin, dimension=2, parameters=1),
        outside=outside,
        loss=losses.squared(labelled=True),
        domain=domains.box([0.0], [1.0]),
        rounds=rounds,
    )


@dataclass(frozen=True)
class _Coin:
    bias: float
    sensitivity: float

    def __call__(self, theta: Array) -> Empirical:
        tilt = 0.5 * (self.bias + self.sensitivity * theta[0])
        rows = np.array([[1, 0.5], [1, -0.5], [-1, 0.5], [-1, -0.5]])
        return Empirical(
            rows, jnp.array([0.25, 0.25, 0.25, 0.25]) + tilt * np.array([1, -1, -1, 1])
        )


def feedback_loop(
    sensitivity: float = 1.5,
    offset: float = 1.0,
    deviation: float = 1.0,
    half_width: float = 10.0,
    rounds: int = 100,
    *,
    drift: Any = None,
    mixing: Any = None,
) -> Classic:
    r"""Retraining that runs away: the reaction is at least as strong as the loss is curved.

    Squared loss (β = γ = 1) and $z \sim N(\mu + \varepsilon\theta, \sigma^2)$ on [−B, B]. Retraining
    is θ ← μ + εθ: it converges for |ε| < 1 alone, runs to the boundary for ε ≥ 1, alternates for ever
    at ε = −1, and jumps between the boundaries below. The point μ/(1−ε) that it runs away from is
    stable and optimal all the same; for ε > 1 the ends it runs to are stable too.

    Args:
        sensitivity: ε.
        offset: μ.
        deviation: σ.
        half_width: B.
        rounds: T.
        drift, mixing: P_t and α_t. With `mixing` alone, P is N(μ, σ²): with α_t > 1 − 1/ε the loop
            is tamed.

    >>> feedback_loop().known.stable[0, :, 0].tolist()
    [-2.0, -10.0, 10.0]

    References:
        After Perdomo, Zrnic, Mendler-Dünner and Hardt, "Performative prediction", ICML 2020,
        Proposition 3.6 (c).
    """
    return moving_mean(
        PAPER,
        "retraining runs away from a point that is stable and optimal",
        sensitivity=sensitivity,
        offset=offset,
        deviation=deviation,
        half_width=half_width,
        rounds=rounds,
        drift=drift,
        schedule=mixing,
    )


def oscillation(
    kind: str = "not strongly convex",
    sensitivity: float = 0.1,
    rounds: int = 100,
    *,
    drift: Any = None,
    mixing: Any = None,
) -> Classic:
    r"""Retraining that never rests, however weak the reaction.

    "not strongly convex": the loss θz, $z \sim N(\varepsilon\theta, 1)$, Θ = [−1, 1]. Retraining
    jumps between the ends, θ ← −sign θ, although 0 is stable, and optimal since PR = εθ². With
    $M = (1-\alpha)\varepsilon\theta + \alpha m_t$: ∇DPR(θ, θ) = M and
    $PR = (1-\alpha)\varepsilon\theta^2 + \alpha m_t\theta$.

    "not smooth": the loss $\frac12(\theta + \mathrm{sign}\,z)^2$ with z = εθ, Θ = [−2, 2], sign 0 = 1.
    Retraining jumps between −1 and 1, no point is stable, and 0 is optimal, where PR = ½(1 + |θ|)² has
    a kink. No closed form is given once there is an exogenous part.

    Args:
        kind: which of the two.
        sensitivity: ε > 0.
        rounds: T.
        drift, mixing: P_t and α_t. With `mixing` alone, P is D(0).

    >>> float(oscillation().known.stable[0, 0, 0]), oscillation("not smooth").known.stable.size
    (0.0, 0)

    References:
        After Perdomo, Zrnic, Mendler-Dünner and Hardt, "Performative prediction", ICML 2020,
        Proposition 3.6 (a), (b).
    """
    _checks.choice("kind", kind, KINDS)
    sensitivity = _checks.number("sensitivity", sensitivity, low=0.0, open_low=True)
    weak = kind == "not strongly convex"
    base = Gaussian([0.0], 1.0) if weak else Empirical([[0.0]])
    outside = Outside.of(drift, mixing, rounds, base)
    says = f"the loss is {kind}: retraining jumps for ever, however weak the reaction"
    if weak:
        a, m = outside.alphas, outside.mean[:, 0]
        slope = (1 - a) * sensitivity
        known = Known(
            PAPER, says, zeros(a * m, slope, -1.0, 1.0), lowest(a * m, 2 * slope, -1.0, 1.0)
        )
    elif mixing is None:
        known = Known(PAPER, says, np.empty((rounds, 0, 1)), np.zeros((rounds, 1, 1)))
    else:
        known = Known(PAPER, says, None, None)
    width = 1.0 if weak else 2.0
    return Classic(
        known,
        response=responses.location(sensitivity, base),
        outside=outside,
        loss=losses.margin(linear) if weak else losses.custom(_sign_loss, 1),
        domain=domains.box([-width], [width]),
        rounds=rounds,
    )


def _sign_loss(row: Array, theta: Array) -> Array:
    return 0.5 * (theta[0] + jnp.where(row[0] >= 0, 1.0, -1.0)) ** 2
