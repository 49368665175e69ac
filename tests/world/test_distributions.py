"""Distributions against their definitions: moments, samples, and Wasserstein distances."""

import itertools

import numpy as np
import pytest
import scipy.integrate
import scipy.stats

import performative as pp

COV = np.array([[2.0, 0.6], [0.6, 0.5]])
ROWS = np.array([[0.0, 1.0], [2.0, -1.0], [5.0, 0.5], [-1.0, 3.0]])
WEIGHTS = np.array([0.1, 0.2, 0.3, 0.4])
NORMAL = pp.Gaussian([1.0, -2.0], COV)
EMPIRICAL = pp.Empirical(ROWS, WEIGHTS)
MIXTURE = pp.Mixture([NORMAL, EMPIRICAL], [0.3, 0.7])
NESTED = pp.Mixture(
    [pp.Mixture([NORMAL, pp.Gaussian([9.0, 9.0], COV)], [0.5, 0.5]), EMPIRICAL], [0.6, 0.4]
)
ALL = {"gaussian": NORMAL, "empirical": EMPIRICAL, "mixture": MIXTURE, "nested": NESTED}
each = pytest.mark.parametrize("law", ALL.values(), ids=ALL)


def normal_rows(rng, n, dimension=2):
    return pp.Empirical(rng.normal(size=(n, dimension)))


# Moments


@pytest.mark.parametrize(
    "cov, matrix",
    [(0.5, np.diag([0.5, 0.5])), ([2.0, 3.0], np.diag([2.0, 3.0])), (COV, COV)],
    ids=["number", "vector", "matrix"],
)
def test_a_covariance_may_be_a_number_variances_or_a_matrix(cov, matrix):
    np.testing.assert_array_equal(pp.Gaussian([0.0, 0.0], cov).covariance, matrix)


def test_rows_have_the_moments_numpy_gives_them():
    np.testing.assert_allclose(EMPIRICAL.mean, np.average(ROWS, axis=0, weights=WEIGHTS))
    expected = np.cov(ROWS.T, aweights=WEIGHTS, ddof=0)
    np.testing.assert_allclose(EMPIRICAL.covariance, expected)


def test_a_mixture_has_the_moments_of_its_parts_by_total_covariance():
    mean = 0.3 * NORMAL.mean + 0.7 * EMPIRICAL.mean
    second = sum(
        w * (np.asarray(part.covariance) + np.outer(part.mean, part.mean))
        for w, part in [(0.3, NORMAL), (0.7, EMPIRICAL)]
    )
    np.testing.assert_allclose(MIXTURE.mean, mean)
    np.testing.assert_allclose(MIXTURE.covariance, second - np.outer(mean, mean))


def test_nested_mixtures_have_the_moments_of_the_flat_one():
    flat = pp.Mixture([NORMAL, pp.Gaussian([9.0, 9.0], COV), EMPIRICAL], [0.3, 0.3, 0.4])
    np.testing.assert_allclose(NESTED.mean, flat.mean)
    np.testing.assert_allclose(NESTED.covariance, flat.covariance)


def test_a_sequence_is_its_rounds():
    means = np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
    rows = np.stack([ROWS, ROWS + 1.0, 2.0 * ROWS])
    weights = np.array([[0.5, 0.5], [0.1, 0.9], [1.0, 0.0]])
    sequence = pp.Mixture([pp.Gaussian(means, COV), pp.Empirical(rows, WEIGHTS)], weights)
    assert sequence.rounds == 3
    for t in range(3):
        single = pp.Mixture(
            [pp.Gaussian(means[t], COV), pp.Empirical(rows[t], WEIGHTS)], weights[t]
        )
        assert sequence.take(t).rounds is None
        for law in (sequence.take(t), single):
            np.testing.assert_allclose(law.mean, np.asarray(sequence.mean)[t])
            np.testing.assert_allclose(law.covariance, np.asarray(sequence.covariance)[t])


@each
def test_moving_a_law_moves_its_mean_and_spreading_it_its_covariance(law):
    matrix, shift = np.array([[1.5, 0.2], [-0.3, 0.7]]), np.array([3.0, -1.0])
    moved = law.spread(matrix).shifted(shift)
    np.testing.assert_allclose(moved.mean, law.mean + shift, atol=1e-12)
    np.testing.assert_allclose(moved.covariance, matrix @ law.covariance @ matrix.T, atol=1e-12)


# Samples


@each
def test_samples_have_the_moments_of_the_law(law):
    n = 20_000
    rows = np.asarray(law.sample(n, seed=3))
    mean, covariance = np.asarray(law.mean), np.asarray(law.covariance)
    assert rows.shape == (n, 2)
    centred = rows - mean
    assert np.all(np.abs(centred.mean(axis=0)) < 5 * np.sqrt(np.diag(covariance) / n))
    products = centred[:, :, None] * centred[:, None, :]
    error = products.std(axis=0) / np.sqrt(n)
    assert np.all(np.abs(products.mean(axis=0) - covariance) < 5 * error)


