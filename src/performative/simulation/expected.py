r"""Expected regret without sampling: mean and covariance of θ_t where retraining is linear in the rows.

For the squared loss and data that only move, RRM on n rows, greedy and lazy SGD all make

$$\theta_{t+1} = \kappa_t\theta_t + \sum_j w_{t,j} z_j, \qquad z_j \sim D_t(\theta_t),
\qquad \kappa_t + (1+\lambda)\textstyle\sum_j w_{t,j} = 1,$$

as long as no projection is active. Given θ_t the rows have mean $(1-\alpha_t)(A\theta_t + m) +
\alpha_t m_t$ and a covariance that is quadratic in θ_t, so mean and covariance of θ_t obey a closed
recursion, and the expected regret is that of the mean plus half the trace of ∇²PR_t times the
covariance (sections 2 and 4 of the paper).
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from performative.learners.greedy_sgd import GreedySGD
from performative.learners.lazy_sgd import LazySGD
from performative.learners.learner import Learner
from performative.learners.rrm import RRM
from performative.simulation.run import TARGETS, Record, Run
from performative.targets.points import Finder, warn_of_flags
from performative.world.domains import Ball, Box, Domain, Everywhere, Halfspace, Hyperplane
from performative.world.rounds import Round
from performative.world.world import World

Array = Any

SAFE = 5.0
"""Standard deviations to the boundary of the domain, above which the projection does not matter."""


class Weights(NamedTuple):
    """What each round makes of its start and of its rows; all of shape (rounds,)."""

    kept: Array  # κ
    squares: Array  # Σ w_j²
    least: Array  # the extremes of κ over the steps within a round, and the largest Σ w_j²
    most: Array
    loudest: Array


def weights_of(learner: Learner, l2: float) -> Weights | None:
    """The weights of a prepared learner under the squared loss; None if it is not linear."""
    kind = type(learner)  # a learner derived from one of these is another learner
    if isinstance(learner, GreedySGD) and kind is GreedySGD:
        kept = 1.0 - (1.0 + l2) * learner.step
        squares = learner.step**2 / learner.batch
        return Weights(kept, squares, kept, kept, squares)
    if isinstance(learner, LazySGD) and kind is LazySGD:
        return _lazy_weights(learner, l2)
    if isinstance(learner, RRM) and kind is RRM and learner.sample is not None:
        none, square = np.zeros(1), np.full(1, 1.0 / ((1.0 + l2) ** 2 * learner.sample))
        return Weights(none, square, none, none, square)
    return None


def _lazy_weights(learner: LazySGD, l2: float) -> Weights:
    """Step j for all rounds at a time that have one; those are the last ones."""
    counts, first, table = learner.counts, learner.first, learner.step
    shape = counts.shape
    now = Weights(np.ones(shape), np.zeros(shape), np.ones(shape), np.ones(shape), np.zeros(shape))
    for j in range(int(counts.max())):
        goes_on = slice(int(np.searchsorted(counts, j, side="right")), None)
        step = table[first[goes_on] + j]
        factor = 1.0 - (1.0 + l2) * step
        now.kept[goes_on] *= factor
        now.squares[goes_on] = factor**2 * now.squares[goes_on] + step**2
        np.minimum(now.least[goes_on], now.kept[goes_on], out=now.least[goes_on])
        if j == 0:
            now.most[:] = now.kept
        np.maximum(now.most[goes_on], now.kept[goes_on], out=now.most[goes_on])
        np.maximum(now.loudest[goes_on], now.squares[goes_on], out=now.loudest[goes_on])
    return now


class Law(NamedTuple):
    """Mean and covariance of what is deployed."""

    mean: Array
    covariance: Array


def _margin(domain: Domain, law: Law) -> Array:
    """Standard deviations from the mean to the boundary of the domain; negative outside."""
    deviations = jnp.sqrt(jnp.diagonal(law.covariance))
    # No eigenvalue exceeds the Frobenius norm.
    largest = jnp.sqrt(jnp.linalg.norm(law.covariance))
    if isinstance(domain, Box):
        gaps = jnp.minimum(law.mean - domain.lower, domain.upper - law.mean)
    elif isinstance(domain, Ball):
        gaps, deviations = domain.size - jnp.linalg.norm(law.mean - domain.middle), largest
    elif isinstance(domain, Halfspace):
        normal = domain.normal
        gaps = domain.offset - normal @ law.mean
        deviations = jnp.sqrt(normal @ law.covariance @ normal)
    else:
        return jnp.asarray(jnp.inf)
    return jnp.min(gaps / jnp.maximum(deviations, 1e-300))


def _after(here: Round, law: Law, kept: Array, squares: Array) -> Law:
    """The law after a round, or after some of its steps."""
    pull = (1.0 - kept) / (1.0 + here.loss.l2)
    data = here.distribution(law.mean)
    response, drifting = here.response, here.exogenous
    matrix = jnp.zeros_like(law.covariance) if response is None else response.matrix  # pyright: ignore
    share = 0.0 if response is None else 1.0 if drifting is None else 1.0 - here.alpha
    carried = kept * jnp.eye(law.mean.shape[0]) + pull * share * matrix
    # Rows also differ because θ_t does: by which component they come from.
    between = share * (1.0 - share) * (matrix @ law.covariance @ matrix.T)
    return Law(
        kept * law.mean + pull * data.mean,
        carried @ law.covariance @ carried.T + squares * (data.covariance + between),
    )


@jax.jit
def _play(moving: Any, still: Round, weights: Weights, points: list[Array], start: Array) -> Any:
    def play(law: Law, coming: Any) -> Any:
        part, weights, points = coming
        here: Round = eqx.combine(part, still)
        hessian = here.total_hessian(law.mean)
        regrets = [
            here.excess(law.mean, law.mean, here.reference(point))
            + 0.5 * jnp.sum(hessian * law.covariance)
            for point in points
        ]
        within = [
            _after(here, law, kept, weights.loudest) for kept in (weights.least, weights.most)
        ]
        ahead = _after(here, law, weights.kept, weights.squares)
        margin = functools.reduce(
            jnp.minimum, [_margin(here.domain, one) for one in (*within, ahead)]
        )
        return ahead, (law.mean, jnp.trace(law.covariance), regrets, margin)

    first = Law(start, jnp.zeros((start.shape[0], start.shape[0])))
    return jax.lax.scan(play, first, (moving, weights, points))[1]


def expectation(
    world: World, learner: Learner, start: np.ndarray, seed: int, targets: tuple[str, ...]
) -> Run:
    """The run of expectations of a prepared learner; in double precision."""
    weights = _check(world, learner)
    record = Record("regret", 1, world, 1, 1, 1, targets)
    points = [_find(world, name, record) for name in targets]
    moving, still = eqx.partition(world.at(slice(None)), world.moving())
    weights = Weights(*(np.broadcast_to(leaf, (world.rounds,)) for leaf in weights))
    mean, spread, regrets, margins = _play(moving, still, weights, points, start)
    record.add(1, None, [np.asarray(regret)[None, :, None] for regret in regrets])
    for name in targets:
        warn_of_flags(name, record.statuses(name))
    nearest = int(np.argmin(margins))
    if margins[nearest] < SAFE:
        warnings.warn(
            "The expectation leaves out the projection onto the domain, which can matter here: in "
            f"round {nearest + 1} the model is {float(margins[nearest]):.2g} standard deviations "
            "from the boundary; simulate with expected=False to include it.",
            stacklevel=4,
        )
    run = record.finish(world, learner, seed, start[None])
    run.dataset["expected_deployed"] = (("round", "parameter"), np.asarray(mean))
    run.dataset["spread"] = ("round", np.asarray(spread))
    run.dataset.attrs |= {
        "expected": 1,
        "projection_margin": float(margins[nearest]),
        "projection_matters": int(margins[nearest] < SAFE),
    }
    return run


def _check(world: World, learner: Learner) -> Weights:
    """The weights, or one sentence that says why there is no closed recursion."""
    rules: list[tuple[Callable[[], bool], str]] = [
        (
            lambda: world.at(1).is_quadratic,
            "a squared loss on unlabelled rows and a location response",
        ),
        (lambda: world.lag is None, "a population that responds at once"),
        (
            lambda: (
                isinstance(world.domain, (Ball, Box, Everywhere, Halfspace))
                and not isinstance(world.domain, Hyperplane)
            ),
            "a domain that is a ball, a box, a halfspace or everywhere",
        ),
    ]
    for holds, what in rules:
        if not holds():
            raise ValueError(f"expected=True needs {what}; got {world.description}.")
    weights = weights_of(learner, float(world.loss.l2))
    if weights is None:
        raise ValueError(
            "expected=True needs greedy SGD, lazy SGD, RRM on rows, or a learner without dice; "
            f"got {learner.name}."
        )
    return weights


def _find(world: World, name: str, record: Record) -> np.ndarray:
    """The targets of all rounds, noted in the record."""
    finder = Finder(world, TARGETS[name])
    found = []
    for first in range(1, world.rounds + 1, finder.block):
        part = finder.find(first, min(first + finder.block - 1, world.rounds))
        record.add_target(name, first, part)
        found.append(part.points)
    return np.concatenate(found)
