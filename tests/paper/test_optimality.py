"""The experiment on optimality regret: slopes, what is entered for each world, and what is said of it."""

import warnings

import numpy as np
import pytest
import xarray as xr

import performative as pp
from performative.paper import optimality
from performative.paper.experiments import Settings
from performative.paper.optimality import predicted, slope

HORIZONS, RUNS = [60, 180], 2


@pytest.fixture(scope="module")
def sheet():
    return optimality.horizons(Settings(), "quadratic", HORIZONS, RUNS)


class TestSlopes:
    def test_a_power_of_the_horizon_is_found_with_its_error_over_runs(self):
        horizons = np.array([1e3, 1e4, 1e5])
        rng = np.random.default_rng(0)
        noisy = horizons[:, None] ** 0.7 * np.exp(0.1 * rng.normal(size=(3, 400)))
        found = slope(horizons, noisy)
        # The error of a fitted slope: 0.1/√400 at each end, over log 100.
        assert found.error == pytest.approx(0.005 * np.sqrt(2) / np.log(100), rel=0.15)
        assert found.value == pytest.approx(0.7, abs=4 * found.error)

    def test_there_is_none_where_regret_is_not_positive(self):
        assert np.isnan(slope([1, 10], [[1.0], [-1.0]]).value)

    @pytest.mark.parametrize(
        "learner, b, drift, case, exponent",
        [
            ("ZGD2", 0.0, "random", "strongly convex", 2.0),
            ("ZGD2", 2.0, "random", "strongly convex", 0.0),
            ("ZGD2", 0.5, "stationary", "strongly convex", 0.5),
            ("ZGD2", 0.0, "stationary", "convex", 0.5),
            ("ZGD", 1.5, "random", "strongly convex", 2 / 3),
            ("ZGD", 0.5, "random", "convex", 1.25),
        ],
    )
    def test_predicted_exponents(self, learner, b, drift, case, exponent):
        assert predicted(learner, b, drift, case) == pytest.approx(exponent, abs=1e-12)


@pytest.mark.parametrize("name", ["ZGD2", "ZGD"])
def test_each_entry_is_the_final_regret_of_a_run_tuned_to_its_horizon(sheet, name):
    world = optimality.make(Settings(), "quadratic", "random", 0.5, 180)
    learner = optimality.AIMED[name][0](case=str(sheet["case"].sel(aimed=name).values))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = pp.simulate(world, learner, runs=RUNS, seed=0, against=("optimal",))
        bound = pp.theory.bound(world, learner).values[-1]
    here = sheet.sel(drift="random", b=0.5, horizon=180)
    expected = run.regret("optimal").values[:, -1]
    np.testing.assert_allclose(here["regret"].sel(learner=name), expected, rtol=1e-9)
    assert float(here["bound"].sel(aimed=name)) == pytest.approx(bound, rel=1e-12)


def test_learners_that_aim_at_stability_are_one_run_read_at_every_horizon(sheet):
    world = optimality.make(Settings(), "quadratic", "stationary", 1.0, 180)
    run = pp.simulate(world, pp.learners.rrm(), against=("optimal",))
    here = sheet["regret"].sel(learner="RRM", drift="stationary", b=1.0, run=0)
    expected = run.regret("optimal").values[0, np.array(HORIZONS) - 1]
    np.testing.assert_allclose(here, expected, rtol=1e-9)


def test_what_stability_loses_is_the_risk_between_the_targets(sheet):
    world = optimality.make(Settings(), "quadratic", "random", 1.0, 60)
    t = np.arange(1, 61)
    gap = world.risk(t, pp.stable_points(world).values) - world.risk(
        t, pp.optimal_points(world).values
    )
    lost = sheet["lost"].sel(drift="random", b=1.0, horizon=60)
    assert float(lost) == pytest.approx(gap.sum(), rel=1e-7) and lost > 1e-3


def test_where_nothing_responds_stable_points_are_optimal(sheet):
    np.testing.assert_allclose(sheet["lost"].sel(b=0.0), 0.0, atol=1e-9)


# Findings, on data made to satisfy them and data that breaks them


