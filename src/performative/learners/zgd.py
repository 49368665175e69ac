r"""Single-deployment zeroth-order gradient descent, section 5.2 of the paper: one loss of one row.

$$\theta_{t+1} = \Pi_{(1-\rho)\Theta}(\theta_t - \eta_t g_t), \qquad
g_t = \frac{d}{\delta}\, \ell(Z_t, \phi_t)\, u_t, \quad \phi_t = \theta_t + \delta u_t,
\quad Z_t \sim D_t(\phi_t) \tag{ZGD}$$
"""

from __future__ import annotations

from typing import Any

from performative.learners.learner import Learner
from performative.learners.zeroth_order import Estimate, Needed, ZerothOrder, given

Array = Any


class ZGD(ZerothOrder):
    feedback = "samples"

    def estimate(self, need: Needed) -> Estimate:
        return Estimate(0.0, need("loss_scale", "F", "step and delta"))

    def gradient(self, theta: Array, feedback: Any) -> Array:
        arm = feedback.deployed[0]
        loss = feedback.decoupled_risk(arm)
        return theta.shape[0] / self.delta**2 * loss * (arm - theta)


def zgd(
    step: Any = None,
    delta: float | None = None,
    rho: float | None = None,
    *,
    case: str | None = None,
    anyway: bool = False,
) -> Learner:
    r"""Single-deployment zeroth-order gradient descent.

    What is not given is Theorem 5.3's choice, with $K = 3L + 2F/r$: $\eta_t = 1/(\mu' t)$ and
    $\delta = (d^2F^2(1+\log T)/(2\mu'KT))^{1/3}$ where PR_t is strongly convex,
    $\eta = \sqrt{D^3/(dFK)}\,T^{-3/4}$ and $\delta = \sqrt{DdF/K}\,T^{-1/4}$ where it is convex, and
    $\rho = \delta/r$. F need not bound the loss: the proof uses √E ℓ² ≤ F alone, which normal data
    satisfy. The start must lie in (1−ρ)Θ.

    Args:
        step: η, a number, an array over rounds or a function of the round.
        delta: how far the arm is from the internal model.
        rho: the internal model stays in (1−ρ)Θ.
        case: "strongly convex" or "convex"; that of the world unless given, or the convex one, with a
            warning, where the world is too short for the other.
        anyway: go on in a world that is too short for both, with δ = r/2.

    >>> import performative as pp
    >>> world = pp.World(response=pp.responses.location(0.5, pp.Gaussian([1.0], 0.1)),
    ...                  loss=pp.losses.squared(l2=0.5), domain=pp.domains.ball(3.0), rounds=20_000)
    >>> run = pp.simulate(world, pp.learners.zgd(step=lambda t: 0.4 / t**0.75, delta=0.5), seed=1)
    >>> float(run.deployed.values[0, 10_000:].mean().round(1))  # optimal is 2/3, stable would be 1
    0.7

    References:
        Flaxman, Kalai and McMahan, "Online convex optimization in the bandit setting: gradient
        descent without a gradient", SODA 2005; section 5.2 and Theorem 5.3 of the paper.
    """
    return ZGD(**given(step, delta, rho, case, anyway))
