"""Quadrature where it is hardest: spreads that come late, far out, or from a user's function."""

import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

import performative as pp

NODES = np.linspace(-10, 10, 40_001)
WEIGHTS = np.exp(-(NODES**2) / 2) / np.exp(-(NODES**2) / 2).sum()
STEEP = 1 + 20.0**2


def smoothed(mean, deviation):
    """E log(1 + e^−u) of a normal margin, by a rule some hundred times finer than needed."""
    return WEIGHTS @ np.logaddexp(0.0, -(mean + deviation * NODES))


def logistic_world(rounds=4, radius=1.0, **pieces):
    domain = pp.domains.everywhere() if radius is None else pp.domains.ball(radius)
    return pp.World(loss=pp.losses.logistic(), domain=domain, rounds=rounds, **pieces)


def test_a_spread_that_comes_in_a_later_round_is_integrated_as_well():
    covariance = np.array([1.0, 1.0, STEEP, 1.0]).reshape(4, 1, 1)
    world = logistic_world(drift=pp.drifts.recorded(pp.Gaussian(np.zeros((4, 1)), covariance)))
    for t in range(1, 5):
        expected = smoothed(0.0, np.sqrt(covariance[t - 1, 0, 0]))
        assert world.risk(t, [1.0]) == pytest.approx(expected, abs=1e-12)


def test_a_map_whose_spread_grows_is_integrated_in_every_round():
    def later(t, theta):
        return pp.Gaussian(theta, (1.0 + t**3) * jnp.eye(1))

    world = logistic_world(rounds=8, map=pp.maps.custom(distribution=later, dimension=1))
    for t in (1, 8):
        expected = smoothed(1.0, np.sqrt(1.0 + t**3))
        assert world.risk(t, [1.0]) == pytest.approx(expected, abs=1e-12)


def test_a_spread_of_ones_own_counts_beside_a_narrow_drift():
    def wide(theta):
        return pp.Gaussian(jnp.zeros(1), STEEP * jnp.eye(1))

    world = logistic_world(
        response=pp.responses.lagged(pp.responses.custom(distribution=wide, dimension=1), 0.5),
        drift=pp.drifts.fixed(pp.Gaussian([0.0], 1.0)),
        mixing=pp.mixing.constant(0.25),
    )
    expected = 0.75 * smoothed(0.0, np.sqrt(STEEP)) + 0.25 * smoothed(0.0, 1.0)
    assert world.risk(1, [1.0]) == pytest.approx(expected, abs=1e-12)


def test_a_model_far_out_in_an_unbounded_domain_gets_the_nodes_it_needs():
    world = logistic_world(radius=None, drift=pp.drifts.fixed(pp.Gaussian([0.0], 1.0)))
    assert world.risk(1, [100.0]) == pytest.approx(smoothed(0.0, 100.0), abs=1e-10)


def test_many_rounds_at_models_outside_the_domain():
    covariance = np.array([1.0, 4.0, 9.0, 16.0]).reshape(4, 1, 1)
    world = logistic_world(drift=pp.drifts.recorded(pp.Gaussian(np.zeros((4, 1)), covariance)))
    risks = world.risk([1, 2, 3, 4], [30.0])
    expected = [smoothed(0.0, 30.0 * k) for k in (1, 2, 3, 4)]
    np.testing.assert_allclose(risks, expected, atol=1e-10)


