"""Predicted exponents, case by case, and the slopes that worlds show."""

import numpy as np
import pytest
import xarray as xr

import performative as pp
from performative.learners import greedy_sgd, lazy_sgd, rgd, zgd2

RRM = pp.learners.rrm()


@pytest.mark.parametrize(
    ("learner", "b", "r", "drift", "exponent", "log"),
    [
        (RRM, 0.0, None, "moving", 1.0, False),
        (RRM, 0.25, None, "moving", 0.75, False),
        (rgd(), 0.5, None, "moving", 0.5, False),
        (RRM, 1.0, None, "moving", 0.0, True),
        (RRM, 2.0, None, "moving", 0.0, False),
        (RRM, 0.0, None, "fixed", 0.0, False),
        (rgd(), 0.5, None, "fixed", 0.0, False),
        (greedy_sgd(), 0.5, None, "moving", 1.0, False),
        (greedy_sgd(), 1.0, None, "moving", 1.0, False),
        (greedy_sgd(), 1.25, None, "moving", 0.75, False),
        (greedy_sgd(), 1.5, None, "moving", 0.5, False),
        (greedy_sgd(), 3.0, None, "moving", 0.5, False),
        (greedy_sgd(), 0.0, None, "fixed", 0.5, False),
        (greedy_sgd(), 0.25, None, "fixed", 0.75, False),
        (greedy_sgd(), 1.0, None, "fixed", 0.5, False),
        (lazy_sgd(), 2.0, None, "moving", 0.5, False),
        (lazy_sgd(), 0.25, 1.0, "moving", 0.75, False),
        (lazy_sgd(r=2.0), 2.0, None, "moving", 0.0, True),
        (lazy_sgd(), 2.0, 3.0, "moving", 0.0, False),
        (lazy_sgd(), 0.5, 3.0, "moving", 0.5, False),
        (lazy_sgd(), 1.0, 3.0, "moving", 0.0, True),
        (lazy_sgd(), 0.5, 3.0, "fixed", 0.0, False),
        (lazy_sgd(), 0.5, 2.0, "fixed", 0.0, True),
    ],
)
def test_the_papers_exponents(learner, b, r, drift, exponent, log):
    found = pp.theory.rate(learner, b, r, drift)
    assert found.exponent == pytest.approx(exponent)
    assert found.log is log
    assert found.sharper.exponent <= found.exponent


def test_the_quadratic_world_is_one_minus_two_b():
    for b, exponent, log in ((0.0, 1.0, False), (0.25, 0.5, False), (0.5, 0.0, True)):
        assert pp.theory.rate(RRM, b).sharper[:2] == (exponent, log)
    assert pp.theory.rate(RRM, 0.75).sharper[:2] == (0.0, False)


def test_rates_print_as_orders():
    assert str(pp.theory.rate(RRM, 0.25).paper) == "O(T^0.75)"
    assert str(pp.theory.rate(RRM, 1.0).paper) == "O(log T)"
    assert str(pp.theory.rate(RRM, 2.0).paper) == "O(1)"


@pytest.mark.parametrize("b", [0.0, 0.1, 0.25])
def test_retraining_in_the_quadratic_world_grows_at_the_sharper_rate(b):
    world = pp.worlds.quadratic(dim=4, b=b, rounds=4000, half_width=3.0)
    measured = pp.theory.slope(pp.simulate(world, RRM).regret("stable"))
    predicted = pp.theory.rate(RRM, b)
    assert measured.value == pytest.approx(predicted.sharper.exponent, abs=0.05)
    assert b == 0 or measured.value < predicted.exponent - 0.05
    bound = pp.theory.slope(pp.theory.bound(world, RRM))
    assert bound.value == pytest.approx(predicted.exponent, abs=0.05)


