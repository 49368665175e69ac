"""ZGD2 and ZGD: estimates of the smoothed gradient, the theorems' parameters, arms in the domain."""

import functools
import warnings

import jax
import numpy as np
import pytest
import xarray as xr

import performative as pp
from performative.simulation.engine import feedback_of, problem_of

DELTA = 0.4


def curved_world(rounds=12):
    """A risk that is not quadratic, in two dimensions."""
    return pp.World(
        response=pp.responses.location([[0.5, -0.4], [0.2, 0.6]], pp.Gaussian([0.8, -0.3], 0.7)),
        drift=pp.drifts.fixed(pp.Gaussian([-0.5, 1.0], 1.2)),
        mixing=pp.mixing.constant(0.3),
        loss=pp.losses.logistic(l2=0.3),
        domain=pp.domains.ball(2.0),
        rounds=rounds,
    )


def quadratic_world(rounds=400, dim=3, **settings):
    return pp.worlds.quadratic(dim=dim, b=0.5, rounds=rounds, **settings)


def smoothed_risk(world, theta):
    """E_v PR(θ + δv) over the disc, by Gauss's rule in r² and the trapezoid rule in the angle."""
    nodes, weights = np.polynomial.legendre.leggauss(12)
    radii, weights = np.sqrt((nodes + 1) / 2), weights / 2
    angles = np.arange(24) * 2 * np.pi / 24
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    points = theta + DELTA * radii[:, None, None] * circle
    return float(weights @ world.risk(1, points).mean(axis=1))


def smoothed_gradient(world, theta, step=1e-4):
    return np.array(
        [
            (smoothed_risk(world, theta + move) - smoothed_risk(world, theta - move)) / (2 * step)
            for move in step * np.eye(2)
        ]
    )


def estimates(world, learner, theta, count):
    """`count` independent gradient estimates at one internal model."""
    prepared = learner.prepare(problem_of(world))
    with jax.enable_x64(True):
        here = world.at(1)

        def estimate(key):
            arms = prepared.deploy(jax.numpy.asarray(theta), key)
            seen = feedback_of(prepared, here, arms, arms, key)
            return prepared.gradient(jax.numpy.asarray(theta), seen)

        keys = jax.random.split(jax.random.key(4), count)
        return np.asarray(jax.jit(functools.partial(jax.lax.map, estimate, batch_size=512))(keys))


@pytest.mark.parametrize(
    ("learner", "count"),
    [
        (pp.learners.zgd2(step=0.1, delta=DELTA), 4000),
        (pp.learners.zgd2(step=0.1, delta=DELTA, rows=5), 40_000),
        (pp.learners.zgd(step=0.1, delta=DELTA), 200_000),
    ],
    ids=["two exact risks", "two averages", "one loss"],
)
def test_estimates_are_unbiased_for_the_smoothed_risk(learner, count):
    world, theta = curved_world(), np.array([0.3, -0.9])
    found = estimates(world, learner, theta, count)
    error = found.std(axis=0, ddof=1) / np.sqrt(count)
    truth = smoothed_gradient(world, theta)
    assert np.all(np.abs(found.mean(axis=0) - truth) < 4 * error)
    # The test can tell: the error is far below the gradient.
    assert np.all(error < 0.1 * np.linalg.norm(truth))


def test_smoothing_at_this_width_is_visible_to_exact_risks():
    world, theta = curved_world(), np.array([0.3, -0.9])
    found = estimates(world, pp.learners.zgd2(step=0.1, delta=DELTA), theta, 40_000)
    error = found.std(axis=0, ddof=1) / 200
    plain = world.total_gradient(1, theta)
    smooth = smoothed_gradient(world, theta)
    # θ − ∇PR̂ differs from θ − ∇PR, although by little.
    assert np.linalg.norm(smooth - plain) > 1e-3
    assert np.all(np.abs(found.mean(axis=0) - smooth) < 4 * error)


def test_two_arms_estimate_with_d_over_d_minus_one_times_the_slope_squared():
    """E‖g̃‖² = d |∇|² where the risk is linear; the theorem's d² L² is d times too much."""
    d = 6
    world = pp.World(
        drift=pp.drifts.fixed(pp.Gaussian(np.arange(1.0, d + 1), 0.5)),
        loss=pp.losses.squared(),
        domain=pp.domains.ball(3.0),
        rounds=2,
    )
    theta = np.zeros(d)
    found = estimates(world, pp.learners.zgd2(step=0.1, delta=1e-3), theta, 20_000)
    squares = np.sum(found**2, axis=1)
    slope = np.linalg.norm(world.total_gradient(1, theta)) ** 2
    assert squares.mean() == pytest.approx(d * slope, rel=0.03)
    assert squares.mean() < d**2 / (d - 1) * slope


