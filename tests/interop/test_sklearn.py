"""Scikit-learn's solvers, which know nothing of this library, retrain to the same models."""

import numpy as np
import pytest

import performative as pp

pytest.importorskip("sklearn")
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.tree import DecisionTreeClassifier

from performative.interop.sklearn import retrain

ROWS = 200


def world(loss, rows=None, alpha=0.3):
    rng = np.random.default_rng(4)
    base = pp.Gaussian([0.5, -0.2, 1.0], np.eye(3) + 0.3) if rows is None else pp.Empirical(rows)
    still = base if rows is None else pp.Empirical(rows[rng.integers(len(rows), size=60)])
    return pp.World(
        response=pp.responses.strategic(base, modifiable=[0], strength=0.2),
        drift=pp.drifts.fixed(still),
        mixing=pp.mixing.constant(alpha),
        loss=loss,
        domain=pp.domains.ball(9.0),
        rounds=6,
    )


def classified():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(300, 2))
    y = np.where(x @ [1.0, -0.5] + rng.logistic(size=300) > 0, 1.0, -1.0)
    return np.column_stack([x, y])


def test_ridge_is_retraining_on_rows():
    here = world(pp.losses.squared(l2=0.1, labelled=True))
    run = retrain(Ridge(alpha=0.1 * ROWS, fit_intercept=False), here, ROWS, seed=5)
    ours = pp.simulate(here, pp.learners.rrm(rows=ROWS), seed=5)
    np.testing.assert_allclose(run.deployed, ours.deployed, atol=1e-9)
    np.testing.assert_allclose(run.regret("stable"), ours.regret("stable"), atol=1e-9)


def test_logistic_regression_with_an_intercept_is_retraining_on_rows():
    here = world(pp.losses.logistic(l2=0.1, labelled=True, intercept=True), classified())
    model = LogisticRegression(
        C=1 / (0.1 * ROWS), tol=1e-12, max_iter=10_000, solver="newton-cholesky"
    )
    run = retrain(model, here, ROWS, seed=5, run=1)
    ours = pp.simulate(here, pp.learners.rrm(rows=ROWS), runs=2, seed=5)
    np.testing.assert_allclose(run.deployed[0], ours.deployed[1], atol=1e-6)
    assert not hasattr(model, "coef_")


def test_what_does_not_fit_is_refused():
    here = world(pp.losses.squared(labelled=True))
    with pytest.raises(ValueError, match="fit_intercept=False"):
        retrain(LinearRegression(), here, ROWS)
    with pytest.raises(TypeError, match=r"estimator must be .* coef_"):
        retrain(DecisionTreeClassifier(), world(pp.losses.logistic(labelled=True), classified()))
    with pytest.raises(ValueError, match="labelled rows"):
        retrain(LinearRegression(), pp.worlds.quadratic(dim=2, rounds=3))
