"""Bounds lie above the regret, agree with a second transcription, and are tight where they can be."""

import warnings

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize

import performative as pp
from performative.learners import greedy_sgd, lazy_sgd, rgd

ROUNDS = 60
SCHEDULES = (0.0, 0.25, 0.5, 1.0, 2.0)
KINDS = ("paper", "recursion", "second_order")


def _quadratic(drift, b):
    return pp.worlds.quadratic(dim=4, drift=drift, b=b, rounds=ROUNDS)


def _credit(drift, b):
    return pp.worlds.credit(drift=drift, b=b, rounds=ROUNDS)


def _figures(world, start):
    """e_1, Δ and x_t of a quadratic world, by linear algebra alone."""
    matrix, base = world.response.matrix, world.response.base
    drift = np.broadcast_to(world.at(slice(None)).exogenous.mean, (world.rounds, world.parameters))
    alpha, identity = world.alphas, np.eye(world.parameters)
    stable = np.array(
        [
            np.linalg.solve(identity - (1 - a) * matrix, (1 - a) * base.mean + a * mean)
            for a, mean in zip(alpha, drift, strict=True)
        ]
    )
    moves = np.linalg.norm(stable[1:] - stable[:-1], axis=1)
    return np.linalg.norm(start - stable[0]), moves, (1 - alpha) * np.linalg.norm(matrix, 2)


@pytest.mark.parametrize("drift", ["random", "stationary"])
@pytest.mark.parametrize("make", [_quadratic, _credit], ids=["quadratic", "credit"])
@pytest.mark.parametrize(
    "learner",
    [pp.learners.rrm(), rgd(), greedy_sgd(), lazy_sgd(n0=50, r=1.0)],
    ids=["rrm", "rgd", "greedy", "lazy"],
)
def test_every_bound_is_above_the_regret_at_every_horizon(make, drift, learner):
    for b in SCHEDULES:
        world = make(drift, b)
        # At b = 0 and a fixed P the second-order bound is the expected regret itself.
        runs = 16 if learner.randomised else 1
        found = pp.simulate(world, learner, runs=runs).regret("stable").values
        regret = found.mean(axis=0) - 4 * found.std(axis=0) / np.sqrt(runs)
        curves = {kind: pp.theory.bound(world, learner, kind=kind) for kind in KINDS}
        for curve in curves.values():
            assert curve.attrs["feasible"] and curve.attrs["trust"] == "rigorous"
            assert np.all(curve.values >= regret - 1e-12)
        assert np.all(curves["recursion"].values <= curves["paper"].values * (1 + 1e-12))


@pytest.mark.parametrize("learner", [greedy_sgd(step=0.2), lazy_sgd(n0=1, r=0.5, step=0.1)])
def test_the_recursion_holds_for_steps_and_rows_of_ones_own(learner):
    world = _quadratic("random", 0.5)
    regret = pp.simulate(world, learner, runs=8).regret("stable").values.mean(axis=0)
    for kind in ("recursion", "second_order"):
        curve = pp.theory.bound(world, learner, kind=kind)
        assert curve.attrs["feasible"]
        assert np.all(curve.values >= regret)
    with pytest.warns(UserWarning, match="its own steps"):
        assert not pp.theory.bound(world, learner).attrs["feasible"]


def test_rgd_with_any_step_stays_below_its_recursion_even_as_it_diverges():
    world = _quadratic("random", 1.0)
    for step in (0.1, 1.0, 1.9, lambda t: 2.2 - 1.0 / t):
        learner = rgd(step=step)
        regret = pp.simulate(world, learner).regret("stable").values[0]
        assert np.all(pp.theory.bound(world, learner, kind="recursion").values >= regret - 1e-12)


def test_theorem_3_2_and_its_recursion_agree_with_a_second_transcription():
    world, start = _quadratic("random", 0.5), np.full(4, 0.3)
    error, moves, x = _figures(world, start)
    bound = pp.theory.bound(world, pp.learners.rrm(), start=start)
    slope = bound.attrs["lipschitz"]
    for horizon in (1, 2, 17, ROUNDS):
        gamma = 0.3 * (1 - min(world.alphas[:horizon]))
        expected = slope / (1 - gamma) * (error + sum(moves[: horizon - 1]))
        assert bound.sel(round=horizon).item() == pytest.approx(expected, rel=1e-10)
    total, radius = 0.0, error
    recursion = pp.theory.bound(world, pp.learners.rrm(), start=start, kind="recursion")
    for t in range(ROUNDS):
        total += slope * radius
        assert recursion.values[t] == pytest.approx(total, rel=1e-10)
        radius = x[t] * radius + (moves[t] if t < ROUNDS - 1 else 0.0)


