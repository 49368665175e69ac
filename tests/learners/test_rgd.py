"""Repeated gradient descent, against plain loops and Theorem 4.1; steps in every form."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

import performative as pp
from performative.learners.steps import over_rounds
from performative.world.constants import Constant
from plain_learners import Plain, ball, box


def problem(world):
    return pp.Session(world).problem


def test_regret_in_the_quadratic_world_is_that_of_a_plain_loop():
    world = pp.worlds.quadratic(dim=3, b=0.5, rounds=60)
    plain = Plain.of(world, box(5.0))
    start = np.array([4.0, -3.0, 5.0])
    # Theorem 4.1 by hand: μ = β_θ = β_z = 1, ε = 0.3.
    coupled = 0.3 * (1 - np.arange(1, 61) ** -0.5)
    steps = (1 - coupled) / (2 * (1 + coupled**2))
    run = pp.simulate(world, pp.learners.rgd(), start=start)
    expected = plain.rgd(start, steps)
    np.testing.assert_allclose(run.deployed.values[0, :, 0], expected, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(run.regret("stable").values[0], plain.regret(expected), rtol=1e-8)


def test_regret_in_the_credit_world_is_that_of_a_plain_loop():
    world = pp.worlds.credit(drift="random", b=0.5, rounds=12)
    plain = Plain.of(world, ball(1.0))
    learner = pp.learners.rgd()
    steps = learner.prepare(problem(world)).step
    run = pp.simulate(world, learner, start=np.full(17, 0.2))
    expected = plain.rgd(np.full(17, 0.2), steps)
    np.testing.assert_allclose(run.deployed.values[0, :, 0], expected, rtol=0, atol=1e-13)
    np.testing.assert_allclose(run.regret("stable").values[0], plain.regret(expected), rtol=1e-8)


def test_the_credit_step_is_theorem_4_1s_with_the_worlds_constants():
    world = pp.worlds.credit(drift="random", b=0.5, rounds=12)
    known = problem(world).constants
    coupled = (1 - np.arange(1, 13) ** -0.5) * 0.1 * known.data_smoothness.value
    steps = pp.learners.rgd().prepare(problem(world)).step
    wanted = (1 - coupled) / (2 * (known.smoothness.value**2 + coupled**2))
    np.testing.assert_allclose(steps, wanted, rtol=1e-12)
    assert 0.08 < steps[-1] < steps[0] < 0.11


def test_with_the_stable_point_on_the_boundary_it_gets_there():
    world = pp.World(
        response=pp.responses.location(0.5, pp.Gaussian([3.0, 1.0, 0.0], 1.0)),
        loss=pp.losses.squared(),
        domain=pp.domains.ball(2.0),
        rounds=60,
    )
    point = pp.stable_points(world).values[0]
    assert np.linalg.norm(point) == pytest.approx(2.0, abs=1e-12)
    assert np.linalg.norm(point - ball(2.0)(0.5 * point + [3.0, 1.0, 0.0])) < 1e-12
    run = pp.simulate(world, pp.learners.rgd(), start=[-1.0, 1.0, 1.0])
    away = np.linalg.norm(run.deployed.values[0, :, 0] - point, axis=1)
    # The theorem's factor: 1 − (μ − x)²/(4(β_θ² + x²)), with x = 1/2.
    assert np.all(away[1:] <= (1 - 0.25 / (4 * 1.25)) * away[:-1] + 1e-14)
    assert away[-1] < 1e-5


def test_a_number_an_array_and_functions_of_the_round_are_the_same_steps():
    world = pp.worlds.quadratic(dim=2, b=0.5, rounds=10)
    wanted = 0.5 / np.arange(1, 11)
    forms = [
        wanted,
        wanted.tolist(),
        lambda t: 0.5 / t,
        lambda t: 0.5 * t**-1,  # whole numbers have no negative powers in NumPy
        lambda t: 0.5 / math.floor(t),  # one at a time
        lambda t: 0.5 if t == 1 else 0.5 / t,
    ]
    for form in forms:
        steps = pp.learners.rgd(step=form).prepare(problem(world)).step
        np.testing.assert_allclose(steps, wanted, rtol=1e-15)
    assert over_rounds("step", 0.1, 3).tolist() == [0.1, 0.1, 0.1]
    table = np.array([0.3, 0.2, 0.1])
    assert over_rounds("step", lambda t: table[t - 1], 3).tolist() == [0.3, 0.2, 0.1]
    assert over_rounds("step", lambda t: 1 / (1 + t**8), 400)[-1] == pytest.approx(1 / 400**8)
    assert over_rounds("step", lambda t: 0.1, 3).tolist() == [0.1, 0.1, 0.1]


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (-0.1, "step must not be negative; got -0.1"),
        ([0.1, 0.2], "step must hold 10 numbers; got 2"),
        (lambda t: -t, "step must not be negative; got -10"),
        (lambda t: np.nan * t, "step must be finite; got nan"),
        ("large", "step must be numbers"),
    ],
)
def test_steps_that_make_no_sense_are_refused(step, said):
    world = pp.worlds.quadratic(dim=2, rounds=10)
    with pytest.raises((ValueError, TypeError), match=said):
        pp.simulate(world, pp.learners.rgd(step=step))


def test_where_the_theorem_has_no_step_one_is_asked_for():
    world = pp.worlds.quadratic(dim=2, b=1.0, rounds=10, sensitivity=1.5)
    with pytest.raises(ValueError, match=r"step must be given .*got 1\.35 and 1\."):
        pp.simulate(world, pp.learners.rgd())
    assert pp.simulate(world, pp.learners.rgd(step=0.1)).regret("stable").shape == (1, 10)


@pytest.mark.parametrize("constant", ["sensitivity", "strong_convexity", "smoothness"])
def test_an_unknown_constant_is_named_and_a_given_step_needs_none(constant):
    asked = problem(pp.worlds.quadratic(dim=2, b=1.0, rounds=4))
    known = dict.fromkeys(
        ("sensitivity", "strong_convexity", "smoothness", "data_smoothness"),
        Constant(0.5, "rigorous", "known"),
    )
    known[constant] = Constant(np.inf, "surrogate", "not known for this loss and response")
    asked = asked._replace(constants=SimpleNamespace(**known, coupling=np.full(4, 0.1)))
    with pytest.raises(
        ValueError, match=f"step must be given .* its {constant.replace('_', ' ')}, which is not"
    ):
        pp.learners.rgd().prepare(asked)
    assert pp.learners.rgd(step=0.5).prepare(asked).step.tolist() == [0.5] * 4


def test_it_keeps_the_contract_of_learners():
    pp.testing.check_learner(pp.learners.rgd())
