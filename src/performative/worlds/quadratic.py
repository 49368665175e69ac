"""The quadratic-Gaussian world of the paper's appendix on synthetic data."""

from __future__ import annotations

from typing import Any

import numpy as np

from performative import _checks
from performative.world import domains, drifts, losses, mixing, responses
from performative.world.distributions import Gaussian
from performative.world.world import World


def quadratic(
    dim: int = 10,
    drift: Any = "random",
    b: float = 1.0,
    rounds: int = 100_000,
    seed: int = 0,
    *,
    sensitivity: float = 0.3,
    deviation: float = 0.5,
    drift_deviation: float = 0.5,
    half_width: float = 5.0,
) -> World:
    r"""Squared loss, normal data that respond linearly, on a box.

    $D(\theta) = N(A\theta + m, \sigma^2 I)$ and $P_t = N(m_t, \sigma_P^2 I)$, with A of operator norm ε, m
    uniform in [−1, 1]^d and m_t uniform in the unit ball, Θ = [−B, B]^d and α_t = t^-b.

    Args:
        dim: d.
        drift: "random" draws m_t anew each round, "stationary" keeps the first; or any of `pp.drifts`.
        b: how fast the exogenous part fades; 0 is α = 1 for ever.
        rounds: T.
        seed: of A, m and m_t.
        sensitivity: ε.
        deviation, drift_deviation: σ and σ_P.
        half_width: B.

    >>> import performative as pp
    >>> world = pp.worlds.quadratic(dim=2, rounds=100)
    >>> world.parameters, world.rung
    (2, 'closed form')
    """
    dim = _checks.integer("dim", dim, low=1)
    rng = np.random.default_rng(_checks.integer("seed", seed, low=0))
    sensitivity = _checks.number("sensitivity", sensitivity, low=0.0)
    matrix = rng.normal(size=(dim, dim))
    matrix *= sensitivity / np.linalg.norm(matrix, 2)
    mean = rng.uniform(-1.0, 1.0, size=dim)
    variance = _checks.number("deviation", deviation, low=0.0) ** 2
    drift_variance = _checks.number("drift_deviation", drift_deviation, low=0.0) ** 2
    return World(
        response=responses.location(matrix, Gaussian(mean, variance)),
        drift=paper_drift(drift, drift_variance, dim, rng, rounds),
        mixing=mixing.polynomial(b),
        loss=losses.squared(),
        domain=domains.linf_ball(half_width),
        rounds=rounds,
    )


def paper_drift(
    drift: Any, cov: Any, dim: int, rng: np.random.Generator, rounds: int
) -> drifts.Drift:
    """P_t as in the paper's experiments: a mean in the unit ball, drawn every round or once."""
    if isinstance(drift, drifts.Drift):
        return drift
    _checks.choice("drift", drift, ("random", "stationary"))
    rounds = _checks.integer("rounds", rounds, low=1)
    if drift == "random":
        return drifts.recorded(Gaussian(drifts.in_unit_ball(rng, rounds, dim), cov))
    # A sequence although it stands still: both kinds of world then share one compiled program.
    means = np.repeat(drifts.in_unit_ball(rng, 1, dim), rounds, axis=0)
    return drifts.recorded(Gaussian(means, cov))._replace(described="fixed")
