"""Responses and maps: what a deployed model does to the data, and to derivatives through them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import performative as pp

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(6, 2))
MATRIX = np.array([[0.5, -0.2], [0.1, 0.3]])
SCALES = 0.2 * RNG.normal(size=(2, 2, 2))
THETA = np.array([0.7, -0.4])
BASES = {
    "gaussian": pp.Gaussian([1.0, -1.0], [[1.0, 0.3], [0.3, 0.5]]),
    "empirical": pp.Empirical(ROWS, [0.1, 0.2, 0.1, 0.3, 0.2, 0.1]),
    "mixture": pp.Mixture([pp.Gaussian([3.0, 0.0], 0.2), pp.Empirical(ROWS)], [0.4, 0.6]),
}


def world_of(response, **pieces):
    options = {"loss": pp.losses.squared(), "domain": pp.domains.ball(5.0), "rounds": 4}
    return pp.World(response=response, **(options | pieces))


@pytest.mark.parametrize("base", BASES.values(), ids=BASES)
def test_location_moves_the_mean_and_nothing_else(base):
    data = world_of(pp.responses.location(MATRIX, base)).distribution(1, THETA)
    np.testing.assert_allclose(data.mean, base.mean + MATRIX @ THETA, atol=1e-12)
    np.testing.assert_allclose(data.covariance, base.covariance, atol=1e-12)


@pytest.mark.parametrize("base", BASES.values(), ids=BASES)
def test_location_scale_spreads_about_the_mean(base):
    response = pp.responses.location_scale(MATRIX, SCALES, base)
    data = world_of(response).distribution(1, THETA)
    spread = np.eye(2) + THETA[0] * SCALES[0] + THETA[1] * SCALES[1]
    np.testing.assert_allclose(data.mean, base.mean + MATRIX @ THETA, atol=1e-12)
    np.testing.assert_allclose(data.covariance, spread @ base.covariance @ spread.T, atol=1e-12)


@pytest.mark.parametrize("loss", [pp.losses.squared, pp.losses.logistic])
def test_agents_move_modifiable_features_and_neither_label_nor_intercept(loss):
    rows = np.column_stack([RNG.normal(size=(8, 3)), RNG.choice([-1.0, 1.0], 8)])
    response = pp.responses.strategic(pp.Empirical(rows), [0, 2], strength=0.5)
    world = world_of(response, loss=loss(l2=1.0, labelled=True, intercept=True))
    theta = np.array([1.0, 2.0, 3.0, 4.0])
    moved = rows.mean(axis=0) + np.array([0.5, 0.0, 1.5, 0.0])
    np.testing.assert_allclose(world.distribution(1, theta).mean, moved, atol=1e-12)


def test_how_strongly_agents_move_labelled_rows_is_seen_if_the_loss_says_what_a_label_is():
    rows = np.column_stack([RNG.normal(size=(8, 3)), RNG.choice([-1.0, 1.0], 8)])
    response = pp.responses.strategic(pp.Empirical(rows), [True, False, True], strength=0.5)
    loss = pp.losses.logistic(labelled=True, intercept=True)
    found = pp.sensitivity(response, pp.domains.ball(1.0), n=8, pairs=256, loss=loss)
    assert 0.45 < found.value <= 0.5 + 1e-12


def test_the_best_response_is_what_an_agent_would_choose():
    # maximise θᵀx − |x − x₀|² / 2a over the modifiable column, on a fine grid
    strength, x0 = 0.3, np.array([0.2, -0.5, 1.0])
    response = pp.responses.strategic(pp.Empirical([x0]), [False, True, False], strength)
    theta = np.array([1.0, -0.8, 0.4])
    grid = np.linspace(-3, 3, 60_001)
    best = grid[np.argmax(theta[1] * grid - (grid - x0[1]) ** 2 / (2 * strength))]
    moved = world_of(response).distribution(1, theta).mean
    np.testing.assert_allclose(moved, [x0[0], best, x0[2]], atol=1e-4)


def coin(key, theta, n):
    """Heads with a probability that the model moves; constant in θ almost everywhere."""
    return (jax.random.uniform(key, (n, 1)) < 0.5 + 0.3 * theta[0]).astype(jnp.float64)


@pytest.mark.parametrize("b", [0.0, 1.0], ids=["alpha 1", "alpha_1 = 1, then less"])
def test_a_sampler_that_tosses_coins_is_known_even_if_nothing_responds_in_round_one(b):
    world = pp.World(
        response=pp.responses.custom(coin, dimension=1),
        drift=pp.drifts.fixed(pp.Gaussian([0.0], 1.0)),
        mixing=pp.mixing.polynomial(b),
        loss=pp.losses.squared(),
        domain=pp.domains.box(-1.0, 1.0),
        rounds=4,
        draws=20_000,
    )
    assert not world.pathwise
    theta, alpha = 0.2, world.alphas[3]
    p = 0.5 + 0.3 * theta
    through_coin = 0.5 * (0.3 - 2 * p - 0.6 * theta + 2 * theta)
    expected = (1 - alpha) * through_coin + alpha * theta
    assert float(world.total_gradient(4, [theta])[0]) == pytest.approx(expected, abs=0.03)


def test_a_map_that_tosses_coins_later_is_known_too():
    def later(key, t, theta, n):
        rows = jax.random.normal(key, (n, 1)) + theta[0]
        return jnp.where(t > 1, coin(key, theta, n), rows)

    mapping = pp.maps.custom(later, dimension=1)
    world = pp.World(
        map=mapping, loss=pp.losses.squared(), domain=pp.domains.box(-1, 1), rounds=4, draws=100
    )
    assert not world.pathwise


@pytest.mark.parametrize("backend", ["jax", "numpy"])
def test_a_sampler_agrees_with_the_closed_form_within_its_standard_error(backend):
    def in_jax(key, theta, n):
        return jax.random.normal(key, (n, 2)) + MATRIX @ theta

    def in_numpy(rng, theta, n):
        return rng.normal(size=(n, 2)) + MATRIX @ theta

    sampler = in_jax if backend == "jax" else in_numpy
    own = world_of(pp.responses.custom(sampler, dimension=2, backend=backend), draws=4000)
    exact = world_of(pp.responses.location(MATRIX, pp.Gaussian([0.0, 0.0], 1.0)))
    seen = own.explain(2, THETA)
    assert seen.rung == "monte carlo"
    assert 0 < seen.standard_error < 0.05
    assert abs(seen.value - exact.risk(2, THETA)) < 4 * seen.standard_error
    slope = own.total_gradient(2, THETA)
    np.testing.assert_allclose(slope, exact.total_gradient(2, THETA), atol=0.1)
    step = 1e-4
    own_slope = [
        (own.risk(2, THETA + step * e) - own.risk(2, THETA - step * e)) / (2 * step)
        for e in np.eye(2)
    ]
    np.testing.assert_allclose(slope, own_slope, atol=1e-8)  # of the same draws


def test_a_numpy_map_is_told_the_round():
    def rows(rng, t, theta, n):
        return rng.normal(size=(n, 1)) * 1e-3 + t

    mapping = pp.maps.custom(rows, dimension=1, backend="numpy")
    world = pp.World(
        map=mapping, loss=pp.losses.squared(), domain=pp.domains.ball(50.0), rounds=4, draws=10
    )
    drawn = [float(np.mean(world.sample(t, [0.0], 10))) for t in (1, 4)]
    np.testing.assert_allclose(drawn, [1.0, 4.0], atol=0.01)


def test_a_distribution_of_ones_own_stays_exact():
    def spreading(t, theta):
        return pp.Gaussian(jnp.sin(t) + MATRIX @ theta, (1 + 0.1 * theta[0] ** 2) * jnp.eye(2))

    mapping = pp.maps.custom(distribution=spreading, dimension=2)
    world = pp.World(map=mapping, loss=pp.losses.squared(), domain=pp.domains.ball(9.0), rounds=4)
    assert world.rung == "closed form"
    gap = np.sin(3) + MATRIX @ THETA - THETA
    assert world.risk(3, THETA) == pytest.approx(0.5 * gap @ gap + 1 + 0.1 * THETA[0] ** 2)
    keep = np.eye(2) - MATRIX
    stable = [np.linalg.solve(keep, np.full(2, np.sin(t))) for t in range(1, 5)]
    np.testing.assert_allclose(pp.stable_points(world), stable, atol=1e-10)
    curvature = keep.T @ keep + np.diag([0.2, 0.0])
    optimal = [np.linalg.solve(curvature, keep.T @ np.full(2, np.sin(t))) for t in range(1, 5)]
    np.testing.assert_allclose(pp.optimal_points(world), optimal, atol=1e-10)
