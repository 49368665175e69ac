"""The atlas: its numbers are those of single runs, and what cannot be played says why."""

import jax.numpy as jnp
import numpy as np
import pytest

import performative as pp


class Cautious(pp.learners.Learner):
    """A newcomer's learner: half of the way to what the last data ask for."""

    @property
    def name(self):
        return "cautious"

    def init(self, problem, start):
        return start

    def deploy(self, state, key):
        return state[None]

    def update(self, state, feedback):
        return feedback.domain.projection(state - 0.5 * feedback.gradient(state))


class Fragile(Cautious):
    """Fails while it is played, and only where there is one parameter."""

    def update(self, state, feedback):
        return state if state.shape[0] > 1 else jnp.zeros(3)


@pytest.fixture(scope="module")
def table():
    worlds = {
        "mean": pp.worlds.gaussian_mean(rounds=30, mixing=pp.mixing.constant(0.3)),
        "coin": pp.worlds.biased_coin(rounds=30),
    }
    learners = {
        "RRM": pp.learners.rrm(),
        "rows": pp.learners.rrm(rows=3),
        "ZGD2": pp.learners.zgd2(step=0.3, delta=0.1),
        "cautious": Cautious(),
        "fragile": Fragile(),
    }
    return worlds, learners, pp.atlas.measure(worlds, learners, runs=4, seed=2)


def test_each_number_is_that_of_a_run_of_its_own(table):
    worlds, learners, measured = table
    run = pp.simulate(
        worlds["mean"], learners["rows"], runs=4, seed=2, against=("stable", "optimal")
    )
    for target in ("stable", "optimal"):
        last = run.regret(target).values[:, -1]
        here = measured.sel(world="mean", learner="rows")
        assert float(here[f"{target}_regret"]) == pytest.approx(last.mean(), rel=1e-9)
        error = last.std(ddof=1) / 2
        assert float(here[f"{target}_error"]) == pytest.approx(error, rel=1e-6)


def test_a_newcomers_learner_stands_beside_the_others(table):
    measured = table[2].sel(learner="cautious", world="mean")
    # At the mean, half a step: 1 − θ_{t+1}/θ* = (1 − ½(1 − 0.35)) (1 − θ_t/θ*), from θ_1 = 0; here
    # θ* = 1/(1 − 0.35), PR″ = 0.7·0.25 + 0.3 and PR′(θ*) = 0.3·0.5 (θ* − 1).
    stable = 1.0 / 0.65
    gaps = -stable * 0.675 ** np.arange(30)
    expected = np.sum(0.15 * (stable - 1.0) * gaps + 0.5 * 0.475 * gaps**2)
    assert float(measured.stable_regret) == pytest.approx(expected, rel=1e-9)
    assert str(measured.feedback.values) == "population"


def test_what_cannot_be_played_says_why_and_costs_nothing_else(table):
    measured = table[2]
    assert (
        "domain must hold a ball about 0"
        in measured.why_not.sel(world="coin", learner="ZGD2").item()
    )
    assert measured.why_not.sel(learner="fragile").values.tolist() != ["", ""]
    played = measured.sel(learner=["RRM", "rows", "cautious"])
    assert np.all(np.isfinite(played.stable_regret)) and np.all(played.why_not == "")
    assert np.all(np.isnan(measured.stable_regret.sel(learner="fragile")))


def test_the_table_says_who_saw_what_and_who_is_missing(table):
    text = pp.atlas.described(table[2])
    assert "Regret after T = 30 rounds, 4 runs, ± standard error" in text
    assert "  rows (samples, 3 rows)" in text and "  ZGD2 (risk, 2 arms)" in text
    assert "  ZGD2 in coin: domain must hold a ball about 0" in text
    mean, coin = text.split("\ncoin ")[0], text.split("\ncoin ")[1]
    here = table[2].sel(world="mean", learner="RRM")
    numbers = [f"{float(here[f'{target}_regret']):.3g}" for target in ("stable", "optimal")]
    row = next(line for line in mean.splitlines() if line.startswith("  RRM (population)"))
    assert row.split()[-2:] == numbers
    missing = next(line for line in coin.splitlines() if line.startswith("  ZGD2 (risk, 2 arms)"))
    assert missing.split()[-2:] == ["–", "–"]


def test_the_table_fits_the_screen_whatever_its_names(table):
    measured = table[2].assign_coords(learner=["a learner with a name of " + "n" * 40, *"bcde"])
    for width in (80, 100):
        assert max(map(len, pp.atlas.described(measured, width).splitlines())) <= width


def test_the_picture_writes_every_cell(table):
    axes = pp.atlas.figure(table[2]).axes
    assert [len(axis.texts) for axis in axes] == [10, 10]
    assert {text.get_text() for text in axes[0].texts} >= {"–"}


def test_everything_that_is_ready_made_is_in_it():
    worlds, learners = pp.atlas.worlds(rounds=2), pp.atlas.learners()
    assert {"credit", "quadratic", "biased_coin", "strategic_classification"} <= set(worlds)
    assert {"RRM", "RGD", "ZGD2"} <= set(learners)
    assert len(learners) == len({type(learner) for learner in learners.values()})


def test_bad_input_is_refused_in_a_sentence():
    with pytest.raises(TypeError, match="learners must be a dictionary"):
        pp.atlas.measure({"w": pp.worlds.gaussian_mean(rounds=2)}, [pp.learners.rrm()])
    worlds = {"w": pp.worlds.gaussian_mean(rounds=2), "v": pp.worlds.gaussian_mean(rounds=3)}
    with pytest.raises(ValueError, match=r"same number of rounds.*; got 2 and 3"):
        pp.atlas.measure(worlds, {"RRM": pp.learners.rrm()})
    # Not a reason why a learner was not played.
    with pytest.raises(ValueError, match="runs must be at least 1; got 0"):
        pp.atlas.measure({"w": worlds["w"]}, {"RRM": pp.learners.rrm()}, runs=0)
    with pytest.raises(TypeError, match=r"worlds must be a dictionary of pp.World"):
        pp.atlas.measure({"w": 3}, {"RRM": pp.learners.rrm()})
