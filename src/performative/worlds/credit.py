"""The credit scoring world of the paper's section 6."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from performative import _checks
from performative.world import domains, losses, mixing, responses
from performative.world.distributions import Gaussian
from performative.world.world import World
from performative.worlds import credit_data
from performative.worlds.quadratic import paper_drift


def credit(
    drift: Any = "random",
    b: float = 1.0,
    rounds: int = 2000,
    seed: int = 0,
    subsample: Any = 0,
    *,
    strength: float = 0.1,
    l2: float = 1.0,
    radius: float = 1.0,
    path: str | os.PathLike | None = None,
    download: bool = False,
) -> World:
    r"""Regularised logistic loss on a ball; credit applicants who move the features they can.

    $D(\theta) = N(A\theta + m, \Sigma)$ and $P_t = N(m_t, \Sigma)$ for the signed features z = yx, with m
    and Σ fitted to 1,500 of the 30,000 applicants, A = a·diag(p) on the eleven modifiable columns,
    m_t uniform in the unit ball, and α_t = t^-b. As in the paper, z itself moves by Aθ.

    Args:
        drift: "random" draws m_t anew each round, "stationary" keeps the first; or any of `pp.drifts`.
        b: how fast the exogenous part fades; 0 is α = 1 for ever.
        rounds: T.
        seed: of m_t alone.
        subsample: which 1,500 applicants, 0 … 99, or "all" of them; any other seed needs the data.
        strength: a.
        l2: λ.
        radius: of the ball Θ.
        path, download: where the data are, or whether to fetch them; 0 … 99 and "all" need neither.

    >>> import performative as pp
    >>> world = pp.worlds.credit(drift="stationary", rounds=10)
    >>> world.parameters, world.rung
    (17, 'quadrature')
    """
    mean, cov = credit_data.moments(subsample, path, download=download)
    strength = _checks.number("strength", strength, low=0.0)
    matrix = strength * np.diag(credit_data.MODIFIABLE.astype(float))
    rng = np.random.default_rng(_checks.integer("seed", seed, low=0))
    return World(
        response=responses.location(matrix, Gaussian(mean, cov)),
        drift=paper_drift(drift, cov, len(mean), rng, rounds),
        mixing=mixing.polynomial(b),
        loss=losses.logistic(l2=l2),
        domain=domains.ball(radius),
        rounds=rounds,
    )
