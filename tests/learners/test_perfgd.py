"""PerfGD: both forms against the exact gradient, and the points it goes to."""

import functools

import jax
import numpy as np
import pytest

import performative as pp
from performative.simulation.engine import feedback_of, problem_of

MATRIX = np.array([[0.5, -0.4], [0.2, 0.6]])


def responding_world(loss=None, rounds=300, matrix=MATRIX, variance=1.0, **outside):
    return pp.World(
        response=pp.responses.location(matrix, pp.Gaussian([0.8, -0.3], variance)),
        loss=loss or pp.losses.logistic(l2=0.3),
        domain=pp.domains.ball(2.0),
        rounds=rounds,
        **outside,
    )


def steps_taken(world, learner, theta, count):
    """`count` independent gradients, from one update each: the way gone over the step size."""
    prepared = learner.prepare(problem_of(world))
    with jax.enable_x64(True):
        here, start = world.at(1), jax.numpy.asarray(theta)
        state = prepared.init(problem_of(world), start)

        def step(key):
            arms = prepared.deploy(state, key)
            return prepared.update(state, feedback_of(prepared, here, arms, arms, key)).theta

        keys = jax.random.split(jax.random.key(2), count)
        moved = jax.jit(functools.partial(jax.lax.map, step, batch_size=64))(keys)
        return (theta - np.asarray(moved)) / prepared.step[0]


@pytest.mark.parametrize("form", ["reparameterised", "score"])
def test_gradients_are_those_of_the_performative_risk(form):
    """With a known response, of two rows in three; the gradient at fixed data alone is far off."""
    theta = np.array([0.5, -0.6])
    alike = pp.Gaussian(MATRIX @ theta + [0.8, -0.3], 1.0)
    world = responding_world(drift=pp.drifts.fixed(alike), mixing=pp.mixing.constant(1 / 3))
    learner = pp.learners.perfgd(1e-3, 500, form, response=MATRIX, perturbation=0.0)
    found = steps_taken(world, learner, theta, 800)
    error = found.std(axis=0, ddof=1) / np.sqrt(800)
    truth = world.total_gradient(1, theta)
    assert np.all(np.abs(found.mean(axis=0) - truth) < 4 * error)
    assert np.linalg.norm(world.gradient(1, theta, theta) - truth) > 20 * error.max()


@pytest.mark.parametrize("form", ["reparameterised", "score"])
def test_an_estimated_response_leads_to_the_optimal_point(form):
    world = responding_world(pp.losses.squared(l2=0.5), variance=0.25)
    k, m = np.eye(2) - MATRIX, np.array([0.8, -0.3])
    optimal = np.linalg.solve(k.T @ k + 0.5 * np.eye(2), k.T @ m)
    stable = np.linalg.solve(1.5 * np.eye(2) - MATRIX, m)
    run = pp.simulate(world, pp.learners.perfgd(0.2, 400, form), against=(), seed=1)
    found = run.deployed.values[0, 150:, 0].mean(axis=0)
    np.testing.assert_allclose(found, optimal, atol=0.05)
    assert np.linalg.norm(stable - optimal) > 0.3


def test_a_response_that_is_not_linear_is_followed_where_it_is():
    """Data N(√θ, s²) and ℓ = −z θ + θ²: PR = θ² − θ^1.5, least at 9/16; stable at 1/4."""
    world = pp.World(
        response=pp.responses.custom(
            distribution=lambda theta: pp.Gaussian(jax.numpy.sqrt(theta), 0.01),
            dimension=1,
            parameters=1,
        ),
        loss=pp.losses.custom(lambda row, theta: theta[0] ** 2 - row[0] * theta[0]),
        domain=pp.domains.box(0.05, 2.0),
        rounds=300,
    )
    run = pp.simulate(
        world, pp.learners.perfgd(0.1, 200, perturbation=0.05), start=[1.0], against=()
    )
    # Least where 2θ = 1.5 √θ; a stable point is where 2θ = √θ, at 1/4.
    assert run.deployed.values[0, 150:].mean() == pytest.approx(9 / 16, abs=0.05)


def test_what_is_deployed_is_perturbed_inside_the_domain():
    world = responding_world(rounds=30)
    run = pp.simulate(world, pp.learners.perfgd(0.1, 5, perturbation=3.0), against=(), record="all")
    sizes = np.linalg.norm(run.deployed.values, axis=-1)
    assert sizes.max() <= 2.0 + 1e-12 and np.sum(sizes > 1.999) > 5


def test_settings_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="Did you mean 'score'"):
        pp.learners.perfgd(form="scores")
    with pytest.raises(ValueError, match=r"response must have shape \(2, 2\)"):
        pp.simulate(responding_world(), pp.learners.perfgd(response=np.ones((3, 2))))
    with pytest.raises(ValueError, match="memory must be above 1"):
        pp.learners.perfgd(memory=1.0)


@pytest.mark.parametrize("form", ["reparameterised", "score"])
@pytest.mark.slow
def test_it_keeps_the_contract(form):
    pp.testing.check_learner(pp.learners.perfgd(rows=20, form=form))
