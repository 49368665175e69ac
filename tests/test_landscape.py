"""The landscape shows what is known of a world, and draws it where it is."""

import numpy as np
import pytest

import performative as pp
from performative.landscape import measure


def test_the_best_answer_crosses_the_diagonal_at_stable_points_and_nowhere_else():
    loop = pp.worlds.feedback_loop(rounds=1)
    seen = measure(loop, points=41)
    np.testing.assert_allclose(seen.stable, np.sort(loop.known.stable[0, :, 0]), atol=1e-6)
    np.testing.assert_allclose(seen.optimal, [-2.0], atol=1e-6)
    clipped = np.clip(1.0 + 1.5 * seen.deployed.values, -10.0, 10.0)
    np.testing.assert_allclose(seen.best_response, clipped, atol=1e-6)


def test_two_bottoms_of_the_diagonal_are_two_optimal_points():
    seen = measure(pp.worlds.worst_stable_point(rounds=1), points=41)
    np.testing.assert_allclose(seen.optimal, [-1.0, 1.0], atol=1e-12)
    np.testing.assert_allclose(seen.stable, [0.0], atol=1e-6)


def test_where_the_answer_jumps_a_point_is_stable_only_if_all_answers_are_as_good():
    np.testing.assert_allclose(
        measure(pp.worlds.oscillation(rounds=1), points=40).stable, 0.0, atol=1e-6
    )
    assert measure(pp.worlds.oscillation("not smooth", rounds=1), points=40).stable.size == 0


def test_the_diagonal_is_the_performative_risk():
    world = pp.worlds.scale_family(rounds=3, mixing=pp.mixing.polynomial(b=1.0))
    seen = measure(world, t=2, points=11)
    np.testing.assert_allclose(seen.risk, world.risk(2, seen.deployed.values[:, None]), rtol=1e-14)
    j, i = 3, 8
    expected = world.decoupled_risk(2, [seen.model.values[i]], [seen.deployed.values[j]])
    assert float(seen.decoupled_risk[j, i]) == pytest.approx(expected, rel=1e-14)


def test_in_several_dimensions_the_line_goes_through_both_targets():
    world = pp.worlds.quadratic(dim=2, drift="stationary", b=0.5, rounds=4)
    run = pp.simulate(world, pp.learners.rrm(), against=())
    seen = measure(world, run=run, points=41)
    origin, along = seen.origin.values, seen.direction.values
    stable, optimal = pp.stable_points(world).values[-1], pp.optimal_points(world).values[-1]
    np.testing.assert_allclose(origin + seen.stable.values[0] * along, stable, atol=1e-6)
    np.testing.assert_allclose(origin + seen.optimal.values[0] * along, optimal, atol=1e-6)
    projected = (run.deployed.values[0, :, 0] - origin) @ along / (along @ along)
    np.testing.assert_allclose(seen.path, projected, atol=1e-14)
    assert seen.deployed[0] <= projected.min() and seen.deployed[-1] >= projected.max()


def test_a_reach_beyond_the_domain_is_cut_off():
    seen = measure(pp.worlds.biased_coin(rounds=1), reach=(-3.0, 0.5), points=11)
    assert float(seen.deployed[0]) == 0.0 and float(seen.deployed[-1]) == 0.5


def test_bad_input_is_refused_in_a_sentence():
    world = pp.worlds.gaussian_mean(rounds=2)
    with pytest.raises(ValueError, match="reach must be in increasing order"):
        measure(world, reach=(1.0, 0.0))
    with pytest.raises(IndexError, match="round from 1 to 2; got 3"):
        measure(world, t=3)
    with pytest.raises(ValueError, match="direction must not be zero"):
        measure(world, direction=[0.0])


def test_the_figure_puts_the_path_and_the_points_where_they_are():
    world = pp.worlds.gaussian_mean(rounds=3)
    run = pp.simulate(world, pp.learners.rrm(), start=[-4.0], against=())
    above, below = pp.plots.landscape(world, run, points=21).axes
    lines = {line.get_label(): line for line in above.get_lines()}
    steps = lines["RRM"]
    np.testing.assert_allclose(steps.get_xdata(), [-4, -4, -1, -1, 0.5])
    np.testing.assert_allclose(steps.get_ydata(), [-4, -1, -1, 0.5, 0.5])
    for name in (r"$\theta^{\mathrm{PS}}$, stable", r"$\theta^{\mathrm{PO}}$, optimal"):
        np.testing.assert_allclose(lines[name].get_xydata(), [[2.0, 2.0]], atol=1e-6)
    assert below.get_ylabel() == r"$\mathrm{PR}_t$"