@each
def test_a_seed_fixes_the_rows_and_the_first_do_not_depend_on_how_many(law):
    rows = np.asarray(law.sample(50, seed=7))
    np.testing.assert_array_equal(rows, law.sample(50, seed=7))
    np.testing.assert_array_equal(rows, np.asarray(law.sample(500, seed=7))[:50])
    assert not np.array_equal(rows, law.sample(50, seed=8))


def test_normal_samples_are_normal():
    rows = np.asarray(pp.Gaussian([1.0], 4.0).sample(5000, seed=1))[:, 0]
    assert scipy.stats.kstest(rows, scipy.stats.norm(1.0, 2.0).cdf).pvalue > 1e-3


def test_rows_are_drawn_as_often_as_they_weigh():
    drawn = np.asarray(EMPIRICAL.sample(20_000, seed=2))
    share = np.array([(drawn == row).all(axis=1).mean() for row in ROWS])
    assert share.sum() == pytest.approx(1.0)
    assert np.all(np.abs(share - WEIGHTS) < 5 * np.sqrt(WEIGHTS * (1 - WEIGHTS) / 20_000))


def test_a_row_without_weight_is_never_drawn():
    law = pp.Empirical([[0.0], [1.0], [2.0]], [0.0, 1.0, 0.0])
    np.testing.assert_array_equal(law.sample(500), np.ones((500, 1)))


def test_every_part_of_a_nested_mixture_is_drawn_as_often_as_it_weighs():
    points = [pp.Gaussian([10.0 * i], 1e-6) for i in range(4)]
    left, right = pp.Mixture(points[:2], [0.5, 0.5]), pp.Mixture(points[2:], [0.25, 0.75])
    drawn = np.asarray(pp.Mixture([left, right], [0.4, 0.6]).sample(20_000, seed=4))[:, 0]
    share = np.bincount(np.round(drawn / 10.0).astype(int), minlength=4) / 20_000
    np.testing.assert_allclose(share, [0.2, 0.2, 0.15, 0.45], atol=0.02)


def test_a_world_draws_every_part_of_a_mixture_that_responds():
    low, high = pp.Gaussian([0.0], 1e-6), pp.Gaussian([10.0], 1e-6)
    world = pp.World(
        response=pp.responses.location([[0.0]], pp.Mixture([low, high], [0.5, 0.5])),
        drift=pp.drifts.fixed(pp.Gaussian([20.0], 1e-6)),
        mixing=pp.mixing.constant(0.5),
        loss=pp.losses.squared(),
        domain=pp.domains.ball(1.0),
        rounds=1,
    )
    drawn = np.asarray(world.sample(1, [0.0], 20_000, seed=4))[:, 0]
    share = np.bincount(np.round(drawn / 10.0).astype(int), minlength=3) / 20_000
    np.testing.assert_allclose(share, [0.25, 0.25, 0.5], atol=0.02)


# Wasserstein distances


def quantile_distance(p, q):
    """The integral of |F⁻¹ − G⁻¹| over (0, 1)."""

    def gap(u):
        return abs(p.ppf(u) - q.ppf(u))

    # In two halves and with the logit as variable, for the ends.
    def integrand(x):
        u = scipy.stats.logistic.cdf(x)
        return gap(u) * scipy.stats.logistic.pdf(x)

    return scipy.integrate.quad(integrand, -35, 35, limit=400, points=[0.0])[0]


@pytest.mark.parametrize(
    "m, v, k, w", [(0.0, 1.0, 0.3, 4.0), (1.0, 0.2, 1.0, 2.0), (0.0, 1.0, 9.0, 1.5), (0, 0, 1, 1)]
)
def test_one_dimensional_normals_are_as_far_as_their_quantiles(m, v, k, w):
    result = pp.wasserstein(pp.Gaussian([m], v), pp.Gaussian([k], w))
    tiny = 1e-300
    expected = quantile_distance(
        scipy.stats.norm(m, np.sqrt(v or tiny)), scipy.stats.norm(k, np.sqrt(w))
    )
    assert result.exact
    assert result.value == pytest.approx(expected, rel=1e-6)


def test_normals_of_one_covariance_are_as_far_as_their_means():
    result = pp.wasserstein(NORMAL, NORMAL.shifted(np.array([3.0, 4.0])))
    assert result.exact and result.value == pytest.approx(5.0)


@each
def test_a_law_is_no_distance_from_itself(law):
    result = pp.wasserstein(law, law)
    assert result.value == pytest.approx(0.0, abs=1e-9)
    assert result.exact == ("bound" not in result.how)


def test_shifted_rows_are_as_far_as_the_shift():
    result = pp.wasserstein(EMPIRICAL, EMPIRICAL.shifted(np.array([-3.0, 4.0])))
    assert result.exact and result.value == pytest.approx(5.0)


