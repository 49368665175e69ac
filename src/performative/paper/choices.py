"""What the paper leaves open about its credit experiment, and how much each choice matters.

Every alternative is played next to the default, and its final regret is what the table shows; α_t =
t^-1/2 with random P_t throughout, where the choices show most.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from performative import learners
from performative.learners.steps import decreasing
from performative.paper.experiments import Settings
from performative.simulation.sweep import sweep
from performative.targets.stable import stable_points
from performative.world import domains, drifts, losses, mixing, responses
from performative.world.constants import Constants
from performative.world.distributions import Gaussian
from performative.world.world import World
from performative.worlds import credit_data

B = 0.5
RUNS = 4
"""At most, of a stochastic learner."""


class Choice(NamedTuple):
    """An open point: the learner that shows it, and what each alternative gave."""

    name: str
    learner: str
    alternative: str
    default: bool
    regret: float
    error: float


def measure(settings: Settings) -> xr.Dataset:
    """Final regret for every alternative of every open choice."""
    found = list(_all(settings))
    fields = {name: [getattr(choice, name) for choice in found] for name in Choice._fields}
    return xr.Dataset(
        {name: ("alternative_index", values) for name, values in fields.items()},
        attrs={"part": "choices", "seed": settings.seed, "b": B, "runs": _few(settings)},
    )


def _all(settings: Settings) -> Iterator[Choice]:
    # What one learner shows is one sweep: three compiled programs for all.
    rounds, default = settings.sizes.credit, settings.seed % 100
    rrm, rgd = {"RRM": learners.rrm()}, {"RGD": learners.rgd()}
    world = _world(settings, rounds)
    rows = {
        f"1,500 rows, sample {default}": world,
        f"1,500 rows, sample {(default + 1) % 100}": _world(
            settings, rounds, subsample=(default + 1) % 100
        ),
        "all 30,000 rows": _world(settings, rounds, subsample="all"),
    }
    laws = {law: _world(settings, rounds, law=law) for law in LAWS}
    stable = stable_points(world, progress=False).values[0]
    random = world.domain.draw(np.random.default_rng(settings.seed), 1, world.parameters)[0]
    centre = np.zeros(17)
    starts = {"the centre, 0": centre, "uniform in Θ": random, "θ_1^PS": stable}
    from_starts = {"θ_1": {name: (world, start) for name, start in starts.items()}}
    others = {
        "which rows the normal law is fitted to": rows,
        "the law of m_t in the unit ball": laws,
    }
    from_centre = {
        choice: {name: (other, centre) for name, other in alternatives.items()}
        for choice, alternatives in others.items()
    }
    yield from _played(settings, from_centre | from_starts, rrm)
    yield from _played(settings, from_starts, rgd)
    slow = {"RGD": learners.rgd(step=_slow)}
    for i, (name, rule) in enumerate({"rigorous": rgd, "for ‖z‖ ≤ 6": slow}.items()):
        asked = {"constants in RGD's step": from_starts["θ_1"]}  # three again: the same program
        here = _played(settings, asked, rule)
        yield next(here)._replace(alternative=name, default=i == 0)
    # Ten times the samples take ten times as long; a few runs tell them apart.
    few = _few(settings)
    steps = {"0": None, "(E(λ + ‖z‖²/4)²)^½": _noisy(settings, world)}
    for i, (name, step) in enumerate(steps.items()):
        rule = {"greedy SGD": learners.greedy_sgd(step=step)}
        asked = {"C_V in the step of greedy SGD": {name: (world, centre)}}
        here = _played(settings, asked, rule, few)
        yield from (choice._replace(default=i == 0) for choice in here)
    short = _world(settings, settings.sizes.lazy // 2)  # a quarter of the rows
    for i, n0 in enumerate((1, 10)):
        rule = {"lazy SGD": learners.lazy_sgd(n0=n0)}
        here = _played(settings, {"n0 of lazy SGD": {f"{n0}": (short, centre)}}, rule, few)
        yield from (choice._replace(default=i == 0) for choice in here)


def _slow(t: np.ndarray) -> np.ndarray:
    """Theorem 4.1's step with the smoothness of the loss for ‖z‖ ≤ 6: the paper's kind of constant."""
    smooth, moved = 1.0 + 6.0**2 / 4.0, 1.0 + 6.0 / 4.0
    strength = (1.0 - t**-B) * 0.1 * moved
    return (1.0 - strength) / (2.0 * (smooth**2 + strength**2))


def _few(settings: Settings) -> int:
    return min(settings.runs, RUNS)


def _noisy(settings: Settings, world: World) -> np.ndarray:
    """Proposition 4.2's steps if the noise grew as fast as the loss is smooth: λ + ‖z‖²/4, in the mean."""
    mean, cov = credit_data.moments(settings.seed % 100)
    square = mean @ mean + np.trace(cov)
    fourth = square**2 + 2.0 * np.trace(cov @ cov) + 4.0 * mean @ cov @ mean
    growth = np.sqrt(1.0 + square / 2.0 + fourth / 16.0)
    coupled = float(Constants(world).coupling.max())
    return decreasing(1.0, coupled, growth).steps(world.rounds)


def _played(
    settings: Settings,
    asked: dict[str, dict[str, tuple[World, np.ndarray]]],
    rule: dict[str, Any],
    runs: int = 1,
) -> Iterator[Choice]:
    """Each choice with its alternatives: a world and a start. The first of them is the default."""
    lanes = [(name, alternative) for name, found in asked.items() for alternative in found]
    played = {str(i): asked[name][alternative] for i, (name, alternative) in enumerate(lanes)}
    worlds = {key: world for key, (world, _) in played.items()}
    starts = {key: start for key, (_, start) in played.items()}
    table = sweep(worlds, rule, runs, settings.seed, start=starts, progress=False)
    last = table.stable_regret.isel(learner=0, round=-1).values
    for (name, alternative), regret in zip(lanes, last, strict=True):
        error = np.std(regret, ddof=1) / np.sqrt(runs) if runs > 1 else 0.0
        default = alternative == next(iter(asked[name]))
        yield Choice(
            name, next(iter(rule)), alternative, default, float(regret.mean()), float(error)
        )


def _uniform(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    return drifts.in_unit_ball(rng, n, d)


def _sphere(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    normal = rng.normal(size=(n, d))
    return normal / np.linalg.norm(normal, axis=1, keepdims=True)


def _radial(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    return _sphere(rng, n, d) * rng.uniform(size=(n, 1))


LAWS = {
    "uniform in the ball": _uniform,
    "uniform on the sphere": _sphere,
    "a direction times a uniform length": _radial,
}


def _world(
    settings: Settings, rounds: int, subsample: Any = None, law: str = "uniform in the ball"
) -> World:
    """The credit world with one choice made otherwise."""
    mean, cov = credit_data.moments(settings.seed % 100 if subsample is None else subsample)
    means = LAWS[law](np.random.default_rng(settings.seed), rounds, len(mean))
    return World(
        response=responses.location(
            0.1 * np.diag(credit_data.MODIFIABLE.astype(float)), Gaussian(mean, cov)
        ),
        drift=drifts.recorded(Gaussian(means, cov)),
        mixing=mixing.polynomial(B),
        loss=losses.logistic(l2=1.0),
        domain=domains.ball(1.0),
        rounds=rounds,
    )
