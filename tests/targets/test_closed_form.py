"""Targets of worlds whose equation is linear: against a plain solve of every round."""

import numpy as np
import pytest

import performative as pp

T = 40


def world_of(matrix, l2=0.0, domain=None, rounds=T, seed=0, drift=True):
    d = len(matrix)
    rng = np.random.default_rng(seed)
    base = rng.normal(size=d)
    means = rng.normal(size=(rounds, d))
    world = pp.World(
        response=pp.responses.location(matrix, pp.Gaussian(base, 1.0)),
        drift=pp.drifts.recorded(pp.Gaussian(means, 0.5)) if drift else None,
        mixing=pp.mixing.polynomial(0.5) if drift else None,
        loss=pp.losses.squared(l2=l2),
        domain=pp.domains.ball(1e3) if domain is None else domain,
        rounds=rounds,
    )
    return world, base, means


def solved(matrix, base, means, alphas, l2, optimal):
    """Section 2 of the paper for a squared loss, a linear system a round."""
    eye = np.eye(len(base))
    gap = eye - matrix
    points = []
    for alpha, mean in zip(alphas, means, strict=True):
        if optimal:
            left = (1 - alpha) * gap.T @ gap + (alpha + l2) * eye
            right = (1 - alpha) * gap.T @ base + alpha * mean
        else:
            left = (1 + l2) * eye - (1 - alpha) * matrix
            right = (1 - alpha) * base + alpha * mean
        points.append(np.linalg.solve(left, right))
    return np.array(points)


def rotation(angle, size):
    c, s = np.cos(angle), np.sin(angle)
    return size * np.array([[c, -s], [s, c]])


MATRICES = {
    "one parameter": np.array([[0.7]]),
    "no response": np.zeros((3, 3)),
    "a rotation, with complex eigenvalues": rotation(1.0, 0.8),
    "a Jordan block, with too few eigenvectors": 0.45 * (np.eye(3) + np.eye(3, k=1)),
    "seventeen": 0.15 * np.random.default_rng(5).normal(size=(17, 17)),
}


@pytest.mark.parametrize("l2", [0.0, 0.3])
@pytest.mark.parametrize("optimal", [False, True], ids=["stable", "optimal"])
@pytest.mark.parametrize("matrix", MATRICES.values(), ids=MATRICES)
def test_every_round_solves_its_linear_system(matrix, optimal, l2):
    world, base, means = world_of(matrix, l2)
    points = (pp.optimal_points if optimal else pp.stable_points)(world)
    expected = solved(matrix, base, means, world.alphas, l2, optimal)
    np.testing.assert_allclose(points, expected, rtol=0, atol=1e-11)
    assert set(points.status.values) == {"certified"}
    away = np.linalg.norm(points.values - expected, axis=1)
    assert np.all(away <= points.certificate.values + 1e-13)
    assert float(points.certificate.max()) < 1e-11


def test_rounds_whose_boundary_is_active_are_solved_on_it():
    matrix = rotation(0.4, 0.9)
    box = pp.domains.box(-0.6, 0.6)
    world, base, means = world_of(matrix, domain=box)
    free = solved(matrix, base, means, world.alphas, 0.0, optimal=False)
    inside = np.all(np.abs(free) <= 0.6, axis=1)
    assert 0 < inside.sum() < T
    points = pp.stable_points(world)
    weight = 1.0 - world.alphas[:, None]
    theta = points.values
    for _ in range(200):  # retraining contracts by 0.9: an independent way there
        data = weight * (theta @ matrix.T + base) + world.alphas[:, None] * means
        theta = np.clip(data, -0.6, 0.6)
    np.testing.assert_allclose(points, theta, atol=1e-12)
    np.testing.assert_allclose(points.values[inside], free[inside], atol=1e-12)
    clipped = np.clip(free, -0.6, 0.6)
    assert np.abs(points.values - clipped).max() > 0.01
    assert set(points.status.values) == {"certified"}


def test_a_box_on_which_newtons_method_goes_round_in_circles_is_solved():
    """Between two faces; the minimum is on the face θ_1 = −0.85, where one equation is left."""
    matrix, mean = np.array([[0.442, 0.877], [-1.346, 2.498]]), np.array([-0.16, -1.08])
    world = pp.World(
        response=pp.responses.location(matrix, pp.Gaussian(mean, 1.0)),
        loss=pp.losses.squared(),
        domain=pp.domains.box([-0.85, -0.71], [0.5, 0.43]),
        rounds=1,
    )
    k = np.eye(2) - matrix
    square, side = k.T @ k, k.T @ mean
    free = (side[1] - square[1, 0] * -0.85) / square[1, 1]
    assert square[0] @ [-0.85, free] > side[0] and -0.71 < free < 0.43  # it is the minimum
    found = pp.optimal_points(world)
    np.testing.assert_allclose(found.values[0], [-0.85, free], rtol=1e-12)
    assert found["status"].values.tolist() == ["certified"]


def test_a_world_that_retraining_runs_away_from_is_not_certified():
    world, base, _ = world_of(np.array([[1.5]]), drift=False, rounds=2)
    with pytest.warns(UserWarning, match="'not unique' in 2"):
        points = pp.stable_points(world)
    inner, ends = float(base[0]) / (1 - 1.5), 1e3  # the ends of the domain are stable as well
    for point in points.values.ravel():
        assert min(abs(point - other) for other in (inner, -ends, ends)) < 1e-9
    assert np.all(np.isinf(points.certificate))


def test_the_rounds_of_a_long_world_are_those_of_a_short_one():
    matrix = MATRICES["seventeen"]
    rng = np.random.default_rng(3)
    means = rng.normal(size=(5000, 17))

    def world(rounds):
        return pp.World(
            response=pp.responses.location(matrix, pp.Gaussian(np.ones(17), 1.0)),
            drift=pp.drifts.recorded(pp.Gaussian(means, 1.0)),
            mixing=pp.mixing.constant(0.3),
            loss=pp.losses.squared(),
            domain=pp.domains.ball(100.0),
            rounds=rounds,
        )

    many, few = pp.stable_points(world(5000)), pp.stable_points(world(T))
    np.testing.assert_allclose(many[:T], few, atol=1e-13)
    last = np.linalg.solve(np.eye(17) - 0.7 * matrix, 0.7 * np.ones(17) + 0.3 * means[-1])
    np.testing.assert_allclose(many[-1], last, atol=1e-12)
