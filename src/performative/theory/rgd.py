r"""Theorem 4.1: the stability regret of repeated gradient descent.

$$\mathrm{Reg}_T \le \frac{L}{1-\bar\gamma}\Big(\|\theta_1-\theta_1^{PS}\| + \sum_{t<T}\Delta_t^{PS}\Big)$$

where γ̄ is the largest of the proof's factors $1 - \eta_t(\mu - x_t) + \eta_t^2(\beta_\theta^2 + x_t^2)$, with
x_t = (1−α_t) ε β_z. At the theorem's own steps that is its $1 - (\mu-x)^2/4(\beta_\theta^2+x^2)$ at
α_min. The stable point may lie on the boundary of the domain.
"""

from __future__ import annotations

import numpy as np

from performative.theory.case import Case
from performative.theory.rrm import telescoped

THEOREM = "Theorem 4.1"
TARGET = "stable"


def paper(case: Case) -> np.ndarray:
    """The theorem, for every horizon; for steps of one's own, its proof."""
    eta, x, smoothness = case.learner.step, case.coupling, case.constant("smoothness")
    factor = 1 - eta * (case.convexity - x) + eta**2 * (smoothness**2 + x**2)
    factor = np.maximum.accumulate(factor)
    reach = case.initial_error + case.accumulated(case.moves)
    case.notes["contraction"] = float(factor[-1])
    return telescoped(case, factor, reach, "the largest factor of Lemma C.1")


def errors(case: Case) -> np.ndarray:
    r"""A sharper factor than the lemma's, for any steps.

    A gradient step on a μ-strongly convex, β_θ-smooth risk multiplies distances by at most
    $\max(|1-\eta\mu|, |1-\eta\beta_\theta|)$, and the data differ by x_t‖e_t‖.
    """
    eta, smoothness = case.learner.step, case.constant("smoothness")
    still = np.maximum(np.abs(1 - eta * case.convexity), np.abs(1 - eta * smoothness))
    factor = still + eta * case.coupling
    return case.follow(lambda t, error: factor[t] * error)
