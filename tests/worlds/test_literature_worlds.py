"""The worlds of the literature against their closed forms, and against what is known to happen there.

A stable point is checked without the library's derivatives or solvers: on the data that it brings
about, no model near or far does better. An optimal point likewise on PR_t. The risks themselves are
checked against drawn rows and losses written out here.
"""

import numpy as np
import pytest

import performative as pp

NAMES = [n for n in pp.worlds.__all__ if n not in ("credit", "quadratic", "Classic", "Known")]
CLOSED = [name for name in NAMES if name != "strategic_classification"]
ROUNDS = 3


def drifting(name):
    """The partially performative version: other people, with means and spread of their own."""
    columns = getattr(pp.worlds, name)(rounds=1).dimension
    means = np.random.default_rng(0).normal(size=(ROUNDS, columns))
    return getattr(pp.worlds, name)(
        rounds=ROUNDS,
        drift=pp.drifts.recorded(pp.Gaussian(means, 0.7)),
        mixing=pp.mixing.recorded([0.3, 0.6, 0.9]),
    )


def rivals(world, theta):
    """Models all over the domain, and others at distances from 0.1 down to a millionth."""
    p, rng = world.parameters, np.random.default_rng(1)
    near = [
        theta + 10.0**-k * sign * axis
        for k in range(1, 7)
        for sign in (1, -1)
        for axis in np.eye(p)
    ]
    far = world.domain.draw(rng, 128 - len(near), p)
    return world.domain.project(np.concatenate([near, far]))


def solutions(points):
    """(round, point) of all that are there; at most four of a round."""
    for t, candidates in enumerate(points, start=1):
        for theta in candidates:
            if not np.isnan(theta).any():
                yield t, theta


def losses_by_hand(world, name, rows, theta):
    """The loss of rows, from its definition."""
    x, y, l2 = rows[:, :-1], rows[:, -1], float(world.loss.l2)
    penalty = 0.5 * l2 * theta @ theta
    if name in ("biased_coin", "regression", "performative_labels"):
        return 0.5 * (y - x @ theta) ** 2 + penalty
    if name == "strategic_classification":
        margin = y * (x @ theta[:-1] + theta[-1])
        return np.logaddexp(0.0, -margin) + 0.5 * l2 * theta[:-1] @ theta[:-1]
    if name in ("oscillation", "square_root_mean", "two_groups"):
        return rows @ theta
    if name in ("worst_stable_point", "pricing"):
        return -rows @ theta + penalty
    return 0.5 * np.sum((rows - theta) ** 2, axis=1)


@pytest.mark.parametrize("name", CLOSED)
def test_no_model_beats_a_stable_point_on_the_data_it_brings_about(name):
    world = drifting(name)
    points = list(solutions(world.known.stable))
    assert points
    for t, theta in points:
        others = rivals(world, theta)
        at_home = world.decoupled_risk(t, others, theta) - world.decoupled_risk(t, theta, theta)
        assert at_home.min() > -2e-14 * (1 + theta @ theta)


@pytest.mark.parametrize("name", CLOSED)
def test_no_model_beats_an_optimal_point(name):
    world = drifting(name)
    points = list(solutions(world.known.optimal))
    assert points
    for t, theta in points:
        others = rivals(world, theta)
        values = world.decoupled_risk(t, others, others) - world.decoupled_risk(t, theta, theta)
        assert values.min() > -2e-14 * (1 + theta @ theta)


@pytest.mark.parametrize("name", NAMES)
def test_the_risk_is_that_of_drawn_rows(name):
    world = getattr(pp.worlds, name)(rounds=1)
    theta = world.domain.project(np.full(world.parameters, 0.4))
    values = losses_by_hand(world, name, world.sample(1, theta, 8_192, seed=3), theta)
    error = 4.5 * values.std() / np.sqrt(len(values))
    assert world.decoupled_risk(1, theta, theta) == pytest.approx(values.mean(), abs=error + 1e-12)


