"""Random worlds against the oracle of `reference.py`, and the quadrature against mpmath."""

import functools
from collections.abc import Iterator

import jax
import numpy as np
import pytest

import performative as pp
from reference import World, affine_fixed_points, build, precise_logistic_moments, random_world

CASES = {
    "squared, box": {"loss": "squared", "domain": "box"},
    "squared, box active": {"loss": "squared", "domain": "box", "active": True},
    "squared, ball active, spread responds": {
        "loss": "squared",
        "domain": "ball",
        "active": True,
        "scaled": True,
    },
    "squared, rows, ball": {"loss": "squared", "domain": "ball", "components": "empirical"},
    "squared, rows, simplex": {"loss": "squared", "domain": "simplex", "components": "empirical"},
    "logistic, ball": {"loss": "logistic", "domain": "ball"},
    "logistic, ball active": {"loss": "logistic", "domain": "ball", "active": True},
    "logistic, box active": {"loss": "logistic", "domain": "box", "active": True},
    "logistic, ball, spread responds": {"loss": "logistic", "domain": "ball", "scaled": True},
    "logistic, rows, ball active": {
        "loss": "logistic",
        "domain": "ball",
        "components": "empirical",
        "active": True,
    },
    "logistic, rows and Gaussian drift, l1 ball active": {
        "loss": "logistic",
        "domain": "l1_ball",
        "components": "mixed",
        "active": True,
    },
    "labelled squared, intercept, ball": {
        "loss": "labelled squared",
        "domain": "ball",
        "components": "empirical",
        "intercept": True,
    },
    "labelled squared, intercept, ball active": {
        "loss": "labelled squared",
        "domain": "ball",
        "components": "empirical",
        "intercept": True,
        "active": True,
    },
    "labelled squared, Gaussian rows, box active": {
        "loss": "labelled squared",
        "domain": "box",
        "active": True,
    },
    "labelled logistic, box active": {
        "loss": "labelled logistic",
        "domain": "box",
        "components": "empirical",
        "active": True,
    },
    "labelled logistic, free intercept, ball": {
        "loss": "labelled logistic",
        "domain": "ball",
        "components": "empirical",
        "intercept": True,
    },
    "labelled logistic, penalised intercept, ball active": {
        "loss": "labelled logistic",
        "domain": "ball",
        "components": "empirical",
        "intercept": True,
        "penalise_intercept": True,
        "active": True,
    },
}
ROUNDS = (1, 2, 5)


class Pair:
    """One description, as the oracle's world and as the library's."""

    def __init__(self, name: str):
        self.description = random_world(np.random.default_rng(sum(map(ord, name))), **CASES[name])
        self.oracle = World.of(self.description)
        self.world = build(self.description)
        draws = np.random.default_rng(17).normal(size=(3, self.oracle.parameters))
        self.thetas, self.deployed = draws.copy(), 0.5 * draws[2]
        self.thetas[2] = 0.0  # the origin is an ordinary point

    @functools.cached_property
    def run(self) -> pp.Run:
        """Repeated risk minimisation in the library's world."""
        start = self.description["start"]
        against = ("stable", "optimal")
        return pp.simulate(self.world, pp.learners.rrm(), start=start, against=against)


@pytest.fixture(params=CASES, scope="module")
def pair(request) -> Iterator[Pair]:
    yield Pair(request.param)
    # Compiled programs hold hundreds of memory maps each, of which a process may have 65,530.
    if f"{request.param} active" not in CASES:  # which would share them
        jax.clear_caches()


def agree(actual, expected, digits: float = 1e-9) -> None:
    """Equal to `digits`, relative to the size of what is expected when that is above one."""
    np.testing.assert_allclose(np.asarray(actual), expected, rtol=digits, atol=digits)


def test_risk(pair):
    for t in ROUNDS:
        expected = [pair.oracle.risk(t, theta) for theta in pair.thetas]
        agree(pair.world.risk(t, pair.thetas), expected)
        agree(pair.world.risk(t, pair.thetas[0]), expected[0])


def test_decoupled_risk(pair):
    for t in ROUNDS:
        expected = [pair.oracle.decoupled_risk(t, theta, pair.deployed) for theta in pair.thetas]
        agree(pair.world.decoupled_risk(t, pair.thetas, pair.deployed), expected)


def test_gradient(pair):
    for t in ROUNDS:
        expected = [pair.oracle.gradient(t, theta, pair.deployed) for theta in pair.thetas]
        agree(pair.world.gradient(t, pair.thetas, pair.deployed), expected)


def test_hessian(pair):
    for t in ROUNDS:
        expected = [pair.oracle.hessian(t, theta, pair.deployed) for theta in pair.thetas]
        agree(pair.world.hessian(t, pair.thetas, pair.deployed), expected)


