"""One arm at a time: what a log can still say when it was perturbed at random, and what it cannot.

A logged perturbation of every round's model, or a coin flip between two models, is an experiment in
time: its estimates are unbiased whatever the world does, but as wide as the world is restless.
Without either, nothing is identified, and `naive` is the regression that nobody should believe.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import stats

from performative.attribution.estimate import Estimate


class Trap(NamedTuple):
    r"""The regression of the data on the weights, and the pairs (κ, ρ) that fit the log as well.

    With retraining on the last round and a world of persistence ρ, the log's law is symmetric in κ
    and ρ: `curve(ρ)` = (r − ρ)/(1 − rρ) with r the slope.
    """

    slope: Estimate
    reject: bool

    def curve(self, persistence: float) -> float:
        """The κ that fits the log if the world remembers itself by `persistence`."""
        return (self.slope.value - persistence) / (1.0 - self.slope.value * persistence)


def naive(means: np.ndarray, theta: np.ndarray) -> Trap | None:
    r"""Levels of the features on the weights, feature by feature demeaned, one slope for all.

    >>> rng = np.random.default_rng(0)
    >>> walk = np.cumsum(rng.normal(size=(200, 3)), axis=0)     # no model moved this
    >>> naive(walk[1:], walk[:-1]).reject
    True
    """
    x, y = theta - theta.mean(axis=0), means - means.mean(axis=0)
    size = np.sum(x**2)
    freedom = x.size - x.shape[1] - 1
    if size <= 0 or freedom < 1:
        return None
    slope = np.sum(x * y) / size
    error = np.sqrt(np.sum((y - slope * x) ** 2) / freedom / size)
    reach = float(stats.t.ppf(0.975, freedom)) * error
    figure = Estimate(float(slope), float(slope - reach), float(slope + reach))
    return Trap(figure, bool(abs(slope) > reach))


class Timed(NamedTuple):
    """κ from an experiment in time, and the p-value of κ = 0."""

    strength: Estimate
    p: float


def dither(
    means: np.ndarray, base: np.ndarray, perturbation: np.ndarray, draws: int = 999, seed: int = 0
) -> Timed:
    r"""κ from logged random perturbations: z̄_t on δu_t, given z̄_{t−1}, φ_{t−1} and θ_t.

    Args:
        means: z̄_t, (T, d).
        base: θ_t, what would have been deployed.
        perturbation: δu_t; φ_t = θ_t + δu_t was.

    The slope is pooled over coordinates, its error robust to dependence between those of a round,
    with t_{T−4}; the p-value draws the signs of the u_t anew.
    """
    deployed = base + perturbation
    controls = np.stack([means[:-1], deployed[:-1], base[1:]], axis=-1)
    controls = controls - controls.mean(axis=0)
    rounds, dim = means.shape[0] - 1, means.shape[1]
    flat = controls.reshape(rounds * dim, -1)
    basis, scales, _ = np.linalg.svd(flat, full_matrices=False)
    basis = basis[:, scales > 1e-8 * max(scales[0], 1e-300)]

    def clear(values: np.ndarray) -> np.ndarray:
        """Less the coordinate's mean and what the controls explain."""
        flat = (values - values.mean(axis=-2, keepdims=True)).reshape(*values.shape[:-2], -1)
        return flat - flat @ basis @ basis.T

    x, y = clear(perturbation[1:]), clear(means[1:])
    size = float(x @ x)
    slope = float(x @ y) / size
    scores = (x * (y - slope * x)).reshape(rounds, dim).sum(axis=1)
    freedom = max(rounds - 3, 1)
    error = np.sqrt(np.sum(scores**2) * rounds / freedom) / size
    reach = float(stats.t.ppf(0.975, freedom)) * error
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], size=(draws, rounds, 1))
    drawn = clear(signs * perturbation[1:])
    other = np.abs(drawn @ y) / np.sum(drawn**2, axis=1)
    p = (1 + np.sum(other >= abs(slope) * (1 - 1e-12))) / (1 + draws)
    return Timed(Estimate(slope, slope - reach, slope + reach), float(p))


def switchback(outcome: np.ndarray, flips: np.ndarray, draws: int = 999, seed: int = 0) -> Timed:
    r"""The effect of one of two models from coin flips in time: second differences, flips drawn anew.

    Args:
        outcome: y_t, say δ′z̄_t/|δ|² with δ = θ_A − θ_B, whose effect is κ.
        flips: 1 where A was out, 0 where B was.

    For every effect k, y − k·flips is what the world alone did; k is in the interval unless the
    slope of that on the true flips is larger than on all but 5 % of flips drawn anew.
    """

    def second(values: np.ndarray) -> np.ndarray:
        return np.diff(values, n=2, axis=-1)

    x, y = second(flips.astype(float)), second(outcome)
    if x @ x == 0:
        nothing = Estimate(np.nan, -np.inf, np.inf)
        return Timed(nothing, 1.0)
    slope = float(x @ y) / float(x @ x)
    drawn = second(
        np.random.default_rng(seed).integers(0, 2, size=(draws, flips.size)).astype(float)
    )
    size = np.sum(drawn**2, axis=1)
    drawn, size = drawn[size > 0], size[size > 0]
    moved, shared = drawn @ y / size, drawn @ x / size

    def p_value(effect: float) -> float:
        larger = np.abs(moved - effect * shared) >= abs(slope - effect) * (1 - 1e-12)
        return float((1 + larger.sum()) / (1 + size.size))

    scale = float(np.std(moved - slope * shared)) + 1e-12
    low, high = (_boundary(p_value, slope, sign * scale) for sign in (-1.0, 1.0))
    return Timed(Estimate(slope, low, high), p_value(0.0))


def _boundary(p_value: Callable[[float], float], inside: float, step: float) -> float:
    """The first effect in the direction of `step` that the data reject at 5 %."""
    outside = inside + step
    for _ in range(20):
        if p_value(outside) <= 0.05:
            break
        inside, outside = outside, outside + 2.0 * (outside - inside)
    else:
        return float(np.sign(step) * np.inf)
    for _ in range(40):
        middle = 0.5 * (inside + outside)
        if p_value(middle) > 0.05:
            inside = middle
        else:
            outside = middle
    return outside
