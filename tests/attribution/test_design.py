import numpy as np
import pytest

from performative.attribution import Summary
from performative.attribution.design import cells_of, detect, retraining_of


def summary(deployed, arms=None, assignment="units", **given):
    """A log of two features whose cells had these models, (round, arm)."""
    names = sorted({model for models in deployed for model in models})
    theta = {name: [float(k), 1.0] for k, name in enumerate(names)}
    cells = [(t + 1, model) for t, models in enumerate(deployed) for model in models]
    return Summary.from_moments(
        round=[t for t, _ in cells],
        deployed=[model for _, model in cells],
        count=np.full(len(cells), 100.0),
        mean=np.zeros((len(cells), 2)),
        variance=np.ones((len(cells), 2)),
        covariance=np.tile(np.eye(2), (len(cells), 1, 1)),
        theta=theta,
        assignment=assignment,
        **given,
    )


@pytest.mark.parametrize(
    ("deployed", "assignment", "kind", "randomised"),
    [
        ([["a"], ["b"], ["c"], ["d"]], "none", "single", False),
        ([["a"], ["b"], ["c"], ["d"]], "units", "single", False),
        ([["a"], ["a"], ["a"], ["b"], ["b"], ["b"]], "none", "event", False),
        ([["a"], ["b"], ["b"], ["a"], ["b"], ["a"]], "coin-flip", "switchback", True),
        ([["a"], ["b"], ["a"], ["b"], ["a"], ["b"]], "schedule", "schedule", False),
        ([["a", "b"], ["c", "d"], ["e", "f"]], "units", "arms", True),
        ([["a", "b"], ["b", "c"], ["c", "d"]], "units", "canary", True),
        ([["a", "b"], ["b", "c"], ["c", "d"]], "none", "canary", False),
        ([["a", "b"], ["b", "c"], ["c", "d"]], "coin-flip", "canary", False),
        ([["a", "z"], ["b", "z"], ["c", "z"]], "units", "holdout", True),
    ],
)
def test_what_kind_of_experiment_a_log_is(deployed, assignment, kind, randomised):
    found = detect(summary(deployed, assignment=assignment))
    assert (found.kind, found.randomised) == (kind, randomised)
    assert bool(found.missing) != randomised
    assert found.reference.any() == (kind == "holdout")


def test_a_declared_baseline_is_the_reference():
    found = detect(summary([["a", "b"], ["a", "b"]], models={"role": {"a": "baseline"}}))
    assert found.kind == "holdout"
    assert found.reference.tolist() == [True, False, True, False]


def test_logged_perturbations_make_an_experiment_of_one_arm():
    log = summary(
        [["a"], ["b"], ["c"]], assignment="none", models={"perturbation_of": {"a": "c", "b": "c"}}
    )
    assert detect(log).kind == "dither"


def test_retraining_on_squared_loss_leads_to_the_shrunken_mean():
    log = summary([["a", "b"], ["c", "d"]], loss="squared", l2=1.0)
    log.data["mean"].values[:] = np.arange(8.0).reshape(4, 2)
    cells = cells_of(log)
    found = retraining_of(log, cells)
    np.testing.assert_allclose(found.cells.mean, 0.5 * cells.mean)
    np.testing.assert_allclose(found.cells.covariance[0], 0.25 * np.eye(2))


def test_retraining_on_gradients_is_a_newton_step():
    log = summary([["a", "b"], ["c", "d"]], loss="logistic", l2=1.0, signed=True)
    rng = np.random.default_rng(0)
    hessian = np.array([[2.0, 0.3], [0.3, 1.0]])
    data = log.data
    data["gradient"] = (("cell", "parameter"), rng.normal(size=(4, 2)))
    data["gradient_covariance"] = (
        ("cell", "parameter", "parameter2"),
        np.tile(np.eye(2), (4, 1, 1)),
    )
    data["hessian"] = (("cell", "parameter", "parameter2"), np.tile(hessian, (4, 1, 1)))
    data["reference"] = ("parameter", np.array([0.5, -0.5]))
    found = retraining_of(log, cells_of(log))
    expected = np.array([0.5, -0.5]) - np.linalg.solve(hessian, data["gradient"].values[2])
    np.testing.assert_allclose(found.cells.mean[2], expected)
    inverse = np.linalg.inv(hessian)
    np.testing.assert_allclose(found.cells.covariance[1], inverse @ inverse.T)


def test_without_weights_every_version_is_a_direction():
    log = summary([["a", "b"], ["b", "c"]])
    cells = cells_of(Summary(log.data.drop_vars(["theta", "parameter"])))
    np.testing.assert_array_equal(cells.theta, np.eye(3)[[0, 1, 1, 2]])
    assert cells.rank == 2
    assert retraining_of(Summary(log.data.drop_vars(["theta", "parameter"])), cells) is None
