"""Figures show what was measured: means, bands, signs, and where they are drawn."""

import io
import subprocess
import sys

import matplotlib.figure
import numpy as np
import pytest
import xarray as xr

import performative as pp
from performative.plots import POINTS, WIDTH, growth_exponent, keep


@pytest.fixture(scope="module")
def run():
    world = pp.worlds.quadratic(dim=2, rounds=30, b=0.5)
    return pp.simulate(world, pp.learners.rrm(rows=10), runs=5, against=("stable", "optimal"))


def table(values, target="stable"):
    """A sweep's Dataset from cumulative regret (world, learner, run, round)."""
    values = np.asarray(values, dtype=float)
    w, k, r, t = values.shape
    return xr.Dataset(
        {f"{target}_regret": (("world", "learner", "run", "round"), values)},
        coords={
            "world": [f"world {i}" for i in range(w)],
            "learner": [f"learner {i}" for i in range(k)],
            "run": np.arange(r),
            "round": np.arange(1, t + 1),
        },
    )


def band_of(axes):
    """Lower and upper edge of the first band."""
    path = axes.collections[0].get_paths()[0].vertices
    xs = np.unique(path[:, 0])
    edges = [path[path[:, 0] == x, 1] for x in xs]
    return np.array([e.min() for e in edges]), np.array([e.max() for e in edges])


def test_the_line_is_the_mean_over_runs(run):
    (axes,) = run.plot("stable").axes
    line = axes.get_lines()[0]
    np.testing.assert_array_equal(line.get_xdata(), np.arange(1, 31))
    np.testing.assert_allclose(line.get_ydata(), run.regret("stable").mean("run").values)


def test_a_band_of_quantiles_holds_the_middle_of_the_runs(run):
    (axes,) = run.plot("stable", quantiles=(0.25, 0.75)).axes
    low, high = band_of(axes)
    expected = np.quantile(run.regret("stable").values, (0.25, 0.75), axis=0)
    np.testing.assert_allclose((low[1:], high[1:]), expected[:, 1:])


def test_a_band_of_the_standard_error_is_one_each_way(run):
    (axes,) = run.plot("stable", bands="standard error").axes
    low, high = band_of(axes)
    values = run.regret("stable").values
    error = values.std(axis=0, ddof=1) / np.sqrt(5)
    np.testing.assert_allclose((high - low)[1:], 2 * error[1:])


def test_one_run_has_no_band_and_no_legend():
    figure = pp.plots.regret(table(np.arange(1.0, 9.0).reshape(1, 1, 1, 8)), panels="learner")
    assert not figure.axes[0].collections
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["world 0"]


def test_positive_regret_is_drawn_on_two_logarithmic_axes(run):
    (axes,) = run.plot("stable").axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert r"Reg}_T^{\mathrm{PS}}" in axes.get_ylabel()


def test_negative_regret_is_not_hidden_and_the_label_says_how_it_is_shown():
    values = np.array([0.3, 0.1, -0.05, -0.02]).reshape(1, 1, 1, 4)
    (axes,) = pp.plots.regret(table(values)).axes
    assert axes.get_yscale() == "symlog"
    assert axes.get_ylim()[0] < -0.05
    threshold = axes.yaxis.get_transform().linthresh
    assert threshold <= 0.02 and "linear within" in axes.get_ylabel()
    assert f"10^{{{round(np.log10(threshold))}}}" in axes.get_ylabel()


def test_a_band_below_zero_is_not_hidden_either():
    values = np.stack([np.full(4, -0.5), np.full(4, 2.0)])[None, None]
    (axes,) = pp.plots.regret(table(values)).axes
    assert axes.get_yscale() == "symlog" and axes.get_ylim()[0] < -0.2


def test_regret_that_is_zero_throughout_can_be_drawn():
    (axes,) = pp.plots.regret(table(np.zeros((1, 1, 2, 5)))).axes
    assert axes.get_yscale() == "linear"


def test_round_by_round_regret_is_the_difference_of_the_cumulative_one():
    values = np.array([1.0, 3.0, 6.0, 10.0]).reshape(1, 1, 1, 4)
    (axes,) = pp.plots.regret(table(values), cumulative=False).axes
    np.testing.assert_allclose(axes.get_lines()[0].get_ydata(), [1.0, 2.0, 3.0, 4.0])
    assert "PR" in axes.get_ylabel()


def test_a_hundred_thousand_rounds_are_thinned_to_about_a_thousand():
    rounds = np.arange(1.0, 100_001.0)
    (axes,) = pp.plots.regret(table(rounds.reshape(1, 1, 1, -1))).axes
    xs = axes.get_lines()[0].get_xdata()
    assert 500 < len(xs) <= POINTS and (xs[0], xs[-1]) == (1, 100_000)
    np.testing.assert_array_equal(axes.get_lines()[0].get_ydata(), xs)


def test_a_sweep_has_a_panel_for_each_learner_and_a_line_for_each_world():
    values = np.random.default_rng(0).uniform(1, 2, size=(3, 2, 4, 6)).cumsum(axis=-1)
    figure = pp.plots.regret(table(values))
    assert [axes.get_title() for axes in figure.axes] == ["learner 0", "learner 1"]
    for k, axes in enumerate(figure.axes):
        for w, line in enumerate(axes.get_lines()):
            np.testing.assert_allclose(line.get_ydata(), values[w, k].mean(axis=0))
    other = pp.plots.regret(table(values), panels="world")
    assert len(other.axes) == 3 and len(other.axes[0].get_lines()) == 2


