"""Retraining in four ways: where each converges, and what it is made of, against plain loops."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize

import performative as pp


def swinging_world(rounds=60, loss=None):
    """θ ↦ 1 − 1.5 θ: retraining swings ever wider about the stable point, 0.4."""
    return pp.World(
        response=pp.responses.location(-1.5, pp.Gaussian([1.0], 1.0)),
        loss=loss or pp.losses.squared(),
        domain=pp.domains.ball(5.0),
        rounds=rounds,
    )


def logistic_world(rounds=6):
    return pp.World(
        response=pp.responses.location([[0.5, 0.2], [-0.3, 0.4]], pp.Gaussian([0.8, -0.2], 1.0)),
        drift=pp.drifts.fixed(pp.Gaussian([-0.3, 0.9], 1.0)),
        mixing=pp.mixing.polynomial(0.5),
        loss=pp.losses.logistic(l2=0.2),
        domain=pp.domains.ball(0.7),
        rounds=rounds,
    )


def last(world, learner, **options):
    return pp.simulate(world, learner, against=(), **options).deployed.values[0, -1, 0]


def test_retraining_swings_to_the_boundary_and_its_relatives_converge():
    world = swinging_world()
    assert abs(last(world, pp.learners.rrm())[0]) == pytest.approx(5.0)
    for learner in (pp.learners.averaged_rrm(0.5), pp.learners.proximal_rrm(1.0)):
        assert last(world, learner)[0] == pytest.approx(0.4, abs=1e-12)
    # The pool forgets the start as t^−(1 + 1.5).
    assert last(world, pp.learners.pooled_rrm())[0] == pytest.approx(0.4, abs=1e-3)


def test_a_penalty_moves_the_limit_to_where_its_own_equation_says():
    """θ = (m + aθ + λc)/(1 + λ), so θ = (m + λc)/(1 + λ − a)."""
    world = swinging_world()
    found = last(world, pp.learners.regularised_rrm(2.0, center=0.5))[0]
    assert found == pytest.approx((1.0 + 2.0 * 0.5) / (1 + 2.0 + 1.5), abs=1e-12)


@pytest.mark.parametrize(
    ("learner", "strength", "anchor"),
    [
        (pp.learners.regularised_rrm(0.7, center=[0.3, -0.1]), 0.7, lambda theta: [0.3, -0.1]),
        (pp.learners.proximal_rrm(0.7), 0.7, lambda theta: theta),
        (pp.learners.averaged_rrm(0.3), 0.0, lambda theta: theta),
    ],
    ids=["regularised", "proximal", "averaged"],
)
def test_each_round_minimises_what_it_says(learner, strength, anchor):
    world = logistic_world()
    deployed = pp.simulate(world, learner, against=()).deployed.values[0, :, 0]
    for t in range(1, world.rounds):
        theta = deployed[t - 1]
        pull = np.asarray(anchor(theta))

        def cost(phi, t=t, theta=theta, pull=pull):
            return world.decoupled_risk(t, phi, theta) + strength / 2 * np.sum((phi - pull) ** 2)

        inside = {"type": "ineq", "fun": lambda phi: 0.49 - phi @ phi}
        best = scipy.optimize.minimize(
            cost, theta, constraints=[inside], method="SLSQP", options={"ftol": 1e-14}
        ).x
        if learner.name == "averaged RRM":
            best = 0.7 * theta + 0.3 * best
        np.testing.assert_allclose(deployed[t], best, atol=2e-5)


def test_pooled_populations_of_a_squared_loss_are_the_mean_of_all_rounds():
    """With no boundary, θ_{t+1} is the average of 1 − 1.5 θ_s; with l2, shrunk by 1 + l2."""
    world = swinging_world(rounds=12, loss=pp.losses.squared(l2=0.25))
    deployed = pp.simulate(world, pp.learners.pooled_rrm(), against=()).deployed.values.ravel()
    theta = [0.0]
    for _ in range(11):
        theta.append(float(np.mean(1 - 1.5 * np.array(theta))) / 1.25)
    np.testing.assert_allclose(deployed, theta, atol=1e-12)


@pytest.mark.parametrize("window", [None, 3])
def test_pooled_rows_are_those_of_the_window(window):
    """A session with the same seed shows the rows; SciPy minimises their average loss."""
    world, learner = logistic_world(), pp.learners.pooled_rrm(rows=40, window=window)
    deployed = pp.simulate(world, learner, seed=3, against=()).deployed.values[0, :, 0]
    session, history = pp.Session(world, seed=3), []
    inside = {"type": "ineq", "fun": lambda phi: 0.49 - phi @ phi}
    for t in range(1, world.rounds):
        rows = np.reshape(session.deploy(deployed[t - 1], feedback="samples", n=40), (40, 2))
        history.append(rows)
        pooled = np.concatenate(history if window is None else history[-window:])

        def cost(phi, pooled=pooled):
            return np.mean(np.logaddexp(0.0, -pooled @ phi)) + 0.1 * phi @ phi

        best = scipy.optimize.minimize(
            cost, deployed[t], constraints=[inside], method="SLSQP", options={"ftol": 1e-14}
        ).x
        np.testing.assert_allclose(deployed[t], best, atol=2e-5)


def test_a_pooled_squared_loss_on_labelled_rows_needs_no_history():
    """Sums of second moments do the same as keeping every row."""
    rows = np.random.default_rng(0).normal(size=(200, 3))
    rows[:, 2] += rows[:, 0]
    world = pp.World(
        response=pp.responses.strategic(pp.Empirical(rows), [True, True], 0.2),
        loss=pp.losses.squared(l2=0.1, labelled=True),
        domain=pp.domains.ball(3.0),
        rounds=6,
    )
    sums, kept = (
        pp.simulate(world, pp.learners.pooled_rrm(rows=20, window=w), against=()).deployed.values
        for w in (None, 6)
    )
    np.testing.assert_allclose(sums, kept, atol=1e-9)


def pull(row, theta):
    """Rows of two numbers, models of one."""
    return jnp.logaddexp(0.0, theta[0] - row[0] - row[1]) - 0.5 * theta[0] + 0.1 * theta[0] ** 2


def test_rows_of_a_loss_of_ones_own_may_be_wider_than_models():
    world = pp.World(
        response=pp.responses.location([[0.4], [0.1]], pp.Gaussian([0.5, 0.2], 1.0)),
        loss=pp.losses.custom(pull, parameters=1),
        domain=pp.domains.box([-4.0], [4.0]),
        rounds=4,
    )
    learner = pp.learners.pooled_rrm(rows=30)
    deployed = pp.simulate(world, learner, seed=1, against=()).deployed.values.ravel()
    session, pooled = pp.Session(world, seed=1), np.empty((0, 2))
    for t in range(1, world.rounds):
        rows = np.reshape(session.deploy(deployed[t - 1 : t], feedback="samples", n=30), (30, 2))
        pooled = np.concatenate([pooled, rows])

        def slope(phi, pooled=pooled):
            margins = pooled.sum(axis=1) - phi
            return np.mean(1.0 / (1.0 + np.exp(margins))) - 0.5 + 0.2 * phi

        assert deployed[t] == pytest.approx(scipy.optimize.brentq(slope, -4.0, 4.0), abs=1e-9)


def test_settings_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="rows must be a number"):
        pp.simulate(logistic_world(), pp.learners.pooled_rrm())
    with pytest.raises(ValueError, match="weight must be in"):
        pp.learners.averaged_rrm(0.0)
    with pytest.raises(ValueError, match="strength must be at least 0"):
        pp.learners.proximal_rrm(-1.0)
    with pytest.raises(ValueError, match="window must be at most"):
        pp.simulate(swinging_world(10**6, pp.losses.logistic()), pp.learners.pooled_rrm(rows=100))


@pytest.mark.parametrize(
    "learner",
    [
        pp.learners.regularised_rrm(0.5),
        pp.learners.proximal_rrm(rows=20),
        pp.learners.averaged_rrm(),
        pp.learners.pooled_rrm(rows=20),
    ],
    ids=lambda learner: learner.name,
)
@pytest.mark.slow
def test_they_keep_the_contract(learner):
    pp.testing.check_learner(learner)