def test_the_second_order_bound_agrees_with_a_second_transcription():
    world, start = _quadratic("random", 0.5), np.full(4, 0.3)
    error, moves, x = _figures(world, start)
    bound = pp.theory.bound(world, pp.learners.rrm(), start=start, kind="second_order")
    stays = np.eye(4) - world.response.matrix
    top = np.linalg.eigvalsh(stays.T @ stays)[-1]
    curvature = max(a + (1 - a) * top for a in world.alphas)
    stable, drift = pp.stable_points(world).values, world.at(slice(None)).exogenous.mean
    total, radius = 0.0, error
    for t, alpha in enumerate(world.alphas):
        slope = alpha * np.linalg.norm(world.response.matrix.T @ (stable[t] - drift[t]))
        total += slope * radius + curvature * radius**2 / 2
        assert bound.values[t] == pytest.approx(total, rel=1e-9)
        radius = x[t] * radius + (moves[t] if t < ROUNDS - 1 else 0.0)


def test_theorem_4_1_agrees_with_a_second_transcription():
    for world in (_quadratic("random", 0.5), _credit("random", 0.5)):
        bound = pp.theory.bound(world, rgd())
        mu, beta = bound.attrs["strong_convexity"], bound.attrs["smoothness"]
        strength = bound.attrs["sensitivity"] * bound.attrs["data_smoothness"]
        points = pp.stable_points(world).values
        error = np.linalg.norm(points[0])
        for horizon in (1, 5, ROUNDS):
            x = strength * (1 - world.alphas[:horizon].min())
            path = sum(np.linalg.norm(points[t] - points[t + 1]) for t in range(horizon - 1))
            expected = 4 * bound.attrs["lipschitz"] * (beta**2 + x**2) / (mu - x) ** 2
            value = bound.sel(round=horizon).item()
            assert value == pytest.approx(expected * (error + path), rel=1e-10)


def test_proposition_4_2_agrees_with_a_second_transcription():
    world = _quadratic("random", 1.0)
    error, moves, x = _figures(world, np.zeros(4))
    bound = pp.theory.bound(world, greedy_sgd())
    slope, sigma = bound.attrs["lipschitz"], np.sqrt(bound.attrs["noise"])
    big_a = 2 * (1 - max(x))
    big_b = (1 + max(x)) ** 2
    t0 = max(1, int(np.ceil(8 * big_b / big_a**2)), int(np.ceil(8 / big_a)))
    for horizon in (1, 2, 31, ROUNDS):
        weighted = sum((s + t0 + 1) ** 2.5 * moves[s - 1] ** 2 for s in range(1, horizon))
        first = 8 * slope * (horizon + t0) ** 0.25
        first *= (t0 + 1) ** 0.75 * error + weighted**0.5
        expected = first + 16 * sigma * slope / big_a * (horizon + t0) ** 0.5
        assert bound.sel(round=horizon).item() == pytest.approx(expected, rel=1e-10)
    recursion = pp.theory.bound(world, greedy_sgd(), kind="recursion")
    total, square = 0.0, error**2
    for t in range(ROUNDS):
        total += slope * square**0.5
        assert recursion.values[t] == pytest.approx(total, rel=1e-10)
        eta = 4 / (big_a * (t + 1 + t0))
        factor = max(1 - 2 * eta * (1 - x[t]) + eta**2 * (1 + x[t]) ** 2, 0)
        move = moves[t] if t < ROUNDS - 1 else 0.0
        square = (np.sqrt(factor * square + eta**2 * sigma**2) + move) ** 2


def test_proposition_4_4_agrees_with_a_second_transcription():
    n0, r = 60, 1.5
    world = _quadratic("random", 1.0)
    error, moves, x = _figures(world, np.zeros(4))
    bound = pp.theory.bound(world, lazy_sgd(n0=n0, r=r))
    slope, variance, gamma, t0 = bound.attrs["lipschitz"], bound.attrs["noise"], max(x), 4
    assert bound.attrs["t0"] == t0

    def display(log_tau, log_zeta, horizon):
        tau, zeta = np.exp(log_tau), np.exp(log_zeta)
        c = 4 * (1 + t0) * (1 + zeta) / n0 + (1 + 1 / zeta) * gamma**2
        inner = c * (1 + 1 / tau)
        if inner >= 1:
            return np.inf
        scale = 4 * variance * (1 + 1 / tau) * (1 + zeta) / (n0 * (1 - inner))
        beta = 1 - 2 ** (-1 / r)
        tail = sum(t ** (-r / 2) for t in range(1, horizon))
        return slope * (
            error / (1 - inner**0.5)
            + scale**0.5 / (1 - inner ** (beta / 2))
            + (2 * scale) ** 0.5 * tail
            + (1 + tau) ** 0.5 / (1 - inner**0.5) * moves[: horizon - 1].sum()
        )

    zeta = gamma / np.sqrt(4 * (1 + t0) / n0)
    for horizon in (2, ROUNDS):
        # The bound is infinite up to τ = c/(1−c): look on a grid, then nearby.
        grid = np.linspace(-2, 8, 4001)
        values = [display(tau, np.log(zeta), horizon) for tau in grid]
        best = grid[int(np.argmin(values))]
        found = scipy.optimize.minimize_scalar(
            display,
            bounds=(best - 0.003, best + 0.003),
            args=(np.log(zeta), horizon),
            method="bounded",
        )
        assert bound.sel(round=horizon).item() == pytest.approx(found.fun, rel=1e-6)