def _greedy_regret(alphas, rng, lanes, epsilon, fixed):
    """Expected regret of greedy SGD in one dimension, exactly, averaged over several drifts."""
    rounds = len(alphas)
    drift = np.full((1, lanes), 4.0) if fixed else rng.uniform(-1, 1, size=(rounds, lanes))
    mean, second, regret = np.zeros(lanes), np.zeros(lanes), np.zeros((rounds, lanes))
    a = 2 * (1 - (1 - alphas.min()) * abs(epsilon))
    for t, alpha in enumerate(alphas):
        moved = drift[0] if fixed else drift[t]
        keep = (1 - alpha) * epsilon
        stable = alpha * moved / (1 - keep)
        curvature = (1 - alpha) * (1 - epsilon) ** 2 + alpha
        slope = alpha * epsilon * (stable - moved)
        error = mean - stable
        regret[t] = slope * error + curvature * (second - 2 * stable * mean + stable**2) / 2
        eta = 4 / (a * (t + 8))
        # θ' = (1−η)θ + ηZ, Z of mean keep·θ + α m_t and variance 1/4 + α(1−α)(εθ − m_t)².
        between = epsilon**2 * second - 2 * epsilon * moved * mean + moved**2
        noise = 0.25 + alpha * (1 - alpha) * between
        shrink, push = 1 - eta + eta * keep, eta * alpha * moved
        second = shrink**2 * second + 2 * shrink * push * mean + push**2 + eta**2 * noise
        mean = shrink * mean + push
    return np.cumsum(regret, axis=0).mean(axis=1)


@pytest.mark.slow
@pytest.mark.parametrize("b", [0.1, 0.25])
def test_greedy_sgd_in_the_quadratic_world_grows_at_the_sharper_rate(b):
    alphas = np.arange(1, 100_001) ** -b
    curve = _greedy_regret(alphas, np.random.default_rng(0), 20, 0.3, fixed=False)
    growing = pp.theory.rate(greedy_sgd(), b).sharper
    assert pp.theory.slope(curve).value == pytest.approx(growing.exponent, abs=0.06)


def test_greedy_sgd_lags_behind_a_fixed_p_by_as_much_as_that_fades():
    """The regret of a round is O(α_t²), not O(t^−2b−2) as for retraining; in it no start counts."""
    alphas = np.arange(1, 30_001) ** -0.25
    # With ε > 0 a model that lags gains by it: regret is then negative.
    curve = _greedy_regret(alphas, np.random.default_rng(0), 1, -0.3, fixed=True)
    growing = pp.theory.rate(greedy_sgd(), 0.25, drift="fixed").sharper
    measured = pp.theory.slope(np.diff(curve))
    assert measured.value == pytest.approx(growing.exponent - 1, abs=0.06)


def test_slope_is_least_squares_and_its_error_is_that_of_the_fit():
    rng = np.random.default_rng(0)
    t = np.arange(1, 2001)
    curve = 2.0 * t**0.7 * np.exp(0.1 * rng.normal(size=2000))
    found = pp.theory.slope(curve)
    where = np.unique(np.geomspace(200, 2000, 60).round().astype(int))
    coefficients, covariance = np.polyfit(np.log(where), np.log(curve[where - 1]), 1, cov=True)
    assert found.value == pytest.approx(coefficients[0], rel=1e-10)
    assert found.error == pytest.approx(np.sqrt(covariance[0, 0]), rel=1e-8)
    assert abs(found.value - 0.7) < 4 * found.error


def test_the_error_over_runs_is_how_far_the_slope_of_the_mean_varies():
    rng = np.random.default_rng(1)
    t = np.arange(1, 1001)

    def draw():
        return np.exp(rng.normal(0, 0.2, size=(8, 1))) * t ** rng.normal(0.5, 0.1, size=(8, 1))

    found = [pp.theory.slope(xr.DataArray(draw(), dims=("run", "round"))) for _ in range(200)]
    errors = np.array([one.error for one in found])
    spread = np.std([one.value for one in found])
    assert spread == pytest.approx(np.sqrt(np.mean(errors**2)), rel=0.25)


def test_slope_refuses_a_curve_that_is_not_positive():
    with pytest.raises(ValueError, match="curve must be above 0 from round 20 on"):
        pp.theory.slope(np.linspace(-1.0, 1.0, 200))
    with pytest.raises(ValueError, match="learner must be RRM"):
        pp.theory.rate(zgd2(), 1.0)


def test_no_rate_is_given_for_what_it_is_not_about():
    with pytest.raises(ValueError, match=r"noise stays, and regret is linear; got RRM.10 rows"):
        pp.theory.rate(pp.learners.rrm(rows=10), 1.0)
    with pytest.raises(ValueError, match="r must go with lazy SGD; got r=2 for RGD"):
        pp.theory.rate(rgd(), 1.0, r=2.0)
    for learner in (rgd(0.1), greedy_sgd(step=0.1), lazy_sgd(step=lambda t, j: 1 / j)):
        with pytest.raises(ValueError, match="learner must have the steps of its theorem"):
            pp.theory.rate(learner, 1.0)
