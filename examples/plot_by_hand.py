"""By hand: your own code plays a round at a time, and gets the same kind of run.

A cautious modeller looks at 200 rows a round and moves a fifth of the way towards their mean. For
comparison, `pp.learners.rrm(rows=200)` goes all the way, on rows drawn with the same seed.
"""

import os

import matplotlib.pyplot as plt
import numpy as np

import performative as pp

ROUNDS = int(os.environ.get("PERFORMATIVE_EXAMPLE_ROUNDS", "300"))

world = pp.worlds.quadratic(dim=4, drift="stationary", b=0.5, rounds=ROUNDS)

session = pp.Session(world, seed=3)
theta = np.zeros(world.parameters)
for _ in range(world.rounds):
    rows = session.deploy(theta, feedback="samples", n=200)
    theta = world.domain.project(theta + 0.2 * (rows.mean(axis=0) - theta))
cautious = session.close()
bold = pp.simulate(world, pp.learners.rrm(rows=200), seed=3)
print(cautious, bold, sep="\n")

figure, axis = plt.subplots(figsize=(4.2, 2.8), layout="constrained")
for name, run in (("by hand, a fifth of the way", cautious), ("RRM, all the way", bold)):
    regret = run.regret("stable").isel(run=0)
    axis.plot(regret["round"], regret, label=name)
axis.set(xscale="log", xlabel="horizon $T$", ylabel=r"regret $\mathrm{Reg}_T^{\mathrm{PS}}$")
axis.legend(frameon=False)
figure.savefig("by_hand.png", dpi=200)
plt.show()