def test_the_lazy_recursion_agrees_with_a_second_transcription():
    world = _quadratic("random", 1.0)
    error, moves, x = _figures(world, np.zeros(4))
    for learner in (lazy_sgd(n0=3, r=1.0), lazy_sgd(n0=2, r=0.5, step=lambda t, j: 1 / (t + j))):
        prepared = learner.prepare(pp.Session(world).problem)
        bound = pp.theory.bound(world, learner, kind="recursion")
        slope, variance = bound.attrs["lipschitz"], bound.attrs["noise"]
        total, radius = 0.0, error
        for t in range(ROUNDS):
            total += slope * radius
            assert bound.values[t] == pytest.approx(total, rel=1e-10)
            product, added = 1.0, 0.0
            for j in range(prepared.rows[t]):
                eta = prepared.step[prepared.first[t] + j]
                factor = max(1 - 2 * eta + eta**2, 0.0)
                product, added = product * factor, added * factor + eta**2
            inside = np.sqrt(product * (1 + x[t]) ** 2 * radius**2 + added * variance)
            radius = inside + x[t] * radius + (moves[t] if t < ROUNDS - 1 else 0.0)


def _steep_world(kappa, rounds=30):
    """One dimension, where PR_t is nearly a straight line: ℓ = (θ − z)²/2 + κz, and z moves by θ/2.

    The term κz is nothing to the learner and to the stable points, and everything to PR_t. The drift
    goes down at a steady pace, so that every error has the same sign and no step is wasted.
    """
    means = -np.linspace(0.0, 0.5, rounds)[:, None, None]
    return pp.World(
        response=pp.responses.location([[0.5]], pp.Empirical([[0.0]])),
        drift=pp.drifts.recorded(pp.Empirical(means)),
        mixing=pp.mixing.constant(0.2),
        loss=pp.losses.custom(
            lambda z, theta: 0.5 * jnp.sum((z - theta) ** 2) + kappa * z[0], parameters=1
        ),
        domain=pp.domains.ball(1.0),
        rounds=rounds,
    )


def test_theorem_3_2_is_tight_in_one_dimension_so_that_half_of_it_is_too_little():
    world, start = _steep_world(kappa=400.0), np.ones(1)
    regret = pp.simulate(world, pp.learners.rrm(), start=start).regret("stable").values[0]
    bound = pp.theory.bound(world, pp.learners.rrm(), start=start)
    assert bound.attrs["contraction"] == pytest.approx(0.4, rel=1e-9)
    assert np.all(bound.values >= regret)
    assert regret[-1] > 0.95 * bound.values[-1]
    assert np.any(0.5 * bound.values < regret)
    recursion = pp.theory.bound(world, pp.learners.rrm(), start=start, kind="recursion")
    assert np.all(recursion.values >= regret)
    assert np.all(regret > 0.98 * recursion.values)


def test_rgd_may_have_its_stable_point_on_the_boundary():
    world = pp.World(
        response=pp.responses.location(0.4, pp.Gaussian([2.0, -1.0], 1.0)),
        drift=pp.drifts.iid_ball(1.0),
        mixing=pp.mixing.polynomial(0.5),
        loss=pp.losses.squared(),
        domain=pp.domains.ball(0.5),
        rounds=ROUNDS,
    )
    stable = pp.stable_points(world).values
    assert np.mean(np.linalg.norm(stable, axis=1) > 0.5 - 1e-12) > 0.5
    regret = pp.simulate(world, rgd(), start=[-0.5, 0.0]).regret("stable").values[0]
    for kind in KINDS:
        curve = pp.theory.bound(world, rgd(), start=[-0.5, 0.0], kind=kind)
        assert curve.attrs["feasible"] and np.all(curve.values >= regret - 1e-12)


def _strong_response(strength, alpha):
    return pp.World(
        response=pp.responses.location(strength, pp.Gaussian([1.0], 1.0)),
        drift=pp.drifts.fixed(pp.Gaussian([0.0], 1.0)),
        mixing=pp.mixing.recorded(alpha),
        loss=pp.losses.squared(),
        domain=pp.domains.ball(5.0),
        rounds=len(alpha),
    )


