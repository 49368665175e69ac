"""The paper's own recipe for the credit experiment, next to the exact numbers.

Appendix on the credit experiment: stable points by 20 × 60 steps of projected gradient descent of
size 0.2 on 512 common random samples, risks by 16,384 common ones. What sampling does to the curves
is the difference from the exact ones; what mixing the two would do is a curve of its own.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
import xarray as xr

from performative import learners
from performative._precision import double
from performative.paper.experiments import Settings, credit_world
from performative.simulation.engine import simulate
from performative.targets.stable import stable_points
from performative.world.distributions import Empirical, Noise
from performative.world.expectations import Ladder, choose, expect
from performative.world.rounds import Round
from performative.world.world import World

Array = Any

OUTER, INNER, STEP = 20, 60, 0.2
GRADIENT_DRAWS, RISK_DRAWS = 512, 16_384
"""The iterations, the step and the sample sizes that the paper gives."""

RECIPES = (
    "exact",
    "paper's recipe",
    "its models, exact risks",
    "exact learner, its targets",
)
SCHEDULES = (0.5, 1.0)


class Sampled(NamedTuple):
    """What the recipe makes of a world: its targets, its learner's models, and their risks."""

    stable: np.ndarray  # (round, parameter)
    deployed: np.ndarray
    regret: np.ndarray  # per round, from sampled risks


def compare(settings: Settings, rounds: int) -> xr.Dataset:
    """RRM's cumulative regret with random P_t, exact and by the recipe: (recipe, b, round)."""
    curves = np.empty((len(RECIPES), len(SCHEDULES), rounds))
    distance = np.empty((len(SCHEDULES), rounds))
    t = np.arange(1, rounds + 1)
    played = [credit_world(settings, "random", b, rounds) for b in SCHEDULES]
    for k, world in enumerate(played):
        start = settings.start(world)
        sampled = follow(world, start, settings.seed)
        exact = simulate(world, learners.rrm(), start, record="all", progress=False)
        points = stable_points(world, progress=False).values
        at_sampled = world.risk(t, sampled.stable)
        each = (
            exact.regret("stable", cumulative=False).values[0],
            sampled.regret,
            world.risk(t, sampled.deployed) - at_sampled,
            world.risk(t, exact.deployed.values[0, :, 0]) - at_sampled,
        )
        curves[:, k] = np.cumsum(each, axis=1)
        distance[k] = np.linalg.norm(sampled.stable - points, axis=1)
    return xr.Dataset(
        {
            "regret": (("recipe", "b", "round"), curves),
            "target_error": (("b", "round"), distance),
        },
        coords={"recipe": list(RECIPES), "b": list(SCHEDULES), "round": t},
        attrs={
            "part": "recipes",
            "world": played[0].description,
            "rung": f"{played[0].rung}, and Monte Carlo with {GRADIENT_DRAWS} and {RISK_DRAWS} draws",
            "seed": settings.seed,
        },
    )


@double
def follow(world: World, start: np.ndarray, seed: int) -> Sampled:
    """The recipe's stable points, RRM by the recipe, and its regret by sampled risks."""
    key = jax.random.key(seed)
    few = Noise.draw(jax.random.fold_in(key, 0), GRADIENT_DRAWS, world.dimension)
    many = Noise.draw(jax.random.fold_in(key, 1), RISK_DRAWS, world.dimension)
    moving, still = eqx.partition(world.at(np.arange(1, world.rounds + 1)), world.moving())
    return Sampled(*(np.asarray(part) for part in _follow(moving, still, start, few, many)))


@jax.jit
def _follow(
    moving: Any, still: Round, start: Array, few: Noise, many: Noise
) -> tuple[Array, Array, Array]:
    def target(part: Any) -> Array:
        here: Round = eqx.combine(part, still)
        retrain = functools.partial(_retrained, here, few)
        return jax.lax.fori_loop(0, OUTER, lambda _, theta: retrain(theta), start)

    def learn(theta: Array, part: Any) -> tuple[Array, Array]:
        return _retrained(eqx.combine(part, still), few, theta), theta

    def regret(pair: Any) -> Array:
        part, deployed, stable = pair
        here: Round = eqx.combine(part, still)
        return _sampled_risk(here, many, deployed) - _sampled_risk(here, many, stable)

    stable = jax.lax.map(target, moving, batch_size=16)
    _, deployed = jax.lax.scan(learn, start, moving)
    return stable, deployed, jax.lax.map(regret, (moving, deployed, stable))


def _retrained(here: Round, noise: Noise, theta: Array) -> Array:
    """One retraining: descent on the rows that θ brings about, from θ."""
    data = Empirical(here.rows(theta, noise))
    ladder = Ladder(choose(here.loss, data))

    def step(_: Array, model: Array) -> Array:
        slope = expect("gradient", ladder, here.loss, data, model, None)
        return here.domain.projection(model - STEP * slope)

    return jax.lax.fori_loop(0, INNER, step, theta)


def _sampled_risk(here: Round, noise: Noise, theta: Array) -> Array:
    data = Empirical(here.rows(theta, noise))
    return expect("risk", Ladder(choose(here.loss, data)), here.loss, data, theta, None)
