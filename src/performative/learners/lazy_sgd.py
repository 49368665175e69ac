r"""Lazy SGD, section 4.2 of the paper: many samples of each deployed model, a step for each of them.

$$\varphi_{t,j+1} = \Pi_\Theta\big(\varphi_{t,j} - \eta_{t,j}\nabla\ell(Z_{t,j}, \varphi_{t,j})\big),
\qquad Z_{t,j}\sim D_t(\theta_t), \quad j = 1 \dots n(t) \tag{lazy SGD}$$

from φ_{t,1} = θ_t to θ_{t+1} = φ_{t,n(t)+1}, with n(t) = ⌈n0 t^r⌉. Inside a round the data stand
still, so the steps of Proposition 4.4, 4/(A(j + t0)), have A = 2μ and B = C_V².
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np

from performative import _checks
from performative.learners.feedback import Problem
from performative.learners.learner import Learner
from performative.learners.steps import Decreasing, check_step, decreasing, known, over_rounds

Array = Any

MOST_STEPS = 2**27
"""A table holds so many steps at most: those of the longest round, or all where they depend on t."""


class LazySGD(Learner):
    n0: float
    growth: float
    step: Any  # what was given; once prepared, a table of steps
    counts: Any = None  # n(1) … n(T)
    first: Any = None  # where each round's steps begin in the table

    feedback: ClassVar[str] = "samples"
    randomised: ClassVar[bool] = True

    @property
    def rows(self) -> Array:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.counts

    @property
    def name(self) -> str:
        return "lazy SGD"

    def prepare(self, problem: Problem) -> Learner:
        rows = row_counts(self.n0, self.growth, problem.rounds)
        most, step = int(rows.max()), self.step
        if step is None:
            step = theorem_schedule(problem).steps(most)
        if callable(step):
            table, first = _each_round(step, rows)
        else:
            table, first = over_rounds("step", step, most), np.zeros_like(rows)
        return dataclasses.replace(self, step=table, counts=rows, first=first)

    def init(self, problem: Problem, start: Array) -> Array:
        return start

    def deploy(self, state: Array, key: Array) -> Array:
        return state[None]

    def update(self, state: Array, feedback: Any) -> Array:
        loss, domain, first = feedback.loss, feedback.domain, self.first[feedback.round - 1]

        def descend(model: Array, row: Array, j: Array) -> Array:
            step = self.step[first + j - 1]
            return domain.projection(model - step * loss.gradient(row, model))

        return feedback.fold(descend, state)


def row_counts(n0: float, growth: float, rounds: int) -> np.ndarray:
    """n(t) = ⌈n0 t^r⌉; rounding errors do not make one more of a whole number."""
    t = np.arange(1, rounds + 1, dtype=float)
    with np.errstate(over="ignore"):
        counts = np.ceil(n0 * t**growth * (1.0 - 1e-12))
    if not counts[-1] <= MOST_STEPS:
        raise ValueError(
            f"n0 and r must not ask for more than {MOST_STEPS:,} rows in a round; got "
            f"n0={n0:g}, r={growth:g}, which is {counts[-1]:.3g} in round {rounds}."
        )
    return counts.astype(np.int64)


def theorem_schedule(problem: Problem) -> Decreasing:
    """A, B and t0 of Proposition 4.4."""
    return decreasing(known(problem, "strong_convexity"), 0.0, known(problem, "noise_growth"))


def _each_round(step: Any, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The steps of all rounds, one round after the other, and where each begins."""
    total = int(rows.sum())
    if total > MOST_STEPS:
        raise ValueError(
            f"step must be numbers for the steps of a round where there are more than {MOST_STEPS} "
            f"in all; got a function for {total}."
        )
    table = [over_rounds("step", step, int(n), t) for t, n in enumerate(rows, 1)]
    return np.concatenate(table), np.cumsum(rows) - rows


def lazy_sgd(n0: float = 1, r: float = 1.0, step: Any = None) -> Learner:
    r"""Stochastic gradient descent that deploys after $n(t) = \lceil n_0 t^r\rceil$ steps.

    Args:
        n0, r: how many rows are sampled in round t.
        step: $\eta_{t,j}$: a number, one for each step j of the longest round, or a function of
            (t, j); that of Proposition 4.4 unless given.

    >>> import performative as pp
    >>> world = pp.worlds.quadratic(dim=2, rounds=4)
    >>> learner = pp.learners.lazy_sgd(n0=1, r=1.5).prepare(pp.Session(world).problem)
    >>> learner.rows.tolist(), (2 / learner.step[:3]).round(2).tolist()   # 4/(A(j+t0)), A = 2, t0 = 4
    ([1, 3, 6, 8], [5.0, 6.0, 7.0])

    References:
        Mendler-Dünner, Perdomo, Zrnic and Hardt, "Stochastic optimization for performative
        prediction", NeurIPS 2020.
    """
    n0 = _checks.number("n0", n0, low=0.0, open_low=True)
    return LazySGD(n0, _checks.number("r", r, low=0.0), check_step("step", step))
