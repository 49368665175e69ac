"""Classic examples of the literature, written with the public pieces as a user would.

Each test states the known stable point, optimal point, convergence or divergence in closed form.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize

import performative as pp


@pytest.fixture(scope="class", autouse=True)
def forget_compiled_programs():
    """They hold hundreds of memory maps each, of which a process may have 65,530."""
    yield
    jax.clear_caches()


def world_of(response, loss, domain, rounds=6, dimension=1):
    """A purely performative world: nothing happens that the deployed model did not cause."""
    return pp.World(
        response=response,
        drift=pp.drifts.fixed(pp.Gaussian(np.zeros(dimension), 1.0)),
        mixing=pp.mixing.constant(0.0),
        loss=loss,
        domain=domain,
        rounds=rounds,
    )


def gaussian_mean(slope, offset, rounds=6, bound=10.0, loss=None):
    """Mean estimation: z ~ N(offset + slope θ, 1), |z − θ|²/2, θ in [−bound, bound]."""
    return world_of(
        pp.responses.location(slope, pp.Gaussian([offset], 1.0)),
        loss or pp.losses.squared(),
        pp.domains.box([-bound], [bound]),
        rounds,
    )


def trajectory(world, start):
    """What repeated risk minimisation deploys, (round,) for one parameter."""
    run = pp.simulate(world, pp.learners.rrm(), start=[start])
    return run.deployed.values[0, :, 0, 0]


def first(points):
    return float(points.values[0, 0])


def status(points):
    return str(points.status.values[0])


class TestBiasedCoin:
    """Perdomo, Zrnic, Mendler-Dünner, Hardt: Performative prediction, 2020: a coin that reacts."""

    MU, EPSILON = 0.1, 0.3

    def one_coin(self, offset, slope):
        """z = 1 with probability offset + slope θ, else 0; the model is the predicted frequency."""
        return world_of(
            pp.responses.custom(
                distribution=lambda theta: pp.Empirical(
                    [[1.0], [0.0]],
                    weights=jnp.stack([offset + slope * theta[0], 1 - offset - slope * theta[0]]),
                ),
                dimension=1,
            ),
            pp.losses.squared(),
            pp.domains.box([0.0], [1.0]),
        )

    def test_the_stable_and_the_optimal_frequency(self):
        offset, slope = 0.5 + self.MU, self.EPSILON
        world = self.one_coin(offset, slope)
        assert first(pp.stable_points(world)) == pytest.approx(offset / (1 - slope), abs=1e-9)
        optimal = (offset - slope / 2) / (1 - 2 * slope)
        assert optimal > 1.0  # so the domain's end is optimal
        assert first(pp.optimal_points(world)) == pytest.approx(1.0, abs=1e-9)
        weaker = self.one_coin(0.35, 0.2)
        assert first(pp.stable_points(weaker)) == pytest.approx(0.4375, abs=1e-9)
        assert first(pp.optimal_points(weaker)) == pytest.approx(0.25 / 0.6, abs=1e-9)

    def test_its_risk_is_that_of_the_coin(self):
        world, theta = self.one_coin(0.6, 0.3), 0.4
        p = 0.6 + 0.3 * theta
        expected = 0.5 * (p * (1 - theta) ** 2 + (1 - p) * theta**2)
        assert world.risk(1, [theta]) == pytest.approx(expected, abs=1e-14)
        slope = 0.3 / 2 - 0.6 - 2 * 0.3 * theta + theta
        np.testing.assert_allclose(world.total_gradient(1, [theta]), [slope], atol=1e-12)

    def test_with_a_feature_as_in_the_paper(self):
        """y | x ~ Bernoulli(1/2 + μx + εθx), x = ±1, predicted 1/2 + θx: μ/(1−ε), μ/(1−2ε)."""

        def flips(theta):
            tilt = 0.5 * (self.MU + self.EPSILON * theta[0])
            weights = jnp.stack([0.25 + tilt, 0.25 - tilt, 0.25 - tilt, 0.25 + tilt])
            return pp.Empirical([[1, 0.5], [1, -0.5], [-1, 0.5], [-1, -0.5]], weights=weights)

        world = world_of(
            pp.responses.custom(distribution=flips, dimension=2, parameters=1),
            pp.losses.squared(labelled=True),
            pp.domains.box([0.0], [1.0]),
            dimension=2,
        )
        stable, optimal = self.MU / (1 - self.EPSILON), self.MU / (1 - 2 * self.EPSILON)
        assert first(pp.stable_points(world)) == pytest.approx(stable, abs=1e-9)
        assert first(pp.optimal_points(world)) == pytest.approx(optimal, abs=1e-9)
        expected = stable * (1 - self.EPSILON ** np.arange(6))
        np.testing.assert_allclose(trajectory(world, 0.0), expected, atol=1e-10)

    def test_a_stable_point_can_maximise_the_performative_risk(self):
        """Miller, Perdomo, Zrnic 2021: for 1/2 < ε < 1 retraining finds the worst of all models."""
        world = self.one_coin(0.1, 0.8)
        stable = pp.stable_points(world)
        assert first(stable) == pytest.approx(0.5, abs=1e-9)
        others = np.linspace(0, 1, 21)[:, None]
        assert np.all(world.risk(1, others) <= world.risk(1, [0.5]) + 1e-14)
        optimal = pp.optimal_points(world)
        assert abs(first(optimal) - 0.5) == pytest.approx(0.5, abs=1e-9)
        assert world.risk(1, optimal.values[0]) == pytest.approx(0.05, abs=1e-12)
        assert status(optimal) != "certified"
        run = pp.simulate(world, pp.learners.rrm(), start=[0.0])
        expected = 0.5 - 0.5 * 0.8 ** np.arange(6)
        np.testing.assert_allclose(run.deployed.values[0, :, 0, 0], expected, atol=1e-10)
        assert np.all(np.diff(run.regret("stable").values[0]) < 0.0)


class TestGaussianMean:
    """Retraining converges if and only if the sensitivity is below the curvature (Perdomo 2020)."""

    @pytest.mark.parametrize("slope", [0.5, -0.9, 0.0])
    def test_retraining_converges_geometrically_below_one(self, slope):
        world = gaussian_mean(slope, 1.0, rounds=8)
        stable = 1.0 / (1.0 - slope)
        expected = stable - stable * slope ** np.arange(8)
        np.testing.assert_allclose(trajectory(world, 0.0), expected, atol=1e-12)
        assert first(pp.stable_points(world)) == pytest.approx(stable, abs=1e-12)
        assert first(pp.optimal_points(world)) == pytest.approx(stable, abs=1e-12)
        assert status(pp.stable_points(world)) == "certified"

    def test_retraining_alternates_for_ever_at_minus_one(self):
        world = gaussian_mean(-1.0, 1.0, rounds=8)
        np.testing.assert_allclose(trajectory(world, 0.0), [0, 1] * 4, atol=1e-12)
        assert first(pp.stable_points(world)) == pytest.approx(0.5, abs=1e-9)

    def test_retraining_runs_to_the_boundary_above_one(self):
        world = gaussian_mean(1.5, 1.0, rounds=8)
        expected = [0.0, 1.0, 2.5, 4.75, 8.125, 10.0, 10.0, 10.0]
        np.testing.assert_allclose(trajectory(world, 0.0), expected, atol=1e-12)
        with pytest.warns(UserWarning, match="not unique"):
            points = pp.stable_points(world)
        assert min(abs(first(points) - place) for place in (-2.0, 10.0, -10.0)) < 1e-9
        assert status(points) == "not unique"
        assert first(pp.optimal_points(world)) == pytest.approx(-2.0, abs=1e-9)

    def test_retraining_jumps_between_the_boundaries_below_minus_one(self):
        deployed = trajectory(gaussian_mean(-1.5, 1.0, rounds=12), 0.0)
        np.testing.assert_allclose(deployed[-3:], [10.0, -10.0, 10.0], atol=1e-12)
        world = gaussian_mean(-1.5, 1.0)
        assert first(pp.stable_points(world)) == pytest.approx(0.4, abs=1e-9)

    def test_at_one_the_only_stable_point_is_where_the_domain_ends(self):
        world = gaussian_mean(1.0, 3.0)
        np.testing.assert_allclose(trajectory(world, 0.0), [0, 3, 6, 9, 10, 10], atol=1e-12)
        assert first(pp.stable_points(world)) == pytest.approx(10.0, abs=1e-9)


class TestNoOrManyStablePoints:
    """Where a silent answer would be a wrong one."""

    def test_a_self_fulfilling_prediction_makes_every_point_stable(self):
        world = gaussian_mean(1.0, 0.0)
        np.testing.assert_allclose(trajectory(world, 3.7), 3.7, atol=1e-12)
        with pytest.warns(UserWarning, match="not unique"):
            points = pp.stable_points(world)
        assert status(points) == "not unique"
        assert np.all(points.residual < 1e-9)

    def test_a_whole_line_of_stable_points_is_flagged(self):
        world = world_of(
            pp.responses.location(np.diag([1.0, 0.5]), pp.Gaussian([0.0, 1.0], 1.0)),
            pp.losses.squared(),
            pp.domains.ball(10.0),
            dimension=2,
        )
        with pytest.warns(UserWarning, match="not unique"):
            points = pp.stable_points(world)
        assert points.values[0, 1] == pytest.approx(2.0, abs=1e-9)
        assert status(points) == "not unique"

    def test_a_response_that_jumps_leaves_no_stable_point(self):
        """z ~ N(−1, 1) if θ > 0, else N(1, 1): retraining alternates, nothing is stable."""
        world = world_of(
            pp.responses.custom(
                distribution=lambda theta: pp.Gaussian(jnp.where(theta > 0, -1.0, 1.0), 1.0),
                dimension=1,
            ),
            pp.losses.squared(),
            pp.domains.box([-2.0], [2.0]),
        )
        np.testing.assert_allclose(trajectory(world, 0.3), [0.3, -1, 1, -1, 1, -1], atol=1e-9)
        with pytest.warns(UserWarning, match="unsolved"):
            points = pp.stable_points(world)
        assert status(points) == "unsolved"
        assert not np.any(points.residual < 0.1)

    def test_a_loss_that_is_not_smooth_in_the_data_leaves_none_either(self):
        """(θ + sign z)²/2 with z = εθ: however small ε, retraining jumps between −1 and 1."""
        world = world_of(
            pp.responses.location(0.01, pp.Empirical([[0.0]])),
            pp.losses.custom(
                lambda row, theta: 0.5 * (theta[0] + jnp.where(row[0] >= 0, 1.0, -1.0)) ** 2
            ),
            pp.domains.box([-2.0], [2.0]),
        )
        np.testing.assert_allclose(trajectory(world, 0.5), [0.5, -1, 1, -1, 1, -1], atol=1e-9)
        with pytest.warns(UserWarning, match="unsolved"):
            assert status(pp.stable_points(world)) == "unsolved"

    def test_without_strong_convexity_retraining_jumps_for_any_sensitivity(self):
        """θz with z = εθ on [−1, 1]: θ → −sign θ, although θ = 0 is stable."""
        world = world_of(
            pp.responses.location(0.01, pp.Empirical([[0.0]])),
            pp.losses.custom(lambda row, theta: theta[0] * row[0]),
            pp.domains.box([-1.0], [1.0]),
        )
        np.testing.assert_allclose(trajectory(world, 0.5), [0.5, -1, 1, -1, 1, -1], atol=1e-9)


class TestLocationScale:
    """Miller, Perdomo, Zrnic: Outside the echo chamber, 2021: z = (m + aθ) + (1 + bθ)(z0 − m)."""

    @pytest.mark.parametrize("a", [0.4, 2.0])
    def test_the_optimal_point_minimises_spread_and_bias_together(self, a):
        m, b, v = 1.0, 0.5, 0.8
        world = world_of(
            pp.responses.location_scale([[a]], [[[b]]], pp.Gaussian([m], v)),
            pp.losses.squared(),
            pp.domains.box([-10.0], [10.0]),
        )
        optimal = ((1 - a) * m - b * v) / ((1 - a) ** 2 + b**2 * v)
        assert first(pp.optimal_points(world)) == pytest.approx(optimal, abs=1e-9)
        theta = 0.7
        risk = 0.5 * ((m + (a - 1) * theta) ** 2 + (1 + b * theta) ** 2 * v)
        assert world.risk(1, [theta]) == pytest.approx(risk, abs=1e-13)
        if a < 1:
            assert first(pp.stable_points(world)) == pytest.approx(m / (1 - a), abs=1e-10)

    def test_a_spread_that_responds_leaves_the_stable_point_alone(self):
        scales = 0.1 * np.arange(18.0).reshape(2, 3, 3)[:, :2, :2]
        matrix, base = 0.3 * np.eye(2), pp.Gaussian([1.0, -1.0], 1.0)
        domain, loss = pp.domains.ball(10.0), pp.losses.squared()
        moved = world_of(pp.responses.location(matrix, base), loss, domain, dimension=2)
        spread = world_of(
            pp.responses.location_scale(matrix, scales, base), loss, domain, dimension=2
        )
        np.testing.assert_allclose(pp.stable_points(moved), pp.stable_points(spread), atol=1e-10)
        difference = pp.optimal_points(moved).values - pp.optimal_points(spread).values
        assert np.abs(difference).max() > 0.1


class TestSquareRootMean:
    """Izzo, Ying, Zou: How to learn when data reacts to your model, 2021: a nonlinear mean."""

    def test_the_golden_ratio_is_stable(self):
        """z ~ N(√(1 + θ), 1): θ² = 1 + θ."""
        world = world_of(
            pp.responses.custom(
                distribution=lambda theta: pp.Gaussian(jnp.sqrt(1.0 + theta), 1.0), dimension=1
            ),
            pp.losses.squared(),
            pp.domains.box([0.0], [5.0]),
        )
        golden = (1 + np.sqrt(5)) / 2
        assert first(pp.stable_points(world)) == pytest.approx(golden, abs=1e-9)
        assert first(pp.optimal_points(world)) == pytest.approx(golden, abs=1e-7)
        deployed = trajectory(world, 0.0)
        np.testing.assert_allclose(deployed[1:], np.sqrt(1 + deployed[:-1]), atol=1e-9)

    @pytest.mark.parametrize("rung", ["rows", "quadrature"])
    def test_the_optimal_price_is_inside_and_the_stable_one_at_the_end(self, rung):
        """Loss θz, z of mean √(1 + 0.9θ), θ in [−1, 1]: optimal −2/2.7, stable −1."""
        if rung == "rows":
            loss = pp.losses.custom(lambda row, theta: row[0] * theta[0])
            noise = jnp.array([[-1.0], [1.0]])

            def distribution(theta):
                return pp.Empirical(jnp.sqrt(1.0 + 0.9 * theta) + noise)

        else:
            loss = pp.losses.margin(lambda u: u)

            def distribution(theta):
                return pp.Gaussian(jnp.sqrt(1.0 + 0.9 * theta), 1.0)

        world = world_of(
            pp.responses.custom(distribution=distribution, dimension=1),
            loss,
            pp.domains.box([-1.0], [1.0]),
        )
        assert world.risk(1, [-0.5]) == pytest.approx(-0.5 * np.sqrt(0.55), abs=1e-10)
        assert first(pp.optimal_points(world)) == pytest.approx(-2 / 2.7, abs=1e-7)
        assert first(pp.stable_points(world)) == pytest.approx(-1.0, abs=1e-9)


class TestStrategicAgents:
    """Hardt, Megiddo, Papadimitriou, Wootters: Strategic classification, 2016, quadratic costs."""

    def test_agents_maximise_score_minus_cost_over_the_columns_they_can_change(self):
        x, theta, strength = np.array([0.5, -1.0, 2.0]), np.array([0.3, -0.7, 0.4]), 0.6
        best = optimize.minimize(
            lambda move: -theta[[0, 2]] @ move + move @ move / (2 * strength),
            np.zeros(2),
            tol=1e-12,
        ).x
        world = world_of(
            pp.responses.strategic(pp.Empirical([x]), modifiable=[0, 2], strength=strength),
            pp.losses.logistic(l2=1.0),
            pp.domains.ball(2.0),
            dimension=3,
        )
        np.testing.assert_allclose(
            world.distribution(1, theta).mean, x + np.insert(best, 1, 0.0), atol=1e-6
        )

    def test_on_signed_rows_it_is_a_location_response(self):
        rng = np.random.default_rng(0)
        rows, theta = rng.normal(size=(20, 3)), np.array([0.3, -0.7, 0.4])
        worlds = [
            world_of(response, pp.losses.logistic(l2=1.0), pp.domains.ball(2.0), dimension=3)
            for response in (
                pp.responses.strategic(pp.Empirical(rows), modifiable=[1, 0, 1], strength=0.2),
                pp.responses.location(0.2 * np.diag([1.0, 0.0, 1.0]), pp.Empirical(rows)),
            )
        ]
        np.testing.assert_allclose(
            *(world.total_gradient(1, theta) for world in worlds), atol=1e-14
        )


class TestLaggedResponse:
    """Brown, Hod, Kalemaj: Performative prediction in a stateful world, 2022."""

    @pytest.mark.parametrize("rate", [0.25, 1.0])
    def test_retraining_converges_geometrically_to_the_stable_point_of_the_fast_world(self, rate):
        slope, offset, rounds = 0.5, 1.0, 40
        fast = pp.responses.location(slope, pp.Gaussian([offset], 1.0))
        domain, loss = pp.domains.box([-10.0], [10.0]), pp.losses.squared()
        world = world_of(pp.responses.lagged(fast, rate), loss, domain, rounds)
        stable = offset / (1 - slope)
        assert first(pp.stable_points(world)) == pytest.approx(stable, abs=1e-9)
        # θ ← offset + slope s and s ← (1 − rate) s + rate θ, both of round t.
        factor = max(abs(np.linalg.eigvals([[0.0, slope], [rate, 1.0 - rate]])))
        error = np.abs(trajectory(world, 0.0) - stable)
        np.testing.assert_allclose(error[30] / error[20], factor**10, rtol=1e-3)
        assert error[-1] < 3.0 * factor ** (rounds - 2)

    def test_a_population_that_lags_follows_its_state(self):
        slope, offset, rate = 0.5, 1.0, 0.25
        fast = pp.responses.location(slope, pp.Gaussian([offset], 1.0))
        domain, loss = pp.domains.box([-10.0], [10.0]), pp.losses.squared()
        deployed = trajectory(world_of(pp.responses.lagged(fast, rate), loss, domain), 2.5)
        state, expected = 2.5, [2.5]
        for _ in range(5):
            expected.append(offset + slope * state)
            state = (1 - rate) * state + rate * expected[-2]
        np.testing.assert_allclose(deployed, expected, atol=1e-12)


class TestTimeVaryingMap:
    """Any D_t(θ): the regret notions need no mixture."""

    def world(self):
        def distribution(t, theta):
            slope = 0.3 + 0.2 * jnp.cos(1.0 * t)
            return pp.Gaussian(jnp.sin(1.0 * t) + slope * theta, 1.0)

        return pp.World(
            map=pp.maps.custom(distribution=distribution, dimension=1),
            loss=pp.losses.squared(),
            domain=pp.domains.box([-10.0], [10.0]),
            rounds=6,
        )

    def test_its_targets_retraining_and_regret(self):
        t = np.arange(1, 7)
        slope, offset = 0.3 + 0.2 * np.cos(t), np.sin(t)
        stable = offset / (1 - slope)
        world = self.world()
        np.testing.assert_allclose(pp.stable_points(world).values[:, 0], stable, atol=1e-10)
        np.testing.assert_allclose(pp.optimal_points(world).values[:, 0], stable, atol=1e-9)
        theta = [1.5]
        for k in range(5):
            theta.append(offset[k] + slope[k] * theta[-1])
        run = pp.simulate(world, pp.learners.rrm(), start=[1.5])
        np.testing.assert_allclose(run.deployed.values[0, :, 0, 0], theta, atol=1e-10)
        excess = 0.5 * ((1 - slope) * (theta - stable)) ** 2
        np.testing.assert_allclose(run.regret("stable").values[0], np.cumsum(excess), atol=1e-10)
