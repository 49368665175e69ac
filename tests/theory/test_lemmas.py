"""The inequalities of the proofs, on random instances, with equality where the proof has it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import performative as pp
from performative.learners import rgd
from performative.theory import lemmas

ROUNDS, DIM = 12, 2
seeds = st.integers(0, 2**31)
unit = st.floats(0.0, 1.0)
few = settings(max_examples=25)


def _random_world(seed, l2=0.0, radius=4.0):
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(DIM, DIM))
    matrix *= rng.uniform(0.0, 0.9) / np.linalg.norm(matrix, 2)
    means = rng.normal(size=(ROUNDS, DIM))
    return pp.World(
        response=pp.responses.location(matrix, pp.Gaussian(rng.normal(size=DIM), 0.3)),
        drift=pp.drifts.recorded(pp.Gaussian(means, 0.7)),
        mixing=pp.mixing.recorded(rng.uniform(0.0, 1.0, size=ROUNDS)),
        loss=pp.losses.squared(l2=l2),
        domain=pp.domains.ball(radius),
        rounds=ROUNDS,
    )


@few
@given(seeds, st.floats(0.0, 3.0))
def test_lemma_a1_holds_and_is_an_equality_for_a_recursion(seed, scale):
    rng = np.random.default_rng(seed)
    factors, moves = rng.uniform(0, 1.5, size=9), scale * rng.uniform(size=8)
    errors = np.empty(9)
    errors[0] = rng.uniform(0, 2)
    for t in range(8):
        errors[t + 1] = factors[t] * errors[t] + moves[t]
    equal = lemmas.telescope(errors, factors, moves)
    assert equal.left == pytest.approx(equal.right, rel=1e-9, abs=1e-12)
    errors[-1] *= rng.uniform()
    assert lemmas.telescope(errors, factors, moves).holds()
    errors[-1] = factors[-2] * errors[-2] + moves[-1] + 1.0
    with pytest.raises(ValueError, match="errors must satisfy"):
        lemmas.telescope(errors, factors, moves)


@few
@given(st.floats(0.0, 3.0), unit, unit, st.floats(0.0, 5.0), st.floats(0.05, 20.0))
def test_lemma_a2_holds(first, share, part, h, t0):
    alpha = 0.01 + share * (0.99 + t0)
    m = part * alpha * 0.999
    assert lemmas.sublinear(first, alpha, h, m, t0, rounds=60).holds()


@few
@given(st.floats(0.01, 0.99), st.floats(0.05, 8.0), st.integers(1, 200))
def test_lemma_a3_holds(c, r, rounds):
    assert lemmas.unroll(c, r, rounds).holds()


@few
@given(seeds, unit, unit)
def test_lemma_a4_holds(seed, a, b):
    rng = np.random.default_rng(seed)
    data = [pp.Empirical(rng.normal(size=(5, 1)) * rng.uniform(0, 3)) for _ in range(4)]
    assert lemmas.mixing(a, b, *data).holds()
    same = lemmas.mixing(a, b, data[0], data[1], data[0], data[1])
    assert same.right == pytest.approx(abs(a - b) * pp.wasserstein(data[0], data[1]).value)


@few
@given(seeds)
def test_lemma_a5_holds_for_any_two_models(seed):
    world = _random_world(seed)
    rng = np.random.default_rng(seed)
    theta, other = world.domain.draw(rng, 2, DIM)
    assert lemmas.inherited_slope(world, theta, other).holds()


@few
@given(seeds, st.sampled_from([4.0, 0.4]))
def test_lemma_3_1_holds_along_every_run_boundary_or_not(seed, radius):
    world = _random_world(seed, radius=radius)
    start = world.domain.draw(np.random.default_rng(seed), 1, DIM)[0]
    run = pp.simulate(world, pp.learners.rrm(), start=start)
    assert lemmas.retraining_contracts(world, run.deployed.values[0, :, 0]).holds()


def test_lemma_3_1_is_an_equality_where_the_matrix_is_a_multiple_of_the_identity():
    world = pp.World(
        response=pp.responses.location(0.6, pp.Gaussian([1.0, 0.0], 1.0)),
        drift=pp.drifts.iid_ball(1.0),
        mixing=pp.mixing.polynomial(0.5),
        loss=pp.losses.squared(),
        domain=pp.domains.ball(9.0),
        rounds=8,
    )
    run = pp.simulate(world, pp.learners.rrm())
    sides = lemmas.retraining_contracts(world, run.deployed.values[0, :, 0])
    np.testing.assert_allclose(sides.left, sides.right, rtol=1e-9, atol=1e-14)
    assert sides.left[1] > 0.01


@few
@given(seeds, st.floats(0.0, 2.5), st.sampled_from([4.0, 0.4]))
def test_lemma_c1_holds_for_any_step(seed, step, radius):
    world = _random_world(seed, radius=radius)
    run = pp.simulate(world, rgd(step=step), start=np.zeros(DIM))
    deployed = run.deployed.values[0, :, 0]
    assert lemmas.descent_contracts(world, deployed, step).holds()


@few
@given(seeds, st.floats(0.0, 1.5))
def test_lemmas_d1_and_e1_hold_for_any_model_and_step(seed, step):
    world = _random_world(seed, l2=0.3)
    rng = np.random.default_rng(seed)
    theta, deployed = world.domain.draw(rng, 2, DIM)
    assert lemmas.greedy_step(world, 3, theta, step).holds()
    assert lemmas.lazy_step(world, 3, theta, deployed, step).holds()


def test_the_exact_left_side_of_d1_is_the_mean_of_many_steps():
    world, theta, step = _random_world(5), np.array([0.7, -0.2]), 0.4
    left = lemmas.greedy_step(world, 2, theta, step).left
    rows = world.sample(2, theta, 40_000, seed=1)
    stable = pp.stable_points(world).values[1]
    after = np.sum((theta - step * (theta - rows) - stable) ** 2, axis=1)
    assert abs(after.mean() - left) < 4 * after.std() / 200


def test_lemma_3_1_holds_in_the_credit_world_at_every_round():
    world = pp.worlds.credit(b=0.5, rounds=80)
    run = pp.simulate(world, pp.learners.rrm())
    sides = lemmas.retraining_contracts(world, run.deployed.values[0, :, 0])
    assert sides.holds()
    assert np.max(sides.left[1:] / sides.right[1:]) < 0.5  # α_1 = 1: the first step is exact
