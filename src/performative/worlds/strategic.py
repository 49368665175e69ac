"""Strategic classification on labelled rows: people move the features that they can change.

Hardt, Megiddo, Papadimitriou and Wootters (2016) with quadratic costs, as in the experiments of Perdomo
et al. (2020). There is no closed form: the answers are computed, and certified or flagged.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from performative import _checks
from performative.world import domains, losses, responses
from performative.world.distributions import Empirical
from performative.worlds.known import Classic, Known, Outside

PAPER = "Hardt, Megiddo, Papadimitriou and Wootters, Strategic classification, ITCS 2016"


def strategic_classification(
    rows: Any = None,
    modifiable: Any = None,
    strength: float = 0.5,
    l2: float = 0.1,
    radius: float = 3.0,
    rounds: int = 100,
    *,
    people: int = 400,
    features: int = 3,
    seed: int = 0,
    drift: Any = None,
    mixing: Any = None,
) -> Classic:
    r"""Logistic regression with an intercept, on people who move towards acceptance.

    A person with features x gains θᵀx and pays $|x' - x|^2/2a$ for a move to x′, and so moves by aθ in
    the columns that can change: $D(\theta)$ is the rows after that move, labels as they were. The
    expectations are sums over the rows, exact for these people.

    Args:
        rows: (x, y) with y = −1 or 1 last, such as ``pp.worlds.credit_data.rows(signed=False)``; by
            default, people drawn by `seed`, with normal features and labels from a logistic model.
        modifiable: indices of the columns that can change; all but the last unless given.
        strength: a.
        l2: λ, which leaves the intercept alone.
        radius: of the ball Θ.
        rounds: T.
        people, features, seed: of the people that are drawn.
        drift, mixing: P_t, of rows (x, y), and α_t. With `mixing` alone, P is the people who do not
            react.

    >>> world = strategic_classification(rounds=1)
    >>> world.parameters, world.rung
    (4, 'finite sum')

    References:
        Hardt, Megiddo, Papadimitriou and Wootters, "Strategic classification", ITCS 2016.
    """
    if rows is None:
        rows = drawn(people, features, seed)
    base = Empirical(_checks.numbers("rows", rows, ndim=2))
    if base.dimension < 2:
        raise ValueError(f"rows must have a feature and a label; got {base.dimension} column.")
    if modifiable is None:
        modifiable = np.arange(max(base.dimension - 2, 1))
    return Classic(
        Known(PAPER, "people move the features that they can change", None, None),
        response=responses.strategic(base, modifiable, strength),
        outside=Outside.of(drift, mixing, rounds, base),
        loss=losses.logistic(l2=l2, labelled=True, intercept=True),
        domain=domains.ball(radius),
        rounds=rounds,
    )


def drawn(people: int, features: int, seed: int) -> np.ndarray:
    """People with normal features, who deserve acceptance with probability σ(wᵀx + ½): (x, y) rows."""
    people = _checks.integer("people", people, low=1)
    features = _checks.integer("features", features, low=1)
    rng = np.random.default_rng(_checks.integer("seed", seed, low=0))
    x = rng.normal(size=(people, features))
    merit = x @ np.linspace(1.0, -1.0, features) + 0.5 if features > 1 else x[:, 0] + 0.5
    y = np.where(rng.random(people) < 1.0 / (1.0 + np.exp(-merit)), 1.0, -1.0)
    return np.column_stack([x, y])
