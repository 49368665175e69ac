"""Your own world: labelled rows, an intercept, and people who change what they can.

Rows (x, y) with the label last, as they come out of a database. Of those who are scored, 70 % know
the model and move the two columns that they can change in the direction that raises their score;
the others are as they were. Where does retraining settle, and what would be best instead?
"""

import os

import matplotlib.pyplot as plt
import numpy as np

import performative as pp

ROUNDS = int(os.environ.get("PERFORMATIVE_EXAMPLE_ROUNDS", "12"))
COLUMNS = ("age", "tenure", "income", "bill", "payments", "intercept")

# Instead of these, read yours: rows = np.loadtxt("rows.csv", delimiter=",")
rng = np.random.default_rng(0)
x = rng.normal(size=(2000, 5))
score = x @ [0.3, 0.2, 0.6, -0.4, 0.5] + 0.4
y = np.where(rng.random(2000) < 1 / (1 + np.exp(-score)), 1.0, -1.0)
people = pp.Empirical(np.column_stack([x, y]))

world = pp.World(
    response=pp.responses.strategic(people, modifiable=[3, 4], strength=3.0),
    drift=pp.drifts.fixed(people),
    mixing=pp.mixing.constant(0.3),
    loss=pp.losses.logistic(l2=0.05, labelled=True, intercept=True),
    domain=pp.domains.ball(radius=5.0),
    rounds=ROUNDS,
)
run = pp.simulate(world, pp.learners.rrm(), against=("stable", "optimal"))
print(run)

# Nothing drifts, and so the targets of the last round are those of every round.
targets = {name: run.dataset[f"{name}_point"].values[-1] for name in ("stable", "optimal")}
for name, target in targets.items():
    known = run.dataset[f"{name}_status"].values[-1]
    print(f"{name}: {known}; risk {world.risk(ROUNDS, target):.5f}")

figure, (left, right) = plt.subplots(1, 2, figsize=(7.4, 3.0), layout="constrained")
models = run.deployed.values[0, :, 0]
for column, colour, path, end in zip(
    COLUMNS, pp.plots.COLOURS, models.T, targets["stable"], strict=False
):
    left.plot(np.arange(1, ROUNDS + 1), path, "o-", ms=3, lw=1, color=colour, label=column)
    left.axhline(end, color=colour, lw=0.6, ls=":")
left.set(xlabel="round $t$", ylabel=r"$\theta_t$", title="retraining; dotted: the stable point")
places = np.arange(len(COLUMNS))
for shift, shade, (name, target) in zip((-0.2, 0.2), ("0.3", "0.7"), targets.items(), strict=True):
    label = f"{name}: risk {world.risk(ROUNDS, target):.4f}"
    right.bar(places + shift, target, 0.4, color=shade, label=label)
right.axhline(0.0, color="0.5", lw=0.6)
right.set_xticks(places, COLUMNS, rotation=40, ha="right")
right.set_title("where it settles, and what is best")
figure.legend(loc="outside lower center", ncols=4, fontsize=7, frameon=False)
figure.savefig("your_own_world.png", dpi=200)
plt.show()
