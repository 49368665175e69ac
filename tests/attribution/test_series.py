import numpy as np
import pytest

from performative.attribution import series


def test_naive_levels_find_a_response_in_a_walk_that_no_model_made():
    rng = np.random.default_rng(0)
    walk = np.cumsum(rng.normal(size=(100, 4)), axis=0)
    trap = series.naive(walk[1:], walk[:-1])
    assert trap.reject
    assert trap.slope.value > 0.8


def test_dither_takes_out_what_was_known_before_the_round():
    rng = np.random.default_rng(1)
    estimates = []
    for _ in range(60):
        world = np.cumsum(0.1 * rng.normal(size=(40, 3)), axis=0)
        base, means = np.zeros((40, 3)), np.zeros((40, 3))
        step = 0.2 * rng.normal(size=(40, 3))
        for t in range(40):
            base[t] = means[t - 1] if t else 0.0
            means[t] = 0.4 * (base[t] + step[t]) + world[t]
        estimates.append(series.dither(means, base, step))
    values = np.array([one.strength.value for one in estimates])
    assert abs(values.mean() - 0.4) < 0.04
    covered = [one.strength.low <= 0.4 <= one.strength.high for one in estimates]
    assert np.mean(covered) > 0.85
    assert np.mean([one.p < 0.05 for one in estimates]) > 0.9


def test_switchback_interval_holds_what_the_redrawn_flips_do_not_reject():
    rng = np.random.default_rng(2)
    covered, size = [], []
    for _ in range(80):
        world = np.cumsum(0.1 * rng.normal(size=30))
        flips = rng.integers(0, 2, size=30)
        found = series.switchback(0.5 * flips + world, flips.astype(float))
        covered.append(found.strength.low <= 0.5 <= found.strength.high)
        size.append(series.switchback(world, flips.astype(float)).p < 0.05)
    assert np.mean(covered) > 0.86
    assert np.mean(size) < 0.14


def test_switchback_slope_is_least_squares_of_second_differences():
    flips = np.array([0, 1, 1, 0, 1, 0, 0, 1, 0, 1], dtype=float)
    outcome = 2.0 * flips + np.arange(10.0)
    assert series.switchback(outcome, flips).strength.value == pytest.approx(2.0)