@pytest.mark.parametrize(
    "name, stable, optimal",
    [
        ("biased_coin", [1 / 7], [0.25]),
        ("feedback_loop", [-2.0], [-2.0]),
        ("oscillation", [0.0], [0.0]),
        ("worst_stable_point", [0.0], [-1.0]),
        ("scale_family", [5 / 3], [0.2 / 0.56]),
        ("self_fulfilling", [-1.0], [-1.0]),
        ("square_root_mean", [-1.0], [-2 / 3]),
        ("two_groups", [-5 / 7], [-5 / 14]),
        ("pricing", [13 / 3] * 5, [13 / 6] * 5),
        ("regression", [85 / 11], [-170 / 203]),
        ("gaussian_mean", [2.0], [2.0]),
        ("geometric_decay", [2.0], [2.0]),
    ],
)
def test_published_points(name, stable, optimal):
    known = getattr(pp.worlds, name)(rounds=2).known
    for points, published in ((known.stable, stable), (known.optimal, optimal)):
        gaps = np.abs(points[1] - published).max(axis=1)
        assert np.nanmin(gaps) < 1e-12


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("version", ["performative", "fading", "drifting"])
@pytest.mark.parametrize("name", CLOSED)
def test_the_targets_that_are_computed_are_those_known(name, version):
    if version == "drifting":
        world = drifting(name)
    else:
        mixing = pp.mixing.polynomial(b=1.0) if version == "fading" else None
        world = getattr(pp.worlds, name)(rounds=ROUNDS, mixing=mixing)
    found = pp.stable_points(world), pp.optimal_points(world)
    for points, known in zip(found, (world.known.stable, world.known.optimal), strict=True):
        for point, several in zip(points.values, known, strict=True):
            gaps = np.linalg.norm(several - point, axis=1)
            ends = np.sort(several[~np.isnan(several[:, 0]), 0])
            between = len(ends) == 2 and ends[0] <= point[0] <= ends[1]
            assert np.nanmin(gaps) < 1e-6 or between  # where every point is one, two stand for all


def deployed(world, start=None):
    run = pp.simulate(world, pp.learners.rrm(), start=start, against=())
    return run.deployed.values[0, :, 0]


class TestRetraining:
    """What repeated risk minimisation is known to do there."""

    def test_a_strong_reaction_carries_it_to_the_boundary(self):
        path = deployed(pp.worlds.feedback_loop(rounds=8))[:, 0]
        np.testing.assert_allclose(path, [0.0, 1.0, 2.5, 4.75, 8.125, 10.0, 10.0, 10.0], atol=1e-12)

    def test_an_exogenous_half_tames_the_loop(self):
        world = pp.worlds.feedback_loop(rounds=60, mixing=pp.mixing.constant(0.5))
        assert deployed(world)[-1, 0] == pytest.approx(1.0 / (1.0 - 0.75), abs=1e-6)

    @pytest.mark.parametrize("kind", ["not strongly convex", "not smooth"])
    def test_it_jumps_for_ever_however_weak_the_reaction(self, kind):
        world = pp.worlds.oscillation(kind, sensitivity=1e-6, rounds=8)
        np.testing.assert_allclose(deployed(world, [0.5])[1:, 0], [-1, 1] * 3 + [-1], atol=1e-9)

    def test_it_converges_to_the_worst_of_all_models(self):
        world = pp.worlds.worst_stable_point(sensitivity=0.75, rounds=8)
        path = deployed(world, [1.0])[:, 0]
        np.testing.assert_allclose(path, 0.75 ** np.arange(8), atol=1e-12)
        risks = world.risk(1, path[:, None])
        np.testing.assert_allclose(risks, -0.25 * path**2, atol=1e-12)
        assert np.all(np.diff(risks) > 0)

    def test_it_stays_where_predictions_fulfil_themselves(self):
        path = deployed(pp.worlds.self_fulfilling(rounds=8), [0.3])
        np.testing.assert_allclose(path, 0.3, atol=1e-14)

    def test_the_least_exogenous_part_ends_that(self):
        world = pp.worlds.self_fulfilling(rounds=8, mixing=pp.mixing.constant(0.01))
        np.testing.assert_allclose(
            deployed(world, [0.3])[:, 0], 0.3 * 0.99 ** np.arange(8), atol=1e-14
        )

    @pytest.mark.parametrize("rate", [0.1, 0.6])
    def test_a_population_that_remembers_sets_the_pace(self, rate):
        world = pp.worlds.geometric_decay(rate=rate, rounds=80)
        error = np.abs(deployed(world)[:, 0] - 2.0)
        pace = max(abs(np.linalg.eigvals([[0.0, 0.5], [rate, 1.0 - rate]])))
        assert error[60] / error[40] == pytest.approx(pace**20, rel=1e-3)

    def test_on_rows_its_error_settles_where_the_closed_form_says(self):
        """σ²/(n(1−ε²)) with ε = 0.8 and n = 4: 0.6944; the runs are independent."""
        world = pp.worlds.gaussian_mean(sensitivity=0.8, offset=0.0, rounds=20)
        run = pp.simulate(world, pp.learners.rrm(rows=4), runs=1000, against=())
        squares = run.deployed.values[:, -1, 0, 0] ** 2
        error = squares.std() / np.sqrt(len(squares))
        assert squares.mean() == pytest.approx(1.0 / (4 * (1 - 0.8**2)), abs=4 * error)

    def test_it_raises_prices_until_nobody_buys_and_back(self):
        world = pp.worlds.pricing(dim=1, rounds=6)
        np.testing.assert_allclose(deployed(world, [1.0])[1:, 0], [5, 0, 5, 0, 5], atol=1e-9)


