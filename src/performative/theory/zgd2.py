r"""Theorem 5.2: the expected optimality regret of ZGD2, on the arms that are deployed.

Before the constants of the proof are chosen, with 1/η_0 = 0,

$$\mathrm{Reg}_{T'} \le \frac{D^2}{2}\sum_{t\le T'}\Big(\frac1{\eta_t}-\frac1{\eta_{t-1}}-\mu'\Big)_+
+ \frac{G^2}{2}\sum_{t\le T'}\eta_t + (3L\delta + 2\rho F)\,T'
+ (1-\rho) D \sum_{t<T'} \frac{\Delta_t^{PO}}{\eta_t},$$

with E‖g_t‖² ≤ G² = d²L², and with 0 for μ′ in the theorem's convex case. This one display holds for
any steps and any horizon T′ of a run, in both cases of the theorem, and becomes its bounds at T′ = T. It
is pointwise in the arms, so that it also bounds E[max] of the two.
"""

from __future__ import annotations

import numpy as np

from performative.learners.zeroth_order import Estimate
from performative.theory.case import Case, Infeasible

THEOREM = "Theorem 5.2"
TARGET = "optimal"


def paper(case: Case) -> np.ndarray:
    """The theorem, for every horizon."""
    dimension, estimate = case.world.parameters, estimate_of(case)
    return display(case, estimate.size(dimension, case.learner.delta))


def tight(case: Case) -> np.ndarray:
    r"""The same proof without F, and with what it gives away taken back.

    PR_t((1−ρ)θ^PO) − PR_t(θ^PO) ≤ ρL‖θ^PO‖; the smoothed risk of a convex one is no smaller; both
    models compared live in (1−ρ)Θ; and the difference of the arms' risks is an odd function on the
    sphere with slope at most 2δL, so Poincaré's inequality there makes its mean square at most
    4δ²L²/(d−1): G² falls from d²L² to d²L²/(d−1).
    """
    d, estimate = case.world.parameters, estimate_of(case)
    odd = estimate._replace(slope=estimate.slope / np.sqrt(max(d - 1, 1)))
    return tight_display(case, odd.size(d, case.learner.delta))


def estimate_of(case: Case) -> Estimate:
    """How large the learner's gradient estimate is, from the constants of the case."""
    return case.learner.estimate(lambda name, symbol, argument: case.constant(name))


def display(case: Case, size: float) -> np.ndarray:
    """The paper's display; `size` is G."""
    _convex(case)
    delta, rho = parameters(case)
    loose = 3 * case.constant("lipschitz") * delta + 2 * rho * case.constant("loss_scale")
    horizons = np.arange(1, case.world.rounds + 1)
    diameter, inverse = case.constant("diameter"), 1 / case.learner.step
    convexity = 0.0 if case.learner.case == "convex" else case.constant("risk_convexity")
    beyond = np.diff(inverse, prepend=0.0) - convexity
    began = diameter**2 / 2 * np.cumsum(_positive(beyond, inverse))
    steps, given = np.cumsum(case.learner.step), getattr(case.given, "step", None)
    if case.learner.case == "strongly convex" and given is None:
        # Σ 1/t ≤ 1 + log T, as in the paper
        steps = (1 + np.log(horizons)) * case.learner.step[0]
    return began + size**2 / 2 * steps + loose * horizons + _path(case, diameter, rho)


def tight_display(case: Case, size: float) -> np.ndarray:
    """The display without F; `size` is G."""
    _convex(case)
    delta, rho = parameters(case)
    slope, inverse = case.constant("lipschitz"), 1 / case.learner.step
    optimal = case.optimal.values
    horizons = np.arange(1, case.world.rounds + 1)
    diameter = (1 - rho) * case.constant("diameter")
    squares = np.full(case.world.rounds, diameter**2)
    squares[0] = np.sum((case.start - (1 - rho) * optimal[0]) ** 2)
    beyond = np.diff(inverse, prepend=0.0) - case.problem.constants.risk_convexities
    began = np.cumsum(squares / 2 * _positive(beyond, inverse))
    shrunk = rho * slope * np.cumsum(np.linalg.norm(optimal, axis=1))
    smoothed = 2 * delta * slope * horizons
    noise = size**2 / 2 * np.cumsum(case.learner.step)
    return began + noise + smoothed + shrunk + _path(case, diameter, rho)


def parameters(case: Case) -> tuple[float, float]:
    """δ and ρ of the run, noted."""
    learner = case.learner
    case.notes.update(delta=float(learner.delta), rho=float(learner.rho), case=learner.case)
    if not np.all(learner.step > 0):
        raise Infeasible("a step is zero, and the proof divides by it")
    return float(learner.delta), float(learner.rho)


def _convex(case: Case) -> None:
    convexity = case.constant("risk_convexity")
    if convexity < 0:
        raise Infeasible(
            f"PR_t is not known to be convex: its curvature is at least {convexity:.4g} "
            f"({case.used['risk_convexity'].why})"
        )


def _positive(values: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """The positive part; what is zero but for rounding counts as zero."""
    return np.where(values > 1e-12 * scale, values, 0.0)


def _path(case: Case, diameter: float, rho: float) -> np.ndarray:
    moves = np.linalg.norm(np.diff(case.optimal.values, axis=0), axis=1)
    return case.accumulated((1 - rho) * diameter * moves / case.learner.step[:-1])
