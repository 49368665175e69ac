"""Drifts are recorded sequences: their means against the recipes, and their seeds."""

import numpy as np
import pytest

import performative as pp
from performative.world.drifts import in_unit_ball

T, D = 4000, 3


def means(drift, rounds=T, dimension=D):
    return np.asarray(drift.sequence(rounds, dimension).mean)


@pytest.mark.parametrize("dimension", [1, 2, 10])
def test_points_of_the_ball_are_uniform(dimension):
    points = in_unit_ball(np.random.default_rng(0), 20_000, dimension)
    radii = np.linalg.norm(points, axis=1)
    assert radii.max() <= 1.0
    # P(|m| ≤ r) = r^d, E m = 0 and E m mᵀ = I / (d + 2)
    for r in (0.5, 0.9):
        assert (radii <= r).mean() == pytest.approx(r**dimension, abs=0.015)
    assert np.abs(points.mean(axis=0)).max() < 0.02
    second = points.T @ points / len(points)
    np.testing.assert_allclose(second, np.eye(dimension) / (dimension + 2), atol=0.01)


@pytest.mark.parametrize("kind", ["iid_ball", "random_walk", "switching"])
def test_a_seed_fixes_a_drift_and_a_longer_one_begins_the_same(kind):
    a, b = pp.Gaussian(np.zeros(D), 1.0), pp.Gaussian(np.ones(D), 1.0)

    def drift(seed):
        if kind == "switching":
            return pp.drifts.switching([a, b], probability=0.3, seed=seed)
        if kind == "random_walk":
            return pp.drifts.random_walk(1.0, step=0.1, seed=seed)
        return pp.drifts.iid_ball(1.0, seed=seed)

    np.testing.assert_array_equal(means(drift(5), 50), means(drift(5), 50))
    assert not np.array_equal(means(drift(5), 50), means(drift(6), 50))
    if kind != "random_walk":  # drawn as one array, whose first rows are the same as well
        np.testing.assert_array_equal(means(drift(5), 50), means(drift(5), 70)[:50])


def test_the_ball_of_means_has_its_radius_and_centre():
    centre = np.array([3.0, 0.0, -1.0])
    away = np.linalg.norm(
        means(pp.drifts.iid_ball(1.0, radius=2.0, center=centre)) - centre, axis=1
    )
    assert 1.9 < away.max() <= 2.0


def test_a_walk_makes_steps_of_its_length_and_stays_where_it_is_held():
    start = np.array([1.0, 2.0, 3.0])
    walk = means(pp.drifts.random_walk(1.0, step=0.2, start=start))
    np.testing.assert_array_equal(walk[0], start)
    steps = np.sum(np.diff(walk, axis=0) ** 2, axis=1)
    assert np.sqrt(steps.mean()) == pytest.approx(0.2, rel=0.05)
    held = means(pp.drifts.random_walk(1.0, step=0.2, start=start, radius=1.5))
    away = np.linalg.norm(held - start, axis=1)
    assert away.max() <= 1.5 + 1e-12 and away.max() > 1.4


def test_a_season_is_a_sine():
    drift = pp.drifts.seasonal(1.0, amplitude=[1.0, 2.0, 0.0], period=12, center=0.5, phase=3)
    t = np.arange(1, 25)
    wave = np.sin(2 * np.pi * (t + 3) / 12)
    np.testing.assert_allclose(means(drift, 24), 0.5 + wave[:, None] * [1.0, 2.0, 0.0], atol=1e-12)


def test_switching_takes_turns_or_jumps_with_its_probability():
    parts = [pp.Gaussian(np.full(D, float(i)), 1.0) for i in range(3)]
    in_turn = means(pp.drifts.switching(parts, period=2), 8)[:, 0]
    np.testing.assert_array_equal(in_turn, [0, 0, 1, 1, 2, 2, 0, 0])
    jumping = means(pp.drifts.switching(parts, probability=0.3, seed=1))[:, 0]
    assert jumping[0] == 0
    assert (np.diff(jumping) != 0).mean() == pytest.approx(0.3, abs=0.03)
    assert set(jumping) == {0.0, 1.0, 2.0}


def test_recorded_rows_are_the_rows_of_their_round():
    rows = np.random.default_rng(0).normal(size=(5, 7, D))
    drift = pp.drifts.recorded(pp.Empirical(rows))
    np.testing.assert_allclose(means(drift, 4), rows[:4].mean(axis=1), atol=1e-15)


def test_a_mixing_schedule_is_what_it_says():
    t = np.arange(1, 6)
    np.testing.assert_allclose(pp.mixing.polynomial(0.5, a0=0.8).alphas(5), 0.8 / np.sqrt(t))
    np.testing.assert_array_equal(pp.mixing.polynomial(0.0).alphas(5), np.ones(5))
    np.testing.assert_array_equal(pp.mixing.recorded([0.1, 0.2, 0.3]).alphas(2), [0.1, 0.2])
