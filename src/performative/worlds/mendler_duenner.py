"""The world of Mendler-Dünner, Perdomo, Zrnic and Hardt, "Stochastic optimization for performative
prediction" (NeurIPS 2020): estimating a mean that moves, greedily or lazily.
"""

from __future__ import annotations

from typing import Any

from performative.worlds.known import Classic, moving_mean

PAPER = (
    "Mendler-Dünner, Perdomo, Zrnic and Hardt, Stochastic optimization for performative "
    "prediction, NeurIPS 2020"
)


def gaussian_mean(
    sensitivity: float = 0.5,
    offset: float = 1.0,
    deviation: float = 1.0,
    half_width: float = 10.0,
    rounds: int = 100,
    *,
    drift: Any = None,
    mixing: Any = None,
) -> Classic:
    r"""The mean of $z \sim N(\mu + \varepsilon\theta, \sigma^2)$, squared loss, Θ = [−B, B].

    $\theta^{PS} = \theta^{PO} = \mu/(1-\varepsilon)$ for |ε| < 1. Errors e of learners that see samples
    are known in closed form, away from the boundary. Greedy deployment, a step η on each sample:
    $E e_{t+1}^2 = (1 - \eta(1-\varepsilon))^2 E e_t^2 + \eta^2\sigma^2$. Retraining on n rows of each
    deployment, the lazy extreme: $E e_{t+1}^2 = \varepsilon^2 E e_t^2 + \sigma^2/n$, which settles at
    $\sigma^2/(n(1-\varepsilon^2))$. Per deployment the lazy learner gains; per row the greedy one may.

    Args:
        sensitivity: ε.
        offset: μ.
        deviation: σ.
        half_width: B.
        rounds: T.
        drift, mixing: P_t and α_t. With `mixing` alone, P is N(μ, σ²).

    >>> float(gaussian_mean().known.stable[0, 0, 0])
    2.0

    References:
        Mendler-Dünner, Perdomo, Zrnic and Hardt, "Stochastic optimization for performative
        prediction", NeurIPS 2020.
    """
    return moving_mean(
        PAPER,
        "from samples: greedy deployment against lazy deployment",
        sensitivity=sensitivity,
        offset=offset,
        deviation=deviation,
        half_width=half_width,
        rounds=rounds,
        drift=drift,
        schedule=mixing,
    )
