"""The world that a user would bring: labelled rows, an intercept, agents who move some columns.

Everything is checked against a solution by hand on the same rows, in NumPy, which shares no code
with the library. With PERFORMATIVE_DATA the rows are the 30,000 of the credit data, otherwise made
up ones of the same shape. Then a loss of five lines, and a model of fifty parameters.
"""

import functools
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import performative as pp
from performative.worlds import credit_data

ROUNDS, STRENGTH, L2 = 6, 0.1, 0.1
MOVED = np.arange(6, 17)  # the columns that applicants can change
EXACT = {"rtol": 0, "atol": 1e-8}


# Labelled rows, by hand


@functools.cache
def rows() -> np.ndarray:
    """30,000 rows of 17 standardised features and a label of -1 or 1."""
    try:
        return credit_data.rows(signed=False)[:30_000]
    except FileNotFoundError:
        rng = np.random.default_rng(0)
        x = rng.normal(size=(30_000, 17))
        x = (x - x.mean(axis=0)) / x.std(axis=0)
        score = x @ rng.normal(size=17) * 0.2 + 1.3
        y = np.where(rng.random(30_000) < 1 / (1 + np.exp(-score)), 1.0, -1.0)
        return np.column_stack([x, y])


def by_age() -> list[np.ndarray]:
    """Who applies without anyone's doing: younger people and older ones, by turns."""
    young = rows()[:, 2] + rows()[:, 3] > np.median(rows()[:, 2] + rows()[:, 3]) - 1e-9
    return [rows()[young], rows()[~young]] if 0 < young.sum() < len(young) else [rows()] * 2


@functools.cache
def world() -> pp.World:
    return pp.World(
        response=pp.responses.strategic(pp.Empirical(rows()), MOVED, STRENGTH),
        drift=pp.drifts.switching([pp.Empirical(part) for part in by_age()], period=2),
        mixing=pp.mixing.polynomial(b=0.5, a0=0.8),
        loss=pp.losses.logistic(L2, labelled=True, intercept=True),
        domain=pp.domains.ball(5.0),
        rounds=ROUNDS,
    )


