"""What `conditions` says: figures, kinds, verdicts, and Remark 2.1."""

import jax.numpy as jnp
import numpy as np
import pytest

import performative as pp


def test_credit_satisfies_the_theorems_with_the_figures_of_its_constants():
    found = pp.theory.conditions(pp.worlds.credit(b=1.0, rounds=200))
    assert found.epsilon.value == pytest.approx(0.1)
    assert found["strong_convexity"].value == found.mu.value == 1.0
    assert found.gamma.value == pytest.approx(0.1 * found.beta_z.value * (1 - 1 / 200))
    x, beta = found.gamma.value, found.beta_theta.value
    expected = 1 - (1 - x) ** 2 / (4 * (beta**2 + x**2))
    assert found.gamma_bar.value == pytest.approx(expected)
    for name in ("3.2", "4.1"):
        theorem = found.theorem(f"Theorem {name}")
        assert theorem.holds is True and theorem.kind == "rigorous"
    assert "n0 must be at least 27" in found.theorem("Proposition 4.4").why
    assert len(found.theorems) == 9


def test_the_local_contraction_is_that_of_retraining():
    world = pp.worlds.quadratic(dim=3, b=0.5, rounds=6)
    local = pp.theory.conditions(world).local_contraction
    norm = np.linalg.norm(world.response.matrix, 2)
    np.testing.assert_allclose(local.values, (1 - world.alphas) * norm, rtol=1e-10)
    credit = pp.worlds.credit(b=0.5, rounds=40)
    local = pp.theory.conditions(credit).local_contraction.values
    assert np.all(local <= 0.05 * (1 - credit.alphas) + 1e-12)
    run = pp.simulate(credit, pp.learners.rrm()).deployed.values[0, :, 0]
    stable = pp.stable_points(credit).values
    before = np.linalg.norm(run[:-1] - stable[:-1], axis=1)
    after = np.linalg.norm(run[1:] - stable[:-1], axis=1)
    assert np.all(after[1:] <= 1.2 * local[1:-1] * before[1:] + 1e-12)


def test_per_round_figures_follow_alpha():
    world = pp.worlds.quadratic(dim=3, b=1.0, rounds=8)
    found = pp.theory.conditions(world)
    table = found.rounds
    np.testing.assert_allclose(table["contraction"], 0.3 * (1 - world.alphas), rtol=1e-12)
    slopes = 0.3 * (1 - world.alphas) * found["lipschitz_data"].value
    np.testing.assert_allclose(table["lipschitz"], slopes + found["lipschitz_judged"].value)


def _world(epsilon, alpha):
    return pp.World(
        response=pp.responses.location(epsilon, pp.Gaussian([1.0], 1.0)),
        drift=pp.drifts.fixed(pp.Gaussian([0.0], 1.0)),
        mixing=pp.mixing.constant(alpha),
        loss=pp.losses.squared(),
        domain=pp.domains.ball(5.0),
        rounds=6,
    )


def test_an_exogenous_part_makes_the_condition_hold():
    weak, strong = (pp.theory.conditions(_world(1.5, alpha)) for alpha in (0.2, 0.4))
    failing = weak.theorem("Theorem 3.2")
    assert failing.holds is False and "γ = 1.2 ≥ 1" in failing.why
    assert strong.theorem("Theorem 3.2").holds is True
    assert strong.gamma.value == pytest.approx(0.9)


def test_it_prints_every_symbol_and_verdict():
    found = pp.theory.conditions(_world(0.5, 0.5))
    text, page = repr(found), found._repr_html_()
    for symbol in ("ε", "μ", "β_θ", "β_z", "σ²", "C_V", "γ̄", "Theorem 5.3", "Proposition 4.4"):
        assert symbol in text and symbol in page
    assert "Theorem 3.2      yes    regret of RRM: γ = 0.25 < 1:" in text
    assert max(len(line) for line in text.splitlines()) <= 80
    with pytest.raises(ValueError, match="Did you mean 'smoothness'"):
        found["smothness"]


def test_convexity_of_the_performative_risk_is_judged_by_its_curvature():
    credit = pp.theory.conditions(pp.worlds.credit(b=1.0, rounds=200))
    assert credit.theorem("Proposition 5.1").holds is True
    assert credit.theorem("Theorem 5.2").holds is True
    strong = pp.theory.conditions(_world(0.8, 0.0))
    assert "its curvature is at least 0.04" in strong.theorem("Proposition 5.1").why
    assert strong.mu_prime.value == pytest.approx(0.2**2)


def test_a_horizon_that_is_too_short_for_zgd_is_said():
    found = pp.theory.conditions(pp.worlds.quadratic(dim=10, rounds=1000))
    theorem = found.theorem("Theorem 5.3")
    assert theorem.holds is False and "too short" in theorem.why


def test_a_lagging_population_is_outside_the_theorems():
    world = pp.World(
        response=pp.responses.lagged(pp.responses.location(0.5, pp.Gaussian([1.0], 1.0)), 0.5),
        loss=pp.losses.squared(),
        domain=pp.domains.ball(5.0),
        rounds=4,
    )
    found = pp.theory.conditions(world)
    assert found.theorem("Theorem 3.2").holds is False
    assert "lags" in found.theorem("Theorem 3.2").why
    assert found.theorem("Proposition 5.1").holds is True


