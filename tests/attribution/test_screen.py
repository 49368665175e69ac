"""The first screen answers first, in words for somebody new, and says no more than is known."""

import numpy as np
import pytest

from performative.attribution import Estimate, attribute, simulate_log
from performative.attribution.screen import answers, best_plan, estimate, number, render, shares


@pytest.fixture(scope="module")
def reports():
    made = {
        design: attribute(simulate_log(design, kappa=0.3, rounds=12, rows=8000, seed=1).summary)
        for design in ("holdout", "single", "segments", "switchback")
    }
    unstable = simulate_log("pair", kappa=1.8, alpha=0.0, rounds=10, rows=10_000, seed=2)
    return made | {"unstable": attribute(unstable.summary)}


def test_the_verdict_comes_first(reports):
    for report in reports.values():
        first = render(report).splitlines()[0]
        assert first.startswith(f"Was it my model?    {report.verdict['cause'].upper()}.  ")


@pytest.mark.parametrize(
    ("share", "says"),
    [
        ((0.22, 0.18, 0.26), "22 % of the drift is your model's doing [18 %, 26 %]; 78 % is the"),
        ((-0.3, -0.5, -0.1), "it pushed against the world"),
        ((1.4, 1.2, 1.6), "the world pushed back"),
        ((-0.1, -0.3, 0.1), "-10 % [-30 %, 10 %]: none of it, as far as one can see"),
    ],
)
def test_shares_in_words(share, says):
    assert says in shares(Estimate(*share))


def test_the_screen_fits_eighty_columns(reports):
    for width in (80, 100):
        for report in reports.values():
            assert max(map(len, render(report, width).splitlines())) <= width


def test_figures_on_the_screen_are_those_of_the_report(reports):
    report = reports["holdout"]
    share, text = report.share, " ".join(render(report).split())
    assert f"{100 * share.value:.0f} %" in text
    assert f"[{100 * share.low:.0f} %, {100 * share.high:.0f} %]" in text
    assert f"Features move {estimate(report.strength)} per unit of weight" in text
    assert f"its feature rises by about {number(report.strength.value)}" in text
    last = report.drift.isel(round=-1).sel(feature="x1")
    assert f"{float(last.total / last.deviation):+.2f}" in text


def test_one_model_at_a_time_gets_both_explanations_and_a_warning(reports):
    report = reports["single"]
    text = " ".join(render(report).split())
    slope = report.trap.slope
    assert text.startswith("Was it my model? CANNOT TELL. One model ran at a time")
    assert f"(feedback {number(slope.value)}) in a world without memory" in text
    assert f"(no feedback) in a world with round-to-round memory {number(slope.value)}" in text
    assert f"says {estimate(slope)}. It says the same about weather. Do not use it." in text
    assert "Next experiment:" in text and "your model's doing" not in text


def test_what_is_withheld_shows_no_parts(reports):
    text = render(reports["segments"])
    assert "CANNOT TELL." in text and "Nobody has declared" in text
    assert "= your model" not in text and "± " not in text.split("Next experiment")[0]


def test_a_loop_that_runs_away_is_said_so(reports):
    loop = answers(reports["unstable"])[2]
    assert loop.word == "NO." and "Do not let it run by itself" in " ".join(loop.says)


def test_the_plan_on_the_screen_is_the_shorter_one(reports):
    report = reports["holdout"]
    plan = best_plan(report)
    assert plan.rounds <= max(26, report.experiment().rounds / 2) or plan.question == "canary"


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.3149, "0.31"), (-0.00123, "-0.0012"), (0.0, "0.00"), (12.3, "12.30"), (123.4, "123")],
)
def test_numbers(value, shown):
    assert number(value) == shown


def test_an_interval_keeps_the_digits_it_needs():
    assert estimate(Estimate(0.0123, 0.0101, 0.0145)) == "0.0123 [0.0101, 0.0145]"
    assert estimate(Estimate(12.0, 3.0, 21.0)) == "12.00 [3.00, 21.00]"
    assert number(np.nan) == "unknown"