@pytest.mark.parametrize("deviation", [0.0, 1.0, 5.0, 40.0, 800.0])
@pytest.mark.parametrize("mean", [0.0, 3.0, 100.0])
def test_explain_claims_no_more_digits_than_there_are(mean, deviation):
    data = pp.Gaussian([mean], deviation**2)
    known = logistic_world(drift=pp.drifts.fixed(data), rounds=1).explain(1, [1.0])
    with mpmath.workdps(30):
        kink = -mean / deviation if deviation else 0.0  # the sharper, the larger the deviation
        edges = [kink + k / max(deviation, 1.0) for k in (-8, -1, 0, 1, 8)]
        pieces = sorted({edge for edge in edges if abs(edge) < 14} | set(range(-14, 15, 2)))
        expected = mpmath.quad(
            lambda x: mpmath.log1p(mpmath.exp(-mean - deviation * x)) * mpmath.npdf(x), pieces
        )
        wrong = abs(expected - known.value)
        assert wrong <= max(known.error, 1e-40)  # e^-100 has fewer digits, where nobody looks
        assert known.error <= 1e-13 * (1 + mean + 9 * deviation)


def test_targets_beyond_what_the_nodes_were_made_for_are_said():
    world = pp.World(
        drift=pp.drifts.fixed(pp.Gaussian([0.5, 0.0], [1e-4, 100.0])),
        loss=pp.losses.logistic(l2=1e-6),
        domain=pp.domains.halfspace([0.0, -1.0], -40.0),  # the second entry is at least 40
        rounds=1,
    )
    with pytest.warns(UserWarning, match="quadrature nodes are too few"):
        pp.stable_points(world)


def test_models_deployed_beyond_what_the_nodes_were_made_for_are_said():
    away = pp.responses.location(-3.0, pp.Gaussian([0.3], 1.0))
    world = pp.World(
        response=away, loss=pp.losses.logistic(l2=1.0), domain=pp.domains.everywhere(), rounds=2
    )
    for record in ("all", "regret"):
        with pytest.warns(UserWarning, match="quadrature nodes are too few"):
            pp.simulate(world, pp.learners.rrm(), start=[50.0], record=record)
    with pytest.warns(UserWarning, match="quadrature nodes are too few"):
        pp.sweep({"away": world}, {"RRM": pp.learners.rrm()}, start=[50.0])


def margin_world(link, **options):
    return pp.World(
        drift=pp.drifts.fixed(pp.Gaussian([0.3], 1.0)),
        loss=pp.losses.margin(link),
        domain=pp.domains.ball(2.0),
        rounds=1,
        **options,
    )


def test_a_sharp_link_of_ones_own_gets_the_nodes_it_needs():
    """max(0, −u), rounded off over a twentieth: its poles are twenty times as near."""
    world = margin_world(lambda u: 0.05 * jnp.logaddexp(0.0, -20.0 * u))
    for theta in (0.0, 1.3):
        margins = 0.3 * theta + theta * NODES
        expected = WEIGHTS @ (0.05 * np.logaddexp(0.0, -20.0 * margins))
        assert world.risk(1, [theta]) == pytest.approx(expected, abs=1e-12)
        slope = WEIGHTS @ ((0.3 + NODES) * (np.tanh(10.0 * margins) - 1.0) / 2.0)
        assert world.gradient(1, [theta], [theta]) == pytest.approx(slope, abs=1e-12)


def test_a_kink_is_refused_where_its_derivatives_would_be_wrong():
    """Under normal data a hinge has curvature, of which automatic differentiation sees nothing."""

    def hinge(u):
        return jnp.maximum(0.0, 1.0 - u)

    with pytest.raises(ValueError, match=r"function must be smooth.*monte carlo"):
        margin_world(hinge)
    drawn = margin_world(hinge, expectation="monte carlo").explain(1, [1.0])
    exact = WEIGHTS @ np.maximum(0.0, 0.7 - NODES)
    assert abs(drawn.value - exact) < 5 * drawn.standard_error


def test_a_link_that_outgrows_the_rule_says_by_how_much():
    """e^−u at deviation 2 has its mass around −2, and the rule ends at 8.25."""
    with pytest.warns(UserWarning, match="exact to a part of"):
        world = margin_world(lambda u: jnp.exp(-u))
    known = world.explain(1, [2.0])
    assert abs(known.value - np.exp(-0.6 + 2.0)) <= known.error < 1e-6
