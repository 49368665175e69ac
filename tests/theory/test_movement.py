"""Proposition 3.4 at every round of every world, and its equality."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import performative as pp
from performative.theory import target_moves

ROUNDS = 12
rng = np.random.default_rng(0)
ROWS = rng.normal(size=(40, 3))
LABELLED = np.column_stack([ROWS, np.sign(ROWS @ [1.0, -0.5, 0.3] + rng.normal(size=40))])
MOVING = LABELLED[rng.integers(0, 40, size=(ROUNDS, 40))]


def _world(**pieces):
    pieces = {"mixing": pp.mixing.polynomial(0.5), "domain": pp.domains.ball(1.0), **pieces}
    return pp.World(rounds=ROUNDS, **pieces)


WORLDS = {
    "credit, random": lambda: pp.worlds.credit(b=0.5, rounds=ROUNDS),
    "credit, stationary": lambda: pp.worlds.credit(drift="stationary", b=0.5, rounds=ROUNDS),
    "quadratic": lambda: pp.worlds.quadratic(dim=4, b=0.5, rounds=ROUNDS),
    "normal data of two spreads": lambda: _world(
        response=pp.responses.location(0.2, pp.Gaussian([0.3, 0.0, 0.1], [1.0, 0.5, 2.0])),
        drift=pp.drifts.iid_ball(0.7),
        loss=pp.losses.logistic(l2=1.0),
    ),
    "squared, switching": lambda: _world(
        response=pp.responses.location(0.5, pp.Empirical(ROWS)),
        drift=pp.drifts.switching(
            [pp.Gaussian(np.zeros(3), 1.0), pp.Gaussian(np.ones(3), 2.0)], period=3
        ),
        loss=pp.losses.squared(l2=0.2),
    ),
    "labelled logistic, rows": lambda: _world(
        response=pp.responses.strategic(pp.Empirical(LABELLED), [0, 1], 0.1),
        drift=pp.drifts.recorded(pp.Empirical(MOVING)),
        loss=pp.losses.logistic(l2=1.0, labelled=True, intercept=True, penalise_intercept=True),
    ),
    "labelled squared, rows": lambda: _world(
        response=pp.responses.strategic(pp.Empirical(LABELLED), [0, 1], 0.02),
        drift=pp.drifts.recorded(pp.Empirical(MOVING)),
        loss=pp.losses.squared(l2=0.5, labelled=True),
        domain=pp.domains.ball(0.3),
    ),
    "no response": lambda: _world(
        drift=pp.drifts.recorded(pp.Empirical(MOVING)),
        loss=pp.losses.logistic(l2=1.0, labelled=True),
        mixing=None,
    ),
}


@pytest.mark.parametrize("name", WORLDS)
def test_proposition_3_4_holds_at_every_round(name):
    sides = target_moves(WORLDS[name]())
    assert np.all(np.isfinite(sides.right))
    assert sides.holds(rtol=1e-9)
    assert np.max(sides.left / np.maximum(sides.right, 1e-300)) > 0.005


def test_proposition_3_4_is_an_equality_at_first_in_a_stationary_quadratic_world():
    world = pp.World(
        response=pp.responses.location(0.3, pp.Gaussian([1.0, -0.5], 0.25)),
        drift=pp.drifts.fixed(pp.Gaussian([0.2, 0.4], 0.25)),
        mixing=pp.mixing.polynomial(1.0),
        loss=pp.losses.squared(),
        domain=pp.domains.linf_ball(5.0),
        rounds=20,
    )
    sides = target_moves(world)
    np.testing.assert_allclose(sides.left, sides.right, rtol=1e-9)
    general = target_moves(pp.worlds.quadratic(drift="stationary", b=1.0, rounds=20))
    assert general.left[0] == pytest.approx(general.right[0], rel=1e-9)
    assert np.all(general.left[1:] < general.right[1:])


@settings(max_examples=25)
@given(st.integers(0, 2**31), st.sampled_from([5.0, 0.5]))
def test_proposition_3_4_holds_in_random_quadratic_worlds(seed, radius):
    draw = np.random.default_rng(seed)
    matrix = draw.normal(size=(2, 2))
    matrix *= draw.uniform(0, 0.95) / np.linalg.norm(matrix, 2)
    world = pp.World(
        response=pp.responses.location(matrix, pp.Gaussian(draw.normal(size=2), 0.3)),
        drift=pp.drifts.recorded(pp.Gaussian(draw.normal(size=(ROUNDS, 2)), 0.6)),
        mixing=pp.mixing.recorded(draw.uniform(size=ROUNDS)),
        loss=pp.losses.squared(),
        domain=pp.domains.ball(radius),
        rounds=ROUNDS,
    )
    assert target_moves(world).holds(rtol=1e-9)


def test_it_is_infinite_where_its_condition_fails_or_nothing_is_known():
    strong = pp.World(
        response=pp.responses.location(1.5, pp.Gaussian([1.0], 1.0)),
        drift=pp.drifts.fixed(pp.Gaussian([0.0], 1.0)),
        mixing=pp.mixing.recorded([0.9, 0.9, 0.1, 0.1]),
        loss=pp.losses.squared(),
        domain=pp.domains.ball(5.0),
        rounds=4,
    )
    with pytest.warns(UserWarning, match="not unique"):
        sides = target_moves(strong)
    assert np.isfinite(sides.right[:2]).all() and np.isinf(sides.right[2])
    assert sides.holds()


def test_a_fixed_p_moves_the_stable_points_unless_alpha_is_constant():
    """Erratum to section 6: the path is zero only for a constant α."""
    path = {}
    for b in (0.0, 1.0):
        world = pp.worlds.quadratic(drift="stationary", b=b, rounds=50)
        path[b] = float(pp.path_length(pp.stable_points(world))[-1])
    assert path[0.0] == 0.0 and path[1.0] > 0.1


def test_the_corollary_needs_d_and_p_near_each_other():
    """Erratum to section 3: P_t moves by 1 a round and Σ α_t is log T, yet regret is T/2.

    The stable point is 1 in even rounds and 0 in odd ones; retraining is always one round late.
    """
    rounds = 400
    t = np.arange(1, rounds + 1)
    world = pp.World(
        response=pp.responses.location(0.0, pp.Gaussian([0.0], 1.0)),
        drift=pp.drifts.recorded(pp.Gaussian(t[:, None].astype(float), 1.0)),
        mixing=pp.mixing.recorded(np.where(t % 2 == 0, 1 / t, 0.0)),
        loss=pp.losses.squared(),
        domain=pp.domains.linf_ball(5.0),
        rounds=rounds,
    )
    regret = pp.simulate(world, pp.learners.rrm()).regret("stable").values[0]
    assert regret[-1] == pytest.approx(rounds / 2 - 0.5)
    assert 1 + world.alphas.sum() < 5
    sides = target_moves(world)
    assert sides.holds() and sides.right[-1] > 0.9