def test_a_sweep_against_both_targets_shows_both():
    both = table(np.ones((1, 2, 1, 3))).merge(table(2 * np.ones((1, 2, 1, 3)), "optimal"))
    figure = pp.plots.regret(both)
    labels = [axes.get_ylabel() for axes in figure.axes]
    assert ["PS" in label for label in labels] == [True, False]
    assert len(pp.plots.regret(both, "optimal").axes) == 1


def test_lines_differ_in_more_than_colour():
    figure = pp.plots.regret(table(np.ones((7, 1, 1, 3))))
    lines = figure.axes[0].get_lines()
    assert len({line.get_color() for line in lines}) == 7
    assert lines[0].get_linestyle() != lines[1].get_linestyle()


def test_a_panel_is_as_wide_as_a_column_and_its_letters_can_be_read(run):
    figure = run.plot()
    assert figure.get_figwidth() == WIDTH
    (axes,) = figure.axes
    figure.canvas.draw()
    assert min(label.get_fontsize() for label in axes.get_xticklabels()) >= 7
    box = figure.legends[0].get_window_extent()
    assert box.x0 >= 0 and box.x1 <= figure.bbox.width


def test_axes_of_ones_own_are_drawn_into_and_returned(run):
    axes = matplotlib.figure.Figure().subplots()
    assert run.plot("stable", ax=axes) is axes
    assert len(axes.get_lines()) == 1
    pair = matplotlib.figure.Figure().subplots(1, 2)
    values = np.ones((2, 2, 1, 3))
    assert pp.plots.regret(table(values), ax=pair) is pair
    with pytest.raises(ValueError, match="ax must be 2 axes, one a panel; got 1"):
        pp.plots.regret(table(values), ax=axes)


def test_a_figure_shows_itself_as_a_picture(run):
    png = run.plot()._repr_png_()
    assert png[:8] == b"\x89PNG\r\n\x1a\n"


def test_pyplot_is_not_touched():
    code = (
        "import sys, performative as pp\n"
        "world = pp.worlds.quadratic(dim=2, rounds=3)\n"
        "pp.simulate(world, pp.learners.rrm()).plot().savefig(sys.stdout.buffer)\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.startswith(b"\x89PNG")


def test_a_trajectory_shows_the_models_and_the_targets(run):
    figure = pp.plots.trajectory(run, index=1, rounds=10)
    axes = figure.axes[0]
    dots = axes.collections[0]
    np.testing.assert_allclose(dots.get_offsets(), run.deployed.values[1, :10, 0])
    paths = [line.get_xydata() for line in axes.get_lines()]
    stable = run.dataset["stable_point"].values[:10]
    assert any(path.shape == stable.shape and np.allclose(path, stable) for path in paths)
    assert len(axes.get_legend_handles_labels()[1]) == 4  # both targets, models, start


def test_a_trajectory_needs_two_parameters_and_a_run_that_is_there(run):
    world = pp.worlds.quadratic(dim=3, rounds=3)
    with pytest.raises(ValueError, match="two parameters for a trajectory; got 3"):
        pp.plots.trajectory(pp.simulate(world, pp.learners.rrm()))
    with pytest.raises(IndexError, match="index must be a run below 5; got 5"):
        pp.plots.trajectory(run, index=5)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"bands": "standard errors"}, "bands must be one of .* Did you mean 'standard error'"),
        ({"target": "stabel"}, "target must be one of .* Did you mean 'stable'"),
        ({"quantiles": (0.9, 0.1)}, "quantiles must be in increasing order"),
        ({"target": "optimal"}, "target must be one that the sweep was measured against"),
        ({"panels": "run"}, "panels must be one of"),
    ],
)
def test_bad_options_are_refused_in_a_sentence(options, complaint):
    with pytest.raises(ValueError, match=complaint):
        pp.plots.regret(table(np.ones((1, 1, 1, 3))), **options)


def test_what_is_no_run_is_refused():
    with pytest.raises(TypeError, match=r"a Run or the Dataset of pp\.sweep; got list"):
        pp.plots.regret([1, 2])


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_the_growth_exponent_of_a_power_is_the_power(power):
    rounds = np.arange(1, 5001)
    assert growth_exponent(rounds, 3.0 * rounds**power) == pytest.approx(power, abs=1e-12)


def test_there_is_no_growth_exponent_of_regret_that_is_not_positive():
    assert np.isnan(growth_exponent(np.arange(1, 101), np.linspace(1, -1, 100)))
    assert np.isnan(growth_exponent([1], [1.0]))


def test_figure_and_data_are_kept_whole(tmp_path):
    data = table(np.ones((1, 1, 1, 3)))
    files = keep(pp.plots.regret(data), data, tmp_path / "deep" / "folder", "regret")
    assert [file.name for file in files] == ["regret.nc", "regret.png", "regret.pdf"]
    assert files[2].read_bytes().startswith(b"%PDF")
    assert xr.load_dataset(files[0], engine="h5netcdf").equals(data)
    assert not list((tmp_path / "deep" / "folder").glob("*.part"))


def test_a_failed_write_leaves_nothing_half_written(tmp_path, monkeypatch):
    data = table(np.ones((1, 1, 1, 3)))
    figure = pp.plots.regret(data)

    def fail(path, **options):
        if isinstance(path, io.IOBase):
            raise AssertionError("not expected")
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(figure, "savefig", fail)
    with pytest.raises(OSError, match="No space left"):
        keep(figure, data, tmp_path, "regret")
    assert [file.name for file in tmp_path.iterdir()] == ["regret.nc"]
