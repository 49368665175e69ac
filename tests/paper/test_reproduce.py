"""The whole reproduction at small size: what it leaves, and that it goes on where it stopped."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from performative.paper import reproduce
from performative.paper.claims import CLAIMS

SOME = ("quadratic-bounds", "trajectories")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """All figures, at a tenth of the rounds or fewer."""
    out = tmp_path_factory.mktemp("reproduced")
    return out, reproduce.run(out, quick=True, runs=3, progress=False)


@pytest.mark.slow
def test_every_figure_is_there_as_png_and_pdf(made):
    out, _ = made
    names = [name for name in reproduce.FIGURES if name not in reproduce.OPTIONAL]
    assert {"stability", "credit-random", "credit-stationary", "credit-bounds",
            "quadratic-bounds", "trajectories"} <= set(names)  # fmt: skip
    for name in names:
        assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (out / f"{name}.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.slow
def test_claims_are_objects_of_five_fields(made):
    out, done = made
    rows = json.loads((out / "claims.json").read_text())
    assert [row["id"] for row in rows] == [claim.__name__.upper() for claim in CLAIMS]
    assert all(set(row) == {"id", "claim", "measured", "holds", "why"} for row in rows)
    assert all(row["holds"] in (True, False, None) for row in rows)
    # What is true at any size: bounds hold, lemmas hold, the moving path is not zero.
    held = {row["id"]: row["holds"] for row in rows}
    assert all(held[name] is True for name in ("C12", "C20", "C21", "C22", "C23"))
    assert held["C10"] is False
    assert len(done.claims) == len(rows)


@pytest.mark.slow
def test_the_report_needs_nothing_but_itself(made):
    out, _ = made
    page = (out / "report.html").read_text()
    assert len(page) < 5_000_000
    assert not re.search(r"""(src|href)=["'](?!data:|#)""", page)
    assert "Errata" in page and "Open choices" in page and page.count("<figure") >= 11
    for claim in CLAIMS:
        assert f"<td>{claim.__name__.upper()}</td>" in page
    # Every claim says which part decides it, and every other choice how much it matters.
    assert page.count("[credit-bounds, quadratic-bounds]</span>") == 3
    changes = re.findall(r'<td class="number">[-+][0-9.]+ %</td>', page)
    assert len(changes) == 11


@pytest.mark.slow
def test_a_second_call_measures_nothing_again(made):
    out, done = made
    before = {path: path.stat().st_mtime_ns for path in (out / "data").glob("*.nc")}
    again = reproduce.run(out, quick=True, runs=3, progress=False)
    assert again.kept == set(done.seconds) - {"figures", "report"}
    assert {path: path.stat().st_mtime_ns for path in (out / "data").glob("*.nc")} == before
    assert again.claims == done.claims
    # The constants matter to the bounds alone.
    other = reproduce.run(
        out, figures=["trajectories"], quick=True, runs=3, constants="surrogate", progress=False
    )
    assert other.kept == {"trajectories"}


@pytest.mark.slow
def test_other_settings_are_measured_anew(made, tmp_path):
    out, _ = made
    chosen = reproduce.run(
        out, figures=["trajectories"], quick=True, runs=3, seed=1, progress=False
    )
    assert chosen.kept == set()
    assert {claim.id for claim in chosen.claims} == {"C17", "C18"}


def test_a_damaged_file_is_made_again(tmp_path):
    first = reproduce.run(tmp_path, figures=["trajectories"], quick=True, runs=2, progress=False)
    (tmp_path / "data" / "trajectories.nc").write_bytes(b"half a file")
    again = reproduce.run(tmp_path, figures=["trajectories"], quick=True, runs=2, progress=False)
    assert again.kept == set() and again.claims == first.claims


def test_a_killed_reproduction_goes_on_where_it_stopped(tmp_path):
    options = ["--quick", "--quiet", "--runs", "2", "--figures", ",".join(SOME)]
    command = [sys.executable, "-c", "from performative.cli import app; app()", "reproduce"]
    command += [*options, "--out", str(tmp_path)]
    running = subprocess.Popen(command)
    first = tmp_path / "data" / "quadratic-bounds.nc"
    deadline = time.monotonic() + 120
    while not first.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    assert not (tmp_path / "report.html").exists()
    done = reproduce.run(tmp_path, figures=SOME, quick=True, runs=2, progress=False)
    # The ledger is written just after the file; the kill may fall between the two.
    assert done.kept <= {"quadratic-bounds"}
    assert (tmp_path / "report.html").exists() and first.exists()
    assert not list(tmp_path.rglob("*.part")) or done.kept == set()


def test_an_unknown_figure_is_named_with_the_nearest(tmp_path):
    with pytest.raises(ValueError, match=r"figures must be one of .* Did you mean 'trajectories'"):
        reproduce.run(tmp_path, figures=["trajectory"])


@pytest.mark.slow
def test_claims_are_judged_again_in_worlds_drawn_anew(tmp_path):
    done = reproduce.run(
        tmp_path, figures=["trajectories"], quick=True, runs=2, worlds=2, progress=False
    )
    rows = json.loads((tmp_path / "claims.json").read_text())
    assert {row["in_worlds"] for row in rows} and done.claims
    verdicts = json.loads((tmp_path / "data" / "worlds.json").read_text())
    assert [set(v) for v in verdicts] == [{c.__name__.upper() for c in CLAIMS}] * 2
