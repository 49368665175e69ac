"""Domains against their definitions: projections are nearest points, sizes are what they say."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import performative as pp

P = 3
CENTER = np.array([0.3, -0.2, 0.1])
LOWER, UPPER = np.array([-1.0, -0.5, -2.0]), np.array([0.5, 3.0, 0.25])
NORMAL = np.array([1.0, -2.0, 2.0])


def directions(rng, n):
    x = rng.normal(size=(n, P))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def in_halfspace(rng, n, exactly=False):
    x = 5 * rng.normal(size=(n, P))
    over = (x @ NORMAL - 1.5) / (NORMAL @ NORMAL)
    return x - (over if exactly else np.maximum(over, 0.0))[:, None] * NORMAL


# Each with its own sampler of feasible points, independent of the projection.
DOMAINS = {
    "ball": (pp.domains.ball(2.0), lambda r, n: 2.0 * directions(r, n) * r.random((n, 1)) ** 0.3),
    "ball off centre": (
        pp.domains.ball(1.5, CENTER),
        lambda r, n: CENTER + 1.5 * directions(r, n) * r.random((n, 1)) ** 0.3,
    ),
    "box": (pp.domains.box(LOWER, UPPER), lambda r, n: r.uniform(LOWER, UPPER, (n, P))),
    "box of numbers": (pp.domains.box(-1.0, 2.0), lambda r, n: r.uniform(-1.0, 2.0, (n, P))),
    "linf": (pp.domains.linf_ball(0.7), lambda r, n: r.uniform(-0.7, 0.7, (n, P))),
    "simplex": (pp.domains.simplex(2.0), lambda r, n: 2.0 * r.dirichlet(np.full(P, 0.5), n)),
    "l1": (
        pp.domains.l1_ball(1.5),
        lambda r, n: 1.5 * r.dirichlet(np.full(P + 1, 0.5), n)[:, :P] * r.choice([-1, 1], (n, P)),
    ),
    "halfspace": (pp.domains.halfspace(NORMAL, 1.5), in_halfspace),
    "hyperplane": (
        pp.domains.hyperplane(NORMAL, 1.5),
        lambda r, n: in_halfspace(r, n, exactly=True),
    ),
    "nonnegative": (pp.domains.nonnegative(), lambda r, n: 5 * np.abs(r.normal(size=(n, P)))),
    "line": (pp.domains.line(NORMAL), lambda r, n: r.normal(size=(n, 1)) * NORMAL),
    "everywhere": (pp.domains.everywhere(), lambda r, n: 5 * r.normal(size=(n, P))),
}
BOUNDED = ("ball", "ball off centre", "box", "box of numbers", "linf", "simplex", "l1")
scales = st.sampled_from([0.01, 0.5, 2.0, 10.0, 1e3])
seeds = st.integers(0, 2**32 - 1)
each = pytest.mark.parametrize("name", DOMAINS)


@each
@settings(max_examples=8)
@given(seed=seeds, scale=scales)
def test_a_projection_is_the_nearest_point_and_never_spreads(name, seed, scale):
    domain, feasible = DOMAINS[name]
    rng = np.random.default_rng(seed)
    x = scale * rng.normal(size=(16, P))
    y = np.asarray(domain.project(x))
    tolerance = 1e-9 * (1 + scale)
    # idempotent
    np.testing.assert_allclose(domain.project(y), y, atol=tolerance)
    # nearest: every feasible point lies behind the plane through y across x − y
    inside = feasible(rng, 64)
    behind = np.einsum("np,nmp->nm", x - y, inside[None] - y[:, None])
    assert behind.max() <= tolerance * (10 + scale)
    # nonexpansive
    before = np.linalg.norm(x[:, None] - x[None], axis=-1)
    after = np.linalg.norm(y[:, None] - y[None], axis=-1)
    assert np.all(after <= before + tolerance)


@each
def test_feasible_points_stay_and_are_contained(name):
    domain, feasible = DOMAINS[name]
    points = feasible(np.random.default_rng(0), 64)
    np.testing.assert_allclose(domain.project(points), points, atol=1e-9)
    assert domain.contains(points)


@each
def test_one_model_is_projected_as_one_of_many(name):
    domain, _ = DOMAINS[name]
    models = 4 * np.random.default_rng(1).normal(size=(2, 3, P))
    many = np.asarray(domain.project(models))
    assert many.shape == models.shape
    np.testing.assert_allclose(domain.project(models[1, 2]), many[1, 2], atol=1e-12)


@pytest.mark.parametrize("name", [name for name in DOMAINS if name != "everywhere"])
def test_a_point_outside_is_not_contained(name):
    domain, _ = DOMAINS[name]
    assert not domain.contains([100.0, -200.0, 150.0])


@each
def test_the_centre_and_the_drawn_points_are_inside(name):
    domain, _ = DOMAINS[name]
    assert domain.contains(domain.center(P))
    drawn = domain.draw(np.random.default_rng(0), 32, P)
    assert drawn.shape == (32, P)
    assert domain.contains(drawn)


def farthest(domain):
    """Points far out in many directions and along the axes, projected: they reach the corners."""
    signs = np.array(np.meshgrid(*[[-1.0, 0.0, 1.0]] * P)).reshape(P, -1).T
    spread = directions(np.random.default_rng(0), 400)
    return np.asarray(domain.project(1e3 * np.concatenate([signs, spread, CENTER[None]])))


@pytest.mark.parametrize("name", BOUNDED)
def test_radius_and_diameter_are_reached_and_never_exceeded(name):
    domain, feasible = DOMAINS[name]
    sized = domain.of(P)
    points = np.concatenate([farthest(domain), feasible(np.random.default_rng(2), 200)])
    norms = np.linalg.norm(points, axis=1)
    gaps = np.linalg.norm(points[:, None] - points[None], axis=-1)
    assert norms.max() <= sized.radius * (1 + 1e-9)
    assert gaps.max() <= sized.diameter * (1 + 1e-9)
    assert norms.max() >= 0.99 * sized.radius
    assert gaps.max() >= 0.99 * sized.diameter


@pytest.mark.parametrize("name", [name for name in DOMAINS if name != "everywhere"])
def test_the_inradius_is_that_of_the_largest_ball_about_the_origin(name):
    domain, _ = DOMAINS[name]
    inradius = domain.of(P).inradius
    faces = np.concatenate([np.eye(P), -np.eye(P), np.ones((1, P)) / np.sqrt(P)])
    faces = np.concatenate(
        [faces, [NORMAL / np.linalg.norm(NORMAL), -CENTER / np.linalg.norm(CENTER)]]
    )
    unit = np.concatenate([directions(np.random.default_rng(3), 400), faces])
    if inradius > 0:
        assert domain.contains(inradius * unit)
    assert not domain.contains((inradius + 0.02) * unit)


def test_sizes_in_closed_form():
    ball = pp.domains.ball(1.5, CENTER)
    assert ball.radius == pytest.approx(1.5 + np.linalg.norm(CENTER))
    assert ball.inradius == pytest.approx(1.5 - np.linalg.norm(CENTER))
    assert pp.domains.ball(1.0, [3.0, 0.0, 0.0]).inradius == 0.0
    assert pp.domains.box(LOWER, UPPER).inradius == 0.25
    assert pp.domains.box(1.0, [2.0, 3.0]).inradius == 0.0
    assert pp.domains.linf_ball(1.0).of(4).diameter == 4.0
    assert pp.domains.l1_ball(1.0).of(4).inradius == 0.5
    assert pp.domains.halfspace(NORMAL, 1.5).inradius == pytest.approx(0.5)
    assert pp.domains.halfspace(NORMAL, 1.5).diameter == np.inf


@pytest.mark.parametrize("name", [name for name in DOMAINS if name != "everywhere"])
@pytest.mark.parametrize("rho", [0.0, 0.3, 0.9])
def test_shrinking_scales_the_set(name, rho):
    domain, _ = DOMAINS[name]
    shrunk, keep = domain.shrink(rho), 1.0 - rho
    x = 3.0 * np.random.default_rng(4).normal(size=(32, P))
    # Π_{cΘ}(x) = c Π_Θ(x / c) characterises cΘ.
    np.testing.assert_allclose(shrunk.project(x), keep * domain.project(x / keep), atol=1e-9)
    for size in ("radius", "diameter", "inradius"):
        assert getattr(shrunk.of(P), size) == pytest.approx(keep * getattr(domain.of(P), size))


@pytest.mark.parametrize("name", ["ball", "box", "linf", "l1"])
def test_shrinking_all_the_way_leaves_the_origin(name):
    point = DOMAINS[name][0].shrink(1.0).project([1.0, -2.0, 3.0])
    np.testing.assert_array_equal(point, np.zeros(P))


def test_a_simplex_of_one_parameter_is_a_point():
    assert pp.domains.simplex(2.0).of(1).diameter == 0.0


def test_vectors_of_the_wrong_length_are_refused():
    with pytest.raises(ValueError, match="center"):
        pp.domains.ball(1.0, CENTER).project([0.0, 0.0])
    with pytest.raises(ValueError, match="lower"):
        pp.domains.box(LOWER, UPPER).project([0.0, 0.0])
    with pytest.raises(ValueError, match="lower must not be above upper"):
        pp.domains.box([0.0, 2.0], [1.0, 1.0])
