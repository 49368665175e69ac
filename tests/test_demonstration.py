"""The quadratic-Gaussian demonstration, at a fiftieth of its length."""

import numpy as np
import pytest
import xarray as xr

import performative as pp
from performative.paper import demonstration


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    return demonstration.run(tmp_path_factory.mktemp("made"), quick=True, progress=False)


def test_it_writes_what_it_measured(done):
    assert [file.name for file in done.files] == [
        "demonstration.nc", "demonstration.png", "demonstration.pdf",
    ]  # fmt: skip
    kept = xr.load_dataset(done.files[0], engine="h5netcdf")
    assert kept.equals(done.table)
    assert kept.attrs["rung"] == "closed form"


def test_each_curve_is_the_run_of_its_own_world(done):
    world = pp.worlds.quadratic(10, "stationary", 0.75, demonstration.QUICK_ROUNDS)
    run = pp.simulate(world, pp.learners.rrm())
    curve = done.table.stable_regret.sel(drift="stationary", schedule="t^-0.75")
    np.testing.assert_allclose(curve.values, run.regret("stable").values[0], rtol=1e-10)


def test_a_world_that_moves_rewards_a_fading_drift_and_one_that_stands_the_reverse(done):
    last = done.table.stable_regret.isel(round=-1)
    random = last.sel(drift="random").values
    assert np.all(np.diff(random[:4]) < 0)  # α = 1, then b = 1/2, 3/4, 1
    assert np.all(np.diff(last.sel(drift="stationary").values) > 0)


def test_constant_mixing_with_a_moving_drift_grows_linearly(done):
    from performative.plots import growth_exponent

    curve = done.table.stable_regret.sel(drift="random", schedule="1").values
    assert growth_exponent(done.table["round"], curve) == pytest.approx(1.0, abs=0.05)


def test_the_printed_table_has_the_final_regrets(done):
    lines = str(done).splitlines()
    value = done.table.stable_regret.sel(drift="random", schedule="t^-0.5").values[-1]
    assert any(
        line.split()[0] == "t^-0.5" and f"{value:.6g}" in line for line in lines if line.strip()
    )
    assert done.seconds > 0


def test_the_figure_has_a_panel_for_each_drift(done):
    figure = demonstration.figure(done.table)
    assert [axes.get_title() for axes in figure.axes] == ["random $P_t$", "stationary $P_t$"]
    assert all(len(axes.get_lines()) == len(demonstration.EXPONENTS) for axes in figure.axes)
