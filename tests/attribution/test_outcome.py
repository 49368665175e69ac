import numpy as np
import pytest

import performative as pp


def make(seed, n=4000, tau=0.3, response=0.4, rounds=4, drop=0.0):
    """Old and new model side by side; y depends on x, bent, and on the prediction by τ."""
    rng = np.random.default_rng(seed)
    weights = {"old": np.array([0.2, 0.5]), "new": np.array([0.8, -0.3])}
    columns = {"round": [], "model": [], "x1": [], "x2": [], "outcome": []}
    for t in range(rounds):
        for name, theta in weights.items():
            x = rng.normal(size=(n, 2)) + response * theta + 0.2 * t
            y = x[:, 0] ** 2 - x[:, 1] + tau * (x @ theta) + rng.normal(size=n)
            y[rng.uniform(size=n) < (drop if name == "new" else 0.0)] = np.nan
            parts = ([t + 1] * n, [name] * n, x[:, 0], x[:, 1], y)
            for column, part in zip(columns, parts, strict=True):
                columns[column].append(part)
    rows = {name: np.concatenate(parts) for name, parts in columns.items()}
    models = {"model": ["old", "new"], "x1": [0.2, 0.8], "x2": [0.5, -0.3]}
    return rows, models, weights


def report_of(rows, models, **given):
    return pp.attribute(rows, models=models, assignment="units", loss="squared", **given)


def test_outcome_response_is_the_slope_on_what_random_assignment_added():
    rows, models, weights = make(0)
    found = report_of(rows, models).outcome_response
    x = np.stack([rows["x1"], rows["x2"]], axis=1)
    scores = {name: x @ theta for name, theta in weights.items()}
    own = np.where(rows["model"] == "old", scores["old"], scores["new"])
    added = own - 0.5 * (scores["old"] + scores["new"])
    left = np.empty(len(x))
    for t in range(1, 5):
        here = rows["round"] == t
        design = np.column_stack([np.ones(here.sum()), x[here]])
        fit = np.linalg.lstsq(design, rows["outcome"][here], rcond=None)[0]
        left[here] = rows["outcome"][here] - design @ fit
    tau = added @ left / (added @ added)
    error = np.sqrt(np.sum(added**2 * (left - tau * added) ** 2)) / (added @ added)
    assert found.value == pytest.approx(tau, rel=1e-8)
    assert found.half_width == pytest.approx(1.959964 * error, rel=1e-6)


def test_outcome_response_is_covered_and_zero_where_there_is_none():
    covered = []
    for seed in range(12):
        for tau in (0.0, 0.3):
            found = report_of(*make(seed, n=1500, tau=tau, response=0.0)[:2]).outcome_response
            covered.append(found.low <= tau <= found.high)
    assert np.mean(covered) > 0.8


def test_gap_is_the_difference_of_the_new_models_losses_on_the_two_arms():
    rows, models, weights = make(1)
    report = report_of(rows, models)
    x = np.stack([rows["x1"], rows["x2"]], axis=1)
    losses = {name: 0.5 * (rows["outcome"] - x @ theta) ** 2 for name, theta in weights.items()}
    new = rows["model"] == "new"
    gap, variance, online = 0.0, 0.0, 0.0
    for t in range(1, 5):
        ours, others = new & (rows["round"] == t), ~new & (rows["round"] == t)
        gap += (losses["new"][ours].mean() - losses["new"][others].mean()) / 4
        online += (losses["new"][ours].mean() - losses["old"][others].mean()) / 4
        variance += losses["new"][ours].var(ddof=1) / ours.sum() / 16
        variance += losses["new"][others].var(ddof=1) / others.sum() / 16
    assert report.offline_online_gap.value == pytest.approx(gap, rel=1e-8)
    assert report.offline_online_gap.half_width == pytest.approx(1.959964 * variance**0.5, rel=1e-6)
    assert report.gap.online.value == pytest.approx(online, rel=1e-8)
    assert report.gap.online.value - report.gap.offline.value == pytest.approx(gap, rel=1e-8)


def test_labels_that_are_missing_in_one_arm_are_refused_and_features_kept():
    report = report_of(*make(2, drop=0.1)[:2])
    assert report.selective
    assert report.outcome_response is None
    assert report.strength is not None
    assert any("missing more often" in text for text in report.warnings)
