"""The environment keeps Gymnasium's contract, and pays what the world says."""

import numpy as np
import pytest

import performative as pp

pytest.importorskip("gymnasium")
from gymnasium.utils.env_checker import check_env

from performative.interop.gymnasium import Environment


def world(lag=None):
    response = pp.responses.location(0.5, pp.Gaussian([1.0, 0.0], 1.0))
    return pp.World(
        response=response if lag is None else pp.responses.lagged(response, lag),
        drift=pp.drifts.random_walk(cov=1.0, step=0.1, seed=2),
        mixing=pp.mixing.constant(0.5),
        loss=pp.losses.squared(),
        domain=pp.domains.ball(2.0),
        rounds=4,
    )


@pytest.mark.filterwarnings("ignore")  # of unbounded observations
def test_gymnasium_finds_nothing_wrong():
    check_env(Environment(world(), rows=5), skip_render_check=True)


def test_an_episode_is_a_run():
    here = world()
    environment = Environment(here, rows=50, start=[1.0, 0.0])
    rows, about = environment.reset(seed=1)
    assert rows.shape == (50, 2) and about["round"] == 1
    for t in (2, 3, 4):
        action = environment.world.domain.project(3.0 * rows.mean(axis=0))
        rows, reward, over, _, about = environment.step(3.0 * rows.mean(axis=0))
        np.testing.assert_allclose(about["deployed"], action)
        assert reward == pytest.approx(-here.risk(t, action))
        assert over == (t == 4)
    run = environment.run(against=("stable", "optimal"))
    assert run.deployed.shape == (1, 4, 1, 2)
    with pytest.raises(IndexError, match="reset"):
        environment.step([0.0, 0.0])
    again, _ = environment.reset(seed=1)
    assert not np.array_equal(again, rows)


def test_a_lagged_population_pays_for_the_state_it_is_in():
    here = world(lag=0.5)
    environment = Environment(here, start=[1.0, 0.0])
    environment.reset(seed=0)
    _, reward, *_ = environment.step([0.0, 0.0])  # the population is still at the start
    assert reward == pytest.approx(-here.decoupled_risk(2, [0.0, 0.0], [1.0, 0.0]))


def test_bad_actions_are_refused():
    environment = Environment(world())
    with pytest.raises(RuntimeError, match="reset"):
        environment.step([0.0, 0.0])
    environment.reset()
    with pytest.raises(ValueError, match=r"action must have shape \(2,\)"):
        environment.step([0.0])
    with pytest.raises(ValueError, match="action"):
        environment.step([np.nan, 0.0])
