import numpy as np
import pytest

import performative as pp
from performative.attribution import NotIdentified, Report, laboratory, simulate_log


@pytest.fixture(scope="module")
def log():
    return simulate_log("holdout", kappa=0.4, alpha=0.0, rounds=8, rows=100_000_000, seed=1)


def test_the_fitted_world_has_the_risks_of_the_true_one(log):
    fitted = pp.attribute(log.summary).world()
    for t in (1, 8):
        for theta in (np.zeros(5), 0.5 * np.ones(5)):
            assert fitted.risk(t, theta) == pytest.approx(log.world.risk(t, theta), abs=0.02)
    np.testing.assert_allclose(
        pp.stable_points(fitted).values[-1], pp.stable_points(log.world).values[-1], atol=0.03
    )


@pytest.mark.parametrize("units", [0, 400])
def test_drawn_worlds_differ_as_much_as_the_response_is_uncertain(units):
    log = simulate_log("holdout", kappa=0.4, alpha=0.0, rounds=8, rows=400, units=units, seed=1)
    report = pp.attribute(log.summary)
    drawn = [laboratory.fitted(report, seed=seed)[0] for seed in range(200)]
    expected = report.response.se.values
    np.testing.assert_allclose(np.std(drawn, axis=0), report.widening * expected, rtol=0.25)


def test_what_retraining_does_next_is_drawn_with_the_error_of_the_last_rounds_data():
    covered = []
    for seed in range(40):
        log = simulate_log("pair", kappa=0.4, alpha=0.0, rounds=8, rows=2000, seed=seed)
        report = Report(log.summary)
        now = report.deployed_now()
        fits = [laboratory.fitted(report, seed=draw) for draw in range(60)]
        after = np.array([matrix @ now + bases[-1] for matrix, bases, _ in fits])
        truth = 0.4 * now + log.world_parts[1] + log.world_parts[3][-1]
        middle = report.cells.mean[-2:].mean(axis=0) - truth
        assert np.abs(middle).max() < 0.2
        low, high = np.quantile(after, [0.025, 0.975], axis=0)
        covered.append(np.mean((low <= truth) & (truth <= high)))
    assert np.mean(covered) > 0.88


def test_learners_are_tried_in_the_logs_own_world(log):
    report = pp.attribute(log.summary)
    found = report.try_learners({"RRM": pp.learners.rrm()}, draws=3)
    assert found["next"].sizes == {"learner": 1, "draw": 4, "parameter": 5}
    assert (found["regret"] > 0).all()
    now = np.array(found.attrs["deployed"])
    matrix, bases, _ = laboratory.fitted(report)
    np.testing.assert_allclose(found["next"].values[0, 0], matrix @ now + bases[-1], atol=1e-9)
    assert (found["next_low"] <= found["next_high"]).all()


def test_gradient_descent_takes_half_a_newton_step_which_needs_no_theorem():
    wild = simulate_log("pair", kappa=1.2, alpha=0.0, rounds=8, rows=4000)
    assert laboratory._half_newton(Report(wild.summary)) == pytest.approx(0.5)


def test_missing_directions_are_named():
    pair = Report(simulate_log("pair", dim=6, rounds=3, rows=2000, seed=2).summary)
    with pytest.raises(NotIdentified, match="3 were never tried, in combinations of: x"):
        pair.world()
    single = Report(simulate_log("single", rounds=4, rows=2000).summary)
    with pytest.raises(NotIdentified, match="world is not identified: one model at a time"):
        single.world()


def test_the_optimal_point_needs_what_no_log_tells(log):
    with pytest.raises(NotIdentified, match="needs alpha= and base="):
        pp.attribute(log.summary).optimal_point()
    mixed = simulate_log("holdout", kappa=0.4, alpha=0.5, rounds=8, rows=4_000_000, seed=3)
    report = pp.attribute(mixed.summary, alpha=0.5, base=mixed.world_parts[1])
    truth = pp.optimal_points(mixed.world).values[-1]
    np.testing.assert_allclose(report.optimal_point().values, truth, atol=0.03)


def test_means_alone_leave_the_optimal_point_open():
    """Equal B and w, three base means: θ^PS stays where it is, θ^PO does not."""
    points = []
    for base in (0.0, 1.0, 2.0):
        world = pp.World(
            response=pp.responses.location(0.6, pp.Gaussian([base], 0.25)),
            drift=pp.drifts.fixed(pp.Gaussian([2.0 - base], 0.25)),
            mixing=pp.mixing.constant(0.5), loss=pp.losses.squared(),
            domain=pp.domains.ball(10.0), rounds=1,
        )  # fmt: skip
        points.append(pp.optimal_points(world).values[0, 0])
        assert pp.stable_points(world).values[0, 0] == pytest.approx(1 / 0.7)
    np.testing.assert_allclose(points, [1.7241, 1.2069, 0.6897], atol=1e-4)
