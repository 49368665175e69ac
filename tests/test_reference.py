"""The oracle tested by itself: finite differences, mpmath, Monte Carlo, other solvers."""

import itertools

import numpy as np
import pytest
from scipy import optimize

from reference import (
    Ball,
    Box,
    Halfspace,
    L1Ball,
    LabelledLogistic,
    LabelledSquared,
    Logistic,
    Normal,
    Rows,
    Simplex,
    Squared,
    World,
    affine_fixed_points,
    box_quadratic,
    logistic_moments,
    minimise,
    precise_logistic_moments,
    random_world,
)

WORLDS = {
    "squared, gaussian": {"loss": "squared", "domain": "box", "scaled": True},
    "squared, empirical": {
        "loss": "squared",
        "domain": "ball",
        "components": "empirical",
        "scaled": True,
    },
    "logistic, gaussian": {"loss": "logistic", "domain": "ball", "scaled": True},
    "logistic, mixed": {
        "loss": "logistic",
        "domain": "l1_ball",
        "components": "mixed",
        "scaled": True,
    },
    "labelled squared": {"loss": "labelled squared", "components": "empirical", "intercept": True},
    "labelled squared, gaussian": {"loss": "labelled squared", "domain": "box", "intercept": True},
    "labelled logistic": {"loss": "labelled logistic", "components": "empirical", "domain": "box"},
    "labelled logistic, intercept": {
        "loss": "labelled logistic",
        "components": "empirical",
        "intercept": True,
        "penalise_intercept": True,
    },
}


@pytest.fixture(params=WORLDS, scope="module")
def world(request) -> World:
    return World.of(random_world(np.random.default_rng(7), rounds=4, **WORLDS[request.param]))


@pytest.fixture(scope="module")
def points(world) -> tuple[np.ndarray, np.ndarray]:
    return tuple(0.5 * np.random.default_rng(8).normal(size=(2, world.parameters)))


def difference(function, at, h=1e-5):
    """Central differences along the coordinate axes, the differentiated axis last."""
    slopes = [(function(at + h * e) - function(at - h * e)) / (2 * h) for e in np.eye(len(at))]
    return np.stack(slopes, -1)


def test_gradient_is_the_derivative_of_the_decoupled_risk(world, points):
    theta, deployed = points
    expected = difference(lambda x: world.decoupled_risk(4, x, deployed), theta)
    np.testing.assert_allclose(world.gradient(4, theta, deployed), expected, atol=2e-9)


def test_hessian_is_the_derivative_of_the_gradient(world, points):
    theta, deployed = points
    expected = difference(lambda x: world.gradient(4, x, deployed), theta)
    np.testing.assert_allclose(world.hessian(4, theta, deployed), expected, atol=2e-9)


def test_cross_is_the_derivative_of_the_gradient_in_the_deployed_model(world, points):
    theta, deployed = points
    expected = difference(lambda x: world.gradient(4, theta, x), deployed)
    np.testing.assert_allclose(world.cross(4, theta, deployed), expected, atol=2e-9)


def test_total_gradient_is_the_derivative_of_the_risk(world, points):
    for theta in (*points, np.zeros(world.parameters)):
        expected = difference(lambda x: world.risk(4, x), theta)
        np.testing.assert_allclose(world.total_gradient(4, theta), expected, atol=2e-9)


def test_curvature_bounds_the_hessian(world, points):
    for theta, deployed in itertools.product(points, points):
        largest = np.linalg.eigvalsh(world.hessian(3, theta, deployed))[-1]
        assert largest <= world.curvature(3, deployed) * (1 + 1e-12)


def draw(law, rng, n):
    if isinstance(law, Rows):
        return law.rows[rng.choice(len(law.rows), n, p=law.weights)]
    return rng.multivariate_normal(law.mean, law.cov, n)


def test_decoupled_risk_is_the_mean_loss_of_drawn_rows(world, points):
    theta, deployed = points
    rng, n = np.random.default_rng(9), 200_000
    mean = variance = 0.0
    for weight, law in world.components(4, deployed):
        losses = world.loss.row_value(draw(law, rng, n), theta)
        mean, variance = mean + weight * losses.mean(), variance + weight**2 * losses.var() / n
    assert abs(mean - world.decoupled_risk(4, theta, deployed)) < 4.0 * np.sqrt(variance)


