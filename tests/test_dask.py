"""A sweep is the same whoever carries it out: threads, processes, or two workers of a Dask cluster."""

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest

import performative as pp

WORKERS = 2


def worlds() -> dict[str, pp.World]:
    return {f"b={b:g}": pp.worlds.quadratic(dim=3, b=b, rounds=50) for b in (0.5, 1.0)}


LEARNERS = {"RRM": pp.learners.rrm(), "RRM, 5 rows": pp.learners.rrm(rows=5)}
SETTINGS = {"runs": 2, "seed": 3}


@pytest.fixture(scope="module")
def by_threads():
    return pp.sweep(worlds(), LEARNERS, **SETTINGS)


def test_two_workers_of_a_dask_cluster_play_the_same_sweep(by_threads):
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(
        n_workers=WORKERS, threads_per_worker=1, processes=True, dashboard_address=None
    )
    with cluster, distributed.Client(cluster) as client:
        where = []

        def on_cluster(play, blocks):
            def noted(block):
                return os.getpid(), play(block)

            blocks = list(blocks)
            workers = sorted(client.scheduler_info()["workers"])
            jobs = [
                client.submit(noted, block, workers=workers[i % len(workers)], pure=False)
                for i, block in enumerate(blocks)
            ]
            pids, played = zip(*client.gather(jobs), strict=True)
            where.extend(pids)
            return played

        placed = pp.sweep(worlds(), LEARNERS, **SETTINGS, map=on_cluster)
        mapped = pp.sweep(
            worlds(),
            LEARNERS,
            **SETTINGS,
            map=lambda play, blocks: client.gather(client.map(play, blocks)),
        )
    assert len(set(where)) == WORKERS
    assert os.getpid() not in where
    for table in (placed, mapped):
        agree(table, by_threads)


def test_a_dask_cluster_takes_functions_that_no_module_knows():
    """A loss and a sampler written on the spot: pickle would refuse them, Dask's does not."""
    distributed = pytest.importorskip("distributed")
    import jax
    import jax.numpy as jnp

    def sampler(key, theta, n):
        return 0.5 * theta + jax.random.normal(key, (n, 1), dtype=jnp.float64)

    world = pp.World(
        response=pp.responses.custom(sampler, dimension=1),
        loss=pp.losses.custom(lambda row, theta: jnp.cosh(0.3 * (row - theta)[0]), parameters=1),
        domain=pp.domains.ball(2.0),
        rounds=3,
        draws=256,
    )
    here = pp.sweep({"mine": world}, {"RRM": pp.learners.rrm()})
    cluster = distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None
    )
    with cluster, distributed.Client(cluster) as client:
        there = pp.sweep(
            {"mine": world},
            {"RRM": pp.learners.rrm()},
            map=lambda play, blocks: client.gather(client.map(play, blocks)),
        )
    agree(there, here)


def test_spawned_processes_play_the_same_sweep(by_threads):
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(WORKERS, mp_context=spawn) as pool:
        agree(pp.sweep(worlds(), LEARNERS, **SETTINGS, map=pool.map), by_threads)


def agree(table, expected):
    assert table.sizes == expected.sizes
    np.testing.assert_allclose(table.stable_regret, expected.stable_regret, rtol=0, atol=1e-12)
    for name in ("world", "learner", "run", "round", "rung"):
        assert table[name].values.tolist() == expected[name].values.tolist()
