"""How often the answers are right, on logs whose truth is known.

The quick tests repeat a corner of the table in the documentation; the slow ones repeat all of it.
"""

import numpy as np
import pytest

from performative.attribution import Report, calibrate, simulate_log

SIZES = [(8, 1000), (8, 10_000), (24, 1000), (24, 10_000), (24, 100_000), (100, 1000)]
CONCURRENT = ("pair", "canary", "holdout")


@pytest.mark.parametrize("design", CONCURRENT)
def test_a_corner_of_the_table(design):
    found = calibrate.calibrate(design, logs=40, kappa=0.3, rounds=8, rows=1000)
    assert found.coverage > 0.85
    assert found.model_coverage > 0.85
    assert found.share_coverage > 0.85
    assert found.wrong["cause"] < 0.06 and found.wrong["loop"] < 0.06


def test_a_wrong_answer_would_be_counted():
    log = simulate_log("holdout", kappa=0.8, alpha=0.0, seed=1)
    other = simulate_log("holdout", kappa=0.0, alpha=0.0, seed=1)
    mixed = calibrate.measure([(other, Report(log.summary))])
    assert mixed.wrong == {"cause": True, "response": True, "loop": False}
    assert mixed.coverage == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("design", CONCURRENT)
@pytest.mark.parametrize("kappa", [0.0, 0.3, 0.8, 1.2])
@pytest.mark.parametrize("size", SIZES)
def test_strength_and_model_part_are_covered(design, kappa, size):
    rounds, rows = size
    found = calibrate.calibrate(
        design, logs=300, kappa=kappa, alpha=0.3, rounds=rounds, rows=rows, seed=10_000
    )
    assert 0.91 <= found.coverage <= 0.99
    assert 0.91 <= found.model_coverage <= 0.99
    assert abs(found.bias) < 0.2
    assert found.wrong["cause"] < 0.02


@pytest.mark.slow
@pytest.mark.parametrize("design", CONCURRENT)
@pytest.mark.parametrize("kappa", [0.0, 0.3, 0.8, 1.2])
def test_the_cause_is_told_rightly(design, kappa):
    for rounds, rows, untold in ((8, 1000, 0.45), (8, 10_000, 0.03), (24, 10_000, 0.03)):
        found = calibrate.calibrate(
            design, logs=300, kappa=kappa, alpha=0.0, rounds=rounds, rows=rows, seed=20_000
        )
        assert found.wrong["cause"] < 0.02
        assert found.untold["cause"] <= untold


@pytest.mark.slow
@pytest.mark.parametrize("world", ["ar", "rw", "season", "trend", "iid"])
@pytest.mark.parametrize("kappa", [0.0, 0.3, 0.8])
def test_dither_covers_whatever_the_world_does(world, kappa):
    found = calibrate.calibrate("dither", logs=300, kappa=kappa, world=world, seed=30_000)
    assert found.coverage >= 0.90
    assert found.untold["cause"] == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("design", CONCURRENT)
def test_the_null_is_rejected_as_often_as_it_should_be(design):
    found = calibrate.calibrate(design, logs=2000, kappa=0.0, rounds=8, rows=10_000, seed=40_000)
    assert 0.03 <= found.rejects <= 0.065


@pytest.mark.slow
@pytest.mark.parametrize("design", CONCURRENT)
def test_diverging_loops_are_never_called_stable(design):
    turn = np.eye(5) * 0.3
    turn[:2, :2] = 1.3 * np.array([[0.76, -0.64], [0.64, 0.76]])
    diverging = [
        -1.5 * np.eye(5),
        np.diag([1.5, 0, 0, 0, 0]),
        turn,
        1.05 * np.eye(5),
        1.2 * np.eye(5),
    ]
    for matrix in diverging:
        for rounds, rows in ((8, 1000), (24, 10_000)):
            found = calibrate.calibrate(
                design, logs=60, kappa=matrix, alpha=0.0, rounds=rounds, rows=rows, seed=50_000
            )
            assert found.words["loop"]["stable"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("design", CONCURRENT)
@pytest.mark.parametrize(
    ("radius", "word", "often"),
    [(0.3, "stable", 0.8), (0.8, "stable", 0.8), (1.2, "unstable", 0.95)],
)
def test_loops_are_judged_rightly_with_enough_rows(design, radius, word, often):
    found = calibrate.calibrate(design, logs=60, kappa=radius, alpha=0.0, seed=60_000)
    assert found.words["loop"][word] >= often * found.logs
