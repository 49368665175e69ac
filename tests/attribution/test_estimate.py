import dataclasses

import numpy as np
import pytest

from attribution import rows as oracle
from performative.attribution import estimate


@pytest.fixture(scope="module")
def log():
    return oracle.make()


@pytest.fixture(scope="module")
def cells(log):
    columns, thetas, _ = log
    return oracle.cells_of(columns, thetas)


@pytest.fixture(scope="module")
def clustered(log):
    columns, thetas, _ = log
    return oracle.cells_of(columns, thetas, buckets=True)


def test_response_is_least_squares_on_rows_with_a_mean_of_its_own_for_every_round(log, cells):
    columns, thetas, _ = log
    expected = oracle.least_squares(columns, thetas)
    np.testing.assert_allclose(estimate.response(cells), expected, rtol=0, atol=1e-11)


def test_variance_of_a_response_is_the_sum_over_cells_of_equation_2(cells):
    rng = np.random.default_rng(0)
    a, v = rng.normal(size=3), rng.normal(size=3)
    deviations = cells.within(cells.theta)
    inverse = np.linalg.inv((deviations * cells.count[:, None]).T @ deviations)
    expected = sum(
        n * (d @ inverse @ v) ** 2 * (a @ s @ a)
        for n, d, s in zip(cells.count, deviations, cells.covariance, strict=True)
    )
    found = estimate.uncertain(cells, lambda part: estimate.along(part, a, v))
    assert found.value[0] == pytest.approx(a @ estimate.response(cells) @ v, abs=1e-12)
    assert found.covariance[0, 0] == pytest.approx(expected, rel=1e-10)
    entry = estimate.entries(cells).error.reshape(3, 3)[1, 2]
    one = estimate.uncertain(cells, lambda part: estimate.along(part, np.eye(3)[1], np.eye(3)[2]))
    assert entry == pytest.approx(one.error[0], rel=1e-10)


def test_strength_is_the_pooled_slope_and_its_variance(cells):
    deviations, means = cells.within(cells.theta), cells.within(cells.mean)
    size = np.sum(cells.count[:, None] * deviations**2)
    kappa = np.sum(cells.count[:, None] * deviations * means) / size
    variance = np.einsum("c,ci,cij,cj->", cells.count, deviations, cells.covariance, deviations)
    found = estimate.uncertain(cells, estimate.strength)
    assert found.value[0] == pytest.approx(kappa, rel=1e-11)
    assert found.covariance[0, 0] == pytest.approx(variance / size**2, rel=1e-11)


def test_jackknife_leaves_out_the_rows_of_one_bucket_after_the_other(log, clustered):
    columns, thetas, _ = log
    left_out = []
    for bucket in np.unique(columns["bucket"]):
        part = oracle.cells_of(columns, thetas, kept=columns["bucket"] != bucket)
        left_out.append(estimate.strength(part).value[0])
    k = len(left_out)
    expected = np.sqrt((k - 1) / k * np.sum((np.array(left_out) - np.mean(left_out)) ** 2))
    found = estimate.uncertain(clustered, estimate.strength)
    assert found.error[0] == pytest.approx(expected, rel=1e-9)
    assert found.freedom == k - 1


def test_diagonal_response_is_generalised_least_squares_on_stacked_contrasts(cells):
    contrast, means = cells.within(cells.theta), cells.within(cells.mean)
    precision = np.linalg.inv(cells.pooled)
    left, right = np.zeros((3, 3)), np.zeros(3)
    for n, x, z in zip(cells.count, contrast, means, strict=True):
        left += n * np.diag(x) @ precision @ np.diag(x)
        right += n * np.diag(x) @ precision @ z
    found = estimate.response(cells, "diagonal")
    np.testing.assert_allclose(np.diag(found), np.linalg.solve(left, right), rtol=1e-10)
    errors = estimate.entries(cells, "diagonal").error.reshape(3, 3)
    np.testing.assert_allclose(np.diag(errors), np.sqrt(np.diag(np.linalg.inv(left))), rtol=1e-10)
    assert found[0, 1] == 0.0