def test_parameters_of_the_strongly_convex_case():
    world = quadratic_world()
    constants = problem_of(world).constants
    slope, curvature = constants.lipschitz.value, constants.risk_convexity.value
    prepared = pp.learners.zgd2().prepare(problem_of(world))
    assert prepared.case == "strongly convex"
    np.testing.assert_allclose(prepared.step, 1 / (curvature * np.arange(1, 401)), rtol=1e-12)
    assert float(prepared.delta) == pytest.approx(9 * slope / (6 * curvature * 400), rel=1e-12)
    assert float(prepared.rho) == pytest.approx(float(prepared.delta) / 5.0, rel=1e-12)


def test_parameters_of_the_convex_case():
    world = quadratic_world()
    constants = problem_of(world).constants
    slope, scale = constants.lipschitz.value, constants.loss_scale.value
    diameter, cost = 10 * 3**0.5, 3 * slope + 2 * scale / 5.0
    prepared = pp.learners.zgd2(case="convex").prepare(problem_of(world))
    np.testing.assert_allclose(prepared.step, diameter / (3 * slope * 20.0), rtol=1e-12)
    assert float(prepared.delta) == pytest.approx(3 * diameter / (6 * 20.0), rel=1e-12)
    prepared = pp.learners.zgd(case="convex").prepare(problem_of(world))
    eta = (diameter**3 / (3 * scale * cost)) ** 0.5 * 400**-0.75
    np.testing.assert_allclose(prepared.step, eta, rtol=1e-12)
    delta = (diameter * 3 * scale / cost) ** 0.5 * 400**-0.25
    assert float(prepared.delta) == pytest.approx(delta, rel=1e-12)


def test_single_arm_smooths_by_the_cube_root():
    world = quadratic_world(rounds=5000)
    constants = problem_of(world).constants
    slope, scale = constants.lipschitz.value, constants.loss_scale.value
    curvature = constants.risk_convexity.value
    x = 9 * scale**2 * (1 + np.log(5000)) / (2 * curvature)
    y = (3 * slope + 2 * scale / 5.0) * 5000
    prepared = pp.learners.zgd().prepare(problem_of(world))
    assert prepared.case == "strongly convex"
    assert float(prepared.delta) == pytest.approx((x / y) ** (1 / 3), rel=1e-12)


def test_exact_curvature_of_a_quadratic_risk_beats_proposition_5_1():
    """λ_min(c1 K'K + c2 I), which is positive however strong the response is."""
    world = pp.World(
        response=pp.responses.location([[3.0]], pp.Gaussian([1.0], 1.0)),
        loss=pp.losses.squared(),
        domain=pp.domains.ball(1.0),
        rounds=200,
    )
    prepared = pp.learners.zgd2().prepare(problem_of(world))
    assert prepared.case == "strongly convex"
    assert prepared.step[0] == pytest.approx(1 / 4.0)  # (1 − 3)²; Proposition 5.1 says 1 − 6


def test_a_short_world_takes_the_convex_case_and_says_so():
    world = quadratic_world(rounds=500, dim=10)
    with pytest.warns(UserWarning, match=r"convex case.*need 1,\d+ rounds.*has 500"):
        prepared = pp.learners.zgd().prepare(problem_of(world))
    assert prepared.case == "convex"


def test_a_world_too_short_for_both_cases_is_refused_with_the_figures():
    world = quadratic_world(rounds=20, dim=10)
    with pytest.raises(ValueError, match=r"rounds must be at least \d+ .* and 112 \(convex case\)"):
        pp.simulate(world, pp.learners.zgd2())
    with pytest.warns(UserWarning, match="goes on with delta = r/2 = 2.5"):
        prepared = pp.learners.zgd2(anyway=True).prepare(problem_of(world))
    assert float(prepared.rho) == 0.5
    # 112 is the theorem's figure, d²D²/(36 r²) = 111.1 rounded up.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pp.learners.zgd2(case="convex").prepare(problem_of(quadratic_world(rounds=112, dim=10)))
    with pytest.raises(ValueError, match="112"):
        pp.learners.zgd2(case="convex").prepare(problem_of(quadratic_world(rounds=111, dim=10)))


def test_a_risk_that_may_not_be_convex_takes_the_convex_case_and_says_so():
    world = pp.World(
        response=pp.responses.location(2.0, pp.Gaussian([0.5, 0.5], 1.0)),
        loss=pp.losses.logistic(l2=0.1),
        domain=pp.domains.ball(1.0),
        rounds=200,
    )
    with pytest.warns(UserWarning, match="not known to be convex"):
        prepared = pp.learners.zgd2().prepare(problem_of(world))
    assert prepared.case == "convex"
    with pytest.raises(ValueError, match="case must be 'convex'"):
        pp.learners.zgd2(case="strongly convex").prepare(problem_of(world))


@pytest.mark.parametrize(
    "learner", [pp.learners.zgd2(), pp.learners.zgd2(rows=3), pp.learners.zgd()]
)
def test_every_arm_stays_in_the_domain(learner):
    world = quadratic_world(drift="random")
    allowed = learner.prepare(problem_of(world)).start_domain(problem_of(world))
    corner = allowed.project([9.0, 9.0, -9.0])
    arms = pp.simulate(world, learner, start=corner, runs=2).deployed.values
    assert np.abs(arms).max() <= 5.0 * (1 + 1e-12)
    assert np.abs(arms).max() > 4.0  # the boundary was near


