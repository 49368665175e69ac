"""Every constant against the worst of many models, and against figures derived elsewhere."""

import numpy as np
import pytest

import performative as pp
from performative.world.constants import Constants

ROUNDS, POINTS = 12, 600
rng = np.random.default_rng(0)
ROWS = rng.normal(size=(60, 3)) @ np.array([[1.0, 0.4, 0.0], [0.0, 0.7, 0.2], [0.0, 0.0, 1.3]])
LABELS = np.sign(ROWS @ [1.0, -0.5, 0.3] + 0.5 * rng.normal(size=60))
LABELLED = np.column_stack([ROWS, LABELS])
TILTED = np.array([[0.1, 0.3, 0.0], [-0.2, 0.1, 0.0], [0.0, 0.1, -0.2]])


def _credit():
    return pp.worlds.credit(b=0.5, rounds=ROUNDS)


def _quadratic():
    return pp.worlds.quadratic(dim=3, b=0.5, rounds=ROUNDS)


def _world(**pieces):
    return pp.World(
        mixing=pp.mixing.polynomial(0.5),
        rounds=ROUNDS,
        **{"domain": pp.domains.ball(1.5, center=[0.2, 0.0, -0.3]), **pieces},
    )


WORLDS = {
    "credit": _credit,
    "quadratic": _quadratic,
    "tilted logistic": lambda: _world(
        response=pp.responses.location(TILTED, pp.Gaussian([0.4, 0.0, 0.2], [1.0, 0.5, 2.0])),
        drift=pp.drifts.iid_ball([1.0, 0.5, 2.0], radius=0.7),
        loss=pp.losses.logistic(l2=0.4),
        domain=pp.domains.box(-1.0, [1.0, 0.5, 2.0]),
    ),
    "lagged squared": lambda: _world(
        response=pp.responses.lagged(
            pp.responses.location(TILTED, pp.Gaussian([0.4, 0.0, 0.2], [1.0, 0.5, 2.0])), 0.5
        ),
        drift=pp.drifts.iid_ball(0.3, radius=0.7),
        loss=pp.losses.squared(l2=0.5),
    ),
    "squared on rows": lambda: _world(
        response=pp.responses.location(TILTED, pp.Empirical(ROWS)),
        drift=pp.drifts.fixed(pp.Empirical(ROWS[:20] + 1.0)),
        loss=pp.losses.squared(),
    ),
    "three means": lambda: _world(
        response=pp.responses.location(0.1, pp.Gaussian([-3.0, 0.0, 0.0], 0.01)),
        drift=pp.drifts.recorded(
            pp.Mixture(
                [pp.Gaussian([1.5, 2.6, 0.0], 0.01), pp.Gaussian([1.5, -2.6, 0.0], 0.01)],
                np.full((ROUNDS, 2), 0.5),
            )
        ),
        loss=pp.losses.squared(),
        domain=pp.domains.ball(4.0),
    ),
    "labelled logistic": lambda: _world(
        response=pp.responses.strategic(pp.Empirical(LABELLED), [0, 1], 0.2),
        drift=pp.drifts.fixed(pp.Empirical(LABELLED[::3])),
        loss=pp.losses.logistic(l2=0.3, labelled=True),
    ),
    "labelled squared": lambda: _world(
        response=pp.responses.strategic(pp.Empirical(LABELLED), [0, 1], 0.05),
        drift=pp.drifts.fixed(pp.Empirical(LABELLED[::3])),
        loss=pp.losses.squared(l2=0.1, labelled=True, intercept=True),
        domain=pp.domains.ball(0.8),
    ),
}


@pytest.fixture(scope="module", params=WORLDS)
def case(request):
    """A world, its constants, and models over the whole domain and on its edge."""
    world = WORLDS[request.param]()
    draw = np.random.default_rng(1)
    inside = world.domain.draw(draw, POINTS, world.parameters)
    edge = world.domain.project(50 * draw.normal(size=(POINTS, world.parameters)))
    models = np.where(draw.random((POINTS, 1)) < 0.5, inside, edge)
    rounds = draw.integers(1, ROUNDS + 1, size=POINTS)
    return world, Constants(world), rounds, models


def _norms(values):
    return np.linalg.norm(values, axis=-1)


def _curvatures(square):
    return np.linalg.eigvalsh(square)


def test_curvature_of_the_risk_lies_between_mu_and_beta(case):
    world, constants, rounds, models = case
    found = _curvatures(world.hessian(rounds, models, models[::-1]))
    assert found.min() >= constants.strong_convexity.value - 1e-9
    assert found.max() <= constants.smoothness.value + 1e-9
    assert found.max() >= 0.4 * constants.smoothness.value


