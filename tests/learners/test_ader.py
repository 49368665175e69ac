"""Ader and PBGD: against a plain loop, and against the guarantee that needs no path length."""

import numpy as np
import pytest

import performative as pp
from performative.learners.ader import Experts
from performative.simulation.engine import problem_of


def drifting_world(rounds=400, every=100):
    """Nothing responds; the data jump between two places."""
    places = np.where((np.arange(rounds) // every % 2)[:, None] == 0, 1.5, -1.5) * np.ones((1, 2))
    return pp.World(
        drift=pp.drifts.recorded(pp.Gaussian(places, 0.5)),
        loss=pp.losses.squared(),
        domain=pp.domains.ball(3.0),
        rounds=rounds,
    )


def projected(theta):
    return theta / max(1.0, np.linalg.norm(theta) / 3.0)


def test_it_is_a_hedge_over_gradient_steps():
    world = drifting_world(60, 20)
    run = pp.simulate(world, pp.learners.ader(gradient=4.0), against=())
    steps = [2.0**i * 6.0 / (4.0 * 60**0.5) for i in range(5)]  # ⌈log2(121)/2⌉ + 1 = 5
    places = np.zeros((5, 2))
    weights = np.array([1 / (i * (i + 1)) for i in range(1, 6)])
    for t in range(60):
        theta = weights @ places / weights.sum()
        np.testing.assert_allclose(run.deployed.values[0, t, 0], theta, atol=1e-12)
        slope = world.gradient(t + 1, theta, theta)
        weights = weights * np.exp(-((8 / 60) ** 0.5) / (6.0 * 4.0) * places @ slope)
        places = np.array([projected(w - s * slope) for w, s in zip(places, steps, strict=True)])


@pytest.mark.parametrize("every", [400, 100, 7])
def test_its_regret_is_that_of_the_best_step_and_the_price_of_finding_it(every):
    world = drifting_world(400, every)
    run = pp.simulate(world, pp.learners.ader(), against=("stable",))
    regret = float(run.regret("stable")[0, -1])
    path = float(pp.path_length(pp.stable_points(world))[-1])
    size, diameter, rounds = 6.0, 6.0, 400  # G = β_θ D
    experts = Experts.of(diameter, size, rounds)
    i = np.arange(1, len(experts.steps) + 1)
    alone = (diameter**2 + 2 * diameter * path) / (2 * experts.steps)
    alone += experts.steps * size**2 * rounds / 2
    hedge = np.log(i * (i + 1)) / experts.rate
    hedge += experts.rate * (size * diameter) ** 2 * rounds / 8
    assert 0 < regret <= np.min(alone + hedge)


def test_the_grid_holds_a_step_within_a_factor_of_two_of_the_best_for_every_path():
    experts = Experts.of(2.0, 5.0, 1000)
    for path in np.linspace(0, 2.0 * 1000, 50):
        best = ((2.0**2 + 2 * 2.0 * path) / (5.0**2 * 1000)) ** 0.5
        ratio = experts.steps / best
        assert np.any((ratio <= 1 + 1e-12) & (ratio > 0.5 - 1e-12))


def test_it_follows_jumps_better_than_the_step_for_a_target_that_stays():
    world = drifting_world()
    still = pp.learners.rgd(step=6.0 / (6.0 * 20.0))  # D/(G√T)
    adaptive, fixed = (
        float(pp.simulate(world, learner).regret("stable")[0, -1])
        for learner in (pp.learners.ader(), still)
    )
    assert adaptive < 0.7 * fixed


def test_two_arms_share_the_experts_and_stay_in_the_domain():
    world = drifting_world(2000, 500)
    prepared = pp.learners.pbgd().prepare(problem_of(world))
    slope = problem_of(world).constants.lipschitz.value
    assert prepared.experts.steps[0] == pytest.approx(6.0 / (2 * slope * 2000**0.5))
    run = pp.simulate(world, pp.learners.pbgd(), runs=4, against=("optimal",))
    assert np.linalg.norm(run.deployed.values, axis=-1).max() <= 3.0 + 1e-12
    plain = pp.simulate(world, pp.learners.zgd2(case="convex"), runs=4, against=("optimal",))
    adaptive, fixed = (float(r.regret("optimal").mean("run")[-1]) for r in (run, plain))
    assert adaptive < 0.7 * fixed


@pytest.mark.parametrize("rows", [None, 40])
def test_a_slope_that_is_given_takes_the_place_of_the_worlds(rows):
    problem = problem_of(drifting_world(2000, 500))
    slope = problem.constants.lipschitz.value
    own, given, steep = (
        pp.learners.pbgd(rows=rows, slope=value).prepare(problem).experts.steps[0]
        for value in (None, slope, 10 * slope)
    )
    assert given == pytest.approx(own, rel=1e-12) and steep < 0.9 * own


def test_two_arms_find_the_optimal_point():
    """Optimal is K m/(K² + l2) = 2/3, stable would be 1."""
    world = pp.World(
        response=pp.responses.location(0.5, pp.Gaussian([1.0], 1.0)),
        loss=pp.losses.squared(l2=0.5),
        domain=pp.domains.ball(3.0),
        rounds=2000,
    )
    arms = pp.simulate(world, pp.learners.pbgd(), against=()).deployed.values[0, -200:]
    assert arms.mean() == pytest.approx(2 / 3, abs=0.02)


def test_settings_that_make_no_sense_are_refused():
    world = pp.World(
        drift=pp.drifts.fixed(pp.Gaussian([1.0], 1.0)),
        loss=pp.losses.squared(),
        domain=pp.domains.everywhere(),
        rounds=5,
    )
    with pytest.raises(ValueError, match="domain must be bounded for Ader"):
        pp.simulate(world, pp.learners.ader())
    with pytest.raises(ValueError, match="gradient must be above 0"):
        pp.learners.ader(gradient=0.0)
    with pytest.raises(ValueError, match="PBGD"):
        pp.simulate(world, pp.learners.pbgd())


@pytest.mark.parametrize("learner", [pp.learners.ader(rows=3), pp.learners.pbgd(rows=3)])
@pytest.mark.slow
def test_they_keep_the_contract(learner):
    pp.testing.check_learner(learner)