def gauss_hermite(mean, cov, order):
    """Rows that integrate polynomials under N(mean, cov) exactly."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(order)
    grid = np.array(list(itertools.product(nodes, repeat=len(mean))))
    product = np.prod(list(itertools.product(weights, repeat=len(mean))), 1)
    return Rows(mean + grid @ np.linalg.cholesky(cov).T, product / product.sum())


@pytest.mark.parametrize(
    ("loss", "p", "order", "error"),
    [
        (Squared(), 2, 3, 1e-13),
        (Logistic(0.5), 2, 60, 1e-11),
        (LabelledSquared(0.5), 1, 3, 1e-13),
        (LabelledSquared(0.5, intercept=True), 2, 3, 1e-13),
    ],
)
def test_gaussian_formulas_agree_with_a_cubature_of_rows(loss, p, order, error):
    rng = np.random.default_rng(11)
    gaussian = Normal(rng.normal(size=2), np.array([[0.9, 0.2], [0.2, 0.5]]))
    matrix, scales = 0.3 * rng.normal(size=(2, p)), 0.2 * rng.normal(size=(p, 2, 2))
    theta, deployed = rng.normal(size=(2, p))
    worlds = [
        World(law, matrix, [law], np.array([0.3]), loss, Ball(9.0), scales)
        for law in (gaussian, gauss_hermite(gaussian.mean, gaussian.cov, order))
    ]
    for what in ("decoupled_risk", "gradient", "hessian", "cross", "response_gradient"):
        exact, cubature = (getattr(world, what)(1, theta, deployed) for world in worlds)
        np.testing.assert_allclose(exact, cubature, atol=error, err_msg=what)


@pytest.mark.parametrize("std", [0.0, 0.1, 1.0, 3.0, 5.0])
@pytest.mark.parametrize("mean", [-4.0, 0.5])
def test_logistic_moments_agree_with_mpmath(mean, std):
    expected = precise_logistic_moments(mean, std)
    np.testing.assert_allclose(logistic_moments(mean, std**2), expected, atol=2e-14)


DOMAINS = [
    Ball(0.8),
    Box(np.array([-0.5, -0.2, -1.0]), np.array([0.1, 0.4, 0.3])),
    Simplex(1.5),
    L1Ball(0.7),
    Halfspace(np.array([1.0, -2.0, 0.5]), 0.3),
]


def by_name(value):
    return type(value).__name__


@pytest.mark.parametrize("domain", DOMAINS, ids=by_name)
def test_a_projection_is_the_nearest_point(domain):
    rng = np.random.default_rng(0)
    inside = [domain.project(x) for x in 3 * rng.normal(size=(200, 3))]
    for x in 2 * rng.normal(size=(50, 3)):
        nearest = domain.project(x)
        assert domain.slack(nearest) >= -1e-14
        np.testing.assert_allclose(domain.project(nearest), nearest, atol=1e-14)
        assert max((x - nearest) @ (y - nearest) for y in inside) <= 1e-13


def constraints(domain):
    """The domain in SLSQP's words, over θ or, for the ℓ1 ball, over its 2^d faces."""
    if isinstance(domain, Ball):
        return {}, [{"type": "ineq", "fun": lambda x: domain.radius**2 - x @ x}]
    if isinstance(domain, Box):
        return {"bounds": list(zip(domain.lower, domain.upper, strict=True))}, []
    if isinstance(domain, Simplex):
        return {"bounds": [(0, None)] * 3}, [
            {"type": "eq", "fun": lambda x: x.sum() - domain.scale}
        ]
    if isinstance(domain, L1Ball):
        faces = np.array(list(itertools.product((-1, 1), repeat=3)))
        return {}, [{"type": "ineq", "fun": lambda x: domain.radius - faces @ x}]
    return {}, [{"type": "ineq", "fun": lambda x: domain.offset - domain.normal @ x}]


@pytest.mark.parametrize("domain", DOMAINS, ids=by_name)
def test_retraining_agrees_with_slsqp(domain):
    description = random_world(np.random.default_rng(3), loss="logistic", rounds=3)
    free = World.of(description)
    world = World(free.base, free.matrix, free.drift, free.alphas, free.loss, domain)
    deployed = domain.project(np.zeros(3))
    bounds, nonlinear = constraints(domain)
    other = optimize.minimize(
        lambda x: world.decoupled_risk(3, x, deployed),
        deployed,
        jac=lambda x: world.gradient(3, x, deployed),
        method="SLSQP",
        constraints=nonlinear,
        options={"ftol": 1e-15, "maxiter": 500},
        **bounds,
    ).x
    np.testing.assert_allclose(world.argmin(3, deployed), other, atol=1e-6)


def test_retraining_on_a_ball_agrees_with_its_multiplier():
    world = World.of(random_world(np.random.default_rng(4), loss="logistic", active=True, rounds=3))
    deployed, radius = np.zeros(3), world.domain.radius

    def penalised(nu):
        def system(x):
            return world.gradient(3, x, deployed) + nu * x

        def jacobian(x):
            return world.hessian(3, x, deployed) + nu * np.eye(3)

        return optimize.root(system, np.zeros(3), jac=jacobian, tol=1e-15).x

    nu = optimize.brentq(
        lambda nu: np.linalg.norm(penalised(nu)) - radius, 0.0, 50.0, xtol=1e-15, rtol=1e-15
    )
    assert nu > 0.01
    np.testing.assert_allclose(world.argmin(3, deployed), penalised(nu), atol=1e-12)


