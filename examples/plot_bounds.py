"""How tight the theorems are: measured regret, and the three kinds of bound above it.

The paper's bound is the theorem with all the constants of its proof. The recursion follows the same
proof from round to round. The second-order bound uses that the performative risk is nearly flat at a
stable point, and comes nearest once errors are small. Here for retraining, gradient descent and the
two SGDs, in the credit world and in a quadratic one. With n0 = 1 the paper's bound for lazy SGD does
not apply; the other two kinds do.
"""

import os
import warnings

import matplotlib.pyplot as plt
import numpy as np

import performative as pp

ROUNDS = int(os.environ.get("PERFORMATIVE_EXAMPLE_ROUNDS", "300"))
WORLDS = {
    "credit": pp.worlds.credit(b=0.5, rounds=ROUNDS),
    "quadratic": pp.worlds.quadratic(dim=10, b=0.5, rounds=ROUNDS),
}
LEARNERS = {
    "RRM": pp.learners.rrm(),
    "RGD": pp.learners.rgd(),
    "greedy SGD": pp.learners.greedy_sgd(),
    "lazy SGD": pp.learners.lazy_sgd(),
}
KINDS = {"paper": "#D55E00", "recursion": "#009E73", "second_order": "#0072B2"}

figure, axes = plt.subplots(2, 4, figsize=(10.0, 4.6), sharex=True, layout="constrained")
rounds = np.arange(1, ROUNDS + 1)
print("bound over regret at T:", *KINDS)
for row, (place, world) in zip(axes, WORLDS.items(), strict=True):
    for axis, (name, learner) in zip(row, LEARNERS.items(), strict=True):
        run = pp.simulate(world, learner, runs=10 if learner.randomised else 1)
        regret = run.regret("stable").mean("run").values
        axis.plot(rounds, regret, color="black", lw=1.4, label="regret")
        ratios = []
        for kind, colour in KINDS.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the figure says it: no curve
                bound = pp.theory.bound(world, learner, kind=kind)
            ratios.append(f"{bound.values[-1] / regret[-1]:.3g}")
            if bound.attrs["feasible"]:
                axis.plot(rounds, bound, color=colour, lw=1.1, label=kind.replace("_", " "))
        axis.set(xscale="log", yscale="log", title=f"{name}, {place}")
        print(f"{place}, {name}:", ", ".join(ratios))
for axis in axes[1]:
    axis.set_xlabel("$T$")
for axis in axes[:, 0]:
    axis.set_ylabel(r"$\mathrm{Reg}^{\mathrm{PS}}_T$")
figure.legend(
    *axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False
)
figure.savefig("bounds.png", dpi=200)
plt.show()
