"""Double precision holds wherever the library is called from; the caller's JAX is left alone."""

import concurrent.futures
import json
import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import performative as pp

THETA, OTHER = [0.3, -0.2, 0.5], [0.1, 0.4, -0.6]


def make_world():
    """Everything that needs digits: quadrature, a solve, a response, a decaying schedule."""
    rng = np.random.default_rng(5)
    return pp.World(
        response=pp.responses.location(
            0.1 * rng.normal(size=(3, 3)), pp.Gaussian([1, 0.5, -1], 2.0)
        ),
        drift=pp.drifts.recorded(pp.Gaussian(rng.normal(size=(6, 3)), 1.0)),
        mixing=pp.mixing.polynomial(b=1.0),
        loss=pp.losses.logistic(l2=0.7),
        domain=pp.domains.ball(1.0),
        rounds=6,
    )


def numbers(world):
    """One flat array of results that single precision would get wrong in some digit."""
    run = pp.simulate(world, pp.learners.rrm(), start=THETA)
    parts = [
        world.risk(3, THETA),
        world.gradient(3, THETA, OTHER),
        world.hessian(3, THETA, OTHER),
        world.total_gradient(3, THETA),
        pp.stable_points(world),
        pp.optimal_points(world),
        run.deployed,
        run.regret("stable"),
    ]
    assert all(np.asarray(part).dtype == np.float64 for part in parts)
    return np.concatenate([np.ravel(part) for part in parts])


@pytest.fixture(scope="module")
def expected():
    return numbers(make_world())


def same(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=0.0, atol=1e-12)


def test_the_results_are_right_beyond_single_precision(expected):
    """Else the tests below would compare single precision with itself."""
    world = make_world()
    stable = pp.stable_points(world).values
    for t in (1, 6):
        assert np.linalg.norm(world.gradient(t, stable[t - 1], stable[t - 1])) < 1e-13
    assert np.any(expected != expected.astype(np.float32))


def test_in_a_thread(expected):
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        same(pool.submit(lambda: numbers(make_world())).result(), expected)


def test_in_several_threads_at_once(expected):
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for result in pool.map(numbers, [make_world() for _ in range(4)]):
            same(result, expected)


def test_in_a_thread_started_by_a_thread(expected):
    results = []

    def outer():
        inner = threading.Thread(target=lambda: results.append(numbers(make_world())))
        inner.start()
        inner.join()

    thread = threading.Thread(target=outer)
    thread.start()
    thread.join()
    same(results[0], expected)


def test_in_a_subprocess(expected, tmp_path):
    """The pickled world travels too."""
    path = tmp_path / "world.pickle"
    path.write_bytes(pickle.dumps(make_world()))
    program = (
        "import json, pickle, sys, test_precision\n"
        "world = pickle.load(open(sys.argv[1], 'rb'))\n"
        "both = [test_precision.make_world(), world]\n"
        "print(json.dumps([test_precision.numbers(w).tolist() for w in both]))\n"
    )
    out = subprocess.run(
        [sys.executable, "-c", program, str(path)],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parent)},
    ).stdout
    for result in json.loads(out.splitlines()[-1]):
        same(result, expected)


def test_after_pickling_a_world(expected):
    same(numbers(pickle.loads(pickle.dumps(make_world()))), expected)


def test_after_pickling_a_world_that_was_used(expected):
    world = make_world()
    numbers(world)
    same(numbers(pickle.loads(pickle.dumps(world))), expected)


def test_after_pickling_a_run():
    run = pp.simulate(make_world(), pp.learners.rrm(), start=THETA)
    copy = pickle.loads(pickle.dumps(run))
    assert copy.deployed.dtype == np.float64
    np.testing.assert_array_equal(copy.deployed, run.deployed)
    for against in ("stable", "optimal"):
        same(copy.regret(against), run.regret(against))


def single_precision_work():
    """What a user's own program does in float32: eager, jitted, differentiated, scanned, random."""
    x = jnp.linspace(0.0, 1.0, 7)
    results = [
        x + 1,
        jnp.sin(x).mean(),
        jax.jit(lambda y: y @ y)(x),
        jax.grad(lambda y: jnp.sum(jnp.exp(y)))(x),
        jax.lax.scan(lambda c, y: (c + y, c * y), jnp.zeros(()), x)[1],
        jax.random.normal(jax.random.key(0), (3,)),
        jnp.asarray(np.array([0.1, 0.2])),
    ]
    assert all(result.dtype == jnp.float32 for result in results)
    return [np.asarray(result) for result in results]


def test_in_a_program_that_uses_single_precision_before_and_after(expected):
    before = single_precision_work()
    same(numbers(make_world()), expected)
    after = single_precision_work()
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other)
    same(numbers(make_world()), expected)
    assert not jax.config.jax_enable_x64


def test_in_a_program_that_runs_in_double_precision_itself(expected):
    with jax.enable_x64(True):
        same(numbers(make_world()), expected)
        assert jnp.zeros(2).dtype == jnp.float64


def test_between_single_precision_work_of_another_thread(expected):
    stop = threading.Event()
    failures = []

    def busy():
        while not stop.is_set():
            try:
                single_precision_work()
            except AssertionError as failure:
                failures.append(failure)

    thread = threading.Thread(target=busy)
    thread.start()
    try:
        same(numbers(make_world()), expected)
    finally:
        stop.set()
        thread.join()
    assert not failures


def test_single_precision_arrays_go_in_and_double_precision_comes_out():
    world = make_world()
    theta = jnp.array([0.5, -0.25, 0.125])  # exact in both precisions
    exact = world.risk(2, [0.5, -0.25, 0.125])
    assert isinstance(world.risk(2, theta), float)
    assert world.risk(2, theta) == pytest.approx(exact, abs=1e-15)
    assert world.gradient(2, theta, theta).dtype == np.float64
    assert isinstance(world.gradient(2, theta, theta), np.ndarray)


def test_nothing_that_comes_out_is_a_jax_array():
    world = make_world()
    run = pp.simulate(world, pp.learners.rrm(), start=THETA)
    outputs = [
        world.risk(1, THETA),
        world.hessian(1, THETA, OTHER),
        world.sample(1, THETA, 4, seed=0),
        world.distribution(1, THETA).mean,
        world.distribution(1, THETA).covariance,
        pp.stable_points(world).data,
        run.deployed.data,
        run.regret("stable").data,
    ]
    assert not any(isinstance(output, jax.Array) for output in outputs)


def test_a_custom_loss_is_evaluated_in_double_precision():
    rows = pp.Empirical([[1.0, 2.0, 3.0], [0.5, -1.0, 0.1]])

    def world(loss):
        return pp.World(
            response=pp.responses.location(np.zeros((3, 3)), rows),
            drift=pp.drifts.fixed(rows),
            mixing=pp.mixing.constant(0.5),
            loss=loss,
            domain=pp.domains.ball(1.0),
            rounds=1,
        )

    custom = pp.losses.custom(
        lambda row, theta: jnp.logaddexp(0.0, -theta @ row) + 0.1 / 2.0 * theta @ theta
    )
    theta = np.array(THETA)
    assert world(custom).risk(1, theta) == pytest.approx(
        world(pp.losses.logistic(l2=0.1)).risk(1, theta), abs=1e-15
    )
    np.testing.assert_allclose(
        world(custom).hessian(1, theta, theta),
        world(pp.losses.logistic(l2=0.1)).hessian(1, theta, theta),
        atol=1e-14,
    )
