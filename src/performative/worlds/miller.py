"""Worlds of Miller, Perdomo and Zrnic, "Outside the echo chamber" (ICML 2021).

Where stability and optimality part: a stable point that is the worst of all, a population that spreads
as well as moves, labels that react, and predictions that fulfil themselves.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from performative import _checks
from performative.world import domains, losses, responses
from performative.world.distributions import Gaussian
from performative.worlds.known import Classic, Known, Outside, lowest, negative, unique, zeros

Array = Any

PAPER = "Miller, Perdomo and Zrnic, Outside the echo chamber, ICML 2021"


def worst_stable_point(
    sensitivity: float = 0.75,
    deviation: float = 1.0,
    rounds: int = 100,
    *,
    drift: Any = None,
    mixing: Any = None,
) -> Classic:
    r"""Retraining converges, and to the worst model there is.

    The loss $-z\theta + \frac12\theta^2$ and $z \sim N(\varepsilon\theta, \sigma^2)$, Θ = [−1, 1].
    Retraining is θ ← εθ and ends at 0, the only stable point for ε < 1. But
    $PR = (\frac12 - \varepsilon)\theta^2$, so that for ε > ½ the stable point maximises it, and both
    ends are optimal. With an exogenous mean, $M = \alpha m_t$ and $e = (1-\alpha)\varepsilon$:
    ∇DPR(θ, θ) = θ − M − eθ and $PR = -M\theta + (\frac12 - e)\theta^2$.

    Args:
        sensitivity: ε.
        deviation: σ.
        rounds: T.
        drift, mixing: P_t and α_t. With `mixing` alone, P is N(0, σ²).

    >>> world = worst_stable_point()
    >>> float(world.known.stable[0, 0, 0]), world.known.optimal[0, 1:, 0].tolist()
    (0.0, [-1.0, 1.0])

    References:
        After Miller, Perdomo and Zrnic, "Outside the echo chamber: optimizing the performative risk",
        ICML 2021, section 2.
    """
    sensitivity = _checks.number("sensitivity", sensitivity)
    base = Gaussian([0.0], _checks.number("deviation", deviation, low=0.0) ** 2)
    outside = Outside.of(drift, mixing, rounds, base)
    pull, e = -outside.alphas * outside.mean[:, 0], (1 - outside.alphas) * sensitivity
    return Classic(
        Known(
            PAPER,
            "the stable point maximises the performative risk",
            zeros(pull, 1 - e, -1.0, 1.0),
            lowest(pull, 1 - 2 * e, -1.0, 1.0),
        ),
        response=responses.location(sensitivity, base),
        outside=outside,
        loss=losses.margin(negative, l2=1.0),
        domain=domains.box([-1.0], [1.0]),
        rounds=rounds,
    )


def scale_family(
    shift: float = 0.4,
    spread: float = 0.5,
    mean: float = 1.0,
    variance: float = 0.8,
    half_width: float = 10.0,
    rounds: int = 100,
    *,
    drift: Any = None,
    mixing: Any = None,
) -> Classic:
    r"""The population moves and spreads: $z = m + a\theta + (1 + s\theta)(z_0 - m)$, squared loss.

    Retraining sees the mean alone: $\theta^{PS} = m/(1-a)$. The risk sees the spread too:
    $PR = \frac12(m - (1-a)\theta)^2 + \frac12(1 + s\theta)^2v$, so that
    $\theta^{PO} = ((1-a)m - sv)/((1-a)^2 + s^2v)$. An exogenous part with mean m_t adds
    $\frac{\alpha}{2}(\theta - m_t)^2$, and the rest counts $1-\alpha$ times.

    Args:
        shift: a.
        spread: s.
        mean, variance: m and v, of $z_0$, which is normal.
        half_width: B, Θ = [−B, B].
        rounds: T.
        drift, mixing: P_t and α_t. With `mixing` alone, P is N(m, v).

    >>> world = scale_family()
    >>> float(world.known.stable[0, 0, 0]), float(world.known.optimal[0, 0, 0])
    (1.666667, 0.357143)

    References:
        Miller, Perdomo and Zrnic, "Outside the echo chamber: optimizing the performative risk",
        ICML 2021 (location-scale families).
    """
    shift, spread = _checks.number("shift", shift), _checks.number("spread", spread)
    mean, v = _checks.number("mean", mean), _checks.number("variance", variance, low=0.0)
    width = _checks.number("half_width", half_width, low=0.0, open_low=True)
    base = Gaussian([mean], v)
    outside = Outside.of(drift, mixing, rounds, base)
    a, m, rest = outside.alphas, outside.mean[:, 0], 1.0 - shift
    return Classic(
        Known(
            PAPER,
            "the spread responds too: retraining does not see it, the risk does",
            zeros(-(1 - a) * mean - a * m, 1 - (1 - a) * shift, -width, width),
            lowest(
                (1 - a) * (spread * v - rest * mean) - a * m,
                (1 - a) * (rest**2 + spread**2 * v) + a,
                -width,
                width,
            ),
        ),
        response=responses.location_scale([[shift]], [[[spread]]], base),
        outside=outside,
        loss=losses.squared(),
        domain=domains.box([-width], [width]),
        rounds=rounds,
    )


def self_fulfilling(
    spread: float = 0.5, rounds: int = 100, *, drift: Any = None, mixing: Any = None
) -> Classic:
    r"""Whatever is predicted comes true on average, so that every model is stable.

    $z \sim N(\theta, (1 + s\theta)^2)$, squared loss, Θ = [−1, 1]: ∇DPR(θ, θ) = 0 everywhere,
    and retraining stays where it begins. But $PR = \frac12(1 + s\theta)^2$: some predictions are
    noisier than others, and for 0 < s ≤ 1 the optimal one is −1. The least exogenous part makes the
    stable point unique: it is then the exogenous mean m_t.

    Args:
        spread: s; for 0 every model is optimal too.
        rounds: T.
        drift, mixing: P_t and α_t. With `mixing` alone, P is N(0, 1).

    >>> world = self_fulfilling()
    >>> world.known.stable[0, 1:, 0].tolist(), float(world.known.optimal[0, 1, 0])  # all between these two
    ([-1.0, 1.0], -1.0)

    References:
        After Miller, Perdomo and Zrnic, "Outside the echo chamber: optimizing the performative risk",
        ICML 2021.
    """
    world = scale_family(1.0, spread, 0.0, 1.0, 1.0, rounds, drift=drift, mixing=mixing)
    says = "every prediction fulfils itself and is stable; some are better than others"
    world.known = world.known._replace(says=says)
    return world


def performative_labels(
    reaction: Any = (0.5, -0.3),
    slopes: Any = (1.0, 2.0),
    feature_mean: Any = (1.0, 0.5),
    feature_variance: float = 1.0,
    noise_variance: float = 0.25,
    radius: float = 20.0,
    rounds: int = 100,
    *,
    drift: Any = None,
    mixing: Any = None,
) -> Classic:
    r"""The features stay and the labels react: $y = \beta^\top x + \mu^\top\theta + \xi$.

    Squared loss of θᵀx, without an intercept. With c = E x and S = E xxᵀ, the residual is
    $(\beta-\theta)^\top x + \mu^\top\theta' + \xi$, hence ∇DPR(θ, θ′) = Sθ − Sβ − cμᵀθ′, and with θ′ = θ

    $$(S - c\mu^\top)\,\theta^{PS} = S\beta, \qquad
    (S - c\mu^\top - \mu c^\top + \mu\mu^\top)\,\theta^{PO} = S\beta - (c^\top\beta)\mu.$$

    The second matrix is $\mathrm{Cov}(x) + (c-\mu)(c-\mu)^\top$: PR is always convex. An exogenous part
    adds α E xxᵀ and α E xy of its own, and the rest counts 1−α times. The closed form is given where
    both points lie inside the ball Θ in all rounds.

    Args:
        reaction: μ.
        slopes: β.
        feature_mean, feature_variance: x is normal, with independent entries.
        noise_variance: of ξ.
        radius: of Θ.
        rounds: T.
        drift, mixing: P_t, of rows (x, y), and α_t. With `mixing` alone, P is D(0).

    >>> world = performative_labels()
    >>> world.known.stable[0, 0].round(6).tolist(), world.known.optimal[0, 0].round(6).tolist()
    ([0.947368, 1.973684], [0.973545, 1.957672])

    References:
        After Miller, Perdomo and Zrnic, "Outside the echo chamber: optimizing the performative risk",
        ICML 2021 (linear regression with labels that respond).
    """
    mu, beta = _checks.numbers("reaction", reaction, ndim=1), _checks.numbers("slopes", slopes)
    c = _checks.numbers("feature_mean", feature_mean)
    if not mu.shape == beta.shape == c.shape:
        raise ValueError(
            "reaction, slopes and feature_mean must have one length; "
            f"got shapes {mu.shape}, {beta.shape} and {c.shape}."
        )
    variance = _checks.number("feature_variance", feature_variance, low=0.0, open_low=True)
    noise = _checks.number("noise_variance", noise_variance, low=0.0)
    radius = _checks.number("radius", radius, low=0.0, open_low=True)
    p = len(mu)
    base = _regression(c, variance * np.eye(p), beta, noise)
    outside = Outside.of(drift, mixing, rounds, base)
    s = variance * np.eye(p) + np.outer(c, c)
    a = outside.alphas[:, None, None]
    theirs, cross = a * outside.second[:, :p, :p], a[:, 0] * outside.second[:, :p, p]
    reacts = s - np.outer(c, mu)
    stable = _solved((1 - a) * reacts + theirs, (1 - a[:, 0]) * (s @ beta) + cross)
    convex = reacts - np.outer(mu, c) + np.outer(mu, mu)
    optimal = _solved(
        (1 - a) * convex + theirs, (1 - a[:, 0]) * (s @ beta - (c @ beta) * mu) + cross
    )
    inside = max(np.linalg.norm(stable, axis=1).max(), np.linalg.norm(optimal, axis=1).max())
    known = inside < radius
    return Classic(
        Known(
            PAPER,
            "the labels react and the features do not: what is stable is biased",
            unique(stable) if known else None,
            unique(optimal) if known else None,
        ),
        response=responses.location(np.vstack([np.zeros((p, p)), mu]), base),
        outside=outside,
        loss=losses.squared(labelled=True),
        domain=domains.ball(radius),
        rounds=rounds,
    )


def _regression(mean: Array, cov: Array, slopes: Array, noise: float) -> Gaussian:
    """Rows (x, y) with x ~ N(mean, cov) and y = slopesᵀx + noise."""
    lift = np.vstack([np.eye(len(mean)), slopes])
    covariance = lift @ cov @ lift.T
    covariance[-1, -1] += noise
    return Gaussian(lift @ mean, covariance)


def _solved(matrices: Array, sides: Array) -> Array:
    return np.linalg.solve(matrices, sides[..., None])[..., 0]
