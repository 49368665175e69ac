"""Repeated risk minimisation, against plain loops, closed forms and the lemmas of section 3."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

import performative as pp
from plain_learners import Plain, ball, box


def moving_world(alpha, strength, seed, radius=50.0, rounds=8):
    """Three columns, correlated; α and ‖A‖ are given, the rest is drawn."""
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(3, 3))
    matrix *= strength / np.linalg.norm(matrix, 2)
    cov = np.array([[1.0, 0.3, 0.0], [0.3, 0.5, 0.1], [0.0, 0.1, 0.8]])
    return pp.World(
        response=pp.responses.location(matrix, pp.Gaussian(rng.normal(size=3), cov)),
        drift=pp.drifts.recorded(pp.Gaussian(rng.normal(size=(rounds, 3)), 2 * cov)),
        mixing=pp.mixing.constant(alpha),
        loss=pp.losses.squared(l2=0.2),
        domain=pp.domains.ball(radius),
        rounds=rounds,
    )


def test_regret_in_the_quadratic_world_is_that_of_a_plain_loop():
    world = pp.worlds.quadratic(dim=3, b=0.5, rounds=60)
    plain = Plain.of(world, box(5.0))
    start = np.array([4.0, -3.0, 5.0])
    run = pp.simulate(world, pp.learners.rrm(), start=start)
    expected = plain.rrm(start)
    np.testing.assert_allclose(run.deployed.values[0, :, 0], expected, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(run.regret("stable").values[0], plain.regret(expected), rtol=1e-8)


@pytest.mark.parametrize("drift", ["random", "stationary"])
def test_regret_in_the_credit_world_is_that_of_a_plain_loop(drift):
    world = pp.worlds.credit(drift=drift, b=0.5, rounds=12)
    plain = Plain.of(world, ball(1.0))
    start = np.full(17, 0.2)
    run = pp.simulate(world, pp.learners.rrm(), start=start)
    expected = plain.rrm(start)
    np.testing.assert_allclose(run.deployed.values[0, :, 0], expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(run.regret("stable").values[0], plain.regret(expected), rtol=1e-8)


def test_on_the_boundary_too_it_is_that_of_a_plain_loop():
    world = moving_world(0.4, 0.6, seed=2, radius=0.3)
    plain = Plain.of(world, ball(0.3))
    run = pp.simulate(world, pp.learners.rrm())
    expected = plain.rrm(np.zeros(3))
    assert np.all(np.linalg.norm(plain.stable(), axis=1) > 0.3 - 1e-12)
    np.testing.assert_allclose(run.deployed.values[0, :, 0], expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(
        run.regret("stable").values[0], plain.regret(expected), rtol=1e-8, atol=1e-14
    )


def test_without_drift_the_distance_shrinks_by_the_sensitivity_each_round():
    # Perdomo et al.: ‖θ_{t+1} − θ^PS‖ ≤ (ε β/μ) ‖θ_t − θ^PS‖, an equality for A = εI.
    world = pp.World(
        response=pp.responses.location(0.7, pp.Gaussian([1.0, -2.0], 1.0)),
        loss=pp.losses.squared(),
        domain=pp.domains.ball(50.0),
        rounds=20,
    )
    run = pp.simulate(world, pp.learners.rrm(), start=[30.0, 20.0])
    away = np.linalg.norm(run.deployed.values[0, :, 0] - np.array([1.0, -2.0]) / 0.3, axis=1)
    np.testing.assert_allclose(away[1:] / away[:-1], 0.7, rtol=1e-9)


def test_where_nothing_responds_the_stable_point_is_reached_in_one_step():
    world = pp.worlds.credit(drift="stationary", b=0.0, rounds=5)
    run = pp.simulate(world, pp.learners.rrm())
    points = pp.stable_points(world).values
    np.testing.assert_allclose(run.deployed.values[0, 1:, 0], points[1:], rtol=0, atol=1e-13)
    regret = run.regret("stable").values[0]
    assert regret[0] > 0.01
    np.testing.assert_allclose(regret, regret[0], rtol=1e-12)


@given(alpha=st.floats(0.0, 1.0), strength=st.floats(0.0, 1.5), seed=st.integers(0, 10**6))
@settings(max_examples=20)
def test_every_round_contracts_as_lemma_3_1_says(alpha, strength, seed):
    world = moving_world(alpha, strength, seed)
    run = pp.simulate(world, pp.learners.rrm(), start=np.random.default_rng(seed).uniform(-9, 9, 3))
    models, points = run.deployed.values[0, :, 0], run.dataset.stable_point.values
    contraction = pp.Session(world).problem.constants.contraction
    assert contraction == pytest.approx((1 - alpha) * strength / 1.2)
    before = np.linalg.norm(models[:-1] - points[:-1], axis=1)
    after = np.linalg.norm(models[1:] - points[:-1], axis=1)
    if contraction[0] < 1:
        assert np.all(after <= contraction[:-1] * before * (1 + 1e-9) + 1e-12)


def replayed(world, learner, rounds):
    """The rows that a learner was shown in run 0, and its models."""
    models = pp.simulate(world, learner, record="all", against=()).deployed.values[0, :, 0]
    session = pp.Session(world)
    rows = [session.deploy(model, n=learner.rows) for model in models[:rounds]]
    return models, rows


def test_on_rows_it_is_the_mean_of_the_rows_for_the_squared_loss():
    world = moving_world(0.5, 0.5, seed=1)
    models, rows = replayed(world, pp.learners.rrm(rows=100), 7)
    for ahead, seen in zip(models[1:], rows, strict=True):
        np.testing.assert_allclose(ahead, seen.mean(axis=0) / 1.2, rtol=1e-12)


def test_on_few_separable_rows_without_a_penalty_it_ends_on_the_boundary_exactly():
    world = pp.World(
        response=pp.responses.location(0.1, pp.Gaussian([1.0, 0.5, 0.0], 1.0)),
        loss=pp.losses.logistic(),
        domain=pp.domains.ball(3.0),
        rounds=6,
    )
    models, rows = replayed(world, pp.learners.rrm(rows=2), 5)
    for ahead, seen in zip(models[1:], rows, strict=True):

        def risk(theta, seen=seen):
            return np.mean(np.logaddexp(0.0, -seen @ theta))

        # A direction on the sphere: the minimiser lies in the span of two rows.
        first, second = np.linalg.qr(seen.T)[0].T

        def along(angle, first=first, second=second, risk=risk):
            return risk(3.0 * (np.cos(angle) * first + np.sin(angle) * second))

        grid = np.linspace(0, 2 * np.pi, 721)
        best = grid[np.argmin([along(angle) for angle in grid])]
        found = optimize.minimize_scalar(along, bounds=(best - 0.01, best + 0.01), method="bounded")
        assert np.linalg.norm(ahead) == pytest.approx(3.0, abs=1e-12)
        assert risk(ahead) <= found.fun + 1e-12


def test_separable_rows_on_an_unbounded_domain_do_not_hang():
    world = pp.World(
        response=pp.responses.location(0.1, pp.Gaussian([1.0, 0.5, 0.0], 1.0)),
        loss=pp.losses.logistic(),
        domain=pp.domains.everywhere(),
        rounds=3,
    )
    run = pp.simulate(world, pp.learners.rrm(rows=2), against=())
    assert np.all(np.isfinite(run.deployed))


def test_it_keeps_the_contract_of_learners():
    pp.testing.check_learner(pp.learners.rrm(rows=70), pp.worlds.quadratic(dim=2, rounds=8))
