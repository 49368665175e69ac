"""A sweep on a Dask cluster: the same table as with threads, from workers of its own.

Here the cluster is two processes of this machine; a client of a real one is used in the same way.
It needs the extra: pip install 'performative[dask]'.
"""

import os

import numpy as np
from distributed import Client, LocalCluster

import performative as pp

ROUNDS = int(os.environ.get("PERFORMATIVE_EXAMPLE_ROUNDS", "1000"))


def main() -> None:
    worlds = {
        f"b = {b:g}, {drift}": pp.worlds.quadratic(dim=3, drift=drift, b=b, rounds=ROUNDS)
        for b in (0.5, 1.0)
        for drift in ("random", "stationary")
    }
    learners = {"RRM": pp.learners.rrm(), "RRM, 20 rows": pp.learners.rrm(rows=20)}

    cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with cluster, Client(cluster) as client:
        table = pp.sweep(
            worlds,
            learners,
            runs=10,
            map=lambda play, blocks: client.gather(client.map(play, blocks)),
        )

    here = pp.sweep(worlds, learners, runs=10)
    gap = float(np.abs(table.stable_regret - here.stable_regret).max())
    print(f"largest difference from a sweep with threads: {gap:.1e}")
    print(table.stable_regret.isel(round=-1).mean("run").to_pandas().round(4))
    pp.plots.regret(table).savefig("sweep_with_dask.png", dpi=200)


# Worker processes import this file: what follows must be for the first process alone.
if __name__ == "__main__":
    main()