def made():
    def regret(x, power, level):
        return level * np.asarray(x, float) ** power

    parts = []
    for where, exponents in optimality.EXPONENTS.items():
        x, shape = [10, 100, 1000], (2, len(exponents))
        levels = {
            "ZGD2": (0.5, 5.0),
            "ZGD": (0.7, 6.0),
            "RRM": (0.1, 1.0),
            "greedy SGD": (0.2, 2.0),
        }
        each = [regret(x, *levels[name]) for name in optimality.LEARNERS]
        values = np.broadcast_to(np.array(each)[:, None, None, :, None], (4, *shape, 3, 2))
        bounds = np.array([regret(x, 0.9, 50.0)] * 2)
        sheet = xr.Dataset(
            {
                "regret": (("learner", "drift", "b", "horizon", "run"), values.copy()),
                "bound": (
                    ("aimed", "drift", "b", "horizon"),
                    np.broadcast_to(bounds[:, None, None], (2, *shape, 3)).copy(),
                ),
                "lost": (("drift", "b", "horizon"), np.full((*shape, 3), 0.1)),
                "case": ("aimed", ["convex"] * 2),
                "predicted": (("aimed", "drift", "b"), np.full((2, *shape), 0.9)),
            },
            coords={"learner": list(optimality.LEARNERS), "aimed": list(optimality.AIMED),
                    "drift": ["random", "stationary"], "b": list(exponents), "horizon": x},
        )  # fmt: skip
        parts.append(optimality.prefixed(where, sheet.merge(optimality.slopes(sheet, "horizon"))))
    d = [2, 4, 8]
    over_d = np.array([[regret(d, 1.5, 5.0)] * 2] * 4)  # learner, run, dimension
    swept = xr.Dataset(
        {
            "regret": (("learner", "dimension", "run"), over_d.swapaxes(1, 2)),
            "bound": (("aimed", "dimension"), np.array([regret(d, 2.0, 50.0)] * 2)),
            "lost": ("dimension", np.full(3, 0.1)),
            "case": ("aimed", ["convex"] * 2),
        },
        coords={"learner": list(optimality.LEARNERS), "aimed": list(optimality.AIMED), "dimension": d},
    )  # fmt: skip
    parts.append(optimality.prefixed("swept", swept.merge(optimality.slopes(swept, "dimension"))))
    return xr.merge(parts).assign_attrs(rounds=1000)


def finding(data, name):
    return next(found for found in optimality.findings(data) if found.id == name)


def test_each_finding_holds_for_data_of_which_it_is_true():
    assert [(f.id, f.holds) for f in optimality.findings(made())] == [
        ("O1", True), ("O2", True), ("O3", True), ("O4", True),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "name, variable, where, value, verdict",
    [
        ("O1", "quadratic_slope", {"learner": "ZGD", "drift": "random"}, 0.91, False),
        ("O2", "credit_bound", {"aimed": "ZGD2", "drift": "stationary"}, 1.0, False),
        ("O3", "credit_regret", {"learner": "RRM"}, 1e4, None),
        ("O4", "swept_bound", {"aimed": "ZGD"}, 1.0, False),
    ],
)
def test_each_finding_fails_for_data_that_breaks_it(name, variable, where, value, verdict):
    data = made()
    data[variable].loc[where] = value
    assert finding(data, name).holds is verdict, finding(data, name)


def test_a_slope_above_that_of_the_bound_within_its_error_is_not_above():
    data = made()
    data["quadratic_slope"].loc[{"learner": "ZGD", "drift": "random"}] = 0.91
    data["quadratic_slope_error"][:] = 0.02
    assert finding(data, "O1").holds is True


def test_the_report_and_the_picture_hold_what_was_measured():
    data = made()
    rows = optimality.slope_rows(data)
    assert len(rows) == 2 * 2 * (6 + 5)
    assert rows[0] == (
        "quadratic", "ZGD2", "convex", "random", "1", "0.50 ± 0.00", "0.90", "0.90"
    )  # fmt: skip
    assert optimality.regret_rows(data)[0][4:] == (
        "158.1 ± 0", "755.4 ± 0", "1.995", "7.962 ± 0", "0.1"
    )  # fmt: skip
    titles = [axis.get_title() for axis in optimality.figure(data).axes]
    assert titles[:2] == ["quadratic, random $P_t$", "quadratic, stationary $P_t$"]
    assert len(titles) == 6
