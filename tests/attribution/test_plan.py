import numpy as np
import pytest

from performative.attribution import Report, Summary, estimate, plan, screen, simulate_log


@pytest.fixture(scope="module")
def single():
    return Report(
        simulate_log("single", kappa=0.3, alpha=0.0, rounds=10, rows=4000, seed=1).summary
    )


def test_rows_needed_are_those_of_the_formula():
    reach = 1.959964 + 0.841621
    assert plan.rows_needed(0.25, 0.4, 0.1, 0.8) / 2 == pytest.approx(
        2 * 0.25 * reach**2 / (0.1 * 0.4) ** 2, rel=1e-6
    )
    assert plan.rows_needed(1, 1, 1, 0.8, share=0.1) > plan.rows_needed(1, 1, 1, 0.8)


def test_a_canary_of_the_planned_size_has_the_promised_power(single):
    found = single.experiment(power=0.8, effect=0.1)
    assert found.question == "canary"
    assert found.simulated >= 0.79
    step = found.models[0, 0] - found.models[0, 1]
    np.testing.assert_allclose(found.models[0, 1], single.cells.theta[-1])
    rng, detected = np.random.default_rng(0), 0
    for _ in range(400):
        count = np.full(2 * found.rounds, found.rows / 2)
        theta = found.models.reshape(-1, 5)
        world = np.repeat(rng.normal(size=(found.rounds, 5)), 2, axis=0)
        noise = 0.5 * rng.normal(size=theta.shape) / np.sqrt(count)[:, None]
        cells = plan.Cells(
            round=np.repeat(np.arange(found.rounds), 2), count=count,
            mean=0.1 * theta + world + noise, covariance=np.tile(0.25 * np.eye(5), (len(theta), 1, 1)),
            theta=theta, arm=np.tile([0, 1], found.rounds), model=np.arange(len(theta)),
        )  # fmt: skip
        detected += estimate.uncertain(cells, estimate.strength).p_value() < 0.05
    assert detected / 400 == pytest.approx(found.simulated, abs=0.07)
    assert found.length == pytest.approx(np.linalg.norm(step))


def test_all_directions_are_tried_in_turn_orthogonally(single):
    found = single.experiment(question="directions", effect=0.1, rows=20_000)
    steps = found.models[:5, 0] - found.models[:5, 1]
    np.testing.assert_allclose(steps @ steps.T, 0.16 * np.eye(5), atol=1e-12)
    assert found.rounds % 5 == 0
    expected = 1.96 * 0.5 * np.sqrt(5 / (found.rows * found.rounds)) / 0.2
    assert found.resolution == pytest.approx(expected, rel=0.05)
    table = found.table()
    assert len(table["round"]) == 2 * found.rounds == len(table["x5"])


def test_cost_of_symmetric_arms_is_the_second_order_loss():
    log = simulate_log("pair", kappa=0.3, alpha=0.0, rounds=20, rows=100_000, seed=2)
    found = Report(log.summary).experiment(question="directions")
    # For a location family Hess PR = (I − B)′(I − B) = 0.49 I, and the arms are 0.2 away.
    assert found.cost == pytest.approx(0.5 * 0.49 * 0.04, rel=0.03)


def test_repeated_units_need_more_rows():
    few = simulate_log("holdout", kappa=0.3, alpha=0.0, rounds=6, rows=1000, seed=3)
    units = simulate_log("holdout", kappa=0.3, alpha=0.0, rounds=6, rows=1000, units=1000, seed=3)
    wanted = {"effect": 0.02, "question": "canary", "rows": 1000}
    plans = [Report(log.summary).experiment(**wanted) for log in (few, units)]
    rows = [one.rows_per_arm * one.length**2 for one in plans]
    assert rows[1] > 1.3 * rows[0]


def test_a_plan_reads_as_a_sentence(single):
    text = str(single.experiment())
    assert "keep the outgoing model on a random 50 % of units" in text
    assert "power 0." in text


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"power": 1.2}, "power must be"),
        ({"effect": 0.0}, "effect must be"),
        ({"question": "direction"}, "question must be one of"),
        ({"share": 0.0}, "share must be"),
    ],
)
def test_plans_that_make_no_sense_are_refused(single, given, sentence):
    with pytest.raises(ValueError, match=sentence):
        single.experiment(**given)


def test_where_the_last_models_are_nearly_alike_directions_are_proposed_at_once():
    data = simulate_log("canary", kappa=0.3, rounds=6, rows=2000, seed=2).summary.data.copy(
        deep=True
    )
    data["theta"][-1] = data["theta"][-2] + 1e-5  # retraining has settled
    report = Report(Summary(data))
    with pytest.raises(ValueError, match=r"effect must be large enough .* 0.1 needs"):
        report.experiment(question="canary")
    proposed = screen.best_plan(report)
    assert proposed.question == "directions" and proposed.rounds < 100
