"""Greedy SGD: its steps, its updates row by row, and its law where that is known exactly."""

import numpy as np
import pytest

import performative as pp
from plain_learners import Plain, ball


def problem(world):
    return pp.Session(world).problem


def test_the_steps_are_those_of_proposition_4_2():
    # Quadratic: A = 2(1 − ε), B = (1 + ε)², C_V = 1, with α = 1/t and T = 1000.
    world = pp.worlds.quadratic(dim=2, b=1.0, rounds=1000, sensitivity=0.3)
    coupled = 0.3 * (1 - 1e-3)
    a, b = 2 * (1 - coupled), (1 + coupled) ** 2
    t0 = max(1, np.ceil(8 * b / a**2), np.ceil(8 / a))
    steps = pp.learners.greedy_sgd().prepare(problem(world)).step
    np.testing.assert_allclose(steps, 4 / (a * (np.arange(1, 1001) + t0)), rtol=1e-12)
    assert t0 == 7


def test_in_the_credit_world_the_noise_does_not_grow_and_t0_is_five():
    world = pp.worlds.credit(drift="random", b=1.0, rounds=2000)
    steps = pp.learners.greedy_sgd().prepare(problem(world)).step
    # η_t = 4/(A(t + t0)): two steps give A and t0.
    a = 4 * (1 / steps[1] - 1 / steps[0])
    assert 4 / (a * steps[0]) - 1 == pytest.approx(5, abs=1e-9)
    assert 1.7 < a < 1.8


@pytest.mark.parametrize("batch", [1, 3])
def test_every_update_is_a_projected_step_on_the_rows_it_was_shown(batch):
    world = pp.worlds.credit(drift="random", b=0.5, rounds=12)
    plain = Plain.of(world, ball(1.0))
    learner = pp.learners.greedy_sgd(step=lambda t: 2 / t, batch=batch)
    models = pp.simulate(world, learner, runs=3).deployed.values[2, :, 0]
    session = pp.Session(world, run=2)
    for t in range(11):
        rows = session.deploy(models[t], n=batch)
        slope = np.mean([plain.row_gradient(row, models[t]) for row in rows], axis=0)
        ahead = plain.project(models[t] - 2 / (t + 1) * slope)
        np.testing.assert_allclose(models[t + 1], ahead, rtol=0, atol=1e-13)
    # The first steps are long enough to meet the boundary.
    assert np.linalg.norm(models, axis=1).max() == pytest.approx(1.0, abs=1e-12)


def test_in_one_dimension_mean_and_variance_follow_the_linear_recursion():
    # z ~ N(μ + εθ, s²): θ' = (1 − η(1−ε)) θ + η(μ + s x).
    mu, epsilon, s, rounds, runs = 1.0, 0.4, 0.7, 40, 8000
    world = pp.World(
        response=pp.responses.location([[epsilon]], pp.Gaussian([mu], s**2)),
        loss=pp.losses.squared(),
        domain=pp.domains.ball(100.0),
        rounds=rounds,
    )
    steps = 1 / (np.arange(1, rounds + 1) + 2.0)
    run = pp.simulate(world, pp.learners.greedy_sgd(step=steps), start=[3.0], runs=runs)
    models = run.deployed.values[:, :, 0, 0]
    mean, variance = 3.0, 0.0
    for t in range(rounds - 1):
        keep = 1 - steps[t] * (1 - epsilon)
        mean, variance = keep * mean + steps[t] * mu, keep**2 * variance + (steps[t] * s) ** 2
        seen = models[:, t + 1]
        assert abs(seen.mean() - mean) < 4.5 * np.sqrt(variance / runs)
        assert abs(seen.var() - variance) < 4.5 * variance * np.sqrt(2 / runs)


def test_its_regret_is_that_of_a_plain_loop_in_distribution():
    world = pp.worlds.credit(drift="random", b=0.5, rounds=15)
    plain = Plain.of(world, ball(1.0))
    learner = pp.learners.greedy_sgd()
    steps = learner.prepare(problem(world)).step
    rng, counts = np.random.default_rng(1), np.ones(15, int)
    models = [plain.sgd(np.zeros(17), rng, counts, lambda t, j: steps[t - 1]) for _ in range(150)]
    points, risks = plain.stable(), []
    for path in models:
        risks.append(sum(plain.risk(t, model, model) for t, model in enumerate(path)))
    least = sum(plain.risk(t, point, point) for t, point in enumerate(points))
    looped = np.array(risks) - least
    summary = pp.simulate(world, learner, runs=600).summary("stable").isel(round=-1)
    error = np.hypot(looped.std(ddof=1) / np.sqrt(150), float(summary.standard_error))
    assert abs(looped.mean() - float(summary["mean"])) < 4 * error
    assert error < 0.05 * float(summary["mean"])


def test_a_batch_divides_the_variance():
    world = pp.World(
        response=pp.responses.location(0.2, pp.Gaussian([0.0, 0.0], [1.0, 4.0])),
        loss=pp.losses.squared(),
        domain=pp.domains.ball(100.0),
        rounds=2,
    )
    learner = pp.learners.greedy_sgd(step=0.5, batch=5)
    models = pp.simulate(world, learner, runs=20_000).deployed.values[:, 1, 0]
    np.testing.assert_allclose(models.var(axis=0), 0.25 * np.array([1.0, 4.0]) / 5, rtol=0.05)


def test_where_the_theorem_has_no_step_one_is_asked_for():
    world = pp.worlds.quadratic(dim=2, b=1.0, rounds=10, sensitivity=1.5)
    with pytest.raises(ValueError, match=r"step must be given .* below μ; got 1\.35 and 1\."):
        pp.simulate(world, pp.learners.greedy_sgd())


def test_it_keeps_the_contract_of_learners():
    pp.testing.check_learner(pp.learners.greedy_sgd(batch=2))