def test_with_a_mixing_schedule_alone_the_others_do_not_react():
    world = pp.worlds.gaussian_mean(offset=1.5, rounds=1, mixing=pp.mixing.constant(1.0))
    np.testing.assert_allclose(world.distribution(1, [7.0]).mean, [1.5], atol=1e-15)


def test_a_drift_needs_a_schedule():
    with pytest.raises(ValueError, match="mixing must be given with a drift"):
        pp.worlds.biased_coin(drift=pp.drifts.iid_ball(cov=1.0))


def test_a_coin_whose_chances_leave_the_unit_interval_is_refused():
    with pytest.raises(ValueError, match=r"sensitivity must be in \[0, 0.4\]; got 0.5"):
        pp.worlds.biased_coin(bias=0.1, sensitivity=0.5)


class TestStrategicClassification:
    def test_people_move_by_the_weights_in_the_columns_they_can_change(self):
        world = pp.worlds.strategic_classification(modifiable=[0, 2], strength=0.5, rounds=1)
        theta = np.array([0.4, 1.0, -0.6, 0.2])
        moved = world.distribution(1, theta).mean - world.distribution(1, np.zeros(4)).mean
        np.testing.assert_allclose(moved, [0.2, 0.0, -0.3, 0.0], atol=1e-14)

    def test_rows_of_ones_own(self):
        rows = np.array([[0.5, 1.0], [-1.0, -1.0], [0.2, -1.0]])
        world = pp.worlds.strategic_classification(rows, strength=0.3, rounds=1)
        theta = np.array([0.7, -0.1])
        x = rows[:, 0] + 0.3 * 0.7
        expected = np.logaddexp(0, -rows[:, 1] * (0.7 * x - 0.1)).mean() + 0.05 * 0.7**2
        assert world.risk(1, theta) == pytest.approx(expected, abs=1e-14)


def test_a_mixture_that_responds_can_be_sampled_by_a_learner():
    """Half of the rows from each group: at θ = 0 their means are −0.5 and 1, so 0.25 together."""
    world = pp.worlds.two_groups(rounds=1)
    rows = pp.Session(world, seed=0).deploy(np.zeros(1), feedback="samples", n=20_000)
    error = rows.std() / np.sqrt(20_000)
    assert rows.mean() == pytest.approx(0.25, abs=4 * error)
