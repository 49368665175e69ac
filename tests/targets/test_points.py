"""Targets that only Newton's method finds, against brute force: far starts, curved boundaries."""

import gc
import weakref
from typing import Any

import numpy as np
import pytest
import scipy.optimize

import performative as pp
from performative.targets.points import _FOUND as found_so_far


@pytest.mark.parametrize(("mean", "radius"), [(50.0, 100.0), (500.0, 1000.0)])
def test_features_in_large_units_have_their_stable_point(mean, radius):
    """From almost everywhere a step of Newton's method lands far on the other side."""
    world = pp.World(
        response=pp.responses.location([[0.3]], pp.Gaussian([mean], 1.0)),
        loss=pp.losses.logistic(l2=0.1),
        domain=pp.domains.ball(radius),
        rounds=1,
    )
    root: Any = scipy.optimize.brentq(lambda x: world.gradient(1, [x], [x])[0], 0.0, 1.0)
    found = pp.stable_points(world)
    np.testing.assert_allclose(found.values, [[root]], rtol=1e-9)
    assert found["status"].values.tolist() == ["local"]


def test_a_minimum_on_a_sphere_need_not_be_one_on_its_tangent():
    """PR_t falls along the tangent, and less than the sphere falls away from it."""
    matrix = [[0.4, -0.3], [0.2, 0.5]]
    world = pp.World(
        response=pp.responses.location(matrix, pp.Gaussian([1.0, -0.5], 0.3)),
        loss=pp.losses.logistic(l2=0.1),
        domain=pp.domains.ball(1.0),
        rounds=1,
    )
    angles = np.linspace(0.0, 2.0 * np.pi, 720)
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    inside = np.concatenate([0.5 * circle[::90], 0.9 * circle[::90]])
    found = pp.optimal_points(world)
    point = found.values[0]
    tangent = np.array([-point[1], point[0]])
    assert tangent @ world.total_hessian(1, point) @ tangent < 0.0
    assert world.risk(1, point) <= min(world.risk(1, circle).min(), world.risk(1, inside).min())
    assert found["status"].values.tolist() == ["local"]


def test_targets_are_kept_with_their_world_and_out_of_reach():
    world = pp.worlds.quadratic(dim=2, rounds=5)
    points = pp.stable_points(world)
    kept = points.copy(deep=True)
    points.values[:] = np.nan
    points.status.values[:] = "spoilt"
    again = pp.stable_points(world)
    np.testing.assert_array_equal(again, kept)
    assert set(again.status.values) == {"certified"}
    assert set(found_so_far[world]) == {"stable"}
    left = weakref.ref(world)
    del world, points, again
    gc.collect()
    assert left() is None
