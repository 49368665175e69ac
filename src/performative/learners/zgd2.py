r"""Two-deployment zeroth-order gradient descent, section 5.1 of the paper: for the optimal points.

$$\theta_{t+1} = \Pi_{(1-\rho)\Theta}(\theta_t - \eta_t \tilde g_t), \qquad
\tilde g_t = \frac{d}{2\delta} \bigl(PR_t(\theta_t+\delta u_t) - PR_t(\theta_t-\delta u_t)\bigr) u_t
\tag{ZGD2}$$

Both arms θ_t ± δu_t are deployed, and their risks are all that it sees: exactly, or as the average
loss of n rows an arm, which is what people can observe.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx

from performative import _checks
from performative.learners.learner import Learner
from performative.learners.zeroth_order import Estimate, Needed, ZerothOrder, given

Array = Any


class ZGD2(ZerothOrder):
    sample: int | None = eqx.field(static=True)

    arms = 2

    @property
    def feedback(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return "risk" if self.sample is None else "samples"

    @property
    def rows(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.sample or 1

    @property
    def name(self) -> str:
        return "ZGD2" if self.sample is None else f"ZGD2({self.sample} rows)"

    def steepness(self, need: Needed) -> float:
        """L."""
        return need("lipschitz", "L", "step and delta")

    def estimate(self, need: Needed) -> Estimate:
        slope = self.steepness(need)
        if self.sample is None:
            return Estimate(slope, 0.0)
        # Two averages of n losses, each of variance at most F²/n.
        scale = need("loss_scale", "F", "step and delta")
        return Estimate(slope, scale / (2 * self.sample) ** 0.5)

    def gradient(self, theta: Array, feedback: Any) -> Array:
        plus, minus = (
            feedback.risks
            if self.sample is None
            else [feedback.decoupled_risk(feedback.deployed[arm], arm) for arm in (0, 1)]
        )
        apart = feedback.deployed[0] - feedback.deployed[1]  # 2 δ u
        return theta.shape[0] / (2 * self.delta) ** 2 * (plus - minus) * apart


def zgd2(
    step: Any = None,
    delta: float | None = None,
    rho: float | None = None,
    rows: int | None = None,
    *,
    case: str | None = None,
    anyway: bool = False,
) -> Learner:
    r"""Two-deployment zeroth-order gradient descent.

    What is not given is Theorem 5.2's choice: $\eta_t = 1/(\mu' t)$ and $\delta = d^2L/(6\mu'T)$ where
    PR_t is strongly convex, $\eta = D/(dL\sqrt T)$ and $\delta = dD/(6\sqrt T)$ where it is convex, and
    $\rho = \delta/r$. With `rows`, δ is at least what balances the noise of the averages, and η of the
    convex case falls accordingly. The start must lie in (1−ρ)Θ.

    Args:
        step: η, a number, an array over rounds or a function of the round.
        delta: how far the arms are from the internal model.
        rho: the internal model stays in (1−ρ)Θ.
        rows: None shows both risks exactly; a number, the average loss of that many rows an arm.
        case: "strongly convex" or "convex"; that of the world unless given, or the convex one, with a
            warning, where the world is too short for the other.
        anyway: go on in a world that is too short for both, with δ = r/2.

    >>> import performative as pp
    >>> world = pp.World(response=pp.responses.location(0.5, pp.Gaussian([1.0], 1.0)),
    ...                  loss=pp.losses.squared(l2=0.5), domain=pp.domains.ball(5.0), rounds=300)
    >>> run = pp.simulate(world, pp.learners.zgd2(), against=("stable", "optimal"))
    >>> float(run.deployed.values[0, -1].mean().round(3))  # optimal is 2/3, stable would be 1
    0.667

    References:
        Agarwal, Dekel and Xiao, "Optimal algorithms for online convex optimization with multi-point
        bandit feedback", COLT 2010; section 5.1 and Theorem 5.2 of the paper.
    """
    rows = None if rows is None else _checks.integer("rows", rows, low=1)
    return ZGD2(sample=rows, **given(step, delta, rho, case, anyway))
