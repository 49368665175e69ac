r"""Proposition 4.2: the expected stability regret of greedy SGD.

$$8L(T+t_0)^{1/4}\Big[(t_0+1)^{3/4}\|e_1\| + \Big(\sum_{t<T}(t+t_0+1)^{5/2}\Delta_t^2\Big)^{1/2}\Big]
+ \frac{16\sigma L}{A}(T+t_0)^{1/2}$$

for the steps 4/(A(t + t0)). A and t0 belong to the run, and hold for its shorter horizons too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from performative.learners.greedy_sgd import theorem_schedule
from performative.learners.steps import Decreasing
from performative.theory.case import Case, Infeasible

THEOREM = "Proposition 4.2"
TARGET = "stable"


def paper(case: Case) -> np.ndarray:
    """The proposition, for every horizon."""
    slope, deviation = case.constant("lipschitz"), np.sqrt(case.constant("noise"))
    schedule = own_schedule(case, theorem_schedule)
    horizon = np.arange(1, case.world.rounds + 1)
    if not np.allclose(case.learner.step, schedule.steps(case.world.rounds), rtol=1e-12, atol=0):
        raise Infeasible(
            "the proposition is for its own steps, 4/(A(t + t0)); kind='recursion' takes any"
        )
    t0, late = schedule.t0, horizon + schedule.t0
    path = np.sqrt(case.accumulated((horizon[:-1] + t0 + 1) ** 2.5 * case.moves**2))
    steady = 8 * slope * late**0.25 * ((t0 + 1) ** 0.75 * case.initial_error + path)
    return steady + 16 * deviation * slope / schedule.a * np.sqrt(late)


def own_schedule(case: Case, theorem_schedule: Callable[[Any], Decreasing]) -> Decreasing:
    """A, B and t0; a condition that fails is why the proposition does not apply."""
    case.constant("noise_growth")
    contraction = float(case.largest_coupling[-1] / case.convexity)
    case.notes["contraction"] = contraction
    if contraction >= 1:
        raise Infeasible(f"γ = (1−α_min) ε β_z / μ must be below 1; it is {contraction:.4g}")
    try:
        schedule = theorem_schedule(case.problem)
    except ValueError as error:
        raise Infeasible(str(error).rstrip(".")) from None
    case.notes.update({"A": schedule.a, "B": schedule.b, "t0": schedule.t0})
    return schedule


def errors(case: Case) -> np.ndarray:
    r"""$\sqrt{E\|e_t\|^2}$ for any steps, from the proof before its constants are chosen.

    $F_{t+1} = (\sqrt{\gamma'_t F_t + \eta_t^2\sigma^2} + \Delta_t)^2$ by Minkowski's inequality; a
    negative γ′_t counts as 0.
    """
    eta, convexity = case.learner.step, case.convexity
    growth, noise = case.constant("noise_growth"), case.constant("noise")
    factor = 1 - 2 * eta * (convexity - case.coupling)
    factor = np.maximum(factor + (eta * growth * (1 + case.contraction)) ** 2, 0.0)
    return case.follow(lambda t, error: np.sqrt(factor[t] * error**2 + eta[t] ** 2 * noise))
