"""The landscape: why retraining does not find the best model.

A population moves with the deployed model, and spreads too. Retraining sees how the data moved and
answers with the best model for them, again and again, up to the stable point. The spread that it causes
it never sees: the optimal point is elsewhere, where the diagonal is lowest.
"""

import os

import performative as pp

ROUNDS = int(os.environ.get("PERFORMATIVE_EXAMPLE_ROUNDS", "12"))

world = pp.worlds.scale_family(shift=0.4, spread=0.5, rounds=ROUNDS)
run = pp.simulate(world, pp.learners.rrm(), start=[-8.0], against=("stable", "optimal"))

stable, optimal = world.known.stable[0, 0], world.known.optimal[0, 0]
print(f"stable point  {stable[0]:.4f}: risk {world.risk(1, stable):.4f}")
print(f"optimal point {optimal[0]:.4f}: risk {world.risk(1, optimal):.4f}")
print(f"retraining ends at {float(run.deployed[0, -1, 0, 0]):.4f}")

figure = pp.plots.landscape(world, run, reach=(-9.0, 6.0))
figure.savefig("landscape.png", dpi=200)
