import numpy as np
import pytest

import performative as pp
from performative.attribution import Report, simulate_log
from performative.attribution.simulate import DESIGNS, WORLDS


@pytest.mark.parametrize("alpha", [0.0, 0.4])
def test_cells_have_the_means_and_covariances_of_the_world_they_come_from(alpha):
    matrix = np.array([[0.5, -0.3], [0.2, 0.1]])
    log = simulate_log("pair", kappa=matrix, alpha=alpha, rounds=3, rows=400_000, seed=1)
    cells = Report(log.summary).cells
    for c, t in enumerate(cells.round):
        data = log.world.distribution(int(t) + 1, cells.theta[c])
        error = np.sqrt(np.diag(data.covariance) / cells.count[c])
        assert np.all(np.abs(cells.mean[c] - data.mean) < 4.5 * error)
        np.testing.assert_allclose(cells.covariance[c], data.covariance, atol=0.005)


def test_rows_and_moments_have_the_same_law():
    setting = {"kappa": 0.5, "alpha": 0.3, "rounds": 2, "rows": 400}
    drawn, moments = [], []
    for seed in range(120):
        drawn.append(simulate_log("pair", keep_rows=True, seed=seed, **setting))
        moments.append(simulate_log("pair", seed=seed + 1000, **setting))
    for entry in ("mean", "variance"):
        first, second = (
            np.array([log.summary.data[entry].values[0] - log.truth.model[0] for log in logs])
            for logs in (drawn, moments)
        )
        np.testing.assert_allclose(first.std(axis=0), second.std(axis=0), rtol=0.3)


def test_rows_and_models_are_tables_of_the_schema():
    log = simulate_log("holdout", rounds=3, rows=500, seed=2, keep_rows=True)
    assert set(log.rows) == {"round", "model", "arm", "x1", "x2", "x3", "x4", "x5"}
    assert len(log.rows["round"]) == 1500
    assert log.models["role"].tolist().count("holdout") == 1
    report = pp.attribute(log.rows, models=log.models, assignment="units")
    np.testing.assert_allclose(
        report.summary.data["mean"].values, log.summary.data["mean"].values, atol=1e-12
    )
    assert report.verdict == Report(log.summary).verdict


@pytest.mark.parametrize("design", DESIGNS)
def test_every_design_is_recognised(design):
    kinds = {"pair": "arms", "segments": "arms"}
    log = simulate_log(design, rounds=12, rows=1000, seed=3)
    assert Report(log.summary).design.kind == kinds.get(design, design)


@pytest.mark.parametrize("world", WORLDS)
def test_paths_of_the_world_have_the_same_size(world):
    paths = [
        simulate_log("single", world=world, rounds=48, rows=10, seed=seed).world_parts[3]
        for seed in range(40)
    ]
    size = np.sqrt(np.mean([path**2 for path in paths]))
    assert size == 0.0 if world == "none" else 0.1 < size < 0.5


def test_truth_is_what_a_log_without_noise_would_say():
    log = simulate_log("holdout", kappa=0.5, alpha=0.0, rounds=6, rows=10_000_000, seed=4)
    report = Report(log.summary)
    assert report.share.value == pytest.approx(log.truth.share, abs=0.01)
    np.testing.assert_allclose(report.drift["model"].values, log.truth.model, atol=0.01)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"design": "pairs"}, "design must be one of .* Did you mean 'pair'"),
        ({"world": "arr"}, "world must be one of"),
        ({"alpha": 1.0}, "alpha must be in"),
        ({"rounds": 0}, "rounds must be at least 1"),
        ({"kind": "cubic"}, "kind must be one of"),
    ],
)
def test_settings_that_make_no_sense_are_refused(given, sentence):
    with pytest.raises(ValueError, match=sentence):
        simulate_log(**given)