def test_gradient_follows_the_deployed_model_no_faster_than_the_coupling(case):
    world, constants, rounds, models = case
    other = models[::-1]
    third = np.roll(models, 7, axis=0)
    moved = _norms(world.gradient(rounds, third, models) - world.gradient(rounds, third, other))
    apart = _norms(models - other)
    assert np.all(moved <= constants.coupling[rounds - 1] * apart + 1e-9)
    near = models + 1e-5 * (other - models)
    moved = _norms(world.gradient(rounds, third, models) - world.gradient(rounds, third, near))
    assert np.all(moved <= constants.coupling[rounds - 1] * _norms(models - near) + 1e-12)


def test_gradient_of_the_performative_risk_is_below_l(case):
    world, constants, rounds, models = case
    steep = _norms(world.total_gradient(rounds, models))
    assert steep.max() <= constants.lipschitz.value + 1e-9
    assert steep.max() >= 0.25 * constants.lipschitz.value
    assert np.all(steep <= constants.lipschitz_rounds[rounds - 1] + 1e-9)


def test_curvature_of_the_performative_risk_lies_within_its_bounds(case):
    world, constants, rounds, models = case
    found = _curvatures(world.total_hessian(rounds, models))
    assert np.all(found.min(axis=1) >= constants.risk_convexities[rounds - 1] - 1e-9)
    assert found.max() <= constants.risk_smoothness.value + 1e-9
    assert found.max() >= 0.3 * constants.risk_smoothness.value


def _samples(world, t, theta, deployed, n=4000):
    import jax

    from performative.world.distributions import Noise

    with jax.enable_x64(True):
        here = world.at(t)
        noise = Noise.draw(jax.random.key(t), n, world.dimension)
        rows = here.rows(deployed, noise)
        slopes = jax.vmap(jax.grad(here.loss.value, argnums=1), (0, None))(rows, theta)
        values = jax.vmap(here.loss.value, (0, None))(rows, theta)
        return np.asarray(slopes), np.asarray(values)


def test_second_moments_of_gradient_and_loss_are_below_theirs(case):
    world, constants, rounds, models = case
    growth, scale = constants.noise_growth.value, constants.loss_scale.value
    worst = 0.0
    for i in range(0, 24):
        t, theta, deployed = int(rounds[i]), models[i], models[-1 - i]
        slopes, values = _samples(world, t, theta, deployed)
        square = np.sum(slopes**2, axis=1)
        if isinstance(world.loss, type(pp.losses.squared())) and not world.loss.labelled:
            mean = np.asarray(world.distribution(t, deployed).mean)
            best = world.domain.project(mean / (1 + float(world.loss.l2)))
            allowed = constants.noise.value + growth**2 * np.sum((theta - best) ** 2)
        else:
            assert growth == 0
            allowed = constants.noise.value
        error = square.std() / np.sqrt(len(square))
        assert square.mean() <= allowed + 4 * error
        worst = max(worst, square.mean() / allowed)
        assert np.mean(values**2) <= scale**2 + 4 * np.std(values**2) / np.sqrt(len(values))
    assert worst > 0.1


def test_kinds_say_that_these_are_proved(case):
    _, constants, _, _ = case
    for name in (
        "sensitivity",
        "smoothness",
        "data_smoothness",
        "lipschitz",
        "noise",
        "loss_scale",
    ):
        assert getattr(constants, name).kind == "rigorous"


def test_credit_constants_are_those_derived_by_hand():
    constants = Constants(pp.worlds.credit(b=1.0, rounds=2000))
    found = {
        "strong_convexity": 1.0,
        "smoothness": 2.244,
        "data_smoothness": 1.364,
        "lipschitz": 2.725,
        "noise": 23.95,
        "noise_growth": 0.0,
        "risk_smoothness": 2.519,
        "risk_convexity": 0.7274,
    }
    for name, value in found.items():
        assert getattr(constants, name).value == pytest.approx(value, rel=1e-3)
    assert constants.contraction.max() <= 0.137


def test_quadratic_constants_are_those_of_the_formulas():
    world = pp.worlds.quadratic(dim=4, b=1.0, rounds=40, half_width=2.0)
    constants = Constants(world)
    response = world.response
    stays = np.eye(4) - response.matrix
    norm, size = np.linalg.norm(stays, 2), 2.0 * 2.0
    mean = np.linalg.norm(response.base.mean)
    drift = world.at(slice(None)).exogenous.mean
    slope = max(norm * (norm * size + mean), size + np.linalg.norm(drift, axis=1).max())
    assert constants.lipschitz.value == pytest.approx(slope, rel=1e-12)
    apart = np.linalg.norm(drift - response.base.mean, axis=1).max() + 0.3 * size
    assert constants.noise.value == pytest.approx(4 * 0.25 + apart**2 / 4, rel=1e-12)
    away = max(norm * size + mean, size + np.linalg.norm(drift, axis=1).max())
    exact = np.sqrt((away**4 + 2 * 6 * 0.25 * away**2 + 4 * 6 * 0.25**2) / 4)
    assert constants.loss_scale.value == pytest.approx(exact, rel=0.02)
    assert constants.loss_scale.value >= exact * (1 - 1e-12)