COINS = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])


def _flips(theta):
    """X a fair coin, and Y given X leaning towards the model."""
    up = 0.5 + 0.1 * theta[0]
    return pp.Empirical(COINS, jnp.stack([up, 1 - up, up, 1 - up]) / 2)


def _bowl(row, theta):
    return 0.5 * (theta[0] - row[1]) ** 2 - row[0] * theta[0] ** 2


def _kink(row, theta):
    return 0.5 * (theta[0] - row[1]) ** 2 - row[0] * jnp.abs(theta[0])


@pytest.mark.parametrize(("loss", "least", "largest"), [(_bowl, -1.0, 3.0), (_kink, -1e4, 1e4)])
def test_remark_2_1_the_expected_risk_is_enough(loss, least, largest):
    world = pp.World(
        response=pp.responses.custom(distribution=_flips, dimension=2, parameters=1),
        drift=pp.drifts.fixed(pp.Empirical(COINS, [0.4, 0.1, 0.4, 0.1])),
        mixing=pp.mixing.constant(0.5),
        loss=pp.losses.custom(loss, parameters=1),
        domain=pp.domains.ball(1.0),
        rounds=8,
    )
    found = pp.theory.conditions(world)
    assert found.mu.value == pytest.approx(1.0, rel=1e-9)
    assert found.beta_theta.value == pytest.approx(1.0, rel=1e-9)
    assert found.gamma.value == pytest.approx(0.5 * 0.2, rel=1e-9)
    assert found.theorem("Theorem 3.2").holds is True
    assert found.pointwise.least == pytest.approx(least) or found.pointwise.least < least
    assert found.pointwise.largest == pytest.approx(largest) or found.pointwise.largest > largest
    assert "only the expected risk" in repr(found)
    run = pp.simulate(world, pp.learners.rrm(), start=[-0.9])
    bound = pp.theory.bound(world, pp.learners.rrm(), start=[-0.9])
    assert bound.attrs["feasible"] and bound.attrs["trust"] == "computed"
    assert np.all(bound.values >= run.regret("stable").values[0] - 1e-12)


def test_a_loss_that_is_convex_for_every_row_has_no_remark():
    found = pp.theory.conditions(_world(0.5, 0.5))
    assert found.pointwise.least == pytest.approx(1.0)
    assert found.remark == ""


def test_the_printed_surrogate_constants_fail_from_six_on_and_the_corrected_do_not():
    """Erratum: the appendix prints β_θ and β_z exchanged; with them the condition fails at R_z = 6."""
    world = pp.worlds.credit(b=2.0, rounds=20_000)
    for reach, holds in ((5.9, True), (6.01, False)):
        printed = pp.theory.conditions(world, surrogate=reach, printed=True)
        assert printed.theorem("Theorem 3.2").holds is holds
    with pytest.raises(ValueError, match="printed must go with surrogate"):
        pp.theory.conditions(world, printed=True)
    with pytest.raises(ValueError, match="surrogate must be above 0; got -1"):
        pp.theory.conditions(world, surrogate=-1.0)
    corrected = pp.theory.conditions(world, surrogate=6.0)
    assert corrected.gamma.value == pytest.approx(0.25, rel=1e-6)
    assert corrected.beta_theta.value == 10.0
    assert corrected.theorem("Theorem 3.2").kind == "surrogate"


def test_the_printed_smoothness_is_below_the_curvature_of_a_row():
    """At θ = 0 and ‖z‖ = 6 the Hessian's norm is λ + 9; printed is λ + 3/2."""
    world = pp.worlds.credit(rounds=4)
    corrected = pp.theory.surrogates(world, 6.0)
    printed = pp.theory.surrogates(world, 6.0, printed=True)
    row = np.zeros(17)
    row[0] = 6.0
    still = pp.World(
        drift=pp.drifts.fixed(pp.Empirical([row])),
        loss=pp.losses.logistic(l2=1.0),
        domain=pp.domains.ball(1.0),
        rounds=1,
    )
    curvature = np.linalg.norm(still.hessian(1, np.zeros(17), np.zeros(17)), 2)
    assert curvature == pytest.approx(10.0)
    assert printed.smoothness.value < curvature <= corrected.smoothness.value + 1e-9


def test_bounds_with_surrogates_say_so():
    world = pp.worlds.credit(b=1.0, rounds=30)
    given = pp.theory.surrogates(world, 6.0)
    bound = pp.theory.bound(world, pp.learners.rrm(), constants=given)
    assert bound.attrs["trust"] == "surrogate"
    assert bound.attrs["lipschitz"] == pytest.approx(6.0 + 1.0 + 0.1)
    assert bound.values[-1] > pp.theory.bound(world, pp.learners.rrm()).values[-1]
    with pytest.raises(ValueError, match="must have the squared or the logistic loss on rows z"):
        pp.theory.surrogates(
            pp.World(
                drift=pp.drifts.fixed(pp.Empirical([[1.0, 1.0]])),
                loss=pp.losses.logistic(labelled=True),
                domain=pp.domains.ball(1.0),
                rounds=1,
            )
        )
