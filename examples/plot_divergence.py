"""When retraining runs away: a response too strong, and how much drift settles it.

The data move by 1.6 times the model, turned by 90 degrees, and so retraining spirals outwards until
the domain stops it. There is a stable point all the same, and it is found and certified: it is
where retraining does not go. Data that do not respond (α) weaken the response: where (1 − α) 1.6 is
below one, the same retraining settles.
"""

import os

import matplotlib.pyplot as plt
import numpy as np

import performative as pp

ROUNDS = int(os.environ.get("PERFORMATIVE_EXAMPLE_ROUNDS", "60"))
TURN = 1.6 * np.array([[0.0, -1.0], [1.0, 0.0]])
ALPHAS, RADIUS = (0.0, 0.3, 0.6), 6.0


def world(alpha: float) -> pp.World:
    return pp.World(
        response=pp.responses.location(TURN, pp.Gaussian([1.0, 0.5], 1.0)),
        drift=pp.drifts.fixed(pp.Gaussian([0.5, 1.0], 1.0)),
        mixing=pp.mixing.constant(alpha),
        loss=pp.losses.squared(),
        domain=pp.domains.ball(RADIUS),
        rounds=ROUNDS,
    )


figure, axes = plt.subplots(1, 3, figsize=(8.4, 3.3), sharey=True, layout="constrained")
for axis, alpha in zip(axes, ALPHAS, strict=True):
    run = pp.simulate(world(alpha), pp.learners.rrm())
    models = run.deployed.values[0, :, 0]
    target = run.dataset.stable_point.values[-1]
    status = run.dataset.stable_status.values[-1]
    away = np.linalg.norm(models[-1] - target)
    print(f"α = {alpha:g}: stable point {status}; the last model is {away:.2g} away from it")

    axis.add_patch(plt.Circle((0.0, 0.0), RADIUS, fill=False, ls=":", lw=0.8, label="domain"))
    axis.plot(*models.T, color="0.7", lw=0.6, zorder=1)
    dots = axis.scatter(*models.T, c=np.arange(1, ROUNDS + 1), s=9, label=r"$\theta_t$, deployed")
    axis.plot(*target, "*", color="#D55E00", ms=10, label=r"$\theta^{\mathrm{PS}}$, stable")
    axis.set(
        aspect="equal",
        xlabel=r"$\theta_1$",
        title=f"α = {alpha:g}: response {(1 - alpha) * 1.6:.2f}",
    )
axes[0].set_ylabel(r"$\theta_2$")
figure.colorbar(dots, ax=axes, label="round $t$", pad=0.01)
figure.legend(
    *axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False
)
figure.savefig("divergence.png", dpi=200)
plt.show()
