"""Quickstart: a world, a learner, its regret, a picture.

People respond to the model that is deployed, half of what arrives has nothing to do with it, and
that half wanders. Retraining on the population, and on 50 sampled rows, is measured against the
moving stable point.
"""

import os

import performative as pp

ROUNDS = int(os.environ.get("PERFORMATIVE_EXAMPLE_ROUNDS", "300"))

# D(θ) = N(0.4 θ + m, 1) for the people who respond, and a mean that walks for those who do not.
world = pp.World(
    response=pp.responses.location(0.4, pp.Gaussian([1.0, -0.5], 1.0)),
    drift=pp.drifts.random_walk(cov=1.0, step=0.05, seed=1),
    mixing=pp.mixing.constant(0.5),
    loss=pp.losses.squared(),
    domain=pp.domains.ball(radius=5.0),
    rounds=ROUNDS,
)
print(world)

points = pp.stable_points(world)
print(f"stable points: {points.rung}, certified to {points.attrs['certificate']:.1e}")
print(f"they travel {float(pp.path_length(points)[-1]):.3f} in {ROUNDS} rounds")

learners = {"RRM": pp.learners.rrm(), "RRM, 50 rows": pp.learners.rrm(rows=50)}
table = pp.sweep({"half responds": world}, learners, runs=20, seed=0)
for name in learners:
    final = table.stable_regret.sel(learner=name).isel(world=0, round=-1)
    print(f"{name}: regret {float(final.mean()):.4f} after {ROUNDS} rounds")

figure = pp.plots.regret(table)
figure.savefig("quickstart.png", dpi=200)
