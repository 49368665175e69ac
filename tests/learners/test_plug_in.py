"""The two-stage plug-in: the fit is exact where means are, and its risk leads to the optimal points."""

import jax
import numpy as np
import pytest

import performative as pp
from performative.learners.plug_in import fit_location

MATRIX = np.array([[0.6, 0.2], [-0.3, 0.5]])
OWN, DRIFT = np.array([0.5, -0.7]), np.array([1.0, 1.0])


def partly_responding_world(mixing, loss=None, rounds=60):
    return pp.World(
        response=pp.responses.location(MATRIX, pp.Gaussian(OWN, 0.5)),
        drift=pp.drifts.fixed(pp.Gaussian(DRIFT, 0.5)),
        mixing=mixing,
        loss=loss or pp.losses.squared(l2=0.3),
        domain=pp.domains.ball(4.0),
        rounds=rounds,
    )


def test_a_changing_share_tells_the_two_parts_apart():
    rng = np.random.default_rng(0)
    models, alphas = rng.normal(size=(9, 2)), rng.random(9)
    means = (1 - alphas)[:, None] * (models @ MATRIX.T + OWN) + alphas[:, None] * DRIFT
    with jax.enable_x64(True):
        fit = fit_location(models, alphas, means)
    np.testing.assert_allclose(fit.matrix, MATRIX, atol=1e-12)
    np.testing.assert_allclose(fit.responding, OWN, atol=1e-12)
    np.testing.assert_allclose(fit.exogenous, DRIFT, atol=1e-12)


def test_a_constant_share_does_not_and_they_are_taken_to_be_equal():
    rng = np.random.default_rng(0)
    models, alphas = rng.normal(size=(9, 2)), np.full(9, 0.25)
    means = 0.75 * (models @ MATRIX.T + OWN) + 0.25 * DRIFT
    with jax.enable_x64(True):
        fit = fit_location(models, alphas, means)
    np.testing.assert_allclose(fit.matrix, MATRIX, atol=1e-12)
    np.testing.assert_allclose(fit.responding, 0.75 * OWN + 0.25 * DRIFT, atol=1e-12)
    np.testing.assert_allclose(fit.exogenous, fit.responding, atol=1e-12)


def test_it_finds_the_optimal_point_of_every_round():
    """Also as α_t falls, where optimal and stable points are far apart."""
    world = partly_responding_world(pp.mixing.polynomial(0.5))
    learner = pp.learners.plug_in(explore=20, rows=2000)
    run = pp.simulate(world, learner, against=())
    found = run.deployed.values[0, 20:, 0]
    away = np.linalg.norm(found - pp.optimal_points(world).values[20:], axis=1)
    apart = np.linalg.norm(found - pp.stable_points(world).values[20:], axis=1)
    assert away.max() < 0.06 and apart.min() > 0.25


def test_it_finds_the_optimal_point_of_a_logistic_loss():
    world = pp.World(
        response=pp.responses.location(-MATRIX, pp.Gaussian([1.2, -0.4], 1.0)),
        loss=pp.losses.logistic(l2=0.1),
        domain=pp.domains.ball(3.0),
        rounds=40,
    )
    run = pp.simulate(world, pp.learners.plug_in(explore=25, rows=800), against=())
    found = run.deployed.values[0, -1, 0]
    optimal = pp.optimal_points(world).values[-1]
    assert np.linalg.norm(found - optimal) < 0.06
    assert np.linalg.norm(pp.stable_points(world).values[-1] - optimal) > 0.2


def test_labels_do_not_move_with_the_model():
    rng = np.random.default_rng(1)
    labels = np.where(rng.random(300) < 0.5, 1.0, -1.0)
    rows = np.column_stack([rng.normal(size=(300, 2)) + 0.8 * labels[:, None], labels])
    world = pp.World(
        response=pp.responses.strategic(pp.Empirical(rows), [True, True], 0.3),
        loss=pp.losses.logistic(l2=0.1, labelled=True),
        domain=pp.domains.ball(3.0),
        rounds=40,
    )
    run = pp.simulate(world, pp.learners.plug_in(explore=25, rows=800), against=())
    optimal = pp.optimal_points(world).values[-1]
    assert np.linalg.norm(run.deployed.values[0, -1, 0] - optimal) < 0.1


def test_it_explores_first_and_then_keeps_still():
    world = partly_responding_world(pp.mixing.constant(0.2))
    run = pp.simulate(world, pp.learners.plug_in(explore=10, rows=50), against=())
    moves = np.linalg.norm(np.diff(run.deployed.values[0, :, 0], axis=0), axis=1)
    assert np.all(moves[:9] > 0.01) and np.all(moves[10:] < 1e-9)


def test_settings_that_make_no_sense_are_refused():
    world = partly_responding_world(pp.mixing.constant(0.2))
    with pytest.raises(ValueError, match="explore must be at least 4 rounds"):
        pp.simulate(world, pp.learners.plug_in(explore=3))
    with pytest.raises(ValueError, match="fewer than the world's 60"):
        pp.simulate(world, pp.learners.plug_in(explore=60))


@pytest.mark.slow
def test_it_keeps_the_contract():
    pp.testing.check_learner(pp.learners.plug_in(rows=20))