def test_a_start_that_leaves_no_room_for_the_arms_is_refused():
    world = quadratic_world()
    for play in (
        lambda start: pp.simulate(world, pp.learners.zgd2(), start=start),
        lambda start: pp.sweep({"it": world}, {"ZGD2": pp.learners.zgd2()}, start=start),
    ):
        with pytest.raises(ValueError, match="start must leave the arms of ZGD2 room"):
            play([5.0, 0.0, 0.0])


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"delta": 6.0}, "delta must be at most the inradius"),
        ({"delta": 1.0, "rho": 0.1}, r"rho must be at least delta/r = 0\.2"),
        ({"case": "konvex"}, "Did you mean 'convex'"),
        ({"step": -1.0}, "step must"),
        ({"step": np.ones(7), "delta": 0.1}, "step must"),
        ({"rows": 0}, "rows must be at least 1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        pp.learners.zgd2(**settings).prepare(problem_of(quadratic_world()))


def test_a_domain_without_a_ball_about_the_origin_is_refused():
    world = pp.World(
        drift=pp.drifts.fixed(pp.Gaussian([1.0], 1.0)),
        loss=pp.losses.squared(),
        domain=pp.domains.box(0.0, 4.0),
        rounds=9,
    )
    with pytest.raises(ValueError, match="domain must hold a ball about 0"):
        pp.simulate(world, pp.learners.zgd2())


def test_unknown_constants_are_needed_only_by_defaults():
    """On all of the plane, a quadratic risk has no Lipschitz constant."""
    world = pp.World(
        drift=pp.drifts.fixed(pp.Gaussian([1.0, 2.0], 1.0)),
        loss=pp.losses.squared(),
        domain=pp.domains.everywhere(),
        rounds=60,
    )
    with pytest.raises(
        ValueError, match="must be given to ZGD2 in this world: its default needs L"
    ):
        pp.learners.zgd2().prepare(problem_of(world))
    run = pp.simulate(world, pp.learners.zgd2(step=0.3, delta=0.1), against=())
    np.testing.assert_allclose(run.deployed.values[0, -1].mean(axis=0), [1.0, 2.0], atol=1e-3)


def test_optimality_regret_of_two_arms_is_that_of_their_risks():
    world = curved_world(rounds=40)
    run = pp.simulate(world, pp.learners.zgd2(step=0.3, delta=0.2), runs=2, against=("optimal",))
    optimal = pp.optimal_points(world).values
    rounds = np.arange(1, 41)
    best = np.array([world.risk(int(t), optimal[t - 1]) for t in rounds])
    risks = np.stack([world.risk(int(t), run.deployed.values[:, t - 1]) for t in rounds], axis=1)
    each = risks - best[:, None]
    for arms, value in (("mean", each.mean(axis=2)), ("worst", each.max(axis=2))):
        found = run.regret("optimal", arms=arms).values
        np.testing.assert_allclose(found, np.cumsum(value, axis=1), atol=1e-10)
    assert isinstance(run.regret("optimal", arms="worst"), xr.DataArray)
    assert np.all(run.regret("optimal", arms="worst").values > run.regret("optimal").values)


def test_two_arms_find_the_optimal_point_where_retraining_finds_the_stable_one():
    matrix = np.array([[0.6, 0.2], [-0.3, 0.5]])
    world = pp.World(
        response=pp.responses.location(matrix, pp.Gaussian([0.5, -0.7], 1.0)),
        drift=pp.drifts.fixed(pp.Gaussian([1.0, 1.0], 1.0)),
        mixing=pp.mixing.constant(0.3),
        loss=pp.losses.squared(),
        domain=pp.domains.ball(4.0),
        rounds=3000,
    )
    k, own, drift = np.eye(2) - matrix, [0.5, -0.7], [1.0, 1.0]
    optimal = np.linalg.solve(
        0.7 * k.T @ k + 0.3 * np.eye(2), 0.7 * k.T @ own + 0.3 * np.array(drift)
    )
    stable = np.linalg.solve(np.eye(2) - 0.7 * matrix, 0.7 * np.array(own) + 0.3 * np.array(drift))
    arms = pp.simulate(world, pp.learners.zgd2(), against=()).deployed.values[0, -1]
    np.testing.assert_allclose(arms.mean(axis=0), optimal, atol=2e-3)
    assert np.linalg.norm(optimal - stable) > 0.1


def test_noisier_averages_are_taken_further_apart():
    world = quadratic_world()
    problem = problem_of(world)
    few, many, exact = (
        float(pp.learners.zgd2(rows=rows).prepare(problem).delta) for rows in (10, 1000, None)
    )
    assert few == pytest.approx(many * 100 ** (1 / 3))  # δ ∝ n^(−1/3)
    assert exact < many


@pytest.mark.parametrize(
    "learner", [pp.learners.zgd2(), pp.learners.zgd2(rows=4), pp.learners.zgd()]
)
def test_they_keep_the_contract(learner):
    pp.testing.check_learner(learner)
