"""The benchmarks compare equal work: what they time gives the same numbers on both sides."""

import json

import numpy as np
import pytest

from performative import bench


def test_the_engine_and_the_plain_loop_agree_on_every_rounds_regret():
    worlds = bench.quadratic_worlds(rounds=50, count=3)
    starts = bench.starts_of(worlds[0], runs=2, worlds=3, spread=4.0)
    game = bench.Game(worlds, starts)
    game.ready()()
    for i, world in enumerate(worlds):
        for run in range(2):
            points = bench._points(world)
            looped = bench.quadratic_loop_with_regret(
                bench.Plain.of(world), starts[run, i], 5.0, points
            )
            np.testing.assert_allclose(game.regret()[i, run], looped, rtol=0, atol=1e-9)


def test_the_engine_and_the_plain_loop_deploy_the_same_models():
    worlds = bench.quadratic_worlds(rounds=50, count=1)
    starts = bench.starts_of(worlds[0], runs=1, worlds=1, spread=4.0)
    game = bench.Game(worlds, starts, regret=False)
    game.ready()()
    looped = bench.quadratic_loop(bench.Plain.of(worlds[0]), starts[0, 0], 5.0)
    np.testing.assert_allclose(game.deployed()[0, 0], looped, rtol=0, atol=1e-9)


def test_the_authors_recipe_retrains_towards_the_exact_model():
    world = bench.credit_worlds(rounds=3)[0]
    exact = bench.Game([world], np.zeros((1, 1, 17)), regret=False)
    exact.ready()()
    sampled = bench.Recipe(bench.Plain.of(world)).rrm(2)
    # 512 rows leave an error of some .05; the models have a norm of .4.
    assert np.linalg.norm(sampled - exact.deployed()[0, 0, 2]) < 0.12


def test_a_comparison_of_different_numbers_is_refused():
    with pytest.raises(AssertionError, match="differ by 1e-06"):
        bench.agree("regret", np.array([1.0, 2.0 + 1e-6]), np.array([1.0, 2.0]))


def test_a_target_is_met_or_not():
    row = bench.Row("x", "µs", 3.0, ratio=40.0, target=bench.Target("ratio", "≥", 50.0))
    assert row.met is False
    assert row._replace(ratio=50.0).met is True
    assert row._replace(target=bench.Target("wall", "≤", 3.0)).met is True
    assert row._replace(target=None).met is None


def test_the_quick_form_prints_a_table_and_keeps_it(tmp_path, capsys):
    rows = bench.main(["quadratic-1", "quadratic-points"], tmp_path, quick=True)
    assert [row.met is None for row in rows] == [False, False, True, True]
    assert "quadratic stable points" in capsys.readouterr().out
    (kept,) = tmp_path.glob("*.json")
    table = json.loads(kept.read_text(encoding="utf-8"))
    assert table["machine"]["quick"] is True
    assert [row["case"] for row in table["rows"]] == [row.case for row in rows]
    assert all(row["wall"] > 0 for row in table["rows"])
    assert kept.with_suffix(".md").read_text(encoding="utf-8").count("\n|") == 1 + 1 + len(rows)


def test_a_mistyped_case_is_named():
    with pytest.raises(ValueError, match="quadratic-12"):
        bench.main(["quadratic-1x"], quick=True)