def parts(t: int) -> list[tuple[float, np.ndarray, float]]:
    """(weight, rows, how far a unit of weight moves a column) of the two halves of D_t."""
    alpha = 0.8 * t**-0.5
    return [(1 - alpha, rows(), STRENGTH), (alpha, by_age()[(t - 1) // 2 % 2], 0.0)]


def by_hand(t: int, theta: np.ndarray, deployed: np.ndarray | None = None, total: bool = False):
    """Risk, gradient and its derivative, on the rows that `deployed` moved (`theta`, if None).

    With `total` the gradient is that of the performative risk, through the data too.
    """
    mask, keep = np.zeros(17), np.append(np.ones(17), 0.0)
    mask[MOVED] = 1.0
    risk = 0.5 * L2 * np.sum((keep * theta) ** 2)
    gradient, derivative = L2 * keep * theta, L2 * np.diag(keep)
    for weight, data, strength in parts(t):
        shift = strength * mask * (theta if deployed is None else deployed)[:-1]
        x, y = data[:, :-1] + shift, data[:, -1]
        u = y * (x @ theta[:-1] + theta[-1])
        slope = -y / (1 + np.exp(u))
        curve = 1 / (2 + np.exp(u) + np.exp(-u))
        one = np.ones((len(x), 1))
        own = np.hstack([x, one])  # through the loss
        both = np.hstack([x + strength * mask * theta[:-1], one])  # through the loss and the data
        left = both if total else own
        right = own if deployed is not None else both
        times = (2.0 if total else 1.0) if deployed is None else 0.0
        bend = np.append(times * strength * mask, 0.0) * slope.mean()
        risk += weight * np.logaddexp(0.0, -u).mean()
        gradient = gradient + weight * (slope @ left) / len(x)
        derivative = derivative + weight * ((left * curve[:, None]).T @ right / len(x))
        derivative += weight * np.diag(bend)
    return risk, gradient, derivative


def newton(t: int, theta: np.ndarray, **kind) -> np.ndarray:
    for _ in range(30):
        _, gradient, derivative = by_hand(t, theta, **kind)
        theta = theta - np.linalg.solve(derivative, gradient)
        if np.linalg.norm(gradient) < 1e-13:
            return theta
    raise AssertionError("Newton's method by hand must converge")


@pytest.fixture(scope="module")
def stable():
    return pp.stable_points(world())


def test_risks_and_derivatives_are_sums_over_the_labelled_rows():
    theta, deployed = np.random.default_rng(1).normal(size=(2, 18)) * 0.4
    assert (world().dimension, world().parameters, world().rung) == (18, 18, "finite sum")
    for t in (1, 4):
        risk, gradient, hessian = by_hand(t, theta, deployed)
        np.testing.assert_allclose(world().decoupled_risk(t, theta, deployed), risk, **EXACT)
        np.testing.assert_allclose(world().gradient(t, theta, deployed), gradient, **EXACT)
        np.testing.assert_allclose(world().hessian(t, theta, deployed), hessian, **EXACT)
    total = by_hand(4, theta, total=True)[1]
    np.testing.assert_allclose(world().total_gradient(4, theta), total, **EXACT)


def test_stable_points_are_those_found_by_hand(stable):
    start = np.zeros(18)
    for t in range(1, ROUNDS + 1):
        start = newton(t, start)
        np.testing.assert_allclose(stable.sel(round=t), start, **EXACT)


def test_stable_points_say_how_well_they_are_known(stable):
    """The intercept is not penalised, so no constant of the world proves that they are unique."""
    assert set(stable.status.values) == {"local"}
    assert stable.attrs["flagged"].size == 0
    assert stable.attrs["residual"] < 1e-10
    assert stable.attrs["certificate"] < 1e-10


def test_optimal_points_are_those_found_by_hand(stable):
    optimal = pp.optimal_points(world())
    for t in range(1, ROUNDS + 1):
        expected = newton(t, stable.values[t - 1], total=True)
        np.testing.assert_allclose(optimal.sel(round=t), expected, **EXACT)
        assert by_hand(t, expected)[0] < by_hand(t, stable.values[t - 1])[0]
    assert set(optimal.status.values) == {"local"}
    assert optimal.attrs["certificate"] < 1e-10


def test_retraining_and_its_regret_are_those_by_hand(stable):
    run = pp.simulate(world(), pp.learners.rrm())
    model, regret = np.zeros(18), 0.0
    for t in range(1, ROUNDS + 1):
        np.testing.assert_allclose(run.deployed.sel(round=t).squeeze(), model, **EXACT)
        regret += by_hand(t, model)[0] - by_hand(t, stable.values[t - 1])[0]
        model = newton(t, model, deployed=model.copy())
    assert float(run.regret("stable")[0, -1]) == pytest.approx(regret, abs=1e-8)


def test_a_penalised_intercept_and_gentle_agents_are_certified():
    mine = pp.World(
        response=pp.responses.strategic(pp.Empirical(rows()), MOVED, strength=0.05),
        loss=pp.losses.logistic(1.0, labelled=True, intercept=True, penalise_intercept=True),
        domain=pp.domains.ball(2.0),
        rounds=2,
    )
    for points in (pp.stable_points(mine), pp.optimal_points(mine)):
        assert set(points.status.values) == {"certified"}
        assert points.attrs["certificate"] < 1e-10


# A loss of one's own


def dear_shortfall(row, theta):
    x, y = row[:-1], row[-1]
    error = y - x @ theta
    price = 1.0 + 2.0 * jax.nn.sigmoid(4.0 * error)
    return price * (jnp.sqrt(1.0 + error**2) - 1.0) + 0.05 * theta @ theta


def dear_shortfall_world(draws: int = 8192) -> pp.World:
    mean, cov = np.array([0.5, -0.2, 1.0]), np.array([[1, 0.2, 0.6], [0.2, 1, 0], [0.6, 0, 1.0]])
    return pp.World(
        response=pp.responses.strategic(pp.Gaussian(mean, cov), [0], strength=0.4),
        drift=pp.drifts.fixed(pp.Gaussian(-mean, cov)),
        mixing=pp.mixing.polynomial(b=1.0, a0=0.5),
        loss=pp.losses.custom(dear_shortfall, parameters=2, labelled=True),
        domain=pp.domains.ball(3.0),
        rounds=4,
        draws=draws,
    )


def test_a_loss_of_five_lines_is_sampled_and_says_how_exactly():
    mine, theta = dear_shortfall_world(), np.array([0.6, -0.3])
    known = mine.explain(2, theta)
    assert known.rung == "monte carlo"
    assert 0 < known.standard_error < 0.05
    assert "standard errors" in known.how
    data = mine.sample(2, theta, n=400_000, seed=5)
    error = data[:, 2] - data[:, :2] @ theta
    price = 1 + 2 / (1 + np.exp(-4 * error))
    losses = price * (np.sqrt(1 + error**2) - 1) + 0.05 * theta @ theta
    assert abs(known.value - losses.mean()) < 5 * known.standard_error
    four_times = dear_shortfall_world(draws=4 * 8192).explain(2, theta)
    assert four_times.standard_error == pytest.approx(known.standard_error / 2, rel=0.1)


def test_a_loss_of_five_lines_has_targets_that_are_solved_and_do_not_claim_a_proof():
    mine = dear_shortfall_world(draws=2048)
    for points, gradient in (
        (pp.stable_points(mine), lambda t, theta: mine.gradient(t, theta, theta)),
        (pp.optimal_points(mine), mine.total_gradient),
    ):
        assert points.attrs["rung"] == "monte carlo"
        assert set(points.status.values) == {"local"}
        assert points.attrs["certificate"] < 1e-9
        slopes = gradient(np.arange(1, 5), points.values)
        np.testing.assert_allclose(slopes, 0.0, atol=1e-9)


# Fifty parameters


def test_stable_points_of_fifty_parameters():
    """Normal data and the logistic loss, against descent with a far finer quadrature."""
    d, rounds, l2 = 50, 3, 0.5
    rng = np.random.default_rng(2)
    matrix = rng.normal(size=(d, d))
    matrix *= 0.3 / np.linalg.norm(matrix, 2)
    root = rng.normal(size=(d, d)) / np.sqrt(d)
    mean, cov = rng.normal(size=d) / np.sqrt(d), root @ root.T
    means, alphas = rng.normal(size=(rounds, d)) / np.sqrt(d), np.array([0.9, 0.5, 0.2])
    mine = pp.World(
        response=pp.responses.location(matrix, pp.Gaussian(mean, cov)),
        drift=pp.drifts.recorded(pp.Gaussian(means, cov)),
        mixing=pp.mixing.recorded(alphas),
        loss=pp.losses.logistic(l2),
        domain=pp.domains.ball(2.0),
        rounds=rounds,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        points = pp.stable_points(mine)
    assert points.attrs["rung"] == "quadrature"
    assert points.attrs["residual"] < 1e-10
    assert set(points.status.values) <= {"certified", "local"}

    nodes = np.linspace(-12.0, 12.0, 4001)
    weights = np.exp(-0.5 * nodes**2)
    weights /= weights.sum()

    def slope(t: int, theta: np.ndarray) -> np.ndarray:
        total = l2 * theta
        centres = ((1 - alphas[t], mean + matrix @ theta), (alphas[t], means[t]))
        for weight, centre in centres:
            u = centre @ theta + np.sqrt(theta @ cov @ theta) * nodes
            s = 1 / (1 + np.exp(-u))
            total = total + weight * ((s - 1) @ weights * centre)
            total = total + weight * ((s * (1 - s)) @ weights * (cov @ theta))
        return total

    for t in range(rounds):
        theta = np.zeros(d)
        while np.linalg.norm(step := slope(t, theta)) > 1e-12:
            theta = theta - 0.7 * step
        np.testing.assert_allclose(points.values[t], theta, **EXACT)
