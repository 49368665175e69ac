import json

import numpy as np
import pytest

import performative as pp
from performative.attribution import NotIdentified, Report, Summary, simulate_log
from performative.attribution.attribute import anytime_factor


@pytest.fixture(scope="module")
def holdout():
    log = simulate_log("holdout", kappa=0.4, alpha=0.0, rounds=12, rows=10_000, seed=0)
    return log, pp.attribute(log.summary)


@pytest.mark.parametrize("design", ["single", "event", "segments"])
def test_logs_that_identify_nothing_get_no_verdict(design):
    for kappa, world in ((0.0, "ar"), (0.8, "trend"), (0.3, "season")):
        for rounds, rows in ((8, 1000), (24, 10_000)):
            log = simulate_log(design, kappa=kappa, world=world, rounds=rounds, rows=rows, seed=1)
            assert set(Report(log.summary).verdict.values()) == {"cannot tell"}


def test_the_regression_on_weights_is_shown_as_the_trap_it_is():
    slopes = [
        Report(simulate_log("single", kappa=0.0, alpha=0.0, seed=seed).summary).trap
        for seed in range(30)
    ]
    assert np.mean([trap.slope.value for trap in slopes]) == pytest.approx(0.75, abs=0.06)
    assert all(trap.reject for trap in slopes)
    assert slopes[0].curve(slopes[0].slope.value) == pytest.approx(0.0)
    assert slopes[0].curve(0.0) == slopes[0].slope.value


def test_a_hold_out_answers_all_three_questions(holdout):
    log, report = holdout
    assert report.design.kind == "holdout"
    assert report.verdict == {"cause": "mostly the world", "response": "responds", "loop": "stable"}
    assert log.truth.cause == "mostly the world"
    assert report.answered
    assert report.share.low < log.truth.share < report.share.high
    assert report.strength.low < 0.4 < report.strength.high
    assert abs(report.contraction.value - 0.4) < 0.15


def test_drift_is_total_as_model_and_world_with_the_truth_in_the_intervals(holdout):
    log, report = holdout
    drift = report.drift
    np.testing.assert_allclose(drift["total"], drift["model"] + drift["world"], atol=1e-12)
    ratio = (drift["model"].values - log.truth.model)[1:] / drift["model_se"].values[1:]
    assert np.sqrt(np.mean(ratio**2)) < 2.0
    footprint = report.footprint
    assert footprint.attrs["against"] == "hold-out"
    here = log.summary.data.sel(cell=log.summary.data["round"] == 12)
    means = here["mean"].values
    np.testing.assert_allclose(footprint["value"].values[-1], means[0] - means[1], atol=1e-12)


def test_response_knows_what_it_does_not_know(holdout):
    _, report = holdout
    found = report.response
    assert found.dims == ("feature", "parameter")
    np.testing.assert_allclose(found.identified, np.eye(5), atol=1e-9)
    a, v = np.eye(5)[1], np.eye(5)[1]
    interval = found.interval(a, v)
    assert interval.value == pytest.approx(float(found[1, 1]))
    assert interval.half_width == pytest.approx(1.96 * float(found.se[1, 1]), rel=1e-3)
    pair = Report(simulate_log("pair", dim=17, rounds=8, rows=2000, seed=1).summary)
    with pytest.raises(NotIdentified, match="directions in which arms differed"):
        pair.response.interval(np.eye(17)[0], np.eye(17)[0])


@pytest.mark.parametrize("seed", range(5))
def test_random_perturbations_in_17_dimensions_do_not_tell_the_cause(seed):
    report = Report(simulate_log("pair", kappa=0.5, dim=17, rounds=8, rows=4000, seed=seed).summary)
    assert report.verdict["cause"] == "cannot tell"
    assert "lies outside the directions" in report.why["cause"]
    assert report.share is None
    assert np.isnan(report.drift["model"].values[1:]).all()


def test_a_bent_response_is_split_by_its_hold_out_or_not_at_all():
    def bent(theta):
        return 1.2 * np.tanh(1.5 * theta)

    held = simulate_log("holdout", alpha=0.0, respond=bent, seed=3)
    report = Report(held.summary)
    assert report.decomposed_by == "holdout"
    assert report.share.low < held.truth.share < report.share.high
    pair = Report(simulate_log("pair", alpha=0.0, respond=bent, seed=3).summary)
    assert pair.verdict["cause"] == "cannot tell"
    assert pair.share is None


def _declared(summary, **attrs):
    data = summary.data.copy()
    data.attrs = data.attrs | attrs
    return Summary(data)


def test_undeclared_arms_need_immutable_features_that_agree():
    sound = np.diag([0.5, 0.5, 0.5, 0.5, 0.0])
    log = simulate_log("holdout", kappa=sound, alpha=0.0, seed=4)
    nobody = _declared(log.summary, assignment="none")
    assert set(Report(nobody).verdict.values()) == {"cannot tell"}
    controlled = Report(_declared(nobody, immutable=["x5"]))
    assert controlled.tests["control"].p > 0.05
    assert controlled.verdict["cause"] != "cannot tell"
    assert any("comparable" in text for text in controlled.assumptions)
    moved = Report(_declared(log.summary, immutable=["x1"]))
    assert set(moved.verdict.values()) == {"cannot tell"}
    assert "no model can influence" in moved.why["cause"]


