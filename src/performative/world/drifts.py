"""What the world does by itself: the exogenous P_t, section 2 of the paper.

Every drift is drawn once, when the world is built, and from then on is a recorded sequence: its
randomness belongs to the world and not to a run. A drift knows nothing of models.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from performative import _checks
from performative.world.distributions import Distribution, Gaussian, Mixture


class Drift(NamedTuple):
    """A recipe for P_1 … P_T: `sequence(rounds, dimension)` carries it out."""

    sequence: Callable[[int, int], Distribution]
    described: str


def fixed(distribution: Distribution) -> Drift:
    """The same P in every round."""
    _checks.instance("distribution", distribution, Distribution, "a pp.Gaussian, pp.Empirical, …")
    if distribution.rounds is not None:
        raise ValueError(
            f"distribution must be a single one; got a sequence of {distribution.rounds}: "
            "use pp.drifts.recorded."
        )
    return Drift(lambda rounds, dimension: distribution, "fixed")


def recorded(distribution: Distribution) -> Drift:
    """A given sequence P_1, P_2, …: a `Gaussian` with means (T, d), or rows (T, n, d).

    >>> import performative as pp
    >>> pp.drifts.recorded(pp.Gaussian([[0.0], [1.0]], 1.0)).described
    'recorded'
    """
    _checks.instance("distribution", distribution, Distribution, "a pp.Gaussian, pp.Empirical, …")

    def sequence(rounds: int, dimension: int) -> Distribution:
        if distribution.rounds is None:
            raise ValueError(
                f"drift must have one distribution for each of the {rounds} rounds; "
                "got a single one: use pp.drifts.fixed."
            )
        if distribution.rounds < rounds:
            raise ValueError(
                f"drift must have at least one distribution for each of the {rounds} rounds; "
                f"got {distribution.rounds}."
            )
        return distribution.take(slice(0, rounds))

    return Drift(sequence, "recorded")


def iid_ball(cov: Any, radius: float = 1.0, center: Any = 0.0, seed: int = 0) -> Drift:
    """Normal, with a mean drawn anew each round, uniformly from a ball.

    Args:
        cov: covariance, as for `Gaussian`.
        radius, center: the ball of means.
        seed: of the means, apart from the seeds of runs.
    """
    radius = _checks.number("radius", radius, low=0.0, open_low=True)
    seed = _checks.integer("seed", seed, low=0)

    def means(rounds: int, dimension: int) -> np.ndarray:
        points = in_unit_ball(np.random.default_rng(seed), rounds, dimension)
        return _vector("center", center, dimension) + radius * points

    return _gaussian(cov, means, f"iid_ball(radius={radius:g}, seed={seed})")


def random_walk(
    cov: Any, step: float, start: Any = 0.0, radius: float | None = None, seed: int = 0
) -> Drift:
    """Normal, with a mean that makes a random step each round.

    Args:
        cov: covariance, as for `Gaussian`.
        step: root mean square length of one step.
        start: the mean of round 1.
        radius: if given, the walk is held within this distance of `start`.
        seed: of the walk, apart from the seeds of runs.
    """
    step = _checks.number("step", step, low=0.0)
    seed = _checks.integer("seed", seed, low=0)
    if radius is not None:
        radius = _checks.number("radius", radius, low=0.0, open_low=True)

    def means(rounds: int, dimension: int) -> np.ndarray:
        moves = np.random.default_rng(seed).normal(size=(rounds, dimension)) * step
        moves[0] = 0.0
        walk = np.cumsum(moves / np.sqrt(dimension), axis=0)
        if radius is not None:
            position = np.zeros(dimension)
            for t, move in enumerate(moves / np.sqrt(dimension)):
                position = position + move
                position = position * min(1.0, radius / max(np.linalg.norm(position), 1e-300))
                walk[t] = position
        return _vector("start", start, dimension) + walk

    return _gaussian(cov, means, f"random_walk(step={step:g}, seed={seed})")


def seasonal(
    cov: Any, amplitude: Any, period: float, center: Any = 0.0, phase: float = 0.0
) -> Drift:
    r"""Normal, with mean $m_t = c + a \sin(2\pi (t + \varphi)/p)$.

    Args:
        cov: covariance, as for `Gaussian`.
        amplitude: a, a number or one for each column.
        period: p, in rounds.
        center: c.
        phase: in rounds.
    """
    period = _checks.number("period", period, low=0.0, open_low=True)
    phase = _checks.number("phase", phase)

    def means(rounds: int, dimension: int) -> np.ndarray:
        wave = np.sin(2 * np.pi * (np.arange(1, rounds + 1) + phase) / period)
        centre = _vector("center", center, dimension)
        return centre + wave[:, None] * _vector("amplitude", amplitude, dimension)

    return _gaussian(cov, means, f"seasonal(period={period:g})")


def switching(
    distributions: Sequence[Distribution],
    period: int | None = None,
    probability: float | None = None,
    seed: int = 0,
) -> Drift:
    """One of several distributions at a time, changed every `period` rounds or at random.

    Args:
        distributions: what is switched between.
        period: rounds until the next one in order takes over.
        probability: instead, the chance in each round that another one takes over.
        seed: of the random switches.
    """
    parts = list(
        _checks.instance("distributions", distributions, (list, tuple), "a list of distributions")
    )
    if len(parts) < 2:
        raise ValueError(f"distributions must be at least two; got {len(parts)}.")
    for part in parts:
        fixed(part)
    if (period is None) == (probability is None):
        given = "neither" if period is None else "both"
        raise ValueError(f"period or probability must be given, one of the two; got {given}.")
    seed = _checks.integer("seed", seed, low=0)
    if period is not None:
        period = _checks.integer("period", period, low=1)
    elif probability is not None:
        probability = _checks.number("probability", probability, low=0.0, high=1.0)

    chance = 0.0 if probability is None else probability

    def sequence(rounds: int, dimension: int) -> Distribution:
        if period is not None:
            active = np.arange(rounds) // period % len(parts)
        else:
            rng = np.random.default_rng(seed)
            jumps = rng.integers(1, len(parts), size=rounds) * (rng.random(rounds) < chance)
            jumps[0] = 0
            active = np.cumsum(jumps) % len(parts)
        return Mixture(parts, np.eye(len(parts))[active])

    return Drift(sequence, f"switching({len(parts)} distributions)")


def in_unit_ball(rng: np.random.Generator, n: int, dimension: int) -> np.ndarray:
    """`n` points, uniform in the unit ball; the first of them are the same for any n.

    They are the first coordinates of points on the sphere of two more dimensions.
    """
    points = np.empty((n, dimension))
    for first in range(0, n, 65536):
        block = points[first : first + 65536]
        on_sphere = rng.normal(size=(len(block), dimension + 2))
        block[:] = (on_sphere / np.linalg.norm(on_sphere, axis=1, keepdims=True))[:, :dimension]
    return points


def _gaussian(cov: Any, means: Callable[[int, int], np.ndarray], described: str) -> Drift:
    cov = _checks.numbers("cov", cov, ndim=(0, 1, 2))
    if cov.ndim == 0 and cov < 0:
        raise ValueError(f"cov must not be negative; got {cov:g}.")

    def sequence(rounds: int, dimension: int) -> Distribution:
        return Gaussian(means(rounds, dimension), cov)

    return Drift(sequence, described)


def _vector(name: str, value: Any, dimension: int) -> np.ndarray:
    value = _checks.numbers(name, value, ndim=(0, 1))
    if value.ndim == 1 and value.shape != (dimension,):
        raise ValueError(
            f"{name} must be a number or {dimension} numbers; got shape {value.shape}."
        )
    return np.broadcast_to(value, (dimension,))
