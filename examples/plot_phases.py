"""When an exogenous part helps, and when it hurts: a phase diagram of retraining.

The data move by ε times the model, turned by 45 degrees; a part α_t of them follows P_t instead, whose
mean goes round a circle: not at all, slowly, or a quarter turn a round. Colour is what retraining
costs in a late round, against the stable point of that round; below zero, being late pays. Under the
line the condition of Theorem 3.2 holds, γ < 1; above it retraining runs away, until the domain stops it.
"""

import os

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import SymLogNorm

import performative as pp

ROUNDS = int(os.environ.get("PERFORMATIVE_EXAMPLE_ROUNDS", "200"))
STEPS = 11 if ROUNDS >= 100 else 5
SPEEDS = {"still": 0.0, "slow": 0.01, "fast": 0.25}  # turns of P_t a round
SCHEDULES = {r"constant, $\alpha_t=\alpha$": 0.0, r"decaying, $\alpha_t=\alpha/\sqrt{t}$": 0.5}
ALPHAS, EPSILONS = np.linspace(0.0, 1.0, STEPS), np.linspace(0.0, 2.0, STEPS)
TURN = np.array([[1.0, -1.0], [1.0, 1.0]]) / np.sqrt(2)


def world(speed: float, b: float, alpha: float, epsilon: float) -> pp.World:
    angle = 2 * np.pi * speed * np.arange(1, ROUNDS + 1)
    means = np.column_stack([np.cos(angle), np.sin(angle)])
    return pp.World(
        response=pp.responses.location(epsilon * TURN, pp.Gaussian([0.5, 0.0], 1.0)),
        drift=pp.drifts.recorded(pp.Gaussian(means, 1.0)),
        mixing=pp.mixing.polynomial(b, alpha),
        loss=pp.losses.squared(),
        domain=pp.domains.ball(5.0),
        rounds=ROUNDS,
    )


worlds = {
    f"{speed}, b = {b}, α = {alpha}, ε = {epsilon}": world(turns, b, alpha, epsilon)
    for b in SCHEDULES.values()
    for speed, turns in SPEEDS.items()
    for epsilon in EPSILONS
    for alpha in ALPHAS
}
shape = (len(SCHEDULES), len(SPEEDS), STEPS, STEPS)
regret = pp.sweep(worlds, {"RRM": pp.learners.rrm()}).stable_regret.values[:, 0, 0]
late = ((regret[:, -1] - regret[:, ROUNDS // 2 - 1]) / (ROUNDS - ROUNDS // 2)).reshape(shape)
gamma = [pp.theory.conditions(each).gamma.value for each in worlds.values()]
gamma = np.reshape(gamma, shape)

figure, axes = plt.subplots(
    2, 3, figsize=(7.6, 5.0), sharex=True, sharey=True, layout="constrained"
)
norm = SymLogNorm(1e-5, vmin=-50.0, vmax=50.0)
shown = [int(np.argmin(np.abs(EPSILONS - epsilon))) for epsilon in (0.4, 1.6)]
for row, (schedule, b), costs, gammas in zip(axes, SCHEDULES.items(), late, gamma, strict=True):
    row[0].set_ylabel(f"{schedule}\n\nresponse $\\epsilon$")
    for axis, speed, cost, contraction in zip(row, SPEEDS, costs, gammas, strict=True):
        colours = axis.pcolormesh(ALPHAS, EPSILONS, cost, norm=norm, cmap="PuOr_r")
        axis.contour(ALPHAS, EPSILONS, contraction, levels=[1.0], colors="black")
        for i in shown:
            print(f"{speed}, b = {b:g}, ε = {EPSILONS[i]:g}:", *(f"{c:.2g}" for c in cost[i]))
for axis, speed in zip(axes[0], SPEEDS, strict=True):
    axis.set_title(f"$P_t$ {speed}")
for axis in axes[1]:
    axis.set_xlabel(r"exogenous part $\alpha$")
figure.colorbar(colours, ax=axes, label="regret of a late round", pad=0.01)
figure.savefig("phases.png", dpi=200)
plt.show()
