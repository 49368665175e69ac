"""`performative attribute`, `plan` and `calibrate`: what they print, write and return."""

import csv
import json

import pandas as pd
import pytest
from typer.testing import CliRunner

from attribution import brute
from performative import cli
from performative.attribution import Summary, attribute, screen, simulate_log


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Logs and models as files."""
    place = tmp_path_factory.mktemp("logs")
    for design in ("holdout", "single"):
        log = simulate_log(design, kappa=0.3, rounds=8, rows=3000, seed=1, keep_rows=True)
        brute.to_parquet(pd.DataFrame(log.rows), place / f"{design}.parquet")
        pd.DataFrame(log.models).to_csv(place / f"{design}.csv", index=False)
    return place


@pytest.fixture(autouse=True)
def there(folder, monkeypatch):
    monkeypatch.chdir(folder)


def call(*arguments):
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


HOLDOUT = ("holdout.parquet", "--models", "holdout.csv", "--assignment", "units")
SINGLE = ("single.parquet", "--models", "single.csv")


def test_an_answered_log_returns_zero_and_the_verdict():
    done = call("attribute", *HOLDOUT)
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("Was it my model?") and "Next experiment:" in done.stdout


def test_a_log_that_cannot_tell_returns_three():
    done = call("attribute", *SINGLE)
    assert done.exit_code == 3
    assert done.stdout.startswith("Was it my model?    CANNOT TELL.")


def test_a_bad_log_returns_two_and_a_sentence():
    for arguments in (
        ("attribute", "none.parquet"),
        ("attribute", "holdout.csv"),
        ("attribute", *HOLDOUT, "--loss", "hinge"),
        ("attribute", *HOLDOUT, "--immutable", "x9"),
        ("attribute", *HOLDOUT, "--split", "deployed:0.9"),
        ("plan", *SINGLE, "--power", "2"),
        ("calibrate", "pairs"),
    ):
        done = call(*arguments)
        assert done.exit_code == 2, done.output
        assert done.stdout == "" and done.stderr.startswith("performative: ")
        assert "Traceback" not in done.stderr


def test_a_sentence_names_options_as_they_are_typed():
    said = call("attribute", "holdout.csv").stderr
    assert "say so: --round …" in said and "='…'" not in said


def test_where_nothing_can_be_written_is_found_out_before_the_work(monkeypatch):
    monkeypatch.setattr("performative.attribution.commands.question", None)
    for option in ("--html", "--save"):
        for file, said in (("missing/page.html", "in a folder that exists"), (".", "a file")):
            done = call("attribute", *HOLDOUT, option, file)
            assert done.exit_code == 2
            assert f"{option[2:]} must be {said}" in done.stderr


def test_json_holds_the_figures_of_the_report():
    done = call("attribute", *HOLDOUT, "--json")
    told = json.loads(done.stdout)
    report = attribute("holdout.parquet", models="holdout.csv", assignment="units")
    assert told["verdict"] == report.verdict
    assert told["share"]["value"] == pytest.approx(report.share.value, rel=1e-9)
    assert told["schema"] == 1 and "NaN" not in done.stdout
    assert told["next_experiment"]["rounds"] == screen.best_plan(report).rounds
    untold = json.loads(call("attribute", *SINGLE, "--json").stdout)
    assert set(untold) == set(told)  # whatever the design, the same keys


def test_a_page_and_the_aggregates_are_written():
    done = call("attribute", *HOLDOUT, "--html", "report.html", "--save", "log.nc")
    assert "Wrote report.html" in done.stdout and "Wrote log.nc" in done.stdout
    assert Summary.load("log.nc").rounds == 8
    again = call("attribute", "log.nc")
    assert again.stdout == done.stdout.split("Wrote")[0]  # the declarations are in the file
    assert call("attribute", "log.nc", "--loss", "squared").exit_code == 2


def test_watching_widens_intervals():
    once, always = (
        json.loads(call("attribute", *HOLDOUT, "--json", *more).stdout)["strength"]
        for more in ((), ("--watch",))
    )
    ratio = (always["high"] - always["low"]) / (once["high"] - once["low"])
    assert 1.3 < ratio < 2.2


def test_a_plan_is_printed_and_its_models_written():
    done = call("plan", *SINGLE, "--question", "directions", "--out", "plan.csv")
    assert done.exit_code == 0, done.output
    assert "2 arms, weights ± 0.2 along 5 orthogonal directions" in " ".join(done.stdout.split())
    with open("plan.csv", newline="") as file:
        table = list(csv.DictReader(file))
    assert set(table[0]) == {"round", "arm", "model", "x1", "x2", "x3", "x4", "x5"}
    steps = [
        [float(a[f"x{k}"]) - float(b[f"x{k}"]) for k in range(1, 6)]
        for a, b in zip(table[::2], table[1::2], strict=True)
    ]
    assert all(abs(sum(v * v for v in step) - 0.16) < 1e-12 for step in steps)  # 2 · 0.2 apart
    told = json.loads(call("plan", *SINGLE, "--json").stdout)
    assert told["simulated"] >= 0.79 and told["power"] == 0.8


def test_calibration_counts():
    told = json.loads(
        call("calibrate", "single", "--logs", 3, "--rounds", 6, "--rows", 400, "--json").stdout
    )
    assert told["untold"] == {"cause": 1.0, "response": 1.0, "loop": 1.0}
    shown = call("calibrate", "pair", "--logs", 3, "--rounds", 6, "--rows", 400).stdout
    assert "coverage" in shown and "cannot tell" in shown
