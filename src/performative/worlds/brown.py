"""The world of Brown, Hod and Kalemaj, "Performative prediction in a stateful world" (AISTATS 2022):
a population that remembers, and comes round to a model only little by little.
"""

from __future__ import annotations

from typing import Any

from performative.worlds.known import Classic, moving_mean

PAPER = "Brown, Hod and Kalemaj, Performative prediction in a stateful world, AISTATS 2022"


def geometric_decay(
    rate: float = 0.3,
    sensitivity: float = 0.5,
    offset: float = 1.0,
    deviation: float = 1.0,
    half_width: float = 10.0,
    rounds: int = 100,
    *,
    drift: Any = None,
    mixing: Any = None,
) -> Classic:
    r"""A mean that moves a part k of the way each round: $z \sim N(\mu + \varepsilon s_t, \sigma^2)$.

    $s_{t+1} = (1-k)s_t + k\theta_t$, s_1 = θ_1; squared loss, Θ = [−B, B]. The targets are those of a
    population that has settled, s = θ: μ/(1−ε). Retraining is θ_{t+1} = μ + εs_t, so that the
    distance to them shrinks with the larger eigenvalue of $\begin{pmatrix}0&\varepsilon\\k&1-k\end{pmatrix}$:
    the slower the population, the longer it takes, though each step looks converged.

    Brown, Hod and Kalemaj let the *distribution* decay, a mixture of all D(θ_s) with geometric weights.
    Its mean is the one here; its variance is larger, by an amount that no learner and, with the
    squared loss, no target depends on.

    Args:
        rate: k in (0, 1].
        sensitivity: ε.
        offset: μ.
        deviation: σ.
        half_width: B.
        rounds: T.
        drift, mixing: P_t and α_t. With `mixing` alone, P is N(μ, σ²).

    >>> float(geometric_decay().known.stable[0, 0, 0])
    2.0

    References:
        Brown, Hod and Kalemaj, "Performative prediction in a stateful world", AISTATS 2022.
    """
    return moving_mean(
        PAPER,
        "the population remembers: each retraining looks converged and is not",
        sensitivity=sensitivity,
        offset=offset,
        deviation=deviation,
        half_width=half_width,
        rounds=rounds,
        drift=drift,
        schedule=mixing,
        rate=rate,
    )