def test_one_dimensional_rows_agree_with_scipy_after_a_shift_and_with_weights():
    rng = np.random.default_rng(0)
    for _ in range(10):
        a, b = rng.normal(size=(7, 1)), rng.normal(size=(4, 1))
        u, v = rng.dirichlet(np.ones(7)), rng.dirichlet(np.ones(4))
        result = pp.wasserstein(pp.Empirical(a, u), pp.Empirical(b, v).shifted(np.array([0.7])))
        expected = scipy.stats.wasserstein_distance(a[:, 0], b[:, 0] + 0.7, u, v)
        assert result.exact and result.value == pytest.approx(expected)


def test_few_rows_are_matched_as_brute_force_matches_them():
    rng = np.random.default_rng(1)
    for _ in range(10):
        a, b = rng.normal(size=(2, 5, 3))
        expected = min(
            np.linalg.norm(a - b[list(order)], axis=1).mean()
            for order in itertools.permutations(range(5))
        )
        result = pp.wasserstein(pp.Empirical(a), pp.Empirical(b))
        assert result.exact and result.value == pytest.approx(expected)


def discrete_distance(p, q):
    """W1 of two laws on rows, by the linear program over all couplings."""
    (a, u), (b, v) = p, q
    return scipy.stats.wasserstein_distance_nd(a, b, u, v)


def test_the_exact_flag_is_never_wrong_and_the_value_never_too_small():
    rng = np.random.default_rng(2)
    flags = []
    for trial in range(40):
        d = int(rng.integers(1, 3))
        n, m = (3, 3) if trial % 2 else rng.integers(1, 5, size=2)
        a, b = rng.integers(-2, 3, size=(n, d)) * 1.0, rng.integers(-2, 3, size=(m, d)) * 1.0
        u = np.full(n, 1 / n) if trial % 4 < 2 else rng.dirichlet(np.ones(n))
        v = u if n == m and trial % 3 else rng.dirichlet(np.ones(m))
        p, q = pp.Empirical(a, u), pp.Empirical(b, v)
        if trial % 5 == 0:  # the same law in several parts, each a row
            p = pp.Mixture([pp.Empirical(row[None]) for row in a], u)
        result = pp.wasserstein(p, q)
        # SciPy's program for d > 1 wants rows in two dimensions; a column of zeros changes nothing.
        padded = [(np.pad(x, [(0, 0), (0, 2 - d)]), w) for x, w in ((a, u), (b, v))]
        expected = discrete_distance(*padded)
        flags.append(result.exact)
        assert result.value >= expected - 1e-8
        if result.exact:
            assert result.value == pytest.approx(expected, abs=1e-8)
    assert 0 < sum(flags) < len(flags)


def test_the_bound_of_normals_is_above_what_any_projection_shows():
    p = pp.Gaussian([0.0, 0.0], COV)
    q = pp.Gaussian([0.5, -0.2], [0.3, 1.5])
    result = pp.wasserstein(p, q)
    assert not result.exact
    for angle in np.linspace(0, np.pi, 12):
        u = np.array([np.cos(angle), np.sin(angle)])
        sides = [pp.Gaussian([u @ s.mean], u @ s.covariance @ u) for s in (p, q)]
        assert pp.wasserstein(*sides).value <= result.value + 1e-12
    # and no more than W2 with commuting covariances: the distance of the standard deviations.
    a, b = pp.Gaussian([0.0, 0.0], [1.0, 4.0]), pp.Gaussian([0.0, 0.0], [9.0, 1.0])
    assert pp.wasserstein(a, b).value == pytest.approx(np.hypot(2.0, 1.0))


def test_mixtures_are_no_further_than_the_bound_says():
    rng = np.random.default_rng(3)
    n = 4000
    for trial in range(6):
        p, q = (
            pp.Mixture(
                [pp.Gaussian(rng.normal(size=1) * 3, rng.uniform(0.1, 2.0)) for _ in range(3)],
                rng.dirichlet(np.ones(3)),
            )
            for _ in range(2)
        )
        a, b = (np.asarray(s.sample(n, seed=trial))[:, 0] for s in (p, q))
        noise = 4 * sum(np.sqrt(np.asarray(s.covariance)[0, 0] / n) for s in (p, q))
        result = pp.wasserstein(p, q)
        assert scipy.stats.wasserstein_distance(a, b) <= result.value + noise


def test_a_mixture_that_changes_a_weight_moves_that_mass():
    near, far = pp.Gaussian([0.0, 0.0], COV), pp.Gaussian([6.0, 8.0], COV)
    p, q = pp.Mixture([near, far], [0.5, 0.5]), pp.Mixture([near, far], [0.2, 0.8])
    assert pp.wasserstein(p, q).value == pytest.approx(3.0, rel=1e-6)
    assert pp.wasserstein(pp.Mixture([near], [1.0]), far) == pp.wasserstein(near, far)


def test_a_distance_is_symmetric():
    for p, q in itertools.combinations(ALL.values(), 2):
        there, back = pp.wasserstein(p, q), pp.wasserstein(q, p)
        assert there.value == pytest.approx(back.value) and there.exact == back.exact