def test_a_bound_that_does_not_apply_is_infinite_and_says_why():
    world = _strong_response(1.5, [0.9, 0.9, 0.1, 0.1])
    with pytest.warns(UserWarning, match="must be below 1; it is 1.35"):
        bound = pp.theory.bound(world, pp.learners.rrm())
    assert not bound.attrs["feasible"] and "γ" in bound.attrs["why"]
    for learner in (greedy_sgd(step=0.1), greedy_sgd(), lazy_sgd()):
        with pytest.warns(UserWarning, match=r"γ = .* must be below 1; it is 1.35"):
            pp.theory.bound(world, learner)
    assert np.isfinite(bound.values[:2]).all() and np.isinf(bound.values[2:]).all()
    regret = pp.simulate(world, pp.learners.rrm()).regret("stable").values[0]
    recursion = pp.theory.bound(world, pp.learners.rrm(), kind="recursion")
    assert recursion.attrs["feasible"] and np.all(recursion.values >= regret)


def test_lazy_sgd_says_the_least_n0_and_applies_from_there_on():
    world = _quadratic("random", 1.0)
    with pytest.warns(UserWarning, match="n0 must be above"):
        bound = pp.theory.bound(world, lazy_sgd())
    assert np.all(np.isinf(bound.values))
    least = bound.attrs["n0_least"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        there = pp.theory.bound(world, lazy_sgd(n0=least))
    with pytest.warns(UserWarning, match="n0 must be above"):
        pp.theory.bound(world, lazy_sgd(n0=least - 1))
    more = pp.theory.bound(world, lazy_sgd(n0=10 * least))
    assert np.all(more.values < there.values)  # every further row helps
    assert bound.attrs["n0_best"] == np.inf
    # Too many rows to play, or to follow, but not for the proposition.
    learner = lazy_sgd(n0=10 * least, r=6.0)
    assert pp.theory.bound(world, learner).values[-1] < more.values[-1]
    with pytest.warns(UserWarning, match="n0 and r must not ask for more"):
        pp.theory.bound(world, learner, kind="recursion")


def test_bounds_are_refused_for_what_they_are_not_about():
    lagged = pp.World(
        response=pp.responses.lagged(pp.responses.location(0.5, pp.Gaussian([1.0], 1.0)), 0.5),
        loss=pp.losses.squared(),
        domain=pp.domains.ball(5.0),
        rounds=4,
    )
    with pytest.warns(UserWarning, match="lagged"):
        assert not pp.theory.bound(lagged, pp.learners.rrm()).attrs["feasible"]
    world = _strong_response(0.5, [0.5] * 4)
    with pytest.warns(UserWarning, match="sampled rows"):
        assert not pp.theory.bound(world, pp.learners.rrm(rows=10)).attrs["feasible"]
    with pytest.raises(ValueError, match=r"kind must be one of.*Did you mean 'recursion'"):
        pp.theory.bound(world, pp.learners.rrm(), kind="recursive")
    with pytest.raises(ValueError, match="step must hold 4 numbers; got 3"):
        pp.theory.bound(world, rgd(step=[0.1] * 3), kind="recursion")
    with pytest.raises(ValueError, match="start must lie in the domain"):
        pp.theory.bound(world, pp.learners.rrm(), start=[9.0])


@pytest.mark.parametrize(
    "learner",
    [pp.learners.averaged_rrm(), pp.learners.proximal_rrm(1.0), pp.learners.pooled_rrm()],
    ids=lambda learner: learner.name,
)
def test_a_learner_derived_from_another_has_none_of_its_bounds(learner):
    world = _strong_response(0.5, [0.5] * 4)
    with pytest.raises(ValueError, match="learner must be one that a theorem covers"):
        pp.theory.bound(world, learner)
    with pytest.raises(ValueError, match="learner must be RRM"):
        pp.theory.rate(learner, 1.0)


def test_a_learner_with_its_own_steps_is_told_which_constant_a_default_needs():
    world = pp.World(
        response=pp.responses.location(0.2, pp.Gaussian([0.0, 0.0], 1.0)),
        loss=pp.losses.squared(),
        domain=pp.domains.everywhere(),
        rounds=4,
    )
    with pytest.warns(
        UserWarning, match=r"L \(slope of PR_t\) is not bounded on an unbounded domain"
    ):
        assert not pp.theory.bound(world, pp.learners.rrm()).attrs["feasible"]
    second = pp.theory.bound(world, pp.learners.rrm(), kind="second_order")
    regret = pp.simulate(world, pp.learners.rrm(), start=[1.0, 1.0]).regret("stable").values[0]
    second = pp.theory.bound(world, pp.learners.rrm(), start=[1.0, 1.0], kind="second_order")
    assert np.all(second.values >= regret - 1e-12)
