"""The engine: rounds, chunks, records, checkpoints, sessions and sweeps give one and the same run."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import performative as pp
from performative.learners import Learner
from performative.simulation import engine

T, D = 50, 3


def quadratic(b=0.5, drift="random", rounds=T, seed=0):
    return pp.worlds.quadratic(dim=D, b=b, drift=drift, rounds=rounds, seed=seed)


class Theta(NamedTuple):
    theta: object


class Averager(Learner):
    """Follows the mean of a few rows: one arm, samples."""

    feedback = "samples"
    rows = 4
    randomised = True

    def init(self, problem, start):
        return Theta(start)

    def deploy(self, state, key):
        return state.theta[None]

    def update(self, state, feedback):
        ahead = 0.5 * state.theta + 0.5 * jnp.mean(feedback.rows[0], axis=0)
        return Theta(feedback.domain.projection(ahead))


class TwoArms(Learner):
    """Tries two models a round and sees their risks, as zeroth-order methods do."""

    feedback = "risk"
    arms = 2
    randomised = True

    def init(self, problem, start):
        return Theta(start)

    def deploy(self, state, key):
        away = jax.random.normal(key, state.theta.shape)
        away = 0.1 * away / jnp.linalg.norm(away)
        return jnp.stack([state.theta + away, state.theta - away])

    def update(self, state, feedback):
        slope = (feedback.risks[0] - feedback.risks[1]) / 0.04
        apart = feedback.deployed[0] - feedback.deployed[1]
        return Theta(feedback.domain.projection(state.theta - 0.2 * slope * apart))


class Peeker(Averager):
    """Declares samples and asks for the population."""

    def update(self, state, feedback):
        return Theta(feedback.risks[0] * state.theta)


def run_by_hand(world, theta, rounds):
    """RRM and its regret in plain NumPy, from the public methods of the world."""
    points = pp.stable_points(world).values
    deployed, regret = [], []
    for t in range(1, rounds + 1):
        deployed.append(theta)
        regret.append(world.risk(t, theta) - world.risk(t, points[t - 1]))
        theta = world.domain.project(world.distribution(t, theta).mean)
    return np.array(deployed), np.cumsum(regret)


def test_rrm_and_its_regret_are_what_the_definitions_say():
    world, start = quadratic(), np.full(D, 0.5)
    run = pp.simulate(world, pp.learners.rrm(), start=start)
    deployed, regret = run_by_hand(world, start, T)
    np.testing.assert_allclose(run.deployed.values[0, :, 0], deployed, atol=1e-13)
    np.testing.assert_allclose(run.regret("stable").values[0], regret, atol=1e-11)
    assert run.deployed.dims == ("run", "round", "arm", "parameter")
    assert run.regret("stable").dims == ("run", "round")


def test_rrm_reaches_a_fixed_world_in_one_round():
    world = quadratic(b=0.0, drift="stationary")
    run = pp.simulate(world, pp.learners.rrm(), start=np.ones(D))
    each = run.regret("stable", cumulative=False).values[0]
    assert each[0] > 0.1
    np.testing.assert_allclose(each[1:], 0.0, atol=1e-30)


def test_regret_keeps_its_digits_when_models_are_very_close():
    """The difference of two risks would stop at 1e-16; the exact form goes on to the square."""
    world = quadratic(b=0.0, drift="stationary")
    points = pp.stable_points(world).values
    near = points[0] + 1e-11
    run = pp.simulate(world, pp.learners.rrm(), start=near)
    first = run.regret("stable").values[0, 0]
    np.testing.assert_allclose(first, 0.5 * D * 1e-22, rtol=1e-4)


def test_a_run_by_hand_is_the_run_of_the_engine():
    world = quadratic()
    run = pp.simulate(world, pp.learners.rrm(rows=5), runs=3, seed=7)
    for r in range(3):
        session, theta = pp.Session(world, seed=7, run=r), np.zeros(D)
        for _ in range(T):
            rows = session.deploy(theta, feedback="samples", n=5)
            theta = world.domain.project(rows.mean(axis=0))
        mine = session.close()
        np.testing.assert_allclose(mine.deployed.values[0], run.deployed.values[r], atol=1e-12)
        np.testing.assert_allclose(
            mine.regret("stable").values[0], run.regret("stable").values[r], atol=1e-11
        )


def test_population_feedback_by_hand_reproduces_rrm_in_the_credit_world():
    world = pp.worlds.credit(b=0.5, rounds=6)
    run = pp.simulate(world, pp.learners.rrm())
    session, theta = pp.Session(world), np.zeros(17)
    for _ in range(6):
        seen = session.deploy(theta, feedback="population")
        for _ in range(8):
            theta = theta - np.linalg.solve(seen.hessian(theta), seen.gradient(theta))
    np.testing.assert_allclose(session.close().deployed, run.deployed, atol=1e-12)


def test_chunks_do_not_change_a_bit(monkeypatch):
    world = quadratic()
    whole = pp.simulate(world, Averager(), runs=2, seed=3)
    for length in (7, 16, 33):
        monkeypatch.setattr(engine.Player, "_chunk_length", lambda self, learner, n=length: n)
        cut = pp.simulate(world, Averager(), runs=2, seed=3)
        assert np.array_equal(cut.deployed, whole.deployed)
        assert np.array_equal(cut.regret("stable"), whole.regret("stable"))


def test_runs_do_not_depend_on_how_many_there_are():
    world = quadratic()
    two = pp.simulate(world, Averager(), runs=2, seed=3)
    five = pp.simulate(world, Averager(), runs=5, seed=3)
    np.testing.assert_allclose(five.deployed[:2], two.deployed, atol=1e-12)
    assert not np.allclose(five.deployed[2], five.deployed[1])


def test_worlds_share_their_random_numbers():
    """With the same data in both worlds, the same seed gives the same run."""
    table = pp.sweep(
        {"a": quadratic(b=0.5), "again": quadratic(b=0.5), "other": quadratic(b=1.0)},
        {"follow": Averager(), "RRM": pp.learners.rrm()},
        runs=3,
        seed=5,
    )
    np.testing.assert_allclose(
        table.stable_regret.sel(world="a"), table.stable_regret.sel(world="again"), atol=1e-12
    )
    single = pp.simulate(quadratic(b=1.0), Averager(), runs=3, seed=5).regret("stable")
    mine = table.stable_regret.sel(world="other", learner="follow")
    np.testing.assert_allclose(mine, single, rtol=1e-11, atol=1e-11)
    assert table.stable_regret.dims == ("world", "learner", "run", "round")


def test_an_interrupted_run_goes_on_bit_for_bit(tmp_path, monkeypatch):
    world, file = quadratic(), tmp_path / "run.checkpoint"
    monkeypatch.setattr(engine.Player, "_chunk_length", lambda self, learner: 8)
    monkeypatch.setattr(engine, "CHECKPOINT_SECONDS", 0.0)
    whole = pp.simulate(world, Averager(), runs=2, seed=3, against=("stable", "optimal"))
    play, played = engine.Player.play, []

    def breaking(self, first, last):
        if first > 24:
            raise KeyboardInterrupt
        played.append(first)
        play(self, first, last)

    monkeypatch.setattr(engine.Player, "play", breaking)
    options = {"runs": 2, "seed": 3, "against": ("stable", "optimal"), "checkpoint": file}
    with pytest.raises(KeyboardInterrupt):
        pp.simulate(world, Averager(), **options)
    assert file.exists()
    with pytest.raises(ValueError, match="checkpoint must belong to the same"):
        pp.simulate(world, Averager(), **{**options, "seed": 4})
    resumed = []
    monkeypatch.setattr(
        engine.Player,
        "play",
        lambda self, first, last: (resumed.append(first), play(self, first, last)),
    )
    rest = pp.simulate(world, Averager(), **options)
    assert resumed[0] == 25
    assert np.array_equal(rest.deployed, whole.deployed)
    for target in ("stable", "optimal"):
        assert np.array_equal(rest.regret(target), whole.regret(target))
    assert not file.exists()


def test_a_checkpoint_knows_functions_by_what_they_do_and_not_by_where_they_are(tmp_path):
    def fingerprint(power, targets=("stable",)):
        loss = pp.losses.custom(lambda row, theta: jnp.sum((row - theta) ** power), parameters=1)
        response = pp.responses.location(0.5, pp.Empirical([[0.0], [1.0]]))
        world = pp.World(response=response, loss=loss, domain=pp.domains.ball(1.0), rounds=3)
        record = engine.Record.of(world, Averager(), 1, 1, targets, "all")
        starts = np.zeros((1, 1))
        return engine.Checkpoint(
            tmp_path / "file", world, Averager(), record, starts, 0
        ).fingerprint

    assert fingerprint(2) == fingerprint(2)
    assert fingerprint(2) != fingerprint(4)
    assert fingerprint(2) != fingerprint(2, ("stable", "optimal"))


@pytest.mark.parametrize("content", [b"not a checkpoint", b"", b"PK\x03\x04 half of one"])
def test_a_file_that_is_no_checkpoint_is_refused(tmp_path, content):
    file = tmp_path / "notes.txt"
    file.write_bytes(content)
    with pytest.raises(ValueError, match="checkpoint must be a file that an earlier run left"):
        pp.simulate(quadratic(), pp.learners.rrm(), checkpoint=file)


def test_what_is_recorded_agrees():
    world = quadratic()
    full = pp.simulate(world, Averager(), runs=2, record="all", against=("stable", "optimal"))
    slim = pp.simulate(world, Averager(), runs=2, record="regret", against=("stable", "optimal"))
    thin = pp.simulate(world, Averager(), runs=2, record="thin", against=("stable", "optimal"))
    for target in ("stable", "optimal"):
        assert np.array_equal(full.regret(target), slim.regret(target))
        kept = full.regret(target).sel(round=thin.regret(target)["round"])
        np.testing.assert_allclose(thin.regret(target), kept, rtol=1e-12)
    assert np.array_equal(thin.deployed, full.deployed.sel(round=thin.dataset["round"]))
    assert thin.dataset["round"].values[-1] == T
    with pytest.raises(ValueError, match="not kept"):
        slim.deployed  # noqa: B018
    with pytest.raises(ValueError, match="cumulative"):
        thin.regret("stable", cumulative=False)


def test_a_regret_that_was_not_asked_for_is_computed_when_wanted():
    world = quadratic()
    asked = pp.simulate(world, Averager(), runs=2, against=("optimal",)).regret("optimal")
    later = pp.simulate(world, Averager(), runs=2).regret("optimal")
    np.testing.assert_allclose(later, asked, rtol=1e-9, atol=1e-12)
    slim = pp.simulate(world, Averager(), record="regret")
    with pytest.raises(ValueError, match="named in advance"):
        slim.regret("optimal")


def test_a_target_that_is_looked_for_later_is_flagged_as_one_named_in_advance():
    world = pp.World(
        response=pp.responses.location([[1.0]], pp.Gaussian([1.0], 1.0)),  # no stable point
        loss=pp.losses.squared(),
        domain=pp.domains.everywhere(),
        rounds=2,
    )
    session = pp.Session(world)
    session.deploy([0.0])
    for look in (
        lambda: pp.simulate(world, pp.learners.rrm()),
        lambda: pp.simulate(world, pp.learners.rrm(), against=()),
        lambda: session.close(against=()),
    ):
        with pytest.warns(UserWarning, match="found to be 'unsolved'"):
            run = look()
            run.regret("stable")
        rounds = run.dataset.sizes["round"]
        assert run.dataset.attrs["stable_flagged_rounds"] == rounds
        assert list(run.dataset["stable_status"].values) == ["unsolved"] * rounds
        assert run.dataset["stable_point"].shape == (rounds, 1)


def test_a_large_run_is_not_kept_whole_unless_asked(monkeypatch):
    from performative.simulation import run

    monkeypatch.setattr(run, "AUTO_BYTES", 1000)
    with pytest.warns(UserWarning, match="were not kept"):
        kept = pp.simulate(quadratic(), pp.learners.rrm())
    assert kept.dataset.attrs["record"] == "regret"
    monkeypatch.setattr(run, "MOST_BYTES", 1000)
    with pytest.raises(ValueError, match="record must be 'thin' or 'regret'"):
        pp.simulate(quadratic(), pp.learners.rrm(), record="all")


def test_two_arms_average_or_the_worse():
    world = quadratic(b=1.0)
    run = pp.simulate(world, TwoArms(), runs=2, against=("optimal",))
    arms = run.deployed.values
    assert arms.shape == (2, T, 2, D)
    np.testing.assert_allclose(np.linalg.norm(arms[:, :, 0] - arms[:, :, 1], axis=-1), 0.2)
    each = run.dataset["optimal_regret"].values
    np.testing.assert_allclose(
        run.regret("optimal", cumulative=False), each.mean(axis=2), atol=1e-15
    )
    worst = run.regret("optimal", arms="worst", cumulative=False)
    assert np.array_equal(worst, each.max(axis=2))
    assert np.all(each > -1e-12)


def test_asking_for_undeclared_feedback_is_an_error():
    with pytest.raises(TypeError, match=r"declares, feedback='samples'.*'risks'.*feedback='risk'"):
        pp.simulate(quadratic(), Peeker())


def test_a_lagged_population_is_judged_on_the_state_it_is_in():
    base = pp.Gaussian([1.0], 0.25)
    world = pp.World(
        response=pp.responses.lagged(pp.responses.location(0.5, base), rate=0.25),
        loss=pp.losses.squared(),
        domain=pp.domains.ball(9.0),
        rounds=12,
    )
    run = pp.simulate(world, pp.learners.rrm(), start=[3.0])
    state = theta = 3.0
    for t, seen in enumerate(run.regret("stable", cumulative=False).values[0]):
        mean = 0.5 * state + 1.0
        settled = 0.5 * 0.25
        np.testing.assert_allclose(
            seen, 0.5 * (mean - theta) ** 2 + settled - settled, atol=1e-13, err_msg=str(t)
        )
        np.testing.assert_allclose(run.deployed.values[0, t, 0, 0], theta, atol=1e-13)
        state, theta = 0.75 * state + 0.25 * theta, mean
    session = pp.Session(world)
    for theta in run.deployed.values[0, :, 0]:
        session.deploy(theta, feedback="risk")
    np.testing.assert_allclose(session.close().regret("stable"), run.regret("stable"), atol=1e-13)


def test_a_run_comes_back_from_its_file(tmp_path):
    run = pp.simulate(quadratic(), Averager(), runs=2, seed=9)
    run.save(tmp_path / "run.nc")
    back = pp.load(tmp_path / "run.nc")
    assert back.dataset.equals(run.dataset)
    assert back.dataset.attrs["seed"] == 9
    assert "Averager" in repr(back)
    assert np.array_equal(back.regret("stable"), run.regret("stable"))
    with pytest.raises(FileNotFoundError, match=r"Run\.save"):
        pp.load(tmp_path / "none.nc")
    (tmp_path / "text.nc").write_text("no run")
    with pytest.raises(ValueError, match=r"Run\.save"):
        pp.load(tmp_path / "text.nc")
    assert "stable regret" in run._repr_html_()


def test_a_numpy_sampler_plays_too():
    def draw(rng, theta, n):
        return rng.normal(size=(n, 1)) * 0.5 + 0.5 * theta + 1.0

    world = pp.World(
        response=pp.responses.custom(draw, dimension=1, backend="numpy"),
        loss=pp.losses.squared(),
        domain=pp.domains.ball(9.0),
        rounds=8,
        draws=400,
    )
    assert not world.pathwise and "central differences" in world.explain(1, [0.0]).how
    error = world.explain(1, [0.0]).standard_error
    assert abs(world.explain(1, [0.0]).value - 0.5 * (1.0 + 0.25)) < 4 * error
    np.testing.assert_allclose(world.total_gradient(1, [0.0]), -0.5, atol=0.1)
    run = pp.simulate(world, pp.learners.rrm())
    np.testing.assert_allclose(run.deployed.values[0, -1], 2.0, atol=0.2)


def test_a_numpy_sampler_keeps_double_precision_both_ways():
    seen = []

    def draw(rng, t, theta, n):
        seen.append((t, theta.copy()))
        return np.full((n, 1), 1.0 + 1e-12) + 0.0 * theta

    world = pp.World(
        map=pp.maps.custom(draw, dimension=1, backend="numpy"),
        loss=pp.losses.squared(),
        domain=pp.domains.ball(9.0),
        rounds=3,
        draws=4,
    )
    theta = 1.0 / 3.0
    np.testing.assert_allclose(world.gradient(2, [theta], [theta]), theta - 1.0 - 1e-12, rtol=1e-15)
    assert seen[-1][0] == 2 and seen[-1][1][0] == theta


def test_nothing_is_measured_when_no_target_is_named():
    run = pp.simulate(pp.worlds.credit(rounds=4), pp.learners.rrm(), against=())
    assert "stable_regret" not in run.dataset
    assert run.regret("stable").values[0, -1] > 0  # found when it is asked for
