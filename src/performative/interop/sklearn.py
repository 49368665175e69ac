"""A linear model of scikit-learn as a learner: fitted anew, every round, to rows of that round.

The world is one of labelled rows (x, y); the model deployed is the estimator's `coef_`, and its
`intercept_` where the loss has one, projected onto the domain.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from performative import _checks
from performative._parallel import progress as progress_bar
from performative.simulation.run import Run
from performative.simulation.session import Session
from performative.world.world import World


def retrain(
    estimator: Any,
    world: World,
    rows: int = 1000,
    *,
    start: Any = None,
    seed: int = 0,
    run: int = 0,
    against: Any = ("stable",),
    progress: bool | None = None,
) -> Run:
    """Play a world with an estimator that is fitted to `rows` rows of every round.

    Args:
        estimator: anything with `fit`, `coef_` and `intercept_`; it is cloned, never changed.
            `LogisticRegression(C=1 / (rows * l2))` and `Ridge(alpha=rows * l2)` minimise the losses
            `logistic(l2)` and `squared(l2)`.
        world: of labelled rows.
        rows: drawn in each round, those of `pp.learners.rrm(rows=rows)` with the same seed.
        start: θ_1; the domain's centre unless given.
        seed, run: which draws.
        against: targets whose regret is computed.
        progress: whether to show a bar; None where somebody can see it.

    >>> import performative as pp
    >>> from sklearn.linear_model import LinearRegression
    >>> from performative.interop.sklearn import retrain
    >>> world = pp.World(
    ...     response=pp.responses.strategic(pp.Gaussian([1.0, 2.0], [[1.0, 0.5], [0.5, 1.0]]), [0], 0.3),
    ...     loss=pp.losses.squared(labelled=True), domain=pp.domains.ball(5.0), rounds=30)
    >>> run = retrain(LinearRegression(fit_intercept=False), world, rows=5000)
    >>> bool(abs(run.deployed[0, -1, 0, 0] - pp.stable_points(world)[-1, 0]) < 0.05)
    True
    """
    _checks.instance("world", world, World, "a pp.World")
    if not world.loss.labelled:
        raise ValueError(
            "world must have a loss of labelled rows, as losses.squared(labelled=True)."
        )
    rows = _checks.integer("rows", rows, low=2)
    theta = world.domain.center(world.parameters) if start is None else start
    session = Session(world, seed=seed, run=run)
    with progress_bar("retraining", world.rounds, progress) as done:
        for _ in range(world.rounds):
            data = session.deploy(theta, feedback="samples", n=rows)
            fresh: Any = clone(estimator)
            fitted = fresh.fit(data[:, :-1], data[:, -1])
            theta = world.domain.project(_parameters(fitted, world))
            done(1)
    return session.close(against)


def _parameters(fitted: Any, world: World) -> np.ndarray:
    """θ of a fitted estimator."""
    if not hasattr(fitted, "coef_"):
        raise TypeError(f"estimator must be a linear model with coef_; got {fitted!r}.")
    weights = np.ravel(fitted.coef_)
    constant = np.ravel(getattr(fitted, "intercept_", 0.0))
    if world.loss.intercept:
        weights = np.append(weights, constant)
    elif np.any(constant != 0.0):
        raise ValueError(
            "estimator must have fit_intercept=False, because the world's loss has no intercept; "
            f"got an intercept of {constant[0]:.4g}."
        )
    if len(weights) != world.parameters:
        raise ValueError(
            f"estimator must fit one model of {world.parameters} parameters; got {len(weights)}."
        )
    return weights
