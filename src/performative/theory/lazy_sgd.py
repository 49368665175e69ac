r"""Proposition 4.4: the expected stability regret of lazy SGD.

$$L\Big[\frac{\|e_1\|}{1-\tilde\gamma^{1/2}} + \frac{J^{1/2}}{1-\tilde\gamma^{\beta/2}}
+ (2J)^{1/2}\sum_{t<T} t^{-r/2} + \frac{(1+\tau)^{1/2}}{1-\tilde\gamma^{1/2}}\sum_{t<T}\Delta_t\Big]$$

With k = 4(1+t0)/n0 the best ζ of the proof is γ/√k, which makes its c = (γ + √k)²; then γ̃ = (1 + 1/τ) c
is below one for large τ exactly if n0 > 4(1+t0)/(1−γ)². τ is chosen for each horizon.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from performative._precision import double
from performative.learners.lazy_sgd import theorem_schedule
from performative.learners.steps import Decreasing
from performative.theory.case import Case, Infeasible
from performative.theory.greedy_sgd import own_schedule

Array = Any

THEOREM = "Proposition 4.4"
TARGET = "stable"
CHOICES = 24


class Setting(NamedTuple):
    """What the display is made of, apart from τ."""

    slope: float  # L
    initial: float  # ‖e_1‖
    path: np.ndarray  # Σ Δ_t, for every horizon
    tail: np.ndarray  # Σ t^(−r/2), for every horizon
    growth: float  # r
    convexity: float  # μ
    noise: float  # σ²
    contraction: float  # γ
    t0: int

    def least_rows(self) -> float:
        """The n0 above which the proposition applies."""
        return 4 * (1 + self.t0) / (1 - self.contraction) ** 2

    def root(self, n0: float) -> float:
        """√c, at the best ζ."""
        return self.contraction + math.sqrt(4 * (1 + self.t0) / n0)

    def display(self, n0: float, excess: float, at: Any = slice(None)) -> Any:
        """The bound for the τ at which γ̃ is c + (1−c)/(1 + `excess`): any excess > 0 will do."""
        c, k = self.root(n0) ** 2, 4 * (1 + self.t0) / n0
        inner = c + (1 - c) / (1 + excess)  # γ̃
        above = inner / c  # 1 + 1/τ
        zeta = self.contraction / math.sqrt(k)
        scale = 4 * self.noise * above * (1 + zeta) / (n0 * self.convexity**2 * (1 - inner))
        beta = 1 - 2 ** (-1 / self.growth) if self.growth else 1.0
        settle = 1 - math.sqrt(inner)
        begin = self.initial / settle + math.sqrt(scale) / (1 - inner ** (beta / 2))
        stray = math.sqrt(2 * scale) * self.tail[at]
        moving = math.sqrt(above / (above - 1)) / settle * self.path[at]  # 1 + τ
        return self.slope * (begin + stray + moving)

    def best(self, n0: float, horizon: int) -> float:
        """The excess that makes the bound of one horizon least."""
        import scipy.optimize  # slow to load

        def value(log_excess: float) -> float:
            return float(self.display(n0, math.exp(log_excess), horizon - 1))

        found: Any = scipy.optimize.minimize_scalar(value, bounds=(-14, 14), method="bounded")
        return math.exp(found.x)


def paper(case: Case) -> np.ndarray:
    """The proposition, for every horizon."""
    setting, n0 = _setting(case), float(case.given.n0)
    least = setting.least_rows()
    case.notes["n0"], case.notes["n0_least"] = n0, math.floor(least) + 1
    case.notes["n0_best"] = math.inf  # c, ζ/n0 and so J fall with n0: every further row helps
    if n0 <= least:
        raise Infeasible(
            f"n0 must be above 4(1 + t0)/(1 − γ)² = {least:.4g}, at least {math.floor(least) + 1}; it is "
            f"{n0:g} (t0 = {setting.t0}, γ = {setting.contraction:.4g}); the bound falls with every "
            "further row, so that no n0 minimises it"
        )
    horizons = np.unique(np.geomspace(1, case.world.rounds, CHOICES).round().astype(int))
    curves = [setting.display(n0, setting.best(n0, int(horizon))) for horizon in horizons]
    return np.min(curves, axis=0)


def _setting(case: Case) -> Setting:
    # As it was given: the display needs no table of steps, which for large r would be a huge one.
    learner, rounds = case.given, case.world.rounds
    schedule = own_schedule(case, theorem_schedule)
    if learner.step is not None and not _are_steps_of(schedule, case.learner):
        raise Infeasible(
            "the proposition is for its own steps, 4/(A(j + t0)); kind='recursion' takes any"
        )
    if learner.growth == 0:
        raise Infeasible(
            "r must be above 0; it is 0: with as many rows in every round, noise stays"
        )
    powers = np.arange(1.0, rounds) ** (-learner.growth / 2)
    return Setting(
        slope=case.constant("lipschitz"),
        initial=case.initial_error,
        path=case.accumulated(case.moves),
        tail=case.accumulated(powers),
        growth=float(learner.growth),
        convexity=case.convexity,
        noise=case.constant("noise"),
        contraction=case.notes["contraction"],
        t0=schedule.t0,
    )


def _are_steps_of(schedule: Decreasing, learner: Any) -> bool:
    theirs = schedule.steps(len(learner.step))
    return not learner.first.any() and np.allclose(learner.step, theirs, rtol=1e-12, atol=0)


def errors(case: Case) -> np.ndarray:
    r"""$\sqrt{E\|e_t\|^2}$ for any steps and numbers of rows, also where n0 is too small above.

    Inside a round $E\|\varphi_{n+1}-\theta_{D_t}\|^2 \le P\|\theta_t-\theta_{D_t}\|^2 + N\sigma^2$, by the
    one-step lemma; θ_{D_t} is γ_t‖e_t‖ from θ_t^PS, so by Minkowski's inequality
    $s_{t+1} = \sqrt{P(1+\gamma_t)^2 s_t^2 + N\sigma^2} + \gamma_t s_t + \Delta_t$: no ζ and no τ.
    """
    gamma, noise = case.contraction, case.constant("noise")
    shrink, added = _inner(
        case.learner.step,
        case.learner.rows,
        case.learner.first,
        case.convexity,
        case.constant("noise_growth"),
    )

    def step(t: int, error: float) -> float:
        inside = np.sqrt(shrink[t] * ((1 + gamma[t]) * error) ** 2 + added[t] * noise)
        return inside + gamma[t] * error

    return case.follow(step)


@double
def _inner(
    steps: np.ndarray, rows: np.ndarray, first: np.ndarray, convexity: float, growth: float
) -> tuple[np.ndarray, np.ndarray]:
    """P and N of every round: Π (1 − 2ημ + η²C_V²), and the same recursion for what noise adds.

    Where all rounds share one table of steps, each goes on from where the last one stopped.
    """
    shared = not first.any() and bool(np.all(np.diff(rows) >= 0))
    begin = np.concatenate([[0], rows[:-1]]) if shared else np.zeros_like(rows)
    return _inner_compiled(steps, rows, first, begin, shared, convexity, growth)


@jax.jit
def _inner_compiled(
    steps: Array, rows: Array, first: Array, begin: Array, shared: Array, mu: Array, growth: Array
) -> tuple[Array, Array]:
    def one_round(carry: Any, here: Any) -> Any:
        until, start, j = here
        product, total = jax.tree.map(
            lambda kept, new: jnp.where(shared, kept, new), carry, (jnp.ones(()), jnp.zeros(()))
        )

        def one_step(j: Array, state: Any) -> Any:
            product, total = state
            eta = steps[start + j]
            factor = jnp.maximum(1 - 2 * eta * mu + (eta * growth) ** 2, 0.0)
            return product * factor, total * factor + eta**2

        after = jax.lax.fori_loop(j, until, one_step, (product, total))
        return after, after

    begun = (jnp.ones(()), jnp.zeros(()))
    _, found = jax.lax.scan(one_round, begun, (rows, first, begin))
    return found
