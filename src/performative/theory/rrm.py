r"""Theorem 3.2: the stability regret of repeated risk minimisation.

$$\mathrm{Reg}_T \le \frac{L}{1-\gamma}\Big(\|\theta_1-\theta_1^{PS}\| + \sum_{t<T}\Delta_t^{PS}\Big),
\qquad \gamma = \frac{(1-\alpha_{\min})\epsilon\beta_z}{\mu} < 1$$

Behind it is Lemma 3.1, ‖θ_{t+1} − θ_t^PS‖ ≤ γ_t‖θ_t − θ_t^PS‖, which holds whatever γ_t is.
"""

from __future__ import annotations

import numpy as np

from performative.theory.case import Case, Infeasible

THEOREM = "Theorem 3.2"
TARGET = "stable"


def paper(case: Case) -> np.ndarray:
    """The theorem, for every horizon."""
    _population(case)
    contraction = case.largest_coupling / case.convexity
    reach = case.initial_error + case.accumulated(case.moves)
    case.notes["contraction"] = float(contraction[-1])
    return telescoped(case, contraction, reach, "γ = (1−α_min) ε β_z / μ")


def errors(case: Case) -> np.ndarray:
    """Lemma 3.1, round by round: r_{t+1} = γ_t r_t + Δ_t."""
    _population(case)
    return case.follow(lambda t, error: case.contraction[t] * error)


def telescoped(case: Case, factor: np.ndarray, reach: np.ndarray, symbol: str) -> np.ndarray:
    """L/(1−γ) times the way to go; nothing where γ is not below one."""
    slope, feasible = case.constant("lipschitz"), factor < 1
    if not feasible.all():
        case.notes["why"] = f"{symbol} must be below 1; it is {factor[-1]:.4g}"
    return np.where(feasible, slope * reach / np.where(feasible, 1 - factor, 1.0), np.inf)


def _population(case: Case) -> None:
    if case.learner.sample is not None:
        raise Infeasible("the theorem is for the exact minimiser, not for one on sampled rows")