def test_an_active_boundary_adds_to_the_noise():
    """The gradient does not vanish at a constrained minimiser, so σ² must cover it."""
    world = pp.World(
        response=pp.responses.location(0.0, pp.Gaussian([3.0], 1.0)),
        loss=pp.losses.squared(),
        domain=pp.domains.ball(1.0),
        rounds=1,
    )
    constants = Constants(world)
    for theta in (-1.0, 0.0, 1.0):
        expected = (theta - 3.0) ** 2 + 1.0
        allowed = constants.noise.value + constants.noise_growth.value**2 * (theta - 1.0) ** 2
        assert expected <= allowed + 1e-12
    assert constants.noise.value == pytest.approx(1.0 + 4.0 + 2 * 2.0 * 2.0)


def test_what_is_not_proved_is_computed_and_says_so():
    import jax.numpy as jnp

    def quartic(row, theta):
        return 0.5 * jnp.sum((row - theta) ** 2) + 0.25 * jnp.sum(theta**4)

    world = _world(
        response=pp.responses.location(0.2, pp.Empirical(ROWS)),
        drift=pp.drifts.fixed(pp.Empirical(ROWS)),
        loss=pp.losses.custom(quartic, parameters=3),
        domain=pp.domains.ball(1.0),
    )
    constants = Constants(world)
    assert constants.smoothness.kind == "computed"
    assert 3.99 <= constants.smoothness.value <= 4.0  # 1 + 3θ²: on an axis, and only there, 4
    assert constants.strong_convexity.value == pytest.approx(1.0, abs=0.2)
    assert constants.data_smoothness.value == pytest.approx(1.0, rel=1e-9)
    assert constants.noise_growth.value == 0.0
    assert 0.0 < constants.lipschitz_data.value <= 1.0 + np.linalg.norm(ROWS.mean(axis=0)) + 0.2


def test_where_nothing_responds_beta_z_is_about_the_drift():
    """Two drifts a step apart: the widest spread of the data counts, though none of them respond."""
    along = np.array([np.cos(1.5), np.sin(1.5)])
    mean = 0.25 * np.array([np.cos(2.874), np.sin(2.874)])
    theta = np.array([5.0, 0.0])
    worst, step = 0.0, 1e-4
    for angle in np.linspace(0.0, np.pi, 40):
        move = step * np.array([np.cos(angle), np.sin(angle)])
        drift = pp.Gaussian(np.array([mean, mean + move]), 9.0 * np.outer(along, along))
        world = pp.World(
            drift=pp.drifts.recorded(drift),
            loss=pp.losses.logistic(l2=1.0),
            domain=pp.domains.ball(5.0),
            rounds=2,
        )
        apart = world.gradient(2, theta, theta) - world.gradient(1, theta, theta)
        worst = max(worst, float(np.linalg.norm(apart)) / step)
    assert worst <= Constants(world).data_smoothness.value
    assert worst > 1.3  # without the spread the formula has σ(5/4) + 5/16 = 1.09


def test_nothing_is_claimed_on_an_unbounded_domain():
    world = _world(
        response=pp.responses.location(0.2, pp.Gaussian(np.zeros(3), 1.0)),
        drift=pp.drifts.iid_ball(1.0),
        loss=pp.losses.logistic(l2=1.0),
        domain=pp.domains.everywhere(),
    )
    constants = Constants(world)
    assert constants.lipschitz.value == np.inf
    assert "unbounded" in constants.lipschitz.why
    assert constants.strong_convexity.value == 1.0


def test_a_lagged_world_has_the_constants_of_its_response():
    base = pp.Gaussian([0.4, 0.0, 0.2], 1.0)
    still = pp.responses.location(TILTED, base)
    pieces = {"drift": pp.drifts.iid_ball(1.0), "loss": pp.losses.logistic(l2=1.0)}
    now = Constants(_world(response=still, **pieces))
    later = Constants(_world(response=pp.responses.lagged(still, 0.3), **pieces))
    assert now.lipschitz == later.lipschitz
    assert now.coupling.tolist() == later.coupling.tolist()


def test_data_that_respond_alone_decide_how_stable_points_are_certified():
    """A drift far away makes β_z of Proposition 3.4 larger, not the certificate worse."""

    def world(center):
        return _world(
            response=pp.responses.location(0.2, pp.Gaussian(np.zeros(3), 1.0)),
            drift=pp.drifts.iid_ball(1.0, center=center),
            loss=pp.losses.logistic(l2=1.0),
        )

    from performative.world.constants import monotonicity

    near, far = world(0.0), world(30.0)
    assert Constants(far).data_smoothness.value > Constants(near).data_smoothness.value
    assert np.allclose(monotonicity(far)[0], monotonicity(near)[0], rtol=1e-12)