@pytest.mark.parametrize("structure", ["full", "diagonal", "scalar"])
def test_drift_splits_into_model_and_world_with_their_errors(cells, structure):
    found = estimate.drift(cells, structure)
    np.testing.assert_allclose(found.total, found.model + found.world, atol=1e-14)
    moved = estimate.model_path(cells)
    matrix = estimate.response(cells, structure)
    np.testing.assert_allclose(found.model[3], matrix @ moved[3], atol=1e-12)
    model_error, world_error, _ = estimate.drift_errors(cells, structure)
    _check_by_draws(cells, structure, model_error, world_error)


def _check_by_draws(cells, structure, model_error, world_error):
    """The errors, against cells whose means are drawn anew from their sampling law."""
    rng = np.random.default_rng(1)
    roots = np.linalg.cholesky(cells.covariance / cells.count[:, None, None])
    draws = []
    for _ in range(1200):
        noise = np.einsum("cij,cj->ci", roots, rng.normal(size=cells.mean.shape))
        moved = estimate.drift(dataclasses.replace(cells, mean=cells.mean + noise), structure)
        draws.append([moved.model[2], moved.world[2]])
    model, world = np.std(draws, axis=0)
    rtol = 0.1 if structure != "diagonal" else 0.25  # V holds for a common Σ, these rows differ
    np.testing.assert_allclose(model_error[2], model, rtol=rtol)
    np.testing.assert_allclose(world_error[2], world, rtol=rtol)


def test_share_is_its_definition_and_its_interval_that_of_its_gradient(cells):
    found = estimate.share(cells)
    expected = oracle.share(cells, estimate.response(cells))
    assert found.value[0] == pytest.approx(expected, rel=1e-11)
    rng = np.random.default_rng(2)
    step = rng.normal(size=cells.mean.shape)

    def at(size):
        return estimate.share(dataclasses.replace(cells, mean=cells.mean + size * step)).value[0]

    slope = (at(1e-5) - at(-1e-5)) / 2e-5
    assert np.sum(found.loading[0] * step) == pytest.approx(slope, rel=1e-6)


def test_hold_out_split_needs_no_response_and_has_the_gradient_it_says(cells):
    held = np.arange(cells.count.size) % 2 == 0
    held_out = dataclasses.replace(cells, reference=held)
    found = estimate.drift(held_out, "holdout")
    reference = held_out.mean[held]
    np.testing.assert_allclose(found.world, reference - reference[0], atol=1e-12)
    step = np.random.default_rng(3).normal(size=cells.mean.shape)

    def at(size):
        moved = dataclasses.replace(held_out, mean=cells.mean + size * step)
        return estimate.share(moved, "holdout").value[0]

    loading = estimate.share(held_out, "holdout").loading[0]
    assert np.sum(loading * step) == pytest.approx((at(1e-5) - at(-1e-5)) / 2e-5, rel=1e-6)


def test_versions_without_weights_are_compared_along_chains(log):
    columns, thetas, _ = log
    cells = oracle.cells_of(columns, thetas)
    version = np.array([0, 1, 1, 2, 2, 3, 3, 4, 4, 5])
    chain = dataclasses.replace(cells, theta=np.eye(6)[version], aligned=None, span=1e-11)
    effects = estimate.response(chain)
    rounds = np.eye(5)[columns["round"]]
    dummies = np.eye(6)[version[columns["cell"]]][:, 1:]
    expected = np.linalg.lstsq(np.hstack([rounds, dummies]), columns["z"], rcond=None)[0][5:].T
    np.testing.assert_allclose(effects[:, 1:] - effects[:, :1], expected, atol=1e-10)
    apart = dataclasses.replace(chain, theta=np.eye(10)[np.arange(10)])
    assert apart.outside(np.eye(10)[2] - np.eye(10)[0]) == pytest.approx(np.sqrt(0.5))


def test_statistics_known_by_their_variances_alone_get_an_upper_bound(cells):
    short = dataclasses.replace(cells, covariance=cells.covariance * np.eye(3), diagonal=True)
    exact = estimate.uncertain(cells, estimate.share).error[0]
    assert estimate.uncertain(short, estimate.share).error[0] > exact