def test_enumerated_active_sets_agree_with_projected_gradient():
    rng = np.random.default_rng(5)
    for _ in range(10):
        factor = rng.normal(size=(4, 4))
        hessian, linear = factor @ factor.T + 0.3 * np.eye(4), 2 * rng.normal(size=4)
        box = Box(-rng.uniform(0.1, 1, 4), rng.uniform(0.1, 1, 4))
        steepest = np.linalg.eigvalsh(hessian)[-1]
        other = minimise(lambda x, h=hessian, c=linear: h @ x - c, box, np.zeros(4), steepest)
        np.testing.assert_allclose(box_quadratic(hessian, linear, box), other, atol=1e-11)


def test_interior_stable_and_optimal_points_of_the_quadratic_world_have_closed_forms():
    world = World.of(random_world(np.random.default_rng(6), loss="squared", domain="box"))
    identity, m = np.eye(3), world.base.mean
    for t, alpha in enumerate(world.alphas, 1):
        m_t = world.drift[t - 1].mean
        stable = np.linalg.solve(
            identity - (1 - alpha) * world.matrix, (1 - alpha) * m + alpha * m_t
        )
        k = identity - world.matrix
        hessian = (1 - alpha) * k.T @ k + alpha * identity
        optimal = np.linalg.solve(hessian, (1 - alpha) * k.T @ m + alpha * m_t)
        np.testing.assert_allclose(world.stable_point(t), stable, atol=1e-13)
        np.testing.assert_allclose(world.optimal_point(t), optimal, atol=1e-12)


def test_a_box_has_the_fixed_points_that_active_sets_say():
    """One dimension, slope 2: the middle one repels, both ends attract."""
    box = Box(np.array([-1.0]), np.array([3.0]))
    found = affine_fixed_points(np.array([[2.0]]), np.array([-1.0]), box)
    np.testing.assert_allclose(np.sort(np.ravel(found)), [-1.0, 1.0, 3.0], atol=1e-14)
    world = World.of(
        random_world(np.random.default_rng(1), loss="squared", domain="box", active=True)
    )
    for t, alpha in enumerate(world.alphas, 1):
        offset = (1 - alpha) * world.base.mean + alpha * world.drift[t - 1].mean
        (only,) = affine_fixed_points((1 - alpha) * world.matrix, offset, world.domain)
        np.testing.assert_allclose(only, world.stable_point(t), atol=1e-12)


def test_a_stable_point_is_reached_from_everywhere(world):
    for start in (np.full(world.parameters, 0.9), -np.ones(world.parameters)):
        np.testing.assert_allclose(world.stable_point(4, start), world.stable_point(4), atol=1e-11)


def test_no_point_nearby_or_far_has_less_risk_than_the_optimal_point(world):
    rng, optimal = np.random.default_rng(2), world.optimal_point(4)
    others = [
        world.domain.project(optimal + scale * rng.normal(size=world.parameters))
        for scale in (0.01, 0.1, 1.0)
    ]
    others.append(world.stable_point(4))
    assert all(world.risk(4, other) >= world.risk(4, optimal) - 1e-14 for other in others)


def test_an_active_boundary_is_active_and_an_inactive_one_is_not():
    for domain, active in itertools.product(("ball", "box", "l1_ball"), (True, False)):
        description = random_world(
            np.random.default_rng(1), loss="squared", domain=domain, active=active
        )
        world = World.of(description)
        slacks = [world.domain.slack(point) for point in world.stable_points()]
        assert max(np.abs(slacks)) < 1e-14 if active else min(slacks) > 0.5


def test_clipping_the_unconstrained_stable_point_is_not_the_stable_point():
    description = random_world(np.random.default_rng(1), loss="squared", domain="box", active=True)
    world = World.of(description)
    free = World(world.base, world.matrix, world.drift, world.alphas, world.loss, Ball(1e6))
    clipped = world.domain.project(free.stable_point(2))
    assert np.linalg.norm(clipped - world.stable_point(2)) > 1e-2


def test_retraining_contracts_towards_the_stable_point_of_a_round(world):
    target, theta = world.stable_point(4), world.domain.project(np.full(world.parameters, 0.5))
    for _ in range(3):
        new = world.argmin(4, theta)
        assert np.linalg.norm(new - target) < 0.6 * np.linalg.norm(theta - target) + 1e-12
        theta = new


def test_excess_risk_is_a_difference_of_risks_without_its_rounding(world, points):
    theta, target = points
    expected = world.risk(4, theta) - world.risk(4, target)
    assert world.excess_risk(4, theta, target) == pytest.approx(expected, abs=1e-13)
    tiny = target + 1e-9 * (theta - target)
    slope = world.total_gradient(4, target) @ (tiny - target)
    assert world.excess_risk(4, tiny, target) == pytest.approx(slope, rel=1e-6)


def test_labelled_logistic_with_labels_folded_in_is_the_signed_loss():
    rng = np.random.default_rng(12)
    x, y, theta = rng.normal(size=(9, 3)), rng.choice([-1.0, 1.0], 9), rng.normal(size=3)
    labelled, signed = LabelledLogistic(0.4), Logistic(0.4)
    rows = np.column_stack([x, y])
    np.testing.assert_allclose(
        labelled.row_value(rows, theta), signed.row_value(y[:, None] * x, theta), atol=1e-15
    )