def test_uneven_arms_are_no_experiment():
    log = simulate_log("pair", kappa=0.5, rounds=8, rows=10_000, seed=5)
    data = log.summary.data.copy(deep=True)
    data["count"] = data["count"] * np.where(data["arm"].values == "a", 1.04, 0.96)
    report = Report(Summary(data))
    assert set(report.verdict.values()) == {"cannot tell"}
    assert "sizes" in report.why["cause"]


def test_versions_without_weights_have_footprint_share_and_tests():
    log = simulate_log("canary", kappa=0.6, alpha=0.0, rounds=8, seed=6)
    data = log.summary.data.drop_vars(["theta", "parameter"])
    report = Report(Summary(data))
    assert report.design.kind == "canary"
    assert report.verdict["response"] == "responds"
    assert report.verdict["loop"] == "cannot tell"
    assert report.strength is None and report.stable_point is None
    assert report.share.low < log.truth.share < report.share.high
    effects = report.response
    truth = 0.6 * log.summary.data["theta"].values
    ratio = (effects.values[:, 1:] - truth[1:].T + truth[:1].T) / effects.se.values[:, 1:]
    assert np.sqrt(np.mean(ratio**2)) < 1.8


def test_stable_point_is_found_from_a_log(holdout):
    log, report = holdout
    truth = np.linalg.solve(
        np.eye(5) - log.truth.response, log.world_parts[1] + log.world_parts[3][-1]
    )
    found = report.stable_point
    assert np.max(np.abs(found["value"].values - truth) / found["se"].values) < 4
    assert report.distance.low >= 0


def test_verdicts_withstand_a_look_every_week():
    assert anytime_factor(0.1, 0.4) == pytest.approx(1.5623, abs=1e-4)
    wrong = 0
    for seed in range(6):
        log = simulate_log("pair", kappa=0.0, rounds=40, rows=1000, seed=seed)
        cells = log.summary.data
        looks = [
            pp.attribute(Summary(cells.sel(cell=cells["round"] <= t)), anytime=True).strength
            for t in range(4, 41, 4)
        ]
        wrong += any(look.low > 0 or look.high < 0 for look in looks)
    assert wrong <= 1


def test_dither_and_switchback_know_the_response_and_not_the_cause():
    strengths, covered = [], []
    for seed in range(30):
        log = simulate_log("dither", kappa=0.6, alpha=0.0, world="ar", seed=seed)
        report = Report(log.summary)
        assert report.verdict["cause"] == report.verdict["loop"] == "cannot tell"
        strengths.append(report.strength.value)
        covered.append(report.strength.low <= 0.6 <= report.strength.high)
    assert np.mean(covered) > 0.8
    assert abs(np.mean(strengths) - 0.6) < 0.1
    flips = Report(simulate_log("switchback", kappa=0.6, alpha=0.0, seed=1).summary)
    assert flips.verdict["response"] == "responds"
    assert flips.strength.low < 0.6 < flips.strength.high


def test_a_report_is_plain_numbers_for_json(holdout):
    _, report = holdout
    for one in (report, Report(simulate_log("single", rounds=8, seed=1).summary)):
        told = json.loads(json.dumps(one.as_dict(), allow_nan=False))
        assert told["verdict"] == one.verdict
    assert told["naive_regression"]["believe"] is False


def test_what_is_asked_for_wrongly_is_refused(holdout):
    _, report = holdout
    with pytest.raises(ValueError, match="structure must be one of"):
        pp.attribute(report.summary, structure="diagnal")
    with pytest.raises(ValueError, match="margin must be"):
        pp.attribute(report.summary, margin=0.0)
    with pytest.raises(ValueError, match="split must give a share for every arm"):
        pp.attribute(report.summary, split={"deployed": 0.9}).checks  # noqa: B018
    with pytest.raises(ValueError, match="keyword must be one of"):
        pp.attribute(report.summary, assigment="units")
    with pytest.raises(ValueError, match="a must have 5 features"):
        report.response.interval([1.0], np.ones(5))


def test_an_arm_of_one_unit_is_no_experiment():
    log = simulate_log("holdout", kappa=0.3, rounds=4, rows=2000, seed=2, keep_rows=True)
    unit = np.arange(len(log.rows["round"]))
    unit[np.asarray(log.rows["arm"]) == "holdout"] = -1
    report = pp.attribute({**log.rows, "unit": unit}, models=log.models, assignment="units")
    assert set(report.verdict.values()) == {"cannot tell"}
    assert "hardly any units" in report.why["cause"]
    assert report.repetition == 1.0


def test_a_response_not_seen_where_the_models_went_is_named_as_an_assumption():
    pair = Report(simulate_log("pair", kappa=0.9, alpha=0.0, rounds=12, rows=2000, seed=4).summary)
    assert any("no jump" in text for text in pair.assumptions)
    assert not any("one model alone" in text for text in pair.assumptions)
    alone = Report(Summary(pair.summary.data.isel(cell=slice(1, None))))
    assert any("one model alone" in text for text in alone.assumptions)
