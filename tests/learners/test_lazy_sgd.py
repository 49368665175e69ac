"""Lazy SGD: its counts and steps, its updates row by row, and rows that come one by one."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import performative as pp
from performative.learners.feedback import BLOCK, arm_key, arm_noise, block_noise
from performative.learners.lazy_sgd import row_counts
from performative.learners.learner import Learner
from plain_learners import Plain, ball


def problem(world):
    return pp.Session(world).problem


def test_the_counts_are_rounded_up_and_rounding_errors_are_not():
    assert row_counts(1, 1.0, 5).tolist() == [1, 2, 3, 4, 5]
    assert row_counts(1, 0.5, 5).tolist() == [1, 2, 2, 2, 3]
    assert row_counts(2.5, 0.0, 3).tolist() == [3, 3, 3]
    assert row_counts(1, 1 / 3, 1000)[np.array([8, 27, 64, 125, 1000]) - 1].tolist() == [
        2, 3, 4, 5, 10,
    ]  # fmt: skip
    assert row_counts(0.1, 1.0, 100)[[9, 10, 29]].tolist() == [1, 2, 3]  # 0.1 · 30 > 3 in floats


def test_the_steps_are_those_of_proposition_4_4():
    # A = 2μ and B = C_V²: t0 = max(1, ⌈8B/A²⌉, ⌈8μ/A⌉) = 4 in both worlds.
    for world in (pp.worlds.quadratic(dim=2, rounds=20), pp.worlds.credit(rounds=20)):
        learner = pp.learners.lazy_sgd(n0=3, r=0.5).prepare(problem(world))
        np.testing.assert_allclose(learner.step, 2 / (np.arange(1, 15) + 4), rtol=1e-14)


def test_without_a_contraction_the_steps_within_a_round_stand():
    world = pp.worlds.quadratic(dim=2, b=1.0, rounds=5, sensitivity=1.5)
    assert np.all(pp.learners.lazy_sgd().prepare(problem(world)).step > 0)


def form(kind, counts):
    """Steps 2/(t j), or 0.8/j, and how a user gives them."""
    if kind == "of (t, j)":
        return lambda t, j: 2 / (t * j), lambda t, j: 2 / (t * j)
    if kind == "one j at a time":
        return lambda t, j: 2 / (t * j) if j > 0 else 1.0, lambda t, j: 2 / (t * j)
    return 0.8 / np.arange(1, counts.max() + 1), lambda t, j: 0.8 / j


@pytest.mark.parametrize("kind", ["of (t, j)", "one j at a time", "an array"])
def test_every_round_is_made_of_projected_steps_on_the_rows_it_was_shown(kind):
    # 40 t rows: less than a block, and several.
    world = pp.worlds.credit(drift="random", b=0.5, rounds=6)
    plain, counts = Plain.of(world, ball(1.0)), row_counts(40, 1.0, 6)
    given, step = form(kind, counts)
    learner = pp.learners.lazy_sgd(n0=40, step=given)
    models = pp.simulate(world, learner, runs=2).deployed.values[1, :, 0]
    session = pp.Session(world, run=1)
    for t in range(5):
        inner = models[t]
        for j, row in enumerate(session.deploy(models[t], n=int(counts[t])), 1):
            inner = plain.project(inner - step(t + 1, j) * plain.row_gradient(row, inner))
        np.testing.assert_allclose(models[t + 1], inner, rtol=0, atol=1e-12)


def test_with_one_row_a_round_it_is_greedy_sgd():
    world = pp.worlds.quadratic(dim=2, b=0.5, rounds=12)
    steps = 1 / (np.arange(1, 13) + 2)
    lazy = pp.simulate(world, pp.learners.lazy_sgd(1, 0.0, lambda t, j: 1 / (t + 2)), runs=2)
    greedy = pp.simulate(world, pp.learners.greedy_sgd(steps), runs=2)
    np.testing.assert_allclose(lazy.deployed, greedy.deployed, rtol=1e-12, atol=1e-13)


def test_its_regret_is_that_of_a_plain_loop_in_distribution():
    world = pp.worlds.credit(drift="random", b=0.5, rounds=12)
    plain = Plain.of(world, ball(1.0))
    counts, rng = row_counts(2, 1.0, 12), np.random.default_rng(1)
    paths = [plain.sgd(np.zeros(17), rng, counts, lambda t, j: 2 / (j + 4)) for _ in range(120)]
    least = sum(plain.risk(t, point, point) for t, point in enumerate(plain.stable()))
    looped = np.array(
        [sum(plain.risk(t, model, model) for t, model in enumerate(path)) for path in paths]
    )
    looped = looped - least
    summary = pp.simulate(world, pp.learners.lazy_sgd(n0=2), runs=600).summary().isel(round=-1)
    error = np.hypot(looped.std(ddof=1) / np.sqrt(120), float(summary.standard_error))
    assert abs(looped.mean() - float(summary["mean"])) < 4 * error
    assert error < 0.05 * float(summary["mean"])


def test_noise_in_blocks_is_the_same_however_many_rows_are_drawn():
    with jax.enable_x64(True):
        key = jax.random.key(5)
        many = arm_noise(key, 2, 2 * BLOCK + 7, 3)
        few = arm_noise(key, 2, BLOCK - 3, 3)
        np.testing.assert_array_equal(many.normals[:, : BLOCK - 3], few.normals)
        np.testing.assert_array_equal(many.uniforms[:, : BLOCK - 3], few.uniforms)
        streamed = block_noise(arm_key(key, 1), 2, BLOCK, 3)
        np.testing.assert_array_equal(many.normals[1, 2 * BLOCK :], streamed.normals[:7])


class Nosy(Learner):
    """Asks for all rows, though it declared that they come one by one."""

    feedback = "samples"
    randomised = True

    @property
    def rows(self):
        return np.full(3, 2)

    def init(self, problem, start):
        return start

    def deploy(self, state, key):
        return state[None]

    def update(self, state, feedback):
        return jnp.mean(feedback.rows[0], axis=0)


def test_rows_that_come_one_by_one_cannot_be_asked_for_at_once():
    world = pp.worlds.quadratic(dim=2, rounds=3)
    with pytest.raises(AttributeError, match="it must declare feedback='samples' and one number"):
        pp.simulate(world, Nosy(), against=())


def test_a_function_for_too_many_steps_is_refused():
    world = pp.worlds.quadratic(dim=2, rounds=2000)
    with pytest.raises(ValueError, match=r"step must be numbers .* got a function for 200100000"):
        pp.simulate(world, pp.learners.lazy_sgd(n0=100, step=lambda t, j: 1 / j))
    # One round of it would be a table of terabytes; at r = 9 the count is beyond 64 bits.
    for r, most in ((4.0, "1.6e+13"), (9.0, "5.12e+29")):
        with pytest.raises(ValueError, match=f"n0 and r must not .* {re.escape(most)} in round"):
            pp.simulate(world, pp.learners.lazy_sgd(r=r))


def test_it_keeps_the_contract_of_learners():
    pp.testing.check_learner(pp.learners.lazy_sgd(n0=30))
