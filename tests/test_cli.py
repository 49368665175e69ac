"""The command: what it prints, what it writes, and how it says no."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from typer.testing import CliRunner

import performative as pp
from performative import cli

TEXT = """
rounds = 40
runs = 3
seed = 5
[worlds.mine]
response = {kind = "location", matrix = 0.3, base = {kind = "gaussian", mean = [1.0, 2.0], cov = 1}}
drift = {kind = "iid_ball", cov = 0.25, seed = 1}
mixing = {kind = "polynomial", b = 0.5}
loss = {kind = "squared"}
domain = {kind = "box", lower = -5, upper = 5}
[learners.exact]
kind = "rrm"
[learners.sampled]
kind = "rrm"
rows = 20
"""


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """A folder with a world file, and nothing written elsewhere."""
    (tmp_path / "world.toml").write_text(TEXT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli, "_keep_programs", lambda: None)
    return tmp_path


def call(*arguments: str):
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


def refused(*arguments: str) -> str:
    """What is said on stderr when a call is refused: a sentence, and status 2."""
    done = call(*arguments)
    assert done.exit_code == 2, done.output
    assert "Traceback" not in done.output and done.stdout == ""
    return done.stderr


def test_simulate_prints_a_table_and_writes_data_and_a_picture(desk):
    done = call("simulate", "world.toml")
    assert done.exit_code == 0, done.output
    assert sorted(file.name for file in (desk / "world").iterdir()) == [
        "regret.nc", "regret.pdf", "regret.png",
    ]  # fmt: skip
    table = xr.load_dataset(desk / "world" / "regret.nc", engine="h5netcdf")
    assert dict(table.sizes) == {"world": 1, "learner": 2, "run": 3, "round": 40}
    assert table.attrs["world_file"] == TEXT and table.attrs["seed"] == 5
    last = table.stable_regret.isel(world=0, round=-1)
    error = last.sel(learner="sampled").std(ddof=1).item() / np.sqrt(3)
    line = next(line for line in done.stdout.splitlines() if "sampled" in line)
    assert f"{last.sel(learner='sampled').mean().item():.6g}" in line
    assert f"{error:.2g}" in line and "samples" in line
    exact = next(line for line in done.stdout.splitlines() if "exact" in line)
    assert f"{last.sel(learner='exact').mean().item():.6g}" in exact and "population" in exact
    assert "Wrote regret.nc, regret.png, regret.pdf in world" in done.stdout


def test_simulate_gives_what_python_gives(desk):
    assert call("simulate", "world.toml", "--quiet", "--out", "out").exit_code == 0
    world = pp.World(
        response=pp.responses.location(0.3, pp.Gaussian([1.0, 2.0], 1.0)),
        drift=pp.drifts.iid_ball(0.25, seed=1),
        mixing=pp.mixing.polynomial(0.5),
        loss=pp.losses.squared(),
        domain=pp.domains.box(-5, 5),
        rounds=40,
    )
    run = pp.simulate(world, pp.learners.rrm(rows=20), runs=3, seed=5)
    table = xr.load_dataset(desk / "out" / "regret.nc", engine="h5netcdf")
    np.testing.assert_allclose(
        table.stable_regret.sel(world="mine", learner="sampled").values,
        run.regret("stable").values,
        rtol=1e-12,
    )


def test_options_stand_in_for_the_file_and_quiet_is_quiet(desk):
    done = call("simulate", "world.toml", "--out", "out", "--runs", "2", "--seed", "9", "-q")
    assert (done.exit_code, done.output) == (0, "")
    table = xr.load_dataset(desk / "out" / "regret.nc", engine="h5netcdf")
    assert table.sizes["run"] == 2 and table.attrs["seed"] == 9


def test_rounds_without_a_sound_target_are_counted_and_warned_of(desk):
    line = 'response = {kind = "location", matrix = 1.0, base = {kind = "gaussian", mean = [0.0], cov = 1}}'
    (desk / "line.toml").write_text(
        f'rounds = 4\n[worlds.line]\n{line}\nloss = {{kind = "squared"}}\n'
        'domain = {kind = "ball", radius = 1}\n[learners.RRM]\nkind = "rrm"\n'
    )
    done = call("simulate", "line.toml")
    assert done.exit_code == 0, done.output
    row = next(text for text in done.stdout.splitlines() if "population" in text)
    assert re.search(r"│\s+4 │$", row)
    assert done.stderr.startswith("warning: The stable points of 4 rounds")


def test_mistakes_in_the_file_are_named_line_by_line(desk):
    (desk / "wrong.toml").write_text(TEXT.replace("seed = 1", "sed = 1").replace("rows", "row"))
    said = refused("simulate", "wrong.toml").splitlines()
    assert said == [
        "performative: wrong.toml: worlds.mine.drift.sed: unknown key; did you mean 'seed'?",
        "performative: wrong.toml: learners.sampled.row: unknown key; did you mean 'rows'?",
    ]
    assert not (desk / "wrong").exists()


def test_a_missing_file_is_refused_with_the_nearest_one(desk):
    assert "word.toml: there is no such file. Did you mean 'world.toml'?" in refused(
        "simulate", "word.toml"
    )


def test_mistyped_commands_and_options_are_refused(desk):
    assert "Did you mean 'simulate'" in refused("simulat", "world.toml")
    assert "--runs" in refused("simulate", "world.toml", "--runs", "0")
    assert "CASE must be one of" in refused("bench", "nonsense")


def test_a_folder_that_cannot_be_written_is_refused_before_the_work(desk, monkeypatch):
    assert "it is a file, not a folder" in refused("simulate", "world.toml", "--out", "world.toml")
    assert "cannot write to world.toml/deep" in refused(
        "simulate", "world.toml", "--out", "world.toml/deep"
    )


def test_a_full_disk_is_said_in_a_sentence(desk, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("performative.plots.keep", full)
    done = call("simulate", "world.toml")
    assert done.exit_code == 1
    assert done.stderr == "performative: cannot write to world: No space left on device.\n"


def test_init_writes_a_file_that_simulate_reads_and_never_overwrites(desk):
    done = call("init", "mine.toml")
    assert done.exit_code == 0 and "performative simulate mine.toml" in done.stdout
    from performative import config

    assert set(config.read("mine.toml").worlds) == {"credit", "mine"}
    assert "mine.toml is there already" in refused("init", "mine.toml")


def test_reproduce_makes_a_figure_judges_its_claims_and_says_where(desk):
    done = call("reproduce", "--quick", "--figures", "trajectories", "--runs", "2", "--out", "made")
    assert done.exit_code == 0, done.stderr
    assert "trajectories:" in done.stdout and "claims:" in done.stdout
    assert "report.html" in done.stdout
    assert (desk / "made" / "trajectories.png").stat().st_size > 10_000
    assert not (desk / "made" / "stability.png").exists()


def test_reproduce_names_the_nearest_figure(desk):
    done = call("reproduce", "--figures", "stabilty")
    assert done.exit_code == 2 and "Did you mean 'stability'?" in done.stderr


def test_bench_hands_its_cases_on(desk, monkeypatch):
    from performative import bench

    seen = []
    monkeypatch.setattr(bench, "main", lambda *arguments: seen.append(arguments))
    case = next(iter(bench.CASES))
    assert call("bench", case, "--out", "kept").exit_code == 0
    assert call("bench").exit_code == 0
    assert seen == [([case], Path("kept")), (None, None)]


def test_the_version_is_the_package_s():
    assert call("--version").stdout == f"performative {pp.__version__}\n"


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "from performative.cli import app; app()", *arguments]


def test_help_loads_nothing_heavy():
    heavy = ("jax", "numpy", "xarray", "pydantic", "matplotlib", "rich.table", "pandas", "scipy")
    code = (
        "import sys\nfrom performative.cli import app\n"
        "try:\n    app(['--help'])\nexcept SystemExit:\n    pass\n"
        f"print([name for name in {heavy} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    for name in ("simulate", "reproduce", "bench", "init"):
        assert name in done.stdout


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_ctrl_c_ends_with_a_short_word(tmp_path):
    text = TEXT.replace("rounds = 40", "rounds = 3000000")
    (tmp_path / "world.toml").write_text(text)
    code = (
        "import signal\nfrom performative.cli import app\n"
        # A shell's background jobs are told to ignore it, and hand that on.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "app(['simulate', 'world.toml'])"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    ) as running:
        deadline = time.monotonic() + 60
        while not (tmp_path / "world").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.5)
        while running.poll() is None and time.monotonic() < deadline + 60:
            running.send_signal(signal.SIGINT)  # again: a callback of a library may swallow one
            time.sleep(2.0)
        said = running.communicate(timeout=10)[1]
    assert running.returncode == 130
    assert said.splitlines()[-1] == "performative: interrupted; nothing was written."
    assert "Traceback" not in said and list((tmp_path / "world").iterdir()) == []