def test_total_gradient(pair):
    for t in ROUNDS:
        expected = [pair.oracle.total_gradient(t, theta) for theta in pair.thetas]
        agree(pair.world.total_gradient(t, pair.thetas), expected)


def test_mean_and_covariance_of_a_round(pair):
    distribution = pair.world.distribution(5, pair.deployed)
    components = [(w, *law.moments()) for w, law in pair.oracle.components(5, pair.deployed)]
    mean = sum(w * m for w, m, _ in components)
    covariance = sum(w * (c + np.outer(m - mean, m - mean)) for w, m, c in components)
    agree(distribution.mean, mean, 1e-12)
    agree(distribution.covariance, covariance, 1e-12)


@pytest.mark.parametrize(
    "name",
    [
        "logistic, ball, spread responds",
        "logistic, rows and Gaussian drift, l1 ball active",
        "labelled logistic, penalised intercept, ball active",
    ],
)
def test_drawn_rows_have_the_mean_of_the_round(name):
    pair, n = Pair(name), 20_000
    rows = pair.world.sample(5, pair.deployed, n, seed=3)
    distribution = pair.world.distribution(5, pair.deployed)
    assert rows.shape == (n, len(pair.oracle.matrix))
    error = (rows.mean(0) - distribution.mean) / np.sqrt(np.diag(distribution.covariance) / n)
    assert np.abs(error).max() < 4.5


def test_stable_points(pair):
    agree(pp.stable_points(pair.world), pair.oracle.stable_points())


def test_optimal_points(pair):
    agree(pp.optimal_points(pair.world), pair.oracle.optimal_points(), 1e-8)


def test_targets_of_an_ordinary_world_are_certified(pair):
    points = pp.stable_points(pair.world)
    assert points.dims == ("round", "parameter")
    assert list(points["round"].values) == list(range(1, pair.oracle.rounds + 1))
    assert np.all(points.residual < 1e-9)
    assert np.all(points.certificate < 1e-9)
    assert set(points.status.values) <= {"certified", "local"}


def test_rrm_deploys_the_minimiser_of_the_last_round(pair):
    assert pair.run.deployed.dims == ("run", "round", "arm", "parameter")
    agree(pair.run.deployed[0, :, 0], pair.oracle.rrm(pair.description["start"]))


def test_stability_and_optimality_regret_of_rrm(pair):
    oracle = pair.oracle
    deployed = oracle.rrm(pair.description["start"])
    agree(pair.run.regret("stable")[0], oracle.regret(deployed, oracle.stable_points()))
    agree(pair.run.regret("optimal")[0], oracle.regret(deployed, oracle.optimal_points()), 1e-8)


@pytest.mark.filterwarnings("ignore:The stable points")
@pytest.mark.parametrize("seed", range(5))
def test_a_strong_response_gets_a_stable_point_or_a_flag_and_certificates_are_true(seed):
    """Responses of norm 1 to 6 on a box: the oracle lists all stable points of every round."""
    rng = np.random.default_rng(seed)
    description = random_world(rng, loss="squared", domain="box", active=True)
    description["matrix"] = rng.uniform(2.0, 12.0) * description["matrix"]
    points = pp.stable_points(build(description))
    oracle = World.of(description)
    for t, alpha in enumerate(oracle.alphas, 1):
        offset = (1 - alpha) * oracle.base.mean + alpha * oracle.drift[t - 1].mean
        every = affine_fixed_points((1 - alpha) * oracle.matrix, offset, oracle.domain)
        point, status = points.values[t - 1], points.status.values[t - 1]
        if status != "unsolved":
            assert min(np.linalg.norm(point - other) for other in every) < 1e-9
        if status == "certified":
            assert len(every) == 1
        if status == "not unique":
            assert len(every) > 1


@pytest.mark.parametrize("domain", ["interior", "ball", "box"])
def test_stable_points_of_a_population_that_turns_retraining_away(domain):
    """An antisymmetric response of norm 2: retraining spirals out, yet one stable point exists."""
    matrix = np.array([[0.0, 2.0, 0.0], [-2.0, 0.0, 0.0], [0.0, 0.0, -1.5]])
    base = {"mean": np.array([1.0, -0.5, 0.8]), "cov": np.eye(3)}
    description = {
        "matrix": matrix,
        "scales": None,
        "strategic": None,
        "base": base,
        "drift": {"mean": np.full((6, 3), 0.3), "cov": np.eye(3)},
        "alphas": np.array([0.0, 0.1, 0.2, 0.3, 0.6, 1.0]),
        "loss": ("squared", {}),
        "domain": {
            "interior": ("box", {"lower": -np.full(3, 5.0), "upper": np.full(3, 5.0)}),
            "ball": ("ball", {"radius": 0.3}),
            "box": ("box", {"lower": -np.full(3, 0.2), "upper": np.full(3, 0.3)}),
        }[domain],
    }
    oracle = World.of(description)
    expected = [oracle.stable_point(t, step=0.15) for t in range(1, 7)]
    if domain == "interior":
        closed = np.linalg.solve(np.eye(3) - matrix, base["mean"])
        np.testing.assert_allclose(expected[0], closed, atol=1e-12)
    agree(pp.stable_points(build(description)), expected)


