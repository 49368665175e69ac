"""When retraining runs away: a response too strong, and how much drift settles it.

The data move by 1.6 times the model, turned by 90 degrees, and so retraining spirals outwards until
the domain stops it. There is a stable point all the same, and it is found and certified: it is
where retraining does not go. Data that do not respond (α) weaken the response: where the condition
of Theorem 3.2 holds, γ = (1 − α) 1.6 < 1, the same retraining settles. It does so too where α_t grows
on the way, once it is large enough.
"""

import os

import matplotlib.pyplot as plt
import numpy as np

import performative as pp

ROUNDS = int(os.environ.get("PERFORMATIVE_EXAMPLE_ROUNDS", "60"))
TURN = 1.6 * np.array([[0.0, -1.0], [1.0, 0.0]])
RADIUS = 6.0
SCHEDULES = {
    r"$\alpha$ = 0": pp.mixing.constant(0.0),
    r"$\alpha$ = 0.3": pp.mixing.constant(0.3),
    r"$\alpha$ = 0.6": pp.mixing.constant(0.6),
    r"$\alpha_t$ from 0 to 0.6": pp.mixing.recorded(
        0.6 * np.minimum(np.arange(ROUNDS) / (ROUNDS // 2), 1.0)
    ),
}


def world(mixing: pp.mixing.Mixing) -> pp.World:
    return pp.World(
        response=pp.responses.location(TURN, pp.Gaussian([1.0, 0.5], 1.0)),
        drift=pp.drifts.fixed(pp.Gaussian([0.5, 1.0], 1.0)),
        mixing=mixing,
        loss=pp.losses.squared(),
        domain=pp.domains.ball(RADIUS),
        rounds=ROUNDS,
    )


figure, axes = plt.subplots(1, 4, figsize=(10.4, 3.4), sharey=True, layout="constrained")
for axis, (name, mixing) in zip(axes, SCHEDULES.items(), strict=True):
    here = world(mixing)
    run = pp.simulate(here, pp.learners.rrm())
    models = run.deployed.values[0, :, 0]
    target = run.dataset.stable_point.values[-1]
    status = run.dataset.stable_status.values[-1]
    away = np.linalg.norm(models[-1] - target)

    found = pp.theory.conditions(here)
    theorem = found.theorem("Theorem 3.2")
    last = float(found.rounds["contraction"][-1])
    holds = "holds" if theorem.holds else "fails"
    plain = name.replace("$", "").replace(r"\alpha", "α")
    print(f"{plain}: stable point {status}; the last model is {away:.2g} away from it;", end=" ")
    print(f"Theorem 3.2 {holds}, {theorem.why}; in the last round γ = {last:.2f}")

    axis.add_patch(plt.Circle((0.0, 0.0), RADIUS, fill=False, ls=":", lw=0.8, label="domain"))
    axis.plot(*models.T, color="0.7", lw=0.6, zorder=1)
    dots = axis.scatter(*models.T, c=np.arange(1, ROUNDS + 1), s=9, label=r"$\theta_t$, deployed")
    axis.plot(*target, "*", color="#D55E00", ms=10, label=r"$\theta_T^{\mathrm{PS}}$, stable")
    sign = "<" if theorem.holds else r"\geq"
    verdict = rf"Theorem 3.2 {holds}: $\gamma$ = {found.gamma.value:.2f} ${sign}$ 1"
    if last < 1 <= found.gamma.value:
        verdict = rf"$\gamma_t$ falls from {found.gamma.value:.2f} to {last:.2f} < 1"
    axis.set(aspect="equal", xlabel=r"$\theta_1$")
    axis.set_title(f"{name}\n{verdict}", fontsize=8.5)
axes[0].set_ylabel(r"$\theta_2$")
figure.colorbar(dots, ax=axes, label="round $t$", pad=0.01)
figure.legend(
    *axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False
)
figure.savefig("divergence.png", dpi=200)
plt.show()