def test_path_length(pair):
    points = pair.oracle.stable_points()
    steps = np.linalg.norm(np.diff(points, axis=0), axis=1)
    path = pp.path_length(pp.stable_points(pair.world))
    assert path.dims == ("round",)
    assert float(path[-1]) == pytest.approx(steps.sum(), rel=1e-8)


DIRECTION = np.array([0.6, 0.0, 0.8])
ACROSS = np.array([0.8, 0.3, -0.6])


def one_gaussian(mean: float, std: float, radius: float = 1.0, l2: float = 0.0) -> pp.World:
    """One round in which θ·z ~ N(mean, std²) at θ = DIRECTION, with some spread across it."""
    along = np.outer(DIRECTION, DIRECTION)
    gaussian = pp.Gaussian(mean * DIRECTION + ACROSS, std**2 * along + 0.01 * (np.eye(3) - along))
    return pp.World(
        response=pp.responses.location(np.zeros((3, 3)), gaussian),
        drift=pp.drifts.fixed(gaussian),
        mixing=pp.mixing.constant(0.5),
        loss=pp.losses.logistic(l2=l2),
        domain=pp.domains.ball(radius),
        rounds=1,
    )


@pytest.mark.parametrize("std", [0.0, 0.1, 1.0, 2.0, 3.0, 5.0])
@pytest.mark.parametrize("mean", [-4.0, 0.0, 1.3, 4.0])
def test_quadrature_is_right_to_1e_10(mean, std):
    world = one_gaussian(mean, std)
    value, first, second, third, fourth = precise_logistic_moments(mean, std)
    m, v = mean * DIRECTION + ACROSS, std**2 * DIRECTION
    covariance = std**2 * np.outer(DIRECTION, DIRECTION)
    covariance += 0.01 * (np.eye(3) - np.outer(DIRECTION, DIRECTION))
    mixed = np.outer(m, v)
    hessian = second * (covariance + np.outer(m, m)) + third * (mixed + mixed.T)
    hessian += fourth * np.outer(v, v)
    agree(world.risk(1, DIRECTION), value, 1e-10)
    agree(world.gradient(1, DIRECTION, DIRECTION), first * m + second * v, 1e-10)
    agree(world.hessian(1, DIRECTION, DIRECTION), hessian, 1e-10)


def test_quadrature_stays_right_outside_the_domain():
    world = one_gaussian(mean=1.0, std=5.0, radius=0.2)
    for factor in (1.0, 4.0):
        exact = precise_logistic_moments(factor, 5.0 * factor)
        assert world.risk(1, factor * DIRECTION) == pytest.approx(exact[0], abs=1e-10)
        gradient = exact[1] * (DIRECTION + ACROSS) + exact[2] * 25.0 * factor * DIRECTION
        agree(world.gradient(1, factor * DIRECTION, DIRECTION), gradient, 1e-9)


def test_the_origin_is_an_ordinary_point_of_the_logistic_loss():
    world = one_gaussian(mean=0.7, std=1.5)
    zero, m = np.zeros(3), 0.7 * DIRECTION + ACROSS
    along = np.outer(DIRECTION, DIRECTION)
    covariance = 1.5**2 * along + 0.01 * (np.eye(3) - along)
    assert world.risk(1, zero) == pytest.approx(np.log(2.0), abs=1e-14)
    agree(world.gradient(1, zero, zero), -0.5 * m, 1e-13)
    agree(world.total_gradient(1, zero), -0.5 * m, 1e-13)
    agree(world.hessian(1, zero, zero), 0.25 * (covariance + np.outer(m, m)), 1e-13)


def test_a_population_without_a_mean_has_its_stable_point_at_the_origin():
    gaussian = pp.Gaussian(np.zeros(3), np.diag([2.0, 1.0, 0.0]))
    world = pp.World(
        response=pp.responses.location(0.1 * np.eye(3), gaussian),
        drift=pp.drifts.fixed(gaussian),
        mixing=pp.mixing.constant(0.5),
        loss=pp.losses.logistic(l2=0.5),
        domain=pp.domains.ball(1.0),
        rounds=1,
    )
    agree(pp.stable_points(world), np.zeros((1, 3)), 1e-13)
    agree(pp.optimal_points(world), np.zeros((1, 3)), 1e-10)
